"""Trees renumbered to the columns that they look at, for the rows of a sparse matrix.

A model looks at some hundreds of columns, whatever the width of the table. Blocks of rows are laid out for these
columns alone, and go the way of dense rows: the same sums in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from stagewise.data.sparse import Sparse
from stagewise.kernels.entries import fill_rows
from stagewise.kernels.predict import BLOCK
from stagewise.tree.forest import Forest
from stagewise.tree.tree import Tree

__all__ = ["Compact"]

_CELLS = 1 << 20
"""Cells of a block: 8 MiB of float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Compact:
    """A forest over few columns, and which ones they are."""

    forest: Forest
    to: np.ndarray  # int64 (n_columns): the place of a column, -1 when no tree looks at it
    n_used: int

    @classmethod
    def of(cls, trees: Sequence[Tree], outputs: Sequence[int], n_columns: int) -> Compact:
        """outputs names the class (or 0) that each tree adds to."""
        used = np.unique(np.concatenate([np.zeros(1, np.int32), *(tree.feature[tree.left >= 0] for tree in trees)]))
        to = np.full(n_columns, -1, np.int64)
        to[used] = np.arange(len(used))
        renumbered = [
            replace(tree, feature=np.where(tree.left >= 0, to[tree.feature], -1).astype(np.int32)) for tree in trees
        ]
        return cls(Forest.of(renumbered, outputs), to, len(used))

    def add(self, X: Sparse, out: np.ndarray, n_threads: int = 1) -> None:
        """out[output, row] += all trees; out is float64 (n_outputs, n_rows)."""

        def add_block(a: int, block: np.ndarray) -> None:
            own = np.ascontiguousarray(out[:, a : a + len(block)])
            self.forest.add(block, own)
            out[:, a : a + len(block)] = own

        self._each(X, add_block, n_threads)

    def leaves(self, X: Sparse, n_threads: int = 1) -> np.ndarray:
        """(n_rows, n_trees): the node number of each row's leaf."""
        out = np.empty((X.shape[0], self.forest.n_trees), np.int64)

        def write_block(a: int, block: np.ndarray) -> None:
            out[a : a + len(block)] = self.forest.leaves(block)

        self._each(X, write_block, n_threads)
        return out

    def _each(self, X: Sparse, action: Callable[[int, np.ndarray], None], n_threads: int) -> None:
        """Call action(first row, values (some rows, n_used)) for all rows, block by block, on some threads."""
        entries, n_rows = X.by_row(), X.shape[0]
        size = max(BLOCK, _CELLS // self.n_used // BLOCK * BLOCK)

        def one(a: int) -> None:
            block = np.empty((min(size, n_rows - a), self.n_used), X.dtype)
            fill_rows(0, 1, entries.start, entries.place, entries.values, self.to, X.empty, np.int64(a), block)
            block.flags.writeable = False
            action(a, block)

        starts = range(0, n_rows, size)
        if n_threads == 1 or len(starts) == 1:
            for a in starts:
                one(a)
            return
        with ThreadPoolExecutor(n_threads) as pool:  # kernels release the GIL
            list(pool.map(one, starts))
