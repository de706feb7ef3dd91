"""Pieces of HTML that several parts of a page are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["bars", "figure", "number", "table"]


def number(value: float | None) -> str:
    """A number in few characters."""
    if value is None:
        return "–"
    whole = abs(value) < 1e12 and value == int(value)
    return (f"{value:,.0f}" if whole or 1e3 <= abs(value) < 1e12 else f"{value:.4g}").replace("-", "−")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()) -> str:
    """A table whose first column names its lines; `numbers` are the columns set to the right."""
    kind = ["" if k not in numbers else ' class="n"' for k in range(len(head))]
    top = "".join(f'<th scope="col"{own}>{escape(name)}</th>' for name, own in zip(head, kind, strict=True))
    lines = []
    for first, *others in rows:
        cells = "".join(f"<td{own}>{escape(cell)}</td>" for cell, own in zip(others, kind[1:], strict=True))
        lines.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>\n'


def figure(own: dict[str, str]) -> str:
    """A picture with its text alternative, and its caption if it has one."""
    caption = f"<figcaption>{escape(own['caption'])}</figcaption>" if own["caption"] else ""
    alt = f'role="img" aria-label="{escape(own["alt"])}"'
    kind = f'class="{escape(own["kind"])}"'
    return f'<figure {kind}>{caption}<div class="picture" tabindex="-1"><div {alt}>{own["svg"]}</div></div></figure>\n'


def bars(own: dict[str, Any]) -> str:
    """A small histogram."""
    counts = own["bars"]
    if not counts:
        return ""
    peak = max(counts) or 1
    width = 120 / len(counts)
    drawn = "".join(
        f'<rect x="{k * width:.1f}" y="{26 - 24 * count / peak:.1f}" width="{max(1.0, width - 0.8):.1f}" '
        f'height="{24 * count / peak:.1f}"/>'
        for k, count in enumerate(counts)
        if count
    )
    alt = f"Distribution of {own['name']} between its 1 % and 99 % quantile"
    how = 'viewBox="0 0 120 26" preserveAspectRatio="none" fill="currentColor" role="img"'
    return f'<svg class="bars" {how} aria-label="{escape(alt)}">{drawn}</svg>'
