"""Level and power of ``ksd_test``, measured by simulation.

``python -m benchmarks.calibration`` repeats every measurement and writes ``docs/calibration.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import softmax

from benchmarks.calibration_cases import LEVEL_CASES, MISSED_CASES, POWER_CASES, Case
from benchmarks.measurements import write_page
from benchmarks.rates import ALPHA, Rate, count_rejections, generator, header, page
from pymc_ksd import Score, compile_score
from pymc_ksd.diagnostics.score import target_of

N = 200
REPLICATIONS = 400


def rejection_rate(
    case: Case, *, replications: int = REPLICATIONS, n: int = N, seed: int = 0, **options: Any
) -> Rate:
    """Draw data and test them, many times.

    Parameters
    ----------
    case : Case
        Model and source of data.
    replications : int, default 400
        Number of data sets.
    n : int, default 200
        Points in each.
    seed : int, default 0
        Fixes the data and the bootstraps, together with the case's name.
    **options
        Options of :func:`pymc_ksd.ksd_test`.

    Returns
    -------
    Rate
    """
    score = case.score()
    rng = generator(case.name, seed)
    return count_rejections(lambda: (score, case.draw(rng, n)), replications, rng, options)


#: What the page measures: the paper's test. That of the default panel is on a page of its own.
ONE_KERNEL = {"kernel": "rbf"}
#: Other tests than the default one, by what a user types.
OTHER_TESTS: dict[str, dict[str, Any]] = {
    'null="rademacher"': {"null": "rademacher"},
    'null="parametric", n_bootstrap=19': {"null": "parametric", "n_bootstrap": 19},
    'statistic="v"': {"statistic": "v"},
    'statistic="block"': {"statistic": "block"},
    'statistic="linear"': {"statistic": "linear"},
}
OTHER_TEST_CASES = tuple(
    case
    for case in LEVEL_CASES
    if case.name in ("Normal(1, 2)", "StudentT(3)", "Gamma(2, 1.5)", "Beta(2, 3)", "MvNormal (5-d)")
)


#: What of the five-component mixture's parameters the model has wrong.
PERTURBATIONS = ("nothing", "means", "log-variance", "log-weights")


def mixture_rejection_rate(
    perturbed: str,
    *,
    deviation: float = 1.0,
    replications: int = REPLICATIONS,
    n: int = 100,
    seed: int = 0,
    **options: Any,
) -> Rate:
    """Test data from random mixtures against the same mixtures with perturbed parameters.

    Data come from five normal components with weights 1/5, standard deviation 1 and means uniform
    on [0, 10], drawn anew for every data set. One model serves all of them.

    Parameters
    ----------
    perturbed : {"nothing", "means", "log-variance", "log-weights"}
        The parameters to which normal noise is added. The components share one variance.
    deviation : float, default 1
        Standard deviation of the noise.
    replications : int, default 400
        Number of data sets.
    n : int, default 100
        Points in each.
    seed : int, default 0
        Fixes mixtures, data and bootstraps, together with `perturbed`.
    **options
        Options of :func:`pymc_ksd.ksd_test`.

    Returns
    -------
    Rate
    """
    if perturbed not in PERTURBATIONS:
        raise ValueError(f"`perturbed` must be one of {PERTURBATIONS}, got {perturbed!r}.")
    with pm.Model() as model:
        pm.NormalMixture(
            "x",
            w=pm.Data("weights", np.full(5, 1 / 5)),
            mu=pm.Data("means", np.arange(5.0)),
            sigma=pm.Data("deviations", np.ones(5)),
            observed=np.arange(5.0),
        )
    score = compile_score(model)
    rng = generator(perturbed, seed)

    def trial() -> tuple[Score, np.ndarray]:
        means = rng.uniform(0, 10, 5)
        data = rng.normal(rng.choice(means, n), 1)
        noise = rng.normal(0, deviation, 5)
        pm.set_data(
            {
                "means": means + noise * (perturbed == "means"),
                "deviations": np.full(5, np.exp(noise[0] * (perturbed == "log-variance") / 2)),
                "weights": softmax(noise * (perturbed == "log-weights")),
            },
            model=model,
        )
        return score, data

    return count_rejections(trial, replications, rng, options)


def level_table(replications: int) -> list[str]:
    """Measure the level of the test, as a Markdown table."""
    options = {"replications": replications, **ONE_KERNEL}
    rates = [rejection_rate(case, **options) for case in _shown(LEVEL_CASES)]
    mean = float(np.mean([rate.rate for rate in rates]))
    error = float(np.sqrt(np.sum([rate.error**2 for rate in rates]))) / len(rates)
    return [
        *_level_rows(LEVEL_CASES, rates),
        f"| **mean of {len(rates)}** | | | {100 * mean:.2f} ± {100 * error:.2f} |",
    ]


def missed_table(replications: int) -> list[str]:
    """Measure the test where it does not keep its level, as a Markdown table."""
    options = {"replications": replications, **ONE_KERNEL}
    rates = [rejection_rate(case, **options) for case in _shown(MISSED_CASES)]
    return _level_rows(MISSED_CASES, rates)


def other_tests_table(replications: int) -> list[str]:
    """Measure the level of the other tests, as a Markdown table."""
    rows = []
    for name, options in OTHER_TESTS.items():
        rates = [
            rejection_rate(case, replications=replications, **ONE_KERNEL, **options)
            for case in _shown(OTHER_TEST_CASES, name)
        ]
        rows.append(f"| `{name}` | " + " | ".join(map(str, rates)) + " |")
    return [*header("test", *(case.name for case in OTHER_TEST_CASES)), *rows]


def power_table(replications: int) -> list[str]:
    """Measure the power of a normal model's test, as a Markdown table."""
    columns: dict[str, dict[str, Any]] = {
        "n = 50": {"n": 50},
        "n = 100": {"n": 100},
        "n = 200": {"n": 200},
        '`statistic="block"`, n = 200': {"n": 200, "statistic": "block"},
        '`statistic="linear"`, n = 200': {"n": 200, "statistic": "linear"},
    }
    rows = []
    for case in _shown(POWER_CASES, "power"):
        rates = [
            rejection_rate(case, replications=replications, **ONE_KERNEL, **options)
            for options in columns.values()
        ]
        rows.append(f"| {case.name} | " + " | ".join(map(str, rates)) + " |")
    return [*header("data", *columns), *rows]


def mixture_table(replications: int) -> list[str]:
    """Measure the power on the five-component mixture, as a Markdown table."""
    rows = []
    for perturbed in PERTURBATIONS:
        print(f"mixture: {perturbed}", flush=True)
        rates = [
            mixture_rejection_rate(
                perturbed, replications=replications, statistic=statistic, **ONE_KERNEL
            )
            for statistic in ("u", "linear")
        ]
        rows.append(f"| {perturbed} | " + " | ".join(map(str, rates)) + " |")
    return [*header("perturbed", '`statistic="u"`', '`statistic="linear"`'), *rows]


def _shown(cases: Sequence[Case], title: str = "level") -> Iterable[Case]:
    for case in cases:
        print(f"{title}: {case.name}", flush=True)
        yield case


def _level_rows(cases: Sequence[Case], rates: Sequence[Rate]) -> list[str]:
    rows = []
    for case, rate in zip(cases, rates, strict=True):
        target = target_of(case.score(), None, None, None)
        transforms = {variable.transform or "none" for variable in target.variables}
        role = "free" if case.free else "observed"
        rows.append(f"| {case.name} | {role} | {', '.join(sorted(transforms))} | {rate} |")
    return [*header("distribution", "variable", "transform", "rejected, %"), *rows]


def report(replications: int) -> str:
    """Measure everything and return the page."""
    error = 100 * np.sqrt(ALPHA * (1 - ALPHA) / replications)
    sections = [
        "# Level and power",
        "How often does `ksd_test` reject a model that is true, and how often one that is wrong? "
        f"For every line below, {replications} data sets were simulated and tested at the nominal "
        "level 5 %, and the share of p-values of at most 0.05 was counted. Data are drawn with "
        "NumPy and SciPy, not with PyMC, so that the model's log-probability, its gradient and its "
        "change of variables are checked as well. Numbers are per cent, ± one Monte Carlo standard "
        f"error (±{error:.1f} for a true level of 5 %). Seeds are fixed, by one rule for all "
        "lines.",
        f"```\npython -m benchmarks.calibration --replications {replications}\n```",
        "## Level",
        f'The test of the paper, `kernel="rbf"`: the U-statistic with the multinomial bootstrap, '
        f"1,000 replicates, RBF kernel and median bandwidth, n = {N}. The default joins several "
        "kernels. Points are compared on the scale named under *transform*, PyMC's default for the "
        "distribution; the variable is a free one or, in a model without free variables, an "
        "observed one.",
        level_table(replications),
        "### Where the level is not kept",
        "A test on a bounded support is right only if the density, on the scale where points are "
        "compared, falls to zero at every boundary, and does so fast enough for the score to have "
        "a variance. PyMC's default transforms see to that, with two exceptions. `Truncated` "
        "transforms the truncation points it is given and forgets the bounds of the distribution "
        "it truncates: give both (`lower=0, upper=3`), as in the table above. `LogitNormal` has no "
        "transform: its level is kept for a scale around 1 and lost for larger ones; test the "
        "log-odds of the data against a `Normal`.",
        missed_table(replications),
        "A variable on a circle (`VonMises`) is refused unless the kernel is periodic.",
        "## Level of other tests",
        f"n = {N}. The parametric null is exact for any number of replicates; 19 are the fewest "
        "that allow a p-value of 0.05. The null of the block and linear statistics is the normal "
        "approximation.",
        other_tests_table(replications),
        "## Power",
        "The model is Normal(0, 1), the data are not. Default test at three sample sizes, and the "
        "cheaper statistics.",
        power_table(replications),
        "### Five-component mixture",
        "The one-dimensional experiment of Liu, Lee and Jordan (2016), n = 100: data come from a "
        "mixture of five normal distributions with weights 1/5, standard deviation 1 and means "
        "uniform on [0, 10]; the model is the same mixture after normal noise with standard "
        "deviation 1 was added to its means, to the logarithm of its variance, or to the "
        "logarithms of its weights. Mixtures and noise are drawn anew for every data set, so some "
        "of the perturbed models are very close to the truth. The first line is the level.",
        mixture_table(replications),
    ]
    return page(sections)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    path = "docs/calibration.md"
    write_page(parser, lambda options: report(options.replications), path, arguments)


if __name__ == "__main__":
    main()
