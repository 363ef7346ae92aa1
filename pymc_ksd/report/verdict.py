"""All that was found about a fitted model, and the one sentence that it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

import pymc_ksd.diagnostics.sentences as sentences
from pymc_ksd.diagnostics.judged import deciding
from pymc_ksd.diagnostics.measured import DrawsResults
from pymc_ksd.diagnostics.mode_words import about_mode, conclusion_of_modes, worst_mode
from pymc_ksd.diagnostics.results import (
    by_variable,
    conclusion,
    is_weak,
    rejects,
    status_of,
    within_margin,
    wrong_moments,
)
from pymc_ksd.report.advice import mismatch_of, next_step
from pymc_ksd.report.convergence import arviz_findings
from pymc_ksd.report.explanations import explain
from pymc_ksd.report.findings import Finding
from pymc_ksd.report.misfits import how_to_extend
from pymc_ksd.samples.containers import draws_group

#: Parameters that a verdict names.
_NAMED = 3


def all_findings(
    found: DrawsResults | None, moments: xr.Dataset | None, check: xr.Dataset | None, data: Any
) -> list[Finding]:
    """Say what each check of the draws and of the model found, the draws' first."""
    findings = [Finding("unknown", "The draws were not tested: see the notes.")]
    if found is not None:
        findings = [*explain(found.test).findings]
        if moments is not None and status_of(moments) == "certified":
            findings = [_beside_certificate(one) for one in findings]
        untested = (Finding("unknown", "Means and standard deviations were not tested."),)
        findings += untested if moments is None else explain(moments).findings
        # Where there is no sample to test, nothing good can be said of its size either.
        told = status_of(found.test) != "cannot tell"
        findings += [
            one for one in explain(found.evolution).findings if told or one.status == "warning"
        ]
    if draws_group(data) is not None:
        findings += arviz_findings(data)
    if check is not None:
        # What was left out stands among what is missing.
        findings += [one for one in explain(check).findings if one.status != "unknown"]
    return findings


def _beside_certificate(finding: Finding) -> Finding:
    """Take a rejection for what it is where every mean and sd is certified: a remark."""
    if finding.status != "rejected":
        return finding
    small = "Every mean and sd is within the margin nevertheless: decide whether this matters."
    return Finding("warning", finding.headline, (small,))


def why_untold(*results: xr.Dataset | None) -> list[str]:
    """Return the reasons of those results that cannot tell."""
    untold = [one for one in results if one is not None and status_of(one) == "cannot tell"]
    reasons = [str(one.attrs.get("reason") or "The test cannot tell.") for one in untold]
    return list(dict.fromkeys(reasons))


def verdict(
    test: xr.Dataset | None,
    moments: xr.Dataset | None,
    check: xr.Dataset | None,
    findings: Sequence[Finding],
    *,
    unchecked: bool = False,
    worst: str = "",
) -> Finding:
    """Put everything into one sentence, and name the next step.

    Draws are rejected by their test or by their moments. Where a certificate was asked for, it
    alone decides about them. With `unchecked`, the model could not be checked against its data, or
    against a part of them, though it should have been. `worst` has the least favourable numbers of
    ArviZ, to be shown where there is no answer.
    """
    misfit = _Misfit.of(check)
    if test is None:
        return _of_model_alone(check, misfit)
    decides = deciding(test, moments)
    assert decides is not None  # there is a test
    if status_of(decides) == "rejected":
        return _of_wrong_draws(decides, moments, misfit)
    if status_of(decides) == "cannot tell":
        details = (*([worst] if worst else ()), *misfit.by_wrong_draws)
        return Finding("cannot tell", conclusion(decides), details, next_step(decides))
    if misfit.names:
        return misfit.verdict(tested=True)
    if why_untold(check):
        assert check is not None  # it has a reason
        reason = " ".join(why_untold(check))
        headline = sentences.verdict_untold(sentences.UNTOLD_MODEL, tested=True, reason=reason)
        return Finding("cannot tell", headline, (), next_step(check))
    if unchecked:
        how_far = sentences.PARTLY_CHECKED if check is not None else sentences.UNCHECKED
        headline = sentences.verdict_untold(how_far, tested=True)
        certified = (conclusion(decides),) if within_margin(decides) else ()
        return Finding("cannot tell", headline, certified, sentences.CHECK_OTHERWISE)
    if moments is None:
        return Finding("cannot tell", sentences.UNTESTED_MOMENTS, (), sentences.SEE_WHY)
    # What is not known of the draws, as with a single chain, is a warning, too.
    warned = any(one.status in ("warning", "unknown") for one in findings)
    return _of_pass(decides, checked=check is not None, warned=warned)


def with_modes(found: Finding, modes: xr.Dataset | None) -> Finding:
    """Return the verdict where modes were looked for: draws that miss one are wrong."""
    status = None if modes is None else status_of(modes)
    if modes is None or found.status == "rejected" or status not in ("rejected", "cannot tell"):
        return found
    if status == "cannot tell":
        return Finding("cannot tell", conclusion_of_modes(modes), (), next_step(modes))
    which = about_mode(modes, worst_mode(modes))
    headline = sentences.verdict_of_modes(float(modes["p_value"]), which)
    step = explain(modes).findings[0].next_step
    return Finding("rejected", headline, mismatch_of(modes), step)


def below_verdict(finding: Finding) -> Finding:
    """Return a finding as it stands below a verdict, which alone says what to do next.

    What to do about a warning stays, among its details.
    """
    advice = finding.advice if finding.status == "warning" else finding.details
    return replace(finding, details=advice, next_step="")


@dataclass(frozen=True)
class _Misfit:
    """What a check found wrong.

    Attributes
    ----------
    names : list of str
        The observed variables that the model does not fit.
    p_value : float
        The smallest of theirs.
    weak : bool
        Whether all of them are weak evidence.
    details : tuple of str
        Where the worst shows.
    next_step : str
        What to do about it.
    """

    names: list[str]
    p_value: float = np.nan
    weak: bool = False
    details: tuple[str, ...] = ()
    next_step: str = ""

    @classmethod
    def of(cls, check: xr.Dataset | None) -> _Misfit:
        """Return that of a predictive check."""
        checks = {} if check is None else by_variable(check)
        wrong = {name: one for name, one in checks.items() if rejects(one)}
        if not wrong or check is None:
            return cls([])
        worst = min(wrong.values(), key=lambda one: float(one["p_value"]))
        weak, p_value = is_weak_against_model(check), float(worst["p_value"])
        step = how_to_extend(worst, str(worst["contributions_of"].item()))
        if weak:
            _, step = sentences.by_chance("fitted", p_value)
        (details,) = (one.details for one in explain(check).findings[:1])
        return cls(list(wrong), p_value, weak, details, step)

    @property
    def by_wrong_draws(self) -> tuple[str, ...]:
        """What is said of it where the draws may be no sample of the posterior."""
        names = sentences.listed(self.names)
        return (sentences.BY_WRONG_DRAWS.format(names=names),) if self.names else ()

    def verdict(self, *, tested: bool) -> Finding:
        """Return the verdict that the model is rejected; `tested` if the draws were, and passed."""
        headline = sentences.verdict_of_model(
            self.names, self.p_value, weak=self.weak, tested=tested
        )
        return Finding("rejected", headline, self.details, self.next_step)


def _of_pass(decides: xr.Dataset, *, checked: bool, warned: bool) -> Finding:
    step = sentences.FOLLOW_WARNINGS if warned else sentences.USE
    if within_margin(decides):
        more = f" {sentences.WARNINGS}" if warned else ""
        return Finding("certified", conclusion(decides) + more, (), step)
    headline = sentences.verdict_of_pass(_source(decides), checked=checked, warned=warned)
    return Finding("passed", headline, (), step)


def _of_model_alone(check: xr.Dataset | None, misfit: _Misfit) -> Finding:
    if misfit.names and not why_untold(check):
        return misfit.verdict(tested=False)
    about = sentences.UNTOLD_MODEL if why_untold(check) else sentences.CONSISTENT
    headline = sentences.verdict_untold(about, tested=False)
    return Finding("cannot tell", headline, (), sentences.SEE_WHY)


def _of_wrong_draws(decides: xr.Dataset, moments: xr.Dataset | None, misfit: _Misfit) -> Finding:
    """Say that draws are wrong, by their test if it rejects them, and which parameters are off."""
    p_value, mismatch = float(decides["p_value"]), mismatch_of(decides)
    off = moments is not None and status_of(moments) == "rejected"
    wrong = wrong_moments(moments)[:_NAMED] if moments is not None and off else []
    weak = is_weak_against_draws(decides, moments)
    headline = sentences.verdict_of_draws(_source(decides), p_value, weak=weak)
    if within_margin(decides):
        headline = sentences.verdict_of_margin(float(decides.attrs["margin"]))
    details = (*wrong, *misfit.by_wrong_draws)
    if mismatch:
        headline = sentences.verdict_of_mismatch(headline)
        return Finding("rejected", headline, (*mismatch, *details), next_step(decides))
    if weak:
        often, step = sentences.by_chance("posterior", p_value)
        return Finding("rejected", headline, (often, *details), step)
    # Weak evidence of one may stand beside clear evidence of the other.
    step = sentences.after_rejection("posterior") if is_weak(decides) else next_step(decides)
    return Finding("rejected", headline, details, step)


def is_weak_against_draws(decides: xr.Dataset, moments: xr.Dataset | None) -> bool:
    """Whether draws are rejected on weak evidence alone."""
    if moments is not None and status_of(moments) == "rejected" and not is_weak(moments):
        return False
    return status_of(decides) == "rejected" and is_weak(decides)


def is_weak_against_model(check: xr.Dataset | None) -> bool:
    """Whether a predictive check rejects on weak evidence alone."""
    checks = {} if check is None else by_variable(check)
    return all(is_weak(one) for one in checks.values() if rejects(one))


def _source(decides: xr.Dataset) -> str:
    return "model" if decides.attrs["target"] == "prior" else "posterior"
