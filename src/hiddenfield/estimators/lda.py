"""LatentDirichletAllocation: topics of documents, in scikit-learn's style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from hiddenfield.data.documents import Documents, as_documents
from hiddenfield.errors import InputError
from hiddenfield.estimators.latent import LATENT, OF_LEARNING, LatentEstimator
from hiddenfield.estimators.parameters import COUNT
from hiddenfield.learning.em import ACCELERATIONS
from hiddenfield.learning.shards import Shards
from hiddenfield.models.lda import TopicModel
from hiddenfield.shapes import Array, Float

CONCENTRATION = 0.1
"""Where a concentration begins that is learned."""


@LATENT.register(
    "lda",
    summary="topics: documents are mixtures of topics, and topics distributions of words",
    reference="Blei et al. 2003",
    data="documents",
)
@dataclass(eq=False, repr=False)
class LatentDirichletAllocation(TransformerMixin, LatentEstimator):  # type: ignore[misc]
    r"""Topics of documents, of which only the counts of words are known.

    .. math:: p(w_d \mid \alpha, \phi) = \int \mathrm{Dir}(\theta \mid \alpha) \prod_i \sum_k \theta_k \phi_{k w_{di}}

    Documents are whatever `hiddenfield.data.as_documents` reads: a ``.ldac`` file, a matrix of counts (rows are
    documents), a data frame whose columns are words, texts, or lists of words. The other parameters are those of
    `LatentEstimator`.

    Parameters
    ----------
    num_components
        How many topics.
    smoothing
        The exponent of the symmetric Dirichlet prior of the topics.
    concentration
        The exponent of the Dirichlet prior of the shares of topics in a document; "learned": one for each topic, by
        maximum likelihood (Minka).
    fill
        "variational": variational Bayes, in batches (`batch_size`) stochastic variational inference. "gibbs": collapsed
        Gibbs sampling, of which the mean over the second half of the turns is kept. "expectation": variational EM,
        with topics as parameters.
    start
        "auto" or "documents": each topic begins with some random documents, and is improved for some turns in which
        nothing is kept of the documents; "random": topics that hardly differ. With fill="gibbs" it has no effect: the
        first topic of every token is drawn evenly.
    words
        The vocabulary, for matrices without names of columns.

    Attributes
    ----------
    topics_
        The probability of each word in each topic.
    concentration_
        The exponent of each topic.
    feature_names_in_
        The words.

    References
    ----------
    Blei, Ng and Jordan (2003), Latent Dirichlet allocation; Hoffman et al. (2013), Stochastic variational inference;
    Griffiths and Steyvers (2004), Finding scientific topics.

    Examples
    --------
    >>> from hiddenfield.estimators import LatentDirichletAllocation
    >>> texts = ["milk bread butter", "bread milk", "wheel brake road", "road wheel", "milk butter"] * 4
    >>> model = LatentDirichletAllocation(2, max_iterations=50).fit(texts)
    >>> sorted(model.top_words(3))
    [['milk', 'bread', 'butter'], ['road', 'wheel', 'brake']]
    >>> model.transform(["bread and butter", "a road"]).argmax(axis=1).tolist() in ([0, 1], [1, 0])
    True
    """

    num_components: int = 10
    smoothing: float = 0.1
    concentration: Any = "learned"
    words: Any = None
    _: KW_ONLY
    fill: str = "variational"
    acceleration: str = "none"
    tolerance: float = 1e-3
    max_iterations: int = 200

    _parameter_constraints = OF_LEARNING | {
        "num_components": [COUNT],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
        "concentration": [StrOptions({"learned"}), Interval(Real, 0, None, closed="neither")],
        "words": ["array-like", None],
        "fill": [StrOptions({"expectation", "variational", "gibbs"})],
        "acceleration": [StrOptions(set(ACCELERATIONS))],
    }
    _kept: ClassVar[tuple[str, ...]] = ("n_features_in_", "feature_names_in_", "mean_length_")

    def _model(self) -> TopicModel:
        learned = self.concentration == "learned"
        begin = CONCENTRATION if learned else float(self.concentration)
        learned = learned and self.num_components > 1  # a single share is always 1
        sizes = self.num_components, self.n_features_in_
        whole = self.batch_size is None and not getattr(self, "_of_shards", False)
        return TopicModel(*sizes, self.smoothing, begin, learned, whole, self.fill == "gibbs")

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn topics; see `LatentEstimator.fit`. Of `Shards` the first says what the words are."""
        if sample_weight is not None:
            raise InputError("documents have no weights: repeat those that count more than once")
        self._of_shards = isinstance(X, Shards)
        if self._of_shards and self.fill == "gibbs":
            raise InputError("fill='gibbs' needs all documents at once; use fill='variational' for shards")
        return super().fit(X)

    def _read(self, X: Any, *, fitting: bool = False, y: Any = None, sample_weight: Any = None) -> Documents:
        if not fitting:
            return as_documents(X, vars(self)["feature_names_in_"].tolist())
        documents = as_documents(X, None if self.words is None else [str(word) for word in self.words])
        if not len(documents) or not documents.lengths.any():
            raise InputError(
                f"there are no words in the {len(documents)} sample(s); give documents with words"
            )
        self.feature_names_in_ = np.array(documents.words, object)
        self.n_features_in_ = len(documents.words)
        self.mean_length_ = float(documents.lengths.mean())
        return documents

    # -- topics --------------------------------------------------------------------------------------------

    @property
    def topics_(self) -> Float[Array, "topics words"]:
        """The probability of each word in each topic."""
        return self.parameters_["topics"]

    @property
    def concentration_(self) -> Float[Array, " topics"]:
        """The exponent of each topic."""
        return self.parameters_["concentration"]

    def top_words(self, count: int = 10) -> list[list[str]]:
        """Return the most probable words of each topic."""
        check_is_fitted(self, "parameters_")
        order = np.argsort(-self.topics_, axis=1, kind="stable")[:, :count]
        return self.feature_names_in_[order].tolist()

    def coherence(self, X: Any, count: int = 10) -> Float[Array, " topics"]:
        r"""Return how often the top words of each topic occur together: their mean normalised pointwise information.

        .. math:: \frac{\log \frac{p(w, v)}{p(w) p(v)}}{-\log p(w, v)}

        averaged over pairs of the `count` most probable words, with p the shares of the documents X that have the
        words: 1 where they always occur together, 0 where they do so by chance, -1 where they never do.

        References
        ----------
        Bouma (2009), Normalized (pointwise) mutual information in collocation extraction; Röder, Both and Hinneburg
        (2015), Exploring the space of topic coherence measures.
        """
        _, documents, _ = self._fitted(X)
        there = documents.counts.astype(bool).astype(np.float64).tocsc()
        scores = []
        for own in np.argsort(-self.topics_, axis=1, kind="stable")[:, :count]:
            part = there[:, own]
            both = (part.T @ part).toarray() / len(documents)
            alone = np.diag(both)
            first, second = np.triu_indices(len(own), 1)
            p, q = both[first, second], alone[first] * alone[second]
            with np.errstate(divide="ignore", invalid="ignore"):
                value = np.where(p >= 1, 1.0, np.log(p / q) / -np.log(p))
            scores.append(np.where(p > 0, value, -1.0).mean() if len(p) else np.nan)
        return np.array(scores)

    # -- documents -----------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Float[Array, "documents topics"]:
        """Return the expected shares of the topics in each document, seen or not."""
        return self.posterior(X)

    def log_likelihood(self, X: Any, y: Any = None) -> Float[Array, " documents"]:
        """Return a lower bound of the log-likelihood of each document, its shares integrated out."""
        return super().log_likelihood(X)

    def perplexity(self, X: Any, *, random_state: Any = None) -> float:
        r"""Return the perplexity of the second halves of documents given the first: document completion.

        .. math::

            \exp\Bigl(-\frac{1}{N} \sum_{d, i} \log \sum_k \hat\theta_{dk} \phi_{k w_{di}}\Bigr)

        over N tokens. The tokens of each document are split at random; :math:`\hat\theta_d` is inferred from one half.
        Of documents that were not learned from it measures prediction; lower is better.

        References
        ----------
        Wallach, Murray, Salakhutdinov and Mimno (2009), Evaluation methods for topic models.
        """
        model, documents, parameters = self._fitted(X)
        if (documents.counts.data % 1 != 0).any():
            raise InputError("tokens are split into halves: counts must be whole numbers")
        first, second = documents.halves(self._generator(random_state))
        counts, shares = second.counts.tocoo(), model.infer(first, parameters)
        if not counts.nnz:
            raise InputError("no document has a word of the vocabulary; there is nothing to predict")
        row, column = counts.coords
        by_word, total = np.ascontiguousarray(parameters["topics"].T), 0.0
        for begin in range(0, counts.nnz, 1 << 16):
            part = slice(begin, begin + (1 << 16))
            law = np.einsum("ij,ij->i", shares[row[part]], by_word[column[part]])
            total += float(counts.data[part] @ np.log(law))
        return float(np.exp(-total / counts.data.sum()))

    def sample(
        self, n: int = 1, *, length: float | None = None, random_state: Any = None
    ) -> tuple[Array, Float[Array, "documents topics"]]:
        """Draw documents, of Poisson length with the mean of those learned from, and their shares of topics."""
        check_is_fitted(self, "parameters_")
        lengths = np.full(n, self.mean_length_ if length is None else length)
        return self.model_.sample(lengths, self.parameters_, self._generator(random_state))

    def _complete(self, *_: Any, **__: Any) -> Any:
        raise InputError(
            "documents are counts of words, of which none is missing: there is nothing to fill in"
        )

    impute = sample_missing = multiple_imputation = _complete

    def icl(self, X: Any, y: Any = None) -> float:
        """Refuse: what is hidden in a document is not one of several components."""
        raise InputError(
            "a document has shares of topics, not one of them: choose by bic or cross_validation"
        )

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> Array:
        """Return a name for each topic."""
        return np.array([f"topic{k}" for k in range(self.num_components)], object)

    def __sklearn_tags__(self) -> Any:
        """Say that counts are wanted, which may be sparse, and none missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan, tags.input_tags.sparse, tags.input_tags.positive_only = False, True, True
        return tags
