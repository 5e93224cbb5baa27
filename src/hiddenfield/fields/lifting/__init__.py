"""Lifting: joining what no message can tell apart."""
