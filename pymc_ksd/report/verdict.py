"""All that was found about a fitted model, and the one sentence that it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from pymc_ksd.report.convergence import arviz_findings
from pymc_ksd.report.explanations import Finding, explain, listed, near_the_level
from pymc_ksd.samples.containers import draws_group

__all__ = ["all_findings", "by_variable", "verdict"]


def all_findings(
    test: xr.Dataset | None,
    measures: xr.Dataset | None,
    evolution: xr.Dataset | None,
    check: xr.Dataset | None,
    draws: Any,
) -> list[Finding]:
    """Say what each check of the draws and of the model found, the draws' first."""
    findings: list[Finding] = []
    if test is not None and measures is not None and evolution is not None:
        findings += explain(test).findings
        findings += explain(evolution).findings
        findings += [one for one in explain(measures).findings if one.status == "warning"]
    else:
        findings.append(Finding("unknown", "The draws were not tested, see below why."))
    if draws_group(draws) is not None:
        findings += arviz_findings(draws)
    if check is not None:
        findings += explain(check).findings
    return findings


def verdict(
    test: xr.Dataset | None,
    check: xr.Dataset | None,
    findings: Sequence[Finding],
    *,
    unchecked: bool = False,
) -> Finding:
    """Put everything into one sentence, and name the next step.

    With `unchecked`, the model could not be checked against its data, though it should have been.
    """
    wrong = []
    if check is not None:
        wrong = [
            name
            for name, one in by_variable(check).items()
            if float(one["p_value"]) <= float(check.attrs["alpha"])
        ]
    misfit = f"the model does not explain {listed(wrong)}" if wrong else ""
    doubts = any(one.status in ("warning", "unknown") for one in findings)
    if test is None:
        if wrong:
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
    p_value, alpha = float(test["p_value"]), float(test.attrs["alpha"])
    if p_value <= alpha:
        others = f"; {misfit}, as far as these draws can tell" if wrong else ""
        target = "model" if test.attrs["target"] == "prior" else "posterior"
        chance = near_the_level(p_value, alpha)
        return Finding(
            "rejected",
            f"Do not use these draws yet: they do not come from the {target}, says the test "
            f"(p = {p_value:.2g}){others}.",
            (*chance, "Mend the sampling first, then look at the model again."),
        )
    if wrong:
        return Finding(
            "rejected",
            f"The draws pass, but {misfit}.",
            ("Extend the model where the pictures below show the misfit, and fit it again.",),
        )
    rest = "; the model may explain its data" if check is not None else ""
    if unchecked:
        rest = "; the model could not be checked against its data"
    if doubts:
        return Finding(
            "warning",
            f"No test rejects, but there are warnings about the draws{rest}.",
            ("Follow the advice below and run the report again.",),
        )
    if unchecked:
        return Finding(
            "unknown",
            f"Nothing speaks against these draws{rest}.",
            ("See below why, and check the model in another way.",),
        )
    return Finding(
        "passed",
        f"Nothing speaks against these draws{rest.replace(';', ' and')}.",
        ("Go on. Small errors, and modes that no chain has visited, stay possible.",),
    )


def by_variable(check: xr.Dataset) -> dict[str, xr.Dataset]:
    """Return the check of every observed variable."""
    if "variable" not in check.dims:
        return {str(check["variable"].item()): check}
    return {str(name): check.sel(variable=name) for name in check["variable"].values}
