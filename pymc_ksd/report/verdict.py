"""All that was found about a fitted model, and the one sentence that it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from pymc_ksd.diagnostics.measured import DrawsResults
from pymc_ksd.diagnostics.results import by_variable, rejects
from pymc_ksd.report.convergence import arviz_findings
from pymc_ksd.report.explanations import explain, near_the_level
from pymc_ksd.report.findings import Finding, listed
from pymc_ksd.samples.containers import draws_group

_MAY_EXPLAIN = "the model may explain its data"
_UNCHECKED = "the model could not be checked against its data"
_PARTLY_CHECKED = "the model could be checked against a part of its data only, and may explain it"


def all_findings(found: DrawsResults | None, check: xr.Dataset | None, data: Any) -> list[Finding]:
    """Say what each check of the draws and of the model found, the draws' first."""
    findings = [Finding("unknown", "The draws were not tested, see below why.")]
    if found is not None:
        findings = [*explain(found.test).findings, *explain(found.evolution).findings]
        findings += [one for one in explain(found.measures).findings if one.status == "warning"]
    if draws_group(data) is not None:
        findings += arviz_findings(data)
    if check is not None:
        # What was left out stands among what is missing.
        findings += [one for one in explain(check).findings if one.status != "unknown"]
    return findings


def verdict(
    test: xr.Dataset | None,
    check: xr.Dataset | None,
    findings: Sequence[Finding],
    *,
    unchecked: bool = False,
) -> Finding:
    """Put everything into one sentence, and name the next step.

    With `unchecked`, the model could not be checked against its data, or against a part of them,
    though it should have been.
    """
    checks = {} if check is None else by_variable(check)
    how_far = _PARTLY_CHECKED if checks else _UNCHECKED
    wrong = [name for name, one in checks.items() if rejects(one)]
    misfit = f"the model does not explain {listed(wrong)}" if wrong else ""
    if test is None:
        return _of_model_alone(misfit)
    if rejects(test):
        return _of_wrong_draws(test, misfit)
    if misfit:
        return Finding(
            "rejected",
            f"The draws pass, but {misfit}.",
            ("Extend the model where the pictures below show the misfit, and fit it again.",),
        )
    if any(one.status in ("warning", "unknown") for one in findings):
        rest = f"; {how_far}" if unchecked else f"; {_MAY_EXPLAIN}" if checks else ""
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
    rest = f" and {_MAY_EXPLAIN}" if checks else ""
    return Finding(
        "passed",
        f"Nothing speaks against these draws{rest}.",
        ("Go on. Small errors, and modes that no chain has visited, stay possible.",),
    )


def _of_model_alone(misfit: str) -> Finding:
    if misfit:
        return Finding(
            "rejected",
            f"{misfit[0].upper()}{misfit[1:]}; the draws could not be tested.",
            ("See below where the model fails, and extend it there.",),
        )
    return Finding(
        "unknown",
        "The model may explain its data; the draws could not be tested.",
        ("See below why, and look at ArviZ's diagnostics.",),
    )


def _of_wrong_draws(test: xr.Dataset, misfit: str) -> Finding:
    others = f"; {misfit}, as far as these draws can tell" if misfit else ""
    target = "model" if test.attrs["target"] == "prior" else "posterior"
    return Finding(
        "rejected",
        f"Do not use these draws yet: they do not come from the {target}, says the test "
        f"(p = {float(test['p_value']):.2g}){others}.",
        (*near_the_level(test), "Mend the sampling first, then look at the model again."),
    )
