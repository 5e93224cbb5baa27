"""How much faster does a GPU infer marginals than the host that it is in?

Ising grids (couplings N(0, 0.3), fields N(0, 0.5)) and a batch of 10,000 Hueckel molecules as pairwise fields of 8
states: a whole call of `infer`, from the field to marginals and log Z, on the cores of the host and on the GPU, best of
three; milliseconds of one sweep are those of the call over its iterations. Loopy belief propagation runs to its
tolerance, parallel mean field 20 sweeps. *Plain torch* is the GPU without our kernels. *JAX* is the parallel sweep of
loopy belief propagation alone, log messages by edge, compiled by XLA for the same GPU: as many sweeps as ours took.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np
import torch

from benchmarks.environment import main
from hiddenfield.datasets import huckel
from hiddenfield.fields import FactorGraph, ising_grid, pairwise_field
from hiddenfield.inference import infer

METHODS: dict[str, dict[str, Any]] = {
    "loopy_bp": {},
    "tree_reweighted": {},
    "mean_field": {"schedule": "parallel", "damping": 0.3, "max_iterations": 20, "tolerance": 1e-30},
}


def grid(size: int, dtype: torch.dtype) -> FactorGraph:
    """Return an Ising grid."""
    random = np.random.default_rng(0)
    field = ising_grid(size, size, lambda n: random.normal(0, 0.3, n), lambda n: random.normal(0, 0.5, n))
    return field.to(dtype)


def molecules(number: int, dtype: torch.dtype) -> FactorGraph:
    """Return molecules as pairwise fields of 8 states."""
    pack, random = huckel(number), np.random.default_rng(0)
    nodes = torch.from_numpy(random.normal(size=(pack.total_nodes, 8)))
    field = pairwise_field(pack, nodes, torch.from_numpy(0.5 * random.normal(size=(8, 8))))
    return field.to(dtype)


def timed(field: FactorGraph, method: str, options: dict[str, Any], repeats: int) -> tuple[float, Any]:
    """Return the least seconds of a call, and what it found."""
    best, posterior = float("inf"), None
    for turn in range(repeats + 1):  # the first compiles
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = infer(field, method, **options)
            float(posterior.log_partition.sum())
        best = min(best, time.perf_counter() - start) if turn else best
    return best, posterior


def sweeps_of_jax(field: FactorGraph, sweeps: int) -> tuple[float, Any] | None:
    """Return seconds of so many parallel sweeps in JAX on a GPU, and the marginals; None without."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    if jax.default_backend() != "gpu":
        return None
    jax.config.update("jax_enable_x64", field.dtype == torch.float64)
    group, (states, _) = field.groups[0], field.groups[0].states
    scopes = jnp.asarray(group.scopes.cpu().numpy())
    tables = jnp.asarray(group.expanded().expand(group.num_factors, -1, -1).cpu().numpy())
    unary = jnp.asarray(field.log_unary.cpu().numpy().reshape(-1, states))
    first, second = scopes[:, 0], scopes[:, 1]

    def totals(messages: Any) -> Any:
        return unary.at[first].add(messages[0]).at[second].add(messages[1])

    def sweep(_: int, messages: Any) -> Any:
        total = totals(messages)
        to_first = jax.nn.logsumexp(tables + (total[second] - messages[1])[:, None, :], axis=2)
        to_second = jax.nn.logsumexp(tables + (total[first] - messages[0])[:, :, None], axis=1)
        return tuple(m - jax.nn.logsumexp(m, axis=1, keepdims=True) for m in (to_first, to_second))

    start = tuple(jnp.full((group.num_factors, states), -np.log(states), unary.dtype) for _ in range(2))
    run = jax.jit(lambda messages: totals(jax.lax.fori_loop(0, sweeps, sweep, messages)))
    found, best = run(start).block_until_ready(), float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        found = run(start).block_until_ready()
        best = min(best, time.perf_counter() - begun)
    return best, np.asarray(jax.nn.softmax(found, axis=1))


def rows_of(
    name: str, field: FactorGraph, quick: bool, methods: list[str], host: bool
) -> list[dict[str, Any]]:
    """Return the rows of one problem."""
    rows, repeats = [], 1 if quick else 3
    there = field.to("cuda") if torch.cuda.is_available() else None
    messages = sum(2 * group.num_factors for group in field.groups)
    for method in methods:
        runs: dict[str, tuple[float, Any]] = {}
        if host:
            runs[f"host, {torch.get_num_threads()} threads"] = timed(field, method, METHODS[method], 1)
        if there is not None:
            runs["GPU"] = timed(there, method, METHODS[method], repeats)
            if method != "mean_field":
                runs["GPU, plain torch"] = timed(there, method, METHODS[method] | {"backend": "torch"}, 1)
        first = next(iter(runs.values()))
        for where, (seconds, found) in runs.items():
            sweeps = int(found.iterations.max())
            apart = (found.marginals.cpu() - first[1].marginals.cpu()).abs().max()
            rows.append(
                {
                    "problem": f"{name}, {str(field.dtype).removeprefix('torch.')}",
                    "method": method,
                    "where": where,
                    "seconds": seconds,
                    "sweeps": sweeps,
                    "ms a sweep": 1e3 * seconds / max(1, sweeps),
                    "ns a message": 1e9 * seconds / max(1, sweeps) / messages,
                    "times the first": first[0] / seconds,
                    "deviation": float(apart),
                }
            )
        if method == "loopy_bp" and len(field.groups) == 1 and bool((field.cardinalities.diff() == 0).all()):
            sweeps = int(runs["GPU"][1].iterations.max()) if "GPU" in runs else 1
            rival = sweeps_of_jax(field, sweeps)
            if rival is not None:
                apart = np.abs(rival[1] - first[1].marginals.cpu().numpy().reshape(rival[1].shape)).max()
                rows.append(
                    rows[-1]
                    | {
                        "where": "GPU, JAX, sweeps alone",
                        "seconds": rival[0],
                        "ms a sweep": 1e3 * rival[0] / sweeps,
                        "ns a message": 1e9 * rival[0] / sweeps / messages,
                        "times the first": first[0] / rival[0],
                        "deviation": float(apart),
                    }
                )
        print(*rows[-4:], sep="\n", flush=True)
    return rows


def run(quick: bool = False) -> dict[str, Any]:
    """Time every problem."""
    size = 100 if quick else 1000
    rows = rows_of(f"Ising {size} x {size}", grid(size, torch.float64), quick, list(METHODS), True)
    rows += rows_of(f"Ising {size} x {size}", grid(size, torch.float32), quick, ["loopy_bp"], True)
    number = 100 if quick else 10_000
    rows += rows_of(f"{number:,} molecules", molecules(number, torch.float32), quick, ["loopy_bp"], True)
    if not quick and torch.cuda.is_available():
        rows += rows_of("Ising 4096 x 4096", grid(4096, torch.float32), quick, ["loopy_bp"], False)
    return {"question": "inference on a GPU", "rows": rows}


if __name__ == "__main__":
    main(run)
