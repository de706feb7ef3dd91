"""The `stagewise` command. `app.py` is the frame, and each command is a file of its own, which enters itself there.

Commands import what they compute with when they run, so that --help and a mistyped option are answered at once.
"""

from __future__ import annotations

from importlib import import_module

from stagewise.cli.app import app, main
from stagewise.cli.run import Run

# The order of --help.
for _name in ("demo", "train", "predict", "explain", "page", "info", "convert", "warmup"):
    import_module(f"stagewise.cli.{_name}")

__all__ = ["Run", "app", "main"]
