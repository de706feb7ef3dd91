"""`stagewise predict`: a saved model on new rows."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

import stagewise as sw
from stagewise.cli import options as o
from stagewise.cli.app import EXIT_CODES, app
from stagewise.cli.destination import check_destinations, table_bytes, write_out
from stagewise.cli.table import Choice, Loaded, columns_of_model, load_table
from stagewise.cli.terminal import Voice
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
    whole, loaded = load_rows(fitted, Choice(data, where=tuple(where or ()), form=format, delimiter=delimiter))
    copied = {}
    for name in keep or ():
        if name not in whole.column_names:
            raise InputError(f"--keep {name!r}: {data} has no such column.")
        copied[name] = whole.column(name)
    made = _predictions(fitted, loaded.X, kind)
    if both := sorted(set(copied) & set(made)):
        raise InputError(f"--keep {both[0]!r}: the predictions have a column of that name; rename the one of the data.")
    columns = {**copied, **made}
    place = write_out(out, table_bytes(columns, "" if out == "-" else out, "csv" if out == "-" else None))
    rows = len(next(iter(columns.values())))
    voice.saved(f"{rows:,} predictions", place)
    voice.result({"rows": rows, "columns": list(columns), "out": place})


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
