"""The README's table, from the last results: no figure is typed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.goals import training_ratios
from benchmarks.rivals import OURS, RIVALS
from benchmarks.table import markdown
from benchmarks.training import geometric_mean
from benchmarks.workloads import WORKLOADS

__all__ = ["text"]


def text(parts: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown: training seconds of A to H, with date, machine and versions below."""
    names = [name for name in WORKLOADS if name in parts]
    if not names:
        return "No figures yet: they will be put here from a run of `make bench`."
    rivals = list(RIVALS)
    rows = [
        [_title(parts[name]), *(_seconds(parts[name], rival) for rival in rivals), _ratio(parts[name])]
        for name in names
    ]
    header = ["seconds", *(RIVALS[rival].title for rival in rivals), "fastest peer ÷ ours"]
    lines = [markdown(header, rows), ""]
    ratios = training_ratios(parts)
    if len(ratios) > 1:
        lines.append(f"Geometric mean of the last column: {geometric_mean(ratios):.2f}. ")
    run = parts[names[-1]]["run"]
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items() if name != OURS)
    dates = sorted({parts[name]["run"]["date"][:10] for name in names})
    lines.append(
        f"Median of interleaved fits, {run['threads']} threads, the library's own dataset included; "
        f"{' to '.join(dict.fromkeys([dates[0], dates[-1]]))}, {run['cpu']}, {run['cores']} cores, Python "
        f"{run['python']}, {versions}, stagewise at {run['commit']}."
    )
    return "\n".join(lines)


def _title(part: Mapping[str, Any]) -> str:
    return str(part["title"]).replace(" · ", ": ")


def _seconds(part: Mapping[str, Any], rival: str) -> str:
    if rival not in part["rivals"]:
        return ""
    seconds = part["rivals"][rival]["fit"]["median"]
    shown = f"{seconds:.3f}" if seconds < 1 else f"{seconds:.2f}"
    return f"**{shown}**" if rival == OURS else shown


def _ratio(part: Mapping[str, Any]) -> str:
    return f"{part['fit']['ratio']:.2f}" if "fit" in part else ""
