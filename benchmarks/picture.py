"""Training times as bars on a log scale: one group a workload, one bar a library."""

from __future__ import annotations

import textwrap
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
_GROUPS = 8  # side by side; more go below


def draw(parts: Mapping[str, Mapping[str, Any]], names: Sequence[str], path: Path) -> None:
    """A PNG of the named parts. The number above our bar is the fastest peer's time ÷ ours."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rivals = [name for name in RIVALS if any(name in parts[part]["rivals"] for part in names)]
    lines = [names[k : k + _GROUPS] for k in range(0, len(names), _GROUPS)]
    width = min(len(names), _GROUPS)
    size = (max(8.0, 1.5 + 1.35 * width), 1.2 + 4.0 * len(lines))
    figure, panels = pyplot.subplots(len(lines), 1, figsize=size, layout="constrained", squeeze=False)
    for axes, line in zip(panels[:, 0], lines, strict=True):
        _panel(axes, parts, line, rivals)
        axes.set_xlim(-0.6, width - 0.4)
    handles, titles = panels[0, 0].get_legend_handles_labels()
    columns = len(rivals) if width > 5 else 4
    figure.legend(handles, titles, ncols=columns, fontsize=8, frameon=False, loc="outside lower center")
    run = parts[names[0]]["run"]
    quick = "; a quick run, whose figures mean nothing" if run["quick"] else ""
    panels[0, 0].set_title(
        f"Training time of fit(X, y). Bold: fastest peer ÷ stagewise\n"
        f"{run['cpu']}, {run['threads']} threads, {run['date'][:10]}{quick}",
        fontsize=9,
        loc="left",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _panel(axes: Any, parts: Mapping[str, Mapping[str, Any]], names: Sequence[str], rivals: Sequence[str]) -> None:
    """One line of groups."""
    bar = _WIDTH / len(rivals)
    for k, name in enumerate(rivals):
        present = [(group, parts[part]) for group, part in enumerate(names) if name in parts[part]["rivals"]]
        places = [group + (k + 0.5) * bar - _WIDTH / 2 for group, _ in present]
        heights = [part["rivals"][name]["fit"]["median"] for _, part in present]
        axes.bar(
            places, heights, 0.92 * bar, label=RIVALS[name].title, color=_COLOURS[name], hatch=_HATCHES.get(name),
            edgecolor="white" if name == OURS else "#333333", linewidth=0.4,
        )  # fmt: skip
        if name == OURS:
            for place, height, (_, part) in zip(places, heights, present, strict=True):
                _mark(axes, place, height, part)
    axes.set_yscale("log")
    axes.margins(y=0.12)
    axes.set_ylabel("training time, seconds (log scale)", fontsize=8)
    axes.set_xticks(range(len(names)), [_label(part, parts[part]) for part in names], fontsize=8)
    axes.grid(axis="y", which="major", linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _mark(axes: Any, place: float, height: float, part: Mapping[str, Any]) -> None:
    if "fit" in part:
        axes.annotate(
            f"{part['fit']['ratio']:.1f}", (place, height), xytext=(-4, 2), textcoords="offset points",
            ha="center", va="bottom", fontsize=8, fontweight="bold", annotation_clip=False,
        )  # fmt: skip


def _label(name: str, part: Mapping[str, Any]) -> str:
    leaves = "" if part["leaves"] == 31 else f", {part['leaves']} leaves"
    title = "\n".join(textwrap.wrap(name.replace("_", " "), 18))
    return f"{title}\n{part['rows']:,} × {part['columns']:,}\n{part['task']}{leaves}"
