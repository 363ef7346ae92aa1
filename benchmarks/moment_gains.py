"""How much corrected means gain on posteriors of data sets, and approximations that are found."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from benchmarks.published_posteriors import POSTERIORS, reference
from benchmarks.rates import ALPHA, Rate, generator, header
from benchmarks.real_models import MODELS, model_draws
from benchmarks.sampler_cases import linear_regression
from pymc_ksd import compile_score, ksd_moments, ksd_test

__all__ = ["approximation_rates", "approximations", "gains", "published", "variability"]

MARGIN = 0.1
#: Runs of approximations, and of the models by whose posteriors corrected means are judged.
APPROXIMATIONS, VARIABILITY = 40, 40
#: Draws of a run of a model, in four chains.
DRAWS = 250


def stacked(result: xr.Dataset, diagnostic: str) -> np.ndarray:
    """Return a diagnostic of all parameters in one array."""
    arrays = [array for array in result.values() if "diagnostic" in array.dims]
    return np.concatenate([np.ravel(array.sel(diagnostic=diagnostic)) for array in arrays])


def published(name: str) -> dict[str, Any]:
    """Return what single chains of reference draws gain, how their intervals cover, and more."""
    model, posterior = reference(name)
    score = compile_score(model)
    whole = ksd_moments(score, posterior, progressbar=False)
    chains = [
        ksd_moments(score, posterior.isel(chain=[number]), progressbar=False)
        for number in range(posterior.sizes["chain"])
    ]
    plain, corrected, errors = (
        np.array([stacked(one, key) for one in chains])
        for key in ("mean", "stein_mean", "stein_mcse")
    )
    allowed = 1.96 * np.hypot(errors, stacked(whole, "stein_mcse"))
    inside = np.abs(corrected - stacked(whole, "stein_mean")) < allowed
    gain = plain.var(axis=0) / corrected.var(axis=0)
    four = ksd_moments(score, posterior.isel(chain=slice(4)), margin=MARGIN, progressbar=False)
    return {
        "parameters": int(gain.size),
        "p_value": float(whole["p_value"]),
        "gain": float(np.median(gain)),
        "smallest": float(gain.min()),
        "covered": float(inside.mean()),
        "status": str(four.attrs["status"]),
    }


def variability(name: str, runs: int) -> dict[str, float]:
    """Return the variance of corrected means between runs, in units of that of plain means.

    Of the parameter that fares worst, and at the median of parameters.
    """
    model, draws = model_draws(name, runs * DRAWS)
    score, plain, corrected = compile_score(model), [], []
    for run in range(runs):
        rows = slice(run * DRAWS, (run + 1) * DRAWS)
        found = ksd_moments(score, draws.isel(draw=rows), progressbar=False)
        plain.append(stacked(found, "mean"))
        # Where there is no correction, the user has the plain mean.
        stein = stacked(found, "stein_mean")
        corrected.append(np.where(np.isfinite(stein), stein, plain[-1]))
    spread = np.var(plain, axis=0)
    ratio = np.var(corrected, axis=0)[spread > 0] / spread[spread > 0]
    return {"largest": float(ratio.max()), "median": float(np.median(ratio))}


def approximation_rates(method: str, replications: int) -> dict[str, Rate]:
    """Return how often an approximation of the posterior of a regression is found to be one."""
    model, rng = linear_regression(), generator(method, 0)
    score, counts = compile_score(model), {"moments": 0, "ksd_test": 0}
    for _ in range(replications):
        draws = _APPROXIMATIONS[method](model, int(rng.integers(2**31)))
        found = ksd_moments(score, draws, progressbar=False)
        counts["moments"] += float(found["p_value"]) <= ALPHA
        test = ksd_test(score, draws, n_bootstrap=199, random_seed=rng, progressbar=False)
        counts["ksd_test"] += float(test["p_value"]) <= ALPHA
    return {name: Rate(count, replications) for name, count in counts.items()}


def _advi(model: pm.Model, seed: int) -> Any:
    with model:
        fitted = pm.fit(20_000, method="advi", random_seed=seed, progressbar=False)
    return fitted.sample(1_000, random_seed=seed)


def _pathfinder(model: pm.Model, seed: int) -> Any:
    import pymc_extras

    with model:
        return pymc_extras.fit_pathfinder(num_draws=1_000, random_seed=seed, progressbar=False)


_APPROXIMATIONS: dict[str, Callable[[pm.Model, int], Any]] = {
    "mean-field ADVI": _advi,
    "Pathfinder": _pathfinder,
}


def approximations(runs: Callable[[int], int], measure: Callable[..., Future[Any]]) -> list[Any]:
    """Return the part of the page about approximations."""
    cells = {
        name: measure(approximation_rates, name, runs(APPROXIMATIONS)) for name in _APPROXIMATIONS
    }
    methods, rows = ("moments", "ksd_test"), []
    for name, cell in cells.items():
        rates = [str(Rate(**cell.result()[method])) for method in methods]
        rows.append(f"| {name} | {' | '.join(rates)} |")
    return [
        "Approximations of the posterior of a linear regression with correlated inputs, 1,000 "
        f"draws each, {runs(APPROXIMATIONS)} seeds:",
        [*header("draws of", *methods), *rows],
    ]


def gains(runs: Callable[[int], int], measure: Callable[..., Future[Any]]) -> list[Any]:
    """Return the part of the page about gains."""
    cells = {name: measure(published, name) for name in POSTERIORS}
    zoo = {name: measure(variability, name, max(10, runs(VARIABILITY))) for name in MODELS}
    rows = []
    for name, cell in cells.items():
        found = cell.result()
        rows.append(
            f"| {name} | {found['parameters']} | {found['p_value']:.2f} | {found['gain']:,.0f} | "
            f"{found['smallest']:,.1f} | {100 * found['covered']:.0f} | {found['status']} |"
        )
    return [
        "## Gain",
        "Reference draws of published posteriors, ten chains of 1,000. The variance of plain means "
        "between single chains, in units of that of corrected means, at the median of parameters "
        "and of the parameter that gains least; how often intervals of 1.96 `stein_mcse` cover the "
        f"corrected mean of all draws; and what 4 × 1,000 draws get with `margin={MARGIN:g}`.",
        [
            *header(
                "posterior", "parameters", "p-value", "gain", "least", "covered, %", "four chains"
            ),
            *rows,
        ],
        f"Models of many shapes, NUTS or exact draws, {max(10, runs(VARIABILITY))} runs of 4 × "
        f"{DRAWS} draws: the variance of corrected means between runs, in units of that of plain "
        "means, of the parameter that fares worst and at the median of parameters.",
        [
            *header("model", "largest", "median"),
            *(
                f"| {name} | {cell.result()['largest']:.2f} | {cell.result()['median']:.3f} |"
                for name, cell in zoo.items()
            ),
        ],
    ]
