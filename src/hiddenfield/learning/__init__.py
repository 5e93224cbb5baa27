"""How parameters move: tasks and losses, the supervised trainer, checkpoints."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
