"""Layered pictures of networks: parents above children, nothing overlaps."""

from __future__ import annotations

import numpy as np

import hiddenfield as hf
from hiddenfield.report.field_picture import layered, network_parents


def test_layers_order_parents_before_children_without_overlap() -> None:
    draw = np.random.default_rng(0)
    for size in (1, 2, 9, 40):
        parents = [
            sorted(draw.choice(v, min(v, int(draw.integers(0, 4))), replace=False).tolist())
            for v in range(size)
        ]
        widths = draw.uniform(0.5, 2.0, size).tolist()
        found = layered(parents, widths)
        assert all(found.layer[p] < found.layer[v] for v, own in enumerate(parents) for p in own)
        assert all(
            len(route) == found.layer[v] - found.layer[p] - 1 for (p, v), route in found.routes.items()
        )
        for first in range(size):
            for second in range(first):
                if found.layer[first] == found.layer[second]:
                    gap = abs(found.across[first] - found.across[second])
                    assert gap >= (widths[first] + widths[second]) / 2 - 1e-9


def test_only_networks_have_arrows() -> None:
    network = hf.fields.read("docs/examples/sprinkler.bif")
    assert network_parents(network) == [[], [0], [0], [1, 2]]
    assert network_parents(network.given({"grass": "wet"})) == [[], [0], [0], [1, 2]]
    assert network_parents(hf.fields.ising_grid(2, 2, 0.5)) is None
