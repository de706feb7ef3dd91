"""verbose=1: how far a fit is, on a terminal and in a notebook."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

from stagewise.boosting.model import History
from stagewise.boosting.monitor import Stage

__all__ = ["NotebookBar", "TerminalBar", "progress_bar"]

_PAUSE = 0.1  # seconds between two updates of a page: each is a message to the browser


def progress_bar() -> TerminalBar | NotebookBar:
    """The one for the place where this runs."""
    return NotebookBar() if in_notebook() else TerminalBar()


def in_notebook() -> bool:
    """Whether the code runs in a kernel (Jupyter, Colab, an editor's notebook), rather than in IPython's terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def deviances(stage: Stage) -> str:
    text = f"train {stage.train:.5g}"
    return text if stage.validation is None else f"{text}  validation {stage.validation:.5g}"


class TerminalBar:
    """A bar with the stage, the deviance and the time left."""

    def on_start(self, total: int, done: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("stage"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.fields[deviance]}"),
            TimeRemainingColumn(), transient=False,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=total, completed=done, deviance="")
        self._progress.start()

    def on_stage(self, stage: Stage) -> None:
        self._progress.update(self._task, completed=stage.number, deviance=deviances(stage))

    def on_end(self, history: History) -> None:
        self._progress.stop()


class NotebookBar:
    """The same as one HTML output that is replaced while the fit goes on; rich needs ipywidgets for that, we do not."""

    def on_start(self, total: int, done: int) -> None:
        from IPython.display import display

        self._first, self._last, self._shown = done, 0.0, Shown(done, total, "")
        self._handle: Any = display(self._shown, display_id=True)  # type: ignore[no-untyped-call, unused-ignore]

    def on_stage(self, stage: Stage) -> None:
        ended = stage.number == stage.total
        left = stage.seconds / (stage.number - self._first) * (stage.total - stage.number)
        rest = f"{stage.seconds:.1f} s" if ended else f"{left:.0f} s left"
        self._shown = Shown(stage.number, stage.total, f"{deviances(stage)}  {rest}")
        now = time.perf_counter()
        if ended or now - self._last >= _PAUSE:
            self._last = now
            self._handle.update(self._shown)

    def on_end(self, history: History) -> None:
        done, total = len(history.train), self._shown.total
        if done < total:  # stopped early: what was left no longer is
            self._shown = Shown(done, total, f"{history.best} stages kept")
        self._handle.update(self._shown)


class Shown:
    """One state of a bar."""

    def __init__(self, done: int, total: int, text: str) -> None:
        self.done, self.total, self.text = done, total, text

    def __repr__(self) -> str:
        return f"stage {self.done}/{self.total}  {self.text}".rstrip()

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self.done}" max="{self.total}" style="width:16em;vertical-align:middle"></progress>'
        return f"<div>stage {self.done}/{self.total} {bar} {escape(self.text)}</div>"
