"""The JSON file: the last result of each part, with the machine, the versions and the commit it was made with.

A run replaces the parts it ran and leaves the others, and is written after every part: an interrupted run loses
nothing. Quick or partial runs go to a folder of their own, so that they never replace real figures.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.options import Options

__all__ = ["RESULTS", "Results", "folder_of"]

RESULTS = Path(__file__).parent / "results"

_SCHEMA = 1
"""Of what parts hold; a file with another number is begun anew."""


def folder_of(options: Options) -> Path:
    """Where a run is kept when nobody says where."""
    if options.quick:
        return RESULTS / "quick"
    return RESULTS / "partial" if options.rivals or not options.memory else RESULTS


class Results:
    """Parts by name; `run` says how and where they were measured."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "results.json"
        self.parts: dict[str, dict[str, Any]] = {}
        if self.path.is_file():
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            if kept.get("schema") == _SCHEMA:
                self.parts = kept["parts"]

    def add(self, name: str, data: dict[str, Any], run: dict[str, Any]) -> None:
        self.parts[name] = {"run": run, **data}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"schema": _SCHEMA, "parts": self.parts}, indent=1, ensure_ascii=False, sort_keys=True)
        waiting = self.path.with_suffix(".new")
        waiting.write_text(text + "\n", encoding="utf-8")
        waiting.replace(self.path)
