r"""The score :math:`s(x) = \nabla_x \log q(x)` of a PyMC model, or of any gradient function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm

from pymc_ksd.compilation import one_at_a_time
from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.models.bambi_models import bambi_parameters
from pymc_ksd.models.belonging import belonging
from pymc_ksd.models.model_target import model_target, resolve_model
from pymc_ksd.models.observed.fitted import fitted_density, observed_variables
from pymc_ksd.models.observed.potentials import check_potentials
from pymc_ksd.models.observed.predictive import predictive_target
from pymc_ksd.models.target import Target, Variable
from pymc_ksd.options import warn_user
from pymc_ksd.samples.belonging import model_draws
from pymc_ksd.samples.containers import draws_group, holds_draws, values_of
from pymc_ksd.samples.data import checked_samples
from pymc_ksd.samples.draws import DrawsWarning, check_together
from pymc_ksd.samples.posterior import given_values

#: Draws of a posterior that new data are held against, and fewer than which are too few.
_MOST_DRAWS, _FEW_DRAWS = 500, 100


class Score:
    """A compiled score function with labelled coordinates.

    Make one with :func:`compile_score` or :meth:`Score.from_callable`. It can stand wherever a
    model is expected: compile once, test many times.

    Parameters
    ----------
    target : Target
        The density; of this library's own making.

    Attributes
    ----------
    dim : int
        Number of unconstrained coordinates of a point.
    labels : list of str
        A name for every coordinate, such as ``"theta[2]"``.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.dim = target.dim
        self.labels = target.labels

    @classmethod
    def from_callable(
        cls,
        function: Callable[[np.ndarray], np.ndarray],
        dim: int,
        *,
        name: str = "x",
        names: Sequence[str] | None = None,
        simulate: Callable[[int, np.random.Generator], np.ndarray] | None = None,
        log_density: Callable[[np.ndarray], np.ndarray] | None = None,
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
            What the variable is called in results, a vector of all coordinates.
        names : sequence of str, optional
            Names of the coordinates, each a variable of its own; samples may then be mappings or
            datasets with these names.
        simulate : callable, optional
            Draws from the density, ``simulate(n, rng)`` of shape (n, dim), for the null
            ``"parametric"``.
        log_density : callable, optional
            Maps points of shape (n, dim) to the log density there, of shape (n,), up to a constant.
            With it a test of draws can also weigh them, so that a few draws with huge scores hide
            nothing.

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
        >>> Score.from_callable(lambda x: -x, dim=2, names=["mu", "tau"]).labels
        ['mu', 'tau']
        """
        if not callable(function):
            raise TypeError(f"`function` must be callable, got {type(function).__name__}.")
        if not isinstance(dim, int | np.integer) or dim < 1:
            raise ValueError(f"`dim` must be a positive integer, got {dim!r}.")
        if names is None:
            shape = () if dim == 1 else (int(dim),)
            variables: tuple[Variable, ...] = (Variable(name, shape, shape),)
        else:
            variables = tuple(Variable(str(one)) for one in names)
            if len({v.name for v in variables}) != dim or len(variables) != dim:
                raise ValueError(
                    f"`names` must be {dim} different names, one for each coordinate, got "
                    f"{list(names)!r}."
                )
        return cls(_callable_target(function, variables, simulate, log_density))

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
        points = np.ascontiguousarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise ValueError(f"`points` must have shape (n, {self.dim}), got {points.shape}.")
        values = self._target.values(points)
        if self._target.operator != "langevin":
            raise ValueError(
                f"The variable(s) {', '.join(self._target.names)} are discrete and have no "
                "gradient."
            )
        return values[0]

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
        variables = self._target.variables
        return self._target.unconstrained(checked_samples(values_of(data, variables), variables))

    def simulate(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n points from the density itself, unconstrained."""
        return self._target.simulated(n, rng)

    def __repr__(self) -> str:
        """Name the density and its variables."""
        names = ", ".join(self._target.names)
        return f"<Score of the {self._target.kind} of {names}; dim={self.dim}>"


def _callable_target(
    function: Callable[[np.ndarray], np.ndarray],
    variables: tuple[Variable, ...],
    simulate: Callable[[int, np.random.Generator], np.ndarray] | None,
    log_density: Callable[[np.ndarray], np.ndarray] | None,
) -> Target:
    """Return the target of a gradient function without transforms."""

    def values(points: np.ndarray) -> tuple[np.ndarray, ...]:
        scores = np.asarray(function(points), dtype=np.float64)
        if scores.shape != points.shape:
            raise ValueError(
                f"The score function must return an array of the points' shape {points.shape}, "
                f"got {scores.shape}."
            )
        if log_density is None:
            return (scores,)
        log_densities = np.asarray(log_density(points), dtype=np.float64)
        if log_densities.shape != points.shape[:1]:
            raise ValueError(
                f"`log_density` must return one number for each point, shape {points.shape[:1]}, "
                f"got {log_densities.shape}."
            )
        return scores, log_densities

    def unconstrain(samples: Mapping[str, np.ndarray]) -> np.ndarray:
        arrays = [np.asarray(samples[v.name], dtype=np.float64) for v in variables]
        return np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)

    def draw(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        assert simulate is not None
        table = np.asarray(simulate(n, rng), dtype=np.float64).reshape(n, -1)
        stops = np.cumsum([v.size for v in variables])[:-1]
        parts = zip(variables, np.split(table, stops, axis=1), strict=True)
        return {v.name: part.reshape(n, *v.shape) for v, part in parts}

    return one_at_a_time(
        Target(
            variables=variables,
            operator="langevin",
            values=values,
            unconstrain=unconstrain,
            simulate=None if simulate is None else draw,
            no_simulation="the score came without a `simulate` function",
        )
    )


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
    the place of a gradient.

    Parameters
    ----------
    model : pm.Model or bambi.Model, optional
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
    return Score(target_of(model, var_names, sample_dims, compile_kwargs))


def target_of(
    model: pm.Model | Score | None,
    var_names: str | Sequence[str] | None,
    sample_dims: str | Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
) -> Target:
    """Return the target of a model, or of the compiled score that was given in its place."""
    if not isinstance(model, Score):
        target = model_target(resolve_model(model), var_names, sample_dims, compile_kwargs)
        parameters = bambi_parameters(model)
        return target if parameters is None else replace(target, bambi=parameters)
    if var_names is not None or sample_dims is not None:
        raise ValueError(
            "`var_names` and `sample_dims` are fixed in a compiled Score: give them to "
            "compile_score."
        )
    return model._target


def predictive(
    model: pm.Model | Score | None,
    data: Any,
    posterior: Any,
    var_names: str | Sequence[str] | None,
    sample_dims: str | Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
    progressbar: bool,
) -> tuple[Target, str]:
    """Return the posterior predictive distribution that new observations are held against.

    And why draws of the posterior and model cannot belong together, or nothing.
    """
    if isinstance(model, Score):
        raise TypeError("`posterior` needs the model itself: `model` is a compiled Score.")
    if data is None or holds_draws(data):
        raise ValueError(
            "`data` must be new observations when `posterior` is given. To check the model on the "
            "data it was fitted to, use ksd_ppc."
        )
    parameters, model = bambi_parameters(model), resolve_model(model)
    mismatch = check_together(belonging(model), draws_group(posterior), parameters)
    posterior = model_draws(posterior, parameters)
    rvs = observed_variables(model, var_names)
    if len(rvs) > 1:
        raise ValueError(
            f"The model has several observed variables ({', '.join(str(rv.name) for rv in rvs)}): "
            "choose the one that `data` are new observations of with `var_names`."
        )
    check_potentials(model, rvs[0], is_named=var_names is not None)
    density = fitted_density(model, rvs[0], sample_dims, compile_kwargs, common_coordinates=True)
    most = _MOST_DRAWS if density.given else 1
    given = given_values(model, density.given, posterior, most, argument="posterior")
    if density.given and len(given) < _FEW_DRAWS:
        warn_user(
            f"`posterior` has {len(given)} draws: with fewer than {_FEW_DRAWS} they stand for the "
            "posterior only roughly, and true models are rejected somewhat too often.",
            DrawsWarning,
        )

    passes = []

    def watch(draws: Sequence[Any]) -> Iterable[Any]:
        # The data's own pass has a bar; those of replicates are counted by another.
        passes.append(len(draws))
        with progress_bar("Mixing draws", len(draws), progressbar and len(passes) == 1) as bar:
            for draw in draws:
                yield draw
                bar.advance(1)

    return predictive_target(density, given, watch), mismatch
