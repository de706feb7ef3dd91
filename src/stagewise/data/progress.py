"""A bar for what takes long: rows read so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["row_bar"]


@contextmanager
def row_bar(verbose: int, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of rows done since the last call. verbose=0: nothing is shown."""
    if not verbose:
        yield lambda rows: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), TextColumn("{task.completed:,.0f} rows"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=False) as progress:
        task = progress.add_task("", total=total)
        yield lambda rows: progress.update(task, advance=rows)
