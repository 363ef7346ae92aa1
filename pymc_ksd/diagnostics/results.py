"""Results as xarray datasets: numbers with names, settings as attributes that netCDF can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import pymc
import pytensor
import xarray as xr

from pymc_ksd._version import __version__
from pymc_ksd.models.observed.layout import Places
from pymc_ksd.models.target import Variable
from pymc_ksd.stats.statistics import VStatistic
from pymc_ksd.stats.test import Outcome

__all__ = [
    "at_places",
    "conclusion",
    "contribution_name",
    "contributions",
    "dataset_of_test",
    "elements",
    "parameter_sizes",
]

#: Growth of `ess_ksd` with the draws (1: in proportion) below which it counts as levelling off,
#: and the share of the draws it must stay below: a good sampler's curve is noisy, but high.
_LEVEL_SLOPE, _LEVEL_SHARE = 0.25, 0.2
_RESULT_DIMS = (
    *("bootstrap", "diagnostic", "chain"),
    *("sample", "comparison", "residual", "bound", "covariate", "position", "level", "variable"),
)
#: Names that results have, so that a variable's contribution cannot have them.
RESERVED = (
    "statistic",
    "p_value",
    "critical_value",
    "ksd",
    "ess_ksd",
    "ksd_per_chain",
    "ess_ksd_per_chain",
    "null_distribution",
    *("observed", "replicated", "comparison_p_value", "comparison_excess"),
    "observed_statistic",
    *("replicated_statistic", "contributions_of", "residual_value", "witness", "witness_band"),
    *("covariate_value", "covariate_witness", "covariate_witness_band"),
    *_RESULT_DIMS,
)


def dataset_of_test(
    outcome: Outcome, variables: Sequence[Variable], settings: Mapping[str, Any]
) -> xr.Dataset:
    """Return the Dataset of a goodness-of-fit test.

    Parameters
    ----------
    outcome : Outcome
        The numbers.
    variables : sequence of Variable
        The variables whose coordinates contributed.
    settings : mapping
        What decided the test; written to the attributes.

    Returns
    -------
    xarray.Dataset
    """
    estimate = outcome.estimate
    v = mean_diagonal = float("nan")
    if estimate.sums is not None:
        v, mean_diagonal = VStatistic().of_sums(estimate.sums), estimate.sums.diagonal.mean()
    fields: dict[str, Any] = {
        "statistic": ((), estimate.value),
        "p_value": ((), outcome.p_value),
        "critical_value": ((), outcome.critical_value),
        "ksd": ((), float(np.sqrt(max(v, 0.0))) if np.isfinite(v) else np.nan),
        "ess_ksd": ((), mean_diagonal / v if v > 0 else np.nan),
        "null_distribution": (("bootstrap",), outcome.null_distribution),
    }
    dataset = xr.Dataset(fields, attrs=attributes({"result": "ksd_test", **settings}))
    dataset.attrs = {"conclusion": conclusion(dataset), **dataset.attrs}
    if estimate.coordinates.size:
        dataset = dataset.merge(contributions(estimate.coordinates, variables))
    return dataset


def contribution_name(variable: str) -> str:
    """Return what a variable's contribution is called, also where a result has that name."""
    return f"{variable}_contribution" if variable in RESERVED else variable


def contributions(values: np.ndarray, variables: Sequence[Variable]) -> xr.Dataset:
    """Give each variable its part of a vector over unconstrained coordinates.

    A variable whose unconstrained coordinates do not belong to single elements (simplex, ordered,
    Cholesky factor) gets the sum of its coordinates.
    """
    arrays, start = {}, 0
    for variable in variables:
        stop = start + variable.unconstrained_size
        part, start = values[start:stop], stop
        name = contribution_name(variable.name)
        if not variable.elementwise:
            arrays[name] = xr.DataArray(float(part.sum()))
            continue
        dims = variable.dims or tuple(
            f"{variable.name}_dim_{axis}" for axis in range(len(variable.shape))
        )
        own, dims = dims, tuple(f"{dim}_" if dim in RESERVED else dim for dim in dims)
        coords = {
            dim: list(variable.coords[old])
            for dim, old in zip(dims, own, strict=True)
            if old in variable.coords
        }
        arrays[name] = xr.DataArray(part.reshape(variable.shape), dims=dims, coords=coords)
    return xr.Dataset(arrays)


def at_places(values: np.ndarray, places: Places) -> xr.Dataset:
    """Give each observation's number the variable's own name, dims and labels."""
    dims = tuple(f"{dim}_" if dim in RESERVED else dim for dim in places.dims)
    coords = {
        dim: list(places.coords[own])
        for dim, own in zip(dims, places.dims, strict=True)
        if own in places.coords
    }
    name = contribution_name(places.name)
    return xr.Dataset({name: xr.DataArray(places.spread(values), dims=dims, coords=coords)})


def elements(
    array: xr.DataArray, skip: str = ""
) -> Iterator[tuple[dict[Any, Any], dict[Any, int], np.ndarray]]:
    """Walk the elements of an array with their labels and positions, along all dims but `skip`."""
    dims = [dim for dim in array.dims if dim != skip]
    moved = array.transpose(*dims, ...)
    for index in np.ndindex(*(array.sizes[dim] for dim in dims)):
        position = dict(zip(dims, index, strict=True))
        selection = {
            dim: array[dim].values[at] if dim in array.coords else at
            for dim, at in position.items()
        }
        yield selection, position, moved.values[index]


def parameter_sizes(measures: xr.Dataset) -> tuple[list[str], np.ndarray]:
    """Return a label and (``ess_ksd``, ``ess_bulk``) for every parameter of what ``ksd`` found."""
    from arviz_base.labels import BaseLabeller

    labeller, labels, rows = BaseLabeller(), [], []
    for name, array in measures.items():
        if "diagnostic" not in array.dims:
            continue
        chosen = array.sel(diagnostic=["ess_ksd", "ess_bulk"])
        for selection, position, sizes in elements(chosen, skip="diagnostic"):
            labels.append(labeller.make_label_flat(name, selection, position))
            rows.append(sizes)
    return labels, np.array(rows).reshape(-1, 2)


def attributes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, versions and the time as attributes that netCDF can hold."""
    attrs = {key: _plain(value) for key, value in settings.items()}
    attrs["created_at"] = datetime.now(UTC).isoformat(timespec="seconds")
    attrs["inference_library"] = "pymc_ksd"
    attrs["inference_library_version"] = __version__
    attrs["pymc_version"] = pymc.__version__
    attrs["pytensor_version"] = pytensor.__version__
    attrs["arviz_version"] = _arviz_version()
    return attrs


@cache
def _arviz_version() -> str:
    """Return ArviZ's version without importing it; looking it up takes milliseconds."""
    return version("arviz")


def _plain(value: Any) -> Any:
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    if isinstance(value, str | int | float | np.integer | np.floating):
        return value
    if isinstance(value, np.ndarray | list | tuple):
        array = np.asarray(value)
        return array.item() if array.size == 1 else array
    return repr(value)


def rejects(result: xr.Dataset) -> bool:
    """Whether a test, or a check of one observed variable, rejects at its level."""
    return float(result["p_value"]) <= float(result.attrs["alpha"])


def by_variable(check: xr.Dataset) -> dict[str, xr.Dataset]:
    """Return the predictive check of every observed variable."""
    if "variable" not in check.dims:
        return {str(check["variable"].item()): check}
    return {str(name): check.sel(variable=name) for name in check["variable"].values}


def conclusion(result: xr.Dataset) -> str:
    """Say in one sentence what a test found."""
    p_value, alpha = float(result["p_value"]), float(result.attrs["alpha"])
    what = {
        "posterior": "the draws do not come from the posterior",
        "predictive": "the new data do not come from the posterior predictive distribution",
    }.get(result.attrs.get("target", ""), "")
    if not what:
        what = f"the {result.attrs.get('sample', 'data')} do not come from the model"
    if result.attrs.get("target") == "fitted":
        found = "does not explain" if p_value <= alpha else "may explain"
        return f"The model {found} {result['variable'].item()} (p = {p_value:.2g})."
    if p_value <= alpha:
        return f"Rejected at level {alpha:g} (p = {p_value:.2g}): {what}."
    return f"Not rejected at level {alpha:g} (p = {p_value:.2g}): no sign that {what}."


def worth(ess_ksd: float, n: int) -> str:
    """Say what draws are worth."""
    return f"{n:,} draws are worth {ess_ksd:,.0f} exact ones"


def growth(evolution: xr.Dataset) -> tuple[bool, str]:
    """Tell whether the effective sample size has stopped growing, and say so in words."""
    steps, sizes = evolution["n_draws"].values, evolution["ess_ksd"].values
    n_chains = evolution.sizes["chain"]
    quarter = int(np.argmin(np.abs(steps - steps[-1] / 4)))
    n, n_quarter = (int(steps[index]) * n_chains for index in (-1, quarter))
    total = worth(sizes[-1], n)
    if steps[quarter] == steps[-1]:
        return False, total
    slope = np.log(sizes[-1] / sizes[quarter]) / np.log(steps[-1] / steps[quarter])
    if slope < _LEVEL_SLOPE and sizes[-1] < _LEVEL_SHARE * n:
        return True, f"{total}, hardly more than the first {n_quarter:,} did"
    return False, total
