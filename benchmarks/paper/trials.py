"""Trials in parallel: each with a seed of its own, finished ones kept, the rest with a bar.

An :class:`Experiment` says what its settings are and how one trial goes. A trial's result depends
on the experiment, the setting, the trial's number and the seed alone, not on how trials are divided
among processes. Trials that other versions have left in the folder are refused.
"""

from __future__ import annotations

import json
import platform
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from pymc_ksd.engine.progress import progress_bar

__all__ = ["Experiment", "Measured", "Setting", "find_experiment", "run_experiment", "versions"]

#: Trials that are kept together.
_TOGETHER = 25


@dataclass(frozen=True)
class Setting:
    """One point of an experiment.

    Attributes
    ----------
    perturbed : str
        What of the model is perturbed under the alternative.
    deviation : float
        Standard deviation of the perturbation.
    n : int
        Sample size.
    """

    perturbed: str
    deviation: float
    n: int

    def __str__(self) -> str:
        """Name the setting, in a way that can name a file."""
        return f"{self.perturbed}-{self.deviation:g}-{self.n}"


@dataclass(frozen=True)
class Measured:
    """What one method says of one sample.

    Attributes
    ----------
    p_value : float
        The p-value, NaN where the method is no test.
    discrepancy : float
        What the method measures.
    """

    p_value: float
    discrepancy: float


class Experiment(ABC):
    """A family of models, a way to perturb them, and the methods that are compared.

    Subclasses live in modules of this package that are named after the experiment and hold it as
    ``EXPERIMENT``, so that other processes can find it.
    """

    name: str
    #: To be raised when a trial changes, so that kept trials are not mixed with others.
    revision: int = 1
    #: Methods, the library's first.
    methods: tuple[str, ...]
    #: Settings of the full and of the quick size.
    settings: tuple[Setting, ...]
    quick_settings: tuple[Setting, ...]

    @abstractmethod
    def trial(
        self, setting: Setting, alternative: bool, rng: np.random.Generator
    ) -> Mapping[str, Measured]:
        """Draw a true model and a sample of it, and test another model with all methods.

        Under the alternative the tested model is a perturbed one, else it is the true one.
        """


@cache
def find_experiment(name: str) -> Experiment:
    """Return an experiment by the name of its module."""
    found = import_module(f"benchmarks.paper.{name}").EXPERIMENT
    assert isinstance(found, Experiment)
    return found


def trial_generator(name: str, setting: Setting, number: int, seed: int) -> np.random.Generator:
    """Return the randomness of one trial."""
    return np.random.default_rng([seed, zlib.crc32(f"{name} {setting}".encode()), number])


def run_trials(name: str, setting: Setting, numbers: Sequence[int], seed: int) -> dict[str, Any]:
    """Run some trials of a setting, every second under the alternative.

    Returns
    -------
    dict
        Arrays ``p_value`` and ``discrepancy`` of shape (trials, methods), and ``seconds``.
    """
    experiment = find_experiment(name)
    shape = (len(numbers), len(experiment.methods))
    p_values, discrepancies = np.full(shape, np.nan), np.full(shape, np.nan)
    start = time.perf_counter()
    # Trials run side by side, so each gets one core.
    with threadpool_limits(1):
        for row, number in enumerate(numbers):
            rng = trial_generator(name, setting, number, seed)
            found = experiment.trial(setting, is_alternative(number), rng)
            for method, measured in found.items():
                column = experiment.methods.index(method)
                p_values[row, column] = measured.p_value
                discrepancies[row, column] = measured.discrepancy
    seconds = time.perf_counter() - start
    return {"p_value": p_values, "discrepancy": discrepancies, "seconds": seconds}


def is_alternative(number: int) -> bool:
    """Whether a trial is one under the alternative."""
    return number % 2 == 1


def run_experiment(
    name: str,
    settings: Sequence[Setting],
    n_trials: int,
    *,
    seed: int,
    folder: Path,
    n_processes: int,
    progressbar: bool = True,
) -> dict[Setting, dict[str, Any]]:
    """Run all trials of all settings, except those that an earlier run has left in a folder.

    Parameters
    ----------
    name : str
        The experiment's module.
    settings : sequence of Setting
        Where to run it.
    n_trials : int
        Trials of each setting.
    seed : int
        Seed of all trials.
    folder : Path
        Where finished trials are kept.
    n_processes : int
        Processes side by side; 1 runs everything in this one.
    progressbar : bool, default True
        Show a bar.

    Returns
    -------
    dict
        Of each setting what :func:`run_trials` returns, over all trials.
    """
    tasks = {
        folder / f"{name}-{setting}-{seed}-{start}-{stop}.npz": (setting, range(start, stop))
        for start in range(0, n_trials, _TOGETHER)
        for setting in settings
        for stop in [min(start + _TOGETHER, n_trials)]
    }
    folder.mkdir(parents=True, exist_ok=True)
    _check_kept(name, folder)
    missing = {path: task for path, task in tasks.items() if not path.exists()}
    with progress_bar(f"Trials: {name}", len(missing), progressbar) as bar:
        if n_processes == 1:
            for path, (setting, numbers) in missing.items():
                _keep(path, run_trials(name, setting, numbers, seed))
                bar.advance(1)
        else:
            _in_processes(name, missing, seed, n_processes, bar)
    results: dict[Setting, dict[str, Any]] = {}
    for setting in settings:
        parts = [np.load(path) for path, (other, _) in tasks.items() if other == setting]
        results[setting] = {
            "p_value": np.concatenate([part["p_value"] for part in parts]),
            "discrepancy": np.concatenate([part["discrepancy"] for part in parts]),
            "seconds": float(sum(part["seconds"] for part in parts)),
        }
    return results


def versions() -> dict[str, str]:
    """Return the versions of what trials depend on."""
    packages = ("pymc-ksd", "pymc", "pytensor", "numpy", "scipy", "numba")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def _check_kept(name: str, folder: Path) -> None:
    """Refuse trials that were made with other methods or versions."""
    experiment = find_experiment(name)
    methods, revision = list(experiment.methods), experiment.revision
    made = {"methods": methods, "revision": revision, "versions": versions()}
    path = folder / f"{name}.json"
    if not path.exists():
        path.write_text(json.dumps(made, indent=1), encoding="utf-8")
    elif json.loads(path.read_text(encoding="utf-8")) != made:
        raise ValueError(
            f"The trials kept in {folder} were made with other methods or versions, see {path}: "
            "give another folder, or remove this one to begin anew."
        )


def _in_processes(
    name: str, tasks: Mapping[Path, tuple[Setting, range]], seed: int, n_processes: int, bar: Any
) -> None:
    # Started anew: a copy of this process could inherit locks that its threads hold.
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        futures = {
            pool.submit(run_trials, name, setting, numbers, seed): path
            for path, (setting, numbers) in tasks.items()
        }
        try:
            for future in as_completed(futures):
                _keep(futures[future], future.result())
                bar.advance(1)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _keep(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write a file at once, so that an interrupted run leaves no half of one."""
    temporary = path.with_suffix(".tmp.npz")
    np.savez(temporary, **arrays)
    temporary.replace(path)
