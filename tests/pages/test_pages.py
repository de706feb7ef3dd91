"""The documentation holds: its code runs, prints what it says, and names commands and pictures that exist."""

from __future__ import annotations

import ast
import re

import pytest

from pages.blocks import ROOT, commands, indented, pages, read, run

LANGUAGES = {"python", "text", "sh", "toml", "json", "math", "c", "csv", "html"}
MOST_NOT_RUN = 6


def of(page):
    return page.relative_to(ROOT).as_posix()


def text_of(page):
    return page.read_text(encoding="utf-8")


every_page = pytest.mark.parametrize("page", pages(), ids=of)
with_code = [page for page in pages() if any(block.language == "python" for block in read(text_of(page)))]


@pytest.mark.parametrize("page", with_code, ids=of)
def test_the_code_runs(page, tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    pyplot.switch_backend("Agg")
    try:
        run(page)
    finally:
        pyplot.close("all")


@every_page
def test_blocks_say_what_they_are(page):
    wrong = [block.line for block in read(text_of(page)) if block.language not in LANGUAGES]
    assert not wrong, f"{of(page)}: blocks in lines {wrong} must name one of {sorted(LANGUAGES)}."


@every_page
def test_no_python_hides_in_indented_blocks(page):
    """Those are for formulas, drawings and terminals: nothing runs them."""
    for block in indented(text_of(page)):
        try:
            lines = ast.parse(re.sub(r"^ +", "", block, flags=re.MULTILINE)).body
        except SyntaxError:
            continue
        calls = [node for node in ast.walk(ast.Module(lines, [])) if isinstance(node, ast.Call | ast.Import)]
        assert not calls, f"{of(page)}: make this a ```python block:\n{block}"


def test_few_are_not_run():
    blocks = [(page, block) for page in pages() for block in read(text_of(page))]
    skipped = [f"{of(page)}:{block.line} {block.reason}" for page, block in blocks if block.reason]
    assert len(skipped) <= MOST_NOT_RUN, "\n".join(skipped)


@every_page
def test_commands_exist(page):
    makefile = text_of(ROOT / "Makefile")
    benchmarks = {path.stem for path in (ROOT / "benchmarks" / "parts").glob("*.py")} | {"train", "goals"}
    for command in commands(text_of(page)):
        program, first, *others = command.split()
        if program == "make":
            assert re.search(rf"^{first}:", makefile, re.MULTILINE), f"{of(page)}: {command}"
        elif program == "python" and first.endswith(".py"):
            assert (ROOT / first).is_file(), f"{of(page)}: {command}"
        elif program == "python" and others[:1] == ["benchmarks"]:
            parts = [part for part in others[1:] if re.fullmatch(r"[a-z]+", part)]
            assert set(parts) <= benchmarks, f"{of(page)}: {command}"
        elif program == "stagewise" and not first.startswith("-"):
            assert first in subcommands(), f"{of(page)}: {command}"


def subcommands():
    import typer.main

    from stagewise.cli import app

    return set(typer.main.get_command(app).commands)


@every_page
def test_pictures_are_there(page):
    for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text_of(page)):
        assert (page.parent / target).is_file(), f"{of(page)}: {target}"


def test_every_picture_is_shown():
    targets = [target for page in pages() for target in re.findall(r"\]\(([^)]+\.png)\)", text_of(page))]
    shown = {target.rsplit("/", 1)[-1] for target in targets}
    there = {path.name for path in (ROOT / "docs" / "pictures").glob("*.png")}
    assert not there - shown


# ------------------------------------------------------------------------------------------------------- the reader

PAGE = """\
Text.

```python
x = 1
print(x + 1)
```

```text title="output"
2
```

<!-- prepare
y = 5
-->

<!-- not run: needs the
moon -->
```python
moon()
```

    make test     # runs

- item

    ```python
    assert x + y == 6
    ```
"""


def test_blocks_are_found():
    found = read(PAGE)
    assert [block.language for block in found] == ["python", "text", "python", "python", "python"]
    assert [block.output for block in found] == [False, True, False, False, False]
    assert [block.reason for block in found] == [None, None, None, "needs the moon", None]
    assert [block.line for block in found] == [4, 9, 13, 19, 27]
    assert found[-1].code == "assert x + y == 6\n"
    assert commands(PAGE) == ["make test"]


def test_blocks_are_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert run(page)["y"] == 5
    page.write_text(PAGE.replace("\n2\n", "\n3\n"), encoding="utf-8")
    with pytest.raises(AssertionError, match=r"page.md:9"):
        run(page)
