"""How good are vectors of nodes by LINE and SDNE, and how fast is LINE?

``python -m benchmarks.network_embeddings`` measures all parts, keeps the rows in benchmarks/network_embeddings.json,
and draws docs/pictures/network-embeddings.png; the tables of docs/network-embeddings.md are made of them (``python -m
tools.tables``). ``classification``, ``links``, ``speed`` or ``picture`` runs one part, ``--only wiki`` one network.
`$HIDDENFIELD_DATA` is where the data are, and `$HIDDENFIELD_GENSIM` a Python that has gensim, the rival of the speed.

Classification: logistic regression on the vectors, one class against the rest, learned on a share of the labelled nodes
that have edges; of every other node as many classes are predicted as it has (Tang and Liu 2009; Perozzi et al. 2014).
Links: pairs ranked by the distance of their vectors; precision among the first k pairs, for all edges (reconstruction),
or for 15 % of the edges that were hidden, among pairs that are not connected in the rest.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import resource
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.environment import environment, table
from hiddenfield.errors import SkippedInputWarning
from hiddenfield.estimators import NODE_ENCODERS, NodeEncoder
from hiddenfield.models.line import CALL, fit_line

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "network_embeddings.json"
PICTURE = ROOT / "docs" / "pictures" / "network-embeddings.png"
DATA = Path(os.environ.get("HIDDENFIELD_DATA", ROOT.parent / "shared" / "data")) / "networks"
MODELS = ("line", "spectral", "sdne")
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
FIRST = (10, 100, 1_000, 10_000)
# Fewer epochs than by default where one takes long.
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("blogcatalog", "sdne"): {"epochs": 10, "pretraining": 1},
    ("ca-GrQc", "sdne"): {"epochs": 20, "pretraining": 2},
}
PUBLISHED: dict[str, tuple[tuple[str, float | None, float], ...]] = {
    "wiki": (
        ("LINE, 2nd order, authors' code (a)", 0.576, 0.387),
        ("LINE, 2nd order, OpenNE (a)", 0.661, 0.521),
        ("SDNE, OpenNE (a)", 0.643, 0.498),
        ("Laplacian eigenmaps, OpenNE (a)", 0.277, 0.073),
        ("DeepWalk (a)", 0.669, 0.560),
    ),
    "blogcatalog": (
        ("LINE (b)", None, 0.0784),
        ("DeepWalk (b)", None, 0.2110),
        ("spectral clustering (c)", 0.3997, 0.2831),
    ),
}
"""Micro and macro F1 at half of the labels, with the source as the page names it."""


# -- data ----------------------------------------------------------------------------------------------------


@cache
def edges(name: str) -> np.ndarray:
    """Return the listed edges of a network."""
    with lzma.open(DATA / f"{name}.edges.txt.xz", "rt") as lines:
        return np.loadtxt(lines, dtype=np.int64)


def labels(name: str) -> dict[int, list[int]]:
    """Return the classes of each labelled node."""
    with lzma.open(DATA / f"{name}.labels.txt.xz", "rt") as lines:
        rows = [list(map(int, line.split())) for line in lines]
    return {row[0]: [code for code in row[1:] if code >= 0] for row in rows}


def fitted(name: str, model: str, listed: np.ndarray) -> tuple[NodeEncoder, float]:
    """Return an encoder that is fitted to a network, and the CPU seconds that this took."""
    encoder = NODE_ENCODERS[model](on_error="skip", **SETTINGS.get((name, model), {}))
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkippedInputWarning)
        encoder.fit(listed)
    return encoder, time.process_time() - begun


def described(name: str, model: str) -> str:
    """Return a model with the settings that are not the default ones."""
    return f"`{model}`" + "".join(
        f", {key}={value}" for key, value in SETTINGS.get((name, model), {}).items()
    )


# -- classification ------------------------------------------------------------------------------------------


def logistic(rows: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Return the weights of logistic regression of each class against the rest, with a penalty of one half."""
    weights = torch.zeros(rows.shape[1], classes.shape[1], requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(rows @ weights, classes, reduction="sum")
        loss = loss + 0.5 * weights[:-1].square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return weights.detach()


def classify(
    encoder: NodeEncoder, known: Mapping[int, list[int]], share: float, repeats: int
) -> tuple[float, float]:
    """Return mean micro and macro F1 of random splits of the labelled nodes."""
    from sklearn.metrics import f1_score

    names, vectors = encoder.node_names_.tolist(), encoder.embedding_
    kept = [row for row, name in enumerate(names) if known.get(name) and np.isfinite(vectors[row, 0])]
    truth = np.zeros((len(kept), 1 + max(max(codes, default=0) for codes in known.values())), bool)
    for row, place in enumerate(kept):
        truth[row, known[names[place]]] = True
    rows = torch.cat([torch.from_numpy(vectors[kept]), torch.ones(len(kept), 1)], dim=1)
    scores = []
    for repeat in range(repeats):
        order = np.random.default_rng(repeat).permutation(len(kept))
        learned, tested = np.split(order, [int(share * len(kept))])
        weights = logistic(rows[learned], torch.from_numpy(truth[learned]).float())
        rank = (-(rows[tested] @ weights)).argsort(dim=1).argsort(dim=1).numpy()
        found = rank < truth[tested].sum(axis=1, keepdims=True)
        scores.append(
            [f1_score(truth[tested], found, average=kind, zero_division=0) for kind in ("micro", "macro")]
        )
    micro, macro = np.mean(scores, axis=0).tolist()
    return micro, macro


def classification(name: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each published result, and for each model, of one network."""
    for by, micro, macro in PUBLISHED.get(name, ()):
        half = f"{'-' if micro is None else f'{micro:.3f}'} / {macro:.3f}"
        yield {"network": name, "by": by, "50%": half}
    known = labels(name)
    for model in MODELS:
        encoder, seconds = fitted(name, model, edges(name))
        own = SETTINGS.get((name, model), {})
        row = {
            "network": name,
            "by": f"`{model}`" + "".join(f", {key}={value}" for key, value in own.items()),
        }
        for share in SHARES:
            micro, macro = classify(encoder, known, share, 2 if name == "blogcatalog" else 5)
            row[f"{share:.0%}"] = f"{micro:.3f} / {macro:.3f}"
        yield row | {"CPU seconds": round(seconds, 1)}


# -- links ---------------------------------------------------------------------------------------------------


def precision(encoder: NodeEncoder, wanted: np.ndarray, excluded: np.ndarray) -> dict[str, float]:
    """Return the share of wanted pairs among the nearest ones that are not excluded; pairs are of rows, lower first."""
    good = np.flatnonzero(np.isfinite(encoder.embedding_[:, 0]))
    vectors, size = torch.from_numpy(encoder.embedding_[good]), len(encoder.embedding_)
    out, distances, keys = np.unique(excluded @ [size, 1]), [], []
    for begin in range(0, len(good), 500):
        near = torch.cdist(vectors[begin : begin + 500], vectors).numpy()
        rows, columns = np.triu_indices(len(near), begin + 1, len(good))
        key, distance = good[rows + begin] * size + good[columns], near[rows, columns]
        free = ~np.isin(key, out)
        key, distance = key[free], distance[free]
        best = np.argpartition(distance, min(max(FIRST), len(distance) - 1))[: max(FIRST)]
        keys.append(key[best])
        distances.append(distance[best])
    order = np.argsort(np.concatenate(distances), kind="stable")[: max(FIRST)]
    hit = np.isin(np.concatenate(keys)[order], wanted @ [size, 1])
    return {f"at {k:,}": float(hit[:k].mean()) for k in FIRST}


def as_rows(encoder: NodeEncoder, pairs: np.ndarray) -> np.ndarray:
    """Return pairs of nodes that have vectors as rows, the lower first."""
    place = np.sort(encoder._places(pairs.ravel()).reshape(pairs.shape), axis=1)
    return place[place[:, 0] >= 0]


def auc(encoder: NodeEncoder, hidden: np.ndarray, taken: np.ndarray) -> float:
    """Return how often a hidden edge is nearer than a random pair that is no edge."""
    size, generator = len(encoder.embedding_), np.random.default_rng(0)
    others = np.sort(generator.integers(0, size, (4 * len(hidden), 2)), axis=1)
    others = others[(others[:, 0] < others[:, 1]) & ~np.isin(others @ [size, 1], taken @ [size, 1])]
    far = [np.linalg.norm(np.subtract(*encoder.embedding_[pairs.T]), axis=1) for pairs in (hidden, others)]
    less, equal = (
        np.searchsorted(np.sort(far[1]), far[0], "left"),
        np.searchsorted(np.sort(far[1]), far[0], "right"),
    )
    return float(1 - (less + equal).mean() / 2 / len(others))


def links(name: str) -> Iterator[dict[str, Any]]:
    """Yield how well edges are found again, and how well hidden ones are found."""
    listed = np.unique(np.sort(edges(name), axis=1), axis=0)
    listed = listed[listed[:, 0] < listed[:, 1]]
    hidden = np.random.default_rng(0).random(len(listed)) < 0.15
    for model in MODELS:
        encoder, _ = fitted(name, model, listed)
        row: dict[str, Any] = {"network": name, "by": described(name, model)}
        found = precision(encoder, as_rows(encoder, listed), np.zeros((0, 2), np.int64))
        yield row | {"task": "reconstruction", "AUC": None} | found
        encoder, _ = fitted(name, model, listed[~hidden])
        kept, wanted = as_rows(encoder, listed[~hidden]), as_rows(encoder, listed[hidden])
        area = auc(encoder, wanted, np.concatenate([kept, wanted]))
        yield row | {"task": "hidden edges", "AUC": area} | precision(encoder, wanted, kept)


# -- speed ---------------------------------------------------------------------------------------------------

RIVAL = """
import sys, time
import numpy as np
from gensim.models import Word2Vec

degree, pairs = np.load(sys.argv[1]), np.load(sys.argv[2])
model = Word2Vec(
    vector_size=128, window=1, min_count=1, sg=1, negative=5, ns_exponent=0.75, sample=0, workers=1, seed=1
)
model.build_vocab_from_freq({str(node): int(count) for node, count in enumerate(degree) if count})
sentences = [[str(one), str(other)] for one, other in pairs.tolist()]
wall, cpu = time.perf_counter(), time.process_time()
model.train(sentences, total_examples=len(sentences), epochs=1)
print(2 * len(sentences) / (time.perf_counter() - wall), 2 * len(sentences) / (time.process_time() - cpu))
"""


def speed(_: str) -> Iterator[dict[str, Any]]:
    """Yield arcs learned per second by LINE and by gensim's skip-gram on the same graph, one thread each.

    A sentence of two words is an edge, which skip-gram learns both ways: this is second order with five negatives and
    the same noise. Edges are of a graph whose nodes have weights of a power law. Neither includes preparation.
    """
    from scipy.sparse import coo_array

    nodes, generator = 1_000_000, np.random.default_rng(0)
    weight = generator.pareto(2.0, nodes) + 1
    chances = generator.random((10_000_000, 2))
    ends = np.searchsorted(np.cumsum(weight / weight.sum()), chances).clip(max=nodes - 1).astype(np.int32)
    ends = ends[ends[:, 0] != ends[:, 1]]
    both = np.concatenate([ends, ends[:, ::-1]])
    adjacency = coo_array((np.ones(len(both), np.float32), tuple(both.T)), (nodes, nodes)).tocsr()
    del both, chances
    rates = {}
    if "HIDDENFIELD_GENSIM" in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/degree.npy", f"{folder}/pairs.npy"]
            np.save(files[0], np.diff(adjacency.indptr))
            np.save(files[1], ends[:200_000])
            command = [os.environ["HIDDENFIELD_GENSIM"], "-c", RIVAL, *files]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        rates["gensim, skip-gram, 128"] = [float(rate) for rate in told]
    for by, dim, orders in (
        ("`line`, second order, 128", 128, (2,)),
        ("`line`, both orders, 64 each", 64, (1, 2)),
    ):
        clocks = []

        def look(*_: Any) -> None:
            clocks.append((time.perf_counter(), time.process_time()))  # noqa: B023 (called within this turn)

        fit_line(adjacency, dim, orders, samples=3 * CALL, advance=look)
        rates[by] = (2 * CALL * len(orders) / np.subtract(clocks[-1], clocks[0])).tolist()
    for by, (wall, cpu) in rates.items():
        row = {
            "network": "generated",
            "nodes": nodes,
            "edges": len(ends),
            "by": by,
            "arcs / s": wall,
            "arcs / CPU s": cpu,
        }
        row["times gensim (CPU)"] = cpu / rates["gensim, skip-gram, 128"][1] if len(rates) == 3 else None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        yield row | {"peak GiB": None if "gensim" in by else peak}


# -- picture -------------------------------------------------------------------------------------------------


def picture() -> None:
    """Draw maps of the vectors of Cora's papers, coloured by subject."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from sklearn.manifold import TSNE

    from hiddenfield.report.drawing import save_figure

    known = labels("cora")
    maps = {}
    for model in MODELS:
        encoder, _ = fitted("cora", model, edges("cora"))
        points = TSNE(init="pca", max_iter=500, random_state=0).fit_transform(encoder.embedding_)
        maps[model] = points, [known[name][0] for name in encoder.node_names_.tolist()]

    def paint(figure: Figure) -> None:
        for axes, (model, (points, colour)) in zip(figure.subplots(1, len(maps)), maps.items(), strict=True):
            axes.scatter(*points.T, c=colour, cmap=colormaps["tab10"], s=2, linewidths=0)
            axes.set(title=model, xticks=[], yticks=[])
            axes.grid(visible=False)

    save_figure(PICTURE, paint, width=9.0, height=3.2)


def keep(part: str, row: dict[str, Any], names: Sequence[str]) -> None:
    """Put a row into the file of results, in the place of an older one."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    same = ("network", "by", "task")
    rows = results.get(part, {}).get("rows", [])
    rows = [old for old in rows if any(old.get(key) != row.get(key) for key in same)]
    rows = sorted([*rows, row], key=lambda each: names.index(each["network"]))
    columns = max(rows, key=len)
    rows = [{column: each.get(column) for column in columns} for each in rows]
    results[part] = {"environment": environment(), "rows": rows}
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")


def main() -> None:
    """Measure what is named, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=["classification", "links", "speed", "picture"])
    parser.add_argument("--only", help="one network; the rows of the others are kept")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    parts: dict[str, tuple[Callable[[str], Iterator[dict[str, Any]]], Sequence[str]]] = {
        "classification": (classification, ("cora", "citeseer", "wiki", "blogcatalog")),
        "links": (links, ("ca-GrQc",)),
        "speed": (speed, ("generated",)),
    }
    for part, (measure, names) in parts.items():
        if arguments.part not in (None, part):
            continue
        for name in names if arguments.only is None else [arguments.only]:
            for row in measure(name):
                print(table([row]), flush=True)
                keep(part, row, names)
    if arguments.part in (None, "picture"):
        picture()


if __name__ == "__main__":
    main()
