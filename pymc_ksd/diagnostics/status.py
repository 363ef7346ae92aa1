"""Whether a test can tell: passed, rejected, or cannot tell, and why.

That nothing was rejected says something only where wrong draws would have been. Chains that are
short for their autocorrelation are rejected too often, up to three times as often as they should be
at a level of 5 %, and so are correlated draws that are few for hundreds of parameters: only clear
rejections count there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_ksd.diagnostics.corrected_means import CorrectedMeans
from pymc_ksd.diagnostics.panels import DRAWS_TO_WHITEN
from pymc_ksd.diagnostics.reasons import Reason, because
from pymc_ksd.diagnostics.sentences import few_hold
from pymc_ksd.samples.sample import Sample
from pymc_ksd.stats.nulls import fewest_replicates
from pymc_ksd.stats.test import Outcome, Plan

#: R-hat from which chains are no sample of one distribution.
_MOST_RHAT = 1.1
#: The part of a statistic's diagonal that a hundredth of the draws may hold.
MOST_OF_DIAGONAL = 0.5
#: By how much p-values have to be below the level where chains are short.
_CLEARER = 10
#: From what dimension, and from what autocorrelation time on, the level of the test does not hold
#: where draws are too few to be whitened: the multipliers miss a small part of the correlation,
#: which many coordinates make visible.
_MANY_COORDINATES, _CORRELATED = 100, 2.0
#: Autocorrelation times that a chain must have for its standard errors, and for the test.
_SHORTEST, _ENOUGH = 10, 20
#: Moves to and from a mode that tell how slowly chains visit it, if chains that move freely would
#: make at least so many; and the part of the information of independent draws that moves between
#: modes of different shape must keep.
_FEWEST_MOVES, _FREE_MOVES, _LEAST_INFORMATION = 10, 30, 0.05

#: What is said of chains that do not move.
_STILL = because("chains_stand_still")


def status_of_test(sample: Sample, plan: Plan, outcome: Outcome) -> tuple[str, str]:
    """Return "passed", "rejected" or "cannot tell", and the reason for the last."""
    if _stands_still(sample):
        return "cannot tell", _STILL
    short, crowded = _too_short(sample, plan), _too_many_coordinates(sample)
    if outcome.p_value <= (plan.alpha / _CLEARER if short or crowded else plan.alpha):
        return "rejected", ""
    if crowded and outcome.p_value <= plan.alpha:
        return "cannot tell", crowded
    reason = (
        _mismatch(sample)
        or _too_few_replicates(plan, outcome)
        or short
        or _doubt_about_draws(sample, outcome)
    )
    return ("cannot tell", reason) if reason else ("passed", "")


def status_of_check(
    p_values: Sequence[float], alpha: float, n_draws: int, mismatch: str
) -> tuple[str, str]:
    """Return the same of a predictive check of one or several observed variables.

    Draws of another model tell nothing of this one, whatever the p-values.
    """
    if mismatch:
        return "cannot tell", Reason("mismatch", mismatch)
    if min(p_values) <= alpha:
        return "rejected", ""
    if n_draws >= fewest_replicates(alpha):
        return "passed", ""
    needed = fewest_replicates(alpha)
    return "cannot tell", because("few_draws", n=n_draws, alpha=alpha, needed=needed)


def _stands_still(sample: Sample) -> bool:
    return sample.are_draws and not sample.independent and bool(np.isinf(sample.largest_rhat))


def _too_short(sample: Sample, plan: Plan) -> str:
    """Say how short chains are for their autocorrelation, or nothing."""
    if not sample.are_draws or plan.null.has_power(sample):
        return ""
    if sample.chains_disagree(_MOST_RHAT):
        return _disagreement(sample)
    time = plan.null.options.get("autocorrelation_time") or sample.autocorrelation_time
    return because("chains_short", length=sample.n_draws / time, needed=_ENOUGH)


def _too_many_coordinates(sample: Sample) -> str:
    """Say where correlated draws are so few for their dimension that exact ones look wrong."""
    n, dim = sample.points.shape
    if not sample.are_draws or dim <= _MANY_COORDINATES:
        return ""
    time = sample.autocorrelation_time
    if time <= _CORRELATED or n / time >= DRAWS_TO_WHITEN * dim**1.5:
        return ""
    return because("many_parameters", effective=n / time, dim=dim)


def _disagreement(sample: Sample) -> str:
    return because("chains_disagree", rhat=sample.largest_rhat)


def _mismatch(sample: Sample) -> str:
    """Say why draws and model do not belong together, or nothing."""
    return Reason("mismatch", sample.mismatch) if sample.mismatch else ""


def _too_few_replicates(plan: Plan, outcome: Outcome) -> str:
    if np.isfinite(outcome.critical_value):
        return ""
    needed = fewest_replicates(plan.level)
    return because("few_replicates", n=plan.n_replicates, alpha=plan.alpha, needed=needed)


def _doubt_about_draws(sample: Sample, outcome: Outcome) -> str:
    """Say why wrong draws like these might not be rejected, or nothing."""
    if not sample.are_draws:
        return ""
    if sample.chains_disagree(_MOST_RHAT):
        return _disagreement(sample)
    shares = [member.diagonal_share for member in outcome.estimate.members]
    if shares and min(shares) > MOST_OF_DIAGONAL:
        return because("few_draws_dominate", few=few_hold(sample.n_points, min(shares)))
    return ""


def status_of_moments(
    sample: Sample, corrected: CorrectedMeans, p_value: float, alpha: float
) -> tuple[str, str, str]:
    """Return the same of means and standard deviations of draws, and any doubt about the draws.

    A doubt does not hinder a clear rejection, but nothing good can be said in spite of it.
    """
    doubt = _STILL if _stands_still(sample) else _doubt_about_moments(sample, corrected)
    if doubt == _STILL or not np.isfinite(p_value):
        doubt = doubt or because("not_finite")
        return "cannot tell", doubt, doubt
    short = corrected.chain_length < _SHORTEST and not sample.independent
    if p_value <= (alpha / _CLEARER if short else alpha):
        return "rejected", "", doubt
    return ("cannot tell", doubt, doubt) if doubt else ("passed", "", "")


def _doubt_about_moments(sample: Sample, corrected: CorrectedMeans) -> str:
    if sample.mismatch:
        return _mismatch(sample)
    if sample.chains_disagree(_MOST_RHAT):
        return _disagreement(sample)
    length, few = corrected.chain_length, corrected.few_decide
    if length < _SHORTEST and not sample.independent:
        short = {"length": length, "needed": _SHORTEST}
        return because("chains_short", "chains_short_for_errors", **short)
    if not np.isfinite(corrected.sd).all():
        bad = np.count_nonzero(~np.isfinite(corrected.sd))
        return because("not_finite", "quantities_not_finite", number=bad, total=len(few))
    if few.any():
        shares = {"number": few.sum(), "total": len(few)}
        return because("few_draws_dominate", "few_draws_correct", **shares)
    return ""


def status_of_visits(
    sample: Sample,
    p_values: np.ndarray,
    alpha: float,
    moves: np.ndarray,
    free_moves: np.ndarray,
    information: np.ndarray,
) -> tuple[str, str]:
    """Return the same of the number of draws at each mode.

    Parameters
    ----------
    sample : Sample
        The draws.
    p_values : ndarray of shape (k,)
        Of each mode, adjusted for their number.
    alpha : float
        The level.
    moves, free_moves : ndarray of shape (k,)
        How often chains come to each mode or leave it, and how often they would if they moved
        between modes as freely as otherwise.
    information : ndarray of shape (k,)
        What moves between the modes tell, as a part of what would tell if they had one shape.
    """
    if not len(p_values):
        return "cannot tell", because("no_mode")
    if _stands_still(sample):
        return "cannot tell", _STILL
    is_chain = sample.are_draws and not sample.independent
    slow = is_chain & (moves < _FEWEST_MOVES) & (free_moves >= _FREE_MOVES)
    # A chain that never moves counts as one draw. Of a few moves, their own number is uncertain.
    if (p_values <= np.where(slow & (moves > 0), alpha / _CLEARER, alpha)).any():
        return "rejected", ""
    if sample.mismatch:
        return "cannot tell", _mismatch(sample)
    if slow.any():
        few = int(moves[slow].min())
        often = {0: "never", 1: "once"}.get(few, f"{few} times")
        return "cannot tell", because("modes_seldom_visited", often=often)
    if is_chain and sample.chains_disagree(_MOST_RHAT):
        return "cannot tell", _disagreement(sample)
    if (information < _LEAST_INFORMATION).any():
        return "cannot tell", because("modes_differ_in_shape")
    return "passed", ""
