"""Tables that stay on disk: chosen from, trained on and looked at in batches, with the results they have in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stagewise.cli.source import arrow
from stagewise.cli.stream import Stream, on_disk
from stagewise.cli.table import (
    Choice,
    Loaded,
    check_columns,
    chosen_rows,
    column_of,
    divided,
    notes_on,
    target_values,
)
from stagewise.cli.terminal import row_bar
from stagewise.errors import InputError, ParameterError

if TYPE_CHECKING:
    from stagewise.data.batches import Batch
    from stagewise.report.scores import Predicted

__all__ = ["ANYWHERE", "Place", "Streamed", "fit_streamed", "looked_at", "stream_table"]

_SHOWN_ROWS = 100_000  # rows that a report looks at
_SHOWN_CELLS = 20_000_000
_SHOWN = 0x73686F77  # "show": the hash stream that draws them


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is while it is trained on: on disk or not (None: as memory allows), its cache, a bar or not."""

    disk: bool | None = None
    cache: str | None = None
    shown: bool = False

    def on_disk(self, choice: Choice) -> bool:
        if self.cache is None:
            return on_disk(choice.path, choice.form, choice.delimiter, self.disk)
        if self.disk is False:
            raise InputError("--cache is for tables that stay on disk; leave it out, or --in-memory.")
        if Path(self.cache).exists() and not Path(self.cache).is_dir():
            raise InputError(f"--cache {self.cache} must be a folder.")
        return on_disk(choice.path, choice.form, choice.delimiter, True)


ANYWHERE = Place()


@dataclass(frozen=True, slots=True, eq=False)
class Streamed:
    """As `Loaded`, but X and the weights are in their files.

    all_y: (n,) of the rows that the choice chooses; rows: bool (n,), which of them these are; None: all.
    """

    stream: Stream
    choice: Choice
    all_y: np.ndarray
    rows: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    @property
    def y(self) -> np.ndarray:
        return self.all_y if self.rows is None else self.all_y[self.rows]

    @property
    def n_rows(self) -> int:
        return len(self.all_y) if self.rows is None else int(np.count_nonzero(self.rows))

    @property
    def n_columns(self) -> int:
        own = self.choice
        return len(set(self.stream.schema.names) - {own.target, own.weight, *own.ignore})

    def take(self, rows: np.ndarray) -> Streamed:
        """Some rows of all that were chosen; they stay in the order of the files."""
        mask = np.zeros(len(self.all_y), np.bool_)
        mask[rows] = True
        return replace(self, rows=mask)

    def batches(self) -> Iterator[Loaded]:
        """These rows, some at a time."""
        conditions = set(map(column_of, self.choice.where))
        names = [own for own in self.stream.schema.names if own in conditions or own not in self.choice.ignore]
        at = 0
        for table in self.stream.batches(names):
            own, _, _ = chosen_rows(table, self.choice)
            first, at = at, at + own.num_rows
            if at > len(self.all_y):
                break
            if self.rows is not None:
                own = own.filter(arrow().array(self.rows[first:at]))
            if own.num_rows:
                yield divided(own, self.choice)
        if at != len(self.all_y):
            raise InputError(f"{self.choice.path} changed while it was read; run again when it is at rest.")


def stream_table(choice: Choice, place: Place = ANYWHERE) -> Streamed:
    """The table of a choice, on disk: one look finds the rows that are chosen, and reads their target."""
    stream = Stream.open(choice.path, choice.form, choice.delimiter)
    check_columns(choice, stream.schema.names)
    assert choice.target is not None
    names = {choice.target, *map(column_of, choice.where)} & set(stream.schema.names)
    parts, met, missing = [], 0, 0
    with row_bar(place.shown, "looking", stream.n_rows) as bar:
        for table in stream.batches(sorted(names)):
            own, met_here, missing_here = chosen_rows(table, choice)
            met, missing = met + met_here, missing + missing_here
            if own.num_rows:
                parts.append(_compact(own.column(choice.target), choice.target))
            bar(table.num_rows)
    notes = notes_on(choice, stream.n_rows, met, missing)
    return Streamed(stream, choice, np.concatenate(parts), notes=notes)


def _compact(column: Any, name: str) -> np.ndarray:
    """Target values; equal texts are one object, so that a row costs 8 bytes."""
    values = target_values(column, name)
    if values.dtype.kind != "O":
        return values
    same: dict[str, str] = {}
    return np.array([same.setdefault(own, own) for own in values.tolist()], object)


# --- training --------------------------------------------------------------------------------------------------------


class _Source:
    """The rows of a table as a source of batches. by_class: weights (n,) that come to those of the table, or None."""

    def __init__(self, own: Streamed, by_class: np.ndarray | None, shown: bool) -> None:
        self.n_rows, self._own, self._by_class, self._shown = own.n_rows, own, by_class, shown

    def batches(self, only: tuple[str, ...] | None = None) -> Iterator[Batch]:
        from stagewise.data.batches import Batch

        at = 0
        with row_bar(self._shown, "reading", self.n_rows) as bar:
            for own in self._own.batches():
                weight, stop = own.weight, at + own.n_rows
                if self._by_class is not None:
                    here = self._by_class[at:stop]
                    weight = here if weight is None else weight * here
                X = own.X if only is None else own.X.select(list(only))
                yield Batch(X, own.y, weight, f"{self._own.choice.path}, rows {at:,} to {stop - 1:,}")
                bar(own.n_rows)
                at = stop


def fit_streamed(model: Any, own: Streamed, place: Place) -> None:
    """Fit to a Dataset of these rows alone, as in memory: rows held out have no part in cut points and levels."""
    from sklearn.utils import compute_sample_weight

    from stagewise.data.arrow import prints
    from stagewise.data.builder import build_parts, cached_parts
    from stagewise.data.cache import Made
    from stagewise.data.dataset import Dataset

    given, by_class = getattr(model, "class_weight", None), None
    if given is not None:  # in memory these have a say in cut points, so they must be known before the Dataset is
        try:
            by_class = compute_sample_weight(given, own.y)
        except ValueError as error:
            raise ParameterError(f"class_weight={given!r} cannot be used: {error}") from error
    plan = Dataset._plan(model.max_bins, model.n_jobs, 0, None, model.categorical_features)
    source = _Source(own, by_class, place.shown)
    if place.cache is None:
        dataset = Dataset.from_parts(build_parts(source, plan))
    else:
        files = tuple(Path(file.path).absolute() for file in own.stream.files)
        chosen = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(own.choice).items()}
        settings = {
            **chosen, "max_bins": model.max_bins, "categorical": model.categorical_features, "rows": _digest(own.rows),
            "class_weight": _digest(by_class),
        }  # fmt: skip
        folder = Path(place.cache).absolute()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is built anew: who changes the options knows
            parts = cached_parts(lambda: source, folder, lambda: Made(prints(files), settings), plan)
        dataset = Dataset.from_parts(parts)
    try:
        if by_class is not None:
            model.set_params(class_weight=None)
        model.fit(dataset)
    finally:
        if by_class is not None:
            model.set_params(class_weight=given)


def _digest(values: np.ndarray | None) -> str | None:
    import hashlib

    return None if values is None else hashlib.sha256(values.tobytes()).hexdigest()


# --- looking ---------------------------------------------------------------------------------------------------------


def looked_at(model: Any, own: Loaded | Streamed, place: Place = ANYWHERE) -> tuple[Loaded, Predicted]:
    """Rows to draw a report from, and truth and predictions of all rows. On disk the first are a sample of bounded
    size."""
    from stagewise.boosting.sampling import smallest_hashes
    from stagewise.data.target import read_weights
    from stagewise.kernels.exact import stream_key
    from stagewise.report.scores import predicted_of

    if isinstance(own, Loaded):
        return own, predicted_of(model, own.X, own.y, own.weight)
    n = own.n_rows
    shown, most = np.ones(n, np.bool_), min(_SHOWN_ROWS, max(1, _SHOWN_CELLS // own.n_columns))
    if n > most:
        shown[:] = False
        shown[smallest_hashes(stream_key(0, _SHOWN), shown, most)[0]] = True
    parts, kept, at = [], [], 0
    with row_bar(place.shown, "scoring", n) as bar:
        for batch in own.batches():
            found = predicted_of(model, batch.X, batch.y)
            parts.append(found if batch.weight is None else replace(found, weight=batch.weight))
            kept.append(batch.take(np.flatnonzero(shown[at : at + batch.n_rows])))
            at += batch.n_rows
            bar(batch.n_rows)
    weight = read_weights(_joined([own.weight for own in kept]), sum(own.n_rows for own in kept))
    looked = Loaded(
        arrow().concat_tables([one.X for one in kept]), np.concatenate([one.y for one in kept if one.y is not None]),
        weight, own.notes,
    )  # fmt: skip
    every = read_weights(np.concatenate([one.weight for one in parts]), n)
    assert every is not None
    return looked, replace(
        parts[0],
        y=np.concatenate([one.y for one in parts]),
        weight=every if own.choice.weight is None else every / every.mean(),
        prediction=np.concatenate([one.prediction for one in parts]),
        probability=_joined([one.probability for one in parts]),
    )


def _joined(parts: list[np.ndarray | None]) -> np.ndarray | None:
    there = [own for own in parts if own is not None]
    return np.concatenate(there) if there else None
