"""Influence trimming: most rows can sit out most stages (Friedman 2001, section 4.5.1).

Rows that are classified with certainty have a second derivative near 0 and hardly move a tree. Leaving out those that
together hold α = 0.1 to 0.2 of the total leaves, late in training, few rows in, and the error where it was. The paper
reports speed-ups of 10 to 20. Here a stage still visits every row, to find the threshold and to walk down the tree, and
growing a tree on a row costs little more than that when there are few columns: nothing is saved with 20 of them. With
100 columns it is.

    python examples/trimming.py [--small] [--out DIR]
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from canvas import options, panels, save
from problems import random_function

from stagewise import Dataset, GradientBoostingClassifier

ALPHAS = (0.0, 0.05, 0.1, 0.2)


def main(arguments: Sequence[str] | None = None) -> dict[float, dict[str, float]]:
    given = options(__doc__, arguments)
    n, n_test, stages = given.size(100_000, 3000), given.size(20_000, 2000), given.size(400, 40)
    rng, columns = np.random.default_rng(0), given.size(100, 20)
    truth = random_function(rng, n_columns=20, n_parts=20)  # of the first 20 columns; the others are noise
    X, X_test = (rng.standard_normal((size, columns)).astype(np.float32) for size in (n, n_test))
    cut = np.median(truth(X))
    y, y_test = truth(X) > cut, truth(X_test) > cut
    data = Dataset(X, y)
    GradientBoostingClassifier(n_estimators=2, influence_trimming=0.1).fit(data)  # compiles
    found, kept, errors = {}, {}, {}
    for alpha in ALPHAS:
        model = GradientBoostingClassifier(n_estimators=stages, max_leaf_nodes=31, influence_trimming=alpha)
        began = time.perf_counter()
        model.fit(data)
        seconds = time.perf_counter() - began
        kept[alpha] = model.history_.kept
        errors[alpha] = np.array([np.mean(guess != y_test) for guess in model.staged_predict(X_test)])
        found[alpha] = {"seconds": seconds, "error": float(errors[alpha][-1]), "kept": float(kept[alpha][-1])}
    print(f"{n:,} × {columns}, {stages} stages      seconds   test error   rows kept: last stage   mean")
    for alpha, own in found.items():
        saved = (
            "" if alpha == 0.0 else f"   {100 * (1 - own['seconds'] / found[0.0]['seconds']):.0f} % of the time saved"
        )
        print(
            f"  α = {alpha:<6g}                {own['seconds']:6.2f}      {100 * own['error']:6.2f} %"
            f"              {100 * own['kept']:5.1f} %   {100 * kept[alpha].mean():5.1f} %{saved}"
        )

    figure, (left, right) = panels(2)
    for alpha in ALPHAS:
        left.plot(np.arange(1, stages + 1), kept[alpha], label=f"α = {alpha:g}")
        right.plot(np.arange(1, stages + 1), errors[alpha], label=f"α = {alpha:g}: {found[alpha]['seconds']:.1f} s")
    left.set(xlabel="stages", ylabel="share of the rows kept", ylim=(0.0, 1.03), title="Rows that a tree is grown on")
    right.set(xlabel="stages", ylabel="test error", title="Error, and the time of the whole fit")
    left.legend(frameon=False)
    right.legend(frameon=False)
    save(figure, given, "trimming")
    return found


if __name__ == "__main__":
    main()
