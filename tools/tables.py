"""Tables of README and documentation that are written from the registries and the measured results.

A page marks the place of a table with ``<!-- table: name -->`` and ``<!-- end of table -->``. ``make format`` rewrites
what stands between them, and a test fails where that would change anything: what is registered is documented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)


def pages() -> list[Path]:
    """Return the pages that may hold tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def rewrite(text: str) -> str:
    r"""Return a page with all its marked tables written anew.

    Examples
    --------
    >>> page = "<!-- table: inference -->\n<!-- end of table -->"
    >>> "| `mean_field` | lower bound |" in rewrite(page)
    True
    """
    return MARKED.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[4]}", text)


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def of_registry(name: str, registry: Mapping[str, Any], **columns: str) -> str:
    """Return a table of a registry: its names, and a column for each of the given facts."""
    facts = registry.facts  # type: ignore[attr-defined]
    rows = [[f"`{entry}`", *(facts(entry).get(fact, "") for fact in columns)] for entry in sorted(registry)]
    return table([name, *columns.values()], rows)


def inference() -> str:
    """Return the algorithms of `infer` and what each guarantees."""
    from hiddenfield.inference import METHODS

    return of_registry("method", METHODS, guarantee="guarantee", reference="reference")


def inference_use() -> str:
    """Return the same with the cases that each is for."""
    from hiddenfield.inference import METHODS

    return of_registry("method", METHODS, guarantee="guarantee", use="when to use it", reference="reference")


def embeddings() -> str:
    """Return the algorithms with learned messages."""
    from hiddenfield.embedding import EMBEDDINGS

    return of_registry("model", EMBEDDINGS, summary="what passes along an arc", reference="reference")


def kernels() -> str:
    """Return the kernels of structures."""
    from hiddenfield.kernels import KERNELS

    return of_registry("kernel", KERNELS, summary="what is counted", input="input", reference="reference")


def latent() -> str:
    """Return the models with something hidden."""
    from hiddenfield.estimators import LATENT

    rows = [
        [
            f"`{name}`",
            f"`{LATENT[name].__name__}`",
            LATENT.facts(name)["summary"],
            LATENT.facts(name)["reference"],
        ]
        for name in LATENT
    ]
    return table(["model", "estimator", "what it is of", "reference"], rows)


def node_encoders() -> str:
    """Return the encoders of nodes."""
    from hiddenfield.estimators import NODE_ENCODERS

    return of_registry("model", NODE_ENCODERS, summary="what it is", reference="reference")


def likelihoods() -> str:
    """Return the ways to learn a relational model."""
    from hiddenfield.models.relational import LIKELIHOODS

    return of_registry(
        "method", LIKELIHOODS, summary="what is maximised", guarantee="guarantee", reference="reference"
    )


def formats() -> str:
    """Return the file formats of structures."""
    from hiddenfield.data.formats import FORMATS

    return table(["format", "content"], [[f"`{name}`", entry.summary] for name, entry in FORMATS.items()])


def measured() -> str:
    """Return how fast we are beside others: each ratio from one run of a benchmark, ours and the rival's in turns."""
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    rows = []
    for what, rival, benchmark, chosen, column in RATIOS:
        found = [row for row in results[benchmark]["rows"] if all(row[k] == v for k, v in chosen.items())]
        if len(found) != 1:
            raise ValueError(f"{len(found)} rows of the benchmark {benchmark!r} are {chosen}")
        rows.append([what, rival, f"{found[0][column]:.2g}×"])
    return table(["work", "compared with", "times faster"], rows)


def kept(part: str, file: str = "networks.json") -> str:
    """Return the rows that a benchmark kept in a file of its own, and where they were measured."""
    path = ROOT / "benchmarks" / file
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if part not in results:
        return ""
    rows, machine = results[part]["rows"], results[part]["environment"]
    lines = table(list(rows[0]), [[_text(row.get(key)) for key in rows[0]] for row in rows])
    return f"{lines}\n\nMeasured {machine['date']} on {machine['processor']}, {machine['cores']} cores."


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return "" if value is None else f"{value:,}" if type(value) is int else str(value)
    return f"{value:.2g}" if abs(value) < 1000 else f"{value:,.0f}"


RATIOS: tuple[tuple[str, str, str, dict[str, Any], str], ...] = (
    ("shuffled batches of 512 molecules", "PyG DataLoader", "loader", {"loader": "hiddenfield"}, "ratio"),
    ("reading NCI1 from its text files", "PyG", "reading", {"set": "NCI1, folder"}, "ratio"),
    (
        "training loopy belief propagation on molecules, two CPU threads",
        "PyG",
        "training",
        {"model": "loopy_bp", "on": "CPU, 2 threads"},
        "ratio",
    ),
    (
        "the same on an H200",
        "PyG",
        "training",
        {"model": "loopy_bp", "on": "NVIDIA H200"},
        "ratio",
    ),
    (
        "loopy belief propagation, Ising 100 × 100, one core",
        "PGMax",
        "propagation",
        {"problem": "Ising 100 x 100", "by": "PGMax, float32"},
        "times ours",
    ),
    (
        "loopy belief propagation, Potts with 10 states, one core",
        "PGMax",
        "propagation",
        {"problem": "Potts 50 x 50, 10 states", "by": "PGMax, float32"},
        "times ours",
    ),
    (
        "exact marginals of munin (1,041 variables)",
        "the faster of pyAgrum and pgmpy",
        "exact",
        {"network": "munin"},
        "fastest rival / ours",
    ),
    (
        "exact marginals of munin1 (pgmpy drops what a query without evidence does not need)",
        "pgmpy",
        "exact",
        {"network": "munin1"},
        "fastest rival / ours",
    ),
    (
        "Baum-Welch, 100 sequences of 1,000 steps, 10 states",
        "hmmlearn (scaling)",
        "hidden_markov",
        {"package": "hmmlearn, scaling"},
        "times ours",
    ),
    (
        "Baum-Welch, the same",
        "dynamax",
        "hidden_markov",
        {"package": "dynamax"},
        "times ours",
    ),
    (
        "an EM iteration, ten full Gaussians, 100,000 × 10",
        "scikit-learn",
        "mixtures",
        {"rows": "100,000 x 10, complete"},
        "times scikit-learn",
    ),
    (
        "the same with a fifth of the cells missing (scikit-learn: complete data)",
        "scikit-learn",
        "mixtures",
        {"rows": "100,000 x 10, 20% missing"},
        "times scikit-learn",
    ),
)

TABLES: dict[str, Callable[[], str]] = {
    "inference": inference,
    "inference-use": inference_use,
    "embeddings": embeddings,
    "kernels": kernels,
    "latent": latent,
    "likelihoods": likelihoods,
    "formats": formats,
    "measured": measured,
    "fits": lambda: kept("fits"),
    "coverage": lambda: kept("coverage"),
    "node-encoders": node_encoders,
    "node-classification": lambda: kept("classification", "network_embeddings.json"),
    "node-links": lambda: kept("links", "network_embeddings.json"),
    "node-speed": lambda: kept("speed", "network_embeddings.json"),
}

if __name__ == "__main__":
    for page in pages():
        old = page.read_text(encoding="utf-8")
        if (new := rewrite(old)) != old:
            page.write_text(new, encoding="utf-8")
