"""Kernelized Stein discrepancy tests and diagnostics for PyMC models.

Importing this package adds its ``ksd_*`` functions to ``pymc``, without replacing anything there.
"""

import pymc

from pymc_ksd._version import __version__
from pymc_ksd.custom_kernels import General, Radial
from pymc_ksd.draws import DrawsWarning
from pymc_ksd.explanations import Explanation, Finding, explain
from pymc_ksd.goodness_of_fit import ksd_test
from pymc_ksd.kernels import IMQ, RBF, Kernel, Matern52
from pymc_ksd.plots import (
    plot_ksd_contributions,
    plot_ksd_evolution,
    plot_ksd_ppc,
    plot_ksd_test,
    plot_ksd_witness,
)
from pymc_ksd.predictive_check import ksd_ppc
from pymc_ksd.report import Report
from pymc_ksd.reporting import ksd_report
from pymc_ksd.sampler_quality import ksd, ksd_evolution
from pymc_ksd.score import Score, compile_score
from pymc_ksd.summary_table import ksd_summary

__all__ = [
    "IMQ",
    "RBF",
    "DrawsWarning",
    "Explanation",
    "Finding",
    "General",
    "Kernel",
    "Matern52",
    "Radial",
    "Report",
    "Score",
    "__version__",
    "compile_score",
    "explain",
    "ksd",
    "ksd_evolution",
    "ksd_ppc",
    "ksd_report",
    "ksd_summary",
    "ksd_test",
    "plot_ksd_contributions",
    "plot_ksd_evolution",
    "plot_ksd_ppc",
    "plot_ksd_test",
    "plot_ksd_witness",
]

for _function in (ksd, ksd_evolution, ksd_ppc, ksd_report, ksd_summary, ksd_test):
    # `hasattr` would make PyMC 6 import ArviZ's plots to look the name up there.
    if _function.__name__ not in vars(pymc):
        setattr(pymc, _function.__name__, _function)
del _function
