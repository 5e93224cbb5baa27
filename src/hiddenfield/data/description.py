"""What is in a pack: counts, degrees, distributions, what is missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenfield.data.structures import FEATURES, LABELS, Structures, segment_count
from hiddenfield.errors import InputError

STATISTICS = ("mean", "sd", "min", "max")


@dataclass(frozen=True)
class Spread:
    """Count, mean, standard deviation and range of numbers; two of them can be merged."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Sum of squared differences from the mean."""
    low: float = math.inf
    high: float = -math.inf

    @classmethod
    def of(cls, values: np.ndarray) -> Spread:
        """Summarise an array; NaN is left out."""
        values = values[~np.isnan(values)] if values.dtype.kind == "f" else values
        if not len(values):
            return cls()
        mean = float(values.mean(dtype=np.float64))
        squares = float(np.square(values - mean, dtype=np.float64).sum())
        return cls(len(values), mean, squares, float(values.min()), float(values.max()))

    def merge(self, other: Spread) -> Spread:
        """Return the summary of both sets of numbers (Chan, Golub and LeVeque's update)."""
        count = self.count + other.count
        if not self.count or not other.count:
            return self if self.count else other
        step = other.mean - self.mean
        squares = self.squares + other.squares + step * step * self.count * other.count / count
        mean = self.mean + step * other.count / count
        return Spread(count, mean, squares, min(self.low, other.low), max(self.high, other.high))

    def as_dict(self) -> dict[str, float | None]:
        """Return mean, standard deviation, minimum and maximum; None where there is nothing."""
        numbers = (self.mean, math.sqrt(self.squares / max(self.count, 1)), self.low, self.high)
        return {
            name: number if self.count else None for name, number in zip(STATISTICS, numbers, strict=True)
        }

    def __str__(self) -> str:
        """Return the same as text."""
        if not self.count:
            return "none"
        sd = math.sqrt(self.squares / self.count)
        return f"mean {self.mean:.4g}, sd {sd:.4g}, {self.low:.4g} to {self.high:.4g}"


@dataclass(frozen=True)
class Description:
    """Summary of one pack or, merged, of many; ``str()`` is a table for people, `as_dict` for programs."""

    structures: int
    nodes: Spread
    edges: Spread
    degree: Spread
    empty: int
    edgeless: int
    isolated_nodes: int
    self_loops: int
    one_way_arcs: int
    combinations: dict[str, frozenset[tuple[Any, ...]]]
    """Of the labels, by feature, the combinations that occur."""
    columns: dict[str, dict[str, Any]]
    """By feature and name the spread of numbers or the counts of symbols; None for an attribute."""
    missing: dict[str, dict[str, int]]
    """By feature and name how many values are missing."""

    @classmethod
    def of(cls, packs: Iterable[Structures]) -> Description:
        """Describe packs one after another, as those of one set; memory holds one at a time."""
        result: Description | None = None
        for pack in packs:
            result = describe(pack) if result is None else result.merge(describe(pack))
        if result is None:
            raise InputError("there is nothing to describe: no packs were given")
        return result

    def merge(self, other: Description) -> Description:
        """Return the description of both packs together."""
        return Description(**{name: _merged(own, getattr(other, name)) for name, own in vars(self).items()})

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers, texts, lists and dicts, ready for JSON.

        ``node_labels`` and ``edge_labels`` count the distinct labels that occur (combinations, where there are
        several columns), ``node_attributes`` and ``edge_attributes`` the columns.
        """
        labels = {
            f"{kind}_label_columns": [
                {"name": name, "labels": len(c), "counts": _by_symbol(c)}
                for name, c in self.columns[f"{kind}_labels"].items()
            ]
            for kind in ("node", "arc")
        }
        return {
            "structures": self.structures,
            "mean_nodes": self.nodes.mean,
            "mean_edges": self.edges.mean,
            "node_labels": len(self.combinations["node_labels"]),
            "edge_labels": len(self.combinations["arc_labels"]),
            "node_attributes": len(self.columns["node_attributes"]),
            "edge_attributes": len(self.columns["arc_attributes"]),
            "targets": self._targets("targets"),
            "node_targets": self._targets("node_targets"),
            "nodes": {"total": round(self.nodes.mean * self.structures), **self.nodes.as_dict()},
            "edges": {"total": round(self.edges.mean * self.structures), **self.edges.as_dict()},
            "degree": self.degree.as_dict(),
            **labels,
            "empty_structures": self.empty,
            "structures_without_edges": self.edgeless,
            "isolated_nodes": self.isolated_nodes,
            "self_loops": self.self_loops,
            "one_way_arcs": self.one_way_arcs,
        }

    def _targets(self, feature: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for name, summary in self.columns[feature].items():
            row: dict[str, Any] = {"name": name, "missing": self.missing[feature][name]}
            if isinstance(summary, Spread):
                row |= {"kind": "numeric", **summary.as_dict()}
            else:
                row |= {"kind": "classes", "classes": len(summary), "counts": _by_symbol(summary)}
            rows.append(row)
        return rows

    def __str__(self) -> str:
        """Return the summary as aligned lines of text."""
        rows = [("structures", f"{self.structures:,}")]
        rows += [(name, str(getattr(self, name))) for name in ("nodes", "edges", "degree")]
        for feature in FEATURES:
            kind, columns = feature.replace("_", " ").removesuffix("s"), self.columns[feature]
            if feature.endswith("attributes") and columns:
                shown = ", ".join([*columns][:6]) + (", …" if len(columns) > 6 else "")
                rows.append((f"{kind}s", f"{len(columns)}: {shown}"))
                continue
            for name, summary in columns.items():
                absent = f"; {gone:,} missing" if (gone := self.missing[feature][name]) else ""
                rows.append((f"{kind} {name}", _summary_text(summary) + absent))
        remarks = [("empty structures", self.empty), ("structures without edges", self.edgeless - self.empty)]
        remarks += [("isolated nodes", self.isolated_nodes), ("self-loops", self.self_loops)]
        remarks += [("one-way arcs", self.one_way_arcs)]
        rows += [(name, f"{count:,}") for name, count in remarks if count]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def describe(structures: Structures) -> Description:
    """Describe a pack: sizes, degrees, label and target distributions, what is missing.

    Examples
    --------
    >>> import hiddenfield as hf
    >>> print(describe(hf.data.from_sequences(["GATTACA", "CAT", ""], targets=["x", "y", None])))
    structures         3
    nodes              mean 3.333, sd 2.867, 0 to 7
    edges              mean 2.667, sd 2.494, 0 to 6
    degree             mean 1.6, sd 0.4899, 1 to 2
    node label symbol  4: A 4, T 3, C 2, G 1
    target target      2: x 1, y 1; 1 missing
    empty structures   1
    """
    structures = structures.to("cpu")
    in_degree = structures.in_ptr.diff().numpy()
    out_degree = np.bincount(structures.source.numpy(), minlength=structures.total_nodes)
    num_edges = structures.num_edges.numpy()
    num_nodes = structures.num_nodes.numpy()
    # An edge is an arc each way but one neighbour: the paired arcs into a node are counted once, not twice.
    paired = segment_count(structures.reverse >= 0, structures.in_ptr).numpy()
    degree = in_degree + out_degree - paired
    summaries = {feature: _summaries(structures, feature) for feature in FEATURES}
    return Description(
        structures=len(structures),
        nodes=Spread.of(num_nodes),
        edges=Spread.of(num_edges),
        degree=Spread.of(degree),
        empty=int((num_nodes == 0).sum()),
        edgeless=int((num_edges == 0).sum()),
        isolated_nodes=int((degree == 0).sum()),
        self_loops=int((structures.target == structures.source).sum()),
        one_way_arcs=int((structures.reverse < 0).sum()),
        combinations={feature: _combinations(structures, feature) for feature in LABELS},
        columns={feature: found for feature, (found, _) in summaries.items()},
        missing={feature: missing for feature, (_, missing) in summaries.items()},
    )


def _summaries(structures: Structures, feature: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return, by column, the spread of its numbers or the counts of its symbols, and how many values are missing."""
    columns = structures.features.get(feature)
    if columns is None or feature.endswith("attributes"):
        return dict.fromkeys(() if columns is None else columns.names), {}
    summaries: dict[str, Any] = {}
    missing: dict[str, int] = {}
    for name, word, values in zip(columns.names, columns.vocabularies, columns.values.numpy().T, strict=True):
        present = values[~np.isnan(values)]
        missing[name] = len(values) - len(present)
        if word is None:
            summaries[name] = Spread.of(present)
        else:
            counts = np.bincount(present.astype(np.int64), minlength=len(word)).tolist()
            summaries[name] = Counter({s: n for s, n in zip(word.symbols, counts, strict=True) if n})
    return summaries, missing


def _combinations(structures: Structures, feature: str) -> frozenset[tuple[Any, ...]]:
    columns = structures.features.get(feature)
    if columns is None or not columns.names:
        return frozenset()
    rows = columns.distinct()[0]
    return frozenset(zip(*columns.map(lambda _: rows).decoded(), strict=True))


def _merged(one: Any, other: Any) -> Any:
    """Merge two summaries: numbers and counts add up, names must agree."""
    if isinstance(one, Spread):
        return one.merge(other)
    if isinstance(one, frozenset):
        return one | other
    if isinstance(one, dict) and not isinstance(one, Counter):
        if one.keys() != other.keys():
            raise InputError(
                f"packs of one set must have the same columns, got {sorted(one)} and {sorted(other)}"
            )
        return {name: _merged(summary, other[name]) for name, summary in one.items()}
    return None if one is None else one + other


def _by_symbol(counts: Any) -> dict[str, int]:
    return {str(symbol): count for symbol, count in counts.most_common()}


def _summary_text(summary: Any, most: int = 8) -> str:
    if isinstance(summary, Spread):
        return str(summary)
    shown = ", ".join(f"{symbol} {count:,}" for symbol, count in summary.most_common(most))
    return f"{len(summary):,}: {shown}" + (", …" if len(summary) > most else "")
