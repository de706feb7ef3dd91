"""What a command says on the terminal: to people, quietly, or as JSON to scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from stagewise.errors import ParameterError

__all__ = ["Bar", "Voice", "history_table", "importance_table", "one_line", "row_bar", "sparkline"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Voice:
    """Where a command's words go: stdout, or stderr where stdout carries data; nowhere when it is to be quiet.

    With --json, one JSON object on stdout takes the place of all words.
    """

    console: Console
    silent: bool
    as_json: bool

    @classmethod
    def of(cls, quiet: bool = False, as_json: bool = False, out: str = "") -> Voice:
        """out: the destination of the command's data; "-" is stdout."""
        if as_json and out == "-":
            raise ParameterError("--json and --out - both want stdout; give --out a file.")
        console = Console(highlight=False, markup=False, stderr=out == "-", soft_wrap=True)  # names may hold brackets
        return cls(console, quiet or as_json, as_json)

    def say(self, *words: Any) -> None:
        """Something for people to read; brackets are brackets, and `Text` has a style."""
        if not self.silent:
            self.console.print(*words)

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        """A spinner on stderr while something takes its time."""
        if self.silent:
            yield
            return
        with Console(stderr=True, highlight=False).status(doing):
            yield

    def saved(self, what: str, path: str) -> None:
        if path != "-":
            self.say(f"{what} saved to", Text(path, style="bold"))

    def result(self, values: dict[str, Any]) -> None:
        """The result for scripts, when they asked for it."""
        if self.as_json:
            sys.stdout.write(json.dumps(_plain(values), allow_nan=False) + "\n")

    @property
    def ascii_only(self) -> bool:
        return bool(self.console.options.ascii_only)


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's; what is not finite as null, which JSON has."""
    if isinstance(value, dict):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(own) for own in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def one_line(error: BaseException) -> str:
    """The message of an error on one line, whatever line breaks it has."""
    return " ".join(str(error).split())


class Bar:
    """The progress bar of a fit, on stderr: stdout may carry data."""

    def on_start(self, total: int, done: int) -> None:
        console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("stage"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.fields[deviance]}"),
            TimeRemainingColumn(), console=console, transient=True,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=total, completed=done, deviance="")
        self._progress.start()

    def on_stage(self, stage: Any) -> None:
        held_out = "" if stage.validation is None else f"  validation {stage.validation:.5g}"
        self._progress.update(self._task, completed=stage.number, deviance=f"train {stage.train:.5g}{held_out}")

    def on_end(self, history: Any) -> None:
        self._progress.stop()


@contextmanager
def row_bar(shown: bool, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of rows done since the last call; a bar where stderr is a terminal."""
    console = Console(stderr=True, highlight=False)
    if not (shown and console.is_terminal):
        yield lambda rows: None
        return
    columns = (TextColumn(what), TextColumn("{task.completed:,.0f} rows"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda rows: progress.update(task, advance=rows)


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
        if len(values):  # without a validation sample there is one line
            line = sparkline(values, ascii_only=ascii_only)
            table.add_row(name, f"{values[0]:,.5g}", line, f"{values.min():,.5g}")
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
