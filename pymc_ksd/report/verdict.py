"""All that was found about a fitted model, and the one sentence that it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from pymc_ksd.diagnostics.judged import deciding
from pymc_ksd.diagnostics.measured import DrawsResults
from pymc_ksd.diagnostics.mode_words import about_mode, conclusion_of_modes, worst_mode
from pymc_ksd.diagnostics.results import (
    by_variable,
    conclusion,
    is_weak,
    rejects,
    shown_p_value,
    status_of,
    within_margin,
    wrong_moments,
)
from pymc_ksd.report.advice import may_be_chance, next_step
from pymc_ksd.report.convergence import arviz_findings
from pymc_ksd.report.explanations import explain
from pymc_ksd.report.findings import Finding, Status, listed
from pymc_ksd.samples.containers import draws_group

_MAY_EXPLAIN = "the model may explain its data"
_UNCHECKED = "the model could not be checked against its data"
_PARTLY_CHECKED = "the model could be checked against a part of its data only, and may explain it"
_UNTOLD = "cannot tell whether the model explains its data"
_MEND_FIRST = "Mend the sampling first, then look at the model again."
#: Parameters that a verdict names.
_NAMED = 3


def all_findings(
    found: DrawsResults | None, moments: xr.Dataset | None, check: xr.Dataset | None, data: Any
) -> list[Finding]:
    """Say what each check of the draws and of the model found, the draws' first."""
    findings = [Finding("unknown", "The draws were not tested, see below why.")]
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
    small = "Every mean and sd lies within the margin all the same: decide whether this matters."
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
    misfit = _misfit(check)
    if test is None:
        return _of_model_alone(check, misfit)
    decides = deciding(test, moments)
    if decides is not None and status_of(decides) == "rejected":
        warned = any(one.status == "warning" for one in findings)
        return _of_wrong_draws(decides, moments, misfit, warned=warned)
    if decides is not None and status_of(decides) == "cannot tell":
        return _of_untold_draws(decides, misfit, worst)
    if misfit:
        return Finding(
            "rejected",
            f"The draws pass, but {misfit}.",
            ("Extend the model where the pictures below show the misfit, and fit it again.",),
        )
    if why_untold(check):
        headline = f"Nothing speaks against these draws; {_UNTOLD}. {' '.join(why_untold(check))}"
        return Finding("cannot tell", headline, (next_step(check),))
    found = _of_no_rejection(findings, checked=check is not None, unchecked=unchecked)
    if decides is None or not within_margin(decides):
        return found
    rest = {"passed": "", "unknown": f" {_UNCHECKED[0].upper()}{_UNCHECKED[1:]}."}
    more = rest.get(found.status, " There are warnings about the draws all the same.")
    status: Status = "certified" if found.status == "passed" else found.status
    return Finding(status, conclusion(decides) + more, found.advice)


def with_modes(found: Finding, modes: xr.Dataset | None) -> Finding:
    """Return the verdict where modes were looked for: draws that miss one are wrong."""
    status = None if modes is None else status_of(modes)
    if modes is None or found.status == "rejected" or status not in ("rejected", "cannot tell"):
        return found
    if status == "cannot tell":
        return Finding("cannot tell", conclusion_of_modes(modes), explain(modes).findings[0].advice)
    wrong = f"they visit modes in wrong proportions ({shown_p_value(modes)})"
    which = about_mode(modes, worst_mode(modes))
    return Finding("rejected", f"Do not use these draws yet: {wrong}. {which}", (_MEND_FIRST,))


def _misfit(check: xr.Dataset | None) -> str:
    """Say which observed variables are not explained, and how sure that is."""
    checks = {} if check is None else by_variable(check)
    wrong = {name: is_weak(one) for name, one in checks.items() if rejects(one)}
    weak = "there is weak evidence that " if wrong and all(wrong.values()) else ""
    return f"{weak}the model does not explain {listed(list(wrong))}" if wrong else ""


def _of_no_rejection(findings: Sequence[Finding], *, checked: bool, unchecked: bool) -> Finding:
    how_far = _PARTLY_CHECKED if checked else _UNCHECKED
    if any(one.status in ("warning", "unknown") for one in findings):
        rest = f"; {how_far}" if unchecked else f"; {_MAY_EXPLAIN}" if checked else ""
        return Finding(
            "warning",
            f"No test rejects, but there are warnings about the draws{rest}.",
            ("Follow the advice below and run the report again.",),
        )
    if unchecked:
        return Finding(
            "unknown",
            f"Nothing speaks against these draws; {how_far}.",
            ("See below why, and check the model in another way.",),
        )
    rest = f" and {_MAY_EXPLAIN}" if checked else ""
    return Finding(
        "passed",
        f"Nothing speaks against these draws{rest}.",
        ("Go on. Small errors, and modes that no chain has visited, stay possible.",),
    )


def _of_model_alone(check: xr.Dataset | None, misfit: str) -> Finding:
    if misfit and not why_untold(check):
        return Finding(
            "rejected",
            f"{misfit[0].upper()}{misfit[1:]}; the draws could not be tested.",
            ("See below where the model fails, and extend it there.",),
        )
    found = _UNTOLD if why_untold(check) else _MAY_EXPLAIN
    return Finding(
        "unknown",
        f"{found[0].upper()}{found[1:]}; the draws could not be tested.",
        ("See below why, and look at ArviZ's diagnostics.",),
    )


def _of_untold_draws(test: xr.Dataset, misfit: str, worst: str) -> Finding:
    """Say that nothing is known: draws that may be no sample cannot reject a model, either."""
    headline = conclusion(test)
    if misfit:
        headline += f" {misfit[0].upper()}{misfit[1:]}, as far as these draws can tell."
    return Finding("cannot tell", headline, (*([worst] if worst else ()), next_step(test)))


def _of_wrong_draws(
    decides: xr.Dataset, moments: xr.Dataset | None, misfit: str, *, warned: bool
) -> Finding:
    """Say that draws are wrong, by their test if it rejects them, and which parameters are off."""
    others = f"; {misfit}, as far as these draws can tell" if misfit else ""
    off = moments is not None and status_of(moments) == "rejected"
    wrong = wrong_moments(moments) if moments is not None and off else []
    target = "model" if decides.attrs["target"] == "prior" else "posterior"
    p_value = shown_p_value(decides)
    if is_weak(decides) and not (moments is not None and off and not is_weak(moments)):
        step = "Follow the warnings below, and" if warned else "If new draws are rejected as well,"
        return Finding(
            "rejected",
            f"There is weak evidence that these draws do not come from the {target} ({p_value})"
            f"{others}.",
            (
                *may_be_chance(decides),
                *wrong[:_NAMED],
                f"{step} look for an error in the sampling.",
            ),
        )
    says = "" if decides is moments else ", says the test"
    how = f"they do not come from the {target}{says} ({p_value})"
    if within_margin(decides):
        how = f"they lie outside the margin of {float(decides.attrs['margin']):g}"
    return Finding(
        "rejected", f"Do not use these draws yet: {how}{others}.", (*wrong[:_NAMED], _MEND_FIRST)
    )
