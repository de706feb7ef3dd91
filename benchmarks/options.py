"""What the command line chose, and what a part hands back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Options", "Outcome"]


@dataclass(frozen=True, slots=True)
class Options:
    """quick: small sizes, to see that everything works; the figures then mean nothing."""

    quick: bool = False
    repeats: int = 3
    threads: int = 2
    memory: bool = True
    rivals: tuple[str, ...] = ()  # empty: all of them
    large: bool = False  # where a part has a larger size that takes much longer
    folder: Path | None = None  # of the results, when somebody said so

    def size(self, full: int, quick: int) -> int:
        """A number of rows, stages or calls."""
        return min(full, quick) if self.quick else full


@dataclass(frozen=True, slots=True)
class Outcome:
    """text is for the terminal, data for the JSON file."""

    text: str
    data: dict[str, Any]
