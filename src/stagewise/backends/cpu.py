"""Growing trees with this machine's cores: owns the threads and all room that growth needs, for one fit."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from stagewise.backends.grown import Grown, harvested
from stagewise.backends.pace import Pace, rows_apart, tree_work
from stagewise.backends.samples import NO_PACKING, Drawn, SampleRoom
from stagewise.data.dataset import padded_cuts
from stagewise.kernels.ahead import ASIDE, LOST
from stagewise.kernels.draw import scatter_words
from stagewise.kernels.exact import Packing, hash_values, limb_bits, packing, power_above
from stagewise.kernels.expansion import DEADLINE
from stagewise.kernels.frontier import LEAFWISE, LEVELWISE
from stagewise.kernels.grow import Shape, Work, extras_of, grow
from stagewise.kernels.histogram import NO_ROOT, PITCH, Bins, Pools
from stagewise.kernels.labels import MOST_LEAVES, label_all, label_and_sum
from stagewise.kernels.leaves import add_leaves, leaf_quantiles, leaf_sums
from stagewise.kernels.nodes import GRAD, HOME, N_STATE, Nodes
from stagewise.kernels.pairs import Update, quantize
from stagewise.kernels.predict import add_tree_binned, label_binned
from stagewise.kernels.reducer import ALONE, Reducer
from stagewise.kernels.sample import NO_SAMPLE
from stagewise.kernels.split import N_FIELDS, Limits
from stagewise.kernels.symmetric import grow_symmetric
from stagewise.kernels.team import Team
from stagewise.losses.base import Loss
from stagewise.params import TreeParams
from stagewise.tree.tree import Tree

__all__ = ["CpuBackend"]

_NO_ROWS = np.empty(0, np.uint32)

_POOL_BYTES = 1 << 28
"""Room for histograms of waiting leaves; beyond it histograms are built again when needed, with the same result."""


def _tests(tree: Tree) -> tuple[np.ndarray, ...]:
    return tree.feature, tree.cut, tree.missing_left, tree.left


def _in_bytes(tree: Tree) -> bool:
    """Whether `label_all` takes the tree."""
    return tree.n_nodes < 2 * MOST_LEAVES and len(tree.subset) == 0


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
        in_sets: np.ndarray | None = None,
        rows: np.ndarray = _NO_ROWS,
        reducer: Reducer = ALONE,
    ):
        """n_training: rows that take part, when not all do; what depends on a number of rows depends on this one.

        in_sets: bool (n_columns), the columns that are split by sets of codes; None for none.
        rows: where the codes of the n_rows rows are, when `bins` has others too. All arrays that come in or go out are
        about these rows by position; only what kernels hold beside the codes (words, row lists, labels while a tree
        grows) has the numbers of the rows of `bins`.
        """
        self.bins, self.n_rows, self.cuts, self.params = bins, n_rows, cuts, params
        self.n_training = n_rows if n_training is None else n_training
        self.n_columns = len(cuts)
        self.in_sets = np.zeros(len(cuts), np.bool_) if in_sets is None else in_sets
        self.any_sets = bool(self.in_sets.any())
        self.team = Team(n_threads)
        self.team.reducer = reducer
        self.bits = limb_bits(self.n_training)
        self.places = rows
        self._adopted = self._labelled = False  # of the last tree: grown elsewhere, all rows have its labels
        self.keeping = False  # whether leaves keep their histograms, see residuals.py
        self._in_order = bool((rows[1:] > rows[:-1]).all())
        self._n_codes = bins.by_column.shape[1] if len(rows) else n_rows
        self._words = np.empty(self._n_codes, np.int64)
        self._more_words = np.empty(1, np.int64)
        self._lost = np.zeros((n_threads, 8), np.int64)
        self._last: tuple[Packing, bool] | None = None  # how pairs were packed last, and whether with weights
        self._ahead: tuple[Packing, bool, bool] | None = None  # how `_words` are packed already, and if for a sample
        self._limited: tuple[Packing, Limits] | None = None  # the limits of the last tree
        self._shaped: Shape | None = None
        self.draws_columns = min(params.tree_columns, params.split_columns) < len(cuts)  # trees depend on their key
        self.clock = np.zeros(4, np.int64)
        self._keys = np.empty(0, np.uint64)
        self._key_counts = np.empty(0, np.int64)
        self._padded_cuts = padded_cuts(cuts)
        self._pace = Pace(self.team.n_threads, 1e-9 * tree_work(self.n_training, len(bins.n_bins), params))
        self._make_room()

    def __enter__(self) -> CpuBackend:
        return self

    def __exit__(self, *error: object) -> None:
        self.team.__exit__(None, None, None)

    def _make_room(self) -> None:
        params, n, size = self.params, self.n_training, self.bins.width * PITCH
        threads = self.team.n_threads
        leaves = min(params.max_leaf_nodes, max(2, n // params.min_samples_leaf))
        if params.max_depth < 31:
            leaves = min(leaves, 2**params.max_depth)
        if params.growth == "symmetric":
            leaves = 2 ** min(16, params.max_depth, int(math.log2(leaves)))
        self.max_leaves = leaves
        self._bytes = leaves <= MOST_LEAVES and not self.any_sets  # whether `label_all` takes every tree
        most = leaves + 1 if params.growth == "symmetric" else max(3, min(leaves, _POOL_BYTES // (size * 8)))
        # only a node of more than a block's rows has a wide histogram, unless gradients are very unequal
        self._room = np.array([most, min(most, n // 4095 + 2)], np.int64)
        self._pools = self._make_pools(*self._room)
        self._free = np.zeros((2, most + 1), np.int64)
        self._heap = np.zeros(leaves + 1, np.int64)
        self._rows_apart = rows_apart(self.n_columns, self.bins.width, params, threads)
        self._aside = np.zeros((ASIDE * threads if self._rows_apart else 0, 2), np.int64)
        records = 2 * leaves - 1 + 2 * len(self._aside)
        self._nodes = Nodes(
            state=np.zeros((records, N_STATE), np.int64),
            split=np.zeros((records, N_FIELDS), np.int64),
            gain=np.zeros(records),
        )
        self._rows = np.empty((2, self.n_rows), np.uint32)
        # unsigned: a signed index is checked for being negative, which doubles the time of the sums by label
        self.labels = np.empty(self.n_rows, np.uint16 if 2 * leaves < 2**16 else np.uint32)
        self._samples = SampleRoom(self.bins, self.labels[:0], 0 if len(self.places) else self.n_rows)
        self._code_labels = np.zeros(self._n_codes, self.labels.dtype) if len(self.places) else self.labels
        self._scratch = (
            np.zeros((threads, 3, 256)), np.zeros((threads, 2, N_FIELDS), np.int64), np.zeros((threads, 8)),
            np.zeros((threads, 8), np.int64), np.zeros((threads, 6, 256), np.int64), np.zeros((threads, 256), np.uint8),
        )  # fmt: skip

    def _make_pools(self, packed: int, wide: int) -> Pools:
        size, threads = self.bins.width * PITCH, self.team.n_threads
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
        listed: np.ndarray | None = None,
    ) -> Packing:
        """Turn pairs into integers. Narrow words first; where they lose too many rows, wide ones.

        "Too many": more than half of the rows keep under four bits of their gradient (a few huge ones set the scale).
        Nothing is left to do when `update` foresaw it. by_weight: grad are the loss's own, and hess are the weights or
        the loss's own too; None for anything else, which cannot be foreseen. listed: the rows that the pairs belong to,
        None for all.
        """
        n = self.n_training if listed is None else self.team.reducer.count(len(listed))
        chosen = packing(*peaks, n, narrow=not wide, constant_hess=constant)
        ahead, self._ahead, self._last = self._ahead, None, None
        if chosen.narrow:
            if by_weight is None or ahead != (chosen, by_weight, listed is not None):
                self._quantize(grad, hess, chosen, listed)
            if 2 * self.team.reducer.count(int(self._lost[: self.team.n_threads, 0].sum())) <= n:
                self._last = None if by_weight is None or listed is not None else (chosen, by_weight)
                self._samples.last = None if by_weight is None or listed is None else (chosen, by_weight)
                return chosen
            chosen = packing(*peaks, n, narrow=False, constant_hess=constant)
        if len(self._more_words) < self._n_codes:
            self._more_words = np.empty(self._n_codes, np.int64)
        if self._room[1] < self._room[0]:  # now every node may be wide
            self._room[1] = self._room[0]
            self._pools = self._make_pools(*self._room)
        self._quantize(grad, hess, chosen, listed)
        return chosen

    def _quantize(self, grad: np.ndarray, hess: np.ndarray, chosen: Packing, listed: np.ndarray | None) -> None:
        self._lost[:] = 0  # threads that pause now (see pace.py) must not leave their last count
        room = (self._words, self._more_words, self._lost)
        if len(self.places) and listed is None:
            self.team.run(scatter_words, self.places, grad, hess, chosen, *room)
        else:  # a sample is about to become a table of its own, in which its words come first
            self.team.run(quantize, grad, hess, chosen, *room)

    def update(self, tree: Tree, rest: np.ndarray | None) -> Update:
        """What the next evaluation of the loss does beside: add the tree, pack the pairs in the way of the last stage.

        The scale changes rarely between stages; when it does, `pack` packs anew, so the result is the same.
        """
        self._label(tree, rest)
        update = Update(self.labels, tree.value, NO_PACKING, False, np.empty(0, np.int64), self._lost)
        if self._last is not None and len(self.places) == 0:
            self._ahead = *self._last, False
            self._lost[:] = 0
            update = update._replace(packing=self._last[0], by_weight=self._last[1], words=self._words)
        return update

    def foresee(self) -> Update:
        """The same for the rows of the next sample, while they are gathered: nothing but packing."""
        self._ahead = None if self._samples.last is None else (*self._samples.last, True)
        self._lost[:] = 0
        return self._samples.update(self._words, self._lost)

    @property
    def drawn(self) -> Drawn:
        """Where to say which rows are in the next sample."""
        return self._samples.drawn

    def grow(
        self, chosen: Packing, index: np.ndarray, rest: np.ndarray | None, key: np.uint64,
        listed: np.ndarray = _NO_ROWS, root: np.ndarray = NO_ROOT,
    ) -> Grown:  # fmt: skip
        """Grow one tree on packed pairs, for the rows of `index` (all when empty), not `rest`. `key` draws columns.

        listed: `index` again, when leaf sums will come from the pairs of these rows alone. root: the wide histogram
        of these rows, grad and hess words (2, width * PITCH), if it is there already; it is only read.
        """
        params, bins, where, labels = self.params, self.bins, self._place(index), self._code_labels
        n_rows = len(where) or self.n_rows
        self._adopted = self._labelled = False
        sample = NO_SAMPLE
        if len(listed):
            bins, sample = self._samples.table(listed, where)
            # with the labels of all rows those of the sample are found faster than by writing them row by row
            labels, where = self._samples.labels[: 0 if self._bytes else None], _NO_ROWS
        elif not self._in_order:  # sums do not depend on it, but kernels take rows to be ascending
            where = np.sort(where)
        nodes, shape = self._nodes, self._shape()
        work = Work(
            self._rows, self._words, self._more_words, *self._scratch, self._free, self._room, self._heap, self._aside,
            self.team.gate, labels, self.clock, root, sample,
        )  # fmt: skip
        limits, n_nodes = self._limits(chosen, key), -1
        function, table = grow, (bins, where, n_rows, chosen, limits, shape, self._pools, work, nodes)
        more: tuple[bool | None, ...] = (extras_of(bins, limits, work),)
        if params.growth == "symmetric":
            function, more = grow_symmetric, ()  # type: ignore[assignment]
        while n_nodes < 0:  # a tree that several threads gave up is grown anew by one: the same tree
            self.team.active = self._pace.threads
            self.clock[DEADLINE] = self._pace.deadline() if self.team.active > 1 else 0
            began = time.perf_counter()
            n_nodes = self.team.run(function, *table, *more)
            self._pace.note(time.perf_counter() - began, n_nodes < 0)
        if len(self.places) and len(listed) == 0:
            np.take(self._code_labels, self.places, out=self.labels, mode="clip")
        if rest is not None and len(rest):
            self.labels[rest] = n_nodes  # not a node: these rows take no part
        if n_nodes == 1:
            nodes.state[0, HOME] = 0  # its rows are written down, see `label_leaves`
        if n_nodes == 1 and chosen.narrow:  # nobody may have looked at the root
            words = self._words[where] if len(where) else self._words[:n_rows]
            nodes.state[0, GRAD] = (words >> chosen.grad_shift).sum()
        grown = self._harvest(n_nodes, chosen)
        return replace(grown, listed=listed, placed=len(self.places) > 0) if len(listed) or len(self.places) else grown

    def _place(self, index: np.ndarray) -> np.ndarray:
        """Where the codes of rows are; empty: all of them, as they lie."""
        if len(self.places) == 0:
            return index
        return self.places[index] if len(index) else self.places

    def _shape(self) -> Shape:
        if self._shaped is not None and self._shaped.keep == self.keeping:
            return self._shaped
        order = LEVELWISE if self.params.growth == "levelwise" else LEAFWISE
        depth = self.params.max_depth
        if self.params.growth == "symmetric":
            depth = self.max_leaves.bit_length() - 1
        apart = np.int64(0 if self.keeping else self._rows_apart)
        self._shaped = Shape(np.int64(order), np.int64(self.max_leaves), np.int64(depth), self.keeping, apart)
        return self._shaped

    def _limits(self, chosen: Packing, key: np.uint64) -> Limits:
        """Limits in the units of the packed gradients (relative to the peaks, all powers of two)."""
        if self._limited is not None and self._limited[0] is chosen and not self.draws_columns:
            return self._limited[1]
        self._limited = chosen, self._limits_of(chosen, key)
        return self._limited[1]

    def _limits_of(self, chosen: Packing, key: np.uint64) -> Limits:
        params, f = self.params, self.n_columns
        scale = chosen.grad_peak * chosen.grad_peak / chosen.hess_peak
        min_gain = 0.0
        if params.min_split_gain > 0.0:
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
            in_sets=self.in_sets,
            any_sets=self.any_sets,
            cat_smooth=params.cat_smooth / chosen.hess_peak,
            cat_l2=params.cat_l2 / chosen.hess_peak,
            max_onehot=np.int64(params.max_onehot),
            max_group=np.int64(params.max_group),
            level_rows=np.int64(params.level_rows),
            # a set and its rest need that many rows each: in a small table there would never be one
            group_rows=np.int64(min(params.group_rows, max(params.min_samples_leaf, self.n_training // 4))),
        )

    def _harvest(self, n_nodes: int, chosen: Packing) -> Grown:
        symmetric = self.params.growth == "symmetric"
        return harvested(self._nodes, n_nodes, self._padded_cuts, symmetric, self.any_sets, chosen)

    @property
    def histograms_kept(self) -> bool:
        """Whether the leaves of the last tree have their histograms still."""
        return self.keeping and int(self._scratch[3][0, LOST]) == 0

    def rows_used(self, index: np.ndarray) -> int:
        """How many rows the last fit of the rows of `index` saw."""
        return len(index) or self.n_training

    # --- leaves ------------------------------------------------------------------------------------------------------

    def leaf_sums(
        self, grown: Grown, grad: np.ndarray, hess: np.ndarray, weight: np.ndarray, units: np.ndarray, loss: Loss
    ) -> np.ndarray:
        """(n_nodes, 4): exact sums of grad, hess and weight of each leaf, and the step that they give."""
        counts, labels = grown.tree.count, self._samples.labels if len(grown.listed) else self.labels
        limbs = np.zeros((self.team.n_threads, len(counts) + 1, 6), np.int64)
        out = np.zeros((len(counts), 4))
        sums = (
            self.team.gate, labels, counts, grad, hess, weight, units, self.bits, grown.fine, loss.leaf_kind,
            loss.power, limbs, out,
        )  # fmt: skip
        if len(grown.listed) and _in_bytes(grown.tree):
            tests = (self.bins, *_tests(grown.tree), self._code_labels)
            self.team.run(label_and_sum, tests, self._place(grown.listed), sums)
            self._labelled = True
        else:
            self.team.run(leaf_sums, *sums)
        return out

    def leaf_quantiles(
        self, grown: Grown, y: np.ndarray, raw: np.ndarray, counts: np.ndarray, alpha: float, delta: float
    ) -> np.ndarray:
        """(n_nodes,): quantiles of y - raw in the leaves, with Huber's one step from the median when delta > 0."""
        if len(self._keys) == 0:
            self._keys = np.empty(self.n_rows, np.uint64)
            self._key_counts = np.empty(self.n_rows, np.int64)
        lines = self._rows
        if len(grown.listed):
            lines = np.take(grown.listed, lines, mode="clip")
        elif grown.placed:
            position = np.zeros(self._n_codes, np.uint32)
            position[self.places] = np.arange(self.n_rows, dtype=np.uint32)
            lines = np.take(position, lines, mode="clip")  # what is no row number (yet) is not looked at
        unit = power_above(delta * (float(counts.max()) if len(counts) else 1.0))
        out = np.zeros(grown.tree.n_nodes)
        self.team.run(
            leaf_quantiles, self.team.gate, lines, grown.leaves, y, raw, counts, alpha, delta, unit, self.bits,
            self._keys, self._key_counts, np.zeros((self.team.n_threads, 2048), np.int64), out,
        )  # fmt: skip
        return out

    def adopt(self, tree: Tree, labels: np.ndarray, rest: np.ndarray) -> Grown:
        """A tree that was grown elsewhere, with the leaf (node number) that each row reaches; `rest` takes no part."""
        self._adopted = True
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

    def _label(self, tree: Tree, rest: np.ndarray | None) -> None:
        """Rows that grew the tree have their label; those of `rest` (None: all rows) walk down it, or go through its
        tests with all others."""
        n_rest = self.n_rows if rest is None else len(rest)
        if n_rest == 0:
            return
        many = 16 * n_rest > self._n_codes and not self._adopted  # bins know nothing of an adopted tree
        if many and _in_bytes(tree):
            if not self._labelled:
                self.team.run(label_all, self.bins, *_tests(tree), self._code_labels)
        else:
            rest, sets = np.arange(n_rest, dtype=np.uint32) if rest is None else rest, (tree.subset, tree.sets)
            self.team.run(label_binned, self.bins, self._place(rest), *_tests(tree), *sets, self._code_labels)
        if len(self.places):
            some = slice(None) if rest is None else rest
            self.labels[some] = self._code_labels[self.places[some]]

    def add_leaves(self, tree: Tree, rest: np.ndarray | None, raw: np.ndarray) -> None:
        """raw += tree."""
        self._label(tree, rest)
        self.team.run(add_leaves, self.labels, tree.value, raw)

    def add_tree(self, tree: Tree, bins: Bins, index: np.ndarray, raw: np.ndarray) -> None:
        """raw[r] += tree, for other binned rows: row index[r], or r when `index` is empty."""
        self.team.run(
            add_tree_binned, bins, index, tree.feature, tree.cut, tree.missing_left, tree.left, tree.subset, tree.sets,
            tree.value, raw,
        )  # fmt: skip
