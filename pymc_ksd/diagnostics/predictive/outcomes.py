"""Outcomes that a picture shows: some of the observations, and what the model says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

#: Observations that are shown at most, replicates of each, and numbers that these may have.
_SHOWN, _REPLICATES, _NUMBERS = 1_000, 200, 4_000_000
#: What outcomes of two values are.
_BINARY = (0.0, 1.0)


@dataclass
class Outcomes:
    """Observed and replicated outcomes of some observations.

    Attributes
    ----------
    rows : ndarray of int of shape (shown,)
        Which observations they are.
    observed : ndarray of shape (n, elements)
        The outcomes of all observations.
    drawn : list of ndarray of shape (shown, elements)
        Those of the ones that are shown, replicated from the model, for some draws.
    """

    rows: np.ndarray
    observed: np.ndarray
    drawn: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def of(cls, data: np.ndarray, num_draws: int, rng: np.random.Generator) -> Outcomes:
        """Choose observations at random where there are too many to show."""
        observed = np.asarray(data, dtype=np.float64).reshape(len(data), -1)
        held = _NUMBERS // (min(num_draws, _REPLICATES) * observed.shape[1])
        most = min(len(data), _SHOWN, max(held, 2))
        rows = np.arange(len(data))
        if most < len(data):
            rows = np.sort(rng.choice(len(data), most, replace=False))
        return cls(rows, observed)

    def add(self, values: np.ndarray) -> None:
        """Keep one more set of replicated outcomes, if there are not enough."""
        if len(self.drawn) < _REPLICATES:
            table = np.asarray(values, dtype=np.float64).reshape(len(self.observed), -1)
            self.drawn.append(table[self.rows])

    def among(self, inside: np.ndarray) -> Outcomes:
        """Return those of some observations, told by a mask, which are then all there are."""
        shown = inside[self.rows]
        drawn = [part[shown] for part in self.drawn]
        return Outcomes((np.cumsum(inside) - 1)[self.rows[shown]], self.observed[inside], drawn)

    def by_category(self) -> tuple[np.ndarray, Outcomes]:
        """Return the categories that occur, and whether elements are each of them, as 0 and 1."""
        known = np.unique(np.concatenate([self.observed.ravel(), self.replicated.ravel()]))

        def are(part: np.ndarray) -> np.ndarray:
            return (part[:, :, None] == known).reshape(len(part), -1)

        drawn = [are(part).astype(np.uint8) for part in self.drawn]
        return known, Outcomes(self.rows, are(self.observed).astype(np.float64), drawn)

    @cached_property
    def replicated(self) -> np.ndarray:
        """Replicated outcomes, shape (draws, shown, elements)."""
        return np.stack(self.drawn)

    @property
    def shown(self) -> np.ndarray:
        """Observed outcomes of the observations that are shown, shape (shown, elements)."""
        return self.observed[self.rows]

    @property
    def n_elements(self) -> int:
        """How many numbers one outcome has."""
        return int(self.observed.shape[1])

    @cached_property
    def are_whole(self) -> bool:
        """Whether all outcomes are whole numbers."""
        return all((part == np.round(part)).all() for part in (self.observed, self.replicated))

    @cached_property
    def are_binary(self) -> bool:
        """Whether outcomes are zeros and ones."""
        return all(np.isin(part, _BINARY).all() for part in (self.observed, self.replicated))

    def totals(self) -> tuple[str, np.ndarray, np.ndarray]:
        """Return totals of counts, or means, of every element, of observed and replicated data.

        The first says which; shapes (elements,) and (draws, elements).
        """
        is_total = self.are_whole and len(self.rows) == len(self.observed)
        size = 1 if is_total else len(self.rows)
        observed, replicated = self.shown.sum(axis=0), self.replicated.sum(axis=1)
        return "total" if is_total else "mean", observed / size, replicated / size

    def furthest(self, count: int) -> list[int]:
        """Return the elements whose totals are furthest off, at most so many."""
        if self.n_elements <= count:
            return list(range(self.n_elements))
        _, observed, replicated = self.totals()
        spread = replicated.std(axis=0)
        off = np.abs(observed - replicated.mean(axis=0)) / np.where(spread > 0, spread, np.inf)
        return [int(one) for one in np.argsort(-off, kind="stable")[:count]]

    def ranks(self, element: int) -> np.ndarray:
        """Return the ranks of an element's values among all at the same observation.

        Between -1/2 and 1/2, shape (1 + draws, shown), the observed ones first.
        """
        from scipy.stats import rankdata  # slow to import

        together = np.concatenate([self.shown[None, :, element], self.replicated[:, :, element]])
        ranks: np.ndarray = (rankdata(together, axis=0) - 0.5) / len(together) - 0.5
        return ranks
