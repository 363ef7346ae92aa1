"""Level, power, gain, certificates and cost of ``ksd_moments``, measured by simulation.

``python -m benchmarks.moment_calibration`` repeats every measurement and writes
``docs/moment_calibration.md``. Rows of the tables are spread over processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import xarray as xr

from benchmarks.measurements import measured, write_scaled_page
from benchmarks.moment_cases import ERRORS, TARGETS, Error, chains, equicorrelated, two_modes
from benchmarks.moment_gains import approximations, gains
from benchmarks.rates import ALPHA, Rate, generator, header, page
from benchmarks.sampler_cases import NUTS_MODELS, POWER_CASES, nuts_case
from pymc_ksd import Score, ksd_moments, ksd_test

DIMENSIONS, CORRELATIONS, SIZES = (1, 10, 100, 1_000), (0.0, 0.8, 0.95), (250, 1_000)
#: Parameters from which on draws are not tested by ``ksd_test`` beside, and runs are fewer.
LARGE = 1_000
#: Runs of a cell of the level, and of one with 1,000 parameters; of a row of the power, and so on.
LEVEL, LEVEL_LARGE, POWER, POWER_LARGE = 400, 100, 200, 60
NUTS, CULPRITS, CERTIFICATES, HIDDEN = 400, 400, 800, 800
#: Centres of two modes, and by how many standard deviations their weights put the mean off.
CENTRES, BIASES = (1.0, 1.25, 1.5, 1.75), (0.0, 0.1, 0.15)
#: Parameters and draws of a chain of which the power is measured.
POWER_SIZES = ((10, 250), (100, 500), (1_000, 1_000))
LANGEVIN = tuple(case.name for case in POWER_CASES if "nadjusted" in case.name)
#: Autocorrelation times of a chain below which nothing is told, so that few runs will do.
SHORT = 10
#: How far an estimated error may be from the planted one, in standard deviations.
CLOSE = 0.05
MARGIN = 0.1


def dataset(values: np.ndarray) -> xr.Dataset:
    """Return draws of shape (chain, draw, d) as a posterior."""
    if values.shape[2] == 1:
        return xr.Dataset({"x": (("chain", "draw"), values[..., 0])})
    return xr.Dataset({"x": (("chain", "draw", "coordinate"), values)})


def moments(score: Score, draws: Any, **options: Any) -> xr.Dataset:
    """Return moments without a progress bar."""
    return ksd_moments(score, draws, progressbar=False, **options)


def level_rates(
    name: str, dim: int, correlation: float, n_draws: int, replications: int
) -> dict[str, Rate]:
    """Return how often exact draws are rejected by their p-value, and how often nothing is told."""
    target, rng = TARGETS[name], generator(f"{name}, {dim}, {correlation:g}", n_draws)
    score, rejected, untold = TARGETS[name].compiled(dim), 0, 0
    for _ in range(replications):
        result = moments(score, dataset(target.draw(chains(rng, n_draws, dim, correlation))))
        rejected += float(result["p_value"]) <= ALPHA
        untold += result.attrs["status"] == "cannot tell"
    return {"rejected": Rate(rejected, replications), "untold": Rate(untold, replications)}


def nuts_rate(name: str, replications: int) -> Rate:
    """Return how often draws of NUTS are rejected."""
    case, rng, rejected = nuts_case(name), generator(name, 0), 0
    score = case.score()
    for _ in range(replications):
        rejected += float(moments(score, case.draw(rng, 250))["p_value"]) <= ALPHA
    return Rate(rejected, replications)


def power_rates(error: str, dim: int, n_draws: int, replications: int) -> dict[str, Rate]:
    """Return how often one wrong parameter of normal draws is found, beside ``ksd_test``."""
    rng, counts = generator(error, dim), {"moments": 0, "ksd_test": 0}
    score = TARGETS["normal"].compiled(dim)
    for _ in range(replications):
        draws = dataset(ERRORS[error].plant(chains(rng, n_draws, dim, 0.0)))
        counts["moments"] += float(moments(score, draws)["p_value"]) <= ALPHA
        if dim < LARGE:
            counts["ksd_test"] += _ksd_rejects(score, draws, rng)
    return {name: Rate(count, replications) for name, count in counts.items()}


def sampler_rates(name: str, n_draws: int, replications: int) -> dict[str, Rate]:
    """Return how often a sampler that is wrong is found, beside ``ksd_test``."""
    case = next(case for case in POWER_CASES if case.name == name)
    rng, counts = generator(name, n_draws), {"moments": 0, "ksd_test": 0}
    score = case.score()
    for _ in range(replications):
        draws = case.draw(rng, n_draws)
        counts["moments"] += float(moments(score, draws)["p_value"]) <= ALPHA
        counts["ksd_test"] += _ksd_rejects(score, draws, rng)
    return {name: Rate(count, replications) for name, count in counts.items()}


def _ksd_rejects(score: Score, draws: Any, rng: np.random.Generator) -> bool:
    result = ksd_test(score, draws, n_bootstrap=199, random_seed=rng, progressbar=False)
    return float(result["p_value"]) <= ALPHA


def culprit_rates(correlation: float, replications: int) -> dict[str, Rate]:
    """Return how often a planted error of one of five parameters is named, and measured closely."""
    dim, rng = 5, generator("culprit", int(100 * correlation))
    covariance = np.full((dim, dim), correlation) + (1 - correlation) * np.eye(dim)
    root, precision = np.linalg.cholesky(covariance), np.linalg.inv(covariance)
    score = Score.from_callable(
        lambda x: -x @ precision,
        dim,
        log_density=lambda x: -0.5 * np.einsum("ij,jk,ik->i", x, precision, x),
    )
    named = close = 0
    for _ in range(replications):
        parameter, size = int(rng.integers(dim)), float(rng.choice([-0.3, -0.15, 0.15, 0.3]))
        draws = Error(mean=size).plant(chains(rng, 500, dim, 0.0) @ root.T, parameter)
        found = moments(score, dataset(draws))["x"]
        bias = found.sel(diagnostic="bias_mean").values
        named += int(np.nanargmin(found.sel(diagnostic="p_mean").values)) == parameter
        # Of the sampler, not of this run of it: less what chance has done to the mean.
        planted = draws[..., parameter].mean() / draws[..., parameter].std()
        close += abs(bias[parameter] - planted) <= CLOSE
    return {"named": Rate(named, replications), "close": Rate(close, replications)}


def certificate_rates(
    mean: float, scale: float, n_draws: int, replications: int
) -> dict[str, Rate]:
    """Return how often draws with one wrong parameter of ten are certified, rejected or neither."""
    rng = generator(f"certificate {mean} {scale}", n_draws)
    score, counts = TARGETS["normal"].compiled(10), {"certified": 0, "rejected": 0}
    for _ in range(replications):
        draws = Error(mean, scale).plant(chains(rng, n_draws, 10, 0.0))
        status = moments(score, dataset(draws), margin=MARGIN).attrs["status"]
        if status in counts:
            counts[status] += 1
    return {name: Rate(count, replications) for name, count in counts.items()}


def hidden_rate(centre: float, bias: float, n_draws: int, replications: int) -> Rate:
    """Return how often draws of two modes are certified whose weights are wrong."""
    (score, draw), certified = two_modes(centre, bias), 0
    rng = generator(f"two modes {centre} {bias}", n_draws)
    for _ in range(replications):
        draws = dataset(draw(rng, n_draws)[..., None])
        certified += moments(score, draws, margin=MARGIN).attrs["status"] == "certified"
    return Rate(certified, replications)


def cost(dim: int, n_draws: int, correlation: float) -> dict[str, float]:
    """Return seconds of moments beyond scoring, and of ArviZ's summary of the same draws."""
    rng, target = generator("cost", dim), equicorrelated(dim, correlation)
    draws = dataset(target.draw(chains(rng, n_draws, dim, 0.0)))
    score = target.compiled(dim)
    moments(score, draws)
    seconds = {}
    for name, call in {
        "moments": lambda: moments(score, draws),
        "az.summary": lambda: az.summary(draws),
    }.items():
        runs = []
        for _ in range(3):
            start = time.perf_counter()
            call()
            runs.append(time.perf_counter() - start)
        seconds[name] = min(runs)
    return seconds


def _rate(cell: Future[Any], name: str | None = None) -> str:
    found = cell.result()
    return str(Rate(**(found if name is None else found[name])))


def report(scale: float, workers: int, kept: Path | None = None) -> str:
    """Measure everything and return the page; `scale` multiplies the number of runs."""
    return measured(_report, "moments", scale, workers, kept)


def _report(scale: float, measure: Callable[..., Future[Any]]) -> str:
    def runs(number: int) -> int:
        return max(2, round(scale * number))

    command = "python -m benchmarks.moment_calibration"
    if scale != 1:
        command += f" --scale {scale:g}"
    return page(
        [
            "# Level, power and gain of moments",
            "How often does `ksd_moments` reject exact draws, and how often wrong ones; how close "
            "are its estimates of what is wrong? Numbers are shares in per cent, ± one Monte Carlo "
            "standard error; a rejection is a family-wise p-value of at most 0.05, over the means "
            "and standard deviations of all parameters. Seeds are fixed, by one rule for all "
            "cells.",
            f"```\n{command}\n```",
            *_level(runs, measure),
            *_power(runs, measure),
            *gains(runs, measure),
            *_certificates(runs, measure),
            *_costs(measure),
        ]
    )


def _level(runs: Callable[[int], int], measure: Callable[..., Future[Any]]) -> list[Any]:
    def measured(name: str, dim: int, phi: float, n_draws: int) -> Future[Any]:
        number = runs(LEVEL_LARGE if dim >= LARGE else LEVEL)
        if n_draws * (1 - phi) / (1 + phi) < SHORT:
            number = max(2, number // 10)
        return measure(level_rates, name, dim, phi, n_draws, number)

    cells = {
        (n_draws, dim, name): [measured(name, dim, phi, n_draws) for phi in CORRELATIONS]
        for dim in DIMENSIONS
        for n_draws in SIZES
        for name in TARGETS
        if dim > 1 or name not in ("banana", "funnel")
    }
    rows, told = [], []
    for (n_draws, dim, name), row in cells.items():
        shown = []
        for cell in row:
            untold = Rate(**cell.result()["untold"]).rate
            shown.append("cannot tell" if untold > 0.5 else _rate(cell, "rejected"))
            if untold <= 0.5:
                told.append(Rate(**cell.result()["rejected"]).rate)
        rows.append(f"| 4 × {n_draws:,} | {dim:,} | {name} | {' | '.join(shown)} |")
    nuts = {name: measure(nuts_rate, name, runs(NUTS)) for name in NUTS_MODELS}
    return [
        "## Level",
        "Exact draws of four chains with correlation φ between neighbouring draws, of densities of "
        f"several shapes; {runs(LEVEL)} runs of each ({runs(LEVEL_LARGE)} with 1,000 parameters). "
        "Where chains are shorter than ten autocorrelation times the answer is *cannot tell*.",
        [*header("draws", "d", "density", *(f"φ = {phi:g}" for phi in CORRELATIONS)), *rows],
        f"On average {100 * np.mean(told):.1f} %, from {100 * np.min(told):.1f} to "
        f"{100 * np.max(told):.1f} %.",
        f"NUTS (nutpie, 4 × 250 draws after 400 of warm-up), {runs(NUTS)} seeds:",
        [
            *header("posterior", "rejected, %"),
            *(f"| {name} | {_rate(cell)} |" for name, cell in nuts.items()),
        ],
    ]


def _power(runs: Callable[[int], int], measure: Callable[..., Future[Any]]) -> list[Any]:
    methods = ("moments", "ksd_test")
    planted = {
        (error, dim, n_draws): measure(
            power_rates, error, dim, n_draws, runs(POWER_LARGE if dim >= LARGE else POWER)
        )
        for error in ERRORS
        for dim, n_draws in POWER_SIZES
    }
    samplers = {
        (case.name, n_draws): measure(sampler_rates, case.name, n_draws, runs(POWER))
        for case in POWER_CASES
        for n_draws in SIZES
    }
    culprits = {rho: measure(culprit_rates, rho, runs(CULPRITS)) for rho in (0.0, 0.5, 0.9)}
    return [
        "## Power",
        f"Independent normal draws with an error in one parameter of d, {runs(POWER)} runs "
        f"({runs(POWER_LARGE)} with 1,000 parameters), and the same draws tested by `ksd_test` at "
        "its defaults:",
        [
            *header("error", "d", "draws", *methods),
            *(
                f"| {error} | {dim:,} | 4 × {n_draws:,} | {_rate(cell, methods[0])} | "
                f"{_rate(cell, methods[1]) if dim < LARGE else 'not measured'} |"
                for (error, dim, n_draws), cell in planted.items()
            ),
        ],
        f"Samplers that are wrong, see [draws of samplers](sampler_calibration.md), {runs(POWER)} "
        "runs:",
        [
            *header("draws of", "draws", *methods),
            *(
                f"| {name} | 4 × {n_draws:,} | "
                f"{' | '.join(_rate(cell, method) for method in methods)} |"
                for (name, n_draws), cell in samplers.items()
            ),
        ],
        *approximations(runs, measure),
        "## The culprit",
        "One of five parameters, with correlation ρ between all of them, has a mean that is off by "
        f"0.15 or 0.3 standard deviations, 4 × 500 draws, {runs(CULPRITS)} runs: how often that "
        "parameter has the smallest p-value, and how often its error is estimated within "
        f"{CLOSE:g} standard deviations.",
        [
            *header("ρ", "named, %", "estimated closely, %"),
            *(
                f"| {rho:g} | {_rate(cell, 'named')} | {_rate(cell, 'close')} |"
                for rho, cell in culprits.items()
            ),
        ],
    ]


def _certificates(runs: Callable[[int], int], measure: Callable[..., Future[Any]]) -> list[Any]:
    cases = {
        "exact": (0.0, 1.0),
        f"mean off by {MARGIN:g} sd": (MARGIN, 1.0),
        f"sd off by {MARGIN:.0%}": (0.0, 1 + MARGIN),
        "mean off by 0.2 sd": (0.2, 1.0),
    }
    cells = {
        (name, n_draws): measure(certificate_rates, *case, n_draws, runs(CERTIFICATES))
        for name, case in cases.items()
        for n_draws in (250, 1_000, 4_000)
    }
    hidden = {
        (centre, bias, n_draws): measure(hidden_rate, centre, bias, n_draws, runs(HIDDEN))
        for centre in CENTRES
        for bias in BIASES
        for n_draws in (1_000, 4_000)
    }
    return [
        "## Certificates",
        f"`margin={MARGIN:g}`, one parameter of ten, {runs(CERTIFICATES)} runs. At the margin "
        "itself at most 5 % may be certified.",
        [
            *header("draws", "number", "certified", "rejected"),
            *(
                f"| {name} | 4 × {n_draws:,} | {_rate(cell, 'certified')} | "
                f"{_rate(cell, 'rejected')} |"
                for (name, n_draws), cell in cells.items()
            ),
        ],
        "Two modes at ±c with standard deviation 1, whose weights are wrong so that the mean is "
        "off: features see a part of it only, and certificates add what they do not see. "
        f"Certified, of {runs(HIDDEN)} runs:",
        [
            *header("mean", "draws", *(f"c = {centre:g}" for centre in CENTRES)),
            *(
                f"| {'exact' if not bias else f'off by {bias:g} sd'} | 4 × {n_draws:,} | "
                f"{' | '.join(_rate(hidden[centre, bias, n_draws]) for centre in CENTRES)} |"
                for bias in BIASES
                for n_draws in (1_000, 4_000)
            ),
        ],
    ]


def _costs(measure: Callable[..., Future[Any]]) -> list[Any]:
    cells = {
        (dim, n_draws, correlation): measure(cost, dim, n_draws, correlation)
        for dim, n_draws, correlation in (
            (10, 1_000, 0.0),
            (10, 10_000, 0.0),
            (1_000, 1_000, 0.0),
            (1_000, 1_000, 0.5),
        )
    }
    return [
        "## Cost",
        "Of draws whose score costs next to nothing, beside ArviZ's summary of the same draws in "
        "the same run. Where each of many parameters is explained by its own score, the others "
        "are not asked; where parameters are correlated, they are.",
        [
            *header("parameters", "correlation", "draws", "seconds", "of `az.summary`", "ratio"),
            *(
                f"| {dim:,} | {correlation:g} | 4 × {n_draws:,} | {found['moments']:.3f} | "
                f"{found['az.summary']:.3f} | {found['moments'] / found['az.summary']:.2f} |"
                for (dim, n_draws, correlation), found in (
                    (key, cell.result()) for key, cell in cells.items()
                )
            ),
        ],
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    write_scaled_page(__doc__, report, "docs/moment_calibration.md", arguments)


if __name__ == "__main__":
    main()
