"""Embedded inference: the algorithms of `inference/` with learned vectors for messages.

Every algorithm is a `torch.nn.Module` from a batch of structures to node embeddings; `Predictor` puts pooling and a
head on top. `EMBEDDINGS` is the registry that ``model="loopy_bp"`` is looked up in.
"""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
