"""Checks of arguments that several public functions share, each with a message that helps."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np


def positive_number(value: Any, argument: str) -> float:
    """Return `value` as a float after checking that it is finite and positive."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{argument}` must be a number, got {type(value).__name__} {value!r}."
        ) from error
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"`{argument}` must be positive and finite, got {value!r}.")
    return number


def check_alpha(alpha: Any) -> float:
    """Return a level after checking that it lies between 0 and 1."""
    if not (isinstance(alpha, int | float | np.number) and 0 < alpha < 1):
        raise ValueError(f"`alpha` must lie strictly between 0 and 1, got {alpha!r}.")
    return float(alpha)


def check_count(value: Any, argument: str, least: int) -> int:
    """Return a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"`{argument}` must be an integer, got {type(value).__name__}.")
    if value < least:
        raise ValueError(f"`{argument}` must be at least {least}, got {value}.")
    return int(value)


def optional_count(value: Any, argument: str, least: int) -> int | None:
    """Return a whole number that is large enough, or None where none was given."""
    return None if value is None else check_count(value, argument, least)


def seeded_generator(
    random_seed: int | np.random.Generator | None,
) -> tuple[int | str, np.random.Generator]:
    """Return a seed worth writing down and a generator."""
    if isinstance(random_seed, np.random.Generator):
        return "generator", random_seed
    if random_seed is None:
        random_seed = int(np.random.SeedSequence().generate_state(1)[0])
    elif isinstance(random_seed, bool) or not isinstance(random_seed, int | np.integer):
        raise TypeError(
            "`random_seed` must be an integer, a numpy.random.Generator or None, got "
            f"{type(random_seed).__name__}."
        )
    elif random_seed < 0:
        raise ValueError(f"`random_seed` must be at least 0, got {random_seed}.")
    return int(random_seed), np.random.default_rng(int(random_seed))


#: What users would be warned of in this thread, where somebody takes note of it.
_noted: ContextVar[list[tuple[str, type[Warning]]] | None] = ContextVar("noted", default=None)


@contextmanager
def warnings_noted() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Take note of this package's own warnings, and do not show them.

    ``warnings.catch_warnings`` would take those of all other threads and libraries, too.
    """
    found: list[tuple[str, type[Warning]]] = []
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn, and point at the line that called this package, however far down it is noticed."""
    noted = _noted.get()
    if noted is not None:
        noted.append((message, category))
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("pymc_ksd."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def renamed_data(data: Any, former: dict[str, Any], function: str) -> Any:
    """Return the argument `data`, also when it comes under its former name ``idata``."""
    unknown = [name for name in former if name != "idata"]
    if unknown:
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown[0]!r}")
    if "idata" not in former:
        return data
    if data is not None:
        raise TypeError(f"{function}() got `data` and, under its former name, `idata`.")
    warn_user(f"`idata` of {function} is called `data` now.", FutureWarning)
    return former["idata"]
