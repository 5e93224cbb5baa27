"""Benchmarks, one module per question; ``python -m benchmarks`` runs them all and writes docs/benchmarks.md."""
