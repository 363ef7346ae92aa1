"""The one next step after a test or check, whatever was tested."""

from __future__ import annotations

import numpy as np
import xarray as xr

import pymc_ksd.diagnostics.sentences as sentences
from pymc_ksd.diagnostics.results import is_weak, status_of


def tested(result: xr.Dataset) -> str:
    """Return what was tested, as sentences tell it apart."""
    return "posterior" if result.attrs.get("sample") == "draws" else str(result.attrs.get("target"))


def mismatch_of(result: xr.Dataset) -> tuple[str, ...]:
    """Say why draws and model do not belong together, if they do not."""
    return tuple(filter(None, [str(result.attrs.get("mismatch", ""))]))


def may_be_chance(result: xr.Dataset) -> tuple[str, ...]:
    """Say how often chance does this, where a rejection is weak evidence."""
    if status_of(result) != "rejected" or not is_weak(result):
        return ()
    return sentences.by_chance(tested(result), float(result["p_value"]))[:1]


def next_step(result: xr.Dataset) -> str:
    """Return what to do after a test or check that rejects or cannot tell."""
    if mismatch_of(result):  # whatever else was found
        return sentences.after_reason("mismatch", tested(result))
    if status_of(result) == "rejected":
        if is_weak(result):
            return sentences.by_chance(tested(result), float(result["p_value"]))[1]
        # Only draws that are known to be independent, those of approximations, have this null.
        approximate = tested(result) == "posterior" and result.attrs.get("null") == "rademacher"
        return sentences.after_rejection("approximation" if approximate else tested(result))
    code = str(result.attrs.get("reason_code", ""))
    if not code and not np.isfinite(result.get("critical_value", 0.0)):
        code = "few_replicates"  # with too few, no value of the statistic is critical
    return sentences.after_reason(code, tested(result))
