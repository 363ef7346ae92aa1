r"""The score :math:`s(x) = \nabla_x \log q(x)` of a PyMC model, or of any gradient function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm

from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.models.bambi_models import bambi_parameters
from pymc_ksd.models.belonging import belonging
from pymc_ksd.models.callable_target import callable_target, stored_target
from pymc_ksd.models.jax_models import jax_target
from pymc_ksd.models.model_target import model_target, resolve_model
from pymc_ksd.models.numpyro_models import numpyro_target
from pymc_ksd.models.observed.fitted import fitted_density, observed_variables
from pymc_ksd.models.observed.potentials import check_potentials
from pymc_ksd.models.observed.predictive import predictive_target
from pymc_ksd.models.stan_models import stan_target
from pymc_ksd.models.target import Target, Variable
from pymc_ksd.options import warn_user
from pymc_ksd.samples.belonging import model_draws
from pymc_ksd.samples.containers import check_draws, draws_group, holds_draws, values_of
from pymc_ksd.samples.data import checked_samples
from pymc_ksd.samples.draws import DrawsWarning, check_together
from pymc_ksd.samples.posterior import given_values
from pymc_ksd.samples.stored import holds_gradients, stored_variables

#: Draws of a posterior that new data are held against, and fewer than which are too few.
_MOST_DRAWS, _FEW_DRAWS = 500, 100


class Score:
    """A compiled score function with labelled coordinates.

    Make one with :func:`compile_score`, or from another source: :meth:`from_draws` (gradients
    stored by a sampler), :meth:`from_numpyro`, :meth:`from_stan`, :meth:`from_jax` or
    :meth:`from_callable`. It can stand wherever a model is expected: compile once, test many times.

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
        return cls(callable_target(function, variables, simulate, log_density))

    @classmethod
    def from_draws(cls, data: Any) -> Score:
        """Take scores from the gradients that a sampler has stored with its draws.

        No model is needed, and nothing is compiled. The score is known at these draws only, so it
        serves what looks at draws alone: :func:`ksd_test`, :func:`ksd`, :func:`ksd_evolution`,
        :func:`ksd_moments`, :func:`ksd_expectation` and :func:`ksd_summary`. Nothing can tell here
        whether the gradients are right: where there is a model, give it, and the stored gradients
        are compared with it at a few draws and used all the same.

        Parameters
        ----------
        data : DataTree or InferenceData
            Draws with gradients: nutpie's, sampled with ``store_gradient=True`` and
            ``store_unconstrained=True``, or those that :func:`with_gradients` returns when it is
            given `points`. Without unconstrained values nothing tells whether variables are
            transformed, which is an error.

        Returns
        -------
        Score
            Takes the place of a model, with the same `data`.
        """
        check_draws(data, "data")
        return cls(stored_target(stored_variables(data)))

    @classmethod
    def from_numpyro(cls, model: Callable[..., Any], *args: Any, **kwargs: Any) -> Score:
        """Take the score of a NumPyro model's posterior, in NumPyro's unconstrained coordinates.

        Parameters
        ----------
        model : callable
            The model, a function that calls ``numpyro.sample``.
        *args, **kwargs
            What the model is called with: its data.

        Returns
        -------
        Score
            Takes the place of a model. Draws are on the scale users see, as ``az.from_numpyro``
            returns them; numbers are in double precision, whatever NumPyro's setting is.

        Examples
        --------
        >>> import numpyro, numpyro.distributions as dist
        >>> from pymc_ksd import Score
        >>> def model(y):
        ...     scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        ...     numpyro.sample("y", dist.Normal(0.0, scale), obs=y)
        >>> Score.from_numpyro(model, 0.5)
        <Score of the posterior of scale; dim=1>
        """
        return cls(numpyro_target(model, args, kwargs))

    @classmethod
    def from_stan(cls, model: Any) -> Score:
        """Take the score of a Stan program, in Stan's unconstrained coordinates.

        Parameters
        ----------
        model : bridgestan.StanModel or stan.model.Model
            The program with its data, compiled by BridgeStan, or by PyStan 3 with ``stan.build``.

        Returns
        -------
        Score
            Takes the place of a model. Draws are on the scale users see, as ``az.from_cmdstanpy``
            or ``az.from_pystan`` return them.

        Notes
        -----
        Points are evaluated one by one. BridgeStan calls the compiled program; PyStan asks a server
        in its own process, which takes some milliseconds for every draw: thin the draws.
        """
        return cls(stan_target(model))

    @classmethod
    def from_jax(cls, log_density: Callable[[Any], Any], example: Any) -> Score:
        """Differentiate a log density written in JAX, over any tree of arrays.

        Parameters
        ----------
        log_density : callable
            Maps one point, a tree such as a dictionary of arrays, to its log density up to a
            constant. It must live on all of the space: bounded variables need a change of variables
            first, with its Jacobian, as samplers want it, too.
        example : pytree
            One point, such as a sampler's first position; only its structure and shapes count.
            Arrays are called by the keys that lead to them, ``"a.b"``; a single array is ``"x"``.

        Returns
        -------
        Score
            Takes the place of a model.

        Examples
        --------
        >>> import numpy as np
        >>> from pymc_ksd import Score
        >>> score = Score.from_jax(lambda z: -(z["mu"] ** 2).sum(), {"mu": np.zeros(2)})
        >>> score.labels
        ['mu[0]', 'mu[1]']
        >>> score(np.ones((1, 2)))
        array([[-2., -2.]])
        """
        return cls(jax_target(log_density, example))

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
    data: Any = None,
) -> Target:
    """Return the target of a model, or of the compiled score that was given in its place.

    Its score is made ready, so that what is wrong with the model is told first, unless `data` are
    draws with gradients beside them: then it may never be needed.
    """
    if not isinstance(model, Score):
        target = model_target(resolve_model(model), var_names, sample_dims, compile_kwargs)
        if target.build is not None and not holds_gradients(data):
            target.build()
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
            f"`posterior` has {len(given)} draws: fewer than {_FEW_DRAWS} represent the posterior "
            "only roughly, and true models are rejected slightly too often.",
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
