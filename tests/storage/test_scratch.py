"""Files without a name."""

from __future__ import annotations

import numpy as np
import pytest

from stagewise.storage.mapping import is_mapped, release
from stagewise.storage.scratch import Scratch


def test_what_is_written_is_mapped_and_leaves_nothing(tmp_path):
    with Scratch(str(tmp_path), 24) as file:
        file.write(8, np.array([2, 3], np.int64))
        file.write(0, np.array([1], np.int64))
        values = file.mapped()
    assert is_mapped(values)
    assert not list(tmp_path.iterdir())
    np.testing.assert_array_equal(values.view(np.int64), [1, 2, 3])
    release(values)
    np.testing.assert_array_equal(values.view(np.int64), [1, 2, 3])
    release(np.ones(3))  # not mapped: nothing to do


def test_a_disk_that_is_too_small_says_so(tmp_path):
    with pytest.raises(OSError, match=r"MiB are needed in .* MiB are free"):
        Scratch(str(tmp_path), 1 << 60)
