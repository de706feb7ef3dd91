"""Wide histograms, a block at a time: rows are added to one int64 an entry, which is moved to two before it runs over.

A large node's rows are divided among the threads piece by piece, to whoever is free: on a shared machine one core is
often slower than the other for a while, and nobody should wait for it. Sums are of integers, so the result does not
depend on who added which piece.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.histogram import PITCH, add_rows, add_run, add_wide, clear, width_of
from stagewise.kernels.jit import device, kernel, merged, never_inline
from stagewise.kernels.sample import copy_rows
from stagewise.kernels.team import next_turn

__all__ = ["build_columns", "build_share", "fill_blocks", "flush", "histogram_of_rows", "sample_share"]

_SAMPLE_PIECE = 1024
"""Rows of a sample that are copied, and then added from where they are now."""


@device
def flush(packed, out_grad, out_hess, packing, fresh):
    """Move packed sums to the wide words and clear them. fresh: the wide words are overwritten, whatever they hold.

    (Loops from 0 over views are vectorised.)"""
    if fresh:
        for q in range(packed.shape[0]):
            v = packed[q]
            packed[q] = 0
            out_grad[q] = v >> packing.grad_shift
            h = (v >> packing.hess_shift) & packing.hess_mask
            out_hess[q] = (h << packing.count_bits) + (v & packing.count_mask)
        return
    for q in range(packed.shape[0]):
        v = packed[q]
        packed[q] = 0
        out_grad[q] += v >> packing.grad_shift
        h = (v >> packing.hess_shift) & packing.hess_mask
        out_hess[q] += (h << packing.count_bits) + (v & packing.count_mask)


@device
def fill_blocks(bins, words, more_words, rows, start, stop, c0, c1, packing, packed, grad, hess):
    """The wide histograms of some rows; `packed` (all zero before and after) holds one block at a time."""
    never_inline()
    k, q0, q1, fresh = start, c0 * PITCH, c1 * PITCH, packing.narrow and start < stop
    if not fresh:
        clear(grad[q0:q1])
        clear(hess[q0:q1])
    if not packing.narrow:
        add_wide(bins.by_row, bins.stride, words, more_words, rows, start, stop, c0, c1, grad, hess)
        return
    while k < stop:
        end = min(stop, k + packing.block)
        add_rows(bins.by_row, bins.stride, words, rows, k, end, c0, c1, packed)
        flush(packed[q0:q1], grad[q0:q1], hess[q0:q1], packing, fresh)
        k, fresh = end, False


@merged
def build_columns(bins, words, more_words, rows, start, stop, c0, c1, packing, wide, slot, pools, tid):
    """A node's histogram for columns c0..c1, straight into its slot."""
    if wide:
        fill_blocks(
            bins, words, more_words, rows, start, stop, c0, c1, packing,
            pools.own_packed[tid], pools.grad[slot], pools.hess[slot],
        )  # fmt: skip
    else:
        clear(pools.packed[slot, c0 * PITCH : c1 * PITCH])
        add_rows(bins.by_row, bins.stride, words, rows, start, stop, c0, c1, pools.packed[slot])


@device
def build_share(bins, words, more_words, rows, start, stop, packing, pools, gate, tid, n_threads):
    """The pieces of a large node's rows whose turn this thread gets, all columns, into its own wide histogram."""
    never_inline()
    packed, grad, hess = pools.own_packed[tid], pools.own_grad[tid], pools.own_hess[tid]
    c0, c1, room, fresh = np.int64(0), width_of(bins), packing.block, packing.narrow
    if not fresh:
        clear(grad)
        clear(hess)
    piece = min(packing.block, (stop - start) // (4 * n_threads) + 1)
    k = start + piece * next_turn(gate)
    while k < stop:
        end = min(stop, k + piece)
        if not packing.narrow:
            add_wide(bins.by_row, bins.stride, words, more_words, rows, k, end, c0, c1, grad, hess)
        else:
            if room < piece:
                flush(packed, grad, hess, packing, fresh)
                room, fresh = packing.block, False
            add_rows(bins.by_row, bins.stride, words, rows, k, end, c0, c1, packed)
            room -= end - k
        k = start + piece * next_turn(gate)
    if fresh or room < packing.block:
        flush(packed, grad, hess, packing, fresh)


@device
def sample_share(sample, bins, words, fours, start, stop, packing, pools, gate, tid):
    """`build_share` for the root of a sample whose rows have not been copied yet: does that too."""
    never_inline()
    packed, grad, hess = pools.own_packed[tid], pools.own_grad[tid], pools.own_hess[tid]
    c0, c1, room, fresh = np.int64(0), width_of(bins), packing.block, True
    piece = min(packing.block, np.int64(_SAMPLE_PIECE))
    k = start + piece * next_turn(gate)
    while k < stop:
        end = min(stop, k + piece)
        copy_rows(sample, fours, k, end)
        if room < piece:
            flush(packed, grad, hess, packing, fresh)
            room, fresh = packing.block, False
        add_run(bins.by_row, bins.stride, words, np.uint64(k), np.uint64(end), c0, c1, packed)
        room -= end - k
        k = start + piece * next_turn(gate)
    if fresh or room < packing.block:
        flush(packed, grad, hess, packing, fresh)


@kernel
def histogram_of_rows(bins, words, more_words, rows, packing, pools):
    """The wide histogram of the given rows into slot 0: one step of growth on its own, for tests and measurements."""
    build_columns(bins, words, more_words, rows, 0, rows.shape[0], 0, width_of(bins), packing, True, 0, pools, 0)
