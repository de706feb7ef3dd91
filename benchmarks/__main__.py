"""python -m benchmarks [NAME ...] [--quick] [--repeats N] [--threads N] [--out DIR]"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import machine, readme, tables
from benchmarks.goals import checked, training_ratios
from benchmarks.options import Options, Outcome
from benchmarks.parts import PARTS
from benchmarks.picture import draw
from benchmarks.results import Results, folder_of
from benchmarks.rivals import RIVALS
from benchmarks.timing import say
from benchmarks.training import compare, geometric_mean
from benchmarks.workloads import WORKLOADS

_QUICK_TABLES = 2
_CALM = 0.5


def parser() -> argparse.ArgumentParser:
    names = "\n".join(
        [
            *(f"  {name:<12} {workload.title.partition(' · ')[2]}" for name, workload in WORKLOADS.items()),
            "  workloads    A to H",
            "  tables       every real table of ../shared/data with over 10,000 rows; or name one (adult, otto, ...)",
            *(f"  {name:<12} {what}" for name, what in PARTS.items()),
            "\nWithout names: workloads, tables, and all parts but `first`.",
        ]
    )
    result = argparse.ArgumentParser(
        "python -m benchmarks",
        description="stagewise side by side with other libraries, interleaved in one run.",
        epilog=f"names:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("names", nargs="*", metavar="NAME", help="what to run; see below")
    result.add_argument("--quick", action="store_true", help="small sizes, one round: does it work at all?")
    result.add_argument("--repeats", type=_count, metavar="N", help="rounds at least (3; quick 1); short ones get more")
    result.add_argument("--threads", type=_count, default=2, metavar="N", help="for every library (2)")
    result.add_argument("--out", type=Path, metavar="DIR", help="folder of results.json and the pictures")
    result.add_argument(
        "--rivals", default="", metavar="A,B", help=f"some of {', '.join(RIVALS)}; ours is always there"
    )
    result.add_argument("--no-memory", action="store_true", help="skip the child processes that measure memory")
    result.add_argument("--large", action="store_true", help="disk: 3 GiB of files instead of 0.75, one round")
    result.add_argument("--readme", action="store_true", help="measure nothing: print the last results for the README")
    result.add_argument("--goals", action="store_true", help="measure nothing: the last results against the goals")
    return result


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 on")
    return int(text)


def expanded(names: Sequence[str], quick: bool) -> list[str]:
    """Groups replaced by what is in them; every name known, none twice."""
    large = list(tables.large())
    groups = {"workloads": list(WORKLOADS), "tables": large[: _QUICK_TABLES if quick else None]}
    asked = list(names) or ["workloads", "tables", *(part for part in PARTS if part != "first")]
    if "tables" in asked and not large:
        say(f"tables are skipped: {tables.FOLDER} is absent")
    flat = [name for entry in asked for name in groups.get(entry, [entry])]
    known = {*WORKLOADS, *PARTS, *tables.named()}
    unknown = [name for name in flat if name not in known]
    if unknown:
        raise SystemExit(f"{unknown[0]!r} is not known; python -m benchmarks --help lists the names.")
    return list(dict.fromkeys(flat))


def run_one(name: str, options: Options) -> Outcome:
    if name in PARTS:
        outcome: Outcome = import_module(f"benchmarks.parts.{name}").run(options)
        return outcome
    return compare(WORKLOADS[name] if name in WORKLOADS else tables.named()[name], options)


def pictures(results: Results, folder: Path) -> None:
    """One of A to H, one of real tables: whatever has been measured so far."""
    drawn = {"workloads": WORKLOADS.keys(), "tables": tables.named().keys()}
    for title, names in drawn.items():
        present = [name for name in names if name in results.parts]
        if present:
            path = folder / f"{title}.png"
            draw(results.parts, present, path)
            print(f"picture: {path}")


def summary(parts: Mapping[str, Mapping[str, Any]], quick: bool) -> None:
    """The geometric mean, and the goals that these parts say something about."""
    ratios = training_ratios(parts)
    if ratios:
        each = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
        print(f"fastest peer ÷ ours: {each}; geometric mean {geometric_mean(ratios):.2f}\n")
    goals = checked(parts)
    if goals:
        print(f"goals{' (quick sizes: these figures mean nothing)' if quick else ''}\n{goals}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    asked = parser().parse_args(arguments)
    rivals = tuple(name for name in asked.rivals.split(",") if name)
    if unknown := [name for name in rivals if name not in RIVALS]:
        raise SystemExit(f"--rivals: {unknown[0]!r} is not known; choose from {', '.join(RIVALS)}.")
    repeats = asked.repeats or (1 if asked.quick else 3)
    options = Options(asked.quick, repeats, asked.threads, not asked.no_memory, rivals, asked.large, asked.out)
    folder = asked.out or folder_of(options)
    results = Results(folder)
    if asked.readme or asked.goals:
        if asked.readme:
            print(readme.text(results.parts))
        else:
            summary(results.parts, options.quick)
        return
    # LightGBM gives an array's columns names of its own, and scikit-learn then warns that arrays have none
    warnings.filterwarnings("ignore", "X does not have valid feature names")
    names = expanded(asked.names, asked.quick)
    facts = machine.describe()
    load = facts["load_before"]
    if load is not None and load > _CALM and not asked.quick:
        say(f"The machine is not idle (load {load:.1f}): times will be off.")
    run = {**facts, "threads": options.threads, "repeats": options.repeats, "quick": options.quick}
    for name in names:
        outcome = run_one(name, options)
        print(outcome.text, end="\n\n", flush=True)
        results.add(name, outcome.data, {**run, "load_before": os.getloadavg()[0] if load is not None else None})
    summary({name: results.parts[name] for name in names}, options.quick)
    pictures(results, folder)
    print(f"results: {results.path}")


if __name__ == "__main__":
    main()
