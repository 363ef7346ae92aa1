"""Published posteriors with reference draws, written as PyMC models.

The archives stay outside the repository: the variable ``PYMC_KSD_POSTERIORDB`` names their folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

__all__ = ["FOLDER", "POSTERIORS", "reference"]

FOLDER = os.environ.get("PYMC_KSD_POSTERIORDB")


def _eight_schools(data: Mapping[str, np.ndarray]) -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta_trans = pm.Normal("theta_trans", 0, 1, shape=8)
        pm.Normal("y", mu + tau * theta_trans, data["sigma"], observed=data["y"])
    return model


def _kidiq(data: Mapping[str, np.ndarray]) -> pm.Model:
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=2)
        sigma = pm.HalfCauchy("sigma", 2.5)
        mean = beta[0] + beta[1] * data["mom_iq"]
        pm.Normal("kid_score", mean, sigma, observed=data["kid_score"])
    return model


def _autoregression(data: Mapping[str, np.ndarray]) -> pm.Model:
    series = data["y"].astype(float)
    order = int(data["K"])
    lags = np.stack([series[order - k : -k] for k in range(1, order + 1)], axis=1)
    with pm.Model() as model:
        alpha = pm.Normal("alpha", 0, 10)
        beta = pm.Normal("beta", 0, 10, shape=order)
        sigma = pm.HalfCauchy("sigma", 2.5)
        pm.Normal("y", alpha + pt.dot(lags, beta), sigma, observed=series[order:])
    return model


def _linear_regression(data: Mapping[str, np.ndarray]) -> pm.Model:
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=data["X"].shape[1])
        sigma = pm.HalfNormal("sigma", 10)
        pm.Normal("y", pt.dot(data["X"], beta), sigma, observed=data["y"])
    return model


POSTERIORS: dict[str, Callable[[Mapping[str, np.ndarray]], pm.Model]] = {
    "eight_schools-eight_schools_noncentered": _eight_schools,
    "kidiq-kidscore_momiq": _kidiq,
    "arK-arK": _autoregression,
    "sblri-blr": _linear_regression,
}


def reference(name: str) -> tuple[pm.Model, xr.Dataset]:
    """Return the model of a posterior, and its reference draws."""
    if FOLDER is None:
        raise ValueError("PYMC_KSD_POSTERIORDB must name the folder with the reference draws.")
    archive = np.load(Path(FOLDER) / f"{name}.npz")
    data = {key.removeprefix("data_"): archive[key] for key in archive if "data_" in key}
    draws = {}
    for key in archive:
        if key.startswith("draws_"):
            values = archive[key]
            extra = [f"{key}_{axis}" for axis in range(values.ndim - 2)]
            draws[key.removeprefix("draws_")] = (("chain", "draw", *extra), values)
    posterior = xr.Dataset(draws)
    if "theta" in posterior:
        # The archive has theta; the non-centred model has what theta is made from.
        theta_trans = (posterior["theta"] - posterior["mu"]) / posterior["tau"]
        posterior = posterior.drop_vars("theta").assign(theta_trans=theta_trans)
    return POSTERIORS[name](data), posterior
