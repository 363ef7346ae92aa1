"""The mean or standard deviation of draws that is least likely by chance, as a panel's member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.moments import ORDERS, ReadDraws, moments_of, shown_quantities
from pymc_ksd.diagnostics.prepare import Prepared
from pymc_ksd.diagnostics.results import parameter_table
from pymc_ksd.engine.walk import Effort
from pymc_ksd.samples.containers import as_only_variable, draws_group, with_numbers
from pymc_ksd.stats.panel import OtherTest


def moments_of_prepared(
    prepared: Prepared,
    data: Any,
    alpha: float,
    effort: Effort,
    margin: float | None = None,
    var_names: Sequence[str] | None = None,
) -> xr.Dataset:
    """Return what :func:`ksd_moments` returns of prepared draws, which are not scored again."""
    sample = prepared.sample
    posterior = draws_group(as_only_variable(data, prepared.target.variables))
    assert posterior is not None  # the draws were read from it
    draws = ReadDraws(prepared.target, sample, posterior, sample.n_draws, prepared.values)
    quantities = shown_quantities(draws, var_names)
    here = replace(effort, client=False)  # they are held, and cost little beside all pairs
    return moments_of(draws, quantities, ORDERS["auto"], alpha, margin, here)


def has_moments(prepared: Prepared, data: Any) -> bool:
    """Whether prepared draws are held, have scores, and are stored on a scale with moments."""
    target = prepared.target
    held = prepared.sample.are_draws and bool(prepared.values)
    if not held or target.operator != "langevin" or target.circular:
        return False
    posterior = draws_group(as_only_variable(data, target.variables))
    known = () if posterior is None else with_numbers(posterior)
    return any(name in known for name in target.names)


def largest_moment(prepared: Prepared, data: Any, alpha: float, effort: Effort) -> OtherTest | None:
    """Return the test of the mean or standard deviation that is least likely by chance.

    Its p-value is adjusted for all of them. There is none where draws have no score or are not
    held, or where there is a doubt about the draws or the standard errors, whatever these say.
    """
    if not has_moments(prepared, data):
        return None
    moments = moments_of_prepared(prepared, data, alpha, effort)
    if moments.attrs["doubt"]:
        return None
    labels, found = parameter_table(moments, ["z_mean", "z_sd", "p_mean", "p_sd"])
    z, p_values = np.abs(found[:, :2]), found[:, 2:]
    # Of several that are too small for a number, the one that is most standard errors off.
    worst = np.where(p_values == np.nanmin(p_values), z, -1.0)
    row, column = np.unravel_index(np.argmax(worst), worst.shape)
    name = f"{('mean', 'sd')[column]} of {labels[row]}"
    return OtherTest(name, float(z[row, column]), float(moments["p_value"]))
