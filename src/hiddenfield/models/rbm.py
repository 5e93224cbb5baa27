r"""Restricted Boltzmann machines: binary hidden variables, and visible ones of several kinds, with edges between them.

.. math::

    P(h, v) = \frac{1}{Z} \exp\Bigl(\sum_i a_i h_i + \sum_j b_j v_j + \sum_{ij} w_{ij} h_i v_j
        - \tfrac{1}{2} \sum_{j \in G} p_j v_j^2\Bigr)

A symbol of S states is S - 1 units, none of which is on in its first state; a number (G) is one unit with precision p.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from hiddenfield.data.rows import Rows
from hiddenfield.errors import InputError, TooLargeError
from hiddenfield.learning.device import light
from hiddenfield.learning.em import Arrays, Fill
from hiddenfield.learning.maximum_likelihood import maximise
from hiddenfield.models.parts import Composed, Part
from hiddenfield.models.responsibilities import fill_in
from hiddenfield.shapes import Array, Bool, Float, Int, Tensor

EXACT_LOG_PARTITION = 15
"""Hidden variables up to which Z is summed."""

CHUNK = 1 << 22
"""Numbers of a table of rows and joint states that are looked at together."""


@dataclass(frozen=True, eq=False)
class Visible:
    """The units of visible variables.

    Parameters
    ----------
    owner
        The variable of each unit; units of a variable lie together.
    numbers
        Which units are real numbers.
    """

    owner: Int[Tensor, " units"]
    numbers: Bool[Tensor, " units"]

    @classmethod
    def of(cls, states: Iterable[int]) -> Visible:
        """Return the units of variables with so many states; 0 stands for a real number."""
        sizes = [(max(count - 1, 1), count == 0) for count in states]
        owner = [number for number, (size, _) in enumerate(sizes) for _ in range(size)]
        numbers = [real for size, real in sizes for _ in range(size)]
        return cls(torch.tensor(owner, dtype=torch.int64), torch.tensor(numbers, dtype=torch.bool))

    @cached_property
    def variables(self) -> int:
        """How many there are."""
        return int(self.owner.max()) + 1 if len(self.owner) else 0

    @cached_property
    def plain(self) -> bool:
        """Whether all are binary."""
        return len(self.owner) == self.variables and not bool(self.numbers.any())

    def over(self, values: Tensor, how: str) -> Tensor:
        """Reduce over the units of each variable: "sum", or "amax" (with 0 for the first state)."""
        out = values.new_zeros(*values.shape[:-1], self.variables)
        return out.scatter_reduce(-1, self.owner.expand_as(values), values, how)

    def log_sums(self, inputs: Tensor, precision: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log of the sum (or integral) over each variable at these inputs, and the mean of each unit."""
        if self.plain:
            return functional.softplus(inputs), inputs.sigmoid()
        top = self.over(inputs, "amax")
        odds = (inputs - top[..., self.owner]).exp()
        total = (-top).exp() + self.over(odds, "sum")
        value, mean = top + total.log(), odds / total[..., self.owner]
        if bool(self.numbers.any()):
            place = self.owner[self.numbers]
            own = inputs[..., self.numbers]
            value = value.index_copy(
                -1, place, own.square() / precision / 2 + (2 * math.pi / precision).log() / 2
            )
            mean = mean.index_copy(-1, self.numbers.nonzero()[:, 0], own / precision)
        return value, mean

    def draw(self, inputs: Tensor, precision: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the units at these inputs."""
        if self.plain:
            return torch.bernoulli(inputs.sigmoid(), generator=generator)
        noise = torch.rand(inputs.shape, generator=generator, dtype=inputs.dtype)
        scores = inputs - (-noise.clamp(1e-30, 1 - 1e-7).log()).log()
        first = torch.rand(*inputs.shape[:-1], self.variables, generator=generator, dtype=inputs.dtype)
        first = -(-first.clamp(1e-30, 1 - 1e-7).log()).log()
        best = first.scatter_reduce(-1, self.owner.expand_as(scores), scores, "amax")
        drawn = (scores >= best[..., self.owner]).to(inputs)
        if bool(self.numbers.any()):
            own = inputs[..., self.numbers] / precision
            more = torch.randn(own.shape, generator=generator, dtype=inputs.dtype) / precision.sqrt()
            drawn = drawn.index_copy(-1, self.numbers.nonzero()[:, 0], own + more)
        return drawn


@dataclass(frozen=True, eq=False)
class Machine:
    """A restricted Boltzmann machine with its parameters.

    Parameters
    ----------
    weights
        w, a row for each hidden variable.
    hidden_bias, visible_bias
        a and b.
    visible
        What the visible units are; None for binary variables.
    precision
        p, of each unit that is a number.

    References
    ----------
    Smolensky (1986), Information processing in dynamical systems; Hinton (2002), Training products of experts by
    minimizing contrastive divergence; Salakhutdinov and Murray (2008), On the quantitative analysis of deep belief
    networks.

    Examples
    --------
    >>> machine = Machine(torch.zeros(2, 5), torch.zeros(2), torch.zeros(5))
    >>> machine.hidden_given(torch.ones(1, 5))
    tensor([[0.5000, 0.5000]])
    >>> bool(machine.log_partition().isclose(torch.tensor(7 * math.log(2))))
    True
    """

    weights: Float[Tensor, "hidden visible"]
    hidden_bias: Float[Tensor, " hidden"]
    visible_bias: Float[Tensor, " visible"]
    visible: Visible = None  # type: ignore[assignment]
    precision: Float[Tensor, " numbers"] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.visible is None:
            object.__setattr__(self, "visible", Visible.of([2] * len(self.visible_bias)))
        if self.precision is None:
            object.__setattr__(self, "precision", self.visible_bias.new_ones(int(self.visible.numbers.sum())))

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """What is learned by gradients; of precisions the logarithm moves."""
        return self.weights, self.hidden_bias, self.visible_bias

    def hidden_given(self, visible: Float[Tensor, "rows visible"]) -> Float[Tensor, "rows hidden"]:
        """Return the probability that each hidden variable is 1."""
        return functional.linear(visible, self.weights, self.hidden_bias).sigmoid()

    def inputs(self, hidden: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows visible"]:
        """Return the inputs of the visible units."""
        return functional.linear(hidden, self.weights.T, self.visible_bias)

    def visible_given(self, hidden: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows visible"]:
        """Return the mean of each visible unit: the probability that it is 1."""
        return self.visible.log_sums(self.inputs(hidden), self.precision)[1]

    def sweep(
        self, visible: Float[Tensor, "rows visible"], generator: torch.Generator, beta: float = 1.0
    ) -> Float[Tensor, "rows visible"]:
        """Draw hidden variables given the visible ones, and these given those, at an inverse temperature."""
        inputs = functional.linear(visible, self.weights, self.hidden_bias)
        hidden = torch.bernoulli((beta * inputs).sigmoid(), generator=generator)
        return self.visible.draw(
            functional.linear(hidden, beta * self.weights.T, self.visible_bias), self.precision, generator
        )

    def free_energy(self, visible: Float[Tensor, "rows visible"]) -> Float[Tensor, " rows"]:
        r"""Return :math:`F(v) = -\log \sum_h e^{-E(h, v)}`, so that :math:`P(v) = e^{-F(v)} / Z`."""
        inputs = functional.linear(visible, self.weights, self.hidden_bias)
        squares = visible[:, self.visible.numbers].square() @ self.precision / 2
        return squares - visible @ self.visible_bias - functional.softplus(inputs).sum(dim=1)

    def log_partition(self) -> Float[Tensor, ""]:
        """Return log Z by summing over all states of the hidden variables."""
        states = all_states(len(self.hidden_bias)).to(self.hidden_bias)
        logs = self.visible.log_sums(self.inputs(states), self.precision)[0].sum(dim=1)
        return (states @ self.hidden_bias + logs).logsumexp(dim=0)

    def annealed_log_partition(
        self,
        generator: torch.Generator,
        *,
        chains: int = 200,
        temperatures: int = 1000,
        fixed: tuple[Float[Tensor, "rows visible"], Bool[Tensor, "rows visible"]] | None = None,
    ) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"]]:
        r"""Estimate log Z by annealed importance sampling, from the machine without weights; with a standard error.

        Hidden and visible variables are joined more and more (inverse temperatures from 0 to 1, evenly). `fixed` has
        rows and which of their units are known: the sums are then over the others, one result for each row.
        """
        values, known = (
            (torch.zeros_like(self.visible_bias)[None], torch.zeros_like(self.visible_bias, dtype=torch.bool)[None])
            if fixed is None
            else fixed
        )  # fmt: skip
        rows, width = values.shape
        values, known = (each.repeat_interleave(chains, dim=0) for each in (values, known))
        logs, _ = self.visible.log_sums(self.visible_bias, self.precision)
        whole = self.visible.over(known[::chains].to(logs), "sum") > 0
        squares = values[::chains][:, self.visible.numbers].square() @ self.precision / 2
        base = len(self.hidden_bias) * math.log(2) + (~whole).to(logs) @ logs
        base = base + (values * known)[::chains] @ self.visible_bias - squares
        now = torch.where(
            known,
            values,
            self.visible.draw(self.visible_bias.expand(rows * chains, width), self.precision, generator),
        )
        log_weight = torch.zeros(rows * chains, dtype=torch.float64)
        steps = torch.linspace(0, 1, temperatures + 1).tolist()
        for low, high in itertools.pairwise(steps):
            inputs = functional.linear(now, self.weights, self.hidden_bias)
            gained = functional.softplus(high * inputs) - functional.softplus(low * inputs)
            log_weight += gained.sum(dim=1).double()
            hidden = torch.bernoulli((high * inputs).sigmoid(), generator=generator)
            drawn = self.visible.draw(
                functional.linear(hidden, high * self.weights.T, self.visible_bias), self.precision, generator
            )
            now = torch.where(known, values, drawn)
        table = log_weight.reshape(rows, chains)
        mean = table.logsumexp(dim=1) - math.log(chains)
        ratios = (table - mean[:, None]).exp()
        return base.double() + mean, ratios.std(dim=1) / math.sqrt(chains)


def all_states(count: int) -> Float[Tensor, "states variables"]:
    """Return all joint states of binary variables."""
    return (torch.arange(2**count)[:, None] >> torch.arange(count) & 1).double()


def contrastive_divergence(
    machine: Machine,
    visible: Float[Tensor, "rows visible"],
    steps: int = 1,
    *,
    chains: Float[Tensor, "chains visible"] | None = None,
    generator: torch.Generator,
) -> tuple[tuple[Tensor, ...], Float[Tensor, "chains visible"]]:
    """Estimate the gradient of the mean log-likelihood of rows, for weights, biases and logarithms of precisions.

    Expectations under the model are taken after `steps` sweeps of Gibbs sampling that begin at the rows, or at `chains`
    that are returned to go on from: an estimate, biased where that is too few for the chains to mix. Rows may hold
    probabilities instead of 0 and 1.
    """
    found = visible if chains is None else chains
    for _ in range(steps):
        found = machine.sweep(found, generator)
    moves = []
    for rows, sign in ((visible, 1), (found, -1)):
        hidden = machine.hidden_given(rows)
        squares = -rows[:, machine.visible.numbers].square().mean(dim=0) * machine.precision / 2
        moves.append(
            [sign * hidden.T @ rows / len(rows), sign * hidden.mean(0), sign * rows.mean(0), sign * squares]
        )
    return tuple(one + other for one, other in zip(*moves, strict=True)), found


def fit_rbm(
    batches: Callable[[Machine], Iterable[Float[Tensor, "rows visible"]]],
    machine: Machine,
    *,
    epochs: int = 10,
    steps: int = 1,
    persistent: bool = False,
    learning_rate: float = 0.003,
    decay: bool = False,
    l2: float = 0.0,
    smoothing: float = 0.0,
    generator: torch.Generator,
    after: Callable[[Machine], None] | None = None,
) -> Machine:
    """Learn a machine by stochastic gradient ascent (Adam).

    Parameters
    ----------
    batches
        Called at the beginning of each epoch, with the machine, for its batches of rows.
    machine
        Where to begin; its tensors are changed.
    epochs, steps, learning_rate
        Passes over the rows, sweeps of Gibbs sampling for each batch, and the rate of Adam.
    persistent
        Whether chains go on from batch to batch (stochastic maximum likelihood), as many as rows in the first one.
    decay
        Whether the rate falls linearly to 0.
    l2, smoothing
        The penalty of the weights and the prior of precisions, for the mean log-likelihood: those of all rows, divided
        by how many there are.
    generator
        Of the chains.
    after
        Called after each epoch.
    """
    log_precision = machine.precision.log()
    parts = (*machine.parts, log_precision)
    optimizer = light(torch.optim.Adam)(parts, learning_rate, maximize=True)
    chains: Tensor | None = None
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * (1 - epoch / epochs if decay else 1)
        for rows in batches(machine):
            if persistent and chains is None:
                chains = rows.clone()
            moves, found = contrastive_divergence(machine, rows, steps, chains=chains, generator=generator)
            chains = found if persistent else None
            prior = smoothing * (1 - machine.precision) / 2
            moves = (moves[0] - l2 * machine.weights, *moves[1:3], moves[3] + prior)
            for part, move in zip(parts, moves, strict=True):
                part.grad = move
            optimizer.step()
            machine.precision.copy_(log_precision.clamp(-20, 20).exp())
        if after is not None:
            after(machine)
    return machine


def start_machine(
    rates: Float[Tensor, " visible"],
    hidden: int,
    visible: Visible | None = None,
    *,
    scale: float | None = None,
    generator: torch.Generator,
) -> Machine:
    """Return a machine with random weights whose visible biases are those of the mean of each unit.

    Hidden variables are told apart by weights that are far enough apart for Adam not to move them all alike.
    """
    kind = Visible.of([2] * len(rates)) if visible is None else visible
    scale = 4 * math.sqrt(2 / (hidden + len(rates))) if scale is None else scale
    weights = scale * torch.randn(hidden, len(rates), generator=generator, dtype=rates.dtype)
    first = 1 - kind.over(torch.where(kind.numbers, 0.0, rates), "sum")
    bias = torch.where(kind.numbers, rates, rates.log() - first[kind.owner].log())
    return Machine(weights, rates.new_zeros(hidden), bias, kind)


def fit_stack(
    batches: Callable[[], Iterable[Float[Tensor, "rows visible"]]],
    sizes: Iterable[int],
    *,
    generator: torch.Generator,
    **options: Any,
) -> list[Machine]:
    """Learn a stack of machines, each from the hidden probabilities of those below (Hinton and Salakhutdinov 2006).

    Parameters
    ----------
    batches
        Called at the beginning of each epoch for its batches of rows of probabilities.
    sizes
        Of the hidden layers, from the bottom.
    generator, options
        As of `fit_rbm`.
    """
    stack: list[Machine] = []

    def encoded(_: Machine | None = None) -> Iterable[Tensor]:
        for rows in batches():
            for below in stack:
                rows = below.hidden_given(rows)
            yield rows

    for hidden in sizes:
        parts = [(rows.sum(dim=0), len(rows)) for rows in encoded()]
        # Half a row more of each value keeps rates off 0 and 1.
        total = torch.stack([rows for rows, _ in parts]).sum(dim=0)
        rates = (total + 0.5) / (sum(count for _, count in parts) + 1)
        machine = start_machine(rates, hidden, generator=generator)
        stack.append(fit_rbm(encoded, machine, generator=generator, **options))
    return stack


# -- learned from tables -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MachineWeights:
    """All parameters of a machine: a `Part`; statistics are what they are multiplied by, summed over the rows."""

    model: LearnedMachine

    def maximize(self, statistics: Arrays, parameters: Arrays) -> Arrays:
        """Climb the likelihood of the filled rows from where the parameters are."""
        found = maximise(_Filled(self, statistics, parameters), self.as_vector(parameters), tolerance=1e-8)
        return self.from_vector(found.parameters, parameters)

    def value(self, statistics: Arrays, parameters: Arrays) -> float:
        """Return the log-likelihood of the filled rows and the log prior, up to a constant."""
        machine = self.model.machine(parameters)
        total = sum(float((statistics[name] * parameters[name]).sum()) for name in NAMES[:3])
        total -= float(statistics["squares"] @ np.exp(parameters["log_precision"])) / 2
        return (
            total - float(statistics["count"]) * float(machine.log_partition()) + self.log_prior(parameters)
        )

    def gradient(self, statistics: Arrays, parameters: Arrays) -> Float[Array, " free"]:
        """Return the slope of the log-likelihood of the filled rows and the log prior."""
        expected, count = self.model.expectations(parameters), float(statistics["count"])
        moves = {name: statistics[name] - count * expected[name] for name in (*NAMES[:3], "squares")}
        moves["weights"] = moves["weights"] - self.model.l2 * parameters["weights"]
        precision = np.exp(parameters["log_precision"])
        moves["log_precision"] = (
            -precision * moves["squares"] / 2 + self.model.smoothing * (1 - precision) / 2
        )
        return np.concatenate([moves[name].reshape(-1) for name in NAMES])

    def log_prior(self, parameters: Arrays) -> float:
        """Return the penalty of the weights, and the density of precisions as if of some rows of variance 1."""
        logs = parameters["log_precision"]
        penalty = self.model.l2 / 2 * float((parameters["weights"] ** 2).sum())
        return self.model.smoothing / 2 * float((logs - np.exp(logs)).sum()) - penalty

    def as_vector(self, parameters: Arrays) -> Float[Array, " free"]:
        """Return them one after the other."""
        return np.concatenate([parameters[name].reshape(-1) for name in NAMES])

    def from_vector(self, vector: Float[Array, " free"], parameters: Arrays) -> Arrays:
        """Return the parameters with these values."""
        bounds = np.cumsum([parameters[name].size for name in NAMES])[:-1]
        parts = zip(NAMES, np.split(vector, bounds), strict=True)
        return {name: own.reshape(parameters[name].shape) for name, own in parts}

    def _refuse(self, *_: Any) -> Any:
        raise InputError(
            "a Boltzmann machine has no conjugate prior: use fill='expectation', 'mode' or 'sample'"
        )

    posterior = plug_in = divergence = draw = mean = _refuse


NAMES = ("weights", "hidden_bias", "visible_bias", "log_precision")
"""Parameters of a machine."""


@dataclass(frozen=True, eq=False)
class _Filled:
    """The likelihood of filled rows as a function of the parameters: an `Objective`."""

    part: MachineWeights
    statistics: Arrays
    parameters: Arrays

    def batch(self, rows: Float[Array, "points parameters"]) -> tuple[Array, Array]:
        """Return values and gradients."""
        points = [self.part.from_vector(row, self.parameters) for row in rows]
        values = [self.part.value(self.statistics, point) for point in points]
        return np.array(values), np.array([self.part.gradient(self.statistics, point) for point in points])


class TableOfUnits:
    """What models of visible units have of a table: cells become units, and means of units cells.

    `states` has the number of symbols of each column, 0 for real numbers; `centre` and `spread` standardise these.
    """

    states: tuple[int, ...]
    centre: Float[Array, " columns"]
    spread: Float[Array, " columns"]

    @cached_property
    def visible(self) -> Visible:
        """The visible units."""
        return Visible.of(self.states)

    def encode(self, values: Float[Array, "rows columns"]) -> tuple[Tensor, Tensor]:
        """Return the units of rows, 0 where missing, and which units are known."""
        known = torch.from_numpy(~np.isnan(values))[:, self.visible.owner]
        own = torch.from_numpy(np.where(np.isnan(values), 0.0, (values - self.centre) / self.spread))
        own = own[:, self.visible.owner]
        starts = torch.searchsorted(self.visible.owner, self.visible.owner)
        place = torch.arange(len(self.visible.owner)) - starts + 1
        return torch.where(self.visible.numbers, own, (own == place).double()) * known, known

    def decode(self, means: Float[Tensor, "rows units"]) -> Float[Array, "rows columns"]:
        """Return the cells of units: numbers, and the most likely symbols."""
        out = np.empty((len(means), len(self.states)))
        for column, count in enumerate(self.states):
            own = means[:, self.visible.owner == column]
            if count == 0:
                out[:, column] = own[:, 0] * self.spread[column] + self.centre[column]
            else:
                out[:, column] = torch.cat([1 - own.sum(1, keepdim=True), own], dim=1).argmax(dim=1)
        return out


@dataclass(frozen=True, eq=False)
class LearnedMachine(TableOfUnits, Composed):
    """A machine of the columns of a table: what `fit_em` learns from `Rows` by sums over all hidden states.

    Parameters
    ----------
    states
        Of each column the number of symbols; 0 for real numbers.
    num_hidden
        Hidden variables.
    centre, spread
        Of the columns, by which numbers are standardised; 0 and 1 for symbols.
    l2, smoothing
        The penalty of the weights, and the rows of variance 1 that precisions begin with.
    most_exact
        Hidden variables up to which rows with holes are summed over all hidden states; beyond, chains are drawn.
    seed
        Of chains.
    """

    states: tuple[int, ...]
    num_hidden: int
    centre: Float[Array, " columns"]
    spread: Float[Array, " columns"]
    l2: float = 0.0
    smoothing: float = 1.0
    most_exact: int = 10
    seed: int = 0

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parameters."""
        return (MachineWeights(self),)

    @property
    def exact(self) -> bool:
        """Whether all is summed over the hidden states."""
        return self.num_hidden <= self.most_exact

    def machine(self, parameters: Arrays) -> Machine:
        """Return the machine with these parameters."""
        weights, hidden, visible, logs = (torch.as_tensor(parameters[name]).double() for name in NAMES)
        return Machine(weights, hidden, visible, self.visible, logs.exp())

    def parameters(self, machine: Machine) -> Arrays:
        """Return the parameters of a machine."""
        parts = (*machine.parts, machine.precision.log())
        return {name: part.double().numpy().copy() for name, part in zip(NAMES, parts, strict=True)}

    # -- learning ------------------------------------------------------------------------------------------

    def start(self, data: Rows, how: str, generator: np.random.Generator) -> Arrays:
        """Return random weights, and biases by which units have their own means.

        Where all is summed, weights begin large: of ten starts on bars and stripes more find the best known maximum.
        """
        if how not in ("auto", "random"):
            raise InputError(f"a Boltzmann machine starts from 'random' weights, got {how!r}")
        units, known = self.encode(data.values)
        weights = torch.ones(len(units)).double() if data.weights is None else torch.from_numpy(data.weights)
        mass = weights @ known.double()
        # Half a row more of each value keeps rates off 0 and 1.
        share = torch.where(self.visible.numbers, 0.0, 1.0)
        half = share / (1 + torch.bincount(self.visible.owner))[self.visible.owner]
        rates = (weights @ units + half) / (mass + share)
        draws = torch.Generator().manual_seed(int(generator.integers(2**62)))
        scale = 1.0 if self.exact else 0.1
        machine = start_machine(rates, self.num_hidden, self.visible, scale=scale, generator=draws)
        return self.parameters(machine)

    def _tables(self, parameters: Arrays) -> tuple[Machine, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return for each hidden state its units, score, the inputs, log sums and means of the visible variables."""
        if not self.exact:
            raise TooLargeError(
                f"sums over {self.num_hidden} hidden variables are taken up to {self.most_exact}; have fewer"
            )
        machine = self.machine(parameters)
        states = all_states(self.num_hidden)
        inputs = machine.inputs(states)
        logs, means = self.visible.log_sums(inputs, machine.precision)
        return machine, states, states @ machine.hidden_bias, inputs, logs, means

    def expectations(self, parameters: Arrays) -> Arrays:
        """Return the expected statistics of one row of which nothing is known."""
        machine, states, scores, _, logs, means = self._tables(parameters)
        law = (scores + logs.sum(dim=1)).softmax(dim=0)
        numbers = means[:, self.visible.numbers]
        found = {
            "weights": states.T @ (law[:, None] * means),
            "hidden_bias": law @ states,
            "visible_bias": law @ means,
            "squares": law @ numbers.square() + 1 / machine.precision,
        }
        return {name: value.numpy() for name, value in found.items()}

    def _joints(self, data: Rows, parameters: Arrays) -> Iterable[tuple[slice, Tensor, Tensor, Tensor]]:
        """Yield rows, their units, which are known, and the log density with each hidden state."""
        machine, _, scores, inputs, logs, _ = self._tables(parameters)
        log_partition = (scores + logs.sum(dim=1)).logsumexp(dim=0)
        step = max(1, CHUNK // len(scores))
        spread = torch.from_numpy(np.log(self.spread))
        for begin in range(0, len(data), step):
            place = slice(begin, begin + step)
            units, known = self.encode(data.values[place])
            there = torch.from_numpy(~np.isnan(data.values[place])).double()
            own = -units[:, self.visible.numbers].square() @ machine.precision / 2 - there @ spread
            joint = scores + units @ inputs.T + (1 - there) @ logs.T + own[:, None] - log_partition
            yield place, units, known, joint

    def expected_statistics(self, data: Rows, parameters: Arrays, fill: Fill) -> Arrays:
        """Return sums over the rows of what the parameters are multiplied by; missing cells are summed out."""
        machine, states, _, _, _, means = self._tables(parameters)
        total: dict[str, Any] = dict.fromkeys(("objective", "count", *NAMES[:3], "squares"), 0.0)
        for place, units, known, joint in self._joints(data, parameters):
            values, shares = fill_in(joint.numpy(), fill)
            weights = np.ones(len(values)) if data.weights is None else data.weights[place]
            owners = torch.from_numpy(shares * weights[:, None])
            given = torch.from_numpy(weights)
            lost = owners.T @ (~known).double()
            visible = owners.T @ units + lost * means
            numbers = self.visible.numbers
            squares = given @ units[:, numbers].square() + (
                lost[:, numbers] * (means[:, numbers].square() + 1 / machine.precision)
            ).sum(dim=0)
            found = {
                "objective": np.where(weights > 0, values * weights, 0.0).sum(),
                "count": weights.sum(),
                "weights": (states.T @ visible).numpy(),
                "hidden_bias": (owners.sum(dim=0) @ states).numpy(),
                "visible_bias": visible.sum(dim=0).numpy(),
                "squares": squares.numpy(),
            }
            total = {name: total[name] + value for name, value in found.items()}
        return {name: np.asarray(value) for name, value in total.items()}

    def fit(
        self, data: Rows, begin: Arrays, generator: torch.Generator, batch: int, **options: Any
    ) -> Machine:
        """Learn by stochastic gradients; missing units are drawn given the known ones, once for each epoch."""
        units, known = (each.float() for each in self.encode(data.values))
        start = self.machine(begin)
        weights, hidden, visible = (part.float() for part in start.parts)
        machine = Machine(weights, hidden, visible, self.visible, start.precision.float())
        holes = (known == 0).any(dim=1)
        filled = torch.where(known == 1, units, machine.visible_given(torch.zeros(1, self.num_hidden)))
        share = None if data.weights is None else torch.from_numpy(data.weights)

        def batches(now: Machine) -> Iterable[Tensor]:
            if bool(holes.any()):
                drawn = now.sweep(filled[holes], generator)
                filled[holes] = torch.where(known[holes] == 1, units[holes], drawn)
            order = (
                torch.randperm(len(units), generator=generator)
                if share is None
                else torch.multinomial(share, len(units), replacement=True, generator=generator)
            )
            for rows in order.split(batch):
                yield filled[rows]

        mass = len(units) if share is None else float(share.sum())
        l2, smoothing = self.l2 / mass, self.smoothing / mass
        return fit_rbm(batches, machine, generator=generator, l2=l2, smoothing=smoothing, **options)

    # -- rows ----------------------------------------------------------------------------------------------

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    def log_partition(self, parameters: Arrays) -> tuple[float, float]:
        """Return log Z of standardised rows and its standard error, 0 where it is summed."""
        machine = self.machine(parameters)
        if self.num_hidden <= max(self.most_exact, EXACT_LOG_PARTITION):
            return float(machine.log_partition()), 0.0
        value, error = machine.annealed_log_partition(self._generator())
        return float(value), float(error)

    def log_likelihood(self, data: Rows, parameters: Arrays) -> Float[Array, " rows"]:
        """Return the log-likelihood of each row; an estimate where there are many hidden variables."""
        if self.exact:
            parts = [joint.logsumexp(dim=1) for _, _, _, joint in self._joints(data, parameters)]
            return torch.cat(parts).numpy() if parts else np.empty(0)
        machine, (units, known) = self.machine(parameters), self.encode(data.values)
        holes = ~known.all(dim=1)
        found = -machine.free_energy(units)
        for rows in holes.nonzero()[:, 0].split(64) if bool(holes.any()) else ():
            found[rows] = machine.annealed_log_partition(
                self._generator(), chains=50, temperatures=300, fixed=(units[rows], known[rows])
            )[0]
        log_partition = parameters["log_partition"][0] if "log_partition" in parameters else None
        if log_partition is None:
            log_partition = self.log_partition(parameters)[0]
        there = ~np.isnan(data.values)
        return found.numpy() - log_partition - there @ np.log(self.spread)

    def infer(self, data: Rows, parameters: Arrays) -> Float[Array, "rows hidden"]:
        """Return the probability that each hidden variable is 1."""
        if not self.exact:
            return self._chained(data, parameters, self._generator())[1].numpy()
        states = all_states(self.num_hidden)
        return np.concatenate(
            [np.empty((0, self.num_hidden))]
            + [(joint.softmax(dim=1) @ states).numpy() for *_, joint in self._joints(data, parameters)]
        )

    def _chained(
        self, data: Rows, parameters: Arrays, generator: torch.Generator, sweeps: int = 200
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean units, mean hidden variables and drawn units of rows whose missing units are drawn in turns."""
        machine, (units, known) = self.machine(parameters), self.encode(data.values)
        holes = ~known.all(dim=1)
        mean, hidden, drawn = units.clone(), machine.hidden_given(units), units.clone()
        now, fixed, there = units[holes], units[holes], known[holes]
        visible, latent = torch.zeros_like(now), torch.zeros(len(now), self.num_hidden).double()
        for turn in range(sweeps if len(now) else 0):
            share = machine.hidden_given(now)
            states = torch.bernoulli(share, generator=generator)
            inputs = machine.inputs(states)
            now = torch.where(there, fixed, self.visible.draw(inputs, machine.precision, generator))
            if turn >= sweeps // 4:
                latent += machine.hidden_given(now)
                visible += self.visible.log_sums(inputs, machine.precision)[1]
        kept = max(sweeps - sweeps // 4, 1)
        mean[holes], hidden[holes] = torch.where(there, fixed, visible / kept), latent / kept
        drawn[holes] = now
        return mean, hidden, drawn

    def impute(self, data: Rows, parameters: Arrays) -> Float[Array, "rows columns"]:
        """Return the cells, missing numbers filled by their conditional means, missing symbols by the most likely."""
        if self.exact:
            means = self._tables(parameters)[-1]
            found = [joint.softmax(dim=1) @ means for *_, joint in self._joints(data, parameters)]
            mean = torch.cat(found)
        else:
            mean = self._chained(data, parameters, self._generator())[0]
        return np.where(np.isnan(data.values), self.decode(mean), data.values)

    def sample_missing(
        self, data: Rows, parameters: Arrays, generator: np.random.Generator
    ) -> Float[Array, "rows columns"]:
        """Return the cells, missing ones filled by a draw given the rest of their row."""
        random = torch.Generator().manual_seed(int(generator.integers(2**62)))
        if self.exact:
            machine, _, _, inputs, _, _ = self._tables(parameters)
            found = [
                inputs[torch.multinomial(joint.softmax(dim=1), 1, generator=random)[:, 0]]
                for *_, joint in self._joints(data, parameters)
            ]
            drawn = self.visible.draw(torch.cat(found), machine.precision, random)
        else:
            drawn = self._chained(data, parameters, random)[2]
        return np.where(np.isnan(data.values), self.decode(drawn), data.values)

    def reconstruct(self, data: Rows, parameters: Arrays) -> Float[Array, "rows columns"]:
        """Return the cells as they are expected given the hidden variables' own expectations."""
        hidden = torch.from_numpy(self.infer(data, parameters))
        return self.decode(self.machine(parameters).visible_given(hidden))

    def sample(
        self, count: int, parameters: Arrays, generator: np.random.Generator
    ) -> tuple[Float[Array, "rows columns"], Array]:
        """Draw rows and their hidden variables; where there are many of these, the ends of long chains."""
        machine, random = (
            self.machine(parameters),
            torch.Generator().manual_seed(int(generator.integers(2**62))),
        )
        if self.exact:
            _, states, scores, _, logs, _ = self._tables(parameters)
            law = (scores + logs.sum(dim=1)).softmax(dim=0)
            hidden = states[torch.multinomial(law, count, replacement=True, generator=random)]
        else:
            hidden = torch.bernoulli(machine.hidden_bias.sigmoid().expand(count, -1), generator=random)
            for _ in range(1000):
                drawn = self.visible.draw(machine.inputs(hidden), machine.precision, random)
                hidden = torch.bernoulli(machine.hidden_given(drawn), generator=random)
        units = self.visible.draw(machine.inputs(hidden), machine.precision, random)
        return self.decode(units), hidden.numpy().astype(np.int64)
