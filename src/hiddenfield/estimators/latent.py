"""What estimators of models with something hidden share: reading rows, learning, filling holes, criteria."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from hiddenfield.data.rows import Rows
from hiddenfield.errors import CollapseError, ConvergenceWarning, InputError
from hiddenfield.estimators.parameters import COUNT, POSITIVE, as_json, check, from_json
from hiddenfield.learning.em import ACCELERATIONS, FILLS, Arrays, Learned, Run, fit_em
from hiddenfield.learning.em_checkpoint import flattened, grouped
from hiddenfield.learning.multiple_imputation import Pooled, pool
from hiddenfield.learning.observed_information import scores, standard_errors
from hiddenfield.learning.shards import Shards
from hiddenfield.progress import progress
from hiddenfield.registry import Registry
from hiddenfield.shapes import Array, Bool, Float, Tensor

LATENT: Registry[type[LatentEstimator]] = Registry("model", "hiddenfield.estimators")
"""Estimators of models with something hidden, by name; facts: summary, reference, data ("table",
"sequences" or "documents"), and what else the readers ask."""

BAYES = ("variational", "gibbs")
"""Fills that need a prior."""

OF_LEARNING: dict[str, list[Any]] = {
    "fill": [StrOptions(set(FILLS))],
    "start": [str, Mapping],
    "restarts": [COUNT],
    "tolerance": [POSITIVE],
    "max_iterations": [COUNT],
    "acceleration": [StrOptions(set(ACCELERATIONS))],
    "batch_size": [COUNT, None],
    "random_state": ["random_state"],
    "checkpoint": [str, os.PathLike, None],
    "verbose": ["boolean"],
}


@dataclass(kw_only=True, eq=False, repr=False)
class LatentEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators of models with something hidden, missing values included.

    A subclass gives `_model`, which makes the model of its parameters and of what `_read` has found in the data; and
    `_read`, where X is more than rows of numbers. The model is a `hiddenfield.learning.em.LatentModel` that also has
    ``log_likelihood(data, parameters)`` and ``infer(data, parameters)`` for each row, ``impute(data, parameters)``,
    ``sample_missing(data, parameters, generator)`` and ``sample(count, parameters, generator)``.

    Parameters
    ----------
    fill
        How what is hidden is filled in while learning, one of `hiddenfield.learning.em.FILLS`.
    start
        How each run starts: "auto", what else the model offers, or "short_runs", the best of many random starts after
        some turns; or parameters, as ``parameters_`` has them.
    restarts
        Runs from different starts, of which the best is kept.
    tolerance
        Of the rise of the objective per row, at which a run ends.
    max_iterations
        Turns after which it ends, converged or not; with "sample" and "gibbs" all are taken.
    acceleration, batch_size
        As in `hiddenfield.learning.em.fit_em`: "squarem" leaps ahead; with a batch size EM is stepwise.
    random_state
        An integer makes the result repeatable.
    checkpoint
        A folder to which runs are saved; a fit that finds its own there goes on from it.
    verbose
        Whether a progress bar is shown.

    Attributes
    ----------
    parameters_
        The parameters by name.
    learned_
        All runs, with their traces.
    converged_
        Whether the best of them ended by the tolerance.
    num_free_
        Degrees of freedom of the parameters.
    """

    fill: str = "expectation"
    start: Any = "auto"
    restarts: int = 1
    tolerance: float = 1e-6
    max_iterations: int = 1000
    acceleration: str = "squarem"
    batch_size: int | None = None
    random_state: Any = 0
    checkpoint: str | os.PathLike[str] | None = None
    verbose: bool = False

    _parameter_constraints = OF_LEARNING
    _kept: ClassVar[tuple[str, ...]] = ("n_features_in_", "feature_names_in_", "regularised_")
    """Fitted attributes (arrays, numbers, texts, lists, mappings) that `_model` and `_read` need; they are saved."""
    _size: ClassVar[str] = "num_components"
    """The parameter that `choose_size` varies."""
    _takes_constants: ClassVar[bool] = False
    """Whether a column of numbers may have a single value."""

    # -- what a subclass gives -----------------------------------------------------------------------------

    def _model(self) -> Any:
        """Return the model, by the parameters and the attributes that are named in `_kept`."""
        raise TypeError(f"{type(self).__name__} has no model; a subclass of LatentEstimator gives `_model`")

    def _read(self, X: Any, *, fitting: bool = False, y: Any = None, sample_weight: Any = None) -> Any:
        """Return the data that the model takes; in fitting, keep what it is that others must be like."""
        return self._rows(X, fitting, sample_weight)

    def _rows(self, X: Any, fitting: bool, sample_weight: Any = None) -> Rows:
        """Read rows of numbers with holes."""
        try:
            values = validate_data(
                self, X, reset=fitting, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=1
            )
        except ValueError as error:
            raise InputError(f"{error}{_texts(X)}") from None
        values = np.where(np.isnan(values), np.nan, values)
        if (bad := np.argwhere(np.isinf(values))).size:
            row, column = bad[0]
            raise InputError(
                f"Input X contains infinity, in row {row} of column {self._column(column)}; a missing value is NaN"
            )
        return Rows(values, _weights(sample_weight, len(values)))

    def _describe(self, rows: Rows, continuous: Bool[Array, " columns"] | bool = True) -> None:
        """Keep where the data are; refuse empty columns, and continuous ones from which no variance can be learned."""
        present = ~rows.missing
        weights = present if rows.weights is None else present * rows.weights[:, None]
        mass, filled = weights.sum(0), np.where(present, rows.values, 0.0)
        if (empty := np.flatnonzero(mass == 0)).size:
            raise InputError(f"column {self._column(empty[0])} has no values; leave it out")
        self.centre_ = (weights * filled).sum(0) / mass
        away = np.where(present, rows.values - self.centre_, 0.0)
        self.spread_ = np.sqrt((weights * away**2).sum(0) / mass)
        flat = (self.spread_ <= 1e-12 * np.abs(self.centre_)) & continuous
        if (constant := np.flatnonzero(flat)).size:
            only = "one sample" if len(rows) == 1 else "a single value"
            raise InputError(
                f"column {self._column(constant[0])} has {only}, from which no variance can be learned; leave it out"
            )

    def _column(self, number: Any) -> str:
        names = getattr(self, "feature_names_in_", None)
        return str(number) if names is None else repr(str(names[number]))

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn the parameters.

        Parameters
        ----------
        X
            Rows of numbers (array or data frame), with NaN or None for what is missing; or `Shards` of such, which
            need not fit into memory together, and of which one that stands for all says where the data are.
        y
            What is known of each row, where the model uses it; otherwise ignored.
        sample_weight
            How many times each row counts.

        Returns
        -------
        self
        """
        check(self)
        first = X.look() if isinstance(X, Shards) else X
        data = self._read(first, fitting=True, y=y, sample_weight=sample_weight)
        if isinstance(X, Shards):
            if y is not None or sample_weight is not None:
                raise InputError("shards have no y and no sample_weight; give rows")
            data = X.map(self._read)
        self.regularised_ = False
        self.model_ = self._model()
        with progress(None, f"learning {type(self).__name__}", shown=self.verbose) as advance:
            options = self._learning()
            try:
                learned = fit_em(self.model_, data, advance=advance, **options)
            except CollapseError as error:
                self._regularise(error)
                if options["checkpoint"] is not None:
                    options["checkpoint"] = Path(options["checkpoint"]) / "with_prior"
                learned = fit_em(self.model_, data, advance=advance, **options)
        self._take(learned)
        return self

    def _regularise(self, error: CollapseError) -> None:
        """Take the weak prior where the likelihood has no maximum and the prior is "auto"; otherwise raise."""
        if getattr(self, "prior", None) != "auto" or self._has_prior():
            raise error
        reason = str(error).split(". Try")[0]
        warnings.warn(
            f"the likelihood has no maximum here: {reason}; learned with a weak prior instead, as prior='weak' does "
            "(prior=None refuses)",
            ConvergenceWarning,
            stacklevel=3,
        )
        self.regularised_ = True
        self.model_ = self._model()

    def _has_prior(self) -> bool:
        """Say whether there is the weak prior, in an estimator with a parameter of that name."""
        prior: str | None = getattr(self, "prior", None)
        return prior == "weak" or (prior == "auto" and (self.fill in BAYES or self.regularised_))

    def _learning(self) -> dict[str, Any]:
        """Return the options of `fit_em`."""
        names = (
            "fill",
            "restarts",
            "tolerance",
            "max_iterations",
            "acceleration",
            "batch_size",
            "checkpoint",
        )
        options = {name: getattr(self, name) for name in names}
        start = self.start
        if isinstance(start, Mapping):
            start = {name: np.array(value, float) for name, value in start.items()}
        return options | {"start": start, "seed": self._seed()}

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _take(self, learned: Learned) -> None:
        self.learned_, self.parameters_ = learned, learned.parameters
        self.converged_, self.n_iter_ = learned.best.converged, learned.best.iterations
        self.num_free_ = len(self.model_.as_vector(self.parameters_))

    def _fitted(self, X: Any, sample_weight: Any = None) -> tuple[Any, Any, Arrays]:
        check_is_fitted(self, "parameters_")
        return self.model_, self._read(X, sample_weight=sample_weight), self.parameters_

    # -- rows ----------------------------------------------------------------------------------------------

    def log_likelihood(self, X: Any, y: Any = None) -> Float[Array, " rows"]:
        """Return the log-likelihood of each row, what it misses integrated out; 0 for a row without any value."""
        if isinstance(X, Shards):
            return np.concatenate([self.log_likelihood(part) for part in X])
        model, data, parameters = self._fitted(X)
        return model.log_likelihood(data, parameters)

    def total(self, X: Any, y: Any = None) -> tuple[float, int]:
        """Return the log-likelihood of all rows, and their number, with one part of shards in memory at a time."""
        found = [
            (float(each.sum()), len(each)) for each in (self.log_likelihood(part, y) for part in _parts(X))
        ]
        return sum(value for value, _ in found), sum(rows for _, rows in found)

    def score_samples(self, X: Any) -> Float[Array, " rows"]:
        """Return `log_likelihood`, under scikit-learn's name."""
        return self.log_likelihood(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean log-likelihood of the rows."""
        values = self.log_likelihood(X)
        return float(np.average(values, weights=_weights(sample_weight, len(values))))

    def scores(self, X: Any) -> Float[Array, "rows free"]:
        """Return the gradient of each row's log-likelihood in the free coordinates: Fisher scores."""
        return scores(*self._fitted(X))

    def posterior(self, X: Any) -> Any:
        """Return the distribution of what is hidden in each row: the probability of each component."""
        model, data, parameters = self._fitted(X)
        return model.infer(data, parameters)

    def predict(self, X: Any) -> Array:
        """Return the most likely component of each row."""
        return self.posterior(X).argmax(1)

    def impute(self, X: Any) -> Any:
        """Return X with its holes filled by what is expected given the rest of each row, in the type that came."""
        model, data, parameters = self._fitted(X)
        return self._like(X, data, model.impute(data, parameters))

    def sample_missing(self, X: Any, draws: int = 1, *, random_state: Any = None) -> list[Any]:
        """Return copies of X with the holes filled by draws given the rest of each row.

        With ``fill="gibbs"`` each copy has parameters of its own, drawn from their posterior, as proper multiple
        imputation asks for; otherwise the parameters are those learned, and what depends on few rows is a little too
        certain.
        """
        model, data, parameters = self._fitted(X)
        generator = self._generator(random_state)
        posterior = self.learned_.draws or [parameters]
        chosen = np.linspace(0, len(posterior) - 1, draws).round().astype(int)
        filled = (model.sample_missing(data, posterior[i], generator) for i in chosen)
        return [self._like(X, data, each) for each in filled]

    def sample(self, n: int = 1, *, random_state: Any = None) -> Any:
        """Draw complete rows, and the component of each."""
        check_is_fitted(self, "parameters_")
        drawn = self.model_.sample(n, self.parameters_, self._generator(random_state))
        return drawn.values, drawn.labels

    def _generator(self, random_state: Any) -> np.random.Generator:
        if isinstance(random_state, np.random.Generator):
            return random_state
        return np.random.default_rng(self._seed() if random_state is None else random_state)

    def _like(self, X: Any, data: Any, filled: Array) -> Any:
        """Return filled rows in the type of X."""
        if hasattr(X, "columns") and hasattr(X, "iloc"):
            import pandas

            return pandas.DataFrame(filled, columns=X.columns, index=X.index)
        return filled

    # -- criteria ------------------------------------------------------------------------------------------

    def bic(self, X: Any, y: Any = None) -> float:
        r"""Return Schwarz's criterion :math:`-2 \log L + p \log n`; less is better."""
        value, rows = self.total(X, y)
        return float(self.num_free_ * np.log(rows) - 2 * value)

    def aic(self, X: Any, y: Any = None) -> float:
        r"""Return Akaike's criterion :math:`-2 \log L + 2 p`; less is better."""
        return float(2 * self.num_free_ - 2 * self.total(X, y)[0])

    def icl(self, X: Any, y: Any = None) -> float:
        """Return the integrated completed likelihood: BIC and twice the entropy of what is hidden; less is better."""
        found = (self.posterior(part) for part in _parts(X))
        return self.bic(X) - 2 * sum(float((each * np.log(np.maximum(each, 1e-300))).sum()) for each in found)

    def standard_errors(self, X: Any, sample_weight: Any = None) -> Arrays:
        """Return the standard error of every parameter, by name, from the observed information of X.

        See `hiddenfield.learning.observed_information.standard_errors`; X is what was fitted to.
        """
        model, data, parameters = self._fitted(X, sample_weight)
        return standard_errors(model, data, parameters)

    def multiple_imputation(
        self, X: Any, analysis: Callable[[Any], tuple[Any, Any]], draws: int = 20, *, random_state: Any = None
    ) -> Pooled:
        """Fill the holes of X several times, analyse each copy, and combine the answers by Rubin's rules.

        Parameters
        ----------
        X
            Rows with holes.
        analysis
            Called with a filled copy of X; returns estimates and their variances.
        draws
            Copies.
        random_state
            As of `sample_missing`, which says what makes them proper.
        """
        found = [analysis(filled) for filled in self.sample_missing(X, draws, random_state=random_state)]
        return pool([estimate for estimate, _ in found], [variance for _, variance in found])

    # -- saving --------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted estimator into a folder, as safetensors and JSON; `hiddenfield.load` opens it."""
        from hiddenfield.estimators.saving import save

        check_is_fitted(self, "parameters_")
        save(self, path, overwrite=overwrite)

    def plain_parameters(self) -> dict[str, Any]:
        """Return parameters that are saved in another form than they were given in."""
        return {}

    def as_saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the arrays, and plain values that describe what was learned."""
        groups: dict[str, Any] = {
            "parameters": self.parameters_,
            "posterior": self.learned_.best.posterior or {},
        }
        kept = {name: vars(self)[name] for name in self._kept if name in vars(self)}
        numeric = {n: v for n, v in kept.items() if isinstance(v, np.ndarray) and v.dtype.kind in "bif"}
        groups["kept"] = numeric
        rest = {name: as_json(name, value) for name, value in kept.items() if name not in numeric}
        runs = [[run.objective, run.trace, run.converged, run.status] for run in self.learned_.runs]
        best = self.learned_.runs.index(self.learned_.best)
        content = {"kept": rest, "runs": runs, "best": best, "status": self.learned_.status}
        return flattened(groups, self.learned_.draws), content

    def from_saved(self, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LatentEstimator:
        """Take over what `as_saved` returned; parameters that do not fit the model are an error."""
        check(self)
        groups, draws = grouped(tensors)
        for name, value in (groups.get("kept", {}) | content["kept"]).items():
            if name not in self._kept:
                raise InputError(f"there is no attribute {name!r:.50}")
            value = from_json(value) if name in content["kept"] else value
            setattr(self, name, np.array(value, object) if name == "feature_names_in_" else value)
        if not all(np.isfinite(tensor.numpy()).all() for tensor in tensors.values()):
            raise InputError("the parameters are not finite")
        self.model_, parameters = self._model(), groups["parameters"]
        runs = [Run(parameters, groups.get("posterior"), *run) for run in content["runs"]]
        self._take(Learned(runs[content["best"]], runs, content["status"], draws))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether there are parameters."""
        return "parameters_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        """Say that NaN is accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _parts(X: Any) -> Any:
    return X if isinstance(X, Shards) else [X]


def _texts(X: Any) -> str:
    """Name the columns of a data frame that are no numbers, and say what to do."""
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")) or len(set(X.columns)) < len(X.columns):
        return ""
    kinds = zip(X.columns, X.dtypes, strict=True)
    names = [str(name) for name, kind in kinds if getattr(kind, "kind", "f") not in "biuf"]
    return f" (columns {names}); leave them out, or use MixedMixture, which takes symbols" if names else ""


def _weights(given: Any, rows: int) -> Float[Array, " rows"] | None:
    """Return weights of rows; a wrong one is an error that names it."""
    if given is None:
        return None
    weights = np.asarray(given, float)
    if weights.shape != (rows,):
        raise InputError(
            f"sample_weight has one entry for each of the {rows} rows, got shape {weights.shape}"
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise InputError(
            f"the weight of row {bad[0]} is {weights[bad[0]]}; it must be finite and not negative"
        )
    if not weights.any():
        raise InputError("the weights of all rows are zero; there is nothing to learn")
    return weights
