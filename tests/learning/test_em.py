"""The EM driver: fills, restarts, acceleration, batches, shards, checkpoints, and what goes with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from hiddenfield.data.rows import Rows
from hiddenfield.errors import CollapseError, ConvergenceWarning, InputError, TooLargeError, TrainingError
from hiddenfield.learning.em import fit_em
from hiddenfield.learning.multiple_imputation import pool
from hiddenfield.learning.observed_information import standard_errors
from hiddenfield.learning.shards import Shards
from hiddenfield.models.gaussian_mixture import MixtureOfGaussians
from hiddenfield.models.gaussians import Gaussians

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def values():
    random = np.random.default_rng(4)
    found = np.concatenate([random.normal(size=(60, 2)), 2 * random.normal(size=(60, 2)) + 3])
    found[random.random(found.shape) < 0.2] = np.nan
    return found


def mixture(values, count=2, kind="full"):
    return MixtureOfGaussians(count, Gaussians(kind, np.nanmean(values, 0), np.nanstd(values, 0)))


def same(first, second):
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def test_a_fall_of_the_objective_is_an_error(values):
    class Wrong(MixtureOfGaussians):
        def maximize(self, statistics, parameters):
            found = super().maximize(statistics, parameters)
            return found | {"means": found["means"] + 0.5}

    model = Wrong(2, mixture(values).gaussians)
    with pytest.raises(TrainingError, match=r"the objective fell from -.* the model is wrong"):
        fit_em(model, Rows(values))
    assert len(fit_em(model, Rows(values), fill="sample", max_iterations=6).best.trace) == 6


def test_acceleration_is_as_good_in_fewer_turns(values):
    plain = fit_em(mixture(values), Rows(values), tolerance=1e-10, max_iterations=5000)
    fast = fit_em(mixture(values), Rows(values), tolerance=1e-10, acceleration="squarem")
    assert fast.best.iterations < plain.best.iterations / 2
    assert fast.best.objective >= plain.best.objective - 1e-6
    assert (np.diff(fast.best.trace) > -1e-9).all()


def test_restarts_are_reported_and_the_best_is_kept(values):
    model, options = mixture(values, 4), {"start": "random", "tolerance": 1e-4}
    found = fit_em(model, Rows(values), restarts=5, **options)
    assert len(found.runs) == 5
    assert found.best.objective == max(run.objective for run in found.runs)
    assert len({round(run.objective, 3) for run in found.runs}) > 1
    again = fit_em(model, Rows(values), restarts=5, **options)
    assert [run.trace for run in found.runs] == [run.trace for run in again.runs]
    # More restarts begin with the same ones.
    assert fit_em(model, Rows(values), restarts=2, **options).runs[1].trace == found.runs[1].trace


def test_shards_add_up(values):
    model = mixture(values)
    start = model.start(Rows(values), "k_means", np.random.default_rng(0))
    whole = fit_em(model, Rows(values), start=start, tolerance=1e-9)
    weights = np.ones(len(values))
    parts = fit_em(
        model, Shards([Rows(values[i::3], weights[i::3]) for i in range(3)]), start=start, tolerance=1e-9
    )
    assert parts.best.objective == pytest.approx(whole.best.objective)
    np.testing.assert_allclose(parts.parameters["means"], whole.parameters["means"], rtol=1e-6)
    stepwise = fit_em(model, Shards([Rows(values[i::3]) for i in range(3)]), batch_size=20, tolerance=1e-2)
    assert stepwise.best.objective > whole.best.objective - 0.05 * len(values)


def test_weights_are_copies(values):
    counts = np.arange(len(values)) % 3
    model = mixture(values)
    start = model.start(Rows(values), "k_means", np.random.default_rng(0))
    weighted = fit_em(model, Rows(values, counts.astype(float)), start=start)
    copied = fit_em(model, Rows(np.repeat(values, counts, axis=0)), start=start)
    assert weighted.best.trace == pytest.approx(copied.best.trace)


KILLED = """
import sys, numpy as np
from hiddenfield.data.rows import Rows
from hiddenfield.learning.em import fit_em
from hiddenfield.models.gaussian_mixture import MixtureOfGaussians
from hiddenfield.models.gaussians import Gaussians, NormalPrior
random = np.random.default_rng(4)
values = np.concatenate([random.normal(size=(150, 3)), 2 * random.normal(size=(150, 3)) + 2])
values[random.random(values.shape) < 0.2] = np.nan
centre, spread = np.nanmean(values, 0), np.nanstd(values, 0)
model = MixtureOfGaussians(3, Gaussians("full", centre, spread, NormalPrior(centre, 0.1, 5.0, spread**2)))
def learn(fill, checkpoint=None, turns=160, advance=None):
    options = {"restarts": 2, "tolerance": 1e-13, "acceleration": "squarem", "seed": 3}
    options |= {"checkpoint": checkpoint, "max_iterations": turns, "advance": advance}
    return fit_em(model, Rows(values), fill=fill, **options)
"""


@pytest.mark.parametrize("fill", ["expectation", "gibbs"])
def test_a_killed_run_goes_on_to_the_same_result(fill, tmp_path):
    own: dict = {}
    exec(textwrap.dedent(KILLED), own)
    # The process says when it has taken some turns, and goes on slowly until it is killed.
    script = KILLED + textwrap.dedent(f"""
        import time
        taken = []
        def advance(_):
            taken.append(1)
            if len(taken) > 60:
                print("now", flush=True)
                time.sleep(60)
        learn({fill!r}, {str(tmp_path / "run")!r}, advance=advance)
    """)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline() == b"now\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    files = sorted((tmp_path / "run").iterdir())
    assert [file.name for file in files if not file.name.startswith(".")] == [
        "run_0.safetensors",
        "run_1.safetensors",
    ]
    taken: list[int] = []
    resumed = own["learn"](fill, tmp_path / "run", advance=taken.append)
    whole = own["learn"](fill)
    total = sum(run.iterations for run in whole.runs)
    assert 0 < len(taken) < total
    assert [run.trace for run in resumed.runs] == [run.trace for run in whole.runs]
    assert same(resumed.parameters, whole.parameters)
    assert len(resumed.draws) == len(whole.draws)
    assert all(same(*pair) for pair in zip(resumed.draws, whole.draws, strict=True))
    with pytest.raises(InputError, match=r"run_0\.safetensors is of a run with other fill"):
        own["learn"]("mode", tmp_path / "run")


def test_standard_errors_of_one_gaussian_are_known():
    random = np.random.default_rng(0)
    values = random.normal(size=(400, 2)) @ np.array([[2.0, 0.0], [1.0, 0.5]])
    model = mixture(values, 1)
    found = fit_em(model, Rows(values)).parameters
    errors = standard_errors(model, Rows(values), found)
    covariance = found["covariances"][0]
    variances = np.diag(covariance)
    np.testing.assert_allclose(errors["means"][0], np.sqrt(variances / 400), rtol=1e-3)
    exact = np.sqrt((np.outer(variances, variances) + covariance**2) / 400)
    np.testing.assert_allclose(errors["covariances"][0], exact, rtol=1e-3)
    assert errors["weights"] == 0
    # Holes take information away: as much as there are, where columns are independent.
    holes = values.copy()
    holes[::2, 1] = np.nan
    model = mixture(holes, 1, "diagonal")
    found = fit_em(model, Rows(holes)).parameters
    less = standard_errors(model, Rows(holes), found)["means"][0]
    np.testing.assert_allclose(less, np.sqrt(found["covariances"][0] / [400, 200]), rtol=1e-3)


def test_standard_errors_of_many_parameters_are_known():
    """Of one Gaussian in 30 columns, whose units differ a millionfold: 495 parameters, as the formulas have them."""
    values = np.random.default_rng(0).normal(size=(300, 30)) * np.logspace(-3, 3, 30) + 5.0
    model = mixture(values, 1)
    found = fit_em(model, Rows(values)).parameters
    errors = standard_errors(model, Rows(values), found)
    variances = np.diag(found["covariances"][0])
    np.testing.assert_allclose(errors["means"][0], np.sqrt(variances / 300), rtol=1e-4)
    exact = np.sqrt((np.outer(variances, variances) + found["covariances"][0] ** 2) / 300)
    np.testing.assert_allclose(errors["covariances"][0], exact, rtol=1e-3)


def test_standard_errors_are_refused_where_there_are_none(values):
    model = mixture(values, 2)
    start = fit_em(model, Rows(values)).parameters
    one = start | {name: np.repeat(start[name][:1], 2, axis=0) for name in ("means", "covariances")}
    with pytest.raises(TrainingError, match="no standard errors: in a direction that changes"):
        standard_errors(model, Rows(values), one)
    wide = np.random.default_rng(0).normal(size=(150, 100))
    model = mixture(wide, 1)
    with pytest.raises(TooLargeError, match="5,150 free parameters"):
        standard_errors(model, Rows(wide), fit_em(model, Rows(wide)).parameters)


def test_pooled_estimates_cover_the_truth():
    """Rubin's rules on draws from the posterior of a normal mean give the interval of what was observed."""
    random = np.random.default_rng(1)
    seen, lost, copies = random.normal(size=60), 40, 2000
    mean, spread = seen.mean(), seen.std(ddof=1)
    scale = spread * np.sqrt(59 / random.chisquare(59, copies))
    centres = mean + scale / np.sqrt(60) * random.normal(size=copies)
    filled = centres[:, None] + scale[:, None] * random.normal(size=(copies, lost))
    whole = np.concatenate([np.repeat(seen[None], copies, axis=0), filled], axis=1)
    pooled = pool(list(whole.mean(1)), list(whole.var(1, ddof=1) / 100))
    assert pooled.estimate[0] == pytest.approx(mean, abs=0.01)
    assert pooled.standard_error[0] == pytest.approx(spread / np.sqrt(60), rel=0.05)
    assert pooled.missing_information[0] == pytest.approx(0.4, abs=0.05)
    low, high = pooled.interval(0.9)[0]
    assert (high - low) / 2 == pytest.approx(1.645 * pooled.standard_error[0], rel=0.02)
    with pytest.raises(InputError, match="at least two imputed data sets"):
        pool([1.0], [1.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fill": "bayes"}, "unknown fill 'bayes'"),
        ({"acceleration": "fast"}, "unknown acceleration"),
        ({"restarts": 0}, "must be at least 1"),
        ({"tolerance": 0.0}, "the tolerance positive"),
        ({"batch_size": 5, "fill": "mode"}, "batches are for fill='expectation'"),
        ({"start": "nearby"}, "unknown start 'nearby'"),
    ],
)
def test_wrong_options_are_named(values, options, message):
    with pytest.raises(InputError, match=message):
        fit_em(mixture(values), Rows(values), **options)


def test_not_converging_is_a_status_and_one_warning(values):
    with pytest.warns(ConvergenceWarning, match="not converged after 2 turns; raise max_iterations") as told:
        found = fit_em(mixture(values), Rows(values), max_iterations=2, tolerance=1e-12)
    assert len(told) == 1
    assert (found.status, found.best.converged) == (str(told[0].message), False)


def test_only_some_runs_collapse():
    random = np.random.default_rng(0)
    values = np.concatenate([random.normal(size=(40, 1)), random.normal(size=(40, 1)) + 6, [[10.0]] * 3])
    found = fit_em(mixture(values, 3), Rows(values), start="random", restarts=8, seed=2)
    status = [run.status for run in found.runs]
    assert found.best.converged
    assert any("has collapsed: a variance has become 0, on rows 80, 81, 82" in each for each in status)
    assert all(run.objective == -np.inf for run in found.runs if "collapsed" in run.status)
    with pytest.raises(CollapseError, match="as in all 2 runs"):
        fit_em(mixture(values, 2), Rows(values[-2:]), restarts=2)


def test_short_runs_find_what_one_start_does_not(values):
    """Of eight groups the starts of k-means++ lose some; the best of short runs is never worse than where it began."""
    random = np.random.default_rng(3)
    groups = np.repeat(random.uniform(-30, 30, (8, 2)), 15, axis=0) + random.normal(size=(120, 2))
    model = mixture(groups, 8)
    one, best = (
        [fit_em(model, Rows(groups), start=how, seed=seed).best.objective for seed in range(2)]
        for how in ("random", "short_runs")
    )
    assert min(best) > np.mean(one) + 1
