"""A sample: unconstrained points, from independent data or from a sampler's chains."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import xarray as xr

from pymc_ksd.samples.chains import autocorrelation_time_of, largest_rhat_of, rhat_by_chance


class DrawsWarning(UserWarning):
    """A warning about draws whose test is less reliable than it looks."""


@dataclass(frozen=True)
class Sample:
    """Unconstrained points, and what is known of where they come from.

    Attributes
    ----------
    points : ndarray of shape (n, d)
        Data, or draws: first draw of every chain, second draw of every chain, and so on.
    n_chains : int
        Number of chains, 1 for data.
    posterior : xarray.Dataset
        Draws on the scale users see, as far as they have it, with the dims chain, draw and the
        variable's own, elements in the model's order.
    are_draws : bool
        Whether a sampler made them, so that they may be correlated.
    independent : bool
        Whether draws are known to be independent all the same, as those of an approximation are.
    interacting : bool
        Whether chains move by where others are, so that they are no independent ones.
    mismatch : str
        Why draws and model cannot belong together, or nothing.
    values : tuple of ndarray
        Scores of the points, of shape (n, d), and perhaps log densities, of shape (n,), where they
        are stored with draws and can be used; otherwise none.
    scores : {"model", "stored", "model, stored ones differ"}
        Where scores come from.
    """

    points: np.ndarray
    n_chains: int = 1
    posterior: xr.Dataset = field(default_factory=xr.Dataset)
    are_draws: bool = False
    independent: bool = False
    interacting: bool = False
    mismatch: str = ""
    values: tuple[np.ndarray, ...] = ()
    scores: str = "model"

    @property
    def n_points(self) -> int:
        """The number of points."""
        return len(self.points)

    @property
    def n_draws(self) -> int:
        """The number of draws of a chain."""
        return len(self.points) // self.n_chains

    @property
    def chains(self) -> np.ndarray:
        """The points as an array of shape (chain, draw, d)."""
        return self.points.reshape(self.n_draws, self.n_chains, -1).swapaxes(0, 1)

    @cached_property
    def autocorrelation_time(self) -> float:
        """The autocorrelation time of draws, 1 where points are known to be independent."""
        if self.independent or not self.are_draws:
            return 1.0
        return autocorrelation_time_of(self.chains)

    @cached_property
    def largest_rhat(self) -> float:
        """The R-hat of the coordinate that has the largest."""
        return largest_rhat_of(self.chains)

    def chains_disagree(self, most_rhat: float) -> bool:
        """Whether R-hat is above a bound, and above what chance makes of so few draws."""
        if self.independent or not self.largest_rhat > most_rhat:
            return False
        return self.largest_rhat > rhat_by_chance(self.chains)

    @property
    def chain_numbers(self) -> np.ndarray:
        """The number of each point's chain."""
        return np.tile(np.arange(self.n_chains, dtype=np.float64), self.n_draws)

    def by_chain(self, values: np.ndarray) -> np.ndarray:
        """Arrange one number for each point by chain and draw."""
        return values.reshape(self.n_draws, self.n_chains).T
