"""Slow twins of kernels/entries.py: sparse columns as dicts {row: value} and dense lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

MISSING = 255
SLOTS = 128


def entry_cuts(
    cuts_of: Callable[..., Any], X: np.ndarray, sample: Sequence[int], weights: Sequence[int], max_bins: int
) -> tuple[list[list[float]], list[list[float]], list[bool]]:
    """Cut points of the columns of the dense matrix from the rows of `sample` and, where these have few distinct
    values, from all rows that weigh something; and whether they were looked at. cuts_of: the twin for dense columns."""
    weights = np.asarray(weights)
    rows = np.flatnonzero(weights > 0)
    first, found = cuts_of(X, np.asarray(sample), weights[list(sample)], max_bins)
    whole, _ = cuts_of(X, rows, weights[rows], max_bins)
    again = [len(sample) < len(rows) and n <= max_bins for n in found]
    return [b if look else a for a, b, look in zip(first, whole, again, strict=True)], whole, again


def entry_codes(values: Sequence[float], cuts: Sequence[float], empty: bool) -> list[int]:
    """Codes of the values of a column; the last one is that of what is not stored."""

    def code(v: float) -> int:
        return MISSING if math.isnan(v) or (empty and v == 0.0) else sum(v > cut for cut in cuts)

    return [*map(code, values), code(0.0)]


def assign_bundles(
    columns: Sequence[set[int]], size: Sequence[int], order: Sequence[int], n_rows: int, most: int
) -> list[int]:
    """columns: the rows in which each is off its default."""
    out, n = [-1] * len(size), 0
    slots: list[dict[str, Any] | None] = [None] * SLOTS
    last = -1
    for j in order:
        if size[j] < 0 or size[j] > 254:
            out[j], n = n, n + 1
            continue
        fitting = [
            q for q, own in enumerate(slots)
            if own and own["codes"] >= size[j] and own["spent"] + len(own["rows"] & columns[j]) <= most
        ]  # fmt: skip
        if last in fitting:
            q = last
        elif fitting:
            q = min(fitting, key=lambda q: slots[q]["name"])
        else:
            free = [q for q, own in enumerate(slots) if own is None]
            q = free[0] if free else min(range(SLOTS), key=lambda q: slots[q]["codes"])
            slots[q], n = {"name": n, "codes": 254, "rows": set(), "spent": 0}, n + 1
        own = slots[q]
        out[j], last = own["name"], q
        own["spent"] += len(own["rows"] & columns[j])
        own["rows"] |= columns[j]
        own["codes"] -= size[j]
        if own["codes"] == 0 or (most == 0 and len(own["rows"]) == n_rows):
            slots[q] = None
    return out


def write_bundles(bundles: Any, codes: np.ndarray) -> np.ndarray:
    """(n_physical, n_rows) codes of bundles from the codes of the features (n_features, n_rows)."""
    out = np.zeros((len(bundles.kind), codes.shape[1]), np.uint8)
    for c in range(len(out)):
        members = bundles.member[bundles.start[c] : bundles.start[c + 1]]
        for i in range(codes.shape[1]):
            out[c, i] = bundles.base[c]
            for j in reversed(members):
                d, n = bundles.default[j], bundles.n_bins[j]
                others = [b for b in range(n) if b != d] + ([MISSING] if d < n else [])
                if bundles.first[j] < 0:
                    out[c, i] = codes[j, i]
                elif codes[j, i] in others:
                    out[c, i] = bundles.first[j] + others.index(codes[j, i])
    return out


def fill_rows(X: np.ndarray, used: Sequence[int], empty: bool) -> np.ndarray:
    """The wanted columns of the dense matrix."""
    own = X[:, used]
    return np.where(own == 0.0, np.nan, own) if empty else own
