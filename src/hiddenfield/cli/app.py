"""The subcommands put together, and failures that a user can cause in one line."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hiddenfield.cli.options import command_line, expanded
from hiddenfield.errors import HiddenfieldError, SkippedInputWarning

__all__ = ["build"]

# The module of each subcommand: a function of that name, or a group of functions.
COMMANDS = {
    "convert": "data",
    "describe": "data",
    "generate": "data",
    "fit": "fit",
    "predict": "fit",
    "embed": "fit",
    "kernel": "kernel",
    "evaluate": "evaluate",
    "reproduce": "evaluate",
    "infer": "infer",
    "relational": "relational",
    "learn": "learn",
    "impute": "learn",
    "formats": "data",
    "version": "data",
}


def build(*, debug: bool = False) -> typer.Typer:
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
        debug: Annotated[
            bool, typer.Option("--debug", help="Show the whole traceback when something fails.")
        ] = False,
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        """Latent-variable models of sequences, trees, graphs and relations."""

    for name, home in COMMANDS.items():
        module = importlib.import_module(f"hiddenfield.cli.{home}")
        place, commands = app, vars(module).get("COMMANDS")
        if commands is None:
            commands = {name: getattr(module, name)}
        else:
            app.add_typer(place := typer.Typer(help=module.HELP, no_args_is_help=True), name=name)
        for part, command in commands.items():
            # One line per paragraph: the terminal breaks them where it ends, not where the source does.
            text = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(command) or "")
            run = expanded(command)
            place.command(name=part, help=text)(run if debug else guarded(run))
    return app


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Turn the failures that a user can cause into one line on standard error and an exit code."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            with warnings.catch_warnings(), _says_when_compiling():
                warnings.simplefilter("always", SkippedInputWarning)
                warnings.showwarning = lambda message, *_, **__: _say("warning", in_flags(str(message)))
                command(*arguments, **options)
        except BrokenPipeError:
            # The reader of our output went away, as `head` does: nothing is wrong, and nothing more is to be said.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            _say("interrupted", _what_is_left(options))
            raise typer.Exit(130) from None
        except MemoryError as failure:
            _say(
                "error",
                f"out of memory{f' ({failure})' if str(failure) else ''}; use less data, or a machine with more memory",
            )
            raise typer.Exit(1) from None
        except (HiddenfieldError, OSError) as failure:
            _say("error", in_flags(str(failure)) or type(failure).__name__)
            raise typer.Exit(1) from None

    return run


@contextlib.contextmanager
def _says_when_compiling() -> Iterator[None]:
    """Say once, on a terminal, that the first run compiles: seconds in which nothing else can be seen."""
    from hiddenfield.ops.compile import told_of_compiling

    told: list[bool] = []

    def say() -> None:
        if not told and sys.stderr is not None and sys.stderr.isatty():
            told.append(True)
            _say(
                "compiling", "the first run takes some seconds longer; what is compiled is kept for the next"
            )

    with told_of_compiling(say):
        yield


def _what_is_left(options: Mapping[str, Any]) -> str:
    """Say what an interrupted command left behind, and how to go on where that is possible."""
    out = options.get("out")
    if "resume" not in options or out is None or not Path(out).is_dir() or not any(Path(out).iterdir()):
        return "no partial output was left"
    command = command_line() or "the same command"
    again = command if options["resume"] else f"{command} --resume"
    return f"what was finished is in {out}; go on with: {again}"


def _version(asked: bool) -> bool:
    """Print the version and end, if asked."""
    if asked:
        import hiddenfield

        typer.echo(f"hiddenfield {hiddenfield.__version__}")
        raise typer.Exit
    return asked


def _say(kind: str, message: object) -> None:
    print(f"hiddenfield: {kind}: {' '.join(str(message).split())}", file=sys.stderr)


# -- messages in the words of the command line: flags where the library names arguments of Python ------------


# Options that have a flag of their own, under the names that arguments of Python have.
FLAGS = (
    "format", "structure", "on_error", "target", "task", "device", "devices", "seed", "resume", "jobs", "model", "dim",
    "rounds", "epochs", "batch_size", "learning_rate", "resample", "ensemble", "test_fraction", "split", "group",
    "folds", "repeats", "metric", "shard_size",
)  # fmt: skip
VALUE = r"""(?:"[^"]*"|'[^']*'|\[[^\]]*\]|[\w.+-]*[\w+-])?"""
ARGUMENT = re.compile(rf"(?<![\w-])([a-z_]+)=({VALUE})")
PARAMETER = re.compile(r"The '(\w+)' parameter of \w+")
WORDS = {
    "or go on with what is there with resume": "or go on with what is there with --resume",
    "resume it, or remove it to start again": "go on with --resume, or remove it to start again",
    "on_error must be": "--on-error must be",
    "use StructureRegressor": "use --task regression",
    "use StructureClassifier": "use --task classification",
    "give y, or read with target=": "name them with --target",
    "name what is predicted with targets": "name what is predicted with --target",
    "y is None and the structures have no targets of their own": "name a target with --target",
}


def in_flags(message: str) -> str:
    """Return a message with the flags that a user types where it names arguments of Python.

    Examples
    --------
    >>> in_flags('leave such rows out with on_error="skip"')
    'leave such rows out with --on-error skip'
    >>> in_flags("if the file has no header, read it with header=False")
    'if the file has no header, read it with --set header=false'
    >>> in_flags("The 'dropout' parameter of StructureRegressor must be a float. Got 2 instead.")
    '--parameter dropout must be a float. Got 2 instead.'
    >>> in_flags("The 'counts' parameter of StructureRegressor must be a bool. Got 'x' instead.")
    "--parameter counts must be a bool. Got 'x' instead."
    >>> in_flags("cannot be read: 'C=C=O'; line 3: x=1")
    "cannot be read: 'C=C=O'; line 3: x=1"
    """
    for words, flags in WORDS.items():
        message = message.replace(words, flags)
    message = PARAMETER.sub(lambda found: _flag(found[1], "") or found[0], message)
    return ARGUMENT.sub(lambda found: _flag(found[1], found[2]) or found[0], message)


def _flag(name: str, value: str) -> str:
    """Return how a value is given on the command line; nothing for what is no option."""
    plain = value.strip("[]\"'").replace("', '", ",")
    plain = {"True": "true", "False": "false", "None": "none"}.get(plain, plain)
    if name in FLAGS:
        return f"--{name.replace('_', '-')}" + (f" {plain}" if plain else "")
    for option, names in (("--set", _reader_options()), ("--parameter", _parameters())):
        if name in names:
            return f"{option} {name}" + (f"={plain}" if plain else "")
    return ""


@functools.cache
def _reader_options() -> frozenset[str]:
    from hiddenfield.data.formats import FORMATS

    return frozenset(
        name for entry in FORMATS.values() for name in list(inspect.signature(entry.read).parameters)[1:]
    )


@functools.cache
def _parameters() -> frozenset[str]:
    from hiddenfield.estimators import StructureClassifier, StructureEncoder, StructureRegressor
    from hiddenfield.evaluation.fitting import models

    kinds = (
        StructureClassifier,
        StructureRegressor,
        StructureEncoder,
        *(kind for pair, _ in models().values() for kind in pair),
    )
    return frozenset(name for kind in kinds for name in kind().get_params())
