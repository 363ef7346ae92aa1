"""All that was found about a fitted model, and the one sentence that it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from pymc_ksd.diagnostics.measured import DrawsResults
from pymc_ksd.diagnostics.results import by_variable, conclusion, is_weak, rejects, status_of
from pymc_ksd.report.convergence import arviz_findings
from pymc_ksd.report.explanations import explain, may_be_chance, next_step
from pymc_ksd.report.findings import Finding, listed
from pymc_ksd.samples.containers import draws_group

_MAY_EXPLAIN = "the model may explain its data"
_UNCHECKED = "the model could not be checked against its data"
_PARTLY_CHECKED = "the model could be checked against a part of its data only, and may explain it"
_UNTOLD = "cannot tell whether the model explains its data"
_MEND_FIRST = "Mend the sampling first, then look at the model again."


def all_findings(found: DrawsResults | None, check: xr.Dataset | None, data: Any) -> list[Finding]:
    """Say what each check of the draws and of the model found, the draws' first."""
    findings = [Finding("unknown", "The draws were not tested, see below why.")]
    if found is not None:
        findings = [*explain(found.test).findings]
        # Where there is no sample to test, nothing good can be said of its size either.
        told = status_of(found.test) != "cannot tell"
        findings += [
            one for one in explain(found.evolution).findings if told or one.status == "warning"
        ]
        findings += [one for one in explain(found.measures).findings if one.status == "warning"]
    if draws_group(data) is not None:
        findings += arviz_findings(data)
    if check is not None:
        # What was left out stands among what is missing.
        findings += [one for one in explain(check).findings if one.status != "unknown"]
    return findings


def why_untold(*results: xr.Dataset | None) -> list[str]:
    """Return the reasons of those results that cannot tell."""
    untold = [one for one in results if one is not None and status_of(one) == "cannot tell"]
    reasons = [str(one.attrs.get("reason") or "The test cannot tell.") for one in untold]
    return list(dict.fromkeys(reasons))


def verdict(
    test: xr.Dataset | None,
    check: xr.Dataset | None,
    findings: Sequence[Finding],
    *,
    unchecked: bool = False,
    worst: str = "",
) -> Finding:
    """Put everything into one sentence, and name the next step.

    With `unchecked`, the model could not be checked against its data, or against a part of them,
    though it should have been. `worst` has the least favourable numbers of ArviZ, to be shown where
    there is no answer.
    """
    misfit = _misfit(check)
    if test is None:
        return _of_model_alone(check, misfit)
    status = status_of(test)
    if status == "cannot tell":
        return _of_untold_draws(test, misfit, worst)
    if status == "rejected":
        warned = any(one.status == "warning" for one in findings)
        return _of_wrong_draws(test, misfit, warned=warned)
    if misfit:
        return Finding(
            "rejected",
            f"The draws pass, but {misfit}.",
            ("Extend the model where the pictures below show the misfit, and fit it again.",),
        )
    if why_untold(check):
        headline = f"Nothing speaks against these draws; {_UNTOLD}. {' '.join(why_untold(check))}"
        return Finding("cannot tell", headline, (next_step(check),))
    return _of_no_rejection(findings, checked=check is not None, unchecked=unchecked)


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


def _of_wrong_draws(test: xr.Dataset, misfit: str, *, warned: bool) -> Finding:
    others = f"; {misfit}, as far as these draws can tell" if misfit else ""
    target = "model" if test.attrs["target"] == "prior" else "posterior"
    p_value = f"p = {float(test['p_value']):.2g}"
    if is_weak(test):
        step = "Follow the warnings below, and" if warned else "If new draws are rejected as well,"
        return Finding(
            "rejected",
            f"There is weak evidence that these draws do not come from the {target} ({p_value})"
            f"{others}.",
            (*may_be_chance(test), f"{step} look for an error in the sampling."),
        )
    return Finding(
        "rejected",
        f"Do not use these draws yet: they do not come from the {target}, says the test "
        f"({p_value}){others}.",
        (_MEND_FIRST,),
    )
