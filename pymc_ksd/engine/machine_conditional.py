"""Sums of Stein kernels times kernels of covariates, in one pass of machine code for all draws.

No matrix of pairs is formed for a draw: rows of a block are compared, weighted and added up one by
one. Kernels of covariates that are the same for all draws are evaluated once for a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_ksd.engine.functions import Totals
from pymc_ksd.engine.machine_code import MachineLoops, conditional_loops
from pymc_ksd.engine.schedule import Block, blocks_of_parts
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import CORES, Member

#: What is taken of points, and in what precision, by the names of operators.
_TAKEN = {
    "langevin": (("scores",), np.float64),
    "birth_death": (("births", "deaths", "lengths"), np.float32),
}
#: Fewest and most points in a block, and how many blocks at least side by side.
_BLOCK, _SIDE_BY_SIDE = (64, 256), 8
#: Shortest step that single precision can see. What steps up and down leave of a kernel is as small
#: as the step's square; in steps of this length sums are wrong by about a hundredth of their
#: standard deviation, in ones of a sixth of it by a quarter.
_SHORTEST = 1 / 500

#: What points are compared by, the same for all draws or different for each.
Covariates = np.ndarray | list[np.ndarray] | None


@dataclass(frozen=True)
class ConditionalFunctions:
    """The machine code of some members, which several threads may run.

    Attributes
    ----------
    loops : MachineLoops
        The code.
    n_pairs : float
        The number of pairs of all samples.
    """

    loops: MachineLoops
    n_pairs: float
    fused: bool = True
    count: int = CORES

    def block_size(self, n: int, dim: int) -> int:
        """Return how many points a block has when the user does not say."""
        least, most = _BLOCK
        return max(least, min(most, n // _SIDE_BY_SIDE))


@dataclass(frozen=True)
class StackedWork:
    """Samples to be compared, all in a few arrays; can be sent to other processes.

    Attributes
    ----------
    members : sequence of Member
        The Stein kernels.
    points : tuple of ndarray of shape (draws, samples, d, n)
        Positions, and what the operator takes.
    fixed : ndarray of shape (kernels, columns, n)
        Covariates that are the same for all draws.
    changing : ndarray of shape (kernels, draws, columns, n)
        Covariates that are not.
    order : tuple of int
        Where the kernel of each covariate stands among all sums: first 1, then the two others.
    parts : tuple of int
        Lengths of the parts within which points are compared.
    """

    members: Sequence[Member]
    arrays: tuple[np.ndarray, ...]
    fixed: np.ndarray
    changing: np.ndarray
    order: tuple[int, ...]
    parts: tuple[int, ...]

    @property
    def n_points(self) -> int:
        """The number of points of a sample."""
        return int(self.arrays[0].shape[-1])

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return int(self.arrays[0].shape[2])

    def functions(self) -> ConditionalFunctions:
        """Return the machine code."""
        loops = conditional_loops(self.members)
        if loops is None:
            raise RuntimeError("The kernels could not be compiled to machine code here.")
        n_samples = int(np.prod(self.arrays[0].shape[:2]))
        return ConditionalFunctions(loops, sum(part**2 for part in self.parts) * n_samples)

    def blocks(self, size: int) -> Iterator[Block]:
        """Walk the blocks of pairs."""
        return blocks_of_parts(self.parts, size)

    def reduce(self, functions: ConditionalFunctions, block: Block) -> Totals:
        """Return the sums of a block, and those of its rows and of its columns."""
        loops, (rows, columns) = functions.loops, block
        n_draws, n_samples = self.arrays[0].shape[:2]
        count, kernels = len(self.members), 1 + len(self.fixed) + len(self.changing)
        sums = np.zeros((count, n_draws, n_samples, kernels))
        of_rows = np.zeros((count, kernels, rows.stop - rows.start))
        of_columns = np.zeros((count, kernels, columns.stop - columns.start))
        scores = self.members[0].stein.operator.scores
        kinds, parameters, _ = loops.numbers(self.members)
        add = loops.module.add_scores if scores else loops.module.add_rates
        add(
            self.arrays,
            (kinds, parameters.astype(self.arrays[0].dtype)),
            (self.fixed, self.changing),
            (rows.start, rows.stop, columns.start, columns.stop),
            (sums, of_rows, of_columns),
        )
        order = list(self.order)
        by_row, by_column = (np.moveaxis(part[:, order], 1, 2) for part in (of_rows, of_columns))
        found = {"u": 2.0 * sums[..., order]}
        if rows == columns:
            return Totals(found, {rows.start: by_row + by_column})
        return Totals(found, {rows.start: by_row, columns.start: by_column})


def stacked_work(
    members: Sequence[Member],
    samples: Sequence[Sequence[Points]],
    covariates: Sequence[Covariates],
    parts: Sequence[int],
) -> StackedWork | None:
    """Arrange samples for machine code, None where there is none for them.

    Nor is there any for counts so large that single precision cannot tell them from the next.
    """
    operator = members[0].stein.operator
    if operator.name not in _TAKEN or conditional_loops(members) is None:
        return None
    names, precision = _TAKEN[operator.name]
    first = samples[0][0]
    if not operator.scores and not np.array_equal(first.constants["steps"], np.eye(first.dim)):
        return None  # steps along other directions than those of coordinates
    if precision is np.float32 and _shortest_step(samples) < _SHORTEST:
        return None

    def stacked(pick: str | None) -> np.ndarray:
        own = np.empty((len(samples), len(samples[0]), first.dim, first.n_points), precision)
        for draw, together in enumerate(samples):
            for index, points in enumerate(together):
                own[draw, index] = (points.terms[pick] if pick else points.positions).T
        return own

    fixed = [c for c in covariates if isinstance(c, np.ndarray)]
    changing = [c for c in covariates if isinstance(c, list)]
    order, next_fixed, next_changing = [], 1, 1 + len(fixed)
    for one in covariates:
        if one is None:
            order.append(0)
        elif isinstance(one, list):
            order.append(next_changing)
            next_changing += 1
        else:
            order.append(next_fixed)
            next_fixed += 1
    shape = (len(samples), first.n_points)
    return StackedWork(
        members,
        tuple(stacked(name) for name in (None, *names)),
        _padded([[one] for one in fixed], (1, first.n_points), precision)[:, 0],
        _padded(changing, shape, precision),
        tuple(order),
        tuple(parts),
    )


def _shortest_step(samples: Sequence[Sequence[Points]]) -> float:
    """Return the length of the shortest step up."""
    return min(float(points.terms["lengths"].min()) for pair in samples for points in pair)


def _padded(
    covariates: Sequence[Sequence[np.ndarray]], shape: tuple[int, int], precision: type
) -> np.ndarray:
    """Return covariates of some kernels and draws in one array, with columns of zeros to fill it.

    Columns are turned to rows: shape (kernels, draws, columns, n).
    """
    draws, n = shape
    most = max((own.shape[1] for one in covariates for own in one[:1]), default=0)
    padded = np.zeros((len(covariates), draws, most, n), precision)
    for into, one in zip(padded, covariates, strict=True):
        for own, values in zip(into, one, strict=True):
            own[: values.shape[1]] = values.T
    return padded
