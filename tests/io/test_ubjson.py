"""The UBJSON reader believes nothing."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from stagewise.errors import InputError
from stagewise.io.ubjson import read_ubjson

pytestmark = pytest.mark.nojit


@pytest.mark.parametrize(
    "data, value",
    [
        (b"Z", None), (b"T", True), (b"F", False), (b"i\xff", -1), (b"U\xff", 255), (b"I\xff\xfe", -2),
        (b"l\x00\x00\x01\x00", 256), (b"L" + struct.pack(">q", -(2**40)), -(2**40)),
        (b"d" + struct.pack(">f", 0.5), 0.5), (b"D" + struct.pack(">d", 0.1), 0.1), (b"Ca", "a"), (b"SU\x02hi", "hi"),
        (b"[]", []), (b"[ZTNNF]", [None, True, False]), (b"[#U\x02ZT", [None, True]), (b"{}", {}),
        (b"{U\x01aZU\x01b[]}", {"a": None, "b": []}), (b"{#U\x01U\x01aT", {"a": True}),
        (b"[$S#U\x02U\x01aU\x01b", ["a", "b"]), (b"[$[#U\x02]]", [[], []]), (b"NT", True),
    ],
)  # fmt: skip
def test_values(data, value):
    assert read_ubjson(data) == value


def test_arrays_of_numbers_are_arrays():
    out = read_ubjson(b"[$l#U\x03" + struct.pack(">iii", 1, -2, 3))
    assert out.dtype == np.int32
    assert out.tolist() == [1, -2, 3]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"N", b"X", b"i", b"SU\x05hi", b"SU\x02\xff\xfe", b"Si\xff", b"Sd\x00\x00\x00\x00", b"SL" + b"\x7f" * 8,
        b"[", b"[Z", b"[$l", b"[$l#", b"[$l#l\x7f\xff\xff\xff", b"[$Z#l\x7f\xff\xff\xff", b"[#l\x7f\xff\xff\xff",
        b"[$D#U\x02" + bytes(8), b"{", b"{U\x01a", b"{U\x01aZU\x01aZ}", b"{$Z#U\x01U\x01a", b"[" * 100, b"{U\x01a" * 99,
        b"TT", b"[]]", b"[$N#U\x05",
    ],
)  # fmt: skip
def test_everything_else_is_refused(data):
    with pytest.raises(InputError, match=r"no valid UBJSON: .* \(at byte \d+\)"):
        read_ubjson(data)
