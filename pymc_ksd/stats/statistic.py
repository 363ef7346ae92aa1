"""What a statistic is: an estimator of the squared discrepancy between points and a density."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pymc_ksd.engine.pairs import PairSums
from pymc_ksd.stats.panel import Panel

__all__ = ["Effort", "Estimate", "Statistic"]


@dataclass(frozen=True)
class Effort:
    """How sums over pairs are computed, which changes speed and memory but no result.

    Attributes
    ----------
    block_size : int, optional
        Points that are compared at a time.
    progressbar : bool
        Whether to show bars when the work is long.
    client : distributed.Client or False, optional
        Whose workers do the work.
    """

    block_size: int | None = None
    progressbar: bool = False
    client: Any = None


@dataclass(frozen=True)
class Estimate:
    """What a statistic came to.

    Attributes
    ----------
    value : float
        The estimate of the squared discrepancy.
    error : float
        Its standard error under the null hypothesis, where the statistic knows it.
    replicates : ndarray of shape (m,)
        Quadratic forms in the weights of a null, none if there were no weights.
    coordinates : ndarray of shape (d,)
        What each coordinate adds, none if that is not known.
    sums : PairSums, optional
        The sums over all pairs, where all were evaluated, joined over members.
    """

    value: float
    error: float = float("nan")
    replicates: np.ndarray = field(default_factory=lambda: np.empty(0))
    coordinates: np.ndarray = field(default_factory=lambda: np.empty(0))
    sums: PairSums | None = None


class Statistic:
    """An estimator of the squared discrepancy.

    A subclass writes :meth:`estimate`. It is registered in :mod:`pymc_ksd.stats.statistics`.
    """

    #: What the argument `statistic` calls it.
    name: ClassVar[str] = ""
    #: The null that goes with it unless the user says otherwise.
    default_null: ClassVar[str] = "parametric"
    #: Whether it is a sum over pairs that weights of points can multiply.
    takes_weights: ClassVar[bool] = False
    #: Whether it is a mean of independent terms, with a standard error.
    has_error: ClassVar[bool] = False

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
        """Estimate the squared discrepancy.

        Parameters
        ----------
        panel : Panel
            The Stein kernels.
        points : Points
            The points, or a stream of them with the same methods.
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

        Returns
        -------
        Estimate
            The estimate, and what else the statistic knows.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        """Name the statistic."""
        return f"{type(self).__name__}()"
