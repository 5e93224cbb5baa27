"""hiddenfield: latent-variable models of sequences, trees, graphs and relations, on one message-passing engine.

Examples
--------
>>> import hiddenfield as hf
>>> molecules = hf.data.huckel(100, seed=0)
>>> len(molecules), molecules.target_names
(100, ('gap', 'pi_energy', 'pce'))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hiddenfield import data, errors, estimators, fields, inference, ops
    from hiddenfield.data import Structures, Vocabulary, concatenate, read, scan, write
    from hiddenfield.estimators import (
        RelationalModel,
        StructureClassifier,
        StructureEncoder,
        StructureRegressor,
        load,
    )
    from hiddenfield.inference import infer

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "RelationalModel": "hiddenfield.estimators.relational",
        "StructureClassifier": "hiddenfield.estimators.classifier",
        "StructureEncoder": "hiddenfield.estimators.encoder",
        "StructureRegressor": "hiddenfield.estimators.regressor",
        "Structures": "hiddenfield.data.structures",
        "Vocabulary": "hiddenfield.data.vocabulary",
        "concatenate": "hiddenfield.data.combine",
        "data": "hiddenfield.data",
        "errors": "hiddenfield.errors",
        "estimators": "hiddenfield.estimators",
        "fields": "hiddenfield.fields",
        "infer": "hiddenfield.inference",
        "inference": "hiddenfield.inference",
        "load": "hiddenfield.estimators.saving",
        "ops": "hiddenfield.ops",
        "read": "hiddenfield.data.reading",
        "scan": "hiddenfield.data.reading",
        "write": "hiddenfield.data.reading",
    },
)
__all__ += ["__version__"]
