"""The command line: one module a subcommand, each of which parses, calls and prints.

Exit codes: 0 done; 1 the input or the work failed, with one line that says why and what to do; 2 the command was
called wrongly; 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import click
import typer

from hiddenfield.errors import HiddenfieldError

__all__ = ["build", "main"]

COMMANDS = ("convert", "describe", "generate", "formats", "version")


def build() -> typer.Typer:
    """Put the subcommands together."""
    app = typer.Typer(
        name="hiddenfield",
        help="Latent-variable models of sequences, trees, graphs and relations.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def options(
        debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback when something fails.")] = False,
    ) -> None:
        """Latent-variable models of sequences, trees, graphs and relations."""

    for name in COMMANDS:
        module = importlib.import_module(f"hiddenfield.cli.{name}")
        app.command(name=name)(module.command)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        code = build()(words, standalone_mode=False, prog_name="hiddenfield")
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as wrong:
        if debug:
            raise
        wrong.show()
        sys.exit(wrong.exit_code)
    except (KeyboardInterrupt, click.Abort):
        print("hiddenfield: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away, as `head` does: nothing is wrong, and nothing more is to be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (HiddenfieldError, OSError, MemoryError) as failure:
        if debug:
            raise
        print(f"hiddenfield: error: {' '.join(str(failure).split()) or type(failure).__name__}", file=sys.stderr)
        sys.exit(1)
