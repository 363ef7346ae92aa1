"""What was found about modes, in plain words, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.mode_words import about_mode, named, worst_mode
from pymc_ksd.diagnostics.results import shown_p_value
from pymc_ksd.report.findings import Explanation, Finding

#: Modes that are described one by one.
_DESCRIBED = 6
_AFTER_REJECTION = (
    "Start chains near every mode (`initvals` of pm.sample), and sample with a method that moves "
    "between modes: sequential Monte Carlo (pm.sample_smc), tempering, or a parametrization in "
    "which the modes are one.",
    "Ask which of the modes are meant: permuted components of a mixture (label switching) say the "
    "same about the data, and an ordered prior leaves one of them.",
)
_UNTOLD = (
    "Run longer chains from scattered starts, or sample with a method that moves between modes: "
    "pm.sample_smc, tempering. share_of_posterior says how many draws should be at each mode."
)


def explain_modes(result: xr.Dataset) -> Explanation:
    """Say what modes there are, what they hold, and whether draws visit them as they should."""
    status, conclusion = str(result.attrs["status"]), str(result.attrs["conclusion"])
    others = tuple(_other_modes(result))
    advice: tuple[str, ...] = (*others, *_limits(result))
    if status == "rejected":
        finding = Finding("rejected", conclusion, (*others, *_AFTER_REJECTION, *_limits(result)))
    elif status == "cannot tell":
        next_step = (_UNTOLD,) if result.sizes["mode"] else ()
        finding = Finding("cannot tell", conclusion, (*others, *next_step, *_limits(result)))
    else:
        finding = Finding("passed" if status == "passed" else "unknown", conclusion, advice)
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
            "How much of the posterior each mode holds cannot be told: normal distributions around "
            "the modes fit it too badly."
        )


def _limits(result: xr.Dataset) -> Iterator[str]:
    """Say what was not, or could not be, looked at."""
    n_starts, n_lost = int(result.attrs["n_starts"]), int(result.attrs["n_lost"])
    if n_lost:
        yield (
            f"From {n_lost} of {n_starts} starts no mode was reached: the density kept rising, as "
            "it does without bound where a scale goes to zero, or was flat. That is no mode, and "
            "how much of the posterior is there is not known."
        )
    yield (
        f"A mode that none of {n_starts} ascents reached stays unknown: n_starts=500 looks longer, "
        "and starts= from where you expect one."
    )


def _numbers(result: xr.Dataset) -> Iterator[tuple[str, str, str]]:
    """Walk the numbers that matter, each with its meaning."""
    if result.sizes["mode"] > 1 and "p_value" in result:
        shown = shown_p_value(result).removeprefix("p ").removeprefix("= ")
        yield "p-value", shown, "how often draws of the posterior visit modes this unevenly"
    for mode in range(min(result.sizes["mode"], _DESCRIBED) if result.sizes["mode"] > 1 else 0):
        share, error = (float(result[name][mode]) for name in ("share_of_posterior", "mcse"))
        if np.isfinite(share):
            draws = ""
            if "share_of_draws" in result:
                draws = f"; {100 * float(result['share_of_draws'][mode]):.1f} % of the draws"
            value = f"{100 * share:.1f} ± {100 * error:.1f} %"
            yield f"mode {mode + 1}", value, f"of the mass is at the {named(result, mode)}{draws}"
