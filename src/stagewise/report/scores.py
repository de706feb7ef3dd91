"""How good the predictions are on given rows: scores, intervals by resampling the rows, and those of a constant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.data.target import encode_labels, read_target, read_weights
from stagewise.losses.regression import Gamma, Poisson, Quantile, Tweedie

__all__ = ["Predicted", "predicted_of", "score_table", "scores_of"]

_DRAWS = 10_000_000  # random numbers spent on the intervals
_FEWEST, _MOST = 100, 1000  # resamples
_MOST_PLACES = 20_000_000  # rows × classes up to which there is an area
_TINY = 1e-15

Means = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """Truth and predictions of n rows; classes: codes and probabilities, else numbers."""

    y: np.ndarray  # (n,) numbers, or class numbers
    weight: np.ndarray  # (n,), sum n
    prediction: np.ndarray  # (n,) numbers, or decided class numbers
    probability: np.ndarray | None  # (n, K)
    loss: Any

    @property
    def classes(self) -> bool:
        return self.probability is not None


def predicted_of(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Predicted:
    """Predictions of a fitted estimator beside the truth."""
    classes = getattr(model, "classes_", None)
    probability = None if classes is None else np.asarray(model.predict_proba(X))
    decided = np.asarray(model.predict(X))
    n = len(decided)
    weight = read_weights(sample_weight, n)
    weight = np.ones(n) if weight is None else weight / weight.mean()
    if classes is None:
        return Predicted(read_target(y, n), weight, decided, None, model.model_.loss)
    codes = encode_labels(y, classes, n)
    return Predicted(codes, weight, encode_labels(decided, classes, n), probability, model.model_.loss)


@dataclass(frozen=True, slots=True)
class _Score:
    """A score as a function of means over the rows. rows: (n, m), what is averaged; of: (..., m) -> (...)."""

    key: str
    name: str
    rows: np.ndarray
    of: Means
    better: str  # "higher" or "lower"
    percent: bool = False
    limits: tuple[float, float] = (-np.inf, np.inf)


def _first(means: np.ndarray) -> np.ndarray:
    return np.asarray(means[..., 0])


def _root(means: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.maximum(means[..., 0], 0.0)))


def _explained(means: np.ndarray) -> np.ndarray:
    """1 - mean squared error / variance; columns: error, y - m and its square, for some fixed m."""
    variance = means[..., 2] - means[..., 1] ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance > 0.0, 1.0 - means[..., 0] / variance, np.nan)


def _deviance_explained(means: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(means[..., 1] > 0.0, 1.0 - means[..., 0] / means[..., 1], np.nan)


def _number_scores(own: Predicted, prediction: np.ndarray) -> list[_Score]:
    y, error = own.y, own.y - prediction
    centre = float(np.average(y, weights=own.weight))
    scores = []
    if isinstance(own.loss, Poisson | Gamma | Tweedie) and (prediction > 0.0).all() and centre > 0.0:
        power = float(own.loss.power)
        pair = np.column_stack(
            [_unit_deviance(y, prediction, power), _unit_deviance(y, np.full(len(y), centre), power)]
        )
        name = {1.0: "Poisson", 2.0: "gamma"}.get(power, "Tweedie")
        scores.append(_Score("d2", f"D², {name} deviance explained", pair, _deviance_explained, "higher"))
    squares = np.column_stack([error**2, y - centre, (y - centre) ** 2])
    scores.append(_Score("r2", "R², variance explained", squares, _explained, "higher"))
    scores.append(_Score("rmse", "Root mean squared error", squares[:, :1], _root, "lower", limits=(0.0, np.inf)))
    sizes = np.abs(error)[:, None]
    scores.append(_Score("mae", "Mean absolute error", sizes, _first, "lower", limits=(0.0, np.inf)))
    if isinstance(own.loss, Quantile):
        level = float(own.loss.leaf_quantile or 0.5)
        pinball = np.maximum(level * error, (level - 1.0) * error)[:, None]
        scores.insert(0, _Score("pinball", f"Pinball loss at {level:g}", pinball, _first, "lower"))
        below = (error <= 0)[:, None].astype(float)
        scores.insert(1, _Score("below", f"Rows below the {level:g} quantile", below, _first, "lower", percent=True))
    return scores


def _unit_deviance(y: np.ndarray, mean: np.ndarray, power: float) -> np.ndarray:
    """Per row; y >= 0, mean > 0 (Poisson: power 1, gamma: 2, Tweedie in between)."""
    safe = np.maximum(y, 1e-300)
    if power == 1.0:
        return np.asarray(2.0 * (np.where(y > 0.0, y * np.log(safe / mean), 0.0) - y + mean))
    if power == 2.0:
        return np.asarray(2.0 * (np.log(mean / safe) + y / mean - 1.0))
    a, b = 1.0 - power, 2.0 - power
    return np.asarray(2.0 * (np.maximum(y, 0.0) ** b / (a * b) - y * mean**a / a + mean**b / b))


def _class_scores(own: Predicted, probability: np.ndarray, decided: np.ndarray) -> list[_Score]:
    rows = np.arange(len(own.y))
    true = np.clip(probability[rows, own.y], _TINY, 1.0)
    hit = (decided == own.y).astype(float)
    truth = np.zeros_like(probability)
    truth[rows, own.y] = 1.0
    squares = ((probability - truth) ** 2).sum(axis=1)
    if probability.shape[1] == 2:
        squares = squares / 2.0
    return [
        _Score("log_loss", "Log-loss", -np.log(true)[:, None], _first, "lower", limits=(0.0, np.inf)),
        _Score("accuracy", "Accuracy", hit[:, None], _first, "higher", True, (0.0, 1.0)),
        _Score("brier", "Brier score", squares[:, None], _first, "lower", limits=(0.0, 2.0)),
    ]


def score_table(model: Any, X: Any, y: Any, sample_weight: Any = None) -> list[dict[str, Any]]:
    """Scores of a fitted estimator: one dictionary each, with key, name, value, low, high (95 %), constant and texts.

    Intervals resample the rows (Poisson bootstrap, percentiles), so they are about these rows, not about training
    again. `constant` is what the mean of y, or the shares of the classes, would score on the same rows.
    """
    return scores_of(predicted_of(model, X, y, sample_weight))


def scores_of(own: Predicted) -> list[dict[str, Any]]:
    """The scores of truth and predictions."""
    n = len(own.y)
    if own.probability is not None:
        shares = np.bincount(own.y, own.weight, own.probability.shape[1]) / own.weight.sum()
        constant = _class_scores(own, np.tile(shares, (n, 1)), np.full(n, int(shares.argmax())))
        scores = _class_scores(own, own.probability, own.prediction)
        area = _area_score(own)
        scores, constant = (scores, constant) if area is None else ([area[0], *scores], [area[1], *constant])
    else:
        scores = _number_scores(own, own.prediction)
        constant = _number_scores(own, np.full(n, np.average(own.y, weights=own.weight)))
    stacked = np.column_stack([score.rows for score in scores])
    drawn = _resampled(stacked, own.weight)
    out, at = [], 0
    for score, flat in zip(scores, constant, strict=True):
        width = score.rows.shape[1]
        value = float(score.of(np.average(score.rows, axis=0, weights=own.weight)))
        plain = float(flat.of(np.average(flat.rows, axis=0, weights=own.weight)))
        out.append(_entry(score, value, score.of(drawn[:, at : at + width]), plain))
        at += width
    return out


def _resampled(stacked: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(resamples, m): weighted means of the columns when every row is drawn a Poisson(1) number of times."""
    rng, n = np.random.default_rng(0), len(weight)
    means = np.full((int(np.clip(_DRAWS // n, _FEWEST, _MOST)), stacked.shape[1]), np.nan)
    for mean in means:
        own = weight * rng.poisson(1.0, n)
        if own.sum() > 0.0:
            mean[:] = own @ stacked / own.sum()
    return means


def _entry(score: _Score, value: float, drawn: np.ndarray, constant: float) -> dict[str, Any]:
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.quantile(drawn, [0.025, 0.975]) if len(drawn) else (np.nan, np.nan)
    low, high = float(np.clip(low, *score.limits)), float(np.clip(high, *score.limits))

    def text(number: float) -> str:
        if not np.isfinite(number):
            return "–"
        return f"{number:.1%}" if score.percent else _digits(number, high - low)

    return {
        "key": score.key, "name": score.name, "better": score.better,
        "value": value, "low": low, "high": high, "constant": constant,
        "text": text(value), "low_text": text(low), "high_text": text(high), "constant_text": text(constant),
    }  # fmt: skip


def _digits(number: float, width: float) -> str:
    """As many digits as the width of the interval allows to tell, two more than its first; at most 6 places."""
    if not np.isfinite(width) or width <= 0.0:
        return f"{number:.4g}"
    places = int(np.clip(1 - np.floor(np.log10(width)), 0, 6))
    return f"{number:.3g}" if abs(number) >= 1e12 or (places == 6 and abs(number) < 1e-5) else f"{number:,.{places}f}"


def _area_score(own: Predicted) -> tuple[_Score, _Score] | None:
    """The area under the ROC (of the second of two classes, or the mean over classes), and that of a constant.

    The area is a mean over rows on either side: of a row's placement, the share of the other side that it is ranked
    rightly against. Resampling these (DeLong, DeLong and Clarke-Pearson 1988) needs no new order of the rows.
    """
    assert own.probability is not None
    k = own.probability.shape[1]
    classes = [own.y == j for j in ([1] if k == 2 else range(k))]
    chosen = [j for j, hit in enumerate(classes) if own.weight[hit].any() and own.weight[~hit].any()]
    if not chosen or len(own.y) * len(chosen) > _MOST_PLACES:
        return None
    columns = []
    for j in chosen:
        hit = classes[j]
        place = _placements(own.probability[:, 1 if k == 2 else j], hit, own.weight)
        columns += [place * hit, hit.astype(float), place * ~hit, (~hit).astype(float)]
    rows = np.column_stack(columns)

    def halves(means: np.ndarray) -> np.ndarray:
        """Mean area by the placements of one side, and by those of the other: the same for the rows as they are."""
        parts = means.reshape(*means.shape[:-1], -1, 4)
        with np.errstate(divide="ignore", invalid="ignore"):
            both = np.stack([parts[..., 0] / parts[..., 1], parts[..., 2] / parts[..., 3]])
        return np.asarray(both.mean(axis=-1))

    area = float(halves(np.average(rows, axis=0, weights=own.weight))[0])
    name = "AUC" if k == 2 else "AUC, mean over classes"
    score = _Score("auc", name, rows, lambda means: halves(means).sum(axis=0) - area, "higher", limits=(0.0, 1.0))
    return score, _Score("auc", name, np.full((len(own.y), 1), 0.5), _first, "higher")


def _placements(score: np.ndarray, hit: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(n,): for a row of the class the share of the others with a lower score, for one of the others the share of the
    class with a higher one; ties count half."""
    order = np.argsort(score, kind="stable")
    ends = np.flatnonzero(np.diff(score[order], append=np.inf))  # the last of each group of ties
    group = np.empty(len(score), np.int64)
    group[order] = np.searchsorted(ends, np.arange(len(score)))
    places = np.empty(len(score))
    for side, other, sign in ((hit, ~hit, 1.0), (~hit, hit, -1.0)):
        tied = np.bincount(group[other], weight[other], len(ends))
        upto = np.cumsum(tied)
        below = (upto - 0.5 * tied) / upto[-1]
        places[side] = (below if sign > 0 else 1.0 - below)[group[side]]
    return places
