"""Which observations are compared with which: all with all, or within random parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_ksd.stein.points import Points

#: Ordered pairs of observations that are compared; of more observations, those in the same part.
MOST_PAIRS = 50_000_000


@dataclass(frozen=True)
class Parts:
    """Which observations are compared with which: all with all, or within random parts.

    Attributes
    ----------
    order : ndarray of int, optional
        The observations part by part; None for all in one.
    lengths : tuple of int
        How many each part has.
    """

    order: np.ndarray | None
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, n: int, rng: np.random.Generator) -> Parts:
        """Divide n observations at random into as few parts as :data:`MOST_PAIRS` allows."""
        count = min(-(-n * n // MOST_PAIRS), n // 2)
        if count <= 1:
            return cls(None, (n,))
        lengths = np.diff(np.linspace(0, n, count + 1).round().astype(int))
        return cls(rng.permutation(n), tuple(map(int, lengths)))

    @property
    def pairs(self) -> int:
        """How many ordered pairs of different observations are compared."""
        return sum(length * (length - 1) for length in self.lengths)

    def arranged(self, values: Any) -> Any:
        """Return points or an array part by part."""
        if self.order is None or values is None:
            return values
        return values.at(self.order) if isinstance(values, Points) else values[self.order]

    def restored(self, values: np.ndarray) -> np.ndarray:
        """Return an array, observations along its second axis, in their own order."""
        if self.order is None:
            return values
        own = np.empty_like(values)
        own[:, self.order] = values
        return own
