"""`stagewise convert`: models of other libraries in, other formats out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import stagewise as sw
from stagewise.cli import options as o
from stagewise.cli.app import EXIT_CODES, app
from stagewise.cli.destination import check_destinations
from stagewise.cli.predict import load_model
from stagewise.cli.terminal import Voice
from stagewise.errors import InputError
from stagewise.files.disk import read_file

__all__ = ["convert"]

_FROM = {"stagewise": (".stagewise",), "lightgbm": (".txt", ".lgb", ".lightgbm"), "xgboost": (".json", ".ubj")}
_TO = {
    "stagewise": (".stagewise",), "onnx": (".onnx",), "lightgbm": (".txt", ".lgb", ".lightgbm"), "xgboost": (".json",),
    "c": (".c",), "python": (".py",),
}  # fmt: skip


@app.command(epilog=EXIT_CODES)
def convert(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="Of stagewise, LightGBM (text) or XGBoost (JSON, UBJSON).", show_default=False
        ),
    ],
    out: Annotated[
        str,
        typer.Argument(
            metavar="OUT", help="The ending says the format: .stagewise .onnx .txt .json .c .py", show_default=False
        ),
    ],
    source: Annotated[
        str | None, typer.Option("--from", help="stagewise, lightgbm or xgboost.", show_default=False)
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="stagewise, onnx, lightgbm, xgboost, c or python.", show_default=False)
    ] = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Convert a model; what was written is checked against it on rows on and around every threshold."""
    voice = Voice.of(quiet, json)
    if "-" in (model, out):
        raise InputError("convert reads and writes files, not stdin or stdout.")
    kind_from, kind_to = _kind(source, model, _FROM, "--from"), _kind(to, out, _TO, "--to")
    check_destinations({"OUT": out}, (model,), force)
    loaded = _load(model, kind_from)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        proof = _write(loaded, out, kind_to)
    for warning in caught:
        voice.say(f"note: {warning.message}")
    place = str(Path(out).resolve())
    voice.saved(f"{kind_to} model", place)
    if proof is not None and proof.rows:
        worst = "the same bits" if proof.largest == 0 else f"largest difference {proof.largest:.3g}"
        voice.say(f"Checked with {proof.reader} on {proof.rows:,} rows: {worst}.")
    checked = None if proof is None else {"reader": proof.reader, "rows": proof.rows, "largest": proof.largest}
    voice.result({"out": place, "from": kind_from, "to": kind_to, "checked": checked})


def _kind(given: str | None, path: str, known: dict[str, tuple[str, ...]], option: str) -> str:
    if given is not None:
        if given not in known:
            raise InputError(f"{option} {given!r} is not known; choose one of {', '.join(known)}.")
        return given
    ending = Path(path).suffix.lower()
    found = next((kind for kind, endings in known.items() if ending in endings), None)
    if found is None:
        raise InputError(f"the name {path} does not say the format; give {option}, one of {', '.join(known)}.")
    return found


def _load(path: str, kind: str) -> Any:
    if kind == "stagewise":
        return load_model(path)
    data = read_file(path)  # errors of the file itself come first
    if kind == "lightgbm":
        return sw.import_lightgbm(data)
    return sw.import_xgboost(data)


def _write(loaded: Any, out: str, kind: str) -> Any:
    if kind == "stagewise":
        sw.save(loaded, out)
        return None
    writers: dict[str, Callable[..., Any]] = {
        "onnx": sw.export_onnx, "lightgbm": sw.export_lightgbm, "xgboost": sw.export_xgboost, "c": sw.export_c,
        "python": sw.export_python,
    }  # fmt: skip
    return writers[kind](loaded, out)
