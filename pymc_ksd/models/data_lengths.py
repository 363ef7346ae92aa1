"""Observations and inputs that do not fit together, as after ``pm.set_data`` for predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from traceback import walk_tb
from typing import Any

import numpy as np
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function
from pymc_ksd.models.target import first_line


@dataclass(frozen=True)
class DataBehind:
    """An observed variable with the data containers that its distribution is computed from.

    Attributes
    ----------
    name : str
        The variable's name.
    values : TensorVariable
        Its observations.
    inputs : tuple of SharedVariable
        Containers made by ``pm.Data``, without those of the observations.
    """

    name: str
    values: TensorVariable
    inputs: tuple[SharedVariable, ...]

    def misfit(self) -> str:
        """Say which inputs have another length than the observations; nothing if none have."""
        shape = np.shape(compile_function([], self.values)())
        lengths = {str(x.name): x.get_value(borrow=True).shape for x in self.inputs}
        other = {name: own for name, own in lengths.items() if own and own[0] not in shape}
        if not other or not shape:
            return ""
        found = ", ".join(f"{name!r} has shape {own}" for name, own in other.items())
        return f"the observed variable {self.name!r} has observations of shape {shape}, but {found}"


def data_behind(model: pm.Model, rvs: Sequence[TensorVariable] | None = None) -> list[DataBehind]:
    """Return observed variables, all by default, with their data."""
    containers = [v for v in model.data_vars if isinstance(v, SharedVariable)]
    found = []
    for rv in model.observed_RVs if rvs is None else rvs:
        values = model.rvs_to_values[rv]
        above, own = set(ancestors([rv])), set(ancestors([values]))
        inputs = tuple(data for data in containers if data in above and data not in own)
        found.append(DataBehind(str(rv.name), values, inputs))
    return found


@contextmanager
def explain_lengths(observed: Sequence[DataBehind]) -> Iterator[None]:
    """Turn errors about shapes into one that names observations and inputs that do not fit."""
    try:
        yield
    except (ValueError, AssertionError) as error:
        problems = []
        if _comes_from_a_graph(error):
            problems = [problem for problem in (one.misfit() for one in observed) if problem]
        if not problems:
            raise
        raise ValueError(
            f"Observations and inputs of `model` do not fit together: {'; '.join(problems)}. Set "
            "them to the same length with pm.set_data: to those that the model was fitted to, if "
            f"inputs were set for predictions since. What failed: {first_line(error)}."
        ) from error


def _comes_from_a_graph(error: BaseException) -> bool:
    """Whether an error was raised while a graph was evaluated, and not by this package."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    ours = bool(frames) and str(frames[-1].f_globals.get("__name__")).startswith("pymc_ksd.")
    is_numeric = isinstance(error, np.linalg.LinAlgError)
    return isinstance(error, ValueError | AssertionError) and not ours and not is_numeric


def explained(function: Callable[..., Any], observed: Sequence[DataBehind]) -> Callable[..., Any]:
    """Return a function of points whose errors about shapes are explained.

    It must not hold the model, which keeps it as long as it lives.
    """

    @wraps(function)
    def call(*args: Any) -> Any:
        with explain_lengths(observed):
            return function(*args)

    return call
