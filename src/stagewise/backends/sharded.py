"""Growing trees on rows that several members hold: threads of one process, or the workers of a cluster.

Every member runs this on its own rows. Histograms of a batch of nodes are exchanged and added up, and all members take
the same decisions from the same integers; no row ever travels. Each member gets some columns of all members, searches
those, and the best splits are exchanged; where histograms are small, each gets all sums and searches all columns.

The tree is that of `grow`, node by node. Which leaf is split next depends on the children of the one before, so a round
for every split would be needed; instead leaves are divided ahead of their turn, those that would be split if children
improved the tree by a certain share of what their parents do, and what turns out not to be needed is forgotten: there
are about as many rounds as the tree is deep.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stagewise.backends.cpu import CpuBackend
from stagewise.backends.grown import Grown
from stagewise.backends.growth import Growth
from stagewise.backends.wire import Wire
from stagewise.data.shard import Shard
from stagewise.kernels.draw import scatter_words
from stagewise.kernels.exact import Packing, power_above
from stagewise.kernels.histogram import NO_ROOT, PITCH, Bins, Pools
from stagewise.kernels.leaves import leaf_sums
from stagewise.kernels.nodes import STOP
from stagewise.kernels.pairs import Update
from stagewise.kernels.shards import (
    DIGIT,
    count_digits,
    keys_above,
    keys_to_values,
    residual_keys,
    step_sums,
)
from stagewise.losses.base import Loss
from stagewise.params import TreeParams
from stagewise.tree.tree import Tree

__all__ = ["ShardedBackend"]

_POOL_BYTES = 1 << 28
"""Room for histograms of nodes that may still be split; beyond it they are built again when needed."""

_BATCH_BYTES = 1 << 26
"""Histograms that are built and exchanged at once."""

_NO_ROWS = np.empty(0, np.uint32)

_SMALL = 10_000
"""Bytes of a histogram that a member may send beyond its share, so that all get all sums: one exchange a round instead
of two. An exchange takes some 0.1 ms, a byte 2.5 ns, and there are some four histograms a round."""


class ShardedBackend(CpuBackend):
    """A `CpuBackend` whose rows are those of a shard; all members make the same calls."""

    def __init__(
        self,
        bins: Bins,
        n_rows: int,
        cuts: tuple[np.ndarray, ...],
        params: TreeParams,
        n_threads: int,
        n_training: int,
        in_sets: np.ndarray,
        shard: Shard,
    ) -> None:
        self.reducer = shard.reducer
        size, entries = self.reducer.size, int((bins.n_bins + 1).sum())
        self.everywhere = params.growth == "symmetric" or 12 * entries * (size - 1) ** 2 <= _SMALL * size
        super().__init__(bins, n_rows, cuts, params, n_threads, n_training, in_sets, reducer=shard.reducer)
        self._used = n_training
        self._drawn = False  # the last tree was grown on a weighted sample

    def _make_room(self) -> None:
        super()._make_room()
        size, threads, reducer = self.bins.width * PITCH, self.team.n_threads, self.reducer
        slots = min(2 * self.max_leaves + 2, max(6, _POOL_BYTES // (size * 16)))
        if self.params.growth == "symmetric":
            slots = self.max_leaves + 2
        self._room[:] = 1  # no growth in one go
        none = np.empty((0, 0), np.int64)
        self._pools = Pools(
            none, np.empty((slots, size), np.int64), np.empty((slots, size), np.int64), none, none, none
        )
        self._packed = np.zeros((threads, size), np.int64)
        self._most = max(1, min(self.max_leaves, _BATCH_BYTES // (size * 16)))
        ends = [self.n_columns * k // reducer.size for k in range(reducer.size + 1)]
        self._wire = Wire(reducer, self.bins.n_bins, None if self.everywhere else ends)
        self._all = np.arange(self.n_rows, dtype=np.uint32)

    def _make_pools(self, packed: int, wide: int) -> Pools:
        return Pools(*(np.empty((0, 0), np.int64),) * 6)  # those of a whole tree at once are not needed

    def rows_used(self, index: np.ndarray) -> int:
        return self._used

    # --- growth ------------------------------------------------------------------------------------------------------

    def grow(
        self, chosen: Packing, index: np.ndarray, rest: np.ndarray | None, key: np.uint64,
        listed: np.ndarray = _NO_ROWS, root: np.ndarray = NO_ROOT,
    ) -> Grown:  # fmt: skip
        """As `CpuBackend.grow`; no `index` but a `rest` means that none of this member's rows is in use.

        The rows of a weighted sample (no `rest`) are not copied into a table of their own: they keep their numbers.
        """
        assert len(root) == 0  # members build their own
        n = len(index) if len(index) or rest is None or len(rest) else self.n_rows
        self._rows[0, :n] = index if len(index) else self._all[:n]
        self._drawn = rest is None
        if self._drawn:
            self.labels[:] = 2 * self.max_leaves  # not a node, for those who were not drawn
        growth = Growth(self, chosen, self._limits(chosen, key), n)
        order = growth.by_level() if self.params.growth == "symmetric" else growth.best_first()
        self._used = int(growth.nodes.state[0, STOP])
        self._nodes, n_nodes = growth.finished(order)
        if rest is not None:
            self.labels[rest] = n_nodes
        grown = self._harvest(n_nodes, chosen)
        return replace(grown, leaves=np.empty((0, 4), np.int64), listed=listed)

    def foresee(self) -> Update:
        """Nothing: the words of a sample lie where their rows do."""
        self._samples.last = None
        return super().foresee()

    def _quantize(self, grad: np.ndarray, hess: np.ndarray, chosen: Packing, listed: np.ndarray | None) -> None:
        if listed is None:
            super()._quantize(grad, hess, chosen, None)
            return
        self._lost[:] = 0
        self.team.run(scatter_words, listed, grad, hess, chosen, self._words, self._more_words, self._lost)

    # --- leaves ------------------------------------------------------------------------------------------------------

    def leaf_sums(
        self, grown: Grown, grad: np.ndarray, hess: np.ndarray, weight: np.ndarray, units: np.ndarray, loss: Loss
    ) -> np.ndarray:
        counts, gate = grown.tree.count, self.team.gate
        labels = self.labels[grown.listed] if self._drawn else self.labels
        if self._drawn and len(weight) == 0:  # nobody was drawn here: still, rows have weights
            weight = np.zeros(1)
        limbs = np.zeros((self.team.n_threads, len(counts) + 1, 6), np.int64)
        out = np.zeros((len(counts), 4))
        more = (units, self.bits, grown.fine, loss.leaf_kind, loss.power)
        self.team.run(leaf_sums, gate, labels, counts, grad, hess, weight, *more, limbs, out)
        total = self.reducer.sum(limbs[0])[None]  # thread 0 has added up what all found
        leaf_sums(0, 1, gate, labels[:0], counts, grad, hess, weight, *more, total, out)
        return out

    def leaf_quantiles(
        self, grown: Grown, y: np.ndarray, raw: np.ndarray, counts: np.ndarray, alpha: float, delta: float
    ) -> np.ndarray:
        """Digit by digit: the members' counts of keys by their next 8 bits are added up, until one key is left."""
        if len(self._keys) == 0:
            self._keys = np.empty(self.n_rows, np.uint64)
        n_nodes, leaves, team = grown.tree.n_nodes, grown.tree.leaves, self.team
        team.run(residual_keys, y, raw, self._keys)
        prefix = np.zeros(n_nodes, np.uint64)
        before, total, target = np.zeros((3, len(leaves)), np.int64)
        for done in range(0, 64, DIGIT):
            own = np.zeros((team.n_threads, n_nodes, 1 << DIGIT), np.int64)
            team.run(count_digits, self._keys, counts, self.labels, prefix, done, own)
            table = self.reducer.sum(own.sum(axis=0)[leaves])
            if done == 0:
                total = table.sum(axis=1)
                target = alpha * total.astype(np.float64)
            running = before[:, None] + np.cumsum(table, axis=1)
            digit = ((running >= target[:, None]) & (table > 0)).argmax(axis=1)
            at = np.arange(len(leaves)), digit
            before = running[at] - table[at]
            prefix[leaves] = (prefix[leaves] << np.uint64(DIGIT)) | digit.astype(np.uint64)
        reached = running[at]
        values = np.zeros(n_nodes)
        found = np.empty(len(leaves))
        keys_to_values(prefix[leaves], found)
        meets = (reached == target) & (reached < total)
        if meets.any():  # the mean of this value and the next one
            above = np.empty((team.n_threads, n_nodes), np.uint64)
            team.run(keys_above, self._keys, counts, self.labels, prefix, above)
            parts = self.reducer.gather(above.min(axis=0)[leaves].view(np.int64))
            upper = np.empty(len(leaves))
            keys_to_values(np.min([part.view(np.uint64) for part in parts], axis=0), upper)
            found[meets] = 0.5 * found[meets] + 0.5 * upper[meets]
        values[leaves] = np.where(total > 0, found, 0.0)
        return values if delta <= 0.0 else self._stepped(leaves, y, raw, counts, values, delta)

    def _stepped(
        self, leaves: np.ndarray, y: np.ndarray, raw: np.ndarray, counts: np.ndarray, values: np.ndarray, delta: float
    ) -> np.ndarray:
        """Huber's one step from the medians, see kernels/leaves.py."""
        heaviest = self.reducer.largest(float(counts.max()) if len(counts) else 1.0)
        unit, step = power_above(delta * heaviest), 1.0 / (1 << self.bits)
        out = np.zeros((self.team.n_threads, len(values), 3), np.int64)
        self.team.run(step_sums, y, raw, counts, self.labels, values, delta, unit, self.bits, out)
        hi, lo, total = self.reducer.sum(out.sum(axis=0)[leaves]).T
        mean = (hi.astype(np.float64) + lo.astype(np.float64) * step) * step * unit / np.maximum(total, 1)
        values[leaves] += np.where(total > 0, mean, 0.0)
        return values

    def whole(self, index: np.ndarray) -> Grown:
        super().whole(index)
        self._drawn = False
        return Grown(Tree.stump(self.n_training), np.empty((0, 4), np.int64), True)
