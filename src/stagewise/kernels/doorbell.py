"""A word in memory that two processes share: one counts its messages in it, the other waits for them.

Who waits looks for a while, giving its core away in between. Then it says that it is going to sleep, and who posts the
message has to wake it by other means. Both say first and look afterwards, in one order for all: at least one of them
sees the other.
"""

from __future__ import annotations

from stagewise.kernels.jit import atomic_add, atomic_load, kernel, yield_core

__all__ = ["DOORBELL_WORDS", "await_post", "post"]

DOORBELL_WORDS = 16
"""int64 words: the last message's number at 0, the number that is waited for in sleep at 8; one cache line each."""

_SPINS = 64
"""Looks before the core is given away in between, as in team.py."""


@kernel
def post(words, number):
    """Message `number` is there, with everything that was written before. True when the other side sleeps."""
    atomic_add(words, 0, number - words[0])
    return atomic_add(words, 8, 0) == number


@kernel
def await_post(words, number, looks):
    """Whether message `number` is there, after so many looks; False means that the other side knows that we sleep."""
    for k in range(looks):
        if atomic_load(words, 0) >= number:
            return True
        if k > _SPINS:
            yield_core()
    atomic_add(words, 8, number - words[8])
    return atomic_add(words, 0, 0) >= number
