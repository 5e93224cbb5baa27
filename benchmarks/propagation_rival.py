"""PGMax in its own process: it needs an older jax than the project's environment may have.

``python propagation_rival.py problem.npz``: builds the field, prints ``ready``, and for each number n that it reads
runs n sweeps from the start and prints the CPU seconds that they took; an empty line ends it, and the beliefs of the
last run are written beside the problem. On one core, with the XLA runtime that is faster for this program.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from pathlib import Path

import numpy as np


def main(path: Path) -> None:
    import jax
    from pgmax import fgraph, fgroup, infer, vgroup

    problem = np.load(path)
    scopes, unary, tables = problem["scopes"], problem["unary"], problem["tables"]
    variables = vgroup.NDVarArray(num_states=unary.shape[1], shape=(len(unary),))
    graph = fgraph.FactorGraph(variable_groups=variables)
    pairs = [[variables[int(first)], variables[int(second)]] for first, second in scopes]
    graph.add_factors(fgroup.PairwiseFactorGroup(variables_for_factors=pairs, log_potential_matrix=tables))
    propagation = infer.build_inferer(graph.bp_state, backend="bp")
    start = propagation.init(evidence_updates={variables: unary})
    compiled = {}
    print("ready", flush=True)
    for line in sys.stdin:
        if not line.strip():
            break
        sweeps = int(line)
        if sweeps not in compiled:
            run = functools.partial(propagation.run, num_iters=sweeps, damping=0.0, temperature=1.0)
            compiled[sweeps] = jax.jit(run)
            jax.block_until_ready(compiled[sweeps](start).ftov_msgs)
        begin = time.process_time()
        arrays = compiled[sweeps](start)
        jax.block_until_ready(arrays.ftov_msgs)
        print(time.process_time() - begin, flush=True)
    beliefs = infer.get_marginals(propagation.get_beliefs(arrays))[variables]
    np.save(path.with_suffix(".npy"), np.asarray(beliefs))


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = (
        "--xla_cpu_use_thunk_runtime=false --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    )
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    main(Path(sys.argv[1]))
