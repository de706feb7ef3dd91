"""Shapley values of trees.

The contributions of a leaf depend on a row only through which of the leaf's conditions it meets, and so do those of a
group of leaves (paths.py): they are computed once for each word of answers that occurs, and looked up from then on.
(Yang, Fast TreeSHAP, 2021, tabulates single leaves ahead of time.) A deep leaf has more words than its table has
entries: the table then keeps the latest ones. Results do not depend on what is found there.

Path-dependent. A coalition S sends a row down its own way at columns of S and both ways, by cover, elsewhere. With
zᵢ the share of cover and oᵢ in {0, 1} whether the row meets condition i of a leaf of value v,

    φᵢ = v Σ_S |S|! (m-|S|-1)!/m! (oᵢ - zᵢ) Π_{j in S} oⱼ Π_{j not in S} zⱼ          S within the others of m columns
       = v (oᵢ - zᵢ) ∫₀¹ Π_{j≠i} (zⱼ(1-t) + oⱼ t) dt

because the factor with factorials is ∫ t^|S| (1-t)^(m-1-|S|) dt. The integrand is a polynomial of degree m-1, so
Gauss and Legendre's rule with ⌈m/2⌉ points is exact; nothing cancels, whatever the depth. Interactions are
½ v (oᵢ - zᵢ)(oⱼ - zⱼ) times the same integral without both.

Interventional. Coalitions take the other columns from a background row. If the row alone meets a conditions of a leaf,
the background row alone b, and no condition is met by neither, then φᵢ = v (a-1)! b!/(a+b)! for the former and
-v a! (b-1)!/(a+b)! for the latter (Lundberg et al. 2020), averaged over the background.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.jit import device, kernel
from stagewise.kernels.paths import holds, in_set
from stagewise.kernels.team import share

__all__ = ["Game", "Plan", "Room", "attribute", "background_words"]


class Game(NamedTuple):
    """What a coalition without some columns means, and what is asked."""

    pairs: bool  # interactions instead of values
    point: np.ndarray  # float64: Gauss-Legendre points on (0, 1) of 1, 2, 3, ... points, one rule after the other
    weight: np.ndarray  # float64: and their weights
    beta: np.ndarray  # float64 (m + 1, m + 1): p! q! / (p + q + 1)!
    background: np.ndarray  # float64 (n, n_columns); no rows: path-dependent
    share: np.ndarray  # float64 (n): weights of the background rows, of sum 1
    seen: np.ndarray  # int64 (n_leaves + 1): words of conditions that background rows meet, by leaf
    seen_word: np.ndarray  # int64
    seen_share: np.ndarray  # float64


class Plan(NamedTuple):
    """Where the entries of the groups' tables are kept, and where in a row of the result their numbers belong."""

    table: np.ndarray  # int64 (n_groups + 1): first number of a group's table
    mark: np.ndarray  # int64 (n_groups + 1): and of its marks, one for each word
    first: np.ndarray  # int64 (n_groups + 1): the numbers of one entry ...
    position: np.ndarray  # int64: ... and their places in a row of the result
    bits: int  # a table has at most 2**bits entries; a group with more words keeps those that came last


class Room(NamedTuple):
    """Scratch, one line a thread."""

    columns: np.ndarray  # float64 (n_columns, rows): a block of rows laid out by column
    total: np.ndarray  # float64 (numbers in a row of the result, rows): what a block's rows get
    words: np.ndarray  # int64 (rows)
    places: np.ndarray  # uint64 (rows): not signed, so that no index is tested for being negative
    states: np.ndarray  # uint8 (m)
    e: np.ndarray  # float64 (m, points)
    r: np.ndarray  # float64 (points)
    entry: np.ndarray  # float64 (longest entry)
    tables: np.ndarray  # float64
    marks: np.ndarray  # int64: the word of each entry, + 1; zeros at first


@device
def pair_place(i, j, n):
    """Where the pair of slots i != j of n stands in the order (0, 1), (0, 2), ..., (1, 2), ..."""
    low, high = min(i, j), max(i, j)
    return low * (2 * n - low - 1) // 2 + high - low - 1


@device
def set_powers(point, first, n, exponent, base, out):
    """out[k] = (1 - point[first + k])**exponent by squaring; base is scratch."""
    for k in range(n):
        out[k] = 1.0
        base[k] = 1.0 - point[first + k]
    while exponent > 0:
        if exponent & 1:
            for k in range(n):
                out[k] *= base[k]
        for k in range(n):
            base[k] *= base[k]
        exponent >>= 1


@device
def add_by_cover(groups, leaf, n_slots, state, game, e, r, out):
    """out += path-dependent contributions of a leaf, state[c] = 1 where its condition c is met. e, r: scratch.

    Conditions that are not met share a factor, the product of their z(1 - t), and all have the same value.
    """
    first = groups.held[leaf]
    m = groups.held[leaf + 1] - first
    q = (m + 1) // 2
    o = q * (q - 1) // 2
    scale, n_lost = groups.value[leaf], 0
    for c in range(m):
        if state[c] == 0:
            scale *= groups.ratio[first + c]
            n_lost += 1
    set_powers(game.point, o, q, n_lost, e[0], r)
    for k in range(q):
        r[k] *= scale * game.weight[o + k]
    for c in range(m):
        if state[c] != 0:
            z = groups.ratio[first + c]
            own = e[c]
            for k in range(q):
                factor = z + (1.0 - z) * game.point[o + k]
                r[k] *= factor
                own[k] = (1.0 - z) / factor
        elif game.pairs:  # (0 - z) / (z (1 - t)), written so that z may be 0
            for k in range(q):
                e[c, k] = -1.0 / (1.0 - game.point[o + k])
    lost = 0.0
    for k in range(q):
        lost -= r[k] / (1.0 - game.point[o + k])
    for c in range(m):
        place = groups.place[first + c]
        if not game.pairs:
            total = lost
            if state[c] != 0:
                total = 0.0
                for k in range(q):
                    total += r[k] * e[c, k]
            out[place] += total
        else:
            for d in range(c):
                total = 0.0
                for k in range(q):
                    total += r[k] * e[c, k] * e[d, k]
                out[pair_place(place, groups.place[first + d], n_slots)] += 0.5 * total


@device
def add_by_row(groups, leaf, n_slots, state, scale, game, out):
    """out += contributions of a leaf against one background row of weight `scale`.

    state[c]: 0 met by both, 1 by the row alone, 2 by the background row alone.
    """
    first = groups.held[leaf]
    m = groups.held[leaf + 1] - first
    a, b = 0, 0
    for c in range(m):
        a += state[c] == 1
        b += state[c] == 2
    v = groups.value[leaf] * scale
    if game.pairs:
        both = 0.5 * v * game.beta[a - 2, b] if a > 1 else 0.0
        mixed = -0.5 * v * game.beta[a - 1, b - 1] if a > 0 and b > 0 else 0.0
        neither = 0.5 * v * game.beta[a, b - 2] if b > 1 else 0.0
        for c in range(m):
            for d in range(c):
                if state[c] != 0 and state[d] != 0:
                    change = mixed if state[c] != state[d] else (both if state[c] == 1 else neither)
                    out[pair_place(groups.place[first + c], groups.place[first + d], n_slots)] += change
    else:
        plus = v * game.beta[a - 1, b] if a > 0 else 0.0
        minus = v * game.beta[a, b - 1] if b > 0 else 0.0
        for c in range(m):
            if state[c] == 1:
                out[groups.place[first + c]] += plus
            elif state[c] == 2:
                out[groups.place[first + c]] -= minus


@device
def entry_of(word, bits):
    """A place among 2**bits for a word."""
    return np.int64((np.uint64(word) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))


@device
def leaf_word(groups, leaf, word):
    """Which conditions of a leaf are met, as bits, from the answers to its group's tests."""
    first = groups.held[leaf]
    met = np.int64(0)
    for c in range(groups.held[leaf + 1] - first):
        if word & groups.mask[first + c] == groups.want[first + c]:
            met |= np.int64(1) << c
    return met


@device
def fill_entry(groups, g, word, game, state, e, r, out):
    """out = the contributions of a group for one word of answers."""
    out[:] = 0.0
    n_slots = groups.slot[g + 1] - groups.slot[g]
    for leaf in range(groups.leaf[g], groups.leaf[g + 1]):
        m = groups.held[leaf + 1] - groups.held[leaf]
        met = leaf_word(groups, leaf, word)
        if game.background.shape[0] == 0:
            for c in range(m):
                state[c] = (met >> c) & 1
            add_by_cover(groups, leaf, n_slots, state, game, e, r, out)
            continue
        full = (np.int64(1) << m) - 1
        for k in range(game.seen[leaf], game.seen[leaf + 1]):
            other = game.seen_word[k]
            if met | other == full and met != other:
                for c in range(m):
                    mine, theirs = (met >> c) & 1, (other >> c) & 1
                    state[c] = 0 if mine == theirs else 1 if mine == 1 else 2
                add_by_row(groups, leaf, n_slots, state, game.seen_share[k], game, out)


@device
def meets(x, groups, t):
    """Whether the row x meets test t."""
    return holds(
        x[groups.column[t]], groups.low[t], groups.high[t], groups.missing[t], groups.subset[t], groups.sets
    )  # fmt: skip


@device
def fill_deep(groups, g, x, game, state, e, r, out):
    """out = the contributions of a leaf that has no table, for the row x."""
    out[:] = 0.0
    leaf, first = groups.leaf[g], groups.test[g]
    m = groups.test[g + 1] - first
    if game.background.shape[0] == 0:
        for c in range(m):
            t = first + c
            state[c] = meets(x, groups, t)
        add_by_cover(groups, leaf, m, state, game, e, r, out)
        return
    for k in range(game.background.shape[0]):
        row = game.background[k]
        reached = True
        for c in range(m):
            t = first + c
            mine = meets(x, groups, t)
            theirs = meets(row, groups, t)
            state[c] = 0 if mine and theirs else 1 if mine else 2
            if not mine and not theirs:
                reached = False
                break
        if reached:
            add_by_row(groups, leaf, m, state, game.share[k], game, out)


@device
def set_words(columns, n, groups, g, words):
    """words[r] = the answers of row r of a block (laid out by column) to the tests of group g."""
    for r in range(n):
        words[r] = 0
    for t in range(groups.test[g], groups.test[g + 1]):
        x = columns[groups.column[t]]
        low, high, missing = groups.low[t], groups.high[t], groups.missing[t] != 0
        bit = np.int64(1) << (t - groups.test[g])
        if groups.subset[t] >= 0:
            codes = groups.sets[groups.subset[t]]
            for r in range(n):
                v = x[r]
                met = missing if v != v else in_set(v, codes)
                words[r] |= bit if met else np.int64(0)
            continue
        for r in range(n):  # as `holds`, without a branch
            v = x[r]
            met = (not (v <= low)) & (v <= high) | ((v != v) & missing)
            words[r] |= bit if met else np.int64(0)


@kernel
def attribute(tid, n_threads, X, groups, game, plan, g0, g1, room, out):
    """out[row, position] += contributions of the groups g0 .. g1, for the rows of X (float64, row-major).

    The tables of these groups are kept in `room` between calls, with marks for the entries that are there.
    """
    columns, total, words, places = room.columns[tid], room.total[tid], room.words[tid], room.places[tid]
    states, e, r, entry = room.states[tid], room.e[tid], room.r[tid], room.entry[tid]
    own, mark = room.tables[tid], room.marks[tid]
    rows = words.shape[0]
    k0, k1 = share(0, X.shape[0], tid, n_threads)
    for a in range(k0, k1, rows):
        n = min(rows, k1 - a)
        for i in range(n):
            for j in range(X.shape[1]):
                columns[j, i] = X[a + i, j]
        total[:] = 0.0
        for g in range(g0, g1):
            first = plan.first[g]
            width = plan.first[g + 1] - first
            if groups.worded[g] == 0:
                some = entry[:width]
                for i in range(n):
                    fill_deep(groups, g, X[a + i], game, states, e, r, some)
                    for s in range(width):
                        total[plan.position[first + s], i] += some[s]
                continue
            set_words(columns, n, groups, g, words)
            base, known = plan.table[g] - plan.table[g0], plan.mark[g] - plan.mark[g0]
            hashed = groups.test[g + 1] - groups.test[g] > plan.bits
            for i in range(n):
                word = words[i]
                index = entry_of(word, plan.bits) if hashed else word
                at = base + index * width
                places[i] = at
                if mark[known + index] != word + 1:
                    mark[known + index] = word + 1
                    fill_entry(groups, g, word, game, states, e, r, own[at : at + width])
                if hashed:  # at once: a later row of the block may put another word in its place
                    for s in range(width):
                        total[plan.position[first + s], i] += own[at + s]
            if not hashed:
                for s in range(width):
                    target, step = total[plan.position[first + s]], np.uint64(s)
                    for i in range(n):
                        target[i] += own[places[i] + step]
        for i in range(n):
            for j in range(total.shape[0]):
                out[a + i, j] += total[j, i]


@kernel
def background_words(shares, groups, columns, words, found, seen, seen_word, seen_share):
    """Fill seen, seen_word and seen_share: the words of conditions that background rows meet, by leaf; how many.

    columns: the background by column; words: int64 (n); found: int64, a power of two of at least 2 n numbers, for a
    table of the words of a leaf.
    """
    at = np.int64(0)
    seen[0] = 0
    bits = np.int64(0)
    while np.int64(1) << bits < found.shape[0]:
        bits += 1
    for g in range(groups.output.shape[0]):
        if groups.worded[g] != 0:
            set_words(columns, shares.shape[0], groups, g, words)
        for leaf in range(groups.leaf[g], groups.leaf[g + 1]):
            found[:] = -1
            for k in range(shares.shape[0] if groups.worded[g] != 0 else 0):
                word = leaf_word(groups, leaf, words[k])
                place = entry_of(word, bits)
                while found[place] >= 0 and seen_word[found[place]] != word:
                    place = (place + 1) & (found.shape[0] - 1)
                if found[place] < 0:
                    found[place], seen_word[at], seen_share[at] = at, word, 0.0
                    at += 1
                seen_share[found[place]] += shares[k]
            seen[leaf + 1] = at
    return at
