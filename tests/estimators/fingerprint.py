"""A fitted model as bytes: two models are the same exactly when their fingerprints are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from stagewise.boosting.model import Model
from stagewise.tree.tree import Tree


def arrays_of(model: Model) -> Iterator[tuple[str, np.ndarray]]:
    """Everything that a model holds, by name: constants, cut points, marginals, trees, history."""
    yield "initial", model.initial
    for j, cuts in enumerate(model.cuts):
        yield f"cuts {j}", cuts
    for j, marginal in enumerate(model.marginals):
        yield f"points {j}", marginal.points
        yield f"shares {j}", np.append(marginal.shares, marginal.missing)
    for m, stage in enumerate(model.stages):
        for k, tree in enumerate(stage):
            for field in fields(Tree):
                yield f"stage {m} output {k} {field.name}", getattr(tree, field.name)
    for name in ("train", "validation", "rows"):
        yield f"history {name}", getattr(model.history, name)
    yield "history best", np.array([model.history.best], np.int64)
    yield "history initial", np.array([model.history.initial], np.float64)


def fingerprint(estimator: object) -> str:
    """A hash over the bytes, types and shapes of all arrays of a fitted estimator."""
    digest = hashlib.sha256()
    for name, array in arrays_of(estimator.model_):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def difference(one: object, other: object) -> str:
    """The first array in which two fitted estimators differ; empty when they are the same byte for byte."""
    pairs = zip(arrays_of(one.model_), arrays_of(other.model_), strict=False)
    for (name, a), (_, b) in pairs:
        if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
            return f"{name}: {a!r} is not {b!r}"
    return "" if fingerprint(one) == fingerprint(other) else "another number of arrays"
