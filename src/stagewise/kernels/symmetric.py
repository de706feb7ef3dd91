"""Growing a symmetric tree: one split for all nodes of a level, the one that improves their sum most.

A node for which the level's split is not allowed (too few rows or too little weight on a side) stays a leaf, so the
limits of a tree hold for every leaf of a symmetric tree as well.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.bundles import PLAIN, fill_lefts, left_word, missing_word, physical_column
from stagewise.kernels.expansion import build_rest, build_shared, columns_of, partition_node, totals_of
from stagewise.kernels.grow import begin, label_leaves
from stagewise.kernels.histogram import width_of
from stagewise.kernels.jit import counting, device, kernel, never_inline
from stagewise.kernels.nodes import (
    GRAD,
    HESS,
    LEFT,
    SLOT,
    START,
    STOP,
    add_children,
    can_split,
    is_wide,
    smaller_child,
)
from stagewise.kernels.slots import assign_slots, release_slot
from stagewise.kernels.split import (
    BIN,
    COLUMN,
    COUNT_LEFT,
    GRAD_LEFT,
    HESS_LEFT,
    MISSING_LEFT,
    N_FIELDS,
    NOT_SEEN,
    SET,
    column_threshold,
    comes_first,
    improvement,
    is_drawn,
    noise,
    running_sums,
    split_gains,
    split_value,
    unpack,
)
from stagewise.kernels.subsets import COUNT, G_SUM, H_SUM, ORDER, level_sums, order_levels, set_gain, write_set
from stagewise.kernels.team import TURN, barrier

__all__ = ["grow_symmetric"]


@device
def add_gains(wide, first, second, n, more, more_second, node, state, limits, packing, gains, total):
    """total[b] += the improvement of the split after bin b in one node; nothing where it is not allowed there."""
    never_inline()
    G, H, C = state[node, GRAD], state[node, HESS], state[node, STOP] - state[node, START]
    split_gains(wide, first, second, n, more, more_second, G, H, C, limits, packing, gains)
    for b in range(n):
        if gains[b] >= 0.0:
            total[b] += improvement(gains[b], G, H, limits, packing)


@device
def add_nodes(bins, column, nodes, first, last, limits, shape, packing, pools, gains, lefts, total):
    """total[side, b] = the improvement of the split after bin b (of the code b, in a bundle), summed over the nodes
    first..last, with missing values on the right and on the left. Whether any are missing (not told of bundles)."""
    never_inline()
    several = bins.bundles.column.shape[0] > 0 and bins.bundles.kind[column] != PLAIN
    n, missing = bins.n_bins[column], False
    total[0, :] = 0.0
    total[1, :] = 0.0
    for node in range(first, last):
        if can_split(nodes.state, node, limits.min_samples_leaf, shape.max_depth):
            wide, slot = is_wide(nodes.state, node, packing), nodes.state[node, SLOT]
            word, more_word, miss, miss_second = running_sums(pools, wide, slot, column, n)
            missing |= miss != 0 or miss_second != 0
            sums, more_sums = word, more_word
            if several:
                word, more_word = lefts[0], lefts[1 if wide else 0]
            for side in range(2):
                if several:
                    fill_lefts(sums, bins.bundles, column, n, side == 1, lefts[0])
                    if wide:
                        fill_lefts(more_sums, bins.bundles, column, n, side == 1, lefts[1])
                add_gains(
                    wide, word, more_word, n if several else n - side, side * miss, side * miss_second, node,
                    nodes.state, limits, packing, gains, total[side],
                )  # fmt: skip
    return missing


@device
def missing_in(bins, feature, nodes, first, last, limits, shape, packing, pools):
    """Whether a member of a bundle has missing values in one of the nodes first..last."""
    bundles = bins.bundles
    if bundles.size[feature] < bundles.n_bins[feature]:
        return False
    for node in range(first, last):
        if can_split(nodes.state, node, limits.min_samples_leaf, shape.max_depth):
            wide, slot = is_wide(nodes.state, node, packing), nodes.state[node, SLOT]
            column = bundles.column[feature]
            _, more_sums, _, _ = running_sums(pools, wide, slot, column, bins.n_bins[column])
            if missing_word(more_sums, bundles, feature) != 0:
                return True
    return False


@device
def level_order(bins, nodes, first, last, j, limits, shape, packing, pools, work, tid):
    """Put the codes of a column in order for all nodes first..last together; (how many, rows of all nodes).

    By how far the gradients of a code are from its nodes' means: the nodes will have values of their own.
    """
    n = bins.n_bins[j]
    sums, keys, weight = work.levels[tid], work.gains[tid, 0], work.gains[tid, 1]
    counts, C = work.levels[tid, 5], np.int64(0)
    for b in range(n + 1):
        keys[b], weight[b], counts[b] = 0.0, 0.0, 0
    for node in range(first, last):
        if can_split(nodes.state, node, limits.min_samples_leaf, shape.max_depth):
            wide, slot = is_wide(nodes.state, node, packing), nodes.state[node, SLOT]
            first_word, second_word, miss, miss_second = running_sums(pools, wide, slot, j, n)
            level_sums(wide, first_word, second_word, n, miss, miss_second, packing, sums)
            mean = nodes.state[node, GRAD] / max(nodes.state[node, HESS], np.int64(1))
            for b in range(n + 1):
                keys[b] += sums[G_SUM, b] - sums[H_SUM, b] * mean
                weight[b] += sums[H_SUM, b]
                counts[b] += sums[COUNT, b]
                C += sums[COUNT, b]
    for b in range(n + 1):
        keys[b] = keys[b] * packing.grad_unit / (weight[b] * packing.hess_unit + limits.cat_smooth)
        sums[COUNT, b] = counts[b]
    return order_levels(keys, sums, n, np.int64(1) if n <= limits.max_onehot else limits.level_rows), C


@device
def scan_level_sets(bins, nodes, first, last, j, limits, shape, packing, pools, work, tid, best):
    """The best set of codes of one column for all nodes first..last together, if it is better than `best`; the new best
    value. The rules of subsets.best_set hold for the rows of all nodes, those of leaves for every node."""
    never_inline()
    n = bins.n_bins[j]
    few = n <= limits.max_onehot
    size, C = level_order(bins, nodes, first, last, j, limits, shape, packing, pools, work, tid)
    longest = size if few else min(limits.max_group, (size + 1) // 2)
    sums, counts, found = work.levels[tid], work.levels[tid, 5], work.levels[tid, 4]
    for direction in range(1 if few else 2):
        total = work.gains[tid, 1]
        for i in range(longest):
            total[i] = 0.0
        for node in range(first, last):
            if not can_split(nodes.state, node, limits.min_samples_leaf, shape.max_depth):
                continue
            wide, slot = is_wide(nodes.state, node, packing), nodes.state[node, SLOT]
            first_word, second_word, miss, miss_second = running_sums(pools, wide, slot, j, n)
            level_sums(wide, first_word, second_word, n, miss, miss_second, packing, sums)
            G, H, rows = nodes.state[node, GRAD], nodes.state[node, HESS], nodes.state[node, STOP]
            rows -= nodes.state[node, START]
            g, h, c = np.int64(0), np.int64(0), np.int64(0)
            for i in range(longest):
                b = sums[ORDER, size - 1 - i if direction == 1 else i]
                if few:
                    g, h, c = np.int64(0), np.int64(0), np.int64(0)
                g, h, c = g + sums[G_SUM, b], h + sums[H_SUM, b], c + sums[COUNT, b]
                gain = set_gain(g, h, c, G, H, rows, 0.0 if few else limits.cat_l2, limits, packing)
                total[i] += gain if gain > 0.0 else 0.0
        for b in range(n + 1):
            sums[COUNT, b] = counts[b]
        c, group = np.int64(0), np.int64(0)
        for i in range(longest):
            b = sums[ORDER, size - 1 - i if direction == 1 else i]
            c, group = (counts[b] if few else c + counts[b]), group + counts[b]
            if not few and (group < limits.group_rows or C - c < limits.group_rows):
                continue
            group = np.int64(0)
            if total[i] > best:
                best = total[i]
                found[0], found[1], found[2] = direction, i if few else 0, i
                work.found[tid, 0, COLUMN] = j
                write_set(sums, size, n, found, 2 * c >= C, work.found[tid, 0])
    return best


@counting
def scan_level(bins, nodes, first, last, level, limits, shape, packing, pools, work, tid, n_threads):
    """This thread's best split for all nodes first..last together."""
    never_inline()
    best, found, total = 0.0, work.found[tid, 0], work.gains[tid, 1:]
    bundles, n_features = bins.bundles, limits.tree_columns.shape[0]
    bundled = bundles.column.shape[0] > 0
    lefts = np.empty((2, 256 if bundled else 1), np.int64)
    key, threshold = limits.key + np.uint64(level), np.uint64(0)
    if limits.max_columns < n_features:
        threshold = column_threshold(key, n_features, limits.tree_columns, limits.max_columns)
    c0, c1 = columns_of(width_of(bins), tid, n_threads)
    for column in range(c0, min(c1, bins.n_bins.shape[0])):
        several = bundled and bundles.kind[column] != PLAIN
        start, stop = (bundles.start[column], bundles.start[column + 1]) if bundled else (column, column + 1)
        if not several and not is_drawn(limits, key, threshold, bundles.member[start] if bundled else column):
            continue
        if limits.in_sets[bundles.member[start] if bundled else column]:  # tables with such columns are not bundled
            best = scan_level_sets(bins, nodes, first, last, column, limits, shape, packing, pools, work, tid, best)
            continue
        missing = add_nodes(
            bins, column, nodes, first, last, limits, shape, packing, pools, work.gains[tid, 0], lefts, total
        )  # fmt: skip
        for m in range(start, stop):
            j = bundles.member[m] if bundled else m
            lo, n = np.int64(0), bins.n_bins[column]
            if several:
                if not is_drawn(limits, key, threshold, j):
                    continue
                lo, n = bundles.first[j], bundles.size[j]
                missing = missing_in(bins, j, nodes, first, last, limits, shape, packing, pools)
            for side in range(2 if missing else 1):
                for b in range(n):
                    worth = total[side, lo + b]
                    if worth > best or (bundled and worth == best and worth > 0.0 and j < found[COLUMN]):
                        best = worth
                        found[COLUMN], found[BIN], found[MISSING_LEFT] = j, b, side if missing else NOT_SEEN
    work.found_gain[tid, 0] = best


@device
def sums_of_set(wide, first, second, more, more_second, n, found, packing):
    """(grad, hess, count) of the codes of a split by a set, and of what goes left in any case."""
    total, total_second = more, more_second
    before, before_second = np.int64(0), np.int64(0)
    for b in range(n):
        if (found[SET + b // 64] >> (b % 64)) & 1:
            total += first[b] - before
            total_second += second[b] - before_second
        before, before_second = first[b], second[b]
    return unpack(wide, total, total_second, packing)


@device
def take_split(bins, nodes, node, found, limits, packing, pools):
    """Write the level's split as this node's, with its sums and its own improvement; none where it is not allowed."""
    state = nodes.state
    j, b, side = found[COLUMN], found[BIN], np.int64(found[MISSING_LEFT] == 1)
    wide, slot = is_wide(state, node, packing), state[node, SLOT]
    column = physical_column(bins.bundles, j)
    first, second, miss, miss_second = running_sums(pools, wide, slot, column, bins.n_bins[column])
    if bins.bundles.column.shape[0] > 0 and bins.bundles.first[j] >= 0:
        word = left_word(first, bins.bundles, j, b, side == 1)
        more_word = left_word(second, bins.bundles, j, b, side == 1)
        gl, hl, cl = unpack(wide, word, more_word, packing)
    elif b >= 0:
        gl, hl, cl = unpack(wide, first[b] + side * miss, second[b] + side * miss_second, packing)
    else:
        gl, hl, cl = sums_of_set(wide, first, second, side * miss, side * miss_second, bins.n_bins[j], found, packing)
    G, H, C = state[node, GRAD], state[node, HESS], state[node, STOP] - state[node, START]
    value = split_value(gl, hl, cl, G, H, C, limits, packing)
    nodes.gain[node] = -1.0
    if value >= 0.0:
        for k in range(N_FIELDS):
            nodes.split[node, k] = found[k]
        nodes.split[node, GRAD_LEFT], nodes.split[node, HESS_LEFT], nodes.split[node, COUNT_LEFT] = gl, hl, cl
        gain = improvement(value, G, H, limits, packing)
        nodes.gain[node] = gain if gain > 0.0 else 1e-300  # split all the same: the level as a whole improves


@device
def choose_level(bins, nodes, first, last, limits, shape, packing, pools, work, n_threads):
    """The best of the threads' findings becomes the split of the level's nodes (one thread does this)."""
    best = 0
    for t in range(1, n_threads):
        if comes_first(work.found_gain[t, 0], work.found[t, 0], work.found_gain[best, 0], work.found[best, 0]):
            best = t
    least = max(limits.min_gain, 0.0)
    for node in range(first, last):
        rows = nodes.state[node, STOP] - nodes.state[node, START]
        least += noise(nodes.state[node, GRAD], nodes.state[node, HESS], rows, packing)
    good = work.found_gain[best, 0] > least
    for node in range(first, last):
        nodes.gain[node] = -1.0
        if good and can_split(nodes.state, node, limits.min_samples_leaf, shape.max_depth):
            take_split(bins, nodes, node, work.found[best, 0], limits, packing, pools)


@kernel
def grow_symmetric(tid, n_threads, bins, index, n_rows, packing, limits, shape, pools, work, nodes):
    """Grow one symmetric tree; arguments and result as in `grow.grow`. There must be a slot for every leaf."""
    state = nodes.state
    parent, small, big = np.int64(-1), np.int64(0), np.int64(0)
    first, last, level = np.int64(0), np.int64(1), np.int64(0)
    if begin(nodes, index, n_rows, work, tid, n_threads):
        return -1
    at, n_nodes = np.int64(-1), np.int64(1)  # the root is built like a child: as the smaller one of no parent
    while level < shape.max_depth:
        if parent >= 0 or at < 0:
            if tid == 0:
                work.gate[TURN] = 0
                assign_slots(state, work.free, work.room, packing, parent, small, big, parent >= 0)
                if parent >= 0:  # handed out again at the next split at the earliest: it is still read in this one
                    release_slot(state, work.free, packing, parent, big)
            if barrier(work.gate, n_threads) or build_shared(
                bins, nodes, parent, small, big, True, parent >= 0, work, packing, pools, tid, n_threads, True
            ):
                return -1
            c0, c1 = columns_of(width_of(bins), tid, n_threads)
            build_rest(bins, nodes, parent, small, big, True, parent >= 0, work, packing, pools, n_threads, tid, c0, c1)
            if parent < 0 and c0 == 0 and c1 > 0:
                state[0, GRAD], state[0, HESS] = totals_of(
                    pools, is_wide(state, 0, packing), state[0, SLOT], np.int64(0), packing
                )
            at = max(at, first - 1)
        parent = np.int64(-1)
        at += 1
        if at == first:  # every node of the level has its histogram: choose its split
            if barrier(work.gate, n_threads):
                return -1
            scan_level(bins, nodes, first, last, level, limits, shape, packing, pools, work, tid, n_threads)
            if barrier(work.gate, n_threads):
                return -1
            if tid == 0:
                choose_level(bins, nodes, first, last, limits, shape, packing, pools, work, n_threads)
            if barrier(work.gate, n_threads):
                return -1
        while at < last and nodes.gain[at] <= 0.0:
            at += 1
        if at == last:
            if n_nodes == last:
                break
            first, last, level = last, n_nodes, level + 1
            at = first - 1
            continue
        if partition_node(bins, nodes, at, work, tid, n_threads, tid, True):
            return -1
        if tid == 0:
            add_children(nodes, at, n_nodes)
        if barrier(work.gate, n_threads):
            return -1
        n_nodes += 2
        if level + 1 < shape.max_depth:
            parent = at
            small = smaller_child(state, state[parent, LEFT])
            big = 2 * state[parent, LEFT] + 1 - small
    label_leaves(nodes, n_nodes, work, tid, n_threads)
    return n_nodes
