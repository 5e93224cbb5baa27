"""The summary: which data, which model, how it was trained."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

from hiddenfield.data.structures import Structures
from hiddenfield.report.results import Facts

if TYPE_CHECKING:
    from hiddenfield.estimators.base import StructureEstimator

__all__ = ["summary"]

OF_THE_MODEL = (
    "model",
    "dim",
    "rounds",
    "activation",
    "pooling",
    "every_round",
    "standardise",
    "node_width",
    "hidden",
    "dropout",
)
OF_TRAINING = (
    "optimizer",
    "learning_rate",
    "schedule",
    "batch_size",
    "weight_decay",
    "loss",
    "class_weight",
    "resample",
    "monitor",
    "random_state",
)
SILENT: tuple[object, ...] = (None, False, 0.0)


def summary(estimator: StructureEstimator, train: Structures, test: Structures, seconds: float) -> Facts:
    """Return what a reader must know to judge the numbers, or to have them again."""
    return [
        ("Data", _data(train, test)),
        ("Model", _model(estimator)),
        ("Training", _training(estimator, seconds)),
    ]


def _data(train: Structures, test: Structures) -> list[tuple[str, object]]:
    entries: list[tuple[str, object]] = [
        ("training", f"{len(train):,} structures"),
        ("test", f"{len(test):,} structures"),
        ("nodes", f"{train.total_nodes / max(len(train), 1):.1f} a structure"),
        ("arcs", f"{train.total_arcs / max(len(train), 1):.1f} a structure"),
    ]
    for kind, words in (("node", train.node_vocabularies), ("arc", train.arc_vocabularies)):
        if words:
            entries.append((f"{kind} labels", ", ".join(f"{word.name} ({len(word)})" for word in words)))
    for kind, names in (("node", train.node_attribute_names), ("arc", train.arc_attribute_names)):
        if names:
            entries.append((f"{kind} attributes", f"{len(names)}"))
    (name,), (classes,) = train.target_names, train.target_vocabularies
    if classes is not None:
        return [*entries, ("target", f"{name}: {len(classes)} classes")]
    assert train.targets is not None
    values = train.targets[:, 0]
    spread = f"mean {values.mean():.4g}, deviation {values.std(unbiased=False):.4g}"
    return [*entries, ("target", f"{name}: {values.min():.4g} to {values.max():.4g}, {spread}")]


def _model(estimator: StructureEstimator) -> list[tuple[str, object]]:
    options = estimator.get_params()
    entries = [(name, options[name]) for name in OF_THE_MODEL if options.get(name) not in SILENT]
    entries += list((options.get("model_options") or {}).items())
    entries.append(("parameters", f"{sum(network.num_parameters for network in estimator.networks_):,}"))
    if len(estimator.networks_) > 1:
        entries.append(("networks", len(estimator.networks_)))
    return entries


def _training(estimator: StructureEstimator, seconds: float) -> list[tuple[str, object]]:
    options, history = estimator.get_params(), estimator.history_
    entries = [
        (name.replace("_", " "), options[name]) for name in OF_TRAINING if options.get(name) not in SILENT
    ]
    if history.rows:
        rates = sorted(row["structures_per_second"] for row in history.rows)
        entries += [
            ("epochs", f"{len(history.rows)}, the weights of epoch {history.best_epoch} were kept"),
            ("ended", history.reason),
            ("time", f"{seconds:.0f} s, {rates[len(rates) // 2]:,.0f} structures/s"),
        ]
    entries.append(("versions", ", ".join(f"{name} {_version(name)}" for name in ("hiddenfield", "torch"))))
    return entries


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "from source"
