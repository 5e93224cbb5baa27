"""How long do exact marginals of all variables take on large Bayesian networks, compared with pyAgrum and pgmpy?

The networks are those of the bnlearn repository (BIF files), without evidence. *All* includes what depends only on
the structure: elimination order, junction tree and memory layout; *infer* is the rest, up to the marginals of all
variables (ours also computes those of all factors). Compared with: pyAgrum's LazyPropagation and ShaferShenoy, and
pgmpy's variable elimination, each in its own process with a time limit (blank where it is exceeded; larger networks
are then skipped). All use one thread; the best of several runs where a run is short. Without evidence pgmpy drops
everything but the ancestors of the query (of munin1's 186 variables, 13 remain on average), which is less work than a
calibrated tree; with evidence at the leaves it takes seconds per variable. The deviation is the largest difference
from our marginals; the tables in the files are rounded, and pyAgrum normalises them.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.environment import main
from hiddenfield import fields
from hiddenfield.inference.cliques.messages import collect_messages, distribute_messages
from hiddenfield.inference.cliques.plan import clique_plan

ROOT = Path(__file__).resolve().parents[1]
NETWORKS = (
    *("alarm", "hailfinder", "win95pts", "andes", "pigs", "mildew", "diabetes"),
    *("munin3", "munin4", "munin", "link", "munin1"),
)
QUICK = ("alarm", "hailfinder", "andes")
LIMIT = 220.0  # seconds that a rival may take for a network, reading it included
Measured = tuple[float, float, dict[str, np.ndarray]]


def best(call: Callable[[], Any], seconds: float = 2.0, most: int = 7) -> tuple[float, Any]:
    """Return the best time of several calls that together take a few seconds, and the last result."""
    times: list[float] = []
    while len(times) < most and (not times or sum(times) + times[-1] < seconds):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result


def ours(path: Path) -> tuple[Measured, dict[str, Any]]:
    """Measure plan and inference; return the marginals by name and the size of the problem."""
    field = fields.read(path)
    clique_plan(field)  # compiles
    plan_time, plan = best(lambda: clique_plan(field))

    def infer() -> tuple[torch.Tensor, np.ndarray]:
        marginals = distribute_messages(plan, collect_messages(field, plan))
        return torch.from_numpy(marginals).log(), marginals

    infer()
    infer_time, (_, flat) = best(infer)
    start = field.state_ptr.tolist()
    marginals = {
        name: flat[start[number] : start[number + 1]] for number, name in enumerate(field.variable_names)
    }
    size = {
        "variables": field.num_variables,
        "width": plan.order.width,
        "log2 largest clique": round(plan.tree.log_clique_states.max() / math.log(2), 1),
    }
    return (plan_time, infer_time, marginals), size


def pyagrum(path: Path, algorithm: str) -> Measured:
    """Measure pyAgrum."""
    import pyagrum as gum

    gum.setNumberOfThreads(1)
    network = gum.loadBN(str(path))
    names = network.names()
    plans, infers = [], []
    while len(infers) < 5 and (not infers or sum(plans) + sum(infers) < 2):
        start = time.perf_counter()
        engine = getattr(gum, algorithm)(network)
        engine.junctionTree()
        middle = time.perf_counter()
        engine.makeInference()
        marginals = {name: engine.posterior(name).toarray() for name in names}
        end = time.perf_counter()
        plans.append(middle - start)
        infers.append(end - middle)
    return min(plans), min(infers), marginals


def pgmpy(path: Path) -> Measured:
    """Measure pgmpy: one elimination for each variable, which is its fastest way (calibrating alarm takes a minute)."""
    from pgmpy.inference import VariableElimination
    from pgmpy.readwrite import BIFReader

    network = BIFReader(str(path)).get_model()
    start = time.perf_counter()
    engine = VariableElimination(network)
    marginals = {
        name: engine.query([name], show_progress=False).values.reshape(-1) for name in network.nodes()
    }
    return 0.0, time.perf_counter() - start, marginals


RIVALS: dict[str, tuple[Callable[..., Measured], tuple[str, ...]]] = {
    "pyAgrum lazy": (pyagrum, ("LazyPropagation",)),
    "pyAgrum Shafer-Shenoy": (pyagrum, ("ShaferShenoyInference",)),
    "pgmpy": (pgmpy, ()),
}


def work(connection: Any, name: str, path: Path) -> None:
    """Run a rival in this process and send what it found, or nothing where it failed."""
    import warnings

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    function, arguments = RIVALS[name]
    try:
        connection.send(function(path, *arguments))
    except Exception as error:  # a rival's own trouble is a blank in the table
        print(f"{name} on {path.stem}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        connection.send(None)


def measure(name: str, path: Path, limit: float) -> Measured | None:
    """Return the result of a rival within the limit; None where it is exceeded."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(sender, name, path), daemon=True)
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(limit) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def deviation(marginals: dict[str, np.ndarray], rival: dict[str, np.ndarray]) -> float | None:
    """Return the greatest difference; a rival may name states in another order, and then it is sorted."""
    worst = 0.0
    for name, found in marginals.items():
        if name not in rival:
            return None
        other = np.asarray(rival[name]).reshape(-1)
        worst = max(worst, min(np.abs(found - other).max(), np.abs(np.sort(found) - np.sort(other)).max()))
    return worst


def row(path: Path, limit: float, gone: set[str]) -> dict[str, Any]:
    """Measure one network; a rival that exceeded the limit on a smaller one is skipped."""
    (plan, infer, marginals), size = ours(path)
    result: dict[str, Any] = {
        "network": path.stem,
        **size,
        "infer (ms)": infer * 1e3,
        "all (ms)": (plan + infer) * 1e3,
    }
    fastest, worst = math.inf, None
    for name in RIVALS:
        found = None if name in gone else measure(name, path, limit)
        if found is None:
            gone.add(name)
        if name != "pgmpy":
            result[f"{name}, infer (ms)"] = None if found is None else found[1] * 1e3
        result[f"{name}, all (ms)"] = None if found is None else (found[0] + found[1]) * 1e3
        if found is not None:
            fastest = min(fastest, found[0] + found[1])
            difference = deviation(marginals, found[2])
            worst = difference if worst is None else max(worst, difference or 0.0)
    result["fastest rival / ours"] = fastest / (plan + infer) if math.isfinite(fastest) else None
    result["deviation"] = None if worst is None else f"{worst:.0e}"
    return result


def run(quick: bool = False) -> dict[str, Any]:
    """Measure all networks, the small ones first."""
    torch.set_num_threads(1)
    data = Path(os.environ.get("HIDDENFIELD_DATA", ROOT.parent / "shared" / "data"))
    limit = 20.0 if quick else LIMIT
    gone: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(data / "inference" / "bnlearn_bif.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        paths = {path.stem: path for path in Path(folder).rglob("*.bif")}
        chosen = [paths[name] for name in (QUICK if quick else NETWORKS) if name in paths]
        rows = [row(path, limit, gone) for path in chosen]
    return {"question": "exact marginals of all variables", "rows": rows}


if __name__ == "__main__":
    main(run)
