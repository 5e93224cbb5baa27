"""Read the result of an experiment back, whole or with one clear error."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hiddenfield.data.files import read_text
from hiddenfield.errors import ReadError
from hiddenfield.evaluation.measuring import METRICS

__all__ = ["read_result"]


@dataclass(frozen=True)
class Maybe:
    """What may be null instead."""

    form: Any


# Forms of values: types; a list of one form, or of two for a pair; an object by its keys, where "?" marks what may be
# missing and "*" stands for any; a set of words.
NUMBER = (int, float)
PAIR = Maybe([NUMBER, NUMBER])
METRICS_OF = Maybe({"*": Maybe(NUMBER)})
SPREAD = {"mean": NUMBER, "std": Maybe(NUMBER)}
CURVE = {"true_positive": [NUMBER], "auc?": Maybe(NUMBER)}
ROW: dict[str, Any] = SPREAD | {
    "data": (str,),
    "model": (str,),
    "variant?": (str,),
    "column": (str,),
    "metric": set(METRICS),
    "metrics?": METRICS_OF,
    "interval?": PAIR,
    "folds?": [{"value": NUMBER}],
    "protocol": {
        "text": (str,),
        "test_share?": NUMBER,
        "candidates?": [{}],
        "splits?": (str,),
        "interval?": Maybe((str,)),
    },
    "baselines": {
        "*": {
            "mean": NUMBER,
            "std?": Maybe(NUMBER),
            "interval?": PAIR,
            "metrics?": METRICS_OF,
            "num_parameters?": Maybe(NUMBER),
            "model_against_it?": {"verdict": (str,)},
        }
    },
    "figures": [{"value": NUMBER, "source": (str,), "protocol": (str,)}],
    "leakage": Maybe(
        {"count": (int,), "share?": NUMBER, "contradicting?": (int,), "mean_without?": Maybe(NUMBER)}
    ),
    "as_published?": SPREAD | {"folds?": [NUMBER], "text": (str,), "selected?": {}},
    "structures?": {"used?": (int,)},
    "parameters?": {},
    "num_parameters?": Maybe(NUMBER),
    "ranges?": Maybe([{"low": NUMBER, "high": NUMBER, "count": (int,), "mae": Maybe(NUMBER)}]),
    "roc?": Maybe(CURVE | {"false_positive": [NUMBER], "baselines?": Maybe({"*": CURVE})}),
    "training_curve?": Maybe({"metric": (str,), "steps": [(int,)], "runs": [(int,)]}),
    "run?": Maybe({"packages?": Maybe({}), "machine?": Maybe({})}),
}
COUNT, NAMES = Maybe((int,)), Maybe([(str,)])
SCALE = {
    "structures?": COUNT,
    "folds?": COUNT,
    "epochs?": COUNT,
    "models?": NAMES,
    "data?": NAMES,
    "variants?": NAMES,
    "columns?": NAMES,
    "small_grid?": (bool,),
}
RESULT = {"experiment": (str,), "scale": {}, "rows": [], "versions?": Maybe({}), "machine?": Maybe({})}
WORDS = {
    int: "a whole number", float: "a number", str: "a text", bool: "true or false", dict: "an object", list: "a list",
}  # fmt: skip


def read_result(file: str | Path, name: str) -> dict[str, Any]:
    """Read what ``hiddenfield reproduce NAME --out`` wrote; every row is checked.

    Parameters
    ----------
    file
        JSON.
    name
        Of the experiment that it must be of.
    """
    file = Path(file)
    try:
        content = json.loads(read_text(file), parse_constant=_no_number)
    except ReadError:
        raise
    except ValueError as error:
        raise ReadError(f"is not the result of an experiment: no JSON ({error})", file=file) from None
    wrong = _wrong(content, RESULT, "it")
    if wrong is None:
        known = {key.rstrip("?") for key in SCALE}
        strange = sorted(set(content["scale"]) - known)
        wrong = (
            f"scale has an unknown {strange[0]!r}" if strange else _wrong(content["scale"], SCALE, "scale")
        )
    if wrong is not None:
        raise ReadError(f"is not the result of an experiment: {wrong}", file=file)
    if content["experiment"] != name:
        raise ReadError(f"is the result of {content['experiment']}, not of {name}", file=file)
    for number, row in enumerate(content["rows"], start=1):
        wrong = _wrong(row, ROW, "it")
        if wrong is not None:
            raise ReadError(
                f"row {number} is damaged: {wrong}; run that trial again, or take the row out", file=file
            )
    return dict(content)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _wrong(value: Any, form: Any, where: str) -> str | None:
    """Return in words the first thing that is not of the form, or None.

    Examples
    --------
    >>> _wrong({"folds": [{"value": "x"}]}, {"folds": [{"value": NUMBER}]}, "it")
    "folds 1 value should be a number, got 'x'"
    >>> _wrong({}, {"folds": [NUMBER]}, "it")
    'it has no folds'
    """
    if isinstance(form, Maybe):
        return None if value is None else _wrong(value, form.form, where)
    if isinstance(form, set):
        return (
            None
            if isinstance(value, str) and value in form
            else f"{where} should be one of {', '.join(sorted(form))}, got {value!r:.60}"
        )
    kinds = form if isinstance(form, tuple) else (type(form),)
    if type(value) not in kinds:
        return f"{where} should be {WORDS[kinds[-1]]}, got {value!r:.60}"
    if isinstance(form, list) and len(form) == 2 and len(value) != 2:
        return f"{where} should be two numbers, got {value!r:.60}"
    if isinstance(form, list) and form:
        parts = [(entry, form[0], f"{_of(where)}{k}") for k, entry in enumerate(value, start=1)]
    elif isinstance(form, dict):
        missing = next((key for key in form if key[-1] not in "?*" and key not in value), None)
        if missing is not None:
            return f"{where} has no {missing}"
        parts = [
            (entry, found, f"{_of(where)}{key}")
            for key, entry in value.items()
            if (found := form.get(key, form.get(f"{key}?", form.get("*")))) is not None
        ]
    else:
        return None
    return next((wrong for part in parts if (wrong := _wrong(*part)) is not None), None)


def _of(where: str) -> str:
    return "" if where == "it" else f"{where} "
