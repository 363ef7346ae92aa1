"""Repeat the experiments of the paper: ``python -m benchmarks.paper``.

Results go to ``benchmarks/paper/results``, the page with tables and figures to ``docs``. Finished
trials are kept, so an interrupted run goes on where it stopped. ``--quick``, which runs a few
trials of a few settings, and ``--trials`` print tables and write nothing into the project.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl

from benchmarks.paper.figures import save_figures
from benchmarks.paper.report import error_table, report
from benchmarks.paper.stored import RESULTS, load, save, to_dataset
from benchmarks.paper.trials import find_experiment, run_experiment

#: Experiments, and trials of each of their settings.
TRIALS = {"mixture": 1_000, "boltzmann": 500, "ising": 300}
QUICK_TRIALS = 20
DOCS = Path(__file__).parents[2] / "docs"
SEED = 2016


def run(name: str, *, quick: bool, n_trials: int, keep: Path, results: Path) -> None:
    """Run an experiment and store its results."""
    experiment = find_experiment(name)
    processes = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    found = run_experiment(
        name,
        experiment.quick_settings if quick else experiment.settings,
        n_trials,
        seed=SEED,
        folder=keep,
        n_processes=processes,
    )
    dataset = to_dataset(experiment, found, seed=SEED, processes=processes)
    print(f"{save(dataset, results)}: {dataset.attrs['core_minutes']:.1f} minutes of one core")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("experiments", nargs="*", default=list(TRIALS), metavar="experiment",
                        help=f"some of {', '.join(TRIALS)}; by default all")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a few minutes, prints tables only")
    parser.add_argument("--trials", type=int, help="trials of each setting")
    parser.add_argument("--keep", type=Path, default=Path(".paper_trials"),
                        help="folder of finished trials (default: %(default)s)")  # fmt: skip
    parser.add_argument("--draw-only", action="store_true", help="page and figures from the store")
    options = parser.parse_args(arguments)
    unknown = set(options.experiments) - set(TRIALS)
    if unknown:
        parser.error(f"unknown experiment {', '.join(sorted(unknown))}; there are {list(TRIALS)}")
    mpl.use("Agg")
    if options.quick or options.trials:
        with TemporaryDirectory() as folder:
            for name in options.experiments:
                keep = Path(folder) / "trials" if options.quick else options.keep
                n_trials = options.trials or QUICK_TRIALS
                path = Path(folder) / "results"
                run(name, quick=options.quick, n_trials=n_trials, keep=keep, results=path)
                print("\n".join(error_table(load(name, path))))
        return
    if not options.draw_only:
        for name in options.experiments:
            run(name, quick=False, n_trials=TRIALS[name], keep=options.keep, results=RESULTS)
    missing = [name for name in TRIALS if not (RESULTS / f"{name}.nc").exists()]
    if missing:
        print(f"no page yet: {', '.join(missing)} still to be run")
        return
    datasets = {name: load(name) for name in TRIALS}
    save_figures(datasets, DOCS / "images")
    (DOCS / "paper_experiments.md").write_text(report(datasets), encoding="utf-8")


if __name__ == "__main__":
    main()
