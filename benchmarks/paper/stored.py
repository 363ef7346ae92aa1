"""Results of the experiments: stored as small netCDF files, and what is read off them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from benchmarks.measurements import versions
from benchmarks.paper.trials import Experiment, Setting, is_alternative
from benchmarks.rates import ALPHA

__all__ = [
    "RESULTS",
    "auc",
    "chosen_settings",
    "difference",
    "errors",
    "load",
    "save",
    "to_dataset",
]

#: Where results lie.
RESULTS = Path(__file__).parent / "results"


def to_dataset(
    experiment: Experiment,
    results: Mapping[Setting, Mapping[str, Any]],
    *,
    seed: int,
    processes: int,
) -> xr.Dataset:
    """Put the trials of all settings into one dataset.

    Returns
    -------
    xarray.Dataset
        ``p_value`` and ``discrepancy`` over the dims setting, trial and test; settings and the
        trials' hypothesis are coordinates.
    """
    settings = list(results)
    dims = ("setting", "trial", "test")
    values = {
        name: (dims, np.stack([results[setting][name] for setting in settings]).astype("float32"))
        for name in ("p_value", "discrepancy")
    }
    n_trials = next(iter(values.values()))[1].shape[1]
    seconds = sum(results[setting]["seconds"] for setting in settings)
    return xr.Dataset(
        values,
        coords={
            "perturbed": ("setting", [setting.perturbed for setting in settings]),
            "deviation": ("setting", [setting.deviation for setting in settings]),
            "n": ("setting", [setting.n for setting in settings]),
            "alternative": ("trial", [is_alternative(number) for number in range(n_trials)]),
            "test": list(experiment.methods),
        },
        attrs={
            "experiment": experiment.name,
            "seed": seed,
            "core_minutes": seconds / 60,
            "processes": processes,
            "versions": json.dumps(versions()),
        },
    )


def save(dataset: xr.Dataset, folder: Path = RESULTS) -> Path:
    """Write a dataset, compressed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{dataset.attrs['experiment']}.nc"
    packed = {name: {"zlib": True, "complevel": 9, "shuffle": True} for name in dataset.data_vars}
    dataset.to_netcdf(path, engine="h5netcdf", encoding=packed)
    return path


def load(name: str, folder: Path = RESULTS) -> xr.Dataset:
    """Read the stored results of an experiment."""
    return xr.load_dataset(folder / f"{name}.nc", engine="h5netcdf")


def _wrong(results: xr.Dataset) -> xr.DataArray:
    """Return 1 where a test at level 0.05 is wrong, 0 where right, NaN where it was not run."""
    rejected = (results["p_value"] <= ALPHA).where(results["p_value"].notnull())
    return xr.where(results["alternative"], 1 - rejected, rejected)


def _by_hypothesis(results: xr.Dataset, values: xr.DataArray) -> list[xr.DataArray]:
    """Divide trials: true models first, then perturbed ones."""
    chosen = results["alternative"].values.astype(bool)
    return [values.isel(trial=np.flatnonzero(kind)) for kind in (~chosen, chosen)]


def errors(results: xr.Dataset) -> xr.Dataset:
    """Return how often each method is wrong at level 0.05, with Monte Carlo standard errors.

    Parameters
    ----------
    results : xarray.Dataset
        See :func:`to_dataset`.

    Returns
    -------
    xarray.Dataset
        Over the dims setting and test: ``type_1``, the share of true models that are rejected,
        ``type_2``, the share of perturbed models that are not, ``error_rate``, their mean, and
        ``type_1_se``, ``type_2_se``, ``error_rate_se``; NaN where a method was not run.
    """
    rates, ses = {}, {}
    for name, part in zip(
        ("type_1", "type_2"), _by_hypothesis(results, _wrong(results)), strict=True
    ):
        rates[name] = part.mean("trial")
        ses[f"{name}_se"] = np.sqrt(rates[name] * (1 - rates[name]) / part.sizes["trial"])
    rates["error_rate"] = (rates["type_1"] + rates["type_2"]) / 2
    ses["error_rate_se"] = np.hypot(ses["type_1_se"], ses["type_2_se"]) / 2
    return xr.Dataset({**rates, **ses})


def difference(results: xr.Dataset, method: str, other: str) -> xr.Dataset:
    """Return by how much a method's error rate exceeds another's on the same trials.

    Returns
    -------
    xarray.Dataset
        Over the dim setting: ``difference`` of the error rates and ``se``, its standard error, in
        which what the two methods share has no part.
    """
    wrong = _wrong(results)
    parts = _by_hypothesis(results, wrong.sel(test=method) - wrong.sel(test=other))
    variances = [part.var("trial", ddof=1) / part.sizes["trial"] for part in parts]
    mean = sum(part.mean("trial") for part in parts) / 2
    return xr.Dataset({"difference": mean, "se": np.sqrt(sum(variances)) / 2})


def auc(results: xr.Dataset, setting: int, method: str, measure: str = "discrepancy") -> float:
    """Return the probability that a method measures more under the alternative than else.

    It is 1 for a measure that tells all pairs of trials apart, and 1/2 for one that tells nothing.
    """
    values = results[measure].isel(setting=setting).sel(test=method).values.astype(float)
    chosen = results["alternative"].values.astype(bool)
    if measure == "p_value":
        values = -values
    greater = stats.mannwhitneyu(values[chosen], values[~chosen]).statistic
    return float(greater / (chosen.sum() * (~chosen).sum()))


def chosen_settings(
    results: xr.Dataset, *, perturbed: str, along: str, fixed: Mapping[str, float]
) -> Sequence[int]:
    """Return the settings of one curve, in the order of what varies along it."""
    keep = results["perturbed"] == perturbed
    for name, value in fixed.items():
        keep = keep & (results[name] == value)
    numbers = np.flatnonzero(keep)
    return list(numbers[np.argsort(results[along].values[numbers])])
