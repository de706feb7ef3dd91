"""Level tables in a file: everything comes back, and nothing wrong is read."""

from __future__ import annotations

import numpy as np
import pytest

from stagewise.data.categories import Levels
from stagewise.data.leveltables import level_arrays, read_levels
from stagewise.errors import InputError


def texts(*values: str) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out


TABLES = (
    None,
    Levels(texts("", "a\n", "é" * 1000, "\ud800"), np.arange(4.0)),
    Levels(np.array([-1.5, 0.0, 7.0]), np.array([0.0, 1.0, 1.0])),
    None,
    Levels(texts("p", "q"), np.array([0.25, -3.0]), True, 0.5),
    Levels(texts(), np.empty(0)),
)


def test_they_come_back():
    again = read_levels(level_arrays(TABLES), len(TABLES))
    for one, other in zip(TABLES, again, strict=True):
        if one is None or other is None:
            assert one is other
            continue
        assert one.values.tolist() == other.values.tolist()
        assert one.numbers.tolist() == other.numbers.tolist()
        assert one.by_target == other.by_target
        assert one.is_text == other.is_text
        assert one.unseen == other.unseen or (np.isnan(one.unseen) and np.isnan(other.unseen))


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("column", [1, 2, 2, 5], "different columns"),
        ("column", [1, 2, 4, 9], "different columns"),
        ("column", [-1, 2, 4, 5], "different columns"),
        ("kind", [1, 0, 3], "different columns"),
        ("kind", [1, 0, 7, 1], "unknown kind"),
        ("size", [4, 3, 2, 1], "do not add up"),
        ("size", [-4, 11, 2, 0], "do not add up"),
        ("size", [2**62, 3, 2, 2**62], "do not add up"),
        ("numbers", [0, 1, 2, 3, 0, 1, 1, 0.25, np.nan], "not a finite number"),
        ("numbers", [0, 1, 2, 3, 0, 1, 2.5, 0.25, -3], "whole numbers"),
        ("numbers", [0, 1, 2, 2e9, 0, 1, 1, 0.25, -3], "whole numbers"),
        ("numbers", [0, 1, 2, 3, -1, 0, 1, 0.25, -3], "whole numbers"),
        ("values", [0.0, 0.0, 7.0], "ascending"),
        ("values", [0.0, np.nan, 7.0], "ascending"),
        ("values", [0.0, 1.0], "more or fewer levels"),
        ("unseen", [np.inf], "finite number for levels"),
        ("unseen", [], "finite number for levels"),
        ("lengths", [0, 2, 2000, 3, 1, 2], "do not add up"),
        ("lengths", [-1, 3, 2000, 3, 1, 1], "do not add up"),
    ],
)
def test_wrong_ones_are_refused(name, value, message):
    arrays = level_arrays(TABLES)
    arrays[name] = np.array(value, arrays[name].dtype)
    with pytest.raises(InputError, match=message):
        read_levels(arrays, len(TABLES))


def test_wrong_arrays_are_refused():
    arrays = level_arrays(TABLES)
    with pytest.raises(InputError, match="'texts' is wrong"):
        read_levels({**arrays, "texts": arrays["texts"].astype(np.int64)}, len(TABLES))
    with pytest.raises(InputError, match="'more' is wrong"):
        read_levels({**arrays, "more": arrays["texts"]}, len(TABLES))
    broken = arrays["texts"].copy()
    broken[-3] = 0xFF
    with pytest.raises(InputError, match=r"UTF-8|ascending"):
        read_levels({**arrays, "texts": broken}, len(TABLES))


def test_texts_that_are_said_to_be_numbers_are_refused():
    arrays = level_arrays(TABLES)
    arrays["kind"] = arrays["kind"] ^ np.uint8(1)
    with pytest.raises(InputError, match="more or fewer levels"):
        read_levels(arrays, len(TABLES))
