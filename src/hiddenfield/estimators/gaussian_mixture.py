"""GaussianMixture: Gaussian and Student mixtures of rows with holes, in scikit-learn's style."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from hiddenfield.data.rows import Rows
from hiddenfield.errors import InputError
from hiddenfield.estimators.latent import LATENT, OF_LEARNING, LatentEstimator
from hiddenfield.estimators.parameters import COUNT
from hiddenfield.models.gaussian_mixture import MixtureOfGaussians
from hiddenfield.models.gaussians import COVARIANCES, Gaussians, NormalPrior
from hiddenfield.shapes import Array, Float


@LATENT.register(
    "gaussian_mixture",
    summary="groups of rows of numbers, each with its own mean and covariance",
    reference="Ghahramani and Jordan 1994",
    data="table",
)
@dataclass(eq=False, repr=False)
class GaussianMixture(LatentEstimator):
    r"""A mixture of Gaussians, or of Student's t distributions, of rows of numbers with holes.

    What is missing is integrated out exactly, in learning and in use: no row is dropped and nothing is filled in
    beforehand. The other parameters are those of `LatentEstimator`.

    Parameters
    ----------
    num_components
        How many.
    covariance
        "full", "tied" (one for all), "diagonal" or "spherical".
    noise
        Whether there is another component for outliers, uniform over the box of the data.
    freedom
        Degrees of freedom of Student's t distributions, to which outliers matter less; "learned"; None for Gaussians.
    prior
        None for maximum likelihood; "weak" for one that counts as some rows with the scatter of all data, which keeps
        covariances from collapsing (Fraley and Raftery 2007). "auto" is None, unless all runs collapse, which is a
        warning that names the rows; then it is "weak", as it is for variational and gibbs.
    concentration
        Of the Dirichlet prior of the weights.

    Attributes
    ----------
    weights_, means_, covariances_
        The parameters.

    References
    ----------
    Ghahramani and Jordan (1994), Supervised learning from incomplete data via an EM approach; Fraley and Raftery
    (2007), Bayesian regularization for normal mixture estimation and model-based clustering.

    Examples
    --------
    >>> import numpy as np
    >>> from hiddenfield.estimators import GaussianMixture
    >>> X = np.array(
    ...     [[0.0, 0.1], [0.2, np.nan], [0.1, -0.1], [5.0, 5.2], [np.nan, 5.1], [5.2, 5.0], [4.9, 5.3]]
    ... )
    >>> model = GaussianMixture(2, covariance="spherical").fit(X)
    >>> model.predict(X).tolist() in ([0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0])
    True
    >>> model.impute(X)[[1, 4]].round(1).tolist()
    [[0.2, 0.0], [5.0, 5.1]]
    """

    num_components: int = 2
    covariance: str = "full"
    noise: bool = False
    freedom: float | str | None = None
    prior: str | None = "auto"
    concentration: float = 1.0

    _parameter_constraints = OF_LEARNING | {
        "num_components": [COUNT],
        "covariance": [StrOptions(set(COVARIANCES))],
        "noise": ["boolean"],
        "freedom": [Interval(Real, 0, None, closed="neither"), StrOptions({"learned"}), None],
        "prior": [StrOptions({"auto", "weak"}), None],
        "concentration": [Interval(Real, 0, None, closed="neither")],
    }
    _kept: ClassVar[tuple[str, ...]] = (*LatentEstimator._kept, "centre_", "spread_", "box_", "classes_")

    def _read(self, X: Any, *, fitting: bool = False, y: Any = None, sample_weight: Any = None) -> Rows:
        rows = self._rows(X, fitting, sample_weight)
        if not fitting:
            return rows
        self._describe(rows)
        used = ~rows.missing if rows.weights is None else ~rows.missing & (rows.weights > 0)[:, None]
        low, high = np.where(used, rows.values, np.inf).min(0), np.where(used, rows.values, -np.inf).max(0)
        self.box_ = np.array([low, high])
        return rows if y is None else Rows(rows.values, rows.weights, self._labels(y, len(rows)))

    def _labels(self, y: Any, rows: int) -> Array:
        """Return the component of each label, -1 for None, NaN or -1; components beyond the classes are free."""
        given = np.asarray(y, dtype=object).reshape(-1)
        if len(given) != rows:
            raise InputError(
                f"y has one label for each of the {rows} rows (None for unknown), got {len(given)}"
            )
        known = np.array([label is not None and label == label and label != -1 for label in given])
        classes = sorted(set(given[known].tolist()))
        if len(classes) > self.num_components:
            raise InputError(
                f"y has {len(classes)} classes, and there are {self.num_components} components; raise num_components, "
                "or leave y out"
            )
        self.classes_ = np.array(classes)
        return np.array(
            [classes.index(label) if here else -1 for label, here in zip(given, known, strict=True)]
        )

    def _model(self) -> MixtureOfGaussians:
        prior = None
        if self._has_prior():
            prior = NormalPrior.weak(self.covariance, self.centre_, self.spread_, self.num_components)
        return MixtureOfGaussians(
            self.num_components,
            Gaussians(self.covariance, self.centre_, self.spread_, prior),
            concentration=self.concentration,
            freedom=np.nan if isinstance(self.freedom, str) else self.freedom,
            box=self.box_ if self.noise else None,
        )

    @property
    def weights_(self) -> Float[Array, " components"]:
        """The share of each component; the last is the noise's, if there is any."""
        return self.parameters_["weights"]

    @property
    def means_(self) -> Float[Array, "components columns"]:
        """The mean of each component."""
        return self.parameters_["means"]

    @property
    def covariances_(self) -> Array:
        """The covariances, in the shape of their kind: (K, D, D), (D, D), (K, D) or (K,)."""
        return self.parameters_["covariances"]

    def outlyingness(self, X: Any) -> Float[Array, " rows"]:
        r"""Return for each row how far out it lies, from 0 to 1.

        With noise, the posterior probability that it is noise. Otherwise the probability that a row of the component
        which it is nearest to lies nearer than it does: that of a :math:`\chi^2` distribution at its squared
        Mahalanobis distance (of an F distribution for Student's t), with as many degrees of freedom as it has values.
        """
        model, data, parameters = self._fitted(X)
        return model.outlyingness(data, parameters)
