"""How often the battery rejects samplers that are right, and catches those that are wrong.

``python -m benchmarks.battery_calibration`` repeats every measurement and writes
``docs/battery_calibration.md``. Rows of the tables are spread over processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measurements import measured, write_scaled_page
from benchmarks.rates import ALPHA, Rate, generator, header, page
from pymc_ksd.samplers.battery import as_dataset, by_name, judge_target
from pymc_ksd.samplers.controls import CONTROLS, exact_chains
from pymc_ksd.samplers.targets import TARGETS

#: Batteries of exact samplers, runs of each control, and draws of each of four chains.
LEVEL, POWER, N_DRAWS = 200, 100, 250
#: Runs that are measured at a time: an interrupted measurement goes on after these.
STRETCH = 10
#: Draws beyond which the battery thins by default.
MAX_DRAWS = 4_000


def exact_statuses(name: str, stretch: int) -> list[str]:
    """Return what the battery says of independent draws of a target, one run after another."""
    target, rng = by_name(name), generator(f"battery, {name}, {stretch}", 0)
    return [_status(name, exact_chains(target, N_DRAWS, rng), rng) for _ in range(STRETCH)]


def control_statuses(name: str, stretch: int) -> list[str]:
    """Return what the battery says of a wrong sampler, one run after another."""
    control = next(one for one in CONTROLS if one.name == name)
    rng = generator(f"battery, {name}, {stretch}", 0)
    return [_status(control.target, control.draw(N_DRAWS, rng), rng) for _ in range(STRETCH)]


def _status(name: str, chains: Any, rng: np.random.Generator) -> str:
    seed = int(rng.integers(2**31))
    level = ALPHA / len(TARGETS)
    return judge_target(by_name(name), as_dataset(chains), level, MAX_DRAWS, seed).status


def _share(statuses: Sequence[str], *wanted: str) -> str:
    return str(Rate(sum(one in wanted for one in statuses), len(statuses)))


def _joined(parts: Iterable[Future[Any]]) -> list[str]:
    return [status for part in parts for status in part.result()]


def report(scale: float, workers: int, kept: Path | None = None) -> str:
    """Measure everything and return the page; `scale` multiplies the number of runs."""
    return measured(_report, "battery", scale, workers, kept)


def _report(scale: float, measure: Callable[..., Future[Any]]) -> str:
    level, power = (max(1, round(scale * number / STRETCH)) for number in (LEVEL, POWER))
    # All targets have a stretch of runs before any has another.
    of_controls = [
        {one: measure(control_statuses, one.name, stretch) for one in CONTROLS}
        for stretch in range(power)
    ]
    of_targets = [
        {one: measure(exact_statuses, one.name, stretch) for one in TARGETS}
        for stretch in range(level)
    ]
    caught = {one: _joined(stretch[one] for stretch in of_controls) for one in CONTROLS}
    exact = {one: _joined(stretch[one] for stretch in of_targets) for one in TARGETS}
    level_runs, power_runs = STRETCH * level, STRETCH * power
    level_rows = [
        f"| {target.name} | {_share(found, 'rejected')} | {_share(found, 'cannot tell')} |"
        for target, found in exact.items()
    ]
    # A battery is one run of every target.
    batteries = list(zip(*(found for found in exact.values()), strict=True))
    rejected = ["rejected" if "rejected" in run else "" for run in batteries]
    failed = ["" if set(run) == {"passed"} else "failed" for run in batteries]
    power_rows = [
        f"| {control.name} | {control.error} | {control.target} | "
        f"{_share(found, 'rejected', 'cannot tell')} | "
        f"{_share(found, 'rejected')} |"
        for control, found in caught.items()
    ]
    command = "python -m benchmarks.battery_calibration"
    if scale != 1:
        command += f" --scale {scale:g}"
    return page(
        [
            "# Level and power of the battery",
            "How often does [`pymc_ksd.battery`](samplers.md) reject a sampler that is right, and "
            f"how often does it catch one that is wrong? All at its defaults: the level {ALPHA:g} "
            f"for all {len(TARGETS)} targets together, which is {ALPHA / len(TARGETS):.2g} for "
            f"each, and 4 × {N_DRAWS} draws. Numbers are per cent, ± one Monte Carlo standard "
            "error. Seeds are fixed, by one rule for all cells.",
            f"```\n{command}\n```",
            "## Samplers that are right",
            f"Independent draws of every target, {level_runs} batteries. Of these "
            f"**{_share(failed, 'failed')} % did not pass**: {_share(rejected, 'rejected')} % were "
            "rejected on some target, and of the others nothing could be told on one.",
            [*header("target", "rejected, %", "cannot tell, %"), *level_rows],
            "## Samplers that are wrong",
            f"{power_runs} runs of each control. It is caught if its draws are rejected or, as "
            "where a chain stands still, not told to be right.",
            [
                *header("control", "what is wrong", "target", "caught, %", "rejected, %"),
                *power_rows,
            ],
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    write_scaled_page(__doc__, report, "docs/battery_calibration.md", arguments)


if __name__ == "__main__":
    main()
