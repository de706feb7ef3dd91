"""The page: what is on it, that it is sound HTML, and that nothing of the user's becomes part of it unescaped."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import stagewise as sw
from stagewise.errors import InputError

NAMES = ("numbers", "two", "three")
VOID = {"meta", "link", "input", "br", "rect", "path", "use", "image", "img"}


class Outline(HTMLParser):
    """Tags opened and closed in order, ids, links, addresses."""

    def __init__(self, page):
        super().__init__()
        self.open, self.ids, self.links, self.addresses, self.wrong = [], [], [], [], []
        self.pictures, self.alternatives = 0, 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        own = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [own["id"]] if "id" in own else []
        self.links += [own["href"][1:]] if own.get("href", "").startswith("#") and tag == "a" else []
        self.addresses += [own[key] for key in ("src", "href", "xlink:href", "action") if own.get(key)]
        self.pictures += tag == "figure"
        self.alternatives += own.get("role") == "img" and len(own.get("aria-label", "")) > 10

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.mark.parametrize("name", NAMES)
def test_sound(pages, name):
    page = pages[name]
    outline = Outline(page)
    assert outline.wrong == []
    assert outline.open == []
    assert [own for own, count in Counter(outline.ids).items() if count > 1] == []
    assert set(outline.links) <= set(outline.ids)
    assert all(own.startswith(("#", "data:")) for own in outline.addresses)  # nothing is fetched
    assert outline.pictures >= 9
    assert outline.alternatives >= outline.pictures
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in page
    assert len(page.encode()) < 3 * 2**20


@pytest.mark.parametrize("name", NAMES)
def test_every_part_is_there(pages, summaries, name):
    for key in (
        "about",
        "scores",
        "importance",
        "dependence",
        "shap",
        "errors",
        "trees",
        "data",
        "settings",
        "learning",
    ):
        assert f'<section id="{key}"' in pages[name]
        assert f'href="#{key}"' in pages[name]
    assert summaries[name]["left_out"] == []


def test_what_it_says(pages, summaries):
    numbers, two, three = (pages[name] for name in NAMES)
    assert "A model of progress" in numbers
    assert "half of a table" in numbers
    assert "were kept" in numbers
    assert "Residuals" in numbers
    assert "Costs" in two
    assert "least expected cost" in two
    assert "ROC" in three
    assert "Confusion" in three
    confusion = np.array(summaries["three"]["verdict"]["confusion"])
    assert confusion.sum() == 89
    costs = summaries["two"]["verdict"]["costs"]
    assert costs["decided"] <= costs["likely"] + 0.05


def test_nothing_of_the_users_is_markup(pages, summaries):
    assert "<script>alert" not in pages["two"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in pages["two"]
    assert "&lt;a &amp; b&gt;" in pages["numbers"]
    X = load_diabetes(as_frame=True).data.iloc[:, :2]
    X.columns = ["</script><b>$title", "a & <i>"]
    y = np.where(X.iloc[:, 0] > 0, "<u>yes", "no</style>")
    model = sw.GradientBoostingClassifier(n_estimators=2).fit(X, y)
    page = sw.report.render(sw.report.summarise(model, X, y, target="<x>"))
    outline = Outline(page)
    assert (outline.wrong, outline.open) == ([], [])
    for tag in ("<b>", "<i>", "<u>", "<x>"):
        assert tag not in page


def test_the_dictionary_is_plain(summaries):
    """Numbers, texts, lists and dictionaries alone: what JSON holds."""

    def plain(own):
        if isinstance(own, dict):
            return all(isinstance(key, str) and plain(value) for key, value in own.items())
        if isinstance(own, list | tuple):
            return all(map(plain, own))
        return own is None or type(own) in (bool, int, float, str)

    for own in summaries.values():
        assert plain(own)
        json.dumps(own)


def test_trees_are_the_models(summaries):
    X, y = load_diabetes(return_X_y=True)
    model = sw.GradientBoostingRegressor(n_estimators=3, max_leaf_nodes=4).fit(X, y)
    from stagewise.inspection.subject import Subject
    from stagewise.report.branches import trees_of

    found = trees_of(Subject.of(model))
    assert found["stages"] == 3
    row = X[17]
    total = float(model.model_.initial[0])
    for (nodes,) in found["trees"]:
        node = nodes[0]
        while len(node) > 2:
            name, threshold = re.match(r"x(\d+) ≤ (.+)", node[0]).groups()
            node = nodes[node[4] + (row[int(name)] > float(threshold))]
        total += node[0]
    assert total == pytest.approx(model.predict(row[None])[0], rel=1e-4)


def test_without_y_there_are_no_scores():
    X, y = load_diabetes(return_X_y=True)
    model = sw.GradientBoostingRegressor(n_estimators=2).fit(X, y)
    page = sw.report.render(sw.report.summarise(model, X))
    assert '<section id="scores"' not in page
    assert '<section id="errors"' not in page
    assert '<section id="dependence"' in page


def test_what_a_model_does_not_have_is_left_out(tmp_path):
    """Lines instead of trees, and a model that was imported and remembers no data."""
    X, y = load_diabetes(return_X_y=True)
    lines = sw.ComponentwiseRegressor(n_estimators=10).fit(X, y)
    page = sw.report.render(sw.report.summarise(lines, X, y))
    assert "Not in this report" in page
    assert "R², variance explained" in page
    constant = sw.GradientBoostingRegressor(n_estimators=2).fit(X[:10], y[:10])  # too few rows for a split
    sw.report.write(tmp_path / "r.html", constant, X[:10], y[:10])
    assert Outline((tmp_path / "r.html").read_text(encoding="utf-8")).wrong == []


def test_a_bare_model_is_refused():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(InputError, match="needs a fitted estimator"):
        sw.report.summarise(sw.GradientBoostingRegressor(n_estimators=2).fit(X, y).model_, X, y)
