"""`stagewise info`: what a model file holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from stagewise.cli import options as o
from stagewise.cli.app import EXIT_CODES, app
from stagewise.cli.terminal import Voice, history_table, importance_table
from stagewise.storage.container import unpack
from stagewise.storage.disk import read_file

if TYPE_CHECKING:
    from stagewise.boosting.model import Model

__all__ = ["info"]


@app.command(epilog=EXIT_CODES)
def info(model: o.ModelFile, json: o.Json = False) -> None:
    """Say what a model file holds: estimator, loss, stages, columns, classes, settings, deviance."""
    from stagewise.io.format import loads

    voice = Voice.of(False, json)
    data = read_file(model)
    loaded = loads(data, name=model)
    facts = _facts(loaded, model, data)
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, own in facts.items():
        if name not in ("settings", "deviance", "importance"):
            table.add_row(name, _short(own))
    voice.say(table, "")
    fitted: Model = getattr(loaded, "model_", loaded)
    if len(fitted.history.train):
        voice.say(history_table(fitted.history.train, fitted.history.validation, voice.ascii_only), "")
    if fitted.of_trees and fitted.stages:
        names = _names(fitted)
        voice.say(importance_table(names, fitted.importance(), min(10, len(names)), voice.ascii_only), "")
    if facts["settings"]:
        table = Table(title="Settings that are not the defaults", title_justify="left", box=None, pad_edge=False)
        table.show_header = False
        for name, own in facts["settings"].items():
            table.add_row(name, _short(own))
        voice.say(table)
    voice.result(facts)


def _names(fitted: Model) -> list[str]:
    return list(fitted.schema.names or (f"x{j}" for j in range(fitted.schema.n_columns)))


def _facts(loaded: Any, path: str, data: bytes) -> dict[str, Any]:
    fitted: Model = getattr(loaded, "model_", loaded)
    classes, history = getattr(loaded, "classes_", None), fitted.history
    settings: dict[str, Any] = {}
    if loaded is not fitted:
        usual = type(loaded)().get_params(deep=False)
        own = loaded.get_params(deep=False)
        settings = {name: value for name, value in own.items() if repr(value) != repr(usual[name])}
    facts: dict[str, Any] = {
        "file": str(Path(path)),
        "bytes": len(data),
        "written by": f"stagewise {unpack(data, path).library}",
        "estimator": "none, a bare model" if loaded is fitted else type(loaded).__name__,
        "loss": repr(fitted.loss),
        "stages": len(fitted.stages),
        "columns": _names(fitted),
    }
    if classes is not None:
        facts["classes"] = classes.tolist()
    if fitted.of_trees and fitted.stages:
        leaves = [int((tree.left < 0).sum()) for stage in fitted.stages for tree in stage]
        facts["leaves of a tree"] = f"{min(leaves)} to {max(leaves)}, {np.mean(leaves):.1f} on average"
        total = fitted.importance()
        facts["importance"] = dict(zip(_names(fitted), (total / (total.sum() or 1.0)).tolist(), strict=True))
    facts["settings"] = {name: value if _simple(value) else repr(value) for name, value in settings.items()}
    facts["deviance"] = {"training": history.train.tolist(), "validation": history.validation.tolist()}
    return facts


def _simple(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | np.ndarray)


def _short(value: Any) -> str:
    if isinstance(value, list):
        some = ", ".join(map(str, value[:8])) + (", ..." if len(value) > 8 else "")
        return f"{len(value)}: {some}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
