"""Whether ``ksd_compare`` puts samplers in the order that is known: long runs, short runs, others.

``python -m benchmarks.sampler_comparison`` repeats every measurement and writes
``docs/sampler_comparison.md``. Models are spread over processes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

from benchmarks.measurements import measured, write_scaled_page
from benchmarks.rates import Rate, header, page
from benchmarks.sampler_cases import NUTS_MODELS
from pymc_ksd import ksd_compare

#: Comparisons of each model.
RUNS = 5
#: The samplers, the better first; of the last two no order is expected.
NUTS, SHORT, ADVI, PATHFINDER = "NUTS", "short NUTS", "ADVI", "Pathfinder"


def _logistic_regression() -> pm.Model:
    rng = np.random.default_rng(21)
    x = rng.normal(size=(80, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    outcome = rng.uniform(size=80) < 1 / (1 + np.exp(-(0.5 + x @ [1.0, -1.5])))
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 2)
        slopes = pm.Normal("slopes", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=intercept + x @ slopes, observed=outcome.astype(int))
    return model


def _robust_regression() -> pm.Model:
    rng = np.random.default_rng(22)
    x = rng.uniform(3, 5, size=50)
    y = 2.0 + 0.5 * x + 0.4 * rng.standard_t(3, size=50)
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 5)
        slope = pm.Normal("slope", 0, 5)
        scale = pm.HalfNormal("scale", 1)
        tails = pm.Gamma("tails", 2, 0.1)
        pm.StudentT("y", nu=tails, mu=intercept + slope * x, sigma=scale, observed=y)
    return model


def _waiting_times() -> pm.Model:
    times = np.random.default_rng(23).gamma(2.5, 0.8, size=40)
    with pm.Model() as model:
        shape = pm.Exponential("shape", 0.5)
        rate = pm.Exponential("rate", 0.5)
        pm.Gamma("y", shape, rate, observed=times)
    return model


MODELS = {
    **NUTS_MODELS,
    "logistic regression": _logistic_regression,
    "robust regression": _robust_regression,
    "Gamma waiting times": _waiting_times,
}


@cache
def _compiled(name: str) -> tuple[pm.Model, Any]:
    """Return a model, and what nutpie makes of it: once in each process."""
    import nutpie

    logging.getLogger("pymc").setLevel(logging.ERROR)
    model = MODELS[name]()
    return model, nutpie.compile_pymc_model(model)


def comparison(name: str, seed: int) -> list[dict[str, Any]]:
    """Compare the samplers on a model; rows are ranked."""
    model, compiled = _compiled(name)
    samplers = {
        ADVI: _advi(model, seed),
        PATHFINDER: _pathfinder(model, seed),
        SHORT: _nuts(compiled, 100, seed + 100),
        NUTS: _nuts(compiled, 1_000, seed),
    }
    table = ksd_compare(model, samplers, random_seed=seed, progressbar=False)
    columns = ["status", "p_value", "bias_mean", "bias_sd", "ess_ksd", "n"]
    rows = table[columns].reset_index(names="sampler").to_dict("records")
    return [{key: _finite(value) for key, value in row.items()} for row in rows]


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else "infinite"
    return value


def _nuts(compiled: Any, draws: int, seed: int) -> Any:
    import nutpie

    return nutpie.sample(
        compiled,
        draws=draws,
        tune=500,
        chains=4,
        cores=1,
        seed=seed,
        progress_bar=False,
        target_accept=0.9,
    )


def _advi(model: pm.Model, seed: int) -> Any:
    with model:
        fit = pm.fit(20_000, random_seed=seed, progressbar=False)
    return fit.sample(1_000, random_seed=seed)


def _pathfinder(model: pm.Model, seed: int) -> Any:
    from pymc_extras import fit_pathfinder

    # Newer versions start processes, of which each compiles everything.
    here = {"parallel": False} if "parallel" in signature(fit_pathfinder).parameters else {}
    return fit_pathfinder(model, num_draws=1_000, random_seed=seed, progressbar=False, **here)


def in_order(ranked: Sequence[str]) -> bool:
    """Whether long NUTS comes before short NUTS, and that before at least one approximation."""
    long, short = ranked.index(NUTS), ranked.index(SHORT)
    return long < short < max(ranked.index(ADVI), ranked.index(PATHFINDER))


def before_both(ranked: Sequence[str]) -> bool:
    """Whether short NUTS, too, comes before both approximations."""
    return list(ranked[:2]) == [NUTS, SHORT]


def report(scale: float, workers: int, kept: Path | None = None) -> str:
    """Measure everything and return the page; `scale` multiplies the number of runs."""
    return measured(_report, "comparison", scale, workers, kept)


def _report(scale: float, measure: Callable[..., Future[Any]]) -> str:
    runs = max(1, round(scale * RUNS))
    # An interrupted measurement goes on with the next of these.
    found = {name: [measure(comparison, name, seed) for seed in range(runs)] for name in MODELS}
    rows, details = [], []
    for name, futures in found.items():
        tables = [one.result() for one in futures]
        orders = [[row["sampler"] for row in table] for table in tables]
        counts = [sum(map(check, orders)) for check in (in_order, before_both)]
        rates = " | ".join(str(Rate(count, runs)) for count in counts)
        rows.append(f"| {name} | {rates} |")
        for row in tables[0]:
            numbers = " | ".join(_shown(row[key]) for key in ("bias_mean", "bias_sd"))
            details.append(
                f"| {name} | {row['sampler']} | {row['status']} | {_p_value(row)} | {numbers} | "
                f"{row['ess_ksd']:,.0f} | {row['n']:,} |"
            )
    command = "python -m benchmarks.sampler_comparison"
    if scale != 1:
        command += f" --scale {scale:g}"
    return page(
        [
            "# Samplers in order",
            "[`ksd_compare`](samplers.md) knows no reference run. Does it put samplers in the "
            "order that is known? NUTS (nutpie) with 4 × 1,000 draws, NUTS with 4 × 100, "
            "mean-field ADVI (20,000 steps) and Pathfinder (pymc-extras) with 1,000 draws each, "
            f"on six posteriors, {runs} times with other seeds. Numbers are per cent, ± one Monte "
            "Carlo standard error.",
            f"```\n{command}\n```",
            [
                *header(
                    "posterior",
                    "NUTS, then short NUTS, then ADVI or Pathfinder",
                    "… then both",
                ),
                *rows,
            ],
            "An approximation that is nearly right may be worth more than 400 correlated draws; "
            "it is then rightly put before the short run unless it is rejected.",
            "## The first of these comparisons",
            [
                *header(
                    *("posterior", "sampler", "status", "p-value", "bias_mean", "bias_sd"),
                    *("ess_ksd", "draws"),
                ),
                *details,
            ],
        ]
    )


def _p_value(row: Mapping[str, Any]) -> str:
    value = row["p_value"]
    return "< 0.0001" if value is not None and value < 1e-4 else _shown(value)


def _shown(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else f"{value:.2g}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    write_scaled_page(__doc__, report, "docs/sampler_comparison.md", arguments)


if __name__ == "__main__":
    main()
