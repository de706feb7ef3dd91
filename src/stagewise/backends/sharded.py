"""Growing trees on rows that several members hold: threads of one process, or the workers of a cluster.

Every member runs this on its own rows. Histograms of a batch of nodes are exchanged and added up, and all members take
the same decisions from the same integers; no row ever travels. With few members each gets all sums and searches all
columns; with many, each gets some columns of all members, searches those, and the best splits are exchanged.

The tree is that of `grow`, node by node. Which leaf is split next depends on the children of the one before, so a round
for every split would be needed; instead leaves are divided ahead of their turn, in the order in which they would be
split if no child were better than they are, and what turns out not to be needed is forgotten: there are about as many
rounds as the tree is deep.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np

from stagewise.backends.cpu import CpuBackend, Grown
from stagewise.backends.wire import Wire
from stagewise.data.shard import Shard
from stagewise.kernels.exact import Packing, power_above
from stagewise.kernels.grow import Work
from stagewise.kernels.histogram import Bins, Pools
from stagewise.kernels.leaves import leaf_sums
from stagewise.kernels.nodes import DEPTH, GRAD, HESS, LEFT, SLOT, START, STOP, Nodes
from stagewise.kernels.shards import (
    DIGIT,
    build_nodes,
    count_digits,
    divide_nodes,
    keep_nodes,
    keys_above,
    keys_to_values,
    label_nodes,
    level_split,
    open_nodes,
    residual_keys,
    search_nodes,
    step_sums,
)
from stagewise.kernels.split import BIN, COLUMN, MISSING_LEFT, N_FIELDS, Limits
from stagewise.losses.base import Loss
from stagewise.params import TreeParams
from stagewise.tree.tree import Tree

__all__ = ["ShardedBackend"]

_POOL_BYTES = 1 << 28
"""Room for histograms of nodes that may still be split; beyond it they are built again when needed."""

_BATCH_BYTES = 1 << 26
"""Histograms that are built and exchanged at once."""

_NO_ROWS = np.empty(0, np.uint32)

_FEW = 4
"""Members up to which all get all sums: one exchange a round instead of two, for at most twice the traffic."""


_EAGER = 0.35
"""A leaf is divided ahead of its turn when its improvement is at least this share of the next leaf's. Two classes, 31
leaves: 32 histograms and 9.4 rounds a tree; 42 and 9.3 without this, 30 and 30 when nothing is done ahead."""


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
        self.everywhere = self.reducer.size <= _FEW or params.growth == "symmetric"
        super().__init__(bins, n_rows, cuts, params, n_threads, n_training, in_sets, reducer=shard.reducer)
        self._used = n_training

    def _make_room(self) -> None:
        super()._make_room()
        size, threads, reducer = self.bins.stride * 256, self.team.n_threads, self.reducer
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
        self._built = np.empty((2, min(8, self._most), size), np.int64)  # grows with the largest batch
        ends = [self.n_columns * k // reducer.size for k in range(reducer.size + 1)]
        self._columns = (0, self.n_columns) if self.everywhere else (ends[reducer.rank], ends[reducer.rank + 1])
        self._wire = Wire(reducer, self.bins.n_bins, None if self.everywhere else ends)

    def _make_pools(self, packed: int, wide: int) -> Pools:
        return Pools(*(np.empty((0, 0), np.int64),) * 6)  # those of a whole tree at once are not needed

    def rows_used(self, index: np.ndarray) -> int:
        return self._used

    # --- growth ------------------------------------------------------------------------------------------------------

    def grow(
        self, chosen: Packing, index: np.ndarray, rest: np.ndarray | None, key: np.uint64, listed: np.ndarray = _NO_ROWS
    ) -> Grown:
        """As `CpuBackend.grow`; no `index` but a `rest` means that none of this member's rows is in use."""
        assert rest is not None and len(listed) == 0  # samples by gradients are not drawn from shards
        n = len(index) if len(index) or len(rest) else self.n_rows
        self._rows[0, :n] = index if len(index) else np.arange(n, dtype=np.uint32)
        growth = _Growth(self, chosen, self._limits(chosen, key), n)
        order = growth.by_level() if self.params.growth == "symmetric" else growth.best_first()
        self._used = int(growth.nodes.state[0, STOP])
        self._nodes, n_nodes = growth.finished(order)
        self.labels[rest] = n_nodes
        grown = self._harvest(n_nodes, chosen)
        return Grown(grown.tree, np.empty((0, 4), np.int64), grown.fine)

    # --- leaves ------------------------------------------------------------------------------------------------------

    def leaf_sums(
        self, grown: Grown, grad: np.ndarray, hess: np.ndarray, weight: np.ndarray, units: np.ndarray, loss: Loss
    ) -> np.ndarray:
        counts, gate = grown.tree.count, self.team.gate
        limbs = np.zeros((self.team.n_threads, len(counts) + 1, 6), np.int64)
        out = np.zeros((len(counts), 4))
        more = (units, self.bits, grown.fine, loss.leaf_kind, loss.power)
        self.team.run(leaf_sums, gate, self.labels, counts, grad, hess, weight, *more, limbs, out)
        total = self.reducer.sum(limbs[0])[None]  # thread 0 has added up what all found
        leaf_sums(0, 1, gate, self.labels[:0], counts, grad, hess, weight, *more, total, out)
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
        return Grown(Tree.stump(self.n_training), np.empty((0, 4), np.int64), True)


class _Growth:
    """One tree while it grows. Nodes are numbered as they are tried; `finished` numbers those that are kept."""

    def __init__(self, backend: ShardedBackend, chosen: Packing, limits: Limits, n_rows: int) -> None:
        self.backend, self.chosen, self.limits = backend, chosen, limits
        self.wide = chosen._replace(narrow=False)  # histograms are kept in the wide form
        self.depth_limit = int(backend._shape().max_depth)
        capacity = 4 * min(backend.max_leaves, 1 << 16) + 2
        self.nodes = Nodes(
            np.zeros((capacity, 9), np.int64), np.zeros((capacity, N_FIELDS), np.int64), np.zeros(capacity)
        )
        self.place = [(0, n_rows, 0)]  # of each node: where its rows are here, start, stop and line
        self.free = list(range(len(backend._pools.grad)))
        state = self.nodes.state
        state[0, [SLOT, LEFT]], self.nodes.gain[0] = -1, -1.0
        (state[0, SLOT],) = self._build([0], self._slots(1))
        grad, word = backend._wire.node_totals(backend._pools, int(state[0, SLOT]))
        bits = int(chosen.count_bits)
        state[0, STOP], state[0, GRAD], state[0, HESS] = word & ((1 << bits) - 1), grad, word >> bits
        if backend.params.growth == "symmetric":
            backend.team.run(search_nodes, *self._searching(np.array([[-1, 0, 0, 0, 0, 0, 0, 0]], np.int64)))
        else:
            self._search(np.array([[-1, 0, 0, self._can_split(0), 0, 0, 0, 0]], np.int64))

    # --- the steps ---------------------------------------------------------------------------------------------------

    def _can_split(self, node: int) -> bool:
        state, params = self.nodes.state, self.backend.params
        rows = state[node, STOP] - state[node, START]
        return bool(state[node, DEPTH] < self.depth_limit and rows >= 2 * params.min_samples_leaf and rows > 1)

    def _slots(self, n: int) -> list[int]:
        """n free slots; where there are too few, the nodes of least gain lose theirs and are built again if needed."""
        if len(self.free) < n:
            state, gain = self.nodes.state, self.nodes.gain
            waiting = [k for k in range(len(self.place)) if state[k, SLOT] >= 0 and k not in self._busy]
            for node in sorted(waiting, key=lambda k: (gain[k], -k))[: n - len(self.free)]:
                self._release(node)
        return [self.free.pop() for _ in range(n)]

    _busy: frozenset[int] = frozenset()  # nodes whose histograms are needed now

    def _release(self, node: int) -> None:
        if self.nodes.state[node, SLOT] >= 0:
            self.free.append(int(self.nodes.state[node, SLOT]))
            self.nodes.state[node, SLOT] = -1

    def _build(self, built: Sequence[int], slots: list[int]) -> list[int]:
        """Histograms of some nodes, summed over all members, into these slots."""
        backend = self.backend
        if backend._built.shape[1] < len(built):
            backend._built = np.empty((2, len(built), backend.bins.stride * 256), np.int64)
        grad, hess = backend._built[:, : len(built)]
        parts = np.array([self.place[node] for node in built], np.int64)
        backend.team.run(
            build_nodes, backend.bins, backend._words, backend._more_words, backend._rows, parts, self.chosen,
            backend._packed, grad, hess,
        )  # fmt: skip
        backend._wire.add_up(grad, hess, self.chosen, backend._pools, np.array(slots, np.int64))
        return slots

    def _searching(self, jobs: np.ndarray) -> tuple[object, ...]:
        backend = self.backend
        threads = backend.team.n_threads
        self._found = np.zeros((len(jobs), threads, 2, N_FIELDS), np.int64), np.zeros((len(jobs), threads, 2))
        return (
            backend.bins, *backend._columns, jobs, self.nodes, self.limits, self.wide, backend._pools,
            backend._scratch[0], backend._scratch[4], *self._found,
        )  # fmt: skip

    def _search(self, jobs: np.ndarray) -> None:
        """The best splits of the children of some nodes; what cannot be split gives its slot back."""
        backend = self.backend
        backend.team.run(search_nodes, *self._searching(jobs))
        found, gains = self._found
        if not backend.everywhere:
            found, gains = backend._wire.findings(found, gains)
        keep_nodes(jobs, self.nodes, self.limits, self.wide, found, gains)
        for node in {int(node) for node in jobs[:, 1:3].ravel()}:
            if self.nodes.gain[node] <= 0.0:
                self._release(node)

    def _divide(self, parents: Sequence[int]) -> None:
        """Divide the rows of some nodes by their splits, and write down their children."""
        backend, first = self.backend, len(self.place)
        if first + 2 * len(parents) > len(self.nodes.gain):
            self.nodes = Nodes(*(np.concatenate([own, np.zeros_like(own)]) for own in self.nodes))
        lefts = np.arange(first, first + 2 * len(parents), 2)
        jobs = np.zeros((len(parents), 7), np.int64)
        jobs[:, :3] = [self.place[node] for node in parents]
        jobs[:, 3:6] = self.nodes.split[parents][:, [COLUMN, BIN, MISSING_LEFT]]
        threads = backend.team.n_threads
        backend.team.run(
            divide_nodes, backend.team.gate, backend.bins, backend._rows, jobs, self.nodes.split[parents],
            backend._scratch[5], np.zeros((threads, len(parents)), np.int64),
        )  # fmt: skip
        open_nodes(self.nodes, np.array(parents, np.int64), lefts)
        for start, stop, line, *_, middle in jobs.tolist():
            self.place += [(start, middle, 1 - line), (middle, stop, 1 - line)]

    def _expand(self, parents: Sequence[int], numbers: int = 0) -> None:
        """Divide some nodes and find the best splits of their children. numbers: that of the first child, if columns
        are drawn by it."""
        self._divide(parents)
        state = self.nodes.state
        jobs, built = [], []
        self._busy = frozenset(parents)
        for parent in parents:
            left = int(state[parent, LEFT])
            rows = state[left : left + 2, STOP] - state[left : left + 2, START]
            small = left + int(rows[1] < rows[0])
            big = 2 * left + 1 - small
            do_small, do_big = self._can_split(small), self._can_split(big)
            if not (do_small or do_big):
                self._release(parent)
                continue
            subtract = do_big and state[parent, SLOT] >= 0
            if do_small or subtract:
                built.append(small)
            if do_big and not subtract:
                built.append(big)
            jobs.append([parent, small, big, do_small, do_big, subtract, numbers + small - left, numbers + big - left])
        if not jobs:
            return
        slots = self._slots(len(built))
        self._build(built, slots)
        for node, slot in zip(built, slots, strict=True):
            state[node, SLOT] = slot
        for parent, _, big, _, _, subtract, *_ in jobs:
            if subtract:  # in the parent's place
                state[big, SLOT] = state[parent, SLOT]
            else:
                self._release(parent)
        self._search(np.array(jobs, np.int64))
        for parent, *_ in jobs:
            state[parent, SLOT] = -1
        self._busy = frozenset()

    # --- orders of growth --------------------------------------------------------------------------------------------

    def _key(self, node: int, number: int) -> tuple[int, float, int, int]:
        """Nodes are split in the order of these keys, see kernels/frontier.py."""
        level = int(self.nodes.state[node, DEPTH]) if self.backend.params.growth == "levelwise" else 0
        return level, -float(self.nodes.gain[node]), number, node

    def best_first(self) -> list[int]:
        """Split until the tree is full; the nodes that are split, in that order."""
        state, gain, most = self.nodes.state, self.nodes.gain, self.backend.max_leaves
        drawn = (
            int(self.limits.max_columns) < self.backend.n_columns
        )  # by the numbers of nodes: none may be tried ahead
        heap = [self._key(0, 0)] if gain[0] > 0.0 else []
        order: list[int] = []
        while heap and len(order) + 1 < most:
            node, left = heap[0][3], most - 1 - len(order)
            state, gain = self.nodes.state, self.nodes.gain
            if state[node, LEFT] < 0:
                if left == 1:  # its children will not be split
                    self._divide([node])
                elif drawn:
                    self._expand([node], 2 * len(order) + 1)
                else:
                    self._expand(list(self._ahead(heap, left - 1)))
                continue
            heapq.heappop(heap)
            first = int(state[node, LEFT])
            for child in (first, first + 1):
                if gain[child] > 0.0:
                    heapq.heappush(heap, self._key(child, 2 * len(order) + 1 + child - first))
            order.append(node)
        return order

    def _ahead(self, heap: list[tuple[int, float, int, int]], splits: int) -> Iterator[int]:
        """Which of the next splits are not known yet, if no child that is not known comes before them."""
        backend, state, gain = self.backend, self.nodes.state, self.nodes.gain
        ahead, found, least = list(heap), 0, 0.0
        most = min(backend._most, max(1, (len(backend._pools.grad) - 2) // 2))
        while ahead and splits > 0 and found < most:
            node = heapq.heappop(ahead)[3]
            splits -= 1
            first = int(state[node, LEFT])
            if first < 0:
                if found == 0:
                    least = _EAGER * gain[node] if backend.params.growth == "leafwise" else 0.0
                if gain[node] < least:
                    return
                found += 1
                yield node
            else:
                for child in (first, first + 1):
                    if gain[child] > 0.0:
                        heapq.heappush(ahead, self._key(child, child))

    def by_level(self) -> list[int]:
        """One split for all nodes of a level; the nodes that are split, in that order."""
        backend, order, first, last, level = self.backend, [], 0, 1, 0
        while level < self.depth_limit:
            work = Work(
                backend._rows, backend._words, backend._more_words, *backend._scratch, backend._free, backend._room,
                backend._heap, backend.team.gate, backend.labels, backend.clock,
            )  # fmt: skip
            backend.team.run(
                level_split, backend.bins, self.nodes, first, last, level, self.limits, backend._shape(), self.wide,
                backend._pools, work,
            )  # fmt: skip
            parents = [node for node in range(first, last) if self.nodes.gain[node] > 0.0]
            if not parents:
                break
            level += 1
            if level == self.depth_limit:
                self._divide(parents)
            else:
                self._expand_level(parents)
            order += parents
            first, last = last, len(self.place)
        return order

    def _expand_level(self, parents: list[int]) -> None:
        """Divide all nodes of a level; every child gets its histogram."""
        self._divide(parents)
        state, jobs, built = self.nodes.state, [], []
        for parent in parents:
            left = int(state[parent, LEFT])
            rows = state[left : left + 2, STOP] - state[left : left + 2, START]
            small = left + int(rows[1] < rows[0])
            jobs.append([parent, small, 2 * left + 1 - small, 0, 0, 1, 0, 0])
            built.append(small)
        for at in range(0, len(built), self.backend._most):
            some = built[at : at + self.backend._most]
            for node, slot in zip(some, self._build(some, [self.free.pop() for _ in some]), strict=True):
                state[node, SLOT] = slot
        for parent, _, big, *_ in jobs:
            state[big, SLOT] = state[parent, SLOT]
        self.backend.team.run(search_nodes, *self._searching(np.array(jobs, np.int64)))
        for parent, *_ in jobs:
            state[parent, SLOT] = -1

    # --- the result --------------------------------------------------------------------------------------------------

    def finished(self, order: list[int]) -> tuple[Nodes, int]:
        """The records of the nodes that are kept, numbered as `grow` numbers them, and how many there are; the labels
        of this member's rows are written."""
        state, n_nodes = self.nodes.state, 2 * len(order) + 1
        kept = np.zeros(n_nodes, np.int64)
        number = {0: 0}
        for k, node in enumerate(order):
            first = int(state[node, LEFT])
            for child in (0, 1):
                number[first + child] = 2 * k + 1 + child
                kept[2 * k + 1 + child] = first + child
        nodes = Nodes(*(np.ascontiguousarray(own[kept]) for own in self.nodes))
        split = set(order)
        nodes.state[:, LEFT] = [number[int(state[node, LEFT])] if node in split else -1 for node in kept.tolist()]
        parts = []
        for node in range(len(self.place)):  # parents come first, so a node that was tried passes its leaf's number on
            if node not in number:
                continue
            if node not in split and state[node, LEFT] >= 0:
                first = int(state[node, LEFT])
                number[first] = number[first + 1] = number[node]
            elif node not in split:
                parts.append([*self.place[node], number[node]])
        self.backend.team.run(label_nodes, self.backend._rows, np.array(parts, np.int64), self.backend.labels)
        return nodes, n_nodes
