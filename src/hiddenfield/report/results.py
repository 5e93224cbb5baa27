"""What the report of a fitted estimator shows: its assessments, and its predictions for the test structures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from hiddenfield.data.build import concatenate
from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError, ReadError
from hiddenfield.estimators.cgmm_predictors import CGMMPredictor
from hiddenfield.estimators.kernel_machines import KernelPredictor
from hiddenfield.estimators.saving import load
from hiddenfield.evaluation.assessment.settings import AssessmentSettings
from hiddenfield.evaluation.held_out import Tested, measure_fit, on_test_part
from hiddenfield.evaluation.records import Assessments, SplitRecord, read_record
from hiddenfield.evaluation.splits.base import Split
from hiddenfield.learning import History
from hiddenfield.machine import version
from hiddenfield.report.model_sections import state_sections, substructure_section
from hiddenfield.report.page import Section
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from hiddenfield.estimators.base import Fitted
    from hiddenfield.learning.task import Column

Facts = Sequence[tuple[str, Sequence[tuple[str, object]]]]
"""Groups of names and values, each under a heading."""

Shares = Callable[[Int[Array, " chosen"]], list[Float[Array, " nodes"]]]
"""For some of the structures, what each of their nodes contributes."""


@dataclass(frozen=True, eq=False)
class Panels:
    """Truth and predictions of one target: numbers (N,), or class codes (N,) and probabilities (N, C)."""

    truth: Float[Array, " structures"]
    predicted: Float[Array, "structures ..."]
    classes: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Results:
    """What a page shows of a fitted estimator beside the numbers of its record.

    Parameters
    ----------
    found
        The assessments, target by target.
    title
        Of the page.
    target
        The one that map and examples are about.
    structures
        The N test structures that have it.
    panels
        Truth and predictions by target.
    embeddings
        (N, width), or None for no map.
    shares
        What the nodes of chosen structures contribute, or None.
    base
        What the shares of a structure's nodes add up to, in words.
    facts
        The summary.
    own
        Sections of what this kind of model has to show.
    """

    found: Assessments
    title: str
    target: str
    structures: Structures
    panels: Mapping[str, Panels]
    embeddings: Float[Array, "structures width"] | None = None
    shares: Shares | None = None
    base: str = ""
    facts: Facts = ()
    own: Sequence[Section] = ()

    @property
    def shown(self) -> Panels:
        """Truth and predictions of the target that map and examples are about."""
        return self.panels[self.target]


# -- collecting --------------------------------------------------------------------------------------------


def collect(
    estimator: Fitted,
    train: Structures,
    test: Structures,
    *,
    target: str | None = None,
    rounds: Sequence[int] | None = (3,),
    title: str | None = None,
) -> Results:
    """Assess a fitted estimator on test structures, beside baselines.

    Parameters
    ----------
    estimator
        Fitted on `train`.
    train, test
        Packs with the targets.
    target
        Which of the estimator's targets map and examples are about; the first by default.
    rounds
        Rounds of the Weisfeiler-Lehman features that are compared with; None for no baselines but the constant.
    title
        Of the page.

    Returns
    -------
    Results
        What the page shows; ``results.found`` has the numbers.
    """
    names = [column.name for column in estimator.task_.columns]
    if target is not None and target not in names:
        raise InputError(f"the model does not predict {target!r}; it predicts: {', '.join(names)}")
    for pack in (train, test):
        missing = next((name for name in names if name not in pack.target_names), None)
        if missing is not None:
            raise InputError(
                f"the structures have no target {missing!r}, which the model predicts; they have: "
                f"{', '.join(pack.target_names)}"
            )
    if train.ids is None and test.ids is None:
        train, test = _named(train, "training structure"), _named(test, "test structure")
    split = Split("hold-out", np.arange(len(train)), len(train) + np.arange(len(test)))
    settings = AssessmentSettings([split], baselines=rounds is not None, wl_rounds=rounds or ())
    structures = concatenate([train, test])
    found = measure_fit(estimator, structures, split, settings)
    return _results(estimator, found, on_test_part(estimator, structures, split), target, title)


def _named(pack: Structures, word: str) -> Structures:
    names = [f"{word} {row}" for row in range(len(pack))]
    return pack.replace(ids=np.array(names, dtype=np.dtypes.StringDType()))


def collect_run(
    folder: str | Path, structures: Structures, *, target: str | None = None, title: str | None = None
) -> Results:
    """Return the results of a run of ``hiddenfield fit``: its model, on its held-out structures.

    Parameters
    ----------
    folder
        Of the run; it holds the model, what was measured, and which structures were trained on.
    structures
        The data of the run, as they were read.
    target, title
        As in `collect`.

    Returns
    -------
    Results
        For `write_report`.
    """
    file = Path(folder) / "split.json"
    parts = read_record(file, SplitRecord, "the split of a run; fit again")
    highest = max((*parts.train, *parts.validation, *parts.test), default=-1)
    if highest >= len(structures):
        raise ReadError(
            f"names structure {highest}, and there are {len(structures)}; give the data of the run", file=file
        )
    train = np.sort(np.array([*parts.train, *parts.validation], dtype=np.int64))
    split = Split("hold-out", train, np.array(parts.test, dtype=np.int64))
    estimator = load(folder)
    tested = on_test_part(estimator, structures, split)
    return _results(estimator, Assessments.read(folder), tested, target, title)


def _results(
    estimator: Fitted,
    found: Assessments,
    tested: Iterable[tuple[str, Tested | None]],
    target: str | None,
    title: str | None,
) -> Results:
    """Return what a page shows, of `target` or of the first target that was tested."""
    panels, one = {}, None
    for name, each in tested:
        if each is not None:
            panels[name] = _panels(each)
            target = name if target is None else target
            one = each if name == target else one
    if target is None or one is None:
        name = estimator.task_.columns[0].name if target is None else target
        raise InputError(f"no test structure has the target {name!r}; there is nothing to compare with")
    position = [column.name for column in estimator.task_.columns].index(target)
    column = estimator.task_.columns[position]
    train, test = (_as_known(one.problem.take(part), column) for part in (one.split.train, one.split.test))
    networks = bool(estimator.networks_)
    return Results(
        found,
        title or f"Predicting {target}",
        target,
        test,
        panels,
        embeddings=estimator.embed(test),
        shares=_shares(estimator, test, one.own, position) if networks else None,
        base=_base(estimator, column, position) if networks else "",
        facts=summary(estimator, train, test, estimator.seconds_),
        own=_own_sections(estimator, train, test),
    )


def _as_known(pack: Structures, column: Column) -> Structures:
    """Return structures whose classes are coded as the model's; those that it has not seen come last."""
    (words,) = pack.target_vocabularies
    if words is None or column.vocabulary is None:
        return pack
    return pack.replace(targets=pack.features["targets"].recoded((column.vocabulary.union(words),)))


def _panels(tested: Tested) -> Panels:
    problem = tested.problem
    classes = None if problem.classes is None else tuple(map(str, problem.classes))
    return Panels(problem.truth[tested.split.test], tested.predicted.values, classes)


def _own_sections(estimator: Fitted, train: Structures, test: Structures) -> Sequence[Section]:
    """Return what only such an estimator has to show."""
    if isinstance(estimator, CGMMPredictor):
        return state_sections(estimator, train, test)
    return substructure_section(estimator) if isinstance(estimator, KernelPredictor) else ()


def _shares(estimator: Fitted, test: Structures, predicted: Array, position: int) -> Shares:
    """Return a function that divides predictions among nodes: numbers, or scores of the predicted class."""
    from hiddenfield.estimators.contributions import contributions

    part = estimator.task_.slices()[position]

    def shares(chosen: Int[Array, " chosen"]) -> list[Float[Array, " nodes"]]:
        pack = estimator.features_.encode(test[chosen])
        members = [contributions(network, estimator.task_, pack)[:, part] for network in estimator.networks_]
        table = torch.stack(members).mean(dim=0).double().numpy()
        outputs = np.zeros(len(chosen), dtype=np.int64)
        if predicted.ndim == 2:
            # The softmax does not see what all classes' scores have in common.
            table = table - table.mean(axis=1, keepdims=True)
            outputs = predicted[chosen].argmax(axis=1)
        bounds = pack.node_ptr.cpu().numpy()
        return [table[bounds[k] : bounds[k + 1], outputs[k]] for k in range(len(chosen))]

    return shares


def _base(estimator: Fitted, column: Column, position: int) -> str:
    if column.vocabulary is not None:
        return "The shares are of the predicted class's score before the softmax, less the mean score of all classes."
    with torch.no_grad():
        outputs = [n.head(torch.zeros(1, n.width, dtype=n.embedding.dtype)) for n in estimator.networks_]
    nothing = np.mean([estimator.task_.predictions(output)[position] for output in outputs])
    if estimator.blend_["networks"] < 1.0:
        return (
            f"The shares are of the networks' prediction, which is {100 * estimator.blend_['networks']:.0f} % of the "
            f"whole: they add up to it less {nothing:.4g}, their prediction for a structure without nodes."
        )
    return (
        f"The shares of a structure add up to the prediction less {nothing:.4g}, the prediction for a structure "
        "without nodes."
    )


def blend_in_words(blend: Mapping[str, float]) -> str:
    """Say what predictions are made of.

    Examples
    --------
    >>> blend_in_words({"networks": 0.6, "linear": 0.4, "forest": 0.0})
    '60 % networks, 40 % linear models on counts'
    """
    named = {"networks": "networks", "linear": "linear models on counts", "forest": "forests on counts"}
    return ", ".join(f"{100 * share:.0f} % {named[kind]}" for kind, share in blend.items() if share)


# -- summary -----------------------------------------------------------------------------------------------

OF_THE_MODEL = (
    *("model", "dim", "rounds", "activation", "pooling", "bias", "representation", "representation_options"),
    *(
        "every_round",
        "standardise",
        "node_width",
        "hidden",
        "dropout",
        "num_states",
        "depth",
        "previous",
        "states",
    ),
    *("fingerprint", "layers", "head"),
)
# Neither of the model nor of its training, or shown in another way.
NOT_SHOWN = ("model_options", "epochs", "checkpoint", "resume", "verbose")
SILENT: tuple[object, ...] = (None, False, 0.0)


def summary(estimator: Fitted, train: Structures, test: Structures, seconds: float) -> Facts:
    """Return what a reader needs to judge the numbers, or to reproduce them."""
    return [
        ("Structures", _data(train)),
        ("Model", _model(estimator)),
        ("Training", _training(estimator, seconds)),
    ]


def _data(train: Structures) -> list[tuple[str, object]]:
    entries: list[tuple[str, object]] = [
        ("nodes", f"{train.total_nodes / max(len(train), 1):.1f} per structure"),
        ("arcs", f"{train.total_arcs / max(len(train), 1):.1f} per structure"),
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


def _model(estimator: Fitted) -> list[tuple[str, object]]:
    options = estimator.get_params() | dict(estimator.resolved_)
    entries = [(name, options[name]) for name in OF_THE_MODEL if options.get(name) not in SILENT]
    entries += list((options.get("model_options") or {}).items())
    entries.append(("parameters", f"{estimator.num_parameters_:,}"))
    if len(estimator.networks_) > 1:
        entries.append(("networks", len(estimator.networks_)))
    if estimator.blend_.get("networks", 1.0) < 1.0:
        entries.append(("predictions", blend_in_words(estimator.blend_)))
    return entries


def _training(estimator: Fitted, seconds: float) -> list[tuple[str, object]]:
    options = estimator.get_params() | dict(estimator.resolved_)
    entries = [
        (name.replace("_", " "), value)
        for name, value in options.items()
        if name not in OF_THE_MODEL + NOT_SHOWN and value not in SILENT
    ]
    history = next(iter(estimator.histories_), None)
    if history is None:
        entries.append(("time", f"{seconds:.0f} s"))
    elif history.rows:
        rates = sorted(row["structures_per_second"] for row in history.rows)
        entries += [
            ("epochs", _epochs(history, estimator.resolved_.get("epochs"))),
            ("ended", history.reason),
            ("time", f"{seconds:.0f} s, {rates[len(rates) // 2]:,.0f} structures/s"),
        ]
    versions = [f"{name} {version(name) or 'from source'}" for name in ("hiddenfield", "torch")]
    return [*entries, ("versions", ", ".join(versions))]


def _epochs(history: History, planned: int | None) -> str:
    most = "" if planned in (None, len(history.rows)) else f" of at most {planned}"
    return f"{len(history.rows)}{most}, the weights of epoch {history.best_epoch} were kept"
