"""Kernels as a classifier and a regressor: support vector machines, or linear models on explicit features."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.base import Fitted, _spread
from hiddenfield.estimators.heads import MOST_COMPARED, Machine, fit_head, fit_machine
from hiddenfield.estimators.inputs import REPRESENTATIONS, Features, rows_read
from hiddenfield.estimators.parameters import COUNT, POSITIVE, check
from hiddenfield.estimators.supervised import PredictsClasses, PredictsNumbers
from hiddenfield.kernels.base import FeatureKernel, Kernel, make_kernel, products
from hiddenfield.learning.linear import Linear
from hiddenfield.shapes import Array, Float, Tensor

MOST_IN_GRAM = 20_000
"""Structures up to which all pairs are compared where there are no explicit features."""


@dataclass(kw_only=True, eq=False, repr=False)
class KernelPredictor(Fitted):
    """Base of the estimators that predict targets by a kernel of structures.

    Structures without a target are left out where it is learned. Parameters of the kernel can be set as the
    estimator's own: ``set_params(rounds=5)``.

    Parameters
    ----------
    kernel
        A name of `hiddenfield.kernels.KERNELS`.
    kernel_options
        Its parameters; it is normalised unless they say otherwise.
    head
        ``"svm"``: a support vector machine (for numbers kernel ridge regression) on the Gram matrix. ``"linear"``:
        logistic or ridge regression on explicit features, or where the kernel has none on its products with
        `landmarks` (Nyström). ``"auto"``: the first up to 5,000 structures, and up to 20,000 for a kernel without
        explicit features.
    strength
        What an error costs a support vector machine; None for the best of 0.01 to 100 on a fifth of the training
        structures.
    landmarks
        How many structures are drawn for these.
    representation, representation_options
        As of `StructureEstimator`.
    random_state
        Of the draws.

    Attributes
    ----------
    kernel_
        The fitted kernel.
    form_
        What the head is given: ``"gram"``, ``"features"`` or ``"landmarks"``.
    heads_
        One for each target.
    """

    kernel: str = "wl_subtree"
    kernel_options: Mapping[str, Any] | None = None
    head: str = "auto"
    strength: float | None = None
    landmarks: int = 1000
    representation: str = "auto"
    representation_options: Mapping[str, Any] | None = None
    random_state: int = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [str],
        "kernel_options": [dict, None],
        "head": [StrOptions({"auto", "svm", "linear"})],
        "strength": [POSITIVE, None],
        "landmarks": [COUNT],
        "representation": [StrOptions({"auto", *REPRESENTATIONS})],
        "representation_options": [dict, None],
        "random_state": ["random_state"],
    }

    # -- parameters ----------------------------------------------------------------------------------------

    @property
    def model(self) -> str:  # type: ignore[override]
        """Its name on the command line."""
        return f"kernel:{self.kernel}"

    def _make(self) -> Kernel:
        return make_kernel(self.kernel, {"normalise": True} | dict(self.kernel_options or {}))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep` those of the kernel too."""
        own: dict[str, Any] = super().get_params(deep=False)
        return self._make().get_params() | own if deep else own

    def set_params(self, **parameters: Any) -> Any:
        """Set parameters, of the estimator or of its kernel."""
        own = {name: value for name, value in parameters.items() if name in self._get_param_names()}
        super().set_params(**own)
        further = {name: value for name, value in parameters.items() if name not in own}
        if further:
            self.kernel_options = dict(self.kernel_options or {}) | further
            self._make()
        return self

    # -- fitting -------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit the kernel, then a head for each target.

        Parameters
        ----------
        X
            Structures.
        y
            Targets; None for the structures' own.
        """
        check(self)
        begun = time.perf_counter()
        structures = self._read_training(X)
        if not len(structures):
            raise InputError("there are no structures to learn from: X is empty")
        structures = self._answered(X, structures, y)
        self.features_ = Features.of(structures)
        self._learn(structures)
        self._learning = time.perf_counter() - begun
        return self

    def _learn(self, structures: Structures) -> None:
        self.structures_, self.kernel_ = structures, self._make()
        explicit, count = isinstance(self.kernel_, FeatureKernel), len(structures)
        few = count <= (MOST_COMPARED if explicit else MOST_IN_GRAM)
        compare = self.head == "svm" or (self.head == "auto" and few)
        self.form_ = "gram" if compare else "features" if explicit else "landmarks"
        self.counts_ = None
        if self.form_ == "gram" and isinstance(self.kernel_, FeatureKernel) and self.kernel_.compact:
            self.counts_ = self.kernel_.fit_transform(structures)
            rows = products(self.counts_, self.counts_)
        elif self.form_ == "gram":
            rows = self.kernel_.fit_gram(structures)
        elif isinstance(self.kernel_, FeatureKernel):
            rows = self.kernel_.fit_transform(structures)
        else:
            from scipy.linalg import eigh

            self.kernel_.fit(structures)
            drawn = np.random.default_rng(self.random_state).permutation(count)[: self.landmarks]
            self.landmarks_ = structures[np.sort(drawn)]
            values, vectors = eigh(self.kernel_.gram(self.landmarks_))
            kept = values > 1e-10 * values.max(initial=0.0)
            self.projection_ = vectors[:, kept] / np.sqrt(values[kept])
            rows = self._represent(structures)
        assert structures.targets is not None
        self.heads_: list[Linear | Machine] = []
        self.present_: list[Array] = []
        for column, y in zip(self.task_.columns, structures.targets.double().cpu().numpy().T, strict=True):
            present = np.flatnonzero(~np.isnan(y))
            classes = None if column.classes is None else len(column.classes)
            if self.form_ == "gram":
                gram = rows[np.ix_(present, present)]
                model, _ = fit_machine(gram, y[present], classes, self.strength, self.random_state)
                head: Linear | Machine = Machine(model, classes)
            else:
                head = fit_head("linear", rows[present], y[present], classes, seed=self.random_state)
            self.heads_.append(head)
            self.present_.append(present)

    def _represent(self, structures: Structures) -> Any:
        """Return the rows that heads are given."""
        from scipy.sparse import csr_matrix

        if self.form_ == "features":
            return self.kernel_.transform(structures)
        if self.form_ == "landmarks":
            return csr_matrix(self.kernel_.gram(structures, self.landmarks_) @ self.projection_)
        if self.counts_ is not None and isinstance(self.kernel_, FeatureKernel):
            return products(self.kernel_.transform(structures), self.counts_)
        return self.kernel_.gram(structures, self.structures_)

    # -- fitted --------------------------------------------------------------------------------------------

    @property
    def num_parameters_(self) -> int:
        """How many weights there are: of structures, in a support vector machine."""
        heads = zip(self.heads_, self.present_, strict=True)
        return sum(head.parameters if isinstance(head, Linear) else len(rows) for head, rows in heads)

    def substructure_weights(self, target: int = 0) -> Float[Array, "substructures outputs"] | None:
        """Return what each column of the kernel's features adds to the answer for one target, before any intercept.

        Of numbers and of two classes one output, the second class being positive; else one for each class. None for a
        kernel without features, features that are not kept (gapped k-mers), or landmarks.
        """
        head, rows = self.heads_[target], self.present_[target]
        if isinstance(head, Linear):
            if self.form_ != "features":
                return None
            weights = head.weights * head.scale[:, None]
            return weights[:, 1:] - weights[:, :1] if head.classes and weights.shape[1] == 2 else weights
        if self.counts_ is None:
            return None
        machine = getattr(head.model, "regressor_", head.model)
        if not hasattr(machine, "dual_coef_"):
            return np.zeros((self.counts_.shape[1], 1))
        dual = np.atleast_2d(machine.dual_coef_)
        if (classes := getattr(machine, "classes_", None)) is None:
            return np.asarray(self.counts_[rows].T @ dual.T)
        held = self.counts_[rows[machine.support_]]
        if len(classes) == 2:
            return np.asarray(held.T @ dual.T)
        # Of classes i < j one machine, positive for i: for vectors of i in row j - 1, for those of j in row i.
        own = np.repeat(np.arange(len(classes)), machine.n_support_)
        share = np.zeros((len(own), len(classes)))
        for k in range(len(own)):
            others = np.delete(np.arange(len(classes)), own[k])
            speaks = np.where(others > own[k], 1, -1) * dual[:, k]
            share[k, own[k]], share[k, others] = speaks.sum(), -speaks
        return np.asarray(held.T @ share)

    def _predictions(self, X: Any) -> list[Float[Array, "members ..."]]:
        check_is_fitted(self, "heads_")
        structures = self.reading_.convert(X)
        rows, read = self._represent(structures), self._rows(X, structures)
        found = []
        for head, present in zip(self.heads_, self.present_, strict=True):
            values = head.predict(rows[:, present] if self.form_ == "gram" else rows)
            found.append(_spread(values, read, X)[None])
        return found

    def embed(self, X: Any) -> Float[Array, "structures width"]:
        """Return similarities to the structures that were learned from, or to the landmarks, or sparse counts' rows."""
        check_is_fitted(self, "heads_")
        structures = self.reading_.convert(X)
        if self.form_ == "features":
            raise InputError(
                f"the features of {self.model} are sparse counts of too many substructures for a table; hiddenfield "
                "kernel writes them as a sparse matrix"
            )
        rows = self._represent(structures)
        return _spread(rows if self.form_ == "gram" else rows.toarray(), rows_read(X, structures), X)

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return "heads_" in vars(self)

    # -- saving --------------------------------------------------------------------------------------------

    def as_saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the structures that it was fitted to, and plain values."""
        pack = self.structures_
        arrays = {
            "node_ptr": pack.node_ptr,
            "source": pack.source,
            "target": pack.target,
            "targets": pack.targets,
        }
        arrays |= {"node_labels": pack.node_labels, "arc_labels": pack.arc_labels}
        return {
            k: v.cpu().contiguous().clone() for k, v in arrays.items() if v is not None
        }, self._described()

    def from_saved(self, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
        """Take over what `as_saved` returned, and fit again."""
        check(self)
        self._take_description(content)
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        options = {
            f"{kind}_{what}": value
            for kind in ("node", "arc")
            if f"{kind}_labels" in arrays
            for what, value in (
                ("labels", arrays[f"{kind}_labels"]),
                ("vocabularies", getattr(self.features_, f"{kind}_vocabularies")),
            )
        }
        columns = self.task_.columns
        pack = Structures.from_arcs(
            arrays["source"],
            arrays["target"],
            node_ptr=arrays["node_ptr"],
            targets=arrays["targets"],
            target_names=[column.name for column in columns],
            target_vocabularies=[column.vocabulary for column in columns],
            **options,
        )
        self._learn(pack)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class KernelClassifier(PredictsClasses, KernelPredictor):
    """Predict classes of structures by a kernel.

    The parameters are those of `KernelPredictor`. Probabilities of a support vector machine are scores brought to sum
    to one, which are not calibrated.

    Examples
    --------
    >>> from hiddenfield.estimators import KernelClassifier
    >>> words = ["GAGA", "TCTC", "GGAA", "TTCC", "AGAG", "CTCT"] * 5
    >>> model = KernelClassifier(kernel="spectrum", kernel_options={"k": 1})
    >>> model.fit(words, ["purine", "other"] * 15).predict(["AGG", "CCT"])
    array(['purine', 'other'], dtype='<U6')
    """


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRegressor(PredictsNumbers, KernelPredictor):
    """Predict numbers from structures by a kernel.

    The parameters are those of `KernelPredictor`.

    Examples
    --------
    >>> from hiddenfield.estimators import KernelRegressor
    >>> words = ["GATTACA", "CAT", "TAGA", "CC", "GATTA", "A"] * 5
    >>> model = KernelRegressor(kernel="spectrum", kernel_options={"k": 1, "normalise": False})
    >>> model.fit(words, [7.0, 3.0, 4.0, 2.0, 5.0, 1.0] * 5).predict(["GATTA", "CC"]).round()
    array([5., 2.])
    """


KERNEL_MACHINES = {one.__name__: one for one in (KernelClassifier, KernelRegressor)}
"""The estimators by class, for saving."""
