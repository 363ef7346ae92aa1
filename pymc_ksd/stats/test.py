"""A test: one statistic of one panel, and its null."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_ksd.engine.walk import Effort
from pymc_ksd.stats.nulls import Null, SampleShape
from pymc_ksd.stats.panel import Panel, joined_excess
from pymc_ksd.stats.statistics import Estimate, Request, Statistic


@dataclass(frozen=True)
class Plan:
    """Everything that decides a test, apart from points and randomness.

    Attributes
    ----------
    panel : Panel
        The Stein kernels.
    statistic : Statistic
        What is computed.
    null : Null
        What it is held against.
    n_replicates : int
        Number of replicates of the null.
    alpha : float
        Level of the test.
    effort : Effort
        How sums are computed.
    """

    panel: Panel
    statistic: Statistic
    null: Null
    n_replicates: int
    alpha: float
    effort: Effort


@dataclass(frozen=True)
class Outcome:
    """The numbers of a test.

    Attributes
    ----------
    estimate : Estimate
        What the kernels came to.
    statistic : float
        The statistic; with several members their largest excess.
    p_value, critical_value : float
        The test.
    null_distribution : ndarray of shape (m,)
        The statistic under the null hypothesis.
    """

    estimate: Estimate
    statistic: float
    p_value: float
    critical_value: float
    null_distribution: np.ndarray


def run_test(
    plan: Plan,
    points: Any,
    shape: SampleShape,
    rng: np.random.Generator,
    replicate: Callable[[], tuple[Any, Panel]],
    *,
    groups: np.ndarray | None = None,
) -> Outcome:
    """Compute a statistic and its null distribution.

    Parameters
    ----------
    plan : Plan
        Which test.
    points : Points
        The sample, or a stream of it for statistics of means.
    shape : SampleShape
        What the null may know of it.
    rng : numpy.random.Generator
        Randomness of the bootstrap.
    replicate : callable
        Simulates a sample from the model, with a panel whose bandwidths were chosen for it.
    groups : ndarray of shape (n,), optional
        The number of each point's group, where sums over the points before each are wanted too.

    Returns
    -------
    Outcome
    """
    statistic, null = plan.statistic, plan.null
    weights = null.weights(shape, plan.n_replicates, rng)
    request = Request(plan.panel, points, plan.effort, null, weights, groups, details=True)
    estimate = statistic.estimate(request)
    quiet = replace(plan.effort, progressbar=False, client=False)

    def again() -> np.ndarray:
        sample, panel = replicate()
        return statistic.estimate(Request(panel, sample, quiet)).values

    replicates = null.distribution(estimate, again, plan.n_replicates, plan.effort.progressbar)
    estimate = _with_replicates(estimate, replicates.reshape(len(replicates), -1))
    value, distribution = estimate.value, replicates.reshape(len(replicates), -1)[:, 0]
    if len(estimate.members) > 1:
        value, distribution = joined_excess(estimate.members)
    tested = replace(estimate, value=value)
    return Outcome(
        estimate,
        value,
        null.p_value(tested, distribution),
        null.critical_value(tested, distribution, plan.alpha),
        distribution,
    )


def _with_replicates(estimate: Estimate, replicates: np.ndarray) -> Estimate:
    """Return an estimate whose members know what they come to under the null hypothesis."""
    members = (
        replace(member, replicates=own)
        for member, own in zip(estimate.members, replicates.T, strict=bool(estimate.members))
    )
    return replace(estimate, members=tuple(members))
