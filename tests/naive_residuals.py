"""Slow twins of kernels/residuals.py: Python's own integers."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np

__all__ = ["load_residuals", "next_root", "step_residuals"]


def load_residuals(
    y: np.ndarray, raw: np.ndarray, skip: np.ndarray, scale: float, width: int
) -> tuple[list[int], int, dict[int, int], int, int]:
    """Gradients in units, the largest size, how many are in each stretch of `width`, their sum, that of squares."""
    whole = [round(Fraction(float(f)) * Fraction(scale)) for f in raw]
    grads = [
        0 if s else f - round(Fraction(float(t)) * Fraction(scale)) for f, t, s in zip(whole, y, skip, strict=True)
    ]
    counts = Counter(g // width for g, s in zip(grads, skip, strict=True) if not s)
    return grads, max(abs(g) for g in grads), dict(counts), sum(grads), sum(g * g for g in grads)


def step_residuals(grads: list[int], labels: np.ndarray, steps: np.ndarray) -> list[int]:
    return [g + int(steps[label]) for g, label in zip(grads, labels, strict=True)]


def next_root(codes: np.ndarray, grads: list[int], count_bits: int) -> np.ndarray:
    """(2, n_columns, 256): sums of gradients and of the words of one row, by column and code; codes (n, n_columns)."""
    out = np.zeros((2, codes.shape[1], 256), np.int64)
    for row, g in zip(codes, grads, strict=True):
        for j, code in enumerate(row):
            out[0, j, code] += g
            out[1, j, code] += (1 << count_bits) + 1
    return out
