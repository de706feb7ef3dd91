"""What the figures must show, and whether they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.table import plain
from benchmarks.training import geometric_mean
from benchmarks.workloads import WORKLOADS

__all__ = ["GOALS", "Goal", "checked", "training_ratios"]

Parts = Mapping[str, Mapping[str, Any]]


class Goal(NamedTuple):
    """value: from the parts measured so far; it raises KeyError or ValueError when they do not say."""

    what: str
    limit: float
    at_least: bool
    value: Callable[[Parts], float]

    def met(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


def training_ratios(parts: Parts) -> dict[str, float]:
    """Fastest peer ÷ ours, of the workloads A to H that are there."""
    return {name: parts[name]["fit"]["ratio"] for name in WORKLOADS if "fit" in parts.get(name, {})}


def _whole(parts: Parts) -> dict[str, float]:
    """The same, only when all of them are there."""
    return {name: parts[name]["fit"]["ratio"] for name in WORKLOADS}


def _two_peers(parts: Parts, part: str) -> float:
    ratio = parts[part]["ratio"]
    return float(min(own for name, own in ratio.items() if name.startswith(("lightgbm", "xgboost"))))


def _worst_gap(parts: Parts) -> float:
    return float(max(part["loss_gap"]["gap"] for part in parts.values() if "loss_gap" in part))


def _worst_mean(parts: Parts) -> float:
    return float(max(own["gap"] for own in parts["draws"].values()))


def _brute_force(parts: Parts) -> float:
    return float(parts["inspection"]["dependence"]["ratio"]["scikit-learn-brute"])


def _predict(parts: Parts, prefix: str) -> float:
    return float(min(own for name, own in parts["predict"]["ratio"].items() if name.startswith(prefix)))


def _imported(parts: Parts, name: str) -> float:
    """The fastest way of predicting at home, by our time."""
    return float(min(own for key, own in parts["imported"][name]["ratio"].items() if key != "stagewise"))


GOALS = (
    Goal("training, fastest peer ÷ ours, geometric mean A-H", 2.5, True, lambda p: geometric_mean(_whole(p))),
    Goal("the same, the worst of A-H", 1.5, True, lambda p: min(_whole(p).values())),
    Goal("the same on A", 3.0, True, lambda p: p["A"]["fit"]["ratio"]),
    Goal("one thread against one thread, A", 2.5, True, lambda p: p["threads"]["one_thread"]["ratio"]),
    Goal("second thread's gain on A", 1.7, True, lambda p: p["threads"]["gain"]["stagewise"]),
    # 5 % of noise: both are the same work on cores that others use as well
    Goal("busy machine, our two threads ÷ our one", 1.05, False, lambda p: p["busy"]["ratio"]["stagewise"]),
    Goal("held-out loss above the best leafwise peer's, the worst of one draw each", 0.005, False, _worst_gap),
    # one draw says little, and the best of four peers on it has luck that we have not
    Goal(
        "held-out loss over several draws above a leafwise peer's in the same form, the worst mean",
        0.005,
        False,
        _worst_mean,
    ),
    Goal("binning, LightGBM or XGBoost ÷ ours", 2.0, True, lambda p: _two_peers(p, "binning")),
    Goal("predicting 100 k rows, LightGBM ÷ ours", 4.0, True, lambda p: _predict(p, "lightgbm")),
    Goal("predicting 100 k rows, XGBoost ÷ ours", 2.0, True, lambda p: _predict(p, "xgboost")),
    Goal("symmetric trees, CatBoost ÷ ours", 1.0, True, lambda p: p["predict"]["symmetric_ratio"]),
    Goal("imported models, LightGBM at home ÷ here", 1.0, True, lambda p: _imported(p, "lightgbm")),
    Goal("imported models, XGBoost at home ÷ here", 1.0, True, lambda p: _imported(p, "xgboost-lossguide")),
    Goal("one row, LightGBM or XGBoost ÷ ours", 3.0, True, lambda p: _two_peers(p, "onerow")),
    Goal("peak memory on A, least peer ÷ ours", 1.0, True, lambda p: p["A"]["memory_ratio"]["ratio"]),
    Goal("peak memory on G, least peer ÷ ours", 1.0, True, lambda p: p["G"]["memory_ratio"]["ratio"]),
    Goal("fit time at 8 M rows ÷ at 1 M", 8.5, False, lambda p: p["scaling"]["ratio"]["stagewise"]),
    Goal(
        "histogram phase, share of the plain loop over rows in order",
        0.8,
        True,
        lambda p: p["roofline"]["plain_reached"],
    ),
    # faster than the plain one, and than any loop over scattered rows, which are half of the work
    Goal("histogram phase, share of our own loop over rows in order", 0.8, True, lambda p: p["roofline"]["reached"]),
    Goal("new process, warm cache, LightGBM ÷ ours", 1.0, True, lambda p: p["startup"]["ratio"]["lightgbm"]),
    Goal("new process, empty cache, seconds", 12.0, False, lambda p: p["startup"]["empty_cache"]["seconds"]),
    Goal("own log-loss ÷ built-in log-loss", 1.2, False, lambda p: p["customloss"]["ratio"]["LogLossAgain"]),
    Goal("SHAP values, LightGBM or XGBoost ÷ ours", 3.0, True, lambda p: _two_peers(p["inspection"], "shap")),
    Goal("dependence, scikit-learn's brute force ÷ traversal", 100.0, True, _brute_force),
    Goal(
        "two-way dependence, 100 × 100 on 500 trees, seconds",
        0.5,
        False,
        lambda p: p["inspection"]["two_way"]["seconds"],
    ),
    Goal("AdaBoost of stumps, scikit-learn ÷ ours", 10.0, True, lambda p: p["adaboost"]["ratio"]),
    Goal("GOSS on A, all rows ÷ sample", 1.5, True, lambda p: p["sampling"]["A"]["ratio"]["goss"]),
    Goal("GOSS on A, held-out loss above that of all rows", 0.005, False, lambda p: p["sampling"]["A"]["gap"]["goss"]),
    Goal("held-out loss on real tables, the worst gap", 0.01, False, lambda p: max(p["quality"]["gap"].values())),
)


def _measured(parts: Parts) -> Iterator[tuple[Goal, float]]:
    for goal in GOALS:
        try:
            yield goal, goal.value(parts)
        except (KeyError, ValueError):
            continue


def checked(parts: Parts) -> str:
    """A table of the goals that were measured; empty when none was."""
    rows = [
        [
            goal.what,
            f"{'≥' if goal.at_least else '≤'} {goal.limit:g}",
            f"{value:.4g}",
            "yes" if goal.met(value) else "NO",
        ]
        for goal, value in _measured(parts)
    ]
    return plain(["goal", "wanted", "measured", "met"], rows) if rows else ""
