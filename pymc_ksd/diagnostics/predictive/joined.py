"""Statistics of several comparisons, each with several kernels, joined to one test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.predictive.comparisons import RESIDUALS, Comparison
from pymc_ksd.stats.nulls import monte_carlo_p_value
from pymc_ksd.stats.panel import in_deviations
from pymc_ksd.stein.stein_kernel import Member

#: What share of what residuals alone show is taken out of the members by covariates, which would
#: repeat it. Not all of it, for then a misfit that shows a little in both would be missed.
_TAKEN_OUT = 0.5
#: What members with a bandwidth of covariates below the median count: most misfits change slowly.
_SHORT_WIDTH = 0.85
#: What the excess of residuals alone counts where one member is to show what is wrong: the others
#: also show where.
_SHOWN_ALONE = 0.8
#: What bandwidths of covariates are called in the names of members.
_FRACTIONS = {1 / 3: "1/3"}


@dataclass(frozen=True)
class Statistics:
    """U-statistics of observed and replicated data at every draw.

    Attributes
    ----------
    observed, replicated : ndarray of shape (draws, members)
        The statistics.
    names : list of str
        What members are called: a comparison, the kernel of residuals, the covariates' bandwidth.
    comparisons : list of str
        The comparison of each member.
    places : list of tuple of int
        The number of each member's kernel, and that of its covariates.
    bandwidths, widths : list of float
        Bandwidths of residuals, and of covariates in median distances (NaN without numbers).
    same_data : bool
        Whether all draws are the same, so that observed data are one more of the replicated ones.
    """

    observed: np.ndarray
    replicated: np.ndarray
    names: list[str]
    comparisons: list[str]
    places: list[tuple[int, int]]
    bandwidths: list[float]
    widths: list[float]
    same_data: bool

    @classmethod
    def of(
        cls,
        statistics: np.ndarray,
        kernels: Sequence[Member],
        comparisons: Sequence[Comparison],
        *,
        same_data: bool,
    ) -> Statistics:
        """Arrange statistics of shape (kernels, draws, 2, covariates), comparison by comparison."""
        found: list[tuple[str, str, tuple[int, int], float, float]] = []
        covariate = 0
        for comparison in comparisons:
            for width in comparison.widths:
                for number, kernel in enumerate(kernels):
                    name = member_name(comparison.name, kernel, width)
                    place = (number, covariate)
                    found.append((name, comparison.name, place, kernel.bandwidth, width))
                covariate += 1
        names, owners, places, bandwidths, widths = (
            list(part) for part in zip(*found, strict=True)
        )
        picked = np.stack([statistics[number, :, :, index] for number, index in places], axis=-1)
        observed, replicated = picked[:, 0], picked[:, 1]
        return cls(observed, replicated, names, owners, places, bandwidths, widths, same_data)

    @property
    def excess(self) -> tuple[np.ndarray, np.ndarray]:
        """Observed and replicated statistics in standard deviations of the replicated ones."""
        everyone = self.replicated
        if self.same_data:
            everyone = np.concatenate([everyone, self.observed[:1]])
        observed, replicated = (
            in_deviations(values, everyone, ddof=1) for values in (self.observed, self.replicated)
        )
        return observed, replicated

    @property
    def terms(self) -> tuple[np.ndarray, np.ndarray]:
        """What the joined test takes the largest of, for observed and replicated data."""
        observed, replicated = self.excess
        everyone = np.concatenate([replicated, observed[:1]]) if self.same_data else replicated
        alone = self._alone
        shared = (everyone * everyone[:, alone]).sum(axis=0) / max(len(everyone) - 1, 1)
        taken = np.where(alone == np.arange(len(alone)), 0.0, _TAKEN_OUT) * shared
        weights = np.where(np.array(self.widths) < 1, _SHORT_WIDTH, 1.0)
        # What is left is brought to standard deviations again.
        weights /= np.sqrt(1 - taken * (2 * shared - taken))
        observed, replicated = (
            weights * (values - taken * values[:, alone]) for values in (observed, replicated)
        )
        return observed, replicated

    @property
    def _alone(self) -> np.ndarray:
        """The numbers of the members with the same kernel of residuals alone."""
        numbers = {
            kernel: index
            for index, (name, (kernel, _)) in enumerate(
                zip(self.comparisons, self.places, strict=True)
            )
            if name == RESIDUALS
        }
        return np.array([numbers[kernel] for kernel, _ in self.places])

    @property
    def strongest(self) -> int:
        """The number of the member that shows best what is wrong: the one that exceeds most."""
        excess = self.excess[0].mean(axis=0)
        alone = self._alone == np.arange(len(excess))
        return int(np.argmax(np.where(alone, _SHOWN_ALONE, 1.0) * excess))

    def dataset(self) -> xr.Dataset:
        """Return p-values and discrepancies."""
        mean, strongest = self.excess[0].mean(axis=0), self.strongest
        observed, replicated = self.terms
        names = list(dict.fromkeys(self.comparisons))
        own = [np.array([one == name for one in self.comparisons]) for name in names]
        return xr.Dataset(
            {
                "p_value": ((), _joined_p_value(observed, replicated)),
                "observed": (("sample",), observed.max(axis=1)),
                "replicated": (("sample",), replicated.max(axis=1)),
                "comparison_p_value": (
                    ("comparison",),
                    [_joined_p_value(observed[:, part], replicated[:, part]) for part in own],
                ),
                "comparison_excess": (("comparison",), [mean[part].max() for part in own]),
                "observed_statistic": (("sample", "member"), self.observed),
                "replicated_statistic": (("sample", "member"), self.replicated),
                "member_p_value": (
                    ("member",),
                    [
                        _joined_p_value(self.observed[:, [index]], self.replicated[:, [index]])
                        for index in range(len(self.names))
                    ],
                ),
                "member_excess": (("member",), mean),
                "member_bandwidth": (("member",), self.bandwidths),
                "member_width": (("member",), self.widths),
                "contributions_of": ((), self.comparisons[strongest]),
                "contributions_member": ((), self.names[strongest]),
            },
            coords={"comparison": names, "member": self.names},
        )


def member_name(comparison: str, kernel: Member, width: float) -> str:
    """Return what a member is called: ``inputs (rbf, 1; 1/3 of the median)``."""
    if np.isnan(width):
        return f"{comparison} ({kernel.name})"
    told = _FRACTIONS.get(width, f"{width:g}")
    return f"{comparison} ({kernel.name}; {told} of the median)"


def _joined_p_value(observed: np.ndarray, replicated: np.ndarray) -> float:
    """Return the share of draws whose replicated data are at least as far off, by any member."""
    return monte_carlo_p_value(0.0, replicated.max(axis=1) - observed.max(axis=1))
