"""Targets of Stan programs in their unconstrained coordinates, compiled by BridgeStan or PyStan."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from pymc_ksd.compilation import one_at_a_time
from pymc_ksd.models.target import Target, Variable

#: Where coordinates are moved from to see which variables move with them.
_STEP = 0.1


class StanProgram(Protocol):
    """What is asked of a compiled Stan program, whatever compiled it."""

    names: list[str]
    shapes: list[tuple[int, ...]]
    dim: int

    def unconstrain(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the unconstrained coordinates of parameters at one point; may raise."""

    def constrain(self, point: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters at unconstrained coordinates."""

    def log_density_gradient(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log density with the Jacobian, and its gradient."""


def stan_target(model: Any) -> Target:
    """Return the posterior of a Stan program."""
    program = _program(model)
    sizes = _unconstrained_sizes(program)
    variables = tuple(
        _variable(name, shape, size)
        for name, shape, size in zip(program.names, program.shapes, sizes, strict=True)
    )

    def values(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nowhere = (-np.inf, np.full(program.dim, np.nan))
        found = _unless_refused(program.log_density_gradient, points, nowhere)
        heights, scores = zip(*found, strict=True)
        return np.stack(scores), np.array(heights)

    def unconstrain(samples: Mapping[str, np.ndarray]) -> np.ndarray:
        arrays = {name: np.asarray(samples[name]) for name in program.names}
        n = len(arrays[program.names[0]])
        rows = [{name: array[row] for name, array in arrays.items()} for row in range(n)]
        return np.stack(_unless_refused(program.unconstrain, rows, np.full(program.dim, np.nan)))

    def constrain(points: np.ndarray) -> dict[str, np.ndarray]:
        rows = [program.constrain(point) for point in points]
        return {name: np.stack([row[name] for row in rows]) for name in program.names}

    return one_at_a_time(
        Target(
            variables=variables,
            operator="langevin",
            values=values,
            unconstrain=unconstrain,
            simulate=None,
            no_simulation="a posterior cannot be simulated directly",
            kind="posterior",
            pointwise=True,
            constrain=constrain,
        )
    )


def _unless_refused(
    function: Callable[[Any], Any], points: Iterable[Any], refused: Any
) -> list[Any]:
    """Evaluate points one by one; Stan raises an error for those outside the support."""
    found, error = [], None
    for point in points:
        try:
            found.append(function(point))
        except RuntimeError as one:
            error = one
            found.append(refused)
    if error is not None and all(one is refused for one in found):
        raise ValueError(f"The Stan program refuses all points: {error}") from error
    return found


def _program(model: Any) -> StanProgram:
    if all(hasattr(model, one) for one in ("param_unc_num", "log_density_gradient")):
        return BridgeStanProgram(model)
    if all(hasattr(model, one) for one in ("grad_log_prob", "log_prob", "unconstrain_pars")):
        return PyStanProgram(model)
    raise TypeError(
        "`model` must be a bridgestan.StanModel, or what stan.build returns in PyStan, got "
        f"{type(model).__name__}. A fit does not know its log density: give the model it was "
        'fitted with. `pip install "pymc-ksd[stan]"` installs BridgeStan.'
    )


class BridgeStanProgram:
    """A program compiled by BridgeStan.

    Parameters
    ----------
    model : bridgestan.StanModel
        The program with its data.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.dim = int(model.param_unc_num())
        self.names, self.shapes = _shapes_of(list(model.param_names()))

    def unconstrain(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the unconstrained coordinates of parameters at one point; may raise."""
        # Stan counts the first index fastest.
        flat = [np.ravel(values[name], order="F") for name in self.names]
        return np.asarray(self.model.param_unconstrain(np.concatenate(flat)), dtype=np.float64)

    def constrain(self, point: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters at unconstrained coordinates."""
        return _arrays(np.asarray(self.model.param_constrain(point)), self.names, self.shapes)

    def log_density_gradient(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log density with the Jacobian, and its gradient."""
        height, gradient = self.model.log_density_gradient(point, propto=True, jacobian=True)
        return float(height), np.asarray(gradient, dtype=np.float64)


class PyStanProgram:
    """A program compiled by PyStan 3.

    Parameters
    ----------
    model : stan.model.Model
        What ``stan.build`` returns.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        sizes = [int(np.prod(dims, dtype=int)) for dims in model.dims]
        self.dim = self._dimension(sum(sizes))
        own = len(self._parameters(np.zeros(self.dim)))
        # Parameters come first, then what is computed of them.
        count = int(np.searchsorted(np.cumsum(sizes), own)) + 1
        self.names = list(model.param_names[:count])
        self.shapes = [tuple(dims) for dims in model.dims[:count]]

    def _parameters(self, point: np.ndarray) -> list[float]:
        found: list[float] = self.model.constrain_pars(
            point.tolist(), include_tparams=False, include_gqs=False
        )
        return found

    def _dimension(self, most: int) -> int:
        """Return how many unconstrained coordinates there are, which nothing says but an error."""
        guesses = [most]
        try:
            self._parameters(np.zeros(most))
            return most
        except RuntimeError as error:
            # Numbers in the message come first, all others after them.
            guesses = [int(number) for number in re.findall(r"\d+", str(error))]
        for guess in [*guesses, *range(most + 1, 0, -1)]:
            if guess > most + 1:
                continue
            try:
                self._parameters(np.zeros(guess))
            except RuntimeError:
                continue
            return guess
        raise ValueError("`model` has no unconstrained parameters that could be tested.")

    def unconstrain(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the unconstrained coordinates of parameters at one point; may raise."""
        given = {name: values[name].tolist() for name in self.names}
        return np.asarray(self.model.unconstrain_pars(given), dtype=np.float64)

    def constrain(self, point: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters at unconstrained coordinates."""
        return _arrays(np.asarray(self._parameters(point)), self.names, self.shapes)

    def log_density_gradient(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log density with the Jacobian, and its gradient."""
        given = point.tolist()
        height = self.model.log_prob(given, adjust_transform=True)
        return float(height), np.asarray(self.model.grad_log_prob(given), dtype=np.float64)


def _variable(name: str, shape: tuple[int, ...], size: int) -> Variable:
    """Return the variable of a parameter; those with several axes are numbered through."""
    is_flat = len(shape) <= 1 and int(np.prod(shape, dtype=int)) == size
    return Variable(
        name,
        shape,
        shape if is_flat else (size,),
        transform="stan",
        unconstrained_name=name,
        elementwise=is_flat,
    )


def _shapes_of(labels: Sequence[str]) -> tuple[list[str], list[tuple[int, ...]]]:
    """Return names and shapes of parameters from labels such as ``theta.2.1``, counted from 1."""
    largest: dict[str, tuple[int, ...]] = {}
    for label in labels:
        name, *index = label.split(".")
        numbers = tuple(int(one) for one in index)
        largest[name] = tuple(np.maximum(numbers, largest.get(name, numbers)).tolist())
    return list(largest), list(largest.values())


def _arrays(
    flat: np.ndarray, names: Sequence[str], shapes: Sequence[tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Return parameters from all their numbers, of which the first index counts fastest."""
    stops = np.cumsum([int(np.prod(shape, dtype=int)) for shape in shapes])[:-1]
    parts = zip(names, shapes, np.split(flat, stops), strict=True)
    return {name: part.reshape(shape, order="F") for name, shape, part in parts}


def _unconstrained_sizes(program: StanProgram) -> list[int]:
    """Return how many coordinates each parameter has.

    Coordinates are in the order of parameters, and a parameter may depend on those before it: of
    the ones that move with a coordinate, the first has it.
    """
    sizes = [int(np.prod(shape, dtype=int)) for shape in program.shapes]
    if sum(sizes) == program.dim:
        return sizes
    start = np.linspace(-_STEP, _STEP, program.dim)
    before, found = program.constrain(start), [0] * len(sizes)
    for coordinate in range(program.dim):
        moved = start.copy()
        moved[coordinate] += _STEP
        after = program.constrain(moved)
        changed = [not np.array_equal(before[name], after[name]) for name in program.names]
        found[changed.index(True)] += 1
    return found
