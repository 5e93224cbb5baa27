"""Options that several subcommands share, and how results are printed."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, echo

from hiddenfield.errors import InputError
from hiddenfield.report.drawing import check_suffix

Source = Annotated[Path, Argument(metavar="PATH", help="File or folder to read.", show_default=False)]
Target = Annotated[
    list[str] | None,
    Option(
        "--target",
        metavar="NAME",
        help="What to predict: a name, names with commas, or a pattern such as 'NR-*'; may be given several times.",
    ),
]
Task = Annotated[str, Option(metavar="auto|regression|classification", help="Type of the target.")]
Parameter = Annotated[
    list[str] | None,
    Option("--parameter", "-p", metavar="NAME=VALUE", help="A parameter of the estimator, e.g. dropout=0.2."),
]
Device = Annotated[str | None, Option(metavar="auto|cpu|cuda", help="Device to compute on.")]
Jobs = Annotated[
    int | None,
    Option(min=1, help="Processes; by default one per core.", show_default=False),
]
Json = Annotated[bool, Option("--json", help="Print the result as one JSON object.")]


def reader_options(
    format: str | None = Option(None, "--format", help="Format of PATH; detected by default."),
    structure: str | None = Option(None, help="Column of a table with the SMILES or sequences."),
    on_error: str | None = Option(
        None, metavar="raise|skip", help="What to do with a molecule that cannot be parsed."
    ),
    setting: list[str] | None = Option(
        None, "--set", metavar="NAME=VALUE", help="Another option of the format; see hiddenfield formats."
    ),
) -> dict[str, Any]:
    """Return the options that were given, as `hiddenfield.read` takes them."""
    given = given_options(format=format, structure=structure, on_error=on_error)
    return given | named_values(setting, "--set")


Reader = Annotated[dict[str, Any], reader_options]


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with single options for each group of them.

    A group is a parameter ``Annotated[kind, function]``: the options are the function's, and the command is given what
    the function makes of them.
    """
    own = inspect.signature(command, eval_str=True)
    groups: dict[str, tuple[Callable[..., Any], list[inspect.Parameter]]] = {}
    for name, parameter in own.parameters.items():
        make = getattr(parameter.annotation, "__metadata__", (None,))[0]
        if inspect.isfunction(make):
            groups[name] = make, list(inspect.signature(make, eval_str=True).parameters.values())
    every = [parameter for name, parameter in own.parameters.items() if name not in groups]
    every += [parameter for _, parameters in groups.values() for parameter in parameters]

    @functools.wraps(command)
    def run(**options: Any) -> None:
        for name, (make, parameters) in groups.items():
            options[name] = make(**{parameter.name: options.pop(parameter.name) for parameter in parameters})
        command(**options)

    run.__signature__ = inspect.Signature([p.replace(kind=p.KEYWORD_ONLY) for p in every])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    return run


def named_values(settings: list[str] | None, option: str) -> dict[str, Any]:
    """Read ``NAME=VALUE`` from each of the texts that an option was given; ``none`` is Python's None.

    Examples
    --------
    >>> named_values(["patience=none", "dim=8"], "--parameter")
    {'patience': None, 'dim': 8}
    """
    found: dict[str, Any] = {}
    for setting in settings or []:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise InputError(f"{option} expects NAME=VALUE, got {setting!r}")
        # A reader's own options know the word.
        found[name.strip()] = None if value == "none" and option != "--set" else parse(value)
    return found


_COMMAND: ContextVar[str | None] = ContextVar("command", default=None)


@contextlib.contextmanager
def recorded(words: Sequence[str]) -> Iterator[None]:
    """Keep the command line, for records of what it does."""
    token = _COMMAND.set(shlex.join(["hiddenfield", *words]))
    try:
        yield
    finally:
        _COMMAND.reset(token)


def command_line() -> str | None:
    """Return the command line as one would type it again; None outside of `recorded`."""
    return _COMMAND.get()


def given_options(**options: Any) -> dict[str, Any]:
    """Return the options that were given: those that are neither None nor False nor empty.

    Examples
    --------
    >>> given_options(folds=0, repeats=None, quick=False, only=[])
    {'folds': 0}
    """
    return {name: value for name, value in options.items() if value not in (None, []) and value is not False}


def check_writable(path: Path | None, option: str, *suffixes: str, folder: bool = False) -> None:
    """Check before any work that a file (of one of the suffixes), or a folder, can be written; nothing is left there.

    Examples
    --------
    >>> check_writable(Path(tempfile.gettempdir()), "--report")
    Traceback (most recent call last):
    hiddenfield.errors.InputError: --report: ... is a folder; name a file to write
    """
    if path is None:
        return
    if suffixes:
        check_suffix(path, option, *suffixes)
    kind, other = ("folder", "file") if folder else ("file", "folder")
    full = path.expanduser().absolute()
    try:
        if full.exists() and full.is_dir() != folder:
            raise InputError(f"{option}: {path} is a {other}; name a {kind} to write")
        place = next(place for place in (full, *full.parents) if place.exists() and (folder or place != full))
        with tempfile.TemporaryFile(dir=place):
            pass
    except NotADirectoryError:
        raise InputError(
            f"{option}: {path} would lie in {place}, which is a file; name a {kind} elsewhere"
        ) from None
    except OSError as error:
        raise InputError(
            f"{option}: {path} cannot be written ({error.strerror}); name a {kind} where you may write"
        ) from None


def parse(text: str) -> Any:
    """Read a value from the command line: true, false, a number, a list with commas, or else the text itself.

    Examples
    --------
    >>> parse("true"), parse("3"), parse("0.5"), parse("a,b"), parse("header")
    (True, 3, 0.5, ['a', 'b'], 'header')
    """
    if "," in text:
        return [parse(part) for part in text.split(",")]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def emit(result: dict[str, Any], text: str, as_json: bool, since: float | None = None) -> None:
    """Print the result: for a program on request, for a person otherwise; with the seconds `since` it was begun."""
    if since is not None:
        seconds = time.perf_counter() - since
        result, text = result | {"seconds": round(seconds, 3)}, f"{text} in {seconds:.1f} s"
    echo(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) if as_json else text)


@contextlib.contextmanager
def ends_promptly(seconds: float = 0.4) -> Iterator[None]:
    """End the process soon after Ctrl-C even where code that is not Python goes on: compiling, say, or a long product.

    An interrupt is raised in the main thread as ever. If that has not ended what runs here after so many seconds, the
    process says so and exits with code 130. Only for work that writes nothing until it is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    done = threading.Event()

    def watch() -> None:
        while signals := os.read(reading, 64):
            if signal.SIGINT in signals and not done.wait(seconds):
                print("hiddenfield: interrupted: nothing was written", file=sys.stderr, flush=True)
                os._exit(130)

    thread = threading.Thread(target=watch, daemon=True)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(before)
        os.close(writing)  # ends the thread
        thread.join()
        os.close(reading)
