"""How often ``ksd_compare_models`` prefers the true model, and its intervals cover.

``python -m benchmarks.model_comparison`` repeats every measurement and writes
``docs/model_comparison.md``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr
from scipy import special, stats

from benchmarks.measurements import measured, write_scaled_page
from benchmarks.rates import Rate, generator, header, page
from pymc_ksd import ksd_compare_models

#: Data sets of a pair of models, and of intervals.
RUNS, COVERED = 200, 400
#: Draws of every posterior.
DRAWS = 400
#: The number of standard errors from which on a difference of log densities is clear.
CLEAR = 2.0
#: Observations from which a difference is taken as known.
MANY = 20_000


@dataclass(frozen=True)
class Fit:
    """A fitted model: its name, itself, draws of its posterior, and log likelihoods of the data."""

    name: str
    model: pm.Model
    draws: xr.Dataset
    log_likelihood: np.ndarray

    @property
    def tree(self) -> Any:
        """The draws with log likelihoods, as ArviZ takes them."""
        stored = xr.Dataset({"y": (("chain", "draw", "i"), self.log_likelihood[None])})
        if "InferenceData" not in vars(az):  # ArviZ 1
            return xr.DataTree.from_dict({"/posterior": self.draws, "/log_likelihood": stored})
        return az.InferenceData(posterior=self.draws, log_likelihood=stored)


@cache
def _model(kind: str, n: int, columns: int) -> pm.Model:
    """Return a regression, written once; its data are set later."""
    counts = kind in ("Poisson", "negative binomial")
    with pm.Model() as model:
        design = pm.Data("design", np.zeros((n, columns)))
        outcome = pm.Data("outcome", np.zeros(n, dtype=int if counts else float))
        b = pm.Normal("b", 0, 100, shape=columns)
        predictor = pm.math.dot(design, b)
        if kind == "normal":
            pm.Normal("y", predictor, pm.HalfNormal("sd", 100), observed=outcome)
        elif kind == "Student-t":
            pm.StudentT("y", nu=4, mu=predictor, sigma=pm.HalfNormal("sd", 100), observed=outcome)
        elif kind == "Poisson":
            pm.Poisson("y", pm.math.exp(predictor), observed=outcome)
        else:
            alpha = pm.HalfNormal("alpha", 100)
            pm.NegativeBinomial("y", mu=pm.math.exp(predictor), alpha=alpha, observed=outcome)
    return model


def _log_likelihoods(
    kind: str, design: np.ndarray, y: np.ndarray, parameters: np.ndarray
) -> np.ndarray:
    """Return log likelihoods of shape (draws, n); the last parameter is the log of a scale."""
    scaled = kind != "Poisson"
    b = parameters[:, :-1] if scaled else parameters
    predictor = b @ design.T
    scale = np.exp(parameters[:, -1:]) if scaled else np.nan
    if kind == "normal":
        return np.asarray(stats.norm.logpdf(y, predictor, scale))
    if kind == "Student-t":
        return np.asarray(stats.t.logpdf(y, 4, predictor, scale))
    mean = np.exp(predictor)
    if kind == "Poisson":
        return np.asarray(y * predictor - mean - special.gammaln(y + 1))
    return np.asarray(stats.nbinom.logpmf(y, scale, scale / (scale + mean)))


def fit(kind: str, design: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Fit:
    """Draw from a posterior with flat priors by importance resampling around its mode."""
    from scipy.optimize import minimize

    size = design.shape[1] + (kind != "Poisson")

    def total(parameters: np.ndarray) -> float:
        return -float(_log_likelihoods(kind, design, y, parameters[None]).sum())

    start = np.zeros(size)
    start[0] = np.log(y.mean()) if kind in ("Poisson", "negative binomial") else y.mean()
    best = minimize(total, start, method="BFGS")
    covariance = (best.hess_inv + best.hess_inv.T) / 2
    proposal = stats.multivariate_t(best.x, covariance * 1.2, df=8, seed=rng)
    candidates = np.atleast_2d(proposal.rvs(5 * DRAWS)).reshape(-1, size)
    weights = _log_likelihoods(kind, design, y, candidates).sum(axis=1)
    weights = np.exp(weights - proposal.logpdf(candidates) - weights.max())
    chosen = rng.choice(len(candidates), DRAWS, p=weights / weights.sum())
    parameters = candidates[chosen]
    fields = {"b": (("chain", "draw", "k"), parameters[None, :, : design.shape[1]])}
    names = {"normal": "sd", "Student-t": "sd", "negative binomial": "alpha"}
    if kind in names:
        fields[names[kind]] = (("chain", "draw"), np.exp(parameters[None, :, -1]))
    model = _model(kind, len(y), design.shape[1])
    with model:
        pm.set_data({"design": design, "outcome": y})
    log_likelihood = _log_likelihoods(kind, design, y, parameters)
    return Fit(kind, model, xr.Dataset(fields), log_likelihood)


def _line(x: np.ndarray, degree: int) -> np.ndarray:
    return np.stack([x**power for power in range(degree + 1)], axis=1)


def _parabola(rng: np.random.Generator) -> list[Fit]:
    x = rng.uniform(-2, 2, size=200)
    y = 1 + x + 0.35 * x**2 + rng.normal(size=200)
    return [fit("normal", _line(x, degree), y, rng) for degree in (2, 1)]


def _overdispersed(rng: np.random.Generator) -> list[Fit]:
    x = rng.normal(size=200)
    y = rng.poisson(rng.gamma(4, np.exp(1 + 0.4 * x) / 4))
    return [fit(kind, _line(x, 1), y, rng) for kind in ("negative binomial", "Poisson")]


def _heavy_tails(rng: np.random.Generator) -> list[Fit]:
    x = rng.normal(size=200)
    y = 1 + x + rng.standard_t(4, size=200)
    return [fit(kind, _line(x, 1), y, rng) for kind in ("Student-t", "normal")]


#: Pairs of fitted models, the true one first.
PAIRS: dict[str, Callable[[np.random.Generator], list[Fit]]] = {
    "parabola and line, normal noise": _parabola,
    "negative binomial and Poisson regression": _overdispersed,
    "Student-t(4) and normal noise": _heavy_tails,
}


def preferences(pair: str, runs: int) -> dict[str, int]:
    """Count how often the true model is preferred, by us and by cross-validation."""
    rng, counts = generator(pair, 0), dict.fromkeys(("ours", "clear", "loo", "both"), 0)
    for _ in range(runs):
        true, wrong = PAIRS[pair](rng)
        models = {str(i): (one.model, one.tree) for i, one in enumerate((true, wrong))}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ArviZ's about Pareto shapes
            table = ksd_compare_models(models, random_seed=rng, progressbar=False)
        ours = table.index[0] == "0"
        other = table.loc["1"]
        loo = table.loc["0", "elpd_diff"] == 0 and other["elpd_diff"] > CLEAR * other["elpd_dse"]
        counts["ours"] += ours
        counts["clear"] += bool(ours and other["clear"])
        counts["loo"] += bool(loo)
        counts["both"] += bool(loo and ours)
    return counts


def _known(kind: str) -> Callable[[np.ndarray, np.ndarray], dict[str, Any]]:
    """Return two models without anything to fit, both of them wrong."""
    settings = {
        "normal": lambda x: ((0.5 + x, 1.3), (0.3 + 1.2 * x, 1.0)),
        "Poisson": lambda x: ((np.exp(1 + 0.3 * x),), (np.exp(1.1 + 0.5 * x),)),
    }[kind]
    family = {"normal": pm.Normal, "Poisson": pm.Poisson}[kind]
    nothing = xr.Dataset({"none": (("chain", "draw"), np.zeros((1, 2)))})

    def models(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        found = {}
        for name, values in zip(("one", "two"), settings(x), strict=True):
            with pm.Model() as model:
                family("y", *values, observed=y)
            found[name] = model, nothing
        return found

    return models


def _difference(kind: str, n: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return by how much the second model is further off than the first, and the error of that."""
    x = rng.normal(size=n)
    y = x + 0.5 * x**2 + rng.normal(size=n)
    if kind == "Poisson":
        y = rng.poisson(rng.gamma(6, np.exp(1 + 0.4 * x) / 6))
    table = ksd_compare_models(
        _known(kind)(x, y), covariates=None, random_seed=rng, progressbar=False
    )
    other = table.index[1]
    sign = 1 if other == "two" else -1
    return sign * float(table.loc[other, "difference"]), float(table.loc[other, "dse"])


def coverage(kind: str, n: int, runs: int) -> Rate:
    """Return how often intervals of 1.96 errors cover a difference that is known."""
    rng = generator(f"coverage, {kind}", n)
    truth, error = _difference(kind, MANY, rng)
    found = np.array([_difference(kind, n, rng) for _ in range(runs)])
    covered = np.abs(found[:, 0] - truth) <= 1.96 * np.hypot(found[:, 1], error)
    return Rate(int(covered.sum()), runs)


def _report(scale: float, measure: Callable[..., Future[Any]]) -> str:
    def runs(number: int) -> int:
        return max(2, round(scale * number))

    command = "python -m benchmarks.model_comparison"
    command += "" if scale == 1 else f" --scale {scale:g}"
    pairs = {pair: measure(preferences, pair, runs(RUNS)) for pair in PAIRS}
    cells = {
        (kind, n): measure(coverage, kind, n, runs(COVERED))
        for kind in ("normal", "Poisson")
        for n in (100, 400)
    }
    return page(
        [
            "# Which of two models: how often the true one",
            "How often does `ksd_compare_models` prefer the true one of two fitted models, and how "
            "often do its intervals cover the difference of the discrepancies? Numbers are in per "
            "cent, ± one Monte Carlo standard error. Seeds are fixed, by one rule for all cells.",
            f"```\n{command}\n```",
            "## The true model is preferred",
            f"{runs(RUNS)} data sets of 200 observations, posteriors with flat priors by "
            "importance resampling. *Clear* means that the interval of 95 % leaves out zero; for "
            "leave-one-out cross-validation (`az.compare`) that the difference is more than "
            f"{CLEAR:g} standard errors.",
            [
                *header(
                    "models, the true one first",
                    "preferred",
                    "clearly preferred",
                    "clearly preferred by LOO",
                    "preferred, where LOO is clear",
                ),
                *(_pair_row(pair, cell.result(), runs(RUNS)) for pair, cell in pairs.items()),
            ],
            "## Intervals",
            "Two models without anything to fit, both of them wrong; the difference is taken as "
            f"known from {MANY:,} observations. How often intervals of 95 % cover it, in "
            f"{runs(COVERED)} data sets:",
            [
                *header("outcome", "n", "covered"),
                *(
                    f"| {kind} | {n} | {Rate(**cell.result())} |"
                    for (kind, n), cell in cells.items()
                ),
            ],
        ]
    )


def _pair_row(pair: str, counts: dict[str, int], runs: int) -> str:
    shown = [Rate(counts[name], runs) for name in ("ours", "clear", "loo")]
    given = Rate(counts["both"], counts["loo"]) if counts["loo"] else "none"
    return f"| {pair} | {' | '.join(map(str, shown))} | {given} |"


def report(scale: float, workers: int, kept: Path | None = None) -> str:
    """Measure everything and return the page; `scale` multiplies the number of runs."""
    return measured(_report, "models", scale, workers, kept)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    write_scaled_page(__doc__, report, "docs/model_comparison.md", arguments)


if __name__ == "__main__":
    main()
