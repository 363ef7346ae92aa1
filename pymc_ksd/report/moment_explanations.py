"""Which means and standard deviations are off, in words, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xarray as xr

import pymc_ksd.diagnostics.sentences as sentences
from pymc_ksd.diagnostics.results import (
    conclusion,
    is_weak,
    parameter_table,
    shown_p_value,
    status_of,
    why_uncorrected,
    wrong_moments,
)
from pymc_ksd.diagnostics.sentences import listed
from pymc_ksd.report.advice import may_be_chance, mismatch_of, next_step
from pymc_ksd.report.findings import Explanation, Finding, Status

#: Parameters that are listed one by one.
_LISTED = 5
#: From how many times as many draws on corrected means are called more exact, and up to how many
#: the number is told.
_GAIN, _MOST_GAIN = 1.5, 1_000_000
_BLIND_MOMENTS = (
    "Errors that change no mean or standard deviation are not detected here; ksd_test compares "
    "whole distributions."
)
_NO_PROOF = (
    "A pass does not prove that there is no error: margin=0.1 asks for a certificate that every "
    "mean is within 0.1 sd and every sd within 10 %."
)


def explain_moments(moments: xr.Dataset) -> Explanation:
    """Say which means and standard deviations are off, and what corrected ones are worth."""
    status, numbers = status_of(moments), tuple(_moment_numbers(moments))
    not_shown = tuple(_not_shown(moments))
    if status == "cannot tell":
        finding = Finding("cannot tell", conclusion(moments), not_shown, next_step(moments))
    elif status == "rejected":
        why = (*mismatch_of(moments), *may_be_chance(moments))
        details = (*why, *_worst(moments), *not_shown)
        finding = Finding("rejected", conclusion(moments), details, _after_rejection(moments))
    else:
        proof = () if status == "certified" else (_NO_PROOF,)
        details = (*_corrections(moments), *not_shown, _BLIND_MOMENTS, *proof)
        found: Status = "certified" if status == "certified" else "passed"
        finding = Finding(found, conclusion(moments), details)
    return Explanation((finding,), numbers)


def _worst(moments: xr.Dataset) -> list[str]:
    """Say by how much parameters are off, the worst first."""
    wrong = wrong_moments(moments)
    more = len(wrong) - _LISTED
    return [*wrong[:_LISTED], *([f"And {more:,} more, see plot_ksd_moments."] if more > 0 else [])]


def _after_rejection(moments: xr.Dataset) -> str:
    """Return what to do about wrong means and standard deviations."""
    if is_weak(moments) or mismatch_of(moments):
        return next_step(moments)
    known = np.isfinite(parameter_table(moments, ["stein_mean"])[1]).any()
    return sentences.after_rejection("moments" if known else "uncorrected")


def _corrections(moments: xr.Dataset) -> Iterator[str]:
    """Say what the corrected means are worth, and how many there are not."""
    gain = float(moments["gain"])
    if gain > _GAIN:
        size = float(f"{int(moments.attrs['n']) * min(gain, _MOST_GAIN):.2g}")
        shown = f"{'more than ' if gain > _MOST_GAIN else ''}{size:,.0f} draws"
        yield f"The corrected means (stein_mean) are as precise as those of {shown}."
    labels, table = parameter_table(moments, ["sd", "stein_mean", "uncorrected"])
    missing = table[(table[:, 0] > 0) & np.isnan(table[:, 1])]
    if len(missing):
        codes, counts = np.unique(missing[:, 2].astype(int), return_counts=True)
        reasons = [
            f"{why_uncorrected(code)} ({count:,})"
            for code, count in zip(codes, counts, strict=True)
        ]
        yield (
            f"The means of {len(missing):,} of {len(labels):,} parameters cannot be corrected: "
            f"{listed(reasons)}."
        )


def _not_shown(moments: xr.Dataset) -> Iterator[str]:
    """Name the free variables that could not be shown."""
    names = str(moments.attrs.get("not_shown", "")).splitlines()
    if names:
        more = len(names) - _LISTED
        shown = [*names[:_LISTED], f"{more:,} more"] if more > 0 else names
        yield f"Not shown, because the draws do not contain them: {listed(shown)}."


def _moment_numbers(moments: xr.Dataset) -> Iterator[tuple[str, str, str]]:
    """Walk the numbers of moments that matter, each with its meaning."""
    labels, _ = parameter_table(moments, ["mean"])
    family = f"smallest of all means and sds, adjusted for {len(labels):,} parameter(s)"
    yield "p-value", shown_p_value(moments).removeprefix("p ").removeprefix("= "), family
    if np.isfinite(moments["gain"]):
        meaning = "factor by which plain means need more draws to be as precise as corrected ones"
        gain = float(moments["gain"])
        yield (
            "gain",
            f"> {_MOST_GAIN:,}" if gain > _MOST_GAIN else f"{float(f'{gain:.3g}'):,g}",
            meaning,
        )
