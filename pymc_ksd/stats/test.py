"""A test: one statistic of one panel, and its null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_ksd.engine.walk import Effort
from pymc_ksd.stats.nulls import Null, SampleShape, monte_carlo_p_value
from pymc_ksd.stats.panel import (
    MemberEstimate,
    OtherTest,
    Panel,
    joined_excess,
    joined_p_value,
    level_of_each,
)
from pymc_ksd.stats.statistics import Estimate, Request, Statistic

#: Replicates of a bootstrap below which a value counts with them, as beside simulated samples: it
#: decides then how large their standard deviation seems.
_FEW_REPLICATES = 100


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
    other : OtherTest, optional
        A test of another kind that is joined with that of the panel.
    """

    panel: Panel
    statistic: Statistic
    null: Null
    n_replicates: int
    alpha: float
    effort: Effort
    other: OtherTest | None = None

    @property
    def level(self) -> float:
        """What the p-value of the panel must not exceed to reject."""
        return self.alpha if self.other is None else level_of_each(self.alpha, 2)


@dataclass(frozen=True)
class MemberResult:
    """What one member of a panel says by itself.

    Attributes
    ----------
    name : str
        The member.
    statistic : float
        Its estimate of the squared discrepancy; of another test that is joined, its own.
    p_value : float
        How often it is as large under the null hypothesis.
    excess : float
        By how many standard deviations it exceeds its replicates, as it counts in the joined test.
    bandwidth : float
        Its bandwidth, NaN where it has none.
    """

    name: str
    statistic: float
    p_value: float
    excess: float
    bandwidth: float = float("nan")


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
    members : tuple of MemberResult
        What each member of a panel says by itself, where several were tested.
    """

    estimate: Estimate
    statistic: float
    p_value: float
    critical_value: float
    null_distribution: np.ndarray
    members: tuple[MemberResult, ...] = ()


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
    replicates = np.reshape(replicates, (len(replicates), -1))
    if replicates.shape[1] != len(estimate.values):
        raise ValueError(
            f"`null` {null!r} must return replicates of all {len(estimate.values)} kernels that "
            f"are tested, one column each, got {replicates.shape[1]}. Name a `kernel` to test one."
        )
    estimate = _with_replicates(estimate, replicates, null)
    value, distribution = estimate.value, replicates[:, 0]
    members: tuple[MemberResult, ...] = ()
    if len(estimate.members) > 1:
        value, distribution = joined_excess(estimate.members)
        members = _by_themselves(estimate.members, plan.other, distribution)
    tested = replace(estimate, value=value)
    p_value = null.p_value(tested, distribution)
    critical_value = null.critical_value(tested, distribution, plan.level)
    if plan.other is not None:
        p_value = joined_p_value(p_value, plan.other.p_value)
        value = max(value, plan.other.excess(distribution))
        distribution = np.maximum(distribution, rng.permutation(distribution))
    return Outcome(estimate, value, p_value, critical_value, distribution, members)


def _by_themselves(
    members: Sequence[MemberEstimate], other: OtherTest | None, joined: np.ndarray
) -> tuple[MemberResult, ...]:
    """Return what each member says, and another test in the units of the panel."""
    kernels = tuple(
        MemberResult(
            member.name,
            member.value,
            monte_carlo_p_value(member.value, member.replicates),
            member.excess,
            member.bandwidth,
        )
        for member in members
    )
    if other is None:
        return kernels
    return (
        *kernels,
        MemberResult(other.name, other.statistic, other.p_value, other.excess(joined)),
    )


def _with_replicates(estimate: Estimate, replicates: np.ndarray, null: Null) -> Estimate:
    """Return an estimate whose members know what they come to under the null hypothesis."""
    counts_itself = null.simulates or len(replicates) < _FEW_REPLICATES
    members = (
        replace(member, replicates=own, counts_itself=counts_itself)
        for member, own in zip(estimate.members, replicates.T, strict=bool(estimate.members))
    )
    return replace(estimate, members=tuple(members))
