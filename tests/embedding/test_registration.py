"""A new embedding is one module: it registers itself and is found by name, and its facts make the tables."""

from __future__ import annotations

import pytest
import torch

import hiddenfield as hf
from hiddenfield.embedding import EMBEDDINGS, Embedding, FeatureSizes, Predictor
from hiddenfield.embedding.stack import stack_kind
from hiddenfield.errors import InputError
from hiddenfield.learning import Task, TrainSettings, train
from hiddenfield.ops import gather_sum


@pytest.fixture
def neighbour_sum():
    @EMBEDDINGS.register("neighbour_sum", summary="the sum of the neighbours", reference="none")
    class NeighbourSum(Embedding):
        def make_weights(self):
            self.own = self.node_projection(bias=self.bias)
            self.messages = self.matrix()

        def forward(self, structures, *prepared, every_round=False):
            states = [self.activation(self.own(self.node_inputs(structures)))]
            for _ in range(self.rounds - 1):
                states.append(self.activation(gather_sum(states[-1], structures.topology) @ self.messages))
            return self.result(states, every_round)

    yield NeighbourSum
    del EMBEDDINGS._entries["neighbour_sum"]


def test_a_registered_embedding_is_trained_by_name(neighbour_sum):
    words = hf.data.from_sequences(["GATTACA", "CAT", "TA", "GG"], targets=[7.0, 3.0, 2.0, 2.0])
    network = Predictor(FeatureSizes.of(words), 1, model="neighbour_sum", dim=4, rounds=2)
    assert isinstance(network.embedding, neighbour_sum)
    before = network.embedding.messages.detach().clone()
    train(network, Task.of(words), words, settings=TrainSettings(epochs=2, device="cpu"))
    assert not torch.equal(before, network.embedding.messages)
    # It says nothing of running side by side with others, so it is trained alone.
    assert stack_kind(network) is None


def test_facts_and_errors():
    for name in EMBEDDINGS:
        assert EMBEDDINGS.facts(name)["summary"]
        assert "Dai, Dai and Song (2016)" in EMBEDDINGS.facts(name)["reference"]
    with pytest.raises(InputError, match=r"unknown model 'loopy' \(did you mean 'loopy_bp'\?\); choose from"):
        Predictor(FeatureSizes(), 1, model="loopy")
