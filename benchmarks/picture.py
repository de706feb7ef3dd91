"""Training times as bars on a log scale: one group a workload, one bar a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rivals import OURS, RIVALS

__all__ = ["draw"]

# Okabe and Ito's palette: told apart with every kind of colour vision. Two forms of one library share a hue's family
# and are told apart by hatching as well.
_COLOURS = {
    "stagewise": "#000000",
    "lightgbm": "#E69F00",
    "xgboost": "#0072B2",
    "xgboost-lossguide": "#56B4E9",
    "catboost": "#009E73",
    "catboost-lossguide": "#F0E442",
    "scikit-learn": "#CC79A7",
}
_HATCHES = {"xgboost-lossguide": "///", "catboost-lossguide": "///"}

_WIDTH = 0.86  # of a group, whose neighbours are 1 apart


def draw(parts: Mapping[str, Mapping[str, Any]], names: Sequence[str], path: Path) -> None:
    """A PNG of the named parts. The number above our bar is the fastest peer's time ÷ ours."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rivals = [name for name in RIVALS if any(name in parts[part]["rivals"] for part in names)]
    bar = _WIDTH / len(rivals)
    figure, axes = pyplot.subplots(figsize=(max(8.0, 1.5 + 1.35 * len(names)), 5.2), layout="constrained")
    for k, name in enumerate(rivals):
        places, heights = [], []
        for group, part in enumerate(names):
            if name in parts[part]["rivals"]:
                places.append(group + (k + 0.5) * bar - _WIDTH / 2)
                heights.append(parts[part]["rivals"][name]["fit"]["median"])
        axes.bar(
            places, heights, 0.92 * bar, label=RIVALS[name].title, color=_COLOURS[name], hatch=_HATCHES.get(name),
            edgecolor="white" if name == OURS else "#333333", linewidth=0.4,
        )  # fmt: skip
        if name == OURS:
            for place, height, part in zip(places, heights, names, strict=True):
                _mark(axes, place, height, parts[part])
    axes.set_yscale("log")
    axes.margins(x=0.02, y=0.12)
    axes.set_ylabel("training time, seconds (log scale)")
    axes.set_xticks(range(len(names)), [_label(parts[part], part) for part in names], fontsize=8)
    axes.grid(axis="y", which="major", linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(ncols=4 if len(names) < 6 else len(rivals), fontsize=8, frameon=False, loc="outside lower center")
    run = parts[names[0]]["run"]
    quick = "; a quick run, whose figures mean nothing" if run["quick"] else ""
    axes.set_title(
        f"Training time of fit(X, y). Bold: fastest peer ÷ stagewise\n"
        f"{run['cpu']}, {run['threads']} threads, {run['date'][:10]}{quick}",
        fontsize=9,
        loc="left",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _mark(axes: Any, place: float, height: float, part: Mapping[str, Any]) -> None:
    if "fit" in part:
        axes.annotate(
            f"{part['fit']['ratio']:.1f}", (place, height), xytext=(-4, 2), textcoords="offset points",
            ha="center", va="bottom", fontsize=8, fontweight="bold", annotation_clip=False,
        )  # fmt: skip


def _label(part: Mapping[str, Any], name: str) -> str:
    leaves = "" if part["leaves"] == 31 else f", {part['leaves']} leaves"
    return f"{name}\n{part['rows']:,} × {part['columns']:,}\n{part['task']}{leaves}"
