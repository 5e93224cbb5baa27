"""Schemes on small and odd domains, self pairs, ordered pairs, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch

from hiddenfield.errors import InputError
from hiddenfield.fields.relational import (
    RelationalScheme,
    graph_scheme,
    ground,
    ground_variables,
    parse_scheme,
    template,
)
from hiddenfield.inference import infer

THETA = {"edge": -1.0, "triangle": 0.5}


@pytest.mark.parametrize("size", [1, 2])
def test_domains_too_small_for_a_feature(size: int) -> None:
    scheme = graph_scheme("edge", "triangle")
    expected = 0.0 if size == 1 else math.log1p(math.exp(-1))
    for field in (ground(scheme, size, THETA), template(scheme, size, THETA)):
        assert infer(field, "loopy_bp").log_partition.sum().item() == pytest.approx(expected)


def test_self_pairs_add_the_logarithm_of_their_values() -> None:
    totals = []
    for self_pairs in (False, True):
        scheme = RelationalScheme()
        exist = scheme.attribute("exist", scheme.pair(scheme.type("vertex"), self_pairs=self_pairs), 3)
        scheme.feature("edge", lambda a, b: exist[a, b] == 2)  # noqa: B023
        fields = [build(scheme, 5, {"edge": 0.3}) for build in (template, ground)]
        totals += [infer(field, "loopy_bp").log_partition.item() for field in fields]
    assert totals[0] == pytest.approx(totals[1])
    assert totals[2] == pytest.approx(totals[3])
    assert totals[2] - totals[0] == pytest.approx(5 * math.log(3))


def test_ordered_pairs_are_two_entities() -> None:
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    arc = scheme.attribute("arc", scheme.ordered(vertex, vertex))
    mutual = scheme.feature("mutual", lambda a, b: arc[a, b] & arc[b, a])
    assert len(mutual.symmetries) == 2
    assert len(ground_variables(scheme, 4)["arc"]) == 12
    pair = math.log(3 + math.exp(0.7))
    for build in (template, ground):
        found = infer(build(scheme, 4, {"mutual": 0.7}), "loopy_bp", tolerance=1e-12).log_partition.item()
        assert found == pytest.approx(6 * pair)


def test_symmetry_is_decided_by_the_function_and_not_by_the_weight() -> None:
    scheme = graph_scheme("triangle", "open_chain")
    field = template(scheme, 7, [0.0, 0.0], bindings="merged")
    assert sorted(group.count.item() for group in field.groups) == [35.0, 105.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("types = ['v']", "at least one"),
        ("types = ['v']\n[[attributes]]\nname = 'e'\nof = ['v', 'w']", "no type 'w'"),
        (
            "types = ['v']\n[[attributes]]\nname = 'e'\nof = ['v', 'v']\n"
            "[[features]]\nname = 'f'\narguments = ['a', 'b']\nexpression = 'e[a, c]'",
            "feature 'f': 'e\\[a, c\\]': 'c' is not among the arguments",
        ),
        (
            "types = ['v']\n[[attributes]]\nname = 'e'\nof = ['v', 'v']\n"
            "[[features]]\nname = 'f'\narguments = ['a', 'b']\nexpression = 'open(a)'",
            "feature 'f': .* is not allowed",
        ),
        ("types = [", "not a TOML file"),
    ],
)
def test_bad_schemes_name_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_scheme(text)


def test_bad_features_name_the_argument() -> None:
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    exist = scheme.attribute("exist", scheme.pair(vertex))
    with pytest.raises(InputError, match=r"feature 'loop'.*at most once"):
        scheme.feature("loop", lambda a: exist[a, a])
    with pytest.raises(InputError, match="argument 'c' is used nowhere"):
        scheme.feature("loose", lambda a, b, c: exist[a, b])
    with pytest.raises(InputError, match="instead of and, or, not"):
        scheme.feature("words", lambda a, b, c: exist[a, b] and exist[b, c])
    with pytest.raises(InputError, match="no weight for the feature 'edge'"):
        template(graph_scheme("edge"), 5, {})
    with pytest.raises(InputError, match="finite"):
        template(graph_scheme("edge"), 5, torch.tensor([math.nan]))


def test_parameters_with_a_default_are_no_entities() -> None:
    scheme = RelationalScheme()
    vertex = scheme.type("vertex")
    tie = scheme.attribute("tie", scheme.pair(vertex))
    sex = scheme.attribute("sex", vertex, ["F", "M"])
    for value in ("F", "M"):
        scheme.feature(f"both_{value}", lambda a, b, v=value: tie[a, b] & (sex[a] == v) & (sex[b] == v))
    assert [len(feature.arguments) for feature in scheme.features.values()] == [2, 2]
