"""hiddenfield: latent-variable models of sequences, trees, graphs and relations, on one message-passing engine.

Examples
--------
>>> import hiddenfield as hf
>>> molecules = hf.datasets.huckel(100, seed=0)
>>> len(molecules), molecules.target_names
(100, ('gap', 'pi_energy', 'pce'))
"""

from hiddenfield.loading import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
__version__ = "0.1.0"
