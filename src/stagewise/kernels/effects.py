"""Main effects and interactions, leaf by leaf.

With zᵢ the expectation of "condition i is met" and oᵢ whether it is, a leaf of value v adds to the dependence on column
j, on j and k, and on everything but j

    v Π_{i≠j} zᵢ · oⱼ          v Π_{i≠j,k} zᵢ · oⱼ oₖ          v zⱼ · Π_{i≠j} oᵢ

so what remains of F_jk - F_j - F_k is v Π_{i≠j,k} zᵢ (oⱼ - zⱼ)(oₖ - zₖ), and of F - F_j - F_{not j}
v (oⱼ - zⱼ)(Π_{i≠j} oᵢ - Π_{i≠j} zᵢ), both up to a constant: exactly nothing for columns that share no path.
"""

from __future__ import annotations

import numpy as np

from stagewise.kernels.jit import device, kernel
from stagewise.kernels.paths import holds
from stagewise.kernels.team import share

__all__ = ["component_tables", "row_effects"]


@device
def others(z, m, j, k):
    """Product of z without places j and k."""
    product = 1.0
    for i in range(m):
        if i != j and i != k:
            product *= z[i]
    return product


@kernel(arrays=True)
def row_effects(tid, n_threads, X, paths, output, pair, main, joint, rest):
    """Effects of one output at every row: main (n_columns, n), joint (n_pairs, n), rest (n_columns, n); all added to.

    main: of single columns, zero on average along the paths; joint: the interaction of two columns, where
    pair[j, k] >= 0 says its line; rest: of a column with all others together, left out when it has no lines.
    """
    k0, k1 = share(0, X.shape[0], tid, n_threads)
    longest = 1
    for leaf in range(paths.value.shape[0]):
        longest = max(longest, paths.start[leaf + 1] - paths.start[leaf])
    met, gap, alone = np.empty(longest), np.empty(longest), np.empty(longest)
    both = np.empty((longest, longest))
    for leaf in range(paths.value.shape[0]):
        if paths.output[leaf] != output:
            continue
        first = paths.start[leaf]
        m = paths.start[leaf + 1] - first
        v, z = paths.value[leaf], paths.ratio[first : first + m]
        for c in range(m):
            alone[c] = v * others(z, m, c, c)
            for d in range(c):
                both[c, d] = v * others(z, m, c, d)
        for i in range(k0, k1):
            failed, which = 0, -1
            for c in range(m):
                q = first + c
                holding = holds(
                    X[i, paths.column[q]], paths.low[q], paths.high[q], paths.missing[q], paths.subset[q], paths.sets
                )  # fmt: skip
                met[c] = 1.0 if holding else 0.0
                gap[c] = met[c] - z[c]
                if not holding:
                    failed += 1
                    which = c
            for c in range(m):
                j = paths.column[first + c]
                main[j, i] += alone[c] * gap[c]
                if rest.shape[0] > 0:
                    elsewhere = v if failed == 0 or (failed == 1 and which == c) else 0.0  # met by all others
                    rest[j, i] += gap[c] * (elsewhere - alone[c])
                for d in range(c):
                    line = pair[j, paths.column[first + d]]
                    if line >= 0:
                        joint[line, i] += both[c, d] * gap[c] * gap[d]


@kernel
def component_tables(paths, output, runs, begin, end, size, single, pair, main, joint):
    """Sums over leaves of what single columns and pairs of columns do, on cells; of one output.

    Column j is divided into size[j] cells. Condition c holds in the runs[c] to runs[c + 1] of cells of its column, run
    r being the cells begin[r] to end[r]. main[single[j] + cell] and joint[pair[j, k] + cell of j * size[k] + cell of k]
    (j < k, pair >= 0) are added to: products of expectations of the other conditions, `paths.ratio`, and the leaf's
    value.
    """
    for leaf in range(paths.value.shape[0]):
        if paths.output[leaf] != output:
            continue
        first = paths.start[leaf]
        m = paths.start[leaf + 1] - first
        v, z = paths.value[leaf], paths.ratio[first : first + m]
        for c in range(m):
            p = first + c
            j = paths.column[p]
            alone = v * others(z, m, c, c)
            for r in range(runs[p], runs[p + 1]):
                for g in range(begin[r], end[r]):
                    main[single[j] + g] += alone
            for d in range(m):
                q = first + d
                k = paths.column[q]
                if j >= k or pair[j, k] < 0:
                    continue
                both = v * others(z, m, c, d)
                for r in range(runs[p], runs[p + 1]):
                    for g in range(begin[r], end[r]):
                        line = joint[pair[j, k] + g * size[k] : pair[j, k] + (g + 1) * size[k]]
                        for o in range(runs[q], runs[q + 1]):
                            for h in range(begin[o], end[o]):
                                line[h] += both
