"""The parts of a report that show the model: how it was trained, which columns matter, and how."""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.boosting.sampling import smallest_hashes
from stagewise.data.frame import open_frame
from stagewise.errors import StagewiseError
from stagewise.inspection.dependence import partial_dependence
from stagewise.inspection.importance import Importance
from stagewise.inspection.interaction import Interactions
from stagewise.inspection.shap import ShapValues, shap_values
from stagewise.inspection.subject import Subject
from stagewise.kernels.exact import stream_key
from stagewise.plots.attributions import shap_bar, shap_summary, shap_waterfall
from stagewise.plots.bars import importance as importance_bars
from stagewise.plots.lines import partial_dependence as dependence_line
from stagewise.plots.progress import history
from stagewise.plots.style import value_text
from stagewise.report.pictures import picture

__all__ = ["attributions", "dependence", "importance", "learning", "pair"]

_PANELS = 6
_TOP = 15
_PAIRS = 8
_FEW_CLASSES = 6  # drawn together; of more, one
_FEW_VALUES = 8  # each gets a tick of its own
_ROWS = 2000  # whose SHAP values are drawn
_SHAP = 0x73686170  # "shap": the hash stream of those rows


def learning(subject: Subject) -> dict[str, Any] | None:
    """Deviance by stage."""
    own, kept = subject.model.history, len(subject.model.stages)
    if not len(own.train) or not np.isfinite(own.train).any():
        return None
    watched = len(own.validation) > 0
    least = int(np.argmin(own.validation)) if watched else 0
    alt = (
        f"Deviance by stage: training falls from {own.train[0]:.4g} to {own.train[-1]:.4g} in {len(own.train):,} stages"
    )
    words = f"{kept:,} stages were kept."
    if watched:
        at = len(own.train) - len(own.validation) + least + 1
        alt += f"; validation is least, {own.validation[least]:.4g}, at stage {at:,}"
        words = (
            f"The validation rows were predicted best with {at:,} stages (the dot), and {kept:,} were kept. Where the "
            "solid line rises again, further stages learned the noise of the training rows."
        )
    log = bool(own.train.min() > 0.0 and own.train[0] > 5.0 * own.train.min())
    drawn = picture("learning", alt + ".", lambda ax: history(own, ax=ax, log=log), 9.6, 3.7)
    return {"picture": drawn, "words": words, "kept": kept, "tried": len(own.train)}


def importance(gain: Importance) -> dict[str, Any]:
    """Bars, and the numbers."""
    order, shown = gain.order, min(_TOP, len(gain.names))
    some = ", ".join(f"{gain.names[j]} {gain.values[j]:.1%}" for j in order[:5])
    unused = int((gain.values <= 0.0).sum())
    drawn = picture(
        "importance", f"Bars of relative importance, the first: {some}.",
        lambda ax: importance_bars(gain, top=_TOP, ax=ax), 9.6, 0.8 + 0.26 * shown,
    )  # fmt: skip
    words = "Share of the squared improvement that the splits on a column brought, in training."
    if unused:
        words += f" {unused:,} of {len(gain.names):,} columns are not used at all."
    return {"picture": drawn, "words": words, "table": [(gain.names[j], float(gain.values[j])) for j in order[:_TOP]]}


def dependence(subject: Subject, columns: list[int]) -> dict[str, Any] | None:
    """Dependence on the most important columns, one picture each, on one scale."""
    output = _one_output(subject)
    found = []
    for j in columns[:_PANELS]:
        try:
            found.append(partial_dependence(subject.estimator, j))
        except StagewiseError:  # this column alone has no grid
            continue
    if not found:
        return None
    chosen = [own.values if output is None else own.values[output] for own in found]
    low, high = min(float(own.min()) for own in chosen), max(float(own.max()) for own in chosen)
    room = 0.05 * (high - low) or 1.0
    pictures = []
    for k, own in enumerate(found):

        def draw(ax: Any, own: Any = own) -> None:
            dependence_line(own, output=output, ax=ax)
            ax.set_ylim(low - room, high + room)

        values = own.values[output or 0]
        ends = f"from {values.min():.4g} to {values.max():.4g}"
        pictures.append(picture(f"dependence{k}", f"Partial dependence on {own.features[0]}, {ends}.", draw, 3.4, 2.6))
    of = "" if output is None else f" for class {subject.outputs[output]}"
    words = (
        f"The average prediction{of}, on the scale of the model{_scale(subject)}, when one column is set to a value "
        "and all others stay as they are. Marks at the bottom are the deciles of the training values. All on one scale."
    )
    return {"pictures": pictures, "words": words}


def _scale(subject: Subject) -> str:
    link = {"Poisson": "log of the mean", "Gamma": "log of the mean", "Tweedie": "log of the mean"}
    classes = getattr(subject.estimator, "classes_", None)
    if classes is not None:
        return " (log-odds)" if len(classes) == 2 else " (log-odds, up to a constant)"
    name = link.get(type(subject.model.loss).__name__)
    return f" ({name})" if name else ""


def _one_output(subject: Subject) -> int | None:
    """None: all outputs are drawn. Of many classes the first one is."""
    return 0 if len(subject.outputs) > _FEW_CLASSES else None


def pair(subject: Subject, links: Interactions) -> dict[str, Any] | None:
    """The strongest interaction as a map, and the list of the next ones."""
    best = int(np.argmax(links.strength.reshape(len(links.outputs), -1).max(axis=1)))
    ranked = links.ranked(best)
    if not ranked:
        return None
    one, other, h, _ = ranked[0]
    table = [(f"{a} × {b}", f"{strength:.3g}", f"{own:.2f}") for a, b, own, strength in ranked[:_PAIRS]]
    try:
        found = partial_dependence(subject.estimator, [subject.column(one), subject.column(other)])
        values = found.values[best]

        def draw(ax: Any) -> None:
            dependence_line(found, output=best, ax=ax)
            for axis, points in zip((ax.xaxis, ax.yaxis), found.grid, strict=True):
                few = np.unique(points[~np.isnan(points)])
                if len(few) <= _FEW_VALUES:
                    axis.set_ticks(few, [value_text(own) for own in few])

        drawn = picture(
            "pair", f"Map of the dependence on {one} and {other}, from {values.min():.4g} to {values.max():.4g}.",
            draw, 6.0, 4.2,
        )  # fmt: skip
    except StagewiseError:
        drawn = None
    of = f" for class {links.outputs[best]}" if len(links.outputs) > 1 else ""
    words = (
        f"{one} and {other} interact most{of}: what one does depends on the other. H is the share of their joint "
        f"effect that is not a sum of two separate ones ({h:.2f} here); strength is the size of that part."
    )
    return {"picture": drawn, "words": words, "table": table}


def attributions(subject: Subject, X: Any) -> dict[str, Any]:
    """SHAP values: a summary, and two rows of interest."""
    rows = _some(X)
    found = shap_values(subject.estimator, rows)
    sizes = found.mean_size()
    order = np.argsort(-sizes, kind="stable")
    some = ", ".join(f"{found.names[j]} {sizes[j]:.3g}" for j in order[:5])
    shown = min(_TOP, len(found.names))
    several = 1 < len(found.outputs) <= _FEW_CLASSES + 2
    k = _one_output(subject) or 0

    def summary(ax: Any) -> None:
        if several:
            shap_bar(found, top=_TOP, ax=ax)
        else:
            shap_summary(found, top=_TOP, output=k, ax=ax)

    alt = f"SHAP values of {len(found.values):,} rows; mean sizes: {some}."
    pictures = [picture("shap", alt, summary, 9.6, 0.9 + 0.34 * shown)]
    which = f" for class {found.outputs[k]}" if found.outputs[k] and not several else ""
    words = (
        "Bars: the mean size of what a column adds to a prediction, class by class."
        if several
        else f"Every row is a point: across, what a column adds to its prediction{which}; in colour, its value."
    )
    return {"pictures": pictures, "words": words, "rows": len(found.values), "examples": _examples(found, k)}


def _examples(found: ShapValues, k: int) -> list[dict[str, str]]:
    """The rows with the lowest and the highest prediction, from the expected value to their own."""
    total = found.output(k).sum(axis=1)
    if len(total) < 2 or np.ptp(total) == 0.0:
        return []
    out = []
    for name, row in (("lowest", int(total.argmin())), ("highest", int(total.argmax()))):
        own = found.output(k)[row]
        order = np.argsort(-np.abs(own), kind="stable")[:3]
        adds = ", ".join(f"{found.names[j]} {own[j]:+.3g}" for j in order)
        end = float(found.expected[k] + own.sum())
        alt = f"From the expected {found.expected[k]:.4g} to {end:.4g}, the {name} prediction: {adds}."

        def draw(ax: Any, row: int = row) -> None:
            shap_waterfall(found, row, output=k, top=7, ax=ax)

        out.append(picture(f"row-{name}", alt, draw, 5.4, 3.7, f"The row with the {name} prediction"))
    return out


def _some(X: Any) -> Any:
    """At most _ROWS rows, chosen by the hashes of their numbers."""
    frame = open_frame(X)
    n = len(np.asarray(X)) if frame is None else int(frame.shape[0])
    if n <= _ROWS:
        return X
    rows = smallest_hashes(stream_key(0, _SHAP), np.zeros(n, np.bool_), _ROWS)[0].astype(np.int64)
    return np.asarray(X)[rows] if frame is None else frame[rows.tolist(), :].to_native()
