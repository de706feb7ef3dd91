"""Everything that the tests of kernels hand to kernels, in one place: a changed signature is one edit here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import settings

import naive
from stagewise.backends import cpu
from stagewise.backends.cpu import CpuBackend
from stagewise.boosting.pairs import NO_UPDATE
from stagewise.kernels.blocks import histogram_of_rows
from stagewise.kernels.bundles import NO_BUNDLES
from stagewise.kernels.coded import predict_coded
from stagewise.kernels.exact import Packing, limb_bits, limbs_total, power_above
from stagewise.kernels.histogram import NO_ROOT, PITCH, Bins
from stagewise.kernels.jit import JIT
from stagewise.kernels.leaves import EXPONENTIAL, LOG_RATIO, NEWTON, leaf_quantiles, leaf_sums
from stagewise.kernels.lookups import walk_sets
from stagewise.kernels.octets import OCTET_ROWS, predict_octets
from stagewise.kernels.pairs import CHUNK, Update, quantize
from stagewise.kernels.partition import partition_rows, partition_sides
from stagewise.kernels.predict import (
    STRIDE,
    Masks,
    Walks,
    add_tree_binned,
    label_binned,
    predict_levels,
    predict_masks,
    predict_walks,
)
from stagewise.kernels.split import (
    BIN,
    COLUMN,
    COUNT_LEFT,
    GRAD_LEFT,
    HESS_LEFT,
    MISSING_LEFT,
    N_FIELDS,
    best_split,
)
from stagewise.kernels.team import Team
from stagewise.losses.regression import SquaredError
from stagewise.params import TreeParams
from stagewise.tree.coding import coded, coding, octets
from stagewise.tree.forest import Forest, _lookups, _masks, _rounded, _scratch
from stagewise.tree.forest import _as as as_for
from stagewise.tree.tree import Tree

every_team = pytest.mark.parametrize("n_threads", [1, 2, 3, 8])

quick = settings(max_examples=60 if JIT else 15, deadline=None)
"""For properties: the first example compiles, so there is no deadline."""

NOTHING = np.empty(0)


def run(n_threads: int, kernel: Callable[..., Any], *args: Any) -> Any:
    """A kernel on a team of its own. Without the JIT a team has one thread."""
    with Team(n_threads) as team:
        return team.run(kernel, *args)


def from_python(device: Callable[..., Any]) -> Callable[..., Any]:
    """A device function that Python may call. (By itself it has no wrapper for that, and crashes the interpreter.)"""
    if JIT:
        return numba.njit(error_model="numpy")(lambda *args: device(*args))  # type: ignore[no-any-return]

    def plain(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return device(*args)

    return plain


def ulps(got: float, exact: Fraction) -> float:
    """How far a float is from an exact value, in steps of the floats there."""
    return float(abs(Fraction(float(got)) - exact) / Fraction(float(np.spacing(abs(float(exact))))))


# --- packed words ----------------------------------------------------------------------------------------------------


def unpack(word: int, packing: Packing) -> tuple[int, int, int]:
    """(grad, hess, count) of a narrow word or of a block's sum of them, in Python integers."""
    count = word & int(packing.count_mask)
    hess = (word >> int(packing.hess_shift)) & int(packing.hess_mask)
    return word >> int(packing.grad_shift), hess, count


def unpack_wide(grad: int, more: int, packing: Packing) -> tuple[int, int, int]:
    """The same of the two wide words."""
    return grad, more >> int(packing.count_bits), more & ((1 << int(packing.count_bits)) - 1)


def integers(grad: np.ndarray, hess: np.ndarray, packing: Packing) -> tuple[np.ndarray, np.ndarray]:
    """The integer pairs that a packing makes of float pairs. With a constant second derivative it counts rows."""
    g = np.array(naive.quantize(grad, packing.grad_scale), np.int64)
    if packing.hess_scale == 0.0:
        return g, np.ones(len(g), np.int64)
    return g, np.array(naive.quantize(hess, packing.hess_scale), np.int64)


# --- losses ----------------------------------------------------------------------------------------------------------


class Evaluated(NamedTuple):
    """What a pairs kernel made of some rows."""

    grad: np.ndarray
    hess: np.ndarray
    peaks: np.ndarray  # largest |grad|, hess, |value|
    total: float  # exact sum of the values
    limbs: np.ndarray


def evaluate(
    kernel: Callable[..., Any],
    y: np.ndarray,
    raw: np.ndarray,
    weight: np.ndarray = NOTHING,
    option: float = 0.0,
    n_threads: int = 1,
    unit: float | None = None,
    update: Update = NO_UPDATE,
) -> Evaluated:
    """A kernel of pairs.py; `unit` is a power of two not below any |value| (found by a first run when not given)."""
    if unit is None:
        unit = power_above(evaluate(kernel, y, raw, weight, option, n_threads, math.inf).peaks[2])
    bits = limb_bits(len(y))
    grad, hess = np.full(raw.shape, np.nan), np.full(raw.shape, np.nan)
    value = np.zeros((n_threads, CHUNK))
    peaks, limbs = np.zeros((n_threads, 8)), np.zeros((n_threads, 8), np.int64)
    run(
        n_threads, kernel, y, raw, weight, np.array([option]), 1.0 / unit, bits, grad, hess, value, peaks, limbs, update
    )
    sums = limbs[:, :2].sum(axis=0)
    total = limbs_total(sums, unit, bits) if unit < math.inf else math.nan
    return Evaluated(grad, hess, peaks.max(axis=0)[:3], total, sums)


class Quantized(NamedTuple):
    words: np.ndarray
    more_words: np.ndarray
    lost: int


def quantized(grad: np.ndarray, hess: np.ndarray, packing: Packing, n_threads: int = 1) -> Quantized:
    """The packed words of pairs, and how many rows keep next to nothing of their gradient."""
    n = len(grad)
    words, more = np.zeros(n, np.int64), np.zeros(1 if packing.narrow else n, np.int64)
    lost = np.full((n_threads, 8), 77, np.int64)
    lost[:, 0] = 0  # without the JIT a team is smaller than n_threads
    run(n_threads, quantize, grad, hess, packing, words, more, lost)
    return Quantized(words, more, int(lost[:, 0].sum()))


# --- leaves ----------------------------------------------------------------------------------------------------------

KINDS = {"newton": NEWTON, "exponential": EXPONENTIAL, "log_ratio": LOG_RATIO}


class Leaves(NamedTuple):
    """Rows divided among the leaves of some tree: by label, and as positions in two lines of row numbers."""

    labels: np.ndarray  # int32 (n_rows): node number; n_nodes for rows that take no part
    n_nodes: int
    rows: np.ndarray  # uint32 (2, n_rows)
    places: np.ndarray  # int64 (n_leaves, 4): node, start, stop, line
    members: list[np.ndarray]  # row numbers of each leaf, in the order of `places`


def random_leaves(rng: np.random.Generator, n_rows: int, n_leaves: int, idle: int = 0) -> Leaves:
    """Leaves of random size, at least one row each; `idle` rows take no part."""
    order = rng.permutation(n_rows)[: n_rows - idle]
    stops = np.sort(rng.choice(np.arange(1, max(2, len(order))), n_leaves - 1, replace=False))
    edges = np.array([0, *stops, len(order)], np.int64)
    n_nodes = 2 * n_leaves - 1
    nodes = rng.choice(n_nodes, n_leaves, replace=False)
    labels = np.full(n_rows, n_nodes, np.int32)
    rows = np.zeros((2, n_rows), np.uint32)
    places, members = [], []
    for node, start, stop in zip(nodes, edges[:-1], edges[1:], strict=True):
        own, line = np.sort(order[start:stop]), int(rng.integers(2))
        labels[own], rows[line, start:stop] = node, own
        places.append((node, start, stop, line))
        members.append(own)
    return Leaves(labels, n_nodes, rows, np.array(places, np.int64), members)


def leaf_sums_of(
    leaves: Leaves,
    values: tuple[np.ndarray, np.ndarray, np.ndarray],
    units: Sequence[float],
    bits: int,
    fine: bool = True,
    kind: str = "newton",
    power: float = 0.0,
    n_threads: int = 1,
) -> np.ndarray:
    """(n_leaves, 4): sums of grad, hess and weight (values), and the step, in the order of leaves.places."""
    out = np.full((leaves.n_nodes, 4), np.nan)
    limbs = np.zeros((n_threads, leaves.n_nodes + 1, 6), np.int64)
    counts = np.bincount(leaves.labels, minlength=leaves.n_nodes + 1)[: leaves.n_nodes].astype(np.int64)
    with Team(n_threads) as team:
        team.run(
            leaf_sums, team.gate, leaves.labels, counts, *values, np.array(units, float), bits, fine, KINDS[kind],
            power, limbs, out,
        )  # fmt: skip
    return np.take(out, leaves.places[:, 0], axis=0)


def leaf_quantiles_of(
    leaves: Leaves, residuals: np.ndarray, counts: np.ndarray, alpha: float, delta: float = 0.0, n_threads: int = 1
) -> np.ndarray:
    """(n_leaves,) in the order of leaves.places; counts may be empty."""
    n = len(residuals)
    unit = power_above(delta * (float(counts.max()) if len(counts) else 1.0))
    out = np.full(leaves.n_nodes, np.nan)
    keys, key_counts = np.zeros(n, np.uint64), np.zeros(n, np.int64)
    table = np.zeros((n_threads, 2048), np.int64)
    with Team(n_threads) as team:
        team.run(
            leaf_quantiles, team.gate, leaves.rows, leaves.places, residuals, np.zeros(n), counts, alpha, delta, unit,
            limb_bits(n), keys, key_counts, table, out,
        )  # fmt: skip
    return np.take(out, leaves.places[:, 0], axis=0)


# --- trees -----------------------------------------------------------------------------------------------------------


class _Draft:
    """A tree in the making; leaves are split one after the other."""

    def __init__(self) -> None:
        self.test: list[tuple[int, int, int]] = [(-1, 0, 0)]  # column, cut, missing left
        self.left, self.depth = [-1], [0]

    def split(self, node: int, column: int, cut: int, missing_left: int) -> None:
        self.test[node], self.left[node] = (column, cut, missing_left), len(self.left)
        self.test += [(-1, 0, 0)] * 2
        self.left += [-1] * 2
        self.depth += [self.depth[node] + 1] * 2

    def finish(self, rng: np.random.Generator, n_bins: Sequence[int]) -> Tree:
        """Cut c of a column stands at c + ½, the last one at infinity; leaf values are random."""
        feature, cut, missing_left = (np.array(field) for field in zip(*self.test, strict=True))
        n, left = len(self.left), np.array(self.left)
        last = np.array([n_bins[j] - 1 for j in feature])
        threshold = np.where(cut < last, cut + 0.5, np.inf)
        return Tree(
            feature=feature.astype(np.int32),
            threshold=np.where(left >= 0, threshold, 0.0),
            cut=cut.astype(np.int32),
            missing_left=missing_left.astype(np.uint8),
            left=left.astype(np.int32),
            value=np.where(left >= 0, 0.0, rng.normal(size=n)),
            gain=np.zeros(n),
            count=np.ones(n, np.int64),
            cover=np.ones(n),
            depth=np.array(self.depth, np.int32),
        )


def random_test(rng: np.random.Generator, n_bins: Sequence[int]) -> tuple[int, int, int]:
    """(column, cut, missing left); a cut at the last bin sends all values left, and missing ones right or left."""
    column = int(rng.integers(len(n_bins)))
    return column, int(rng.integers(n_bins[column])), int(rng.integers(2))


def random_tree(rng: np.random.Generator, n_leaves: int, n_bins: Sequence[int]) -> Tree:
    """A tree of any form: leaves are split at random."""
    draft = _Draft()
    for _ in range(n_leaves - 1):
        draft.split(int(rng.choice(np.flatnonzero(np.array(draft.left) < 0))), *random_test(rng, n_bins))
    return draft.finish(rng, n_bins)


def random_symmetric_tree(rng: np.random.Generator, n_levels: int, n_bins: Sequence[int], share: float = 0.7) -> Tree:
    """A tree with one test a level, made in a share of its nodes, in one at least."""
    draft, level = _Draft(), [0]
    for _ in range(n_levels):
        test, first = random_test(rng, n_bins), len(draft.left)
        for node in [level[0], *(node for node in level[1:] if rng.random() < share)]:
            draft.split(node, *test)
        level = list(range(first, len(draft.left)))
    return draft.finish(rng, n_bins)


def with_sets(rng: np.random.Generator, tree: Tree, columns: Sequence[int], n_codes: int, n_words: int = 4) -> Tree:
    """The tree with random sets of codes below n_codes in place of thresholds on some columns.

    Nodes with the same column and cut have equal sets, so a symmetric tree stays one.
    """
    sets: dict[tuple[int, int], np.ndarray] = {}
    subset = np.full(tree.n_nodes, -1, np.int32)
    rows: list[np.ndarray] = []
    for node in np.flatnonzero((tree.left >= 0) & np.isin(tree.feature, columns)).tolist():
        key = int(tree.feature[node]), int(tree.cut[node])
        if key not in sets:
            members = np.flatnonzero(rng.random(n_codes) < rng.choice([0.1, 0.5, 0.9]))
            sets[key] = np.zeros(n_words, np.uint64)
            np.bitwise_or.at(sets[key], members // 64, np.uint64(1) << (members % 64).astype(np.uint64))
        subset[node] = len(rows)
        rows.append(sets[key])
    there = subset >= 0
    return replace(
        tree,
        threshold=np.where(there, 0.0, tree.threshold),
        cut=np.where(there, 0, tree.cut).astype(np.int32),
        subset=subset if rows else np.empty(0, np.int32),
        sets=np.array(rows, np.uint64).reshape(-1, n_words),
    )


def random_codes(rng: np.random.Generator, n_rows: int, n_bins: Sequence[int], missing: float = 0.2) -> np.ndarray:
    """Codes (n_rows, n_columns), a share of them missing."""
    codes = np.column_stack([rng.integers(0, n, n_rows) for n in n_bins]).astype(np.uint8)
    codes[rng.random(codes.shape) < missing] = naive.MISSING
    return codes


def values_of(codes: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Raw values that have these codes under the cuts ½, 1½, ...: half of them lie on a cut, the others below it."""
    return np.where(codes == naive.MISSING, np.nan, codes + 0.5 * (np.arange(len(codes)) % 2)[:, None]).astype(dtype)


def bins_of(codes: np.ndarray, n_bins: Sequence[int]) -> Bins:
    """The codes as kernels read them; rows of an odd number of columns are longer than they must be."""
    n_columns = codes.shape[1]
    stride = -(-n_columns // 4) * 4 + 4 * (n_columns % 2)
    by_column = np.ascontiguousarray(codes.T)
    return Bins(naive.interleave(codes, stride), by_column, np.array(n_bins, np.int64), stride)


def add_tree(tree: Tree, codes: np.ndarray, index: np.ndarray, raw: np.ndarray, n_threads: int) -> None:
    """raw[r] += tree for row index[r] of the codes."""
    bins = bins_of(codes, [255] * codes.shape[1])
    run(
        n_threads, add_tree_binned, bins, index, tree.feature, tree.cut, tree.missing_left, tree.left, tree.subset,
        tree.sets, tree.value, raw,
    )  # fmt: skip


def label(tree: Tree, codes: np.ndarray, index: np.ndarray, labels: np.ndarray, n_threads: int) -> None:
    """labels[row] = leaf, for the rows of index."""
    bins = bins_of(codes, [255] * codes.shape[1])
    run(
        n_threads, label_binned, bins, index, tree.feature, tree.cut, tree.missing_left, tree.left, tree.subset,
        tree.sets, labels,
    )  # fmt: skip


def masks_of(trees: Sequence[Tree], outputs: Sequence[int]) -> Masks | None:
    """The masks of trees, also of those that a forest would rather predict by level; None with more than 64 leaves."""
    n_leaves = np.array([len(tree.leaves) for tree in trees], np.int64)
    walks = Forest.of(trees, outputs).walks
    lookups = _lookups(walks)
    if n_leaves.max() > 64 or lookups is None:
        return None
    return _masks(walks, n_leaves, lookups, np.unique(walks.feature[inner_of(walks)]).astype(np.int64))


def inner_of(walks: Walks) -> np.ndarray:
    """The nodes that split, counted through all trees."""
    sizes = np.diff(walks.start)
    return np.flatnonzero(walks.left != np.arange(sizes.sum()) - np.repeat(walks.start[:-1], sizes))


def on_codes(walks: Walks) -> dict[str, Any]:
    """Trees on codes, also those that a forest would rather predict by masks; none with sets, or too many cuts."""
    inner = inner_of(walks)
    codes = coding(walks, inner, np.unique(walks.feature[inner]).astype(np.int64)) if len(inner) else None
    if len(walks.sets.subset) or codes is None:
        return {}
    n_leaves = (np.diff(walks.start) + 1) // 2
    return {"coded": coded(walks, codes), "octets": octets(walks, codes, n_leaves)}


def layouts_of(trees: Sequence[Tree], outputs: Sequence[int]) -> dict[str, Any]:
    """Every layout that can predict these trees, by name."""
    forest = Forest.of(trees, outputs)
    layouts = {"walks": forest.walks, "masks": masks_of(trees, outputs), "levels": forest.levels}
    return {name: layout for name, layout in layouts.items() if layout is not None} | on_codes(forest.walks)


def predict_by(method: str, layout: Any, X: np.ndarray, out: np.ndarray, n_threads: int, first: int, last: int) -> None:
    """out += the trees first..last, by the kernel of a layout."""
    if method == "walks" and len(layout.sets.subset):
        run(n_threads, walk_sets, X, layout, first, last, np.empty((0, 0), np.int64), out)
        return
    if method == "walks":
        run(n_threads, predict_walks, X, layout, first, last, out)
        return
    if method == "coded":
        scratch = np.zeros((n_threads, 16, max(1, 2 * len(layout.used))), np.uint8)
        layout = layout._replace(cuts=_rounded(layout.cuts, X.dtype))
        run(n_threads, predict_coded, X, layout, first, last, scratch, out)
        return
    if method == "octets":
        scratch = np.zeros((n_threads, 2, len(layout.used), OCTET_ROWS), np.uint8)
        layout = layout._replace(cuts=_rounded(layout.cuts, X.dtype))
        words = np.zeros((n_threads, 3, OCTET_ROWS), np.uint8)
        run(n_threads, predict_octets, X, layout, first, last, scratch, words, out)
        return
    columns = np.zeros((n_threads, 2, X.shape[1], STRIDE), X.dtype)
    codes, words = _scratch(n_threads, layout.lookups, layout.keep.dtype if method == "masks" else np.uint32)
    kernel = predict_masks if method == "masks" else predict_levels
    run(n_threads, kernel, X, as_for(layout, X), first, last, columns, codes, words, out)


# --- growth ----------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A table and pairs to grow trees on."""

    codes: np.ndarray
    n_bins: Sequence[int]
    grad: np.ndarray
    hess: np.ndarray  # all 1 when `constant`
    constant: bool = False
    wide: bool = False  # two words a row

    @property
    def peaks(self) -> tuple[float, float]:
        return float(np.abs(self.grad).max()), float(self.hess.max())


def random_case(
    rng: np.random.Generator,
    n_rows: int,
    n_bins: Sequence[int],
    missing: float = 0.1,
    constant: bool = False,
    wide: bool = False,
) -> Case:
    """Gradients that depend on the columns, with noise, so that no two splits are equally good by chance."""
    codes = random_codes(rng, n_rows, n_bins, missing)
    signal = (np.where(codes == naive.MISSING, 7.0, codes) / np.array(n_bins)) @ rng.normal(size=len(n_bins))
    grad = signal - signal.mean() + rng.normal(size=n_rows)
    hess = np.ones(n_rows) if constant else rng.uniform(0.05, 0.25, n_rows)
    return Case(codes, n_bins, grad, hess, constant, wide)


def backend_of(case: Case, n_threads: int = 1, in_sets: Sequence[bool] | None = None, **params: Any) -> CpuBackend:
    """A backend for one table; params are those of TreeParams. It must be closed (`with`)."""
    cuts = tuple(np.arange(n - 1) + 0.5 for n in case.n_bins)
    bins, own = bins_of(case.codes, case.n_bins), None if in_sets is None else np.array(in_sets)
    return CpuBackend(bins, len(case.codes), cuts, TreeParams(**params), n_threads, in_sets=own)


def pack(backend: CpuBackend, case: Case, block: int | None = None) -> Packing:
    """Pack the pairs; `block` makes blocks smaller than they could be, so that small tables have wide histograms."""
    chosen = backend.pack(case.grad, case.hess, case.peaks, case.constant, case.wide)
    if block is None:
        return chosen
    backend._room[1] = backend._room[0]  # any node may be wide now
    backend._pools = backend._make_pools(*backend._room)
    return chosen._replace(block=np.int64(min(block, int(chosen.block))))


def same_again(case: Case, n_threads: int, times: int, **params: Any) -> None:
    """The tree that one thread grows, from n_threads, again and again: whoever is faster must not matter."""
    every = np.empty(0, np.uint32)
    with backend_of(case, 1, **params) as backend:
        first = grow_tree(backend, pack(backend, case), every, 3)
    with backend_of(case, n_threads, **params) as backend:
        chosen = pack(backend, case)
        for _ in range(times):
            again = grow_tree(backend, chosen, every, 3)
            np.testing.assert_array_equal(again.tree.left, first.tree.left)
            np.testing.assert_array_equal(again.tree.cut, first.tree.cut)
            np.testing.assert_array_equal(again.tree.gain, first.tree.gain)
            np.testing.assert_array_equal(again.labels, first.labels)


def rule_of(params: TreeParams, packing: Packing) -> naive.Rule:
    """The limits of a split in the units of the integers, exactly."""
    grad, hess = Fraction(packing.grad_peak), Fraction(packing.hess_peak)
    return naive.Rule(
        grad_unit=Fraction(packing.grad_unit),
        hess_unit=Fraction(packing.hess_unit),
        l1=Fraction(params.l1) / grad,
        l2=Fraction(params.l2) / hess,
        min_child_weight=Fraction(params.min_child_weight) / hess,
        min_samples_leaf=params.min_samples_leaf,
        min_gain=Fraction(params.min_split_gain) * hess / grad**2,
    )


def columns_of(params: TreeParams, n_columns: int, key: int) -> Callable[[int], Sequence[int]]:
    """The columns considered at a node (or level) of a tree."""
    eligible = list(range(n_columns))
    if params.tree_columns < n_columns:
        by_hash = sorted(eligible, key=lambda j: naive.splitmix64(key, (1 << 40) + j))
        eligible = sorted(by_hash[: params.tree_columns])
    if params.split_columns >= len(eligible):
        return lambda number: eligible
    return lambda number: naive.drawn_columns(key, number, eligible, params.split_columns)


class Grown(NamedTuple):
    """A grown tree, and the rows of its leaves."""

    tree: Tree
    cuts: tuple[np.ndarray, ...]
    members: dict[int, np.ndarray]  # leaf -> row numbers, as they lie
    labels: np.ndarray


def grow_in(backend: CpuBackend, chosen: Packing, index: np.ndarray, key: int, root: np.ndarray = NO_ROOT) -> cpu.Grown:
    """A tree on the rows of index (all when it is empty)."""
    rest = np.setdiff1d(np.arange(backend.n_rows), index) if len(index) else index
    return backend.grow(chosen, index, rest.astype(np.uint32), np.uint64(key), root=root)


def grow_tree(
    backend: CpuBackend, chosen: Packing, index: np.ndarray, key: int = 0, root: np.ndarray = NO_ROOT
) -> Grown:
    grown = grow_in(backend, chosen, index, key, root)
    members = {int(node): backend._rows[line, a:b].copy() for node, a, b, line in grown.leaves}
    return Grown(grown.tree, backend.cuts, members, backend.labels.copy())


def twin_tree(backend: CpuBackend, case: Case, chosen: Packing, index: np.ndarray, key: int = 0) -> list[naive.Node]:
    """The same tree by the slow grower."""
    params = backend.params
    g, h = integers(case.grad, case.hess, chosen)
    data = naive.Data(case.codes, np.array(case.n_bins), g, h)
    rows = index.astype(np.int64) if len(index) else np.arange(len(g))
    rule, columns = rule_of(params, chosen), columns_of(params, len(case.n_bins), key)
    if params.growth == "symmetric":
        return naive.grow_symmetric(data, rows, rule, columns, max_depth=backend.max_leaves.bit_length() - 1)
    levelwise = params.growth == "levelwise"
    return naive.grow(
        data, rows, rule, columns, levelwise=levelwise, max_leaves=backend.max_leaves, max_depth=params.max_depth
    )


def same_tree(grown: Grown, nodes: list[naive.Node], chosen: Packing, symmetric: bool = False) -> None:
    """Identical nodes, in the same order, with the same rows in the same order."""
    tree = grown.tree
    flat = naive.harvest(nodes, [own.tolist() for own in grown.cuts], symmetric)
    for name in ("left", "feature", "cut", "threshold", "depth", "count", "missing_left"):
        assert getattr(tree, name).tolist() == getattr(flat, name), name
    leaves = [k for k, node in enumerate(nodes) if node.left < 0]
    assert sorted(grown.members) == leaves
    for k in leaves:
        np.testing.assert_array_equal(grown.members[k], nodes[k].rows)
        assert (grown.labels[nodes[k].rows] == k).all()
    scale = chosen.grad_peak**2 / chosen.hess_peak
    # an improvement that is the small difference of large scores is as exact as these
    tolerance = 1e-9 * np.array(flat.gain) + 1e-12 * np.array(flat.count)
    assert (np.abs(tree.gain / scale - flat.gain) <= tolerance).all()


# --- histograms and splits on their own ------------------------------------------------------------------------------


def partitioned_by_side(column: np.ndarray, sides: np.ndarray, rows: np.ndarray, n_left: int) -> np.ndarray:
    """The same by a table of sides."""
    out = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    partition_sides(column, sides, rows, n_left, out)
    return out


def partitioned(column: np.ndarray, cut: int, missing_left: bool, rows: np.ndarray, n_left: int) -> np.ndarray:
    """The rows after a division, those on the left first."""
    out = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    partition_rows(column, NO_BUNDLES, 0, cut, missing_left, rows, n_left, out)
    return out


def by_column(line: np.ndarray, n_columns: int) -> np.ndarray:
    """The entries of a histogram as (n_columns, 256)."""
    return line[: n_columns * PITCH].reshape(n_columns, PITCH)[:, :256]


def wide_histogram(backend: CpuBackend, chosen: Packing, rows: np.ndarray) -> np.ndarray:
    """(n_columns, 256, 3): the histogram that the kernel makes of rows, in slot 0 of the backend's room."""
    pools, n_columns = backend._pools, backend.n_columns
    pools.grad[:], pools.hess[:] = 77, 77
    histogram_of_rows(backend.bins, backend._words, backend._more_words, rows, chosen, pools)
    assert not pools.own_packed.any(), "a thread's room must be left empty"
    grad, more = (by_column(line[0], n_columns) for line in (pools.grad, pools.hess))
    bits = int(chosen.count_bits)
    return np.stack([grad, more >> bits, more & ((1 << bits) - 1)], axis=2)


class Found(NamedTuple):
    gain: float
    column: int
    bin: int
    missing: int
    left: tuple[int, int, int]


def split_of(
    backend: CpuBackend,
    chosen: Packing,
    rows: np.ndarray,
    totals: Sequence[int],
    wide: bool,
    key: int = 0,
    node: int = 0,
) -> Found:
    """The kernel's best split of a node's rows."""
    pools, n_columns = backend._pools, backend.n_columns
    if wide:
        histogram_of_rows(backend.bins, backend._words, backend._more_words, rows, chosen, pools)
    else:
        pools.packed[0] = 0
        for j in range(n_columns):
            np.add.at(pools.packed[0], j * PITCH + backend.bins.by_column[j, rows].astype(int), backend._words[rows])
    out = np.full(N_FIELDS, -9, np.int64)
    limits = backend._limits(chosen, np.uint64(key))
    gain = best_split(
        pools, wide, 0, backend.bins, node, tuple(int(t) for t in totals), limits, chosen,
        np.zeros(256), out,
    )  # fmt: skip
    fields = [int(out[k]) for k in (COLUMN, BIN, MISSING_LEFT, GRAD_LEFT, HESS_LEFT, COUNT_LEFT)]
    return Found(float(gain), fields[0], fields[1], fields[2], (fields[3], fields[4], fields[5]))


def leaf_totals(
    backend: CpuBackend, case: Case, chosen: Packing, index: np.ndarray
) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """(n_nodes, 4) sums of the leaves of a tree grown on `index`, as the backend makes them, and the leaves' rows."""
    grown = grow_in(backend, chosen, index, 9)
    members = {int(node): backend._rows[line, a:b].astype(int) for node, a, b, line in grown.leaves}
    units = np.array([power_above(peak) for peak in (*case.peaks, 1.0)])
    return backend.leaf_sums(grown, case.grad, case.hess, NOTHING, units, SquaredError()), members
