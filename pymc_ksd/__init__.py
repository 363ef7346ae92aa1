"""Kernelized Stein discrepancy tests and diagnostics for PyMC models.

Importing this package adds its ``ksd_*`` functions to ``pymc``, without replacing anything there.
"""

import pymc

from pymc_ksd._version import __version__
from pymc_ksd.diagnostics.compare import ksd_compare
from pymc_ksd.diagnostics.distance import ksd
from pymc_ksd.diagnostics.evolution import ksd_evolution
from pymc_ksd.diagnostics.expectation import ksd_expectation
from pymc_ksd.diagnostics.goodness_of_fit import ksd_test
from pymc_ksd.diagnostics.modes import ksd_modes
from pymc_ksd.diagnostics.moments import ksd_moments
from pymc_ksd.diagnostics.predictive.check import ksd_ppc
from pymc_ksd.diagnostics.predictive.model_comparison import ksd_compare_models
from pymc_ksd.diagnostics.score import Score, compile_score
from pymc_ksd.diagnostics.summary import ksd_summary
from pymc_ksd.plots import (
    plot_ksd_compare,
    plot_ksd_contributions,
    plot_ksd_evolution,
    plot_ksd_members,
    plot_ksd_moments,
    plot_ksd_ppc,
    plot_ksd_test,
    plot_ksd_witness,
)
from pymc_ksd.report.explanations import explain
from pymc_ksd.report.findings import Explanation, Finding
from pymc_ksd.report.report import Report
from pymc_ksd.report.run_checks import ksd_report
from pymc_ksd.samplers.battery import battery
from pymc_ksd.samplers.battery_result import BatteryResult
from pymc_ksd.samples.draws import DrawsWarning
from pymc_ksd.samples.store import with_gradients
from pymc_ksd.stats.nulls import (
    Multinomial,
    Normal,
    Null,
    Parametric,
    Rademacher,
    Wild,
    register_null,
)
from pymc_ksd.stats.statistics import (
    Block,
    Linear,
    Statistic,
    UStatistic,
    VStatistic,
    register_statistic,
)
from pymc_ksd.stein.custom_kernels import General, Radial, register_kernel
from pymc_ksd.stein.kernels import IMQ, RBF, Kernel, Matern52, SumKernel

__all__ = [
    "IMQ",
    "RBF",
    "BatteryResult",
    "Block",
    "DrawsWarning",
    "Explanation",
    "Finding",
    "General",
    "Kernel",
    "Linear",
    "Matern52",
    "Multinomial",
    "Normal",
    "Null",
    "Parametric",
    "Rademacher",
    "Radial",
    "Report",
    "Score",
    "Statistic",
    "SumKernel",
    "UStatistic",
    "VStatistic",
    "Wild",
    "__version__",
    "battery",
    "compile_score",
    "explain",
    "ksd",
    "ksd_compare",
    "ksd_compare_models",
    "ksd_evolution",
    "ksd_expectation",
    "ksd_modes",
    "ksd_moments",
    "ksd_ppc",
    "ksd_report",
    "ksd_summary",
    "ksd_test",
    "plot_ksd_compare",
    "plot_ksd_contributions",
    "plot_ksd_evolution",
    "plot_ksd_members",
    "plot_ksd_moments",
    "plot_ksd_ppc",
    "plot_ksd_test",
    "plot_ksd_witness",
    "register_kernel",
    "register_null",
    "register_statistic",
    "with_gradients",
]

for _function in (
    ksd,
    ksd_compare,
    ksd_compare_models,
    ksd_evolution,
    ksd_expectation,
    ksd_modes,
    ksd_moments,
    ksd_ppc,
    ksd_report,
    ksd_summary,
    ksd_test,
):
    # `hasattr` would make PyMC 6 import ArviZ's plots to look the name up there.
    if _function.__name__ not in vars(pymc):
        setattr(pymc, _function.__name__, _function)
del _function
