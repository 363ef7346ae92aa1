"""Every sentence of a verdict: what was found, why nothing can be said, and the one next step.

Numbers come in and text goes out; which sentence is said is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

#: P-values below this are not told exactly: those of normal distributions have hundreds of zeros.
_TINY = 1e-10
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")

#: Why a test cannot tell, by code; some codes have a second sentence for another kind of test.
REASONS = {
    "chains_stand_still": "The chains do not move: every draw of a chain is the same.",
    "chains_disagree": "The chains disagree (R-hat {rhat:.3g}): they have not converged to one "
    "distribution.",
    "chains_short": "The chains are short: each is {length:.1f} autocorrelation times long, and "
    "the test needs {needed} to detect wrong draws.",
    "chains_short_for_errors": "The chains are short: each is {length:.1f} autocorrelation times "
    "long, and reliable standard errors need at least {needed}.",
    "many_parameters": "The draws are correlated, and {effective:,.0f} effective draws are too few "
    "for {dim:,} parameters: even exact draws would often have small p-values.",
    "few_replicates": "With {n} replicates nothing can be rejected at level {alpha:g}: at least "
    "{needed} are needed.",
    "few_draws": "With {n} draws no model can be rejected at level {alpha:g}: at least "
    "{needed:,} are needed.",
    "few_draws_dominate": "{few}, so errors in the other draws would go unnoticed.",
    "few_draws_correct": "1 % of the draws determine the corrections of {number} of {total} means, "
    "so errors in the other draws would go unnoticed.",
    "not_finite": "All quantities are constant or not finite.",
    "some_not_finite": "Some quantities are constant or not finite.",
    "quantities_not_finite": "{number} of {total} quantities are not finite in every draw.",
    "not_corrected": "The errors of {number} of {total} quantities cannot be estimated well "
    "enough.",
    "margin_reached": "The largest error is about as large as the margin of {margin:g}.",
    "margin_undecided": "The draws are too few for a margin of {margin:g}: {draws} would be enough "
    "to {purpose}.",
    "no_mode": "No mode was found.",
    "modes_seldom_visited": "The chains move too rarely between modes ({often} to or from one of "
    "them): the number of draws at each depends on where the chains started.",
    "modes_differ_in_shape": "The modes differ too much in shape to estimate how many draws should "
    "be at each.",
}

_LONGER = (
    "Run longer chains from scattered starting points, or reparametrize the model, and test again."
)
_BETWEEN_MODES = (
    "Run longer chains from scattered starting points, or use a sampler that moves between modes, "
    "such as pm.sample_smc."
)
#: The next step after a test that cannot tell, by the code of the reason.
_AFTER_REASON = {
    "mismatch": "Test draws that were made with this model and these data, as the sampler returned "
    "them.",
    "chains_stand_still": "Check why the sampler does not move, and sample again.",
    "few_replicates": "Test again with more replicates (n_bootstrap).",
    "few_draws": "Check again with more draws of the posterior.",
    "few_draws_dominate": "Use a non-centred parametrization where a scale is close to zero, and "
    "sample again.",
    "not_finite": "Remove what is constant or not finite, and test again.",
    "not_corrected": "Run longer chains, or test without a margin.",
    "margin_undecided": "Draw more samples, or choose a larger margin.",
    "no_mode": "Look for modes from more starting points (n_starts, starts).",
    "modes_seldom_visited": _BETWEEN_MODES,
    "modes_differ_in_shape": _BETWEEN_MODES,
}
#: The same where the reason has no code, by what was tested.
_AFTER_UNKNOWN_REASON = {
    "posterior": _LONGER,
    "fitted": _AFTER_REASON["few_draws"],
    "data": "Fix what the reason names, and test again.",
}
#: The next step after a test that rejects, by what was tested.
_AFTER_REJECTION = {
    "posterior": "Check that the draws were made with this model and these data; then run longer "
    "chains or reparametrize if R-hat is above 1.01 or transitions diverged, and otherwise look "
    "for an error in the sampler.",
    "approximation": "Sample with NUTS, or use a richer approximation.",
    "moments": "Use the corrected values stein_mean and stein_sd if the errors are small; "
    "otherwise improve the sampling (longer chains, another parametrization, NUTS).",
    "uncorrected": "Improve the sampling: longer chains, another parametrization, or NUTS in place "
    "of an approximation.",
    "modes": "Start chains near every mode (initvals of pm.sample), and use a sampler that moves "
    "between modes, such as pm.sample_smc.",
    "predictive": "Check the fit on its own data with ksd_ppc, and look for a change since the "
    "fit.",
    "data": "Compare draws from the model with the data, and decide whether the difference "
    "matters: in a large sample small errors are detected.",
}
#: What a comparison that shows a misfit means.
MISFITS = {
    "residuals": "The residuals of all observations together have the wrong distribution",
    "parameters": "The misfit depends on the fitted values",
    "past": "The misfit depends on earlier values",
    "inputs": "The misfit depends on the inputs",
    "groups": "The misfit differs between groups",
    "inputs within groups": "Within groups, the misfit depends on the inputs",
    "covariates": "The misfit depends on the covariates that were given",
    "covariates within groups": "Within groups, the misfit depends on the covariates",
}
#: How to extend the model, by the comparison that shows the misfit most and the kind of outcome.
EXTENSIONS: dict[str, dict[str, str]] = {
    "residuals": {
        "continuous": "Try a likelihood with heavier tails or skewness, or a mixture.",
        "count": "Try a likelihood with another spread, such as a negative binomial or a "
        "zero-inflated one.",
        "other": "Add predictors or group effects: the frequencies of outcomes do not fit.",
    },
    "parameters": {
        "continuous": "Let the spread depend on the fitted values, or model the outcome on another "
        "scale.",
        "count": "Try a negative binomial likelihood or another link function.",
        "other": "Try another link function, or nonlinear effects of the predictors.",
    },
    "past": {
        "continuous": "Add lags, or a term to the covariance, or let the spread depend on earlier "
        "values.",
        "other": "Add lags.",
    },
    "inputs": {
        "continuous": "Add a nonlinear term, an interaction or a group effect, or let the "
        "spread depend on them.",
        "other": "Add a nonlinear term, an interaction or a group effect.",
    },
    "groups": {
        "continuous": "Add a group effect, or let the spread differ between groups.",
        "other": "Add a group effect.",
    },
    "inputs within groups": {"other": "Let the effects of the inputs vary between groups."},
    "covariates": {"other": "Let the model depend on these covariates."},
    "covariates within groups": {
        "other": "Let the model depend on these covariates, with effects that vary between groups."
    },
}
#: The same where the data are more or less spread than expected wherever they disagree.
OTHER_SPREAD = {
    "continuous": "Let the spread depend on what the misfit depends on, or try a likelihood with "
    "heavier tails.",
    "count": EXTENSIONS["residuals"]["count"],
}
#: What a test that passes does not see, by what was tested.
_AFTER_PASS = {
    "posterior": "The test cannot see modes that no chain has visited, or how much probability "
    "distant modes have; ksd_modes looks for them.",
    "predictive": "A pass does not prove the model right; more new data make the test more "
    "powerful.",
    "data": "A pass does not prove the model right. Parameters estimated from the same data make "
    "the test lenient: check a fitted model with ksd_ppc.",
}
#: How often chance does what was found, and what to do about it, by what was tested.
_BY_CHANCE = {
    "fitted": (
        "A true model has a p-value this small by chance in up to 1 of {once} checks.",
        "Repeat the check with other data, if there are any, before changing the model.",
    ),
    "posterior": (
        "Exact draws have a p-value this small by chance in 1 of {once} tests.",
        "Sample again with another seed, and test the new draws.",
    ),
    "data": (
        "Data from the model have a p-value this small by chance in 1 of {once} tests.",
        "Repeat the test with new data, if there are any.",
    ),
}
#: The next step after a battery, by the code of a reason where it cannot tell.
_AFTER_BATTERY = {
    "passed": "Use the sampler. Errors that no target shows remain possible.",
    "rejected": "Look for an error in the sampler, beginning with {names}.",
    "cannot_tell": "Let the sampler run longer chains on {names}, and try it again.",
    "not_tested": "Fix the sampler's error on {names}, or the draws that it returns there, and try "
    "it again.",
    "control_not_caught": "Try the sampler again with another seed: until the control {names} is "
    "caught, a pass tells nothing.",
}


# P-values, levels and numbers


def p_value_in_words(p_value: float) -> str:
    """Return a p-value in words; very small ones are not told exactly."""
    return f"p {'' if p_value < _TINY else '= '}{p_value_in_short(p_value)}"


def p_value_in_short(p_value: float) -> str:
    """Return a p-value as tables show it."""
    return f"< {_TINY:g}" if p_value < _TINY else f"{p_value:.2g}"


def few_hold(n_draws: int, share: float) -> str:
    """Say what part of a statistic a hundredth of the draws hold, or the one that holds most."""
    few = "1 % of the draws hold" if n_draws >= 100 else f"1 of {n_draws} draws holds"
    return f"{few} {100 * share:.0f} % of the statistic"


def worth(ess_ksd: float, n: int) -> str:
    """Say what draws are worth by their discrepancy: at most their number."""
    exact = "" if round(ess_ksd) >= n else f"{ess_ksd:,.0f} "
    draws = "draw" if exact == "1 " else "draws"
    return f"The discrepancy of {n:,} draws is that of {exact}exact {draws}"


def levelled_off(before: str, n_draws: int) -> str:
    """Say that more draws have not helped."""
    return f"{before}, hardly better than after the first {n_draws:,}"


def instead_of(was: float, is_right: float) -> str:
    """Say what a number is and what it should be, with two digits of the difference."""
    size = abs(was - is_right) or abs(was) or 1.0
    digits = 1 - math.floor(math.log10(size))
    # Adding zero takes the sign from minus zero.
    shown = (f"{round(value, digits) + 0.0:.{max(digits, 0)}f}" for value in (was, is_right))
    return f" ({' instead of '.join(shown)})"


# Conclusions of single tests


def conclusion_of_test(
    status: str, target: str, sample: str, alpha: float, p_value: float, reason: str, *, weak: bool
) -> str:
    """Conclude from a test of data or draws."""
    sample, source = {
        "posterior": ("draws", "posterior"),
        "predictive": ("new data", "posterior predictive distribution"),
    }.get(target, (sample, "model"))
    if status == "cannot tell":
        return f"Cannot tell whether the {sample} come from the {source}. {reason}".rstrip()
    found = f"at level {alpha:g} ({p_value_in_words(p_value)})"
    if status == "passed":
        return f"Passed {found}: the {sample} are consistent with the {source}."
    how_sure = "weak evidence that " if weak else ""
    return f"Rejected {found}: {how_sure}the {sample} do not come from the {source}."


def conclusion_of_check(
    status: str, name: str, alpha: float, p_value: float, reason: str, *, weak: bool
) -> str:
    """Conclude from the predictive check of one observed variable."""
    if status == "cannot tell":
        return f"Cannot tell whether the model fits {name}. {reason}".rstrip()
    found = f"at level {alpha:g} ({p_value_in_words(p_value)})"
    if status == "passed":
        return f"Passed {found}: {name} is consistent with the model."
    return (
        f"Rejected {found}: {'weak evidence that ' if weak else ''}the model does not fit {name}."
    )


def conclusion_of_moments(
    status: str, alpha: float, p_value: float, reason: str, within: str, worst: str, *, weak: bool
) -> str:
    """Conclude from means and standard deviations, `within` a margin if there is one."""
    if status == "certified":
        return f"Certified: {within} ({100 * (1 - alpha):g} % confidence)."
    if status == "cannot tell":
        what = within or "means and standard deviations are right"
        return f"Cannot tell whether {what}. {reason}".rstrip()
    if within:
        return f"Rejected at level {alpha:g}: outside the margin. {worst}".rstrip()
    found = f"at level {alpha:g} ({p_value_in_words(p_value)})"
    if status == "passed":
        return f"Passed {found}: no significant error in any mean or standard deviation."
    return f"Rejected {found}{', weak evidence' if weak else ''}. {worst}".rstrip()


def within_margin(margin: float, target: str) -> str:
    """Say what a certificate certifies."""
    source = "posterior" if target == "posterior" else "model"
    sd = f"every sd within {100 * margin:g} % of the {source}'s"
    return f"every mean is within {margin:g} sd and {sd}"


def conclusion_of_modes(
    status: str, number: int, alpha: float, p_value: float, reason: str, mode: str
) -> str:
    """Conclude from the modes that were found; `mode` is about the one that matters most."""
    if status == "cannot tell":
        what = "Cannot tell whether the draws visit all modes in the right proportions."
        return f"{what} {reason}".rstrip()
    if status == "unknown":
        if number > 1:
            return f"{number} modes were found. {mode}"
        return "One mode was found." if number else "No mode was found."
    if number == 1:
        return "Passed: one mode was found, which the draws visit."
    found = f"at level {alpha:g} ({p_value_in_words(p_value)})"
    if status == "passed":
        return f"Passed {found}: the draws visit the {number} modes in the right proportions."
    return f"Rejected {found}: the draws visit the modes in the wrong proportions. {mode}"


def about_mode(number: int, place: str, held: float, drawn: float | None, whole: str) -> str:
    """Say what a mode holds of the whole and, where there are draws, of these."""
    text = f"{mode_name(number, place)} holds {_percent(held)} of the {whole}"
    if drawn is not None:
        text += f"; {_draws_there(drawn)}"
    return f"{'The' if number == 0 else 'A'} {text}."


def mode_name(number: int, place: str) -> str:
    """Name a mode by its number and place."""
    return (
        f"{_ORDINALS[number] if number < len(_ORDINALS) else f'{number + 1}th'} mode near {place}"
    )


def _percent(share: float) -> str:
    if share != share:  # not a number
        return "an unknown part"
    if share < 0.01:
        return "less than 1 %"
    return f"about {100 * share:.0f} %" if share < 0.99 else "nearly all"


def _draws_there(share: float) -> str:
    if share == 0:
        return "no draw is there"
    if share == 1:
        return "all draws are there"
    return f"{'less than 1 %' if share < 0.01 else f'{100 * share:.0f} %'} of the draws are there"


# Verdicts on everything together


def verdict_of_pass(source: str, *, checked: bool, warned: bool) -> str:
    """Say that nothing was rejected."""
    model = ", and the data with the model" if checked else ""
    with_what = ", with warnings" if warned else ""
    return f"Passed{with_what}: the draws are consistent with the {source}{model}."


def verdict_of_draws(source: str, p_value: float, *, weak: bool) -> str:
    """Say that draws are wrong."""
    shown = p_value_in_words(p_value)
    if weak:
        return f"Rejected, on weak evidence: the draws may not come from the {source} ({shown})."
    return f"Rejected: the draws do not come from the {source} ({shown})."


def verdict_of_margin(margin: float) -> str:
    """Say that a mean or an sd lies outside the margin."""
    return f"Rejected: a mean or an sd is outside the margin of {margin:g}."


def verdict_of_mismatch(rejected: str) -> str:
    """Say that draws which are rejected do not belong to the model in the first place."""
    return f"Draws and model do not belong together. {rejected}"


def verdict_of_modes(p_value: float, mode: str) -> str:
    """Say that draws miss a mode, or visit it too seldom or too often."""
    shown = p_value_in_words(p_value)
    return f"Rejected: the draws visit the modes in the wrong proportions ({shown}). {mode}"


def verdict_of_model(names: Sequence[str], p_value: float, *, weak: bool, tested: bool) -> str:
    """Say which observed variables the model does not fit; `tested` if the draws were."""
    draws = "The draws passed." if tested else "The draws could not be tested."
    return f"Rejected{misfit(names, p_value, weak=weak)} {draws}"


def misfit(names: Sequence[str], p_value: float, *, weak: bool) -> str:
    """Say which observed variables the model does not fit, and how sure that is."""
    shown, how_sure = p_value_in_words(p_value), ", on weak evidence" if weak else ""
    found = "may not fit" if weak else "does not fit"
    return f"{how_sure}: the model {found} {listed(names)} ({shown})."


def verdict_untold(about: str, *, tested: bool, reason: str = "") -> str:
    """Say why there is no answer: what `about` the model or the draws is not known."""
    if not tested:
        return f"Cannot tell: the draws could not be tested.{f' {about}' if about else ''}"
    return f"{about} The draws passed. {reason}".rstrip()


#: What is said of a model that was not, or only in part, checked against its data.
UNCHECKED = "Cannot tell whether the model fits its data: it could not be checked."
PARTLY_CHECKED = "Cannot tell whether the model fits its data: only a part could be checked."
UNTOLD_MODEL = "Cannot tell whether the model fits its data."
CONSISTENT = "The data are consistent with the model."
UNTESTED_MOMENTS = (
    "Cannot tell whether the draws are right: means and standard deviations were not tested."
)
WARNINGS = "See the warnings below."
#: What is said of a model that is rejected by draws that may be no sample of the posterior.
BY_WRONG_DRAWS = "The check of the model, which relies on these draws, found a misfit in {names}."
#: The next steps of verdicts.
USE = "Use the draws. Small errors, and modes that no chain has visited, remain possible."
FOLLOW_WARNINGS = "Follow the advice on the warnings below, and run the report again."
SEE_WHY = "Fix what the notes name as the reason, and run the report again."
CHECK_OTHERWISE = (
    "See the notes for the reason, and check the model in another way, such as by "
    "pm.sample_posterior_predictive."
)


# What to do next


def after_pass(target: str) -> str:
    """Return what to know after a test that passes, by what was tested."""
    return _AFTER_PASS.get(target, _AFTER_PASS["data"])


def after_rejection(target: str) -> str:
    """Return the next step after a test that rejects, by what was tested."""
    return _AFTER_REJECTION.get(target, _AFTER_REJECTION["data"])


def after_reason(code: str, target: str) -> str:
    """Return the next step after a test that cannot tell, by the code of the reason."""
    if code in REASONS or code in _AFTER_REASON:
        return _AFTER_REASON.get(code, _LONGER)
    return _AFTER_UNKNOWN_REASON.get(target, _AFTER_UNKNOWN_REASON["data"])


def after_failure(code: str, what: str) -> str:
    """Return the next step where something could not run, by the code of the reason."""
    again = {
        "mismatch": _AFTER_REASON["mismatch"],
        "interrupted": "Run the command again, and let it finish.",
    }
    return again.get(code, f"Fix what could not run, and try again: {what}")


def after_battery(code: str, *names: str) -> str:
    """Return the next step after a battery, or after one target or control where it cannot tell."""
    return _AFTER_BATTERY[code].format(names=listed(names))


def by_chance(target: str, p_value: float) -> tuple[str, str]:
    """Say how often chance gives a p-value that is weak evidence, and what to do about it."""
    often, step = _BY_CHANCE.get(target, _BY_CHANCE["data"])
    return often.format(once=round(1 / p_value)), step


def listed(names: Sequence[str]) -> str:
    """Return names with commas and an "and"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
