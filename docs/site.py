"""What the site has beyond its pages: mkdocs calls the functions of this file by name (mkdocs.yml, `hooks`).

- Pages that mkdocs.yml does not name come at the end of the section Guides, so a new page needs no entry.
- README.md, CHANGELOG.md and CONTRIBUTING.md are pages too, and so is every example, with its source.
- A line `<!-- benchmark -->` stands for the figures in README.md; `<!-- reference: room ... -->` for the public names
  whose home is in these rooms of the house.
- Formulas become MathML when the site is built: they need neither scripts nor a network to be shown.
"""

from __future__ import annotations

import ast
import html
import importlib
import re
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
AT_ROOT = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
SHARED = ("canvas", "problems")  # parts of examples, not examples
SECTION_OF_OTHERS = "Guides"

_shown: set[str] = set()  # rooms that are on some page of the reference

_COMMENT = re.compile(r"<!-- (?:not run|prepare)\b.*?-->\n?", re.DOTALL)
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: Any) -> Any:
    """Name the pages that nobody has named."""
    pages = {path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir).rglob("*.md")}
    named = {page for section in config.nav for own in section.values() for page in own}
    others = next(own for section in config.nav for name, own in section.items() if name == SECTION_OF_OTHERS)
    others += sorted(pages - named)
    config.nav.append({"Examples": [f"examples/{path.stem}.md" for path in examples()]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that stand elsewhere in the repository."""
    for name, page in AT_ROOT.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    for path in examples():
        files.append(File.generated(config, f"examples/{path.stem}.md", content=example_page(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    up = "../" * page.file.src_uri.count("/")
    for name, target in AT_ROOT.items():
        markdown = re.sub(rf"\]\((?:\.\./)*{re.escape(name)}([)#])", rf"]({up}{target}\1", markdown)
    markdown = re.sub(r"\]\((?:\.\./)?examples/(\w+)\.py\)", rf"]({up}examples/\1.md)", markdown)
    if page.file.src_uri == "benchmarks.md":
        markdown = markdown.replace("<!-- benchmark -->", figures())
    markdown = re.sub(r"<!-- reference: ([\w ]+) -->", lambda found: reference(found[1].split()), markdown)
    return _COMMENT.sub("", markdown)


def on_page_content(html_text: str, **_: Any) -> str:
    def formula(found: re.Match[str]) -> str:
        text = re.sub(r"\\tag\{(.*?)\}", r"\\qquad \\text{(\1)}", html.unescape(found[3]).strip())
        return convert(text, display="block" if found[1] == "div" else "inline")

    return _FORMULA.sub(formula, html_text)


def on_post_build(**_: Any) -> None:
    """No public name without a place in the reference."""
    missing = sorted(name for name, home in homes("stagewise").items() if home.split(".")[1] not in _shown)
    if missing:
        raise PluginError(f"no page of docs/reference has a line for the rooms of {', '.join(missing)}")


# --------------------------------------------------------------------------------------------------------- content


def examples() -> list[Path]:
    return [path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem not in SHARED]


def example_page(path: Path) -> str:
    """What an example says of itself, its picture if there is one, and its source."""
    source = path.read_text(encoding="utf-8")
    about = ast.get_docstring(ast.parse(source)) or ""
    picture = f"![{path.stem}](../pictures/{path.stem}.png)\n\n" if picture_of(path.stem).is_file() else ""
    return f"# {path.name}\n\n{about}\n\n{picture}```python\n{source}```\n"


def picture_of(name: str) -> Path:
    return ROOT / "docs" / "pictures" / f"{name}.png"


def figures() -> str:
    """The part of README.md that a run of the benchmarks has written."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.split("<!-- benchmark -->")[1].split("<!-- /benchmark -->")[0].strip()


def reference(rooms: list[str]) -> str:
    """Directives for mkdocstrings: the public names that live in some rooms, then the records they return."""
    _shown.update(rooms)
    found = [f"::: stagewise.{name}" for name, home in homes("stagewise").items() if home.split(".")[1] in rooms]
    for room in set(rooms) & {"inspection", "plots"}:
        own = homes(f"stagewise.{room}")
        found += [f"::: {home}.{name}" for name, home in own.items()]
        for home in sorted(set(own.values())):
            names = [name for name in importlib.import_module(home).__all__ if name not in own and name[0].isupper()]
            found += [f"::: {home}.{name}" for name in names if room == "inspection"]
    return "\n\n".join(found)


def homes(package: str) -> dict[str, str]:
    """Public name -> the module that defines it."""
    module = importlib.import_module(package)
    prefix = "" if package == "stagewise" else f"{package}."
    known = {name: prefix + home for name, home in module._HOMES.items()}
    errors = {name: "stagewise.errors" for name in module.__all__ if name not in known and name[0].isupper()}
    return dict(sorted({**known, **errors}.items()))


class ListedOptions(griffe.Extension):
    """Our docstrings name options as `name : meaning`, a line each; on a page they become a list."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        if func.docstring is not None:
            func.docstring.value = listed(func.docstring.value, {parameter.name for parameter in func.parameters})


def listed(text: str, parameters: set[str]) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        found = re.match(r"([\w, ]+?) ?: (.*)", line)
        if found and {name.strip() for name in found[1].split(",")} <= parameters:
            if lines and lines[-1] and not lines[-1].startswith("- ") and not lines[-1].startswith("    "):
                lines.append("")
            lines.append(f"- `{found[1]}`: {found[2]}")
        else:
            lines.append(line)
    return "\n".join(lines)
