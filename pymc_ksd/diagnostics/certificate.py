"""Certificates: whether means and standard deviations are proven to be close to the posterior's."""

from __future__ import annotations

import numpy as np

from pymc_ksd.diagnostics.corrected_means import CorrectedMeans

#: The least part of a quantity's variance that features must explain for a certificate.
_LEAST_EXPLAINED = 1 / 3


def certificate(
    corrected: CorrectedMeans, status: str, doubt: str, alpha: float, margin: float, n: int
) -> tuple[str, str]:
    """Return "certified", "rejected" or "cannot tell", and the reason for the last.

    Two one-sided tests of every mean and every standard deviation: certified if all lie within the
    margin at level `alpha`, rejected if one lies outside at that level, adjusted for their number.

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
    bias, error = (
        np.stack(pair)[:, varies]
        for pair in zip(_of_means(corrected), _of_sds(corrected), strict=True)
    )
    unknown = ~(np.isfinite(bias) & np.isfinite(error))
    if not bias.size or not np.isfinite(corrected.sd).all():
        return "cannot tell", "Quantities that are shown do not vary, or are not finite."
    outside = np.abs(bias) - ndtri(1 - alpha / (2 * bias.size)) * error > margin
    if (outside & ~unknown).any():
        return "rejected", ""
    if doubt:
        return "cannot tell", doubt
    if unknown.any():
        return "cannot tell", (
            f"{np.count_nonzero(unknown.any(axis=0))} of {bias.shape[1]} quantities cannot be "
            "corrected well enough to say how far off they are."
        )
    quantile = ndtri(1 - alpha)
    if (np.abs(bias) + quantile * error <= margin).all():
        return "certified", ""
    return "cannot tell", _how_many(bias, error, quantile, margin, n)


def _of_means(corrected: CorrectedMeans) -> tuple[np.ndarray, np.ndarray]:
    """Return what means are off by, in posterior standard deviations, and its standard error."""
    with np.errstate(divide="ignore", invalid="ignore"):
        bias = (corrected.mean - corrected.stein_mean) / corrected.stein_sd
        ratio = corrected.sd / corrected.stein_sd
        error = np.hypot(
            corrected.of_mean.error * ratio, corrected.stein_error / corrected.stein_sd
        )
    return bias, np.where(corrected.is_explained(_LEAST_EXPLAINED), error, np.nan)


def _of_sds(corrected: CorrectedMeans) -> tuple[np.ndarray, np.ndarray]:
    """Return by what part standard deviations are off, and its standard error."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = corrected.sd / corrected.stein_sd
    # Of the draws' variance, as a part of it: half of that is the part of the deviation.
    error = np.hypot(corrected.of_sd.error, corrected.sd_error) / 2 * ratio**3
    return ratio - 1, np.where(corrected.is_explained(_LEAST_EXPLAINED), error, np.nan)


def _how_many(bias: np.ndarray, error: np.ndarray, quantile: float, margin: float, n: int) -> str:
    """Say how many draws would decide, should what is seen stay as it is."""
    room = np.abs(margin - np.abs(bias))
    with np.errstate(divide="ignore"):
        needed = n * float(np.max((quantile * error / room) ** 2))
    inside = bool((np.abs(bias) < margin).all())
    if not np.isfinite(needed) or needed > 1e9:
        return f"The largest error is as large as the margin of {margin:g}."
    more = f"about {needed:,.0f} draws" if needed > n else "more draws"
    toward = "certify them" if inside else "decide"
    return f"The draws are too few for a margin of {margin:g}: {more} would {toward}."
