"""Small pieces of HTML: how results show themselves in a notebook.

Plain tables and inline SVG, without scripts and without a network; colours are those of the text around them, so they
are at home on light and on dark pages. Everything that comes from data is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

__all__ = ["curves", "panel", "table"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8C8C00", "#56B4E9")  # as in plots/style.py
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 460, 170, 58, 10, 10, 22
_MOST_POINTS = 400
_MOST = 1e300  # differences of such values can still be taken


def panel(title: str, *parts: str) -> str:
    """A title with pieces below it."""
    inner = "".join(parts)
    return f'<div style="margin:0.4em 0;max-width:46em"><div style="font-weight:600">{escape(title)}</div>{inner}</div>'


def table(header: Sequence[str], rows: Sequence[Sequence[str]], total: int | None = None, sizes: int = 1) -> str:
    """Text to the left, numbers to the right, and bars for the column `sizes` if it has a name and holds numbers.

    total : how many rows there would be, if these are the first ones only
    """
    bars = _bars(header, rows, sizes)
    head = ""
    if any(header):
        cells = "".join(f'<th scope="col" style="{_side(k)}">{escape(name)}</th>' for k, name in enumerate(header))
        head = f"<thead><tr>{cells}{'<th></th>' if bars else ''}</tr></thead>"
    body = []
    for i, row in enumerate(rows):
        cells = "".join(f'<td style="{_side(k)}">{escape(cell)}</td>' for k, cell in enumerate(row))
        body.append(f"<tr>{cells}{_bar(bars[i]) if bars else ''}</tr>")
    more = f"<div>… {total - len(rows)} more</div>" if total is not None and total > len(rows) else ""
    return f'<table style="border-collapse:collapse">{head}<tbody>{"".join(body)}</tbody></table>{more}'


def _side(column: int) -> str:
    return f"text-align:{'right' if column else 'left'};padding:0.1em 0.8em 0.1em 0"


def _bars(header: Sequence[str], rows: Sequence[Sequence[str]], column: int) -> list[float]:
    """The share of each row in the largest one; empty when the column holds no sizes."""
    if len(header) <= column or not header[column]:
        return []
    try:
        values = np.array([float(row[column]) for row in rows])
    except ValueError:
        return []
    largest = values.max(initial=0.0)
    return list(np.maximum(values, 0.0) / largest) if 0.0 < largest < np.inf else []


def _bar(share: float) -> str:
    width = f"{100.0 * share:.1f}%"
    bar = f'<div style="width:{width};height:0.7em;background:{_COLOURS[0]}"></div>'
    return f'<td style="width:11em" aria-hidden="true">{bar}</td>'


def curves(series: Mapping[str, tuple[np.ndarray, np.ndarray]], label: str, mark: float | None = None) -> str:
    """Lines through (x, y) by name, in one picture; what is not finite, or beyond ±1e300, is left out.

    label : what a screen reader says
    mark : a place on the x axis
    """
    kept = {}
    for name, (x, y) in series.items():
        fine = (np.abs(x) < _MOST) & (np.abs(y) < _MOST)  # False for NaN
        if fine.any():
            kept[name] = np.asarray(x[fine], np.float64), np.asarray(y[fine], np.float64)
    if not kept:
        return ""
    (x0, x1), (y0, y1) = (_range([own[axis] for own in kept.values()]) for axis in (0, 1))

    def across(x: np.ndarray) -> np.ndarray:
        return np.asarray(_LEFT + (x - x0) / (x1 - x0) * (_WIDTH - _LEFT - _RIGHT))

    def down(y: np.ndarray) -> np.ndarray:
        return np.asarray(_TOP + (y1 - y) / (y1 - y0) * (_HEIGHT - _TOP - _BOTTOM))

    floor, text = _HEIGHT - _BOTTOM, 'fill="currentColor" font-size="11"'
    parts = [
        f'<path d="M{_LEFT} {_TOP}V{floor}H{_WIDTH - _RIGHT}" fill="none" stroke="currentColor" opacity="0.5"/>',
        f'<text x="{_LEFT - 5}" y="{_TOP + 8}" text-anchor="end" {text}>{y1:.4g}</text>',
        f'<text x="{_LEFT - 5}" y="{floor}" text-anchor="end" {text}>{y0:.4g}</text>',
        f'<text x="{_LEFT}" y="{_HEIGHT - 6}" {text}>{x0:.4g}</text>',
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" text-anchor="end" {text}>{x1:.4g}</text>',
    ]
    if mark is not None and x0 <= mark <= x1:
        at = float(across(np.array(mark)))
        parts.append(f'<path d="M{at:.1f} {_TOP}V{floor}" stroke="currentColor" stroke-dasharray="3 3" opacity="0.6"/>')
    for k, (name, (x, y)) in enumerate(kept.items()):
        some = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).astype(np.int64))
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across(x[some]), down(y[some]), strict=True))
        colour = _COLOURS[k % len(_COLOURS)]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        if len(kept) > 1:
            place = f'x="{_WIDTH - _RIGHT - 4}" y="{_TOP + 10 + 14 * k}" text-anchor="end" font-size="11"'
            parts.append(f'<text {place} fill="{colour}">{escape(name)}</text>')
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" style="max-width:100%"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _range(parts: list[np.ndarray]) -> tuple[float, float]:
    """Least and largest value; room around a single one."""
    low, high = min(float(own.min()) for own in parts), max(float(own.max()) for own in parts)
    if high > low:
        return low, high
    return (low - 0.5, high + 0.5) if abs(low) < 1e15 else (min(low, 0.0), max(high, 0.0))
