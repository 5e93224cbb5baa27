r"""From frontier orbitals to the efficiency of a solar cell, in the manner of Scharber's design rules.

The orbitals of Hueckel theory are placed on an energy scale by

.. math:: E_{HOMO} = \alpha + m_{HOMO}\,\beta, \qquad E_{LUMO} = \alpha + m_{LUMO}\,\beta,

and their difference :math:`|\beta|\,(m_{HOMO} - m_{LUMO})` is taken for the optical gap. The cell has the
molecule as donor and PCBM as acceptor.
"""

from __future__ import annotations

import numpy as np

from hiddenfield.shapes import Array, Float

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
