"""What growth leaves behind: a tree without leaf values, and where the rows of its leaves are."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stagewise.kernels.exact import Packing
from stagewise.kernels.harvest import harvest
from stagewise.kernels.nodes import Nodes
from stagewise.tree.tree import Tree

__all__ = ["Grown", "harvested"]

_NO_ROWS = np.empty(0, np.uint32)
_NO_SUBSET = np.empty(0, np.int32)
_NO_SETS = np.empty((0, 4), np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A tree without leaf values, and where its leaves' rows are until the next tree grows."""

    tree: Tree
    leaves: np.ndarray  # int64 (n_leaves, 4): node, start, stop and line of the backend's row numbers
    fine: bool  # gradients are so unequal that leaf sums need their low limbs
    listed: np.ndarray = field(default_factory=lambda: _NO_ROWS)  # the rows whose pairs leaf sums get; empty: all
    placed: bool = False  # the backend's row numbers are those of the codes
    grad: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # by node: sum of the packed gradients

    def sums(self, packing: Packing) -> np.ndarray:
        """As `CpuBackend.leaf_sums`, from what growth has added up: of gradients that packing did not round."""
        out = np.empty((len(self.grad), 4))
        out[:, 0] = self.grad / packing.grad_scale
        out[:, 1] = out[:, 2] = self.tree.count
        out[:, 3] = -out[:, 0] / np.maximum(out[:, 1], 1.0)
        return out


def harvested(nodes: Nodes, n_nodes: int, cuts: np.ndarray, symmetric: bool, any_sets: bool, chosen: Packing) -> Grown:
    """The first n_nodes of a backend's records as a frozen tree; cuts are padded (n_columns, 256)."""
    numbers, floats = np.empty((5, n_nodes), np.int32), np.empty((3, n_nodes))
    missing_left, sums = np.empty(n_nodes, np.uint8), np.empty((2, n_nodes), np.int64)
    leaves = np.empty(((n_nodes + 1) // 2, 4), np.int64)
    sets = np.empty((n_nodes if any_sets else 0, 4), np.uint64)
    scale = min(chosen.grad_peak * chosen.grad_peak / chosen.hess_peak, 1e300)
    _, n_sets = harvest(nodes, cuts, symmetric, scale, numbers, missing_left, floats, sums, leaves, sets)
    tree = Tree(
        feature=numbers[0],
        threshold=floats[0],
        cut=numbers[1],
        missing_left=missing_left,
        left=numbers[2],
        value=np.zeros(n_nodes),
        gain=floats[1],
        count=sums[0],
        cover=floats[2],
        depth=numbers[3],
        subset=numbers[4] if n_sets else _NO_SUBSET,
        sets=sets[:n_sets].copy() if n_sets else _NO_SETS,
    )
    return Grown(tree, leaves, not chosen.narrow, grad=sums[1])
