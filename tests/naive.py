"""A slow twin of every kernel: the formula or the definition in plain Python and NumPy, never the kernel's own way.

Sums are Python integers and fractions, hashes Python integers, quantiles sorts, splits a look at every one of them,
predictions a walk of one row at a time. A twin takes what the definition needs and returns the result, so it does not
follow the kernel's arguments; tests/kernels/build.py stands between the two.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.interpolate import BSpline

import naive_entries
import naive_paths
import naive_residuals
import naive_shards
import naive_subsets

MISSING = 255  # the bin code of a missing value
RIGHT, LEFT, NOT_SEEN = 0, 1, 2  # where missing values go; NOT_SEEN: there were none

# --- exact.py --------------------------------------------------------------------------------------------------------

_MASK64 = (1 << 64) - 1


def splitmix64(key: int, number: int) -> int:
    """Output of the generator splitmix64 (Steele, Lea & Flood 2014) in the state key + number · golden ratio."""
    z = (key + number * 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return z ^ (z >> 31)


def hash_values(key: int, first: int, n: int) -> list[int]:
    return [splitmix64(key, first + i) for i in range(n)]


def hash_threshold_counts(key: int, skip: np.ndarray) -> np.ndarray:
    """How many of the rows that are not skipped have each value of the hash's top 16 bits."""
    tops = [splitmix64(key, i) >> 48 for i in np.flatnonzero(~skip).tolist()]
    return np.bincount(np.array(tops, np.int64), minlength=1 << 16)


def mix_rows(key: int, skip: np.ndarray, bucket: int, threshold: int) -> tuple[list[int], list[int], list[int]]:
    """Rows at or below the threshold, all others, and the hashes whose top 16 bits are `bucket`."""
    hashes = hash_values(key, 0, len(skip))
    chosen = [i for i, h in enumerate(hashes) if not skip[i] and h <= threshold]
    rest = sorted(set(range(len(skip))) - set(chosen))
    return chosen, rest, [h for i, h in enumerate(hashes) if not skip[i] and h >> 48 == bucket]


def smallest_hashes(key: int, skip: np.ndarray, wanted: int) -> tuple[list[int], list[int]]:
    """The wanted rows with the smallest hashes, by sorting, and the rest."""
    eligible = np.flatnonzero(~skip).tolist()
    chosen = sorted(sorted(eligible, key=lambda i: splitmix64(key, i))[:wanted])
    return chosen, sorted(set(range(len(skip))) - set(chosen))


def fixed_point(value: float, unit: float, bits: int) -> int:
    """A value in steps of unit · 2^-bits, cut off towards zero."""
    return int(Fraction(value) / Fraction(unit) * 2**bits)


def sum_products(a: np.ndarray, b: np.ndarray, unit: float, bits: int) -> int:
    """Σ a·b in steps of unit · 2^-bits; b may be empty. Each product is rounded to a float once."""
    products = [x * y for x, y in zip(a, b, strict=True)] if len(b) else a
    return sum(fixed_point(float(v), unit, bits) for v in products)


# --- pairs.py --------------------------------------------------------------------------------------------------------


class Losses(NamedTuple):
    """Of every row: the first and second derivative of the loss in f, times the weight, and its value."""

    grad: np.ndarray
    hess: np.ndarray
    value: np.ndarray


def _weighed(grad: np.ndarray, hess: np.ndarray, value: np.ndarray, weight: np.ndarray) -> Losses:
    w = weight if len(weight) else np.ones_like(value)
    return Losses(grad * w, hess * w, value * w)


def squared_error_pairs(y: np.ndarray, f: np.ndarray, weight: np.ndarray, option: float) -> Losses:
    """½(y - f)²; the value is twice that."""
    return _weighed(-(y - f), np.ones_like(f), (y - f) ** 2, weight)


def absolute_error_pairs(y: np.ndarray, f: np.ndarray, weight: np.ndarray, option: float) -> Losses:
    """|y - f|, ESL table 10.2."""
    return _weighed(-np.sign(y - f), np.ones_like(f), np.abs(y - f), weight)


def huber_pairs(y: np.ndarray, f: np.ndarray, weight: np.ndarray, option: float) -> Losses:
    """Friedman (2001) section 4.4 with δ = option."""
    r = y - f
    near = np.abs(r) <= option
    grad = np.where(near, -r, -option * np.sign(r))
    value = np.where(near, r**2 / 2, option * (np.abs(r) - option / 2))
    return _weighed(grad, np.ones_like(f), value, weight)


def quantile_pairs(y: np.ndarray, f: np.ndarray, weight: np.ndarray, option: float) -> Losses:
    """α(y - f) where y is above f, (1 - α)(f - y) where it is below, with α = option; flat where they are equal."""
    r = y - f
    grad = np.select([r > 0, r < 0], [-option, 1 - option], 0.0)
    return _weighed(grad, np.ones_like(f), np.maximum(option * r, (option - 1) * r), weight)


def tweedie_pairs(y: np.ndarray, f: np.ndarray, weight: np.ndarray, option: float) -> Losses:
    """Half the unit deviance of variance μ^p less its part in y alone, μ = e^f (Jørgensen 1997, section 4.2).

    -y·μ^(1-p)/(1-p) + μ^(2-p)/(2-p);   p = 1: μ - y·log μ;   p = 2: log μ + y/μ
    """
    p, mean = option, np.exp(f)
    grad = mean ** (1 - p) * (mean - y)
    hess = (2 - p) * mean ** (2 - p) - (1 - p) * y * mean ** (1 - p)
    if p == 1:
        value = mean - y * f
    elif p == 2:
        value = f + y / mean
    else:
        value = -y * mean ** (1 - p) / (1 - p) + mean ** (2 - p) / (2 - p)
    return _weighed(grad, hess, value, weight)


def log_loss_pairs(y: np.ndarray, f: np.ndarray, weight: np.ndarray, option: float) -> Losses:
    """-log of the probability of what happened, with log-odds f."""
    sign = 2 * y - 1
    value = np.logaddexp(0.0, -sign * f)
    return _weighed(-sign * special.expit(-sign * f), special.expit(f) * special.expit(-f), value, weight)


def exponential_pairs(y: np.ndarray, f: np.ndarray, weight: np.ndarray, option: float) -> Losses:
    """e^(-s·f), s = ±1 (ESL 10.4)."""
    sign = 2 * y - 1
    loss = np.exp(-sign * f)
    return _weighed(-sign * loss, loss, loss, weight)


def multiclass_pairs(y: np.ndarray, f: np.ndarray, weight: np.ndarray, option: float) -> Losses:
    """-log p_y with p = softmax of f (K, n); hess is `option` times p(1 - p), K/(K - 1) in Friedman's Algorithm 6."""
    classes = len(f)
    p = special.softmax(f, axis=0)
    others = np.array([np.delete(p, k, axis=0).sum(axis=0) for k in range(classes)])  # 1 - p without cancellation
    happened = np.arange(classes)[:, None] == y
    value = special.logsumexp(f, axis=0) - f[y.astype(int), np.arange(len(y))]
    w = weight if len(weight) else np.ones(len(y))
    return Losses(np.where(happened, -others, p) * w, p * others * option * w, value * w)


def sigmoid(raw: np.ndarray, factor: float) -> np.ndarray:
    """Probabilities of the first and the second class, (n, 2)."""
    return np.column_stack([special.expit(-factor * raw), special.expit(factor * raw)])


def quantize(values: Sequence[float] | np.ndarray, scale: float) -> list[int]:
    """The nearest integers to values · scale, halves to even."""
    return [round(Fraction(float(v)) * Fraction(scale)) for v in values]


# --- leaves.py -------------------------------------------------------------------------------------------------------


def leaf_sums(
    values: Sequence[np.ndarray], leaves: Sequence[np.ndarray], units: Sequence[float], bits: int
) -> list[list[Fraction]]:
    """For each leaf (its row numbers) the sum of each of `values` in fixed point, `bits` of them below the unit."""
    return [
        [
            Fraction(sum(fixed_point(float(v[i]), unit, bits) for i in rows), 2**bits) * Fraction(unit)
            for v, unit in zip(values, units, strict=True)
        ]
        for rows in leaves
    ]


def leaf_step(kind: str, power: float, grad: float, hess: float, count: int) -> float:
    """The constant that minimises a leaf's loss.

    newton: -G/H. exponential: ½ log(W₊/W₋), ESL eq. 10.12, from H = W₊ + W₋ and G = W₋ - W₊, a class without rows
    counting as half an average row. log_ratio: log(Σ y·μ^(1-p) / Σ μ^(2-p)), and -1 when no y is positive.
    """
    if hess <= 0:
        return 0.0
    if kind == "newton":
        return -grad / hess
    if kind == "exponential":
        plus, minus = (hess - grad) / 2, (hess + grad) / 2
        if plus < 1e-9 * hess:
            plus = hess / count / 2
        if minus < 1e-9 * hess:
            minus = hess / count / 2
        step = math.log(plus / minus) / 2
    else:
        # grad = B - A and hess = (2 - p)·B + (p - 1)·A, solved for A and B
        events, expected = hess - (2 - power) * grad, hess + (power - 1) * grad
        step = math.log(events / expected) if expected > 0 and events > 1e-9 * expected else -1.0
    return min(19.0, max(-19.0, step))


def add_leaves(raw: np.ndarray, leaves: Sequence[np.ndarray], values: np.ndarray) -> np.ndarray:
    out = raw.copy()
    for rows, value in zip(leaves, values, strict=True):
        for i in rows:
            out[i] += value
    return out


def quantile(values: np.ndarray, counts: np.ndarray, alpha: float) -> Fraction:
    """The smallest value at which the running weight reaches α of the total; its mean with the next if it meets it."""
    order = sorted((float(v), int(c)) for v, c in zip(values, counts, strict=True) if c > 0)
    total = sum(c for _, c in order)
    target = alpha * total
    running = 0
    for k, (value, count) in enumerate(order):
        running += count
        if running >= target:
            if running == target and k + 1 < len(order):
                return (Fraction(value) + Fraction(order[k + 1][0])) / 2
            return Fraction(value)
    return Fraction(0)  # nothing weighs anything


def leaf_quantiles(
    residuals: np.ndarray, counts: np.ndarray, leaves: Sequence[np.ndarray], alpha: float, delta: float
) -> list[float]:
    """Quantiles of the leaves' residuals; with δ > 0 the line of Friedman's Algorithm 4 (2001) on top."""
    out = []
    for rows in leaves:
        r, c = residuals[rows], counts[rows]
        value = float(quantile(r, c, alpha))
        if delta > 0 and c.sum() > 0:
            steps = np.sign(r - value) * np.minimum(delta, np.abs(r - value))
            value += math.fsum(steps * c) / int(c.sum())
        out.append(value)
    return out


# --- binning.py ------------------------------------------------------------------------------------------------------


def bin_column(values: np.ndarray, cuts: Sequence[float]) -> list[int]:
    """The number of cuts below each value."""
    return [MISSING if math.isnan(v) else sum(c < v for c in cuts) for v in values.tolist()]


def bin_matrix(X: np.ndarray, cuts: Sequence[Sequence[float]]) -> np.ndarray:
    """Codes (n_rows, n_columns)."""
    return np.array([bin_column(X[:, j], own) for j, own in enumerate(cuts)], np.uint8).T.reshape(X.shape)


def interleave(codes: np.ndarray, stride: int) -> np.ndarray:
    """Codes (n_rows, n_columns) row after row, each filled up with zeros."""
    return np.pad(codes, ((0, 0), (0, stride - codes.shape[1]))).ravel()


# --- cuts.py ---------------------------------------------------------------------------------------------------------


def sort_keys(keys: np.ndarray) -> tuple[list[int], list[int]]:
    """Ascending keys, and where they came from; equal ones keep their order."""
    order = sorted(range(len(keys)), key=lambda k: int(keys[k]))
    return [int(keys[k]) for k in order], order


def distinct(values: Sequence[float], weights: Sequence[int]) -> dict[float, int]:
    """The distinct values, ascending, without NaN, and the weight of each."""
    out: dict[float, int] = {}
    for value, weight in sorted(zip(values, weights, strict=True), key=lambda pair: pair[0]):
        if not math.isnan(value):
            out[value] = out.get(value, 0) + weight
    return out


def matrix_cuts(
    X: np.ndarray, rows: np.ndarray, weights: np.ndarray, max_bins: int
) -> tuple[list[list[float]], list[int]]:
    """Cut points of every column from the given rows, and how many distinct values these have."""
    cuts, found = [], []
    for j in range(X.shape[1]):
        values = [float(v) for v in X[rows, j] if not math.isnan(v)]
        own_weights = [int(w) for w, v in zip(weights, X[rows, j], strict=True) if not math.isnan(v)]
        each = distinct(values, own_weights)
        ascending, counts = list(each), list(each.values())
        ends = list(range(len(each)))
        if len(each) > max_bins:
            ends = greedy_cuts(counts, max_bins)
        between = []
        for k in ends[:-1]:
            low, high = ascending[k], ascending[k + 1]
            middle = 0.5 * low + 0.5 * high
            between.append(middle if low <= middle < high else low)
        cuts.append(between)
        found.append(len(each))
    return cuts, found


def greedy_cuts(counts: Sequence[int], max_bins: int) -> list[int]:
    """The last value of each bin.

    A value of at least an average bin's weight stands alone. The others fill bins one after the other; a bin is closed
    as soon as one value more would miss its fair share (of what is left, for the bins that are left) by more than
    closing it now does. Whatever comes after max_bins - 1 closed bins is one bin.
    """
    average = Fraction(sum(counts), max_bins)
    heavy = [c >= average for c in counts]
    weight_left = sum(c for c, alone in zip(counts, heavy, strict=True) if not alone)
    bins_left = max_bins - sum(heavy)
    ends: list[int] = []
    inside = 0
    for k, count in enumerate(counts[:-1]):
        inside += count
        if len(ends) == max_bins - 1:
            break
        if heavy[k]:
            ends.append(k)
            inside = 0
            continue
        fair = Fraction(weight_left, max(bins_left, 1))
        more = inside + counts[k + 1]
        if heavy[k + 1] or inside >= fair or (more > fair and more - fair > fair - inside):
            ends.append(k)
            weight_left -= inside
            bins_left -= 1
            inside = 0
    return [*ends, len(counts) - 1]


def describe_bins(values: np.ndarray, weights: np.ndarray, cuts: Sequence[float]) -> tuple[list[float], list[float]]:
    """A value of each bin (the least, then medians, then the largest) and the share of its weight."""
    known = ~np.isnan(values)
    each = distinct(values[known].tolist(), [int(w) for w in weights[known]])
    inside: list[list[tuple[float, int]]] = [[] for _ in range(len(cuts) + 1)]
    for value, weight in each.items():
        inside[sum(c < value for c in cuts)].append((value, weight))
    if not each:
        return [], []
    points = []
    for members in inside:
        half, reached = (sum(w for _, w in members) + 1) // 2, 0
        for value, weight in members:
            reached += weight
            if reached >= half:
                points.append(value)
                break
    points[0], points[-1] = (min(each), max(each)) if len(points) > 1 else (max(each), max(each))
    total = sum(int(w) for w in weights)
    return points, [sum(w for _, w in members) / total for members in inside]


# --- predict.py ------------------------------------------------------------------------------------------------------


def children(tree: Any, node: int) -> tuple[int, int]:
    """Left and right child; the right one follows the left one."""
    return int(tree.left[node]), int(tree.left[node]) + 1


def walk(tree: Any, goes_left: Callable[[int], bool]) -> int:
    """The leaf that is reached from the root."""
    node = 0
    while tree.left[node] >= 0:
        left, right = children(tree, node)
        node = left if goes_left(node) else right
    return node


def leaf_of_values(tree: Any, row: np.ndarray) -> int:
    """The leaf of a row of raw values; missing ones go where the node says, codes where the set says."""
    return walk(tree, lambda node: naive_paths.goes_left(tree, node, row))  # type: ignore[arg-type]


def leaf_of_codes(tree: Any, row: np.ndarray) -> int:
    """The leaf of a row of bin codes."""

    def goes_left(node: int) -> bool:
        code = int(row[tree.feature[node]])
        if code != MISSING and len(tree.subset) and tree.subset[node] >= 0:
            return bool(int(tree.sets[tree.subset[node], code // 64]) >> (code % 64) & 1)
        return bool(tree.missing_left[node]) if code == MISSING else code <= tree.cut[node]

    return walk(tree, goes_left)


def tree_leaves(trees: Sequence[Any], X: np.ndarray) -> np.ndarray:
    return np.array([[leaf_of_values(tree, row) for tree in trees] for row in X], np.int64).reshape(len(X), len(trees))


def predict(trees: Sequence[Any], outputs: Sequence[int], X: np.ndarray, out: np.ndarray) -> np.ndarray:
    """out (n_outputs, n_rows) plus the leaf values of all trees, one after the other."""
    out = out.copy()
    for i, row in enumerate(X):
        for tree, output in zip(trees, outputs, strict=True):
            out[output, i] += tree.value[leaf_of_values(tree, row)]
    return out


def leaf_spans(tree: Any) -> list[tuple[int, int]]:
    """The leaves below each node, numbered from left to right: the first, and the one after the last."""
    spans = [(0, 0)] * len(tree.left)

    def visit(node: int, first: int) -> int:
        last = first + 1
        if tree.left[node] >= 0:
            last = visit(tree.left[node] + 1, visit(tree.left[node], first))
        spans[node] = (first, last)
        return last

    visit(0, 0)
    return spans


def leaf_masks(tree: Any) -> tuple[list[int], list[tuple[int, int, float, int]]]:
    """The leaves from left to right, and of every inner node (missing left, column, threshold, leaves kept on failure).

    The leaves kept when a test fails are all but those of its left subtree, leaf number k being bit k of 64.
    """

    def below(node: int) -> list[int]:
        if tree.left[node] < 0:
            return [node]
        left, right = children(tree, node)
        return below(left) + below(right)

    leaves = below(0)
    tests = []
    for node in np.flatnonzero(tree.left >= 0).tolist():
        lost = {leaves.index(leaf) for leaf in below(children(tree, node)[0])}
        kept = sum(1 << k for k in range(64) if k not in lost)
        tests.append((int(tree.missing_left[node]), int(tree.feature[node]), float(tree.threshold[node]), kept))
    return leaves, tests


def level_tables(tree: Any) -> tuple[list[tuple[int, float, int]], list[float]] | None:
    """(column, threshold, missing left) of each level, and the leaf value by outcome; None if a level has two tests.

    Bit l of an outcome is set when the test of level l sends a row right; a leaf above that level does not ask.
    """
    levels: list[set[tuple[int, float, int]]] = [set() for _ in range(int(tree.depth.max()))]
    for k in np.flatnonzero(tree.left >= 0).tolist():
        levels[tree.depth[k]].add((int(tree.feature[k]), float(tree.threshold[k]), int(tree.missing_left[k])))
    if any(len(tests) != 1 for tests in levels):
        return None
    values = []
    for outcome in range(2 ** len(levels)):
        leaf = walk(tree, lambda node, outcome=outcome: not outcome >> int(tree.depth[node]) & 1)  # type: ignore[misc]
        values.append(float(tree.value[leaf]))
    return [tests.pop() for tests in levels], values


def add_tree_binned(tree: Any, codes: np.ndarray, rows: Sequence[int], raw: np.ndarray) -> np.ndarray:
    """raw, which has an entry for each of these rows of codes, in their order, plus the tree."""
    return np.array([f + tree.value[leaf_of_codes(tree, codes[i])] for f, i in zip(raw, rows, strict=True)])


def label_binned(tree: Any, codes: np.ndarray, rows: Sequence[int], labels: np.ndarray) -> np.ndarray:
    """labels, with those of these rows replaced by their leaf."""
    out = labels.copy()
    for i in rows:
        out[i] = leaf_of_codes(tree, codes[i])
    return out


# --- partition.py, histogram.py --------------------------------------------------------------------------------------


def partition_rows(codes: np.ndarray, cut: int, missing_left: bool, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that go left and those that go right, in their order; codes of one column for all rows of the table."""
    left = np.where(codes[rows] == MISSING, missing_left, codes[rows] <= cut)
    return rows[left], rows[~left]


def partition_sides(codes: np.ndarray, sides: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same by a table that has 1 for codes that go left."""
    left = sides[codes[rows]] == 1
    return rows[left], rows[~left]


def histogram_of_rows(codes: np.ndarray, grad: np.ndarray, hess: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Sums (n_columns, 256, 3) of integer grad, hess and 1 by the code of each column."""
    out = np.zeros((codes.shape[1], 256, 3), np.int64)
    triples = np.column_stack([grad[rows], hess[rows], np.ones(len(rows), np.int64)])
    for j in range(codes.shape[1]):
        np.add.at(out[j], codes[rows, j], triples)
    return out


def class_roots(codes: np.ndarray, pairs: Sequence[tuple[np.ndarray, np.ndarray]], rows: np.ndarray) -> np.ndarray:
    """The same for the integer (grad, hess) of each class: (n_classes, n_columns, 256, 3)."""
    return np.stack([histogram_of_rows(codes, grad, hess, rows) for grad, hess in pairs])


# --- split.py --------------------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """What a split must satisfy and what it is worth; integers times units are in the scale of the penalties."""

    grad_unit: Fraction
    hess_unit: Fraction
    l1: Fraction
    l2: Fraction
    min_child_weight: Fraction
    min_samples_leaf: int
    min_gain: Fraction

    def score(self, grad: int, hess: int) -> Fraction:
        """G²/(H + l2) with G shrunk by l1: twice what one leaf's best constant takes off the loss."""
        size = max(abs(grad * self.grad_unit) - self.l1, Fraction(0))
        return size**2 / (hess * self.hess_unit + self.l2)

    def gain(self, left: Sequence[int], right: Sequence[int]) -> Fraction | None:
        """The improvement of two leaves (grad, hess, count each) over one; None when it is not allowed."""
        (a, A, n), (b, B, m) = left, right
        weight = min(A, B) * self.hess_unit
        if min(n, m) < self.min_samples_leaf or min(A, B) <= 0 or weight < self.min_child_weight:
            return None
        return self.score(a, A) + self.score(b, B) - self.score(a + b, A + B)


class Split(NamedTuple):
    gain: Fraction
    column: int
    bin: int
    missing: int
    left: tuple[int, int, int]  # grad, hess, count


def sides(histogram: np.ndarray, n_bins: int, missing_seen: bool) -> Iterator[tuple[int, int, list[int], list[int]]]:
    """(missing, bin, left, right) of all splits of one column (256, 3), in the order in which ties are decided."""
    running = np.cumsum(histogram[:n_bins], axis=0).tolist()
    missing = histogram[MISSING].tolist()
    total = [a + b for a, b in zip(running[-1], missing, strict=True)]
    for side in (RIGHT, LEFT) if missing_seen else (NOT_SEEN,):
        for b in range(n_bins if side == RIGHT else n_bins - 1):
            left = [a + m for a, m in zip(running[b], missing, strict=True)] if side == LEFT else running[b]
            yield side, b, left, [t - a for t, a in zip(total, left, strict=True)]


def all_splits(histograms: np.ndarray, n_bins: np.ndarray, columns: Sequence[int], rule: Rule) -> list[Split]:
    """Every allowed split of a node."""
    found = []
    for j in columns:
        own = histograms[j]
        seen: dict[tuple[int, ...], Fraction | None] = {}
        for missing, b, left, right in sides(own, int(n_bins[j]), bool(own[MISSING, 2] > 0)):
            key = tuple(left)
            if key not in seen:
                seen[key] = rule.gain(left, right)
            gain = seen[key]
            if gain is not None:
                found.append(Split(gain, j, b, missing, (left[0], left[1], left[2])))
    return found


def best_split(histograms: np.ndarray, n_bins: np.ndarray, columns: Sequence[int], rule: Rule) -> Split | None:
    """The split with the largest improvement, the first of equal ones; None when none improves enough."""
    found = all_splits(histograms, n_bins, columns, rule)
    best = max(found, key=lambda split: split.gain, default=None)  # the first of the largest
    return best if best is not None and best.gain > max(rule.min_gain, Fraction(0)) else None


def drawn_columns(key: int, number: int, eligible: Sequence[int], wanted: int) -> list[int]:
    """The columns with the smallest hashes under the key of a node (or of a symmetric tree's level)."""
    by_hash = sorted(eligible, key=lambda j: splitmix64((key + number) & _MASK64, j))
    return sorted(by_hash[:wanted])


# --- grow.py, symmetric.py -------------------------------------------------------------------------------------------


class Data(NamedTuple):
    """Codes (n_rows, n_columns), bins a column, and the integer pairs of the rows."""

    codes: np.ndarray
    n_bins: np.ndarray
    grad: np.ndarray
    hess: np.ndarray

    def histograms(self, rows: np.ndarray) -> np.ndarray:
        return histogram_of_rows(self.codes, self.grad, self.hess, rows)


@dataclass
class Node:
    rows: np.ndarray
    depth: int
    split: Split | None = None  # the best one; of a leaf: not made
    left: int = -1


def divide(data: Data, nodes: list[Node], number: int, split: Split) -> None:
    """Make a split: two nodes more."""
    node = nodes[number]
    node.split, node.left = split, len(nodes)
    parts = partition_rows(data.codes[:, split.column], split.bin, split.missing == LEFT, node.rows)
    nodes.extend(Node(part, node.depth + 1) for part in parts)


def grow(
    data: Data,
    rows: np.ndarray,
    rule: Rule,
    columns: Callable[[int], Sequence[int]],
    *,
    levelwise: bool,
    max_leaves: int,
    max_depth: int,
) -> list[Node]:
    """Best-first growth (by levels: the shallowest first), every node's histogram from its own rows."""

    def search(number: int) -> None:
        node = nodes[number]
        if node.depth < max_depth and len(node.rows) >= max(2, 2 * rule.min_samples_leaf):
            node.split = best_split(data.histograms(node.rows), data.n_bins, columns(number), rule)

    def urgency(number: int) -> tuple[int, Fraction, int]:
        node = nodes[number]
        assert node.split is not None
        return node.depth if levelwise else 0, -node.split.gain, number

    nodes = [Node(rows, 0)]
    if max_leaves > 1:
        search(0)
    for _ in range(max_leaves - 1):
        ready = [k for k, node in enumerate(nodes) if node.left < 0 and node.split is not None]
        if not ready:
            break
        number = min(ready, key=urgency)
        split = nodes[number].split
        assert split is not None
        divide(data, nodes, number, split)
        if len(nodes) < 2 * max_leaves - 1:
            search(len(nodes) - 2)
            search(len(nodes) - 1)
    return nodes


def best_level_split(
    histograms: Sequence[np.ndarray], n_bins: np.ndarray, columns: Sequence[int], rule: Rule
) -> tuple[Fraction, int, int, int] | None:
    """(gain, column, bin, missing) of the split whose improvements over the level's nodes add up to the most."""
    best: tuple[Fraction, int, int, int] | None = None
    for j in columns:
        seen = any(own[j, MISSING, 2] > 0 for own in histograms)
        at_nodes = [sides(own[j], int(n_bins[j]), seen) for own in histograms]
        for splits in zip(*at_nodes, strict=True):  # one split of all nodes at a time
            gain = sum((rule.gain(left, right) or Fraction(0) for _, _, left, right in splits), Fraction(0))
            missing, b = splits[0][:2]
            if gain > max(rule.min_gain, Fraction(0)) and (best is None or gain > best[0]):
                best = gain, j, b, missing
    return best


def grow_symmetric(
    data: Data, rows: np.ndarray, rule: Rule, columns: Callable[[int], Sequence[int]], *, max_depth: int
) -> list[Node]:
    """One split a level, made in those of its nodes where it is allowed."""
    nodes = [Node(rows, 0)]
    level = [0]
    for depth in range(max_depth):
        able = [k for k in level if len(nodes[k].rows) >= max(2, 2 * rule.min_samples_leaf)]
        histograms = {k: data.histograms(nodes[k].rows) for k in able}
        best = best_level_split(list(histograms.values()), data.n_bins, columns(depth), rule) if able else None
        if best is None:
            break
        _, j, b, missing = best
        first = len(nodes)
        for k in able:
            goes_left, _ = partition_rows(data.codes[:, j], b, missing == LEFT, nodes[k].rows)
            total = histograms[k][j].sum(axis=0).tolist()
            left = [int(data.grad[goes_left].sum()), int(data.hess[goes_left].sum()), len(goes_left)]
            gain = rule.gain(left, [t - a for t, a in zip(total, left, strict=True)])
            if gain is not None:
                divide(data, nodes, k, Split(gain, j, b, missing, (left[0], left[1], left[2])))
        level = list(range(first, len(nodes)))
    return nodes


# --- harvest.py ------------------------------------------------------------------------------------------------------


class Flat(NamedTuple):
    """A tree as lists with one entry a node."""

    feature: list[int]
    threshold: list[float]
    cut: list[int]
    missing_left: list[int]
    left: list[int]
    depth: list[int]
    count: list[int]
    gain: list[float]  # of splits; a negative one (a node of a symmetric tree) counts as none


def harvest(nodes: Sequence[Node], cuts: Sequence[Sequence[float]], by_level: bool) -> Flat:
    """The arrays of a grown tree.

    Where nothing was missing, missing values go where more rows go: those of the node, or of the whole level.
    """

    def more_left(node: Node) -> bool:
        alike = [k for k in nodes if k.left >= 0 and (k.depth == node.depth if by_level else k is node)]
        return sum(len(nodes[k.left].rows) for k in alike) >= sum(len(nodes[k.left + 1].rows) for k in alike)

    def missing_left(node: Node, split: Split) -> bool:
        return more_left(node) if split.missing == NOT_SEEN else split.missing == LEFT

    out = Flat([], [], [], [], [], [], [], [])
    for node in nodes:
        split = node.split if node.left >= 0 else None
        own = [] if split is None else cuts[split.column]
        out.feature.append(-1 if split is None else split.column)
        out.threshold.append(0.0 if split is None else float(own[split.bin]) if split.bin < len(own) else math.inf)
        out.cut.append(0 if split is None else split.bin)
        out.missing_left.append(0 if split is None else int(missing_left(node, split)))
        out.left.append(node.left)
        out.depth.append(node.depth)
        out.count.append(len(node.rows))
        out.gain.append(0.0 if split is None else max(float(split.gain), 0.0))
    return out


def set_leaves(
    tree: Any, values: np.ndarray, weights: np.ndarray, rate: float, limit: float = math.inf
) -> tuple[list[float], list[float]]:
    """Values and weights by node: rate · value in leaves (0 for NaN), 0 elsewhere; the weight below a node."""

    def weight(node: int) -> float:
        if tree.left[node] < 0:
            return float(weights[node])
        left, right = children(tree, node)
        return weight(left) + weight(right)

    leaf = [tree.left[node] < 0 for node in range(len(tree.left))]
    bounded = [v if math.isnan(v) else min(limit, max(-limit, v)) for v in values.tolist()]
    value = [rate * v if own and not math.isnan(v) else 0.0 for own, v in zip(leaf, bounded, strict=True)]
    return value, [weight(node) for node in range(len(leaf))]


# --- influence.py ----------------------------------------------------------------------------------------------------


def top_bits(value: float) -> int:
    """The first 16 of a float's 64 bits."""
    return int.from_bytes(struct.pack(">d", value)[:2], "big")


def influence_sums(influence: np.ndarray, out: np.ndarray, scale: float) -> dict[int, tuple[int, int]]:
    """By top bits: the sum of influence · scale, each to the nearest integer, and the number of rows that take part."""
    found: dict[int, tuple[int, int]] = {}
    for i, value in enumerate(influence.tolist()):
        if not (len(out) and out[i]):
            total, count = found.get(top_bits(value), (0, 0))
            found[top_bits(value)] = (total + quantize([value], scale)[0], count + 1)
    return found


def influence_edge(influence: np.ndarray, out: np.ndarray, bucket: int) -> list[float]:
    return [v for i, v in enumerate(influence.tolist()) if top_bits(v) == bucket and not (len(out) and out[i])]


def influence_rows(influence: np.ndarray, out: np.ndarray, least: float) -> tuple[list[int], list[int]]:
    """Rows that stay and all others."""
    kept = [i for i, v in enumerate(influence.tolist()) if v >= least and not (len(out) and out[i])]
    return kept, sorted(set(range(len(influence))) - set(kept))


# --- votes.py --------------------------------------------------------------------------------------------------------


def samme_pairs(y: np.ndarray, f: np.ndarray, weight: np.ndarray, option: float) -> Losses:
    """exp(-Y·f/K), Y = 1 for the true class and -1/(K - 1) for the others (Zhu et al. 2009)."""
    classes = len(f)
    code = np.where(np.arange(classes)[:, None] == y, 1.0, -1.0 / (classes - 1))
    loss = np.exp(-(code * f).sum(axis=0) / classes)
    return _weighed(-code * loss / classes, (code / classes) ** 2 * loss, loss, weight)


def one_vs_rest_pairs(y: np.ndarray, f: np.ndarray, weight: np.ndarray, option: float) -> Losses:
    """Σ_k exp(-s_k·f_k), s_k = 1 for the true class and -1 for the others; each class is a value of its own."""
    sign = np.where(np.arange(len(f))[:, None] == y, 1.0, -1.0)
    loss = np.exp(-sign * f) * (weight if len(weight) else 1.0)
    return Losses(-sign * loss, loss, loss.ravel())


# --- classes.py ------------------------------------------------------------------------------------------------------


def class_sums(node: np.ndarray, code: np.ndarray, weight: np.ndarray, n_nodes: int, n_classes: int) -> np.ndarray:
    """(n_nodes, K + 1): the weight of each class and the number of rows, of each node."""
    out = [[sum(int(w) for w in weight[(node == m) & (code == k)]) for k in range(n_classes)] for m in range(n_nodes)]
    return np.array([[*own, int((node == m).sum())] for m, own in enumerate(out)])


def class_splits(
    bins: np.ndarray, code: np.ndarray, weight: np.ndarray, n_classes: int, min_rows: int, by_code: bool = False
) -> list[Any]:
    """(gain, cut, side of missing values) of every split of one node by one column; gain is the decrease of the
    weighted Gini impurity, a Fraction. by_code: one code against the rest, missing values being a code."""

    def gini(rows: np.ndarray) -> Fraction:
        parts = [sum(int(w) for w in weight[rows & (code == k)]) for k in range(n_classes)]
        return Fraction(0) if sum(parts) == 0 else sum(parts) - Fraction(sum(w * w for w in parts), sum(parts))

    everything, missing = np.ones(len(bins), bool), bins == MISSING
    found = []
    if by_code:
        for own in sorted(set(bins.tolist())):
            left = bins == own
            if min(left.sum(), (~left).sum()) >= min_rows:
                side = NOT_SEEN if not missing.any() else LEFT if own == MISSING else RIGHT
                found.append((gini(everything) - gini(left) - gini(~left), own, side))
        return found
    for cut in sorted(set(bins[~missing].tolist())):
        for side in (RIGHT, LEFT) if missing.any() else (NOT_SEEN,):
            left = ((bins <= cut) & ~missing) | (missing & (side == LEFT))
            if min(left.sum(), (~left).sum()) >= min_rows:
                found.append((gini(everything) - gini(left) - gini(~left), cut, side))
    return found


# --- columns.py ------------------------------------------------------------------------------------------------------


def line_moments(columns: np.ndarray, response: np.ndarray) -> np.ndarray:
    return np.array([math.fsum(x * response) for x in columns])


def spline_basis(x: np.ndarray, low: float, width: float, n_cells: int) -> np.ndarray:
    """(n, n_cells + 3): cubic B-splines on equidistant knots; x beyond the outer cells counts as their end."""
    knots = low + width * np.arange(-3, n_cells + 4)
    inside = np.clip(x, knots[3], knots[-4])
    return np.column_stack([BSpline(knots, unit, 3)(inside) for unit in np.eye(n_cells + 3)])


def spline_moments(columns: np.ndarray, low: np.ndarray, width: np.ndarray, response: np.ndarray, n_cells: int) -> Any:
    return np.array([spline_basis(x, a, w, n_cells).T @ response for x, a, w in zip(columns, low, width, strict=True)])


def spline_values(x: np.ndarray, low: float, width: float, coef: np.ndarray) -> np.ndarray:
    return spline_basis(x, low, width, len(coef) - 3) @ coef


# --- chances.py ------------------------------------------------------------------------------------------------------


def _drawn(counts: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    below = np.rint(share * 2.0**31)
    below[0] = 0
    return below, 1.0 / share, float(share @ counts)


def goss_chances(lines: np.ndarray, top: float, rest: float) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Bounds of the hashes, factors, the number of rows drawn on average (Ke et al. 2017, Algorithm 2), and the code of
    the last row of the top."""
    counts = lines.sum(axis=0)
    counts[0] = 0
    upto = np.cumsum(counts)  # rows of this code or a lower one
    n = int(upto[-1])
    wanted, others = top * n, min(1.0, rest / (1.0 - top))
    edge = min(int(np.searchsorted(upto, math.floor(n - wanted), side="right")), len(counts) - 1)
    share = np.full(len(counts), others)
    share[edge + 1 :] = 1.0
    if counts[edge]:
        inside = (wanted - (n - int(upto[edge]))) / int(counts[edge])  # how many of the edge's rows are of the top
        share[edge] = min(1.0, inside + (1.0 - inside) * others)
    return *_drawn(counts, share), edge


def variance_chances(
    lines: np.ndarray, squares: np.ndarray, ridge: float, wanted: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """The same with min(1, s/μ); μ by bisection (Ibragimov & Gusev 2019)."""
    counts = lines.sum(axis=0)
    counts[0] = 0
    n = int(counts.sum())
    sizes = np.sqrt(squares + ridge * float(counts @ squares) / n)
    low, high = 0.0, float(sizes.max()) / wanted
    for _ in range(200):
        mu = 0.5 * (low + high)
        low, high = (mu, high) if np.minimum(sizes / mu, 1.0) @ counts > wanted * n else (low, mu)
    return _drawn(counts, np.minimum(sizes / high, 1.0))


# --- draw.py ---------------------------------------------------------------------------------------------------------


def score_codes(grad: np.ndarray, skip: np.ndarray, scale: float) -> list[int]:
    """0 for rows that are skipped; else how many 256ths of an octave a score lies above 2**-32, 1 to 8191."""
    out = []
    for i in range(grad.shape[1]):
        score = 0.0
        for g in grad[:, i].tolist():
            score += abs(g) * scale
        code = 1
        if score > 0.0:
            mantissa, exponent = math.frexp(score)  # score = mantissa · 2**exponent, mantissa in [½, 1)
            code = 256 * (exponent - 1 + 32) + math.floor((2.0 * mantissa - 1.0) * 256) - 1
        out.append(0 if skip[i] else min(max(code, 1), 8191))
    return out


def count_codes(codes: np.ndarray, low: int = 0, near: int = 0) -> list[int]:
    """How many rows have each code; with `low` all codes below it count as the last of these, but for skipped rows, and
    all from low + near on as that one."""
    out = [0] * 8192
    for code in codes.tolist():
        out[code if low == 0 or code == 0 else min(max(code, low - 1), low + near)] += 1
    return out


def draw_rows(codes: np.ndarray, key: int, below: Sequence[int], factor: np.ndarray) -> tuple[list[int], list[float]]:
    """The rows whose hash is below the bound of their code, and their weights."""
    rows = [i for i, code in enumerate(codes.tolist()) if splitmix64(key, i) >> 33 < below[code]]
    return rows, [float(factor[codes[i]]) for i in rows]


def gather_pairs(
    index: np.ndarray, times: np.ndarray, grad: np.ndarray, hess: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    own = weight[index] if len(weight) else np.ones(len(index))
    return grad[:, index] * times, hess[:, index] * times, own * times


def draw_pairs(
    codes: np.ndarray, key: int, below: Sequence[int], factor: np.ndarray, *pairs: np.ndarray
) -> tuple[list[int], list[float], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    rows, times = draw_rows(codes, key, below, factor)
    return rows, times, gather_pairs(np.array(rows), np.array(times), *pairs)


def scatter_words(words: np.ndarray, index: np.ndarray, n_rows: int) -> np.ndarray:
    out = np.zeros(n_rows, np.int64)
    out[index] = words
    return out


TWINS: dict[str, Callable[..., Any]] = {
    "binning.bin_column": bin_column,
    "binning.bin_matrix": bin_matrix,
    "binning.interleave": interleave,
    "chances.goss_chances": goss_chances,
    "chances.variance_chances": variance_chances,
    "classes.class_splits": class_splits,
    "classes.class_sums": class_sums,
    "columns.line_moments": line_moments,
    "columns.spline_moments": spline_moments,
    "columns.spline_values": spline_values,
    "cuts.greedy_cuts": greedy_cuts,
    "cuts.matrix_cuts": matrix_cuts,
    "cuts.sort_keys": sort_keys,
    "dependence.add_boxes": naive_paths.dependence,
    "dependence.add_curves": naive_paths.curves,
    "dependence.add_reached": naive_paths.dependence,
    "dependence.reach_shares": naive_paths.reach_shares,
    "doorbell.await_post": naive_shards.await_post,
    "doorbell.post": naive_shards.post,
    "draw.draw_pairs": draw_pairs,
    "draw.draw_rows": draw_rows,
    "draw.gather_pairs": gather_pairs,
    "draw.scatter_words": scatter_words,
    "draw.count_all": count_codes,
    "draw.score_codes": score_codes,
    "effects.component_tables": naive_paths.component,
    "effects.row_effects": naive_paths.row_effects,
    "entries.assign_bundles": naive_entries.assign_bundles,
    "entries.entry_codes": naive_entries.entry_codes,
    "entries.entry_cuts": naive_entries.entry_cuts,
    "entries.fill_rows": naive_entries.fill_rows,
    "entries.write_bundles": naive_entries.write_bundles,
    "exact.hash_threshold_counts": hash_threshold_counts,
    "exact.hash_values": hash_values,
    "exact.mix_rows": mix_rows,
    "exact.sum_products": sum_products,
    "grow.grow": grow,
    "harvest.harvest": harvest,
    "harvest.set_leaves": set_leaves,
    "blocks.histogram_of_rows": histogram_of_rows,
    "influence.influence_edge": influence_edge,
    "influence.influence_rows": influence_rows,
    "influence.influence_sums": influence_sums,
    "labels.label_all": label_binned,
    "labels.label_and_sum": leaf_sums,  # and label_binned
    "leaves.add_leaves": add_leaves,
    "leaves.leaf_quantiles": leaf_quantiles,
    "leaves.leaf_sums": leaf_sums,
    "coded.predict_coded": predict,
    "octets.leaf_spans": leaf_spans,
    "octets.predict_octets": predict,
    "lookups.fill_lookups": predict,
    "lookups.walk_sets": tree_leaves,
    "pairs.absolute_error_pairs": absolute_error_pairs,
    "pairs.exponential_pairs": exponential_pairs,
    "pairs.huber_pairs": huber_pairs,
    "pairs.log_loss_pairs": log_loss_pairs,
    "pairs.multiclass_pairs": multiclass_pairs,
    "pairs.quantile_pairs": quantile_pairs,
    "pairs.quantize": quantize,
    "pairs.sigmoid": sigmoid,
    "pairs.squared_error_pairs": squared_error_pairs,
    "pairs.tweedie_pairs": tweedie_pairs,
    "partition.partition_rows": partition_rows,
    "partition.partition_sides": partition_sides,
    "paths.group_leaves": naive_paths.conditions_met,
    "paths.leaf_paths": naive_paths.leaf_paths,
    "predict.add_tree_binned": add_tree_binned,
    "predict.label_binned": label_binned,
    "predict.leaf_masks": leaf_masks,
    "predict.level_tables": level_tables,
    "predict.predict_levels": predict,
    "predict.predict_masks": predict,
    "predict.predict_walks": predict,
    "predict.tree_leaves": tree_leaves,
    "residuals.load_residuals": naive_residuals.load_residuals,
    "residuals.next_root": naive_residuals.next_root,
    "residuals.step_residuals": naive_residuals.step_residuals,
    "roots.class_roots": class_roots,
    "shap.attribute": naive_paths.shapley,
    "shap.background_words": naive_paths.background_words,
    "shards.add_narrow": naive_shards.add_narrow,
    "shards.build_nodes": naive_shards.build_nodes,
    "shards.count_digits": naive_shards.count_digits,
    "shards.divide_nodes": naive_shards.divide_nodes,
    "shards.keep_nodes": best_split,
    "shards.keys_above": naive_shards.keys_above,
    "shards.keys_to_values": naive_shards.keys_to_values,
    "shards.label_nodes": naive_shards.label_nodes,
    "shards.level_split": best_level_split,
    "shards.open_nodes": naive_shards.open_nodes,
    "shards.residual_keys": naive_shards.residual_keys,
    "shards.search_nodes": best_split,
    "shards.step_sums": naive_shards.step_sums,
    "shards.to_narrow": naive_shards.to_narrow,
    "split.best_split": best_split,
    "subsets.best_subset": naive_subsets.best_subset,
    "symmetric.grow_symmetric": grow_symmetric,
    "team.read_cycles": time.perf_counter_ns,
    "votes.one_vs_rest_pairs": one_vs_rest_pairs,
    "votes.samme_pairs": samme_pairs,
}
