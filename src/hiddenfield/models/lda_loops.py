r"""Compiled loops of latent Dirichlet allocation: what is hidden in documents, inferred or drawn.

Topics are laid out word by word, (words, topics), so that all that is known of a word lies together.
"""

from __future__ import annotations

import numpy as np

from hiddenfield.inference.sampling.loops import uniform
from hiddenfield.ops.compile import compiled, prange
from hiddenfield.ops.gamma import digamma, log_gamma
from hiddenfield.ops.vector_math import fast_exp, fast_log, unchecked
from hiddenfield.shapes import Array


@compiled(reorder=True)
def infer_documents(
    ptr: Array,
    word: Array,
    count: Array,
    law: Array,
    prior: Array,
    most: int,
    tolerance: float,
    expected: Array,
    following: Array,
    weight: Array,
    scale: Array,
    bound: Array,
) -> None:
    r"""Alternate between the topics of tokens and the shares of topics, document by document.

    With B = `law`, :math:`\gamma = \alpha + n` and :math:`e_k = \exp(\psi(\gamma_k) - \psi(\sum \gamma))`,

    .. math:: n_k \leftarrow e_k \sum_w c_w B_{wk} / \sum_l e_l B_{wl}.

    It begins with n = `expected`. At the end `expected` is that of the last update, `following` what came of it; of the
    former, e is in `weight`, :math:`c_w / \sum_l e_l B_{wl}` in `scale` and the lower bound of the log-likelihood in
    `bound`.
    """
    topics = prior.size
    table, alpha = unchecked(law), unchecked(prior)
    mass, constant = 0.0, 0.0
    for k in range(topics):
        mass += prior[k]
        constant -= log_gamma(prior[k])
    constant += log_gamma(mass)
    for d in prange(ptr.size - 1):
        own, new, e = unchecked(expected[d]), unchecked(following[d]), unchecked(weight[d])
        for sweep in range(most):
            if sweep > 0:
                for k in range(topics):
                    own[k] = new[k]
            total = mass
            for k in range(topics):
                total += own[k]
            middle = digamma(total)
            for k in range(topics):
                e[k] = fast_exp(digamma(alpha[k] + own[k]) - middle)
                new[k] = 0.0
            for j in range(ptr[d], ptr[d + 1]):
                at = word[j] * topics
                likelihood = 1e-300
                for k in range(topics):
                    likelihood += e[k] * table[at + k]
                share = count[j] / likelihood
                scale[j] = share
                for k in range(topics):
                    new[k] += share * table[at + k]
            change = 0.0
            for k in range(topics):
                new[k] *= e[k]
                change += abs(new[k] - own[k])
            if change < tolerance * topics:
                break
        total = mass
        for k in range(topics):
            total += own[k]
        middle = digamma(total)
        value = constant - log_gamma(total)
        for k in range(topics):
            gamma = alpha[k] + own[k]
            value += log_gamma(gamma) - own[k] * (digamma(gamma) - middle)
        for j in range(ptr[d], ptr[d + 1]):
            value += count[j] * fast_log(count[j] / scale[j])
        bound[d] = value


@compiled(reorder=True)
def count_words(
    ptr: Array, document: Array, place: Array, law: Array, weight: Array, scale: Array, out: Array
) -> None:
    """Add up the expected number of tokens of each word with each topic."""
    topics = weight.shape[1]
    flat = unchecked(weight.reshape(-1))
    for w in prange(ptr.size - 1):
        row, table = unchecked(out[w]), unchecked(law[w])
        for k in range(topics):
            row[k] = 0.0
        for j in range(ptr[w], ptr[w + 1]):
            share, at = scale[place[j]], document[j] * topics
            for k in range(topics):
                row[k] += share * flat[at + k]
        for k in range(topics):
            row[k] *= table[k]


@compiled(reorder=True)
def expected_logs(mass: Array, total: Array, out: Array) -> None:
    """Write the geometric means of Dirichlet distributions, one for each column, whose exponents sum to `total`."""
    topics = total.size
    middle = np.empty(topics)
    for k in range(topics):
        middle[k] = digamma(total[k])
    for w in prange(mass.shape[0]):
        for k in range(topics):
            out[w, k] = fast_exp(digamma(mass[w, k]) - middle[k])


@compiled(reorder=True)
def divergences(mass: Array, total: Array, prior: float, out: Array) -> None:
    """Write each word's part of the Kullback-Leibler divergence from symmetric Dirichlet distributions."""
    topics = total.size
    middle = np.empty(topics)
    for k in range(topics):
        middle[k] = digamma(total[k])
    for w in prange(mass.shape[0]):
        value = 0.0
        for k in range(topics):
            value += (mass[w, k] - prior) * (digamma(mass[w, k]) - middle[k]) - log_gamma(mass[w, k])
        out[w] = value


# -- Gibbs sampling ----------------------------------------------------------------------------------------


@compiled(fast=True)
def list_topics(ptr: Array, document: Array, topic: Array, room: Array, listed: Array, size: Array) -> None:
    """List the topics that each document has, and how often, of its tokens' topics in the order of words.

    `room` says where each document's list begins; `ptr` bounds the tokens of each word, of which nothing is asked here
    but how many there are.
    """
    for t in range(ptr[ptr.size - 1]):
        d, k = document[t], topic[t]
        begin = room[d]
        end = begin + size[d]
        j = begin
        while j < end and listed[2 * j] != k:
            j += 1
        if j == end:
            listed[2 * j] = k
            listed[2 * j + 1] = 0
            size[d] += 1
        listed[2 * j + 1] += 1


@compiled(fast=True)
def draw_topics(
    ptr: Array,
    document: Array,
    prior: Array,
    smoothing: float,
    topic: Array,
    counts: Array,
    totals: Array,
    room: Array,
    listed: Array,
    size: Array,
    random: Array,
    scratch: Array,
) -> None:
    r"""Draw the topic of each token given those of all others, word by word: collapsed Gibbs sampling.

    .. math:: p(z = k) \propto (n_{dk} + \alpha_k) \phi_k, \qquad \phi_k = \frac{n_{kw} + \eta}{n_k + W \eta}.

    The sum over topics that a document has is taken anew for each token; that of :math:`\alpha_k \phi_k` over all
    topics is kept while the word is the same (Yu et al. 2015): the cost is in the topics of a document.
    """
    topics, words = prior.size, ptr.size - 1
    alpha, inverse = unchecked(prior), np.empty(topics)
    law, sums = unchecked(scratch[0]), unchecked(scratch[1])
    lists = unchecked(listed)
    for k in range(topics):
        inverse[k] = 1.0 / (totals[k] + words * smoothing)
    for w in range(words):
        if ptr[w] == ptr[w + 1]:
            continue
        base = 0.0
        for k in range(topics):
            law[k] = (counts[w, k] + smoothing) * inverse[k]
            base += alpha[k] * law[k]
        for t in range(ptr[w], ptr[w + 1]):
            d, k = document[t], topic[t]
            counts[w, k] -= 1
            totals[k] -= 1
            base -= alpha[k] * law[k]
            inverse[k] = 1.0 / (totals[k] + words * smoothing)
            law[k] = (counts[w, k] + smoothing) * inverse[k]
            base += alpha[k] * law[k]
            begin = room[d]
            end = begin + size[d]
            j = begin
            while lists[2 * j] != k:
                j += 1
            lists[2 * j + 1] -= 1
            if lists[2 * j + 1] == 0:
                end -= 1
                lists[2 * j] = lists[2 * end]
                lists[2 * j + 1] = lists[2 * end + 1]
            own = 0.0
            for j in range(begin, end):
                own += lists[2 * j + 1] * law[lists[2 * j]]
                sums[j - begin] = own
            left = uniform(random, 0) * (own + base)
            if left < own:
                j = 0
                while sums[j] <= left:
                    j += 1
                j += begin
                k = lists[2 * j]
                lists[2 * j + 1] += 1
            else:
                left -= own
                k = 0
                left -= alpha[0] * law[0]
                while left > 0.0 and k < topics - 1:
                    k += 1
                    left -= alpha[k] * law[k]
                j = begin
                while j < end and lists[2 * j] != k:
                    j += 1
                if j == end:
                    lists[2 * j] = k
                    lists[2 * j + 1] = 0
                    end += 1
                lists[2 * j + 1] += 1
            size[d] = end - begin
            topic[t] = k
            counts[w, k] += 1
            totals[k] += 1
            base -= alpha[k] * law[k]
            inverse[k] = 1.0 / (totals[k] + words * smoothing)
            law[k] = (counts[w, k] + smoothing) * inverse[k]
            base += alpha[k] * law[k]


@compiled(reorder=True)
def of_counts(prior: Array, room: Array, listed: Array, size: Array, value: Array, slope: Array) -> None:
    r"""Add the log probability of the topics of documents to ``value[0]``, and write what Minka's update needs.

    .. math:: \sum_d \psi(n_{dk} + \alpha_k) - \psi(\alpha_k), \qquad \sum_d \psi(n_d + \alpha_0) - \psi(\alpha_0)

    are in `slope`, the last of which is the latter.
    """
    topics = prior.size
    mass = 0.0
    for k in range(topics):
        mass += prior[k]
        slope[k] = 0.0
    slope[topics] = 0.0
    for d in range(size.size):
        tokens = 0
        for j in range(room[d], room[d] + size[d]):
            k, n = listed[2 * j], listed[2 * j + 1]
            tokens += n
            value[0] += log_gamma(n + prior[k]) - log_gamma(prior[k])
            slope[k] += digamma(n + prior[k]) - digamma(prior[k])
        value[0] -= log_gamma(tokens + mass) - log_gamma(mass)
        slope[topics] += digamma(tokens + mass) - digamma(mass)
