"""What do templates and lifting gain, and how fast are networks sampled?

Templates: one inference on edges and triangles for domains of any size, and a landscape of 10,000 settings of the
weights, each from three starts, in one batch. Compression: colour refinement of the ground field of edges and
triangles on a network of 10 million ports, without evidence and with edges observed at random. Lifted compared with
ground belief propagation to the same tolerance on 50 vertices, with 1 %, 10 % and 99 % (link prediction) of the edges
observed at random; compression is timed separately. Error: the largest difference of their marginals. Sampling: pair
proposals per second on one core, 100 vertices; error: of the mean density on 7 vertices, in standard errors of the
mean over chains. Enumeration: all networks of 7 and 8 vertices; error: of the log partition against the sum over all
labelled networks, or of their number.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.environment import main, side_by_side
from hiddenfield.fields import FactorGraph, compress
from hiddenfield.fields.relational import graph_scheme
from hiddenfield.inference import infer
from hiddenfield.models.relational import enumerate_networks, evaluate, sample_networks

Row = dict[str, Any]


def row(what: str, size: int, seconds: float, **further: Any) -> Row:
    """Return a row with all columns."""
    columns = {"what": what, "vertices": size, "seconds": seconds}
    columns |= dict.fromkeys(("rate", "of", "variables", "classes", "ports fewer", "error"))
    return {**columns, **further}


def timed(task: Callable[[], Any]) -> tuple[float, Any]:
    """Run once; return seconds and the result."""
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def observed(field: FactorGraph, share: float) -> FactorGraph:
    """Observe a share of the edges at random, a tenth of them present."""
    generator = np.random.default_rng(0)
    count = field.num_variables
    chosen = generator.choice(count, round(share * count), replace=False)
    return field.given({int(v): int(generator.random() < 0.1) for v in chosen})


def compression(quick: bool) -> list[Row]:
    """Refine a large network."""
    size = 60 if quick else 273
    ground = graph_scheme("edge", "triangle").ground(size, [-3.0, 0.05])
    ports = sum(group.scopes.numel() for group in ground.groups)
    compress(graph_scheme("edge", "triangle").ground(4, [-3.0, 0.05]))
    rows = []
    for share in (0.0, 0.01, 0.1, 0.99):
        field = observed(ground, share) if share else ground
        seconds, lifted = timed(lambda field=field: compress(field))
        rows.append(
            row(
                f"compress {ports:,} ports, {share:.0%} observed",
                size,
                seconds,
                rate=ports / seconds,
                of="ports/s",
                variables=field.num_variables,
                classes=lifted.field.num_variables,
                **{"ports fewer": lifted.ratio},
            )
        )
    return rows


def lifted(quick: bool) -> list[Row]:
    """Propagate on the ground field and on its classes."""
    size = 20 if quick else 50
    ground = graph_scheme("edge", "triangle").ground(size, [-3.0, 0.05])
    rows = []
    for share in (0.01, 0.1, 0.99):
        field = observed(ground, share)
        small = compress(field)
        tasks = {
            "ground": lambda field=field: infer(field, "loopy_bp", tolerance=1e-10),
            "lifted": lambda small=small: infer(small.field, "loopy_bp", tolerance=1e-10),
            "compress": lambda field=field: compress(field),
        }
        best = side_by_side(tasks, repeats=2 if quick else 5)
        error = (small.expand(tasks["lifted"]()) - tasks["ground"]().marginals).abs().max()
        for name, what in (("ground", "ground BP"), ("compress", "compress"), ("lifted", "lifted BP")):
            rows.append(
                row(
                    f"{what}, {share:.0%} observed",
                    size,
                    best[name],
                    rate=best["ground"] / best[name],
                    of="times faster",
                    variables=field.num_variables,
                    classes=small.field.num_variables,
                    **{"ports fewer": small.ratio},
                    error=float(error) if name == "lifted" else None,
                )
            )
    return rows


def sampling(quick: bool) -> list[Row]:
    """Draw networks on one core."""
    proposals = 2_000_000 if quick else 50_000_000
    settings = {
        "edge, triangle": (("edge", "triangle"), [-2.0, 0.05]),
        "edge, triangle, open chain, stars": (
            ("edge", "triangle", "open_chain", "star2", "star3"),
            [-2.0, 0.05, 0.002, 0.01, -0.001],
        ),
        "all ready features": (
            ("edge", "triangle", "open_chain", "star2", "star3", "quadruplet"),
            [-2.0, 0.05, 0.002, 0.01, -0.001, -0.001],
        ),
    }
    rows = []
    for name, (features, theta) in settings.items():
        scheme = graph_scheme(*features)
        between = proposals / math.comb(100, 2) / 10
        sample_networks(scheme, 100, theta, samples=1)
        options = {"samples": 10, "burn_in": 0, "thin": between}
        task = functools.partial(sample_networks, scheme, 100, theta, **options)
        best = min(timed(task)[0] for _ in range(3))
        small = sample_networks(scheme, 7, theta, samples=20_000, chains=16)
        density = small.edge_probability
        exact = enumerate_networks(scheme, 7).edge_probability(theta)[0]
        error = (density.mean() - exact) / (density.std(ddof=1) / 4)
        rows.append(
            row(f"sample: {name}", 100, best, rate=proposals / best, of="proposals/s", error=float(error))
        )
    return rows


def enumeration(quick: bool) -> list[Row]:
    """Count all networks."""
    scheme, theta = graph_scheme("edge", "open_chain", "triangle"), [-1.0, 0.1, 0.3]
    rows = []
    for method, size in (("all", 7), ("classes", 7), ("classes", 8)):
        enumerate_networks(scheme, 3, method=method)
        seconds, counts = timed(lambda m=method, n=size: enumerate_networks(scheme, n, method=m))
        error = abs(counts.counts.sum() / 2 ** math.comb(size, 2) - 1)
        if size == 7:
            other = enumerate_networks(scheme, 7, method="all").log_partition(theta)
            error = float(abs(counts.log_partition(theta) - other)[0])
        networks = 2 ** math.comb(size, 2)
        rows.append(
            row(f"enumerate: {method}", size, seconds, rate=networks / seconds, of="networks/s", error=error)
        )
    return rows


def templates(quick: bool) -> list[Row]:
    """Time one inference at template level for growing domains, and a landscape of weights in one batch."""
    scheme = graph_scheme("edge", "triangle")
    rows = []
    for size in (7, 100, 10_000, 1_000_000):
        theta = [-2.0, 0.5 / size]
        infer(scheme.template(size, theta), "loopy_bp")
        fields = [scheme.template(size, theta) for _ in range(30)]
        rows.append(
            row("template BP", size, min(timed(functools.partial(infer, field))[0] for field in fields))
        )
    points = 20 if quick else 100
    edges, triangles = np.meshgrid(np.linspace(-3, 1, points), np.linspace(-0.5, 0.5, points))
    settings = np.stack([edges.ravel(), triangles.ravel()], axis=1)
    evaluate(scheme, 100, settings[:10])
    seconds, found = timed(lambda: evaluate(scheme, 100, settings))
    settled = float(found.converged.double().mean())
    rows.append(row(f"landscape {points} x {points}, {settled:.1%} settled", 100, seconds))
    return rows


def run(quick: bool = False) -> dict[str, Any]:
    """Answer all questions on one thread."""
    torch.set_num_threads(1)
    return {
        "rows": [
            *templates(quick),
            *compression(quick),
            *lifted(quick),
            *sampling(quick),
            *enumeration(quick),
        ]
    }


if __name__ == "__main__":
    main(run)
