"""What was found about modes, in words, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.mode_words import about_mode, named, worst_mode
from pymc_ksd.diagnostics.results import shown_p_value
from pymc_ksd.diagnostics.sentences import after_rejection
from pymc_ksd.report.advice import mismatch_of, next_step
from pymc_ksd.report.findings import Explanation, Finding

#: Modes that are described one by one.
_DESCRIBED = 6
_LABELS = (
    "Modes that only permute the components of a mixture (label switching) say the same about the "
    "data; an ordered prior leaves one of them."
)
_SHARES = "share_of_posterior says what share of the draws should be at each mode."


def explain_modes(result: xr.Dataset) -> Explanation:
    """Say what modes there are, what they hold, and whether draws visit them as they should."""
    status, conclusion = str(result.attrs["status"]), str(result.attrs["conclusion"])
    details = (*_other_modes(result), *_limits(result))
    if status == "rejected":
        mismatch = mismatch_of(result)
        step = next_step(result) if mismatch else after_rejection("modes")
        finding = Finding("rejected", conclusion, (*mismatch, *details, _LABELS), step)
    elif status == "cannot tell":
        shares = (_SHARES,) if result.sizes["mode"] else ()
        finding = Finding("cannot tell", conclusion, (*details, *shares), next_step(result))
    else:
        finding = Finding("passed" if status == "passed" else "unknown", conclusion, details)
    return Explanation((finding,), tuple(_numbers(result)))


def _other_modes(result: xr.Dataset) -> Iterator[str]:
    """Describe the modes that the headline does not, where there are several."""
    number, status = result.sizes["mode"], result.attrs["status"]
    if number < 2:
        return
    told = {"rejected": [worst_mode(result)] if "p_value" in result else [], "unknown": [1]}
    shown = [mode for mode in range(number) if mode not in told.get(str(status), [])]
    yield from (about_mode(result, mode) for mode in shown[:_DESCRIBED])
    if len(shown) > _DESCRIBED:
        yield f"And {len(shown) - _DESCRIBED} more."
    if np.isnan(result["share_of_posterior"]).any():
        yield (
            "The share of the posterior at each mode is unknown: the posterior is too far from "
            "normal around the modes."
        )


def _limits(result: xr.Dataset) -> Iterator[str]:
    """Say what was not, or could not be, looked at."""
    n_starts, n_lost = int(result.attrs["n_starts"]), int(result.attrs["n_lost"])
    if n_lost:
        yield (
            f"{n_lost} of {n_starts} ascents reached no mode: the density was flat, or kept "
            "rising, as it does without bound where a scale goes to zero. The share of the "
            "posterior there is unknown."
        )
    yield (
        f"Modes that none of {n_starts} ascents reached remain unknown; n_starts=500 searches more "
        "thoroughly, and starts= where you expect a mode."
    )


def _numbers(result: xr.Dataset) -> Iterator[tuple[str, str, str]]:
    """Walk the numbers that matter, each with its meaning."""
    if result.sizes["mode"] > 1 and "p_value" in result:
        shown = shown_p_value(result).removeprefix("p ").removeprefix("= ")
        yield "p-value", shown, "probability of such uneven visits for draws from the posterior"
    for mode in range(min(result.sizes["mode"], _DESCRIBED) if result.sizes["mode"] > 1 else 0):
        share, error = (float(result[name][mode]) for name in ("share_of_posterior", "mcse"))
        if np.isfinite(share):
            draws = ""
            if "share_of_draws" in result:
                draws = f"; {100 * float(result['share_of_draws'][mode]):.1f} % of the draws"
            value = f"{100 * share:.1f} ± {100 * error:.1f} %"
            yield (
                f"mode {mode + 1}",
                value,
                f"of the probability is at the {named(result, mode)}{draws}",
            )
