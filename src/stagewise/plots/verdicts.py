"""How a fitted model does on given data: residuals, calibration, ROC and precision-recall curves, gains."""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.data.target import encode_labels, read_target, read_weights
from stagewise.errors import ParameterError
from stagewise.inspection.subject import Subject
from stagewise.params import check_count
from stagewise.plots.style import BLUE, COLOURS, DASHES, GREY, ORANGE, new_axes, output_number

__all__ = ["calibration", "gain", "precision_recall", "residuals", "roc"]

_MOST_POINTS = 4000


def _estimator(model: Any, classifier: bool | None) -> Any:
    """The estimator of a subject, of the kind that is needed."""
    estimator = Subject.of(model).estimator
    if estimator is None:
        raise ParameterError("this picture needs an estimator, which knows what y means; a model_ does not.")
    if classifier is not None and hasattr(estimator, "classes_") != classifier:
        wanted = "classifier" if classifier else "regressor"
        raise ParameterError(f"this picture needs a {wanted}, not {type(estimator).__name__}.")
    return estimator


def _weights(sample_weight: Any, n: int) -> np.ndarray:
    weight = read_weights(sample_weight, n)
    return np.ones(n) if weight is None else weight


def _classes(estimator: Any, X: Any, y: Any, output: Any) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(name, whether a row is of the class, its probability): the second of two classes, each of several, or one."""
    probability = estimator.predict_proba(X)
    codes = encode_labels(y, estimator.classes_, len(probability))
    names = [str(name) for name in estimator.classes_]
    if output is not None:
        chosen = [output_number(names, output)]
    else:
        chosen = [1] if len(names) == 2 else list(range(len(names)))
    return [(names[k], codes == k, probability[:, k]) for k in chosen]


def residuals(model: Any, X: Any, y: Any, *, ax: Any = None) -> Any:
    """Residuals y - prediction against predictions, with their median and middle 80 % along the way."""
    estimator = _estimator(model, False)
    predicted = estimator.predict(X)
    rest = read_target(y, len(predicted)) - predicted
    ax = new_axes(ax, 5.6, 3.8)
    n = len(rest)
    rows = np.arange(n) if n <= _MOST_POINTS else np.random.default_rng(0).choice(n, _MOST_POINTS, replace=False)
    ax.scatter(predicted[rows], rest[rows], s=6, color=BLUE, alpha=0.3, linewidths=0, rasterized=True)
    ax.axhline(0.0, color="#333333", linewidth=0.8)
    parts = [
        part for part in np.array_split(np.argsort(predicted, kind="stable"), max(1, min(20, n // 40))) if len(part)
    ]
    middle = [float(np.median(predicted[part])) for part in parts]
    for level, style, name in ((0.5, "-", "median"), (0.1, "--", "10 % and 90 %"), (0.9, "--", None)):
        values = [float(np.quantile(rest[part], level)) for part in parts]
        ax.plot(middle, values, color=ORANGE, linestyle=style, linewidth=1.8, label=name)
    ax.set_xlabel("prediction")
    ax.set_ylabel("residual")
    ax.legend(frameon=False, fontsize=8)
    return ax


def calibration(
    model: Any, X: Any, y: Any, *, sample_weight: Any = None, bins: int = 10, output: Any = None, ax: Any = None
) -> Any:
    """Observed against predicted, in bins of equal numbers of rows: points near the diagonal are well calibrated.

    A classifier: the share of a class against its probability; a regressor: means of y against means of predictions.
    """
    estimator = _estimator(model, None)
    if hasattr(estimator, "classes_"):
        series = [(name, hit.astype(float), p) for name, hit, p in _classes(estimator, X, y, output)]
    else:
        predicted = estimator.predict(X)
        series = [("", read_target(y, len(predicted)), predicted)]
    ax = new_axes(ax, 4.4, 4.2)
    ends: list[float] = []
    for k, (name, seen, predicted) in enumerate(series):
        weight = _weights(sample_weight, len(seen))
        points = _binned(predicted, seen, weight, check_count("bins", bins, 1))
        colour = COLOURS[k % len(COLOURS)]
        ax.errorbar(
            points[0], points[1], yerr=points[2], fmt="o", linestyle=DASHES[k % len(DASHES)], color=colour,
            markersize=4.5, linewidth=1.2, elinewidth=0.9, label=name,
        )  # fmt: skip
        ends += [points[:2].min(), points[:2].max()]
    low, high = (0.0, 1.0) if hasattr(estimator, "classes_") else (min(ends), max(ends))
    ax.plot([low, high], [low, high], color=GREY, linewidth=1.0, zorder=0)
    several = len(series) > 1
    ax.set_xlabel("predicted probability" if hasattr(estimator, "classes_") else "mean prediction")
    ax.set_ylabel("observed share" if hasattr(estimator, "classes_") else "mean of y")
    if several:
        ax.legend(frameon=False, fontsize=8, title="class")
    return ax


def _binned(predicted: np.ndarray, seen: np.ndarray, weight: np.ndarray, bins: int) -> np.ndarray:
    """(3, n): weighted means of prediction and observation in bins of equal size, and the error of the latter."""
    order = np.argsort(predicted, kind="stable")
    order = order[weight[order] > 0.0]
    columns = []
    for part in np.array_split(order, min(bins, len(order))):
        share = weight[part] / weight[part].sum()
        mean = float(seen[part] @ share)
        error = float(np.sqrt(((seen[part] - mean) ** 2 @ share) * (share**2).sum()))
        columns.append([float(predicted[part] @ share), mean, error])
    return np.array(columns).T


def roc(model: Any, X: Any, y: Any, *, sample_weight: Any = None, output: Any = None, ax: Any = None) -> Any:
    """The share of a class that is found against the share of the others that is taken for it; with areas."""
    from sklearn.metrics import roc_auc_score, roc_curve

    ax = new_axes(ax, 4.4, 4.2)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    for k, (name, hit, p) in enumerate(_both_kinds(_classes(_estimator(model, True), X, y, output))):
        weight = _weights(sample_weight, len(hit))
        false, true, _ = roc_curve(hit, p, sample_weight=weight)
        area = roc_auc_score(hit, p, sample_weight=weight)
        _class_line(ax, k, false, true, f"{name}: AUC {area:.3f}")
    return _square(ax, "false positive rate", "true positive rate", "lower right")


def precision_recall(
    model: Any, X: Any, y: Any, *, sample_weight: Any = None, output: Any = None, ax: Any = None
) -> Any:
    """Precision against recall; with average precision, and the share of the class as a dotted line."""
    from sklearn.metrics import average_precision_score, precision_recall_curve

    ax = new_axes(ax, 4.4, 4.2)
    for k, (name, hit, p) in enumerate(_both_kinds(_classes(_estimator(model, True), X, y, output))):
        weight = _weights(sample_weight, len(hit))
        precision, recall, _ = precision_recall_curve(hit, p, sample_weight=weight)
        average = average_precision_score(hit, p, sample_weight=weight)
        _class_line(ax, k, recall, precision, f"{name}: AP {average:.3f}")
        ax.axhline(weight[hit].sum() / weight.sum(), color=COLOURS[k % len(COLOURS)], linewidth=0.8, linestyle=":")
    return _square(ax, "recall", "precision", "lower left")


def gain(model: Any, X: Any, y: Any, *, sample_weight: Any = None, output: Any = None, ax: Any = None) -> Any:
    """The share of a class (of a regressor: of the sum of y) among the rows with the highest predictions.

    The straight line is a random order, the dashed one the best order there is.
    """
    estimator = _estimator(model, None)
    if hasattr(estimator, "classes_"):
        series = [(name, hit.astype(float), p) for name, hit, p in _both_kinds(_classes(estimator, X, y, output))]
    else:
        predicted = estimator.predict(X)
        amount = read_target(y, len(predicted))
        if (amount < 0.0).any() or not amount.any():
            raise ParameterError("gains are shares of the sum of y: y must have no negative values, and not only 0.")
        series = [("model", amount, predicted)]
    ax = new_axes(ax, 4.4, 4.2)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    for k, (name, amount, predicted) in enumerate(series):
        weight = _weights(sample_weight, len(amount))
        for order, dashed in (
            (np.argsort(-predicted, kind="stable"), False),
            (np.argsort(-amount, kind="stable"), True),
        ):
            rows = np.concatenate(([0.0], np.cumsum(weight[order]))) / weight.sum()
            found = np.concatenate(([0.0], np.cumsum((weight * amount)[order]))) / (weight @ amount)
            if dashed:
                ax.plot(rows, found, color=COLOURS[k % len(COLOURS)], linewidth=0.9, linestyle="--")
            else:
                _class_line(ax, k, rows, found, name)
    return _square(ax, "share of rows, highest predictions first", "share found", "lower right")


def _both_kinds(series: list[tuple[str, np.ndarray, np.ndarray]]) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """The classes that y has rows of, and rows of others; at least one."""
    usable = [own for own in series if own[1].any() and not own[1].all()]
    if not usable:
        raise ParameterError("y has rows of one class alone: there is nothing to tell apart.")
    return usable


def _class_line(ax: Any, k: int, x: np.ndarray, y: np.ndarray, name: str) -> None:
    style = DASHES[k % len(DASHES)]
    ax.plot(x, y, color=COLOURS[k % len(COLOURS)], linewidth=1.7, linestyle=style, label=name)


def _square(ax: Any, x: str, y: str, place: str) -> Any:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_xlim(-0.01, 1.01)
    ax.set_ylim(-0.01, 1.03)
    ax.legend(frameon=False, fontsize=8, loc=place)
    return ax
