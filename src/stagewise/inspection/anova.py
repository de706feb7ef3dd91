"""Functional ANOVA: a model as a constant, functions of one column, functions of two, and the rest.

With respect to independent columns that have the distributions seen in training (or in X),

    f(x) = f₀ + Σⱼ fⱼ(xⱼ) + Σ_{j<k} f_jk(xⱼ, xₖ) + ...

where every component averages to 0 over each of its columns (Hoeffding 1948). Trees are constant on boxes, so each
component is an exact table. If no path of the model tests more than `order` columns (trees of two leaves, or of depth
2), the components add up to the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stagewise.errors import ParameterError
from stagewise.inspection.interaction import pairs_on_paths
from stagewise.inspection.leaves import paths_of
from stagewise.inspection.levels import Names, as_codes, set_codes
from stagewise.inspection.listing import Listed, Summary, frame_of, number
from stagewise.inspection.subject import Subject
from stagewise.kernels.effects import component_tables
from stagewise.kernels.paths import Paths
from stagewise.params import check_choice

__all__ = ["Anova", "Component", "functional_anova"]

_MOST_NUMBERS = 50_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """A function of one or two columns, constant on cells.

    Cell g of an axis holds the values with edges[g - 1] < value <= edges[g]; the last cell is that of missing values.
    Edges of a column of categories are its codes 0, 1, ..., so that each has a cell; the one after them has all others.
    """

    columns: tuple[int, ...]
    names: tuple[str, ...]
    edges: tuple[np.ndarray, ...]
    levels: tuple[Names, ...]  # by axis: names of the codes of categories, None for numbers
    values: np.ndarray  # (n_outputs, *(len(edges) + 2 for each axis))
    variance: np.ndarray  # (n_outputs,)

    def at(self, matrix: np.ndarray) -> np.ndarray:
        """(n_outputs, n_rows): the component at rows of a matrix."""
        axes = zip(self.edges, self.levels, self.columns, strict=True)
        cells = tuple(_cells(edges, names, matrix[:, j]) for edges, names, j in axes)
        return np.array([own[cells] for own in self.values])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Anova(Listed):
    """The components of a model."""

    constant: np.ndarray  # (n_outputs,)
    components: tuple[Component, ...]  # single columns first, then pairs; each by falling variance
    outputs: tuple[str, ...]
    complete: bool  # whether constant and components add up to the model
    subject: Subject

    def predict(self, X: Any) -> np.ndarray:
        """(n_outputs, n_rows): the sum of the constant and all components."""
        matrix = self.subject.matrix(X).astype(np.float64, copy=False)
        out = np.repeat(self.constant[:, None], len(matrix), axis=1)
        for component in self.components:
            out += component.at(matrix)
        return out

    def component(self, *features: Any) -> Component:
        """That of one column or of a pair."""
        wanted = tuple(sorted(self.subject.columns(features)))
        for component in self.components:
            if component.columns == wanted:
                return component
        names = " and ".join(self.subject.names[j] for j in wanted)
        raise ParameterError(f"there is no component of {names}: the model does not use them together.")

    def to_frame(self, library: str | None = None) -> Any:
        """One row a component: its columns and its variance."""
        columns: dict[str, Any] = {"component": [" × ".join(own.names) for own in self.components]}
        for k, name in enumerate(self.outputs):
            columns[f"variance {name}".strip()] = [float(own.variance[k]) for own in self.components]
        return frame_of(columns, library)

    def _summary(self) -> Summary:
        total = sum(float(own.variance.sum()) for own in self.components) or 1.0
        ranked = sorted(self.components, key=lambda own: -float(own.variance.sum()))
        rows = [
            [" × ".join(own.names), number(float(own.variance.sum())), f"{float(own.variance.sum()) / total:.1%}"]
            for own in ranked[:10]
        ]
        whole = "the whole model" if self.complete else "there is more in the model"
        return Summary(f"Functional ANOVA, {whole}", ["component", "variance", "share"], rows, len(ranked))


def functional_anova(
    model: Any, features: Any = None, *, order: int = 2, X: Any = None, sample_weight: Any = None
) -> Anova:
    """The components of a model up to an order of 1 or 2.

    features: columns whose components are wanted (all). The columns' distributions are those of the training data,
    which the model remembers, or those of X (with sample_weight).
    """
    subject = Subject.of_trees(model)
    order = check_choice("order", order, (1, 2))
    wanted = np.zeros(len(subject.names), np.bool_)
    wanted[list(range(len(subject.names)) if features is None else subject.columns(features))] = True
    paths = paths_of(subject.model)
    edges = _edges(paths, len(subject.names))
    chances = _chances(subject, edges, X, sample_weight)
    runs, paths = _runs(paths, edges, chances)
    used = np.bincount(paths.column, minlength=len(edges)) > 0
    singles = np.flatnonzero(used & wanted)
    linked = np.triu(pairs_on_paths(paths, len(edges)) > 0, 1) & wanted & wanted[:, None]
    pairs = np.argwhere(linked & (order == 2))
    mains, joints = _tables(subject, paths, runs, edges, singles, pairs)
    components = [
        _component(subject, (int(j),), edges, chances, table) for j, table in zip(singles, mains, strict=True)
    ] + [_component(subject, (int(j), int(k)), edges, chances, t) for (j, k), t in zip(pairs, joints, strict=True)]
    components.sort(key=lambda own: (len(own.columns), -float(own.variance.sum())))
    constant = np.array(subject.model.initial)
    reach = _product(paths)
    for k in range(len(constant)):
        constant[k] += (paths.value * reach)[paths.output == k].sum()
    complete = int(np.diff(paths.start).max(initial=0)) <= order and bool(wanted[used].all())
    return Anova(constant, tuple(components), subject.outputs, complete, subject)


def _product(paths: Paths) -> np.ndarray:
    """By leaf: the product of its conditions' chances."""
    logs = np.ones(len(paths.value))
    np.multiply.at(logs, np.repeat(np.arange(len(paths.value)), np.diff(paths.start)), paths.ratio)
    return logs


def _cells(edges: np.ndarray, names: Names, values: np.ndarray) -> np.ndarray:
    """The cell of each value; names: of codes."""
    values = values if names is None else as_codes(values)
    return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values))


def _edges(paths: Paths, n_columns: int) -> list[np.ndarray]:
    """The distinct thresholds of each column, ascending; of a column that is split by sets its codes."""
    found = []
    for j in range(n_columns):
        mine = paths.column == j
        if (paths.subset[mine] >= 0).any():
            sets = paths.sets[paths.subset[mine]]  # codes that fare otherwise than those beyond, somewhere
            told = np.bitwise_or.reduce(sets[:, :-1] ^ (np.uint64(0) - (sets[:, -1:] & np.uint64(1))), axis=0)
            found.append(np.arange(float(set_codes(told).max(initial=-1) + 1)))
            continue
        cuts = np.unique(np.concatenate((paths.low[mine], paths.high[mine])))
        found.append(cuts[~np.isnan(cuts) & (cuts < np.inf)])
    return found


def _chances(subject: Subject, edges: list[np.ndarray], X: Any, sample_weight: Any) -> list[np.ndarray]:
    """The probability of each cell of each column, missing last."""
    if X is not None:
        matrix = subject.matrix(X)
        shares = subject.shares(sample_weight, len(matrix))
        columns = [(matrix[:, j].astype(np.float64), shares) for j in range(len(edges))]
    elif subject.model.marginals:
        columns = [
            (np.append(own.points, np.nan), np.append(own.shares, own.missing)) for own in subject.model.marginals
        ]
    else:
        raise ParameterError("this model does not remember its training data: give X.")
    return [
        np.bincount(_cells(own, names, values), shares, minlength=len(own) + 2)
        for own, names, (values, shares) in zip(edges, subject.levels, columns, strict=True)
    ]


class _Runs(NamedTuple):
    """Condition c holds in the runs start[c] to start[c + 1] of cells; run r is the cells begin[r] to end[r]."""

    start: np.ndarray  # int64 (n_conditions + 1)
    begin: np.ndarray  # int64
    end: np.ndarray  # int64


def _runs(paths: Paths, edges: list[np.ndarray], chances: list[np.ndarray]) -> tuple[_Runs, Paths]:
    """The cells of every condition, and the paths with the conditions' chances as ratios."""
    n = len(paths.column)
    owner, begin, end, ratio = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)], np.zeros(n)
    for j, own in enumerate(edges):
        mine = np.flatnonzero(paths.column == j)
        if len(mine) and paths.subset[mine[0]] >= 0:
            inside = _members(paths, mine, len(own))
            steps = np.diff(inside.astype(np.int8), axis=1, prepend=0, append=0)
            line, first = np.nonzero(steps == 1)
            last = np.nonzero(steps == -1)[1]
        else:
            low, high = paths.low[mine], paths.high[mine]
            line = np.arange(len(mine))
            first = np.where(np.isnan(low), 0, np.searchsorted(own, low) + 1)
            last = np.where(high == np.inf, len(own) + 1, np.searchsorted(own, high) + 1)
            last = np.maximum(first, last)
        upto = np.concatenate(([0.0], np.cumsum(chances[j])))
        ratio[mine] = np.bincount(line, upto[last] - upto[first], minlength=len(mine))
        gone = mine[paths.missing[mine] != 0]
        ratio[gone] += chances[j][-1]
        owner += [mine[line], gone]
        begin += [first, np.full(len(gone), len(own) + 1)]
        end += [last, np.full(len(gone), len(own) + 2)]
    joined = np.concatenate(owner)
    order = np.argsort(joined, kind="stable")
    start = np.searchsorted(joined[order], np.arange(n + 1)).astype(np.int64)
    parts = (np.concatenate(own)[order].astype(np.int64) for own in (begin, end))
    return _Runs(start, *parts), paths._replace(ratio=ratio)


def _members(paths: Paths, mine: np.ndarray, n_codes: int) -> np.ndarray:
    """bool (conditions, n_codes + 1): which codes meet conditions by sets; last, whether all codes beyond do."""
    sets = paths.sets[paths.subset[mine]]
    bits = np.unpackbits(sets[:, :-1].copy().view(np.uint8), axis=1, count=n_codes, bitorder="little")
    return np.column_stack([bits, sets[:, -1] & np.uint64(1)]).astype(bool)


def _tables(
    subject: Subject,
    paths: Paths,
    runs: _Runs,
    edges: list[np.ndarray],
    singles: np.ndarray,
    pairs: np.ndarray,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sums over leaves, (n_outputs, cells, ...) for each single column and each pair."""
    size = np.array([len(own) + 2 for own in edges], np.int64)
    starts = np.concatenate(([0], np.cumsum(size)))
    areas = [int(size[j] * size[k]) for j, k in pairs]
    offsets = np.concatenate(([0], np.cumsum(areas))).astype(np.int64)
    if offsets[-1] * subject.model.n_outputs > _MOST_NUMBERS:
        raise ParameterError(
            f"the components of {len(pairs)} pairs need {offsets[-1] * subject.model.n_outputs:,} numbers, more than "
            f"{_MOST_NUMBERS:,}; name fewer features, or take order=1."
        )
    place = np.full((len(size), len(size)), -1, np.int64)
    for (j, k), offset in zip(pairs, offsets, strict=False):
        place[j, k] = offset
    main, joint = np.zeros((len(subject.outputs), starts[-1])), np.zeros((len(subject.outputs), offsets[-1]))
    for output in range(len(subject.outputs)):
        component_tables(paths, output, *runs, size, starts[:-1], place, main[output], joint[output])
    mains = [main[:, starts[j] : starts[j + 1]] for j in singles]
    joints = [
        joint[:, a : a + area].reshape(-1, size[j], size[k])
        for (j, k), a, area in zip(pairs, offsets, areas, strict=False)
    ]
    return mains, joints


def _component(
    subject: Subject, columns: tuple[int, ...], edges: list[np.ndarray], chances: list[np.ndarray], table: np.ndarray
) -> Component:
    """A table with its means over each column taken off: what two columns do together beyond what each does alone."""
    weights = [chances[j] for j in columns]
    values = table
    for axis, weight in enumerate(weights, 1):
        shape = [-1 if k == axis else 1 for k in range(values.ndim)]
        values = values - (values * weight.reshape(shape)).sum(axis=axis, keepdims=True)
    mass = weights[0] if len(weights) == 1 else np.outer(*weights)
    unit = float(np.abs(values).max()) or 1.0
    with np.errstate(over="ignore"):  # a variance beyond 1e308 is infinite
        variance = ((values / unit) ** 2 * mass).reshape(len(values), -1).sum(axis=1) * unit * unit
    names = tuple(subject.names[j] for j in columns)
    levels = tuple(subject.levels[j] for j in columns)
    return Component(columns, names, tuple(edges[j] for j in columns), levels, values, variance)
