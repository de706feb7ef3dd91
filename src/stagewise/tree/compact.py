"""Trees renumbered to the columns that they look at, for the rows of a sparse matrix.

A model looks at some hundreds of columns, whatever the width of the table. Blocks of rows are laid out for these
columns alone, and go the way of dense rows: the same sums in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stagewise.data.sparse import Sparse
from stagewise.kernels.entries import fill_rows
from stagewise.kernels.predict import BLOCK
from stagewise.kernels.team import Team
from stagewise.tree.forest import Forest
from stagewise.tree.tree import Tree

__all__ = ["Compact"]

_CELLS = 1 << 21
"""Cells of a block: 16 MiB of float64."""


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
        for a, block in self._blocks(X, n_threads):
            own = np.ascontiguousarray(out[:, a : a + len(block)])
            self.forest.add(block, own, 0, None, n_threads)
            out[:, a : a + len(block)] = own

    def leaves(self, X: Sparse, n_threads: int = 1) -> np.ndarray:
        """(n_rows, n_trees): the node number of each row's leaf."""
        return np.concatenate([self.forest.leaves(block, n_threads) for _, block in self._blocks(X, n_threads)])

    def _blocks(self, X: Sparse, n_threads: int) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, values (some rows, n_used)), block after block."""
        entries, n_rows = X.by_row(), X.shape[0]
        size = max(BLOCK, _CELLS // self.n_used)
        with Team(n_threads if n_rows * self.n_used > _CELLS else 1) as team:
            for a in range(0, n_rows, size):
                block = np.empty((min(size, n_rows - a), self.n_used), X.dtype)
                team.run(
                    fill_rows, entries.start, entries.place, entries.values, self.to, X.empty, np.int64(a), block
                )  # fmt: skip
                block.flags.writeable = False
                yield a, block
