"""What do relational models say about real networks, and how good is template-level inference there?

The experiments of Jaimovich, Meshi and Friedman (2007) again, with all phases: methods side by side over grids of two
weights (their Figures 3, 4 and 5), traces over the exact and the approximate likelihood of seven vertices (Figure 6),
the landscape of a yeast protein-interaction network (Figure 7), and models of it feature by feature. Beside them the
marriages of Florence against published estimates. ``python -m benchmarks.relational_study [--quick]`` computes
everything, and writes docs/relational-study.md and its pictures.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import time
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import torch

from benchmarks.environment import environment, side_by_side, table
from benchmarks.relational_grids import compare_on_grid, paint_comparison
from hiddenfield.fields.relational import RelationalScheme, graph_scheme
from hiddenfield.inference.loopy_bp import loopy_bp
from hiddenfield.models.relational import (
    Network,
    count_features,
    evaluate,
    fit_relational,
    landscape,
    network_from_edges,
    sample_networks,
)
from hiddenfield.models.relational.phases import find_phases
from hiddenfield.report.drawing import save_figure
from hiddenfield.report.relational import paint_landscape

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
PAGE = ROOT / "docs" / "relational-study.md"
RESULTS = ROOT / "benchmarks" / "relational_study.json"
DATA = Path(os.environ.get("HIDDENFIELD_DATA", ROOT.parent / "shared" / "data")) / "networks"

# Monte Carlo maximum likelihood by statnet's ergm, as printed in courses that use it: estimate, standard error.
PUBLISHED = {"edge": (-1.6757, 0.3516), "triangle": (0.1546, 0.5906)}
Row = dict[str, Any]


def comparisons(quick: bool) -> dict[str, Any]:
    """Draw Figures 3, 4 and 5."""
    scheme = graph_scheme("edge", "triangle")
    small = compare_on_grid(
        scheme, [3, 5, 7], ("triangle", -2, 2), ("edge", -3, 3), points=7 if quick else 21
    )
    save(3, lambda figure: paint_comparison(figure, small), 7, 8)
    save(4, lambda figure: paint_comparison(figure, small, "log_partition"), 7, 7)
    rows = small.rows()
    cluster = compare_on_grid(
        scheme,
        [3, 5, 7],
        ("triangle", -2, 2),
        ("edge", -3, 3),
        points=len(small.x),
        methods=("exact", "template_bp"),
        bindings="ordered",
    )
    rows += [
        row | {"method": "template_bp, ordered"} for row in cluster.rows() if row["method"] == "template_bp"
    ]
    large = compare_on_grid(
        scheme,
        [10, 20] if quick else [20, 50, 100],
        ("triangle", -0.2, 0.2),
        ("edge", -3, 3),
        points=7 if quick else 21,
        methods=("mcmc", "template_bp"),
        samples=200,
        burn_in=100,
    )
    save(5, lambda figure: paint_comparison(figure, large), 7, 4.6)
    return {"small": rows, "large": large.rows("mcmc")}


LIKELIHOODS = (
    ("exact", "exact", "merged"),
    ("template BP, merged", "bethe", "merged"),
    ("template BP, cluster", "bethe", "cluster"),
)


def drawn(scheme: RelationalScheme, truth: tuple[float, float]) -> list[Network]:
    """Draw a hundred networks of seven vertices."""
    found = sample_networks(scheme, 7, truth, samples=100, burn_in=500, thin=20, keep_networks=True, seed=1)
    return [
        network_from_edges(scheme, [tuple(p) for p in np.argwhere(np.triu(one)).tolist()], vertices=range(7))
        for one in found.networks[0]
    ]


def seven_vertices(quick: bool) -> list[Row]:
    """Draw Figure 6, triangles and open chains of seven vertices, and learn more weights from samples."""
    scheme, truth = graph_scheme("triangle", "open_chain"), (0.5, 0.2)
    networks = drawn(scheme, truth)
    found = []
    for name, method, bindings in LIKELIHOODS:
        options = {
            "points": 20 if quick else 80,
            "method": method,
            "bindings": bindings,
            "starts": [(-0.7, -0.5)],
        }
        found.append(
            (name, landscape(scheme, networks, ("triangle", -1.0, 1.5), ("open_chain", -1.0, 1.0), **options))
        )

    def paint(figure: Any) -> None:
        axes = figure.subplots(1, 3, sharey=True)
        for place, (panel, (name, one)) in enumerate(zip(axes, found, strict=True)):
            paint_landscape(figure, one, truth=truth, axes=panel, title=name, legend=place == 1, depth=3000)

    save(6, paint, 13, 4.4)
    rows = []
    for weights in (truth, (0.2, -0.1), (-0.4, 0.2), (-0.3, -0.2), (0.4, -0.3)):
        networks = drawn(scheme, weights)
        for name, method, bindings in LIKELIHOODS:
            fit = fit_relational(
                scheme, networks, method=method, bindings=bindings, starts=2, optimiser="conjugate_gradient"
            )
            rows.append(
                {
                    "drawn with (triangle, open chain)": f"{weights[0]}, {weights[1]}",
                    "likelihood": name,
                    "triangle": float(fit.theta[0]),
                    "open chain": float(fit.theta[1]),
                    "log-likelihood": fit.objective,
                    "phases": fit.phases,
                    "status": fit.status,
                }
            )
    return rows


def timing(quick: bool) -> list[Row]:
    """Time one inference on the template by itself, whatever the size."""
    scheme, rows = graph_scheme("edge", "triangle"), []
    for size in (7, 100, 10_000, 1_000_000):
        theta = [-2.0, 0.2 / size]
        made = scheme.template(size, theta)
        best = side_by_side(
            {
                "template": lambda n=size, t=theta: scheme.template(n, t),
                "inference": lambda field=made: loopy_bp(field),
            },
            30,
        )
        milliseconds = {f"{name} (ms)": 1e3 * value for name, value in best.items()}
        rows.append({"vertices": size, **milliseconds})
    return rows


def yeast() -> tuple[list[tuple[str, str]], list[str], dict[str, str]]:
    """Return interactions, proteins and localizations of transcription and repair."""
    proteins = text("yeast_transcription_repair_orfs.txt.xz").split()
    lines = [line.split("\t") for line in text("yeast_transcription_repair_pairs.tsv.xz").splitlines()]
    column = lines[0].index("in_collins2007")
    edges = [(line[0], line[1]) for line in lines[1:] if line[column] == "1"]
    places = dict(
        line.split(" ", 1)
        for line in text("yeast_localization_huh2003.txt.xz").splitlines()[1:]
        if " " in line
    )
    return edges, proteins, {name: places[name].strip() for name in proteins if name in places}


def text(name: str) -> str:
    with lzma.open(DATA / name, "rt", encoding="utf-8") as source:
        return source.read()


def increments(quick: bool) -> dict[str, Any]:
    """Fit the yeast network feature by feature, and draw Figure 7."""
    edges, proteins, places = yeast()
    everything = graph_scheme("edge", "triangle", "open_chain", "star2", "star3", "quadruplet")
    counts = dict(
        zip(
            everything.features,
            count_features(everything, network_from_edges(everything, edges, vertices=proteins)).tolist(),
            strict=True,
        )
    )
    scheme = graph_scheme("edge")
    base = fit_relational(
        scheme, network_from_edges(scheme, edges, vertices=proteins), starts=1, tolerance=1e-8
    )
    edge = float(base.theta[0])
    rows = [fit_row("edge", "bethe", base, base.log_likelihood)]
    steps = [("triangle", "open_chain"), ("star2",), ("star3",), ("quadruplet",)]
    for step in steps[:2] if quick else steps:
        scheme = graph_scheme("edge", *step)
        network = network_from_edges(scheme, edges, vertices=proteins)
        for method in ("bethe", "pseudo_likelihood"):
            fit = fit_relational(scheme, network, method=method, fixed={"edge": edge}, starts=3)
            rows.append(fit_row(" + ".join(["edge", *step]), method, fit, base.log_likelihood))
            here = evaluate(scheme, len(proteins), fit.theta)
            rows[-1] |= {"phases": int(here.phases[0]), "edges in the best phase": float(here.expected[0, 0])}
            told(rows[-1])
    rows += colocalisation(edges, proteins, places, base.log_likelihood)
    pictures, seconds = yeast_landscapes(edges, proteins, edge, quick)
    independent = evaluate(everything, len(proteins), [[edge, 0, 0, 0, 0, 0]]).expected[0].tolist()
    statistics = [
        {"feature": name, "observed": counts[name], "expected with edges alone": value}
        for name, value in zip(everything.features, independent, strict=True)
    ]
    return {
        "proteins": len(proteins),
        "interactions": len(edges),
        "statistics": statistics,
        "fits": rows,
        "landscapes": pictures,
        "seconds": seconds,
        "phases": phase_rows(len(proteins), edge),
    }


def fit_row(features: str, method: str, fit: Any, base: float) -> Row:
    weights = ", ".join(
        f"{name} {value:.4g}" + ("" if error == 0 or not math.isfinite(error) else f" ({error:.2g})")
        for name, value, error in zip(fit.names, fit.theta, fit.standard_errors, strict=True)
    )
    return {
        "features": features,
        "method": method,
        "weights (standard error)": weights,
        "log-likelihood": fit.objective,
        "gain over edges": fit.objective - base,
        "phases": fit.phases,
        "status": fit.status,
    }


def colocalisation(
    edges: list[tuple[str, str]], proteins: list[str], places: dict[str, str], base: float
) -> list[Row]:
    """Fit edges and co-localisation given the localizations: pairs are independent then, and the likelihood exact."""
    common = [
        p for p in sorted(set(places.values())) if list(places.values()).count(p) >= 5 and p != "ambiguous"
    ]
    code = {place: f"place{i}" for i, place in enumerate(common)}
    scheme = RelationalScheme()
    vertex = scheme.type("protein")
    exist = scheme.attribute("interacts", scheme.pair(vertex))
    place = scheme.attribute("place", vertex, ["unknown", *code.values()])
    scheme.feature("edge", lambda a, b: exist[a, b])
    scheme.feature(
        "co_localised", lambda a, b: exist[a, b] & (place[a] == place[b]) & (place[a] != "unknown")
    )
    values = {"place": {name: code.get(places.get(name, ""), "unknown") for name in proteins}}
    network = network_from_edges(scheme, edges, vertices=proteins, values=values)
    fit = fit_relational(scheme, network, method="pseudo_likelihood", starts=1)
    row = fit_row("edge + co-localised", "exact given the places", fit, base)
    observed = count_features(scheme, network)
    row["status"] += f"; {observed[1]:.0f} interactions within one of {len(common)} places"
    told(row)
    return [row]


def phase_rows(size: int, edge: float) -> list[Row]:
    """Show the phases beside the ridge."""
    scheme = graph_scheme("edge", "triangle")
    rows = []
    for triangle in (0.0, 0.02, 0.0216, 0.0217, 0.03, 1.0):
        rows += [
            {
                "weight of triangle": f"{triangle:g}",
                "log Z": point.log_partition,
                "probability of an edge": point.marginals["exist"]["1"],
                "expected triangles": point.expected_counts["triangle"],
            }
            for point in find_phases(scheme, size, np.array([edge, triangle]))
            if point.stable
        ]
    return rows


def yeast_landscapes(
    edges: list[tuple[str, str]], proteins: list[str], edge: float, quick: bool
) -> tuple[list[Row], float]:
    scheme = graph_scheme("edge", "triangle", "open_chain")
    network = network_from_edges(scheme, edges, vertices=proteins)
    evaluate(scheme, 5, [[0.0, 0.0, 0.0]])
    began = time.perf_counter()
    points = 30 if quick else 100
    best = landscape(
        scheme,
        network,
        ("triangle", -0.06, 0.06),
        ("open_chain", -0.08, 0.03),
        fixed={"edge": edge},
        points=points,
        runs=0,
    )
    seconds = time.perf_counter() - began
    best = landscape(
        scheme,
        network,
        ("triangle", -0.06, 0.06),
        ("open_chain", -0.08, 0.03),
        fixed={"edge": edge},
        points=points,
        runs=8,
    )
    inside = landscape(
        scheme,
        network,
        ("triangle", -1.0, 6.0),
        ("open_chain", -2.0, 0.5),
        fixed={"edge": edge},
        points=points,
        runs=8,
        method="bethe_observed",
    )

    def paint(figure: Any) -> None:
        axes = figure.subplots(1, 2)
        paint_landscape(figure, best, axes=axes[0], title="the likelihood: best phase", legend=False)
        paint_landscape(
            figure, inside, axes=axes[1], title="the phase nearest to the data alone", depth=100_000
        )

    save(7, paint, 12, 5)
    rows = []
    for name, found in (("best phase", best), ("phase nearest to the data", inside)):
        rows += [
            {
                "likelihood": name,
                "start (triangle, open chain)": ", ".join(f"{v:.3f}" for v in ascent.trace[0]),
                "end": ", ".join(f"{v:.4f}" for v in ascent.parameters),
                "log-likelihood": ascent.value,
                "largest slope": float(np.abs(ascent.gradient).max()),
                "maximum": "yes" if ascent.converged else "no",
            }
            for ascent in found.ascents
        ]
    return rows, seconds


def florence(quick: bool) -> list[Row]:
    """Fit the marriages by every method."""
    graph = networkx.florentine_families_graph()
    rows = []
    for features in (("edge",), ("edge", "triangle"), ("edge", "star2", "triangle")):
        scheme = graph_scheme(*features)
        network: Network = network_from_edges(scheme, list(graph.edges), vertices=[*graph, "Pucci"])
        runs = [
            ("bethe", "merged"),
            ("bethe", "cluster"),
            ("pseudo_likelihood", ""),
            ("monte_carlo", ""),
            ("contrastive_divergence", ""),
        ]
        for method, bindings in runs:
            began = time.perf_counter()
            fit = fit_relational(scheme, network, method=method, bindings=bindings or "merged", starts=2)
            row = fit_row(" + ".join(features), f"{method} {bindings}".strip(), fit, 0.0)
            del row["gain over edges"]
            rows.append(row | {"seconds": time.perf_counter() - began})
        if features == ("edge", "triangle"):
            weights = ", ".join(
                f"{name} {value:.4g} ({error:.2g})" for name, (value, error) in PUBLISHED.items()
            )
            rows.append(
                {
                    "features": "edge + triangle",
                    "method": "published (statnet, Monte Carlo)",
                    "weights (standard error)": weights,
                    "log-likelihood": -108.1 / 2,
                }
            )
    return rows


def save(number: int, paint: Any, width: float, height: float) -> None:
    save_figure(PICTURES / f"relational-figure{number}.png", paint, width=width, height=height)


def told(row: Row) -> None:
    print(", ".join(f"{name}: {value}" for name, value in row.items()), flush=True)


def page(results: Row) -> str:
    """Write the documentation's page from the results; nothing in it is typed by hand."""
    machine, study = results["environment"], results["yeast"]
    small = {(row["method"], row["vertices"]): row for row in results["comparison"]["small"]}
    tables = {
        "timing": table(results["timing"]),
        "small": table(complete(results["comparison"]["small"])),
        "large": table(complete(results["comparison"]["large"])),
        "seven": table(complete(results["seven"])),
        "florence": table(complete(results["florence"])),
        "statistics": table(study["statistics"]),
        "fits": table(complete(study["fits"])),
        "phases": table(study["phases"]),
        "landscapes": table(complete(study["landscapes"])),
    }
    # Which models have a maximum is said from the results.
    likely = [row for row in study["fits"] if row["method"] != "pseudo_likelihood"]
    good = [row["features"] for row in likely if row["status"].startswith("converged")]
    bad = [row["features"] for row in likely if not row["status"].startswith("converged")]
    highest = max(row["log-likelihood"] for row in study["landscapes"] if row["likelihood"] != "best phase")
    return TEXT.format(
        **tables,
        **ridge(study["proteins"], study["interactions"]),
        template=small["template_bp", 7]["mean relative deviation"],
        sampled=small["mcmc", 7]["mean relative deviation"],
        milliseconds=1e3 * small["template_bp", 7]["seconds per setting"],
        proteins=study["proteins"],
        interactions=study["interactions"],
        good="; ".join(good) or "none",
        bad="; ".join(bad) or "none",
        highest=highest,
        seconds=study["seconds"],
        date=machine["date"],
        revision=", ".join(f"{name} {revision}" for name, revision in results["measured"].items()),
        processor=machine["processor"],
        cores=machine["cores"],
    )


def ridge(size: int, edges: int) -> dict[str, float]:
    """Return where the ridges of Figure 7 lie by the density alone, and the numbers that say why."""
    pairs, triples, density = math.comb(size, 2), math.comb(size, 3), edges / math.comb(size, 2)
    sparse, weight = -pairs * math.log1p(-density), math.log(density / (1 - density))
    return {
        "pairs": pairs,
        "triples": triples,
        "minus_weight": -weight,
        "sparse": sparse,
        "ridge": (sparse - weight * pairs) / triples,
        "met": 2 * (size - 2) * density,
        "closed": (size - 2) * density**2,
        "brink": 1 / (2 * math.e * (size - 2) * density),
        "makes_up": math.log(1 / ((size - 2) * density**2)),
    }


TEXT = """# A study of relational models

Written by `python -m benchmarks.relational_study`; do not edit. All weights are per ground feature (a triangle counts
once). What the words mean is in [relational models](relational.md).

## Inference beside the truth

Edges and triangles: the probability of an edge and the log partition over a grid of the two weights, as in Figures 3
and 4 of Jaimovich, Meshi and Friedman (2007). Deviations are relative to exact enumeration. On 7 vertices
template-level belief propagation deviates by {template:.4f} on average and a Gibbs sampler by {sampled:.4f} (the
paper, over its sizes and its grid: 0.0143 and 0.0118); it takes {milliseconds:.2g} ms per setting in a batch (the
paper: 70 ms, and 12 s for belief propagation on the ground field).

{small}

![Probability of an edge by four methods on 3, 5 and 7 vertices](pictures/relational-figure3.png)

![Log partition by three methods on 3, 5 and 7 vertices](pictures/relational-figure4.png)

It breaks where one phase takes over from another, at the lower right: there a small network goes through all densities,
belief propagation jumps from one phase to the other, and a chain or an asynchronous schedule stays in the phase that it
began in. "ordered" is one factor for every legal binding, the literal definition: merged bindings are closer to the
truth.

On larger networks the truth is not known; deviations are from a chain of 200 sweeps that starts empty (Figure 5). Where
there is one phase they are small. Where there are two, the chain stays in the sparse one, and template-level inference
reports the one with the higher log partition.

{large}

![Probability of an edge by sampling and by template BP on larger networks](pictures/relational-figure5.png)

One template and one inference on it, by themselves, cost the same for any size:

{timing}

## Learning from samples of seven vertices

A hundred networks of seven vertices, drawn by Gibbs sampling; conjugate gradient over the exact and the approximate
log-likelihood of triangles and open chains (Figure 6, for the first weights of the table). With one factor for each
three vertices ("cluster") the approximation is as good as exact; with a factor for each feature ("merged") it is
biased. Near a change of phase both break.

{seven}

![Ascents over the exact and the approximate likelihood](pictures/relational-figure6.png)

## The marriages of Florence

Sixteen families, twenty marriages. The published line is Monte Carlo maximum likelihood by statnet's ergm, as printed
in courses that use it. With edges alone the weight must be the logit of the density, -1.609.

{florence}

## A protein-interaction network of yeast

The {proteins} proteins of transcription and DNA repair by their annotation in SGD's GO slim (the paper took 813 by
annotations of its time, a list that was not found), with all {interactions:,} interactions of Collins et al. (2007)
among them.

{statistics}

Feature by feature: first edges alone, then each step with the weight of the edge held, as in the paper. Co-localised
proteins have the same annotation in Huh et al. (2003); given the places, pairs are independent and the likelihood is
exact, with both weights free.

{fits}

The likelihood has a maximum for: {good}. It has none for: {bad}. There are orders of magnitude more triangles and
cycles than the density explains, in complexes that are cliques; a homogeneous model pays for them everywhere, and at a
tiny weight the phase that is almost complete takes over:

{phases}

So the likelihood rises with the weight up to a ridge and falls off a cliff behind it, and the gradient vanishes
nowhere; ascents end on the ridge, each at another point (Figure 7, left; the paper's runs, too, ended at different
points of a ridge). Within the phase nearest to the data alone (right) one can go on, and the approximate
log-likelihood rises to {highest:,.0f}. *Above zero* it is no likelihood: no network has a probability above one, and a
homogeneous sparse phase does not hold networks with cliques. The pseudo-likelihood has a maximum, which is not that of
the likelihood: its gain is no evidence for the model, whose best phase has the number of edges in the last column of
the table, against {interactions:,} observed. As in the paper, the more abundant a feature, the narrower the
range of weights that matter, and the smaller the gain.

Where the ridges lie follows from two phases by hand. A complete network has all {triples:,} triangles and *no
open chain*, so that its log Z is about $\\theta_e \\binom n2 + \\theta_t \\binom n3$ whatever the weight of
chains; that of the sparse phase is about {sparse:,.0f}, the log Z of its edges alone, to which either weight
adds a few hundred at most. The two are equal at $\\theta_t = ({sparse:,.0f} + {minus_weight:.3f} \\cdot
{pairs:,}) / {triples:,} = {ridge:.4f}$: the ridge on the left is vertical, and stands there. (Towards its upper
end the weight of chains exceeds that of triangles; the dense phase then is better off with open chains than
complete, and the ridge bends to the left.) Along it the slope across is the observed less the expected
triangles of the sparse phase, and the best point is where the expected chains are the observed ones. The ridge
of the paper's Figure 7 is horizontal, and so is the brink on the right, where the sparse phase ends: there an
edge meets {met:.1f} others, each an open chain, and closes {closed:.3f} triangles, so that the weight of chains
counts and that of triangles does not. With $p = p_0\\, e^{{2 (n - 2) p\\, \\theta_c}}$ for the density, $p_0$
without chains, the sparse solution vanishes at $\\theta_c = 1 / (2 e (n - 2) p_0) = {brink:.3f}$, which is the
height of the brink; it turns down where $e^{{\\theta_t}}$ makes up for the rareness of triangles, about
$\\theta_t = {makes_up:.1f}$. A single run of belief propagation follows the phase that it starts in: what the
paper drew may be, in kind, the right panel.

![Landscape of the yeast network](pictures/relational-figure7.png)

{landscapes}

The landscape on the left, 100 × 100 points from three starts each, took {seconds:.1f} s.

Measured {date} on {processor}, {cores} cores; revisions: {revision}.
"""


def complete(rows: list[Row]) -> list[Row]:
    """Give all rows all columns, in the order in which they first appear."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: finite(row.get(name)) for name in columns} for row in rows]


def finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


PARTS = (
    ("timing", timing),
    ("comparison", comparisons),
    ("seven", seven_vertices),
    ("florence", florence),
    ("yeast", increments),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[name for name, _ in PARTS], help="ask only this question anew")
    parser.add_argument("--quick", action="store_true", help="small grids; for trying the command out")
    parser.add_argument(
        "--page", action="store_true", help="only write the page anew from the stored results"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if not arguments.page:
        results: Row = json.loads(RESULTS.read_text()) if arguments.only else {}
        measured = results.setdefault("measured", {})
        results["environment"] = environment()
        for name, part in PARTS:
            if arguments.only not in (None, name):
                continue
            began = time.perf_counter()
            results[name] = part(arguments.quick)
            measured[name] = results["environment"]["revision"]
            print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
        clean = json.loads(json.dumps(results), parse_constant=lambda _: None)
        RESULTS.write_text(json.dumps(clean, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
