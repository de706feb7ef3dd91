"""The code of the documentation: found, and run page by page.

Every ```python block of a page is run, in order, in one namespace and in an empty folder. What a block prints is
compared with a ```text title="output" block that follows it. Beside that:

    <!-- not run: the reason -->      before a block that cannot be run here; used rarely
    <!-- prepare                      code that is run but not shown
    ... -->

    python tests/pages/blocks.py docs/tutorial.md      runs a page and puts its pictures into docs/pictures
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

__all__ = ["ROOT", "Block", "commands", "pages", "read", "run"]

ROOT = Path(__file__).parents[2]

_PIECE = re.compile(
    r"^<!-- prepare\n(?P<hidden>.*?)^-->$"
    r"|^(?P<indent> *)```(?P<language>[\w+-]*)(?P<rest>[^\n]*)\n(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, or a hidden one."""

    language: str
    code: str
    line: int  # of its first line of code
    output: bool  # what the block before it prints
    reason: str | None  # why it is not run


def pages() -> list[Path]:
    """README.md and everything in docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def read(text: str) -> list[Block]:
    found = []
    for piece in _PIECE.finditer(text):
        hidden = piece["hidden"] is not None
        code = piece["hidden"] if hidden else piece["code"]
        line = text.count("\n", 0, piece.start("hidden" if hidden else "code")) + 1
        reason = _NOT_RUN.search(text[: piece.start()])
        found.append(
            Block(
                language="python" if hidden else piece["language"],
                code=dedent(code),
                line=line,
                output=not hidden and 'title="output"' in piece["rest"],
                reason=None if reason is None else " ".join(reason[1].split()),
            )
        )
    return found


def indented(text: str) -> list[str]:
    """Indented blocks: formulas, drawings, lines for a terminal."""
    plain = _PIECE.sub("", text)
    return re.findall(r"(?:(?<=\n\n)|\A)((?: {4,}[^\n]*\n+)+)", plain)


def commands(text: str) -> list[str]:
    """What a page tells the reader to type into a terminal."""
    typed = [*indented(text), *(block.code for block in read(text) if block.language == "sh")]
    lines = [line.split("#")[0].strip() for block in typed for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", _PIECE.sub("", text))
    return [line for line in lines if re.match(r"(make|stagewise|python) [\w-]", line)]


def run(page: Path) -> dict[str, Any]:
    """Run a page's blocks in the current folder; AssertionError where one prints something else than the page says."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in read(page.read_text(encoding="utf-8")):
        if block.output:
            assert tidy(printed) == tidy(block.code), (
                f"{page.name}:{block.line}: the page says\n{block.code}\nbut this is printed:\n{printed}"
            )
        elif block.language == "python" and block.reason is None:
            # as many empty lines before it as the page has, so that a traceback names the line of the page
            code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, namespace)
            printed = out.getvalue()
    return namespace


def tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def main() -> None:
    os.environ["MPLBACKEND"] = "Agg"
    for name in sys.argv[1:]:
        page = Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            run(page)
            for picture in sorted(Path(folder).glob("*.png")):
                shutil.copy(picture, ROOT / "docs" / "pictures" / picture.name)
                sys.stdout.write(f"docs/pictures/{picture.name}\n")


if __name__ == "__main__":
    main()
