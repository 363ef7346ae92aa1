r"""Sums of Stein kernels over pairs of points.

The upper triangle of the n × n matrix is walked block by block, each block is reduced at once, and
nothing of size n² is ever held: memory is :math:`O(n (d + m) + b^2)` for m replicates, whose
weights stay in the compact form they were drawn in, and blocks of b points. Sums have a leading
axis of members, see :class:`pymc_ksd.stein.stein_kernel.Member`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pymc_ksd.compilation import FUNCTIONS_LOCK
from pymc_ksd.engine.functions import MemberFunctions, is_long
from pymc_ksd.engine.pair_work import PairWork
from pymc_ksd.engine.schedule import (
    GENERAL_NUMBERS,
    default_block_size,
    in_order,
    upper_triangle,
)
from pymc_ksd.engine.walk import add_up
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import Member

__all__ = ["PairSums", "check_finite", "evaluate_all_pairs", "evaluate_pairs", "evaluate_squares"]


@dataclass(frozen=True)
class PairSums:
    """Sums of Stein kernels over pairs of n points, for each member.

    What was not wanted is empty: zero replicates, coordinates or points.

    Attributes
    ----------
    diagonal : ndarray of shape (members, n)
        ``u(x_i, x_i)``.
    off_diagonal : ndarray of shape (members,)
        The sum over all ordered pairs of different points.
    quadratic : ndarray of shape (members, m)
        For each row w of the weights, the sum of ``w_i w_j u(x_i, x_j)`` over the same pairs.
    quadratic_diagonal : ndarray of shape (members, m)
        The sum of ``w_i² u(x_i, x_i)``.
    coordinates : ndarray of shape (members, d)
        The sum of every coordinate's term over all ordered pairs, a point with itself included.
    coordinates_diagonal : ndarray of shape (members, d)
        The part of it that comes from points paired with themselves.
    earlier : ndarray of shape (members, n, 2)
        For each point, the sum of u with all points before it, and with those of its own group.
    """

    diagonal: np.ndarray
    off_diagonal: np.ndarray
    quadratic: np.ndarray
    quadratic_diagonal: np.ndarray
    coordinates: np.ndarray
    coordinates_diagonal: np.ndarray
    earlier: np.ndarray

    def map(self, function: Any) -> PairSums:
        """Return sums to each of which a function was applied."""
        return PairSums(*(function(getattr(self, field.name)) for field in fields(self)))


def evaluate_pairs(
    members: Sequence[Member], points: Points, first: slice, second: slice
) -> np.ndarray:
    """Return ``u`` between the points of two slices of equal length, shape (members, pairs)."""
    n = len(points.positions[first])
    parts = []
    with FUNCTIONS_LOCK:
        for rows in _chunks(members, n, points.dim):
            arrays = points.once()
            for side, part in (("row", first), ("column", second)):
                own = points.part(side, part)
                arrays |= {k: np.ascontiguousarray(array[rows]) for k, array in own.items()}
            parts.append(
                [member.stein.pairs()(arrays, member.parameters)["u"] for member in members]
            )
    result = np.concatenate(parts, axis=1)
    check_finite(result, members)
    return result


def evaluate_squares(
    members: Sequence[Member], points: Points, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sum over the pairs of different points within every `size` consecutive points.

    Returns
    -------
    sums : ndarray of shape (members, squares)
        Sums of ``u`` over ordered pairs; points left over at the end do not count.
    products : ndarray of shape (members, members, squares)
        Sums of products of two members' ``u``.
    """
    n_pairs, count = points.n_points * size, points.n_points // size
    functions = MemberFunctions(members, None, n_pairs)
    step = default_block_size(members, functions.fused, size, points.dim)

    def reduce_square(start: int) -> tuple[np.ndarray, np.ndarray]:
        total, products = np.zeros(len(members)), np.zeros((len(members), len(members)))
        for block in upper_triangle(size, step):
            u = []
            arrays = points.once()
            for side, part in zip(("row", "column"), block, strict=True):
                arrays |= points.part(side, slice(start + part.start, start + part.stop))
            for index, member in enumerate(members):
                with functions.borrowed(index) as function:
                    u.append(function(arrays, member.parameters)["u"])
                if block[0] == block[1]:
                    np.fill_diagonal(u[-1], 0.0)
            times = 1.0 if block[0] == block[1] else 2.0
            total += times * np.array([values.sum() for values in u])
            products += times * np.array([[np.vdot(a, b) for b in u] for a in u])
        return total, products

    with FUNCTIONS_LOCK:
        threads = functions.count if is_long(n_pairs) and count > 1 else 1
        results = list(in_order(reduce_square, range(0, count * size, size), threads))
    sums = np.array([part for _, (part, _) in results]).reshape(count, -1).T
    products = np.array([part for _, (_, part) in results])
    check_finite(products, members)
    return sums, np.moveaxis(products.reshape(count, len(members), len(members)), 0, -1)


def evaluate_all_pairs(
    members: Sequence[Member],
    points: Points,
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
    members : sequence of Member
        The Stein kernels.
    points : Points
        The points.
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
    diagonal = evaluate_pairs(members, points, slice(None), slice(None))
    work = PairWork(members, points, weights, coordinates, groups)
    totals, size = add_up(work, block_size, progressbar, client)
    check_finite(np.append(totals.quadratic, totals.u), members)
    return PairSums(
        diagonal=diagonal,
        off_diagonal=totals.u - diagonal.sum(axis=1),
        quadratic=totals.quadratic,
        quadratic_diagonal=_quadratic_diagonal(weights, diagonal, size),
        coordinates=totals.coordinates,
        coordinates_diagonal=_coordinates_diagonal(members, points, coordinates),
        earlier=totals.all_earlier(),
    )


def _chunks(members: Sequence[Member], n: int, dim: int) -> Iterator[slice]:
    """Divide points so that a temporary with d, or d × d, numbers for each stays bounded."""
    numbers = max(member.stein.numbers_per_pair(dim) for member in members)
    step = max(1, GENERAL_NUMBERS // max(dim, numbers))
    for start in range(0, n, step):
        yield slice(start, start + step)


def _quadratic_diagonal(weights: np.ndarray | None, diagonal: np.ndarray, size: int) -> np.ndarray:
    total = np.zeros((len(diagonal), 0 if weights is None else len(weights)))
    for start in range(0, diagonal.shape[1] if weights is not None else 0, size):
        part = slice(start, start + size)
        squares = weights[:, part].astype(np.float64) ** 2  # type: ignore[index]
        total += (squares @ diagonal[:, part].T).T
    return total


def _coordinates_diagonal(members: Sequence[Member], points: Points, wanted: bool) -> np.ndarray:
    total = np.zeros((len(members), points.dim if wanted else 0))
    with FUNCTIONS_LOCK:
        for rows in _chunks(members, points.n_points, points.dim) if wanted else ():
            arrays = points.once(coordinates=True) | points.part("row", rows, coordinates=True)
            for index, member in enumerate(members):
                found = member.stein.own_coordinates()(arrays, member.parameters)
                total[index] += found["coordinates"]
    return total


def check_finite(values: np.ndarray, members: Sequence[Member]) -> None:
    """Refuse sums in which a Stein kernel was not finite."""
    if not np.isfinite(values).all():
        kernels = ", ".join(dict.fromkeys(repr(member.stein.kernel) for member in members))
        raise ValueError(
            f"The Stein kernel of `kernel` {kernels} is not finite at "
            f"{np.count_nonzero(~np.isfinite(values))} pair(s) of points. The kernel's first two "
            "derivatives must be finite everywhere, also at zero distance (a square root of the "
            "distance is not), and scores must not overflow."
        )
