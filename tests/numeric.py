"""Short ways to the numeric core for tests: sums of one Stein kernel, joined."""

import numpy as np

from pymc_ksd.engine.pairs import evaluate_all_pairs
from pymc_ksd.engine.walk import Effort
from pymc_ksd.stats.panel import Panel
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import OPERATORS, SteinKernel

LANGEVIN, BIRTH_DEATH = OPERATORS["langevin"], OPERATORS["birth_death"]


def panel(kernel, *bandwidths, operator=LANGEVIN, compile_kwargs=None):
    return Panel.of_bandwidths(SteinKernel(operator, kernel, compile_kwargs), bandwidths)


def members(kernel, *bandwidths, **options):
    return panel(kernel, *bandwidths, **options).members


def all_pairs(kernel, points, *bandwidths, operator=LANGEVIN, compile_kwargs=None, **options):
    """Sums over all pairs, joined over bandwidths."""
    chosen = panel(kernel, *bandwidths, operator=operator, compile_kwargs=compile_kwargs)
    effort = Effort(options.pop("block_size", None))
    return evaluate_all_pairs(chosen.members, points, effort, **options).map(chosen.joined)


def unscaled(positions, scores):
    """Points with scores that are compared as they are."""
    terms = {"scores": scores, "standard_scores": scores}
    return Points(positions, terms, {"mixing": np.eye(positions.shape[1])})


def block(stein, rows, columns, bandwidth):
    """The Stein kernel of all pairs of two sets of points."""
    every = slice(None)
    arrays = rows.arrays(row=every) | columns.arrays(column=every)
    return stein.matrix()[0](arrays, stein.kernel.parameter_values(bandwidth))["u"]
