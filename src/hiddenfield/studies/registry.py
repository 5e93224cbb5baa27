"""The registry of experiments."""

from __future__ import annotations

from hiddenfield.studies import (
    inex,
    s2v_ablation,
    s2v_cep,
    s2v_graphs,
    s2v_huckel,
    s2v_strings,
)
from hiddenfield.studies.base import Experiment

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (s2v_graphs, s2v_ablation, s2v_strings, s2v_cep, s2v_huckel, inex)
}
