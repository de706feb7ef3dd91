"""`stagewise demo`: the whole tour on a built-in table."""

from __future__ import annotations

import time
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

import stagewise as sw
from stagewise.cli import options as o
from stagewise.cli.app import EXIT_CODES, app
from stagewise.cli.destination import check_destinations, write_out
from stagewise.cli.flats import Flats, explained, generate_flats
from stagewise.cli.source import arrow
from stagewise.cli.terminal import Bar, Voice, history_table, importance_table
from stagewise.errors import MissingExtraError
from stagewise.plots.style import pyplot

__all__ = ["DEMO_FILE", "DEMO_REPORT", "demo"]

DEMO_FILE = "stagewise-demo.stagewise"
DEMO_REPORT = "stagewise-demo.html"


@app.command(epilog=EXIT_CODES)
def demo(
    out: Annotated[str, typer.Option(help="Where to save the model.")] = DEMO_FILE,
    report: Annotated[str, typer.Option(help="Where to write the report.")] = DEMO_REPORT,
    force: o.Force = False,
    rows: Annotated[int, typer.Option(min=200, max=5_000_000, help="How many flats to generate.")] = 40_000,
    stages: Annotated[int, typer.Option(min=1, max=10_000, help="The most stages to train.")] = 600,
    seed: Annotated[int, typer.Option(min=0, help="For the generated data.")] = 1,
) -> None:
    """Train, evaluate and explain a model of generated flat prices; save it, and write a report to look at."""
    own = {"--out": DEMO_FILE, "--report": DEMO_REPORT}  # the demo's own files from the last time
    for option, path in (("--out", out), ("--report", report)):
        check_destinations({option: path}, (), force or path == own[option])
    from stagewise.io.format import dumps

    voice = Voice.of()
    flats = generate_flats(rows, seed)
    train, validation, test = flats.part(0, 0.6), flats.part(0.6, 0.8), flats.part(0.8, 1)
    voice.say(f"{rows:,} generated flats, {len(flats.columns)} columns; the price is to be predicted.")
    voice.say(
        f"{len(train.X):,} to train, {len(validation.X):,} to choose the number of stages, {len(test.X):,} held out."
    )
    voice.say(Text("The very first run on a machine compiles the kernels, which takes some seconds.\n", style="dim"))

    model = sw.GradientBoostingRegressor(
        n_estimators=stages, early_stopping=True, n_iter_no_change=20, callbacks=[Bar()]
    )
    began = time.perf_counter()
    model.fit(_frame(train), train.price, eval_set=(_frame(validation), validation.price))
    seconds = time.perf_counter() - began

    score, best = explained(test.price, model.predict(_frame(test))), explained(test.price, test.expected)
    voice.say(Text(f"Held-out score: {score:.1%} of the variance explained", style="bold"))
    voice.say(f"(The formula that made the prices, without its noise, explains {best:.1%}.)")
    voice.say(f"{model.n_estimators_:,} stages kept of at most {stages:,}, in {seconds:.1f} s.\n")
    history = model.history_
    voice.say(history_table(np.asarray(history.train), np.asarray(history.validation), voice.ascii_only), "")
    voice.say(importance_table(flats.columns, np.asarray(model.feature_importances_), 5, voice.ascii_only), "")
    voice.saved("Model", write_out(out, dumps(model)))
    told = f"{len(train.X):,}; {len(validation.X):,} more chose the number of stages"
    command = f"stagewise demo --rows {rows} --stages {stages} --seed {seed}"
    _report(model, test, [("Rows trained on", told)], command, report, voice)


def _frame(flats: Flats) -> Any:
    """The table with its names, where pyarrow is installed; a plain install has numbers alone."""
    try:
        pa = arrow()
    except MissingExtraError:
        return flats.X
    return pa.table({name: flats.X[:, j] for j, name in enumerate(flats.columns)})


def _report(model: Any, test: Flats, facts: list[tuple[str, str]], command: str, path: str, voice: Voice) -> None:
    try:
        pyplot()
    except MissingExtraError:
        voice.say("There is no report without matplotlib:", Text("pip install 'stagewise[cli]'", style="bold"))
        return
    from stagewise.report import render, summarise

    with voice.busy("drawing the report"):
        summary = summarise(
            model, _frame(test), test.price, target="price", title="Flat prices", held_out=True,
            facts=[("Data", "generated flats, built into stagewise"), *facts], run=command,
        )  # fmt: skip
        page = render(summary)
    voice.saved("Report", write_out(path, page.encode()))
