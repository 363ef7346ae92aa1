"""Write docs/distributions.md: what the library makes of every continuous distribution of PyMC.

Run ``python docs/generate_distribution_table.py --other PYTHON``, where PYTHON is the interpreter
of an environment with the other major version of PyMC. Without it the table speaks of one version.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS.parent / "tests")]

import pymc as pm  # noqa: E402
from distribution_cases import CASES, Case  # noqa: E402

from pymc_ksd import Score, compile_score  # noqa: E402
from pymc_ksd.diagnostics.score import target_of  # noqa: E402

INTRODUCTION = """\
# Distributions

This page lists every continuous distribution that PyMC exports. A score is the gradient of a log
density, so a distribution needs two things: a log-probability that PyMC can write down, and one
that can be differentiated. Counts have ratios of probabilities in the place of a score, see
[How it works](how_it_works.md).

Points are compared in *unconstrained coordinates*. The table names the transform that leads there:
PyMC's own for a free variable, the default transform of the distribution for observed data. Where
no transform is named, the variable is compared on its own scale.

- **As a free variable**: one variable of a model, alone here, together with others in a posterior.
- **As observed data**: the only kind of variable of a model, one observation for each entry along
  the first axis. Time series are observed as several paths. Where the table says "one at a time",
  PyMC has a log-probability for a single observation only: write the model for one and give the
  sample as `data`.

`tests/models/test_distributions.py` checks every "supported" against finite differences: of the
model's own log density for a free variable, of SciPy's or a formula written out for data (of PyMC's
for the two LKJ distributions and for stick-breaking weights). Every error is the text users see for
a variable named `x`.

A variable with a bounded support whose transform was switched off is refused. A `CustomDist` cannot
be seen through: as a free variable give it a transform if its support is bounded.

`ksd_ppc` takes fitted variables apart where that helps, so that it checks some that are refused
here: single paths and vectors, censored values, and mixtures with an atom, see
[fitted models](fitted_models.md#paths-single-vectors-censored-values-and-atoms).

Models whose log density is not that of a posterior are refused: with `pm.Minibatch` or
`total_size` (build the model with all the data to check its draws), and with variables of
`pymc_bart`.
"""


def describe(case: Case) -> tuple[str, str]:
    """Return what the library says to a distribution, as free variable and as data."""
    free = _outcome(lambda: compile_score(case.free_model()), case)
    if not case.is_observable:
        return free, f"– ({case.remark})"
    sample = case.sample(3)["x"]
    return free, _outcome(lambda: compile_score(case.observed_model(sample)), case, True)


def _outcome(compile_case, case: Case, is_observed: bool = False) -> str:
    try:
        score: Score = compile_case()
    except ValueError as error:
        return f"error: {' '.join(str(error).split())}"
    variables = target_of(score, None, None, None).variables
    transforms = [variable.transform for variable in variables if variable.transform]
    remarks = [f"transform {', '.join(f'`{name}`' for name in transforms)}"] if transforms else []
    if is_observed and case.is_single:
        remarks.append("one at a time")
    if case.remark and case.is_observable:
        remarks.append(case.remark)
    return f"supported ({'; '.join(remarks)})" if remarks else "supported"


def collect() -> dict[str, tuple[str, str]]:
    """Return the outcomes of all cases with the version of PyMC that is installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.label: describe(case) for case in CASES}


def merge(tables: dict[str, dict[str, tuple[str, str]]]) -> str:
    """Return the rows of the page; where versions differ a cell speaks of each."""
    rows = ["| Distribution | As a free variable | As observed data |", "|---|---|---|"]
    for case in CASES:
        cells = []
        for role in range(2):
            says = {version: table[case.label][role] for version, table in tables.items()}
            if len(set(says.values())) == 1:
                cells.append(next(iter(says.values())))
            else:
                cells.append(
                    "<br>".join(f"PyMC {version}: {text}" for version, text in says.items())
                )
        label = f"`{case.name}`" + (f" ({case.variant})" if case.variant else "")
        rows.append(
            f"| {label} | {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        )
    return "\n".join(rows)


def main() -> None:
    """Write the page, or print the outcomes for a merge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--other", help="interpreter with the other major version of PyMC")
    parser.add_argument("--json", action="store_true", help="print this version's outcomes")
    options = parser.parse_args()
    tables = {pm.__version__.split(".")[0]: collect()}
    if options.json:
        sys.stdout.write("\n" + json.dumps(tables))
        return
    if options.other:
        command = [options.other, __file__, "--json"]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        tables |= json.loads(output.splitlines()[-1])
    tables = dict(sorted(tables.items()))
    versions = " and ".join(tables)
    note = f"Made with PyMC {versions} by `docs/generate_distribution_table.py`."
    page = f"{INTRODUCTION}\n{note}\n\n{merge(tables)}\n"
    (DOCS / "distributions.md").write_text(page)


if __name__ == "__main__":
    main()
