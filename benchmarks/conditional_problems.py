"""Level and power of ``ksd_ppc`` on published problems with known conditional distributions.

``python -m benchmarks.conditional_problems`` repeats every measurement and writes
``docs/conditional_problems.md``. The problems are those of the experiments of kernel-cgof, the code
of Jitkrittum, Kanagawa and Schölkopf (2020): a distribution of the outcome given inputs, without
any parameter to fit, against data that follow another one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from benchmarks.measurements import Measurements, write_page
from benchmarks.rates import ALPHA, Rate, generator, header, page
from pymc_ksd import ksd_ppc

REPLICATIONS, NUM_DRAWS = 400, 200
#: Data sets that are measured at a time.
_PART = 50


@dataclass(frozen=True)
class Problem:
    """A conditional distribution, and data that do not follow it.

    Attributes
    ----------
    name : str
        What kernel-cgof calls it.
    n : int
        Number of observations.
    dim : int
        Number of inputs.
    inputs : callable
        Draws inputs, shape (n, dim).
    mean, deviation : callable
        Those of the normal outcome under the model, of inputs as NumPy or PyTensor arrays.
    outcomes : callable
        Draws outcomes given inputs.
    power : float
        What the power is to be.
    """

    name: str
    n: int
    dim: int
    inputs: Callable[[np.random.Generator, int], np.ndarray]
    mean: Callable[[Any], Any]
    deviation: Callable[[Any], Any]
    outcomes: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    power: float


def _normal_inputs(dim: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, n: rng.normal(size=(n, dim))


def _one(x: Any) -> Any:
    return 1.0 + 0.0 * x[:, 0]


def _bump(x: Any) -> Any:
    """Return standard deviations with a bump at (1.5, 1.5, ...)."""
    squared = ((x - 1.5) ** 2).sum(axis=1)
    return (1.0 + 10.0 * np.exp(-0.5 * squared / 0.8**2)) ** 0.5


PROBLEMS = [
    Problem(
        "quad_vs_lin",
        400,
        1,
        lambda rng, n: rng.uniform(-2, 2, size=(n, 1)),
        lambda x: 1 + x[:, 0],
        _one,
        lambda rng, x: 1 + x[:, 0] + 0.1 * x[:, 0] ** 2 + rng.normal(size=len(x)),
        0.57,
    ),
    Problem(
        "gauss_t",
        300,
        1,
        _normal_inputs(1),
        lambda x: 1 + x[:, 0],
        _one,
        lambda rng, x: 1 + x[:, 0] + rng.standard_t(5, size=len(x)),
        0.55,
    ),
    Problem(
        "quad_quad",
        300,
        1,
        _normal_inputs(1),
        lambda x: 1 + 1.8 * x[:, 0] + x[:, 0] ** 2,
        _one,
        lambda rng, x: 1 + 2 * x[:, 0] + x[:, 0] ** 2 + rng.normal(size=len(x)),
        0.45,
    ),
    Problem(
        "g_het",
        300,
        3,
        _normal_inputs(3),
        lambda x: x.sum(axis=1) - 1,
        _bump,
        lambda rng, x: x.sum(axis=1) - 1 + rng.normal(size=len(x)),
        0.20,
    ),
]


def _problem(name: str) -> Problem:
    (problem,) = (one for one in PROBLEMS if one.name == name)
    return problem


@cache
def _model(name: str) -> pm.Model:
    problem = _problem(name)
    with pm.Model() as model:
        x = pm.Data("x", np.zeros((problem.n, problem.dim)))
        outcome = pm.Data("outcome", np.zeros(problem.n))
        pm.Normal("y", problem.mean(x), problem.deviation(x), observed=outcome)
    return model


def check_of(problem: Problem, rng: np.random.Generator, *, true: bool) -> xr.Dataset:
    """Return the check of one data set that follows the model, or does not."""
    x = problem.inputs(rng, problem.n)
    if true:
        y = problem.mean(x) + problem.deviation(x) * rng.normal(size=problem.n)
    else:
        y = problem.outcomes(rng, x)
    with _model(problem.name) as model:
        pm.set_data({"x": x, "outcome": y})
        return ksd_ppc(model, num_draws=NUM_DRAWS, random_seed=rng, progressbar=False)


def rejections(name: str, true: bool, part: int, count: int) -> int:
    """Count p-values of at most 0.05 in one part of the data sets."""
    problem = _problem(name)
    rng = generator(f"{name}: {true}", part)
    checks = (check_of(problem, rng, true=true) for _ in range(count))
    return sum(float(check["p_value"]) <= ALPHA for check in checks)


def rate(
    problem: Problem, true: bool, replications: int, measure: Measurements
) -> Callable[..., Rate]:
    """Begin to measure a share of rejections, part by part; return a function that waits for it."""
    counts = [min(_PART, replications - start) for start in range(0, replications, _PART)]
    cells = [
        measure(
            f"{problem.name}, {'true' if true else 'wrong'}, {part} ({count})",
            rejections,
            problem.name,
            true,
            part,
            count,
        )
        for part, count in enumerate(counts)
    ]
    return lambda: Rate(sum(cell.result() for cell in cells), replications)


def report(replications: int, level_replications: int, measure: Measurements) -> str:
    """Measure and return the page."""
    lines = header("problem", "inputs", "n", "level", "power", "power asked for")
    powers = [rate(problem, False, replications, measure) for problem in PROBLEMS]
    levels = [rate(problem, True, level_replications, measure) for problem in PROBLEMS]
    for problem, level, power in zip(PROBLEMS, levels, powers, strict=True):
        asked = f"{100 * problem.power:.0f}"
        lines.append(
            f"| {problem.name} | {problem.dim} | {problem.n} | {level()} | {power()} | {asked} |"
        )
    return page(
        [
            "# Known conditional distributions",
            "How often does `ksd_ppc` reject a model without parameters, `ksd_ppc(model)`, if data "
            "follow it, and if they do not? Numbers are the share of p-values of at most 0.05 in "
            f"per cent, ± one Monte Carlo standard error, over {replications} simulated data sets "
            f"({level_replications} for the level), with {NUM_DRAWS} replicated ones each. "
            "Seeds are fixed; how members are joined was chosen on others.",
            f"```\npython -m benchmarks.conditional_problems --replications {replications} "
            f"--level-replications {level_replications}\n```",
            "The problems are those of the experiments of [kernel-cgof]"
            "(https://github.com/wittawatj/kernel-cgof) (Jitkrittum, Kanagawa and Schölkopf, "
            "*Testing goodness of fit of conditional density models with kernels*, 2020): a "
            "straight line against a slight curve; normal against Student-t(5) noise; a parabola "
            "against one with another slope; noise whose spread has a bump in three dimensions "
            "against noise of spread 1.",
            lines,
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    parser.add_argument("--level-replications", type=int, default=REPLICATIONS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for finished lines, to go on from")

    def measured(options: argparse.Namespace) -> str:
        with Measurements(
            options.keep, name="known conditionals", workers=options.workers
        ) as measure:
            return report(options.replications, options.level_replications, measure)

    write_page(parser, measured, "docs/conditional_problems.md", arguments)


if __name__ == "__main__":
    main()
