"""Results of a fitted estimator on test structures: everything that a report shows, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from hiddenfield.data.structures import Structures
from hiddenfield.data.vocabulary import Vocabulary
from hiddenfield.errors import InputError, ReadError
from hiddenfield.evaluation.assessment.problem import with_row_ids
from hiddenfield.evaluation.baselines import fit_baselines
from hiddenfield.evaluation.measuring import Score, measure
from hiddenfield.evaluation.records import SplitRecord, read_record
from hiddenfield.learning import History
from hiddenfield.report.write import Facts, summary, write_report
from hiddenfield.shapes import Array, Float, Int

if TYPE_CHECKING:
    from hiddenfield.estimators.base import StructureEstimator
    from hiddenfield.learning.task import Column

Shares = Callable[[Int[Array, " chosen"]], list[Float[Array, " nodes"]]]
"""For some of the structures, what each of their nodes contributes."""


@dataclass(frozen=True, eq=False)
class Results:
    """Results of a model on test structures.

    Parameters
    ----------
    title
        Of the page.
    target
        The name of what is predicted.
    structures
        The N test structures.
    truth
        (N,) numbers, or class codes; none missing.
    predicted
        (N,) numbers, or (N, C) probabilities of the classes.
    scores
        The comparison; the model itself comes last.
    classes
        The classes' names; None for a target that is a number.
    embeddings
        (N, width), or None for no map.
    histories
        How training went, one for each network.
    shares
        What the nodes of chosen structures contribute, or None.
    base
        What the shares of a structure's nodes add up to, in words.
    facts
        The summary.
    """

    title: str
    target: str
    structures: Structures
    truth: Float[Array, " structures"]
    predicted: Float[Array, "structures ..."]
    scores: Sequence[Score]
    classes: tuple[str, ...] | None = None
    embeddings: Float[Array, "structures width"] | None = None
    histories: Sequence[History] = ()
    shares: Shares | None = None
    base: str = ""
    facts: Facts = ()


def build(
    estimator: StructureEstimator,
    train: Structures,
    test: Structures,
    path: str | Path,
    *,
    target: str | None = None,
    rounds: Sequence[int] | None = (3,),
    title: str | None = None,
    seconds: float | None = None,
) -> Results:
    """Compare a fitted estimator with baselines on test structures, and write the report.

    Parameters
    ----------
    estimator
        Fitted on `train`.
    train, test
        Packs with the target; of `test` the structures whose target is there.
    path
        Of the page.
    target
        Which of the estimator's targets the page is about; the first by default.
    rounds
        Rounds of the Weisfeiler-Lehman features that are compared with; None for no baselines.
    title
        Of the page.
    seconds
        That fitting took, if known; otherwise the time of the epochs is shown.

    Returns
    -------
    Results
        What the page shows; ``results.scores`` is the comparison.

    Examples
    --------
    >>> import tempfile, hiddenfield as hf
    >>> from hiddenfield.estimators import StructureRegressor
    >>> words = hf.data.from_sequences(
    ...     ["A" * k + "B" for k in range(30)], targets=[float(k) for k in range(30)]
    ... )
    >>> model = StructureRegressor(dim=4, epochs=2, random_state=0).fit(words[:20])
    >>> results = build(model, words[:20], words[20:], Path(tempfile.mkdtemp()) / "report.html")
    >>> [score.name for score in results.scores]
    ['mean predictor', 'labels + ridge', 'WL-3 + ridge', 'loopy_bp']
    """
    results = collect(estimator, train, test, target=target, rounds=rounds, title=title, seconds=seconds)
    write_report(path, results)
    return results


def collect(
    estimator: StructureEstimator,
    train: Structures,
    test: Structures,
    *,
    target: str | None = None,
    rounds: Sequence[int] | None = (3,),
    title: str | None = None,
    seconds: float | None = None,
) -> Results:
    """Return what `build` writes."""
    position = _position(estimator, target)
    column = estimator.task_.columns[position]
    (train, test), words = _in_one_vocabulary(estimator, column, (train, test))
    if not len(test):
        raise InputError(
            f"no test structure has the target {column.name!r}; there is nothing to compare with"
        )
    assert test.targets is not None
    truth, predicted = test.targets[:, 0].cpu().numpy(), _predicted(estimator, test, position, words)
    histories = list(estimator.histories_)
    if seconds is None:
        seconds = sum(row["seconds"] for history in histories for row in history.rows)
    parameters = sum(network.num_parameters for network in estimator.networks_)
    note = f"{len(estimator.networks_)} networks" if len(estimator.networks_) > 1 else ""
    scores = [] if rounds is None else fit_baselines(train, test, rounds=rounds)
    scores.append(Score(estimator.model, measure(truth, predicted), parameters, seconds, note))
    return Results(
        title=title or f"Predicting {column.name}",
        target=column.name,
        structures=test,
        truth=truth,
        predicted=predicted,
        scores=scores,
        classes=None if words is None else tuple(str(symbol) for symbol in words.symbols),
        embeddings=estimator.embed(test),
        histories=histories,
        shares=_shares(estimator, test, predicted, position),
        base=_base(estimator, column, position),
        facts=summary(estimator, train, test, seconds),
    )


def collect_run(
    folder: str | Path,
    structures: Structures,
    *,
    target: str | None = None,
    rounds: Sequence[int] | None = (3,),
    title: str | None = None,
) -> Results:
    """Return the results of a run of ``hiddenfield fit``: its model, on its held-out structures.

    Parameters
    ----------
    folder
        Of the run; it holds the model and which structures were trained on.
    structures
        The data of the run, as they were read.
    target, rounds, title
        As in `build`.

    Returns
    -------
    Results
        For `write_report`.
    """
    from hiddenfield.estimators.saving import load

    file = Path(folder) / "split.json"
    split = read_record(file, SplitRecord, "the split of a run; fit again")
    highest = max((*split.train, *split.validation, *split.test), default=-1)
    if highest >= len(structures):
        raise ReadError(
            f"names structure {highest}, and there are {len(structures)}; give the data of the run", file=file
        )
    structures = with_row_ids(structures)
    train = structures[np.sort(np.array([*split.train, *split.validation], dtype=np.int64))]
    test = structures[np.array(split.test, dtype=np.int64)]
    return collect(load(folder), train, test, target=target, rounds=rounds, title=title)


def _position(estimator: StructureEstimator, target: str | None) -> int:
    names = [column.name for column in estimator.task_.columns]
    if target is not None and target not in names:
        raise InputError(f"the model does not predict {target!r}; it predicts: {', '.join(names)}")
    return 0 if target is None else names.index(target)


def _in_one_vocabulary(
    estimator: StructureEstimator, column: Column, packs: Sequence[Structures]
) -> tuple[list[Structures], Vocabulary | None]:
    """Return the packs with this target alone and present, its classes coded as the model's, and the classes.

    Classes that the model has not seen come last: it gives them no probability.
    """
    from hiddenfield.estimators.targets import as_classes, as_numbers, attach

    result, words = [], column.vocabulary
    for pack in packs:
        found = [answers for answers in attach(pack, None)[0] if answers.name == column.name]
        if not found:
            names = ", ".join(pack.target_names)
            raise InputError(
                f"the structures have no target {column.name!r}, which the model predicts; they have: {names}"
            )
        alone = as_numbers(pack, found) if words is None else as_classes(pack, found)
        (own,) = alone.target_vocabularies
        words = None if words is None or own is None else words.union(own)
        assert alone.targets is not None
        result.append(alone[np.flatnonzero(~alone.targets[:, 0].isnan().cpu().numpy())])
    return result if words is None else [_recoded(pack, words) for pack in result], words


def _recoded(pack: Structures, words: Vocabulary) -> Structures:
    (own,) = pack.target_vocabularies
    assert own is not None
    assert pack.targets is not None
    codes = torch.from_numpy(own.recode_to(words)).to(pack.targets)
    return pack.replace(targets=codes[pack.targets.long()], target_vocabularies=(words,))


def _predicted(
    estimator: StructureEstimator, test: Structures, position: int, words: Vocabulary | None
) -> Float[Array, "structures ..."]:
    if words is None:
        numbers = estimator.predict(test)  # type: ignore[attr-defined]
        return numbers if numbers.ndim == 1 else numbers[:, position]
    tables = estimator.predict_proba(test)  # type: ignore[attr-defined]
    table = tables[position] if isinstance(tables, list) else tables
    return np.pad(table, ((0, 0), (0, len(words) - table.shape[1])))


def _shares(estimator: StructureEstimator, test: Structures, predicted: Array, position: int) -> Shares:
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


def _base(estimator: StructureEstimator, column: Column, position: int) -> str:
    if column.vocabulary is not None:
        return "The shares are of the predicted class's score before the softmax, less the mean score of all classes."
    with torch.no_grad():
        outputs = [n.head(torch.zeros(1, n.width, dtype=n.embedding.dtype)) for n in estimator.networks_]
    nothing = np.mean([estimator.task_.predictions(output)[position] for output in outputs])
    return (
        f"The shares of a structure add up to the prediction less {nothing:.4g}, the prediction for a structure "
        "without nodes."
    )
