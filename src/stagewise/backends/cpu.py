"""Growing trees with this machine's cores: owns the threads and all room that growth needs, for one fit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stagewise.kernels.exact import Packing, hash_values, limb_bits, packing, power_above
from stagewise.kernels.grow import (
    DEPTH,
    LEAFWISE,
    LEFT,
    LEVELWISE,
    START,
    STOP,
    Nodes,
    Shape,
    Work,
    grow,
)
from stagewise.kernels.histogram import Bins, Pools
from stagewise.kernels.leaves import add_leaves, leaf_quantiles, leaf_sums
from stagewise.kernels.pairs import quantize
from stagewise.kernels.predict import add_tree_binned
from stagewise.kernels.split import BIN, COLUMN, MISSING_LEFT, N_FIELDS, NOT_SEEN, Limits
from stagewise.kernels.symmetric import grow_symmetric
from stagewise.kernels.team import Team
from stagewise.params import TreeParams
from stagewise.tree.tree import Tree

__all__ = ["CpuBackend", "Grown", "threads_for"]

_POOL_BYTES = 1 << 28
"""Room for histograms of waiting leaves; beyond it histograms are built again when needed, with the same result."""

_WORK_A_THREAD = 40_000
"""Row × column steps of a root histogram that are worth a thread."""

NOTHING = np.empty(0)
NO_ROWS = np.empty(0, np.uint32)


def threads_for(n_rows: int, n_columns: int, n_jobs: int) -> int:
    """Threads that pay for a table of this size: none waits longer than it works."""
    return max(1, min(n_jobs, n_rows * n_columns // _WORK_A_THREAD))


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A tree without leaf values, and where each leaf's rows are: rows[start:stop] for each line of `leaves`."""

    tree: Tree
    leaves: np.ndarray  # int64 (n_leaves, 2), in the order of the rows
    order: np.ndarray  # int64 (n_leaves): position of each of them among tree.leaves


class CpuBackend:
    """Grows trees on one table. A context manager: the threads end with it."""

    def __init__(self, bins: Bins, n_rows: int, cuts: tuple[np.ndarray, ...], params: TreeParams, n_threads: int):
        self.bins, self.n_rows, self.cuts, self.params = bins, n_rows, cuts, params
        self.n_columns = len(cuts)
        self.team = Team(n_threads)
        self.bits = limb_bits(n_rows)
        self._words = np.empty(n_rows, np.int64)
        self._more_words = np.empty(1, np.int64)
        self._lost = np.zeros((n_threads, 8), np.int64)
        self.clock = np.zeros(4, np.int64)
        self._keys = np.empty(0, np.uint64)
        self._key_counts = np.empty(0, np.int64)
        self._make_room()

    def __enter__(self) -> CpuBackend:
        return self

    def __exit__(self, *error: object) -> None:
        self.team.__exit__(None, None, None)

    def _make_room(self) -> None:
        params, n, size = self.params, self.n_rows, self.bins.stride * 256
        threads = self.team.n_threads
        leaves = min(params.max_leaf_nodes, max(2, n // params.min_samples_leaf))
        if params.max_depth < 31:
            leaves = min(leaves, 2**params.max_depth)
        if params.growth == "symmetric":
            leaves = 2 ** min(16, params.max_depth, int(math.log2(leaves)))
        self.max_leaves = leaves
        most = leaves + 1 if params.growth == "symmetric" else max(3, min(leaves, _POOL_BYTES // (size * 8)))
        # only a node of more than a block's rows has a wide histogram, unless gradients are very unequal
        self._room = np.array([most, min(most, n // 4095 + 2)], np.int64)
        self._pools = self._make_pools(*self._room)
        self._free = np.zeros((2, most + 1), np.int64)
        self._nodes = Nodes(
            state=np.zeros((2 * leaves - 1, 8), np.int64),
            split=np.zeros((2 * leaves - 1, N_FIELDS), np.int64),
            gain=np.zeros(2 * leaves - 1),
        )
        self.rows = np.empty(n, np.uint32)
        self._spare = np.empty(n, np.uint32)
        self._scratch = (
            np.zeros((threads, 6, 256), np.int64),
            np.zeros((threads, 3, 256)),
            np.zeros((threads, 2, N_FIELDS), np.int64),
            np.zeros((threads, 8)),
            np.zeros((threads, 8), np.int64),
        )

    def _make_pools(self, packed: int, wide: int) -> Pools:
        size, threads = self.bins.stride * 256, self.team.n_threads
        own = threads if threads > 1 else 0
        return Pools(
            packed=np.empty((packed + 2, size), np.int64),
            grad=np.empty((wide + 2, size), np.int64),
            hess=np.empty((wide + 2, size), np.int64),
            own_packed=np.zeros((threads, size), np.int64),
            own_grad=np.empty((own, size), np.int64),
            own_hess=np.empty((own, size), np.int64),
        )

    def pack(self, grad: np.ndarray, hess: np.ndarray, peaks: tuple[float, float], constant: bool, wide: bool) -> Packing:
        """Turn pairs into integers. Narrow words first; where they lose too many rows, wide ones.

        "Too many": more than half of the rows keep under four bits of their gradient (a few huge ones set the scale).
        """
        chosen = packing(*peaks, self.n_rows, narrow=not wide, constant_hess=constant)
        if chosen.narrow:
            self.team.run(quantize, grad, hess, chosen, self._words, self._more_words, self._lost)
            if 2 * int(self._lost[: self.team.n_threads, 0].sum()) <= self.n_rows:
                return chosen
            chosen = packing(*peaks, self.n_rows, narrow=False, constant_hess=constant)
        if len(self._more_words) < self.n_rows:
            self._more_words = np.empty(self.n_rows, np.int64)
        if self._room[1] < self._room[0]:  # now every node may be wide
            self._room[1] = self._room[0]
            self._pools = self._make_pools(*self._room)
        self.team.run(quantize, grad, hess, chosen, self._words, self._more_words, self._lost)
        return chosen

    def grow(self, chosen: Packing, index: np.ndarray, key: np.uint64) -> Grown:
        """Grow one tree on packed pairs, for the rows of `index` (all when empty). `key` draws columns."""
        params = self.params
        n_rows = len(index) or self.n_rows
        nodes, shape = self._nodes, self._shape()
        work = Work(
            self.rows, self._spare, self._words, self._more_words, *self._scratch, self._free, self._room, self.team.gate,
            self.clock,
        )
        function = grow_symmetric if params.growth == "symmetric" else grow
        n_nodes = self.team.run(
            function, self.bins, index, n_rows, chosen, self._limits(chosen, key), shape, self._pools, work, nodes
        )
        return self._harvest(n_nodes, chosen)

    def _shape(self) -> Shape:
        order = LEVELWISE if self.params.growth == "levelwise" else LEAFWISE
        depth = self.params.max_depth
        if self.params.growth == "symmetric":
            depth = self.max_leaves.bit_length() - 1
        return Shape(np.int64(order), np.int64(self.max_leaves), np.int64(depth))

    def _limits(self, chosen: Packing, key: np.uint64) -> Limits:
        """Limits in the units of the packed gradients (relative to the peaks, all powers of two)."""
        params, f = self.params, self.n_columns
        scale = chosen.grad_peak * chosen.grad_peak / chosen.hess_peak
        if params.min_split_gain == 0.0:
            min_gain = 0.0
        else:
            min_gain = params.min_split_gain / scale if scale > 0.0 else math.inf
        eligible = np.ones(f, np.bool_)
        if params.tree_columns < f:
            hashes = np.empty(f, np.uint64)
            hash_values(key, 1 << 40, hashes)  # far from the numbers that splits use
            eligible = hashes <= np.sort(hashes)[params.tree_columns - 1]
        return Limits(
            l1=params.l1 / chosen.grad_peak,
            l2=params.l2 / chosen.hess_peak,
            min_child_weight=params.min_child_weight / chosen.hess_peak,
            min_samples_leaf=np.int64(params.min_samples_leaf),
            min_gain=min_gain,
            max_columns=np.int64(params.split_columns if params.split_columns < min(params.tree_columns, f) else f),
            key=np.uint64(key),
            tree_columns=eligible,
        )

    def _harvest(self, n_nodes: int, chosen: Packing) -> Grown:
        """The grown nodes as a frozen tree, and the leaves in the order of their rows."""
        state, split = self._nodes.state[:n_nodes], self._nodes.split[:n_nodes]
        left = state[:, LEFT].astype(np.int32)
        inner = left >= 0
        count = state[:, STOP] - state[:, START]
        feature = np.where(inner, split[:, COLUMN], -1).astype(np.int32)
        cut = np.where(inner, split[:, BIN], 0).astype(np.int32)
        threshold = np.zeros(n_nodes)
        for k in np.flatnonzero(inner):
            cuts = self.cuts[feature[k]]
            threshold[k] = cuts[cut[k]] if cut[k] < len(cuts) else np.inf
        depth = state[:, DEPTH].astype(np.int32)
        # where nothing was missing in training, the side with more rows; in a symmetric tree, of the whole level
        lead = np.where(inner, count[left] - count[np.minimum(left + 1, n_nodes - 1)], 0)
        if self.params.growth == "symmetric":
            lead = np.bincount(depth, lead)[depth]
        missing_left = np.where(split[:, MISSING_LEFT] == NOT_SEEN, lead >= 0, split[:, MISSING_LEFT] == 1) & inner
        scale = min(chosen.grad_peak * chosen.grad_peak / chosen.hess_peak, 1e300)
        gain = np.where(inner, np.maximum(self._nodes.gain[:n_nodes], 0.0) * scale, 0.0)
        tree = Tree(
            feature=feature,
            threshold=threshold,
            cut=cut,
            missing_left=missing_left.astype(np.uint8),
            left=left,
            value=np.zeros(n_nodes),
            gain=gain,
            count=count,
            cover=count.astype(np.float64),
            depth=depth,
        )
        leaves = np.flatnonzero(~inner)
        order = np.argsort(state[leaves, START], kind="stable")
        return Grown(tree, np.ascontiguousarray(state[leaves[order], START : STOP + 1]), order)

    # --- leaves ------------------------------------------------------------------------------------------------------

    def leaf_sums(
        self, grown: Grown, grad: np.ndarray, hess: np.ndarray, weight: np.ndarray, units: np.ndarray, kind: int, power: float
    ) -> np.ndarray:
        """(n_leaves, 4): exact sums of grad, hess and weight, and the step that they give (see kernels/leaves.py)."""
        leaves = grown.leaves
        limbs = np.zeros((self.team.n_threads, len(leaves), 6), np.int64)
        out = np.zeros((len(leaves), 4))
        self.team.run(
            leaf_sums, self.team.gate, self.rows, leaves, grad, hess, weight, units, self.bits, kind, power, limbs, out
        )
        return out

    def leaf_quantiles(
        self, grown: Grown, y: np.ndarray, raw: np.ndarray, counts: np.ndarray, alpha: float, delta: float
    ) -> np.ndarray:
        """Quantiles of y - raw in the leaves, with Huber's one step from the median when delta > 0."""
        leaves = grown.leaves
        first, last = int(leaves[0, 0]), int(leaves[-1, 1])
        if len(self._keys) < last - first:
            self._keys = np.empty(self.n_rows, np.uint64)
            self._key_counts = np.empty(self.n_rows, np.int64)
        unit = power_above(delta * (float(counts.max()) if len(counts) else 1.0))
        out = np.zeros(len(leaves))
        self.team.run(
            leaf_quantiles, self.team.gate, self.rows, leaves, y, raw, counts, alpha, delta, unit, self.bits,
            self._keys, self._key_counts, np.zeros((self.team.n_threads, 2048), np.int64), out,
        )  # fmt: skip
        return out

    def quantile(self, values: np.ndarray, counts: np.ndarray, index: np.ndarray, alpha: float) -> float:
        """The α-quantile of values (of the rows of `index`, or all), with integer weights."""
        self._list_rows(index)
        whole = Grown(_NO_TREE, np.array([[0, len(index) or self.n_rows]], np.int64), np.zeros(1, np.int64))
        return float(self.leaf_quantiles(whole, values, np.zeros(self.n_rows), counts, alpha, 0.0)[0])

    def root_sums(
        self, index: np.ndarray, grad: np.ndarray, hess: np.ndarray, weight: np.ndarray, units: np.ndarray, kind: int, power: float
    ) -> np.ndarray:
        """As leaf_sums, with all rows of `index` as one leaf: for the initial value."""
        self._list_rows(index)
        whole = Grown(_NO_TREE, np.array([[0, len(index) or self.n_rows]], np.int64), np.zeros(1, np.int64))
        return self.leaf_sums(whole, grad, hess, weight, units, kind, power)[0]

    def _list_rows(self, index: np.ndarray) -> None:
        if len(index):
            self.rows[: len(index)] = index
        else:
            self.rows[:] = np.arange(self.n_rows, dtype=np.uint32)

    def add_leaves(self, grown: Grown, values: np.ndarray, raw: np.ndarray) -> None:
        """raw += values of the leaves, for the rows that grew the tree."""
        self.team.run(add_leaves, self.rows, grown.leaves, values, raw)

    def add_tree(self, tree: Tree, bins: Bins, index: np.ndarray, dense: bool, raw: np.ndarray) -> None:
        """raw += tree, for other binned rows: those of `index` (all when empty). dense: raw has one entry an index."""
        self.team.run(
            add_tree_binned, bins, index, tree.feature, tree.cut, tree.missing_left, tree.left, tree.value, dense, raw
        )


_NO_TREE = Tree(*(np.empty(0) for _ in range(10)))
