"""The container: one encoding for a content, and nothing else is read."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from stagewise.errors import InputError
from stagewise.storage.container import FORMAT, MAGIC, Content, Section, pack, unpack

pytestmark = pytest.mark.nojit


def content():
    arrays = {
        "grid": np.arange(6.0).reshape(2, 3),
        "bytes": np.array([1, 0, 255], np.uint8),
        "none": np.empty((0, 4), np.int32),
        "flags": np.array([True, False]),
        "number": np.array(7, np.int64),
    }
    return Content("test", {"a": Section({"x": [1, None, "é"], "y": 0.1}, arrays), "b": Section({})})


def sealed(data: bytes) -> bytes:
    """The same file with a checksum that fits it."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


def with_header(change, arrays: bytes | None = None) -> bytes:
    """A file whose header was changed by someone who knows the format."""
    data = pack(content())
    length = int.from_bytes(data[16:24], "little")
    header = json.loads(data[24 : 24 + length])
    rest = data[24 + length + (-(24 + length) % 64) : -32]
    changed = change(header)
    text = changed if isinstance(changed, bytes) else json.dumps(header if changed is None else changed).encode()
    front = data[:16] + len(text).to_bytes(8, "little") + text
    return sealed(front + bytes(-len(front) % 64) + (rest if arrays is None else arrays) + bytes(32))


def test_what_comes_back_is_what_was_written():
    again = unpack(pack(content()))
    assert again.kind == "test"
    for name, section in content().sections.items():
        assert again.sections[name].values == section.values
        for own, array in section.arrays.items():
            got = again.sections[name].arrays[own]
            assert (got.dtype, got.shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(got, array)
            assert got.flags.writeable
            assert got.flags.aligned
    assert pack(again) == pack(content())


def test_the_layout_is_the_documented_one():
    data = pack(content())
    assert data[:8] == MAGIC
    assert int.from_bytes(data[8:12], "little") == FORMAT == 1
    assert len(data) % 64 == 32
    assert data[-32:] == hashlib.sha256(data[:-32]).digest()
    assert data.index(np.arange(6.0).tobytes()) % 64 == 0


def test_big_endian_and_strided_arrays_are_written_little_endian():
    array = np.arange(10, dtype=">i4")[::2]
    got = unpack(pack(Content("t", {"a": Section({}, {"x": array})}))).sections["a"].arrays["x"]
    assert got.tolist() == [0, 2, 4, 6, 8]
    assert got.dtype == np.int32


@pytest.mark.parametrize("values", [{"x": float("nan")}, {"x": float("inf")}])
def test_values_must_be_finite(values):
    with pytest.raises(ValueError, match="JSON"):
        pack(Content("t", {"a": Section(values)}))


def test_only_plain_arrays_are_written():
    with pytest.raises(InputError, match="a/x of type complex128"):
        pack(Content("t", {"a": Section({}, {"x": np.zeros(2, complex)})}))


def test_every_flipped_bit_is_noticed():
    data = pack(content())
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        with pytest.raises(InputError, match="no usable stagewise file"):
            unpack(bytes(changed))


def test_every_cut_is_noticed():
    data = pack(content())
    for end in range(len(data)):
        with pytest.raises(InputError):
            unpack(data[:end])
        with pytest.raises(InputError):
            unpack(sealed(data[:end] + bytes(32)) if end + 32 != len(data) else data[:end])


def test_a_newer_format_says_so():
    data = bytearray(pack(content()))
    data[8] = 2
    with pytest.raises(InputError, match=r"format is 2.*reads up to 1.*newer stagewise"):
        unpack(sealed(bytes(data)))


def shape(value):
    def change(header):
        header["arrays"][1][2] = value

    return change


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda h: b"{" * 100_000, "not valid JSON"),
        (lambda h: b"[" * 100_000, "not valid JSON"),
        (lambda h: b'{"a":1,"a":2}', "twice"),
        (lambda h: b'{"a":NaN}', "NaN"),
        (lambda h: b"9" * 5000, "not valid JSON"),
        (lambda h: b"\xff\xfe", "not valid JSON"),
        (lambda h: {**h, "more": 1}, "must hold"),
        (lambda h: {**h, "kind": 3}, "something else"),
        (lambda h: {**h, "sections": {"a": 1}}, "something else"),
        (lambda h: {**h, "arrays": 4}, "no list"),
        (lambda h: {**h, "arrays": [4]}, "not .name, dtype, shape"),
        (lambda h: {**h, "arrays": [["a", "<f8", [1]]]}, "no name of the form"),
        (lambda h: {**h, "arrays": [["a/b", "O", [1]]]}, "dtype"),
        (lambda h: {**h, "arrays": [["a/b", ["<f8"], [1]]]}, "dtype"),
        (lambda h: {**h, "arrays": [["c/b", "<f8", [1]]]}, "no section"),
        (lambda h: {**h, "arrays": [["a/b", "<f8", [1]], ["a/b", "<f8", [1]]]}, "twice"),
        (lambda h: {**h, "arrays": []}, "bytes follow|written between"),
        (shape([2**40]), "shape"),
        (shape([2**62, 4]), "shape"),
        (shape([-1]), "shape"),
        (shape([1.0]), "shape"),
        (shape([True]), "shape"),
        (shape([100, 100, 100, 100]), "needs 100000000 bytes"),
        (shape([1] * 5), "shape"),
    ],
)
def test_a_header_made_by_hand_with_a_fitting_checksum_is_refused(change, words):
    with pytest.raises(InputError, match=words):
        unpack(with_header(change))


def test_truth_values_are_0_or_1():
    with pytest.raises(InputError, match="truth values"):
        unpack(with_header(lambda h: {**h, "arrays": [["a/x", "|b1", [64]]]}, bytes([2]) * 64))
