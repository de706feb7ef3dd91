"""scikit-learn's base classes for our estimators, from the moment that anybody imports scikit-learn.

Importing scikit-learn takes 1.2 s, for SciPy's distributions and pandas among others; a fit or a prediction needs
nothing of it. So `TableEstimator` and its like begin with a stand-in. As soon as `sklearn.base` is imported, by
whomever, or is needed for what our estimators inherit (`get_params`, `repr`, `score`), they get scikit-learn's own base
classes in its place, and are then in every respect the classes that they would have been. Where scikit-learn is
imported first, the stand-in is gone before anybody sees it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["MixinStandIn", "StandIn", "check_fitted", "inherits", "join"]

C = TypeVar("C", bound=type)

_waiting: list[tuple[type, str]] = []  # classes, and the names of the base classes that they are to have
_lock = threading.Lock()


def join() -> bool:
    """Import scikit-learn and inherit from it. Whether that was still to be done."""
    still = bool(_waiting)
    import sklearn.base  # not under the lock: whoever imports it elsewhere comes to `_inherit` as well

    _inherit(sklearn.base)
    return still


def _inherit(base: ModuleType) -> None:
    with _lock:
        for own, name in _waiting:
            own.__bases__ = (getattr(base, name),)
        made: list[type] = [one for own, name in _waiting if name == "BaseEstimator" for one in _descendants(own)]
        _waiting.clear()
    for one in dict.fromkeys(made):  # what scikit-learn does when a class is made, which these were before
        base.BaseEstimator.__init_subclass__.__func__(one)


def _descendants(own: type) -> Iterator[type]:
    yield own
    children: list[type] = own.__subclasses__()
    for child in children:
        yield from _descendants(child)


def inherits(name: str) -> Callable[[C], C]:
    """Decorates a class whose only base is a stand-in: in the end it inherits from this class of `sklearn.base`."""

    def declare(own: C) -> C:
        _waiting.append((own, name))
        if "sklearn.base" in sys.modules:
            join()
        elif not any(isinstance(finder, Watch) for finder in sys.meta_path):
            sys.meta_path.insert(0, Watch())
        return own

    return declare


def check_fitted(estimator: Any) -> None:
    """Raise scikit-learn's NotFittedError unless there is a model."""
    if "model_" not in vars(estimator):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator, "model_")


class Watch(MetaPathFinder):
    """Sees that `sklearn.base` is being imported, and has our estimators inherit from it when that is done."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != "sklearn.base":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Joining(spec.loader)
        return spec


class _Joining(Loader):
    """Loads as the loader that it stands for, which takes its place again."""

    def __init__(self, real: Loader) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.real
        if module.__spec__ is not None:
            module.__spec__.loader = self.real
        self.real.exec_module(module)
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Watch)]
        _inherit(module)


class StandIn:
    """What users may ask of an estimator before scikit-learn is there: each answer imports it first."""

    if not TYPE_CHECKING:  # for type checkers this is what it becomes

        def get_params(self, deep=True):
            join()
            return self.get_params(deep=deep)

        def set_params(self, **params):
            join()
            return self.set_params(**params)

        def get_metadata_routing(self):
            join()
            return self.get_metadata_routing()

        def __repr__(self):
            join()
            return repr(self)

        def __getattr__(self, name):
            if name == "_repr_html_" or (name.startswith("set_") and name.endswith("_request")):
                join()
                return getattr(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class MixinStandIn:
    """In the place of ClassifierMixin or RegressorMixin."""
