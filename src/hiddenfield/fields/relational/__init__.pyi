from .conditioning import (
    Classes as Classes,
    conditioned_variables as conditioned_variables,
    entity_classes as entity_classes,
    given_attributes as given_attributes,
)
from .expressions import Argument as Argument, Atom as Atom, Expression as Expression
from .instantiation import (
    choose_bindings as choose_bindings,
    factor_kinds as factor_kinds,
    ground as ground,
    ground_features as ground_features,
    ground_index as ground_index,
    ground_variables as ground_variables,
    template as template,
    weight_matrix as weight_matrix,
    weight_scale as weight_scale,
)
from .library import (
    FEATURES as FEATURES,
    TWO_MODE as TWO_MODE,
    add_library_feature as add_library_feature,
    graph_scheme as graph_scheme,
    parse_scheme as parse_scheme,
    read_scheme as read_scheme,
    two_mode_scheme as two_mode_scheme,
)
from .scheme import (
    Attribute as Attribute,
    ComplexType as ComplexType,
    Feature as Feature,
    RelationalScheme as RelationalScheme,
)
from .terms import TERMS as TERMS, Term as Term
