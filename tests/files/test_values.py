"""Values of parameters: what comes back is what was written, types too."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stagewise.errors import InputError
from stagewise.files.values import read_value, write_value

pytestmark = pytest.mark.nojit


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2**70, 0.1, -0.0, "text", "\ud800", [1, [2.5, None]], (1, ("a",)), {"a": 1, 2: (3,)},
        {True: 1.0}, float("inf"), np.float32(0.1), np.int64(-5), np.bool_(True), np.uint64(2**64 - 1),
        np.array([[1.5, np.nan], [np.inf, 0.0]]), np.array([1, 2], np.int8), np.array(["a", "bc"]),
        np.array(["a", "bc"], object), np.array([True, False]), np.empty(0),
    ],
    ids=repr,
)  # fmt: skip
def test_round_trip(value):
    again = read_value(json.loads(json.dumps(write_value(value, "x"), allow_nan=False)), "x")
    assert type(again) is type(value)
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype
        assert again.shape == value.shape
        np.testing.assert_array_equal(again, value)
    else:
        assert again == value
        assert repr(again) == repr(value)


def test_a_random_state_goes_on_where_it_was():
    state = np.random.RandomState(3)
    state.normal(size=5)
    again = read_value(json.loads(json.dumps(write_value(state, "x"))), "x")
    assert again.randint(1000, size=20).tolist() == state.randint(1000, size=20).tolist()


@pytest.mark.parametrize("value", [print, object(), [lambda: 0], {"a": {1, 2}}, np.array([1j]), b"bytes"])
def test_code_and_strange_things_are_refused(value):
    with pytest.raises(InputError, match="cannot be saved"):
        write_value(value, "x")


def nested(depth):
    return [nested(depth - 1)] if depth else 1


@pytest.mark.parametrize(
    "stored",
    [
        {"type": "float", "value": "1.5"},
        {"type": "os.system", "value": "true"},
        {"type": "int8", "value": 300},
        {"type": "int8", "value": "3"},
        {"type": "array int64", "value": [1.5]},
        {"type": "array int64", "value": [[1], [1, 2]]},
        {"type": "array object", "value": [1]},
        {"type": "dict", "value": [[[1], 2]]},
        {"type": "dict", "value": [1]},
        {"type": "tuple", "value": 3},
        {"type": 3, "value": 3},
        {"value": 3},
        {"type": "RandomState", "value": ["MT19937", [0] * 624, 700, 0, 0.0]},
        {"type": "RandomState", "value": ["MT19937", [0] * 9, 7, 0, 0.0]},
        {"type": "RandomState", "value": ["PCG64", [0] * 624, 7, 0, 0.0]},
        {"type": "RandomState", "value": []},
        nested(30),
    ],
)
def test_what_nobody_wrote_is_refused(stored):
    with pytest.raises(InputError, match="in the file"):
        read_value(stored, "x")
