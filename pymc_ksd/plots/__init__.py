"""Plots of results, built on arviz-plots so that all of its backends work.

They know results only, and may import `diagnostics`.
"""

from pymc_ksd.plots.compare import plot_ksd_compare
from pymc_ksd.plots.contributions import plot_ksd_contributions
from pymc_ksd.plots.evolution import plot_ksd_evolution
from pymc_ksd.plots.members import plot_ksd_members
from pymc_ksd.plots.moments import plot_ksd_moments
from pymc_ksd.plots.null_distribution import plot_ksd_test
from pymc_ksd.plots.predictive import plot_ksd_ppc
from pymc_ksd.plots.witness import plot_ksd_witness

__all__ = [
    "plot_ksd_compare",
    "plot_ksd_contributions",
    "plot_ksd_evolution",
    "plot_ksd_members",
    "plot_ksd_moments",
    "plot_ksd_ppc",
    "plot_ksd_test",
    "plot_ksd_witness",
]
