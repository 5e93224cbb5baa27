"""Restricted Boltzmann machines of binary variables, learned by contrastive divergence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch.nn import functional

from hiddenfield.shapes import Float, Tensor


@dataclass(frozen=True, eq=False)
class BernoulliRBM:
    r"""A Markov network of visible variables v and hidden variables h, all binary, with edges between the two alone.

    .. math::

        P(h, v) = \frac{1}{Z} e^{-E(h, v)}, \qquad E(h, v) = -\sum_i a_i h_i - \sum_j b_j v_j - \sum_{ij} w_{ij} h_i v_j

    Parameters
    ----------
    weights
        w, a row for each hidden variable.
    hidden_bias, visible_bias
        a and b.

    References
    ----------
    Hinton (2002), Training products of experts by minimizing contrastive divergence.

    Examples
    --------
    >>> rbm = BernoulliRBM(torch.zeros(2, 5), torch.zeros(2), torch.zeros(5))
    >>> rbm.hidden_given(torch.ones(1, 5))
    tensor([[0.5000, 0.5000]])
    """

    weights: Float[Tensor, "hidden visible"]
    hidden_bias: Float[Tensor, " hidden"]
    visible_bias: Float[Tensor, " visible"]

    def hidden_given(self, visible: Float[Tensor, "rows visible"]) -> Float[Tensor, "rows hidden"]:
        """Return the probability that each hidden variable is 1."""
        return functional.linear(visible, self.weights, self.hidden_bias).sigmoid()

    def visible_given(self, hidden: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows visible"]:
        """Return the probability that each visible variable is 1."""
        return functional.linear(hidden, self.weights.T, self.visible_bias).sigmoid()

    def free_energy(self, visible: Float[Tensor, "rows visible"]) -> Float[Tensor, " rows"]:
        r"""Return :math:`F(v) = -\log \sum_h e^{-E(h, v)}`, so that :math:`P(v) = e^{-F(v)} / Z`."""
        inputs = functional.linear(visible, self.weights, self.hidden_bias)
        return -visible @ self.visible_bias - functional.softplus(inputs).sum(dim=1)


def contrastive_divergence(
    rbm: BernoulliRBM, visible: Float[Tensor, "rows visible"], steps: int = 1, *, generator: torch.Generator
) -> tuple[Float[Tensor, "hidden visible"], Float[Tensor, " hidden"], Float[Tensor, " visible"]]:
    """Estimate the gradient of the mean log-likelihood of rows, for weights, hidden and visible biases.

    Expectations under the model are taken after `steps` sweeps of Gibbs sampling that begin at the rows: an estimate,
    biased where that is too few for the chains to mix. Rows may hold probabilities instead of 0 and 1.
    """
    data = rbm.hidden_given(visible)
    hidden, found = data, visible
    for _ in range(steps):
        found = rbm.visible_given(torch.bernoulli(hidden, generator=generator))
        found = torch.bernoulli(found, generator=generator)
        hidden = rbm.hidden_given(found)
    weights = (data.T @ visible - hidden.T @ found) / len(visible)
    return weights, (data - hidden).mean(dim=0), (visible - found).mean(dim=0)


def fit_rbm(
    batches: Callable[[], Iterable[Float[Tensor, "rows visible"]]],
    visible: int,
    hidden: int,
    *,
    epochs: int = 10,
    steps: int = 1,
    learning_rate: float = 0.003,
    generator: torch.Generator,
) -> BernoulliRBM:
    """Learn a machine by stochastic gradient ascent, from random weights and the visible variables' own rates.

    Parameters
    ----------
    batches
        Called at the beginning of each epoch for its batches of rows.
    visible, hidden
        Numbers of variables.
    epochs, steps, learning_rate
        Passes over the rows, sweeps of contrastive divergence, and the rate of Adam, which suits rare values too.
    generator
        Of the start and of the chains.
    """
    # Far enough apart that Adam does not move all hidden variables alike.
    start = 4 * math.sqrt(2 / (hidden + visible)) * torch.randn(hidden, visible, generator=generator)
    total, count = torch.zeros(visible), 0
    for rows in batches():
        total, count = total + rows.sum(dim=0), count + len(rows)
    # Half a row more of each value keeps rates off 0 and 1.
    rbm = BernoulliRBM(start, torch.zeros(hidden), ((total + 0.5) / (count + 1)).logit())
    parts = rbm.weights, rbm.hidden_bias, rbm.visible_bias
    optimizer = torch.optim.Adam(parts, learning_rate, maximize=True)
    for _ in range(epochs):
        for rows in batches():
            moves = contrastive_divergence(rbm, rows, steps, generator=generator)
            for part, move in zip(parts, moves, strict=True):
                part.grad = move
            optimizer.step()
    return rbm
