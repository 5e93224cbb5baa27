"""Kernels as a classifier and a regressor: support vector machines, or linear models on explicit features."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.structures import Structures
from hiddenfield.errors import InputError
from hiddenfield.estimators.base import Fitted, _spread
from hiddenfield.estimators.heads import HELD_OUT, Machine, fit_head
from hiddenfield.estimators.inputs import REPRESENTATIONS, Features, Reading, rows_read
from hiddenfield.estimators.parameters import COUNT, POSITIVE, as_json, check, from_json
from hiddenfield.estimators.supervised import PredictsClasses, PredictsNumbers
from hiddenfield.estimators.targets import attach
from hiddenfield.kernels.base import FeatureKernel, Kernel, make_kernel
from hiddenfield.learning.linear import Linear
from hiddenfield.learning.task import Task
from hiddenfield.shapes import Array, Float, Tensor

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Of a support vector machine: what an error may cost."""
MOST_COMPARED, MOST_IN_GRAM = 5_000, 20_000
"""Structures up to which all pairs are compared, where there are explicit features and where there are none."""


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
        self.reading_ = Reading.of(X, self.representation, self.representation_options)
        structures = self.reading_.convert(X)
        if not len(structures):
            raise InputError("there are no structures to learn from: X is empty")
        given = None if y is None else len(X)
        columns, self.single_target_ = attach(structures, y, rows_read(X, structures), given)
        structures = self._with_targets(structures, columns)
        self.task_, self.target_kinds_ = Task.of(structures), tuple(column.kind for column in columns)
        self.features_ = Features.of(structures)
        self._learn(structures)
        self.learning_ = time.perf_counter() - begun
        return self

    def _learn(self, structures: Structures) -> None:
        self.structures_, self.kernel_ = structures, self._make()
        explicit, count = isinstance(self.kernel_, FeatureKernel), len(structures)
        few = count <= (MOST_COMPARED if explicit else MOST_IN_GRAM)
        compare = self.head == "svm" or (self.head == "auto" and few)
        self.form_ = "gram" if compare else "features" if explicit else "landmarks"
        if self.form_ == "gram":
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
                head: Linear | Machine = self._machine(rows[np.ix_(present, present)], y[present], classes)
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
        return self.kernel_.gram(structures, self.structures_)

    def _machine(
        self, gram: Float[Array, "rows rows"], y: Float[Array, " rows"], classes: int | None
    ) -> Machine:
        """Fit a support vector machine or kernel ridge regression; the strength is chosen on a fifth of the rows."""
        chosen = STRENGTHS[2] if self.strength is None else self.strength
        order = np.random.default_rng(self.random_state).permutation(len(y))
        held_out, kept = np.split(order, [int(HELD_OUT * len(y))])
        if self.strength is None and len(held_out):
            errors = []
            for strength in STRENGTHS:
                machine = _fitted_machine(gram[np.ix_(kept, kept)], y[kept], classes, strength)
                found = machine.predict(gram[np.ix_(held_out, kept)])
                wrong = (
                    found.argmax(axis=1) != y[held_out] if classes is not None else (found - y[held_out]) ** 2
                )
                errors.append(wrong.mean())
            chosen = STRENGTHS[int(np.argmin(errors))]
        return _fitted_machine(gram, y, classes, chosen)

    # -- fitted --------------------------------------------------------------------------------------------

    @property
    def num_parameters_(self) -> int:
        """How many weights there are: of structures, in a support vector machine."""
        heads = zip(self.heads_, self.present_, strict=True)
        return sum(head.parameters if isinstance(head, Linear) else len(rows) for head, rows in heads)

    @property
    def seconds_(self) -> float:
        """How long fitting took; nothing where the model was loaded."""
        return getattr(self, "learning_", 0.0)

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

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: X holds structures; targets may be missing or several."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.target_tags.multi_output = True
        tags.no_validation = True
        return tags

    # -- saving --------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Save into a folder, to be opened with `hiddenfield.load`, which fits again to the same structures."""
        from hiddenfield.estimators.saving import save

        check_is_fitted(self, "heads_")
        save(self, Path(path), overwrite=overwrite)

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
        content = {
            "features": self.features_.as_dict(),
            "representation": self.reading_.representation,
            "representation_options": as_json("representation_options", dict(self.reading_.options)),
            "task": self.task_.as_dict(),
            "single_target": self.single_target_,
            "target_kinds": list(self.target_kinds_),
        }
        return {k: v.cpu().contiguous().clone() for k, v in arrays.items() if v is not None}, content

    def from_saved(self, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
        """Take over what `as_saved` returned, and fit again."""
        check(self)
        self.features_ = Features.from_dict(content["features"])
        self.task_, self.target_kinds_ = Task.from_dict(content["task"]), tuple(content["target_kinds"])
        self.single_target_ = content["single_target"]
        self.reading_ = Reading(content["representation"], from_json(content["representation_options"]))
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


def _fitted_machine(
    gram: Float[Array, "rows rows"], y: Float[Array, " rows"], classes: int | None, strength: float
) -> Machine:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.dummy import DummyClassifier
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    if classes is None:
        ridge = KernelRidge(alpha=1 / strength, kernel="precomputed")
        return Machine(TransformedTargetRegressor(ridge, transformer=StandardScaler()).fit(gram, y), None)
    codes = y.astype(int)
    several = len(np.unique(codes)) > 1
    machine = SVC(C=strength, kernel="precomputed", break_ties=True) if several else DummyClassifier()
    return Machine(machine.fit(gram, codes), classes)


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
