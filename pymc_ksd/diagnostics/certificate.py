"""Certificates: whether means and standard deviations are proven to be close to the posterior's."""

from __future__ import annotations

import numpy as np

from pymc_ksd.diagnostics.corrected_means import CorrectedMeans
from pymc_ksd.diagnostics.reasons import Reason, because

#: The least part of a quantity's variance that features must explain for a certificate.
_LEAST_EXPLAINED = 0.45
#: More draws than this are not advised.
_MOST_DRAWS = 1e9


def certificate(
    corrected: CorrectedMeans, status: str, doubt: str, alpha: float, margin: float, n: int
) -> tuple[str, str]:
    """Return "certified", "rejected" or "cannot tell", and the reason for the last.

    Two one-sided tests of every mean and every standard deviation: certified if all lie within the
    margin at level `alpha`, rejected if one lies outside at that level, adjusted for their number.

    Features see a part of what is wrong. Before anything is certified, the whole bias is taken to
    be larger than what they see, see :meth:`CorrectedMeans.whole_biases`; before anything is
    rejected, what they see is taken to be all of it. The level of a certificate is `alpha` where
    draws are off in proportion to the quantity, and higher where what features do not see is off
    by more.

    Parameters
    ----------
    corrected : CorrectedMeans
        Means, standard deviations, and what they are off by.
    status, doubt : str
        What is known of the draws without a margin, and what speaks against any certificate.
    alpha : float
        The level.
    margin : float
        The margin.
    n : int
        The number of draws.
    """
    from scipy.special import ndtri  # slow to import

    if status == "cannot tell":
        return status, doubt
    if status == "rejected" and margin < 1 and corrected.too_far.any():
        return "rejected", ""
    varies = corrected.sd > 0
    known = np.isfinite(corrected.stein_sd) & corrected.is_explained(_LEAST_EXPLAINED)
    (bias, error), (most, most_error) = (
        [np.where(known, one, np.nan)[:, varies] for one in pair]
        for pair in (corrected.biases(), corrected.whole_biases())
    )
    unknown = ~(np.isfinite(most) & np.isfinite(most_error))
    if not bias.size or not np.isfinite(corrected.sd).all():
        return "cannot tell", because("not_finite", "some_not_finite")
    inside, outside = ndtri(1 - alpha), ndtri(1 - alpha / (2 * bias.size))
    if (np.abs(bias) - outside * error > margin).any():
        return "rejected", ""
    if doubt:
        return "cannot tell", doubt
    if unknown.any():
        number = np.count_nonzero(unknown.any(axis=0))
        return "cannot tell", because("not_corrected", number=number, total=bias.shape[1])
    if (np.abs(most) + inside * most_error <= margin).all():
        return "certified", ""
    return "cannot tell", _how_many(most, most_error, inside, outside, margin, n)


def _how_many(
    bias: np.ndarray, error: np.ndarray, inside: float, outside: float, margin: float, n: int
) -> Reason:
    """Say how many draws would decide, should what is seen stay as it is.

    A certificate takes all to be proven inside, a rejection one to be proven outside: `inside` and
    `outside` are by how many standard errors.
    """
    room = np.abs(margin - np.abs(bias))
    is_inside = np.abs(bias) < margin
    with np.errstate(divide="ignore"):
        times = (np.where(is_inside, inside, outside) * error / room) ** 2
    needed = n * float(times.max() if is_inside.all() else times[~is_inside].min())
    if not np.isfinite(needed) or needed > _MOST_DRAWS:
        return because("margin_undecided", "margin_reached", margin=margin)
    draws = f"about {needed:,.0f} draws" if needed > n else "more draws"
    purpose = "certify them" if is_inside.all() else "decide"
    return because("margin_undecided", margin=margin, draws=draws, purpose=purpose)
