"""Level and power of ``ksd_ppc`` and of the test of held-out data, measured by simulation.

``python -m benchmarks.predictive_calibration`` repeats every measurement and writes
``docs/predictive_calibration.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.held_out import HELD_OUT, MANY_DRAWS, HeldOut, held_out_rate
from benchmarks.measurements import Measurements, write_page
from benchmarks.predictive_cases import EFFECTS, MISFITS, TRUE, Case, Fitted
from benchmarks.rates import ALPHA, Rate, generator, header, page
from pymc_ksd import ksd_ppc
from pymc_ksd.models.observed.fitted import fitted_density
from pymc_ksd.samples.posterior import given_values

REPLICATIONS, POWER_REPLICATIONS = 200, 100
NUM_DRAWS = 60
#: What data are summarised by in the usual predictive checks.
SUMMARIES: dict[str, Callable[..., np.ndarray]] = {
    "mean": np.mean,
    "variance": np.var,
    "min": np.min,
    "max": np.max,
}
#: Largest share of rejected models with random effects, all of which are true.
MOST_REJECTED = 0.06
SECTIONS = ("True models", "Random effects", "Wrong models", "Held-out data")
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


def _measured(
    cells: Mapping[str, tuple[Callable[..., Any], Case | HeldOut, int]], measure: Measurements
) -> dict[str, list[Rate]]:
    """Return the rates of the lines of a table, which begin with their names."""
    found = {}
    for name, (function, case, replications) in cells.items():
        cell = measure(f"{name} ({replications})", function, case, replications)
        found[name] = [Rate(**rate) for rate in cell.result()]
    return found


def _lines(rates: Mapping[str, Sequence[Rate]]) -> list[str]:
    return [f"| {name} | {' | '.join(map(str, line))} |" for name, line in rates.items()]


def _checked(
    cases: Sequence[Case], replications: int, measure: Measurements
) -> dict[str, list[Rate]]:
    """Measure the checks on several cases."""

    def rates(case: Case, replications: int) -> list[Rate]:
        return list(check_rates(case, replications).values())

    return _measured(
        {f"{case.family} | {case.data} | {case.n}": (rates, case, replications) for case in cases},
        measure,
    )


def _check_table(rates: Mapping[str, Sequence[Rate]]) -> list[str]:
    return [*header("model", "data", "n", *COLUMNS), *_lines(rates)]


def held_out_table(replications: int, measure: Measurements) -> list[str]:
    """Measure the test of held-out data, as a Markdown table."""
    bootstrap = {"null": "multinomial", "n_bootstrap": 400}

    def rates(case: HeldOut, replications: int) -> list[Rate]:
        return [
            held_out_rate(case, 2 * replications, n_bootstrap=19),
            held_out_rate(case, replications, **bootstrap),
            held_out_rate(case, replications, fitted=2_000, **bootstrap),
            held_out_rate(case, replications, shared=False, **bootstrap),
            held_out_rate(case, replications, shared=False, draws=MANY_DRAWS, **bootstrap),
        ]

    cells = {case.name: (rates, case, replications) for case in HELD_OUT}
    columns = (
        "default",
        "bootstrap",
        "bootstrap, 2,000 fitted",
        "bootstrap, parameters of their own",
        f"the same, {MANY_DRAWS} draws",
    )
    return [*header("model", *columns), *_lines(_measured(cells, measure))]


def _effects(replications: int, measure: Measurements) -> list[str | list[str]]:
    """Return the section about models with random effects."""
    rates = _checked(EFFECTS, replications, measure)
    ours = [line[:2] for line in rates.values()]
    auto, alone = (
        Rate(sum(r.rejections for r in column), sum(r.replications for r in column))
        for column in zip(*ours, strict=True)
    )
    largest = max((rate for line in ours for rate in line), key=lambda rate: rate.rate)
    return [
        "Effects with known hyperparameters, whose posterior is known exactly: normal, "
        "beta-binomial and gamma-Poisson outcomes, one, two, four and eight of them for each "
        "effect. The last lines have an input beside the effects: a slope of normal and Poisson "
        "outcomes, with its own prior (the latter drawn on a fine grid), and the number of trials "
        "of binomial ones. Discrepancies "
        "around the posterior mean, which has seen the outcome, would reject all models with one "
        "outcome for each effect and many of the others.",
        f"At most {100 * MOST_REJECTED:.0f} % of p-values may be 0.05 or less. Over all lines it "
        f"is {auto} % with covariates and {alone} % without, and in the line with the most "
        f"{largest} %.",
        _check_table(rates),
    ]


def _sections(page_text: str) -> dict[str, str]:
    """Return the sections of a page by their headings; the first, without one, by ``""``."""
    first, *others = ("\n" + page_text).split("\n## ")
    parts = (part.partition("\n") for part in others)
    return {"": first.strip()} | {heading: text.strip() for heading, _, text in parts}


def _introduction(replications: int, power_replications: int) -> str:
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
        ]
    ).strip()


def report(
    replications: int,
    power_replications: int,
    measure: Measurements,
    *,
    only: Sequence[str] = SECTIONS,
    before: str = "",
) -> str:
    """Measure and return the page.

    Parameters
    ----------
    replications, power_replications : int
        Data sets of true and of wrong models, for each line.
    measure : Measurements
        Keeps what is measured.
    only : sequence of str, optional
        Headings of the sections to measure, by default all.
    before : str, default ""
        The page that has the other sections, measured with as many data sets.

    Returns
    -------
    str
    """
    kept = _sections(before)
    introduction = _introduction(replications, power_replications)
    if set(only) != set(SECTIONS) and kept[""] != introduction:
        raise ValueError(
            "`only` must be left out, or the page must have been written with as many data sets "
            "and the same introduction: measure all sections."
        )
    written: dict[str, Callable[[], list[str | list[str]]]] = {
        "True models": lambda: [
            "Predictive checks use the data twice, so they reject less often than 5 %.",
            _check_table(_checked(TRUE, replications, measure)),
        ],
        "Random effects": lambda: _effects(replications, measure),
        "Wrong models": lambda: [
            "Comparing observations by their covariates, too, is what finds a wrong mean, which "
            "leaves the residuals of all observations together in order. What the residuals alone "
            "show, such as heavy tails, it finds as well.",
            _check_table(_checked(MISFITS, power_replications, measure)),
        ],
        "Held-out data": lambda: [
            "`ksd_test(model, new_data, posterior=idata)` with 100 new observations of a model "
            "that was fitted to 20, and 100 draws of its posterior. New data share one value of "
            "the parameters, another draw of the posterior. The default null replicates that (19 "
            'replicates, twice as many data sets). The bootstrap, `null="multinomial"`, is right '
            "only if the fit was to many more data (third column), or if every observation had "
            "parameters of its own; then it wants many draws, too, because it takes their mixture "
            "as the predictive distribution itself (fourth column, and fifth).",
            held_out_table(replications, measure),
        ],
    }
    sections: list[str | list[str]] = [introduction]
    for heading in SECTIONS:
        sections.append(f"## {heading}")
        sections += written[heading]() if heading in only else [kept[heading]]
    return page(sections)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    parser.add_argument("--power-replications", type=int, default=POWER_REPLICATIONS)
    parser.add_argument("--keep", type=Path, help="a folder for finished lines, to go on from")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=SECTIONS,
        default=SECTIONS,
        help="sections to measure; the others stay as the page has them",
    )

    def measured(options: argparse.Namespace) -> str:
        before = options.out.read_text(encoding="utf-8") if options.out.exists() else ""
        with Measurements(options.keep, name="fitted models") as measure:
            return report(
                options.replications,
                options.power_replications,
                measure,
                only=options.only,
                before=before,
            )

    write_page(parser, measured, "docs/predictive_calibration.md", arguments)


if __name__ == "__main__":
    main()
