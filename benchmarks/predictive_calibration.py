"""Level and power of ``ksd_ppc`` and of the test of held-out data, measured by simulation.

``python -m benchmarks.predictive_calibration`` repeats every measurement and writes
``docs/predictive_calibration.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.tensor.variable import TensorVariable

from benchmarks.measurements import Measurements, write_page
from benchmarks.predictive_cases import EFFECTS, MISFITS, TRUE, Case, Fitted
from benchmarks.rates import ALPHA, Rate, generator, header, page
from pymc_ksd import ksd_ppc, ksd_test
from pymc_ksd.models.observed.fitted import fitted_density
from pymc_ksd.samples.posterior import given_values

REPLICATIONS, POWER_REPLICATIONS = 200, 100
NUM_DRAWS, HELD_OUT_DRAWS = 60, 100
#: What data are summarised by in the usual predictive checks.
SUMMARIES: dict[str, Callable[..., np.ndarray]] = {
    "mean": np.mean,
    "variance": np.var,
    "min": np.min,
    "max": np.max,
}
COLUMNS = ['`covariates="auto"`', "`covariates=None`", *SUMMARIES, "PIT"]


def check_rates(case: Case, replications: int) -> dict[str, Rate]:
    """Return the shares of rejected data sets for our check and for the usual ones."""
    rng = generator(f"{case.family}: {case.data}", case.n)
    counts = dict.fromkeys(COLUMNS, 0)
    for _ in range(replications):
        fitted = case.fit(rng, NUM_DRAWS)
        check = ksd_ppc(
            fitted.model, fitted.posterior, num_draws=NUM_DRAWS, random_seed=rng, progressbar=False
        )
        # Residuals alone are what the check without covariates compares, draw by draw the same.
        alone = check["comparison_p_value"].sel(comparison="residuals")
        p_values = {COLUMNS[0]: float(check["p_value"]), COLUMNS[1]: float(alone)}
        p_values |= usual_p_values(fitted, rng)
        for column, p_value in p_values.items():
            counts[column] += p_value <= ALPHA
    return {column: Rate(count, replications) for column, count in counts.items()}


def usual_p_values(fitted: Fitted, rng: np.random.Generator) -> dict[str, float]:
    """Return two-sided predictive p-values of summaries, and ArviZ's of the PIT values."""
    density = fitted_density(fitted.model, fitted.model["y"], None, None)
    given = given_values(fitted.model, density.given, fitted.posterior, NUM_DRAWS)
    replicated = np.stack([density.simulate(len(fitted.y), rng, *values) for values in given])
    p_values = {}
    for name, summary in SUMMARIES.items():
        own, others = summary(fitted.y), summary(replicated, axis=1)
        tails = [np.mean(others >= own), np.mean(others <= own)]
        p_values[name] = 2 * float(min(tails))
    ties = np.mean(replicated == fitted.y, axis=0)
    pit = np.mean(replicated < fitted.y, axis=0) + rng.uniform(size=ties.shape) * ties
    p_values["PIT"] = pit_p_value(pit)
    return p_values


def pit_p_value(pit: np.ndarray) -> float:
    """Return ArviZ's p-value for uniform PIT values, NaN where the stack has none."""
    from arviz_stats.base import array_stats

    if not hasattr(array_stats, "uniformity_test"):
        return float("nan")
    eps = 0.5 / NUM_DRAWS
    return float(np.asarray(array_stats.uniformity_test(np.clip(pit, eps, 1 - eps))[0]))


def _lines(
    cells: Mapping[str, tuple[Callable[..., Any], Case | HeldOut, int]], measure: Measurements
) -> list[str]:
    """Return lines of a table, which begin with their names."""
    lines = []
    for name, (function, case, replications) in cells.items():
        found = measure(f"{name} ({replications})", function, case, replications).result()
        rates = " | ".join(str(Rate(**rate)) for rate in found)
        lines.append(f"| {name} | {rates} |")
    return lines


def check_table(cases: Sequence[Case], replications: int, measure: Measurements) -> list[str]:
    """Measure the checks on several cases, as a Markdown table."""

    def rates(case: Case, replications: int) -> list[Rate]:
        return list(check_rates(case, replications).values())

    cells = {
        f"{case.family} | {case.data} | {case.n}": (rates, case, replications) for case in cases
    }
    return [*header("model", "data", "n", *COLUMNS), *_lines(cells, measure)]


@dataclass(frozen=True)
class HeldOut:
    """A model fitted to a few data, and new data from its own predictive distribution.

    Attributes
    ----------
    name : str
        The model.
    write : callable
        Adds its variables, given outcome and input.
    posterior : callable
        ``(y, x, size, rng)`` draws from the posterior, an array with draws first for each variable.
    draw : callable
        ``(rng, x, *values)`` draws outcomes, each with its own value of every variable.
    truth : callable
        ``(rng, x)`` draws the data that are fitted.
    """

    name: str
    write: Callable[[TensorVariable, TensorVariable], None]
    posterior: Callable[..., dict[str, np.ndarray]]
    draw: Callable[..., np.ndarray]
    truth: Callable[[np.random.Generator, np.ndarray], np.ndarray]


def _normal(y: TensorVariable, x: TensorVariable) -> None:
    mu, sd = pm.Normal("mu", 0, 100), pm.HalfNormal("sd", 100)
    pm.Normal("y", mu, sd, observed=y, shape=y.shape)


def _normal_posterior(
    y: np.ndarray, x: np.ndarray, size: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    variance = np.sum((y - y.mean()) ** 2) / rng.chisquare(len(y) - 1, size=size)
    return {"mu": rng.normal(y.mean(), np.sqrt(variance / len(y))), "sd": np.sqrt(variance)}


def _line(y: TensorVariable, x: TensorVariable) -> None:
    b, sd = pm.Normal("b", 0, 100, shape=3), pm.HalfNormal("sd", 100)
    pm.Normal("y", b[0] + b[1] * x + b[2] * x**2, sd, observed=y, shape=x.shape)


def _line_posterior(
    y: np.ndarray, x: np.ndarray, size: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    design = np.stack([np.ones_like(x), x, x**2], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    best = inverse @ design.T @ y
    variance = np.sum((y - design @ best) ** 2) / rng.chisquare(len(y) - 3, size=size)
    steps = rng.normal(size=(size, 3)) @ np.linalg.cholesky(inverse).T
    return {"b": best + np.sqrt(variance)[:, None] * steps, "sd": np.sqrt(variance)}


def _one_rate(write: Callable[..., None]) -> Callable[[TensorVariable, TensorVariable], None]:
    def model(y: TensorVariable, x: TensorVariable) -> None:
        rate = pm.HalfNormal("rate", 100)
        write(rate, y)

    return model


HELD_OUT = [
    HeldOut(
        "Normal(mu, sd)",
        _normal,
        _normal_posterior,
        lambda rng, x, mu, sd: rng.normal(mu, sd),
        lambda rng, x: rng.normal(1, 2, size=len(x)),
    ),
    HeldOut(
        "Normal(b0 + b1 x + b2 x², sd)",
        _line,
        _line_posterior,
        lambda rng, x, b, sd: rng.normal(b[:, 0] + b[:, 1] * x + b[:, 2] * x**2, sd),
        lambda rng, x: rng.normal(1 + x, 1),
    ),
    HeldOut(
        "Exponential(rate)",
        _one_rate(lambda rate, y: pm.Exponential("y", rate, observed=y, shape=y.shape)),
        lambda y, x, size, rng: {"rate": rng.gamma(len(y), 1 / y.sum(), size=size)},
        lambda rng, x, rate: rng.exponential(1 / rate),
        lambda rng, x: rng.exponential(0.5, size=len(x)),
    ),
    HeldOut(
        "Poisson(rate)",
        _one_rate(lambda rate, y: pm.Poisson("y", rate, observed=y, shape=y.shape)),
        lambda y, x, size, rng: {"rate": rng.gamma(y.sum() + 1, 1 / len(y), size=size)},
        lambda rng, x, rate: rng.poisson(rate),
        lambda rng, x: rng.poisson(3, size=len(x)),
    ),
]


def held_out_rate(
    case: HeldOut,
    replications: int,
    *,
    shared: bool = True,
    n: int = 100,
    fitted: int = 20,
    **options: Any,
) -> Rate:
    """Test new data that share one value of the parameters, or have one each.

    These values are drawn from the posterior and are not among the draws that the test gets.
    """
    rng = generator(case.name, n + shared)
    with pm.Model() as model:
        x = rng.normal(size=n)
        case.write(pm.Data("outcome", case.truth(rng, x)), pm.Data("input", x))
    rejections = 0
    for _ in range(replications):
        x = rng.normal(size=fitted)
        values = case.posterior(case.truth(rng, x), x, HELD_OUT_DRAWS + n, rng)
        posterior = xr.Dataset(
            {
                key: (
                    ("chain", "draw", f"{key}_dim")[: array.ndim + 1],
                    array[None, :HELD_OUT_DRAWS],
                )
                for key, array in values.items()
            }
        )
        x = rng.normal(size=n)
        rows = np.arange(HELD_OUT_DRAWS, HELD_OUT_DRAWS + n)
        chosen = np.full(n, HELD_OUT_DRAWS) if shared else rows
        new = case.draw(rng, x, *(array[chosen] for array in values.values()))
        with model:
            pm.set_data({"outcome": new, "input": x})
        result = ksd_test(
            model, new, posterior=posterior, random_seed=rng, progressbar=False, **options
        )
        rejections += float(result["p_value"]) <= ALPHA
    return Rate(rejections, replications)


def held_out_table(replications: int, measure: Measurements) -> list[str]:
    """Measure the test of held-out data, as a Markdown table."""
    bootstrap = {"null": "multinomial", "n_bootstrap": 400}

    def rates(case: HeldOut, replications: int) -> list[Rate]:
        return [
            held_out_rate(case, 2 * replications, n_bootstrap=19),
            held_out_rate(case, replications, **bootstrap),
            held_out_rate(case, replications, fitted=2_000, **bootstrap),
            held_out_rate(case, replications, shared=False, **bootstrap),
        ]

    cells = {case.name: (rates, case, replications) for case in HELD_OUT}
    columns = (
        "default",
        "bootstrap",
        "bootstrap, 2,000 fitted",
        "bootstrap, parameters of their own",
    )
    return [*header("model", *columns), *_lines(cells, measure)]


def report(replications: int, power_replications: int, measure: Measurements) -> str:
    """Measure everything and return the page."""
    return page(
        [
            "# Level and power of checks of fitted models",
            "How often does `ksd_ppc` find fault with a model that is true, and how often with one "
            "that is wrong? Numbers are the share of p-values of at most 0.05 in per cent, ± one "
            f"Monte Carlo standard error, over {replications} simulated data sets for true models "
            f"and {power_replications} for wrong ones. Posteriors are exact (normal) or as good as "
            "exact (importance resampling, a long Gibbs sampler), with flat priors; "
            f"{NUM_DRAWS} draws each. Regressions have two standard normal inputs and their model "
            "is linear in them. Seeds are fixed, by one rule for all lines.",
            f"```\npython -m benchmarks.predictive_calibration --replications {replications} "
            f"--power-replications {power_replications}\n```",
            "Beside ours: the usual predictive checks of four summaries of the data (two-sided), "
            "and the uniformity test of PIT values that ArviZ's `plot_ppc_pit` shows, on the same "
            "data and draws.",
            "## True models",
            "Predictive checks use the data twice, so they reject less often than 5 %.",
            check_table(TRUE, replications, measure),
            "Random effects with known hyperparameters, whose posterior is known exactly: normal, "
            "beta-binomial and gamma-Poisson outcomes, one, two and four of them for each effect. "
            "Discrepancies around the posterior mean, which has seen the outcome, would reject all "
            "of the first and many of the others.",
            check_table(EFFECTS, replications, measure),
            "## Wrong models",
            "Comparing observations by their covariates, too, is what finds a wrong mean, which "
            "leaves the residuals of all observations together in order. What the residuals alone "
            "show, such as heavy tails, it finds as well.",
            check_table(MISFITS, power_replications, measure),
            "## Held-out data",
            "`ksd_test(model, new_data, posterior=idata)` with 100 new observations of a model "
            "that was fitted to 20, and 100 draws of its posterior. New data share one value of "
            "the parameters, another draw of the posterior. The default null replicates that (19 "
            'replicates, twice as many data sets). The bootstrap, `null="multinomial"`, is right '
            "only if the fit was to many more data (third column), or if every observation had "
            "parameters of its own (fourth).",
            held_out_table(replications, measure),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    parser.add_argument("--power-replications", type=int, default=POWER_REPLICATIONS)
    parser.add_argument("--keep", type=Path, help="a folder for finished lines, to go on from")

    def measured(options: argparse.Namespace) -> str:
        with Measurements(options.keep, name="fitted models") as measure:
            return report(options.replications, options.power_replications, measure)

    write_page(parser, measured, "docs/predictive_calibration.md", arguments)


if __name__ == "__main__":
    main()
