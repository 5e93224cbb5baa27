"""Inference in discrete fields: one file per algorithm, all returning a `Posterior`.

The names are imported here at once, not on first use as in other packages: algorithms are functions of the same names
as their modules, and importing a module would put it in the place of the function.
"""

from hiddenfield.inference.auto import auto
from hiddenfield.inference.damped import damped
from hiddenfield.inference.double_loop import double_loop
from hiddenfield.inference.exact import exact, joint, marginal_map, sample
from hiddenfield.inference.generalized_bp import generalized_bp
from hiddenfield.inference.gibbs import gibbs, gibbs_sample
from hiddenfield.inference.infer import infer, log_likelihood, log_partition, map_state
from hiddenfield.inference.loopy_bp import loopy_bp
from hiddenfield.inference.mean_field import mean_field
from hiddenfield.inference.posterior import METHODS, Joint, MapState, Posterior
from hiddenfield.inference.relaxed import relaxed
from hiddenfield.inference.tree_reweighted import tree_reweighted

__all__ = [
    "METHODS",
    "Joint",
    "MapState",
    "Posterior",
    "auto",
    "damped",
    "double_loop",
    "exact",
    "generalized_bp",
    "gibbs",
    "gibbs_sample",
    "infer",
    "joint",
    "log_likelihood",
    "log_partition",
    "loopy_bp",
    "map_state",
    "marginal_map",
    "mean_field",
    "relaxed",
    "sample",
    "tree_reweighted",
]
