"""Options that several subcommands share, and how results are printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hiddenfield.errors import InputError

__all__ = [
    "Format",
    "Json",
    "OnError",
    "Setting",
    "Source",
    "Structure",
    "Target",
    "emit",
    "named_values",
    "reader_options",
]

Source = Annotated[Path, typer.Argument(metavar="PATH", help="File or folder to read.", show_default=False)]
Format = Annotated[
    str | None, typer.Option("--format", help="Format of PATH; recognised from the file by default.")
]
Structure = Annotated[str | None, typer.Option(help="Column of a table that holds the SMILES or sequences.")]
Target = Annotated[
    list[str] | None,
    typer.Option("--target", help="Column of a table to predict; may be given several times."),
]
OnError = Annotated[
    str | None, typer.Option(metavar="raise|skip", help="What to do with a molecule that cannot be parsed.")
]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Another option of the format; see hiddenfield formats."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


def reader_options(
    format: str | None,
    structure: str | None,
    target: list[str] | None,
    on_error: str | None,
    settings: list[str] | None = None,
) -> dict[str, Any]:
    """Return the options that were given, as `hiddenfield.read` takes them."""
    given: dict[str, Any] = {
        "format": format,
        "structure": structure,
        "target": target or None,
        "on_error": on_error,
    }
    return {name: value for name, value in given.items() if value is not None} | named_values(
        settings, "--set"
    )


def named_values(settings: list[str] | None, option: str) -> dict[str, Any]:
    """Read ``NAME=VALUE`` from each of the texts that an option was given."""
    found: dict[str, Any] = {}
    for setting in settings or []:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise InputError(f"{option} expects NAME=VALUE, got {setting!r}")
        found[name.strip()] = parse(value)
    return found


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


def emit(result: dict[str, Any], text: str, as_json: bool) -> None:
    """Print the result: for a program on request, for a person otherwise."""
    typer.echo(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) if as_json else text)
