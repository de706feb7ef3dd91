"""Thresholds of libraries that round values to float32, and trees from nodes in any order."""

from __future__ import annotations

import numpy as np
import pytest

from stagewise.errors import InputError
from stagewise.io.grove import Grove, float32_threshold, plant


def near(values):
    """Values, and both neighbours of each, in float64 and in float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
        half = [0.5 * single.astype(np.float64) + 0.5 * np.nextafter(single, np.float32(s * np.inf)) for s in (1, -1)]
        out = [values, single.astype(np.float64), *half]
        out += [np.nextafter(own, s * np.inf) for own in out for s in (1, -1)]
        out += [np.nextafter(single, np.float32(s * np.inf)).astype(np.float64) for s in (1, -1)]
    return np.unique(np.concatenate(out))


EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.1, 1e-45, -1e-45, 1e-40, 1.17549435e-38, 3.4028234663852886e38, -3.4028234663852886e38,
     1e300, -1e300, np.inf, -np.inf, 16777216.0, 16777217.0, 1e-46, 1e-300]
)  # fmt: skip


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("wide", [True, False])
def test_rounding_first_and_comparing_then_is_one_comparison(strict, wide):
    rng = np.random.default_rng(0)
    at = np.concatenate([EDGES, rng.normal(size=300), rng.normal(size=300) * 10.0 ** rng.integers(-44, 38, 300)])
    with np.errstate(over="ignore"):
        at = at if wide else at.astype(np.float32).astype(np.float64)
    ours = float32_threshold(at, strict)
    for t, own in zip(at, ours, strict=True):
        if strict and t == -np.inf:
            continue  # nothing is below
        x = np.concatenate([near(np.array([t])), near(np.array([own])), EDGES])
        with np.errstate(over="ignore"):
            single = x.astype(np.float32).astype(np.float64)
        wanted = single < t if strict else single <= t
        np.testing.assert_array_equal(x <= own, wanted, err_msg=f"{t!r} became {own!r}")


def grove(**changes):
    """Two trees, the second before the first, children scattered."""
    fields = {
        "root": [4, 0],
        "left": [2, -1, -1, -1, 6, -1, 1],
        "right": [3, -1, -1, -1, 5, -1, 7],
        "feature": [1, 0, 0, 0, 0, 0, 1],
        "value": [0, 1, 2, 3, 0, 5, 0],
        **changes,
    }
    fields["left"], fields["right"] = fields["left"] + [-1], fields["right"] + [-1]
    fields["feature"], fields["value"] = fields["feature"] + [0], fields["value"] + [7]
    n = len(fields["left"])
    fields = {name: np.array(own, np.int64 if name != "value" else float) for name, own in fields.items()}
    return Grove(
        **{"threshold": np.arange(n) / 2, "missing_left": np.zeros(n, bool), "gain": np.ones(n),
           "count": np.ones(n, np.int64), "cover": np.ones(n), **fields}
    )  # fmt: skip


def test_nodes_in_any_order_become_our_trees():
    first, second = plant(grove(), 2, "It")
    assert first.left.tolist() == [1, 3, -1, -1, -1]
    assert first.value.tolist() == [0, 0, 5, 1, 7]
    assert first.feature.tolist() == [0, 1, -1, -1, -1]
    assert first.threshold.tolist() == [2, 3, 0, 0, 0]
    assert second.left.tolist() == [1, -1, -1]
    assert second.value.tolist() == [0, 2, 3]
    assert first.depth.tolist() == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"left": [2, -1, -1, -1, 4, -1, 1]}, "circle|two parents"),
        ({"left": [2, -1, -1, -1, 6, -1, 6]}, "circle|two parents"),
        ({"right": [3, -1, -1, -1, 0, -1, 7]}, "circle|two parents"),
        ({"left": [2, -1, -1, -1, 99, -1, 1]}, "not there"),
        ({"right": [3, -1, -1, -1, -5, -1, 7]}, "not there"),
        ({"feature": [5, 0, 0, 0, 0, 0, 1]}, "column"),
        ({"feature": [-1, 0, 0, 0, 0, 0, 1]}, "column"),
        ({"feature": [2**40, 0, 0, 0, 0, 0, 1]}, "column"),
        ({"value": [0, np.inf, 2, 3, 0, 5, 0]}, "finite"),
        ({"value": [0, np.nan, 2, 3, 0, 5, 0]}, "finite"),
    ],
)
def test_what_is_no_tree_is_refused(changes, words):
    with pytest.raises(InputError, match=words):
        plant(grove(**changes), 2, "It")
