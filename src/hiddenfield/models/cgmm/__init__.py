"""The contextual graph Markov model: layers of mixtures that see the frozen states of neighbours."""
