"""The `stagewise` command itself: the list of commands, exit codes, and what happens when something is wrong.

What a user can do wrong ends in one line on stderr and an exit code, never in a traceback; a traceback is a bug.
"""

from __future__ import annotations

import errno
import traceback
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from stagewise._version import __version__
from stagewise.cli.terminal import one_line
from stagewise.errors import StagewiseError

__all__ = ["EXIT_CODES", "app", "main"]

EXIT_CODES = (
    "Exit codes: 0 done; 1 the machine failed (disk full, out of memory), or a bug; 2 the command, a file or the data "
    "cannot be used, and the message says why; 130 stopped by Ctrl-C."
)

_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
"""Errors of the system that no other command line would have avoided."""


class Commands(TyperGroup):
    """Turns what a user can do wrong into one line and an exit code, for all commands in one place."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.obj = {"debug": "--debug" in args[:end]}  # wherever it stands: people add it at the end
        own = [arg for arg in args[:end] if arg != "--debug"] + args[end:]
        return list(super().parse_args(ctx, own if own or not args else ["--help"]))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `stagewise demo | head`: typer ends quietly
            raise
        except (StagewiseError, OSError, MemoryError) as error:
            if ctx.obj["debug"]:
                traceback.print_exc()
            message = one_line(error) or "there is not enough memory for this; use fewer rows or columns."
            line = Text.assemble(("error: ", "bold red"), message)
            Console(stderr=True, highlight=False).print(line, soft_wrap=True)
            machine = isinstance(error, MemoryError) or getattr(error, "errno", None) in _MACHINE
            raise typer.Exit(1 if machine else 2) from error


app = typer.Typer(
    cls=Commands,
    help="Gradient boosting with exact, reproducible histograms.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # a bug report must not hold the user's data
)


def main() -> None:
    """Entry point of the console script."""
    app(prog_name="stagewise")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"stagewise {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and end.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from; may stand anywhere.")] = False,
) -> None:
    """Gradient boosting with exact, reproducible histograms."""
