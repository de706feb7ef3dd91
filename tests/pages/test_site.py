"""docs/site.py: what the site has beyond its pages (`make docs` builds the whole). Runs where mkdocs is installed."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

from pages.blocks import ROOT

for needed in ("mkdocs", "griffe", "latex2mathml"):
    pytest.importorskip(needed)


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "docs" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page(name):
    return SimpleNamespace(file=SimpleNamespace(src_uri=name))


def test_a_new_page_needs_no_entry(site, tmp_path):
    (tmp_path / "old.md").write_text("# Old")
    (tmp_path / "new.md").write_text("# New")
    config = SimpleNamespace(docs_dir=str(tmp_path), nav=[{"Guides": ["old.md"]}, {"Reference": []}])
    guides = site.on_config(config).nav[0]["Guides"]
    assert guides == ["old.md", "new.md"]
    assert config.nav[-1]["Examples"][0].startswith("examples/")


def test_links_out_of_the_folder_stay_inside_the_site(site):
    text = "[a](../CHANGELOG.md) [b](../README.md#speed) [c](../examples/spam.py) [d](../CONTRIBUTING.md)"
    assert site.on_page_markdown(text, page("x.md")) == (
        "[a](changelog.md) [b](index.md#speed) [c](examples/spam.md) [d](contributing.md)"
    )
    assert site.on_page_markdown("[a](../../CHANGELOG.md)", page("reference/x.md")) == "[a](../changelog.md)"


def test_formulas_become_mathml(site):
    made = site.on_page_content('<p><span class="arithmatex">\\(a &lt; b\\)</span></p>')
    assert made.startswith("<p><math ")
    assert "arithmatex" not in made
    assert 'display="block"' in site.on_page_content('<div class="arithmatex">\\[\nx^2\n\\]</div>')


def test_figures_come_from_the_readme(site):
    assert "fastest peer" in site.on_page_markdown("<!-- benchmark -->", page("benchmarks.md"))
    assert site.on_page_markdown("<!-- benchmark -->", page("index.md")) == "<!-- benchmark -->"


def test_the_reference_has_every_public_name(site):
    import stagewise as sw

    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md")]
    text = "\n".join(site.on_page_markdown(own, page("reference/x.md")) for own in pages)
    shown = {line.rsplit(".", 1)[1] for line in text.splitlines() if line.startswith(":::")}
    rooms = {"inspection", "plots", "report", "__version__"}
    assert set(sw.__all__) - rooms <= shown
    assert set(sw.inspection.__all__) | set(sw.plots.__all__) | set(sw.report.__all__) <= shown
    assert {"Importance", "Dependence", "Anova"} <= shown
    site.on_post_build()


def test_options_become_a_list(site):
    text = "Fit.\n\nX : a table\ny, w : numbers\n    of rows\nnote: this is no option"
    assert site.listed(text, {"X", "y", "w"}) == (
        "Fit.\n\n- `X`: a table\n- `y, w`: numbers\n    of rows\nnote: this is no option"
    )


def test_examples_show_their_source(site):
    made = site.example_page(ROOT / "examples" / "shrinkage.py")
    assert made.startswith("# shrinkage.py")
    assert "../pictures/shrinkage.png" in made
    assert "RATES = " in made
