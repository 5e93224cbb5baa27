"""RestrictedBoltzmannMachine: hidden binary features of tables of mixed columns with holes, in scikit-learn's style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.rows import Rows
from hiddenfield.data.table import Table
from hiddenfield.errors import InputError
from hiddenfield.estimators.latent import LATENT, LatentEstimator
from hiddenfield.estimators.parameters import COUNT, check
from hiddenfield.estimators.tables import OF_TABLES, TableEstimator
from hiddenfield.learning.em import ACCELERATIONS, Arrays, Learned, Run
from hiddenfield.models.rbm import LearnedMachine
from hiddenfield.progress import progress
from hiddenfield.shapes import Array, Float, Int

METHODS = {
    "auto": "exact for few hidden variables, otherwise persistent",
    "exact": "the gradient by sums over all hidden states, climbed by a quasi-Newton method",
    "persistent": "stochastic gradients by chains that go on from batch to batch (stochastic maximum likelihood)",
    "contrastive": "stochastic gradients by chains that begin at the rows (contrastive divergence)",
}
"""How a machine is learned."""

FEW = 10
"""Hidden variables up to which "auto" is exact."""


def one_run(model: LatentEstimator) -> None:
    """Refuse more than one run, which stochastic gradients would silently do without."""
    if model.restarts != 1:
        raise InputError(
            f"stochastic gradients have one run, from one start; use restarts=1, got {model.restarts}"
        )


@LATENT.register(
    "rbm",
    summary="hidden binary features of rows of any columns (restricted Boltzmann machine)",
    reference="Hinton 2002",
    data="table",
)
@dataclass(eq=False, repr=False)
class RestrictedBoltzmannMachine(TransformerMixin, TableEstimator):  # type: ignore[misc]
    r"""A restricted Boltzmann machine of numbers and symbols, any of which may be missing.

    .. math::

        P(v) = \frac{1}{Z} \sum_h \exp\Bigl(\sum_i a_i h_i + \sum_j b_j v_j + \sum_{ij} w_{ij} h_i v_j
            - \tfrac{1}{2} \sum_{j \in G} p_j v_j^2\Bigr)

    Numbers (G; counts too) are standardised, and have a precision each; a symbol is one unit for each of its states
    but the first. What a row misses is summed out, in learning and wherever a likelihood is asked for. The other
    parameters are those of `LatentEstimator` and `TableEstimator`; of `fill`, `tolerance`, `max_iterations`,
    `acceleration` and `checkpoint` stochastic gradients use none, and more than one of `restarts` they refuse.

    Parameters
    ----------
    num_hidden
        Hidden variables.
    method
        One of `METHODS`.
    l2, smoothing
        The penalty :math:`\tfrac{\lambda}{2} \lVert w\rVert^2` of the weights, and the prior of precisions: as if
        there were so many more rows of variance 1.
    steps, epochs, learning_rate, batch_size
        Of stochastic gradients: sweeps of Gibbs sampling for each batch, passes over the rows, the rate of Adam, which
        falls to 0, and rows in a batch.

    Attributes
    ----------
    converged_
        Whether the best run ended by the tolerance; True after stochastic gradients, which take all their epochs and
        test nothing.
    log_partition_, log_partition_error_
        log Z of standardised rows, and its standard error: 0 where it is summed, otherwise by annealed importance
        sampling.

    References
    ----------
    Hinton (2002), Training products of experts by minimizing contrastive divergence; Tieleman (2008), Training
    restricted Boltzmann machines using approximations to the likelihood gradient; Salakhutdinov and Murray (2008), On
    the quantitative analysis of deep belief networks.

    Examples
    --------
    >>> from hiddenfield.estimators import RestrictedBoltzmannMachine
    >>> rows = {"rain": ["no", "no", "yes", None, "yes"], "wet": ["no", None, "yes", "yes", "yes"]}
    >>> model = RestrictedBoltzmannMachine(2).fit(rows)
    >>> model.impute(rows)["rain"]
    ['no', 'no', 'yes', 'yes', 'yes']
    >>> model.transform(rows).shape
    (5, 2)
    """

    num_hidden: int = 6
    method: str = "auto"
    l2: float = 0.01
    smoothing: float = 1.0
    steps: int = 1
    epochs: int = 100
    learning_rate: float = 0.01
    _: KW_ONLY
    acceleration: str = "quasi_newton"
    max_iterations: int = 2000
    batch_size: int = 50

    _parameter_constraints = OF_TABLES | {
        "num_hidden": [COUNT],
        "method": [StrOptions(set(METHODS))],
        "l2": [Interval(Real, 0, None, closed="left")],
        "smoothing": [Interval(Real, 0, None, closed="left")],
        "steps": [COUNT],
        "epochs": [COUNT],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "acceleration": [StrOptions({*ACCELERATIONS, "quasi_newton"})],
        "batch_size": [COUNT],
    }
    _kept: ClassVar[tuple[str, ...]] = (*TableEstimator._kept, "centre_", "spread_")
    _size: ClassVar[str] = "num_hidden"
    _takes_constants: ClassVar[bool] = True

    @property
    def _exact(self) -> bool:
        return self.method == "exact" or (self.method == "auto" and self.num_hidden <= FEW)

    def _read(self, X: Any, *, fitting: bool = False, y: Any = None, sample_weight: Any = None) -> Rows:
        table: Table = self._table(X, fitting, sample_weight)
        rows = Rows(table.values, table.weights)
        if fitting:
            self._describe(rows, False)
            symbols = [column.vocabulary is not None for column in table.columns]
            self.spread_[(self.spread_ <= 1e-12 * np.abs(self.centre_)) | symbols] = 1.0
            self.centre_[symbols] = 0.0
        return rows

    def _model(self) -> LearnedMachine:
        if self._exact and self.num_hidden > 20:
            raise InputError(
                f"sums over all states of {self.num_hidden} hidden variables are too large; use method='persistent'"
            )
        states = tuple(column.num_states for column in self.table_columns_)
        most = self.num_hidden if self.method == "exact" else FEW
        given = self.centre_, self.spread_, self.l2, self.smoothing, most, self._seed()
        return LearnedMachine(
            tuple(max(count, 2) if count else 0 for count in states), self.num_hidden, *given
        )

    def _learning(self) -> dict[str, Any]:
        return super()._learning() | {"batch_size": None}

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn the parameters; see `LatentEstimator.fit`. By stochastic gradients there is one run, from one start."""
        check(self)
        if self._exact:
            return super().fit(X, y, sample_weight)
        one_run(self)
        data = self._read(X, fitting=True, sample_weight=sample_weight)
        self.model_ = model = self._model()
        start = self._learning()["start"]
        begin = start
        if isinstance(start, str):
            begin = model.start(data, start, np.random.default_rng(self._seed()))
        random = torch.Generator().manual_seed(self._seed())
        options = {"epochs": self.epochs, "steps": self.steps, "learning_rate": self.learning_rate}
        with (
            progress(self.epochs, f"learning {type(self).__name__}", shown=self.verbose) as advance,
            torch.no_grad(),
        ):
            machine = model.fit(
                data,
                begin,
                random,
                self.batch_size,
                persistent=self.method != "contrastive",
                decay=True,
                after=lambda _: advance(1),
                **options,
            )
        parameters = model.parameters(machine)
        parameters["log_partition"] = np.array(model.log_partition(parameters))
        weights = np.ones(len(data)) if data.weights is None else data.weights
        objective = float(weights @ model.log_likelihood(data, parameters)) + model.log_prior(parameters)
        status = f"{self.epochs} epochs of stochastic gradients"
        run = Run(parameters, None, objective, [objective], True, status)
        self._take(Learned(run, [run], status))
        return self

    # -- what was found ------------------------------------------------------------------------------------

    @property
    def log_partition_(self) -> float:
        """Log Z of standardised rows."""
        return self._log_partition[0]

    @property
    def log_partition_error_(self) -> float:
        """Its standard error."""
        return self._log_partition[1]

    @property
    def _log_partition(self) -> tuple[float, float]:
        check_is_fitted(self, "parameters_")
        if "log_partition" in self.parameters_:
            value, error = self.parameters_["log_partition"].tolist()
            return value, error
        return self.model_.log_partition(self.parameters_)

    def transform(self, X: Any) -> Float[Array, "rows hidden"]:
        """Return the probability that each hidden variable is 1, given what is known of each row."""
        return self.posterior(X)

    def predict(self, X: Any) -> Int[Array, "rows hidden"]:
        """Return the more likely state of each hidden variable."""
        return (self.posterior(X) > 0.5).astype(np.int64)

    def free_energy(self, X: Any) -> Float[Array, " rows"]:
        r"""Return :math:`-\log \sum_h e^{-E(h, v)}` of each row, what it misses summed out: small for likely rows.

        v is standardised, as log Z is: where rows miss different numbers, this and the log-likelihood differ by more
        than a constant.
        """
        model, data, parameters = self._fitted(X)
        standardised = model.log_likelihood(data, parameters) + ~data.missing @ np.log(self.spread_)
        return -standardised - self.log_partition_

    def reconstruct(self, X: Any) -> Any:
        """Return every cell as it is expected given the hidden variables of its row, in the type that came."""
        model, data, parameters = self._fitted(X)
        return self._like(X, data, model.reconstruct(data, parameters))

    def scores(self, X: Any) -> Float[Array, "rows free"]:
        """Return Fisher scores; see `LatentEstimator.scores`. Where log Z is estimated there are none."""
        check_is_fitted(self, "parameters_")
        if not self.model_.exact:
            raise InputError(
                f"with {self.num_hidden} hidden variables log Z is estimated, and differences of estimates are noise; "
                f"have at most {FEW}, or learn with method='exact'"
            )
        return super().scores(X)

    def standard_errors(self, X: Any, sample_weight: Any = None) -> Arrays:
        """Return standard errors; see `LatentEstimator.standard_errors`. Stochastic gradients have none."""
        check_is_fitted(self, "parameters_")
        if "log_partition" in self.parameters_:
            raise InputError(
                "stochastic gradients end near a maximum of the likelihood, and standard errors are of a maximum; "
                "learn with method='exact'"
            )
        return super().standard_errors(X, sample_weight)

    def icl(self, X: Any, y: Any = None) -> float:
        """Refuse: what is hidden in a row is not one of several components."""
        raise InputError("a row has several hidden variables, not one of several components; choose by bic")

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> Array:
        """Return a name for each hidden variable."""
        return np.array([f"hidden{k}" for k in range(self.num_hidden)], object)
