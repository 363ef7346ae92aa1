"""Series of quantities in draws, and of what Stein features explain of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_ksd.diagnostics.scored_draws import Part
from pymc_ksd.stats.control_variates import ControlVariates
from pymc_ksd.stein.features import Frame, Stretch

#: Parts of a sample of which each is corrected by what the others have shown.
_FOLDS = 4


@dataclass(frozen=True)
class Units:
    """What points and quantities are measured in, and the parts they belong to."""

    frame: Frame
    centre: np.ndarray
    spread: np.ndarray
    n_chains: int
    n_draws: int
    by_chain: bool

    @property
    def n_folds(self) -> int:
        """The number of parts."""
        return min(self.n_chains, _FOLDS) if self.by_chain else _FOLDS

    def stretch(self, part: Part) -> tuple[Stretch, np.ndarray]:
        """Return points and quantities in these units."""
        draw = part.first + np.arange(part.n_points) // self.n_chains
        if self.by_chain:
            folds = np.arange(part.n_points) % self.n_chains * self.n_folds // self.n_chains
        else:
            folds = draw * self.n_folds // self.n_draws
        stretch = self.frame.stretch(part.points, part.scores, part.log_densities, folds)
        return stretch, (part.quantities - self.centre) / self.spread


@dataclass(frozen=True)
class Series:
    """All series of quantities: means over consecutive draws, and sums over every fold.

    Attributes
    ----------
    means : ndarray of shape (series, chain, draw, p)
        The means.
    sums : ndarray of shape (series, folds, p)
        The sums.
    counts : ndarray of shape (folds,)
        How many draws a fold has.
    """

    means: np.ndarray
    sums: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, part: Part, units: Units, variates: ControlVariates, length: int) -> Series:
        """Evaluate a part; means are over so many draws, a shorter rest has none."""
        stretch, quantities = units.stretch(part)
        explained, *tested = variates.explained(stretch)
        values = np.concatenate([[quantities, quantities**2], explained, *tested])
        rows = [stretch.folds == fold for fold in range(units.n_folds)]
        sums = np.stack([values[:, own].sum(axis=1) for own in rows], axis=1)
        count = part.n_points // units.n_chains // length
        kept = values[:, : count * length * units.n_chains]
        shape = (len(values), count, length, units.n_chains, values.shape[2])
        by_stretch = kept.reshape(shape)
        means = by_stretch.mean(axis=2) if length > 1 else by_stretch[:, :, 0]
        counts = np.array([np.count_nonzero(own) for own in rows])
        return cls(means.swapaxes(1, 2), sums, counts)

    @classmethod
    def joined(cls, parts: Sequence[Series]) -> Series:
        """Put the series of consecutive parts together."""
        if len(parts) == 1:
            return parts[0]
        means = np.concatenate([part.means for part in parts], axis=2)
        sums, counts = (
            np.sum([getattr(part, name) for part in parts], axis=0) for name in ("sums", "counts")
        )
        return cls(means, sums, counts)
