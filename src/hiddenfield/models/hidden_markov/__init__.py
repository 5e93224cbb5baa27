"""Hidden Markov models of sequences and trees."""
