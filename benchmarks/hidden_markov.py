"""How fast is an iteration of Baum-Welch, beside hmmlearn and dynamax?

100 sequences of 1,000 steps, 10 states, 20 symbols; every package starts from the same parameters and must reach the
same log-likelihood. The time of an iteration is the difference between a long and a short fit by its iterations, so
that what is done once (compiling, checking) does not count; packages take turns, and the best of each is kept. hmmlearn
is run with both of its implementations, dynamax in double precision on the CPU with flat priors. Packages that are not
installed are left out.

The last rows are the same number of nodes in one sequence and in random trees, and one E step by the general engine,
`infer(field, "exact")`, whose posteriors are the same.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.environment import main
from hiddenfield.data import Table, TableColumn, Vocabulary
from hiddenfield.fields import from_factors
from hiddenfield.inference import infer
from hiddenfield.learning.em import Arrays, fit_em
from hiddenfield.models.hidden_markov.emissions import Symbols
from hiddenfield.models.hidden_markov.forest import Forest, Sequences
from hiddenfield.models.hidden_markov.model import HiddenMarkov
from hiddenfield.models.hidden_markov.states import expected_counts

SHORT, LONG = 5, 45
Fit = Callable[[int], float]


def problem(sequences: int, steps: int, states: int, symbols: int) -> tuple[np.ndarray, Arrays]:
    """Draw sequences from one model, and parameters of another to start from."""
    random = np.random.default_rng(0)
    law = {
        "initial": np.full(states, 1 / states),
        "transitions": random.dirichlet(np.ones(states), states),
        "probabilities.x": random.dirichlet(np.ones(symbols), states),
    }
    truth = 0.8 * np.eye(states) + 0.2 * law["transitions"][::-1]
    emitted = np.cumsum(random.dirichlet(np.full(symbols, 0.3), states), axis=1)
    now, found = random.integers(0, states, sequences), np.empty((sequences, steps), np.int64)
    for step in range(steps):
        found[:, step] = (random.random((sequences, 1)) > emitted[now, :-1]).sum(1)
        now = (random.random((sequences, 1)) > np.cumsum(truth, axis=1)[now, :-1]).sum(1)
    return found, law


def ours(codes: np.ndarray, law: Arrays, forest: Forest) -> tuple[Fit, HiddenMarkov, Sequences]:
    """Return our fit."""
    column = TableColumn("x", "categorical", Vocabulary("x", tuple(range(law["probabilities.x"].shape[1]))))
    data = Sequences.of(forest, Table(codes.reshape(-1, 1).astype(float), (column,)))
    states = len(law["initial"])
    full = np.ones((states, states), bool)
    model = HiddenMarkov([Symbols((column,), (0,), states)], full, full[0])

    def fit(iterations: int) -> float:
        found = fit_em(model, data, start=law, max_iterations=iterations, tolerance=1e-300)
        return found.best.trace[-1]

    return fit, model, data


def hmmlearn(codes: np.ndarray, law: Arrays, implementation: str) -> Fit:
    """Return hmmlearn's fit."""
    from hmmlearn.hmm import CategoricalHMM

    states, symbols = law["probabilities.x"].shape

    def fit(iterations: int) -> float:
        model = CategoricalHMM(
            states,
            n_iter=iterations,
            tol=-np.inf,
            init_params="",
            implementation=implementation,
            n_features=symbols,
        )
        model.startprob_, model.transmat_ = law["initial"].copy(), law["transitions"].copy()
        model.emissionprob_ = law["probabilities.x"].copy()
        model.fit(codes.reshape(-1, 1), [codes.shape[1]] * len(codes))
        return float(model.monitor_.history[-1])

    return fit


def dynamax(codes: np.ndarray, law: Arrays) -> Fit:
    """Return dynamax's fit."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from dynamax.hidden_markov_model import CategoricalHMM

    states, symbols = law["probabilities.x"].shape
    flat = {f"{name}_concentration": 1.0 for name in ("initial_probs", "transition_matrix")}
    model = CategoricalHMM(states, 1, symbols, emission_prior_concentration=1.0, **flat)
    parameters, properties = model.initialize(
        initial_probs=jax.numpy.array(law["initial"]),
        transition_matrix=jax.numpy.array(law["transitions"]),
        emission_probs=jax.numpy.array(law["probabilities.x"][:, None]),
    )
    emissions = jax.numpy.array(codes[:, :, None])
    # It adds the log density of the flat priors, which is constant.
    flat_prior = (states + 1) * math.lgamma(states) + states * math.lgamma(symbols)

    def fit(iterations: int) -> float:
        _, values = model.fit_em(parameters, properties, emissions, num_iters=iterations, verbose=False)
        return float(values[-1]) - flat_prior

    return fit


def per_iteration(candidates: dict[str, Fit], repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the best time of an iteration of each, and the log-likelihood after the long fit."""
    best: dict[tuple[str, int], float] = {}
    values = {}
    for _ in range(repeats):
        for name, fit in candidates.items():
            for iterations in (SHORT, LONG):
                start = time.perf_counter()
                values[name] = fit(iterations)
                seconds = time.perf_counter() - start
                best[name, iterations] = min(best.get((name, iterations), np.inf), seconds)
    return {name: (best[name, LONG] - best[name, SHORT]) / (LONG - SHORT) for name in candidates}, values


def engine(model: HiddenMarkov, data: Sequences, law: Arrays) -> tuple[float, float]:
    """Return the time of one E step by the general engine, and how far its posteriors are from ours."""
    parent, chain = data.forest.parent, model.chain(data, law)
    moves, first = chain.logs
    unary = chain.log_likelihood[data.row] + np.where((parent < 0)[:, None], first, 0.0)
    arcs = [(int(above), node) for node, above in enumerate(parent) if above >= 0]
    field = from_factors([*arcs, *((node,) for node in range(len(parent)))], [*([moves] * len(arcs)), *unary])
    infer(field, "exact")
    start = time.perf_counter()
    posterior = infer(field, "exact")
    seconds = time.perf_counter() - start
    exact = posterior.log_marginals.exp().numpy().reshape(len(parent), -1)
    return seconds, float(np.abs(exact - expected_counts(data, chain, per_node=True).occupancy).max())


def run(*, quick: bool = False) -> dict[str, Any]:
    """Time all that are installed."""
    warnings.simplefilter("ignore")
    logging.disable()
    sequences, steps, repeats = (20, 200, 1) if quick else (100, 1000, 5)
    codes, law = problem(sequences, steps, 10, 20)
    nodes = codes.size
    random = np.random.default_rng(1)
    trees = [
        np.array([-1, *(random.integers(max(0, i - 5), i) for i in range(1, steps))])
        for _ in range(sequences)
    ]
    fit, model, data = ours(codes, law, Forest.of_lengths([steps] * sequences))
    candidates: dict[str, Fit] = {"hiddenfield": fit}
    if importlib.util.find_spec("hmmlearn"):
        candidates["hmmlearn, scaling"] = hmmlearn(codes, law, "scaling")
        candidates["hmmlearn, log"] = hmmlearn(codes, law, "log")
    if importlib.util.find_spec("dynamax"):
        candidates["dynamax"] = dynamax(codes, law)
    candidates["hiddenfield, one sequence"] = ours(codes, law, Forest.of_lengths([nodes]))[0]
    candidates["hiddenfield, trees"] = ours(codes, law, Forest.of_parents(trees))[0]
    times, values = per_iteration(candidates, repeats)
    rows = [
        {
            "package": name,
            "iteration, ms": 1e3 * seconds,
            "ns a node": 1e9 * seconds / nodes,
            "times ours": seconds / times["hiddenfield"],
            "log-likelihood": round(values[name], 4),
        }
        for name, seconds in times.items()
    ]
    seconds, error = engine(model, data, law)
    rows.append(
        {
            "package": f"infer(field, 'exact'), one E step, posteriors within {error:.0e}",
            "iteration, ms": 1e3 * seconds,
            "ns a node": 1e9 * seconds / nodes,
            "times ours": seconds / times["hiddenfield"],
            "log-likelihood": None,
        }
    )
    return {"rows": rows}


if __name__ == "__main__":
    main(run)
