"""The double loop: minimise the Bethe or Kikuchi free energy, never letting it rise."""

from __future__ import annotations

from hiddenfield.fields.factor_graph import FactorGraph
from hiddenfield.fields.graphs.region_clusters import choose_regions
from hiddenfield.fields.graphs.region_graph import RegionGraph
from hiddenfield.inference.posterior import METHODS, Posterior
from hiddenfield.inference.regions.driver import conclude, descend
from hiddenfield.inference.regions.passing import RegionPassing

__all__ = ["double_loop"]

REMEDY = "raise max_iterations: the free energy falls with every one"


@METHODS.register(guarantee="exact on forests, else an estimate", reference="Yuille 2002")
def double_loop(
    field: FactorGraph,
    *,
    regions: str | RegionGraph = "bethe",
    tolerance: float = 1e-6,
    max_iterations: int = 5000,
    inner_iterations: int = 400,
    backend: str = "auto",
) -> Posterior:
    r"""Minimise a free energy by bounding its concave part at the last beliefs, again and again.

    With the counting numbers split into :math:`c_\beta = \max(c_\beta, 0) + \min(c_\beta, 0)`, entropies with a
    negative one are concave, hence below their tangent at the last beliefs :math:`b^{t}`. Each outer iteration
    minimises

    .. math::

        b^{t+1} = \arg\min_b F_{\text{convex}}(b) + \sum_\beta \min(c_\beta, 0)\, E_{b_\beta}[\log b_\beta^{t}]

    over beliefs that agree. It is convex; the inner loop maximises its dual one inner region at a time, which is the
    update of `generalized_bp` with the anchor held fixed, starting from the last messages. Since the bound touches
    F at :math:`b^t`, the free energy never rises: ``trace["free_energy"]`` records it (the sum over graphs), monotone
    up to the tolerance of the inner loop. To need fewer iterations, the tangent is taken at beliefs extrapolated from
    the last eight (Anderson 1965; changes count by their probability); where that would let the free energy rise, it
    is taken at the last ones after all. Fixed points are those of belief propagation (on Bethe's regions) or
    generalized belief propagation; only minima attract.

    Parameters
    ----------
    field
        The field; with counts on Bethe's regions only.
    regions
        As in `generalized_bp`; Bethe's by default, the algorithm of Yuille.
    tolerance, max_iterations
        Of the largest change of a probability; outer iterations.
    inner_iterations
        Sweeps of the inner loop, at most.
    backend
        "numba", "torch" or "auto".

    Returns
    -------
    Posterior
        As of `generalized_bp`, with ``trace["free_energy"]``.

    Notes
    -----
    An outer iteration costs some ten to thirty sweeps; tens of them are usual, hundreds where it is hard.

    References
    ----------
    Yuille (2002), CCCP algorithms to minimize the Bethe and Kikuchi free energies. Heskes, Albers and Kappen (2003),
    Approximate inference and constrained optimization. Anderson (1965), Iterative procedures for nonlinear integral
    equations.

    Examples
    --------
    >>> from hiddenfield.fields import ising_grid
    >>> posterior = double_loop(ising_grid(3, 3, -0.5, 0.1))
    >>> energies = posterior.trace["free_energy"]
    >>> posterior.status, all(later <= earlier + 1e-9 for earlier, later in zip(energies, energies[1:]))
    ('converged', True)
    """
    passing = RegionPassing(field, choose_regions(field, regions))
    outcome, energies = descend(
        passing,
        passing.start(),
        tolerance=tolerance,
        max_iterations=max_iterations,
        inner_iterations=inner_iterations,
        backend=backend,
    )
    trace = {"residual": outcome.trace, "free_energy": energies}
    status = outcome.describe(tolerance, REMEDY)
    return conclude(passing, "double_loop", outcome.state.messages, outcome, status, trace)
