"""Where a fitted model fails, and how to extend it, in words that suit its likelihood."""

from __future__ import annotations

from collections.abc import Iterable

import xarray as xr

from pymc_ksd.diagnostics.sentences import listed

#: Columns of inputs or covariates that are named.
_NAMED = 3
#: What a comparison that shows a misfit means.
_MEANINGS = {
    "residuals": "The residuals of all observations together have the wrong distribution",
    "parameters": "The misfit depends on the fitted values",
    "past": "The misfit depends on earlier values",
    "inputs": "The misfit depends on the inputs",
    "groups": "The misfit differs between groups",
    "inputs within groups": "The misfit depends on the inputs, differently in each group",
    "covariates": "The misfit depends on the covariates that were given",
    "covariates within groups": "The misfit depends on the covariates, differently in each group",
}
#: How to extend the model, by the comparison that shows the misfit most and the kind of outcome.
_SPREAD = "let the spread depend on them"
_EXTENSIONS: dict[str, dict[str, str]] = {
    "residuals": {
        "continuous": "Try a likelihood with heavier tails or skewness, or a mixture.",
        "count": "Try a likelihood with another spread, such as a negative binomial or a "
        "zero-inflated one.",
        "other": "Add predictors or group effects: the frequencies of outcomes do not fit.",
    },
    "parameters": {
        "continuous": "Let the spread depend on the fitted values, or model the outcome on another "
        "scale.",
        "count": "Try a negative binomial likelihood or another link function.",
        "other": "Try another link function, or nonlinear effects of the predictors.",
    },
    "past": {
        "continuous": "Add lags, or let the spread depend on earlier values.",
        "other": "Add lags.",
    },
    "inputs": {
        "continuous": "Add a nonlinear term, an interaction or a group effect, or " + _SPREAD + ".",
        "other": "Add a nonlinear term, an interaction or a group effect.",
    },
    "groups": {
        "continuous": "Add a group effect, or let the spread differ between groups.",
        "other": "Add a group effect.",
    },
    "inputs within groups": {"other": "Let the effects of the inputs vary between groups."},
    "covariates": {"other": "Let the model depend on these covariates."},
    "covariates within groups": {
        "other": "Let the model depend on these covariates, with effects that vary between groups."
    },
}


def where_it_shows(check: xr.Dataset, strongest: str) -> list[str]:
    """Say which comparisons show a misfit by themselves, the strongest first."""
    p_values = zip(check["comparison"].values, check["comparison_p_value"].values, strict=True)
    alpha = float(check.attrs["alpha"])
    others = [str(name) for name, p in p_values if p <= alpha and name != strongest]
    return [
        f"{_MEANINGS[kind]}{f', most of all on {listed(names[:_NAMED])}' if names else ''}."
        for kind, names in _by_kind([strongest, *others]).items()
    ]


def how_to_extend(check: xr.Dataset, strongest: str) -> str:
    """Say how to extend the model where it fails most."""
    (kind,) = _by_kind([strongest])
    extensions = _EXTENSIONS[kind]
    return extensions.get(_outcome(check), extensions["other"])


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
