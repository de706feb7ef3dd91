"""Drawing rows by the size of their gradients, and the pairs of the rows that were drawn.

A row's score gets a code: its exponent and the first eight bits behind it, so that 8,191 codes reach 32 octaves down
from the largest score. How many rows have each code is all that a sampler needs to know to give every code a
probability; a row is then taken when the hash of its number is below that. Nothing is sorted, no sum of floats is
taken, and nobody's turn comes first: the same rows for any number of threads.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.exact import mix
from stagewise.kernels.jit import float_bits, kernel
from stagewise.kernels.pairs import CHUNK, largest, pack_rows, widen_rows
from stagewise.kernels.team import barrier, share

__all__ = ["ABSENT", "CODES", "draw_rows", "gather_pairs", "scatter_words", "score_codes"]

CODES = 8192
ABSENT = 0
"""The code of rows that take no part in training."""

_SHIFT = 44
_TOP = np.int64((0x3FF0000000000000 >> _SHIFT) - (CODES - 1))  # a score of 1 has the last code


@kernel
def score_codes(tid, n_threads, grad, skip, scale, codes, counts):
    """codes[i] = the code of a row's score, the sum of its |grad| over the outputs.

    grad (n_outputs, n_rows); scale brings scores to at most 1. skip: bool, empty when all rows take part; the others
    get ABSENT. counts[tid] (CODES) must be zero and holds how many of this thread's rows have each code.
    """
    k0, k1 = share(0, codes.shape[0], tid, n_threads)
    score, own = np.empty(CHUNK), counts[tid]
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        n, found = b - a, codes[a:b]
        for i in range(n):
            score[i] = 0.0
        for k in range(grad.shape[0]):
            g = grad[k, a:b]
            for i in range(n):
                score[i] += abs(g[i]) * scale
        for i in range(n):
            code = (float_bits(score[i]) >> np.int64(_SHIFT)) - _TOP
            code = code if code > 1 else np.int64(1)
            found[i] = code if code < CODES else np.int64(CODES - 1)  # NaN too
        if skip.shape[0] > 0:
            for i in range(n):
                found[i] = ABSENT if skip[a + i] else found[i]
        for i in range(n):
            own[found[i]] += 1


@kernel
def draw_rows(tid, n_threads, gate, codes, key, below, factor, scratch, drawn, chosen, weight):
    """chosen = the rows whose hash (63 bits) is below that of their code, ascending, with weight factor[code].

    below: uint64 (CODES), 2**63 for always. scratch: uint32 (n_rows); drawn: int64 (n_threads, 8). The number chosen.
    """
    k0, k1 = share(0, codes.shape[0], tid, n_threads)
    mine = scratch[k0:k1]
    hashes = np.empty(CHUNK, np.uint64)
    n = np.int64(0)
    for a in range(k0, k1, CHUNK):
        for i in range(CHUNK):  # in vectors
            hashes[i] = mix(key, a + i) >> np.uint64(1)
        for i in range(min(CHUNK, k1 - a)):
            taken = hashes[i] < below[codes[a + i]]
            mine[n] = a + i  # without a branch: overwritten unless it counts
            n += np.int64(taken)
    drawn[tid, 0] = n
    if barrier(gate, n_threads):
        return np.int64(-1)
    before = np.int64(0)
    for t in range(tid):
        before += drawn[t, 0]
    own, own_weight = chosen[before : before + n], weight[before : before + n]
    for k in range(n):
        own[k] = mine[k]
        own_weight[k] = factor[codes[mine[k]]]
    total = np.int64(0)
    for t in range(n_threads):
        total += drawn[t, 0]
    return total


@kernel
def gather_pairs(tid, n_threads, index, factor, grad, hess, weight, out_grad, out_hess, out_weight, peaks):
    """Pairs (n_outputs, len(index)) and weights of the listed rows, times factor (one each).

    weight (n_rows) is empty when every row weighs 1. peaks[tid] = largest |grad| and hess of this thread's part.
    """
    k0, k1 = share(0, index.shape[0], tid, n_threads)
    weighted = weight.shape[0] > 0
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        rows, times = index[a:b], factor[a:b]
        for q in range(grad.shape[0]):
            g, h, own_grad, own_hess = grad[q], hess[q], out_grad[q, a:b], out_hess[q, a:b]
            for k in range(b - a):
                own_grad[k] = g[rows[k]] * times[k]
                own_hess[k] = h[rows[k]] * times[k]
            peaks[tid, 0], peaks[tid, 1] = largest(own_grad, peaks[tid, 0]), largest(own_hess, peaks[tid, 1])
        for k in range(b - a):
            out_weight[a + k] = weight[rows[k]] * times[k] if weighted else times[k]


@kernel
def scatter_words(tid, n_threads, index, grad, hess, packing, words, more_words, lost):
    """`pairs.quantize` for listed rows: the pair k belongs to row index[k]."""
    k0, k1 = share(0, index.shape[0], tid, n_threads)
    first, second = np.empty(CHUNK, np.int64), np.empty(CHUNK, np.int64)
    few = np.int64(0)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        if packing.narrow:
            few += pack_rows(grad[a:b], hess[a:b], packing, first[: b - a])
        else:
            widen_rows(grad[a:b], hess[a:b], packing, first[: b - a], second[: b - a])
            for k in range(b - a):
                more_words[index[a + k]] = second[k]
        for k in range(b - a):
            words[index[a + k]] = first[k]
    lost[tid, 0] = few
