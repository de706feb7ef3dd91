"""Option records and all range checks.

Estimators keep what the user typed; `fit` turns it into the frozen records below, once, and every message says what
came, what is allowed and what to do.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stagewise.errors import ParameterError

__all__ = ["BoostParams", "TreeParams", "check_choice", "check_count", "check_number", "column_count", "job_count"]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_number(
    name: str,
    value: Any,
    low: float,
    high: float = math.inf,
    *,
    low_open: bool = False,
    high_open: bool = False,
    hint: str = "",
) -> float:
    """A finite real number within bounds, as float."""
    shape = f"{'(' if low_open else '['}{low:g}, {'∞' if high == math.inf else f'{high:g}'}"
    bounds = shape + (")" if high_open or high == math.inf else "]")
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ParameterError(f"{name}={_shown(value)} must be a number in {bounds}{hint and '; ' + hint}.")
    number = float(value)
    below = number <= low if low_open else number < low
    above = number >= high if high_open else number > high
    if math.isnan(number) or math.isinf(number) or below or above:
        raise ParameterError(f"{name}={_shown(value)} must be in {bounds}{hint and '; ' + hint}.")
    return number


def check_count(name: str, value: Any, low: int, high: int | None = None, *, none: bool = False, hint: str = "") -> int:
    """A whole number within bounds; with none=True, None is allowed and becomes the largest one (2**31 - 1)."""
    if none and value is None:
        return 2**31 - 1
    bounds = f"at least {low}" if high is None else f"from {low} to {high}"
    allowed = f"a whole number {bounds}{', or None' if none else ''}"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ParameterError(f"{name}={_shown(value)} must be {allowed}{hint and '; ' + hint}.")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ParameterError(f"{name}={_shown(value)} must be {allowed}{hint and '; ' + hint}.")
    return min(number, 2**31 - 1)


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> Any:
    """One of the choices."""
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return choice
    allowed = ", ".join(repr(choice) for choice in choices)
    raise ParameterError(f"{name}={_shown(value)} is not known; choose one of {allowed}.")


def check_flag(name: str, value: Any) -> bool:
    """True or False (NumPy's too)."""
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return bool(value)
    raise ParameterError(f"{name}={_shown(value)} must be True or False.")


def column_count(name: str, value: Any, n_columns: int) -> int:
    """How many columns a max_features setting means: a share, a number, "sqrt", "log2" or None for all."""
    if value is None:
        return n_columns
    if isinstance(value, str):
        choice = check_choice(name, value, ("sqrt", "log2"))
        return max(1, int(math.sqrt(n_columns) if choice == "sqrt" else math.log2(n_columns)))
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return min(n_columns, check_count(name, value, 1, hint="or give a share in (0, 1]"))
    share = check_number(name, value, 0.0, 1.0, low_open=True, hint="or a whole number of columns")
    return max(1, int(share * n_columns))


def job_count(n_jobs: Any, cores: int) -> int:
    """Threads that n_jobs asks for: None and -1 mean all cores, -2 all but one, as in joblib."""
    if n_jobs is None:
        return cores
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or int(n_jobs) == 0:
        raise ParameterError(
            f"n_jobs={_shown(n_jobs)} must be None, a positive number of threads, or -1 for all cores."
        )
    wanted = int(n_jobs)
    return wanted if wanted > 0 else max(1, cores + 1 + wanted)


@dataclass(frozen=True, slots=True)
class TreeParams:
    """How one tree is grown."""

    growth: str = "leafwise"
    max_leaf_nodes: int = 31
    max_depth: int = 2**31 - 1
    min_samples_leaf: int = 20
    min_child_weight: float = 1e-3
    min_split_gain: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    tree_columns: int = 2**31 - 1  # columns drawn for a tree
    split_columns: int = 2**31 - 1  # columns of those drawn for a split
    # splits by sets of categories, see kernels/subsets.py and docs/categories.md
    cat_smooth: float = 10.0  # added to a code's second derivatives where codes are put in order
    cat_l2: float = 10.0  # added to l2 in the improvement
    max_onehot: int = 4  # codes up to which a column is split one against the rest
    max_group: int = 32  # codes in a set
    level_rows: int = 10  # rows of a code in a node below which it stays with the rest
    group_rows: int = 100  # rows by which a set grows

    @classmethod
    def check(
        cls,
        *,
        growth: Any,
        max_leaf_nodes: Any,
        max_depth: Any,
        min_samples_leaf: Any,
        min_child_weight: Any,
        min_split_gain: Any,
        l1_regularization: Any,
        l2_regularization: Any,
        max_features: Any,
        max_features_tree: Any,
        n_rows: int,
        n_columns: int,
    ) -> TreeParams:
        """Check every setting. min_samples_leaf may be a share of the rows, as in scikit-learn."""
        if isinstance(min_samples_leaf, numbers.Real) and not isinstance(min_samples_leaf, (bool, numbers.Integral)):
            share = check_number("min_samples_leaf", min_samples_leaf, 0.0, 1.0, low_open=True, high_open=True)
            min_samples_leaf = math.ceil(share * n_rows)
        tree_columns = column_count("max_features_tree", max_features_tree, n_columns)
        return cls(
            growth=check_choice("growth", growth, ("leafwise", "levelwise", "symmetric")),
            max_leaf_nodes=check_count("max_leaf_nodes", max_leaf_nodes, 2, none=True),
            max_depth=check_count("max_depth", max_depth, 1, none=True),
            min_samples_leaf=check_count("min_samples_leaf", min_samples_leaf, 1, hint="or a share in (0, 1)"),
            min_child_weight=check_number("min_child_weight", min_child_weight, 0.0),
            min_split_gain=check_number("min_split_gain", min_split_gain, 0.0),
            l1=check_number("l1_regularization", l1_regularization, 0.0),
            l2=check_number("l2_regularization", l2_regularization, 0.0),
            tree_columns=tree_columns,
            split_columns=column_count("max_features", max_features, tree_columns),
        )


@dataclass(frozen=True, slots=True)
class BoostParams:
    """How stages are added up."""

    n_estimators: int = 100
    learning_rate: float = 0.1
    subsample: float = 1.0
    criterion: str = "newton"
    patience: int | None = None  # stages without improvement before stopping; None: never stop early
    tol: float = 1e-7
    seed: int = 0
    trimming: float = 0.0  # α of influence trimming
    sampling: str = "uniform"
    top: float = 0.2  # shares of the rows that "goss" draws
    rest: float = 0.1

    @classmethod
    def check(
        cls,
        *,
        n_estimators: Any,
        learning_rate: Any,
        subsample: Any,
        criterion: Any,
        early_stopping: Any,
        n_iter_no_change: Any,
        tol: Any,
        seed: int,
        influence_trimming: Any = 0.0,
        sampling: Any = "uniform",
        goss_top: Any = 0.2,
        goss_rest: Any = 0.1,
    ) -> BoostParams:
        """Check every setting. Early stopping is on when asked for, or when n_iter_no_change is given."""
        patience = None if n_iter_no_change is None else check_count("n_iter_no_change", n_iter_no_change, 1)
        if early_stopping != "auto":
            on = check_flag("early_stopping", early_stopping) if not isinstance(early_stopping, str) else None
            if on is None:
                check_choice("early_stopping", early_stopping, ("auto", True, False))
            patience = (patience or 10) if on else None
        criterion = check_choice("criterion", criterion, ("newton", "friedman_mse", "squared_error"))
        sampling = check_choice("sampling", sampling, ("uniform", "goss", "mvs"))
        top = check_number("goss_top", goss_top, 0.0, 1.0, high_open=True, hint="try 0.2")
        rest = check_number("goss_rest", goss_rest, 0.0, 1.0, low_open=True, hint="try 0.1")
        if top + rest > 1.0:
            raise ParameterError(
                f"goss_top={top:g} and goss_rest={rest:g} are shares of all rows, and cannot exceed 1 together; try "
                "0.2 and 0.1."
            )
        if sampling == "goss" and subsample != 1.0:
            raise ParameterError(
                f"subsample={_shown(subsample)} has no meaning with sampling='goss', which draws goss_top and "
                "goss_rest of the rows; leave it at 1."
            )
        if sampling != "uniform" and influence_trimming:
            raise ParameterError(
                f"influence_trimming={_shown(influence_trimming)} and sampling={sampling!r} both choose rows by their "
                "gradients; use one of them."
            )
        return cls(
            n_estimators=check_count("n_estimators", n_estimators, 1),
            learning_rate=check_number("learning_rate", learning_rate, 0.0, 1.0, low_open=True, hint="try 0.1"),
            subsample=check_number("subsample", subsample, 0.0, 1.0, low_open=True),
            criterion="newton" if criterion == "newton" else "gradient",
            patience=patience,
            tol=check_number("tol", tol, 0.0),
            seed=seed,
            trimming=check_number("influence_trimming", influence_trimming, 0.0, 1.0, high_open=True, hint="try 0.1"),
            sampling=sampling,
            top=top,
            rest=rest,
        )
