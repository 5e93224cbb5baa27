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
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.environment import environment, table
from hiddenfield.errors import SkippedInputWarning
from hiddenfield.estimators import NODE_ENCODERS, NodeEncoder
from hiddenfield.models.line import fit_line

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "network_embeddings.json"
PICTURE = ROOT / "docs" / "pictures" / "network-embeddings.png"
DATA = Path(os.environ.get("HIDDENFIELD_DATA", ROOT.parent / "shared" / "data")) / "networks"
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
FIRST = (10, 100, 1_000, 10_000)
# Half an hour of two cores, not several.
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {("blogcatalog", "sdne"): {"epochs": 10, "pretraining": 1}}
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


def classification(name: str) -> list[dict[str, Any]]:
    """Return a row for each model, and for each published result, of one network."""
    known, rows = labels(name), []
    for model in ("line", "sdne", "spectral"):
        encoder, seconds = fitted(name, model, edges(name))
        own = SETTINGS.get((name, model), {})
        by = f"`{model}`" + "".join(f", {key}={value}" for key, value in own.items())
        scores = [classify(encoder, known, share, 2 if name == "blogcatalog" else 5) for share in SHARES]
        row = {"network": name, "by": by}
        row |= {
            f"{share:.0%}": f"{micro:.3f} / {macro:.3f}"
            for share, (micro, macro) in zip(SHARES, scores, strict=True)
        }
        rows.append(row | {"CPU seconds": round(seconds, 1)})
        print(table([rows[-1]]), flush=True)
    for by, micro, macro in PUBLISHED.get(name, ()):
        rows.append(
            {"network": name, "by": by, "50%": f"{'-' if micro is None else f'{micro:.3f}'} / {macro:.3f}"}
        )
    return [{key: row.get(key) for key in rows[0]} for row in rows]


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


def links(name: str) -> list[dict[str, Any]]:
    """Return how well edges are found again, and how well hidden ones are found."""
    rows, listed = [], np.unique(np.sort(edges(name), axis=1), axis=0)
    listed = listed[listed[:, 0] < listed[:, 1]]
    hidden = np.random.default_rng(0).random(len(listed)) < 0.15
    for model in ("line", "sdne", "spectral"):
        encoder, _ = fitted(name, model, listed)
        pairs = as_rows(encoder, listed)
        rows.append({"network": name, "task": "reconstruction", "by": f"`{model}`", "AUC": None})
        rows[-1] |= precision(encoder, pairs, np.zeros((0, 2), np.int64))
        encoder, _ = fitted(name, model, listed[~hidden])
        kept, wanted = as_rows(encoder, listed[~hidden]), as_rows(encoder, listed[hidden])
        rows.append({"network": name, "task": "hidden edges", "by": f"`{model}`"})
        rows[-1] |= {"AUC": auc(encoder, wanted, np.concatenate([kept, wanted]))} | precision(
            encoder, wanted, kept
        )
        print(table(rows[-2:]), flush=True)
    return rows


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


def speed(nodes: int = 1_000_000, count: int = 10_000_000) -> list[dict[str, Any]]:
    """Return arcs learned per second by LINE's second order and by gensim's skip-gram on the same graph, in turns.

    A sentence of two words is an edge, which skip-gram learns both ways: this is second order with five negatives and
    the same noise. Edges are of a graph whose nodes have weights of a power law.
    """
    from scipy.sparse import coo_array

    generator = np.random.default_rng(0)
    weight = generator.pareto(2.0, nodes) + 1
    ends = np.searchsorted(np.cumsum(weight / weight.sum()), generator.random((count, 2))).clip(max=nodes - 1)
    ends = ends[ends[:, 0] != ends[:, 1]].astype(np.int32)
    one, other = ends.T
    both = np.concatenate([one, other]), np.concatenate([other, one])
    adjacency = coo_array((np.ones(2 * len(ends), np.float32), both), (nodes, nodes)).tocsr()
    del both
    torch.set_num_threads(1)

    def ours(dim: int, orders: tuple[int, ...], samples: int) -> tuple[float, float]:
        begun = time.perf_counter(), time.process_time()
        fit_line(adjacency, dim, orders, samples=samples)
        return time.perf_counter() - begun[0], time.process_time() - begun[1]

    found: dict[str, list[tuple[float, float]]] = {}
    cases = {"`line`, second order, 128": (128, (2,)), "`line`, both orders, 64 each": (64, (1, 2))}
    few, many = 100_000, 2_000_000
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/degree.npy", np.diff(adjacency.indptr))
        np.save(f"{folder}/pairs.npy", ends[:200_000])
        for _ in range(2):
            for case, (dim, orders) in cases.items():
                setup, whole = ours(dim, orders, few), ours(dim, orders, many)
                done = len(orders) * (many - few)
                found.setdefault(case, []).append(
                    (done / (whole[0] - setup[0]), done / (whole[1] - setup[1]))
                )
            if "HIDDENFIELD_GENSIM" in os.environ:
                command = [
                    os.environ["HIDDENFIELD_GENSIM"],
                    "-c",
                    RIVAL,
                    f"{folder}/degree.npy",
                    f"{folder}/pairs.npy",
                ]
                told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
                found.setdefault("gensim, skip-gram, 128", []).append((float(told[0]), float(told[1])))
    rows = []
    for case, rates in found.items():
        wall, cpu = np.max(rates, axis=0).tolist()
        rows.append({"by": case, "nodes": nodes, "edges": len(ends), "arcs / s": wall, "arcs / CPU s": cpu})
    slow = rows[-1]["arcs / CPU s"]
    for row in rows:
        row["times gensim (CPU)"] = row["arcs / CPU s"] / slow if "gensim" in rows[-1]["by"] else None
        row["peak GiB"] = (
            None if "gensim" in row["by"] else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        )
    return rows


# -- picture -------------------------------------------------------------------------------------------------


def picture() -> None:
    """Draw maps of the vectors of Cora's papers, coloured by subject."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from sklearn.manifold import TSNE

    from hiddenfield.report.drawing import save_figure

    known = labels("cora")
    maps = {}
    for model in ("line", "sdne", "spectral"):
        encoder, _ = fitted("cora", model, edges("cora"))
        points = TSNE(init="pca", max_iter=500, random_state=0).fit_transform(encoder.embedding_)
        maps[model] = points, [known[name][0] for name in encoder.node_names_.tolist()]

    def paint(figure: Figure) -> None:
        for axes, (model, (points, colour)) in zip(figure.subplots(1, len(maps)), maps.items(), strict=True):
            axes.scatter(*points.T, c=colour, cmap=colormaps["tab10"], s=2, linewidths=0)
            axes.set(title=model, xticks=[], yticks=[])
            axes.grid(visible=False)

    save_figure(PICTURE, paint, width=9.0, height=3.2)


def main() -> None:
    """Measure what is named, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=["classification", "links", "speed", "picture"])
    parser.add_argument("--only", help="one network; the rows of the others are kept")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    parts: dict[str, Any] = {
        "classification": (classification, ("cora", "citeseer", "wiki", "blogcatalog")),
        "links": (links, ("ca-GrQc",)),
        "speed": (lambda _: speed(), (None,)),
    }
    for part, (measure, names) in parts.items():
        if arguments.part not in (None, part):
            continue
        for name in names if arguments.only is None else [arguments.only]:
            rows = measure(name)
            print(table(rows), flush=True)
            results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            old = [row for row in results.get(part, {}).get("rows", ()) if row.get("network") != name]
            order = {known: place for place, known in enumerate(names)}
            rows = sorted([*old, *rows], key=lambda row: order.get(row.get("network"), 0))
            results[part] = {"environment": environment(), "rows": rows if name else rows[len(old) :]}
            RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    if arguments.part in (None, "picture"):
        picture()
    sys.exit(0)


if __name__ == "__main__":
    main()
