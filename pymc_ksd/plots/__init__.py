"""Plots of results, built on arviz-plots so that all of its backends work."""

from pymc_ksd.plots.null_distribution import plot_ksd_test

__all__ = ["plot_ksd_test"]
