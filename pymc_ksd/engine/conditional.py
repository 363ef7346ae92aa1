r"""Sums of Stein kernels times kernels of covariates, over all pairs of many samples at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_ksd.compilation import FUNCTIONS_LOCK
from pymc_ksd.engine.functions import MemberFunctions
from pymc_ksd.engine.pairs import check_finite
from pymc_ksd.engine.schedule import GENERAL_NUMBERS, Block
from pymc_ksd.engine.walk import add_up
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import Member

__all__ = ["evaluate_conditional", "evaluate_witness"]

#: What points are compared by, the same for all draws or different for each.
Covariates = np.ndarray | list[np.ndarray] | None


@dataclass(frozen=True)
class _ConditionalWork:
    """Samples to be compared, and the covariates by which they are."""

    members: Sequence[Member]
    samples: Sequence[Sequence[Points]]
    covariates: Sequence[Covariates]

    @property
    def n_points(self) -> int:
        return self.samples[0][0].n_points

    @property
    def n_pairs(self) -> int:
        return self.n_points**2 * sum(map(len, self.samples))

    @property
    def dim(self) -> int:
        return self.samples[0][0].dim

    def functions(self) -> MemberFunctions:
        return MemberFunctions(self.members, None, self.n_pairs)

    def totals(self) -> _ConditionalTotals:
        kernels = len(self.covariates)
        shape = (len(self.members), len(self.samples), len(self.samples[0]), kernels)
        return _ConditionalTotals(
            np.zeros(shape), np.zeros((len(self.members), self.n_points, kernels))
        )

    def reduce(
        self, functions: MemberFunctions, block: Block
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the sums of a block, and those of its rows and of its columns."""
        sums = np.empty(self.totals().sums.shape)
        kernels = _CovariateBlocks(self.covariates, block, len(self.members))
        for draw, samples in enumerate(self.samples):
            kernels.go_to(draw)
            for index, points in enumerate(samples):
                arrays = points.once()
                for side, part in zip(("row", "column"), block, strict=True):
                    arrays |= points.part(side, part)
                for number, member in enumerate(self.members):
                    with functions.borrowed(number) as function:
                        u = function(arrays, member.parameters)["u"]
                    if block[0] == block[1]:
                        np.fill_diagonal(u, 0.0)
                    sums[number, draw, index] = kernels.sums(u)
                    if index == 0:
                        kernels.add(number, u)
        return sums, kernels.totals()


@dataclass
class _ConditionalTotals:
    """Sums over some of the blocks, see :func:`evaluate_conditional`."""

    sums: np.ndarray
    rows: np.ndarray

    def add_block(self, block: Block, found: tuple[np.ndarray, list[np.ndarray]]) -> None:
        sums, sides = found
        top, left = block
        self.sums += (1.0 if top == left else 2.0) * sums
        self.rows[:, top] += sides[0]
        if top != left:
            self.rows[:, left] += sides[1]

    def add(self, other: _ConditionalTotals) -> None:
        self.sums += other.sums
        self.rows += other.rows


class _CovariateBlocks:
    """Kernels of covariates between the points of a block, and sums of u times each of them."""

    def __init__(self, covariates: Sequence[Covariates], block: Block, n_members: int) -> None:
        self._covariates, self._block = covariates, block
        self._changing = [index for index, c in enumerate(covariates) if isinstance(c, list)]
        self._weights = [None if isinstance(c, list) else _kernel(c, block) for c in covariates]
        size = [part.stop - part.start for part in block]
        self._total = np.zeros((n_members, *size))
        self._changing_totals = {index: np.zeros((n_members, *size)) for index in self._changing}

    def go_to(self, draw: int) -> None:
        """Take the covariates of a draw, where they change with it."""
        for index in self._changing:
            own: Any = self._covariates[index]
            self._weights[index] = _kernel(own[draw], self._block)

    def sums(self, u: np.ndarray) -> list[float]:
        """Return the sum of u times each kernel."""
        return [u.sum() if w is None else np.vdot(w, u) for w in self._weights]

    def add(self, member: int, u: np.ndarray) -> None:
        """Add u times each kernel to a member's totals."""
        self._total[member] += u
        for index, total in self._changing_totals.items():
            total[member] += self._weights[index] * u

    def totals(self) -> list[np.ndarray]:
        """Return the totals of all rows and of all columns, shape (members, points, kernels)."""
        sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        for index, w in enumerate(self._weights):
            total = self._changing_totals.get(index)
            if total is None:
                total = self._total if w is None else w * self._total
            sides[0].append(total.sum(axis=2))
            sides[1].append(total.sum(axis=1))
        return [np.stack(side, axis=-1) for side in sides]


def _kernel(covariates: np.ndarray | None, block: Block) -> Any:
    from scipy.spatial.distance import cdist  # slow to import

    if covariates is None:
        return None
    rows, columns = block
    return np.exp(-0.5 * cdist(covariates[rows], covariates[columns], "sqeuclidean"))


def evaluate_conditional(
    members: Sequence[Member],
    samples: Sequence[Sequence[Points]],
    covariates: Sequence[Covariates],
    *,
    block_size: int | None = None,
    progressbar: bool = False,
    client: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Sum Stein kernels times kernels of covariates over all pairs, for many samples at once.

    Parameters
    ----------
    members : sequence of Member
        The Stein kernels.
    samples : sequence of sequence of Points
        For every draw, samples of n points each that are compared by the same covariates.
    covariates : sequence of None, ndarray of shape (n, columns) or list of ndarray
        For each kernel :math:`\exp(-\|c - c'\|^2 / 2)`, the points' covariates, the same for all
        draws, or a list with those of each draw; None for the constant 1.
    block_size : int, optional
        Points in a block.
    progressbar : bool, default False
        Show a bar when the work is long.
    client : distributed.Client or False, optional
        Whose workers do the work; by default the active one, if there is one and work for it.

    Returns
    -------
    sums : ndarray of shape (members, draws, samples, kernels)
        Sums over ordered pairs of different points.
    rows : ndarray of shape (members, n, kernels)
        What each point has part in, added up over the first samples of all draws.
    """
    work = _ConditionalWork(members, samples, covariates)
    totals, _ = add_up(work, block_size, progressbar, client)
    check_finite(totals.sums, members)
    return totals.sums, totals.rows


def evaluate_witness(
    members: Sequence[Member], points: Points, places: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the mean over points of the Stein operator applied to ``k(·, place)``.

    Parameters
    ----------
    members : sequence of Member
        The Stein kernels.
    points : Points
        The points.
    places : ndarray of shape (places, d)
        Where the function is wanted.
    weights : ndarray of shape (n, places)
        A factor for every point and place.

    Returns
    -------
    ndarray of shape (members, places, d)
    """
    step = max(1, GENERAL_NUMBERS // (len(places) * places.shape[1] ** 2))
    n, total = len(weights), np.zeros((len(members), *places.shape))
    with FUNCTIONS_LOCK:
        for start in range(0, n, step):
            rows = slice(start, start + step)
            arrays = points.once() | points.part("row", rows)
            arrays |= {"places": places, "weights": weights[rows]}
            for index, member in enumerate(members):
                total[index] += member.stein.witness()(arrays, member.parameters)["witness"]
    return total / n
