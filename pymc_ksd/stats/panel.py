"""Several Stein kernels that see the same points and are tested as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import norm

from pymc_ksd.stein.kernels import Kernel
from pymc_ksd.stein.stein_kernel import Member, SteinKernel

#: A skewness that makes no difference, for replicates that are skewed to the left, too; and that of
#: a chi-squared variable, the largest that a sum of them has.
_NO_SKEWNESS, _MOST_SKEWNESS = 1e-4, 8**0.5


def kernel_name(kernel: Kernel) -> str:
    """Return what a kernel is called in the names of members."""
    return type(kernel).__name__.lower()


@dataclass(frozen=True)
class Panel:
    """A reference kernel, and others that are tested beside it.

    Attributes
    ----------
    members : tuple of Member
        The reference, which distances and contributions are of: one kernel with one or several
        bandwidths, which are averaged.
    others : tuple of Member
        Stein kernels that see what the reference does not.
    """

    members: tuple[Member, ...]
    others: tuple[Member, ...] = ()

    @classmethod
    def of_bandwidths(cls, stein: SteinKernel, bandwidths: Iterable[float]) -> Panel:
        """Return the average of a kernel over several bandwidths."""
        name = kernel_name(stein.kernel)
        return cls(tuple(Member(name, stein, float(width)) for width in bandwidths))

    @classmethod
    def side_by_side(cls, stein: SteinKernel, bandwidths: Iterable[float]) -> Panel:
        """Return a kernel with each of several bandwidths, the first of which is the reference."""
        name, widths = kernel_name(stein.kernel), list(dict.fromkeys(map(float, bandwidths)))
        names = [f"{width:g}" for width in widths]
        if len(set(names)) < len(names):
            names = [repr(width) for width in widths]
        members = (
            Member(f"{name}, {label}", stein, width)
            for label, width in zip(names, widths, strict=True)
        )
        first, *others = members
        return cls((first,), tuple(others))

    @property
    def everyone(self) -> tuple[Member, ...]:
        """The reference and the others."""
        return self.members + self.others

    @property
    def bandwidths(self) -> np.ndarray:
        """The bandwidths of the reference."""
        return np.array([member.bandwidth for member in self.members])

    def joined(self, values: np.ndarray) -> np.ndarray:
        """Return one set of numbers out of the reference's own, along the first axis: their mean.

        The mean of Stein kernels is the Stein kernel of the mean of base kernels.
        """
        mean: np.ndarray = np.mean(values, axis=0)
        return mean


@dataclass(frozen=True)
class MemberEstimate:
    """What one member of a panel came to.

    Attributes
    ----------
    name : str
        The member.
    value : float
        Its estimate of the squared discrepancy.
    replicates : ndarray of shape (m,)
        The same under the null hypothesis, none before a null was asked.
    diagonal_share : float
        What the hundredth part of all points that matters most has of all ``u(x, x)``.
    bandwidth : float
        Its bandwidth.
    counts : float, default 1.0
        What its excess is multiplied by.
    counts_itself : bool, default False
        Whether the value is one more of the replicates under the null hypothesis, as beside
        simulated samples, and taken as one where replicates are few. In their mean, standard
        deviation and skewness it then counts with them, which makes the joined test exact beside
        simulated samples, for any number of replicates.
    """

    name: str
    value: float
    replicates: np.ndarray = field(repr=False)
    diagonal_share: float
    bandwidth: float = float("nan")
    counts: float = 1.0
    counts_itself: bool = False

    @property
    def excess(self) -> float:
        """By how many standard deviations the value exceeds its replicates, times `counts`.

        The skewness of the replicates is taken out.
        """
        return float(self._standard(self.value))

    @property
    def replicated_excess(self) -> np.ndarray:
        """The same for the replicates."""
        return np.asarray(self._standard(self.replicates))

    def _standard(self, value: float | np.ndarray) -> float | np.ndarray:
        all_of_them = self.replicates
        if self.counts_itself:
            all_of_them = np.append(all_of_them, self.value)
        return self.counts * without_skewness(value, all_of_them)


def in_deviations(values: Any, replicates: np.ndarray, *, ddof: int = 0) -> Any:
    """Return by how many standard deviations of replicates values exceed their mean."""
    return (values - replicates.mean(axis=0)) / spread_of(replicates, ddof=ddof)


def without_skewness(values: Any, replicates: np.ndarray) -> Any:
    """Return by how many standard deviations values exceed replicates, on a scale without skewness.

    Replicates of a wide kernel are nearly a chi-squared variable, those of a narrow one nearly
    normal: the same number of standard deviations is far less likely of the latter. The cube root
    of Wilson and Hilferty, of a gamma variable with the skewness of the replicates, makes both
    nearly standard normal.
    """
    standard, others = (in_deviations(one, replicates) for one in (values, replicates))
    half = np.clip((others**3).mean(axis=0), _NO_SKEWNESS, _MOST_SKEWNESS) / 2
    return 3 / half * (np.cbrt(1 + half * standard) - 1 + half**2 / 9)


def spread_of(replicates: np.ndarray, *, ddof: int = 0) -> np.ndarray:
    """Return standard deviations along the first axis, 1 where nothing varies.

    Squares of a statistic may overflow where it does not.
    """
    _, exponent = np.frexp(np.abs(replicates).max(axis=0))
    spread = np.ldexp(np.ldexp(replicates, -exponent).std(axis=0, ddof=ddof), exponent)
    return np.where(spread > 0, spread, 1.0)


def share_of_few(diagonal: np.ndarray) -> float:
    """Return what the hundredth part of all points with the largest numbers has of their sum."""
    few = max(1, len(diagonal) // 100)
    total = float(diagonal.sum())
    return float(np.partition(diagonal, -few)[-few:].sum()) / total if total > 0 else 0.0


def joined_excess(members: Sequence[MemberEstimate]) -> tuple[float, np.ndarray]:
    """Return the largest excess of all members, as each counts, and the same for every replicate.

    All members saw the same weights, or the same simulated samples, so that the replicates keep how
    they depend on each other.
    """
    replicates = np.max([member.replicated_excess for member in members], axis=0)
    return float(np.max([member.excess for member in members])), replicates


@dataclass(frozen=True)
class OtherTest:
    """A test of another kind that is joined with a panel, known by its p-value.

    Attributes
    ----------
    name : str
        What is tested.
    statistic : float
        What it came to.
    p_value : float
        How often it is as large under the null hypothesis.
    """

    name: str
    statistic: float
    p_value: float

    def excess(self, replicates: np.ndarray) -> float:
        """Return what the largest excess of a panel exceeds as rarely, given its replicates.

        Where no replicate is as large, their tail is continued as a normal one.
        """
        m, ordered = len(replicates), np.sort(replicates)
        count = self.p_value * (1 + m)
        if count >= 1:
            return float(np.interp(m - count, np.arange(m), ordered))
        rare = norm.isf(max(self.p_value, np.finfo(float).tiny))
        return float(ordered[-1] + rare - norm.isf(1 / (1 + m)))


def joined_p_value(*p_values: float) -> float:
    """Return the p-value of the smallest of several, by tests that know nothing of each other.

    If they tend to reject the same samples, the joined test is the more careful.
    """
    return float(-np.expm1(len(p_values) * np.log1p(-min(p_values)))) if min(p_values) < 1 else 1.0


def level_of_each(alpha: float, count: int) -> float:
    """Return what the smallest of several p-values must not exceed for a joined one of alpha."""
    return float(-np.expm1(np.log1p(-alpha) / count))
