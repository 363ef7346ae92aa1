"""A sample: unconstrained points, from independent data or from a sampler's chains."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import xarray as xr


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
        Whether it is known that draws come from an approximation, independent of each other.
    """

    points: np.ndarray
    n_chains: int = 1
    posterior: xr.Dataset = field(default_factory=xr.Dataset)
    are_draws: bool = False
    independent: bool = False

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

    @property
    def chain_numbers(self) -> np.ndarray:
        """The number of each point's chain."""
        return np.tile(np.arange(self.n_chains, dtype=np.float64), self.n_draws)

    def by_chain(self, values: np.ndarray) -> np.ndarray:
        """Arrange one number for each point by chain and draw."""
        return values.reshape(self.n_draws, self.n_chains).T
