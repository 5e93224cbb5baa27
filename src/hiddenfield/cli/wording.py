"""Messages in the words of the command line: flags where the library names arguments of Python."""

from __future__ import annotations

import functools
import inspect
import re

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
