"""Ordered target statistics of a table in partitions (data/statistics.py says what they are), as plain Dask tasks.

Every level has an owner. The partitions send it the rows of its levels: level, hash and target as an integer; it puts
them in the order of the hashes, adds up, and sends the numbers back, in the order in which the rows came. These are the
sums of one machine, so the numbers are the same bits. When a worker is lost Dask runs its tasks again.

    read       levels, targets and weights of a partition, and which of its rows count: kept while the rest is done
    divided    the rows of a partition, by the owners of their levels
    settled    an owner's answer to every partition, and what its levels are at prediction
    placed     the numbers of a partition's rows
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from distributed import Future

from stagewise.dask.partitions import Given, Plan, joined, on_part, rows_weights
from stagewise.data.categories import Levels, level_index
from stagewise.data.statistics import Units, earlier_sums, row_hashes
from stagewise.data.table import Schema, read_table
from stagewise.errors import InputError
from stagewise.kernels.exact import hash_values

if TYPE_CHECKING:
    from stagewise.dask.fleet import Fleet

__all__ = ["Split", "ordered_statistics"]

_BITS = 12
"""Leading bits of hashes by which rows are counted, to find the last one that is held out."""


@dataclass(frozen=True, slots=True)
class Split:
    """Rows that will be held out for early stopping: of each class the `share` with the smallest hashes under `key`."""

    key: np.uint64
    share: float
    n_classes: int  # 0 for regression: all rows are one class


@dataclass(frozen=True, slots=True, eq=False)
class CrowdPart:
    """What statistics need of a partition."""

    level: np.ndarray  # int32 (n_crowds, n_rows), -1 where missing
    y: np.ndarray
    weight: np.ndarray | None
    first: int  # number of the first row
    training: np.ndarray  # bool (n_rows,)

    def __sizeof__(self) -> int:
        """For Dask, which spills to disk what does not fit."""
        return sum(own.nbytes for own in (self.level, self.y, self.weight, self.training) if own is not None)

    def weights(self, peak: float) -> np.ndarray:
        """Of the rows that count, relative to the largest."""
        return (np.ones(len(self.y)) if self.weight is None else self.weight / peak)[self.training]


class Rows(NamedTuple):
    """Rows on their way to an owner."""

    level: np.ndarray  # int32; ~level for those that do not count
    hashes: np.ndarray
    sums: np.ndarray
    weights: np.ndarray


def read(given: Given, plan: Plan, schema: Schema, crowds: Sequence[int], first: int) -> CrowdPart:
    """schema: with the numbers of the levels of these columns."""
    levels, targets, weights = [np.empty((len(crowds), 0), np.int32)], [np.empty(0)], []
    for own in given.batches():
        table = read_table(own.X, like=schema, estimator_name="the fit")
        levels.append(np.stack([level_index(table.column(j)) for j in crowds]))
        y, weight = rows_weights(own, plan, table.n_rows)
        targets.append(y)
        weights.append(weight)
    whole, y = joined(weights), np.concatenate(targets)
    return CrowdPart(
        np.concatenate(levels, axis=1), y, whole, first, np.ones(len(y), np.bool_) if whole is None else whole > 0.0
    )


# --- which rows count ------------------------------------------------------------------------------------------------


def _drawn(part: CrowdPart, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """The hashes of the rows, and the class of each."""
    hashes = np.empty(len(part.y), np.uint64)
    hash_values(split.key, part.first, hashes)
    return hashes, part.y.astype(np.int64) if split.n_classes else np.zeros(len(part.y), np.int64)


def tallied(part: CrowdPart, split: Split) -> np.ndarray:
    """int64 (n_classes, 2**_BITS): how many rows that count have hashes with these leading bits."""
    hashes, classes = _drawn(part, split)
    n = max(1, split.n_classes)
    cells = (classes << _BITS) + (hashes >> np.uint64(64 - _BITS)).astype(np.int64)
    return np.bincount(cells[part.training], minlength=n << _BITS).reshape(n, -1)


def inside(part: CrowdPart, split: Split, buckets: Sequence[int]) -> list[np.ndarray]:
    """The hashes with these leading bits, of each class, of rows that count."""
    hashes, classes = _drawn(part, split)
    top = (hashes >> np.uint64(64 - _BITS)).astype(np.int64)
    return [hashes[part.training & (classes == k) & (top == bucket)] for k, bucket in enumerate(buckets)]


def kept_in(part: CrowdPart, split: Split, edges: np.ndarray) -> CrowdPart:
    """The same without the rows that are held out: those with hashes up to the edge of their class, if it has one."""
    hashes, classes = _drawn(part, split)
    bounds, drawn = np.array([edge for edge, _ in edges], np.uint64), np.array([own for _, own in edges], np.bool_)
    return replace(part, training=part.training & ~(drawn[classes] & (hashes <= bounds[classes])))


def _held_out(fleet: Fleet, parts: list[Future], split: Split) -> list[Future]:
    """As `Shard.smallest_hashes`: counts by leading bits, then the hashes of the buckets in which the last ones are."""
    counts = np.sum(fleet.results([fleet.client.submit(tallied, own, split, pure=False) for own in parts]), axis=0)
    wanted = [round(split.share * int(own.sum())) for own in counts]
    running = np.cumsum(counts, axis=1)
    buckets = [int(np.searchsorted(own, n)) if n else -1 for own, n in zip(running, wanted, strict=True)]
    found = fleet.results([fleet.client.submit(inside, own, split, buckets, pure=False) for own in parts])
    edges = []
    for k, (n, bucket) in enumerate(zip(wanted, buckets, strict=True)):
        before = int(running[k, bucket - 1]) if bucket > 0 else 0
        hashes = np.sort(np.concatenate([own[k] for own in found]))
        edges.append((int(hashes[n - before - 1]) if n else 0, n > 0))
    return [fleet.client.submit(kept_in, own, split, edges, pure=False) for own in parts]


# --- sums ------------------------------------------------------------------------------------------------------------


def heaviest(part: CrowdPart) -> tuple[int, float]:
    """Rows that count, and the largest weight of them."""
    return int(part.training.sum()), float(part.weights(1.0).max(initial=0.0))


def largest(part: CrowdPart, peak: float) -> float:
    """The largest target times weight."""
    return float(np.abs(part.weights(peak) * part.y[part.training]).max(initial=0.0))


def totals(part: CrowdPart, peak: float, units: Units) -> tuple[int, int]:
    sums, weights = units.integers(part.weights(peak), part.y[part.training])
    return int(sums.sum()), int(weights.sum())


def divided(part: CrowdPart, k: int, owners: int, peak: float, units: Units) -> list[Rows]:
    """The rows of crowd k that have a level, owner by owner."""
    level, sums, weights = part.level[k], *np.zeros((2, len(part.y)), np.int64)
    sums[part.training], weights[part.training] = units.integers(part.weights(peak), part.y[part.training])
    hashes = row_hashes(part.first, len(level))
    chosen = [np.flatnonzero((level >= 0) & (level % owners == owner)) for owner in range(owners)]
    marked = np.where(part.training, level, ~level)
    return [Rows(marked[own], hashes[own], sums[own], weights[own]) for own in chosen]


def settled(parts: list[Rows], owner: int, owners: int, n_levels: int, units: Units) -> list[np.ndarray]:
    """The numbers of each part's rows; at the end those of this owner's levels at prediction."""
    rows = Rows(*(np.concatenate(own) for own in zip(*parts, strict=True)))
    counts = rows.level >= 0
    place = np.where(counts, rows.level, ~rows.level) // owners
    total, share = np.zeros((2, len(range(owner, n_levels, owners))), np.int64)
    np.add.at(total, place[counts], rows.sums[counts])
    np.add.at(share, place[counts], rows.weights[counts])
    levels = units.mean(total, share)
    numbers = levels[place]
    numbers[counts] = units.mean(*earlier_sums(*(own[counts] for own in rows)))
    return [*np.split(numbers, np.cumsum([len(own.level) for own in parts])[:-1]), levels]


def placed(part: CrowdPart, answers: list[list[np.ndarray]]) -> np.ndarray:
    """float64 (n_crowds, n_rows). answers: of each crowd, those of all owners."""
    out = np.full(part.level.shape, np.nan)
    for level, own, column in zip(part.level, answers, out, strict=True):
        for owner, numbers in enumerate(own):
            column[(level >= 0) & (level % len(own) == owner)] = numbers
    return out


def ordered_statistics(
    fleet: Fleet, given: list[tuple[Any, ...]], firsts: list[int], plan: Plan, schema: Schema, split: Split | None
) -> tuple[list[Future], Schema]:
    """The numbers of the rows of every partition, which stay on the workers, and the level tables with them.

    given: what each partition consists of; firsts: the number of its first row. schema: columns that are to become
    statistics are marked `by_target`.
    """
    submit, tables = fleet.client.submit, list(schema.levels)
    crowds = [(j, own) for j, own in enumerate(schema.levels) if own is not None and own.by_target]
    columns, numbered = [j for j, _ in crowds], schema.numbered()
    parts = [
        submit(on_part, read, *own, plan, numbered, columns, first, pure=False)
        for own, first in zip(given, firsts, strict=True)
    ]
    if split is not None:
        parts = _held_out(fleet, parts, split)
    counted = fleet.results([submit(heaviest, own, pure=False) for own in parts])
    n, peak = sum(own[0] for own in counted), max(own[1] for own in counted)
    if n == 0:
        raise InputError("No row is left to train on; use more rows, another validation_fraction, or give eval_set.")
    top = max(fleet.results([submit(largest, own, peak, pure=False) for own in parts]))
    units = Units.of(top, n)
    sums, weights = zip(*fleet.results([submit(totals, own, peak, units, pure=False) for own in parts]), strict=True)
    units, owners = units.with_prior(sum(sums), sum(weights)), max(1, len(fleet.workers()))
    answers: list[list[list[Future]]] = []
    for k, (j, own) in enumerate(crowds):
        sent = [submit(divided, part, k, owners, peak, units, pure=False) for part in parts]
        back = [
            submit(
                settled, [submit(operator.getitem, one, owner, pure=False) for one in sent], owner, owners,
                len(own.values), units, pure=False,
            )
            for owner in range(owners)
        ]  # fmt: skip
        answers.append([[submit(operator.getitem, one, p, pure=False) for one in back] for p in range(len(parts))])
        numbers = np.empty(len(own.values))
        for owner, levels in enumerate(fleet.results([submit(operator.getitem, one, -1, pure=False) for one in back])):
            numbers[owner::owners] = levels
        tables[j] = Levels(own.values, numbers, True, units.prior)
    rows = [submit(placed, part, [own[p] for own in answers], pure=False) for p, part in enumerate(parts)]
    return rows, replace(schema, levels=tuple(tables))
