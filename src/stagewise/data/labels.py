"""What goes with rows that come in batches: numbers, or text as codes and the few texts they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stagewise.errors import InputError, InputTypeError

__all__ = ["Labels", "Vector"]


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Text labels of many rows: 4 bytes a row. As an array it is the array of the texts."""

    classes: np.ndarray  # object (K,): str, sorted, none twice
    codes: np.ndarray  # int32 (n_rows,): the place of each row's label among them

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Labels:
        """The labels of some rows, given as a slice or an array."""
        return Labels(self.classes, self.codes[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        texts: np.ndarray = self.classes[self.codes]
        return texts if dtype is None else texts.astype(dtype)

    def seen(self) -> tuple[np.ndarray, np.ndarray]:
        """(classes, codes) without the classes that no row has."""
        there = np.bincount(self.codes, minlength=len(self.classes)) > 0
        place = np.cumsum(there) - 1
        return self.classes[there], place[self.codes]


class Vector:
    """One value a row, put together from the pieces of batches."""

    def __init__(self, name: str) -> None:
        self.name, self.n_rows = name, 0
        self._numbers: list[np.ndarray] = []
        self._codes: list[np.ndarray] = []
        self._texts: dict[str, int] = {}

    def add(self, values: Any, n_rows: int) -> np.ndarray:
        """The next piece, which must have n_rows values, none missing; it is returned as a plain array."""
        from stagewise.data.target import plain_numbers, read_piece

        piece = read_piece(values, n_rows, self.name, self.n_rows)
        text = piece.dtype.kind in "UOT"
        if text and not all(isinstance(own, str) for own in piece.tolist()):
            kinds = {type(own) for own in piece.tolist()}
            if any(issubclass(kind, str) for kind in kinds):
                names = ", ".join(sorted(kind.__name__ for kind in kinds))
                raise InputTypeError(f"{self.name} holds objects ({names}); it must hold numbers, or text alone.")
            piece, text = plain_numbers(piece, self.name), False
        if self.n_rows and text != bool(self._codes):
            raise InputError(f"{self.name} holds {'text' if text else 'numbers'} from row {self.n_rows} on, and "
                             f"{'numbers' if text else 'text'} before.")  # fmt: skip
        if text:
            known = self._texts
            self._codes.append(
                np.fromiter((known.setdefault(own, len(known)) for own in piece.tolist()), np.int32, len(piece))
            )
        else:
            self._numbers.append(piece.copy())  # the batch may be memory that is used again
        self.n_rows += n_rows
        return piece

    def finish(self) -> np.ndarray | Labels:
        """All of it."""
        if not self._codes:
            numbers, self._numbers = self._numbers, []
            return np.concatenate(numbers)
        texts = np.array(sorted(self._texts), dtype=object)
        place = np.empty(len(texts), np.int32)
        place[[self._texts[own] for own in texts.tolist()]] = np.arange(len(texts))
        codes, self._codes = self._codes, []
        return Labels(texts, place[np.concatenate(codes)])
