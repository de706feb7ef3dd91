"""Checkpoints: a fit that was killed goes on where it stood, and ends with the same bytes.

A checkpoint holds the trees grown so far, the history, and the units in which deviances are summed. Everything else
follows: draws are hashes of stage and row numbers, and predictions are the trees added up in the same order, which
gives the same bits; a hash of them is kept, and compared.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stagewise._version import __version__
from stagewise.boosting.model import History, Model
from stagewise.errors import InputError, ParameterError
from stagewise.files.terms import read_stages, write_stages
from stagewise.kernels.histogram import Bins
from stagewise.losses.base import Loss
from stagewise.losses.custom import code_of
from stagewise.params import BoostParams, TreeParams, check_count
from stagewise.storage.container import Content, Section, pack, unpack
from stagewise.storage.disk import STALE, read_file, replace_file

__all__ = ["Checkpoints", "Progress", "digest", "open_checkpoints", "run_prints"]

_KEPT = 2
"""Checkpoints in a folder: the newest, and the one before in case that is damaged."""

_NAMES = "stage-*.checkpoint"

_PARTS = {
    "data": "the columns of X",
    "target": "y, sample_weight, init_score or the validation sample",
    "settings": "the settings of the estimator",
    "loss": "the code or the settings of your loss",
    "before": "the model that training goes on from",
}


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """Where a fit stands after a stage."""

    stages: tuple[tuple[Any, ...], ...]
    history: History  # best: all stages
    units: tuple[float, float]  # of the deviances of training and validation
    raw: str  # digest of the raw predictions
    stopped: bool  # early stopping or a callback ended it


def digest(arrays: Iterable[np.ndarray | None]) -> str:
    """A hash over types, shapes and bytes."""
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        total.update(b"-" if array is None else f"{array.dtype.str}{array.shape}".encode())
        if array is not None and array.size:
            total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def run_prints(
    bins: Bins,
    rows: np.ndarray,
    cuts: Sequence[np.ndarray],
    targets: Iterable[np.ndarray | None],
    before: Model | None,
    loss: Loss,
    tree: TreeParams,
    params: BoostParams,
) -> dict[str, str]:
    """What makes a run the same run, part by part. The number of stages is none of it: a longer run begins alike."""
    settings = {**asdict(params), "n_estimators": None, "tree": asdict(tree), "loss": repr(loss)}

    def kept(model: Model) -> Iterator[np.ndarray]:
        yield model.initial
        for stage in model.stages:
            for term in stage:
                yield from (term.feature, term.threshold, term.missing_left, term.left, term.value)
                if len(term.sets):
                    yield from (term.subset, term.sets)

    prints = {
        "data": digest([bins.by_row, *([rows] if len(rows) else []), *cuts]),
        "target": digest(targets),
        "settings": _hashed(settings),
        "before": "" if before is None else digest(kept(before)),
    }
    if type(loss).pairs is Loss.pairs:  # a loss of one's own, which is known by its code alone
        prints["loss"] = _hashed(code_of(loss))
    return prints


def _hashed(told: Any) -> str:
    return hashlib.blake2b(repr(told).encode(), digest_size=16).hexdigest()


def open_checkpoints(folder: Any, every: Any, resume: Any) -> Checkpoints | None:
    """The folder of fit's `checkpoint`, with its other two options checked; None when there is none."""
    every = check_count("every", every, 1)
    if not isinstance(resume, (bool, np.bool_)):
        raise ParameterError(f"resume={resume!r} must be True or False.")
    if folder is None:
        return None
    if not isinstance(folder, (str, os.PathLike)):
        raise ParameterError(f"checkpoint={folder!r} must be the path of a folder, or None.")
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise ParameterError(f"checkpoint={os.fspath(folder)!r} is a file; name a folder.")
    path.mkdir(parents=True, exist_ok=True)
    return Checkpoints(path, every, bool(resume))


class Checkpoints:
    """A folder that holds the last two checkpoints of one run."""

    digests = True
    """Whether a run is known again by the digests of all its data."""

    def __init__(self, folder: Path, every: int, resume: bool) -> None:
        self.folder, self.every, self.resume = folder, every, resume
        self._prints: dict[str, str] = {}
        for stale in folder.glob(f".{_NAMES}.*{STALE}"):  # a killed process was writing it
            stale.unlink(missing_ok=True)

    def newest(self, prints: dict[str, str], n_outputs: int, n_columns: int, most: int) -> Progress | None:
        """The last usable checkpoint of the run with these prints, of at most `most` stages; None for a fresh start.

        A damaged one is removed with a warning, and the one before is used. With resume=False all are removed.
        """
        self._prints = prints
        for path in sorted(self.folder.glob(_NAMES), reverse=True):
            if not self.resume:
                path.unlink(missing_ok=True)
                continue
            try:
                content = unpack(read_file(path), str(path))
                progress = _read(content, n_outputs, n_columns) if self._ours(content, path) else None
            except InputError as error:
                if isinstance(error, _OtherRunError):
                    raise
                warnings.warn(f"A damaged checkpoint is left out: {error}", stacklevel=2)
                path.unlink(missing_ok=True)
                continue
            if progress is not None and len(progress.stages) > most:
                raise _OtherRunError(
                    f"{path} has {len(progress.stages)} stages, but n_estimators asks for {most}. Ask for more stages, "
                    "name another folder, or start afresh with resume=False."
                )
            return progress
        return None

    def _ours(self, content: Content, path: Path) -> bool:
        stored = content.sections["progress"].values.get("prints") if "progress" in content.sections else None
        if content.kind != "checkpoint" or not isinstance(stored, dict):
            raise InputError(f"{path} is no checkpoint.")
        wrong = [part for part, own in self._prints.items() if stored.get(part) != own]
        if content.library != __version__:
            raise _OtherRunError(
                f"{path} was written by stagewise {content.library}, and this is {__version__}, which may grow other "
                "trees. Finish with that version, or start afresh with resume=False."
            )
        if wrong:
            raise _OtherRunError(
                f"{path} belongs to another fit: {' and '.join(_PARTS[part] for part in wrong)} differ. Name another "
                "folder, or start afresh with resume=False, which removes it."
            )
        return True

    def write(self, progress: Progress) -> None:
        """Keep a checkpoint; older ones than the one before are removed."""
        history = progress.history
        sections = write_stages(progress.stages)
        sections["progress"] = Section(
            {"prints": self._prints, "raw": progress.raw, "stopped": progress.stopped},
            {
                "train": history.train,
                "validation": history.validation,
                "rows": history.rows,
                "kept": history.kept,
                "initial": np.array([history.initial]),
                "units": np.array(progress.units),
            },
        )
        path = self.folder / f"stage-{len(progress.stages):08d}.checkpoint"
        replace_file(path, pack(Content("checkpoint", sections)))
        for old in sorted(self.folder.glob(_NAMES), reverse=True)[_KEPT:]:
            old.unlink(missing_ok=True)


class _OtherRunError(InputError):
    """The checkpoint is sound, but not of this fit."""


def _read(content: Content, n_outputs: int, n_columns: int) -> Progress:
    section = content.sections["progress"]
    arrays, values = section.arrays, section.values
    floats = ("train", "validation", "kept", "initial", "units")
    for name, kind in {"rows": "i8", **dict.fromkeys(floats, "f8")}.items():
        if name not in arrays or arrays[name].ndim != 1 or arrays[name].dtype != np.dtype(kind):
            raise InputError(f"The checkpoint has no array {name!r}.")
    stages = read_stages(content.sections, n_outputs, n_columns)
    lengths = (len(arrays["train"]), len(arrays["rows"]), len(arrays["initial"]), len(arrays["units"]))
    raw = values.get("raw")
    if (
        lengths != (len(stages), len(stages), 1, 2)
        or max(len(arrays["validation"]), len(arrays["kept"])) > len(stages)
        or not isinstance(raw, str)
    ):
        raise InputError("The history of the checkpoint does not fit its stages.")
    initial = float(arrays["initial"][0])
    history = History(arrays["train"], arrays["validation"], arrays["rows"], len(stages), initial, arrays["kept"])
    units = arrays["units"].tolist()
    return Progress(stages, history, (units[0], units[1]), raw, values.get("stopped") is True)
