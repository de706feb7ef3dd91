"""A Dataset in a folder: bin codes that are mapped, and a manifest with all the rest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stagewise._version import __version__
from stagewise.data.binning import Marginal
from stagewise.data.categories import Levels
from stagewise.data.labels import Labels
from stagewise.data.leveltables import Crowd, level_arrays, read_levels
from stagewise.data.table import Schema
from stagewise.errors import InputError
from stagewise.kernels.histogram import Bins
from stagewise.storage.container import Content, Section
from stagewise.storage.mapping import map_bytes, map_values
from stagewise.storage.store import Building, Store

__all__ = [
    "Header",
    "KIND",
    "Made",
    "Parts",
    "crowd_file",
    "digest_of",
    "fresh",
    "numbers_of",
    "open_parts",
    "stride_of",
    "write_vectors",
]

KIND = "dataset"
_FORMAT = 1
"""Of the files and of what is in the manifest; raise it when either changes, or when cut points are found otherwise."""


class Parts(NamedTuple):
    """What a Dataset is made of."""

    bins: Bins
    cuts: tuple[np.ndarray, ...]
    marginals: tuple[Marginal, ...]
    schema: Schema
    y: Any
    weight: np.ndarray | None
    max_bins: int
    crowds: dict[int, Crowd]


@dataclass(frozen=True, slots=True)
class Made:
    """What a cache was made of: it can be used again while this is the same."""

    sources: list[list[Any]] | None  # path, size, time of the last change; None: cannot be known
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """A Dataset without the arrays that have an entry a row."""

    cuts: tuple[np.ndarray, ...]
    marginals: tuple[Marginal, ...]
    schema: Schema
    n_rows: int
    max_bins: int
    crowds: dict[int, Levels]  # all levels of columns that have more of them than there are codes

    def content(self, made: Made, y: np.ndarray | Labels | None, weight: np.ndarray | None) -> Content:
        """The manifest."""
        table = {
            "format": _FORMAT,
            "n_rows": self.n_rows,
            "n_columns": self.schema.n_columns,
            "names": None if self.schema.names is None else list(self.schema.names),
            "max_bins": self.max_bins,
            "target": None if y is None else (y.codes if isinstance(y, Labels) else y).dtype.str,
            "labels": y.classes.tolist() if isinstance(y, Labels) else None,
            "weighted": weight is not None,
            **({"zeros_missing": True} if self.schema.zeros_missing else {}),
        }
        arrays = {
            "cuts": np.concatenate([np.empty(0), *self.cuts]),
            "n_cuts": np.array([len(own) for own in self.cuts], np.int64),
            "points": np.concatenate([np.empty(0), *(own.points for own in self.marginals)]),
            "shares": np.concatenate([np.empty(0), *(own.shares for own in self.marginals)]),
            "n_points": np.array([len(own.points) for own in self.marginals], np.int64),
            "missing": np.array([own.missing for own in self.marginals], np.float64),
        }
        origin = {"sources": made.sources, "settings": made.settings}
        sections = {"table": Section(table, arrays), "origin": Section(origin)}
        if self.schema.coded:
            numbered = [self.crowds.get(j) for j in range(self.schema.n_columns)]
            whole = [None if own is None else numbers_of(own) for own in numbered]
            sections["levels"] = Section({}, level_arrays(self.schema.levels))
            sections["crowds"] = Section({}, level_arrays(whole))
        return Content(KIND, sections, __version__)


def numbers_of(levels: Levels) -> Levels:
    """A level table that gives the number of a level, whatever their number: exact in float64, not in 8 bits."""
    return Levels(levels.values, np.arange(len(levels.values), dtype=np.float64), True, 0.0)


def digest_of(cuts: tuple[np.ndarray, ...], schema: Schema) -> str:
    """A short name for cut points and level tables."""
    total = hashlib.sha256()
    for own in (*cuts, *level_arrays(schema.levels).values()):
        total.update(f"{len(own)},".encode())
        total.update(own.tobytes())
    return total.hexdigest()


def stride_of(n_columns: int) -> int:
    """Bytes of a row in the row-by-row copy: a multiple of four."""
    return -(-n_columns // 4) * 4


def crowd_file(j: int) -> str:
    """The file of the level numbers of a column, int32."""
    return f"levels-{j}"


def write_vectors(building: Building, y: np.ndarray | Labels | None, weight: np.ndarray | None) -> None:
    """The files of what has one entry a row."""
    values = y.codes if isinstance(y, Labels) else y
    for name, own in (("target", values), ("weight", weight)):
        if own is not None:
            building.create(name, own.nbytes).write(0, own)


def fresh(store: Store, made: Made) -> str:
    """Why a cache cannot be used for what is `made` now; empty when it can."""
    origin = store.content.sections["origin"].values if "origin" in store.content.sections else {}
    if store.content.library != __version__ or _table(store).get("format") != _FORMAT:
        return f"stagewise {store.content.library} made it, and this is {__version__}"
    if origin.get("settings") != made.settings:
        return "it was made with other settings"
    if made.sources is None:
        return "what it was made of cannot be compared"
    return _changed(origin.get("sources"), made.sources)


def _changed(before: Any, now: list[list[Any]]) -> str:
    """Which of the source files has changed, been added or removed; empty for none."""
    if before == now:
        return ""
    old = {own[0]: own for own in before} if isinstance(before, list) else {}
    for own in now:
        if own[0] not in old:
            return f"{own[0]} is new"
        if old[own[0]] != own:
            return f"{own[0]} has changed"
    gone = [path for path in old if path not in {own[0] for own in now}]
    return f"{gone[0]} is no longer among its files" if gone else "the order of its files has changed"


def _table(store: Store) -> Mapping[str, Any]:
    return store.content.sections["table"].values if "table" in store.content.sections else {}


def open_parts(store: Store, rows: tuple[int, int] | None = None) -> Parts:
    """The Dataset of a store, mapped. rows: (first, stop), for a part, whose column-by-column codes are copied."""
    values = _table(store)
    if store.content.library != __version__ or values.get("format") != _FORMAT:
        raise InputError(
            f"{store.folder.parent} was made by stagewise {store.content.library}, and this is {__version__}, which "
            "may choose other cut points. Build the dataset anew."
        )
    arrays = store.content.sections["table"].arrays
    n, f, names = values["n_rows"], values["n_columns"], values["names"]
    stride = stride_of(f)
    cuts = tuple(np.split(arrays["cuts"], np.cumsum(arrays["n_cuts"])[:-1]))
    ends = np.cumsum(arrays["n_points"])[:-1]
    marginals = tuple(
        Marginal(points, shares, missing)
        for points, shares, missing in zip(
            np.split(arrays["points"], ends), np.split(arrays["shares"], ends), arrays["missing"].tolist(), strict=True
        )
    )
    by_row = map_bytes(store.file("rows"), n * stride)
    by_column = map_bytes(store.file("columns"), n * f).reshape(f, n)
    y = None if values["target"] is None else map_values(store.file("target"), np.dtype(values["target"]), n)
    weight = map_values(store.file("weight"), np.dtype(np.float64), n) if values["weighted"] else None
    if rows is not None:
        whole = np.shape(rows) == (2,) and np.asarray(rows).dtype.kind in "iu"
        first, stop = rows if whole else (0, 0)
        if not 0 <= first < stop <= n:
            raise InputError(f"rows={rows} must be (first, stop) with 0 <= first < stop <= {n}.")
        by_row, by_column = by_row[first * stride : stop * stride], np.ascontiguousarray(by_column[:, first:stop])
        y = None if y is None else y[first:stop]
        weight = None if weight is None else weight[first:stop]
    target: Any = y
    if values["labels"] is not None:
        target = Labels(np.array(values["labels"], dtype=object), np.asarray(y))
    bins = Bins(by_row, by_column, np.array([len(own) + 1 for own in cuts], np.int64), stride)
    levels, crowds = _levels(store, f, n, rows)
    schema = Schema(f, None if names is None else tuple(names), levels, values.get("zeros_missing", False) is True)
    return Parts(bins, cuts, marginals, schema, target, weight, values["max_bins"], crowds)


def _levels(
    store: Store, f: int, n: int, rows: tuple[int, int] | None
) -> tuple[tuple[Levels | None, ...], dict[int, Crowd]]:
    """The level tables of a store, and the columns that have more levels than codes."""
    sections = store.content.sections
    if "levels" not in sections:
        return (), {}
    crowds = {}
    for j, own in enumerate(read_levels(sections["crowds"].arrays, f)):
        if own is not None:
            index = map_values(store.file(crowd_file(j)), np.dtype(np.int32), n)
            crowds[j] = Crowd(Levels(own.values, own.numbers), index if rows is None else index[rows[0] : rows[1]])
    return read_levels(sections["levels"].arrays, f), crowds
