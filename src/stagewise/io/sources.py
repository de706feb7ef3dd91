"""A model as source that needs nothing: one C file, or one Python file."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from stagewise._version import __version__
from stagewise.errors import InputError, ParameterError
from stagewise.io.export import Export, Proof, export_of, finish, unchecked
from stagewise.params import check_choice

__all__ = ["export_c", "export_python"]

_ULPS = 4 * 2.0**-52  # exp of two libraries


def export_python(model: Any, path: str | os.PathLike[str], *, on_difference: str = "refuse") -> Proof:
    """Write a fitted estimator as one Python module of the standard library alone.

    It has `raw(row)` and `predict(row)`, for classes also `predict_proba(row)`, of one row: a sequence of numbers, with
    NaN where a value is missing and categories as codes (`export_input`). Raw predictions are the same bits.
    """
    export = export_of(model, "Python")
    text = _python(export)
    module: dict[str, Any] = {}
    exec(compile(text, os.fspath(path), "exec"), module)  # what was written a line above, from numbers
    predict = module["predict" if export.classes is None else "predict_proba"]

    def both(rows: np.ndarray) -> np.ndarray:
        lists = rows.tolist()
        raw = np.array([module["raw"](row) for row in lists])
        return np.column_stack([raw, np.array([predict(row) for row in lists]).reshape(len(rows), -1)])

    return _finish(path, text, export, "Python", both, on_difference)


def export_c(model: Any, path: str | os.PathLike[str], *, name: str = "model", on_difference: str = "refuse") -> Proof:
    """Write a fitted estimator as one C99 file that needs the mathematics library alone.

    It defines `void NAME_raw(const double *x, double *raw)` and `void NAME_predict(const double *x, double *out)`. x is
    one row, NaN where a value is missing, categories as codes (`export_input`); out has the prediction, or one
    probability for each class. Raw predictions are the same bits. Checked by compiling it with $CC or cc, if there is
    one.
    """
    if str(name) != name or not name.isidentifier() or not name.isascii():
        raise ParameterError(f"name={name!r} must be a name that C allows, for example 'model'.")
    export = export_of(model, "C")
    check_choice("on_difference", on_difference, ("refuse", "warn"))
    text = _c(export, name)
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return unchecked(path, text.encode(), "a C compiler ($CC or cc)", "")
    with tempfile.TemporaryDirectory() as folder:
        library = _compiled(compiler, text, Path(folder))
        raw_of, predict_of = library[f"{name}_raw"], library[f"{name}_predict"]
        k = export.n_outputs
        width = 1 if export.classes is None else len(export.classes)

        def both(rows: np.ndarray) -> np.ndarray:
            raw, out = np.empty((len(rows), k)), np.empty((len(rows), width))
            rows = np.ascontiguousarray(rows)
            for row, one, two in zip(rows, raw, out, strict=True):
                raw_of(row.ctypes.data_as(ctypes.c_void_p), one.ctypes.data_as(ctypes.c_void_p))
                predict_of(row.ctypes.data_as(ctypes.c_void_p), two.ctypes.data_as(ctypes.c_void_p))
            return np.column_stack([raw, out])

        return _finish(path, text, export, f"C ({Path(compiler).name})", both, on_difference)


def _finish(
    path: str | os.PathLike[str],
    text: str,
    export: Export,
    reader: str,
    both: Callable[[np.ndarray], np.ndarray],
    on_difference: str,
) -> Proof:
    """Compare raw predictions, which must be the same bits, and what the link makes of them."""
    k = export.n_outputs

    def wanted(rows: np.ndarray) -> np.ndarray:
        return np.column_stack([export.model.raw(rows).T, export.predictions(rows).reshape(len(rows), -1)])

    def exact_or_near(rows: np.ndarray) -> np.ndarray:
        got, ours = both(rows), wanted(rows)
        same = got[:, :k] == ours[:, :k]
        return np.column_stack([np.where(same, ours[:, :k], np.nan), got[:, k:]])

    return finish(
        path, text.encode(), export, reader, exact_or_near, on_difference=on_difference, relative=4 * _ULPS,
        absolute=1e-300, expected=wanted,
    )  # fmt: skip


def _compiled(compiler: str, text: str, folder: Path) -> ctypes.CDLL:
    source, target = folder / "model.c", folder / "model.so"
    source.write_text(text)
    command = [compiler, "-std=c99", "-O1", "-shared", "-fPIC", "-o", str(target), str(source), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise InputError(f"The C file does not compile with {compiler}: {done.stderr[:500]}")
    return ctypes.CDLL(str(target))


# --- tables ----------------------------------------------------------------------------------------------------------


def _tables(export: Export) -> dict[str, np.ndarray]:
    """All nodes one after the other: column (-1: leaf), threshold or value of a leaf, first child, side of missing."""
    sizes = [tree.n_nodes for tree in export.trees]
    shift = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))

    def of(name: str, kind: Any) -> np.ndarray:
        return np.concatenate([np.empty(0, kind), *(getattr(tree, name) for tree in export.trees)])

    left = of("left", np.int64)
    return {
        "root": shift[:-1],
        "feature": of("feature", np.int64),
        "number": np.where(left >= 0, of("threshold", float), of("value", float)),
        "left": np.where(left >= 0, left + np.repeat(shift[:-1], sizes), -1),
        "missing_left": of("missing_left", np.int64),
        **_sets(export),
    }


def _sets(export: Export) -> dict[str, np.ndarray]:
    """Splits by sets of categories, if there are any: the set of each node or -1, the words of the sets one after the
    other, and where each set begins."""
    if not any(len(tree.sets) for tree in export.trees):
        return {}
    subset, words, before = [], [np.empty(0, np.uint64)], 0
    start = [np.zeros(1, np.int64)]
    for tree in export.trees:
        own = tree.subset if len(tree.subset) else np.full(tree.n_nodes, -1)
        subset.append(np.where(own >= 0, own + before, -1))
        before += len(tree.sets)
        words.append(tree.sets.ravel())
        start.append(np.full(len(tree.sets), tree.sets.shape[1]))
    return {
        "subset": np.concatenate(subset).astype(np.int64),
        "set_start": np.cumsum(np.concatenate(start)),
        "words": np.concatenate(words),
    }


def _wrapped(words: Iterable[str], indent: str = "    ") -> str:
    """Words with commas, in lines of about 110 characters."""
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) > 110:
            lines.append(line)
            line = ""
        line += f"{word}, "
    return "\n".join(indent + own.rstrip() for own in [*lines, line] if own)


def _about(export: Export) -> list[str]:
    names = export.names or tuple(f"column {j}" for j in range(export.n_columns))
    lines = [f"Written by stagewise {__version__}: {len(export.trees)} trees, {export.n_columns} columns.", "Columns:"]
    lines += [f"  {j}: {''.join(c if c.isprintable() else '?' for c in own)}" for j, own in enumerate(names)]
    if export.classes is not None:
        lines.append(f"Classes: {', '.join(map(repr, export.classes.tolist()))}")
    return lines


# --- Python ----------------------------------------------------------------------------------------------------------

_PYTHON_LINKS = {
    "identity": "raw(row)[0]",
    "exp": "exp(min(max(raw(row)[0], -708.0), 708.0))",
    "sigmoid": "_sigmoid(FACTOR * raw(row)[0])",
    "softplus": "max(raw(row)[0], 0.0) + log1p(exp(-abs(raw(row)[0])))",
    "signed_square": "raw(row)[0] * abs(raw(row)[0])",
    "step": "1.0 if raw(row)[0] > 0.0 else 0.0",
}


_PYTHON_SETS = """def _is_right(k, value):
    if SUBSET[k] < 0:
        return value > NUMBER[k]
    return not (0.0 <= value < 1e9 and SETS[SUBSET[k]] >> int(value) & 1)"""


def _python(export: Export) -> str:
    def number(value: float) -> str:
        return repr(value) if math.isfinite(value) else f'float("{value}")'

    def table(name: str, values: Iterable[str]) -> str:
        return f"{name} = (\n{_wrapped(values)}\n)"

    tables = _tables(export)
    by_set = "subset" in tables
    sets = []
    if by_set:
        words, start = tables["words"].tolist(), tables["set_start"].tolist()
        bits = [sum(word << 64 * k for k, word in enumerate(words[a:b])) for a, b in pairwise(start)]
        sets = [table("SUBSET", map(str, tables["subset"].tolist())), table("SETS", map(hex, bits))]
    about = "\n".join(line.replace("\\", "\\\\").replace('"""', "'''") for line in _about(export))
    parts = [f'"""{about}\n"""', "from math import exp, log1p"]
    parts += [table(key.upper(), map(str, tables[key].tolist())) for key in ("root", "feature", "left", "missing_left")]
    parts += sets
    parts += [
        table("NUMBER", map(number, tables["number"].tolist())),
        table("INITIAL", map(number, export.model.initial.tolist())),
        f"FACTOR = {export.factor!r}",
        '''def raw(row):
    """Raw predictions of one row, one for each output."""
    out = list(INITIAL)
    for tree, k in enumerate(ROOT):
        while FEATURE[k] >= 0:
            value = row[FEATURE[k]]
            right = not MISSING_LEFT[k] if value != value else value > NUMBER[k]
            k = LEFT[k] + right
        out[tree % len(out)] += NUMBER[k]
    return out'''.replace("value > NUMBER[k]", "_is_right(k, value)" if by_set else "value > NUMBER[k]"),
        """def _sigmoid(f):
    return 1.0 / (1.0 + exp(-f)) if f >= 0.0 else exp(max(f, -745.0)) / (1.0 + exp(max(f, -745.0)))""",
    ]
    if by_set:
        parts.append(_PYTHON_SETS)
    if export.classes is None:
        if export.link not in _PYTHON_LINKS:
            raise export.refuse("Python")
        parts.append(
            f'def predict(row):\n    """The prediction of one row."""\n    return {_PYTHON_LINKS[export.link]}'
        )
    else:
        parts += _python_classes(export)
    return "\n\n".join(parts).replace("\n\ndef", "\n\n\ndef") + "\n"


def _python_classes(export: Export) -> list[str]:
    assert export.classes is not None
    proba = {
        "sigmoid": "    f = FACTOR * raw(row)[0]\n    return [_sigmoid(-f), _sigmoid(f)]",
        "softmax": "    f = raw(row)\n    e = [exp(own - max(f)) for own in f]\n    return [own / sum(e) for own in e]",
        "one_vs_all": "    return [_sigmoid(FACTOR * own) for own in raw(row)]",
    }
    if export.link not in proba:
        raise export.refuse("Python")
    if export.cost is not None:
        costs = f"COST = {export.cost.tolist()!r}\n\n\n"
        score = "[-sum(c * q for c, q in zip(cost, predict_proba(row))) for cost in COST]"
    else:
        costs, score = "", "raw(row)" if export.n_outputs > 1 else "predict_proba(row)"
    return [
        f"CLASSES = {export.classes.tolist()!r}",
        f'def predict_proba(row):\n    """Probabilities of one row, in the order of CLASSES."""\n{proba[export.link]}',
        f'{costs}def predict(row):\n    """The class of one row."""\n    score = {score}\n'
        "    return CLASSES[score.index(max(score))]",
    ]


# --- C ---------------------------------------------------------------------------------------------------------------

_C_LINKS = {
    "identity": "out[0] = raw[0];",
    "exp": "out[0] = exp(fmin(fmax(raw[0], -708.0), 708.0));",
    "sigmoid": "out[0] = sigmoid(FACTOR * raw[0]);",
    "softplus": "out[0] = fmax(raw[0], 0.0) + log1p(exp(-fabs(raw[0])));",
    "signed_square": "out[0] = raw[0] * fabs(raw[0]);",
    "step": "out[0] = raw[0] > 0.0 ? 1.0 : 0.0;",
}
_C_CLASS_LINKS = {
    "sigmoid": "out[1] = sigmoid(FACTOR * raw[0]);\n    out[0] = sigmoid(-FACTOR * raw[0]);",
    "one_vs_all": "for (k = 0; k < OUTPUTS; k++) out[k] = sigmoid(FACTOR * raw[k]);",
    "softmax": """for (k = 1; k < OUTPUTS; k++) top = fmax(top, raw[k]);
    for (k = 0; k < OUTPUTS; k++) total += out[k] = exp(raw[k] - top);
    for (k = 0; k < OUTPUTS; k++) out[k] /= total;""",
}


def _c(export: Export, name: str) -> str:
    links = _C_LINKS if export.classes is None else _C_CLASS_LINKS
    if export.link not in links:
        raise export.refuse("C")

    def number(value: float) -> str:
        if math.isinf(value):
            return "INFINITY" if value > 0.0 else "-INFINITY"
        return value.hex()

    def table(kind: str, key: str, values: Iterable[str]) -> str:
        return f"static const {kind} {key}[] = {{\n{_wrapped(values)}\n}};"

    tables = _tables(export)
    for key in ("root", "feature", "left", "missing_left", "number"):
        if not len(tables[key]):
            tables[key] = np.zeros(1, np.int64)  # C has no empty arrays
    about = "\n".join(f" * {line}".rstrip().replace("*/", "* /") for line in _about(export)).encode("ascii", "replace")
    scratch = "int k; double top = raw[0], total = 0.0;\n    " if export.link == "softmax" else ""
    scratch = "int k;\n    " if export.link == "one_vs_all" else scratch
    sets = ""
    if "subset" in tables:
        words = (f"{word:#x}u" for word in tables["words"].tolist())
        numbers = [table("int32_t", key, map(str, tables[key.lower()].tolist())) for key in ("SUBSET", "SET_START")]
        sets = "\n".join([*numbers, table("uint64_t", "WORDS", words), _C_SETS])
    return f"""/*
{about.decode()}
 *
 * x: one row, NaN where a value is missing. Compile without -ffast-math, which forgets what NaN is.
 */
#include <math.h>
#include <stdint.h>

#define TREES {len(export.trees)}
#define OUTPUTS {export.n_outputs}
#define FACTOR {export.factor!r}

{table("int32_t", "ROOT", map(str, tables["root"].tolist()))}
{table("int32_t", "FEATURE", map(str, tables["feature"].tolist()))}
{table("int32_t", "LEFT", map(str, tables["left"].tolist()))}
{table("uint8_t", "MISSING_LEFT", map(str, tables["missing_left"].tolist()))}
{table("double", "NUMBER", map(number, map(float, tables["number"].tolist())))}
{table("double", "INITIAL", map(number, export.model.initial.tolist()))}
{sets}
/* Raw predictions, OUTPUTS of them. */
void {name}_raw(const double *x, double *raw)
{{
    int32_t t, k;
    for (k = 0; k < OUTPUTS; k++) raw[k] = INITIAL[k];
    for (t = 0; t < TREES; t++) {{
        k = ROOT[t];
        while (FEATURE[k] >= 0) {{
            double v = x[FEATURE[k]];
            k = LEFT[k] + (v != v ? !MISSING_LEFT[k] : {"is_right(k, v)" if sets else "v > NUMBER[k]"});
        }}
        raw[t % OUTPUTS] += NUMBER[k];
    }}
}}
{_C_SIGMOID if "sigmoid(" in links[export.link] else ""}
/* {"The prediction." if export.classes is None else "Probabilities, one for each class."} */
void {name}_predict(const double *x, double *out)
{{
    double raw[OUTPUTS];
    {name}_raw(x, raw);
    {scratch}{links[export.link]}
}}
"""


_C_SETS = """
/* Whether a value goes right: at a threshold, or because it is no code of a set. */
static int is_right(int32_t k, double v)
{
    int32_t s = SUBSET[k], first;
    int64_t code;
    if (s < 0) return v > NUMBER[k];
    first = SET_START[s];
    if (!(v >= 0.0 && v < 64.0 * (SET_START[s + 1] - first))) return 1;
    code = (int64_t)v;
    return !(WORDS[first + code / 64] >> (code % 64) & 1);
}
"""

_C_SIGMOID = """
static double sigmoid(double f)
{
    double e = exp(-fabs(f));
    return f >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}
"""
