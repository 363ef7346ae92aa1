"""What the command line prints for programs: JSON of a documented, versioned shape.

``docs/schema/pymc-ksd-1.json`` is the schema. Within a version keys are added and never removed or
given another meaning; a change that breaks this is a new version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import xarray as xr

import pymc_ksd.diagnostics.sentences as sentences
from pymc_ksd._version import __version__
from pymc_ksd.diagnostics.judged import deciding
from pymc_ksd.diagnostics.results import status_of
from pymc_ksd.report.report import Report
from pymc_ksd.report.verdict import is_weak_against_draws, is_weak_against_model
from pymc_ksd.samplers.battery_result import BatteryResult, as_records

#: The version of the schema.
SCHEMA_VERSION = "1.0"
#: What to do next, by the code of a reason why nothing can be told.
_ACTIONS = {
    "mismatch": "match_draws_and_model",
    "chains_stand_still": "mend_sampler",
    "few_replicates": "more_replicates",
    "few_draws": "more_draws",
    "margin_undecided": "more_draws",
    "few_draws_dominate": "reparametrize",
    "not_finite": "mend_input",
    "not_corrected": "reparametrize",
    "not_run": "mend_input",
    "could_not_run": "mend_input",
    "interrupted": "run_again",
    "control_not_caught": "run_again",
    "not_tested": "mend_sampler",
}
#: For reasons that are not named above: of chains and modes.
_LONGER = "run_longer_chains"


def of_check(
    report: Report, exit_code: int, comparison: pd.DataFrame | None, left_out: Sequence[str]
) -> dict[str, Any]:
    """Return what ``pymc-ksd check`` found, and what was asked for beside it and not made.

    What was not made is a reason unless something is rejected, which needs none.
    """
    left_out = [] if report.rejected else list(left_out)
    reasons = list(_reasons(report)) if report.status == "cannot tell" else []
    cause = _cause(report)
    steps = [_step(_action(report, cause, reasons), report.verdict.next_step)]
    if left_out and report.status == "passed":
        steps = []
    code = "not_run"
    steps += [_step(_ACTIONS[code], sentences.after_failure(code, text)) for text in left_out]
    found = {
        **report.to_dict(),
        "reason": "" if report.rejected else " ".join(filter(None, [report.reason, *left_out])),
        "cause": cause,
        "reasons": [*reasons, *(_reason(code, "report", text) for text in left_out)],
        "next_steps": steps,
        "comparison": None if comparison is None else as_records(comparison),
    }
    return {**_envelope("check", exit_code), **found}


def of_battery(result: BatteryResult, exit_code: int) -> dict[str, Any]:
    """Return what ``pymc-ksd battery`` found."""
    reasons = []
    if result.status == "rejected":
        steps = [
            _step("mend_sampler", sentences.after_battery("rejected", *result.having("rejected")))
        ]
    elif result.passed:
        steps = [_step("use_sampler", sentences.after_battery("passed"))]
    else:
        for name, row in result.table.iterrows():
            if row["status"] != "passed":
                code = str(row["status"]).replace(" ", "_")
                reasons.append(_reason(code, str(name), str(row["reason"])))
        text = "This sampler is wrong and was not caught."
        reasons += [_reason("control_not_caught", name, text) for name in result.missed]
        steps = [
            _step(
                _ACTIONS.get(one["code"], _LONGER),
                sentences.after_battery(one["code"], one["about"]),
            )
            for one in reasons
        ]
    return {
        **_envelope("battery", exit_code),
        **result.to_dict(),
        "cause": "sampler" if result.status == "rejected" else None,
        "reasons": reasons,
        "next_steps": steps,
    }


def of_failure(kind: str, exit_code: int, code: str, reason: str) -> dict[str, Any]:
    """Return why a command could not run."""
    return {
        **_envelope(kind, exit_code),
        "status": "cannot tell",
        "reason": reason,
        "error": reason,
        "cause": "mismatch" if code == "mismatch" else None,
        "reasons": [_reason(code, "run", reason)],
        "next_steps": [_step(_ACTIONS[code], sentences.after_failure(code, reason))],
    }


def _envelope(kind: str, exit_code: int) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "pymc_ksd_version": __version__,
        "exit_code": exit_code,
    }


def _reason(code: str, about: str, text: str) -> dict[str, str]:
    return {"code": code, "about": about, "text": text}


def _step(action: str, text: str) -> dict[str, str]:
    return {"action": action, "text": text}


def _parts(report: Report) -> Mapping[str, xr.Dataset | None]:
    """Return the results that a report rests on, by what they are about."""
    draws = deciding(report.test, report.moments)
    return {"draws": draws, "modes": report.modes, "model": report.check}


def _reasons(report: Report) -> Iterable[dict[str, str]]:
    """Return why results cannot tell, and what was not made."""
    for about, result in _parts(report).items():
        if result is not None and status_of(result) == "cannot tell":
            text = str(result.attrs.get("reason", ""))
            yield _reason(str(result.attrs["reason_code"]), about, text)
    for text in report.missing:
        yield _reason("not_run", "report", text)


def _cause(report: Report) -> str | None:
    """Return what is to blame: that draws and model do not belong together, sampler or model."""
    results = [one for one in (report.test, report.moments, report.check) if one is not None]
    if any(one.attrs.get("mismatch") for one in results):
        return "mismatch"
    if not report.rejected:
        return None
    parts = _parts(report)
    wrong = [about for about, one in parts.items() if one is not None and _rejects(one)]
    return "model" if wrong == ["model"] else "sampler"


def _rejects(result: xr.Dataset) -> bool:
    return status_of(result) == "rejected"


def _action(report: Report, cause: str | None, reasons: Sequence[Mapping[str, str]]) -> str:
    """Return what to do next."""
    if cause == "mismatch":
        return "match_draws_and_model"
    if cause == "model":
        return "repeat_with_other_data" if is_weak_against_model(report.check) else "extend_model"
    if cause == "sampler":
        decides = deciding(report.test, report.moments)
        weak = decides is not None and is_weak_against_draws(decides, report.moments)
        return "sample_again" if weak else "mend_sampler"
    if reasons:
        return _ACTIONS.get(reasons[0]["code"], _LONGER)
    return "use_draws"
