"""`huckel`, `huckel_shards` and `huckel_range`: what they give, how they repeat, what they refuse."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from hiddenfield.data.build import concatenate
from hiddenfield.data.structures import Structures
from hiddenfield.datasets import generate
from hiddenfield.datasets.generate import huckel, huckel_range, huckel_shards, library_size
from hiddenfield.errors import InputError

SMILES_OF_SEED_ONE = [
    "c1ccc2cccc(Cl)c2c1-C1=C(SC)CC=C1-c1cc2cc(Cl)ccc2s1",
    "c1c(O)c2ccsc2cc1-C1[SiH2]C(SC)=C(C=1)-c1c[nH]cc1N(C)C",
    "c1cc2c(SC)coc2cc1Nc1c2c3ccccc3sc2c(Cl)cc1",
]
TARGETS_OF_SEED_ONE = [
    [2.452319, 1.36324, 2.639176],
    [2.273824, 1.404104, 2.311221],
    [3.362138, 1.429939, 0.854524],
]


@pytest.fixture(scope="module")
def sample() -> Structures:
    return huckel(2000, seed=3, smiles=True)


def test_the_pack_has_the_promised_columns(sample: Structures) -> None:
    assert len(sample) == 2000
    assert [words.name for words in sample.node_vocabularies] == [
        "element",
        "degree",
        "hydrogens",
        "valence",
        "aromatic",
    ]
    assert [words.name for words in sample.arc_vocabularies] == ["bond", "conjugated", "ring"]
    assert sample.target_names == ("gap", "pi_energy", "pce")
    assert sample.target_vocabularies == (None, None, None)
    assert sample.symmetric
    assert set(sample.columns) == {"smiles"}
    assert not huckel(2).columns


def test_the_vocabularies_are_sorted_and_the_same_for_every_sample(sample: Structures) -> None:
    other = huckel(1, seed=9)
    assert other.node_vocabularies == sample.node_vocabularies
    assert other.arc_vocabularies == sample.arc_vocabularies
    for words in (*sample.node_vocabularies, *sample.arc_vocabularies[1:]):
        assert list(words.symbols) == sorted(words.symbols)
    assert sample.node_vocabularies[0].symbols == ("C", "Cl", "F", "N", "O", "S", "Si")
    assert sample.arc_vocabularies[0].symbols == ("single", "double", "triple", "aromatic")


def test_molecules_are_connected_and_of_the_promised_size(sample: Structures) -> None:
    assert int(sample.num_nodes.min()) >= 15
    assert int(sample.num_nodes.max()) <= 42
    assert 26 < float(sample.num_nodes.double().mean()) < 29
    reached = torch.arange(sample.total_nodes)
    for _ in range(42):
        reached = reached.scatter_reduce(0, sample.target.long(), reached[sample.source.long()], "amin")
    first = sample.node_ptr[:-1].long()
    assert torch.equal(reached, first[sample.structure_of_node.long()])


def test_targets_are_finite_and_spread(sample: Structures) -> None:
    gap, energy, efficiency = sample.targets.numpy().T
    assert np.isfinite(sample.targets.numpy()).all()
    assert (gap > 0).all()
    assert ((energy > 1) & (energy < 2)).all()
    assert ((efficiency >= 0) & (efficiency < 11.1)).all()
    assert (efficiency == 0).mean() < 0.05
    assert 3 < efficiency.mean() < 5
    assert 1.5 < efficiency.std() < 3


def test_all_smiles_and_ids_differ(sample: Structures) -> None:
    assert len(set(sample.columns["smiles"])) == len(sample)
    assert len(set(sample.ids)) == len(sample)


def test_the_same_seed_gives_the_same_pack_and_another_seed_another() -> None:
    assert huckel(50, seed=5, smiles=True) == huckel(50, seed=5, smiles=True)
    assert huckel(50, seed=5) == huckel(np.int64(50), np.uint8(5))
    assert set(huckel(50, seed=5).ids).isdisjoint(huckel(50, seed=6).ids)


def test_the_pack_is_the_same_on_every_machine() -> None:
    pack = huckel(3, seed=1, smiles=True)
    assert pack.columns["smiles"].tolist() == SMILES_OF_SEED_ONE
    np.testing.assert_allclose(pack.targets.numpy(), TARGETS_OF_SEED_ONE, atol=1.5e-6)


def test_another_process_gives_the_same_pack() -> None:
    code = (
        "from hiddenfield.datasets.generate import huckel_range as h\n"
        "p = h(40, 60, 8, smiles=True)\n"
        "print(list(p.columns['smiles']), p.targets.tolist())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pack = huckel(60, seed=8, smiles=True)[40:]
    assert run.stdout.strip() == f"{list(pack.columns['smiles'])} {pack.targets.tolist()}"


@pytest.mark.parametrize("shard_size", [1, 7, 40, 41, 10**9])
def test_shards_are_the_pack(shard_size: int) -> None:
    shards = list(huckel_shards(41, seed=2, shard_size=shard_size, smiles=True))
    assert all(len(shard) <= shard_size for shard in shards)
    assert concatenate(shards) == huckel(41, seed=2, smiles=True)


def test_a_pack_of_several_batches_is_its_parts() -> None:
    whole = huckel(5000, seed=4)
    assert whole[:10] == huckel(10, seed=4)
    assert whole[4090:4110] == huckel_range(4090, 4110, seed=4)


def test_shards_are_made_one_at_a_time() -> None:
    shards = huckel_shards(library_size(), shard_size=3)
    assert len(next(shards)) == 3


def test_the_end_of_the_order_is_reached() -> None:
    size = library_size()
    assert size == 100_000_000
    assert len(huckel_range(size - 2, size)) == 2


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n": 0}, "n must be an integer of at least 1, got 0"),
        ({"n": -3}, "n must be an integer of at least 1, got -3"),
        ({"n": 10**12}, "n must be at most 100000000, the size of the library, got 1000000000000"),
        ({"n": 2.0}, "n must be an integer of at least 1, got 2.0"),
        ({"n": "7"}, "n must be an integer of at least 1, got '7'"),
        ({"n": True}, "n must be an integer of at least 1, got True"),
        ({"n": None}, "n must be an integer of at least 1, got None"),
        ({"n": 1, "seed": -1}, r"seed must satisfy 0 <= seed < 2\*\*64, got -1"),
        ({"n": 1, "seed": 2**64}, r"seed must satisfy 0 <= seed < 2\*\*64"),
        ({"n": 1, "seed": 0.5}, "seed must be an integer, got 0.5"),
        ({"n": 1, "seed": False}, "seed must be an integer, got False"),
        ({"n": 1, "smiles": 1}, "smiles must be True or False, got 1"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        huckel(**arguments)  # type: ignore[arg-type]


@pytest.mark.bad_input
@pytest.mark.parametrize("shard_size", [0, -1, 1.5, True])
def test_bad_shard_sizes_are_refused_at_once(shard_size: object) -> None:
    with pytest.raises(InputError, match="shard_size"):
        huckel_shards(10, shard_size=shard_size)  # type: ignore[arg-type]


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 3), (5, 2), (0, 10**9)])
def test_bad_bounds_are_refused(start: int, stop: int) -> None:
    with pytest.raises(InputError, match="0 <= start < stop <= 100000000"):
        huckel_range(start, stop)


def test_processes_make_the_same_pack(monkeypatch):
    monkeypatch.setattr(generate, "WORTH_PROCESSES", 10)
    monkeypatch.setattr(generate, "PER_PROCESS", 8)
    assert huckel(20, seed=2, smiles=True, workers=2) == huckel(20, seed=2, smiles=True)
    with pytest.raises(InputError, match="workers must be an integer of at least 1, got 0"):
        huckel(20, workers=0)
