"""A picture of a data set: sizes, labels, targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiddenfield.data.description import Description
from hiddenfield.data.structures import LABELS, Structures
from hiddenfield.report.drawing import BLUE, RED, plain_log_scale, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass
class Distributions:
    """Gathers, pack by pack, the numbers whose histograms are drawn.

    Memory: a few numbers per structure, whatever its size.

    Examples
    --------
    >>> import hiddenfield as hf, pathlib, tempfile
    >>> pack = hf.data.from_sequences(["GATTACA", "CAT"], targets=[1.0, 2.0])
    >>> gathered = Distributions()
    >>> description = hf.data.Description.of(gathered.watch([pack]))
    >>> gathered.draw(description, pathlib.Path(tempfile.mkdtemp()) / "words.png", title="words")
    """

    num_nodes: list[np.ndarray] = field(default_factory=list)
    num_edges: list[np.ndarray] = field(default_factory=list)
    targets: list[dict[str, np.ndarray]] = field(default_factory=list)

    def watch(self, packs: Iterable[Structures]) -> Iterator[Structures]:
        """Pass packs through, keeping what the picture needs."""
        for pack in packs:
            self.num_nodes.append(pack.num_nodes.cpu().numpy())
            self.num_edges.append(pack.num_edges.cpu().numpy())
            columns = zip(pack.target_names, pack.target_vocabularies, strict=True)
            numeric = [(k, name) for k, (name, words) in enumerate(columns) if words is None]
            values = None if pack.targets is None else pack.targets.cpu().numpy()
            self.targets.append({name: values[:, k] for k, name in numeric} if values is not None else {})
            yield pack

    def draw(self, description: Description, path: Path, *, title: str) -> None:
        """Draw the panels into an image file: nodes, edges, the label columns, the targets (at most nine panels)."""
        panels = self._panels(description)[:9]
        columns = min(3, len(panels))
        rows = -(-len(panels) // columns)

        def paint(figure: Figure) -> None:
            figure.suptitle(f"{title}: {description.structures:,} structures")
            for number, (paint_panel, name, values) in enumerate(panels):
                paint_panel(figure.add_subplot(rows, columns, number + 1), name, values)

        save_figure(path, paint, width=4.2 * columns, height=3.1 * rows)

    def _panels(self, description: Description) -> list[tuple[Callable[..., None], str, Any]]:
        panels: list[tuple[Callable[..., None], str, Any]] = [
            (_histogram, "nodes of a structure", np.concatenate(self.num_nodes)),
            (_histogram, "edges of a structure", np.concatenate(self.num_edges)),
        ]
        for name, summary in description.columns["targets"].items():
            classes = isinstance(summary, dict)
            values = summary if classes else np.concatenate([targets[name] for targets in self.targets])
            panels.append((_bars if classes else _histogram, f"target {name}", values))
        for feature in LABELS:
            kind = feature.replace("_", " ").removesuffix("s")
            panels += [(_bars, f"{kind} {name}", c) for name, c in description.columns[feature].items()]
        return panels


def _histogram(axes: Axes, name: str, values: np.ndarray) -> None:
    values = values[np.isfinite(values)]
    whole = values.dtype.kind in "iu"
    if whole and len(values) and values.max() - values.min() < 60:
        bins: Any = np.arange(values.min() - 0.5, values.max() + 1.5)
    else:
        bins = 40
    axes.hist(values, bins=bins, color=RED if name.startswith("target") else BLUE)
    axes.set_xlabel(name)
    axes.set_ylabel("structures")


def _bars(axes: Axes, name: str, counts: Any, most: int = 15) -> None:
    shown = counts.most_common(most)
    if all(isinstance(symbol, int) for symbol, _ in shown):
        shown = sorted(shown)
    positions = np.arange(len(shown))
    axes.bar(positions, [count for _, count in shown], color=RED if name.startswith("target") else BLUE)
    texts = [str(symbol) for symbol, _ in shown]
    turned = max((len(text) for text in texts), default=0) > 4
    axes.set_xticks(positions, texts, rotation=45 if turned else 0, ha="right" if turned else "center")
    axes.set_xlabel(name + (f" ({most} most frequent of {len(counts)})" if len(counts) > most else ""))
    axes.set_ylabel("structures" if name.startswith("target") else "occurrences")
    if shown and max(counts.values()) > 100 * max(min(count for _, count in shown), 1):
        plain_log_scale(axes, (1.0,))
