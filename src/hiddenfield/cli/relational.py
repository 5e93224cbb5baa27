"""``hiddenfield relational infer | learn | landscape | sample | goodness``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from hiddenfield.cli.options import Json, emit, named_values
from hiddenfield.errors import InputError
from hiddenfield.report.drawing import IMAGES, check_suffix

if TYPE_CHECKING:
    from hiddenfield.fields.relational import RelationalScheme
    from hiddenfield.models.relational import Network

HELP = "Relational models: inference, learning and landscapes from a scheme (a TOML file) and networks."

Fix = Annotated[
    list[str] | None, Option("--fix", metavar="FEATURE=WEIGHT", help="Keep a weight fixed at a value.")
]
Seed = Annotated[int, Option(help="Seed of random starts and samples.")]
Report = Annotated[Path | None, Option("--out", "-o", help="Write a report with figures: one .html file.")]
Plot = Annotated[Path | None, Option(help="Also draw the result into this .png, .svg or .pdf.")]
Theta = Annotated[
    list[str] | None, Option("--theta", "-t", metavar="FEATURE=WEIGHT", help="The weight of a feature.")
]
Weights = Annotated[str, Option(help="ground or binding: what a weight counts.")]


@dataclass(frozen=True)
class Given:
    """A scheme, its name, and the networks or numbers of vertices that a command is about."""

    name: str
    scheme: RelationalScheme
    networks: list[Network]
    size: dict[str, int] | int | None

    def all(self, needed: str) -> list[Network]:
        """Return the networks, of which there must be one."""
        if not self.networks:
            raise InputError(f"give the network {needed}: --network edges.csv")
        return self.networks

    def one(self, what: str) -> tuple[Network | None, dict[str, int]]:
        """Return the only network, where there is one, and the numbers of vertices."""
        if len(self.networks) > 1:
            raise InputError(f"{what} is about one network; give --network once")
        if self.networks:
            return self.networks[0], self.networks[0].sizes
        if self.size is None:
            raise InputError("how many vertices are there? Give --size or --network")
        return None, self.scheme.check_sizes(self.size)


def _domain(
    path: Path = Argument(metavar="SCHEME", help="A scheme: a TOML file.", show_default=False),
    network: list[Path] | None = Option(
        None,
        "--network",
        help="Edges: two names per line, and optionally 1 (or more), 0 or ? (unknown). May be repeated.",
    ),
    vertices: Path | None = Option(
        None, help="A CSV of all vertices by name; further columns are their attributes."
    ),
    size: list[str] | None = Option(
        None,
        metavar="NUMBER | TYPE=NUMBER",
        help="Number of vertices (per type, by name), if no network is given or some vertices have no edges.",
    ),
) -> Given:
    from hiddenfield.fields.relational import read_scheme
    from hiddenfield.models.relational import read_network

    scheme, paths, number = read_scheme(path), network or [], _size(size)
    if vertices is not None and len(paths) != 1:
        raise InputError("--vertices belongs to one network: give it with one --network")
    return Given(
        path.stem, scheme, [read_network(scheme, file, vertices, size=number) for file in paths], number
    )


def _size(texts: list[str] | None) -> dict[str, int] | int | None:
    """Return a number of vertices, or one for each type."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        try:
            return int(texts[0])
        except ValueError:
            raise InputError(
                f"--size expects a number of vertices, or TYPE=NUMBER, got {texts[0]!r}"
            ) from None
    sizes = named_values(texts, "--size")
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"--size expects a number of vertices, or TYPE=NUMBER, got {name}={value}")
    return sizes


def _conventions(
    bindings: str = Option("auto", help="auto, merged, ordered or cluster: how features become factors."),
    weights: Weights = "ground",
) -> dict[str, Any]:
    return {"bindings": bindings, "weights": weights}


Domain = Annotated[Given, _domain]
Conventions = Annotated[dict[str, Any], _conventions]


def infer(
    given: Domain,
    conventions: Conventions,
    theta: Theta = None,
    json: Json = False,
) -> None:
    """Find all fixed points of belief propagation on the template: log Z, marginals, expected counts, stability.

    With a network, its attributes of vertices are taken as given, and the probabilities of unknown pairs (value ?)
    given the rest of it are listed too.
    """
    import numpy as np

    from hiddenfield.models.relational import predict_pairs
    from hiddenfield.models.relational.observations import classes_of
    from hiddenfield.models.relational.phases import find_phases
    from hiddenfield.report.relational import describe_phases, describe_prediction

    scheme = given.scheme
    values, (network, sizes) = _all_weights(scheme, theta), given.one("inference")
    row = np.array(list(values.values()))
    classes = None if network is None else classes_of(scheme, network)
    points = find_phases(scheme, sizes, row, given=classes, **conventions)
    record, lines = describe_phases(scheme, sizes, values, points, **conventions)
    if network is not None and network.unknown:
        found = predict_pairs(scheme, network, row, **conventions)
        further, more = describe_prediction(network, found)
        record, lines = record | further, lines + more
    emit(record, "\n".join(lines), json)


def learn(
    given: Domain,
    conventions: Conventions,
    method: str = Option(
        "auto",
        help="bethe, bethe_observed, exact, pseudo_likelihood, monte_carlo, contrastive_divergence; auto: bethe, or "
        "monte_carlo for terms such as gwesp.",
    ),
    optimiser: str = Option("lbfgs", help="lbfgs or conjugate_gradient."),
    fix: Fix = None,
    start: list[str] | None = Option(
        None, "--start", metavar="FEATURE=WEIGHT", help="Start of the first ascent."
    ),
    starts: int = Option(4, min=1, help="Number of ascents."),
    ridge: float = Option(0.0, min=0, help="Precision of a normal prior on the weights."),
    share: bool = Option(False, "--share", help="Share weights among networks of different sizes."),
    condition: bool = Option(
        True, "--condition/--joint", help="Condition on the attributes of vertices, or model them too."
    ),
    seed: Seed = 0,
    out: Report = None,
    json: Json = False,
) -> None:
    """Fit the weights of a scheme to networks, with standard errors, and report where no maximum exists."""
    from hiddenfield.models.relational import fit_relational
    from hiddenfield.models.relational.learning import choose_method
    from hiddenfield.progress import progress
    from hiddenfield.report.relational import describe_fit, write_fit_report

    scheme = given.scheme
    networks = given.all("to learn from")
    check_suffix(out, "a report's file", ".html", ".htm")
    method = choose_method(scheme, method)
    with progress(None, f"learning by {method}, ascents") as advance:  # methods that sample make one alone
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
            condition=condition,
            **conventions,
            seed=seed,
            advance=advance,
        )
    record, lines = describe_fit(networks, fit)
    if out is not None:
        write_fit_report(out, scheme, networks, fit, title=f"{given.name}: {method}")
        lines.append(f"report: {out}")
    emit(record, "\n".join(lines), json)


def landscape(
    given: Domain,
    conventions: Conventions,
    x: str = Option(metavar="FEATURE=LOW:HIGH", help="The feature on the x axis."),
    y: str = Option(metavar="FEATURE=LOW:HIGH", help="The feature on the y axis."),
    fix: Fix = None,
    points: int = Option(100, min=2, help="Points on each axis."),
    runs: int = Option(8, min=0, help="Number of ascents by conjugate gradient."),
    method: str = Option("bethe", help="bethe, bethe_observed, exact or pseudo_likelihood."),
    seed: Seed = 0,
    plot: Plot = None,
    out: Report = None,
    json: Json = False,
) -> None:
    """Compute and draw the log-likelihood over a grid of two weights, with ascents from several starts."""
    from hiddenfield.models.relational.landscape import landscape as explore
    from hiddenfield.progress import progress
    from hiddenfield.report.drawing import save_figure
    from hiddenfield.report.relational import describe_landscape, paint_landscape, write_landscape_report

    scheme = given.scheme
    networks = given.all("whose likelihood is drawn")
    check_suffix(out, "a report's file", ".html", ".htm")
    check_suffix(plot, "a plot's file", *IMAGES)
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
            **conventions,
            seed=seed,
            advance=advance,
        )
    record, lines = describe_landscape(networks, found)
    if plot is not None:
        save_figure(plot, paint_landscape, found, width=6.4, height=5)
        lines.append(f"plot: {plot}")
    if out is not None:
        write_landscape_report(out, networks, found, title=f"{given.name}: landscape")
        lines.append(f"report: {out}")
    emit(record, "\n".join(lines), json)


def sample(
    given: Domain,
    theta: Theta = None,
    number: int = Option(1, "--number", "-n", min=1, help="Number of networks."),
    burn_in: float = Option(200, min=0, help="Sweeps before the first network."),
    thin: float = Option(20, min=0.01, help="Sweeps between networks."),
    start: str = Option("empty", help="empty, full or observed: where the chain starts."),
    weights: Weights = "ground",
    seed: Seed = 0,
    out: Path | None = Option(
        None, "--out", "-o", help="A new folder for the networks: network-1.csv and so on."
    ),
    json: Json = False,
) -> None:
    """Draw networks from a scheme by Gibbs sampling; attributes and covariates are those of --network.

    Prints the features of each and, with --out, writes the edges of each into a file that `learn` reads.
    """
    from hiddenfield.models.relational.sampling import as_drawn, sample_networks

    scheme = given.scheme
    values, (network, sizes) = _all_weights(scheme, theta), given.one("sampling")
    if out is not None and out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise InputError(f"{out} is there already and is not an empty folder; name a new one")
    drawn = sample_networks(
        scheme,
        sizes,
        values,
        samples=number,
        burn_in=burn_in,
        thin=thin,
        start=start,
        network=network,
        weights=weights,
        keep_networks=True,
        seed=seed,
    )
    rows = [dict(zip(drawn.features, row, strict=True)) for row in drawn.statistics[0].tolist()]
    size = drawn.size if len(sizes) == 1 else sizes
    record: dict[str, Any] = {"size": size, "seed": seed, "theta": values, "networks": rows, "files": []}
    lines = [repr(drawn), *("  ".join(f"{name} {value:g}" for name, value in row.items()) for row in rows)]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for place, one in enumerate(as_drawn(scheme, drawn, network), start=1):
            names = [one.names.get(kind) or tuple(map(str, range(n))) for kind, n in one.sizes.items()]
            pairs = next(iter(one.pairs.values())).tolist()
            text = "".join(f"{names[0][i]},{names[-1][j]}\n" for i, j in pairs)
            file = out / f"network-{place}.csv"
            header = ",".join(one.sizes) if one.two_mode else "source,target"
            file.write_text(f"{header}\n{text}")
            record["files"].append(str(file))
        lines.append(f"networks: {out}")
    emit(record, "\n".join(lines), json)


def goodness(
    given: Domain,
    theta: Theta = None,
    number: int = Option(100, "--number", "-n", min=1, help="Number of sampled networks."),
    weights: Weights = "ground",
    seed: Seed = 0,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Compare degrees (of each type), shared partners and distances of a network with those of sampled networks."""
    from hiddenfield.models.relational import goodness_of_fit
    from hiddenfield.report.drawing import save_figure
    from hiddenfield.report.relational import describe_goodness, paint_goodness

    scheme = given.scheme
    check_suffix(plot, "a plot's file", *IMAGES)
    values, (network, _) = _all_weights(scheme, theta), given.one("goodness of fit")
    network = given.all("to compare with")[0] if network is None else network
    found = goodness_of_fit(scheme, network, values, networks=number, weights=weights, seed=seed)
    record, lines = describe_goodness(found)
    if plot is not None:
        save_figure(plot, paint_goodness, found, width=3.4 * len(found), height=3.2)
        lines.append(f"plot: {plot}")
    emit(record, "\n".join(lines), json)


def _all_weights(scheme: RelationalScheme, theta: list[str] | None) -> dict[str, float]:
    given = _numbers(scheme, theta, "--theta")
    missing = [name for name in scheme.features if name not in given]
    if missing:
        raise InputError(f"give a weight for {', '.join(missing)}: --theta {missing[0]}=…")
    return {name: given[name] for name in scheme.features}


COMMANDS = {"infer": infer, "learn": learn, "landscape": landscape, "sample": sample, "goodness": goodness}


def _numbers(scheme: RelationalScheme, texts: list[str] | None, option: str) -> dict[str, float]:
    from hiddenfield.models.relational.likelihood import check_weights

    found = check_weights(scheme, named_values(texts, option), f"a weight of {option} FEATURE=WEIGHT")
    return {list(scheme.features)[place]: value for place, value in found.items()}


def _axis(text: str, option: str) -> tuple[str, float, float]:
    name, _, span = text.partition("=")
    low, _, high = span.partition(":")
    try:
        return name, float(low), float(high)
    except ValueError:
        raise InputError(f"{option} expects FEATURE=LOW:HIGH, such as triangle=-1:2, got {text!r}") from None
