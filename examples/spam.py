"""Which mail is spam, as in The Elements of Statistical Learning, sections 10.8 and 10.9.

    python examples/spam.py [--data FOLDER] [--out FOLDER]

Two-class log-loss, ν = 0.1, trees of J = 5 leaves, a third of the mails held out, six times. The book reports an error
of 4.5 % on its own third, and finds `!`, `$`, `hp` and `remove` the most relevant words. Without spambase.parquet in
FOLDER, scikit-learn's table of breast cancers takes its place.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import stagewise as sw
from stagewise.inspection.listing import frame_of

FOLDER = Path(__file__).parents[2] / "shared" / "data"
SPLITS = 6
SIGNS = {"charExclamation": "!", "charDollar": "$", "charSemicolon": ";", "charRoundbracket": "(",
         "charSquarebracket": "[", "charHash": "#", "capitalAve": "CAPAVE", "capitalLong": "CAPMAX",
         "capitalTotal": "CAPTOT"}  # fmt: skip
"""The book's names of columns that are no words."""


def read(folder: Path) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """(names, X, labels)."""
    path = folder / "spambase.parquet"
    if not path.is_file():
        from sklearn.datasets import load_breast_cancer

        cancers = load_breast_cancer()
        return tuple(cancers.feature_names.tolist()), cancers.data, cancers.target_names[cancers.target]
    import pyarrow.parquet as parquet

    table = parquet.read_table(path)
    names = [name for name in table.column_names if name != "target"]
    X = np.column_stack([np.asarray(table.column(name).to_numpy(), np.float64) for name in names])
    labels = np.where(np.asarray(table.column("target").to_numpy()) == 1, "spam", "email")
    return tuple(SIGNS.get(name, name.removeprefix("num")) for name in names), X, labels


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=FOLDER, help="folder with spambase.parquet")
    parser.add_argument("--out", type=Path, default=Path("examples_output"), help="folder for the pictures")
    parser.add_argument("--stages", type=int, default=500)
    asked = parser.parse_args()

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names, values, labels = read(asked.data)
    errors = []
    for seed in range(SPLITS):  # the last model is the one that is looked into
        held_out = np.random.default_rng(seed).random(len(labels)) < 1 / 3
        X, X_test = (frame_of(dict(zip(names, values[rows].T, strict=True))) for rows in (~held_out, held_out))
        y, y_test = labels[~held_out], labels[held_out]
        model = sw.GradientBoostingClassifier(n_estimators=asked.stages, max_leaf_nodes=5, min_samples_leaf=10)
        model.fit(X, y)
        wrong = model.predict(X_test) != y_test
        errors.append(float(wrong.mean()))
    print(f"{len(labels):,} rows; held-out errors {', '.join(f'{error:.1%}' for error in errors)}")
    print(f"on average {np.mean(errors):.1%}\n")
    importance = sw.inspection.feature_importance(model)
    print(importance, "\n")
    print(sw.inspection.h_statistic(model, X), "\n")

    asked.out.mkdir(parents=True, exist_ok=True)

    def keep(name: str) -> None:
        plt.savefig(asked.out / f"spam_{name}.png", dpi=110)
        plt.close("all")

    first, second, third, fourth = (names[j] for j in importance.order[:4])
    sw.plots.importance(importance, top=25)
    keep("importance")
    sw.plots.dependence_panels(model, [first, second, third, fourth], columns=2)
    keep("dependence")
    sw.plots.partial_dependence(model, [first, third])
    keep("two_words")
    explained = sw.inspection.shap_values(model, X_test)
    sw.plots.shap_summary(explained)
    keep("shap_summary")
    sw.plots.shap_waterfall(explained, int(np.flatnonzero(wrong)[0]) if wrong.any() else 0)
    keep("one_mistake")
    sw.plots.calibration(model, X_test, y_test)
    keep("calibration")
    print(f"pictures: {asked.out.resolve()}")


if __name__ == "__main__":
    main()
