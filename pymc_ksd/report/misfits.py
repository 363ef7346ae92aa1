"""Where a fitted model fails, and how to extend it, in words that suit its likelihood."""

from __future__ import annotations

from collections.abc import Iterable

import xarray as xr

from pymc_ksd.diagnostics.predictive.marks import marks
from pymc_ksd.diagnostics.sentences import EXTENSIONS, MISFITS, OTHER_SPREAD, listed

#: Columns of inputs or covariates that are named.
_NAMED = 3


def where_it_shows(check: xr.Dataset, strongest: str) -> list[str]:
    """Say which comparisons show a misfit by themselves, the strongest first."""
    p_values = zip(check["comparison"].values, check["comparison_p_value"].values, strict=True)
    alpha = float(check.attrs["alpha"])
    others = [str(name) for name, p in p_values if p <= alpha and name != strongest]
    return [
        f"{MISFITS[kind]}{f', most of all on {listed(names[:_NAMED])}' if names else ''}."
        for kind, names in _by_kind([strongest, *others]).items()
    ]


def how_to_extend(check: xr.Dataset, strongest: str) -> str:
    """Say how to extend the model where it fails most."""
    (kind,), outcome = _by_kind([strongest]), _outcome(check)
    marked = {word for *_, word in marks(check)} - {"different"}
    if outcome in OTHER_SPREAD and marked and marked <= {"wider", "narrower"}:
        return OTHER_SPREAD[outcome]
    extensions = EXTENSIONS[kind]
    return extensions.get(outcome, extensions["other"])


def _outcome(check: xr.Dataset) -> str:
    """Return the kind of outcome of one observed variable: of several, each has a line."""
    outcome, name = str(check.attrs.get("outcome", "")), str(check["variable"].item())
    lines = dict(line.rpartition(": ")[::2] for line in outcome.splitlines() if ": " in line)
    return lines.get(name, outcome)


def _by_kind(comparisons: Iterable[str]) -> dict[str, list[str]]:
    """Sort comparisons by kind: of many columns, each is compared under the name of its kind."""
    columns: dict[str, list[str]] = {}
    for comparison in comparisons:
        kind, _, column = comparison.partition(": ")
        columns.setdefault(kind, []).extend([column] if column else [])
    return columns
