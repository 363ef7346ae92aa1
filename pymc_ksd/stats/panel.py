"""Several Stein kernels that see the same points and are tested as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pymc_ksd.stein.stein_kernel import Member, SteinKernel


@dataclass(frozen=True)
class Panel:
    """A named list of members, and how their numbers become one.

    Attributes
    ----------
    members : tuple of Member
        The Stein kernels. Now the same kernel with one or several bandwidths.
    """

    members: tuple[Member, ...]

    @classmethod
    def of_bandwidths(cls, stein: SteinKernel, bandwidths: Iterable[float]) -> Panel:
        """Return a kernel with each of several bandwidths."""
        return cls(
            tuple(Member(f"bandwidth {width:.4g}", stein, float(width)) for width in bandwidths)
        )

    @property
    def bandwidths(self) -> np.ndarray:
        """The members' bandwidths."""
        return np.array([member.bandwidth for member in self.members])

    def joined(self, values: np.ndarray) -> np.ndarray:
        """Return one set of numbers out of the members' own, along the first axis: their mean.

        The mean of Stein kernels is the Stein kernel of the mean of base kernels.
        """
        mean: np.ndarray = np.mean(values, axis=0)
        return mean
