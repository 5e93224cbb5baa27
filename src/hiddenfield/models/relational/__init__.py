"""Relational models: evaluate, fit and explore them on observed networks."""

from hiddenfield.models.relational.counts import count_features
from hiddenfield.models.relational.diagnostics import ChainDiagnostics
from hiddenfield.models.relational.enumeration import NetworkCounts, enumerate_networks
from hiddenfield.models.relational.evaluation import Evaluation, evaluate
from hiddenfield.models.relational.goodness import Distribution, goodness_of_fit
from hiddenfield.models.relational.landscape import Landscape, landscape
from hiddenfield.models.relational.learning import RelationalFit, fit_relational
from hiddenfield.models.relational.likelihood import LIKELIHOODS
from hiddenfield.models.relational.likelihoods.bethe import BetheLikelihood
from hiddenfield.models.relational.likelihoods.exact import ExactLikelihood
from hiddenfield.models.relational.likelihoods.pseudo_likelihood import PseudoLikelihood
from hiddenfield.models.relational.observations import Network, network_from_edges, networks_from_structures
from hiddenfield.models.relational.prediction import PairPrediction, predict_pairs
from hiddenfield.models.relational.reading import read_network
from hiddenfield.models.relational.sampling import NetworkSamples, sample_networks
from hiddenfield.models.relational.sampling_basis import change_statistics

__all__ = [
    "LIKELIHOODS",
    "BetheLikelihood",
    "ChainDiagnostics",
    "Distribution",
    "Evaluation",
    "ExactLikelihood",
    "Landscape",
    "Network",
    "NetworkCounts",
    "NetworkSamples",
    "PairPrediction",
    "PseudoLikelihood",
    "RelationalFit",
    "change_statistics",
    "count_features",
    "enumerate_networks",
    "evaluate",
    "fit_relational",
    "goodness_of_fit",
    "landscape",
    "network_from_edges",
    "networks_from_structures",
    "predict_pairs",
    "read_network",
    "sample_networks",
]
