r"""Hueckel theory: the pi orbitals of many molecules at once, and the targets that follow from them.

Every atom in the pi system has one orbital. With the Coulomb integral :math:`\alpha` and the resonance
integral
:math:`\beta` of carbon as zero and unit of energy, the Hamiltonian is

.. math:: H = \alpha 1 + \beta h, \qquad h_{ii} = h_X, \qquad h_{ij} = k_{XY} \text{ for bound } i, j,

and an eigenvalue m of h is an orbital at :math:`\alpha + m\beta`; as :math:`\beta < 0`, large m lie low. The
parameters are those of Van-Catledge (1980), and Streitwieser's (1961) heteroatom model for methyl.

The efficiency of a solar cell follows from the frontier orbitals in the manner of Scharber's design rules. They are
placed on an energy scale by

.. math:: E_{HOMO} = \alpha + m_{HOMO}\,\beta, \qquad E_{LUMO} = \alpha + m_{LUMO}\,\beta,

and their difference :math:`|\beta|\,(m_{HOMO} - m_{LUMO})` is taken for the optical gap. The cell has the molecule as
donor and PCBM as acceptor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hiddenfield.datasets.fragments import Fragment
from hiddenfield.shapes import Array, Float, Int

# 1 and 2 after an element: the pi electrons that the atom gives, as in pyridine (N1) and pyrrole (N2).
KINDS = ("C", "N1", "N2", "O1", "O2", "F", "S2", "Cl", "Me")
NOT_PI = -1
ELECTRONS = np.array([1, 1, 2, 1, 2, 2, 2, 2, 2])
COULOMB = np.array([0.00, 0.51, 1.37, 0.97, 2.09, 2.71, 1.11, 1.48, 2.00])
RESONANCE: dict[tuple[str, str], float] = {
    ("C", "C"): 1.00,
    ("C", "N1"): 1.02,
    ("C", "N2"): 0.89,
    ("C", "O1"): 1.06,
    ("C", "O2"): 0.66,
    ("C", "F"): 0.52,
    ("C", "S2"): 0.69,
    ("C", "Cl"): 0.62,
    ("C", "Me"): 0.70,
    ("N1", "N1"): 1.09,
    ("N1", "N2"): 0.99,
    ("N1", "O2"): 0.80,
    ("N1", "S2"): 0.78,
}


def resonance_table() -> Float[Array, "kinds kinds"]:
    """Tabulate k_XY of every two kinds, symmetric; NaN where the library has no such bond."""
    table = np.full((len(KINDS), len(KINDS)), np.nan)
    for (first, second), value in RESONANCE.items():
        i, j = KINDS.index(first), KINDS.index(second)
        table[i, j] = table[j, i] = value
    return table


def kind_of_atom(fragment: Fragment, atom: int, joined: int = 0) -> int:
    """Return the number in `KINDS` of an atom of a fragment, `NOT_PI` outside the pi system.

    `joined` counts the bonds from the atom to other fragments, which are always to unsaturated carbon or
    nitrogen. Saturated N, O, S and halogens next to an unsaturated atom give their lone pair; a methyl group
    on carbon is a pseudo-heteroatom with two electrons; saturated bridges, and methyl groups on heteroatoms,
    take no part.
    """
    element = fragment.elements[atom]
    bound = len(fragment.neighbours[atom]) + joined
    if fragment.unsaturated(atom):
        if element == "C":
            return KINDS.index("C")
        pair = fragment.aromatic[atom] and (element != "N" or fragment.hydrogens(atom) > 0 or bound == 3)
        return KINDS.index(element + ("2" if pair else "1"))
    partners = [other for other in fragment.neighbours[atom] if fragment.unsaturated(other)]
    if not partners and not joined:
        return NOT_PI
    if element == "C":
        methyl = bound == 1 and all(fragment.elements[other] == "C" for other in partners)
        return KINDS.index("Me") if methyl else NOT_PI
    if element == "Si":
        return NOT_PI
    return KINDS.index(element if element in ("F", "Cl") else element + "2")


@dataclass(frozen=True)
class PiLevels:
    r"""What Hueckel theory says of each molecule, in units of :math:`\beta` with :math:`\alpha` as zero.

    Attributes
    ----------
    homo, lumo : array of float, (structures,)
        m of the highest occupied and of the lowest unoccupied orbital; homo > lumo.
    energy : array of float, (structures,)
        Total pi energy, twice the sum of the occupied m.
    electrons : array of int, (structures,)
        Number of pi electrons.
    """

    homo: Float[Array, " structures"]
    lumo: Float[Array, " structures"]
    energy: Float[Array, " structures"]
    electrons: Int[Array, " structures"]


def pi_levels(
    kinds: Int[Array, " nodes"],
    first: Int[Array, " edges"],
    second: Int[Array, " edges"],
    node_ptr: Int[Array, " bounds"],
) -> PiLevels:
    """Solve the Hueckel problem of every molecule of a pack.

    Parameters
    ----------
    kinds : array of int, (nodes,)
        Number of each atom in `KINDS`, or `NOT_PI`.
    first, second : array of int, (edges,)
        Pack-wide node numbers; edges with an end outside the pi system are passed over.
    node_ptr : array of int, (structures + 1,)
        Bounds of the molecules' nodes. The number of pi electrons must be even and below twice that of
        orbitals.

    Returns
    -------
    PiLevels
        Exact up to the rounding of LAPACK's symmetric eigenvalue solver.

    Notes
    -----
    Molecules with the same number of pi atoms are solved together: O(k**3) time and 8 k**2 bytes each.

    Examples
    --------
    Butadiene has its frontier orbitals at 0.618 and -0.618, and 4.472 units of energy:

    >>> levels = pi_levels(np.zeros(4, int), np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([0, 4]))
    >>> levels.homo.round(3), levels.lumo.round(3), levels.energy.round(3)
    (array([0.618]), array([-0.618]), array([4.472]))
    """
    in_pi = kinds != NOT_PI
    molecule = np.repeat(np.arange(len(node_ptr) - 1), np.diff(node_ptr))
    pi_before = np.concatenate([[0], np.cumsum(in_pi)])
    row = pi_before[:-1] - pi_before[node_ptr][molecule]
    sizes = np.diff(pi_before[node_ptr])
    electrons = np.add.reduceat(np.where(in_pi, ELECTRONS[kinds], 0), node_ptr[:-1])
    bound = np.flatnonzero(in_pi[first] & in_pi[second])
    first, second = first[bound], second[bound]
    strength = resonance_table()[kinds[first], kinds[second]]
    homo, lumo, energy = (np.empty(len(sizes)) for _ in range(3))
    place = np.empty(len(sizes), dtype=np.int64)
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        place[chosen] = np.arange(len(chosen))
        h = np.zeros((len(chosen), size, size))
        atoms = np.flatnonzero(in_pi & (sizes == size)[molecule])
        h[place[molecule[atoms]], row[atoms], row[atoms]] = COULOMB[kinds[atoms]]
        bonds = np.flatnonzero((sizes == size)[molecule[first]])
        own, i, j = place[molecule[first[bonds]]], row[first[bonds]], row[second[bonds]]
        h[own, i, j] = h[own, j, i] = strength[bonds]
        descending = np.linalg.eigvalsh(h)[:, ::-1]
        occupied = electrons[chosen, None] // 2
        homo[chosen] = np.take_along_axis(descending, occupied - 1, axis=1)[:, 0]
        lumo[chosen] = np.take_along_axis(descending, occupied, axis=1)[:, 0]
        energy[chosen] = 2.0 * np.where(np.arange(size) < occupied, descending, 0.0).sum(axis=1)
    return PiLevels(homo, lumo, energy, electrons)


# -- from frontier orbitals to the efficiency of a solar cell ------------------------------------------------


# In eV. A large sheet of carbon has its Fermi level at alpha: minus the work function of graphene. With this
# beta the gap of benzene, 2 |beta|, is where its p band is observed, 6.0 eV.
ALPHA = -4.5
BETA = -3.0

ACCEPTOR_LUMO = -4.3
VOLTAGE_LOSS = 0.3
LUMO_OFFSET = 0.3
FILL_FACTOR = 0.65
QUANTUM_EFFICIENCY = 0.65

SUN_TEMPERATURE = 5778.0
BOLTZMANN = 8.617333262e-5
IRRADIANCE = 1000.0


def photon_current(gap: Float[Array, " structures"]) -> Float[Array, " structures"]:
    r"""Return the current density in A/m2 if every photon above the gap gave one electron.

    The sun is a black body at 5778 K, scaled to 1000 W/m2. With :math:`x = E_g / kT`,

    .. math::

        J = \frac{P}{kT/q}\,\frac{\int_x^\infty u^2 / (e^u - 1)\,du}{\int_0^\infty u^3 / (e^u - 1)\,du},
        \qquad \int_x^\infty \frac{u^2\,du}{e^u - 1}
        = \sum_{r \ge 1} e^{-rx}\left(\frac{x^2}{r} + \frac{2x}{r^2} + \frac{2}{r^3}\right),

    where the second denominator is :math:`\pi^4 / 15`. Thirty terms: relative error below 1e-12 for gaps
    above 0.5 eV.

    Examples
    --------
    >>> photon_current(np.array([1.0, 2.0])).round(1)
    array([436.9, 146.8])
    """
    thermal = BOLTZMANN * SUN_TEMPERATURE
    x = np.asarray(gap, dtype=np.float64) / thermal
    photons = np.zeros_like(x)
    for r in range(30, 0, -1):
        photons += np.exp(-r * x) * (x * x / r + 2.0 * x / r**2 + 2.0 / r**3)
    return IRRADIANCE / thermal * photons / (np.pi**4 / 15.0)


def efficiency(
    homo: Float[Array, " structures"], lumo: Float[Array, " structures"]
) -> Float[Array, " structures"]:
    r"""Power conversion efficiency in percent from the frontier eigenvalues m of h.

    .. math::

        V_{oc} = |E_{HOMO}| - |E_{LUMO}^{PCBM}| - 0.3, \qquad
        \eta = 100\,\frac{V_{oc}\; FF\; EQE\; J(E_g)}{P},

    with EQE = FF = 0.65 and :math:`E_{LUMO}^{PCBM} = -4.3` eV; zero where :math:`V_{oc} < 0` or where the
    donor's LUMO is not at least 0.3 eV above that of PCBM, so that charges do not separate.

    References
    ----------
    M. C. Scharber et al., Design rules for donors in bulk-heterojunction solar cells: towards 10 %
    energy-conversion efficiency, Advanced Materials 18 (2006) 789.

    Examples
    --------
    >>> efficiency(np.array([0.3, 0.1]), np.array([-0.2, 0.2])).round(2)
    array([8.95, 0.  ])
    """
    homo_level = ALPHA + BETA * homo
    lumo_level = ALPHA + BETA * lumo
    voltage = np.maximum(ACCEPTOR_LUMO - homo_level - VOLTAGE_LOSS, 0.0)
    current = QUANTUM_EFFICIENCY * photon_current(lumo_level - homo_level)
    separates = lumo_level >= ACCEPTOR_LUMO + LUMO_OFFSET
    return np.where(separates, 100.0 * FILL_FACTOR * voltage * current / IRRADIANCE, 0.0)
