"""Pictures for a page: drawn by `plots`, as SVG that takes its colours and its font from the page around it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

from stagewise.plots.style import pyplot

__all__ = ["picture"]

_INK = "#010203"  # stands for the colour of text, which the page knows
_STYLE: dict[Any, Any] = {
    "axes.edgecolor": _INK, "axes.labelcolor": _INK, "text.color": _INK, "xtick.color": _INK, "ytick.color": _INK,
    "axes.linewidth": 0.7, "axes.labelsize": 9.5, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5,
    "xtick.major.width": 0.7, "ytick.major.width": 0.7, "xtick.major.size": 3.0, "ytick.major.size": 3.0,
    "axes.facecolor": "none", "figure.facecolor": "none", "savefig.facecolor": "none", "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"], "axes.grid": False, "svg.hashsalt": "stagewise", "savefig.dpi": 150,
    "axes.formatter.use_mathtext": False, "path.simplify": True, "axes.titlesize": 10,
}  # fmt: skip

# Grey, white and the two main colours are fixed in `plots`; here they follow the page, light or dark.
_COLOURS = {
    _INK: "currentColor", "#000000": "currentColor", "#333333": "currentColor", "#444444": "currentColor",
    "#555555": "var(--muted)", "#777777": "var(--muted)", "#888888": "var(--muted)", "#8a8a8a": "var(--muted)",
    "#b0b0b0": "var(--muted)", "#ffffff": "var(--paper)", "#0072b2": "var(--blue)", "#d55e00": "var(--orange)",
}  # fmt: skip


def picture(
    key: str, alt: str, draw: Callable[[Any], Any], width: float = 6.4, height: float = 3.7, caption: str = ""
) -> dict[str, str]:
    """What `draw(ax)` draws, as {"svg", "alt", "caption", "kind"}. key: unique on the page; width, height: inches."""
    pyplot()  # or an error that says how to get matplotlib
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots())
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    kind = "wide" if width > 7.0 else "pair" if key == "pair" else "plain"
    return {"svg": _inline(out.getvalue(), key), "alt": alt, "caption": caption, "kind": kind}


def _inline(svg: str, key: str) -> str:
    """An SVG file as part of a page: no prolog, no style of its own, names that no other picture has."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    size = re.search(r'<svg[^>]*?width="([\d.]+)pt"', svg)
    svg = re.sub(r'(<svg[^>]*?) height="[\d.]+pt"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[\d.]+pt"', r"\1", svg, count=1)
    svg = re.sub(r' id="([^"]+)"', rf' id="{key}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{key}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{key}-\1)", svg)
    svg = re.sub(r"(?<=(?:fill|roke): )#[0-9a-f]{6}", lambda found: _COLOURS.get(found.group(), found.group()), svg)
    svg = re.sub(r"'DejaVu Sans'(, [^;\"]+)?", "var(--font)", svg)
    svg = re.sub(r"\n\s*", "\n", svg)
    points = float(size.group(1)) if size else 460.0
    opening = f'<svg fill="currentColor" aria-hidden="true" focusable="false" style="max-width: {points * 4 / 3:.0f}px"'
    return svg.replace("<svg", opening, 1).strip()
