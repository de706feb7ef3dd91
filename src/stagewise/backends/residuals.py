"""The words of a backend when they are residuals that stay (kernels/residuals.py), and not made anew for every tree."""

from __future__ import annotations

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.kernels.exact import Packing
from stagewise.kernels.histogram import NO_ROOT, PITCH
from stagewise.kernels.residuals import BUCKETS, LOAD_SUMS, load_residuals, next_root, step_residuals

__all__ = ["ResidualWords"]

_ROWS_A_LEAF = 512


class ResidualWords:
    """Residuals of a backend's rows as packed integers; those of rows that take no part are 0."""

    def __init__(self, backend: CpuBackend, packing: Packing, skip: np.ndarray) -> None:
        self.backend, self.packing, self.skip = backend, packing, skip
        self._steps = np.zeros(2 * backend.max_leaves + 2, np.int64)
        size = backend.bins.width * PITCH
        self.root, self._next = NO_ROOT, np.empty((2, size), np.int64)
        # leaves' histograms are added up in the time of so many rows a leaf
        worth = backend.n_training > _ROWS_A_LEAF * backend.max_leaves
        self._following = worth and type(backend) is CpuBackend and backend.params.growth != "symmetric"
        backend.keeping = self._following
        if len(backend.places):  # codes of other rows have words too, and keep this label for ever
            backend._words[:] = 1
            backend._code_labels[:] = len(self._steps) - 1

    def load(self, y: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Words from targets and predictions; what `load_residuals` finds on the way: sums, and counts by size."""
        backend, packing = self.backend, self.packing
        self.root = NO_ROOT
        threads, coarse = backend.team.n_threads, round(packing.grad_scale * packing.grad_peak).bit_length() - 14
        sums, counts = np.zeros((threads, LOAD_SUMS), np.int64), np.zeros((threads, BUCKETS), np.int64)
        backend.team.run(
            load_residuals, y, raw, self.skip, backend.places, packing.grad_scale, packing.grad_shift,
            np.int64(max(coarse, 0)), backend._words, sums, counts,
        )  # fmt: skip
        return sums, counts.sum(axis=0)

    def step(self, steps: np.ndarray) -> float:
        """Add an integer to the residuals of each leaf (by node) of the tree that was grown last; the largest size."""
        backend, packing = self.backend, self.packing
        self.root = NO_ROOT
        if self._following and backend.histograms_kept:
            nodes = (backend._nodes, len(steps), steps, packing)
            backend.team.run(next_root, backend.bins, backend._rows, *nodes, backend._pools, self._next)
            self.root = self._next
        self._steps[:] = 0
        self._steps[: len(steps)] = steps << packing.grad_shift
        peaks = np.zeros((backend.team.n_threads, 8), np.int64)
        backend.team.run(step_residuals, backend._code_labels, self._steps, packing.grad_shift, backend._words, peaks)
        return float(peaks[:, 0].max())

    def residuals(self) -> np.ndarray:
        """f - y by row."""
        words = self.backend._words
        own = words[self.backend.places] if len(self.backend.places) else words
        return (own >> self.packing.grad_shift) / self.packing.grad_scale
