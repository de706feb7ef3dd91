"""The rules of the house (docs/house.md): what would rot quietly if nobody checked it."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stagewise

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "stagewise"

ORDER = (
    "_version",
    "errors",
    "params",
    "markup",
    "kernels",
    "storage",
    "data",
    "losses",
    "tree",
    "backends",
    "learners",
    "files",
    "boosting",
    "estimators",
    "dask",
    "inspection",
    "plots",
    "report",
    "io",
    "tuning",
    "cli",
)
"""A package imports only those before it, and itself."""

ROOM_OF_ROOT = "stagewise"  # __init__.py, which collects the public names

MAX_MODULE_LINES = 450
MAX_FUNCTION_LINES = 90

NOT_A_NOUN = {"utils", "util", "helpers", "helper", "common", "misc"}

# What `import stagewise` must not load: each is optional, or needed by some calls only, and slow to load.
HEAVY = (
    "pandas",
    "polars",
    "pyarrow",
    "matplotlib",
    "dask",
    "lightgbm",
    "xgboost",
    "catboost",
    "onnx",
    "onnxruntime",
    "rich",
    "typer",
)
# What must not be needed at all.
OPTIONAL = tuple(name for name in HEAVY if name not in ("rich", "typer"))


def modules() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def of(path: Path) -> str:
    """Short name of a source file, for test ids and messages."""
    return path.relative_to(SRC).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


every_module = pytest.mark.parametrize("path", modules(), ids=of)


# ------------------------------------------------------------------------------------------------ import direction


def room_of(file: str) -> str:
    """The package, or module, of `stagewise` that holds a file: 'tree/grower.py' -> 'tree'."""
    first = file.split("/")[0].removesuffix(".py")
    return ROOM_OF_ROOT if first == "__init__" else first


def imported_rooms(source: ast.Module, file: str) -> Iterator[tuple[int, str]]:
    """(line, room) of every import of stagewise in a file: absolute or relative, at the top or inside a function."""
    package = ["stagewise", *file.split("/")[:-1]]
    for node in ast.walk(source):
        names: list[list[str]] = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            names = [[*base, alias.name] for alias in node.names]
        for name in names:
            if name[0] == "stagewise":
                room = name[1] if len(name) > 1 else ROOM_OF_ROOT
                yield node.lineno, room if room in ORDER or is_module(room) else ROOM_OF_ROOT


def is_module(name: str) -> bool:
    return (SRC / name).is_dir() or (SRC / f"{name}.py").is_file()


def allowed(room: str) -> set[str]:
    if room == ROOM_OF_ROOT:
        return set(ORDER) - {"cli"}
    before = set(ORDER[: ORDER.index(room) + 1])
    return before | {ROOM_OF_ROOT} if room == "cli" else before


@pytest.mark.parametrize(
    "file, line, room",
    [
        ("tree/grower.py", "from stagewise.kernels.grow import grow", "kernels"),
        ("tree/grower.py", "from stagewise import errors", "errors"),
        ("tree/grower.py", "from stagewise import GradientBoostingRegressor", ROOM_OF_ROOT),
        ("tree/grower.py", "import stagewise.data.table as t", "data"),
        ("tree/grower.py", "import stagewise", ROOM_OF_ROOT),
        ("tree/grower.py", "from .tree import Tree", "tree"),
        ("tree/grower.py", "from . import tree", "tree"),
        ("tree/grower.py", "from .. import boosting", "boosting"),
        ("tree/grower.py", "from ..boosting.loop import run", "boosting"),
        ("tree/__init__.py", "from .grower import grow", "tree"),
        ("tree/__init__.py", "from ..data import Dataset", "data"),
        ("errors.py", "from .params import check", "params"),
        ("errors.py", "from . import params", "params"),
        ("__init__.py", "from .estimators import GradientBoostingRegressor", "estimators"),
        ("tree/grower.py", "def f():\n    from stagewise.cli import app", "cli"),
        ("tree/grower.py", "if TYPE_CHECKING:\n    from stagewise.boosting import loop", "boosting"),
    ],
)
def test_every_form_of_import_is_seen(file, line, room):
    assert [found for _, found in imported_rooms(ast.parse(line), file)] == [room]


def test_other_imports_are_not_ours():
    source = ast.parse("import io, typing\nfrom data import x\nimport stagewise_extra\nfrom numpy import io")
    assert list(imported_rooms(source, "tree/grower.py")) == []


@every_module
def test_imports_point_up(path):
    room = room_of(of(path))
    assert room in {*ORDER, ROOM_OF_ROOT}, (
        f"{of(path)} has no place in the house; give it one in ORDER and docs/house.md."
    )
    wrong = [
        f"{of(path)}:{line} imports {imported}, which stands below {room}"
        for line, imported in imported_rooms(parse(path), of(path))
        if imported not in allowed(room)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_plan_on_paper_is_the_plan_in_force():
    plan, _around = (ROOT / "docs" / "house.md").read_text(encoding="utf-8").split("Around it:")
    rooms = re.findall(r"^\| `(\w+)(?:\.py|/)`", plan, flags=re.MULTILINE)
    assert ("_version", *rooms) == ORDER


# ------------------------------------------------------------------------------------------------------------ size


@every_module
def test_modules_and_functions_stay_small(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_MODULE_LINES, (
        f"{of(path)} has {lines} lines, at most {MAX_MODULE_LINES} are allowed: divide it."
    )
    long = [
        f"{of(path)}:{node.lineno} {node.name} has {length} lines, at most {MAX_FUNCTION_LINES} are allowed: divide it."
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_a_file_is_one_noun():
    folders = [SRC, ROOT / "tests", ROOT / "benchmarks"]
    bad = [
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in folder.rglob("*")
        if path.name.removesuffix(".py").strip("_").removeprefix("test_") in NOT_A_NOUN
    ]
    assert not bad, f"{bad}: say what is in them."


# --------------------------------------------------------------------------------------------------- public names


def declared_all(source: ast.Module) -> list[str] | None:
    """The list a module assigns to `__all__`, None if it has none."""
    for node in source.body:
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "__all__" for target in node.targets):
            return list(ast.literal_eval(node.value))
    return None


@every_module
def test_all_is_sorted(path):
    names = declared_all(parse(path))
    if names is None:
        assert of(path) != "__init__.py", "stagewise/__init__.py must say what is public, in __all__."
        return
    assert names == sorted(set(names)), f"__all__ of {of(path)} must be: {sorted(set(names))}"


@pytest.mark.parametrize("name", stagewise.__all__)
def test_public_names_exist(name):
    assert getattr(stagewise, name, None) is not None


def test_version_has_one_source():
    from stagewise._version import __version__

    assert stagewise.__version__ == __version__


# ---------------------------------------------------------------------------------------------------------- twins


def decorator_name(node: ast.expr) -> str:
    """`@kernel`, `@jit.kernel` and `@kernel(...)` are all 'kernel'."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def kernels_in(source: ast.Module) -> list[str]:
    """The public functions that Python calls compiled. Those marked `@device` are parts of them, and need no twin."""
    return [
        node.name
        for node in ast.walk(source)
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and "kernel" in map(decorator_name, node.decorator_list)
    ]


def test_kernels_are_recognised():
    source = ast.parse(
        "@kernel\ndef a(): ...\n@jit.kernel\ndef b(): ...\n@kernel(x=1)\ndef c(): ...\n"
        "@device\ndef d(): ...\n@kernel\ndef _e(): ...\ndef f(): ...\n"
        "if JIT:\n    @kernel\n    def g(): ..."
    )
    assert kernels_in(source) == ["a", "b", "c", "g"]


def test_every_kernel_has_a_slow_twin():
    twins = importlib.import_module("naive").TWINS
    kernels = {f"{path.stem}.{name}" for path in (SRC / "kernels").glob("*.py") for name in kernels_in(parse(path))}
    missing, stale = sorted(kernels - set(twins)), sorted(set(twins) - kernels)
    assert not missing, f"tests/naive.py must hold a slow twin, listed in TWINS, for each of {missing}."
    assert not stale, f"TWINS in tests/naive.py names what is no kernel (any more): {stale}."
    assert all(callable(twin) for twin in twins.values())


# --------------------------------------------------------------------------------------------------- light imports


def in_fresh_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.nojit
def test_import_is_light():
    """scikit-learn itself imports pandas when it is installed, so this holds only while `import stagewise` does not
    import scikit-learn: the public names are looked up when they are first used."""
    loaded = in_fresh_process(f"import stagewise, sys; print(*(m for m in {HEAVY} if m in sys.modules))")
    assert loaded == "", f"import stagewise loads {loaded}"


def test_the_engine_works_without_optional_packages():
    """A plain `pip install stagewise`: every public name can be reached, and a model trained."""
    in_fresh_process(
        "import sys\n"
        "class NotInstalled:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {OPTIONAL}: raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, NotInstalled())\n"
        "import numpy as np, stagewise\n"
        "for name in stagewise.__all__: getattr(stagewise, name)\n"
        "X = np.arange(60.0).reshape(-1, 1)\n"
        "stagewise.GradientBoostingRegressor(n_estimators=2, min_samples_leaf=2).fit(X, X[:, 0]).predict(X)\n"
    )
