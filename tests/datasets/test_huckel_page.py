"""The page on the Hueckel molecules says what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiddenfield.datasets.catalogue import library
from hiddenfield.datasets.fragments import RING_SYSTEMS
from hiddenfield.datasets.generate import library_size
from hiddenfield.datasets.orbitals import (
    ALPHA,
    BETA,
    COULOMB,
    ELECTRONS,
    FILL_FACTOR,
    KINDS,
    QUANTUM_EFFICIENCY,
    RESONANCE,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "data" / "huckel.md"


@pytest.fixture(scope="module")
def page() -> str:
    if not PAGE.exists():
        pytest.skip("the documentation is not here")
    return PAGE.read_text(encoding="utf-8")


def test_the_parameters_are_those_of_the_code(page: str) -> None:
    atoms = [
        f"| {kind} | {electrons} | {h:.2f} |"
        for kind, electrons, h in zip(KINDS, ELECTRONS, COULOMB, strict=True)
    ]
    bonds = [f"| {first} | {second} | {k:.2f} |" for (first, second), k in RESONANCE.items()]
    assert "\n".join(atoms) in page
    assert "\n".join(bonds) in page
    assert rf"\alpha = {ALPHA:g}\ \text{{eV}}, \qquad \beta = {BETA:g}\ \text{{eV}}" in page
    assert FILL_FACTOR == QUANTUM_EFFICIENCY
    assert f"FF = EQE = {FILL_FACTOR:g}" in page


def test_the_numbers_of_molecules_are_those_of_the_code(page: str) -> None:
    rows = [f"| {stratum.name} | {stratum.size:,} | {stratum.taken:,} |" for stratum in library().strata]
    assert "\n".join(rows) in page
    assert f"**Ring systems**, {len(RING_SYSTEMS)}" in page
    assert library_size() == 100_000_000
    assert "these 100 million" in page
    assert f"{sum(stratum.size for stratum in library().strata):.2e}" == "1.07e+11"
