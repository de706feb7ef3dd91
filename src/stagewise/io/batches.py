"""Predictions for tables that do not fit into memory: files in, a file out; or batches in, arrays out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, overload

import numpy as np

from stagewise.data.arrow import CsvFiles, ParquetFiles, find_files
from stagewise.data.batches import FrameBatches, Roles, Source, arrow_table, has_names, pyarrow, within
from stagewise.data.frame import open_frame
from stagewise.data.progress import row_bar
from stagewise.data.table import Schema
from stagewise.errors import InputError, InputTypeError, ParameterError
from stagewise.params import check_choice
from stagewise.storage.disk import replacing

__all__ = ["predict_batches"]

_METHODS = {"predict": "prediction", "predict_proba": "probability", "decision_function": "raw"}
"""What can be asked for, and what its column is called."""

_Source = str | os.PathLike[str] | Sequence[Any] | Callable[[], Iterable[Any]] | Iterable[Any]


@overload
def predict_batches(
    model: Any, source: _Source, out: None = None, *, method: str = ..., keep: Sequence[str] = ..., verbose: int = ...
) -> Iterator[np.ndarray]: ...
@overload
def predict_batches(
    model: Any,
    source: _Source,
    out: str | os.PathLike[str],
    *,
    method: str = ...,
    keep: Sequence[str] = ...,
    verbose: int = ...,
) -> int: ...
def predict_batches(
    model: Any,
    source: _Source,
    out: str | os.PathLike[str] | None = None,
    *,
    method: str = "predict",
    keep: Sequence[str] = (),
    verbose: int = 0,
) -> Iterator[np.ndarray] | int:
    """Predict a table some rows at a time.

    model: a fitted estimator. source: Parquet or CSV files (a path, a pattern or a list), or batches as in
    `Dataset.from_batches`; columns that the model does not know, such as the target, are left alone. method: "predict",
    "predict_proba" or "decision_function". With `out`, a path that ends in .parquet or .csv, predictions are written
    there, after the columns of `keep`; the file appears when it is complete, and the number of rows is returned.
    Without it, an iterator of one array a batch.
    """
    check_choice("method", method, tuple(_METHODS))
    if not hasattr(model, "model_"):
        raise InputTypeError(f"model={type(model).__name__} must be a fitted estimator of stagewise.")
    if not hasattr(model, method):
        raise ParameterError(f"method={method!r} is one of classifiers; {type(model).__name__} has predict.")
    if isinstance(keep, str) or not all(isinstance(own, str) for own in keep):
        raise ParameterError(f"keep={keep!r} must be a list of column names.")
    if len(set(keep)) < len(keep):
        raise ParameterError(f"keep={list(keep)!r} names a column twice.")
    batches = _predicted(model, _open(source, model.model_.schema, tuple(keep)), method, tuple(keep), verbose)
    if out is None:
        return (values for _, _, values in batches)
    path = Path(out)
    if path.suffix not in (".parquet", ".csv"):
        raise ParameterError(f"out={os.fspath(out)!r} must end in .parquet or .csv.")
    return _write(path, batches, _names(model, method, tuple(keep)))


def _open(source: Any, schema: Schema, keep: tuple[str, ...]) -> Source:
    """The source of batches whose columns are those of the model, and those to keep."""
    names = schema.names
    columns = None if names is None else tuple(dict.fromkeys((*names, *keep)))
    roles = Roles(columns=columns, texts=schema.texts)
    paths = [source] if isinstance(source, str | os.PathLike) else source
    if isinstance(paths, list | tuple) and paths and all(isinstance(own, str | os.PathLike) for own in paths):
        csv = [_is_csv(own) for own in paths]
        if any(csv) and not all(csv):
            raise InputError("Parquet and CSV files cannot be mixed; predict them one after the other.")
        return CsvFiles(find_files(source, "csv"), roles) if any(csv) else ParquetFiles(
            find_files(source, "parquet"), roles
        )  # fmt: skip
    if not callable(source) and not isinstance(source, Iterable):
        raise InputTypeError(f"source={type(source).__name__} must be files, a callable or batches.")
    return FrameBatches(source, roles)


def _is_csv(path: str | os.PathLike[str]) -> bool:
    """Whether a path or a pattern is of CSV files, packed or not; a folder is, if it holds such and no Parquet."""
    text = os.fspath(path)
    if Path(text).is_dir():
        return any(Path(text).glob("*.csv")) and not any(Path(text).glob("*.parquet"))
    return re.search(r"\.csv(\.gz|\.bz2|\.zst)?$", text, re.IGNORECASE) is not None


def _predicted(
    model: Any, source: Source, method: str, keep: tuple[str, ...], verbose: int
) -> Iterator[tuple[str, Any, np.ndarray]]:
    """(where it is, the columns to keep as an Arrow table or None, predictions) of every batch."""
    names = model.model_.schema.names
    with row_bar(verbose, "predicting", source.n_rows) as bar:
        for batch in source.batches():
            X, kept = batch.X, None
            is_frame = hasattr(X, "columns") or hasattr(X, "schema")
            frame = open_frame(X, (*(names or ()), *keep)) if is_frame else None
            if frame is not None and has_names(frame):
                if keep:
                    missing = [name for name in keep if name not in frame.columns]
                    if missing:
                        raise InputError(f"{batch.where} has no column {missing[0]!r}, which keep names.")
                    kept = arrow_table(frame.select(*keep))
                X = frame.select(*(names or [own for own in frame.columns if own not in keep])).to_native()
            elif keep:
                raise InputError(f"{batch.where} has no names, so keep={list(keep)} cannot be found in it.")
            with within(batch.where):
                values: np.ndarray = getattr(model, method)(X)
            bar(len(values))
            yield batch.where, kept, values


def _names(model: Any, method: str, keep: tuple[str, ...]) -> list[str]:
    """The names of the columns that are written."""
    own = [_METHODS[method]]
    classes = getattr(model, "classes_", ())
    if method == "predict_proba" or (method == "decision_function" and len(classes) > 2):
        own = [f"{_METHODS[method]}_{label}" for label in classes]
    for name in own:
        if name in keep:
            raise ParameterError(f"keep names a column {name!r}, which is what a prediction is called; rename it.")
    return own


def _write(path: Path, batches: Iterator[tuple[str, Any, np.ndarray]], names: list[str]) -> int:
    arrow = pyarrow("writing predictions")
    from pyarrow import csv, parquet

    total = 0
    with replacing(path) as beside, ExitStack() as stack:
        writer: Any = None
        for where, kept, values in batches:
            columns = [values] if values.ndim == 1 else list(values.T)
            cells = {} if kept is None else {name: kept[name] for name in kept.column_names}
            for name, own in zip(names, columns, strict=True):
                cells[name] = arrow.array(np.ascontiguousarray(own))
            table = arrow.table(cells)
            try:
                if writer is None:
                    make = csv.CSVWriter if path.suffix == ".csv" else parquet.ParquetWriter
                    writer = stack.enter_context(make(str(beside), table.schema))
                writer.write_table(table.cast(writer.schema) if hasattr(writer, "schema") else table)
            except arrow.ArrowException as error:
                raise InputError(
                    f"{where}: the columns to keep cannot be written to {path.name}, after those of the batches "
                    f"before: {error}. Give them one type in all batches, one that {path.suffix} files have."
                ) from error
            total += len(values)
        if writer is None:
            raise InputError("Found array with 0 sample(s): no batch has any rows, while a minimum of 1 is required.")
        stack.close()
    return total
