"""Observations side by side: stretches of a covariate, groups, or values of an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Observations of the same value that say enough without those of the next values.
_MANY = 10
#: Bins below which those next to one are most of the data.
_FEW = 6


@dataclass(frozen=True)
class Bins:
    """Observations that are close to each other, bin by bin.

    Attributes
    ----------
    values : ndarray of shape (n,)
        Where every observation is.
    codes : ndarray of int of shape (n,)
        The bin of each.
    places : ndarray of shape (bins,)
        Where bins are.
    edges : ndarray of shape (bins + 1,)
        From where to where each goes.
    labels : tuple of str
        What they are called, if they are groups.
    """

    values: np.ndarray
    codes: np.ndarray
    places: np.ndarray
    edges: np.ndarray
    labels: tuple[str, ...] = ()

    @classmethod
    def along(cls, values: np.ndarray, count: int) -> Bins:
        """Divide a covariate into bins with about as many observations each.

        Of few different values each has one of its own.
        """
        known = np.unique(values)
        if len(known) > count:
            inner = np.quantile(values, np.linspace(0, 1, count + 1)[1:-1], method="nearest")
            first = np.unique(np.searchsorted(known, inner))
        else:
            first = np.arange(1, len(known))
        first = first[first > 0]
        inner = (known[first - 1] + known[first]) / 2
        codes = np.searchsorted(inner, values)
        sizes = np.bincount(codes, minlength=len(inner) + 1)
        places = np.bincount(codes, values, minlength=len(inner) + 1) / sizes
        if not len(inner):
            return cls(values, codes, places, known[[0, -1]] + np.array([-0.5, 0.5]))
        # A bin of one value at an end is as wide outwards as inwards.
        ends = [min(known[0], 2 * places[0] - inner[0]), max(known[-1], 2 * places[-1] - inner[-1])]
        if len(known) > count:
            ends = [known[0], known[-1]]
        return cls(values, codes, places, np.concatenate([ends[:1], inner, ends[1:]]))

    @classmethod
    def groups(cls, values: np.ndarray, names: Sequence[str]) -> Bins:
        """Give every group a bin, side by side in the order of their numbers."""
        known, codes = np.unique(values, return_inverse=True)
        return cls.beside(codes.reshape(-1), group_names(known, names))

    @classmethod
    def beside(cls, codes: np.ndarray, labels: Sequence[str]) -> Bins:
        """Put labelled bins side by side."""
        places = np.arange(len(labels), dtype=np.float64)
        edges = np.arange(len(labels) + 1) - 0.5
        return cls(codes.astype(np.float64), codes, places, edges, tuple(labels))

    @property
    def count(self) -> int:
        """How many bins there are."""
        return len(self.places)

    def at(self, rows: np.ndarray) -> Bins:
        """Return the same bins with some of the observations."""
        return Bins(self.values[rows], self.codes[rows], self.places, self.edges, self.labels)

    def only(self, kept: np.ndarray) -> tuple[Bins, np.ndarray]:
        """Return some of these labelled bins, and which observations are in them."""
        inside = np.isin(self.codes, kept)
        codes = np.searchsorted(kept, self.codes[inside])
        return Bins.beside(codes, [self.labels[one] for one in kept]), np.flatnonzero(inside)

    def sums(self, numbers: np.ndarray) -> np.ndarray:
        """Add up numbers of observations, shape (..., n), in every bin, shape (..., bins)."""
        rows = numbers.reshape(-1, numbers.shape[-1])
        sums = [np.bincount(self.codes, row, minlength=self.count) for row in rows]
        return np.array(sums).reshape(*numbers.shape[:-1], self.count)

    def means(self, numbers: np.ndarray) -> np.ndarray:
        """Return the means of numbers of observations, shape (..., n), in every bin."""
        sizes = np.bincount(self.codes, minlength=self.count)
        means: np.ndarray = self.sums(numbers) / np.maximum(sizes, 1)
        return means

    def of_neighbours(self, sums: np.ndarray) -> np.ndarray:
        """Add to every bin those next to it, unless bins are few, groups, or values of many each.

        What is shifted up at one value and down at the next would cancel.
        """
        many = len(self.values) >= _MANY * self.count
        if self.labels or self.count < _FEW or (many and len(np.unique(self.values)) == self.count):
            return sums
        padded = np.pad(sums, [(0, 0)] * (sums.ndim - 1) + [(1, 1)])
        total: np.ndarray = padded[..., :-2] + padded[..., 1:-1] + padded[..., 2:]
        return total


def group_names(codes: np.ndarray, names: Sequence[str]) -> list[str]:
    """Return what groups are called: by their names where these are known, or by their numbers."""
    return [names[int(code)] if names else f"{code:g}" for code in codes]
