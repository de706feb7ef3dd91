"""Drawing rows by the codes of their scores (scores.py), and the pairs of the rows that were drawn.

A sampler gives every code a probability (chances.py); a row is taken when the hash of its number is below that.
Nothing is sorted, and nobody's turn comes first: the same rows for any number of threads.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.exact import mix
from stagewise.kernels.jit import device, kernel, merged
from stagewise.kernels.lanes import COMPRESSES, LANES, below_mask, count_ones, store_chosen
from stagewise.kernels.pairs import CHUNK, largest, pack, pack_rows, widen_rows
from stagewise.kernels.scores import ABSENT, CODES, code_rows, count_codes
from stagewise.kernels.team import barrier, share

__all__ = ["count_all", "draw_pairs", "draw_rows", "gather_pairs", "scatter_words", "score_codes"]


@kernel(arrays=True)
def score_codes(tid, n_threads, grad, scores):
    """The codes of all rows, whose score is the sum of their |grad| over the outputs. grad (n_outputs, n_rows)."""
    k0, k1 = share(0, grad.shape[1], tid, n_threads)
    score = np.empty(CHUNK)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        for i in range(b - a):
            score[i] = 0.0
        for k in range(grad.shape[0]):
            g = grad[k, a:b]
            for i in range(b - a):
                score[i] += abs(g[i]) * scores.scale
        code_rows(score, 1.0, scores, a, b, tid)


@kernel
def count_all(tid, n_threads, codes, counts):
    """The rows of each code, each thread its part."""
    k0, k1 = share(0, codes.shape[0], tid, n_threads)
    count_codes(codes[k0:k1], counts[tid])


if COMPRESSES:

    @merged
    def list_below(hashes, bounds, numbers, count, out, n, bits, place):
        """Those of numbers[:count] whose hash is below its bound, to out[n:]; n after them. Where there is room for
        them, `bits` from `place` on have a bit for each. Bounds beyond `count`, to a multiple of 64, are 0."""
        k, end, lanes = np.uint64(0), np.uint64((count + 63) // 64 * 64), np.uint64(LANES)
        while k < end:
            mask = below_mask(hashes, bounds, k)
            store_chosen(numbers, k, mask, out, n)
            n += count_ones(mask)
            if bits.shape[0] > 0:
                bits[place] = mask
                place += 1
            k += lanes
        return n

else:

    @merged
    def list_below(hashes, bounds, numbers, count, out, n, bits, place):
        """The same, one by one; there is never room for bits."""
        for i in range(count):
            out[n] = numbers[i]  # without a branch: overwritten unless it counts
            n += np.uint64(hashes[i] < bounds[i])
        return n


@device
def step_of(below):
    """The code such that all lower ones have one bound and all higher ones another, as in goss; 0 if there is none."""
    first, last, edge = below[1], below[CODES - 1], np.int64(1)
    while edge < CODES - 1 and below[edge] == first:
        edge += 1
    others = np.int64(0)
    for code in range(edge + 1, CODES):
        others += np.int64(below[code] != last)
    return np.uint16(edge if others == 0 else 0)


@device
def find_bounds(codes, below, edge, bounds):
    """bounds = below[codes]; where there is an edge it is found by comparing, in a seventh of the time."""
    if edge == 0:
        for i in range(codes.shape[0]):
            bounds[i] = below[codes[i]]
        return
    absent, low, middle, high = below[ABSENT], below[1], below[edge], below[CODES - 1]
    for i in range(codes.shape[0]):
        code = codes[i]
        bound = high if code > edge else (low if code < edge else middle)
        bounds[i] = absent if code == ABSENT else bound


@kernel(arrays=True)
def draw_rows(tid, n_threads, gate, codes, key, below, factor, scratch, drawn, bits, chosen, weight):
    """chosen = the rows whose hash (31 bits) is below that of their code, ascending, with weight factor[code].

    below: uint32 (CODES). scratch: uint32 (n_rows); drawn: int64 (n_threads, 8). bits: uint16, a bit for each row that
    says whether it was drawn, in whole words of 64; or empty. The number chosen.
    """
    n_rows = codes.shape[0]
    w0, w1 = share(0, (n_rows + 63) // 64, tid, n_threads)
    k0, k1 = 64 * w0, min(64 * w1, n_rows)
    mine = scratch[k0:k1]
    hashes, bounds, numbers = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    n, edge = np.uint64(0), step_of(below)
    for a in range(k0, k1, CHUNK):
        own_codes = codes[a : min(a + CHUNK, k1)]
        count = own_codes.shape[0]
        for i in range(CHUNK):  # in vectors
            hashes[i] = np.uint32(mix(key, a + i) >> np.uint64(33))
            numbers[i] = a + i
        find_bounds(own_codes, below, edge, bounds)
        for i in range(count, (count + 63) // 64 * 64):  # nobody
            bounds[i] = 0
        n = list_below(hashes, bounds, numbers, count, mine, n, bits, a // LANES)
    drawn[tid, 0] = n
    if barrier(gate, n_threads):
        return np.int64(-1)
    before, total = np.int64(0), np.int64(0)
    for t in range(n_threads):
        before += drawn[t, 0] if t < tid else np.int64(0)
        total += drawn[t, 0]
    own, own_weight = chosen[before : before + np.int64(n)], weight[before : before + np.int64(n)]
    for k in range(own.shape[0]):
        own[k] = mine[k]
        own_weight[k] = factor[codes[mine[k]]]
    return total


@kernel
def gather_pairs(tid, n_threads, index, factor, grad, hess, weight, update, peaks, out):
    """Pairs (n_outputs, n) and weights of the n listed rows, times factor (one each), in `out`: all grad, all hess,
    weights. A single output is packed on the way, in the way that `update` expects to be right.

    weight (n_rows) is empty when every row weighs 1; then no weights are written to `out`: they would be factor.
    peaks[tid] = largest |grad|, hess and weight of this thread's part.
    """
    n, n_outputs = index.shape[0], grad.shape[0]
    pairs = out[: 2 * n_outputs * n].reshape((2, n_outputs, n))
    weights = out[2 * n_outputs * n :] if weight.shape[0] > 0 else factor
    k0, k1 = share(0, n, tid, n_threads)
    for a in range(k0, k1, CHUNK):
        b = min(a + CHUNK, k1)
        rows, times = index[a:b], factor[a:b]
        for q in range(n_outputs):
            g, h, own_grad, own_hess = grad[q], hess[q], pairs[0, q, a:b], pairs[1, q, a:b]
            for k in range(b - a):
                own_grad[k] = g[rows[k]] * times[k]
                own_hess[k] = h[rows[k]] * times[k]
            peaks[tid, 0], peaks[tid, 1] = largest(own_grad, peaks[tid, 0]), largest(own_hess, peaks[tid, 1])
        if weight.shape[0] > 0:
            own_weight = weights[a:b]
            for k in range(b - a):
                own_weight[k] = weight[rows[k]] * times[k]
        peaks[tid, 2] = largest(weights[a:b], peaks[tid, 2])
        pack(update, a, b, tid, weights, pairs[0, 0], pairs[1, 0])


@kernel
def draw_pairs(tid, n_threads, gate, codes, key, below, factor, scratch, drawn, bits, chosen, weight, pairs, room):
    """`draw_rows`, and `gather_pairs` of the rows drawn if there are at most `room`: one call of the threads instead of
    two. pairs: what the latter is told beside rows and factors. The number drawn."""
    n = draw_rows(tid, n_threads, gate, codes, key, below, factor, scratch, drawn, bits, chosen, weight)
    if 0 < n <= room and not barrier(gate, n_threads):
        gather_pairs(tid, n_threads, chosen[:n], weight[:n], *pairs)
    return n


@kernel(arrays=True)
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
