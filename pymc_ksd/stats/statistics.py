r"""Estimators of the squared discrepancy between points and a density.

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

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from pymc_ksd.engine.pairs import PairSums, evaluate_all_pairs, evaluate_pairs, evaluate_squares
from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.engine.walk import PLAIN, Effort
from pymc_ksd.options import optional_count
from pymc_ksd.stats.panel import MemberEstimate, Panel, share_of_few
from pymc_ksd.stein.stein_kernel import Member


@dataclass(frozen=True)
class Request:
    """Of what a statistic is wanted, and what else besides.

    Attributes
    ----------
    panel : Panel
        The Stein kernels.
    points : Points
        The points, or a stream of them, which has only ``n_points`` and ``stretches``.
    effort : Effort
        How sums are computed.
    null : Null, optional
        Whose weights they are.
    weights : ndarray of shape (m, n), optional
        Weights of points for replicates.
    groups : ndarray of shape (n,), optional
        The number of each point's group, for sums over the points before each point.
    details : bool, default False
        Whether contributions of coordinates are wanted.
    """

    panel: Panel
    points: Any
    effort: Effort = PLAIN
    null: Any = None
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    details: bool = False


@dataclass(frozen=True)
class Estimate:
    """What a statistic came to.

    Attributes
    ----------
    value : float
        The estimate of the squared discrepancy, by the reference of a panel.
    error : float
        Its standard error under the null hypothesis, where the statistic knows it.
    coordinates : ndarray of shape (d,)
        What each coordinate adds, none if that is not known.
    sums : PairSums, optional
        The sums over all pairs of the reference, where all were evaluated.
    members : tuple of MemberEstimate
        What each member came to, where the statistic tests several side by side: the reference
        first, with quadratic forms in the weights of a null where these were given.
    """

    value: float
    error: float = float("nan")
    coordinates: np.ndarray = field(default_factory=lambda: np.empty(0))
    sums: PairSums | None = None
    members: tuple[MemberEstimate, ...] = ()

    @property
    def values(self) -> np.ndarray:
        """The estimates of all members, shape (members,)."""
        return np.array([member.value for member in self.members] or [self.value])

    @property
    def replicates(self) -> np.ndarray:
        """Their quadratic forms in the weights of a null, shape (m, members)."""
        return np.stack([member.replicates for member in self.members], axis=1)


class Statistic:
    """An estimator of the squared discrepancy.

    A subclass writes :meth:`estimate`. It is registered by :func:`register_statistic`.
    """

    #: What the argument `statistic` calls it.
    name: ClassVar[str] = ""
    #: The null that goes with it unless the user says otherwise.
    default_null: ClassVar[str] = "parametric"
    #: Whether it is a sum over pairs that weights of points can multiply.
    takes_weights: ClassVar[bool] = False
    #: Whether it is a mean of independent terms, with a standard error.
    has_error: ClassVar[bool] = False

    def estimate(self, request: Request) -> Estimate:
        """Estimate the squared discrepancy, and say what else the statistic knows."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Name the statistic."""
        return f"{type(self).__name__}()"


class _Quadratic(Statistic):
    """A mean over all pairs."""

    takes_weights = True
    #: Whether a point is paired with itself, too.
    own_pairs: ClassVar[bool]

    def estimate(self, request: Request) -> Estimate:
        """Walk all pairs once."""
        panel, points, effort = request.panel, request.points, request.effort
        sums = evaluate_all_pairs(
            panel.members,
            points,
            effort,
            weights=request.weights,
            coordinates=request.details,
            groups=request.groups,
        ).map(panel.joined)
        coordinates = np.empty(0)
        if request.details:
            extra = 0.0 if self.own_pairs else sums.coordinates_diagonal
            coordinates = (sums.coordinates - extra) / self._pairs(len(sums.diagonal))
        members = [self._member(panel.members[0], sums, request)]
        if panel.others:
            others = evaluate_all_pairs(panel.others, points, effort, weights=request.weights)
            for index, member in enumerate(panel.others):
                members.append(self._member(member, others.map(itemgetter(index)), request))
        return Estimate(
            members[0].value, coordinates=coordinates, sums=sums, members=tuple(members)
        )

    def _member(self, member: Member, sums: PairSums, request: Request) -> MemberEstimate:
        """Return what one member came to, with its replicates where there are weights."""
        n, replicates = len(sums.diagonal), np.empty(0)
        if request.weights is not None and self.own_pairs:
            replicates = (sums.quadratic + sums.quadratic_diagonal) / n**2
        elif request.weights is not None:
            replicates = sums.quadratic / request.null.pairs(n)
        share = share_of_few(sums.diagonal)
        return MemberEstimate(
            member.name, self.of_sums(sums), replicates, share, member.bandwidth, member.counts
        )

    def of_sums(self, sums: PairSums) -> float:
        """Return the statistic from sums over all pairs."""
        own = float(sums.diagonal.sum()) if self.own_pairs else 0.0
        return (float(sums.off_diagonal) + own) / self._pairs(len(sums.diagonal))

    def _pairs(self, n: int) -> int:
        return n**2 if self.own_pairs else n * (n - 1)


class UStatistic(_Quadratic):
    """The mean over pairs of different points: unbiased."""

    name = "u"
    default_null = "multinomial"
    own_pairs = False


class VStatistic(_Quadratic):
    """The mean over all pairs, a point with itself included: never negative."""

    name = "v"
    default_null = "rademacher"
    own_pairs = True


class Linear(Statistic):
    """The mean over neighbouring points, two by two."""

    name = "linear"
    default_null = "normal"
    has_error = True

    def estimate(self, request: Request) -> Estimate:
        """Return the mean of independent terms and its error."""
        panel, n = request.panel, request.points.n_points
        if n < 4:
            raise ValueError(f"`statistic` 'linear' needs at least 4 points, got {n}.")
        terms = []
        with progress_bar("Comparing points", n, request.effort.progressbar) as bar:
            for part in request.points.stretches(2):
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

    def estimate(self, request: Request) -> Estimate:
        """Return the mean over blocks and its error."""
        panel, n = request.panel, request.points.n_points
        size = self.points_per_block or int(np.sqrt(n))
        if size < 2 or n // size < 2:
            raise ValueError(
                f"`statistic` 'block' needs at least 2 blocks of at least 2 points, got {n} points "
                f"in blocks of {size}."
            )
        pairs, terms, squares = size * (size - 1), [], 0.0
        with progress_bar("Comparing points", n, request.effort.progressbar) as bar:
            for part in request.points.stretches(size):
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


STATISTICS: dict[str, type[Statistic]] = {
    statistic.name: statistic for statistic in (UStatistic, VStatistic, Linear, Block)
}


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


def get_statistic(statistic: str | Statistic) -> Statistic:
    """Turn the argument `statistic` of a public function into a :class:`Statistic`."""
    if isinstance(statistic, Statistic):
        return statistic
    if not isinstance(statistic, str) or statistic not in STATISTICS:
        raise ValueError(
            f"`statistic` must be one of {', '.join(map(repr, STATISTICS))}, got {statistic!r}."
        )
    return STATISTICS[statistic]()
