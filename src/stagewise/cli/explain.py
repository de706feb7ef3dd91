"""`stagewise explain`: what a model found, and what each column adds to the prediction of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table

from stagewise import inspection
from stagewise.cli import options as o
from stagewise.cli.app import EXIT_CODES, app
from stagewise.cli.destination import check_destinations, table_bytes, write_out
from stagewise.cli.predict import load_model, load_rows
from stagewise.cli.table import Choice
from stagewise.cli.terminal import Voice
from stagewise.errors import InputError
from stagewise.params import check_count

if TYPE_CHECKING:
    from stagewise.inspection.shap import ShapValues

__all__ = ["explain"]


@app.command(epilog=EXIT_CODES)
def explain(
    model: o.ModelFile,
    data: o.DataFile,
    out: Annotated[
        str | None, typer.Option(help="Write SHAP values, one row for each row; - for stdout.", show_default=False)
    ] = None,
    row: Annotated[int | None, typer.Option(help="Explain one row, by its number from 0.", show_default=False)] = None,
    top: Annotated[int, typer.Option(help="How many columns and pairs to list.")] = 10,
    where: o.Where = None,
    format: o.Format = None,
    delimiter: o.Delimiter = None,
    threads: o.Threads = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Importance, interactions and SHAP values of a model on the rows of a file."""
    voice = Voice.of(quiet, json, out or "")
    top = check_count("--top", top, 1)
    check_destinations({"--out": out}, (model, data), force)
    fitted = load_model(model, threads)
    _, loaded = load_rows(fitted, Choice(data, where=tuple(where or ()), form=format, delimiter=delimiter))
    n = loaded.n_rows
    if row is not None and not 0 <= row < n:
        raise InputError(f"--row {row} does not exist; {data} has rows 0 to {n - 1:,}.")
    with voice.busy("explaining"):
        found = inspection.shap_values(fitted, loaded.X)
    results: dict[str, Any] = {"rows": n}
    if row is not None:
        results["row"] = _one_row(found, row, top, voice)
    else:
        results |= _overview(fitted, loaded.X, found, top, voice)
    if out is not None:
        place = write_out(out, table_bytes(_columns(found), "" if out == "-" else out, "csv" if out == "-" else None))
        results["out"] = place
        voice.saved(f"SHAP values of {n:,} rows", place)
    voice.result(results)


def _overview(fitted: Any, X: Any, found: ShapValues, top: int, voice: Voice) -> dict[str, Any]:
    gain = inspection.feature_importance(fitted, scale="sum")
    sizes = found.mean_size()
    order = np.argsort(-sizes, kind="stable")[:top]
    table = _table(f"Columns by mean |SHAP| over {len(found.values):,} rows", "column", "mean |SHAP|", "share of gain")
    for j in order:
        table.add_row(found.names[j], f"{sizes[j]:.4g}", f"{gain.values[j]:.1%}")
    voice.say(table, "")
    pairs = []
    if len(found.names) > 1 and len(found.values) > 1:
        with voice.busy("looking for interactions"):
            own = inspection.h_statistic(fitted, X)
        k = int(np.argmax(own.strength.reshape(len(own.outputs), -1).max(axis=1)))
        pairs = own.ranked(k)[:top]
        if pairs:
            table = _table("Pairs by the strength of their interaction", "pair", "strength", "H")
            for one, other, h, strength in pairs:
                table.add_row(f"{one} × {other}", f"{strength:.4g}", f"{h:.3f}")
            voice.say(table, "")
    names = found.names
    return {
        "shap": {names[j]: float(sizes[j]) for j in np.argsort(-sizes, kind="stable")},
        "gain": {names[j]: float(gain.values[j]) for j in gain.order},
        "interactions": [{"pair": [a, b], "H": h, "strength": strength} for a, b, h, strength in pairs],
    }


def _one_row(found: ShapValues, row: int, top: int, voice: Voice) -> dict[str, Any]:
    from stagewise.inspection.levels import name_of

    results = {}
    for k, output in enumerate(found.outputs):
        own, expected = found.output(k)[row], float(found.expected[k])
        total = expected + float(own.sum())
        order = np.argsort(-np.abs(own), kind="stable")
        of = f" for {output}" if output else ""
        table = _table(f"Row {row}: raw prediction{of} {total:.5g}, expected {expected:.5g}", "column", "value", "adds")
        for j in order[:top]:
            value, levels = float(found.data[row, j]), found.level(j)
            told = "missing" if np.isnan(value) else f"{value:.6g}" if levels is None else name_of(levels, value)
            table.add_row(found.names[j], told, f"{own[j]:+.4g}")
        if len(order) > top:
            table.add_row(f"{len(order) - top} others", "", f"{own[order[top:]].sum():+.4g}")
        voice.say(table, "")
        results[output or "prediction"] = {
            "raw": total, "expected": expected, "shap": {found.names[j]: float(own[j]) for j in order},
        }  # fmt: skip
    return results


def _columns(found: ShapValues) -> dict[str, np.ndarray]:
    """One column for each column of the model (and class), and what they start from."""
    columns: dict[str, np.ndarray] = {}
    for k, output in enumerate(found.outputs):
        mark = f"_{output}" if len(found.outputs) > 1 else ""
        columns |= {f"{name}{mark}": np.ascontiguousarray(found.output(k)[:, j]) for j, name in enumerate(found.names)}
        start = f"expected{mark}"
        while start in columns:  # a column of the data is called so
            start += "_"
        columns[start] = np.full(len(found.values), found.expected[k])
    return columns


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="right" if k else "left")
    return table
