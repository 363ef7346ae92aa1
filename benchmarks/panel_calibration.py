"""Level, power and cost of the default panel of ``ksd_test``, measured by simulation.

``python -m benchmarks.panel_calibration`` repeats every measurement and writes
``docs/panel_calibration.md``. Cells of the tables are spread over processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calibration_cases import LEVEL_CASES
from benchmarks.measurements import measured, write_scaled_page
from benchmarks.panel_cases import PROBLEMS, best_power_of_signs, normal, stiff
from benchmarks.rates import ALPHA, Rate, count_rejections, generator, header, page
from benchmarks.sampler_cases import autoregressive
from pymc_ksd import ksd_test

#: Runs of a cell of the level, and of a problem.
LEVEL, POWER = 1_000, 400
#: Densities of several shapes, and points of each sample.
DENSITIES = (
    "Normal(1, 2)",
    "Laplace(0, 1)",
    "StudentT(3)",
    "SkewNormal(α=4)",
    "NormalMixture (2 components)",
    "Gamma(2, 1.5)",
    "Beta(2, 3)",
    "Uniform(-1, 3)",
    "MvNormal (5-d)",
    "Normal, Gamma, 2 Normals (hierarchy)",
)
N = 200
#: Nulls of data, by what a user types.
NULLS: dict[str, dict[str, Any]] = {
    "default": {},
    'null="multinomial"': {"null": "multinomial"},
    'statistic="v"': {"statistic": "v"},
    'null="parametric", n_bootstrap=39': {"null": "parametric", "n_bootstrap": 39},
}
CORRELATIONS, DIMENSIONS = (0.0, 0.5, 0.8, 0.95), (1, 10, 50)
#: Draws of each chain, and runs of a cell.
DRAWS = {250: 400, 1_000: 200}
#: Replicates of a test of draws: enough for its level, in a third of the time.
DRAWS_REPLICATES = 299


def level_rate(density: str, null: str, replications: int) -> Rate:
    """Return how often data from a model are rejected."""
    case = next(case for case in LEVEL_CASES if case.name == density)
    score, rng = case.score(), generator(f"panel, {density}", 0)
    return count_rejections(lambda: (score, case.draw(rng, N)), replications, rng, NULLS[null])


def stiff_level_rate(replications: int) -> Rate:
    """Return how often data of a stiff normal, which are whitened, are rejected."""
    rng, trial = generator("stiff", 0), stiff(1.0)
    return count_rejections(lambda: trial(rng, 500), replications, rng, {})


def power_rates(problem: str, replications: int) -> dict[str, Rate]:
    """Return how often wrong models are found, by the panel and by one kernel."""
    case, rng = PROBLEMS[problem], generator(problem, 0)
    counts = {"panel": 0, "rbf": 0}
    for _ in range(replications):
        score, data = case.trial(rng, case.n)
        for name, options in {"panel": {}, "rbf": {"kernel": "rbf"}}.items():
            result = ksd_test(score, data, random_seed=rng, progressbar=False, **options)
            counts[name] += float(result["p_value"]) <= ALPHA
    return {name: Rate(count, replications) for name, count in counts.items()}


def draws_rates(phi: float, dim: int, n_draws: int, replications: int) -> dict[str, Rate]:
    """Return how often exact draws are rejected, and how often nothing is told."""
    case = autoregressive(phi, dim)
    rng, score = generator(f"panel, {case.name}", n_draws), case.score()
    rejected = untold = 0
    for _ in range(replications):
        draws = case.draw(rng, n_draws)
        options = {"n_bootstrap": DRAWS_REPLICATES, "random_seed": rng, "progressbar": False}
        result = ksd_test(score, draws, **options)
        rejected += result.attrs["status"] == "rejected"
        untold += result.attrs["status"] == "cannot tell"
    return {"rejected": Rate(rejected, replications), "untold": Rate(untold, replications)}


def cost(n: int, dim: int) -> dict[str, float]:
    """Return seconds of the default panel, and of one kernel."""
    data, score = generator("cost", dim).normal(size=(n, dim)), normal(dim)
    seconds = {}
    for name, options in {"panel": {}, "rbf": {"kernel": "rbf"}}.items():
        runs = []
        for seed in range(4):
            start = time.perf_counter()
            ksd_test(score, data, random_seed=seed, progressbar=False, **options)
            runs.append(time.perf_counter() - start)
        seconds[name] = min(runs[1:])
    return seconds


def report(scale: float, workers: int, kept: Path | None = None) -> str:
    """Measure everything and return the page; `scale` multiplies the number of runs."""
    return measured(_report, "panel", scale, workers, kept)


def _report(scale: float, measure: Callable[..., Future[Any]]) -> str:
    def runs(number: int) -> int:
        return max(2, round(scale * number))

    command = "python -m benchmarks.panel_calibration"
    if scale != 1:
        command += f" --scale {scale:g}"
    sections = (_power(runs, measure), _level(runs, measure), _draws(runs, measure))
    return page(
        [
            "# Level and power of the panel",
            "By default `ksd_test` compares points by several kernels and joins them into one "
            "p-value, see [How it works](how_it_works.md#panels). How often does it reject what "
            "is true, and how often what is wrong? Numbers are shares of p-values of at most 0.05 "
            "in per cent, ± one Monte Carlo standard error. Seeds are fixed, by one rule for all "
            "cells.",
            f"```\n{command}\n```",
            *(part for section in sections for part in section()),
            *_costs(measure)(),
        ]
    )


def _power(
    runs: Callable[[int], int], measure: Callable[..., Future[Any]]
) -> Callable[[], list[Any]]:
    cells = {name: measure(power_rates, name, runs(POWER)) for name in PROBLEMS}

    def section() -> list[Any]:
        rows = []
        for name, cell in cells.items():
            case, found = PROBLEMS[name], cell.result()
            one, panel = (str(Rate(**found[method])) for method in ("rbf", "panel"))
            rows.append(
                f"| {name} | {case.n:,} | {one} | {case.best_other} | {panel} | "
                f"{f'{100 * case.goal:.0f}' if case.goal else ''} |"
            )
        return [
            "## Power",
            f"Problems on which other tests were published or measured, {runs(POWER)} runs; "
            '`kernel="rbf"` is the test of one kernel with the median bandwidth. Numbers of other '
            "tests are as they were reported and were not measured in this run. Where a problem is "
            "known by its description alone (sine, uniform, three modes, the stiff normal, the "
            "mean), amplitudes, distances and n are this page's own choice, and a number beside it "
            "may belong to another choice. The kernels of the panel were chosen on problems of "
            "these kinds, which makes its power here optimistic. For bumps of random sign there is "
            "no goal: a test that knew their shape and place and had only the four signs to find "
            f"would have a power of {100 * best_power_of_signs():.0f}.",
            [*header("problem", "n", '`kernel="rbf"`', "best other", "panel", "goal"), *rows],
        ]

    return section


def _level(
    runs: Callable[[int], int], measure: Callable[..., Future[Any]]
) -> Callable[[], list[Any]]:
    cells = {
        density: [measure(level_rate, density, null, runs(LEVEL)) for null in NULLS]
        for density in DENSITIES
    }
    whitened = measure(stiff_level_rate, runs(LEVEL))

    def section() -> list[Any]:
        rates = {density: [Rate(**cell.result()) for cell in row] for density, row in cells.items()}
        means = np.mean([[rate.rate for rate in row] for row in rates.values()], axis=0)
        rows = [f"| {name} | {' | '.join(map(str, row))} |" for name, row in rates.items()]
        rows.append(f"| **mean** | {' | '.join(f'{100 * mean:.2f}' for mean in means)} |")
        return [
            "## Level",
            f"Data from the model, n = {N}, {runs(LEVEL)} runs of each.",
            [*header("density", *(f"`{name}`" for name in NULLS)), *rows],
            "The normal distribution in 20 dimensions with eigenvalues from 100 to 0.01, of which "
            f"500 points are whitened: {Rate(**whitened.result())}.",
        ]

    return section


def _draws(
    runs: Callable[[int], int], measure: Callable[..., Future[Any]]
) -> Callable[[], list[Any]]:
    cells = {
        (dim, n_draws): [
            measure(draws_rates, phi, dim, n_draws, runs(number)) for phi in CORRELATIONS
        ]
        for dim in DIMENSIONS
        for n_draws, number in DRAWS.items()
    }

    def section() -> list[Any]:
        rows = []
        for (dim, n_draws), row in cells.items():
            shown = [
                "cannot tell"
                if Rate(**cell.result()["untold"]).rate > 0.5
                else str(Rate(**cell.result()["rejected"]))
                for cell in row
            ]
            rows.append(f"| 4 × {n_draws:,} | {dim} | {' | '.join(shown)} |")
        return [
            "## Level on draws",
            "Exact draws of four chains, standard normal, with correlation φ between neighbouring "
            f"draws; {runs(DRAWS[250])} runs of 4 × 250 draws and {runs(DRAWS[1_000])} of "
            f"4 × 1,000, with {DRAWS_REPLICATES} replicates. The panel has kernels with and "
            "without a tilt, and the largest z-score of a mean or standard deviation.",
            [*header("draws", "d", *(f"φ = {phi:g}" for phi in CORRELATIONS)), *rows],
        ]

    return section


def _costs(measure: Callable[..., Future[Any]]) -> Callable[[], list[Any]]:
    cells = {(n, dim): measure(cost, n, dim) for n, dim in ((100, 2), (1_000, 10), (10_000, 10))}

    def section() -> list[Any]:
        rows = [
            f"| {n:,} | {dim} | {found['panel']:.4f} | {found['rbf']:.4f} | "
            f"{found['panel'] / found['rbf']:.2f} |"
            for (n, dim), found in ((key, cell.result()) for key, cell in cells.items())
        ]
        return [
            "## Cost",
            "Seconds of the whole test in one run, at its default number of replicates.",
            [*header("n", "d", "panel", '`kernel="rbf"`', "ratio"), *rows],
        ]

    return section


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    write_scaled_page(__doc__, report, "docs/panel_calibration.md", arguments)


if __name__ == "__main__":
    main()
