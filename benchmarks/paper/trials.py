"""Trials in parallel: each with a seed of its own, finished ones kept, the rest with a bar.

An :class:`Experiment` says what its settings are and how one trial goes. A trial's result depends
on the experiment, the setting, the trial's number and the seed alone, not on how trials are divided
among processes. Trials that other versions have left in the folder are refused.
"""

from __future__ import annotations

import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.measurements import Measurements
from pymc_ksd.engine.progress import progress_bar

__all__ = ["Experiment", "Measured", "Setting", "find_experiment", "run_experiment"]

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
    experiment = find_experiment(name)
    made_with = {"methods": list(experiment.methods), "revision": experiment.revision}
    tasks = [
        (setting, range(start, min(start + _TOGETHER, n_trials)))
        for start in range(0, n_trials, _TOGETHER)
        for setting in settings
    ]
    parts: dict[Setting, list[Future[Any]]] = {setting: [] for setting in settings}
    with (
        progress_bar(f"Trials: {name}", len(tasks), progressbar) as bar,
        Measurements(
            folder, name=name, made_with=made_with, workers=n_processes, shown=False
        ) as measure,
    ):
        for setting, numbers in tasks:
            key = f"{setting}-{seed}-{numbers.start}-{numbers.stop}"
            future = measure(key, run_trials, name, setting, numbers, seed)
            future.add_done_callback(lambda _: bar.advance(1))
            parts[setting].append(future)
        return {setting: _together(found) for setting, found in parts.items()}


def _together(parts: Sequence[Future[Any]]) -> dict[str, Any]:
    found = [part.result() for part in parts]
    return {
        "p_value": np.concatenate([part["p_value"] for part in found]),
        "discrepancy": np.concatenate([part["discrepancy"] for part in found]),
        "seconds": float(sum(part["seconds"] for part in found)),
    }
