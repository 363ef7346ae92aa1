r"""The statistics that there are.

=========== ===================================================================== ==============
`statistic` estimator                                                             cost
=========== ===================================================================== ==============
``"u"``     :math:`\frac{1}{n(n-1)} \sum_{i \ne j} u(x_i, x_j)`, unbiased         :math:`O(n^2)`
``"v"``     :math:`\frac{1}{n^2} \sum_{i, j} u(x_i, x_j)`, never negative         :math:`O(n^2)`
``"linear"`` mean of :math:`u(x_1, x_2), u(x_3, x_4), \dots`                      :math:`O(n)`
``"block"`` mean of ``"u"`` over consecutive blocks of b points                   :math:`O(n b)`
=========== ===================================================================== ==============
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_ksd.engine.pairs import (
    PairSums,
    evaluate_all_pairs,
    evaluate_pairs,
    evaluate_squares,
)
from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.options import optional_count
from pymc_ksd.stats.panel import Panel
from pymc_ksd.stats.statistic import Effort, Estimate, Statistic

__all__ = [
    "STATISTICS",
    "Block",
    "Linear",
    "UStatistic",
    "VStatistic",
    "get_statistic",
    "register_statistic",
]


class _Quadratic(Statistic):
    """A sum over all pairs."""

    takes_weights = True

    def estimate(
        self,
        panel: Panel,
        points: Any,
        effort: Effort,
        *,
        null: Any = None,
        weights: np.ndarray | None = None,
        groups: np.ndarray | None = None,
        details: bool = False,
    ) -> Estimate:
        """Walk all pairs once."""
        sums = evaluate_all_pairs(
            panel.members,
            points,
            weights=weights,
            coordinates=details,
            groups=groups,
            block_size=effort.block_size,
            progressbar=effort.progressbar,
            client=effort.client,
        ).map(panel.joined)
        return Estimate(
            self.of_sums(sums),
            replicates=np.empty(0) if weights is None else self._replicates(sums, null),
            coordinates=self._coordinates(sums) if details else np.empty(0),
            sums=sums,
        )

    def of_sums(self, sums: PairSums) -> float:
        """Return the statistic from sums over all pairs."""
        raise NotImplementedError

    def _replicates(self, sums: PairSums, null: Any) -> np.ndarray:
        raise NotImplementedError

    def _coordinates(self, sums: PairSums) -> np.ndarray:
        raise NotImplementedError


class UStatistic(_Quadratic):
    """The mean over pairs of different points: unbiased."""

    name = "u"
    default_null = "multinomial"

    def of_sums(self, sums: PairSums) -> float:
        """Return the mean over pairs of different points."""
        n = len(sums.diagonal)
        return float(sums.off_diagonal) / (n * (n - 1))

    def _replicates(self, sums: PairSums, null: Any) -> np.ndarray:
        replicates: np.ndarray = sums.quadratic / null.pairs(len(sums.diagonal))
        return replicates

    def _coordinates(self, sums: PairSums) -> np.ndarray:
        n = len(sums.diagonal)
        coordinates: np.ndarray = sums.coordinates - sums.coordinates_diagonal
        return coordinates / (n * (n - 1))


class VStatistic(_Quadratic):
    """The mean over all pairs, a point with itself included: never negative."""

    name = "v"
    default_null = "rademacher"

    def of_sums(self, sums: PairSums) -> float:
        """Return the mean over all pairs."""
        n = len(sums.diagonal)
        return (float(sums.off_diagonal) + float(sums.diagonal.sum())) / n**2

    def _replicates(self, sums: PairSums, null: Any) -> np.ndarray:
        replicates: np.ndarray = sums.quadratic + sums.quadratic_diagonal
        return replicates / len(sums.diagonal) ** 2

    def _coordinates(self, sums: PairSums) -> np.ndarray:
        coordinates: np.ndarray = sums.coordinates / len(sums.diagonal) ** 2
        return coordinates


class Linear(Statistic):
    """The mean over neighbouring points, two by two."""

    name = "linear"
    default_null = "normal"
    has_error = True

    def estimate(
        self,
        panel: Panel,
        points: Any,
        effort: Effort,
        *,
        null: Any = None,
        weights: np.ndarray | None = None,
        groups: np.ndarray | None = None,
        details: bool = False,
    ) -> Estimate:
        """Return the mean of independent terms and its error."""
        n = points.n_points
        if n < 4:
            raise ValueError(f"`statistic` 'linear' needs at least 4 points, got {n}.")
        terms = []
        with progress_bar("Comparing points", n, effort.progressbar) as bar:
            for part in points.stretches(2):
                length = part.n_points
                first, second = slice(0, length - length % 2, 2), slice(1, length, 2)
                terms.append(panel.joined(evaluate_pairs(panel.members, part, first, second)))
                bar.advance(length)
                del part  # before the next stretch is read
        values = np.concatenate(terms)
        error = float(values.std(ddof=1) / np.sqrt(len(values)))
        return Estimate(float(values.mean()), error)


class Block(Statistic):
    r"""The mean of U-statistics of consecutive blocks of points.

    A block's U-statistic has variance :math:`2\, \mathbb{E} u^2 / b(b-1)` under the null
    hypothesis; estimating it from all pairs of all blocks, and not from the few blocks' spread,
    keeps the level of the test.

    Parameters
    ----------
    points_per_block : int, optional
        Points in a block, by default the square root of their number.
    """

    name = "block"
    default_null = "normal"
    has_error = True

    def __init__(self, points_per_block: int | None = None) -> None:
        self.points_per_block = optional_count(points_per_block, "points_per_block", 2)

    def estimate(
        self,
        panel: Panel,
        points: Any,
        effort: Effort,
        *,
        null: Any = None,
        weights: np.ndarray | None = None,
        groups: np.ndarray | None = None,
        details: bool = False,
    ) -> Estimate:
        """Return the mean over blocks and its error."""
        n = points.n_points
        size = self.points_per_block or int(np.sqrt(n))
        if size < 2 or n // size < 2:
            raise ValueError(
                f"`statistic` 'block' needs at least 2 blocks of at least 2 points, got {n} points "
                f"in blocks of {size}."
            )
        pairs, terms, squares = size * (size - 1), [], 0.0
        with progress_bar("Comparing points", n, effort.progressbar) as bar:
            for part in points.stretches(size):
                sums, products = evaluate_squares(panel.members, part, size)
                terms.append(panel.joined(sums) / pairs)
                squares += float(panel.joined(panel.joined(products)).sum())
                bar.advance(part.n_points)
                del part  # before the next stretch is read
        values = np.concatenate(terms)
        error = np.sqrt(2 * squares / (pairs * len(values)) / pairs / len(values))
        return Estimate(float(values.mean()), float(error))

    def __repr__(self) -> str:
        """Name the statistic and the size of its blocks, when fixed."""
        return f"Block({self.points_per_block or ''})"


STATISTICS: dict[str, type[Statistic]] = {}


def register_statistic(statistic: type[Statistic]) -> type[Statistic]:
    """Make a statistic known under its name, for the argument `statistic`.

    Parameters
    ----------
    statistic : type of Statistic
        Its class, which can be called without arguments.

    Returns
    -------
    type of Statistic
        The same class, so that this can decorate it.
    """
    STATISTICS[statistic.name] = statistic
    return statistic


for _statistic in (UStatistic, VStatistic, Linear, Block):
    register_statistic(_statistic)
del _statistic


def get_statistic(statistic: str | Statistic) -> Statistic:
    """Turn the argument `statistic` of a public function into a :class:`Statistic`."""
    if isinstance(statistic, Statistic):
        return statistic
    if not isinstance(statistic, str) or statistic not in STATISTICS:
        raise ValueError(
            f"`statistic` must be one of {', '.join(map(repr, STATISTICS))}, got {statistic!r}."
        )
    return STATISTICS[statistic]()
