"""Where and with what a run was made."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

__all__ = ["commit", "cpu_model", "describe"]

ROOT = Path(__file__).parents[1]

_PACKAGES = ("stagewise", "lightgbm", "xgboost", "catboost", "scikit-learn", "numba", "numpy")


def cpu_model() -> str:
    """The processor's name; family and model too, since cloud machines hide the name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name", platform.machine())
    if "cpu family" in facts:
        name += f" (family {facts['cpu family']}, model {facts['model']})"
    return name


def commit() -> str | None:
    """The commit that is checked out, with a + when files differ from it; None outside of a repository."""

    def git(*words: str) -> str:
        # no optional locks: a benchmark must not get in the way of whoever works here
        command = ["git", "--no-optional-locks", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def describe() -> dict[str, Any]:
    """For the JSON file."""
    versions: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions,
    }
