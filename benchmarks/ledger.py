"""Losses that take long to find, kept one by one: a run that was stopped can be read, and goes on where it was.

Each has a key that says all it depends on (table, division, rows, library and its version, settings), so a new version
or other settings find nothing and are measured. To measure everything anew, remove the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from benchmarks.machine import commit
from benchmarks.timing import stopwatch

__all__ = ["Ledger", "version_of"]


def version_of(library: str) -> str:
    """The version, and of our own library the commit; empty when files differ from it, so that nothing is kept."""
    if library != "stagewise":
        return metadata.version(library)
    own = commit() or ""
    return "" if own.endswith("+") else own


class Ledger:
    """{key: [loss, seconds]} in a JSON file that is replaced after every measurement."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept: dict[str, list[float]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def loss(self, key: tuple[object, ...], measure: Callable[[], float]) -> float:
        """What is known under this key, or else what is measured now. The last entry of the key: a version."""
        name = " · ".join(str(word) for word in key)
        if name not in self.kept or not key[-1]:
            seconds, loss = stopwatch(measure)
            self.kept[name] = [loss, round(seconds, 2)]
            self.path.parent.mkdir(parents=True, exist_ok=True)
            waiting = self.path.with_suffix(".new")
            waiting.write_text(json.dumps(self.kept, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
            waiting.replace(self.path)
        return self.kept[name][0]
