"""Level and power of ``ksd_modes``, and how close its shares are, measured by simulation.

``python -m benchmarks.mode_calibration`` repeats every measurement and writes
``docs/mode_calibration.md``. Rows of the tables are spread over processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from benchmarks.measurements import measured, write_scaled_page
from benchmarks.mode_cases import SINGLE, TARGETS, Mixture, missed
from benchmarks.rates import ALPHA, Rate, generator, header, page
from pymc_ksd import Score, ksd_modes

#: Runs of every cell, and of one of the level of independent draws.
RUNS, LEVEL = 400, 1_000
SIZES = (200, 500)
#: Chains: draws of each, how likely a draw stays at the mode of the one before, and targets.
CHAINS = ((250, 0.8), (250, 0.95), (1_000, 0.95), (1_000, 0.99))
CHAIN_TARGETS = (
    "two normal",
    "two normal, d = 10",
    "weights .8 and .2",
    "three normal",
    "two skewed",
)
#: Correlation of neighbouring draws within a mode.
CORRELATION = 0.5
#: Targets with equal weights, of which draws have .4 and .6.
UNEVEN = tuple(name for name, target in TARGETS.items() if target.weights == (0.5, 0.5))
#: Chains that stay where they are: the modes of four.
FROZEN = {
    "all at one mode": (0, 0, 0, 0),
    "three and one": (0, 0, 0, 1),
    "two and two": (0, 0, 1, 1),
}


def dataset(values: np.ndarray) -> xr.Dataset:
    """Return draws of shape (chain, draw, d) as a posterior."""
    if values.shape[2] == 1:
        return xr.Dataset({"x": (("chain", "draw"), values[..., 0])})
    return xr.Dataset({"x": (("chain", "draw", "coordinate_of_x"), values)})


def answers(
    score: Score, draw: Callable[[], Any], rng: np.random.Generator, replications: int
) -> list[xr.Dataset]:
    """Look for modes and test draws, many times."""
    return [
        ksd_modes(score, draw(), random_seed=rng, progressbar=False) for _ in range(replications)
    ]


def counted(results: Sequence[xr.Dataset], target: Mixture, number: int) -> dict[str, Any]:
    """Return how often draws were rejected and nothing told, and whether modes were found.

    Also the mean and spread of the share of the first component's mode, and its standard error.
    """
    n = len(results)
    status = [result.attrs["status"] for result in results]
    shares, errors = [], []
    for result in results:
        places = result["x"].values.reshape(result.sizes["mode"], -1)
        first = int(np.linalg.norm(places - target.centres[0], axis=1).argmin())
        shares.append(float(result["share_of_posterior"][first]))
        errors.append(float(result["mcse"][first]))
    return {
        "rejected": Rate(sum(float(result["p_value"]) <= ALPHA for result in results), n),
        "status": Rate(status.count("rejected"), n),
        "untold": Rate(status.count("cannot tell"), n),
        "found": Rate(sum(result.sizes["mode"] == number for result in results), n),
        "share": float(np.mean(shares)),
        "spread": float(np.std(shares)),
        "error": float(np.mean(errors)),
    }


def independent(name: str, source: str, n: int, replications: int) -> dict[str, Any]:
    """Test independent draws: exact ones, of all modes but the last, or with weights .4 and .6."""
    target = (TARGETS | SINGLE)[name]
    drawn = {"exact": lambda: target, "missed": lambda: missed(target)}
    mixture: Mixture = drawn.get(source, lambda: target.with_weights(0.4, 0.6))()
    rng = generator(f"{name}, {source}", n)
    results = answers(
        target.score(), lambda: mixture.draw(rng, 1, n)[0], rng.spawn(1)[0], replications
    )
    return counted(results, target, 1 if name in SINGLE else len(target.weights))


def chains(name: str, n_draws: int, stay: float, replications: int) -> dict[str, Any]:
    """Test exact chains that stay at a mode for a while."""
    target, rng = TARGETS[name], generator(f"{name}, {stay:g}", n_draws)
    results = answers(
        target.score(),
        lambda: dataset(target.draw(rng, 4, n_draws, stay, CORRELATION)),
        rng.spawn(1)[0],
        replications,
    )
    return counted(results, target, len(target.weights))


def frozen(modes: Sequence[int], replications: int) -> dict[str, Any]:
    """Test four chains of 250 draws that never leave their mode."""
    target, rng = TARGETS["two normal, d = 2"], generator("frozen", sum(modes))

    def draw() -> xr.Dataset:
        one = Mixture((1.0,), np.zeros((1, 2)), np.ones((1, 2)))
        values = one.draw(rng, 4, 250, 0.0, CORRELATION)
        return dataset(values + target.centres[list(modes)][:, None])

    return counted(answers(target.score(), draw, rng.spawn(1)[0], replications), target, 2)


def report(scale: float, workers: int, kept: Path | None = None) -> str:
    """Measure everything and return the page; `scale` multiplies the number of runs."""
    return measured(_report, "modes", scale, workers, kept)


def _report(scale: float, measure: Callable[..., Future[Any]]) -> str:
    def number(runs: int) -> int:
        return max(2, round(scale * runs))

    runs = number(RUNS)
    command = "python -m benchmarks.mode_calibration"
    command += "" if scale == 1 else f" --scale {scale:g}"
    return page(
        [
            "# Level and power of modes",
            "How often does `ksd_modes` reject draws that visit modes as they should, and how "
            "often others; how close are its shares? Numbers are shares of "
            f"{runs} runs in per cent (of {number(LEVEL):,} where independent draws are exact), ± "
            "one Monte Carlo standard error; a rejection is a p-value of at most 0.05. Modes are "
            "looked for anew in every run, from where these draws are and around zero: the "
            "densities are plain functions without a prior. Where nothing "
            "else is said, components are normal with standard deviation 1, equal weights, and 6 "
            "standard deviations apart (12 with skewed, heavy-tailed or edged components, which "
            "are Gumbel, Student's t with 3 degrees of freedom, and Laplace in each of 2 "
            "dimensions). Seeds are fixed, by one rule for all cells.",
            f"```\n{command}\n```",
            *_power(runs, measure),
            *_level(number(LEVEL), measure),
            *_of_chains(runs, measure),
            *_single(runs, measure),
        ]
    )


def _rate(cell: Future[Any], name: str = "rejected") -> str:
    return str(Rate(**cell.result()[name]))


def _power(runs: int, measure: Callable[..., Future[Any]]) -> list[Any]:
    lost = {name: measure(independent, name, "missed", 200, runs) for name in TARGETS}
    uneven = {name: measure(independent, name, "uneven", 500, runs) for name in UNEVEN}
    return [
        "## Power",
        "200 independent draws of all components but the last, and 500 with weights .4 and .6 in "
        "the place of .5 and .5. *Found* is how often there were as many modes as components.",
        [
            *header("density", "last mode missed, n = 200", "found", "weights .4 for .5, n = 500"),
            *(
                f"| {name} | {_rate(cell)} | {_rate(cell, 'found')} | "
                f"{_rate(uneven[name]) if name in uneven else ''} |"
                for name, cell in lost.items()
            ),
        ],
    ]


def _level(runs: int, measure: Callable[..., Future[Any]]) -> list[Any]:
    cells = {
        name: [measure(independent, name, "exact", n, runs) for n in SIZES] for name in TARGETS
    }
    rows = []
    for name, row in cells.items():
        largest = row[-1].result()
        share = f"{largest['share']:.3f} | {largest['spread']:.4f} | {largest['error']:.4f}"
        rates = " | ".join(map(_rate, row))
        rows.append(f"| {name} | {rates} | {TARGETS[name].weights[0]:g} | {share} |")
    rates = [Rate(**cell.result()["rejected"]).rate for row in cells.values() for cell in row]
    return [
        "## Level, and shares",
        "Exact independent draws. Beside them the weight of the first component, the mean of "
        "`share_of_posterior` of its mode, the standard deviation of that from run to run, and the "
        "mean of `mcse`. (The tails of wide components reach beyond the middle between modes, so "
        "that shares of neighbourhoods need not be the weights.)",
        [
            *header(
                "density", *(f"n = {n}" for n in SIZES), "weight", "share", "sd of share", "`mcse`"
            ),
            *rows,
        ],
        f"On average {100 * np.mean(rates):.1f} %, from {100 * np.min(rates):.1f} to "
        f"{100 * np.max(rates):.1f} %. The number of draws at a mode is a whole number, which "
        "makes the level a little lower than 5 %.",
    ]


def _of_chains(runs: int, measure: Callable[..., Future[Any]]) -> list[Any]:
    cells = {
        name: [measure(chains, name, n_draws, stay, runs) for n_draws, stay in CHAINS]
        for name in CHAIN_TARGETS
    }
    stuck = {name: measure(frozen, modes, runs) for name, modes in FROZEN.items()}
    columns = [f"4 × {n_draws:,}, stays {stay:g}" for n_draws, stay in CHAINS]
    return [
        "## Chains",
        "Four exact chains; a draw stays at the mode of the one before with the probability given, "
        f"and neighbouring draws near a mode have correlation {CORRELATION:g}. Rejected, and in "
        "brackets how often the answer was *cannot tell*.",
        [
            *header("density", *columns),
            *(
                f"| {name} | "
                + " | ".join(f"{_rate(cell, 'status')} ({_rate(cell, 'untold')})" for cell in row)
                + " |"
                for name, row in cells.items()
            ),
        ],
        "Four chains of 250 draws that never leave their mode, of two normal components with equal "
        "weights in 2 dimensions:",
        [
            *header("chains", "rejected", "cannot tell"),
            *(
                f"| {name} | {_rate(cell, 'status')} | {_rate(cell, 'untold')} |"
                for name, cell in stuck.items()
            ),
        ],
    ]


def _single(runs: int, measure: Callable[..., Future[Any]]) -> list[Any]:
    cells = {name: measure(independent, name, "exact", 200, runs) for name in SINGLE}
    return [
        "## One mode",
        "Densities with one mode, 200 exact draws: how often one mode was found, and rejections.",
        [
            *header("density", "one mode found", "rejected"),
            *(
                f"| {name} | {_rate(cell, 'found')} | {_rate(cell)} |"
                for name, cell in cells.items()
            ),
        ],
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    write_scaled_page(__doc__, report, "docs/mode_calibration.md", arguments)


if __name__ == "__main__":
    main()
