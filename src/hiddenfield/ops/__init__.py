"""The primitives of message passing over packed graphs; nothing here knows what a model is.

Each op has a plain PyTorch reference (which runs on every device), a compiled loop for the CPU, and a
gradient that can itself be differentiated. Numba is loaded when the first compiled loop runs, not when this is
imported.
"""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
