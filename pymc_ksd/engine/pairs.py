r"""Sums of Stein kernels over pairs of points.

The upper triangle of the n × n matrix is walked block by block, each block is reduced at once, and
nothing of size n² is ever held: memory is :math:`O(n (d + m) + b^2)` for m replicates, whose
weights stay in the compact form they were drawn in, and blocks of b points. Sums have a leading
axis of members, see :class:`pymc_ksd.stein.stein_kernel.Member`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pymc_ksd.compilation import FUNCTIONS_LOCK
from pymc_ksd.engine.functions import (
    GENERAL_NUMBERS,
    BlockFunctions,
    Totals,
    is_long,
    numbers_per_pair,
)
from pymc_ksd.engine.machine_code import machine_loops
from pymc_ksd.engine.schedule import Block, in_order, upper_triangle
from pymc_ksd.engine.walk import PLAIN, Effort, add_up
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import Member, Wanted


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


@dataclass(frozen=True)
class PairWork:
    """Points to be compared, and what is wanted of every pair; can be sent to other processes.

    Attributes
    ----------
    members : sequence of Member
        The Stein kernels.
    points : Points
        The points.
    weights : ndarray of shape (m, n), optional
        Multipliers of the points for m quadratic forms.
    coordinates : bool
        Whether each coordinate's term is wanted.
    groups : ndarray of shape (n,), optional
        The number of each point's group.
    """

    members: Sequence[Member]
    points: Points
    weights: np.ndarray | None = None
    coordinates: bool = False
    groups: np.ndarray | None = None

    @property
    def n_points(self) -> int:
        """The number of points."""
        return self.points.n_points

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.points.dim

    def blocks(self, size: int) -> Iterator[Block]:
        """Walk the blocks of pairs."""
        return upper_triangle(self.n_points, size)

    def functions(self) -> BlockFunctions:
        """Return the functions that reduce a block."""
        wanted = Wanted(self.weights is not None, self.coordinates, self.groups is not None)
        return BlockFunctions(self.members, wanted, self.points.n_points**2)

    def reduce(self, functions: BlockFunctions, block: Block) -> Totals:
        """Return a block's sums, as often as it stands in the matrix."""
        rows, columns = block
        arrays: dict[str, Any] = self.points.arrays(row=rows, column=columns)
        for side, part in (("row", rows), ("column", columns)):
            arrays[f"{side}.numbers"] = np.arange(part.start, part.stop, dtype=np.float64)
            if self.groups is not None:
                arrays[f"{side}.groups"] = self.groups[part]
            if self.weights is not None:
                arrays[f"{side}.weights"] = self.weights[:, part]
        found = list(functions.evaluate(arrays))
        sums = {name: np.array([own[name] for own in found]) for name in found[0]}
        earlier = sums.pop("earlier", None)
        times = 1.0 if rows == columns else 2.0
        return Totals(
            {name: times * values for name, values in sums.items()},
            {} if earlier is None else {columns.start: np.moveaxis(earlier, 1, 2)},
        )


def evaluate_pairs(
    members: Sequence[Member], points: Points, first: slice, second: slice
) -> np.ndarray:
    """Return ``u`` between the points of two slices of equal length, shape (members, pairs)."""
    numbers = max(points.dim, numbers_per_pair(members, points.dim))
    arrays, parts = points.arrays(row=first, column=second), []
    with FUNCTIONS_LOCK:
        for rows in chunks(len(points.positions[first]), numbers):
            part = {
                name: np.ascontiguousarray(array[rows]) if "." in name else array
                for name, array in arrays.items()
            }
            parts.append(_some_pairs(members, part))
    result = np.concatenate(parts, axis=1)
    check_finite(result, members)
    return result


def _some_pairs(members: Sequence[Member], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return ``u`` of pairs, a row and a column each, shape (members, pairs)."""
    u = np.empty((len(members), len(arrays["row.positions"])))
    loops = machine_loops([member.stein for member in members], compiled=False)
    together = [bool(loops and loops.takes(member.stein)) for member in members]
    if loops:
        own = [member for member, taken in zip(members, together, strict=True) if taken]
        u[together] = loops.module.pairs(loops.numbers(own), arrays)
    for own_u, member, taken in zip(u, members, together, strict=True):
        if not taken:
            own_u[:] = member.stein.pairs()(arrays, member.parameters)["u"]
    return u


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
    n_pairs, count, n_members = points.n_points * size, points.n_points // size, len(members)
    functions = BlockFunctions(members, None, n_pairs)
    step = functions.block_size(size, points.dim)

    def reduce_square(start: int) -> tuple[np.ndarray, np.ndarray]:
        total, products = np.zeros(n_members), np.zeros((n_members, n_members))
        for block in upper_triangle(size, step, start):
            u = list(functions.matrices(points, block))
            times = 1.0 if block[0] == block[1] else 2.0
            total += times * np.array([values.sum() for values in u])
            products += times * np.array([[np.vdot(a, b) for b in u] for a in u])
        return total, products

    with FUNCTIONS_LOCK:
        threads = functions.count if is_long(n_pairs) and count > 1 else 1
        results = list(in_order(reduce_square, range(0, count * size, size), threads))
    sums = np.array([part for _, (part, _) in results]).reshape(count, n_members)
    products = np.array([part for _, (_, part) in results]).reshape(count, n_members, n_members)
    check_finite(products, members)
    return np.moveaxis(sums, 0, -1), np.moveaxis(products, 0, -1)


def evaluate_all_pairs(
    members: Sequence[Member],
    points: Points,
    effort: Effort = PLAIN,
    *,
    weights: np.ndarray | None = None,
    coordinates: bool = False,
    groups: np.ndarray | None = None,
) -> PairSums:
    """Walk all pairs of points once and return the sums that were asked for.

    Parameters
    ----------
    members : sequence of Member
        The Stein kernels.
    points : Points
        The points.
    effort : Effort, optional
        How sums are computed.
    weights : ndarray of shape (m, n), optional
        Multipliers of the points for m quadratic forms, of any number type.
    coordinates : bool, default False
        Also sum each coordinate's term.
    groups : ndarray of shape (n,), optional
        The number of each point's group, for sums over the points before each point.

    Returns
    -------
    PairSums
    """
    diagonal = evaluate_pairs(members, points, slice(None), slice(None))
    totals = add_up(PairWork(members, points, weights, coordinates, groups), effort)
    u, nothing = totals.sums["u"], np.zeros((len(members), 0))
    quadratic = totals.sums.get("quadratic", nothing)
    check_finite(np.append(quadratic, u), members)
    return PairSums(
        diagonal=diagonal,
        off_diagonal=u - diagonal.sum(axis=1),
        quadratic=quadratic,
        quadratic_diagonal=nothing if weights is None else _quadratic_diagonal(weights, diagonal),
        coordinates=totals.sums.get("coordinates", nothing),
        coordinates_diagonal=_coordinates_diagonal(members, points) if coordinates else nothing,
        earlier=np.empty((len(members), 0, 2)) if groups is None else totals.of_points(),
    )


def chunks(n: int, numbers: int) -> Iterator[slice]:
    """Divide n points so that a temporary with so many numbers for each stays bounded."""
    step = max(1, GENERAL_NUMBERS // numbers)
    for start in range(0, n, step):
        yield slice(start, start + step)


def _quadratic_diagonal(weights: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    total = np.zeros((len(diagonal), len(weights)))
    for part in chunks(diagonal.shape[1], 8 * len(weights)):
        total += (weights[:, part].astype(np.float64) ** 2 @ diagonal[:, part].T).T
    return total


def _coordinates_diagonal(members: Sequence[Member], points: Points) -> np.ndarray:
    total = np.zeros((len(members), points.dim))
    with FUNCTIONS_LOCK:
        for rows in chunks(points.n_points, max(points.dim, numbers_per_pair(members, points.dim))):
            arrays = points.arrays(row=rows)
            for own, member in zip(total, members, strict=True):
                own += member.stein.own_coordinates()(arrays, member.parameters)["coordinates"]
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
