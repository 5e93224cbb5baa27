r"""Variational autoencoders of tables with holes: latent numbers, and a network from these to the columns.

.. math:: z \sim N(0, I), \qquad p(x \mid z) = \prod_{j \in o} p(x_j \mid f_\theta(z)), \qquad
    q(z \mid x_o) = N(\mu_\phi(x_o), \mathrm{diag}\, \sigma_\phi^2(x_o))

over the columns o that a row has; the others are left out of the decoder's product, and are zeros for the encoder.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from hiddenfield.data.rows import Rows
from hiddenfield.learning.device import light
from hiddenfield.learning.em import Arrays
from hiddenfield.models.rbm import TableOfUnits
from hiddenfield.shapes import Array, Float, Tensor

START = math.log(10)
"""Where log precisions of standardised numbers begin. At 0 all variance is noise, and z would say nothing for good."""

CHUNK = 1 << 22
"""Numbers of the widest layer, of all draws of rows, that are looked at together."""


def layers(sizes: list[int]) -> nn.Sequential:
    """Return a network of such layers, with rectified units between them."""
    parts: list[nn.Module] = []
    for narrow, wide in pairwise(sizes):
        parts += [nn.Linear(narrow, wide), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class Autoencoder(nn.Module):
    """Encoder, decoder, and a precision for each column of numbers.

    Parameters
    ----------
    units, numbers, latent
        How many units there are, which of these are real numbers, and the size of z.
    hidden
        Sizes of the hidden layers of the encoder; the decoder has them the other way round.
    """

    def __init__(self, units: int, numbers: Tensor, latent: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.numbers = numbers
        self.encoder = layers([2 * units, *hidden, 2 * latent])
        self.decoder = layers([latent, *reversed(hidden), units])
        self.log_precision = nn.Parameter(torch.full((int(numbers.sum()),), START))

    def encode(self, units: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log deviation of z; those of the prior for a row without values."""
        found = self.encoder(torch.cat([units, known], dim=1)) * known.any(dim=1, keepdim=True)
        mean, log_deviation = found.chunk(2, dim=1)
        return mean, log_deviation.clamp(-8, 8)

    def decode(self, z: Tensor) -> Tensor:
        """Return the inputs of the units; of numbers the network gives the mean."""
        found = self.decoder(z)
        if not bool(self.numbers.any()):
            return found
        place = self.numbers.nonzero()[:, 0]
        return found.index_copy(-1, place, found[..., place] * self.log_precision.exp())


@dataclass(frozen=True, eq=False)
class LearnedAutoencoder(TableOfUnits):
    """An autoencoder of the columns of a table.

    Parameters
    ----------
    states, centre, spread
        Of the columns; see `TableOfUnits`.
    latent, hidden
        Sizes of z and of the hidden layers.
    beta, samples
        What is maximised: with one sample the evidence lower bound, in which the divergence from the prior counts
        `beta` times; with more the importance-weighted bound.
    smoothing
        As if precisions had been seen in so many more rows of variance 1.
    draws, seed
        Draws of z for likelihoods and for what is missing, and of these.

    References
    ----------
    Kingma and Welling (2014), Auto-encoding variational Bayes; Burda, Grosse and Salakhutdinov (2016), Importance
    weighted autoencoders; Mattei and Frellsen (2019), MIWAE: deep generative modelling and imputation of incomplete
    data sets.
    """

    states: tuple[int, ...]
    centre: Float[Array, " columns"]
    spread: Float[Array, " columns"]
    latent: int
    hidden: tuple[int, ...]
    beta: float = 1.0
    samples: int = 1
    smoothing: float = 1.0
    draws: int = 500
    seed: int = 0

    def network(self, parameters: Arrays | None = None, seed: int = 0) -> Autoencoder:
        """Return the network with these parameters, or one with random weights."""
        numbers = self.visible.numbers
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = Autoencoder(len(numbers), numbers, self.latent, self.hidden)
        if parameters is not None:
            network.load_state_dict({n: torch.as_tensor(np.array(v)).float() for n, v in parameters.items()})
        return network

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return all parameters, one after the other."""
        return np.concatenate([value.reshape(-1) for value in parameters.values()]).astype(np.float64)

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters with these values."""
        parts = np.split(vector, np.cumsum([value.size for value in parameters.values()])[:-1])
        named = zip(parameters.items(), parts, strict=True)
        return {name: own.reshape(value.shape).astype(np.float32) for (name, value), own in named}

    def log_prior(self, parameters: Arrays) -> float:
        """Return the log density of the precisions."""
        logs = parameters["log_precision"].astype(np.float64)
        return self.smoothing / 2 * float((logs - np.exp(logs)).sum())

    # -- learning ------------------------------------------------------------------------------------------

    def weigh(
        self, network: Autoencoder, units: Tensor, known: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        r"""Return draws of z, :math:`\log p(x_o \mid z)`, :math:`\log p(z) - \log q(z)`, the divergence and inputs."""
        mean, log_deviation = network.encode(units, known)
        z = mean + log_deviation.exp() * noise
        inputs, precision = network.decode(z), network.log_precision.exp()
        logs, _ = self.visible.log_sums(inputs, precision)
        there = self.visible.over(known, "amax")
        numbers = self.visible.numbers
        squares = units[:, numbers].square() @ precision / 2
        fit = (inputs * units).sum(dim=2) - squares - (logs * there).sum(dim=2)
        ratio = ((noise.square() - z.square()) / 2 + log_deviation).sum(dim=2)
        divergence = ((2 * log_deviation).exp() + mean.square() - 1).sum(dim=1) / 2 - log_deviation.sum(dim=1)
        return z, fit, ratio, divergence, inputs

    def bound(
        self, network: Autoencoder, units: Tensor, known: Tensor, generator: torch.Generator
    ) -> Float[Tensor, " rows"]:
        """Return what is maximised, of each row."""
        noise = torch.randn(self.samples, len(units), self.latent, generator=generator)
        _, fit, ratio, divergence, _ = self.weigh(network, units, known, noise)
        if self.samples == 1:
            return fit[0] - self.beta * divergence
        return (fit + ratio).logsumexp(dim=0) - math.log(self.samples)

    def fit(
        self,
        data: Rows,
        *,
        passes: int,
        batch: int,
        learning_rate: float,
        begin: Arrays | None = None,
        after: Callable[[float], None],
    ) -> Arrays:
        """Learn by Adam, whose rate falls to 0 along a half cosine; `after` gets the mean bound of every pass."""
        units, known = (each.float() for each in self.encode(data.values))
        generator = torch.Generator().manual_seed(self.seed)
        network = self.network(begin, self.seed)
        share = None if data.weights is None else torch.from_numpy(data.weights)
        mass = len(units) if share is None else float(share.sum())
        optimizer = light(torch.optim.Adam)(network.parameters(), learning_rate)
        for turn in range(passes):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate * (1 + math.cos(math.pi * turn / passes)) / 2
            total = 0.0
            order = (
                torch.randperm(len(units), generator=generator)
                if share is None
                else torch.multinomial(share, len(units), replacement=True, generator=generator)
            )
            for rows in order.split(batch):
                values = self.bound(network, units[rows], known[rows], generator)
                logs = network.log_precision
                prior = self.smoothing / 2 * (logs - logs.exp()).sum() / mass
                optimizer.zero_grad()
                (-values.mean() - prior).backward()
                nn.utils.clip_grad_norm_(network.parameters(), 10.0)
                optimizer.step()
                total += float(values.detach().sum())
            after(total / len(units))
        return {name: value.numpy().copy() for name, value in network.state_dict().items()}

    # -- rows ----------------------------------------------------------------------------------------------

    def _weighed(
        self, data: Rows, parameters: Arrays, generator: torch.Generator, how: str
    ) -> tuple[Float[Tensor, "rows ..."], Float[Tensor, " rows"]]:
        """Return weighted means over draws of z ("latent", "mean" units, or "draw" of units), and log-likelihoods."""
        network, (units, known) = self.network(parameters).double(), self.encode(data.values)
        # The same draws for all rows: what is said of one does not depend on those beside it.
        noise = torch.randn(self.draws, 1, self.latent, generator=generator, dtype=torch.float64)
        found, values = [], []
        widest = max(units.shape[1], self.latent, *self.hidden)
        with torch.no_grad():
            precision = network.log_precision.exp()
            for rows in torch.arange(len(units)).split(max(1, CHUNK // (self.draws * widest))):
                z, fit, ratio, _, inputs = self.weigh(network, units[rows], known[rows].double(), noise)
                scores = fit + ratio
                share = scores.softmax(dim=0)
                values.append(scores.logsumexp(dim=0) - math.log(self.draws))
                if how == "latent":
                    found.append((share[..., None] * z).sum(dim=0))
                elif how == "mean":
                    means = self.visible.log_sums(inputs, precision)[1]
                    found.append((share[..., None] * means).sum(dim=0))
                else:
                    chosen = torch.multinomial(share.T, 1, generator=generator)[:, 0]
                    own = inputs[chosen, torch.arange(len(rows))]
                    found.append(self.visible.draw(own, precision, generator))
        there = torch.from_numpy(~np.isnan(data.values) @ np.log(self.spread))
        return torch.cat(found), torch.cat(values).double() - there

    def _fixed(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    def log_likelihood(self, data: Rows, parameters: Arrays) -> Float[Array, " rows"]:
        """Return the log-likelihood of each row by importance sampling, a lower bound on average."""
        return self._weighed(data, parameters, self._fixed(), "latent")[1].numpy()

    def infer(self, data: Rows, parameters: Arrays) -> Float[Array, "rows latent"]:
        """Return the posterior means of z."""
        return self._weighed(data, parameters, self._fixed(), "latent")[0].double().numpy()

    def impute(self, data: Rows, parameters: Arrays) -> Float[Array, "rows columns"]:
        """Return the cells, missing numbers filled by their conditional means, missing symbols by the most likely."""
        mean = self._weighed(data, parameters, self._fixed(), "mean")[0]
        return np.where(np.isnan(data.values), self.decode(mean), data.values)

    def sample_missing(
        self, data: Rows, parameters: Arrays, generator: np.random.Generator
    ) -> Float[Array, "rows columns"]:
        """Return the cells, missing ones filled by a draw given the rest of their row."""
        random = torch.Generator().manual_seed(int(generator.integers(2**62)))
        drawn = self._weighed(data, parameters, random, "draw")[0]
        return np.where(np.isnan(data.values), self.decode(drawn), data.values)

    def sample(
        self, count: int, parameters: Arrays, generator: np.random.Generator
    ) -> tuple[Float[Array, "rows columns"], Float[Array, "rows latent"]]:
        """Draw rows, and z of each."""
        network, random = (
            self.network(parameters),
            torch.Generator().manual_seed(int(generator.integers(2**62))),
        )
        z = torch.randn(count, self.latent, generator=random)
        with torch.no_grad():
            drawn = self.visible.draw(network.decode(z), network.log_precision.exp(), random)
        return self.decode(drawn), z.double().numpy()
