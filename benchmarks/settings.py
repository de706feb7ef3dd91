"""What every library is told; rivals.py says it in each one's words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """task: binary, multiclass, regression (squared error) or count (Poisson)."""

    task: str
    stages: int
    threads: int
    leaves: int = 31
    rate: float = 0.1
    bins: int = 255
    min_rows: int = 20
    min_hess: float = 1e-3
    l2: float = 1.0

    @property
    def classes(self) -> bool:
        return self.task in ("binary", "multiclass")

    @property
    def depth(self) -> int:
        """Levels of a full tree with as many leaves."""
        return math.ceil(math.log2(self.leaves))

    def short(self) -> Settings:
        """For a warm-up."""
        return replace(self, stages=2)
