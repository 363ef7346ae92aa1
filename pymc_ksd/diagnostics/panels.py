"""Which kernels a sample is tested by when the user names none, and how it is scaled for them.

One kernel sees errors of about the size of its bandwidth. Narrow ones find what is wrong between
neighbouring points, wide ones where the mass lies, and those with heavy tails what is far out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from pymc_ksd.samples.sample import Sample
from pymc_ksd.stats.nulls import Wild
from pymc_ksd.stats.panel import kernel_name, share_of_few
from pymc_ksd.stein.kernels import IMQ, RBF, Kernel
from pymc_ksd.stein.stein_kernel import OPERATORS, Member
from pymc_ksd.stein.tilt import TiltedLangevin

#: What bandwidths are counted in, by the rule for that of the reference.
_UNITS = {"median": "median", "dimension": "sqrt(d)"}
#: Effective draws, in units of the dimension to the power of 3/2, from which draws are whitened.
#: With fewer the noise of their covariance takes from the statistic what it is to find.
DRAWS_TO_WHITEN = 2.0
#: How many times the mean square of the steepest slope must exceed that of the flattest for data to
#: be whitened, and what the hundredth part of the points may have of any mean square.
_UNEQUAL, _FEW = 25.0, 0.25


@dataclass(frozen=True)
class PanelKernel:
    """A kernel that samples are tested by.

    Attributes
    ----------
    kernel : Kernel
        The base kernel.
    factor : float
        How many times as wide as the reference it is.
    tilted : bool
        Whether it is tilted, which takes log densities.
    counts : tuple of float
        What its excess counts beside that of others, in one dimension and in several.
    """

    kernel: Kernel
    factor: float = 1.0
    tilted: bool = False
    counts: tuple[float, float] = (1.0, 1.0)

    def member(self, reference: Member, rule: str, dim: int) -> Member:
        """Return the member, whose bandwidth is a multiple of the reference's."""
        name, part = kernel_name(self.kernel), Fraction(self.factor)
        if part != 1:
            name += f", {part}{' ×' if part > 1 else ''} {_UNITS[rule]}"
        stein = replace(reference.stein, kernel=self.kernel)
        if self.tilted:
            name, stein = f"{name}, tilted", replace(stein, operator=_TILTED)
        counts = self.counts[min(dim, 2) - 1]
        return Member(name, stein, self.factor * reference.bandwidth, counts)


_TILTED = OPERATORS[TiltedLangevin.name]
#: What the narrow kernel counts in several dimensions, where hardly any two points are close to it,
#: and chance decides which.
_LESS = 0.6
#: What data are tested by; the first is the reference, whose bandwidth is the median distance. Four
#: more kernels found no more.
KERNELS_FOR_DATA = (
    PanelKernel(RBF()),
    PanelKernel(RBF(), 1 / 4, counts=(1.0, _LESS)),
    PanelKernel(RBF(), 1 / 2),
    PanelKernel(RBF(), 2),
    PanelKernel(IMQ(), 4),
)
#: What draws are tested by, the reference first.
KERNELS_FOR_DRAWS = (
    PanelKernel(IMQ()),
    PanelKernel(RBF(), 1 / 4),
    PanelKernel(RBF(), 1 / 2),
    PanelKernel(IMQ(), tilted=True),
    PanelKernel(RBF(), 1 / 2, tilted=True),
)


def scale_of_draws(sample: Sample) -> str:
    """Return how draws are scaled: whitened if there are enough to know how."""
    (n, dim), time = sample.points.shape, sample.autocorrelation_time
    # Of slow chains the test is too eager without whitening, and has no power anyway.
    enough = n / time >= DRAWS_TO_WHITEN * dim**1.5 or not Wild(time).has_power(sample)
    return "cov" if enough else "std"


def scale_of_data(points: np.ndarray, scores: np.ndarray) -> str | None:
    """Return how data are scaled: whitened if the density is far steeper in some directions.

    Where it is not, whitening only adds the noise of a covariance. The spread of the points is no
    sign: that of several modes is long where the density is as steep as elsewhere.
    """
    n, dim = points.shape
    if dim == 1 or n < DRAWS_TO_WHITEN * dim**1.5:
        return None
    squares = np.concatenate([(points - points.mean(axis=0)) ** 2, scores**2], axis=1)
    if max(map(share_of_few, squares.T)) > _FEW:
        return None  # a few points far out decide what is long and what is steep
    values = np.linalg.eigvalsh(scores.T @ scores)
    return "stein" if values[-1] > _UNEQUAL * values[0] else None
