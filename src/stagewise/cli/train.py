"""`stagewise train`: from a file to a model, its scores and a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from stagewise.cli import options as o
from stagewise.cli.app import EXIT_CODES, app
from stagewise.cli.destination import check_destinations, write_out
from stagewise.cli.run import Run, Trained, read_setting
from stagewise.cli.source import arrow
from stagewise.cli.streamed import Place, Streamed, looked_at
from stagewise.cli.table import Choice, Loaded
from stagewise.cli.terminal import Bar, Voice, importance_table
from stagewise.errors import InputError
from stagewise.params import job_count
from stagewise.plots.style import pyplot

__all__ = ["report_of", "train"]


@app.command(epilog=EXIT_CODES)
def train(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="CSV, Parquet, Arrow or JSON lines, also .gz and .zst; - for stdin. Not needed with --config.",
            show_default=False,
        ),
    ] = None,
    target: o.Target = None,
    out: Annotated[str | None, typer.Option(help="Where to save the model; - for stdout.", show_default=False)] = None,
    report: Annotated[str | None, typer.Option(help="Where to write a report (HTML).", show_default=False)] = None,
    task: Annotated[
        str | None, typer.Option(help="regression or classification; guessed from the target.", show_default=False)
    ] = None,
    loss: Annotated[str | None, typer.Option(help="What is minimised; goes with the task.", show_default=False)] = None,
    weight: o.Weight = None,
    ignore: o.Ignore = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(help="A column of categories; may be repeated. Texts are taken as such.", show_default=False),
    ] = None,
    where: o.Where = None,
    test_fraction: Annotated[
        float | None, typer.Option(help="Share of the rows held out for the scores (0.2).", show_default=False)
    ] = None,
    validation_fraction: Annotated[
        float | None, typer.Option(help="Share of the others that chooses the stages (0.1).", show_default=False)
    ] = None,
    early_stopping: Annotated[
        bool | None,
        typer.Option(
            "--early-stopping/--no-early-stopping", help="Choose the number of stages (yes).", show_default=False
        ),
    ] = None,
    n_estimators: Annotated[int | None, typer.Option(help="The most stages (500).", show_default=False)] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Share of each stage (0.1).", show_default=False)] = None,
    max_leaf_nodes: Annotated[int | None, typer.Option(help="Leaves of a tree (31).", show_default=False)] = None,
    max_depth: Annotated[int | None, typer.Option(help="Levels of a tree (no limit).", show_default=False)] = None,
    min_samples_leaf: Annotated[int | None, typer.Option(help="Rows in a leaf (20).", show_default=False)] = None,
    subsample: Annotated[float | None, typer.Option(help="Share of rows a stage sees (1).", show_default=False)] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other parameter, NAME=VALUE; may be repeated.", show_default=False),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For everything that is drawn (0).", show_default=False)] = None,
    config: Annotated[
        str | None, typer.Option(help="A run as TOML; other options go before it.", show_default=False)
    ] = None,
    write_config: Annotated[
        str | None, typer.Option(help="Write the run as TOML, to be repeated exactly.", show_default=False)
    ] = None,
    format: o.Format = None,
    delimiter: o.Delimiter = None,
    on_disk: o.OnDisk = None,
    cache: o.Cache = None,
    threads: o.Threads = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Train a model on a file: guess the task, hold rows out, choose the number of stages, score, save, report."""
    base = Run.read(config) if config is not None else None
    if base is None and data is None:
        raise InputError("name the data to train on: stagewise train DATA --target COLUMN --out MODEL.")
    wanted: dict[str, Any] = {"path": data, "target": target, "weight": weight, "form": format, "delimiter": delimiter}
    wanted |= {"ignore": ignore and tuple(ignore), "where": where and tuple(where)}
    chosen: dict[str, Any] = {name: own for name, own in wanted.items() if own}
    run = Run(Choice(**chosen)) if base is None else replace(base, choice=replace(base.choice, **chosen))
    flags = {
        "loss": loss, "validation_fraction": validation_fraction, "early_stopping": early_stopping,
        "n_estimators": n_estimators, "learning_rate": learning_rate, "max_leaf_nodes": max_leaf_nodes,
        "max_depth": max_depth, "min_samples_leaf": min_samples_leaf, "subsample": subsample,
    }  # fmt: skip
    given = dict(map(read_setting, settings or ())) | {name: own for name, own in flags.items() if own is not None}
    others: dict[str, Any] = {
        "task": task,
        "test_fraction": test_fraction,
        "seed": seed,
        "categorical": categorical and tuple(categorical),
    }
    others = {name: own for name, own in others.items() if own is not None}
    _train(
        replace(run, parameters={**run.parameters, **given}, **others),
        {"--out": out, "--report": report, "--write-config": write_config},
        Voice.of(quiet, json, out or ""), threads, force, config, on_disk, cache,
    )  # fmt: skip


def _train(
    run: Run, places: dict[str, str | None], voice: Voice, threads: int | None, force: bool, config: str | None,
    on_disk: bool | None, cache: str | None,
) -> None:  # fmt: skip
    from stagewise.io.format import dumps
    from stagewise.report.scores import scores_of

    run.check()
    if threads is not None:
        job_count(threads, 1)
    sources = (run.choice.path, *([config] if config else []))
    if any(places[option] == "-" for option in ("--report", "--write-config")):
        raise InputError("--report and --write-config must name files; only --out may be -, for stdout.")
    check_destinations(places, sources, force)
    if places["--report"] is not None:
        pyplot()  # before the training, not after it
        arrow()
    place = Place(on_disk, cache, not voice.silent)
    trained = run.train([] if voice.silent else [Bar()], threads, place=place)
    _announce(trained, voice)
    made: dict[str, Any] = {}
    if places["--out"] is not None:
        made["model"] = write_out(places["--out"], dumps(trained.model))
        voice.saved("Model", made["model"])
    if places["--write-config"] is not None:
        made["config"] = write_out(places["--write-config"], trained.run.toml().encode())
        voice.saved("Run", made["config"])
    own, predicted = looked_at(trained.model, trained.testing or trained.learning, place)
    scores = _scores(trained, scores_of(predicted), voice)
    if places["--report"] is not None:
        with voice.busy("drawing the report"):
            page = report_of(trained, own)
        made["report"] = write_out(places["--report"], page.encode())
        voice.saved("Report", made["report"])
    elif places["--out"] is None:
        voice.say(Text("Nothing was saved: add --out MODEL, and --report REPORT.html to see more.", style="dim"))
    voice.result({**_facts(trained), "scores": scores, **made})
    if trained.interrupted:
        raise typer.Exit(130)


def report_of(trained: Trained, own: Loaded) -> str:
    """The page of a finished run, on these rows."""
    from stagewise.report import render, summarise

    summary = summarise(
        trained.model, own.X, own.y, sample_weight=own.weight, target=trained.run.choice.target,
        held_out=trained.testing is not None, facts=_training_facts(trained, own), run=trained.run.toml(),
    )  # fmt: skip
    return render(summary)


def _training_facts(trained: Trained, own: Loaded) -> list[tuple[str, str]]:
    n, n_looked = trained.learning.n_rows, (trained.testing or trained.learning).n_rows
    drawn = f"{own.n_rows:,} of {n_looked:,} rows, drawn at random: the table is larger than memory"
    watched = len(trained.model.history_.validation) > 0
    share = trained.model.validation_fraction
    return [
        ("Data", "standard input" if trained.run.choice.path == "-" else Path(trained.run.choice.path).name),
        ("Task", f"{trained.guess.task}: {trained.guess.why}"),
        (
            "Rows trained on",
            f"{n:,}" + (f", {share:.0%} of them only to choose the number of stages" if watched else ""),
        ),
        *(("Rows left out", note) for note in trained.learning.notes),
        *([("This report is on", drawn)] if own.n_rows < n_looked else []),
    ]


def _facts(trained: Trained) -> dict[str, Any]:
    model, run = trained.model, trained.run
    return {
        "task": run.task,
        "why": trained.guess.why,
        "loss": str(model.loss),
        "target": run.choice.target,
        "columns": trained.learning.n_columns,
        "rows": {
            "training": trained.learning.n_rows,
            "held_out": 0 if trained.testing is None else trained.testing.n_rows,
        },
        "stages": model.n_estimators_,
        "seconds": round(trained.seconds, 3),
        "interrupted": trained.interrupted,
    }  # fmt: skip


def _announce(trained: Trained, voice: Voice) -> None:
    model, facts = trained.model, _facts(trained)
    if isinstance(trained.learning, Streamed):
        voice.say("The table stayed on disk and was read in parts; the model is the same as in memory.")
    for note in trained.learning.notes:
        voice.say(note)
    classes = f", {len(model.classes_)} classes" if hasattr(model, "classes_") else ""
    words = f" of {facts['target']} ({facts['why']}){classes}; loss {facts['loss']}."
    voice.say(Text.assemble((facts["task"].capitalize(), "bold"), words))
    rows = facts["rows"]
    voice.say(f"{rows['training']:,} rows to train, {rows['held_out']:,} held out; {facts['columns']} columns.")
    kept = "the best" if len(model.history_.validation) else "all"
    voice.say(
        f"{facts['stages']:,} stages kept ({kept} of {len(model.history_.train):,}), in {facts['seconds']:.1f} s."
    )
    if trained.interrupted:
        voice.say(Text("Stopped by Ctrl-C; the model holds the stages finished before it.", style="bold"))


def _scores(trained: Trained, scores: list[dict[str, Any]], voice: Voice) -> dict[str, Any]:
    where = "held-out rows" if trained.testing else "training rows (nothing was held out)"
    table = Table(title=f"Scores on {where}", title_justify="left", box=None, pad_edge=False)
    for heading, side in (("", "left"), ("score", "right"), ("95 % interval", "left"), ("constant", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    for one in scores:
        table.add_row(one["name"], one["text"], f"{one['low_text']} to {one['high_text']}", one["constant_text"])
    names = list(trained.model.feature_names_in_)
    voice.say("", table, "")
    voice.say(importance_table(names, trained.model.feature_importances_, min(5, len(names)), voice.ascii_only), "")
    return {one["key"]: {"value": one["value"], "low": one["low"], "high": one["high"]} for one in scores}
