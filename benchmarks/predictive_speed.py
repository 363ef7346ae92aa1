"""What ``ksd_ppc`` costs: outcomes of several kinds, a loop written by hand, and growth with n.

``python -m benchmarks.predictive_speed`` repeats every measurement and writes
``docs/predictive_speed.md``.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr

from benchmarks.measurements import versions, write_page
from benchmarks.rates import header, page
from benchmarks.speed import fresh, n_cores, seconds
from pymc_ksd import ksd_ppc

FAMILIES = ("normal", "Poisson", "binomial", "logistic")
#: Largest time of counts in units of that of normal outcomes, and of these in units of the loop.
MOST_OF_NORMAL, MOST_OF_LOOP = 2.0, 3.0
#: Seconds and megabytes that 10,000 counts may take.
MOST_SECONDS, MOST_MEGABYTES = 60, 1_000
_COEFFICIENTS = np.array([0.5, 0.3])
_ROUNDS = 3


def regression(family: str, n: int) -> tuple[pm.Model, xr.Dataset]:
    """Return a regression on one input with data that it explains, and draws of its posterior."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    mean = _COEFFICIENTS[0] + _COEFFICIENTS[1] * x
    with pm.Model() as model:
        inputs = pm.Data("x", x)
        b = pm.Normal("b", 0, 2, shape=2)
        predictor = b[0] + b[1] * inputs
        if family == "normal":
            pm.Normal("y", predictor, 1.0, observed=rng.normal(mean))
        elif family == "Poisson":
            pm.Poisson("y", pm.math.exp(predictor), observed=rng.poisson(np.exp(mean)))
        elif family == "binomial":
            y = rng.binomial(10, 1 / (1 + np.exp(-mean)))
            pm.Binomial("y", 10, pm.math.sigmoid(predictor), observed=y)
        else:
            y = rng.binomial(1, 1 / (1 + np.exp(-mean)))
            pm.Bernoulli("y", logit_p=predictor, observed=y)
    draws = _COEFFICIENTS + rng.normal(size=(2, 100, 2)) / np.sqrt(n)
    return model, xr.Dataset({"b": (("chain", "draw", "b_dim_0"), draws)})


def differential_equation(n: int = 42, steps: int = 50) -> tuple[pm.Model, xr.Dataset]:
    """Return two populations that live on each other, solved by a loop of small steps."""
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        rates = pm.LogNormal("rates", -1, 0.5, shape=4)

        def step(state: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
            prey, hunter = state[0], state[1]
            change = pt.stack([a * prey - b * prey * hunter, -c * hunter + d * prey * hunter])
            return state + 0.01 * change

        path, _ = pytensor.scan(
            step,
            outputs_info=[pt.as_tensor_variable(np.array([1.0, 1.0]))],
            non_sequences=[rates[index] for index in range(4)],
            n_steps=n * steps,
        )
        at = np.arange(n) * steps
        y = rng.lognormal(0, 0.25, size=(n, 2))
        pm.LogNormal("y", pt.log(path[at]), 0.25, observed=y)
    draws = np.exp(-1 + 0.05 * rng.normal(size=(2, 100, 4)))
    return model, xr.Dataset({"rates": (("chain", "draw", "rates_dim_0"), draws)})


def check(fitted: tuple[pm.Model, xr.Dataset]) -> xr.Dataset:
    """Run the check of a fitted model."""
    return ksd_ppc(*fitted, num_draws=200, random_seed=1, progressbar=False, client=False)


@cache
def _loop() -> Any:
    import numba

    @numba.njit(nogil=True, fastmath=True, error_model="numpy")
    def rows(z: Any, s: Any, c: Any, start: int, stop: int) -> Any:
        """Add up two bandwidths of residuals times three of the input, over pairs of rows."""
        sums = np.zeros((z.shape[0], 6))
        for draw in range(z.shape[0]):
            a0 = a1 = a2 = b0 = b1 = b2 = 0.0
            for i in range(start, stop):
                x, t, own = z[draw, i], s[draw, i], c[i]
                for j in range(i):
                    gap = x - z[draw, j]
                    r, product = gap * gap, t * s[draw, j]
                    cross = gap * (s[draw, j] - t) - 1
                    k = np.exp(-0.5 * r)
                    u = k * (product - cross - r)
                    k = np.exp(-0.125 * r)
                    v = k * (product - 0.25 * cross - 0.0625 * r)
                    far = (own - c[j]) * (own - c[j])
                    near, wide = np.exp(-4.5 * far), np.exp(-0.5 * far)
                    a0 += u
                    a1 += u * near
                    a2 += u * wide
                    b0 += v
                    b1 += v * near
                    b2 += v * wide
            sums[draw] = a0, a1, a2, b0, b1, b2
        return sums

    return rows


def loop(n: int, samples: int = 400) -> Callable[[], Any]:
    """Return the sums of a check of normal outcomes, by a plain loop in every thread."""
    rng = np.random.default_rng(0)
    z, c, rows = rng.normal(size=(samples, n)), rng.normal(size=n), _loop()
    cores = n_cores()
    # Rows with as many pairs for every thread, several times.
    ends = np.round(n * np.sqrt(np.linspace(0, 1, 8 * cores + 1))).astype(int)

    def run() -> Any:
        with ThreadPoolExecutor(cores) as pool:
            parts = pool.map(lambda at: rows(z, -z, c, ends[at], ends[at + 1]), range(8 * cores))
            return sum(parts)

    return run


def ratios(n: int) -> dict[str, tuple[float, float]]:
    """Return the seconds of the best call and the ratio to normal outcomes, median of rounds."""
    fitted = {family: regression(family, n) for family in FAMILIES}
    calls: dict[str, Callable[[], Any]] = {
        family: lambda one=one: check(one) for family, one in fitted.items()
    }
    calls["loop written by hand"] = loop(n)
    for call in calls.values():
        call()  # compiles
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            taken[name].append(seconds(call))
    normal = np.array(taken["normal"])
    return {
        name: (min(own), float(np.median(np.array(own) / normal))) for name, own in taken.items()
    }


def grown_case(family: str, n: int) -> None:
    """Check many observations, for time and memory."""
    check(regression(family, n))


def _processor_seconds() -> float:
    """Return what finished processes have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def equation_seconds() -> float:
    """Return the seconds of a check of a differential equation."""
    fitted = differential_equation()
    check(fitted)
    return seconds(lambda: check(fitted))


def report(sizes: Sequence[int]) -> str:
    """Measure and return the page."""
    found = ratios(2_000)
    one = found["loop written by hand"][1]
    table = header("outcome", "seconds", "in units of normal outcomes")
    table += [f"| {name} | {best:.2f} | {ratio:.2f} |" for name, (best, ratio) in found.items()]
    growth = header("n", "seconds", "processor seconds of all cores", "megabytes")
    for n in sizes:
        before = _processor_seconds()
        megabytes, took = fresh("grown_case", "Poisson", n, module="predictive_speed")
        spent = _processor_seconds() - before
        growth.append(f"| {n:,} | {took:.1f} | {spent:.0f} | {megabytes:,.0f} |")
    made = ", ".join(f"{name} {version}" for name, version in versions().items())
    return page(
        [
            "# Speed of checks of fitted models",
            f"Made by `python -m benchmarks.predictive_speed` with {made}, on {n_cores()} cores. "
            "`ksd_ppc` with 200 draws and its default panel: two bandwidths of residuals, two of "
            "every comparison by covariates. Other work on the machine makes seconds longer; "
            "ratios are medians over rounds in which all were called in turn.",
            "## Kinds of outcomes, n = 2,000",
            "Regressions on one input. Counts have two comparisons more than normal outcomes, "
            "whose parameter is a straight line in the input. The loop is written by hand with "
            "numba for the sums of the normal regression alone, and runs on all cores.",
            table,
            f"A check of normal outcomes takes {1 / one:.2f} times as long as the loop; at most "
            f"{MOST_OF_LOOP:g} are allowed, and for counts {MOST_OF_NORMAL:g} times as long as for "
            "normal outcomes.",
            "## Growth with n",
            "Poisson regression, each in a fresh process with machine code that is stored already; "
            "memory is its peak above `import pymc`, processor seconds count imports. Up to 7,071 "
            "observations are compared all with all; of more, those in the same of several random "
            "parts, so that there are at most 50 million ordered pairs for every draw.",
            growth,
            "## A differential equation",
            f"42 observations of two populations, solved by a loop of 2,100 steps for each of 200 "
            f"draws: {equation_seconds():.1f} s. Every draw needs one solution.",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[500, 1_000, 2_000, 4_000, 10_000, 100_000]
    )
    write_page(parser, lambda options: report(options.sizes), "docs/predictive_speed.md", arguments)


if __name__ == "__main__":
    main()
