"""`stagewise predict`: a saved model on new rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import typer

import stagewise as sw
from stagewise.cli import options as o
from stagewise.cli.app import EXIT_CODES, app
from stagewise.cli.destination import check_destinations, table_bytes, write_out, write_pieces
from stagewise.cli.stream import Stream
from stagewise.cli.streamed import Place
from stagewise.cli.table import (
    Choice,
    Loaded,
    chosen_rows,
    column_of,
    columns_of_model,
    load_table,
    notes_on,
)
from stagewise.cli.terminal import Voice, row_bar
from stagewise.errors import InputError
from stagewise.params import check_choice

__all__ = ["KINDS", "load_model", "load_rows", "predict"]

KINDS = ("auto", "prediction", "probabilities", "raw")


@app.command(epilog=EXIT_CODES)
def predict(
    model: o.ModelFile,
    data: o.DataFile,
    out: Annotated[
        str, typer.Option(help="Where to write; the ending says the kind of file; - for stdout (CSV).")
    ] = "-",
    kind: Annotated[
        str,
        typer.Option(
            help="auto: numbers, or classes with their probabilities; or prediction, probabilities or raw alone."
        ),
    ] = "auto",
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A column of the data to copy beside the predictions; may be repeated.", show_default=False),
    ] = None,
    where: o.Where = None,
    format: o.Format = None,
    delimiter: o.Delimiter = None,
    on_disk: o.OnDisk = None,
    threads: o.Threads = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Predict the rows of a file: one row of output for each row of input, in the same order."""
    voice = Voice.of(quiet or out == "-", json, out)
    check_choice("--kind", kind, KINDS)
    check_destinations({"--out": out}, (model, data), force)
    fitted = load_model(model, threads)
    choice = Choice(data, where=tuple(where or ()), form=format, delimiter=delimiter)
    if Place(on_disk).on_disk(choice):
        pieces = _pieces(fitted, choice, keep or (), kind, not voice.silent)
        place, names, rows = write_pieces(pieces, out)
    else:
        columns = _columns(fitted, load_table(choice), choice, keep or (), kind)
        place = write_out(out, table_bytes(columns, "" if out == "-" else out, "csv" if out == "-" else None))
        names, rows = list(columns), len(next(iter(columns.values())))
    voice.saved(f"{rows:,} predictions", place)
    voice.result({"rows": rows, "columns": names, "out": place})


def _columns(fitted: Any, whole: Loaded, choice: Choice, keep: Sequence[str], kind: str) -> dict[str, Any]:
    """What is written: the columns to keep, and the predictions."""
    for name in keep:
        if name not in whole.X.column_names:
            raise InputError(f"--keep {name!r}: {choice.path} has no such column.")
    copied = {name: whole.X.column(name) for name in keep}
    made = _predictions(fitted, columns_of_model(fitted, whole, choice.path).X, kind)
    if both := sorted(set(copied) & set(made)):
        raise InputError(f"--keep {both[0]!r}: the predictions have a column of that name; rename the one of the data.")
    return {**copied, **made}


def _pieces(fitted: Any, choice: Choice, keep: Sequence[str], kind: str, shown: bool) -> Iterator[dict[str, Any]]:
    """The same for a table on disk, some rows at a time; only the columns that are needed are read."""
    stream = Stream.open(choice.path, choice.form, choice.delimiter)
    model_names = fitted.model_.schema.names
    names = None if model_names is None else [*model_names, *keep, *map(column_of, choice.where)]
    met = 0
    with row_bar(shown, "predicting", stream.n_rows) as bar:
        for table in stream.batches(names):
            own, met_here, _ = chosen_rows(table, choice)
            if met_here:
                yield _columns(fitted, Loaded(own, None, None), choice, keep, kind)
            met += met_here
            bar(table.num_rows)
    notes_on(choice, stream.n_rows, met, 0)


def load_model(path: str, threads: int | None = None) -> Any:
    """A saved estimator; a bare Model has no predictions on the scale of the target."""
    fitted = sw.load(path)
    if not hasattr(fitted, "predict"):
        raise InputError(f"{path} holds a bare model without an estimator; save the estimator instead.")
    return fitted if threads is None else fitted.set_params(n_jobs=threads)


def load_rows(fitted: Any, choice: Choice) -> tuple[Any, Loaded]:
    """The whole table of a choice, and the part of it that the model looks at."""
    loaded = load_table(choice)
    return loaded.X, columns_of_model(fitted, loaded, choice.path)


def _predictions(fitted: Any, X: Any, kind: str) -> dict[str, np.ndarray]:
    classes = getattr(fitted, "classes_", None)
    if kind == "raw":
        raw = fitted._raw(X)
        if classes is None or len(raw) == 1:
            return {"raw": raw[0]}
        return {f"raw_{name}": own for name, own in zip(classes, raw, strict=True)}
    if classes is None:
        if kind == "probabilities":
            raise InputError("--kind probabilities is for classifiers; this model predicts numbers.")
        return {"prediction": fitted.predict(X)}
    out: dict[str, np.ndarray] = {}
    if kind != "probabilities":
        out["prediction"] = fitted.predict(X)
    if kind != "prediction":
        shares = fitted.predict_proba(X)
        out |= {f"probability_{name}": np.ascontiguousarray(shares[:, k]) for k, name in enumerate(classes)}
    return out
