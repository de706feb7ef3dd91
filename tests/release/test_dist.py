"""What is released: a wheel that works where nothing else of this repository is, and a version with one source."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import stagewise

ROOT = Path(__file__).parents[2]


def test_the_version_stands_in_one_place():
    """Packaging reads it from _version.py, and nothing else repeats it."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in settings["project"]["dynamic"]
    assert settings["tool"]["hatch"]["version"]["path"] == "src/stagewise/_version.py"
    for name in ("CITATION.cff", "mkdocs.yml", "README.md", "Makefile"):
        assert stagewise.__version__ not in (ROOT / name).read_text(encoding="utf-8"), name
    assert not re.search(r"^version:", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)


def test_types_are_for_users():
    assert (ROOT / "src" / "stagewise" / "py.typed").is_file()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(wheel, source archive), built as `make dist` does."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


@pytest.mark.slow
def test_what_is_inside(built):
    wheel, source = built
    assert stagewise.__version__ in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    inside = {name.split("/")[0] for name in names}
    assert inside == {"stagewise", f"stagewise-{stagewise.__version__}.dist-info"}
    assert "stagewise/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".nbc"))]
    with tarfile.open(source) as archive:
        members = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    wanted = {"README.md", "LICENSE", "CITATION.cff", "mkdocs.yml", "docs/tutorial.md", "examples/canvas.py"}
    assert wanted <= members


@pytest.mark.slow
def test_a_clean_environment_runs_the_demo(built, tmp_path):
    """pip install of the wheel and its dependencies, nothing of this repository or environment in sight."""
    wheel, _ = built
    venv.create(tmp_path / "clean", with_pip=True)
    python = tmp_path / "clean" / "bin" / "python"
    fetched = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel],
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    if fetched.returncode and "No matching distribution" in fetched.stderr:
        pytest.skip("no package index can be reached")
    assert fetched.returncode == 0, fetched.stderr
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [tmp_path / "clean" / "bin" / "stagewise", "demo"],
        capture_output=True, text=True, timeout=600, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert list(tmp_path.rglob("*.stagewise"))
    where = [python, "-c", "import stagewise; print(stagewise.__file__, stagewise.__version__)"]
    said = subprocess.run(where, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environment)
    file, version = said.stdout.split()
    assert Path(file).is_relative_to(tmp_path / "clean")
    assert version == stagewise.__version__
