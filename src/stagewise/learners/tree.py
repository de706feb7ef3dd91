"""The tree as base learner."""

from __future__ import annotations

import numpy as np

from stagewise.backends.cpu import CpuBackend, Grown
from stagewise.kernels.exact import Packing, stream_key

__all__ = ["TreeLearner"]

_PURPOSE = 0x636F6C73  # "cols"


class TreeLearner:
    """Grows a tree on packed pairs."""

    def __init__(self, backend: CpuBackend, seed: int) -> None:
        self.backend, self.seed = backend, seed

    def fit(self, packed: Packing, index: np.ndarray, rest: np.ndarray, stage: int, output: int) -> Grown:
        """The tree's structure, grown on the rows of `index`; its leaves are the rule's business."""
        return self.backend.grow(packed, index, rest, stream_key(self.seed, _PURPOSE, stage, output))
