"""Pictures: matplotlib axes out. Each name is imported on first use; matplotlib comes with the extra `plot`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stagewise.plots.gallery import losses

__all__ = ["losses"]

# A file must not have the name of a function here: once imported, the module would hide the function.
_HOMES = {"losses": "stagewise.plots.gallery"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stagewise.plots' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
