"""Plain tables for a terminal, and Markdown ones for the README."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["markdown", "plain"]


def plain(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns lined up: the first to the left, the others to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]

    def line_of(cells: Sequence[str]) -> str:
        first, *others = (
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  " + "   ".join([first, *others]).rstrip()

    return "\n".join([line_of(lines[0]), "  " + "-" * (len(line_of(lines[0])) - 2), *map(line_of, lines[1:])])


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same for the README."""
    marks = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, marks, *rows))
