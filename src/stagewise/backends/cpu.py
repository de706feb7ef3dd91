"""Growing trees with this machine's cores: owns the threads and all room that growth needs, for one fit."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from stagewise.backends.pace import Pace
from stagewise.data.dataset import padded_cuts
from stagewise.kernels.exact import Packing, hash_values, limb_bits, packing, power_above
from stagewise.kernels.frontier import LEAFWISE, LEVELWISE
from stagewise.kernels.grow import DEADLINE, Shape, Work, grow
from stagewise.kernels.harvest import harvest
from stagewise.kernels.histogram import Bins, Pools
from stagewise.kernels.leaves import add_leaves, leaf_quantiles, leaf_sums
from stagewise.kernels.nodes import Nodes
from stagewise.kernels.pairs import Update, quantize
from stagewise.kernels.predict import add_tree_binned, label_binned
from stagewise.kernels.reducer import ALONE, Reducer
from stagewise.kernels.split import N_FIELDS, Limits
from stagewise.kernels.symmetric import grow_symmetric
from stagewise.kernels.team import Team
from stagewise.losses.base import Loss
from stagewise.params import TreeParams
from stagewise.tree.tree import Tree

__all__ = ["CpuBackend", "Grown", "threads_for"]

_POOL_BYTES = 1 << 28
"""Room for histograms of waiting leaves; beyond it histograms are built again when needed, with the same result."""

NO_PACKING = packing(1.0, 1.0, 1)
"""Stands where nothing is packed."""

_WORK_A_THREAD = 500_000
"""Work on a tree, in nanoseconds, that is worth a thread: waiting for each other costs a tree about that much."""


def tree_work(n_rows: int, n_columns: int, params: TreeParams) -> float:
    """Nanoseconds that one thread needs for a tree, roughly."""
    leaves = min(params.max_leaf_nodes, max(2, n_rows // params.min_samples_leaf))
    return (0.9 * n_rows + 540.0 * leaves) * n_columns


def threads_for(n_rows: int, n_columns: int, params: TreeParams, n_jobs: int) -> int:
    """Threads that pay: none waits longer than it works. The model does not depend on it.

    A tree's histograms take some 2 visits of each value at 0.45 ns, its split search 0.27 µs for each column of twice
    its leaves. Measured with 20 columns: at 10,000 rows a second thread made a fit 17 % slower, at 20,000 it broke
    even; with 100 columns it made one of 2,000 rows 30 % faster.
    """
    return max(1, min(n_jobs, int(tree_work(n_rows, n_columns, params) / _WORK_A_THREAD)))


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A tree without leaf values, and where its leaves' rows are until the next tree grows."""

    tree: Tree
    leaves: np.ndarray  # int64 (n_leaves, 4): node, start, stop and line of the backend's row numbers
    fine: bool  # gradients are so unequal that leaf sums need their low limbs


class CpuBackend:
    """Grows trees on one table. A context manager: the threads end with it."""

    def __init__(
        self,
        bins: Bins,
        n_rows: int,
        cuts: tuple[np.ndarray, ...],
        params: TreeParams,
        n_threads: int,
        n_training: int | None = None,
        reducer: Reducer = ALONE,
    ):
        """n_training: rows that take part, when not all do; what depends on a number of rows depends on this one."""
        self.bins, self.n_rows, self.cuts, self.params = bins, n_rows, cuts, params
        self.n_training = n_rows if n_training is None else n_training
        self.n_columns = len(cuts)
        self.team = Team(n_threads)
        self.team.reducer = reducer
        self.bits = limb_bits(self.n_training)
        self._words = np.empty(n_rows, np.int64)
        self._more_words = np.empty(1, np.int64)
        self._lost = np.zeros((n_threads, 8), np.int64)
        self._last: tuple[Packing, bool] | None = None  # how pairs were packed last, and whether with weights
        self._ahead: tuple[Packing, bool] | None = None  # how `_words` are packed already
        self.clock = np.zeros(4, np.int64)
        self._keys = np.empty(0, np.uint64)
        self._key_counts = np.empty(0, np.int64)
        self._padded_cuts = padded_cuts(cuts)
        self._pace = Pace(self.team.n_threads, 1e-9 * tree_work(self.n_training, self.n_columns, params))
        self._make_room()

    def __enter__(self) -> CpuBackend:
        return self

    def __exit__(self, *error: object) -> None:
        self.team.__exit__(None, None, None)

    def _make_room(self) -> None:
        params, n, size = self.params, self.n_training, self.bins.stride * 256
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
        self._heap = np.zeros(leaves + 1, np.int64)
        self._nodes = Nodes(
            state=np.zeros((2 * leaves - 1, 9), np.int64),
            split=np.zeros((2 * leaves - 1, N_FIELDS), np.int64),
            gain=np.zeros(2 * leaves - 1),
        )
        self._rows = np.empty((2, self.n_rows), np.uint32)
        # unsigned: a signed index is checked for being negative, which doubles the time of the sums by label
        self.labels = np.empty(self.n_rows, np.uint16 if 2 * leaves < 2**16 else np.uint32)
        self._scratch = (
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

    def pack(
        self,
        grad: np.ndarray,
        hess: np.ndarray,
        peaks: tuple[float, float],
        constant: bool,
        wide: bool,
        by_weight: bool | None = None,
    ) -> Packing:
        """Turn pairs into integers. Narrow words first; where they lose too many rows, wide ones.

        "Too many": more than half of the rows keep under four bits of their gradient (a few huge ones set the scale).
        Nothing is left to do when `update` foresaw it. by_weight: grad are the loss's own, and hess are the weights or
        the loss's own too; None for anything else, which cannot be foreseen.
        """
        chosen = packing(*peaks, self.n_training, narrow=not wide, constant_hess=constant)
        ahead, self._ahead, self._last = self._ahead, None, None
        if chosen.narrow:
            if by_weight is None or ahead != (chosen, by_weight):
                self._lost[:] = 0  # threads that pause now (see pace.py) must not leave their last count
                self.team.run(quantize, grad, hess, chosen, self._words, self._more_words, self._lost)
            lost = self.team.reducer.count(int(self._lost[: self.team.n_threads, 0].sum()))
            if 2 * lost <= self.n_training:
                self._last = None if by_weight is None else (chosen, by_weight)
                return chosen
            chosen = packing(*peaks, self.n_training, narrow=False, constant_hess=constant)
        if len(self._more_words) < self.n_rows:
            self._more_words = np.empty(self.n_rows, np.int64)
        if self._room[1] < self._room[0]:  # now every node may be wide
            self._room[1] = self._room[0]
            self._pools = self._make_pools(*self._room)
        self.team.run(quantize, grad, hess, chosen, self._words, self._more_words, self._lost)
        return chosen

    def update(self, tree: Tree, rest: np.ndarray) -> Update:
        """What the next evaluation of the loss does beside: add the tree, pack the pairs in the way of the last stage.

        The scale changes rarely between stages; when it does, `pack` packs anew, so the result is the same.
        """
        self._label(tree, rest)
        update = Update(self.labels, tree.value, NO_PACKING, False, np.empty(0, np.int64), self._lost)
        if self._last is not None:
            self._ahead = self._last
            self._lost[:] = 0
            update = update._replace(packing=self._last[0], by_weight=self._last[1], words=self._words)
        return update

    def grow(self, chosen: Packing, index: np.ndarray, rest: np.ndarray, key: np.uint64) -> Grown:
        """Grow one tree on packed pairs, for the rows of `index` (all when empty), not `rest`. `key` draws columns."""
        params = self.params
        n_rows = len(index) or self.n_rows
        nodes, shape = self._nodes, self._shape()
        work = Work(
            self._rows,
            self._words,
            self._more_words,
            *self._scratch,
            self._free,
            self._room,
            self._heap,
            self.team.gate,
            self.labels,
            self.clock,
        )
        function = grow_symmetric if params.growth == "symmetric" else grow
        limits, n_nodes = self._limits(chosen, key), -1
        while n_nodes < 0:  # a tree that several threads gave up is grown anew by one: the same tree
            self.team.active = self._pace.threads
            self.clock[DEADLINE] = self._pace.deadline() if self.team.active > 1 else 0
            began = time.perf_counter()
            n_nodes = self.team.run(function, self.bins, index, n_rows, chosen, limits, shape, self._pools, work, nodes)
            self._pace.note(time.perf_counter() - began, n_nodes < 0)
        self.labels[rest] = n_nodes  # not a node: these rows take no part
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
        """The grown nodes as a frozen tree, and where the rows of its leaves are."""
        numbers, floats = np.empty((5, n_nodes), np.int32), np.empty((3, n_nodes))
        leaves = np.empty(((n_nodes + 1) // 2, 4), np.int64)
        scale = min(chosen.grad_peak * chosen.grad_peak / chosen.hess_peak, 1e300)
        harvest(self._nodes, self._padded_cuts, self.params.growth == "symmetric", scale, numbers, floats, leaves)
        tree = Tree(
            feature=numbers[0],
            threshold=floats[0],
            cut=numbers[1],
            missing_left=numbers[2].astype(np.uint8),
            left=numbers[3],
            value=np.zeros(n_nodes),
            gain=floats[1],
            count=floats[2].astype(np.int64),
            cover=floats[2],
            depth=numbers[4],
        )
        return Grown(tree, leaves, not chosen.narrow)

    def rows_used(self, index: np.ndarray) -> int:
        """How many rows the last fit of the rows of `index` saw."""
        return len(index) or self.n_training

    # --- leaves ------------------------------------------------------------------------------------------------------

    def leaf_sums(
        self, grown: Grown, grad: np.ndarray, hess: np.ndarray, weight: np.ndarray, units: np.ndarray, loss: Loss
    ) -> np.ndarray:
        """(n_nodes, 4): exact sums of grad, hess and weight of each leaf, and the step that they give."""
        counts = grown.tree.count
        limbs = np.zeros((self.team.n_threads, len(counts) + 1, 6), np.int64)
        out = np.zeros((len(counts), 4))
        self.team.run(
            leaf_sums, self.team.gate, self.labels, counts, grad, hess, weight, units, self.bits, grown.fine,
            loss.leaf_kind, loss.power, limbs, out,
        )  # fmt: skip
        return out

    def leaf_quantiles(
        self, grown: Grown, y: np.ndarray, raw: np.ndarray, counts: np.ndarray, alpha: float, delta: float
    ) -> np.ndarray:
        """(n_nodes,): quantiles of y - raw in the leaves, with Huber's one step from the median when delta > 0."""
        if len(self._keys) == 0:
            self._keys = np.empty(self.n_rows, np.uint64)
            self._key_counts = np.empty(self.n_rows, np.int64)
        unit = power_above(delta * (float(counts.max()) if len(counts) else 1.0))
        out = np.zeros(grown.tree.n_nodes)
        self.team.run(
            leaf_quantiles, self.team.gate, self._rows, grown.leaves, y, raw, counts, alpha, delta, unit, self.bits,
            self._keys, self._key_counts, np.zeros((self.team.n_threads, 2048), np.int64), out,
        )  # fmt: skip
        return out

    def adopt(self, tree: Tree, labels: np.ndarray, rest: np.ndarray) -> Grown:
        """A tree that was grown elsewhere, with the leaf (node number) that each row reaches; `rest` takes no part."""
        if tree.n_nodes >= 2**16 and self.labels.dtype == np.uint16:
            self.labels = np.empty(self.n_rows, np.uint32)
        self.labels[:] = labels
        self.labels[rest] = tree.n_nodes
        order = np.argsort(self.labels, kind="stable").astype(np.uint32)
        self._rows[0] = order
        ends = np.cumsum(np.bincount(self.labels, minlength=tree.n_nodes + 1))
        count = np.diff(ends[:-1], prepend=0)
        for k in range(tree.n_nodes - 1, -1, -1):  # children come after their parent
            if tree.left[k] >= 0:
                count[k] = count[tree.left[k]] + count[tree.left[k] + 1]
        leaf = tree.leaves
        leaves = np.column_stack([leaf, ends[leaf] - count[leaf], ends[leaf], np.zeros_like(leaf)]).astype(np.int64)
        return Grown(replace(tree, count=count.astype(np.int64)), leaves, True)

    def whole(self, index: np.ndarray) -> Grown:
        """A tree of one leaf with all rows of `index` (all rows when empty): for sums and quantiles of a sample."""
        n = len(index) or self.n_rows
        if len(index):
            self.labels[:] = 1
            self.labels[index] = 0
            self._rows[0, :n] = index
        else:
            self.labels[:] = 0
            self._rows[0] = np.arange(n, dtype=np.uint32)
        return Grown(Tree.stump(n), np.array([[0, 0, n, 0]], np.int64), True)

    def quantile(self, values: np.ndarray, counts: np.ndarray, index: np.ndarray, alpha: float) -> float:
        """The α-quantile of values (of the rows of `index`, or all), with integer weights."""
        return float(self.leaf_quantiles(self.whole(index), values, np.zeros(self.n_rows), counts, alpha, 0.0)[0])

    def _label(self, tree: Tree, rest: np.ndarray) -> None:
        """Rows that grew the tree have their label; those of `rest` walk down the tree."""
        if len(rest):
            self.team.run(
                label_binned, self.bins, rest, tree.feature, tree.cut, tree.missing_left, tree.left, self.labels
            )

    def add_leaves(self, tree: Tree, rest: np.ndarray, raw: np.ndarray) -> None:
        """raw += tree."""
        self._label(tree, rest)
        self.team.run(add_leaves, self.labels, tree.value, raw)

    def add_tree(self, tree: Tree, bins: Bins, index: np.ndarray, raw: np.ndarray) -> None:
        """raw[r] += tree, for other binned rows: row index[r], or r when `index` is empty."""
        self.team.run(
            add_tree_binned, bins, index, tree.feature, tree.cut, tree.missing_left, tree.left, tree.value, raw
        )
