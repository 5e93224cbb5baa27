"""The same on a GPU as on the CPU, within rounding: cutting, embedding, gradients, training.

Needs no other test's helpers, so that it runs where only torch, numpy, numba and pytest are installed:
``python -m pytest --noconftest -c /dev/null tests/embedding/test_cuda.py``.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hiddenfield import Structures, Vocabulary
from hiddenfield.embedding import EMBEDDINGS, FeatureSizes, Predictor
from hiddenfield.learning import Task, TrainSettings, predict, train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def molecules(count=60, seed=0):
    """Return rings with tails, labels on nodes and edges, an attribute, and the number of ring nodes as target."""
    random = np.random.default_rng(seed)
    first, second, node_ptr, rings = [], [], [0], []
    for _ in range(count):
        ring, tail = int(random.integers(3, 8)), int(random.integers(0, 5))
        at = node_ptr[-1]
        ends = [(k, (k + 1) % ring) for k in range(ring)] + [(ring + k - 1, ring + k) for k in range(tail)]
        first += [at + a for a, _ in ends]
        second += [at + b for _, b in ends]
        node_ptr.append(at + ring + tail)
        rings.append(float(ring))
    total = node_ptr[-1]
    return Structures.from_edges(
        first,
        second,
        node_ptr=node_ptr,
        node_labels=random.integers(0, 3, total),
        node_vocabularies=[Vocabulary("kind", (0, 1, 2))],
        node_attributes=random.normal(size=(total, 2)),
        edge_labels=random.integers(0, 2, len(first)),
        edge_vocabularies=[Vocabulary("bond", (0, 1))],
        targets=rings,
    )


def test_batches_are_cut_on_the_device():
    pack = molecules()
    index = np.random.default_rng(1).integers(0, 60, 100)
    cut = pack.to("cuda")[index]
    assert cut.device.type == "cuda"
    assert cut == pack[index]


@pytest.mark.parametrize("name", sorted(EMBEDDINGS))
def test_outputs_and_gradients_agree(name):
    pack = molecules()
    torch.manual_seed(0)
    network = Predictor(FeatureSizes.of(pack), 2, model=name, dim=16).double()
    prepared = network.prepare(pack)
    results = []
    for device in ("cpu", "cuda"):
        network.to(device).zero_grad()
        outputs = network(pack.to(device), *(part.to(device) for part in prepared))
        outputs.square().sum().backward()
        gradients = [p.grad.cpu().clone() for p in network.parameters() if p.grad is not None]
        results.append((outputs.detach().cpu(), gradients))
    (cpu, cpu_gradients), (cuda, cuda_gradients) = results
    assert torch.allclose(cpu, cuda, rtol=1e-9)
    assert all(
        torch.allclose(a, b, rtol=1e-7, atol=1e-9) for a, b in zip(cpu_gradients, cuda_gradients, strict=True)
    )


@pytest.mark.parametrize("precision", ["64", "32", "bf16"])
def test_training_agrees(precision):
    pack = molecules(200)
    task = Task.of(pack)
    scores = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        network = Predictor(FeatureSizes.of(pack), task.outputs, model="loopy_bp", dim=16, rounds=3)
        network = network.double() if precision == "64" else network
        settings = TrainSettings(epochs=4, batch_size=20, device=device, precision=precision)
        history = train(network, task, pack, pack[:50], settings)
        outputs = predict(network, pack, device=device)
        scores.append((history.rows[-1]["train_loss"], outputs.float()))
    tolerance = {"64": 1e-6, "32": 1e-2, "bf16": 0.2}[precision]
    assert scores[0][0] == pytest.approx(scores[1][0], rel=tolerance)
    if precision != "bf16":
        assert torch.allclose(scores[0][1], scores[1][1], atol=10 * tolerance)
