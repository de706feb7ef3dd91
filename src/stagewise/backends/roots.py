"""How the trees of a K-class stage begin: packed pairs of several classes, and their root histograms in one pass.

The classes of a stage share their rows and the scale of their pairs. Their trees are grown one after the other, but the
words of up to eight of them are made ahead, and their roots are added up together (kernels/roots.py). A class whose
gradients are too unequal for narrow words, or whose rows are not those of the others, begins alone.
"""

from __future__ import annotations

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.kernels.exact import Packing
from stagewise.kernels.histogram import NO_ROOT, PITCH
from stagewise.kernels.reducer import ALONE
from stagewise.kernels.roots import MOST_CLASSES, class_roots, root_room

__all__ = ["Roots", "group_of", "together_pays"]

_NO_ROWS = np.empty(0, np.uint32)

_LEAST_ROWS = 8192
"""Rows from which on roots are built together."""


def group_of(output: int, n_outputs: int) -> range:
    """The outputs that begin together with this one: at most eight, in groups of one size but for the last."""
    size = -(-n_outputs // -(-n_outputs // MOST_CLASSES))
    start = output - output % size
    return range(start, min(start + size, n_outputs))


def together_pays(backend: CpuBackend, n_outputs: int) -> bool:
    """Whether it is possible to begin together, and faster.

    With three or seven classes and 20 columns it made a fit of 1,500 rows 3 % slower, one of 5,000 rows no faster, one
    of 20,000 rows 2 and 4 % faster; with 50 columns and 200,000 rows 8 and 17 %.
    """
    return n_outputs > 2 and backend.n_training >= _LEAST_ROWS and backend.team.reducer is ALONE


class Roots:
    """Packs the pairs of a stage, some outputs at a time, and builds their roots; made once for a whole fit."""

    def __init__(self, backend: CpuBackend, n_outputs: int) -> None:
        self.backend, self.n_outputs = backend, n_outputs
        most = len(group_of(0, n_outputs))
        self._words = np.empty((most, len(backend._words)), np.int64)
        self._lost = np.zeros(most, np.int64)
        self._histograms = np.zeros((most, 2, backend.bins.width * PITCH), np.int64)
        self._room = root_room(backend.n_rows, backend.team.n_threads)
        self._index = _NO_ROWS

    def __call__(
        self, grad: np.ndarray, hess: np.ndarray, chosen: Packing, index: np.ndarray, output: int
    ) -> np.ndarray | None:
        """The root's histogram for the rows of `index` (all when empty), NO_ROOT if these are not the rows of the first
        output; the backend has the words of this output then. None when narrow words lose too many rows.

        grad: (n_outputs, n_rows); hess too, or (n_rows,) if it is the same for all. Outputs come in their order.
        """
        group = group_of(output, self.n_outputs)
        k = output - group.start
        if k == 0:
            self._begin(grad, hess, chosen, index, group)
        self.backend._words = self._words[k]
        if 2 * self._lost[k] > self.backend.n_training:  # as in CpuBackend.pack
            return None
        return self._histograms[k] if index is self._index else NO_ROOT

    def _begin(self, grad: np.ndarray, hess: np.ndarray, chosen: Packing, index: np.ndarray, group: range) -> None:
        backend, team, n = self.backend, self.backend.team, len(group)
        for k, output in enumerate(group):
            backend._words = self._words[k]
            backend._quantize(grad[output], hess if hess.ndim == 1 else hess[output], chosen, None)
            self._lost[k] = backend._lost[: team.n_threads, 0].sum()
        self._index, where = index, backend._place(index)
        team.run(
            class_roots, team.gate, backend.bins, where, len(where) or backend.n_rows, self._words[:n], chosen,
            self._room, self._histograms[:n],
        )  # fmt: skip
