"""Losses in files: ours by name and numbers; a user's by the name of its class, which must be given again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stagewise.errors import InputError, ParameterError
from stagewise.files.values import read_value, write_value
from stagewise.losses.base import Loss
from stagewise.losses.classification import (
    CURVATURES,
    Exponential,
    LogLoss,
    MulticlassExponential,
    MulticlassLogLoss,
    OneVsRestExponential,
)
from stagewise.losses.linked import LINKS, Linked
from stagewise.losses.regression import AbsoluteError, Gamma, Huber, Poisson, Quantile, SquaredError, Tweedie
from stagewise.params import check_choice, check_count, check_number

__all__ = ["LOSSES", "Losses", "OURS", "read_loss", "write_loss"]

Losses = Mapping[str, type[Loss]]

OURS: dict[type[Loss], dict[str, str]] = {
    SquaredError: {},
    AbsoluteError: {},
    Huber: {"alpha": "delta_quantile"},
    Quantile: {"alpha": "leaf_quantile"},
    Poisson: {},
    Gamma: {},
    Tweedie: {"power": "power"},
    LogLoss: {},
    Exponential: {},
    MulticlassLogLoss: {"n_classes": "n_outputs", "curvature": "curvature"},
    MulticlassExponential: {"n_classes": "n_outputs"},
    OneVsRestExponential: {"n_classes": "n_outputs"},
    Linked: {"objective": "objective", "link": "link", "factor": "factor", "n_outputs": "n_outputs"},
}
"""Each loss that a file may name, with the arguments of its constructor and the attributes that hold them."""

_USUAL = {"curvature": "friedman"}
"""What an argument is when a file says nothing of it: it came later than the first files, and is written only when it
is something else, so that older versions read what they can."""

LOSSES = {kind.__name__: kind for kind in OURS}


def write_loss(loss: Loss) -> dict[str, Any]:
    """A loss as plain values."""
    kind = type(loss)
    if kind in OURS:
        args = {arg: getattr(loss, own) for arg, own in OURS[kind].items()}
        kept = {arg: own for arg, own in args.items() if arg not in _USUAL or own != _USUAL[arg]}
        return {"name": kind.__name__, "args": kept}
    state = {name: write_value(own, f"{kind.__name__}.{name}") for name, own in sorted(vars(loss).items())}
    return {"name": kind.__name__, "state": state}


def read_loss(stored: Any, losses: Losses) -> Loss:
    """The loss of `write_loss`. A class of the user's own comes from `losses`; nothing is imported by name."""
    if not isinstance(stored, dict) or not isinstance(stored.get("name"), str):
        raise InputError("The loss in the file has no name.")
    name = stored["name"]
    if "state" in stored:
        kind = losses.get(name)
        if kind is None:
            raise InputError(
                f"The model was trained with the loss {name[:100]!r}, which is not part of stagewise, and a file holds "
                f"no code. Give its class: load(path, losses={{{name[:100]!r}: ...}})."
            )
        state = stored["state"] if isinstance(stored["state"], dict) else {}
        own = kind.__new__(kind)
        own.__dict__.update({key: read_value(value, f"{name}.{key}") for key, value in state.items()})
        return own
    kind, args = LOSSES.get(name), stored.get("args")
    if kind is None:
        raise InputError(f"The file names the loss {name[:100]!r}, which this version of stagewise does not know.")
    if isinstance(args, dict):
        args = {arg: own for arg, own in _USUAL.items() if arg in OURS[kind]} | args
    if not isinstance(args, dict) or set(args) != set(OURS[kind]):
        raise InputError(f"The loss {name!r} in the file must have the settings {sorted(OURS[kind])}.")
    return _checked(kind, args)


def _checked(kind: type[Loss], args: dict[str, Any]) -> Loss:
    limits = {"alpha": (0.0, 1.0), "power": (1.0, 2.0)}
    try:
        for arg, value in args.items():
            if arg in limits:
                check_number(arg, value, *limits[arg], low_open=True, high_open=True)
            elif arg == "factor":
                check_number(arg, value, 0.0, low_open=True)
            elif arg in ("n_classes", "n_outputs"):
                check_count(arg, value, 2 if arg == "n_classes" else 1)
            elif arg == "link":
                check_choice(arg, value, LINKS)
            elif arg == "curvature":
                check_choice(arg, value, CURVATURES)
            elif not isinstance(value, str):
                raise InputError(f"{arg} of the loss {kind.__name__!r} must be a text.")
    except ParameterError as error:
        raise InputError(f"The loss {kind.__name__!r} in the file is wrong: {error}") from error
    if kind is Linked and args["link"] != "one_vs_all" and args["link"] != "identity" and args["n_outputs"] != 1:
        raise InputError(f"The link {args['link']!r} is for one output.")
    return kind(**args)
