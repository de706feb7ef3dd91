"""Batches: a table that comes piece by piece, as often as it is asked for.

    Parquet or CSV files (arrow.py)  ┐
    a callable, or a list of frames  ├  Source.batches()  →  Batch, Batch, ...  →  (rows of X, y, weight)
    an iterator, kept on disk first  ┘

Each piece is a frame that also holds the target and the weights as columns, or a tuple (X, y), (X, y, weight).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stagewise.data.frame import is_index, open_native
from stagewise.errors import InputError, InputTypeError, MissingExtraError, ParameterError

if TYPE_CHECKING:
    from stagewise.data.frame import Frame

__all__ = ["Batch", "FrameBatches", "Roles", "Source", "arrow_table", "has_names", "pyarrow", "within"]

_SHOWN = 8


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows: X a frame or an array, y and weight what goes with it (series or arrays), or None."""

    X: Any
    y: Any
    weight: Any
    where: str  # for messages: a file's name, "batch 3"


class Source(Protocol):
    """Gives the same batches every time."""

    @property
    def n_rows(self) -> int | None:
        """None: not known before all have come."""
        ...

    def batches(self, only: tuple[str, ...] | None = None) -> Iterator[Batch]:
        """All batches in order. only: names of the columns of X that will be looked at; others may be left out."""
        ...


def pyarrow(what: str) -> Any:
    """The pyarrow package, or an error that says how to get it."""
    try:
        import pyarrow as found
    except ImportError:
        raise MissingExtraError(f"{what} needs pyarrow: pip install 'stagewise[arrow]'") from None
    return found


def has_names(frame: Frame) -> bool:
    """Whether columns are known by name: pandas may number them instead, whatever narwhals' types say."""
    return all(isinstance(name, str) for name in frame.columns)


def arrow_table(frame: Frame) -> Any:
    """A frame as a pyarrow table of its columns; the index of a pandas frame would become one of them."""
    import narwhals as nw

    return nw.maybe_reset_index(frame).to_arrow()


@contextmanager
def within(where: str) -> Iterator[None]:
    """Errors about cells say in which file or batch they are."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{where}: {error}") from error


@dataclass(slots=True)
class Roles:
    """Which columns of a frame are what. The first frame decides about names and kinds; others must be like it."""

    target: str | None = None
    weight: str | None = None
    columns: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    texts: frozenset[str] = frozenset()  # columns that hold text, where a file could be read otherwise
    _kinds: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> (kind, where it was seen first)
    _first: tuple[str, ...] | None = None  # all columns of the first frame that are not ignored

    @classmethod
    def check(cls, target: Any, weight: Any, columns: Any, ignore: Any) -> Roles:
        for name, value in (("target", target), ("sample_weight", weight)):
            if value is not None and not isinstance(value, str):
                raise ParameterError(f"{name}={value!r} must be the name of a column, or None.")
        for name, value in (("columns", columns), ("ignore", ignore)):
            if isinstance(value, str) or not (value is None or all(isinstance(own, str) for own in value)):
                raise ParameterError(f"{name}={value!r} must be a list of column names.")
        columns = None if columns is None else tuple(columns)
        index = next((own for own in columns or () if is_index(own)), None)
        if index is not None:
            raise ParameterError(
                f"columns names {index!r}, which is the index of a pandas frame; give it another name."
            )
        roles = cls(target, weight, columns, tuple(ignore or ()))
        if columns is not None:
            twice = {own for own in (target, weight, *roles.ignore) if own in columns}
            if twice or len(set(columns)) < len(columns):
                raise ParameterError(f"columns={list(columns)!r} names a column twice, or one that has another role.")
        if target is not None and target == weight:
            raise ParameterError(f"target and sample_weight are both {target!r}; they must be two columns.")
        return roles

    @property
    def features(self) -> tuple[str, ...]:
        """The columns of X, in order; known after the first frame."""
        if self.columns is not None:
            return self.columns
        assert self._first is not None
        return tuple(name for name in self._first if name not in (self.target, self.weight))

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns that must be read."""
        return (*self.features, *(name for name in (self.target, self.weight) if name is not None))

    def learn(self, frame: Frame, where: str) -> None:
        """Compare a frame's columns with those of the first one, by name and kind."""
        asked = (*(self.columns or ()), self.target, self.weight)
        kept = (name for name in frame.columns if name in asked or not is_index(name))
        names = tuple(str(name) for name in kept if name not in self.ignore)
        if self._first is None:
            self._first = names
        for what, name in (("target", self.target), ("sample_weight", self.weight)):
            if name is not None and name not in names:
                raise InputError(f"{what}={name!r} is not a column of {where}, which has {_list(frame.columns)}.")
        missing = [name for name in self.wanted if name not in names]
        if missing:
            raise InputError(f"{where} has no column {missing[0]!r}; it has {_list(frame.columns)}.")
        more = [name for name in names if name not in self._first]
        if more and self.columns is None:
            raise InputError(
                f"{where} has a column {more[0]!r} that the first one has not; say which to use, with columns=[...]."
            )
        schema = frame.schema
        for name in self.wanted:
            kind = _kind(schema[name])
            seen, first = self._kinds.setdefault(name, (kind, where))
            if not seen:
                self._kinds[name] = (kind, where)
            elif kind and kind != seen:
                raise InputError(
                    f"column {name!r} holds {kind} in {where}, but {seen} in {first}; all parts of a table must agree."
                )

    def split(self, frame: Frame, where: str, only: tuple[str, ...] | None = None) -> Batch:
        """A frame as X, y and weight."""
        features = self.features if only is None else only
        y = None if self.target is None or only is not None else frame[self.target]
        weight = None if self.weight is None else frame[self.weight]
        return Batch(frame.select(*features).to_native(), y, weight, where)


def _kind(dtype: Any) -> str:
    """What a column holds, as far as it must agree between batches; empty for what can be anything."""
    import narwhals as nw

    if dtype.is_numeric() or dtype == nw.Boolean:
        return "numbers"
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return "text"
    if dtype.is_temporal():
        return "dates or times"
    return "" if dtype in (nw.Object, nw.Unknown) else str(dtype)


def _list(names: Iterable[Any]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")


class FrameBatches:
    """Frames, Arrow record batches, or tuples (X, y) and (X, y, weight), from a callable or something re-iterable."""

    n_rows: int | None = None

    def __init__(
        self, source: Callable[[], Iterable[Any]] | Iterable[Any], roles: Roles, named: tuple[str, ...] = ()
    ) -> None:
        """named: the options that name columns, which batches without names cannot have."""
        # not of an iterator, which a look could use up
        one = not callable(source) and not isinstance(source, Iterator) and open_native(source, "X") is not None
        if one or (isinstance(source, np.ndarray) and source.ndim < 3):
            raise InputTypeError(f"{type(source).__name__} is one table; give batches: a list, for example [table].")
        self.roles, self._named = roles, named
        self._again: Callable[[], Iterable[Any]] = source if callable(source) else lambda: source

    def batches(self, only: tuple[str, ...] | None = None) -> Iterator[Batch]:
        pieces = self._again()
        if not isinstance(pieces, Iterable):
            raise InputTypeError(f"the callable gave {type(pieces).__name__}, which cannot be iterated over.")
        for number, piece in enumerate(pieces, 1):
            where = f"batch {number}"
            if isinstance(piece, tuple):
                batch = self._pair(piece, where, only)
                if not _is_empty(batch.X):
                    yield batch
                continue
            frame = self._frame(piece, where)
            if frame is None:
                if self.roles.target is not None or self.roles.weight is not None:
                    raise InputTypeError(
                        f"{where} is {type(piece).__name__}, which has no columns by name for target and "
                        "sample_weight; give tuples (X, y) or (X, y, weight)."
                    )
                self._check_named(piece, where)
                if not _is_empty(piece):
                    yield Batch(piece, None, None, where)
                continue
            self.roles.learn(frame, where)
            if len(frame):
                yield self.roles.split(frame, where, only)

    def _pair(self, piece: tuple[Any, ...], where: str, only: tuple[str, ...] | None) -> Batch:
        if not 2 <= len(piece) <= 3:
            raise InputError(f"{where} has {len(piece)} parts; give (X, y) or (X, y, weight).")
        if self.roles.target is not None or self.roles.weight is not None:
            raise InputError(f"{where} brings its own y, so target and sample_weight must not be named.")
        X, y, weight = (*piece, None)[:3]
        frame = self._frame(X, where)
        if frame is not None:
            self.roles.learn(frame, where)
            X = frame.select(*(self.roles.features if only is None else only)).to_native()
        else:
            self._check_named(X, where)
        return Batch(X, y, weight, where)

    def _check_named(self, X: Any, where: str) -> None:
        if self._named:
            raise InputTypeError(
                f"{where} is {type(X).__name__} without names of columns, which {' and '.join(self._named)} needs; "
                "give frames, or the columns that are wanted."
            )

    @staticmethod
    def _frame(piece: Any, where: str) -> Frame | None:
        import narwhals as nw

        with within(where):
            opened = open_native(piece, "X")
        if isinstance(opened, nw.Series):
            raise InputTypeError(f"{where} is one column; give frames, record batches, or tuples (X, y).")
        return None if opened is None or not has_names(opened) else opened  # pandas without names: as an array


def _is_empty(X: Any) -> bool:
    """Whether a table of any kind has no rows."""
    shape = getattr(X, "shape", None)
    return not (shape[0] if shape else len(X) if hasattr(X, "__len__") else 1)
