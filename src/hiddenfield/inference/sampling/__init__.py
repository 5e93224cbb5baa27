"""Markov chains over the states of a field."""
