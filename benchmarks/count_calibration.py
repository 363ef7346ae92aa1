"""Level and power of ``ksd_test`` on counts, measured by simulation.

``python -m benchmarks.count_calibration`` repeats every measurement and writes
``docs/count_calibration.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.calibration import ONE_KERNEL, rejection_rate
from benchmarks.count_cases import COUNT_CASES, COUNT_POWER_CASES
from benchmarks.measurements import write_page
from benchmarks.rates import header, page

REPLICATIONS = 600


def level_table(replications: int) -> list[str]:
    """Measure the level for every distribution, as a Markdown table."""
    rows = []
    for case in COUNT_CASES:
        print(f"level: {case.name}", flush=True)
        rows.append(
            f"| {case.name} | {rejection_rate(case, replications=replications, **ONE_KERNEL)} |"
        )
    return [*header("distribution", "rejected, %"), *rows]


def power_table(replications: int) -> list[str]:
    """Measure the power of a Poisson model's test, as a Markdown table."""
    sizes = (50, 100, 200)
    rows = []
    for case in COUNT_POWER_CASES:
        print(f"power: {case.name}", flush=True)
        rates = [rejection_rate(case, replications=replications, n=n, **ONE_KERNEL) for n in sizes]
        rows.append(f"| {case.name} | " + " | ".join(map(str, rates)) + " |")
    return [*header("data", *(f"n = {n}" for n in sizes)), *rows]


def report(replications: int) -> str:
    """Measure everything and return the page."""
    return page(
        [
            "# Level and power on counts",
            "How often does `ksd_test` reject a model of counts that is true, and how often one "
            f"that is wrong? For every line, {replications} data sets were drawn with NumPy and "
            'SciPy and tested at the nominal level 5 % with `kernel="rbf"` (the U-statistic of the '
            "birth–death operator, multinomial bootstrap); the default joins several kernels. "
            "Numbers are the share of p-values of at most 0.05 in per cent, ± one Monte Carlo "
            "standard error. Seeds are fixed, by one rule for all lines.",
            f"```\npython -m benchmarks.count_calibration --replications {replications}\n```",
            "## Level",
            "n = 200.",
            level_table(replications),
            "## Power",
            "The model is Poisson(3), the data are not.",
            power_table(replications),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    path = "docs/count_calibration.md"
    write_page(parser, lambda options: report(options.replications), path, arguments)


if __name__ == "__main__":
    main()
