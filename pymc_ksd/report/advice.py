"""What to do next, whatever was tested."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import is_weak, status_of

#: What to do after a test that rejects, by what was tested.
_AFTER_REJECTION: dict[str, tuple[str, ...]] = {
    "posterior": (
        "Look at R-hat and divergences first: chains that disagree need a longer run or another "
        "parametrization.",
        "Draws of an approximation (ADVI, Pathfinder, Laplace): its error is more than chance. "
        "Sample with NUTS, or use a richer approximation.",
        "Chains that agree with each other and not with the posterior: were the draws made with "
        "this very model and these data, and does the sampler correct its steps?",
    ),
    "predictive": (
        "New data differ from what the fitted model predicts: look for a change since the fit, "
        "and check the fit itself with ksd_ppc.",
    ),
    "data": (
        "Draw from the model and compare with the data; plot_ksd_test shows how clear the "
        "rejection is.",
        "A large sample finds small errors: decide whether this one matters for your question.",
    ),
}
#: The same after one that does not.
_AFTER_PASS: dict[str, tuple[str, ...]] = {
    "posterior": (
        "The test uses gradients of the log-density where there are draws. It cannot see modes "
        "that no chain has visited, nor how much weight modes far apart have: ksd_modes looks "
        "for them.",
    ),
    "predictive": ("No evidence against a model is not evidence for it; more new data tell more.",),
    "data": (
        "No evidence against a model is not evidence for it. Parameters that were estimated from "
        "the same data make the test lenient.",
    ),
}
#: The one next step after a test that cannot tell, by what was tested.
_NEXT_STEP = {
    "together": "Test draws of this very model and these data, as the sampler made them.",
    "posterior": "Run longer chains from scattered starts, or reparametrize the model, and test "
    "again.",
    "fitted": "Check again with more draws of the posterior.",
    "replicates": "Test again with more replicates (n_bootstrap).",
    "data": "Mend what the reason names, and test again.",
}


def after_rejection(target: str) -> tuple[str, ...]:
    """Return what to do after a test that rejects, by what was tested."""
    return _AFTER_REJECTION.get(target, _AFTER_REJECTION["data"])


def after_pass(target: str) -> tuple[str, ...]:
    """Return what to know after a test that does not reject, by what was tested."""
    return _AFTER_PASS.get(target, _AFTER_PASS["data"])


def next_step(result: xr.Dataset) -> str:
    """Return what to do after a test or check that cannot tell."""
    target = "posterior" if result.attrs.get("sample") == "draws" else result.attrs.get("target")
    if result.attrs.get("mismatch"):
        target = "together"
    elif not np.isfinite(result.get("critical_value", 0.0)):
        target = "replicates"  # with too few, no value of the statistic is critical
    return _NEXT_STEP.get(str(target), _NEXT_STEP["data"])


def may_be_chance(result: xr.Dataset) -> tuple[str, ...]:
    """Say how often chance does this, where a rejection is weak evidence."""
    if status_of(result) != "rejected" or not is_weak(result):
        return ()
    once = f"once in {1 / float(result['p_value']):.0f}"
    if result.attrs.get("target") == "fitted":
        return (
            f"A true model looks this bad by chance up to {once} checks: check it on other data, "
            "where there are any, before changing it.",
        )
    if result.attrs.get("sample") == "draws":
        return (
            f"Exact draws look this bad by chance {once} tests: sample again with another seed and "
            "test the new draws before looking for an error.",
        )
    return (
        f"Data from the model look this bad by chance {once} tests: test new data, where there are "
        "any, before looking for an error.",
    )
