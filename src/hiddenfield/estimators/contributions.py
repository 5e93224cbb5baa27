"""How much each node contributes to a prediction."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from hiddenfield.data.structures import Structures
from hiddenfield.embedding.predictor import POOLINGS, Predictor
from hiddenfield.learning.task import Task
from hiddenfield.ops import segment_argmax
from hiddenfield.shapes import Float, Tensor


def contributions(network: Predictor, task: Task, structures: Structures) -> Float[Tensor, "nodes outputs"]:
    r"""Divide each prediction among the nodes: gradient times embedding, with gradients that add up.

    With node embeddings :math:`h_i`, pooled to e, and the head :math:`f(e) = U_2 \sigma(U_1 \sigma(e) + u_1) + u_2`,
    node i contributes

    .. math:: c_i = \sum_d m_d\, h_{id}, \qquad m_d = \Delta_d \sum_k U_{1,kd}\, \Delta_k\, U_{2,k},

    where :math:`\Delta` is the slope of a nonlinearity, not at its input but from its input for e = 0 to that for e:
    the gradient where f is linear between the two, and an average of gradients otherwise. Hence, up to rounding and
    for every nonlinearity,

    .. math:: \sum_i c_i = f(e) - f(0),

    what the prediction has more than that for a structure without nodes. For relu these are the integrated gradients
    of f along the straight line from 0 to e (Sundararajan, Taly and Yan 2017), in closed form; for others the rescale
    rule of Shrikumar, Greenside and Kundaje 2017. With pooling by mean :math:`h_i` is divided by the number of nodes;
    with max, entry d counts for the node that has the maximum (the first of them), for the others it is 0. A network
    that standardises e has the straight line's slope there too.

    How the embeddings :math:`h_i` themselves depend on other nodes is not taken apart: :math:`c_i` belongs to node i
    *in its surroundings*.

    Parameters
    ----------
    network, task
        Trained; the task gives the units.
    structures
        In the vocabularies that the network was built for.

    Returns
    -------
    Tensor
        (nodes, outputs): for a target that is a number in its units, for a class of its score before the softmax.

    Notes
    -----
    One pass forward; O(nodes · width · outputs) further.

    References
    ----------
    M. Sundararajan, A. Taly and Q. Yan, Axiomatic attribution for deep networks, ICML 2017. A. Shrikumar, P. Greenside
    and A. Kundaje, Learning important features through propagating activation differences, ICML 2017.

    Examples
    --------
    >>> import hiddenfield as hf, torch
    >>> from hiddenfield.embedding import FeatureSizes
    >>> words = hf.data.from_sequences(["GATTACA", "CAT", ""], targets=[7.0, 3.0, 0.0])
    >>> task = Task.of(words)
    >>> network = Predictor(FeatureSizes.of(words), task.outputs, dim=8)
    >>> shares = contributions(network, task, words)
    >>> shares.shape
    torch.Size([10, 1])
    >>> predicted = torch.from_numpy(task.predictions(network(words).detach())[0])
    >>> torch.allclose(shares[:7].sum(), (predicted[0] - predicted[2]).float(), atol=1e-5)
    True
    """
    network.eval()
    structures = structures.to(next(network.parameters()).device)
    with torch.no_grad():
        nodes = network.nodes(structures, *network.prepare(structures))
        pooled = network.pool(nodes, structures.node_ptr)
        slopes = _slopes(network, pooled)
        owner = structures.structure_of_node.long()
        shares = torch.einsum("nd,nod->no", _parts(network, nodes, structures), slopes[owner])
    scales = [column.scale for column in task.columns for _ in range(column.outputs)]
    return (shares * shares.new_tensor(scales)).cpu()


def _slopes(
    network: Predictor, pooled: Float[Tensor, "structures dim"]
) -> Float[Tensor, "structures outputs dim"]:
    """Return m for every structure and output."""
    sigma = network.embedding.activation
    hidden, nothing = network.hidden_layer, torch.zeros_like(pooled[:1])
    standardise = network.standardise or nn.Identity()
    stretch = standardise(nothing + 1.0) - standardise(nothing)
    start, end = standardise(nothing), standardise(pooled)
    first = _slope(sigma, start, end) * stretch
    second = _slope(sigma, hidden(sigma(start)), hidden(sigma(end)))
    return torch.einsum("nd,kd,nk,ok->nod", first, hidden.weight, second, network.output_layer.weight)


def _slope(sigma: Callable[[Tensor], Tensor], start: Tensor, end: Tensor) -> Tensor:
    """Return (σ(end) - σ(start)) / (end - start), and σ'(end) where the two coincide."""
    step = end - start
    tiny = step.abs() <= 1e-6 * torch.maximum(end.abs(), start.abs())
    with torch.enable_grad():
        at = end.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(sigma(at).sum(), at)
    return torch.where(tiny, gradient, (sigma(end) - sigma(start)) / torch.where(tiny, 1.0, step))


def _parts(network: Predictor, nodes: Tensor, structures: Structures) -> Float[Tensor, "nodes dim"]:
    """Return what each node brings into the pooled embedding: rows that add up to it."""
    if network.pool is POOLINGS["sum"]:
        return nodes
    owner = structures.structure_of_node.long()
    if network.pool is POOLINGS["mean"]:
        return nodes / structures.num_nodes.to(nodes.dtype)[owner][:, None]
    chosen = segment_argmax(nodes, structures.node_ptr)
    own = torch.arange(len(nodes), device=nodes.device)
    return torch.where(chosen[owner] == own[:, None], nodes, 0.0)
