"""A model and some data as one page: `summarise` makes a dictionary, `render` makes HTML of it, `write` does both."""

from __future__ import annotations

from stagewise.report.page import render
from stagewise.report.summary import summarise, write

__all__ = ["render", "summarise", "write"]
