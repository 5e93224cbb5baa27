"""Do fits of exponential random graph models agree with published ones?

Networks that come with statnet's ergm, and estimates that were printed by it: those of the package's own tests
(``ergm_reference.csv``, maximum pseudo-likelihood), of the statnet tutorials, and of course notes (Monte Carlo maximum
likelihood, with standard errors and criteria). Each model is fitted by ``pseudo_likelihood`` and by ``monte_carlo``,
with default settings. Where pairs are independent, both are the exact maximum.

``python -m benchmarks.networks`` fits all, keeps the results in benchmarks/networks.json and writes them into
docs/networks.md. ``--only flomarriage`` prints the fits of one network and writes nothing.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import tarfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import environment, table
from hiddenfield.fields.relational import Attribute, RelationalScheme
from hiddenfield.fields.relational.library import add_library_feature
from hiddenfield.models.relational import Network, RelationalFit, fit_relational, network_from_edges

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "networks.json"
DATA = Path(os.environ.get("HIDDENFIELD_DATA", ROOT.parent / "shared" / "data")) / "networks"
Build = Callable[[RelationalScheme, Attribute], None]
MLE, MCMLE, MPLE = "maximum likelihood", "Monte Carlo maximum likelihood", "maximum pseudo-likelihood"


@dataclass(frozen=True)
class Published:
    """A model with its published estimates.

    Parameters
    ----------
    network, formula
        The network, and the model in ergm's notation.
    build
        Adds its features to a scheme, given the attribute of pairs.
    estimates, errors
        Published weights and standard errors, where there are some.
    kind
        What was published: `MLE` (exact), `MCMLE` or `MPLE`.
    criteria
        Published AIC and BIC.
    directed
        Whether the network is.
    attribute
        Of vertices, that features take.
    square
        Whether the numbers that edgecov takes are the squares of the differences of the attribute.
    """

    network: str
    formula: str
    build: Build
    estimates: tuple[float, ...]
    kind: str = MPLE
    errors: tuple[float, ...] = ()
    criteria: tuple[float, float] | None = None
    directed: bool = False
    attribute: str = ""
    square: bool = False

    def data(self) -> tuple[RelationalScheme, Network]:
        """Return the scheme and the network."""
        vertices, edges = read(self.network)
        scheme = RelationalScheme()
        vertex = scheme.type("vertex")
        tie = scheme.attribute(
            "tie", scheme.ordered(vertex, vertex) if self.directed else scheme.pair(vertex)
        )
        if self.attribute:
            scheme.attribute(
                self.attribute, vertex, sorted({row[self.attribute] for row in vertices.values()})
            )
        self.build(scheme, tie)
        values = {}
        if self.attribute:
            values = {self.attribute: {name: row[self.attribute] for name, row in vertices.items()}}
        covariates: dict[str, dict[Any, float]] = {}
        for feature in scheme.features.values():
            if feature.term is not None and (column := feature.term.covariate):
                numbers = {name: float(row[column]) for name, row in vertices.items()}
                covariates[column] = dict(numbers)
                if self.square:
                    names = list(numbers)
                    covariates[column] = {
                        (a, b): (numbers[a] - numbers[b]) ** 2 for i, a in enumerate(names) for b in names[:i]
                    }
        return scheme, network_from_edges(
            scheme, edges, vertices=list(vertices), values=values, covariates=covariates
        )


@cache
def read(name: str) -> tuple[dict[str, dict[str, str]], list[tuple[str, str]]]:
    """Return the vertices of a network with their attributes, and its edges."""
    with tarfile.open(DATA / "ergm_networks.tar.xz") as archive:

        def rows(part: str) -> list[dict[str, str]]:
            member = archive.extractfile(f"ergm_networks/{name}.{part}.csv")
            assert member is not None
            return list(csv.DictReader(io.StringIO(member.read().decode())))

        vertices = {row.pop("id"): row for row in rows("vertices")}
        return vertices, [(row["tail"], row["head"]) for row in rows("edges")]


def ready(*names: str, **terms: Any) -> Build:
    """Return what adds ready features, and terms by their decay or covariate."""

    def build(scheme: RelationalScheme, tie: Attribute) -> None:
        for name in names:
            add_library_feature(scheme, name, tie)
        for kind, value in terms.items():
            scheme.term(kind, **({"covariate": value} if isinstance(value, str) else {"decay": value}))

    return build


def arcs(*names: str) -> Build:
    """Return what adds features of directed networks."""
    known = {
        "edges": lambda e: lambda a, b: e[a, b],
        "mutual": lambda e: lambda a, b: e[a, b] & e[b, a],
        "asymmetric": lambda e: lambda a, b: e[a, b] & ~e[b, a],
        "ctriple": lambda e: lambda a, b, c: e[a, b] & e[b, c] & e[c, a],
        "triangle": lambda e: lambda a, b, c: e[a, b] * e[b, c] * (e[a, c] + e[c, a] * (1 / 3)),
    }

    def build(scheme: RelationalScheme, tie: Attribute) -> None:
        for name in names:
            scheme.feature(name, known[name](tie))

    return build


def matching(kind: str, attribute: str, *values: str) -> Build:
    """Return what adds edges or triangles whose ends all have a value, for each of several."""

    def build(scheme: RelationalScheme, tie: Attribute) -> None:
        own = scheme.attributes[attribute]
        for value in values:
            if kind == "edge":
                scheme.feature(
                    f"edge_{value}", lambda a, b, v=value: tie[a, b] & (own[a] == v) & (own[b] == v)
                )
            else:
                scheme.feature(
                    f"triangle_{value}",
                    lambda a, b, c, v=value: (
                        tie[a, b] & tie[a, c] & tie[b, c] & (own[a] == v) & (own[b] == v) & (own[c] == v)
                    ),
                )

    return build


MESA, MONKS = "faux.mesa.high", "samplike_wrong"
MODELS = (
    Published("flomarriage", "edges", ready("edge"), (-1.609438,), MLE, (), (110.1, 112.9)),
    Published(
        "flomarriage",
        "edges + nodecov(wealth)",
        ready("edge", nodecov="wealth"),
        (-2.594929, 0.010546),
        MLE,
    ),
    Published(
        "flomarriage",
        "edges + triangle",
        ready("edge", "triangle"),
        (-1.6757, 0.1546),
        MCMLE,
        (0.3516, 0.5906),
        (112.1, 117.6),
    ),
    Published(
        "flomarriage",
        "edges + triangle + gwesp(1)",
        ready("edge", "triangle", gwesp=1.0),
        (-1.7424, -4.6371, 1.8157),
        MCMLE,
        (0.3733, 7.8862, 2.8884),
        (113.6, 122.0),
    ),
    Published("samplk3", "edges + mutual", arcs("edges", "mutual"), (-2.1692, 2.3458), MCMLE, directed=True),
    Published(MESA, "absdiff(Grade)", ready(absdiff="Grade"), (-4.354,)),
    Published(MESA, "absdiff(Grade, pow=2)", ready(edgecov="Grade"), (-3.41,), square=True),
    Published(MESA, "nodecov(Grade)", ready(nodecov="Grade"), (-0.271,)),
    Published(
        MESA,
        "nodematch(Sex, diff=TRUE)",
        matching("edge", "Sex", "F", "M"),
        (-4.06317, -4.7032),
        attribute="Sex",
    ),
    Published(MESA, "twopath", ready("star2"), (-1.29736,)),
    Published(MESA, "gwdegree(0.4)", ready(gwdegree=0.4), (-13.5907,)),
    Published(MESA, "gwdegree(0.2)", ready(gwdegree=0.2), (-18.2508,)),
    Published(
        MESA,
        "triangle(Sex, diff=TRUE)",
        matching("triangle", "Sex", "F", "M"),
        (-0.70278, -0.44099),
        attribute="Sex",
    ),
    Published(MONKS, "edges", arcs("edges"), (-0.9072,), directed=True),
    Published(MONKS, "mutual", arcs("mutual"), (0.5596,), directed=True),
    Published(MONKS, "asymmetric", arcs("asymmetric"), (-1.33,), directed=True),
    Published(MONKS, "ctriple", arcs("ctriple"), (-0.3522,), directed=True),
    Published(MONKS, "triangle", arcs("triangle"), (-0.06997,), directed=True),
)


def noise(fit: RelationalFit) -> np.ndarray:
    r"""Return the Monte Carlo standard errors of the weights, :math:`\sqrt{\operatorname{diag} C^{-1} V C^{-1}}`."""
    if fit.diagnostics is None:
        return np.zeros(len(fit.theta))
    trace = fit.diagnostics.trace
    inverse = np.linalg.inv(np.atleast_2d(np.cov(trace.reshape(-1, trace.shape[-1]).T)))
    return np.sqrt(np.diag(inverse @ fit.diagnostics.mean_covariance @ inverse))


def rows_of(model: Published) -> Iterable[dict[str, Any]]:
    """Fit a model by both methods, and return a row for each of its features."""
    scheme, network = model.data()
    pseudo = fit_relational(scheme, network, method="pseudo_likelihood", check=False)
    begun = time.perf_counter()
    sampled = fit_relational(scheme, network, method="monte_carlo")
    spread = noise(sampled) if sampled.converged else np.zeros(len(pseudo.names))
    seconds = time.perf_counter() - begun
    for place, name in enumerate(pseudo.names):
        first, row = place == 0, {}
        error = f" ({model.errors[place]:.3g})" if model.errors else ""
        row["network"] = model.network if first else ""
        row["model"] = model.formula if first else ""
        row["feature"] = name
        row["published"] = f"{model.estimates[place]:g}{error}"
        row["by"] = model.kind
        row["pseudo-likelihood"] = f"{pseudo.theta[place]:.5g} ({pseudo.standard_errors[place]:.3g})"
        row["Monte Carlo"] = "no estimate"
        if sampled.converged:
            row["Monte Carlo"] = f"{sampled.theta[place]:.5g} ({sampled.standard_errors[place]:.3g})"
        rival = pseudo if model.kind == MPLE else sampled
        row["difference"] = f"{rival.theta[place] - model.estimates[place]:.2g}"
        row["Monte Carlo error"] = f"{spread[place]:.2g}" if spread[place] else ""
        row["AIC, BIC"] = _criteria(sampled.aic, sampled.bic) if first else ""
        row["published AIC, BIC"] = _criteria(*model.criteria) if first and model.criteria else ""
        row["seconds"] = f"{seconds:.1f}" if first else ""
        yield row


def _criteria(aic: float, bic: float) -> str:
    return f"{aic:.1f}, {bic:.1f}" if np.isfinite(aic) else ""


def keep(part: str, rows: list[dict[str, Any]], machine: dict[str, Any] | None = None) -> None:
    """Keep the rows of a part of the page, measured here or on a given machine, and write the tables anew."""
    from tools import tables

    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results[part] = {"environment": machine or environment(), "rows": rows}
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    page = ROOT / "docs" / "networks.md"
    page.write_text(tables.rewrite(page.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="see the docstring of the module")
    parser.add_argument("--only", default="", help="one network; nothing is written")
    only = parser.parse_args().only
    rows: list[dict[str, Any]] = []
    for model in MODELS:
        if only in ("", model.network):
            rows += rows_of(model)
            print(table(rows[-len(model.estimates) :]), flush=True)
            if not only:
                keep("fits", rows)


if __name__ == "__main__":
    main()
