"""A target: a density over labelled variables in unconstrained coordinates, from any source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_ksd.models.bambi_models import BambiParameters


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, without its full stop, or its kind."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")


@dataclass(frozen=True)
class Variable:
    """One random variable of a density, as seen from a single point.

    Attributes
    ----------
    name : str
        Its name in the model.
    shape : tuple of int
        Shape of one point, on the scale users see.
    unconstrained_shape : tuple of int
        Shape of one point in unconstrained coordinates.
    dims : tuple of str, optional
        Names of the axes of `shape`.
    coords : dict
        Coordinate values of those dims, where there are any.
    transform : str, optional
        Name of the transform between the two scales.
    unconstrained_name : str
        Name of the unconstrained value in PyMC, such as ``tau_log__``.
    elementwise : bool
        Whether each unconstrained coordinate belongs to one element of the variable.
    """

    name: str
    shape: tuple[int, ...] = ()
    unconstrained_shape: tuple[int, ...] = ()
    dims: tuple[str, ...] | None = None
    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    transform: str | None = None
    unconstrained_name: str = ""
    elementwise: bool = True

    @property
    def size(self) -> int:
        """How many numbers one point has on the scale users see."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def unconstrained_size(self) -> int:
        """How many unconstrained coordinates one point has."""
        return int(np.prod(self.unconstrained_shape, dtype=int))

    def element(self, index: tuple[int, ...]) -> str:
        """Name one element, as in ``theta[3]``."""
        return f"{self.name}[{','.join(map(str, index))}]" if index else self.name


@dataclass(frozen=True)
class Belonging:
    """What a model computes from its free variables, to be compared with draws that are stored.

    Attributes
    ----------
    free : tuple of Variable
        The free variables; shapes are left open.
    computed : tuple of Variable
        Deterministics that depend on free variables alone.
    compute : callable
        Maps values of the free variables at one point, by name, to those deterministics.
    has_centred_inputs : bool
        Whether there is a table of inputs whose columns all have mean zero, as Bambi makes them.
    observed : callable
        Returns the model's data by the names of its observed variables, as they are when it is
        called, where they are plain numbers.
    """

    free: tuple[Variable, ...]
    computed: tuple[Variable, ...]
    compute: Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]
    has_centred_inputs: bool
    observed: Callable[[], dict[str, np.ndarray]] = dict


@dataclass(frozen=True)
class Target:
    """What points may come from: a density, and what it is a function of.

    Attributes
    ----------
    variables : tuple of Variable
        The variables of a point, in the order of its coordinates.
    operator : str
        The Stein operator that goes with it, see :data:`pymc_ksd.stein.stein_kernel.OPERATORS`.
    values : callable
        Maps points of shape (n, d) to what that operator takes of them, arrays of the same shape:
        scores, or the rates of steps up and down. They are not finite outside the support. Scores
        may be followed by log densities, of shape (n,), up to a constant.
    unconstrain : callable
        Maps samples, one array of shape (n, *shape) for each variable, to points.
    simulate : callable, optional
        Draws samples: takes n and a generator. None when the density cannot be sampled from.
    no_simulation : str
        Why, in that case.
    observed : callable, optional
        Returns the model's own data for these variables, as they are when it is called.
    circular : tuple of str
        Variables that live on a circle.
    kind : str
        What the density is: "prior", "posterior", "observed", "predictive" or "callable".
    pointwise : bool
        Whether what is said of a point is known to be the same in whatever row it stands. It is not
        where every observation has inputs of its own.
    belonging : Belonging, optional
        What tells whether stored draws belong to the model.
    bambi : BambiParameters, optional
        How draws differ from the variables, where Bambi has made both.
    constrain : callable, optional
        Maps points back to samples. None when both are the same.
    prior : callable, optional
        Draws samples as `simulate` does, from what the variables come from without the data. None
        when it is not known.
    build : callable, optional
        Makes `values` ready, where that takes long; otherwise its first call does.
    log_density : callable, optional
        Maps a few points to their log densities, without anything that takes long. None where
        `values` is as good.
    numbers_computed : callable, optional
        Returns how many numbers the log density of a point computes, roughly. None where that is
        not known.
    stored : bool
        Whether scores are known nowhere but at draws that they are stored with.
    """

    variables: tuple[Variable, ...]
    operator: str
    values: Callable[[np.ndarray], tuple[np.ndarray, ...]]
    unconstrain: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    simulate: Callable[[int, np.random.Generator], Mapping[str, np.ndarray]] | None
    no_simulation: str = ""
    observed: Callable[[], Mapping[str, np.ndarray]] | None = None
    circular: tuple[str, ...] = ()
    kind: str = "callable"
    pointwise: bool = False
    belonging: Belonging | None = None
    bambi: BambiParameters | None = None
    constrain: Callable[[np.ndarray], Mapping[str, np.ndarray]] | None = None
    prior: Callable[[int, np.random.Generator], Mapping[str, np.ndarray]] | None = None
    build: Callable[[], Any] | None = None
    log_density: Callable[[np.ndarray], np.ndarray] | None = None
    numbers_computed: Callable[[], float] | None = None
    stored: bool = False

    @property
    def names(self) -> list[str]:
        """Names of the variables."""
        return [variable.name for variable in self.variables]

    @property
    def dim(self) -> int:
        """Number of unconstrained coordinates of a point."""
        return sum(variable.unconstrained_size for variable in self.variables)

    @property
    def labels(self) -> list[str]:
        """A name for every coordinate, such as ``"theta[2]"``."""
        return [
            variable.element(index)
            for variable in self.variables
            for index in np.ndindex(variable.unconstrained_shape)
        ]

    def variable_of(self, column: int) -> Variable:
        """Return the variable that an unconstrained coordinate belongs to."""
        stops = np.cumsum([variable.unconstrained_size for variable in self.variables])
        return self.variables[int(np.searchsorted(stops, column, side="right"))]

    def unconstrained(self, samples: Mapping[str, np.ndarray]) -> np.ndarray:
        """Unconstrain an array for each variable; points outside the support are an error."""
        points = self.unconstrain(samples)
        self.check_support(~np.isfinite(points), "lie outside the support of")
        return points

    def constrained(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Return points on the scale users see, an array of shape (n, *shape) for each variable."""
        if self.constrain is not None:
            return dict(self.constrain(points))
        stops = np.cumsum([variable.size for variable in self.variables])[:-1]
        parts = zip(self.variables, np.split(points, stops, axis=1), strict=True)
        return {v.name: part.reshape(len(points), *v.shape) for v, part in parts}

    def simulated(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n points from the density itself, unconstrained."""
        if self.simulate is None:
            raise ValueError(
                f"`null` 'parametric' draws data from the density, but {self.no_simulation}."
            )
        try:
            samples = self.simulate(n, rng)
        except NotImplementedError as error:
            way_out = ""
            if self.kind == "predictive":
                way_out = (
                    " Give its distribution a `random` function, or, if the model was fitted to "
                    "many more data than are tested, take `null` 'multinomial'."
                )
            raise ValueError(
                "`null` 'parametric' draws data from the density, but PyMC cannot draw from it: "
                f"{first_line(error)}.{way_out}"
            ) from error
        return self.unconstrain(samples)

    def check_support(
        self,
        bad: np.ndarray,
        problem: str,
        rows: Sequence[int] | np.ndarray | None = None,
        n_points: int | None = None,
    ) -> None:
        """Refuse points with a problem, and name the variable that has it.

        Parameters
        ----------
        bad : ndarray of bool of shape (n, d)
            Where the problem is.
        problem : str
            What it is; the variable's name follows.
        rows : sequence of int, optional
            The numbers that the points have among all, where they are a part.
        n_points : int, optional
            How many there are in all.
        """
        if not bad.any():
            return
        found = np.flatnonzero(bad.any(axis=1))
        column = int(np.flatnonzero(bad[found[0]])[0])
        numbers = found if rows is None else np.asarray(rows)[found]
        shown = ", ".join(map(str, numbers[:5])) + (", ..." if len(found) > 5 else "")
        raise ValueError(
            f"`data`: {len(found)} of {n_points or len(bad)} points {problem} "
            f"{self.variable_of(column).name!r} (rows {shown})."
        )
