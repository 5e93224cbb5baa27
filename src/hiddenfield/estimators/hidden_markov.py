"""HiddenMarkovModel: hidden Markov models of sequences and trees with holes, in scikit-learn's style."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.rows import Rows
from hiddenfield.data.table import Table
from hiddenfield.errors import InputError
from hiddenfield.estimators.latent import LATENT, _weights
from hiddenfield.estimators.parameters import COUNT
from hiddenfield.estimators.sequence_inputs import SequenceInput, read_sequences
from hiddenfield.estimators.tables import OF_TABLES, TableEstimator
from hiddenfield.models.gaussians import COVARIANCES, Gaussians, NormalPrior
from hiddenfield.models.hidden_markov import states
from hiddenfield.models.hidden_markov.emissions import Emission, Events, Numbers, Symbols
from hiddenfield.models.hidden_markov.forest import Forest, Sequences
from hiddenfield.models.hidden_markov.model import HiddenMarkov
from hiddenfield.shapes import Array, Bool, Float, Int


@dataclass(frozen=True, eq=False)
class Forecast:
    """The distribution of the next steps of sequences.

    Parameters
    ----------
    states
        The probability of each state.
    mean, deviation
        Of every column of numbers, by name.
    probabilities
        Of every symbol of a column, by name.
    """

    states: Float[Array, "sequences steps states"]
    mean: dict[str, Float[Array, "sequences steps"]] = field(default_factory=dict)
    deviation: dict[str, Float[Array, "sequences steps"]] = field(default_factory=dict)
    probabilities: dict[str, Float[Array, "sequences steps symbols"]] = field(default_factory=dict)


@LATENT.register(
    "hidden_markov",
    summary="sequences and trees whose nodes have a hidden state that depends on the one before",
    reference="Rabiner 1989",
    data="sequences",
)
@dataclass(eq=False, repr=False)
class HiddenMarkovModel(TableEstimator):
    r"""A hidden Markov model of sequences or trees, any cell of which may be missing.

    .. math:: p(x) = \sum_z \pi(z_1)\, p(x_1 \mid z_1) \prod_{t > 1} A(z_{t-1}, z_t)\, p(x_t \mid z_t)

    On a tree a node's state depends on its parent's. Columns are independent given the state, but for those of numbers,
    which have a Gaussian, or a mixture of Gaussians: symbols are categorical, counts Poisson. What is missing, steps or
    single cells, is summed or integrated out.

    X is a pack of sequences or trees (`Structures`, as `hiddenfield.read` makes of FASTA); a list of texts, lists or
    arrays of symbols or numbers, matrices or data frames, one for each sequence; or one table (data frame, matrix,
    file) with a row for each step. Results for steps are in the same form: a list with an array for each sequence, or
    one array with an entry for each row. The other parameters are those of `LatentEstimator` and `TableEstimator`.

    Parameters
    ----------
    num_states
        How many.
    covariance
        Of the columns of numbers: "full", "tied" (one for all states), "diagonal" or "spherical".
    num_components
        Gaussians in each state.
    transitions
        "full"; "left_to_right", where a state stays or goes on to the next, beginning with the first; or a matrix,
        whose zeros say which transitions there are not.
    initial
        The law of first states: "free"; "stationary", tied to the transitions as that which they keep; or fixed
        probabilities.
    sequence, parent
        Columns of a table: which sequence a row belongs to; and for trees the number of the row's parent within its
        tree, -1 or missing for the root.
    missing
        Symbols of packs and texts that stand for what is not known, such as ``("N",)``.
    sampler
        How "sample" and "gibbs" draw states: "all_at_once", by filtering and sampling back, or "one_at_a_time".
    prior
        Of Gaussians, as in `GaussianMixture`.
    concentration
        Of the Dirichlet priors of transitions, initial law and symbols; 1 for none. Above 1 no probability becomes 0.

    Attributes
    ----------
    transitions_, initial_
        The law of the states.

    References
    ----------
    Rabiner (1989), A tutorial on hidden Markov models and selected applications in speech recognition; Crouse, Nowak
    and Baraniuk (1998), Wavelet-based statistical signal processing using hidden Markov models (trees); Scott (2002),
    Bayesian methods for hidden Markov models; Zucchini and MacDonald (2009), Hidden Markov models for time series.

    Examples
    --------
    >>> from hiddenfield.estimators import HiddenMarkovModel
    >>> texts = ["aababbabaaccdcddcdccd", "abbaabaddcdccdd", "baabacdcdd"]
    >>> model = HiddenMarkovModel(2, transitions="left_to_right", missing=("?",)).fit(texts)
    >>> model.predict(["ab?ac?d"])
    [array([0, 0, 0, 0, 1, 1, 1])]
    >>> model.forecast(["ab"], 3).states.round(2).shape
    (1, 3, 2)
    """

    num_states: int = 2
    covariance: str = "full"
    num_components: int = 1
    transitions: Any = "full"
    initial: Any = "free"
    sequence: str | None = None
    parent: str | None = None
    missing: Any = None
    sampler: str = "all_at_once"
    prior: str | None = "auto"
    concentration: float = 1.0

    _parameter_constraints = OF_TABLES | {
        "num_states": [COUNT],
        "covariance": [StrOptions(set(COVARIANCES))],
        "num_components": [COUNT],
        "transitions": [StrOptions({"full", "left_to_right"}), "array-like"],
        "initial": [StrOptions({"free", "stationary"}), "array-like"],
        "sequence": [str, None],
        "parent": [str, None],
        "missing": ["array-like", str, None],
        "sampler": [StrOptions({"all_at_once", "one_at_a_time"})],
        "prior": [StrOptions({"auto", "weak"}), None],
        "concentration": [Interval(Real, 0, None, closed="neither")],
    }
    _kept: ClassVar[tuple[str, ...]] = (*TableEstimator._kept, "centre_", "spread_")
    _size: ClassVar[str] = "num_states"

    # -- reading -------------------------------------------------------------------------------------------

    def _dropped(self) -> tuple[str, ...]:
        return (*super()._dropped(), *(name for name in (self.sequence, self.parent) if name is not None))

    def _given(self, X: Any) -> SequenceInput:
        return read_sequences(
            X,
            sequence=self.sequence,
            parent=self.parent,
            missing=() if self.missing is None else tuple(self.missing),
        )

    def _read(self, X: Any, *, fitting: bool = False, y: Any = None, sample_weight: Any = None) -> Sequences:
        given = self._given(X)
        table = self._table(given.source, fitting)
        if fitting:
            continuous = np.array([column.kind == "continuous" for column in table.columns])
            self._describe(Rows(table.values), continuous)
        return Sequences.of(given.forest, table, _weights(sample_weight, len(given.forest)))

    # -- the model -----------------------------------------------------------------------------------------

    def _model(self) -> HiddenMarkov:
        allowed, first = self._allowed()
        initial = self.initial
        if not isinstance(initial, str):
            initial = np.asarray(initial, float)
            if initial.shape != (self.num_states,) or (initial < 0).any() or abs(initial.sum() - 1) > 1e-6:
                raise InputError(
                    f"initial must be {self.num_states} probabilities, got {initial.tolist()!r:.200}"
                )
            first = initial > 0
        one = self.sampler == "one_at_a_time"
        return HiddenMarkov(self._emissions(), allowed, first, initial, self.concentration, one)

    def _allowed(self) -> tuple[Bool[Array, "states states"], Bool[Array, " states"]]:
        count = self.num_states
        if isinstance(self.transitions, str):
            full = self.transitions == "full"
            steps = np.arange(count) - np.arange(count)[:, None]
            allowed = np.ones((count, count), bool) if full else (steps == 0) | (steps == 1)
            return allowed, np.ones(count, bool) if full else np.arange(count) == 0
        allowed = np.asarray(self.transitions, float) > 0
        if allowed.shape != (count, count) or not allowed.any(1).all():
            raise InputError(
                f"transitions must be a {count} x {count} matrix with a positive entry in each row, got shape "
                f"{allowed.shape}"
            )
        return allowed, np.ones(count, bool)

    def _emissions(self) -> list[Emission]:
        """Return a block of all columns of numbers, one of all counts, and one of all symbols."""
        columns, (numbers, counts, symbols) = self.table_columns_, self._of_kinds()
        found: list[Emission] = []
        if numbers:
            centre, spread = self.centre_[list(numbers)], self.spread_[list(numbers)]
            prior = None
            if self._has_prior():
                total = self.num_states * self.num_components
                prior = NormalPrior.weak(self.covariance, centre, spread, total)
            family = Gaussians(self.covariance, centre, spread, prior)
            found.append(Numbers(numbers, self.num_states, self.num_components, family, self.concentration))
        if counts:
            found.append(Events(counts, self.centre_[list(counts)]))
        if symbols:
            described = tuple(columns[j] for j in symbols)
            found.append(Symbols(described, symbols, self.num_states, self.concentration))
        return found

    def _learning(self) -> dict[str, Any]:
        options = super()._learning()
        if isinstance(options["start"], dict):
            options["start"] = self.model_.with_initial(options["start"])
        return options

    def _take(self, learned: Any) -> None:
        for each in (*learned.draws, *(run.parameters for run in learned.runs)):
            each.pop("states", None)
        super()._take(learned)

    @property
    def transitions_(self) -> Float[Array, "states states"]:
        """The probability of each state given the one before."""
        return self.parameters_["transitions"]

    @property
    def initial_(self) -> Float[Array, " states"]:
        """The probability of each first state."""
        return self.parameters_["initial"]

    @property
    def means_(self) -> Float[Array, "states columns"]:
        """The mean of every column in each state; NaN for symbols."""
        return self._moments()[0]

    # -- sequences -----------------------------------------------------------------------------------------

    def posterior(self, X: Any) -> Any:
        """Return the probability of each state at each step, given the whole sequence."""
        model, data, parameters = self._fitted(X)
        return self._given(X).split(model.infer(data, parameters))

    def predict(self, X: Any) -> Any:
        """Return the jointly most likely states (Viterbi's algorithm); of a single step use `posterior`."""
        model, data, parameters = self._fitted(X)
        return self._given(X).split(model.decode(data, parameters))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean log-likelihood of the sequences."""
        model, data, parameters = self._fitted(X, sample_weight)
        return float(np.average(model.log_likelihood(data, parameters), weights=data.weights))

    def forecast(self, X: Any, steps: int = 1) -> Forecast:
        r"""Return the distribution of the next steps of each sequence: :math:`p(z_T \mid x) A^h`, and what it implies.

        Of a column of numbers the mean and the deviation are exact moments of a mixture over the states.
        """
        model, data, parameters = self._fitted(X)
        if not data.forest.is_chain:
            raise InputError("a forecast is of sequences, and some of these are trees")
        if steps < 1:
            raise InputError(f"steps must be at least 1, got {steps}")
        last, there = data.forest.structure_ptr[1:] - 1, np.diff(data.forest.structure_ptr) > 0
        posterior = model.infer(data, parameters)[data.forest.order]
        law = np.empty((len(data), steps, self.num_states))
        now = np.empty((len(data), self.num_states))
        now[there] = posterior[last[there]] @ self.transitions_
        now[~there] = self.initial_
        for step in range(steps):
            law[:, step] = now
            now = now @ self.transitions_
        mean, variance = self._moments()
        found = Forecast(law)
        for j, column in enumerate(self.table_columns_):
            if column.vocabulary is not None:
                found.probabilities[column.name] = law @ parameters[f"probabilities.{column.name}"]
                continue
            found.mean[column.name] = average = law @ mean[:, j]
            squares = law @ (variance[:, j] + mean[:, j] ** 2)
            found.deviation[column.name] = np.sqrt(np.maximum(squares - average**2, 0))
        return found

    def sample(  # type: ignore[override]
        self, n: int = 1, *, length: int = 100, parents: Any = None, random_state: Any = None
    ) -> tuple[list[Any], list[Int[Array, " nodes"]]]:
        """Draw sequences, or trees of given shapes, and their states.

        Parameters
        ----------
        n, length
            How many sequences, and how long each is.
        parents
            A parent array for each tree, -1 for the root; instead of `n` and `length`.
        random_state
            An integer or a generator.

        Returns
        -------
        list, list
            A dict of columns for each, and arrays of states.
        """
        check_is_fitted(self, "parameters_")
        forest = Forest.of_lengths([length] * n) if parents is None else Forest.of_parents(parents)
        generator = self._generator(random_state)
        values, chosen = self.model_.sample(forest, self.parameters_, generator)
        bounds = forest.structure_ptr[1:-1]
        columns = self.table_columns_
        return [Table(part, columns).to_dict() for part in np.split(values, bounds)], np.split(chosen, bounds)

    def _like(self, X: Any, data: Any, filled: Array) -> Any:
        """Return filled observations in the type of X."""
        del data
        given = self._given(X)
        return given.restore(self._table(given.source).with_values(filled))

    # -- criteria ------------------------------------------------------------------------------------------

    def bic(self, X: Any, y: Any = None) -> float:
        r"""Return Schwarz's criterion :math:`-2 \log L + p \log n`, n being the steps with something observed."""
        model, data, parameters = self._fitted(X)
        steps = int((~data.table.missing.all(1))[data.row].sum())
        value = model.log_likelihood(data, parameters).sum()
        return float(self.num_free_ * np.log(max(steps, 1)) - 2 * value)

    def icl(self, X: Any, y: Any = None) -> float:
        """Return the integrated completed likelihood: as BIC, with the most likely states as if they were known."""
        model, data, parameters = self._fitted(X)
        chain = model.chain(data, parameters)
        chosen = states.most_likely_states(data, chain)
        lost = model.log_likelihood(data, parameters).sum() - states.log_joint(data, chain, chosen).sum()
        return self.bic(X) + 2 * float(lost)
