"""One tree while it grows on rows that several members hold: idea in sharded.py, steps in kernels/shards.py."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stagewise.kernels.exact import Packing
from stagewise.kernels.grow import Work
from stagewise.kernels.nodes import DEPTH, GRAD, HESS, LEFT, N_STATE, SLOT, START, STOP, Nodes
from stagewise.kernels.shards import (
    build_nodes,
    divide_nodes,
    keep_nodes,
    label_nodes,
    level_split,
    open_nodes,
    search_nodes,
)
from stagewise.kernels.split import BIN, COLUMN, MISSING_LEFT, N_FIELDS, Limits

if TYPE_CHECKING:
    from stagewise.backends.sharded import ShardedBackend

__all__ = ["Growth"]

_CHILDREN = 0.8, 0.5
"""What the improvements of two children are taken to be while they are not known, as shares of their parent's: enough
to choose the leaves that are divided ahead of their turn. Two classes, 31 leaves, 60 trees: 36 histograms and 12 rounds
a tree; (0.5, 0.25) 41 and 11, (0.9, 0.6) 33 and 14; 30 and 30 when nothing is done ahead."""


class Growth:
    """One tree while it grows. Nodes are numbered as they are tried; `finished` numbers those that are kept."""

    def __init__(self, backend: ShardedBackend, chosen: Packing, limits: Limits, n_rows: int) -> None:
        self.backend, self.chosen, self.limits = backend, chosen, limits
        self.wide = chosen._replace(narrow=False)  # histograms are kept in the wide form
        self.depth_limit = int(backend._shape().max_depth)
        capacity = 4 * min(backend.max_leaves, 1 << 16) + 2
        self.nodes = Nodes(
            np.zeros((capacity, N_STATE), np.int64), np.zeros((capacity, N_FIELDS), np.int64), np.zeros(capacity)
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
        backend, pools = self.backend, self.backend._pools
        parts = np.array([(*self.place[node], slot) for node, slot in zip(built, slots, strict=True)], np.int64)
        backend.team.run(
            build_nodes, backend.bins, backend._words, backend._more_words, backend._rows, parts, self.chosen,
            backend._packed, pools.grad, pools.hess,
        )  # fmt: skip
        backend._wire.add_up(self.chosen, pools, np.array(slots, np.int64))
        return slots

    def _searching(self, jobs: np.ndarray) -> tuple[object, ...]:
        backend = self.backend
        threads = backend.team.n_threads
        self._found = np.zeros((len(jobs), threads, 2, N_FIELDS), np.int64), np.zeros((len(jobs), threads, 2))
        return (
            backend.bins, *backend._wire.columns, jobs, self.nodes, self.limits, self.wide, backend._pools,
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
        """Which of the next splits are not known yet, if children that are not known are as good as expected."""
        backend, state, gain = self.backend, self.nodes.state, self.nodes.gain
        ahead, found = list(heap), 0
        most = min(backend._most, max(1, (len(backend._pools.grad) - 2) // 2))
        while ahead and splits > 0 and found < most:
            level, value, _, node = heapq.heappop(ahead)
            splits -= 1
            first = int(state[node, LEFT]) if node >= 0 else -1
            if first >= 0:
                for child in (first, first + 1):
                    if gain[child] > 0.0:
                        heapq.heappush(ahead, self._key(child, child))
                continue
            if node >= 0:
                found += 1
                yield node
            below = level + 1 if backend.params.growth == "levelwise" else 0
            for share in _CHILDREN:
                heapq.heappush(ahead, (below, share * value, len(self.place), -1))

    def by_level(self) -> list[int]:
        """One split for all nodes of a level; the nodes that are split, in that order."""
        backend, order, first, last, level = self.backend, [], 0, 1, 0
        while level < self.depth_limit:
            work = Work(
                backend._rows, backend._words, backend._more_words, *backend._scratch, backend._free, backend._room,
                backend._heap, backend._aside, backend.team.gate, backend.labels, backend.clock,
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
