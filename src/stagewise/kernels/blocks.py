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


@merged
def piece_of(packing):
    """Rows that are added between two looks at how full the entries are. The more room is left in a block, the more
    often a look is enough."""
    return packing.block - packing.block // 16


@device
def relieve(packed, grad, hess, n_columns, packing, fresh):
    """Make room for a piece of rows in every entry of the packed sums: those of a column go to the wide words if one of
    its entries has too many. Whether the wide words are still to be overwritten, as `fresh` says before.

    The bits of all counts of a column together are no less than the largest one. That is found in a tenth of the time
    that moving them takes, and mostly enough: an entry gets few of a block's rows.
    """
    never_inline()
    for j in range(n_columns):
        q0, q1, every = j * PITCH, (j + 1) * PITCH, np.int64(0)
        own = packed[q0:q1]
        for q in range(own.shape[0]):
            every |= own[q]
        if packing.block - (every & packing.count_mask) < piece_of(packing):
            if fresh:
                clear(grad)
                clear(hess)
                fresh = False
            flush(own, grad[q0:q1], hess[q0:q1], packing, False)
    for j in range(n_columns, packed.shape[0] // PITCH):  # padding: all rows have code 0, and nobody wants to know
        packed[j * PITCH] = 0
    return fresh


@device
def fill_blocks(bins, words, more_words, rows, start, stop, c0, c1, packing, packed, grad, hess):
    """The wide histograms of some rows; `packed` (all zero before and after) holds as many as it can."""
    never_inline()
    k, q0, q1, fresh = start, c0 * PITCH, c1 * PITCH, packing.narrow and start < stop
    n_columns = min(c1, bins.n_bins.shape[0]) - c0
    if not fresh:
        clear(grad[q0:q1])
        clear(hess[q0:q1])
    if not packing.narrow:
        add_wide(bins.by_row, bins.stride, words, more_words, rows, start, stop, c0, c1, grad, hess)
        return
    while k < stop:
        end = min(stop, k + piece_of(packing))
        if k > start:
            fresh = relieve(packed[q0:q1], grad[q0:q1], hess[q0:q1], n_columns, packing, fresh)
        add_rows(bins.by_row, bins.stride, words, rows, k, end, c0, c1, packed)
        k = end
    flush(packed[q0:q1], grad[q0:q1], hess[q0:q1], packing, fresh)


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
    piece = min(piece_of(packing), (stop - start) // (4 * n_threads) + 1)
    k = start + piece * next_turn(gate)
    while k < stop:
        end = min(stop, k + piece)
        if not packing.narrow:
            add_wide(bins.by_row, bins.stride, words, more_words, rows, k, end, c0, c1, grad, hess)
        else:
            if room < piece:
                fresh, room = relieve(packed, grad, hess, bins.n_bins.shape[0], packing, fresh), piece_of(packing)
            add_rows(bins.by_row, bins.stride, words, rows, k, end, c0, c1, packed)
            room -= end - k
        k = start + piece * next_turn(gate)
    if packing.narrow:
        flush(packed, grad, hess, packing, fresh)


@device
def sample_share(sample, bins, words, fours, start, stop, packing, pools, gate, tid):
    """`build_share` for the root of a sample whose rows have not been copied yet: does that too."""
    never_inline()
    packed, grad, hess = pools.own_packed[tid], pools.own_grad[tid], pools.own_hess[tid]
    c0, c1, room, fresh = np.int64(0), width_of(bins), packing.block, True
    piece = min(piece_of(packing), np.int64(_SAMPLE_PIECE))
    k = start + piece * next_turn(gate)
    while k < stop:
        end = min(stop, k + piece)
        copy_rows(sample, fours, k, end)
        if room < piece:
            fresh, room = relieve(packed, grad, hess, bins.n_bins.shape[0], packing, fresh), piece_of(packing)
        add_run(bins.by_row, bins.stride, words, np.uint64(k), np.uint64(end), c0, c1, packed)
        room -= end - k
        k = start + piece * next_turn(gate)
    flush(packed, grad, hess, packing, fresh)


@kernel
def histogram_of_rows(bins, words, more_words, rows, packing, pools):
    """The wide histogram of the given rows into slot 0: one step of growth on its own, for tests and measurements."""
    build_columns(bins, words, more_words, rows, 0, rows.shape[0], 0, width_of(bins), packing, True, 0, pools, 0)
