"""HTML of results: well-formed, escaped, and honest about what is not finite."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import set_config
from sklearn.datasets import load_diabetes, load_iris
from sklearn.pipeline import make_pipeline

import stagewise as sw
from stagewise.markup import curves, panel, table

VOID = {"br", "input", "img", "hr", "meta", "link"}


class Balance(HTMLParser):
    """Fails when a tag is not closed in its turn; collects the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def checked(markup):
    """The parsed text of a piece of HTML that needs nothing from elsewhere."""
    found = Balance()
    found.feed(markup)
    assert found.open == []
    assert not re.search(r"(?:src|href)=.?https?:(?!//scikit-learn)", markup)
    return found


def test_text_is_escaped():
    found = checked(panel("<b>", table(["a & b", "n"], [["<script>x</script>", "1"]], 3)))
    assert "script" not in found.tags
    assert "<script>x</script>" in found.text
    assert "… 2 more" in found.text


def test_bars_are_shares_of_the_largest():
    markup = table(["", "size"], [["a", "4"], ["b", "1"], ["c", "-1"]])
    assert re.findall(r"width:([\d.]+)%", markup) == ["100.0", "25.0", "0.0"]
    for header, rows in ((["", ""], [["a", "4"]]), (["", "x"], [["a", "word"]]), (["", "x"], [["a", "0"]])):
        assert "%" not in table(header, rows)
    assert "%" not in table(["", "x"], [["a", "inf"]])
    assert "%" not in table(["", "x"], [])


def test_lines_go_from_edge_to_edge():
    x = np.arange(1.0, 11.0)
    markup = curves({"up": (x, x), "down": (x, -x)}, "two lines", 5.0)
    found = checked(markup)
    assert found.tags.count("polyline") == 2
    assert {"up", "down", "10", "-10", "1"} <= set(found.text)
    assert 'aria-label="two lines"' in markup


@pytest.mark.parametrize(
    "values", [[np.nan, np.nan], [1.0, np.nan], [3.0, 3.0], [np.inf, 1.0], [1e308, -1e308], [1e300, 1e300]]
)
def test_lines_of_odd_values(values):
    markup = curves({"": (np.array([1.0, 2.0]), np.array(values))}, "odd")
    checked(markup)
    assert "nan" not in markup
    assert "inf" not in markup


@pytest.fixture(scope="module")
def fitted():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X = X.rename(columns={"bmi": "<bmi>"})
    return sw.GradientBoostingRegressor(n_estimators=20, max_leaf_nodes=4, early_stopping=True).fit(X, y), X


def test_estimators_show_what_was_fitted(fitted):
    model, _ = fitted
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == repr(model)
    found = checked(bundle["text/html"])
    assert "Model" in found.text
    assert "<bmi>" in found.text
    assert "svg" in found.tags
    assert model._repr_html_() == bundle["text/html"] or "svg" in checked(model._repr_html_()).tags  # ids differ
    fresh = checked(sw.GradientBoostingRegressor()._repr_mimebundle_()["text/html"])
    assert "Model" not in fresh.text
    checked(make_pipeline(model)._repr_mimebundle_()["text/html"])


def test_plain_text_where_scikit_learn_is_told_so(fitted):
    model, _ = fitted
    set_config(display="text")
    try:
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")
    finally:
        set_config(display="diagram")


def test_results_show_what_they_print(fitted):
    model, X = fitted
    results = [
        sw.inspection.feature_importance(model),
        sw.inspection.partial_dependence(model, "<bmi>"),
        sw.inspection.partial_dependence(model, "<bmi>", [3.0, 1.0, np.nan]),
        sw.inspection.partial_dependence(model, ["<bmi>", "bp"]),
        sw.inspection.individual_curves(model, "bp", X),
        sw.inspection.completeness(model, "bp", X),
        sw.inspection.h_statistic(model, X),
        sw.inspection.functional_anova(model),
        sw.inspection.shap_values(model, X),
        sw.inspection.shap_interactions(model, X),
    ]
    for result in results:
        text = "".join(checked(result._repr_html_()).text)
        assert repr(result).splitlines()[0] in text
    assert "polyline" in results[1]._repr_html_()
    assert "polyline" not in results[3]._repr_html_()


def test_models_and_histories(fitted):
    model, _ = fitted
    found = checked(model.history_._repr_html_())
    assert repr(model.history_) in found.text
    assert {"training", "validation"} <= set(found.text)
    n = model.n_estimators_
    said = f"Model(loss: SquaredError(), columns: 10, stages: {n}, leaves: {4 * n} of {n} trees)"
    assert repr(model.model_) == said
    X, y = load_iris(return_X_y=True)
    iris = sw.GradientBoostingClassifier(n_estimators=2).fit(X, y)
    assert "outputs: 3" in repr(iris.model_)
    assert "x2" in checked(iris.model_._repr_html_()).text
    line = sw.ComponentwiseRegressor(n_estimators=3).fit(X[:, :3], X[:, 3])
    assert "leaves" not in repr(line.model_)
    checked(line.model_._repr_html_())
    constant = sw.GradientBoostingRegressor(n_estimators=2).fit(X, np.ones(len(X)))
    checked(constant.model_._repr_html_())
