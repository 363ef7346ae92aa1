"""ArviZ's comparison of models by cross-validation, beside our own."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd

from pymc_ksd.samples.containers import log_likelihood_tree

#: What the columns are called here, and in either version of ArviZ.
_COLUMNS = {"elpd": ("elpd", "elpd_loo"), "elpd_diff": ("elpd_diff",), "elpd_dse": ("dse",)}


def with_elpd(table: pd.DataFrame, draws: Mapping[str, Any], variable: str) -> pd.DataFrame:
    """Return a table of models with the expected log predictive density by ``az.compare``.

    Its columns are NaN where draws have no log likelihood of the variable.
    """
    import arviz as az

    rounding = {"round_to": "none"} if "round_to" in signature(az.compare).parameters else {}
    stored = {name: log_likelihood_tree(one, variable) for name, one in draws.items()}
    if any(one is None for one in stored.values()):
        return table.assign(**dict.fromkeys(_COLUMNS, np.nan))
    with warnings.catch_warnings():
        # az.loo warns of Pareto shapes that are too large; those who need these numbers ask it.
        warnings.simplefilter("ignore")
        compared = az.compare(dict(draws), var_name=variable, **rounding)
    found = {
        ours: next(compared[theirs] for theirs in names if theirs in compared)
        for ours, names in _COLUMNS.items()
    }
    # ArviZ 1 counts how much lower the others are with a minus.
    found["elpd_diff"] = found["elpd_diff"].astype(float).abs()
    return table.assign(**{name: column.astype(float) for name, column in found.items()})
