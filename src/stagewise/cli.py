"""The `stagewise` command.

Every command is one function below `# commands`, which reads its options, calls the library and prints. What a user
can do wrong ends in one line on stderr and an exit code (see `Commands`), never in a traceback; a traceback is a bug.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

import stagewise as sw
from stagewise._version import __version__
from stagewise.errors import InputError, StagewiseError
from stagewise.kernels.cache import announce

__all__ = ["app", "main"]

EXIT_CODES = (
    "Exit codes: 0 done; 1 it could not be done, and the message says why; 2 the command was written wrongly; "
    "130 stopped by Ctrl-C."
)
DEMO_FILE = Path("stagewise-demo.stagewise")

Floats = NDArray[np.float64]


class Commands(TyperGroup):
    """Turns what a user can do wrong into one line and exit code 1, for all commands in one place."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `stagewise demo | head`: typer ends quietly
            raise
        except (StagewiseError, OSError) as error:
            Console(stderr=True, highlight=False).print(Text.assemble(("error: ", "bold red"), str(error)))
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=Commands,
    help="Gradient boosting with exact, reproducible histograms.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # a bug report must not hold the user's data
)


def main() -> None:
    """Entry point of the console script."""
    app(prog_name="stagewise")


# ---------------------------------------------------------------------------------------------- the built-in table


@dataclass(frozen=True, slots=True)
class Flats:
    """Generated flats and their prices.

    Generated, because the real tables that come with scikit-learn have a few hundred rows: training would be over
    before the progress bar is drawn. And because the formula is known, the score can be set beside the best one
    that is possible.

    X: (rows, len(columns)), missing values are NaN. price, expected: (rows,), with and without the noise.
    """

    columns: tuple[str, ...]
    X: Floats
    price: Floats
    expected: Floats

    def part(self, start: float, stop: float) -> Flats:
        """The rows from one fraction to another; rows are in random order."""
        rows = slice(round(start * len(self.X)), round(stop * len(self.X)))
        return Flats(self.columns, self.X[rows], self.price[rows], self.expected[rows])


def generate_flats(rows: int, seed: int) -> Flats:
    """Steps, curves, interactions, missing values, and two columns that mean nothing."""
    rng = np.random.default_rng(seed)
    area = rng.lognormal(4.25, 0.35, rows)
    rooms = np.clip(np.round(area / 24 + rng.normal(0, 0.6, rows)), 1, 8)
    floor = rng.integers(0, 12, rows).astype(np.float64)
    lift = (rng.random(rows) < 0.5).astype(np.float64)
    year = rng.integers(1890, 2025, rows).astype(np.float64)
    distance = rng.gamma(2.0, 3.0, rows)
    energy = 60 + 1.1 * (2025 - year) + rng.normal(0, 25, rows)
    street_noise = rng.normal(55, 8, rows)
    weekday = rng.integers(0, 7, rows).astype(np.float64)
    listing = rng.integers(0, 100_000, rows).astype(np.float64)

    log_price = 1.6 + 0.95 * np.log(area) + 0.03 * rooms
    log_price += 0.55 * np.exp(-distance / 4)  # the centre is dear, and it fades
    log_price += floor * np.where(lift == 1, 0.012, -0.022)  # high up is good with a lift, bad without
    log_price += np.where(year < 1919, 0.12, 0.0) - 0.0011 * np.clip(energy - 80, 0, None)
    log_price -= np.where(distance < 4, 0.012, 0.002) * np.clip(street_noise - 50, 0, None)
    sigma = 0.12
    price = np.exp(log_price + rng.normal(0, sigma, rows))
    energy[rng.random(rows) < 0.15] = np.nan  # nobody measured it

    columns = {
        "area_m2": area,
        "rooms": rooms,
        "floor": floor,
        "lift": lift,
        "year_built": year,
        "distance_km": distance,
        "energy_kwh_m2": energy,
        "street_noise_db": street_noise,
        "weekday_listed": weekday,
        "listing_number": listing,
    }
    return Flats(tuple(columns), np.column_stack(list(columns.values())), price, np.exp(log_price + sigma**2 / 2))


def explained(target: Floats, predicted: Floats) -> float:
    """The part of the target's variance that the predictions explain (R²)."""
    return float(1 - np.sum((target - predicted) ** 2) / np.sum((target - target.mean()) ** 2))


# --------------------------------------------------------------------------------------------------------- drawing


def sparkline(values: Sequence[float] | Floats, width: int = 40, ascii_only: bool = False) -> str:
    """One character a value (or every so many values), on a log scale: most of a deviance falls in the first stages."""
    marks = "_.-=+*#" if ascii_only else "▁▂▃▄▅▆▇█"
    series = np.asarray(values, dtype=np.float64)
    if series.size == 0:
        return ""
    picked = series[np.unique(np.linspace(0, series.size - 1, min(width, series.size)).round().astype(np.int64))]
    if picked.min() > 0:
        picked = np.log(picked)
    span = picked.max() - picked.min()
    if not span > 0:  # constant, or not finite
        return marks[0] * picked.size
    level = (picked - picked.min()) / span * (len(marks) - 1)
    return "".join(marks[i] for i in level.round().astype(np.int64))


def history_table(train: Floats, validation: Floats, ascii_only: bool) -> Table:
    table = Table(title="Deviance by stage (log scale)", title_justify="left", box=None, pad_edge=False)
    for heading in ("", "first", "", "least"):
        table.add_column(heading, justify="left" if heading == "" else "right")
    for name, values in (("training", train), ("validation", validation)):
        table.add_row(name, f"{values[0]:,.1f}", sparkline(values, ascii_only=ascii_only), f"{values.min():,.1f}")
    return table


def importance_table(columns: Sequence[str], importances: Floats, top: int, ascii_only: bool) -> Table:
    table = Table(title=f"The {top} most important columns", title_justify="left", box=None, pad_edge=False)
    for justify in ("left", "left", "right"):
        table.add_column(justify=justify)
    table.show_header = False
    total = importances.sum() or 1.0  # a model without splits has no important column
    for column in np.argsort(-importances, kind="stable")[:top]:
        share = importances[column] / total
        length = round(40 * importances[column] / (importances.max() or 1.0))
        table.add_row(columns[column], ("#" if ascii_only else "█") * length, f"{share:.1%}")
    return table


# ---------------------------------------------------------------------------------------------------------- saving


def check_destination(path: Path, overwrite: bool) -> None:
    """Complain before the training, not after it."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; --out must name a file.")
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}. Create it first.")
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists already; choose another name for --out, or add --force to replace it.")


# --------------------------------------------------------------------------------------------------------- compiling


def cache_folders() -> list[str]:
    """Where Numba keeps the compiled kernels; nothing when compiling is switched off or nothing can be kept."""
    folders = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("stagewise.kernels."):
            for value in vars(module).values():
                folders.add(getattr(getattr(value, "stats", None), "cache_path", None))
    return sorted(folder for folder in folders if isinstance(folder, str))


def warmup_cases() -> Iterator[tuple[str, Any, Floats, Any]]:
    """(what is compiled, estimator, X, y): tiny, but between them they run through every kernel of a normal fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    X[::7, 1] = np.nan
    amount = np.exp(rng.normal(size=120))  # positive: allowed by every regression loss
    small: dict[str, Any] = {"n_estimators": 2, "max_leaf_nodes": 4, "min_samples_leaf": 5}
    for loss in ("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie"):
        yield loss, sw.GradientBoostingRegressor(loss=loss, **small), X, amount
    halves, thirds = np.arange(120) % 2, np.arange(120) % 3
    yield "log_loss, 2 classes", sw.GradientBoostingClassifier(**small), X, halves
    yield "log_loss, 3 classes", sw.GradientBoostingClassifier(**small), X, thirds
    yield "exponential", sw.GradientBoostingClassifier(loss="exponential", **small), X, halves
    for growth in ("levelwise", "symmetric"):
        yield growth, sw.GradientBoostingRegressor(growth=growth, max_depth=2, **small), X, amount
    sampled = sw.GradientBoostingRegressor(subsample=0.5, max_features=0.7, random_state=0, n_jobs=2, **small)
    yield "sampling, two threads", sampled, X, amount


# --------------------------------------------------------------------------------------------------------- commands


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"stagewise {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Gradient boosting with exact, reproducible histograms."""


@app.command(epilog=EXIT_CODES)
def demo(
    out: Annotated[Path, typer.Option(help="Where to save the model.")] = DEMO_FILE,
    force: Annotated[bool, typer.Option("--force", help="Replace the file named by --out.")] = False,
    rows: Annotated[int, typer.Option(min=200, max=5_000_000, help="How many flats to generate.")] = 40_000,
    stages: Annotated[int, typer.Option(min=1, max=10_000, help="The most stages to train.")] = 600,
    seed: Annotated[int, typer.Option(min=0, help="For the generated data.")] = 1,
) -> None:
    """Train, evaluate and explain a model of generated flat prices, then save it."""
    check_destination(out, overwrite=force or out == DEMO_FILE)
    console = Console(highlight=False)
    ascii_only = console.options.ascii_only
    flats = generate_flats(rows, seed)
    train, validation, test = flats.part(0, 0.6), flats.part(0.6, 0.8), flats.part(0.8, 1)
    console.print(f"{rows:,} generated flats, {len(flats.columns)} columns; the price is to be predicted.")
    console.print(
        f"{len(train.X):,} to train, {len(validation.X):,} to choose the number of stages, {len(test.X):,} held out."
    )
    console.print("[dim]The very first run on a machine compiles the kernels, which takes some seconds.[/dim]\n")

    model = sw.GradientBoostingRegressor(n_estimators=stages, early_stopping=True, n_iter_no_change=20, verbose=1)
    began = time.perf_counter()
    model.fit(train.X, train.price, eval_set=(validation.X, validation.price))
    seconds = time.perf_counter() - began

    score, best = explained(test.price, model.predict(test.X)), explained(test.price, test.expected)
    console.print(f"\n[bold]Held-out score: {score:.1%} of the variance explained[/bold]")
    console.print(f"(The formula that made the prices, without its noise, explains {best:.1%}.)")
    console.print(f"{model.n_estimators_:,} stages kept of at most {stages:,}, in {seconds:.1f} s.\n")
    history = model.history_
    console.print(history_table(np.asarray(history.train), np.asarray(history.validation), ascii_only), "")
    console.print(importance_table(flats.columns, np.asarray(model.feature_importances_), 5, ascii_only), "")
    sw.save(model, out)
    console.print("Model saved to", Text(str(out.resolve()), style="bold"), soft_wrap=True)


@app.command(epilog=EXIT_CODES)
def warmup() -> None:
    """Compile the kernels now, so that the first real fit does not wait for it."""
    console = Console(highlight=False)
    announce.silent = True  # the bar below says it
    cases = list(warmup_cases())
    began = time.perf_counter()
    line = (TextColumn("compiling"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*line, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(cases))
        for name, estimator, X, y in cases:
            progress.update(task, description=name)
            estimator.fit(X, y, sample_weight=np.ones(len(y)), eval_set=(X, y)).predict(X)
            progress.advance(task)
    console.print(f"{len(cases)} kinds of fit ready in {time.perf_counter() - began:.1f} s.")
    folders = cache_folders()
    for folder in folders:
        console.print("Compiled kernels are kept in", Text(folder, style="bold"), soft_wrap=True)
    if not folders:
        console.print("Nothing was kept: compiling is switched off, or no cache folder can be written.")
