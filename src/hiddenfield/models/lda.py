r"""Latent Dirichlet allocation: documents are mixtures of topics, and topics distributions of words.

.. math::

    \phi_k \sim \mathrm{Dir}(\eta), \qquad \theta_d \sim \mathrm{Dir}(\alpha), \qquad
    z_{di} \sim \theta_d, \qquad w_{di} \sim \phi_{z_{di}}

The shares :math:`\theta_d` of a document and the topics :math:`z_{di}` of its tokens are hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hiddenfield.data.documents import Documents
from hiddenfield.errors import InputError
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.models.lda_loops import (
    count_words,
    divergences,
    draw_topics,
    expected_logs,
    infer_documents,
    list_topics,
    of_counts,
)
from hiddenfield.models.parts import Composed, Part
from hiddenfield.registry import choose
from hiddenfield.shapes import Array, Float

STARTS = {
    "auto": "documents",
    "random": "topics that differ a little from each other",
    "documents": "each topic from a random document, then some turns in which documents begin anew each time",
}
"""How topics begin. From random ones documents soon keep to some of them, and a worse maximum is found."""

SWEEPS, FEW_SWEEPS, TOLERANCE = 100, 3, 1e-3
"""Updates of a document, at most: from even shares, and from where the last turn ended; their usual tolerance."""

RATE = 0.01
"""Of the exponential prior of learned concentrations, without which those of few documents could be infinite."""

FIRST, COARSE, MOST_STARTING = 10, 0.05, 5000
"""Turns of a start from documents, their tolerance, and the documents that they look at."""

LOWEST = 1e-280
"""Least probability of a word, so that nothing is divided by 0."""


def dirichlet_mode(
    mean_logs: Float[Array, " topics"], count: float, start: Float[Array, " topics"], rate: float = RATE
) -> Float[Array, " topics"]:
    r"""Return the exponents of a Dirichlet distribution that make logarithms of shares most likely.

    .. math::

        \max_\alpha N \Bigl(\log\Gamma(\textstyle\sum_k \alpha_k) - \sum_k \log\Gamma(\alpha_k) + \sum_k \alpha_k g_k
            \Bigr) - \lambda \sum_k \alpha_k

    by Newton's method, whose matrix is diagonal but for a constant (Minka 2000). g = `mean_logs`; with a rate above 0
    there always is a maximum.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> shares = random.dirichlet([0.5, 2.0, 1.0], size=20_000)
    >>> dirichlet_mode(np.log(shares).mean(axis=0), 20_000, np.ones(3)).round(1)
    array([0.5, 2. , 1. ])
    """
    from scipy.special import digamma, gammaln, polygamma

    def objective(a: Array) -> float:
        return float(count * (gammaln(a.sum()) - gammaln(a).sum() + a @ mean_logs) - rate * a.sum())

    now = start
    value = objective(now)
    for _ in range(100):
        gradient = count * (digamma(now.sum()) - digamma(now) + mean_logs) - rate
        diagonal, constant = -count * polygamma(1, now), count * polygamma(1, now.sum())
        shift = constant * (gradient / diagonal).sum() / (1 + constant * (1 / diagonal).sum())
        step = (gradient - shift) / diagonal
        pace = 1.0
        while True:
            ahead = now - pace * step
            if (ahead > 0).all() and (found := objective(ahead)) >= value:
                break
            pace /= 2
            if pace < 1e-10:
                return now
        gained, now, value = found - value, ahead, found
        if gained <= 1e-12 * (abs(value) + 1):
            break
    return now


@dataclass(frozen=True, eq=False)
class Topics:
    """The distributions of words, with symmetric Dirichlet priors: a `Part`.

    As estimates they have the mode of the density of log ratios, which is the mean, so that every prior is proper.
    """

    smoothing: float
    collapsed: bool = False

    def _mass(self, statistics: Arrays) -> Float[Array, "topics words"]:
        return statistics["topics"] + self.smoothing

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return the most likely distributions."""
        return self.mean({"topics": self._mass(statistics)})

    def log_prior(self, parameters: Arrays) -> float:
        """Return their log density, up to a constant; nothing where they are integrated out."""
        if self.collapsed:
            return 0.0
        return self.smoothing * float(np.log(np.maximum(parameters["topics"], LOWEST)).sum())

    def gradient(self, statistics: Arrays, parameters: Arrays) -> Float[Array, " free"]:
        """Return the slope of the log-likelihood of the filled data and the log prior."""
        mass = self._mass(statistics)
        return (mass - parameters["topics"] * mass.sum(axis=1, keepdims=True))[:, 1:].reshape(-1)

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return logarithms of ratios to the first word."""
        logs = np.log(np.maximum(parameters["topics"], LOWEST))
        return (logs[:, 1:] - logs[:, :1]).reshape(-1)

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the distributions with these ratios."""
        ratios = vector.reshape(len(parameters["topics"]), -1)
        logs = np.concatenate([np.zeros((len(ratios), 1)), ratios], axis=1)
        return self.mean({"topics": np.exp(logs - logs.max(axis=1, keepdims=True))})

    def posterior(self, statistics: Arrays) -> Arrays:
        """Return the exponents of Dirichlet distributions."""
        return {"topics": self._mass(statistics)}

    def plug_in(self, posterior: Arrays) -> Arrays:
        """Return geometric means."""
        by_word = np.ascontiguousarray(posterior["topics"].T)
        out = np.empty_like(by_word)
        expected_logs(by_word, by_word.sum(axis=0), out, work=50 * out.size)
        return {"topics": out.T}

    def divergence(self, posterior: Arrays) -> float:
        """Return the Kullback-Leibler divergence from the prior."""
        from scipy.special import gammaln

        by_word = np.ascontiguousarray(posterior["topics"].T)
        (words, topics), out, total = by_word.shape, np.empty(len(by_word)), by_word.sum(axis=0)
        divergences(by_word, total, self.smoothing, out, work=50 * by_word.size)
        constant = words * gammaln(self.smoothing) - gammaln(words * self.smoothing)
        return float(out.sum() + gammaln(total).sum() + topics * constant)

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Return the means given the topics of all tokens, of which alone there are draws."""
        return self.mean(posterior)

    def mean(self, posterior: Arrays) -> Arrays:
        """Return the means."""
        return {"topics": posterior["topics"] / posterior["topics"].sum(axis=1, keepdims=True)}


@dataclass(frozen=True, eq=False)
class Concentration:
    """The exponents of the distribution of shares, learned or given, and what goes with each document: a `Part`."""

    model: TopicModel

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Return what is best for the shares of the documents."""
        kept = {name: statistics[name] for name in TopicModel.carried if name in statistics}
        given = statistics["concentration"] / statistics.get("batches", 1)
        if self.model.learned and "mean_logs" in statistics and (count := float(statistics["count"])) > 0:
            given = dirichlet_mode(statistics["mean_logs"] / count, count, given)
        return {"concentration": given, **kept}

    def posterior(self, statistics: Arrays) -> Arrays:
        """Return the same: of this there is no distribution."""
        return self.maximize(statistics, {})

    def plug_in(self, posterior: Arrays) -> Arrays:
        """Return the same."""
        return {name: value for name, value in posterior.items() if name != "topics"}

    def draw(self, posterior: Arrays, generator: np.random.Generator) -> Arrays:
        """Return the same."""
        return self.plug_in(posterior)

    def mean(self, posterior: Arrays) -> Arrays:
        """Return the exponents."""
        return {"concentration": posterior["concentration"]}

    def log_prior(self, parameters: Arrays) -> float:
        """Return the log density of what is learned."""
        return -RATE * float(parameters["concentration"].sum()) if self.model.learned else 0.0

    def gradient(self, statistics: Arrays, parameters: Arrays) -> Float[Array, " free"]:
        """Return the slope of the log-likelihood of the filled data and the log prior."""
        from scipy.special import digamma

        if not self.model.learned:
            return np.empty(0)
        given, count = parameters["concentration"], statistics["count"]
        slope = count * (digamma(given.sum()) - digamma(given)) + statistics["mean_logs"] - RATE
        return given * slope

    def divergence(self, posterior: Arrays) -> float:
        """Return what the prior takes from the bound."""
        return -self.log_prior(posterior)

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return logarithms."""
        return np.log(parameters["concentration"]) if self.model.learned else np.empty(0)

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the exponents with these logarithms."""
        rest = self.plug_in(parameters)
        return rest | {"concentration": np.exp(vector)} if self.model.learned else rest


@dataclass(frozen=True, eq=False)
class TopicModel(Composed):
    """The model that `fit_em` learns from `Documents`; parameters are ``topics`` (K, W) and ``concentration`` (K).

    Parameters
    ----------
    num_topics, num_words
        K and W.
    smoothing
        Of the topics: the exponent of their symmetric Dirichlet priors.
    concentration
        Of the shares; where it is learned, the exponents that it begins with.
    learned
        Whether the concentration is learned, an exponent for each topic.
    whole
        Whether each turn sees all documents, so that the next can begin where it ended.
    collapsed
        Whether topics are integrated out, as they are by Gibbs sampling.
    tolerance
        The mean change of the tokens of a document with a topic that ends its updates.

    References
    ----------
    Blei, Ng and Jordan (2003), Latent Dirichlet allocation; Griffiths and Steyvers (2004), Finding scientific topics;
    Hoffman, Blei and Bach (2010), Online learning for latent Dirichlet allocation; Wallach, Mimno and McCallum (2009),
    Rethinking LDA: why priors matter.
    """

    num_topics: int
    num_words: int
    smoothing: float
    concentration: float
    learned: bool = True
    whole: bool = True
    collapsed: bool = False
    tolerance: float = TOLERANCE

    carried = ("expected", "tokens", "listed", "size")
    """What one turn leaves to the next: it belongs to the documents, and is no parameter."""
    most_draws = 10
    """Draws that are kept: each is as large as all topics."""

    @property
    def monotone(self) -> bool:
        """Whether the bound rises with every turn, as it does where documents go on from where they were."""
        return self.whole

    @property
    def parts(self) -> Sequence[Part]:
        """Topics, and the concentration of shares."""
        return Topics(self.smoothing, self.collapsed), Concentration(self)

    def start(self, data: Documents, how: str, generator: np.random.Generator) -> Arrays:
        """Return random topics, or those of a few random documents each."""
        choose("start", STARTS, how)
        prior = np.full(self.num_topics, float(self.concentration))
        if how == "random" or self.collapsed:
            mass = generator.gamma(100, 0.01, (self.num_words, self.num_topics))
            return {"topics": (mass / mass.sum(axis=0)).T, "concentration": prior}
        some = data
        if len(data) > MOST_STARTING:
            some = data[np.sort(generator.choice(len(data), MOST_STARTING, replace=False))]
        chosen = generator.choice(len(some), self.num_topics, replace=self.num_topics > len(some))
        mass = some.counts[chosen].toarray() + generator.gamma(100, 0.01, (self.num_topics, self.num_words))
        now = {"topics": mass / mass.sum(axis=1, keepdims=True), "concentration": prior}
        anew = replace(self, whole=False, tolerance=COARSE)
        for _ in range(FIRST):
            found = anew.posterior(anew.expected_statistics(some, now, Fill()))
            now = anew.plug_in(found)
        return anew.mean(found)

    # -- the E step ----------------------------------------------------------------------------------------

    def expected_statistics(self, data: Documents, parameters: Arrays, fill: Fill) -> Arrays:
        """Return the tokens of each word with each topic, expected or drawn, and sums over the documents."""
        if fill.kind == "sample":
            return self._drawn(data, parameters, fill.generator)
        begin = parameters.get("expected") if self.whole else None
        carry = begin is not None and begin.shape == (len(data), self.num_topics)
        found, scale, weight, law = self._inferred(
            data, parameters, begin if carry else None, FEW_SWEEPS if carry else SWEEPS
        )
        words, out = data.by_word, np.empty_like(law)
        pointers = words.indptr, words.indices, words.data
        count_words(*pointers, law, weight, scale, out, work=out.size + data.counts.nnz * self.num_topics)
        statistics: Arrays = {
            "objective": np.asarray(found["bound"].sum()),
            "count": np.asarray(float(len(data))),
            "topics": out.T,
            "concentration": parameters["concentration"],
            "batches": np.asarray(1.0),
        }
        if self.learned:
            from scipy.special import digamma

            mass = found["expected"] + parameters["concentration"]
            logs = digamma(mass) - digamma(mass.sum(axis=1, keepdims=True))
            statistics["mean_logs"] = logs.sum(axis=0)
        return statistics | ({"expected": found["following"]} if self.whole else {})

    def _inferred(
        self, data: Documents, parameters: Arrays, begin: Array | None, sweeps: int
    ) -> tuple[Arrays, Array, Array, Array]:
        """Return what is known of each document and entry; see `infer_documents`."""
        counts, (documents, topics) = data.counts, (len(data), self.num_topics)
        law = np.maximum(np.ascontiguousarray(parameters["topics"].T), LOWEST)
        even = data.lengths[:, None] / topics
        found = {
            "expected": np.repeat(even, topics, axis=1) if begin is None else begin.copy(),
            "following": np.empty((documents, topics)),
            "bound": np.empty(documents),
        }
        weight, scale = np.empty((documents, topics)), np.empty(counts.nnz)
        infer_documents(
            counts.indptr, counts.indices, counts.data, law, parameters["concentration"], sweeps, self.tolerance,
            found["expected"], found["following"], weight, scale, found["bound"], work=counts.nnz * topics,
        )  # fmt: skip
        return found, scale, weight, law

    def _drawn(self, data: Documents, parameters: Arrays, generator: np.random.Generator | None) -> Arrays:
        """Draw the topic of every token given all others, once."""
        from scipy.special import gammaln

        assert generator is not None
        if (data.counts.data % 1 != 0).any():
            raise InputError("tokens are drawn one by one: fill='gibbs' needs whole numbers as counts")
        (ptr, document), room = data.tokens, np.minimum(data.lengths, self.num_topics).astype(np.int64)
        room = np.concatenate([[0], np.cumsum(room)])
        prior, (words, topics) = parameters["concentration"].copy(), (self.num_words, self.num_topics)
        state = {name: parameters[name].copy() for name in self.carried if name in parameters}
        if "tokens" not in state:
            state["tokens"] = generator.integers(topics, size=len(document), dtype=np.int32)
            state["listed"] = np.zeros(2 * room[-1], np.int32)
            state["size"] = np.zeros(len(data), np.int32)
            list_topics(ptr, document, state["tokens"], room, state["listed"], state["size"])
        lists = state["listed"], state["size"]
        flat = np.repeat(np.arange(words), np.diff(ptr)) * topics + state["tokens"]
        counts = np.bincount(flat, minlength=words * topics).astype(np.int32).reshape(words, topics)
        random = generator.integers(1, 2**63, size=1, dtype=np.uint64)
        draw_topics(
            ptr, document, prior, self.smoothing, state["tokens"], counts, counts.sum(axis=0), room, *lists, random,
            np.empty((2, topics)),
        )  # fmt: skip
        value, slope = np.zeros(1), np.empty(topics + 1)
        of_counts(prior, room, *lists, value, slope)
        table = gammaln(np.arange(counts.max(initial=0) + 1) + self.smoothing) - gammaln(self.smoothing)
        whole = words * self.smoothing
        objective = value[0] + table[counts].sum() + (gammaln(whole) - gammaln(counts.sum(0) + whole)).sum()
        if self.learned:  # one of Minka's updates
            prior = np.maximum(prior * slope[:-1] / (slope[-1] + RATE), 1e-6)
        return {
            "objective": np.asarray(objective),
            "count": np.asarray(float(len(data))),
            "topics": counts.astype(np.float64).T,
            "concentration": prior,
            **state,
        }

    # -- documents -----------------------------------------------------------------------------------------

    def log_likelihood(self, data: Documents, parameters: Arrays) -> Float[Array, " documents"]:
        """Return a lower bound of the log-likelihood of each document."""
        return self._inferred(data, parameters, None, SWEEPS)[0]["bound"]

    def infer(self, data: Documents, parameters: Arrays) -> Float[Array, "documents topics"]:
        """Return the expected shares of the topics."""
        mass = self._inferred(data, parameters, None, SWEEPS)[0]["following"] + parameters["concentration"]
        return mass / mass.sum(axis=1, keepdims=True)

    def sample(
        self, lengths: Float[Array, " documents"], parameters: Arrays, generator: np.random.Generator
    ) -> tuple[Any, Float[Array, "documents topics"]]:
        """Draw documents of about these lengths: counts of words, and shares of topics."""
        shares = generator.dirichlet(parameters["concentration"], size=len(lengths))
        tokens = generator.poisson(lengths)
        law = shares @ parameters["topics"]
        return generator.multinomial(tokens, law / law.sum(axis=1, keepdims=True)), shares
