"""ArviZ's comparison of models by cross-validation, beside our own."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd

from pymc_ksd.models.target import first_line
from pymc_ksd.options import warn_user
from pymc_ksd.samples.containers import log_likelihood_tree

#: What the columns are called here, and in either version of ArviZ.
_COLUMNS = {"elpd": ("elpd", "elpd_loo"), "elpd_diff": ("elpd_diff",), "elpd_dse": ("dse",)}


def with_elpd(table: pd.DataFrame, draws: Mapping[str, Any], variable: str) -> pd.DataFrame:
    """Return a table of models with the expected log predictive density by ``az.compare``.

    Its columns are NaN where draws have no log likelihood of the variable, where there are no
    draws, and, with a warning, where ArviZ cannot compare them.
    """
    stored = {name: log_likelihood_tree(one, variable) for name, one in draws.items()}
    unknown = table.assign(**dict.fromkeys(_COLUMNS, np.nan))
    if not draws or any(one is None for one in stored.values()):
        return unknown
    try:
        with warnings.catch_warnings():
            # One of our own tells of Pareto shapes of all models.
            warnings.simplefilter("ignore")
            found, worst = _compared(draws, variable)
    except Exception as error:  # the other columns are worth having without these
        warn_user(
            "`az.compare` could not compare the models, so that elpd columns are NaN: "
            f"{type(error).__name__}: {first_line(error)}",
            UserWarning,
        )
        return unknown
    name, shape, limit = worst
    if not shape <= limit:
        warn_user(
            f"The elpd columns are not reliable: of the model {name!r}, Pareto k is {shape:.2f}, "
            f"above {limit:.2f}. `az.loo` tells of which observations.",
            UserWarning,
        )
    return table.assign(**{name: column.astype(float) for name, column in found.items()})


def _compared(
    draws: Mapping[str, Any], variable: str
) -> tuple[dict[str, pd.Series], tuple[str, float, float]]:
    """Return our columns, and the model with the largest Pareto k, that and the limit for it."""
    import arviz as az

    rounding = {"round_to": "none"} if "round_to" in signature(az.compare).parameters else {}
    each = {name: az.loo(one, pointwise=True, var_name=variable) for name, one in draws.items()}
    shapes = {name: float(np.max(np.asarray(one.pareto_k))) for name, one in each.items()}
    worst = max(shapes, key=lambda name: shapes[name] - each[name].good_k)
    compared = az.compare(each, **rounding)
    found = {
        ours: next(compared[theirs] for theirs in names if theirs in compared)
        for ours, names in _COLUMNS.items()
    }
    # ArviZ 1 counts how much lower the others are with a minus.
    found["elpd_diff"] = found["elpd_diff"].astype(float).abs()
    return found, (worst, shapes[worst], float(each[worst].good_k))
