"""The part of a report that shows the errors: residuals, or how well classes are told apart and what mistakes cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.errors import StagewiseError
from stagewise.inspection.subject import Subject
from stagewise.plots.verdicts import calibration, precision_recall, residuals, roc
from stagewise.report.pictures import picture
from stagewise.report.scores import Predicted

__all__ = ["verdict"]

_FEW_CLASSES = 8  # of more, curves only hide each other
_LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_SIZE, _SMALL = (5.0, 4.0), (3.5, 3.4)  # two and three in a line


def verdict(subject: Subject, X: Any, y: Any, sample_weight: Any, own: Predicted) -> dict[str, Any]:
    """Pictures and tables of the errors on given rows."""
    return _classes(subject, X, y, sample_weight, own) if own.classes else _numbers(subject, X, y, sample_weight, own)


def _numbers(subject: Subject, X: Any, y: Any, weight: Any, own: Predicted) -> dict[str, Any]:
    model, rest = subject.estimator, own.y - own.prediction
    spread = np.quantile(rest, [0.1, 0.5, 0.9])
    alt = f"Residuals against predictions: median {spread[1]:.3g}, middle 80 % from {spread[0]:.3g} to {spread[2]:.3g}."
    pictures = [picture("residuals", alt, lambda ax: residuals(model, X, y, ax=ax), *_SIZE, caption="Residuals")]
    bins = max(2, min(12, len(own.y) // 10))
    alt = f"Mean of the target against mean prediction, in {bins} bins of equal size."

    def draw(ax: Any) -> None:
        calibration(model, X, y, sample_weight=weight, bins=bins, ax=ax)

    pictures.append(picture("calibration", alt, draw, *_SIZE, caption="Calibration"))
    words = (
        "Left: what is left over, row by row, with its median and middle 80 % along the predictions. Right: means of "
        "the target in bins of like predictions; points on the line mean that predictions are right on average."
    )
    return {"kind": "numbers", "pictures": pictures, "words": words}


def _classes(subject: Subject, X: Any, y: Any, weight: Any, own: Predicted) -> dict[str, Any]:
    assert own.probability is not None
    model, names = subject.estimator, [str(name) for name in subject.estimator.classes_]
    pictures = []
    drawings = (
        ("roc", "ROC: true against false positive rate", roc, "ROC"),
        ("precision", "Precision against recall", precision_recall, "Precision and recall"),
        ("calibration", "Observed shares against predicted probabilities", calibration, "Calibration"),
    )
    for key, alt, draw, caption in drawings if len(names) <= _FEW_CLASSES else ():

        def one(ax: Any, draw: Any = draw) -> None:
            draw(model, X, y, sample_weight=weight, ax=ax)

        try:
            pictures.append(picture(key, f"{alt}.", one, *_SMALL, caption=caption))
        except StagewiseError:  # rows of one class alone have no such curve
            continue
    k = len(names)
    counts = np.zeros((k, k))
    np.add.at(counts, (own.y, own.prediction), own.weight)
    found, said, right = counts.sum(axis=1), counts.sum(axis=0), np.diag(counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        recall, precision = right / found, right / said
    return {
        "kind": "classes",
        "pictures": pictures,
        "words": "Curves near the upper left (ROC) and upper right corner (precision) tell classes apart well; points "
        "on the line (calibration) mean that of rows with probability p a share p is of the class.",
        "classes": names,
        "confusion": counts.tolist(),  # [true][predicted]
        "by_class": [
            (names[j], float(found[j]), _share(recall[j]), _share(precision[j])) for j in range(k)
        ],
        "thresholds": _thresholds(own) if k == 2 else None,
        "costs": _costs(model, own),
    }  # fmt: skip


def _share(value: float) -> str:
    return f"{value:.1%}" if np.isfinite(value) else "–"


def _thresholds(own: Predicted) -> list[tuple[str, str, str, str]]:
    """(threshold, share of rows taken, precision, recall) for the second class."""
    assert own.probability is not None
    p, hit, out = own.probability[:, 1], own.y == 1, []
    for level in _LEVELS:
        taken = own.weight * (p >= level)
        right = float(taken[hit].sum())
        total, known = float(taken.sum()), float(own.weight[hit].sum())
        precision = right / total if total > 0.0 else np.nan
        recall = right / known if known > 0.0 else np.nan
        out.append((f"{level:g}", _share(total / float(own.weight.sum())), _share(precision), _share(recall)))
    return out


def _costs(model: Any, own: Predicted) -> dict[str, Any] | None:
    """What decisions cost a row on average: by least expected cost, and by probability alone."""
    cost = model._cost() if hasattr(model, "_cost") else None
    if cost is None:
        return None
    assert own.probability is not None
    likely = own.probability.argmax(axis=1)
    mean = {
        name: float(np.average(cost[decided, own.y], weights=own.weight))
        for name, decided in (("decided", own.prediction), ("likely", likely))
    }
    return {"matrix": np.asarray(cost).T.tolist(), **mean}  # [true][predicted], as the table above it
