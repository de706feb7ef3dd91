"""`stagewise train`: guesses, options, what it writes, and that a run can be repeated exactly."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import stagewise as sw
from stagewise.cli import Run
from stagewise.errors import TrainingInterrupted

OTHERS = {"price": ["bought", "kind", "w"], "bought": ["price", "kind", "w"], "kind": ["price", "bought", "w"]}
QUICK = ["--n-estimators", "6", "--min-samples-leaf", "5"]


def train(run, *args, target="price", code=0):
    ignored = [part for name in OTHERS[target] for part in ("--ignore", name) if name not in args]
    result = run("train", "data.csv", "--target", target, *ignored, *QUICK, *args)
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize(
    "target, task, loss, kind",
    [
        ("price", "regression", "squared_error", sw.GradientBoostingRegressor),
        ("bought", "classification", "log_loss", sw.GradientBoostingClassifier),
        ("kind", "classification", "log_loss", sw.GradientBoostingClassifier),
    ],
)
def test_task_is_guessed_and_shown(run, data, tmp_path, target, task, loss, kind):
    result = train(run, "--out", "m.stagewise", target=target)
    assert f"{task.capitalize()} of {target}" in result.stdout
    assert f"loss {loss}" in result.stdout
    assert "240 rows to train, 60 held out; 3 columns" in result.stdout
    assert "95 % interval" in result.stdout
    assert f"Model saved to {tmp_path / 'm.stagewise'}" in result.stdout
    assert isinstance(sw.load("m.stagewise"), kind)


def test_json_is_all_there_is(run, data):
    result = train(run, "--json", "--out", "m.stagewise", "--write-config", "run.toml")
    told = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert told["task"] == "regression"
    assert told["rows"] == {"training": 240, "held_out": 60}
    score = told["scores"]["r2"]
    assert score["low"] < score["value"] < score["high"]
    assert told["model"].endswith("m.stagewise")
    assert told["config"].endswith("run.toml")


def test_quiet_is_silent(run, data):
    result = train(run, "--quiet", "--out", "m.stagewise")
    assert result.output == ""


def test_without_out_nothing_is_saved_and_it_says_so(run, data, tmp_path):
    assert "Nothing was saved" in train(run).stdout
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def test_model_to_stdout(run, data):
    result = train(run, "--out", "-")
    assert result.stdout_bytes[1:5] == b"STGW"
    assert "Regression" in result.stderr


def test_a_run_is_repeated_exactly(run, data, tmp_path):
    train(
        run, "--out", "1.stagewise", "--write-config", "run.toml", "--weight", "w", "--seed", "3", "--subsample", "0.7"
    )
    first = (tmp_path / "1.stagewise").read_bytes()
    again = run(
        "train", "--config", "run.toml", "--out", "2.stagewise", "--write-config", "again.toml", "--threads", "1"
    )
    assert again.exit_code == 0, again.output
    assert (tmp_path / "2.stagewise").read_bytes() == first
    assert (tmp_path / "again.toml").read_text() == (tmp_path / "run.toml").read_text()
    from stagewise.io.format import dumps

    assert dumps(Run.read("run.toml").train().model) == first
    other = run("train", "--config", "run.toml", "--out", "3.stagewise", "--seed", "4")  # options go before the file
    assert other.exit_code == 0
    assert (tmp_path / "3.stagewise").read_bytes() != first


def test_the_report_holds_what_repeats_the_run(run, data, tmp_path):
    train(run, "--out", "m.stagewise", "--report", "r.html", target="bought")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    blocks = [unescape(own) for own in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", page, flags=re.DOTALL)]
    (tmp_path / "run.toml").write_text(blocks[0])
    space: dict = {}
    exec(blocks[2], space)  # the Python lines of the page
    sw.save(space["model"], "again.stagewise")
    assert (tmp_path / "again.stagewise").read_bytes() == (tmp_path / "m.stagewise").read_bytes()


def test_the_same_as_in_python(run, data, tmp_path):
    """The command adds nothing: the same rows and parameters give the same model."""
    from stagewise.cli.guess import guess_task
    from stagewise.cli.run import _held_out

    train(run, "--out", "m.stagewise")
    table = pa.csv.read_csv("data.csv")
    X, y = table.select(["a", "b", "c"]), table["price"].to_numpy()
    rows = np.setdiff1d(np.arange(len(y)), _held_out(y, 0.2, 0, guess_task(y, "price")))
    model = sw.GradientBoostingRegressor(
        n_estimators=6, min_samples_leaf=5, early_stopping=True, n_iter_no_change=20, random_state=0
    ).fit(X.take(rows), y[rows])
    sw.save(model, "python.stagewise")
    assert (tmp_path / "python.stagewise").read_bytes() == (tmp_path / "m.stagewise").read_bytes()


def test_nothing_is_overwritten_without_force(run, data, refused, tmp_path):
    for option in ("--out", "--report", "--write-config"):
        (tmp_path / "mine").write_text("precious")
        refused(
            "train", "data.csv", "--target", "price", option, "mine", words=["mine exists already", option, "--force"]
        )
    refused("train", "data.csv", "--target", "price", "--out", "data.csv", "--force", words=["also what is read"])
    refused("train", "data.csv", "--target", "price", "--out", "x", "--report", "x", words=["both name x"])
    train(run, "--out", "mine", "--force")
    assert (tmp_path / "mine").read_bytes() != b"precious"


def test_settings(run, data):
    train(run, "--out", "m", "--set", "l2-regularization=2.5", "--set", "max_leaf_nodes=none", "--max-depth", "2")
    model = sw.load("m")
    assert (model.l2_regularization, model.max_leaf_nodes, model.max_depth) == (2.5, None, 2)
    assert model.n_jobs is None
    assert model.verbose == 0


def test_costs_and_class_weights(run, data):
    cost, weights = "misclassification_cost=[[0, 5], [1, 0]]", "class_weight={no = 1, yes = 3}"
    train(run, "--out", "m", "--set", cost, "--set", weights, "--write-config", "run.toml", target="bought")
    model = sw.load("m")
    assert model.class_weight == {"no": 1, "yes": 3}
    assert np.asarray(model.misclassification_cost).tolist() == [[0, 5], [1, 0]]
    assert run("train", "--config", "run.toml", "--out", "again").exit_code == 0
    with open("m", "rb") as one, open("again", "rb") as other:  # noqa: PTH123
        assert one.read() == other.read()


def test_where_keeps_rows(run, data):
    text = train(run, "--where", "bought = yes", "--where", "a > -1").stdout
    table = pa.csv.read_csv("data.csv").to_pandas()
    kept = int(((table.bought == "yes") & (table.a > -1)).sum())
    assert f"{kept} of 300 rows meet bought = yes and a > -1" in text or f"{kept} of" in text


def test_rows_without_a_target_are_left_out(run, data, tmp_path):
    table = pa.csv.read_csv("data.csv")
    gaps = pa.array([None if k % 10 == 0 else 1.0 * k for k in range(300)])
    pa.csv.write_csv(table.set_column(3, "price", gaps), "data.csv")
    assert "30 rows without a price were left out" in train(run).stdout


def test_few_rows_are_all_trained_on(run, tmp_path):
    (tmp_path / "few.csv").write_text("a,y\n" + "".join(f"{k},{k * 2}.5\n" for k in range(30)))
    result = run("train", "few.csv", "--target", "y", "--out", "m", "--min-samples-leaf", "3")
    assert result.exit_code == 0, result.output
    assert "Only 30 rows: none are held out" in result.stdout
    assert "training rows" in result.stdout
    assert len(sw.load("m").history_.validation) == 0


def test_counts_are_poisson(run, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    n = rng.poisson(0.15 * np.exp(x))
    (tmp_path / "n.csv").write_text("x,n\n" + "".join(f"{a},{b}\n" for a, b in zip(x, n, strict=True)))
    result = run("train", "n.csv", "--target", "n", *QUICK)
    assert "loss poisson" in result.stdout
    assert "D², Poisson deviance explained" in result.stdout


def test_brackets_in_names_are_brackets(run, tmp_path):
    rows = "".join(f"{k % 13},{k % 7},{k % 13 + k % 7 * 0.5}\n" for k in range(200))
    (tmp_path / "d.csv").write_text("[bold],expected,[/red]\n" + rows)
    result = run("train", "d.csv", "--target", "[/red]", *QUICK, "--out", "m")
    assert result.exit_code == 0, result.output
    assert "[bold]" in result.stdout
    assert "Regression of [/red]" in result.stdout
    assert "[bold]" in run("info", "m").stdout
    assert "[bold]" in run("explain", "m", "d.csv", "--out", "s.csv").stdout
    assert pa.csv.read_csv("s.csv").column_names == ["[bold]", "expected", "expected_"]


@pytest.mark.parametrize("y", ["7.5", "1\n2", "true"])
def test_awkward_targets(run, tmp_path, y):
    """A constant; two rows; truth values."""
    if y == "true":
        rows = "".join(f"{k},{'true' if k > 40 else 'false'}\n" for k in range(100))
    else:
        rows = "".join(f"{k},{own}\n" for k, own in enumerate(y.split("\n") * (70 if y == "7.5" else 1)))
    (tmp_path / "d.csv").write_text("a,y\n" + rows)
    task = ["--task", "regression"] if y == "1\n2" else []
    result = run("train", "d.csv", "--target", "y", *task, "--out", "m", "--report", "r.html")
    assert result.exit_code == 0, result.output
    assert run("predict", "m", "d.csv", "--out", "p.csv").exit_code == 0
    assert run("info", "m").exit_code == 0


def test_ctrl_c_keeps_the_stages_that_are_done(run, data, monkeypatch):
    import warnings

    fit = sw.GradientBoostingRegressor.fit

    def interrupted(self, *args, **options):
        warnings.warn("stopped", TrainingInterrupted, stacklevel=2)
        return fit(self, *args, **options)

    monkeypatch.setattr(sw.GradientBoostingRegressor, "fit", interrupted)
    result = train(run, "--out", "m.stagewise", code=130)
    assert "Stopped by Ctrl-C" in result.stdout
    assert sw.load("m.stagewise").n_estimators_ > 0


@pytest.mark.skipif(
    "categorical_features" not in sw.GradientBoostingRegressor().get_params(), reason="categories are not built yet"
)
def test_texts_are_categories(run, data):
    result = run("train", "data.csv", "--target", "price", *QUICK, "--out", "m")
    assert result.exit_code == 0, result.output
    assert run("predict", "m", "data.csv", "--out", "p.csv").exit_code == 0
    assert run("report", "m", "data.csv", "--out", "r.html").exit_code == 0
    named = run("train", "data.csv", "--target", "price", *QUICK, "--categorical", "kind", "--out", "n")
    assert named.exit_code == 0, named.output  # texts that are not named are categories all the same
    assert sw.load("n").categorical_features == ["kind", "bought"]


def test_class_weights_of_truth_values(run):
    rows = "".join(f"{k % 7},{'true' if k % 3 else 'false'}\n" for k in range(80))
    Path("d.csv").write_text("a,b\n" + rows, encoding="utf-8")
    weights = "class_weight={true = 2, false = 1}"
    result = run("train", "d.csv", "--target", "b", *QUICK, "--set", weights, "--out", "m")
    assert result.exit_code == 0, result.output
    assert sw.load("m").class_weight == {True: 2, False: 1}
