"""PyTorch Geometric data: exact round trips, and what foreign data sets hold."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from hypothesis import given

from hiddenfield.data import Structures, from_pyg, to_pyg
from hiddenfield.errors import InputError, MissingDependencyError
from tests.data.strategies import structures

pytest.importorskip("torch_geometric")
from torch_geometric.data import Batch, Data

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


@given(structures())
def test_the_round_trip_is_exact(pack: Structures) -> None:
    assert from_pyg(to_pyg(pack), like=pack) == pack.replace(columns={})


@given(structures())
def test_a_batch_comes_back_too(pack: Structures) -> None:
    if len(pack):
        batch = to_pyg(pack, batch=True)
        assert batch.num_graphs == len(pack)
        assert batch.ptr.tolist() == pack.node_ptr.tolist()
        assert from_pyg(batch, like=pack) == pack.replace(columns={})


@given(structures(columns=False))
def test_a_batch_is_the_pack_itself(pack: Structures) -> None:
    """Arcs are in the pack's order, numbered through it: a model of PyG sees the same arrays."""
    if len(pack):
        batch = to_pyg(pack, batch=True)
        assert torch.equal(batch.edge_index, torch.stack([pack.source, pack.target]).long())
        assert pack.node_attributes is None or torch.equal(batch.x, pack.node_attributes)
        assert pack.targets is None or torch.equal(batch.y.nan_to_num(9), pack.targets.nan_to_num(9))


def test_without_names_codes_are_the_symbols() -> None:
    data = Data(edge_index=PATH, num_nodes=3, node_labels=torch.tensor([[4], [2], [4]]), y=torch.tensor([1]))
    pack = from_pyg([data, data])
    assert pack.node_vocabularies[0].symbols == (2, 4)
    assert pack.target_vocabularies[0].symbols == (1,)
    assert pack.symmetric


def test_x_as_attributes_labels_and_one_hot() -> None:
    integers = Data(edge_index=PATH, x=torch.tensor([[3, 0], [5, 0], [3, 1]]))
    pack = from_pyg(integers)
    assert [v.symbols for v in pack.node_vocabularies] == [(3, 5), (0, 1)]
    assert from_pyg(integers, x="attributes").node_attributes.tolist() == [[3, 0], [5, 0], [3, 1]]
    one_hot = Data(edge_index=PATH, x=torch.eye(4)[[3, 0, 3]], edge_attr=torch.eye(2)[[0, 0, 1, 1]])
    pack = from_pyg(one_hot, x="one_hot", edge_attr="one_hot")
    assert pack.node_labels.flatten().tolist() == [3, 0, 3]
    assert len(pack.node_vocabularies[0]) == 4
    assert pack.arc_labels.flatten().tolist() == [0, 0, 1, 1]


def test_targets_of_nodes() -> None:
    pack = from_pyg(Data(edge_index=PATH, num_nodes=3, y=torch.tensor([0, 2, 0])), y="node")
    assert pack.targets is None
    assert pack.node_target_vocabularies[0].symbols == (0, 2)
    assert pack.node_targets.flatten().tolist() == [0, 1, 0]


def test_a_data_set_and_numbers_as_targets() -> None:
    class Few:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, at: int) -> Data:
            return Data(num_nodes=at, edge_index=PATH[:, :0], y=0.5 * at)

    pack = from_pyg(Few())
    assert pack.num_nodes.tolist() == [0, 1]
    assert pack.targets.flatten().tolist() == [0.0, 0.5]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ("abc", {}, "expected Data, a list of them, a Batch or a data set, got str"),
        ([1], {}, "got int as entry 0"),
        ([Data()], {}, "structure 0: the number of nodes is unknown"),
        ([Data(num_nodes=2, edge_index=torch.tensor([[0], [5]]))], {}, "structure 0: arc 0 ends at node 5"),
        ([Data(num_nodes=2, edge_index=torch.zeros(3, 1))], {}, "integers of shape (2, arcs), got (3, 1)"),
        ([Data(num_nodes=1, x=torch.ones(1, 1)), Data(num_nodes=1)], {}, "structure 1 has no x, others do"),
        ([Data(num_nodes=2, x=torch.ones(1, 1))], {}, "structure 0: x must have 2 rows, got shape (1, 1)"),
        ([Data(num_nodes=1, y=[0.0]), Data(num_nodes=1, y=[0.0, 1.0])], {}, "y has 2 columns"),
        ([Data(num_nodes=1, x=torch.ones(1, 2))], {"x": "one_hot"}, "x is not one-hot"),
        ([Data(num_nodes=1, x=torch.ones(1, 2))], {"x": "labels"}, "x must hold integers"),
        ([Data(num_nodes=1, x=torch.ones(1, 2))], {"x": "text"}, "x must be 'auto'"),
        ([Data(num_nodes=1, x=torch.full((1, 1), torch.nan))], {}, "attributes must be finite"),
    ],
)
def test_bad_data_are_named(data: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        from_pyg(data, **options)
    assert words in str(caught.value)


def test_a_batch_of_nothing_is_refused() -> None:
    empty = Structures.from_arcs([], [], node_ptr=[0])
    assert to_pyg(empty) == []
    with pytest.raises(InputError, match="no batch of no graphs"):
        to_pyg(empty, batch=True)
    assert isinstance(to_pyg(Structures.from_arcs([], [], node_ptr=[0, 0]), batch=True), Batch)


def test_like_needs_what_it_has() -> None:
    pack = from_pyg([Data(num_nodes=1, x=torch.ones(1, 1))])
    with pytest.raises(InputError, match="the data have no x"):
        from_pyg([Data(num_nodes=1)], like=pack)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(MissingDependencyError, match=r"hiddenfield\[pyg\]"):
        to_pyg(Structures.from_arcs([], [], node_ptr=[0]))
