"""Relational models: a language of types, attributes and features, and its fields on a domain."""

from hiddenfield.fields.relational.expressions import Argument, Atom, Expression
from hiddenfield.fields.relational.instantiation import (
    factor_kinds,
    ground,
    ground_features,
    ground_index,
    ground_variables,
    template,
    weight_matrix,
    weight_scale,
)
from hiddenfield.fields.relational.library import FEATURES, add_library_feature, graph_scheme
from hiddenfield.fields.relational.scheme import Attribute, ComplexType, Feature, RelationalScheme
from hiddenfield.fields.relational.toml import parse_scheme, read_scheme

__all__ = [
    "FEATURES",
    "Argument",
    "Atom",
    "Attribute",
    "ComplexType",
    "Expression",
    "Feature",
    "RelationalScheme",
    "add_library_feature",
    "factor_kinds",
    "graph_scheme",
    "ground",
    "ground_features",
    "ground_index",
    "ground_variables",
    "parse_scheme",
    "read_scheme",
    "template",
    "weight_matrix",
    "weight_scale",
]
