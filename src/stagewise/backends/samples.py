"""The rows of a sample as a table of their own, which growth fills as it needs it (kernels/sample.py)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stagewise.kernels.binning import aligned_bytes
from stagewise.kernels.exact import Packing, packing
from stagewise.kernels.histogram import Bins
from stagewise.kernels.lanes import COMPRESSES_BYTES
from stagewise.kernels.pairs import Update
from stagewise.kernels.sample import NO_SAMPLE, Sample

__all__ = ["Drawn", "NO_PACKING", "SampleRoom"]

NO_PACKING = packing(1.0, 1.0, 1)
"""Stands where nothing is packed."""


@dataclass(slots=True, eq=False)
class Drawn:
    """Which rows of the table are in a sample: both are written by who draws it."""

    bits: np.ndarray  # uint64: one for each row; empty where the processor would make nothing of it
    rows: np.ndarray | None = None  # the rows that these bits are about


class SampleRoom:
    """Room that is kept from stage to stage; a stage that draws more rows than any before makes it larger."""

    def __init__(self, bins: Bins, labels: np.ndarray, n_bits: int) -> None:
        """labels: an empty array of the type that labels have. n_bits: rows of the table; 0 if the numbers of rows are
        not those of the table."""
        self.bins, self.labels = bins, labels
        self.drawn = Drawn(np.zeros(-(-n_bits // 64) if COMPRESSES_BYTES else 0, np.uint64))
        self._room = (np.empty(0, np.uint8), np.empty(0, np.uint8))
        self._listed: np.ndarray | None = None
        self._sample = NO_SAMPLE
        self.last: tuple[Packing, bool] | None = None  # how the pairs of the last sample were packed, and if by weight

    def update(self, words: np.ndarray, lost: np.ndarray) -> Update:
        """Packs pairs as those of the last sample were; nothing when that is not known."""
        nothing, (chosen, by_weight) = np.empty(0, np.uint16), self.last or (NO_PACKING, False)
        return Update(nothing, np.empty(0), chosen, by_weight, words if self.last else words[:0], lost)

    def table(self, listed: np.ndarray, places: np.ndarray) -> tuple[Bins, Sample]:
        """The rows of `listed`, whose codes are at `places`. The trees of a stage, which all see the same array of
        rows, share what the first of them fetched."""
        if listed is not self._listed:
            n, stride, columns = len(listed), self.bins.stride, len(self.bins.n_bins)
            if len(self.labels) < n:
                most = n + n // 16
                self.labels = np.empty(most, self.labels.dtype)
                self._room = (aligned_bytes(most * stride), np.empty(most * columns, np.uint8))
            self._listed, self._sample = listed, Sample(
                places=places,
                codes=self.bins.by_row.view(np.uint32),
                by_row=self._room[0][: n * stride].view(np.uint32),
                columns=self._room[1][: n * columns].reshape(columns, n),
                ready=np.zeros(columns + 1, np.uint8),
                bits=self.drawn.bits[: None if self.drawn.rows is listed else 0],
            )  # fmt: skip
        return self.bins._replace(by_row=self._sample.by_row.view(np.uint8)), self._sample
