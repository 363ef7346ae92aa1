"""Level and power of ``ksd_ppc`` on paths, single vectors and outcomes with atoms or bounds.

``python -m benchmarks.path_calibration`` repeats every measurement and writes
``docs/path_calibration.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.replace import graph_replace

from benchmarks.measurements import Measurements, write_page
from benchmarks.path_cases import PATH_MISFITS, PATHS, PathCase, autoregressive_paths
from benchmarks.predictive_calibration import pit_p_value
from benchmarks.predictive_cases import Fitted
from benchmarks.rates import ALPHA, Rate, generator, header, page
from pymc_ksd import ksd_ppc
from pymc_ksd.models.log_density import compile_simulation

REPLICATIONS, POWER_REPLICATIONS = 200, 100
NUM_DRAWS = 40
#: Share of the data sets that are measured where each takes long.
SLOW = 0.4
COLUMNS = ("`ksd_ppc`", "PIT")


def rejections(case: PathCase, replications: int) -> list[Rate]:
    """Return the shares of rejected data sets for our check and for the PIT values."""
    rng = generator(f"{case.family}: {case.data}", case.n)
    counts = [0, 0]
    for _ in range(replications):
        fitted = case.fit(rng, NUM_DRAWS)
        check = ksd_ppc(
            fitted.model, fitted.posterior, num_draws=NUM_DRAWS, random_seed=rng, progressbar=False
        )
        # A hurdle has two parts, and is rejected if one of them is.
        counts[0] += float(check["p_value"].min()) <= ALPHA
        counts[1] += predictive_pit(fitted, rng) <= ALPHA
    return [Rate(int(count), replications) for count in counts]


def predictive_pit(fitted: Fitted, rng: np.random.Generator) -> float:
    """Return ArviZ's p-value for the PIT values of whole replicates, ties broken at random."""
    if "rho" in fitted.posterior:
        replicated = autoregressive_paths(fitted, rng)
    else:
        draw, names = _simulator(fitted.model)
        values = [fitted.posterior[name].values[0] for name in names]
        replicated = np.stack([draw(rng, *given)[0] for given in zip(*values, strict=True)])
    ties = np.mean(replicated == fitted.y, axis=0)
    pit = np.mean(replicated < fitted.y, axis=0) + rng.uniform(size=ties.shape) * ties
    return pit_p_value(pit)


@cache
def _simulator(model: pm.Model) -> tuple[Callable[..., Any], list[str]]:
    """Return a function that draws the outcome, and the free variables that it takes."""
    free = {rv: rv.type() for rv in model.free_RVs}
    (outcome,) = graph_replace([model["y"]], free, strict=False)
    return compile_simulation(list(free.values()), [outcome]), [str(rv.name) for rv in free]


def _table(cases: Sequence[PathCase], replications: int, measure: Measurements) -> list[str]:
    lines = header("model", "data", "n", "data sets", *COLUMNS)
    for case in cases:
        count = round(SLOW * replications) if case.slow else replications
        name = f"{case.family} | {case.data} | {case.n} | {count}"
        found = measure(name, rejections, case, count).result()
        rates = [Rate(**rate) for rate in found]
        lines.append(f"| {name} | {' | '.join(map(str, rates))} |")
    return lines


def report(replications: int, power_replications: int, measure: Measurements) -> str:
    """Measure and return the page.

    Parameters
    ----------
    replications, power_replications : int
        Data sets of true and of wrong models, for each line; fewer where they take long.
    measure : Measurements
        Keeps what is measured.

    Returns
    -------
    str
    """
    return page(
        [
            "# Level and power on paths, vectors, and censored outcomes",
            "How often does `ksd_ppc` find fault with a single path, a single vector, or outcomes "
            "with atoms or bounds? Numbers are the share of p-values of at most 0.05 in per cent, "
            "± one Monte Carlo standard error. Posteriors are exact or as good as exact, with "
            f"flat priors, {NUM_DRAWS} draws each; `n` counts steps, places, observations, items "
            "or persons. Beside ours: the uniformity test of PIT values that ArviZ's "
            "`plot_ppc_pit` shows, of whole replicates of the same data and draws. A hurdle is "
            "rejected if one of its two parts is. Survival has the deaths in six groups and eight "
            "intervals, given the time at risk.",
            f"```\npython -m benchmarks.path_calibration --replications {replications} "
            f"--power-replications {power_replications}\n```",
            "## True models",
            "At most 6 % may be rejected. Values of one path or process depend on each other, and "
            "so do their PIT values, which the uniformity test takes as independent.",
            _table(PATHS, replications, measure),
            "## Wrong models",
            "Where the PIT values of a true model are rejected far too often, those of a wrong one "
            "say nothing.",
            _table(PATH_MISFITS, power_replications, measure),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    parser.add_argument("--power-replications", type=int, default=POWER_REPLICATIONS)
    parser.add_argument("--keep", type=Path, help="a folder for finished lines, to go on from")

    def measured(options: argparse.Namespace) -> str:
        with Measurements(options.keep, name="paths") as measure:
            return report(options.replications, options.power_replications, measure)

    write_page(parser, measured, "docs/path_calibration.md", arguments)


if __name__ == "__main__":
    main()
