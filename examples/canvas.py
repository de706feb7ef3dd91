"""What all examples share: two options, and a picture that is written somewhere."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


class Options(NamedTuple):
    """small: a few seconds, to see that everything runs; the figures then mean little. out: folder of the picture."""

    small: bool
    out: Path

    def size(self, full: int, small: int) -> int:
        return small if self.small else full


def options(text: str | None, arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a few seconds: does it run at all?")
    parser.add_argument(
        "--out", type=Path, default=Path("examples_output"), metavar="DIR", help="folder of the picture"
    )
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    return Options(asked.small, asked.out)


def panels(n: int, width: float = 5.0, height: float = 3.9) -> tuple[Any, Any]:
    """A figure with n panels side by side."""
    figure, axes = plt.subplots(1, n, figsize=(width * n, height), layout="constrained", squeeze=False)
    for axis in axes[0]:
        axis.grid(alpha=0.25)
    return figure, axes[0]


def save(figure: Any, given: Options, name: str) -> None:
    path = given.out / f"{name}.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"picture: {path}")
