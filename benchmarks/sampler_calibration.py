"""Level and power of ``ksd_test`` on draws of samplers, measured by simulation.

``python -m benchmarks.sampler_calibration`` repeats every measurement and writes
``docs/sampler_calibration.md``. Rows of the tables are spread over processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from benchmarks.measurements import measured, write_scaled_page
from benchmarks.rates import Rate, count_rejections, generator, header, page
from benchmarks.sampler_cases import (
    CORRELATIONS,
    DIMENSIONS,
    FEW_CORRELATIONS,
    HIGH_DIMENSIONS,
    POWER_CASES,
    SMC_CASES,
    SamplerCase,
    autoregressive,
    nuts_case,
)

#: Runs of each cell: level with 4 × 250 and 4 × 1,000 draws, power likewise, NUTS and SMC.
LEVEL_SHORT, LEVEL_LONG, POWER_SHORT, POWER_LONG, NUTS, SMC = 600, 300, 200, 100, 100, 40
HIGH = 200
NUTS_MODELS = ("eight schools", "linear regression")
#: Fewest replicates with which the level of a 5 % test is exact to 0.1 %.
N_BOOTSTRAP = 199


def sampler_rejection_rate(
    case: SamplerCase, *, replications: int, n_draws: int, seed: int = 0, **options: Any
) -> Rate:
    """Run a sampler and test its draws, many times.

    Parameters
    ----------
    case : SamplerCase
        Target and sampler.
    replications : int
        Number of runs.
    n_draws : int
        Draws in each of four chains.
    seed : int, default 0
        Fixes draws and bootstraps, together with the case's name and the number of draws.
    **options
        Options of :func:`pymc_ksd.ksd_test`.

    Returns
    -------
    Rate
    """
    rng = generator(f"{case.name}, {n_draws}", seed)
    score = case.score()
    options = {"n_bootstrap": N_BOOTSTRAP, **options}
    return count_rejections(lambda: (score, case.draw(rng, n_draws)), replications, rng, options)


def autoregressive_rate(phi: float, dim: int, n_draws: int, replications: int) -> Rate:
    """Measure the level on chains with correlation `phi`."""
    case = autoregressive(phi, dim)
    return sampler_rejection_rate(case, replications=replications, n_draws=n_draws)


def high_dimensional_rate(phi: float, dim: int, replications: int) -> Rate:
    """Measure the level on two chains of 500 draws with correlation `phi`."""
    case = autoregressive(phi, dim, n_chains=2)
    return sampler_rejection_rate(case, replications=replications, n_draws=500)


def power_rate(name: str, n_draws: int, replications: int) -> Rate:
    """Measure how often a case of ``POWER_CASES`` or ``SMC_CASES`` is rejected."""
    case = next(case for case in (*POWER_CASES, *SMC_CASES) if case.name == name)
    return sampler_rejection_rate(case, replications=replications, n_draws=n_draws)


def nuts_rate(name: str, n_draws: int, replications: int) -> Rate:
    """Measure how often draws of NUTS are rejected."""
    return sampler_rejection_rate(nuts_case(name), replications=replications, n_draws=n_draws)


def _runs(sizes: Mapping[str, tuple[int, int]]) -> str:
    (_, short), (_, long) = sizes.values()
    return f"{short} runs of each line with 250 draws a chain, {long} with 1,000."


def _row(*labels: str, cells: Sequence[Future[Any]]) -> str:
    rates = (str(Rate(**cell.result())) for cell in cells)
    return f"| {' | '.join([*labels, *rates])} |"


def _rows(cells: Mapping[str, Sequence[Future[Any]]]) -> list[str]:
    return [_row(label, cells=row) for label, row in cells.items()]


def report(scale: float, workers: int, kept: Path | None = None) -> str:
    """Measure everything and return the page; `scale` multiplies the number of runs."""
    return measured(_report, "samplers", scale, workers, kept)


def _report(scale: float, measure: Callable[..., Future[Any]]) -> str:
    def runs(number: int) -> int:
        return max(2, round(scale * number))

    levels = {"4 × 250": (250, runs(LEVEL_SHORT)), "4 × 1,000": (1000, runs(LEVEL_LONG))}
    powers = {"4 × 250": (250, runs(POWER_SHORT)), "4 × 1,000": (1000, runs(POWER_LONG))}
    level_cells = {
        (size, dim): [measure(autoregressive_rate, phi, dim, *levels[size]) for phi in CORRELATIONS]
        for size in reversed(levels)  # the long ones first
        for dim in DIMENSIONS
    }
    high_cells = {
        f"{dim:,}": [
            measure(high_dimensional_rate, phi, dim, runs(HIGH)) for phi in FEW_CORRELATIONS
        ]
        for dim in HIGH_DIMENSIONS
    }
    nuts_cells = {name: [measure(nuts_rate, name, 250, runs(NUTS))] for name in NUTS_MODELS}
    power_cells = {
        case.name: [measure(power_rate, case.name, *powers[size]) for size in powers]
        for case in POWER_CASES
    }
    smc_cells = {case.name: [measure(power_rate, case.name, 0, runs(SMC))] for case in SMC_CASES}
    level_rows = [
        _row(size, str(dim), cells=level_cells[size, dim]) for size in levels for dim in DIMENSIONS
    ]
    command = "python -m benchmarks.sampler_calibration"
    if scale != 1:
        command += f" --scale {scale:g}"
    return page(
        [
            "# Level and power on draws of samplers",
            "How often does `ksd_test(model, idata)` reject draws that do come from the target, "
            "and how often draws that do not? Everything is at its default: draws whitened where "
            "they are enough, kernels of several sizes with and without a tilt, moments, "
            'V-statistic, `null="wild"` with the correlation time *estimated from the '
            f"draws*; only the replicates are {N_BOOTSTRAP}, for speed. Numbers are the share of "
            "p-values of at most 0.05 in per cent, ± one Monte Carlo standard error. Seeds are "
            "fixed, by one rule for all cells.",
            f"```\n{command}\n```",
            "## Level",
            "Four chains with the exact law N(0, I) and correlation φ between neighbouring draws. "
            + _runs(levels),
            [*header("draws", "d", *(f"φ = {phi:g}" for phi in CORRELATIONS)), *level_rows],
            "At φ = 0.95 a chain of 250 draws holds hardly more than six independent ones. Of such "
            "chains the status is *rejected* only where the p-value is at most a tenth of the "
            "level, and otherwise *cannot tell*.",
            f"Two chains of 500 draws in many dimensions, {runs(HIGH)} runs of each:",
            [*header("d", *(f"φ = {phi:g}" for phi in FEW_CORRELATIONS)), *_rows(high_cells)],
            "Correlated draws that are few for hundreds of parameters are rejected too often; "
            "there, too, the status is *rejected* only where the p-value is at most a tenth of the "
            "level.",
            f"NUTS (nutpie, 4 × 250 draws after 400 of warm-up), {runs(NUTS)} seeds:",
            [*header("posterior", "rejected, %"), *_rows(nuts_cells)],
            "## Power",
            f"{_runs(powers)} Langevin samplers have a "
            "bivariate normal target with correlation 0.9 and forget slowly (correlation times of "
            "40 and 75 draws), so that they bring few independent draws; with steps of 0.2 and "
            "0.1 the unadjusted one doubles the narrow direction's variance, or makes it a third "
            "too large. The modes are 3 standard deviations apart. Where one coordinate of d is "
            "wrong, the others are exact. The mean-field optimum is what ADVI converges to: its "
            "variances are too small by the factor 1 − ρ².",
            [*header("draws", *powers), *_rows(power_cells)],
            f"`pm.sample_smc` on a posterior of 20 correlated parameters, 20 times narrower than "
            f"their prior, {runs(SMC)} runs:",
            [*header("draws", "rejected, %"), *_rows(smc_cells)],
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    write_scaled_page(__doc__, report, "docs/sampler_calibration.md", arguments)


if __name__ == "__main__":
    main()
