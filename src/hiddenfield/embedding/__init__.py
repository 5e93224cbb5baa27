"""Embedded inference: the algorithms of `inference/` with learned vectors for messages.

Every algorithm is a `torch.nn.Module` from a batch of structures to node embeddings; `Network` puts pooling and a
head on top. `EMBEDDINGS` is the registry that ``model="loopy_bp"`` is looked up in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiddenfield.lazy import attach

if TYPE_CHECKING:
    from hiddenfield.embedding.base import ACTIVATIONS, Embedding
    from hiddenfield.embedding.damped import Damped
    from hiddenfield.embedding.double_loop import DoubleLoop
    from hiddenfield.embedding.generalized_bp import GeneralizedBP
    from hiddenfield.embedding.inputs import FeatureSizes
    from hiddenfield.embedding.loopy_bp import LoopyBP
    from hiddenfield.embedding.mean_field import MeanField
    from hiddenfield.embedding.network import EMBEDDINGS, Network
    from hiddenfield.embedding.pooling import POOLINGS
    from hiddenfield.embedding.tree_reweighted import TreeReweighted

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "ACTIVATIONS": "hiddenfield.embedding.base",
        "Damped": "hiddenfield.embedding.damped",
        "DoubleLoop": "hiddenfield.embedding.double_loop",
        "EMBEDDINGS": "hiddenfield.embedding.network",
        "Embedding": "hiddenfield.embedding.base",
        "FeatureSizes": "hiddenfield.embedding.inputs",
        "GeneralizedBP": "hiddenfield.embedding.generalized_bp",
        "LoopyBP": "hiddenfield.embedding.loopy_bp",
        "MeanField": "hiddenfield.embedding.mean_field",
        "Network": "hiddenfield.embedding.network",
        "POOLINGS": "hiddenfield.embedding.pooling",
        "TreeReweighted": "hiddenfield.embedding.tree_reweighted",
    },
)
