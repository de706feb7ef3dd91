"""Batches that come once, kept in files meanwhile and read back as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stagewise.data.batches import arrow_table, has_names, pyarrow, within
from stagewise.data.cells import is_sparse, unmask
from stagewise.data.frame import open_native
from stagewise.errors import InputError, InputTypeError, MissingExtraError

__all__ = ["spooled"]


class _Kept(NamedTuple):
    """A part of a batch: its file, None for no part, and how to make of the file what came."""

    path: Path | None
    back: Callable[[Path], Any]


@contextmanager
def spooled(pieces: Iterator[Any], folder: Path) -> Iterator[Callable[[], Iterable[Any]]]:
    """An iterator can be read once; its pieces are kept in files and read back from there, as often as needed.

    Frames and objects go into Arrow files (which needs pyarrow), arrays into NumPy's, sparse matrices into SciPy's. The
    files are gone when the block is left.
    """
    made: list[tuple[_Kept, ...]] = []
    try:
        for number, piece in enumerate(pieces):
            parts = piece if isinstance(piece, tuple) else (piece,)
            with within(f"batch {number + 1}"):
                made.append(tuple(_keep(own, folder / f"{number:08d}-{k}") for k, own in enumerate(parts)))

        def again() -> Iterator[Any]:
            for parts in made:
                values = tuple(None if path is None else back(path) for path, back in parts)
                yield values if len(values) > 1 else values[0]

        yield again
    finally:
        for parts in made:
            for path, _ in parts:
                if path is not None:
                    path.unlink(missing_ok=True)


def _keep(value: Any, path: Path) -> _Kept:
    try:
        return _kept(value, path)
    except (InputError, MissingExtraError):
        raise
    except (TypeError, ValueError) as error:  # of NumPy and Arrow, which do not have a type for every object
        raise InputTypeError(f"{type(value).__name__} cannot be kept on disk: {error}") from error


def _kept(value: Any, path: Path) -> _Kept:
    import narwhals as nw

    if value is None:
        return _Kept(None, _array)
    if is_sparse(value):
        from scipy import sparse

        sparse.save_npz(path.with_suffix(".npz"), value.tocsr(), compressed=False)
        return _Kept(path.with_suffix(".npz"), sparse.load_npz)
    opened = open_native(value, "X")
    if opened is not None:
        if isinstance(opened, nw.Series):
            return _Kept(_write_table(arrow_table(opened.to_frame()), path), lambda own: _table(own).column(0))
        written, names = _write_table(arrow_table(opened), path), list(opened.columns)
        if has_names(opened):
            return _Kept(written, _table)
        return _Kept(written, lambda own: _table(own).to_pandas().set_axis(names, axis=1))  # Arrow has no other names
    values = unmask(value) if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
    if values.dtype.kind in "OT" and values.ndim in (1, 2):
        shape = values.shape
        arrow = pyarrow("keeping an iterator of objects on disk")
        columns = values.reshape(shape[0], -1).T.tolist()
        table = arrow.table([arrow.array(own) for own in columns], [str(j) for j in range(len(columns))])
        return _Kept(_write_table(table, path), lambda own: _objects(_table(own), shape))
    np.save(path.with_suffix(".npy"), values, allow_pickle=False)
    return _Kept(path.with_suffix(".npy"), _array)


def _write_table(table: Any, path: Path) -> Path:
    arrow, path = pyarrow("keeping an iterator of frames on disk"), path.with_suffix(".arrow")
    with arrow.OSFile(str(path), "wb") as sink, arrow.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def _table(path: Path) -> Any:
    arrow = pyarrow("reading frames back")
    with arrow.memory_map(str(path)) as source:
        return arrow.ipc.open_file(source).read_all()


def _array(path: Path) -> np.ndarray:
    values: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return values


def _objects(table: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The object array of this shape whose columns the table has."""
    values = np.empty((shape[0], table.num_columns), object)
    for j, column in enumerate(table.columns):
        values[:, j] = column.to_pylist()
    return values.reshape(shape)
