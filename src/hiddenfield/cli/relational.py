"""``hiddenfield relational infer | learn | landscape``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hiddenfield.cli.options import Json, emit, named_values
from hiddenfield.errors import InputError

if TYPE_CHECKING:
    from hiddenfield.fields.relational import RelationalScheme
    from hiddenfield.models.relational import Network, RelationalFit

HELP = "Relational models: inference, learning and landscapes from a scheme (a TOML file) and networks."

CONVENTIONS = {
    "ground": "a weight counts once for each different ground feature (a triangle is one)",
    "binding": "a weight counts once for each legal binding (a triangle is six)",
    "merged": "one factor for each different ground feature",
    "ordered": "one factor for each legal binding",
    "cluster": "one factor for each set of entities, with all features on it",
}
# A person reads this many unknown pairs; a program asks for --json.
MOST_SHOWN = 20

Scheme = Annotated[Path, typer.Argument(metavar="SCHEME", help="A scheme: a TOML file.", show_default=False)]
Edges = Annotated[
    list[Path] | None,
    typer.Option("--network", help="Edges: two names a line, perhaps 1, 0 or ? (unknown). May be repeated."),
]
Vertices = Annotated[
    Path | None, typer.Option(help="A CSV of all vertices by name; further columns are attributes.")
]
Size = Annotated[int | None, typer.Option(min=1, help="Number of vertices, where no network says so.")]
Bindings = Annotated[str, typer.Option(help="merged, ordered or cluster: which factors there are.")]
Weights = Annotated[str, typer.Option(help="ground or binding: what a weight counts.")]
Fix = Annotated[
    list[str] | None, typer.Option("--fix", metavar="FEATURE=WEIGHT", help="A weight that is held.")
]
Seed = Annotated[int, typer.Option(help="Of random starts and of samples.")]
Report = Annotated[Path | None, typer.Option("--out", "-o", help="Write a report with figures: one .html.")]


def infer(
    path: Scheme,
    theta: Annotated[
        list[str] | None,
        typer.Option("--theta", "-t", metavar="FEATURE=WEIGHT", help="The weight of a feature."),
    ] = None,
    network: Edges = None,
    vertices: Vertices = None,
    size: Size = None,
    bindings: Bindings = "merged",
    weights: Weights = "ground",
    json: Json = False,
) -> None:
    """Find all fixed points of belief propagation on the template: log Z, marginals, expected counts, stability.

    With a network that has unknown pairs (value ?), also their probabilities given the rest of it.
    """
    import numpy as np

    from hiddenfield.fields.relational import read_scheme
    from hiddenfield.models.relational import predict_pairs
    from hiddenfield.models.relational.phases import find_phases

    scheme = read_scheme(path)
    given = _numbers(scheme, theta, "--theta")
    missing = [name for name in scheme.features if name not in given]
    if missing:
        raise InputError(f"give a weight for {', '.join(missing)}: --theta {missing[0]}=…")
    row = np.array([given[name] for name in scheme.features])
    networks = _networks(scheme, network, vertices, size)
    if len(networks) > 1:
        raise InputError("inference is about one network; give --network once")
    if not networks and size is None:
        raise InputError("how many vertices are there? Give --size or --network")
    sizes = networks[0].sizes if networks else size
    assert sizes is not None
    points = find_phases(scheme, sizes, row, bindings=bindings, weights=weights)
    stable = sum(point.stable for point in points)
    result: dict[str, Any] = {
        "sizes": scheme.check_sizes(sizes),
        "theta": {name: given[name] for name in scheme.features},
        "conventions": _conventions(bindings, weights),
        "phases": stable,
        "fixed_points": [vars(point) for point in points],
    }
    lines = [repr(scheme), *_said(bindings, weights), *_phase_lines(points, stable)]
    if networks and networks[0].unknown:
        found = predict_pairs(scheme, networks[0], row, bindings=bindings, weights=weights)
        names = next(iter(networks[0].names.values()))
        rows = [
            ((names[a], names[b]), float(p))
            for (a, b), p in zip(found.pairs.tolist(), found.probability.tolist(), strict=True)
        ]
        result["predictions"] = [{"pair": list(pair), "probability": p} for pair, p in rows]
        result |= {"lifting": found.ratio, "prediction_status": found.status}
        fewer = f"{found.ratio:.3g} times fewer ports by lifting"
        lines.append(f"{len(rows):,} unknown pairs given the rest, {fewer}: {found.status}")
        lines += [f"  {' - '.join(pair)}  {p:.4f}" for pair, p in rows[:MOST_SHOWN]]
        lines += [f"  ... and {len(rows) - MOST_SHOWN:,} more; --json has all"] * (len(rows) > MOST_SHOWN)
    emit(result, "\n".join(lines), json)


def learn(
    path: Scheme,
    network: Edges = None,
    vertices: Vertices = None,
    size: Size = None,
    method: Annotated[
        str,
        typer.Option(help="bethe, exact, pseudo_likelihood, monte_carlo or contrastive_divergence."),
    ] = "bethe",
    optimiser: Annotated[str, typer.Option(help="lbfgs or conjugate_gradient.")] = "lbfgs",
    fix: Fix = None,
    start: Annotated[
        list[str] | None,
        typer.Option("--start", metavar="FEATURE=WEIGHT", help="Where the first ascent starts."),
    ] = None,
    starts: Annotated[int, typer.Option(min=1, help="How many ascents.")] = 4,
    ridge: Annotated[float, typer.Option(min=0, help="Precision of a normal prior on the weights.")] = 0.0,
    share: Annotated[
        bool, typer.Option("--share", help="Share weights among networks of different sizes.")
    ] = False,
    bindings: Bindings = "merged",
    weights: Weights = "ground",
    seed: Seed = 0,
    out: Report = None,
    json: Json = False,
) -> None:
    """Fit the weights of a scheme to networks, with standard errors, and say where no maximum exists."""
    from hiddenfield.fields.relational import read_scheme
    from hiddenfield.models.relational import fit_relational
    from hiddenfield.progress import progress

    scheme = read_scheme(path)
    networks = _networks(scheme, network, vertices, size)
    if not networks:
        raise InputError("give the network to learn from: --network edges.csv")
    _check_out(out)
    with progress(starts, f"learning by {method}") as advance:
        fit = fit_relational(
            scheme,
            networks,
            method=method,
            optimiser=optimiser,
            starts=starts,
            start=_numbers(scheme, start, "--start") or None,
            fixed=_numbers(scheme, fix, "--fix"),
            ridge=ridge,
            share=share,
            bindings=bindings,
            weights=weights,
            seed=seed,
            advance=advance,
        )
    result = _fit_dict(fit)
    lines = [*(repr(n) for n in networks), *_said(bindings, weights), *_fit_lines(fit)]
    if out is not None:
        from hiddenfield.report.relational_page import write_fit_report

        write_fit_report(out, scheme, networks, fit, title=f"{path.stem}: {method}")
        lines.append(f"report: {out}")
    emit(result, "\n".join(lines), json)


def landscape(
    path: Scheme,
    x: Annotated[str, typer.Option(metavar="FEATURE=LOW:HIGH", help="The feature on the x axis.")],
    y: Annotated[str, typer.Option(metavar="FEATURE=LOW:HIGH", help="The feature on the y axis.")],
    network: Edges = None,
    vertices: Vertices = None,
    size: Size = None,
    fix: Fix = None,
    points: Annotated[int, typer.Option(min=2, help="On each axis.")] = 100,
    runs: Annotated[int, typer.Option(min=0, help="Ascents by conjugate gradient.")] = 8,
    method: Annotated[str, typer.Option(help="bethe, exact or pseudo_likelihood.")] = "bethe",
    bindings: Bindings = "merged",
    weights: Weights = "ground",
    seed: Seed = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw it into this .png, .svg or .pdf.")] = None,
    out: Report = None,
    json: Json = False,
) -> None:
    """Compute the log-likelihood over a grid of two weights, climb it from several starts, and draw it."""
    from hiddenfield.fields.relational import read_scheme
    from hiddenfield.models.relational.landscape import landscape as explore
    from hiddenfield.progress import progress

    scheme = read_scheme(path)
    networks = _networks(scheme, network, vertices, size)
    if not networks:
        raise InputError("give the network whose likelihood is drawn: --network edges.csv")
    _check_out(out)
    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"a plot's file must end in .png, .svg or .pdf, got {str(plot)!r}")
    with progress(points * points, "landscape") as advance:
        found = explore(
            scheme,
            networks,
            _axis(x, "--x"),
            _axis(y, "--y"),
            fixed=_numbers(scheme, fix, "--fix"),
            points=points,
            runs=runs,
            method=method,
            bindings=bindings,
            weights=weights,
            seed=seed,
            advance=advance,
        )
    ascents = [
        {
            "start": ascent.trace[0].tolist(),
            "end": ascent.parameters.tolist(),
            "log_likelihood": _finite(ascent.value),
            "converged": ascent.converged,
            "status": ascent.status,
        }
        for ascent in found.ascents
    ]
    result: dict[str, Any] = {
        "conventions": _conventions(bindings, weights),
        "method": method,
        "axes": list(found.names),
        "fixed": found.fixed,
        "x": found.x.tolist(),
        "y": found.y.tolist(),
        "log_likelihood": [[_finite(v) for v in row] for row in found.log_likelihood.tolist()],
        "phases": found.phases.tolist(),
        "ascents": ascents,
        "best": None if found.best is None else found.best.parameters.tolist(),
    }
    several, none = float((found.phases > 1).mean()), float((found.phases == 0).mean())
    lines = [*(repr(n) for n in networks), *_said(bindings, weights)]
    lines.append(
        f"{points} x {points} points; {several:.0%} with several phases, {none:.1%} where nothing settled"
    )
    for ascent in ascents:
        end = ", ".join(f"{n} {v:.4g}" for n, v in zip(found.names, ascent["end"], strict=True))
        lines.append(f"  {end}: {ascent['status']}")
    if found.best is None:
        lines.append("no ascent reached a maximum")
    else:
        end = ", ".join(f"{n} {v:.5g}" for n, v in zip(found.names, found.best.parameters, strict=True))
        lines.append(f"best maximum: {end}, log-likelihood {found.best.value:.6g}")
    if plot is not None:
        from hiddenfield.report.relational_figures import paint_landscape, save_figure

        save_figure(plot, lambda figure: paint_landscape(figure, found), width=6.4, height=5)
        lines.append(f"plot: {plot}")
    if out is not None:
        from hiddenfield.report.relational_page import write_landscape_report

        write_landscape_report(out, networks, found, title=f"{path.stem}: landscape")
        lines.append(f"report: {out}")
    emit(result, "\n".join(lines), json)


COMMANDS = {"infer": infer, "learn": learn, "landscape": landscape}


def _networks(
    scheme: RelationalScheme, paths: list[Path] | None, vertices: Path | None, size: int | None
) -> list[Network]:
    from hiddenfield.models.relational import read_network

    if vertices is not None and len(paths or []) != 1:
        raise InputError("--vertices belongs to one network: give it with one --network")
    return [read_network(scheme, path, vertices, size=size) for path in paths or []]


def _numbers(scheme: RelationalScheme, texts: list[str] | None, option: str) -> dict[str, float]:
    from hiddenfield.models.relational.landscape import choose_feature

    found = {}
    for name, value in named_values(texts, option).items():
        choose_feature(scheme, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise InputError(f"{option} expects FEATURE=WEIGHT with a number, got {name}={value}")
        found[name] = float(value)
    return found


def _axis(text: str, option: str) -> tuple[str, float, float]:
    name, _, span = text.partition("=")
    low, _, high = span.partition(":")
    try:
        return name, float(low), float(high)
    except ValueError:
        raise InputError(f"{option} expects FEATURE=LOW:HIGH, such as triangle=-1:2, got {text!r}") from None


def _check_out(out: Path | None) -> None:
    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"a report's file must end in .html, got {str(out)!r}")


def _conventions(bindings: str, weights: str) -> dict[str, str]:
    return {"bindings": bindings, "weights": weights, "meaning": "; ".join(_said(bindings, weights))}


def _said(bindings: str, weights: str) -> list[str]:
    return [
        f"{family} {name}: {CONVENTIONS[name]}"
        for family, name in (("weights", weights), ("bindings", bindings))
    ]


def _phase_lines(points: list[Any], stable: int) -> list[str]:
    lines = [f"{len(points)} fixed points, {stable} stable"]
    if stable > 1:
        lines.append(
            f"WARNING: {stable} phases. The model is near-degenerate: a chain stays in the phase it starts in, and a "
            "single answer would be wrong"
        )
    for point in points:
        lines.append(f"log Z {point.log_partition:.8g}, {'stable' if point.stable else 'unstable'}")
        for name, row in point.marginals.items():
            lines.append(f"  {name}: " + "  ".join(f"{value} {p:.6f}" for value, p in row.items()))
        lines.append("  expected " + ", ".join(f"{n} {v:,.6g}" for n, v in point.expected_counts.items()))
    return lines


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _fit_dict(fit: RelationalFit) -> dict[str, Any]:
    return {
        "conventions": _conventions(fit.bindings, fit.weights),
        "method": fit.method,
        "theta": dict(zip(fit.names, fit.theta.tolist(), strict=True)),
        "standard_errors": {
            n: _finite(v) for n, v in zip(fit.names, fit.standard_errors.tolist(), strict=True)
        },
        "log_likelihood": _finite(fit.log_likelihood),
        "gradient": {n: _finite(v) for n, v in zip(fit.names, fit.gradient.tolist(), strict=True)},
        "converged": fit.converged,
        "status": fit.status,
        "phases": fit.phases,
        "ascents": [
            {"end": ascent.parameters.tolist(), "value": _finite(ascent.value), "status": ascent.status}
            for ascent in fit.ascents
        ],
    }


def _fit_lines(fit: RelationalFit) -> list[str]:
    lines = [f"{fit.method}: {fit.status}"]
    if not fit.converged:
        lines.append("WARNING: these are not estimates; there is no maximum here")
    width = max(len(name) for name in fit.names)
    for name, value, error in zip(fit.names, fit.theta, fit.standard_errors, strict=True):
        spread = "fixed" if error == 0 else f"standard error {error:.4g}"
        lines.append(f"  {name:<{width}}  {value: .6g}  {spread}")
    if math.isfinite(fit.log_likelihood):
        lines.append(f"log-likelihood {fit.log_likelihood:.8g}")
    if fit.phases is not None and fit.phases > 1:
        lines.append(f"WARNING: {fit.phases} phases at these weights; samples need not look like the data")
    return lines
