r"""Sums of Stein kernels times kernels of covariates, over all pairs of many samples at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_ksd.compilation import FUNCTIONS_LOCK
from pymc_ksd.engine.functions import BlockFunctions, Totals, is_long
from pymc_ksd.engine.machine_conditional import Covariates, stacked_work
from pymc_ksd.engine.pairs import check_finite, chunks
from pymc_ksd.engine.progress import Advancing
from pymc_ksd.engine.schedule import Block, blocks_of_parts
from pymc_ksd.engine.walk import PLAIN, Effort, add_up
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import Member


@dataclass(frozen=True)
class _ConditionalWork:
    """Samples to be compared, and the covariates by which they are."""

    members: Sequence[Member]
    samples: Sequence[Sequence[Points]]
    covariates: Sequence[Covariates]
    parts: tuple[int, ...]

    @property
    def n_points(self) -> int:
        """The number of points of a sample."""
        return self.samples[0][0].n_points

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.samples[0][0].dim

    @property
    def n_pairs(self) -> int:
        """The number of pairs of all samples."""
        return sum(part**2 for part in self.parts) * sum(map(len, self.samples))

    def blocks(self, size: int) -> Iterator[Block]:
        """Walk the blocks of pairs."""
        return blocks_of_parts(self.parts, size)

    def functions(self) -> BlockFunctions:
        """Return the functions of a block."""
        return BlockFunctions(self.members, None, self.n_pairs)

    def reduce(self, functions: BlockFunctions, block: Block) -> Totals:
        """Return the sums of a block, and those of its rows and of its columns."""
        shape = (len(self.members), len(self.samples), len(self.samples[0]), len(self.covariates))
        sums = np.empty(shape)
        kernels = _CovariateBlocks(self.covariates, block, len(self.members))
        for draw, samples in enumerate(self.samples):
            kernels.go_to(draw)
            for index, points in enumerate(samples):
                for number, u in enumerate(functions.matrices(points, block)):
                    sums[number, draw, index] = kernels.sums(u)
                    if index == 0:
                        kernels.add(number, u)
        rows, columns = block
        if rows == columns:
            return Totals({"u": sums}, {rows.start: kernels.totals(axis=2)})
        by_point = {rows.start: kernels.totals(axis=2), columns.start: kernels.totals(axis=1)}
        return Totals({"u": 2.0 * sums}, by_point)


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

    def totals(self, axis: int) -> np.ndarray:
        """Return the totals of all rows or columns, shape (members, points, kernels)."""
        sums = []
        for index, w in enumerate(self._weights):
            total = self._changing_totals.get(index)
            if total is None:
                total = self._total if w is None else w * self._total
            sums.append(total.sum(axis=axis))
        return np.stack(sums, axis=-1)


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
    effort: Effort = PLAIN,
    *,
    parts: Sequence[int] | None = None,
    bar: Advancing | None = None,
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
    effort : Effort, optional
        How sums are computed.
    parts : sequence of int, optional
        Lengths of parts within which alone points are compared, by default one of all.
    bar : Advancing, optional
        Told what share is done.

    Returns
    -------
    sums : ndarray of shape (members, draws, samples, kernels)
        Sums over ordered pairs of different points.
    rows : ndarray of shape (members, n, kernels)
        What each point has part in, added up over the first samples of all draws.
    """
    lengths = (samples[0][0].n_points,) if parts is None else tuple(parts)
    work: Any = _ConditionalWork(members, samples, covariates, lengths)
    if is_long(work.n_pairs):
        work = stacked_work(members, samples, covariates, lengths) or work
    totals = add_up(work, effort, bar)
    check_finite(totals.sums["u"], members)
    return totals.sums["u"], totals.of_points()


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
    total = np.zeros((len(members), *places.shape))
    with FUNCTIONS_LOCK:
        for rows in chunks(len(weights), len(places) * places.shape[1] ** 2):
            arrays = points.arrays(row=rows) | {"places": places, "weights": weights[rows]}
            for own, member in zip(total, members, strict=True):
                own += member.stein.witness()(arrays, member.parameters)["witness"]
    return total / len(weights)
