"""Words that two processes share: nobody sleeps past a message."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import naive_shards
from stagewise.kernels.doorbell import DOORBELL_WORDS, await_post, post
from stagewise.kernels.jit import JIT


def test_side_by_side_with_the_slow_twins():
    rng = np.random.default_rng(0)
    words, slow = np.zeros(DOORBELL_WORDS, np.int64), [0] * DOORBELL_WORDS
    sent = 0
    for _ in range(200):
        if rng.random() < 0.5:
            sent += int(rng.integers(1, 3))
            assert post(words, sent) == naive_shards.post(slow, sent)
        wanted = sent + int(rng.integers(0, 2))
        assert await_post(words, wanted, int(rng.integers(1, 3))) == naive_shards.await_post(slow, wanted)
        assert words.tolist() == slow


@pytest.mark.skipif(not JIT, reason="plain Python holds the GIL")
@pytest.mark.parametrize("looks", [0, 1000])
def test_whoever_sleeps_is_woken(looks):
    """Two threads take turns 2,000 times; a semaphore is the bell. One that was not rung would be a time-out."""
    words = np.zeros((2, DOORBELL_WORDS), np.int64)
    bells = [threading.Semaphore(0), threading.Semaphore(0)]
    late: list[int] = []

    def side(me: int) -> None:
        for number in range(1, 2001):
            if post(words[me], number):
                bells[1 - me].release()
            while not await_post(words[1 - me], number, looks):
                if not bells[me].acquire(timeout=10.0):
                    late.append(number)
                    return

    threads = [threading.Thread(target=side, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60.0)
    assert not late
    assert (words[:, 0] == 2000).all()
