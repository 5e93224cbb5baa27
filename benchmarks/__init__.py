"""One module a question; ``python -m benchmarks`` asks them all and writes docs/benchmarks.md."""
