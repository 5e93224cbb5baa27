"""Every algorithm says what it computes, what that is worth, what it costs and whose it is."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hiddenfield import fields, inference
from hiddenfield.inference import METHODS, MapState, Posterior
from hiddenfield.inference.posterior import MAP_METHODS

ALGORITHMS = {
    **METHODS,
    **{f"{name}.map_state": method for name, method in MAP_METHODS.items()},
    **{name: getattr(inference, name) for name in ("marginal_map", "sample", "gibbs_sample")},
}
PUBLIC = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package in (fields, inference)
    for name in package.__all__
    if inspect.isfunction(getattr(package, name))
}
CITED = (Path(__file__).parents[2] / "docs" / "references.md").read_text(encoding="utf-8")


def sections(function: Callable[..., Any]) -> dict[str, str]:
    """Return the sections of a numpydoc docstring; what comes before the first is "Summary"."""
    parts = re.split(r"^(\w+)\n-{3,}$", inspect.getdoc(function) or "", flags=re.M)
    return {"Summary": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def lacks(function: Callable[..., Any]) -> list[str]:
    """Return what the docstring of an algorithm leaves out."""
    found = sections(function)
    words = (found["Summary"] + found.get("Returns", "")).lower()
    missing = [name for name in ("Parameters", "References", "Examples") if not found.get(name, "").strip()]
    if ".. math::" not in found["Summary"] and ":math:" not in found["Summary"] and "see `" not in words:
        missing.append("equation")
    if not re.search(r"guarantee|exact|bound|estimate", words):
        missing.append("guarantee")
    if not re.search(r"cost|time:", found.get("Notes", "").lower()):
        missing.append("cost")
    return missing + shapeless(function)


def shapeless(function: Callable[..., Any]) -> list[str]:
    """Return the parameters, and "return", that are tensors of a shape that their annotation does not say."""
    signature = inspect.signature(function)
    stated = {name: str(parameter.annotation) for name, parameter in signature.parameters.items()}
    stated["return"] = str(signature.return_annotation)
    # Evidence is of the field's own shape, and tables of a shape each: both say so in words.
    return [
        name
        for name, text in stated.items()
        if re.search(r"(?<![\w\[])Tensor\b", re.sub(r"\w+\[Tensor, [\"'][^\"']+[\"']\]", "", text))
        and name not in ("evidence", "log_tables")
    ]


def uncited(function: Callable[..., Any]) -> list[str]:
    """Return the references of a docstring, as first author and year, that the list of references has not."""
    listed = re.findall(r"([A-Z][\w'-]+)[^().]*\((\d{4})\w?\)", sections(function).get("References", ""))
    assert listed or "References" not in sections(function)
    return [f"{name} {year}" for name, year in listed if not re.search(rf"\*\*{name}\b[^*]*{year}", CITED)]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_say_what_they_are_worth(name: str) -> None:
    assert lacks(ALGORITHMS[name]) == []


@pytest.mark.parametrize("name", PUBLIC)
def test_public_functions_have_an_example_and_shapes(name: str) -> None:
    assert ">>> " in sections(PUBLIC[name]).get("Examples", "")
    assert shapeless(PUBLIC[name]) == []


@pytest.mark.parametrize("name", {**PUBLIC, **ALGORITHMS})
def test_references_are_listed(name: str) -> None:
    assert uncited({**PUBLIC, **ALGORITHMS}[name]) == []


@pytest.mark.parametrize("result", [Posterior, MapState])
def test_results_say_their_shapes(result: Any) -> None:
    plain = [f.name for f in dataclasses.fields(result) if re.match(r"Tensor\b", str(f.type))]
    assert plain == []


def test_what_is_left_out_is_noticed() -> None:
    def silent(field: fields.FactorGraph, messages: Any) -> None:
        """Do something."""

    def loose(log_values):  # type: ignore[no-untyped-def]
        """Do something.

        References
        ----------
        Nobody (1900), Nothing.
        """

    loose.__annotations__ = {"log_values": "Tensor", "return": 'Float[Tensor, " states"]'}
    assert set(lacks(silent)) == {"Parameters", "References", "Examples", "equation", "guarantee", "cost"}
    assert "log_values" in lacks(loose)
    assert "return" not in lacks(loose)
    assert uncited(loose) == ["Nobody 1900"]
