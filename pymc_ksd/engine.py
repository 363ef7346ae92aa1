r"""The one place that evaluates the Stein kernel over all pairs of points.

The upper triangle of the n × n matrix is walked block by block, each block is reduced at once, and
nothing of size n² is ever held: memory is :math:`O(n (d + m) + b^2)` for m replicates, whose
weights stay in the compact form they were drawn in, and blocks of b points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_ksd.block_walk import (
    GENERAL_NUMBERS,
    Block,
    Functions,
    default_block_size,
    in_order,
    is_long,
    number_of_pairs,
    parameter_sets,
    upper_triangle,
)
from pymc_ksd.cluster import active_client, on_cluster
from pymc_ksd.compilation import FUNCTIONS_LOCK
from pymc_ksd.pair_totals import PairWork, Totals
from pymc_ksd.points import Points
from pymc_ksd.progress import progress_bar
from pymc_ksd.stein import SteinKernel

__all__ = [
    "PairSums",
    "evaluate_all_pairs",
    "evaluate_conditional",
    "evaluate_pairs",
    "evaluate_squares",
    "evaluate_witness",
]

#: What points are compared by, the same for all draws or different for each.
Covariates = np.ndarray | list[np.ndarray] | None


@dataclass(frozen=True)
class PairSums:
    """Sums of the Stein kernel over pairs of n points.

    Attributes
    ----------
    diagonal : ndarray of shape (n,)
        ``u(x_i, x_i)``.
    off_diagonal : float
        The sum over all ordered pairs of different points.
    quadratic : ndarray of shape (m,), optional
        For each row w of the weights, the sum of ``w_i w_j u(x_i, x_j)`` over the same pairs.
    quadratic_diagonal : ndarray of shape (m,), optional
        The sum of ``w_i² u(x_i, x_i)``.
    coordinates : ndarray of shape (d,), optional
        The sum of every coordinate's term over all ordered pairs, a point with itself included.
    coordinates_diagonal : ndarray of shape (d,), optional
        The part of it that comes from points paired with themselves.
    earlier : ndarray of shape (n, 2), optional
        For each point, the sum of u with all points before it, and with those of its own group.
    """

    diagonal: np.ndarray
    off_diagonal: float
    quadratic: np.ndarray | None = None
    quadratic_diagonal: np.ndarray | None = None
    coordinates: np.ndarray | None = None
    coordinates_diagonal: np.ndarray | None = None
    earlier: np.ndarray | None = None


def evaluate_pairs(
    stein: SteinKernel, points: Points, bandwidths: np.ndarray, first: slice, second: slice
) -> np.ndarray:
    """Return ``u`` between the points of two slices of equal length, one pair each."""
    arrays = [array[part] for part in (first, second) for array in points.arrays]
    sets = parameter_sets(stein, bandwidths)
    parts = []
    with FUNCTIONS_LOCK:
        for rows in _chunks(stein, arrays[0].shape):
            inputs = [np.ascontiguousarray(array[rows]) for array in arrays]
            values = [stein.pairs()(*inputs, *points.constants, *parameters) for parameters in sets]
            parts.append(np.mean(values, axis=0))
    result = np.concatenate(parts)
    _check_finite(result, stein)
    return result


def evaluate_squares(
    stein: SteinKernel, points: Points, bandwidths: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sum over the pairs of different points within every `size` consecutive points.

    Returns
    -------
    sums, squares : ndarray of shape (number of squares,)
        Sums of ``u`` and of its square over ordered pairs; points left over at the end do not
        count.
    """
    sets = parameter_sets(stein, bandwidths)
    n, dim = points.positions.shape
    functions = Functions(stein.matrix(fused=is_long(n * size)))
    step = default_block_size(stein, functions, size, dim)

    def reduce_square(start: int) -> tuple[float, float]:
        total, squares = 0.0, 0.0
        with functions.borrowed() as function:
            for block in upper_triangle(size, step):
                parts = [slice(start + part.start, start + part.stop) for part in block]
                inputs = [array[part] for part in parts for array in points.arrays]
                u = np.mean([function(*inputs, *points.constants, *p) for p in sets], axis=0)
                if block[0] == block[1]:
                    np.fill_diagonal(u, 0.0)
                times = 1.0 if block[0] == block[1] else 2.0
                total += times * float(u.sum())
                squares += times * float(np.vdot(u, u))
        return total, squares

    count = n // size
    with FUNCTIONS_LOCK:
        threads = functions.count if is_long(n * size) and count > 1 else 1
        pairs = in_order(reduce_square, range(0, count * size, size), threads)
        sums, squares = np.array([sums for _, sums in pairs]).reshape(-1, 2).T
    _check_finite(np.append(sums, squares), stein)
    return sums, squares


def evaluate_all_pairs(
    stein: SteinKernel,
    points: Points,
    bandwidths: np.ndarray,
    *,
    weights: np.ndarray | None = None,
    coordinates: bool = False,
    groups: np.ndarray | None = None,
    block_size: int | None = None,
    progressbar: bool = False,
    client: Any = None,
) -> PairSums:
    """Walk all pairs of points once and return the sums that were asked for.

    Parameters
    ----------
    stein : SteinKernel
        The Stein kernel.
    points : Points
        Points and their scores.
    bandwidths : ndarray
        One bandwidth, or several whose Stein kernels are averaged.
    weights : ndarray of shape (m, n), optional
        Multipliers of the points for m quadratic forms, of any number type.
    coordinates : bool, default False
        Also sum each coordinate's term.
    groups : ndarray of shape (n,), optional
        The number of each point's group, for sums over the points before each point.
    block_size : int, optional
        Points in a block.
    progressbar : bool, default False
        Show a bar when the work is long.
    client : distributed.Client or False, optional
        Whose workers do the work; by default the active one, if there is one and work for it.

    Returns
    -------
    PairSums
    """
    n, dim = points.positions.shape
    diagonal = evaluate_pairs(stein, points, bandwidths, slice(None), slice(None))
    client = _checked_client(client, n)
    work = PairWork(stein, points, bandwidths, weights, coordinates, groups)
    functions = work.functions()
    size = block_size or default_block_size(stein, functions, n, dim)
    with progress_bar("Comparing points", n * (n + 1) / 2, progressbar) as bar:
        if client:
            totals = on_cluster(client, work, size, bar)
        else:
            totals = Totals.of(work)
            threads = functions.count if n > size else 1
            with FUNCTIONS_LOCK:
                for block, sums in in_order(
                    lambda block: work.reduce(functions, block), upper_triangle(n, size), threads
                ):
                    totals.add_block(block, sums)
                    bar.advance(number_of_pairs(block))
    _check_finite(np.append(totals.quadratic, totals.u), stein)
    return PairSums(
        diagonal=diagonal,
        off_diagonal=totals.u - float(diagonal.sum()),
        quadratic=None if weights is None else totals.quadratic,
        quadratic_diagonal=(
            None if weights is None else _quadratic_diagonal(weights, diagonal, size)
        ),
        earlier=None if groups is None else totals.all_earlier(),
        coordinates=totals.coordinates if coordinates else None,
        coordinates_diagonal=(
            _coordinates_diagonal(stein, points, bandwidths) if coordinates else None
        ),
    )


def _checked_client(client: Any, n_points: int) -> Any:
    """Return whose workers do the work, if any do."""
    if client is None:
        return active_client(n_points)
    if client is not False and not all(hasattr(client, name) for name in ("scatter", "submit")):
        raise TypeError(
            "`client` must be a client of Dask, False to stay on this machine, or None, got "
            f"{type(client).__name__}."
        )
    return client


def evaluate_conditional(
    stein: SteinKernel,
    samples: Sequence[Sequence[Points]],
    bandwidths: np.ndarray,
    covariates: Sequence[Covariates],
    *,
    block_size: int | None = None,
    progressbar: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Sum the Stein kernel times kernels of covariates over all pairs, for many samples at once.

    Parameters
    ----------
    stein : SteinKernel
        The Stein kernel.
    samples : sequence of sequence of Points
        For every draw, samples of n points each that are compared by the same covariates.
    bandwidths : ndarray
        One bandwidth, or several whose Stein kernels are averaged.
    covariates : sequence of None, ndarray of shape (n, columns) or list of ndarray
        For each kernel :math:`\exp(-\|c - c'\|^2 / 2)`, the points' covariates, the same for all
        draws, or a list with those of each draw; None for the constant 1.
    block_size : int, optional
        Points in a block.
    progressbar : bool, default False
        Show a bar when the work is long.

    Returns
    -------
    sums : ndarray of shape (draws, samples, kernels)
        Sums over ordered pairs of different points.
    rows : ndarray of shape (n, kernels)
        What each point has part in, added up over the first samples of all draws.
    """
    n, dim = samples[0][0].positions.shape
    n_samples = sum(map(len, samples))
    sets = parameter_sets(stein, bandwidths)
    shape = (len(samples), len(samples[0]), len(covariates))
    sums, rows = np.zeros(shape), np.zeros((n, len(covariates)))
    with FUNCTIONS_LOCK, progress_bar("Comparing points", n * (n + 1) / 2, progressbar) as bar:
        functions = Functions(stein.matrix(fused=is_long(n**2 * n_samples)))
        size = block_size or default_block_size(stein, functions, n, dim)

        def reduce_block(block: Block) -> tuple[np.ndarray, np.ndarray]:
            parts = np.empty(shape)
            kernels = _CovariateBlocks(covariates, block)
            with functions.borrowed() as function:
                for draw, group in enumerate(samples):
                    kernels.go_to(draw)
                    for index, points in enumerate(group):
                        inputs = [array[part] for part in block for array in points.arrays]
                        u = np.mean(
                            [function(*inputs, *points.constants, *p) for p in sets], axis=0
                        )
                        if block[0] == block[1]:
                            np.fill_diagonal(u, 0.0)
                        parts[draw, index] = kernels.sums(u)
                        if index == 0:
                            kernels.add(u)
            return parts, kernels.totals()

        threads = functions.count if n > size else 1
        for block, (parts, totals) in in_order(reduce_block, upper_triangle(n, size), threads):
            top, left = block
            sums += (1.0 if top == left else 2.0) * parts
            rows[top] += totals.sum(axis=2).T
            if top != left:
                rows[left] += totals.sum(axis=1).T
            bar.advance(number_of_pairs(block))
    _check_finite(sums, stein)
    return sums, rows


class _CovariateBlocks:
    """Kernels of covariates between the points of a block, and sums of u times each of them."""

    def __init__(self, covariates: Sequence[Covariates], block: Block) -> None:
        self._covariates, self._block = covariates, block
        self._changing = [index for index, c in enumerate(covariates) if isinstance(c, list)]
        self._weights = [
            None if isinstance(c, list) else _covariate_block(c, *block) for c in covariates
        ]
        size = [part.stop - part.start for part in block]
        self._total = np.zeros(size)
        self._changing_totals = np.zeros((len(self._changing), *size))

    def go_to(self, draw: int) -> None:
        """Take the covariates of a draw, where they change with it."""
        for index in self._changing:
            self._weights[index] = _covariate_block(
                self._covariates[index][draw],  # type: ignore[index]
                *self._block,
            )

    def sums(self, u: np.ndarray) -> list[float]:
        """Return the sum of u times each kernel."""
        return [u.sum() if w is None else np.vdot(w, u) for w in self._weights]

    def add(self, u: np.ndarray) -> None:
        """Add u times each kernel to the totals."""
        self._total += u
        for total, index in zip(self._changing_totals, self._changing, strict=True):
            total += self._weights[index] * u

    def totals(self) -> np.ndarray:
        """Return the totals, shape (kernels, rows, columns)."""
        changing = dict(zip(self._changing, self._changing_totals, strict=True))
        fixed = [self._total if w is None else w * self._total for w in self._weights]
        return np.stack([changing.get(index, total) for index, total in enumerate(fixed)])


def _covariate_block(covariates: np.ndarray | None, rows: slice, columns: slice) -> Any:
    from scipy.spatial.distance import cdist  # slow to import

    if covariates is None:
        return None
    return np.exp(-0.5 * cdist(covariates[rows], covariates[columns], "sqeuclidean"))


def evaluate_witness(
    stein: SteinKernel,
    points: Points,
    bandwidths: np.ndarray,
    places: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the mean over points of the Stein operator applied to ``k(·, place)``.

    Parameters
    ----------
    stein : SteinKernel
        The Stein kernel.
    points : Points
        Points and their scores.
    bandwidths : ndarray
        One bandwidth, or several whose kernels are averaged.
    places : ndarray of shape (places, d)
        Where the function is wanted.
    weights : ndarray of shape (n, places)
        A factor for every point and place.

    Returns
    -------
    ndarray of shape (places, d)
    """
    sets = parameter_sets(stein, bandwidths)
    step = max(1, GENERAL_NUMBERS // (len(places) * places.shape[1] ** 2))
    n, total = len(weights), np.zeros(places.shape)
    with FUNCTIONS_LOCK:
        for start in range(0, n, step):
            rows = slice(start, start + step)
            arrays = [array[rows] for array in points.arrays]
            for parameters in sets:
                total += stein.witness()(
                    *arrays, places, weights[rows], *points.constants, *parameters
                )
    return total / (n * len(sets))


def _chunks(stein: SteinKernel, shape: tuple[int, ...]) -> Iterator[slice]:
    """Divide points so that a temporary with d, or d × d, numbers for each stays bounded."""
    n, dim = shape
    step = max(1, GENERAL_NUMBERS // max(dim, stein.numbers_per_pair(dim)))
    for start in range(0, n, step):
        yield slice(start, start + step)


def _quadratic_diagonal(weights: np.ndarray, diagonal: np.ndarray, size: int) -> np.ndarray:
    total = np.zeros(weights.shape[0])
    for start in range(0, len(diagonal), size):
        part = slice(start, start + size)
        total += weights[:, part].astype(np.float64) ** 2 @ diagonal[part]
    return total


def _coordinates_diagonal(stein: SteinKernel, points: Points, bandwidths: np.ndarray) -> np.ndarray:
    sets = parameter_sets(stein, bandwidths)
    total = np.zeros(points.positions.shape[1])
    with FUNCTIONS_LOCK:
        for rows in _chunks(stein, points.positions.shape):
            inputs = [array[rows] for array in (*points.arrays, *points.coordinate_arrays)]
            inputs += (*points.coordinate_constants, *points.constants)
            for parameters in sets:
                total += stein.own_coordinates()(*inputs, *parameters)
    return total / len(sets)


def _check_finite(values: np.ndarray, stein: SteinKernel) -> None:
    if not np.isfinite(values).all():
        raise ValueError(
            f"The Stein kernel of `kernel` {stein.kernel!r} is not finite at "
            f"{np.count_nonzero(~np.isfinite(values))} pair(s) of points. The kernel's first two "
            "derivatives must be finite everywhere, also at zero distance (a square root of the "
            "distance is not), and scores must not overflow."
        )
