r"""The score :math:`s(x) = \nabla_x \log q(x)` of a PyMC model, or of any gradient function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm

from pymc_ksd.compilation import FUNCTIONS_LOCK, compile_key
from pymc_ksd.free_density import free_density
from pymc_ksd.model_variables import Density, model_key
from pymc_ksd.observed_density import observed_density
from pymc_ksd.progress import progress_bar
from pymc_ksd.sample_data import Variable, read_samples

__all__ = ["Score", "compile_score", "resolve_model"]

#: Points that are scored before progress is shown.
_SCORED_TOGETHER = 2_000
_scores: WeakKeyDictionary[pm.Model, dict[Any, Score]] = WeakKeyDictionary()


class Score:
    """A compiled score function with labelled coordinates.

    Make one with :func:`compile_score` or :meth:`Score.from_callable`. It can stand wherever a
    model is expected: compile once, test many times.

    Parameters
    ----------
    density : Density
        The gradient, and what is known of its variables; of this library's own making.

    Attributes
    ----------
    dim : int
        Number of unconstrained coordinates of a point.
    labels : list of str
        A name for every coordinate, such as ``"theta[2]"``.
    variables : tuple of Variable
        The variables a point is made of.
    kind : str
        ``"prior"``, ``"posterior"``, ``"observed"`` or ``"callable"``.
    pointwise : bool
        Whether points may be scored in any order and number: not where each has its own inputs.
    """

    def __init__(self, density: Density) -> None:
        self._density = density
        # A compiled function works for one thread at a time.
        self._lock = RLock()
        self.variables = density.variables
        self.kind = density.kind
        self.pointwise = density.pointwise
        self.dim = sum(variable.unconstrained_size for variable in self.variables)
        self.labels = [
            variable.element(index)
            for variable in self.variables
            for index in np.ndindex(variable.unconstrained_shape)
        ]

    @classmethod
    def from_callable(
        cls,
        function: Callable[[np.ndarray], np.ndarray],
        dim: int,
        *,
        name: str = "x",
        simulate: Callable[[int, np.random.Generator], np.ndarray] | None = None,
    ) -> Score:
        """Wrap a gradient function that did not come from PyMC.

        Parameters
        ----------
        function : callable
            Maps points of shape (n, dim) to the gradients of the log density there, of the same
            shape. The density must live on all of the space: bounded variables need a change of
            variables first.
        dim : int
            Number of coordinates.
        name : str, default "x"
            What the variable is called in results.
        simulate : callable, optional
            Draws from the density, ``simulate(n, rng)`` of shape (n, dim), for the null
            ``"parametric"``.

        Returns
        -------
        Score
            Takes the place of a model.

        Examples
        --------
        >>> import numpy as np
        >>> from pymc_ksd import Score
        >>> score = Score.from_callable(lambda x: -x, dim=2)
        >>> score(np.ones((1, 2)))
        array([[-1., -1.]])
        """
        if not callable(function):
            raise TypeError(f"`function` must be callable, got {type(function).__name__}.")
        if not isinstance(dim, int | np.integer) or dim < 1:
            raise ValueError(f"`dim` must be a positive integer, got {dim!r}.")
        shape = () if dim == 1 else (int(dim),)
        draw = None
        if simulate is not None:
            given = simulate

            def draw(n: int, rng: np.random.Generator) -> Mapping[str, np.ndarray]:
                return {name: np.asarray(given(n, rng), dtype=np.float64).reshape(n, *shape)}

        def unconstrain(samples: Mapping[str, np.ndarray]) -> np.ndarray:
            return np.asarray(samples[name], dtype=np.float64).reshape(-1, int(dim))

        density = Density(
            variables=(Variable(name, shape, shape),),
            gradient=function,
            unconstrain=unconstrain,
            simulate=draw,
            no_simulation="the score came without a `simulate` function",
        )
        return cls(density)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return the score at unconstrained points.

        Parameters
        ----------
        points : ndarray of shape (n, dim)
            Unconstrained points, see :meth:`unconstrain`.

        Returns
        -------
        ndarray of shape (n, dim)
            A gradient for each point.
        """
        points = self._as_points(points)
        if self._density.gradient is None:
            raise ValueError(
                f"The variable(s) {', '.join(v.name for v in self.variables)} are discrete and "
                "have no gradient: see `rates`."
            )
        with self._lock:
            scores = np.asarray(self._density.gradient(points), dtype=np.float64)
        if scores.shape != points.shape:
            raise ValueError(
                f"The score function must return an array of the points' shape {points.shape}, "
                f"got {scores.shape}."
            )
        return scores

    @property
    def discrete(self) -> bool:
        """Whether the variables are counts, with rates of steps in the place of a gradient."""
        return self._density.rates is not None

    def rates(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rates of steps up and down from points of discrete variables.

        Parameters
        ----------
        points : ndarray of shape (n, dim)
            Points on the lattice, see :meth:`unconstrain`.

        Returns
        -------
        births : ndarray of shape (n, dim)
            For each coordinate, the probability of the value above over its sum with that of the
            point.
        deaths : ndarray of shape (n, dim)
            The same for the value below.
        """
        points = self._as_points(points)
        if self._density.rates is None:
            raise ValueError(
                f"The variable(s) {', '.join(v.name for v in self.variables)} are continuous and "
                "have a gradient, not rates."
            )
        with self._lock:
            return self._density.rates(points)

    def _as_points(self, points: np.ndarray) -> np.ndarray:
        points = np.ascontiguousarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise ValueError(f"`points` must have shape (n, {self.dim}), got {points.shape}.")
        return points

    def unconstrain(self, data: Any) -> np.ndarray:
        """Turn a sample on the scale users see into unconstrained points.

        Parameters
        ----------
        data : array_like, mapping, DataFrame, Dataset or DataArray
            The sample: an array of shape (n, number of values), or one entry for each variable.

        Returns
        -------
        ndarray of shape (n, dim)
            The points in unconstrained coordinates.

        Raises
        ------
        ValueError
            If values are missing, not finite, of the wrong shape or outside the support.
        """
        return self.unconstrain_samples(read_samples(data, self.variables))

    def unconstrain_samples(
        self, samples: Mapping[str, np.ndarray], *, check: bool = True
    ) -> np.ndarray:
        """Unconstrain an array for each variable, with points along its first axis.

        Points outside the support are an error, or not finite without `check`.
        """
        with self._lock:
            points = self._density.unconstrain(samples)
        if check:
            self._check_support(points, "lie outside the support of")
        return points

    def variable_of(self, column: int) -> Variable:
        """Return the variable that an unconstrained coordinate belongs to."""
        stops = np.cumsum([variable.unconstrained_size for variable in self.variables])
        return self.variables[int(np.searchsorted(stops, column, side="right"))]

    def observed_data(self) -> Mapping[str, np.ndarray] | None:
        """Return the model's own data when the score is that of observed variables."""
        if self._density.observed is None:
            return None
        with self._lock:
            return self._density.observed()

    @property
    def circular(self) -> tuple[str, ...]:
        """Names of variables that live on a circle."""
        return self._density.circular

    def simulate(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n points from the density itself, unconstrained."""
        if self._density.simulate is None:
            raise ValueError(
                "`null` 'parametric' draws data from the density, but "
                f"{self._density.no_simulation}."
            )
        try:
            with self._lock:
                samples = self._density.simulate(n, rng)
        except NotImplementedError as error:
            raise ValueError(
                "`null` 'parametric' draws data from the density, but PyMC cannot draw from it: "
                f"{str(error).splitlines()[0]}."
            ) from error
        with self._lock:
            return self._density.unconstrain(samples)

    def checked(
        self,
        points: np.ndarray,
        *,
        progressbar: bool = False,
        first_row: int = 0,
        n_points: int | None = None,
    ) -> np.ndarray:
        """Return the scores of points after making sure that all are finite.

        Errors count rows from `first_row` on, of `n_points`, where points are a part of all.
        """
        if self.pointwise:
            scores = np.empty(points.shape)
            with progress_bar("Scoring points", len(points), progressbar) as bar:
                for start in range(0, len(points), _SCORED_TOGETHER):
                    part = points[start : start + _SCORED_TOGETHER]
                    scores[start : start + _SCORED_TOGETHER] = self(part)
                    bar.advance(len(part))
        else:
            scores = self(points)
        problem = "have no finite score, so they may lie outside the support of"
        self._check_support(scores, problem, first_row, n_points)
        return scores

    def checked_rates(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rates at points after making sure that all are possible."""
        births, deaths = self.rates(points)
        self._check_support(deaths, "have no probability, so they lie outside the support of")
        if not (births.any() or deaths.any()):
            raise ValueError(
                f"The variable(s) {', '.join(v.name for v in self.variables)} can make no single "
                "step up or down from any of the points: the test compares neighbouring values and "
                "has nothing to compare. Counts with a fixed total, other than a plain Multinomial "
                "or DirichletMultinomial, have to be written without one of them."
            )
        return births, deaths

    def _check_support(
        self, values: np.ndarray, problem: str, first_row: int = 0, n_points: int | None = None
    ) -> None:
        bad = ~np.isfinite(values)
        if not bad.any():
            return
        rows = np.flatnonzero(bad.any(axis=1))
        column = int(np.flatnonzero(bad[rows[0]])[0])
        variable = self.variable_of(column)
        shown = ", ".join(map(str, rows[:5] + first_row)) + (", ..." if len(rows) > 5 else "")
        raise ValueError(
            f"`data`: {len(rows)} of {n_points or len(values)} points {problem} {variable.name!r} "
            f"(rows {shown})."
        )

    def __repr__(self) -> str:
        """Name the density and its variables."""
        names = ", ".join(variable.name for variable in self.variables)
        return f"<Score of the {self.kind} of {names}; dim={self.dim}>"


def compile_score(
    model: pm.Model | None = None,
    var_names: str | Sequence[str] | None = None,
    *,
    sample_dims: str | Sequence[str] | None = None,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> Score:
    r"""Compile the score of a PyMC model.

    The density is over the model's free variables in PyMC's unconstrained coordinates, Jacobian
    included: the posterior when the model has observed data, the joint prior otherwise. A model
    without free variables is scored over its observed variables, one observation a point, through
    the default transform of their distribution. Observed counts have rates of steps up and down in
    the place of a gradient, see :meth:`Score.rates`.

    Parameters
    ----------
    model : pm.Model, optional
        The model; by default the one whose context is active.
    var_names : str or sequence of str, optional
        Restrict the density to some variables. Only possible where the marginal density is known:
        in a model without a posterior, with all variables that the chosen ones depend on.
    sample_dims : str or sequence of str, optional
        Dims of an observed variable that count observations. By default its first axis does.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``, such as ``{"mode": "NUMBA"}``. By default models made of
        array operations are not compiled at all but run on NumPy, which gives the first answer
        soonest, and others use PyMC's compiled log-density function.

    Returns
    -------
    Score
        A function of points, with labels and transforms.

    Notes
    -----
    Values changed by ``pm.set_data`` are used without compiling anything again. Compiled scores are
    kept as long as their model: a second call for the same variables is free.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_ksd import compile_score
    >>> with pm.Model() as model:
    ...     rate = pm.Exponential("rate", 2.0)
    >>> score = compile_score(model)
    >>> points = score.unconstrain(np.array([0.5, 1.0, 2.0]))
    >>> points.ravel().round(2)
    array([-0.69,  0.  ,  0.69])
    >>> score(points).ravel()
    array([ 0., -1., -3.])
    """
    model = resolve_model(model)
    names = [var_names] if isinstance(var_names, str) else var_names
    if names is not None and not len(names):
        raise ValueError("`var_names` must name at least one variable, got none.")
    dims = [sample_dims] if isinstance(sample_dims, str) else sample_dims
    key = (
        model_key(model),
        None if names is None else tuple(names),
        None if dims is None else tuple(dims),
        compile_key(compile_kwargs),
    )
    with FUNCTIONS_LOCK:
        kept = _scores.setdefault(model, {})
        if key not in kept:
            kept[key] = Score(_model_density(model, names, dims, compile_kwargs))
        return kept[key]


def _model_density(
    model: pm.Model,
    names: Sequence[str] | None,
    sample_dims: Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
) -> Density:
    """Return the density of a model's free variables, or else of its observed ones."""
    if not model.free_RVs and not model.observed_RVs:
        raise ValueError("`model` has no random variables, so there is nothing to test.")
    if not model.free_RVs:
        return observed_density(model, names, sample_dims, compile_kwargs)
    if sample_dims is not None:
        raise ValueError(
            "`sample_dims` belongs to observed variables of a model without free variables; this "
            "model has free variables."
        )
    return free_density(model, names, compile_kwargs)


def resolve_model(model: Any) -> pm.Model:
    """Return the model that was given, or the one whose context is active."""
    if model is None:
        try:
            return pm.modelcontext(None)
        except TypeError as error:
            raise TypeError(
                "`model` was not given and no model is on the context stack: pass a model or call "
                "inside `with model:`."
            ) from error
    if not isinstance(model, pm.Model):
        raise TypeError(f"`model` must be a pm.Model, a Score or None, got {type(model).__name__}.")
    return model
