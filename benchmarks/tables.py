"""How long does a turn of EM take on tables with holes, compared with pyAgrum and pgmpy where they can?

Latent classes: rows of ten categorical, five binary and five continuous columns, a tenth of the cells missing, ten
classes. No rival here does this: the question is whether time is linear in the rows, and how many cells times classes
a second takes (at least 100 million were wanted). Bayesian networks: ALARM with a fifth of the cells missing beside
pyAgrum's EM, and ALARM with one variable hidden, all others complete, beside pgmpy's EM, which knows no other holes.
Rivals get fewer rows, since they take long; times are CPU seconds of a turn, per row, with one thread, and for pyAgrum
half of the difference between three turns and one. Log-likelihoods per row are those of the tables that three turns of
each led to on the rival's rows, computed by us; they start from different tables.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.environment import main
from hiddenfield import fields
from hiddenfield.data import Table, TableColumn, Vocabulary
from hiddenfield.data.rows import Rows
from hiddenfield.errors import ConvergenceWarning
from hiddenfield.learning.em import Fill, fit_em
from hiddenfield.models.bayesian_network import CodedRows, LearnedNetwork
from hiddenfield.models.conditional_tables import as_structure, network_of
from hiddenfield.models.gaussians import Gaussians
from hiddenfield.models.hidden_markov.emissions import Emission, Numbers, Symbols
from hiddenfield.models.mixed_mixture import MixtureOfColumns

ROOT = Path(__file__).resolve().parents[1]
CLASSES, COLUMNS = 10, 20
HIDDEN = "LVFAILURE"


def seconds(call: Callable[[], Any], repeats: int = 3) -> float:
    """Return the least CPU time of some calls, after one that compiles."""
    call()
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def mixed(rows: int) -> Table:
    """Return rows of all kinds of columns."""
    rng = np.random.default_rng(0)
    columns, values = [], np.empty((rows, COLUMNS))
    for j in range(COLUMNS):
        kind = "categorical" if j < 10 else "binary" if j < 15 else "continuous"
        states = {"categorical": 4, "binary": 2}.get(kind, 0)
        values[:, j] = rng.integers(0, states, rows) if states else rng.normal(size=rows)
        words = Vocabulary(f"c{j}", tuple(range(states))) if states else None
        columns.append(TableColumn(f"c{j}", kind, words))
    values[rng.random(values.shape) < 0.1] = np.nan
    return Table(values, tuple(columns))


def latent_classes(rows: int) -> dict[str, Any]:
    """Measure a turn of latent classes."""
    table, symbols = mixed(rows), COLUMNS - 5
    emissions: list[Emission] = [Symbols(table.columns[:symbols], tuple(range(symbols)), CLASSES)]
    family = Gaussians("diagonal", np.zeros(5), np.ones(5))
    emissions.append(Numbers(tuple(range(symbols, COLUMNS)), CLASSES, 1, family))
    model, data = MixtureOfColumns(CLASSES, table.columns, emissions), Rows(table.values)
    parameters = model.start(data, "random", np.random.default_rng(0))

    def turn() -> None:
        model.maximize(model.expected_statistics(data, parameters, Fill()), parameters)

    taken = seconds(turn)
    speed = rows * COLUMNS * CLASSES / taken / 1e6
    return {"work": f"latent classes, {COLUMNS} columns, {CLASSES} classes", "rows": rows,
            "ours (us per row)": taken / rows * 1e6, "million cells x classes / s": speed}  # fmt: skip


class Alarm:
    """ALARM, rows drawn from it, and what is learned from them."""

    def __init__(self, path: Path) -> None:
        self.path, structure = path, as_structure(path)
        self.network = network_of(structure, [])
        self.truth = np.concatenate([structure.tables[name].ravel() for name in self.network.names])
        self.model = LearnedNetwork(self.network, np.ones(self.network.num_entries))

    def rows(self, count: int, hidden: bool) -> Table:
        """Draw rows with a fifth of the cells missing, or with one column empty."""
        rng = np.random.default_rng(1)
        values = self.model.sample(count, {"tables": self.truth}, rng)[0]
        if hidden:
            values[:, self.network.names.index(HIDDEN)] = np.nan
        else:
            values[rng.random(values.shape) < 0.2] = np.nan
        return Table(values, self.network.variables)

    def ours(self, table: Table) -> tuple[float, np.ndarray]:
        """Return the time of a turn per row, and the tables after three."""
        data = CodedRows.of(self.network, table)
        start = {"tables": self.truth * 0.5 + 0.5 / np.concatenate(
            [np.full(int(np.prod(shape)), shape[-1]) for shape in self.network.shapes])}  # fmt: skip

        def turn() -> None:
            self.model.maximize(self.model.expected_statistics(data, start, Fill()), start)

        taken = seconds(turn)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            learned = fit_em(self.model, data, max_iterations=3)
        return taken / len(table), learned.parameters["tables"]

    def likelihood(self, table: Table, tables: np.ndarray) -> float:
        """Return the mean log-likelihood of the rows."""
        return float(self.model.log_likelihood(CodedRows.of(self.network, table), {"tables": tables}).mean())

    def pyagrum(self, table: Table) -> tuple[float, np.ndarray]:
        """Return the time of a turn of pyAgrum per row, and the tables after three."""
        import pandas
        import pyagrum

        frame = pandas.DataFrame(table.to_dict()).fillna("?").astype(str)
        template = fields.to_pyagrum(fields.read(self.path))
        times = {}
        for turns in (1, 3):
            learner = pyagrum.BNLearner(frame, template, ["?"])
            learner.setNumberOfThreads(1)
            learner.useSmoothingPrior(1)
            learner.useEM(1e-9)
            learner.EMdisableEpsilon()
            learner.EMdisableMinEpsilonRate()
            learner.EMsetMaxIter(turns)
            start = time.process_time()
            found = learner.learnParameters(template.dag())
            times[turns] = time.process_time() - start
        structure = as_structure(fields.from_pyagrum(found))
        tables = np.concatenate([structure.tables[name].ravel() for name in self.network.names])
        return (times[3] - times[1]) / 2 / len(table), tables

    def pgmpy(self, table: Table) -> tuple[float, None]:
        """Return the time of a turn of pgmpy per row."""
        import pandas
        from pgmpy.estimators import ExpectationMaximization
        from pgmpy.models import DiscreteBayesianNetwork

        frame = pandas.DataFrame(table.to_dict()).drop(columns=HIDDEN).astype(str)
        names = self.network.names
        arcs = [(names[p], names[v]) for v, own in enumerate(self.network.parents) for p in own]
        estimator = ExpectationMaximization(DiscreteBayesianNetwork(arcs, latents={HIDDEN}), frame)
        start = time.process_time()
        estimator.get_parameters(max_iter=1, n_jobs=1, seed=0, show_progress=False, apply_smoothing=True)
        return (time.process_time() - start) / len(table), None


def network(alarm: Alarm, rival: str, rows: int, few: int) -> dict[str, Any]:
    """Measure a turn on ALARM beside a rival."""
    hidden = rival == "pgmpy"
    own, _ = alarm.ours(alarm.rows(rows, hidden))
    taken, theirs = getattr(alarm, rival)(alarm.rows(few, hidden))
    small = alarm.rows(few, hidden)
    same = alarm.ours(small)[1]
    holes = f"{HIDDEN} hidden" if hidden else "20 % of cells missing"
    return {
        "work": f"ALARM, {holes}", "rows": rows, "ours (us per row)": own * 1e6, "rival": rival, "its rows": few,
        "rival (us per row)": taken * 1e6, "rival / ours": taken / own,
        "log-likelihood, ours": alarm.likelihood(small, same),
        "log-likelihood, rival": None if theirs is None else alarm.likelihood(small, theirs),
    }  # fmt: skip


def run(quick: bool = False) -> dict[str, Any]:
    """Measure everything."""
    torch.set_num_threads(1)
    data = Path(os.environ.get("HIDDENFIELD_DATA", ROOT.parent / "shared" / "data"))
    sizes = (30_000, 100_000) if quick else (100_000, 300_000, 1_000_000)
    rows = [latent_classes(size) for size in sizes]
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(data / "inference" / "bnlearn_bif.tar.xz") as archive:
            archive.extract("bif/alarm.bif", folder, filter="data")
        alarm = Alarm(Path(folder) / "bif" / "alarm.bif")
        rows += [network(alarm, rival, 10_000, 200 if quick else 1000) for rival in ("pyagrum", "pgmpy")]
    columns = dict.fromkeys(key for row in rows for key in row)
    return {
        "question": "a turn of EM on tables with holes",
        "rows": [{c: row.get(c) for c in columns} for row in rows],
    }


if __name__ == "__main__":
    main(run)
