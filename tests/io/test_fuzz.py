"""Damaged files: refused with a word, or harmless. `make fuzz` does it 200,000 times."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.corpus import FORMATS, corpus
from fuzz.fuzzer import attempt, read, use
from fuzz.mutations import close_own, mutated, open_own, write_ubjson
from stagewise.errors import InputError

FUZZER = Path(__file__).parents[1] / "fuzz" / "fuzzer.py"

files = functools.cache(corpus)


@pytest.mark.parametrize("kind", FORMATS)
def test_some_damaged_files(kind):
    outcomes = [attempt(kind, mutated(kind, seed, files())) for seed in range(150)]
    assert {"refused", "loaded"} == set(outcomes)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_fuzzer_starts_from_sound_files(kind):
    for data in files()[kind][:4]:
        use(read(kind, data))


def test_its_tools_do_no_damage_by_themselves():
    for data in files()["own"]:
        header, arrays = open_own(data)
        use(read("own", close_own(header, arrays)))
    assert mutated("json", 5, files()) == mutated("json", 5, files())
    assert write_ubjson({"a": [1, 0.5, None, True, "é"]})[:1] == b"{"


@pytest.mark.parametrize("kind", FORMATS)
def test_what_has_nothing_to_do_with_it(kind):
    for data in (b"", b"\x00", b"{}", b"{}\n", b"tree\n", bytes(100), b"\xff" * 1000, b"[" * 5000, b"{" * 5000):
        with pytest.raises(InputError):
            read(kind, data)


@pytest.mark.slow
def test_many_damaged_files_in_limited_processes():
    command = [sys.executable, "-W", "ignore", str(FUZZER), "--cases", "20000", "--seed", "500000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "20,000 files, 0 failures" in done.stdout
