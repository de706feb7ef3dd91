"""`stagewise report`: a page on a saved model and some data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from stagewise.cli import options as o
from stagewise.cli.app import EXIT_CODES, app
from stagewise.cli.destination import check_destinations, write_out
from stagewise.cli.predict import load_model
from stagewise.cli.source import read_arrow
from stagewise.cli.table import Choice, columns_of_model, load_table
from stagewise.cli.terminal import Voice
from stagewise.errors import InputError
from stagewise.plots.style import pyplot

__all__ = ["report"]


@app.command(epilog=EXIT_CODES)
def report(
    model: o.ModelFile,
    data: o.DataFile,
    target: Annotated[
        str | None,
        typer.Option(help="The column that is predicted; the one that the model does not use.", show_default=False),
    ] = None,
    out: Annotated[str, typer.Option(help="Where to write the page; - for stdout.")] = "report.html",
    title: Annotated[str | None, typer.Option(help="The heading of the page.", show_default=False)] = None,
    weight: o.Weight = None,
    where: o.Where = None,
    format: o.Format = None,
    delimiter: o.Delimiter = None,
    threads: o.Threads = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Write one HTML page on a model: scores, curves, importance, dependence, SHAP values, trees, the data.

    Without a target the page has no scores.
    """
    from stagewise.report import render, summarise

    voice = Voice.of(quiet, json, out)
    check_destinations({"--out": out}, (model, data), force)
    pyplot()
    fitted = load_model(model, threads)
    choice = Choice(data, target, weight, where=tuple(where or ()), form=format, delimiter=delimiter)
    table = read_arrow(data, format, delimiter)
    if target is None:
        choice = _with_target(choice, table.column_names, fitted.model_.schema.names, voice)
    loaded = columns_of_model(fitted, load_table(choice, table), data)
    facts = [("Data", "standard input" if data == "-" else Path(data).name), *(("Rows", note) for note in loaded.notes)]
    with voice.busy("drawing the report"):
        page = render(
            summarise(
                fitted, loaded.X, loaded.y, sample_weight=loaded.weight, target=choice.target, title=title, facts=facts
            )
        )
    place = write_out(out, page.encode())
    voice.saved("Report", place)
    voice.result({"report": place, "target": choice.target})


def _with_target(choice: Choice, columns: list[str], names: tuple[str, ...] | None, voice: Voice) -> Choice:
    """The choice with the one column that the model does not use, if there is just one."""
    if names is None:
        return choice
    others = [name for name in columns if name not in names and name != choice.weight]
    if len(others) == 1:
        voice.say(f"Target: {others[0]}, the one column that the model does not use.")
        return replace(choice, target=others[0])
    if others:
        some = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
        raise InputError(f"name the target with --target; the model does not use {some}.")
    return choice
