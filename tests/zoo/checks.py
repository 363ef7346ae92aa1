"""How each public function is called, and what a result of the right kind is."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

import pymc_ksd
from tests.zoo.draws import pymc_model
from tests.zoo.registry import CANNOT_TELL, MAY_NOT_TELL, NOT_PASSED, Entry

__all__ = ["call", "check"]

#: What explanations call a result that tells nothing.
NOTHING_TOLD = {"unknown", "cannot tell"}
#: Exact draws of a true model have a smaller p-value once in a hundred times; seeds are fixed.
SMALLEST = 0.01


def call(function: str, model: Any, draws: xr.Dataset) -> Any:
    """Call a public function as a user would, with few replicates."""
    options: dict[str, Any] = {"progressbar": False, "random_seed": 1}
    if function in ("ksd_summary", "ksd_moments", "ksd_expectation"):
        del options["random_seed"]
    if function == "ksd_expectation":
        first = next(name for name in _names(pymc_model(model)) if name in draws)
        return pm.ksd_expectation(model, draws, lambda posterior: posterior[first] ** 2, **options)
    if function == "compile_score":
        score = pymc_ksd.compile_score(model)
        few = draws.isel(chain=0, draw=slice(5))
        names = _names(pymc_model(model))
        points = score.unconstrain({name: few[name].values for name in names})
        return points, score(points)
    if function in ("ksd_ppc", "ksd_report"):
        options["num_draws"] = 25
    return getattr(pm, function)(model, draws, **options)


def check(function: str, entry: Entry, model: Any, draws: xr.Dataset, result: Any) -> None:
    """Assert that a result is of the right kind, and tells what is expected."""
    _CHECKS[function](entry, pymc_model(model), draws, result)


def _names(model: pm.Model) -> list[str]:
    return [rv.name for rv in model.free_RVs]


def _check_score(entry: Entry, model: pm.Model, draws: xr.Dataset, result: Any) -> None:
    points, scores = result
    d = sum(np.size(value) for value in model.initial_point(random_seed=1).values())
    assert points.shape == scores.shape == (5, d)
    assert np.isfinite(points).all()
    assert np.isfinite(scores).all()


def _check_told(entry: Entry, function: str, status: str, p_value: float, reason: str = "") -> None:
    expected = entry.expectation(function)
    if expected == CANNOT_TELL:
        assert status in NOTHING_TOLD
    elif expected == NOT_PASSED:
        assert status in {"rejected", *NOTHING_TOLD}
    elif expected == MAY_NOT_TELL:
        # A p-value that is always one tells nothing, and has to say so.
        assert status in NOTHING_TOLD or p_value < 0.99
    else:
        # Fifty draws in a chain are few, and some models have many parameters.
        assert status not in NOTHING_TOLD or "chains are short" in reason
        assert entry.exact is None or p_value > SMALLEST


def _check_test(entry: Entry, model: pm.Model, draws: xr.Dataset, result: xr.Dataset) -> None:
    assert result.attrs["result"] == "ksd_test"
    assert 0 < float(result["p_value"]) <= 1
    assert np.isfinite([result["statistic"], result["ksd"], result["ess_ksd"]]).all()
    for name in _names(model):
        own = _of_variable(result, name)
        assert np.isfinite(own).all()
        # Simplexes and the like show one number.
        assert own.dims in ((), _own_dims(draws[name]))
    status = pymc_ksd.explain(result).status
    _check_told(entry, "ksd_test", status, float(result["p_value"]), result.attrs["reason"])


def _of_variable(result: xr.Dataset, name: str) -> xr.DataArray:
    """Return what a result says of a variable, whose name may be taken."""
    return result[name if name in result else f"{name}_contribution"]


def _own_dims(array: xr.DataArray) -> tuple[str, ...]:
    return tuple(str(dim) for dim in array.dims if dim not in ("chain", "draw"))


def _check_distance(entry: Entry, model: pm.Model, draws: xr.Dataset, result: xr.Dataset) -> None:
    assert result.attrs["result"] == "ksd"
    for name in ("ksd", "ess_ksd", "ksd_per_chain", "ess_ksd_per_chain"):
        assert np.isfinite(result[name]).all()
        assert (result[name] > 0).all()
    for name in _names(model):
        own = _of_variable(result, name).sel(diagnostic=["ksd", "ess_ksd"])
        assert np.isfinite(own).all()


def _check_summary(entry: Entry, model: pm.Model, draws: xr.Dataset, table: pd.DataFrame) -> None:
    assert len(table) == sum(draws[name].isel(chain=0, draw=0).size for name in _names(model))
    p_values = table["p_value"].to_numpy(dtype=float)
    # Elements that never vary, as the corner of a Cholesky factor, have none.
    varying = table["sd"].to_numpy(dtype=float) > 0
    assert ((p_values[varying] >= 0) & (p_values[varying] <= 1)).all()
    known = table[["stein_mean", "stein_mcse"]].to_numpy(dtype=float)[varying]
    assert (np.isfinite(known).all(axis=1) | np.isnan(known).all(axis=1)).all()
    for name in _names(model):
        assert any(str(row) == name or str(row).startswith(f"{name}[") for row in table.index)


def _check_moments(entry: Entry, model: pm.Model, draws: xr.Dataset, result: xr.Dataset) -> None:
    assert result.attrs["result"] == "ksd_moments"
    for name in _names(model):
        key = name if name in result else f"{name}_moments"
        assert result[key].dims == (*_own_dims(draws[name]), "diagnostic")
        _check_diagnostics(result[key])
    status = pymc_ksd.explain(result).status
    if entry.expectation("ksd_test") == CANNOT_TELL:
        assert status in NOTHING_TOLD
    elif entry.expectation("ksd_test") == NOT_PASSED:
        assert status in {"rejected", *NOTHING_TOLD}
    elif entry.exact is not None:
        assert float(result["p_value"]) > SMALLEST
    # A hundred draws may be too few, or a few of them decide.
    assert (status in NOTHING_TOLD) == bool(result.attrs["reason"])


def _check_expectation(
    entry: Entry, model: pm.Model, draws: xr.Dataset, result: xr.Dataset
) -> None:
    assert result.attrs["result"] == "ksd_expectation"
    first = next(name for name in _names(model) if name in draws)
    np.testing.assert_allclose(
        result["expectation"].sel(diagnostic="mean"), (draws[first] ** 2).mean(("chain", "draw"))
    )
    _check_diagnostics(result["expectation"])


def _check_diagnostics(moments: xr.DataArray) -> None:
    """Assert that what varies has plain numbers, and corrected ones or a reason why not."""
    found = {
        str(name): moments.sel(diagnostic=name).values for name in moments["diagnostic"].values
    }
    varies = found["sd"] > 0
    for name in ("mean", "sd", "mcse_mean"):
        assert np.isfinite(found[name]).all()
    for name in ("p_mean", "p_sd"):
        assert ((found[name] >= 0) & (found[name] <= 1))[varies].all()
    for value, error in (("stein_mean", "stein_mcse"), ("bias_mean", "mcse_bias_mean")):
        np.testing.assert_array_equal(np.isfinite(found[value]), np.isfinite(found[error]))
    np.testing.assert_array_equal(np.isfinite(found["stein_sd"]), found["uncorrected"] == 0)


def _check_evolution(entry: Entry, model: pm.Model, draws: xr.Dataset, result: xr.Dataset) -> None:
    assert result.attrs["result"] == "ksd_evolution"
    assert int(result["n_draws"][-1]) == draws.sizes["draw"]
    assert np.isfinite(result["ksd"]).all()
    assert result["ksd_per_chain"].sizes["chain"] == draws.sizes["chain"]


def _check_predictive(entry: Entry, model: pm.Model, draws: xr.Dataset, check: xr.Dataset) -> None:
    assert check.attrs["result"] == "ksd_ppc"
    checked = [str(name) for name in np.atleast_1d(check["variable"].values)]
    assert set(checked) == set(entry.parts or entry.checked or _observed(model))
    assert ((check["p_value"] > 0) & (check["p_value"] <= 1)).all()
    if entry.exact is not None:
        assert (check["p_value"] > SMALLEST).all()
    for name in checked:
        assert np.isfinite(_of_variable(check, name)).any()


def _observed(model: pm.Model) -> list[str]:
    return [rv.name.removesuffix("_observed") for rv in model.observed_RVs]


def _check_report(entry: Entry, model: pm.Model, draws: xr.Dataset, report: Any) -> None:
    expected = entry.expectation("ksd_report")
    assert report.verdict.status in {"passed", "rejected", "cannot tell"}
    if expected == NOT_PASSED:
        assert report.verdict.status != "passed"
    for part, function in (("test", "ksd_test"), ("check", "ksd_ppc")):
        was_done = getattr(report, part) is not None
        wanted = entry.expectation(function)
        # What is a warning to the caller of a function is a finding of the report.
        warns = UserWarning in np.atleast_1d(getattr(wanted, "kind", None))
        assert was_done == isinstance(wanted, str) or warns or getattr(wanted, "may_work", False)
    assert html.escape(report.verdict.headline) in report.to_html()


_CHECKS: dict[str, Callable[..., None]] = {
    "compile_score": _check_score,
    "ksd_test": _check_test,
    "ksd": _check_distance,
    "ksd_summary": _check_summary,
    "ksd_evolution": _check_evolution,
    "ksd_moments": _check_moments,
    "ksd_expectation": _check_expectation,
    "ksd_ppc": _check_predictive,
    "ksd_report": _check_report,
}
