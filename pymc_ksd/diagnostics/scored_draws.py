"""Draws with their scores and the quantities that are wanted of them, a part at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pymc_ksd.diagnostics.quantities import Quantities
from pymc_ksd.models.target import Target
from pymc_ksd.samples.sample import Sample
from pymc_ksd.samples.stream import DrawStream
from pymc_ksd.stein.stein_kernel import OPERATORS

#: Numbers of features that are formed at a time.
_NUMBERS_TOGETHER = 16_000_000
#: Draws, evenly spaced, that stand for all of those that are not held.
_SOME = 2_000


@dataclass(frozen=True)
class Part:
    """Some consecutive draws of all chains: first draw of every chain, second draw, and so on.

    Attributes
    ----------
    points, scores : ndarray of shape (n, d)
        Unconstrained draws and scores.
    log_densities : ndarray of shape (n,), optional
        Log densities, where they are known.
    quantities : ndarray of shape (n, p)
        What means are wanted of.
    first : int
        How many draws of a chain come before.
    """

    points: np.ndarray
    scores: np.ndarray
    log_densities: np.ndarray | None
    quantities: np.ndarray
    first: int = 0

    @property
    def n_points(self) -> int:
        """The number of draws of all chains."""
        return len(self.points)

    def rows(self, start: int, stop: int, n_chains: int) -> Part:
        """Return the draws between two numbers of draws of a chain."""
        rows = slice(start * n_chains, stop * n_chains)
        log_densities = None if self.log_densities is None else self.log_densities[rows]
        return Part(
            self.points[rows],
            self.scores[rows],
            log_densities,
            self.quantities[rows],
            self.first + start,
        )


class ScoredDraws(Protocol):
    """Draws, held or read again and again."""

    @property
    def n_chains(self) -> int:
        """The number of chains."""

    @property
    def n_draws(self) -> int:
        """The number of draws of a chain."""

    @property
    def independent(self) -> bool:
        """Whether they are known to be independent."""

    def some(self) -> Part:
        """Return all draws, or a few of them, evenly spaced."""

    def consecutive(self) -> np.ndarray:
        """Return points of all draws, or of consecutive ones, shape (chain, draw, d)."""

    def parts(self, width: int, multiple: int) -> Iterator[Part]:
        """Walk all draws, of each of which `width` numbers are formed, in multiples of so many."""


@dataclass(frozen=True)
class HeldDraws:
    """Draws in memory.

    Attributes
    ----------
    whole : Part
        All of them.
    n_chains : int
        The number of chains.
    independent : bool
        Whether they are known to be independent.
    """

    whole: Part
    n_chains: int
    independent: bool = False

    @classmethod
    def of(cls, sample: Sample, values: Sequence[np.ndarray], quantities: np.ndarray) -> HeldDraws:
        """Put together a sample, its scores and log densities, and quantities."""
        log_densities = values[1] if len(values) > 1 else None
        whole = Part(sample.points, values[0], log_densities, quantities)
        return cls(whole, sample.n_chains, sample.independent)

    @property
    def n_draws(self) -> int:
        """The number of draws of a chain."""
        return self.whole.n_points // self.n_chains

    def some(self) -> Part:
        """Return all draws."""
        return self.whole

    def consecutive(self) -> np.ndarray:
        """Return the points of all draws."""
        return self.whole.points.reshape(self.n_draws, self.n_chains, -1).swapaxes(0, 1)

    def parts(self, width: int, multiple: int) -> Iterator[Part]:
        """Walk the draws."""
        step = multiple * max(1, _NUMBERS_TOGETHER // (width * self.n_chains * multiple))
        for start in range(0, self.n_draws, step):
            yield self.whole.rows(start, start + step, self.n_chains)


@dataclass(frozen=True)
class StreamedDraws:
    """Draws that are too many to hold: read and scored again whenever they are walked.

    Attributes
    ----------
    stream : DrawStream
        The draws.
    target : Target
        What scores them.
    quantities : Quantities
        What is wanted of them.
    """

    stream: DrawStream
    target: Target
    quantities: Quantities

    @property
    def n_chains(self) -> int:
        """The number of chains."""
        return self.stream.n_chains

    @property
    def n_draws(self) -> int:
        """The number of draws of a chain."""
        return self.stream.n_draws

    @property
    def independent(self) -> bool:
        """Whether they are known to be independent."""
        return self.stream.independent

    def some(self) -> Part:
        """Return evenly spaced draws."""
        step = -(-self.n_draws * self.n_chains // _SOME)
        return self._scored(*self.stream.thinned(step), step=step)

    def consecutive(self) -> np.ndarray:
        """Return points from the middle of every chain."""
        return self.stream.consecutive()

    def parts(self, width: int, multiple: int) -> Iterator[Part]:
        """Read and score the draws."""
        first = 0
        for points, posterior in self.stream.stretches(multiple * self.n_chains):
            part = self._scored(points, posterior, first=first)
            first += len(points) // self.n_chains
            step = multiple * max(1, _NUMBERS_TOGETHER // (width * self.n_chains * multiple))
            for start in range(0, part.n_points // self.n_chains, step):
                yield part.rows(start, start + step, self.n_chains)
            del points, posterior, part

    def _scored(self, points: np.ndarray, posterior: Any, *, first: int = 0, step: int = 1) -> Part:
        """Score one draw of so many of every chain, from the first of them on."""
        values = self.target.values(points)
        operator = OPERATORS[self.target.operator]
        draw, chain = np.divmod(np.arange(len(points)), self.n_chains)
        rows = (first + draw * step) * self.n_chains + chain
        n = self.n_draws * self.n_chains
        self.target.check_support(operator.unusable(values), operator.problem, rows, n)
        log_densities = values[1] if len(values) > 1 else None
        return Part(points, values[0], log_densities, self.quantities.values(posterior), first)
