"""What the estimators share: parameters, fitting, embedding, saving."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.predictor import Predictor
from hiddenfield.errors import InputError, SkippedInputWarning, TrainingError
from hiddenfield.estimators.counting import (
    KINDS,
    MOST_COUNTED,
    Counting,
    Part,
    choose_weights,
    fit_counting,
)
from hiddenfield.estimators.inputs import REPRESENTATIONS, Features, Reading, rows_read
from hiddenfield.estimators.parameters import (
    COMMON,
    OF_NETWORK,
    as_json,
    auto_batch_size,
    auto_ensemble,
    auto_epochs,
    auto_fraction,
    auto_patience,
    check,
    from_json,
    plain,
)
from hiddenfield.estimators.targets import Answers, attach, check_held_out, checked_weights, split_held_out
from hiddenfield.learning.batches import predict
from hiddenfield.learning.checkpoint import History
from hiddenfield.learning.device import resolve_device
from hiddenfield.learning.settings import TrainSettings
from hiddenfield.learning.task import Task
from hiddenfield.learning.together import train_in_parts
from hiddenfield.learning.trainer import Fit
from hiddenfield.shapes import Array, Float, Int


@dataclass(frozen=True, eq=False)
class Begun:
    """What an estimator holds when its networks are built but not yet trained."""

    fits: list[Fit]
    task: Task
    features: Features
    reading: Reading
    structures: Structures
    parts: list[Part]
    answered: Int[Array, " answered"]
    single_target: bool
    target_kinds: tuple[str, ...]


class Fitted(BaseEstimator):  # type: ignore[misc]
    """What estimators of structures have in common once they are fitted, whatever they are made of.

    Attributes
    ----------
    model
        Its name.
    task_, single_target_, target_kinds_
        The targets, whether they were given as a single one, and the types of their entries.
    features_, reading_
        The vocabularies and scales of the input, and how X is read.
    histories_, networks_, blend_, resolved_
        Of networks; empty for others.
    """

    model: Any
    task_: Task
    single_target_: bool
    target_kinds_: tuple[str, ...]
    features_: Features
    reading_: Reading
    representation: str
    representation_options: Mapping[str, Any] | None
    random_state: Any
    histories_: Sequence[History] = ()
    networks_: Sequence[Predictor] = ()
    blend_: Mapping[str, float] = MappingProxyType({})

    resolved_: Mapping[str, Any] = MappingProxyType({})
    _learning = 0.0

    @property
    def num_parameters_(self) -> int:
        """How many numbers were learned."""
        return sum(network.num_parameters for network in self.networks_)

    @property
    def seconds_(self) -> float:
        """How long that took, as far as it is known."""
        return sum(row["seconds"] for history in self.histories_ for row in history.rows) + self._learning

    @property
    def validation_indices_(self) -> Int[Array, " held_out"]:
        """Positions in X of the structures from which nothing was learned but when to stop."""
        return np.zeros(0, np.int64)

    @abstractmethod
    def embed(self, X: Any) -> Float[Array, "structures width"]:
        """Return one vector per structure."""

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Save the fitted estimator into a folder, to be opened with `hiddenfield.load`.

        It holds ``model.safetensors``, the arrays, and ``model.json``, all the rest, with checksums of both. The folder
        appears whole or not at all. The `checkpoint` parameter, and a `random_state` that is a generator, belong to the
        process and are left out.

        Parameters
        ----------
        path
            The folder, which must not exist.
        overwrite
            Whether to replace a model that was saved there before.
        """
        from hiddenfield.estimators.saving import save

        check_is_fitted(self)
        save(self, Path(path), overwrite=overwrite)

    @abstractmethod
    def _with_targets(self, structures: Structures, columns: list[Answers]) -> Structures:
        """Return the structures with the columns of y as targets of the kind that is predicted."""

    @abstractmethod
    def _predictions(self, X: Any) -> list[Float[Array, "members ..."]]:
        """Return for every target what each member of an ensemble predicts: (members, N) or (members, N, classes)."""

    def _read_training(self, X: Any) -> Structures:
        """Read X, and keep how."""
        self.reading_ = Reading.of(X, self.representation, self.representation_options)
        return self.reading_.convert(X)

    def _answered(self, X: Any, structures: Structures, y: Any) -> Structures:
        """Return the structures with the columns of y, or their own, as targets, and keep what these are."""
        given = None if y is None else len(X)
        columns, self.single_target_ = attach(structures, y, rows_read(X, structures), given)
        structures = self._with_targets(structures, columns)
        self.task_, self.target_kinds_ = Task.of(structures), tuple(column.kind for column in columns)
        return structures

    def _described(self) -> dict[str, Any]:
        """Return plain values of how new structures are read, and of what is predicted, if anything is."""
        found = {
            "features": self.features_.as_dict(),
            "representation": self.reading_.representation,
            "representation_options": as_json("representation_options", dict(self.reading_.options)),
        }
        if "task_" not in vars(self):
            return found
        return found | {
            "task": self.task_.as_dict(),
            "single_target": self.single_target_,
            "target_kinds": list(self.target_kinds_),
        }

    def _take_description(self, content: Mapping[str, Any]) -> None:
        """Take over what `_described` returned."""
        if content["representation"] not in REPRESENTATIONS:
            raise InputError(f"there is no representation {content['representation']!r:.50}")
        self.features_ = Features.from_dict(content["features"])
        self.reading_ = Reading(content["representation"], from_json(content["representation_options"]))
        if "task" in content:
            self.task_, self.target_kinds_ = Task.from_dict(content["task"]), tuple(content["target_kinds"])
            self.single_target_ = content["single_target"]

    def _fitted(self, name: str) -> Any:
        """Return what `fit` has set; before it, this is an AttributeError, as of any attribute that is not there."""
        if name not in vars(self):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet and has no {name}")
        return vars(self)[name]

    def _rows(self, X: Any, structures: Structures) -> Int[Array, " structures"] | None:
        """Return which entries of X could be read; None if all. A warning says what becomes of the others."""
        rows = rows_read(X, structures)
        if rows is not None:
            warnings.warn(
                f"{len(X) - len(rows)} of {len(X)} entries of X could not be read; what is returned for them is NaN, "
                "or None for a class",
                SkippedInputWarning,
                stacklevel=4,
            )
        return rows

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: X holds structures, not arrays of numbers; targets may be missing or several."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.target_tags.multi_output = True
        tags.non_deterministic = self.random_state is None
        tags.no_validation = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class StructureEstimator(Fitted):  # type: ignore[misc]
    r"""Base of the estimators: a network of embedded inference, fitted to structures with targets.

    X is a pack (`Structures`), or a list, array or data-frame column of SMILES, of sequences (strings or lists of
    symbols), of networkx graphs or of PyG data. y is an array or list with one entry for each structure, or has a
    column for each of several targets; missing entries are NaN or None. With ``y=None`` the pack's own targets are
    learned. Vocabularies travel with the model; a symbol that it has not seen is an `UnknownSymbolError` that names it.

    Parameters
    ----------
    model
        The inference algorithm that is embedded, a name of `hiddenfield.embedding.EMBEDDINGS`.
    dim, rounds, activation, bias
        Length of the messages, how often they are passed, their nonlinearity, and whether it has a constant.
    pooling
        How node embeddings become that of a structure: ``"sum"``, ``"mean"`` or ``"max"``. The sum is divided by the
        mean number of nodes of the training structures, the same for all, so that large structures train as well.
    every_round
        Whether the embeddings of all rounds are used, rather than those of the last; ``"auto"``: for classes.
    node_width
        Width of a layer on every node before pooling; None for none.
    standardise
        Whether pooled embeddings are brought to mean 0 and variance 1 (batch normalisation) before the head;
        ``"auto"``: for classes.
    hidden, dropout
        Width of the head's hidden layer, and the share of it that is dropped in training.
    model_options
        The model's own, for example ``{"longest_cycle": 6}`` for ``"generalized_bp"``.
    representation
        What X holds: ``"structures"``, ``"smiles"``, ``"sequence"``, ``"networkx"`` or ``"pyg"``. ``"auto"`` decides by
        the entries' types. For strings it is ``"smiles"`` if some have signs that no sequence of letters has (bonds,
        branches, rings, charges: ``=#()[]@/\+0-9``) and all are molecules to RDKit; ``"sequence"`` if none has a
        sign and some are no molecules; anything else, such as ``["CCO", "CCN"]``, could be either and is refused. What
        was found is kept in ``reading_``.
    representation_options
        Options of the converter (`from_smiles`, `from_sequences`, `from_networkx`, `from_pyg`). By default arcs of
        sequences know their direction, and networkx graphs bring all their attributes.
    epochs, batch_size
        Passes over the data, and structures in a batch; ``"auto"`` chooses by the number of structures, see
        `hiddenfield.estimators.parameters`.
    learning_rate, optimizer, weight_decay, schedule, clip, patience, monitor, resample, precision, device, devices
        As in `hiddenfield.learning.TrainSettings`; patience ``"auto"`` is a quarter of the epochs, at least ten.
    validation_fraction
        Share of the structures that each network holds out, drawn with `random_state` and stratified by class where
        possible, to choose the epoch whose weights are kept; networks of an ensemble hold out different ones. 0 for
        none: then the last epoch's are. ``"auto"`` is a fifth for an ensemble, a tenth for one network.
    ensemble
        Networks, fitted with different seeds; predictions are their average. ``"auto"`` is five up to 10,000
        structures, three up to 30,000, then one.
    random_state
        An integer makes the result repeatable.
    checkpoint, resume
        A folder to which every epoch is saved; a fit that finds one of its own goes on from there, or with
        ``resume=False`` refuses. Needs an integer `random_state`.
    verbose
        Whether a progress bar is shown, on a terminal.

    Attributes
    ----------
    networks_, histories_
        The fitted networks and what happened, one for each member of the ensemble.
    network_, history_
        The first of them.
    task_
        The targets, with their units.
    held_out_
        For each network the positions in X of the structures that it held out; a model that was loaded does not know
        them.
    blend_
        Weights of the networks and of models on counts in a prediction.
    features_, reading_
        The vocabularies and scales of the input, and how X is read.
    resolved_
        What ``"auto"`` stood for.
    """

    model: str = "loopy_bp"
    dim: int = 64
    rounds: int = 4
    activation: str = "relu"
    bias: bool = True
    pooling: str = "sum"
    every_round: bool | str = "auto"
    node_width: int | None = None
    standardise: bool | str = "auto"
    hidden: int = 64
    dropout: float = 0.0
    model_options: dict[str, Any] | None = None
    representation: str = "auto"
    representation_options: dict[str, Any] | None = None
    epochs: int | str = "auto"
    batch_size: int | str = "auto"
    learning_rate: float = 3e-3
    optimizer: str = "adam"
    weight_decay: float = 0.0
    schedule: str = "cosine"
    clip: float | None = 5.0
    patience: int | str | None = "auto"
    validation_fraction: float | str = "auto"
    monitor: str = "loss"
    resample: float | None = None
    precision: str | int = "32"
    device: str = "auto"
    devices: int = 1
    ensemble: int | str = "auto"
    random_state: Any = None
    checkpoint: str | os.PathLike[str] | None = None
    resume: bool = True
    verbose: bool = False

    _parameter_constraints = COMMON

    # -- fitting -------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, held_out: Any = None
    ) -> StructureEstimator:
        """Fit to structures and their targets.

        Parameters
        ----------
        X
            Structures.
        y
            Targets; None for those that the structures have.
        sample_weight
            A weight for each structure in the loss, that of training and that by which the epoch is chosen; None for
            equal ones. A structure of weight 0 has no part in either.
        held_out
            Positions in X of the structures that are held out to choose the epoch; by default a share of
            `validation_fraction` is drawn. Weights are learned from the others alone.

        Returns
        -------
        self
        """
        begun = self._begin(X, y, held_out, sample_weight)
        folder = None if self.checkpoint is None else Path(self.checkpoint)
        outcomes = train_in_parts(begun.fits, folder=folder, resume=self.resume, show_progress=self.verbose)
        return self._end(begun, dict(outcomes))

    def _begin(self, X: Any, y: Any, held_out: Any, sample_weight: Any = None) -> Begun:
        """Read X and y, divide them, and make the networks: everything of `fit` before the training."""
        self._check_parameters(chosen=held_out is not None)
        reading = Reading.of(X, self.representation, self.representation_options)
        structures = reading.convert(X)
        if not len(structures):
            raise InputError("there are no structures to learn from: X is empty")
        rows = rows_read(X, structures)
        columns, single = attach(structures, y, rows, None if rows is None else len(X))
        structures = self._with_targets(structures, columns)
        task = self._task(structures)
        assert structures.targets is not None
        weights = None if sample_weight is None else checked_weights(sample_weight, len(X))
        weights = weights if weights is None or rows is None else weights[rows]
        missing = structures.targets.isnan().all(dim=1).cpu().numpy()
        answered = np.flatnonzero(~missing if weights is None else ~missing & (weights > 0))
        given = structures
        if not len(answered):
            raise InputError(
                "the weights of all structures that have a target are zero; there is nothing to learn"
            )
        if len(answered) < len(structures):
            structures = structures[answered]
        features = Features.of(structures)
        structures = features.encode(structures)
        fits, parts = self._members(
            structures,
            features,
            task,
            lambda position: given.name_of(int(answered[position])),
            None if held_out is None else check_held_out(held_out, len(given), answered),
            None if weights is None else weights[answered],
        )
        if getattr(self, "counts", False) is True and not all(len(held_out) for _, held_out in parts):
            raise InputError(
                f"The 'counts' parameter of {type(self).__name__} must be False or 'auto' where no structures are held "
                "out, since weights are chosen on these. Got True instead."
            )
        kinds = tuple(column.kind for column in columns)
        return Begun(fits, task, features, reading, structures, parts, answered, single, kinds)

    def _end(self, begun: Begun, outcomes: dict[int, History | TrainingError]) -> StructureEstimator:
        """Take over what was trained, and fit what goes with it; raise the first error of a training."""
        histories = []
        for _, outcome in sorted(outcomes.items()):
            if isinstance(outcome, TrainingError):
                raise outcome
            histories.append(outcome)
        self.networks_, self.histories_ = [fit.network for fit in begun.fits], histories
        self.task_, self.features_, self.reading_ = begun.task, begun.features, begun.reading
        self.held_out_ = [begun.answered[held_out] for _, held_out in begun.parts]
        self.single_target_, self.target_kinds_ = begun.single_target, begun.target_kinds
        self.blend_ = dict(zip(KINDS, (1.0, 0.0, 0.0), strict=True))
        self.counting_: Counting | None = None
        if self._counts(begun):
            self._blend(begun)
        settings, network = begun.fits[0].settings, begun.fits[0].network.settings()
        self.resolved_ = {
            "ensemble": len(begun.fits),
            **({"counts": self._counts(begun)} if hasattr(self, "counts") else {}),
            "every_round": network["every_round"],
            "standardise": network["standardise"],
            "epochs": settings.epochs,
            "batch_size": settings.batch_size,
            "patience": settings.patience,
            "validation_fraction": len(begun.parts[0][1]) / len(begun.structures),
            "device": resolve_device(settings.device).type,
            "representation": begun.reading.representation,
        }
        return self

    def _counts(self, begun: Begun) -> bool:
        """Say whether models on counts are to be fitted too: where they can be judged, and do what networks do."""
        wanted = getattr(self, "counts", False)
        judged = all(len(held_out) for _, held_out in begun.parts)
        few = len(begun.structures) * len(begun.task.columns) <= MOST_COUNTED
        weighted = begun.fits[0].weights is not None or any(column.weights for column in begun.task.columns)
        usual = begun.task.loss == "square" and not weighted
        return bool(wanted) and judged and (wanted is True or (few and usual))

    def _blend(self, begun: Begun) -> None:
        """Fit models on counts beside each network, and weigh all by their predictions of held-out structures."""
        structures, task = begun.structures, begun.task
        counting, unseen = fit_counting(structures, task, begun.parts, begun.fits[0].settings.seed)
        tables: list[list[list[Array]]] = [[[] for _ in task.columns] for _ in KINDS]
        for member, (_, held_out) in enumerate(begun.parts):
            (linear,), _ = counting.predict(structures[held_out], [member])
            outputs = predict(self.networks_[member], structures[held_out], device=self.device)
            forests = [table[held_out] for table in unseen]
            for kind, own in zip(tables, (task.predictions(outputs), linear, forests), strict=True):
                for column, values in zip(kind, own, strict=True):
                    column.append(values)
        assert structures.targets is not None
        truth = structures.targets.double().cpu().numpy()[np.concatenate([a for _, a in begun.parts])]
        weights = choose_weights(task, truth, [[np.concatenate(own) for own in kind] for kind in tables])
        self.blend_ = dict(zip(KINDS, weights, strict=True))
        self.counting_ = None if weights[0] == 1.0 else counting

    def _check_parameters(self, *, chosen: bool = False) -> None:
        check(self)
        name = type(self).__name__
        if self.patience not in (None, "auto") and self.validation_fraction == 0 and not chosen:
            raise InputError(
                f"The 'patience' parameter of {name} must be None where 'validation_fraction' is 0, since nothing is "
                f"validated. Got {self.patience!r} instead."
            )
        if self.checkpoint is not None and not isinstance(self.random_state, (int, np.integer)):
            raise InputError(
                f"The 'random_state' parameter of {name} must be an integer where 'checkpoint' is given, so that a run "
                f"can go on as it began. Got {self.random_state!r} instead."
            )

    def _task(self, structures: Structures) -> Task:
        """Return what is to be learned."""
        return Task.of(
            structures,
            loss=getattr(self, "loss", "square"),
            class_weight=getattr(self, "class_weight", None),
        )

    def _members(
        self,
        structures: Structures,
        features: Features,
        task: Task,
        name_of: Callable[[int], str],
        chosen: Int[Array, " held_out"] | None = None,
        weights: Float[Array, " structures"] | None = None,
    ) -> tuple[list[Fit], list[Part]]:
        """Make every network of the ensemble, each with a seed and held-out structures of its own."""
        count = auto_ensemble(len(structures)) if self.ensemble == "auto" else int(self.ensemble)
        share = (
            auto_fraction(count) if self.validation_fraction == "auto" else float(self.validation_fraction)
        )
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=count + 1).tolist()
        parts = split_held_out(structures, share, seeds[0], chosen, members=count)
        fits = []
        for (kept, held_out), seed in zip(parts, seeds[1:], strict=True):
            training, validation = structures[kept], structures[held_out] if len(held_out) else None
            settings = self._settings(training, validation, seed, classes=not task.is_regression)
            network = self._network(features, task, seed)
            named = partial(_name_at, name_of, kept)
            own = None if weights is None else (weights[kept], weights[held_out])
            fits.append(Fit(network, task, training, validation, settings, named, own))
        return fits, parts

    def _network(self, features: Features, task: Task, seed: int) -> Predictor:
        """Make a network whose initial weights depend on the seed alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Predictor(features.sizes, task.outputs, **self._network_options(features, task))

    def _network_options(self, features: Features, task: Task) -> dict[str, Any]:
        own = {name: plain(getattr(self, name)) for name in OF_NETWORK}
        # Standardising needs whole batches in one process.
        usual = {
            "every_round": not task.is_regression,
            "standardise": not task.is_regression and self.devices == 1,
        }
        own |= {name: value for name, value in usual.items() if own[name] == "auto"}
        own["scale"] = features.mean_nodes if self.pooling == "sum" else 1.0
        for name, value in (self.model_options or {}).items():
            if name in own:
                raise InputError(
                    f"The 'model_options' parameter of {type(self).__name__} must hold options of the model alone. Got "
                    f"{name!r}, which is a parameter of its own, instead."
                )
            own[name] = plain(value)
        return own

    def _settings(
        self, training: Structures, validation: Structures | None, seed: int, *, classes: bool
    ) -> TrainSettings:
        count = len(training)
        size = auto_batch_size(count, classes) if self.batch_size == "auto" else int(self.batch_size)
        epochs = auto_epochs(count, size, classes) if self.epochs == "auto" else int(self.epochs)
        own = {name: plain(getattr(self, name)) for name in TrainSettings.names() if hasattr(self, name)}
        own |= {"epochs": epochs, "batch_size": size, "seed": seed, "precision": str(self.precision)}
        if self.patience == "auto":
            own["patience"] = auto_patience(epochs)
        return TrainSettings(**own if validation is not None else own | {"patience": None})

    # -- fitted --------------------------------------------------------------------------------------------

    @property
    def network_(self) -> Predictor:
        """The first network of the ensemble."""
        return self._fitted("networks_")[0]

    @property
    def validation_indices_(self) -> Int[Array, " held_out"]:
        """Positions in X of the structures that every network held out: no weight was learned from them."""
        common, *others = self._fitted("held_out_")
        for other in others:
            common = np.intersect1d(common, other)
        return common  # type: ignore[no-any-return]

    @property
    def history_(self) -> History:
        """What happened when the first network was fitted."""
        return self._fitted("histories_")[0]

    def embed(self, X: Any) -> Float[Array, "structures width"]:
        """Return one vector per structure: the pooled node embeddings of every network, side by side.

        A structure without nodes is embedded as zeros.
        """
        structures = self._encoded(X)
        parts = [predict(n, structures, device=self.device, function=n.embed) for n in self.networks_]
        return _spread(torch.cat(parts, dim=1).numpy(), self._rows(X, structures), X)

    def _encoded(self, X: Any) -> Structures:
        check_is_fitted(self)
        return self.features_.encode(self.reading_.convert(X))

    def _predictions(self, X: Any) -> list[Float[Array, "members ..."]]:
        """Return for every target what each member of the ensemble predicts: (members, N) or (members, N, classes)."""
        structures = self._encoded(X)
        outputs = [predict(network, structures, device=self.device) for network in self.networks_]
        members = [self.task_.predictions(output) for output in outputs]
        if self.counting_ is not None:
            kinds = (members, *self.counting_.predict(structures))
            shares = tuple(self.blend_.values())
            members = [
                [
                    sum(w * values for w, values in zip(shares, own, strict=True))
                    for own in zip(*parts, strict=True)
                ]
                for parts in zip(*kinds, strict=True)
            ]
        rows = self._rows(X, structures)
        members = [[_spread(values, rows, X) for values in own] for own in members]
        return [np.stack(column) for column in zip(*members, strict=True)]

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return "networks_" in vars(self)


def _name_at(name_of: Callable[[int], str], kept: Int[Array, " kept"], position: int) -> str:
    """Name the structure at a position among those that are kept."""
    return name_of(int(kept[position]))


def _spread(
    values: Float[Array, "structures ..."], rows: Int[Array, " structures"] | None, X: Any
) -> Float[Array, "entries ..."]:
    """Return a row for each entry of X, NaN for those that could not be read."""
    if rows is None:
        return values
    result = np.full((len(X), *values.shape[1:]), np.nan, dtype=values.dtype)
    result[rows] = values
    return result


def fit_in_parts(
    models: Sequence[StructureEstimator], data: Sequence[tuple[Any, Any, Any]]
) -> Iterator[tuple[int, StructureEstimator | TrainingError]]:
    """Fit estimators, each to its own data; networks that are alike are trained side by side.

    Each estimator is fitted as by its own `fit`, up to rounding and the random numbers of dropout; see
    `hiddenfield.learning.together`. No checkpoints are written.

    Parameters
    ----------
    models
        Estimators that are not fitted yet.
    data
        For each X, y and the held-out positions (or None), as `fit` takes them.

    Yields
    ------
    tuple
        Position and estimator, or the error where training failed, as soon as those that were trained at once are done.

    Examples
    --------
    >>> from hiddenfield.estimators import StructureRegressor
    >>> words, lengths = ["GA", "GATTACA", "TTT", "A", "GATT", "CCAT"], [2.0, 7.0, 3.0, 1.0, 4.0, 4.0]
    >>> models = [StructureRegressor(dim=dim, epochs=2, random_state=0) for dim in (4, 8)]
    >>> fitted = dict(fit_in_parts(models, [(words, lengths, None)] * 2))
    >>> [fitted[position].network_.embedding.dim for position in (0, 1)]
    [4, 8]
    """
    if len(models) != len(data):
        raise InputError(
            f"every estimator needs its data: got {len(models)} estimators and data for {len(data)}"
        )
    begun = [model._begin(X, y, held_out) for model, (X, y, held_out) in zip(models, data, strict=True)]
    owner = [position for position, one in enumerate(begun) for _ in one.fits]
    outcomes: list[dict[int, History | TrainingError]] = [{} for _ in begun]
    for place, outcome in train_in_parts([fit for one in begun for fit in one.fits]):
        position = owner[place]
        outcomes[position][place] = outcome
        if len(outcomes[position]) == len(begun[position].fits):
            try:
                models[position]._end(begun[position], outcomes[position])
            except TrainingError as error:
                yield position, error
            else:
                yield position, models[position]
