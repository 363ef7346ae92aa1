r"""Where data and model disagree, place by place: the same comparison that rejects, taken apart.

The discrepancy of the member that speaks is a sum over observations,
:math:`T(y, \theta) = \sum_i r_i(y, \theta)`. At every place along a covariate the mean of the
:math:`r_i` nearby is held against those of replicated data. Nothing is marked unless the check
rejects; then all places beyond what 95 % of the replicated data reach anywhere, and if there is
none, the place that is furthest off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_ksd.diagnostics.predictive.bins import Bins
from pymc_ksd.diagnostics.predictive.outcomes import Outcomes

#: Share of the replicated curves that stay below the threshold everywhere, and the least spread of
#: a place, as a share of the greatest: few points make it tiny where there are hardly any.
_INSIDE, _LEAST_SPREAD = 0.95, 0.25
#: Standard deviations by which outcomes must be shifted, or be too wide, for a stretch to say so.
_CLEAR = 2.0
#: What is shifted far is also far from the middle: how large a shift must be beside that.
_RATHER = 0.6


@dataclass(frozen=True)
class Mark:
    """A stretch where data and model disagree.

    Attributes
    ----------
    start, stop : float
        From where to where.
    word : str
        What the data are there, beside what is expected: "larger", "smaller", "wider", "narrower",
        "more" or "fewer" of them, or "different".
    """

    start: float
    stop: float
    word: str


@dataclass(frozen=True)
class Disagreement:
    """How far observed data are from replicated ones, place by place.

    Attributes
    ----------
    excess : ndarray of shape (places,)
        In standard deviations of the replicated ones.
    threshold : float
        What 95 % of the replicated data do not exceed at any place.
    """

    excess: np.ndarray
    threshold: float

    @classmethod
    def of(
        cls,
        observed: np.ndarray,
        replicated: np.ndarray,
        *,
        both_sides: bool = False,
        least: float | None = None,
    ) -> Disagreement:
        """Compare the numbers of all places with replicated ones, shape (draws, places).

        The spread of a place is at least so much, by default a share of the greatest.
        """
        count, spread = len(replicated), replicated.std(axis=0, ddof=1)
        width = np.maximum(spread, least or _LEAST_SPREAD * spread.max() or 1.0)
        excess = (observed - replicated.mean(axis=0)) / width
        # Each replicate is compared with the others, as the observed data are with all.
        own = (replicated - replicated.mean(axis=0)) / width * count / (count - 1)
        furthest = (np.abs(own) if both_sides else own).max(axis=1)
        rank = min(int(np.ceil(_INSIDE * (count + 1))), count)
        threshold = float(np.sort(furthest)[rank - 1])
        return cls(excess, max(threshold, np.finfo(float).tiny))

    @property
    def strength(self) -> float:
        """How far the furthest place is off, in thresholds."""
        return float(np.abs(self.excess).max()) / self.threshold

    def marked(self, *, both_sides: bool = False) -> np.ndarray:
        """Tell the places beyond the threshold, or the furthest if there is none."""
        size = np.abs(self.excess) if both_sides else self.excess
        beyond: np.ndarray = size > self.threshold
        return beyond if beyond.any() else size == size.max()


def directions(bins: Bins, outcomes: Outcomes, element: int) -> tuple[list[str], np.ndarray]:
    """Say for every bin what outcomes are beside replicated ones, and how clear their shift is.

    Parameters
    ----------
    bins : Bins
        The observations that are shown.
    outcomes : Outcomes
        Their outcomes.
    element : int
        Which number of an outcome is looked at.

    Returns
    -------
    words : list of str
        For every bin.
    shift : ndarray of shape (bins,)
        In standard deviations of the replicated data.
    """
    ranks = outcomes.ranks(element)
    shift = _in_deviations(bins, ranks)
    width = np.zeros_like(shift) if outcomes.are_binary else _in_deviations(bins, np.abs(ranks))
    words = [_word(*pair) for pair in zip(shift, width, strict=True)]
    return words, shift


def _in_deviations(bins: Bins, numbers: np.ndarray) -> np.ndarray:
    """Return sums over bins and their neighbours, the first row beside all others."""
    sums = bins.of_neighbours(bins.sums(numbers))
    spread = sums[1:].std(axis=0, ddof=1)
    difference = sums[0] - sums[1:].mean(axis=0)
    return np.divide(difference, spread, out=np.zeros_like(difference), where=spread > 0)


def _word(shift: float, width: float) -> str:
    if max(abs(shift), abs(width)) < _CLEAR:
        return "different"
    if abs(shift) >= _RATHER * abs(width):
        return "larger" if shift > 0 else "smaller"
    return "wider" if width > 0 else "narrower"


def stretches(bins: Bins, marked: np.ndarray, words: Sequence[str]) -> list[Mark]:
    """Join marked bins that are next to each other and say the same; groups stay single."""
    found: list[Mark] = []
    for index in np.flatnonzero(marked).tolist():
        start, stop = map(float, bins.edges[index : index + 2])
        before = found[-1] if found and not bins.labels and found[-1].stop == start else None
        if before is not None and before.word == words[index]:
            found[-1] = Mark(before.start, stop, before.word)
        else:
            found.append(Mark(start, stop, words[index]))
    return found
