"""VariationalAutoencoder: a deep latent-variable model of tables of mixed columns with holes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions

from hiddenfield.errors import InputError
from hiddenfield.estimators.latent import LATENT
from hiddenfield.estimators.parameters import COUNT, check
from hiddenfield.estimators.rbm import RestrictedBoltzmannMachine, one_run
from hiddenfield.estimators.tables import OF_TABLES, TableEstimator
from hiddenfield.learning.em import Arrays, Learned, Run
from hiddenfield.models.vae import LearnedAutoencoder
from hiddenfield.progress import progress
from hiddenfield.shapes import Array, Float


@LATENT.register(
    "vae",
    summary="rows of any columns decoded from a few latent numbers by a network (variational autoencoder)",
    reference="Kingma & Welling 2014",
    data="table",
    stochastic=True,
)
@dataclass(eq=False, repr=False)
class VariationalAutoencoder(TransformerMixin, TableEstimator):  # type: ignore[misc]
    r"""A variational autoencoder of numbers and symbols, any of which may be missing.

    .. math::

        \log p(x_o) \ge E_{q(z \mid x_o)}[\log p(x_o \mid z)] - \beta\, KL(q(z \mid x_o) \,\|\, N(0, I))

    or, with more than one of `samples`, the importance-weighted bound
    :math:`E \log \tfrac{1}{K} \sum_k p(x_o \mid z_k)\, p(z_k) / q(z_k \mid x_o)`, over the columns o that a row has.
    Numbers are standardised, counts too. Of the parameters of `LatentEstimator`, `max_iterations` is the number of
    passes, `batch_size` that of rows in a batch; `start` may be parameters to go on from. `tolerance`,
    `acceleration` and `checkpoint` are not used; more than one of `restarts` is refused.

    Parameters
    ----------
    num_latent
        Latent numbers of a row.
    hidden
        The size of the hidden layer, or the sizes of several, of the encoder; the decoder has them the other way round.
    samples
        Draws of the bound.
    beta
        How much the divergence counts, with one draw: above 1 latent numbers say less and are less entangled.
    learning_rate
        Of Adam; it falls to 0.
    smoothing
        As if the precisions of columns of numbers had been seen in so many more rows of variance 1.
    draws
        Of z, for likelihoods and for what is missing.

    Attributes
    ----------
    converged_
        True: all passes are taken, and nothing is tested.

    References
    ----------
    Kingma and Welling (2014), Auto-encoding variational Bayes; Burda, Grosse and Salakhutdinov (2016), Importance
    weighted autoencoders; Mattei and Frellsen (2019), MIWAE; Higgins et al. (2017), beta-VAE.

    Examples
    --------
    >>> from hiddenfield.estimators import VariationalAutoencoder
    >>> rows = {"rain": ["no", "no", "yes", None, "yes"] * 9, "wet": ["no", None, "yes", "yes", "yes"] * 9}
    >>> model = VariationalAutoencoder(1, hidden=8, max_iterations=60).fit(rows)
    >>> model.impute(rows)["rain"][:5]
    ['no', 'no', 'yes', 'yes', 'yes']
    """

    num_latent: int = 2
    hidden: Any = 64
    samples: int = 5
    beta: float = 1.0
    learning_rate: float = 0.005
    smoothing: float = 1.0
    draws: int = 500
    _: KW_ONLY
    max_iterations: int = 200
    batch_size: int = 64

    _parameter_constraints = OF_TABLES | {
        "num_latent": [COUNT],
        "hidden": [COUNT, "array-like"],
        "samples": [COUNT],
        "beta": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "smoothing": [Interval(Real, 0, None, closed="left")],
        "draws": [COUNT],
        "batch_size": [COUNT],
        "fill": [StrOptions({"expectation"})],
    }
    _kept: ClassVar[tuple[str, ...]] = (*TableEstimator._kept, "centre_", "spread_")
    _size: ClassVar[str] = "num_latent"
    _takes_constants: ClassVar[bool] = True
    _read = RestrictedBoltzmannMachine._read

    def _model(self) -> LearnedAutoencoder:
        if self.beta != 1 and self.samples != 1:
            raise InputError(
                f"beta={self.beta} is of the bound with one draw; use samples=1, got samples={self.samples}"
            )
        states = tuple(max(c.num_states, 2) if c.num_states else 0 for c in self.table_columns_)
        hidden = tuple(np.atleast_1d(np.asarray(self.hidden, np.int64)).tolist())
        return LearnedAutoencoder(
            states,
            self.centre_,
            self.spread_,
            self.num_latent,
            hidden,
            float(self.beta),
            self.samples,
            float(self.smoothing),
            self.draws,
            self._seed(),
        )

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn the networks by stochastic gradients; see `LatentEstimator.fit`."""
        check(self)
        one_run(self)
        data = self._read(X, fitting=True, sample_weight=sample_weight)
        if not isinstance(self.start, Mapping) and self.start not in ("auto", "random"):
            raise InputError(
                f"an autoencoder starts from 'random' weights, or from parameters, got {self.start!r}"
            )
        self.model_ = model = self._model()
        trace: list[float] = []
        count = float(data.weights.sum()) if data.weights is not None else float(len(data))
        with progress(self.max_iterations, f"learning {type(self).__name__}", shown=self.verbose) as advance:

            def after(bound: float) -> None:
                trace.append(count * bound)
                advance(1)

            parameters = model.fit(
                data,
                passes=self.max_iterations,
                batch=self.batch_size,
                learning_rate=self.learning_rate,
                begin=dict(self.start) if isinstance(self.start, Mapping) else None,
                after=after,
            )
        weights = np.ones(len(data)) if data.weights is None else data.weights
        objective = float(weights @ model.log_likelihood(data, parameters)) + model.log_prior(parameters)
        status = f"{self.max_iterations} passes of stochastic gradients"
        run = Run(parameters, None, objective, trace, True, status)
        self._take(Learned(run, [run], status))
        return self

    def transform(self, X: Any) -> Float[Array, "rows latent"]:
        """Return the posterior mean of the latent numbers of each row, given what is known of it."""
        return self.posterior(X)

    def predict(self, X: Any) -> Float[Array, "rows latent"]:
        """Return the same."""
        return self.posterior(X)

    def icl(self, X: Any, y: Any = None) -> float:
        """Refuse: what is hidden in a row is not one of several components."""
        raise InputError(
            "a row has latent numbers, not one of several components; choose by cross_validation"
        )

    def standard_errors(self, X: Any, sample_weight: Any = None) -> Arrays:
        """Refuse: weights of a network are not identified."""
        raise InputError(
            "an autoencoder has no standard errors: its units can change places, so that the data do not tell its "
            "weights apart"
        )

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> Array:
        """Return a name for each latent number."""
        return np.array([f"latent{k}" for k in range(self.num_latent)], object)
