"""How parameters move: tasks and losses, the supervised trainer, checkpoints."""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
