"""Held-out loss on the generated workloads, as a mean over several draws of each.

One draw says little: the problem of A, C, E and H has a saddle (x₀·x₁) in it, where the first split of a tree gains
next to nothing and is decided by noise, so that two correct libraries end up to 2 % apart, either way. And whoever is
compared with the best of four peers on one draw loses by their luck. So every peer is compared on its own, draw by
draw, and the mean relative difference has a standard error. Large workloads are made smaller, since what is compared is
the trees and not the time.

Like is compared with like (MATCHES). Three classes and more: scikit-learn's leaves are a Newton step on the diagonal,
XGBoost's on twice that, which is `multiclass_curvature` here. CatBoost scores splits without second derivatives, and
its min_data_in_leaf limits the leaf that is divided, not those that come of it: it is compared without limits with
`criterion="friedman_mse"`. By itself it divides the leaf next whose cosine (of gradients and fitted values) gains most
rather than its squared error: other trees, shown and not judged. docs/differences.md has the experiments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.options import Options, Outcome
from benchmarks.rivals import OURS, RIVALS
from benchmarks.scores import held_out_loss
from benchmarks.settings import Settings
from benchmarks.table import plain
from benchmarks.timing import say
from benchmarks.training import settings_of
from benchmarks.workloads import WORKLOADS, Data

__all__ = ["MATCHES", "run"]


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A library with settings of its own on top of the equal ones."""

    rival: str
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        own = ", ".join(f"{name}={value}" for name, value in self.more.items())
        return RIVALS[self.rival].title + (f" ({own})" if own else "")

    def loss(self, settings: Settings, data: Data) -> float:
        rival = RIVALS[self.rival]
        with rival.limited(settings.threads):
            model = rival.estimator(settings)
            model.set_params(**self.more)
            predicted = rival.predict(settings, model.fit(data.X, data.y), data.X_test)
        return held_out_loss(settings.task, data.y_test, predicted)


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """Ours against a peer; of which tasks, and whether the bar is judged on it."""

    ours: Form
    peer: Form
    tasks: tuple[str, ...] = ("binary", "regression", "multiclass")
    judged: bool = True


_TWO, _MANY = ("binary", "regression"), ("multiclass",)
_PLAIN = Form(OURS)
MATCHES = (
    Match(_PLAIN, Form("lightgbm")),
    Match(_PLAIN, Form("xgboost-lossguide"), _TWO),
    Match(_PLAIN, Form("scikit-learn"), _TWO),
    Match(Form(OURS, {"multiclass_curvature": "bound"}), Form("xgboost-lossguide"), _MANY),
    Match(Form(OURS, {"multiclass_curvature": "diagonal"}), Form("scikit-learn"), _MANY),
    Match(
        Form(OURS, {"criterion": "friedman_mse", "min_samples_leaf": 1}),
        Form("catboost-lossguide", {"score_function": "L2", "min_data_in_leaf": 1}),
        _TWO,
    ),
    Match(_PLAIN, Form("catboost-lossguide"), judged=False),
    Match(_PLAIN, Form("scikit-learn"), _MANY, judged=False),
)

_DRAWS = {"A": 8, "B": 4, "C": 30, "D": 20, "E": 4, "F": 4, "G": 4, "H": 4}
_ROWS = {"A": 100_000, "B": 50_000, "E": 8_000, "F": 40_000, "G": 400_000, "H": 100_000}


def _gap(losses: Mapping[str, list[float]], match: Match) -> tuple[float, float]:
    """Mean relative difference of the losses, and its standard error."""
    ratio = np.array(losses[match.ours.title]) / np.array(losses[match.peer.title]) - 1.0
    return float(ratio.mean()), float(ratio.std(ddof=1) / np.sqrt(len(ratio)))


def run(options: Options) -> Outcome:
    rows: list[list[str]] = []
    found: dict[str, Any] = {}
    for name, draws in _DRAWS.items():
        workload = WORKLOADS[name].sized(options.quick)
        workload = replace(workload, rows=min(workload.rows, _ROWS.get(name, workload.rows)))
        draws, chosen = options.size(draws, 2), {OURS, *(options.rivals or RIVALS)}
        matches = [own for own in MATCHES if workload.task in own.tasks and own.peer.rival in chosen]
        forms = {form.title: form for match in matches for form in (match.ours, match.peer)}
        losses: dict[str, list[float]] = {title: [] for title in forms}
        for seed in range(100, 100 + draws):
            own = workload.drawn(seed)
            data, settings = own.data(), settings_of(own, options.threads)
            for title, form in forms.items():
                losses[title].append(form.loss(settings, data))
        say(f"  draws: {workload.title}, {draws} draws")
        gaps = {match: _gap(losses, match) for match in matches}
        judged = {match.peer.title: gap for match, (gap, _) in gaps.items() if match.judged}
        worst = max(judged, key=judged.__getitem__, default=None)
        found[name] = {
            "gap": judged[worst] if worst else 0.0,
            "best": worst,
            "losses": losses,
            "matches": [
                {"ours": m.ours.title, "peer": m.peer.title, "judged": m.judged, "gap": gap, "error": error}
                for m, (gap, error) in gaps.items()
            ],
        }
        for k, (match, (gap, error)) in enumerate(gaps.items()):
            rows.append(
                [
                    f"{name}, {workload.rows:,} rows, {draws} draws" if k == 0 else "",
                    match.ours.title,
                    f"{np.mean(losses[match.ours.title]):.6g}",
                    match.peer.title,
                    f"{np.mean(losses[match.peer.title]):.6g}",
                    f"{100 * gap:+.2f} % ± {100 * error:.2f}",
                    ("yes" if gap <= 0.005 else "NO") if match.judged else "other trees",
                ]
            )
    header = ["workload", "ours", "loss", "peer", "loss", "ours against it", "within 0.5 %"]
    return Outcome(f"draws: mean held-out loss, and mean of the relative differences\n{plain(header, rows)}", found)
