"""The built-in demonstration: the three questions, answered on data that everybody has."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pymc_ksd.diagnostics.goodness_of_fit import ksd_test
from pymc_ksd.diagnostics.judged import deciding
from pymc_ksd.diagnostics.results import in_words, status_of
from pymc_ksd.report.explanations import explain
from pymc_ksd.report.findings import APPEARANCE, Finding
from pymc_ksd.report.report import Report
from pymc_ksd.report.run_checks import ksd_report

#: Simon Newcomb's 1882 measurements of the passage time of light, as deviations from 24,800 ns
#: (Stigler 1977, Annals of Statistics 5, 1055–1098).
NEWCOMB = np.array(
    [
        *[28, 26, 33, 24, 34, -44, 27, 16, 40, -2, 29, 22, 24, 21, 25, 30, 23, 29, 31, 19, 24, 20],
        *[36, 32, 36, 28, 25, 21, 28, 29, 37, 25, 28, 26, 30, 32, 36, 26, 30, 22, 36, 23, 27, 27],
        *[28, 27, 31, 27, 26, 33, 26, 32, 32, 24, 39, 28, 24, 25, 32, 25, 29, 27, 28, 29, 16, 23],
    ],
    dtype=np.float64,
)
#: Breaks of yarn on a loom, nine looms for each of two wools at low, medium and high tension
#: (Tippett 1950, Technological Applications of Statistics; R's data set warpbreaks).
BREAKS = np.array(
    [
        *[26, 30, 54, 25, 70, 52, 51, 26, 67, 18, 21, 29, 17, 12, 18, 35, 30, 36],
        *[36, 21, 24, 18, 10, 43, 28, 15, 26, 27, 14, 29, 19, 29, 31, 41, 20, 44],
        *[42, 26, 19, 16, 39, 28, 21, 39, 29, 20, 21, 24, 17, 13, 15, 15, 16, 28],
    ]
)
TENSION = np.tile(np.repeat([0, 1, 2], 9), 2)
#: What follows from a test of the measurements, and of draws, by its status.
_FOLLOWS = {
    "passed": "{} describes the measurements",
    "rejected": "{} does not describe the measurements",
    "cannot tell": "whether {} describes the measurements is not known",
}
_DRAWS_FOLLOW = {
    "passed": "the draws of {} can be used",
    "rejected": "the draws of {} should not be used",
    "cannot tell": "whether the draws of {} can be used is not known",
}
#: What the report is called.
REPORT = "ksd_demo.html"


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration found.

    Attributes
    ----------
    normal, student : xarray.Dataset
        Tests of the measurements against two models.
    nuts, advi : Report
        Reports on draws of NUTS, with the model, and of ADVI.
    """

    normal: xr.Dataset
    student: xr.Dataset
    nuts: Report
    advi: Report


def main(directory: str | Path = ".", *, console: Console | None = None) -> Demonstration:
    """Answer the three questions, print a table, and save a report.

    Parameters
    ----------
    directory : path, default "."
        Where ``ksd_demo.html`` is written.
    console : rich.console.Console, optional
        Where the text goes.

    Returns
    -------
    Demonstration
        What was found.
    """
    console = console or Console()
    with _quiet(), console.status("Testing data against two models …") as status:
        normal, student = examine_data()
        status.update("Sampling a posterior with NUTS and with ADVI …")
        model, nuts, advi = sample()
        status.update("Testing the draws, and the model against its data …")
        options: dict[str, Any] = {"modes": False, "random_seed": 1, "progressbar": False}
        of_nuts = ksd_report(model, nuts, title="Breaks of yarn: Poisson regression", **options)
        of_advi = ksd_report(model, advi, predictive=False, **options)
        path = of_nuts.save(Path(directory) / REPORT)
    found = Demonstration(normal, student, of_nuts, of_advi)
    console.print(_table(found))
    console.print(_conclusion(found))
    console.print(Text.assemble("Report of the fitted model: ", (str(path), "bold")))
    return found


def examine_data() -> tuple[xr.Dataset, xr.Dataset]:
    """Test Newcomb's measurements against a normal and a Student-t distribution."""
    with pm.Model() as normal:
        pm.Normal("deviation", 27, NEWCOMB.std(), observed=NEWCOMB)
    with pm.Model() as student:
        pm.StudentT("deviation", nu=2, mu=27, sigma=3.7, observed=NEWCOMB)
    return ksd_test(normal, random_seed=1882), ksd_test(student, random_seed=1882)


def sample() -> tuple[pm.Model, Any, xr.Dataset]:
    """Return a Poisson regression of breaks on tension, draws of NUTS, and draws of ADVI."""
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 3, 2)
        tension = pm.Normal("tension", 0, 1)
        pm.Poisson("breaks", pm.math.exp(intercept + tension * TENSION), observed=BREAKS)
        nuts = pm.sample(
            500,
            tune=500,
            chains=4,
            cores=1,
            nuts_sampler="pymc",
            random_seed=1950,
            progressbar=False,
            compute_convergence_checks=False,
        )
        # Compiling fast code takes longer here than running slow code.
        fit = pm.fit(
            5_000,
            method="advi",
            start={"intercept": 3.5, "tension": 0.0},
            start_sigma={"intercept": 0.1, "tension": 0.1},
            obj_optimizer=pm.adam(learning_rate=0.01),
            random_seed=1950,
            progressbar=False,
            compile_kwargs={"mode": "FAST_COMPILE"},
        )
    # What fit.sample() does, without compiling anything.
    rng, means, sds = np.random.default_rng(1950), fit.mean_data, fit.std_data
    names = ("intercept", "tension")
    values = {name: rng.normal(float(means[name]), float(sds[name]), (4, 500)) for name in names}
    advi = xr.Dataset({name: (("chain", "draw"), own) for name, own in values.items()})
    return model, nuts, advi


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what PyMC says while it samples from mixing with the answers."""
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _table(found: Demonstration) -> Table:
    """Return the three questions and their answers as a table."""
    table = Table("", "answer", "p-value", "what was found", box=SIMPLE_HEAD, pad_edge=False)
    _question(table, "1. Data", "Do 66 measurements of the speed of light come from the model?")
    for name, result in (("normal", found.normal), ("Student-t", found.student)):
        _answer(table, name, explain(result).findings[0], float(result["p_value"]))
    table.add_section()
    _question(table, "2. Draws", "Do they come from the posterior of a Poisson regression?")
    assert found.nuts.test is not None  # all were tested
    assert found.advi.test is not None
    assert found.nuts.check is not None
    tested = explain(found.nuts.test).findings[0]
    _answer(table, "NUTS", tested, float(found.nuts.test["p_value"]))
    _answer(table, "ADVI", found.advi.verdict, float(found.advi.test["p_value"]))
    table.add_section()
    _question(table, "3. Fitted model", "Does the regression fit its data, 54 breaks of yarn?")
    checked = explain(found.nuts.check).findings[0]
    _answer(table, "Poisson", checked, float(found.nuts.check["p_value"]))
    return table


def _question(table: Table, about: str, question: str) -> None:
    table.add_row(Text(about, style="bold"), "", "", Text(question, style="bold"))


def _answer(table: Table, name: str, finding: Finding, p_value: float) -> None:
    colour, word = APPEARANCE[finding.status][0], APPEARANCE[finding.status][2]
    # What else is known of a rejection; else the headline after status and p-value.
    said = finding.headline.partition(": ")[2].rstrip(".")
    if finding.status == "rejected" and finding.details:
        said = finding.details[0].partition(", so ")[2] or finding.details[0]
    if finding.status == "cannot tell":
        said = finding.headline
    shown = in_words(p_value).removeprefix("p ").removeprefix("= ")
    table.add_row(f"   {name}", Text(word, style=f"bold {colour}"), shown, Text(said))


def _conclusion(found: Demonstration) -> Text:
    """Return what follows from the answers."""
    data = {"the normal distribution": found.normal, "Student-t": found.student}
    draws = {"NUTS": found.nuts, "ADVI": found.advi}
    lines = [_FOLLOWS[status_of(result)].format(name) for name, result in data.items()]
    for name, report in draws.items():
        decides = deciding(report.test, report.moments)
        assert decides is not None  # all draws were tested
        lines.append(_DRAWS_FOLLOW[status_of(decides)].format(name))
    return Text(
        f"What follows: {', '.join(lines[:2])}; {', '.join(lines[2:])}. "
        f"For the regression: {found.nuts.verdict.next_step}"
    )
