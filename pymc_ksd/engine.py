r"""The one place that evaluates the Stein kernel over all pairs of points.

The upper triangle of the n × n matrix is walked block by block, each block is reduced at once, and
nothing of size n² is ever held: memory is :math:`O(n (d + m) + b^2)` for m replicates, whose
weights stay in the compact form they were drawn in, and blocks of b points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from threading import RLock
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from pymc_ksd.fused_block import FusedBlock
from pymc_ksd.points import Points
from pymc_ksd.progress import progress_bar
from pymc_ksd.stein import SteinKernel

__all__ = [
    "PairSums",
    "evaluate_all_pairs",
    "evaluate_conditional",
    "evaluate_matrix",
    "evaluate_pairs",
    "evaluate_witness",
]

#: From this many pairs on machine code is worth the seconds it may take to compile.
_FUSED_PAIRS = 2_000_000
#: Points in a block of a radial kernel: its temporaries then fit the processor's caches.
_RADIAL_BLOCK = 512
#: Fewest and most points in a block for machine code, and blocks side by side for every core.
_FUSED_BLOCK, _BLOCKS_PER_CORE = (256, 1024), 4
#: Numbers that one temporary may hold where it has several for every pair.
_GENERAL_NUMBERS = 4_000_000
#: The largest allocation that makes glibc raise its threshold for keeping freed memory, nearly.
_KEPT_BYTES = 31 * 2**20
#: Compiled functions are shared and work for one caller at a time.
_LOCK = RLock()


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
    sets = _parameter_sets(stein, bandwidths)
    parts = []
    with _LOCK:
        for rows in _chunks(stein, arrays[0].shape):
            inputs = [np.ascontiguousarray(array[rows]) for array in arrays]
            values = [stein.pairs()(*inputs, *points.constants, *parameters) for parameters in sets]
            parts.append(np.mean(values, axis=0))
    result = np.concatenate(parts)
    _check_finite(result, stein)
    return result


def evaluate_matrix(
    stein: SteinKernel, points: Points, bandwidths: np.ndarray, part: slice
) -> np.ndarray:
    """Return ``u`` between all points of one slice."""
    arrays = [np.ascontiguousarray(array[part]) for array in points.arrays]
    with _LOCK:
        values = [
            stein.matrix()[0](*arrays, *arrays, *points.constants, *parameters)
            for parameters in _parameter_sets(stein, bandwidths)
        ]
    result: np.ndarray = np.mean(values, axis=0)
    _check_finite(result, stein)
    return result


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

    Returns
    -------
    PairSums
    """
    n, dim = points.positions.shape
    diagonal = evaluate_pairs(stein, points, bandwidths, slice(None), slice(None))
    sets = _parameter_sets(stein, bandwidths)
    copies = stein.block(
        weights=weights is not None,
        coordinates=coordinates,
        groups=groups is not None,
        fused=n**2 >= _FUSED_PAIRS,
    )
    precision = np.float32 if isinstance(copies[0], FusedBlock) else np.float64
    size = block_size or _default_block_size(stein, copies, n, dim)
    blocks = list(_upper_triangle(n, size))
    functions: SimpleQueue[Any] = SimpleQueue()
    for function in copies:
        functions.put(function)

    def reduce_block(block: tuple[slice, slice]) -> list[list[np.ndarray]]:
        inputs = [array[part] for part in block for array in points.arrays]
        if weights is not None:
            inputs += [weights[:, part].astype(precision) for part in block]
        if coordinates:
            inputs += [array[part] for part in block for array in points.coordinate_arrays]
            inputs += points.coordinate_constants
        if groups is not None:
            inputs += [groups[part] for part in block]
        if weights is not None or groups is not None:
            inputs.append(np.asarray(float(block[0] == block[1])))
        function = functions.get()
        try:
            return [function(*inputs, *points.constants, *parameters) for parameters in sets]
        finally:
            functions.put(function)

    total = 0.0
    quadratic = None if weights is None else np.zeros(weights.shape[0])
    per_coordinate = np.zeros(dim) if coordinates else None
    earlier = None if groups is None else np.zeros((n, 2))
    with _LOCK, progress_bar("Comparing points", n * (n + 1) / 2, progressbar) as bar:
        results = _in_order(reduce_block, blocks, min(len(blocks), len(copies)))
        for (rows, columns), outputs in zip(blocks, results, strict=True):
            times = 1.0 if rows == columns else 2.0
            for first, *rest in outputs:
                total += times * float(first)
                if quadratic is not None:
                    quadratic += times * rest.pop(0)
                if per_coordinate is not None:
                    per_coordinate += times * rest.pop(0)
                if earlier is not None:
                    earlier[columns] += rest.pop(0).T
            bar.advance((rows.stop - rows.start) * (columns.stop - columns.start) * times / 2)

    _check_finite(np.array([total]), stein)
    if quadratic is not None:
        _check_finite(quadratic, stein)
    count = len(sets)
    on_diagonal = None
    if weights is not None and quadratic is not None:
        on_diagonal = _quadratic_diagonal(weights, diagonal, size)
        quadratic = quadratic / count
    return PairSums(
        diagonal=diagonal,
        off_diagonal=total / count - float(diagonal.sum()),
        quadratic=quadratic,
        quadratic_diagonal=on_diagonal,
        earlier=None if earlier is None else earlier / count,
        coordinates=None if per_coordinate is None else per_coordinate / count,
        coordinates_diagonal=(_coordinates_diagonal(stein, points, sets) if coordinates else None),
    )


def evaluate_conditional(
    stein: SteinKernel,
    samples: Sequence[Points],
    bandwidths: np.ndarray,
    covariates: Sequence[np.ndarray | None],
    *,
    rows_of: int = 0,
    block_size: int | None = None,
    progressbar: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Sum the Stein kernel times kernels of covariates over all pairs, for many samples at once.

    Parameters
    ----------
    stein : SteinKernel
        The Stein kernel.
    samples : sequence of Points
        Samples of n points each, with the same covariates.
    bandwidths : ndarray
        One bandwidth, or several whose Stein kernels are averaged.
    covariates : sequence of ndarray of shape (n, columns), or None
        For each kernel :math:`\exp(-\|c - c'\|^2 / 2)`, the points' covariates; None for the
        constant 1.
    rows_of : int, default 0
        Number of samples, from the first on, whose sums for each point are wanted.
    block_size : int, optional
        Points in a block.
    progressbar : bool, default False
        Show a bar when the work is long.

    Returns
    -------
    sums : ndarray of shape (samples, kernels)
        Sums over ordered pairs of different points.
    rows : ndarray of shape (n, kernels)
        What each point has part in, added up over the first `rows_of` samples.
    """
    n, dim = samples[0].positions.shape
    sets = _parameter_sets(stein, bandwidths)
    copies = stein.matrix(fused=n**2 * len(samples) >= _FUSED_PAIRS)
    size = block_size or _default_block_size(stein, copies, n, dim)
    blocks = list(_upper_triangle(n, size))
    functions: SimpleQueue[Any] = SimpleQueue()
    for function in copies:
        functions.put(function)

    def reduce_block(block: tuple[slice, slice]) -> tuple[np.ndarray, list[np.ndarray]]:
        weights = [_covariate_block(c, *block) for c in covariates]
        sums = np.empty((len(samples), len(covariates)))
        total = np.zeros([part.stop - part.start for part in block])
        function = functions.get()
        try:
            for index, points in enumerate(samples):
                inputs = [array[part] for part in block for array in points.arrays]
                u = np.mean([function(*inputs, *points.constants, *p) for p in sets], axis=0)
                if block[0] == block[1]:
                    np.fill_diagonal(u, 0.0)
                sums[index] = [u.sum() if w is None else np.vdot(w, u) for w in weights]
                if index < rows_of:
                    total += u
        finally:
            functions.put(function)
        return sums, [total if w is None else w * total for w in weights]

    sums = np.zeros((len(samples), len(covariates)))
    rows = np.zeros((n, len(covariates)))
    with _LOCK, progress_bar("Comparing points", n * (n + 1) / 2, progressbar) as bar:
        results = _in_order(reduce_block, blocks, min(len(blocks), len(copies)))
        for (top, left), (parts, totals) in zip(blocks, results, strict=True):
            times = 1.0 if top == left else 2.0
            sums += times * parts
            for index, total in enumerate(totals if rows_of else []):
                rows[top, index] += total.sum(axis=1)
                if top != left:
                    rows[left, index] += total.sum(axis=0)
            bar.advance((top.stop - top.start) * (left.stop - left.start) * times / 2)
    _check_finite(sums, stein)
    return sums, rows


def _covariate_block(covariates: np.ndarray | None, rows: slice, columns: slice) -> Any:
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
    sets = _parameter_sets(stein, bandwidths)
    step = max(1, _GENERAL_NUMBERS // (len(places) * places.shape[1] ** 2))
    n, total = len(weights), np.zeros(places.shape)
    with _LOCK:
        for start in range(0, n, step):
            rows = slice(start, start + step)
            arrays = [array[rows] for array in points.arrays]
            for parameters in sets:
                total += stein.witness()(
                    *arrays, places, weights[rows], *points.constants, *parameters
                )
    return total / (n * len(sets))


def _default_block_size(stein: SteinKernel, copies: list[Any], n: int, dim: int) -> int:
    """Return how many points a block has when the user does not say."""
    if isinstance(copies[0], FusedBlock):
        least, most = _FUSED_BLOCK
        return max(least, min(most, n // (_BLOCKS_PER_CORE * len(copies))))
    numbers = stein.numbers_per_pair(dim)
    return max(1, min(_RADIAL_BLOCK, int(np.sqrt(_GENERAL_NUMBERS / numbers))))


def _in_order(
    work: Callable[[tuple[slice, slice]], Any], blocks: list[tuple[slice, slice]], n_threads: int
) -> Iterator[Any]:
    """Work on blocks in threads and yield the results in the order of the blocks.

    NumPy lets other threads run while it computes. One thread a core is enough, so the linear
    algebra library is kept from starting more.
    """
    # Freed at once: the C library of Linux then keeps the memory of freed blocks for the next ones,
    # where it would return them to the system and ask for them again.
    np.empty(_KEPT_BYTES, dtype=np.int8)
    if n_threads == 1:
        yield from map(work, blocks)
        return
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_threads) as pool:
        try:
            yield from pool.map(work, blocks)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _upper_triangle(n: int, size: int) -> Iterator[tuple[slice, slice]]:
    parts = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    for index, rows in enumerate(parts):
        for columns in parts[index:]:
            yield rows, columns


def _parameter_sets(stein: SteinKernel, bandwidths: np.ndarray) -> list[list[np.ndarray]]:
    return [
        [np.asarray(number) for number in stein.kernel.parameter_values(float(bandwidth))]
        for bandwidth in bandwidths
    ]


def _chunks(stein: SteinKernel, shape: tuple[int, ...]) -> Iterator[slice]:
    """Divide points so that a temporary with d, or d × d, numbers for each stays bounded."""
    n, dim = shape
    step = max(1, _GENERAL_NUMBERS // max(dim, stein.numbers_per_pair(dim)))
    for start in range(0, n, step):
        yield slice(start, start + step)


def _quadratic_diagonal(weights: np.ndarray, diagonal: np.ndarray, size: int) -> np.ndarray:
    total = np.zeros(weights.shape[0])
    for start in range(0, len(diagonal), size):
        part = slice(start, start + size)
        total += weights[:, part].astype(np.float64) ** 2 @ diagonal[part]
    return total


def _coordinates_diagonal(
    stein: SteinKernel, points: Points, sets: list[list[np.ndarray]]
) -> np.ndarray:
    total = np.zeros(points.positions.shape[1])
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
