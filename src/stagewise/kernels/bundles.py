"""Several features in one column of codes: exclusive feature bundling (Ke et al., LightGBM, NIPS 2017, section 4).

Features that are never off their default bin in the same row share a *physical* column. One code, `base`, says that
all of them are at their defaults; around it lies a range of codes for each member, one for each of its other bins:

    code     0 ... 2           3            4            5 ... 254
             bins of a         bin of b     base         ...              members by ascending feature number

Almost every row has the base code of almost every column. With code 0 for it everywhere, the entries that histograms
add to lay 2,048 bytes apart, which a first-level cache cannot hold: an addition took ten times as long.

A feature with one code in its range (a 0/1 column) is known from its entry alone. With running sums S over the codes, T
the whole node, the range lo .. last of a feature with n bins and default bin d, what lies left of the split after bin b
is S[lo+b] - S[lo-1] when b < d, and T - (S[last] - S[lo+b-1]) otherwise. So each code lo + b belongs to one split, and
one pass over the codes searches all members.

Where values are missing, they have the last code of the range (then d = 0), or are the default themselves (d = n, zeros
of a sparse matrix read as missing). Either way the rows that a split sends left are a range of codes modulo 256:
left when uint8(code + shift) <= bound, the same test as for a feature that has a column to itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stagewise.kernels.jit import device

__all__ = [
    "Bundles",
    "MIXED",
    "NO_BUNDLES",
    "PLAIN",
    "SINGLE",
    "WITH_MISSING",
    "fill_lefts",
    "left_word",
    "missing_word",
    "owner",
    "physical_column",
    "test_of",
]

PLAIN, SINGLE, MIXED, WITH_MISSING = range(4)
"""Kinds of physical columns: one feature with its own codes; one code a member; several; some for missing values."""


class Bundles(NamedTuple):
    """Which features a physical column holds. All arrays are empty when every feature has a column to itself."""

    kind: np.ndarray  # int64 (n_physical)
    base: np.ndarray  # int64 (n_physical): the code that says default of all members
    start: np.ndarray  # int64 (n_physical + 1): its features are member[start : next start], ascending
    member: np.ndarray  # int64 (n_features)
    column: np.ndarray  # int64 (n_features): the physical column of a feature ...
    first: np.ndarray  # ... its first code there, -1 when the column is its own
    size: np.ndarray  # ... the number of its codes
    default: np.ndarray  # ... the bin it has when the code is not among these; n_bins: missing
    n_bins: np.ndarray  # int64 (n_features)


_NONE = np.empty(0, np.int64)
NO_BUNDLES = Bundles(_NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE)


@device
def physical_column(bundles, feature):
    """Where a feature's codes are."""
    return bundles.column[feature] if bundles.column.shape[0] > 0 else np.int64(feature)


@device
def test_of(bundles, feature, cut, missing_left):
    """(column, shift, bound): a row goes left when code + shift <= bound, in 8 bits.

    For a feature with its own column: one up, the missing code 255 wraps round to 0 and so lies left of any cut.
    """
    if bundles.column.shape[0] == 0 or bundles.first[feature] < 0:
        shift = np.uint8(1 if missing_left else 0)
        return physical_column(bundles, feature), shift, np.uint8(cut + shift)
    lo, size, d, n = bundles.first[feature], bundles.size[feature], bundles.default[feature], bundles.n_bins[feature]
    last = lo + size - 1
    if cut < d and not (d == n and missing_left):  # left: lo .. lo + cut
        return bundles.column[feature], np.uint8((256 - lo) & 255), np.uint8(cut)
    begin = lo + cut + np.int64(d == n)  # right: begin .. last, less the missing code when that goes left
    if missing_left and d < n and size == n:
        last -= 1
    return bundles.column[feature], np.uint8(255 - last), np.uint8(255 - (last - begin + 1))


@device
def upto(sums, code):
    """The running sum with a code, 0 before the first one."""
    return sums[code] if code >= 0 else np.int64(0)


@device
def left_word(sums, bundles, feature, cut, missing_left):
    """What goes left, in any word of which `sums` (256) are the running sums of a bundle in a node."""
    lo, size, d, n = bundles.first[feature], bundles.size[feature], bundles.default[feature], bundles.n_bins[feature]
    last, total = lo + size - 1, sums[255]
    if cut < d:
        more = total - (sums[last] - upto(sums, lo - 1)) if missing_left and d == n else np.int64(0)
        return sums[lo + cut] - upto(sums, lo - 1) + more
    if missing_left and size == n:
        last -= 1
    return total - (upto(sums, last) - upto(sums, lo + cut - 1))


@device
def missing_word(sums, bundles, feature):
    """What is missing of a feature, in the same words."""
    lo, size, d, n = bundles.first[feature], bundles.size[feature], bundles.default[feature], bundles.n_bins[feature]
    if size < n:
        return np.int64(0)
    last = lo + size - 1
    return sums[255] - (sums[last] - upto(sums, lo - 1)) if d == n else sums[last] - upto(sums, last - 1)


@device
def fill_lefts(sums, bundles, column, n_codes, missing_left, out):
    """out[code] = what goes left at the split of that code, for all members of a bundle; 0 up to 256 entries.

    A member of one code: what is in the code, be that left or right; the worth of a split does not depend on it.
    """
    if bundles.kind[column] == SINGLE:
        out[0] = sums[0]
        for k in range(1, n_codes):
            out[k] = sums[k] - sums[k - 1]
    else:
        for m in range(bundles.start[column], bundles.start[column + 1]):
            feature = bundles.member[m]
            lo = bundles.first[feature]
            for b in range(bundles.size[feature]):
                out[lo + b] = left_word(sums, bundles, feature, b, missing_left)
    out[bundles.base[column]] = 0
    for k in range(n_codes, out.shape[0]):
        out[k] = 0


@device
def owner(bundles, column, code):
    """The feature that a code of a bundle belongs to."""
    m = bundles.start[column + 1] - 1
    while bundles.size[bundles.member[m]] == 0 or bundles.first[bundles.member[m]] > code:
        m -= 1
    return bundles.member[m]
