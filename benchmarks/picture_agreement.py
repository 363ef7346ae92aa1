"""How often picture and test of ``ksd_ppc`` agree, and whether the picture marks the right place.

``python -m benchmarks.picture_agreement`` repeats every measurement and writes
``docs/picture_agreement.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from benchmarks.measurements import measured, write_scaled_page
from benchmarks.path_cases import PathCase
from benchmarks.predictive_cases import Case, Fitted, posterior_of
from benchmarks.rates import ALPHA, generator, header, page
from pymc_ksd import ksd_ppc, plot_ksd_ppc

NUM_DRAWS = 40
#: Data sets of true and of wrong models, together, and of each planted misfit.
REPLICATIONS, PLANTED_REPLICATIONS = 200, 100
#: Six kinds of models: data that they explain, and data that they do not.
KINDS: list[tuple[Case | PathCase, Case | PathCase]] = [
    (Case("normal", "true", 200), Case("normal", "missing quadratic term", 200)),
    (Case("Poisson", "true", 200), Case("Poisson", "over-dispersed counts", 200)),
    (Case("logistic", "true", 200), Case("logistic", "missing quadratic term", 400)),
    (Case("hierarchical", "true", 200), Case("hierarchical", "scale differs between groups", 200)),
    (PathCase("AR(1)", "true", 200), PathCase("AR(1)", "second order", 200)),
    (
        PathCase("one Multinomial vector", "true", 200),
        PathCase("one Multinomial vector", "too few of the mixed kind", 200),
    ),
]


def agreement(kind: int, is_true: bool, count: int) -> list[int]:
    """Return how often both speak, only the test, only the picture, none, and a place by itself.

    The last is how often, of those that are marked, some place is beyond its threshold.
    """
    case = KINDS[kind][0 if is_true else 1]
    rng = generator(f"picture of {case.family}: {case.data}", case.n)
    found = [0] * 5
    for _ in range(count):
        check = _checked(case.fit(rng, NUM_DRAWS), rng)
        rejects = float(check["p_value"]) <= ALPHA
        drawn = plot_ksd_ppc(check, backend="none").viz.children
        is_marked = "marked_0" in drawn
        found[(0 if is_marked else 1) if rejects else (2 if is_marked else 3)] += 1
        found[4] += is_marked and float(check["picture_strength"]) > 1
    return found


def _checked(fitted: Fitted, rng: np.random.Generator, covariates: Any = "auto") -> xr.Dataset:
    return ksd_ppc(
        fitted.model,
        fitted.posterior,
        covariates=covariates,
        num_draws=NUM_DRAWS,
        random_seed=rng,
        progressbar=False,
    )


#: Where misfits are planted: a stretch of the input, and a group.
_STRETCH, _GROUP, _GROUPS = (0.6, 0.8), 3, 8


@cache
def _line(n: int) -> pm.Model:
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(n))
        b = pm.Normal("b", 0, 100, shape=2)
        pm.Normal("y", b[0] + b[1] * x, 1.0, observed=pm.Data("outcome", np.zeros(n)))
    return model


def _bump(rng: np.random.Generator, n: int = 200) -> tuple[Fitted, Any]:
    """Return a straight line fitted to data with a bump."""
    x = rng.uniform(size=n)
    y = 1 + x + rng.normal(size=n) + 1.2 * ((x > _STRETCH[0]) & (x < _STRETCH[1]))
    design = np.column_stack([np.ones(n), x])
    inverse = np.linalg.inv(design.T @ design)
    steps = rng.normal(size=(NUM_DRAWS, 2)) @ np.linalg.cholesky(inverse).T
    model = _line(n)
    with model:
        pm.set_data({"x": x, "outcome": y})
    return Fitted(model, posterior_of(b=inverse @ design.T @ y + steps), y), "auto"


@cache
def _rate(n: int) -> pm.Model:
    with pm.Model() as model:
        rate = pm.Gamma("rate", 1, 0.01)
        outcome = pm.Data("outcome", np.zeros(n, dtype=np.int64))
        pm.Poisson("y", rate, shape=n, observed=outcome)
    return model


def _counts(rng: np.random.Generator, n: int = 200) -> tuple[Fitted, Any]:
    """Return counts of one rate, and data with a higher one in a stretch of a covariate."""
    x = rng.uniform(size=n)
    y = rng.poisson(np.where((x > _STRETCH[0]) & (x < _STRETCH[1]), 5.5, 3.0))
    model = _rate(n)
    with model:
        pm.set_data({"outcome": y})
    rate = rng.gamma(1 + y.sum(), 1 / (0.01 + n), size=NUM_DRAWS)
    return Fitted(model, posterior_of(rate=rate), y), {"y": pd.Series(x, name="x")}


@cache
def _groups(n: int) -> pm.Model:
    group = np.arange(n) % _GROUPS
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 100, shape=_GROUPS)
        pm.Normal("y", theta[group], 1.0, observed=pm.Data("outcome", np.zeros(n)))
    return model


def _spread(rng: np.random.Generator, n: int = 200) -> tuple[Fitted, Any]:
    """Return groups of one spread, and data with a wider one."""
    group = np.arange(n) % _GROUPS
    y = rng.normal(size=_GROUPS)[group] + rng.normal(size=n) * np.where(group == _GROUP, 2.2, 1.0)
    means = np.array([y[group == one].mean() for one in range(_GROUPS)])
    theta = means + rng.normal(size=(NUM_DRAWS, _GROUPS)) / np.sqrt(n / _GROUPS)
    model = _groups(n)
    with model:
        pm.set_data({"outcome": y})
    return Fitted(model, posterior_of(theta=theta), y), "auto"


PLANTED: dict[str, tuple[Callable[..., tuple[Fitted, Any]], tuple[float, float]]] = {
    "a bump in the mean where 0.6 < x < 0.8": (_bump, _STRETCH),
    "a higher rate of counts where 0.6 < x < 0.8": (_counts, _STRETCH),
    "more spread in one of eight groups": (_spread, (_GROUP - 0.5, _GROUP + 0.5)),
}


def located(name: str, count: int) -> list[float]:
    """Return how often the test rejects, the picture marks the place, and what is marked beside.

    The last is the share of the axis that is marked where nothing is planted, on average.
    """
    fit, (start, stop) = PLANTED[name]
    rng = generator(name, 1)
    rejected, found, beside = 0, 0, 0.0
    for _ in range(count):
        fitted, covariates = fit(rng)
        check = _checked(fitted, rng, covariates)
        if float(check["p_value"]) > ALPHA:
            continue
        rejected += 1
        marked = list(zip(check["marked_from"].values, check["marked_to"].values, strict=True))
        shared = [max(0.0, min(high, stop) - max(low, start)) for low, high in marked]
        is_there = str(check["picture_kind"].item()) != "values"
        found += is_there and max(shared) > 0
        total = sum(high - low for low, high in marked) - sum(shared)
        whole = float(np.ptp(check["picture_x"].values)) if is_there else np.nan
        beside += total / whole if is_there else 0.0
    return [rejected, found, beside / max(rejected, 1)]


def _report(scale: float, measure: Callable[..., Any]) -> str:
    each = max(2, round(scale * REPLICATIONS / len(KINDS)))
    planted = max(2, round(scale * PLANTED_REPLICATIONS))
    lines, total = header("model", "data", "both", "test alone", "picture alone", "neither"), 0
    agree = marked = beyond = 0
    for is_true in (True, False):
        for kind, cases in enumerate(KINDS):
            *counts, own = measure(agreement, kind, is_true, each).result()
            case = cases[0 if is_true else 1]
            lines.append(f"| {case.family} | {case.data} | {' | '.join(map(str, counts))} |")
            agree, total = agree + counts[0] + counts[3], total + sum(counts)
            marked, beyond = marked + counts[0], beyond + own
    places = header("misfit", "data sets", "rejected", "of these located", "marked beside it")
    for name in PLANTED:
        rejected, found, beside = measure(located, name, planted).result()
        places.append(f"| {name} | {planted} | {rejected} | {found} | {100 * beside:.0f} % |")
    return page(
        [
            "# Do picture and test agree?",
            "`plot_ksd_ppc` marks stretches where data and model disagree if and only if the test "
            "rejects, by construction: what is marked is where the same statistic is larger than "
            "in replicated data. Here it is counted how often a mark is drawn and how often the "
            f"test rejects at level {ALPHA:g}, with {NUM_DRAWS} draws of exact or resampled "
            "posteriors with flat priors. This page was made by",
            f"```\npython -m benchmarks.picture_agreement --scale {scale:g}\n```",
            f"where a scale of 1 stands for {REPLICATIONS} data sets of true and as many of wrong "
            f"models, and {PLANTED_REPLICATIONS} of every planted misfit.",
            "## Agreement",
            lines,
            f"They agree in {agree} of {total} data sets. In {beyond} of the {marked} that are "
            "marked some place is by itself beyond what 95 % of replicated data reach anywhere; in "
            "the others the place that is furthest off is marked.",
            "## Planted misfits",
            "Located means that a marked stretch overlaps the planted one. The last column is the "
            "share of the axis that is marked elsewhere: a fit that gives way to a misfit is wrong "
            "beside it, too.",
            places,
        ]
    )


def report(scale: float, workers: int = 1, kept: Path | None = None) -> str:
    """Measure and return the page."""
    return measured(_report, "picture", scale, workers, kept)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    write_scaled_page(__doc__, report, "docs/picture_agreement.md", arguments)


if __name__ == "__main__":
    main()
