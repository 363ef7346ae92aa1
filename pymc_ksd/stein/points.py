"""Points in the coordinates that a kernel compares, with what a Stein operator takes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Points"]


@dataclass(frozen=True)
class Points:
    """Scaled points and the numbers that belong to them, by name.

    Attributes
    ----------
    positions : ndarray of shape (n, d)
        The points z, centred and scaled.
    terms : mapping of str to ndarray of shape (n, d)
        What the Stein operator takes of every point: scores, or rates of steps.
    constants : mapping of str to ndarray
        What it takes once.
    coordinate_terms : mapping of str to ndarray of shape (n, d)
        What single coordinates' terms take of every point in addition.
    coordinate_constants : mapping of str to ndarray
        What they take once.
    """

    positions: np.ndarray
    terms: Mapping[str, np.ndarray]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    coordinate_terms: Mapping[str, np.ndarray] = field(default_factory=dict)
    coordinate_constants: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def n_points(self) -> int:
        """The number of points."""
        return len(self.positions)

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return int(self.positions.shape[1])

    def part(self, side: str, rows: slice, *, coordinates: bool = False) -> dict[str, np.ndarray]:
        """Return what a function takes of some points, by the names of one of its sides."""
        arrays = {"positions": self.positions, **self.terms}
        if coordinates:
            arrays |= self.coordinate_terms
        return {f"{side}.{name}": array[rows] for name, array in arrays.items()}

    def once(self, *, coordinates: bool = False) -> dict[str, np.ndarray]:
        """Return what a function takes once."""
        return {**self.constants, **(self.coordinate_constants if coordinates else {})}

    def stretches(self, multiple: int) -> Iterator[Points]:
        """Give all points at once; streams of draws give some at a time."""
        yield self
