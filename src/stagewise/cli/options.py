"""Options that several commands have, each written once."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "Cache",
    "DataFile",
    "Delimiter",
    "Force",
    "Format",
    "Ignore",
    "Json",
    "ModelFile",
    "OnDisk",
    "Quiet",
    "Target",
    "Threads",
    "Weight",
    "Where",
]

Cache = Annotated[
    str | None,
    typer.Option(help="Train with --on-disk, and keep the bins in this folder for the next run.", show_default=False),
]
DataFile = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="CSV, Parquet, Arrow or JSON lines, also .gz and .zst; - for stdin.", show_default=False
    ),
]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="A saved model.", show_default=False)]
Target = Annotated[str | None, typer.Option(help="The column that is predicted.", show_default=False)]
Weight = Annotated[str | None, typer.Option(help="A column of row weights.", show_default=False)]
Ignore = Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.", show_default=False)]
Where = Annotated[
    list[str] | None,
    typer.Option(help="Only rows that meet this, as in 'age >= 18'; may be repeated.", show_default=False),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="csv, parquet, arrow or jsonl, where the name does not say.", show_default=False),
]
Delimiter = Annotated[
    str | None, typer.Option(help="What divides the columns of a CSV file; a comma by default.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout instead of words.")]
OnDisk = Annotated[
    bool | None,
    typer.Option(
        "--on-disk/--in-memory",
        help="Leave a CSV or Parquet table on disk; done without asking when memory is too small.",
        show_default=False,
    ),
]
Threads = Annotated[
    int | None, typer.Option(help="All cores by default; results do not depend on it.", show_default=False)
]
