"""Fitted models that are to be compared: their draws, their data and one scale for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.diagnostics.predictive.residuals import residuals_given
from pymc_ksd.diagnostics.prepare import check_circular
from pymc_ksd.models.bambi_models import bambi_parameters
from pymc_ksd.models.belonging import belonging
from pymc_ksd.models.log_density import NotWholeError
from pymc_ksd.models.model_target import resolve_model
from pymc_ksd.models.observed.fitted import FittedDensity, fitted_density, observed_variables
from pymc_ksd.models.observed.potentials import check_potentials
from pymc_ksd.samples.belonging import model_draws
from pymc_ksd.samples.containers import draws_group
from pymc_ksd.samples.draws import check_together
from pymc_ksd.samples.posterior import Given, given_values
from pymc_ksd.stein.kernels import RBF

#: Draws from which centre and scale of the observations are taken.
_SCALE_DRAWS = 20
#: Observations below which a jackknife over them says nothing.
_FEWEST = 10


@dataclass(frozen=True)
class Candidate:
    """One of the models, with its draws.

    Attributes
    ----------
    name : str
        What the user calls it.
    model : pm.Model
        The model.
    density : FittedDensity
        Its observed variable.
    given : list of tuple of ndarray
        Draws of the free variables.
    data : object
        The draws as the user gave them.
    """

    name: str
    model: pm.Model
    density: FittedDensity
    given: Sequence[Given]
    data: Any


def read_candidates(
    models: Any,
    var_names: str | None,
    num_draws: int,
    compile_kwargs: Mapping[str, Any] | None,
    rng: np.random.Generator,
) -> list[Candidate]:
    """Return the models with their observed variables and draws.

    The same draws are chosen of all posteriors that have as many, so that models that share their
    draws share what is chosen.
    """
    if not isinstance(models, Mapping):
        raise TypeError(
            "`models` must be a mapping from names to pairs of a model and its draws, such as "
            f'{{"poisson": (model, idata)}}, got {type(models).__name__}.'
        )
    if len(models) < 2:
        raise ValueError(f"`models` must have at least two models to compare, got {len(models)}.")
    found = []
    seed = int(rng.integers(2**32))
    for name, pair in models.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"`models` must have a pair of a model and its draws for every name, but {name!r} "
                f"has {type(pair).__name__}."
            )
        parameters, model = bambi_parameters(pair[0]), resolve_model(pair[0])
        variables = observed_variables(model, var_names)
        if len(variables) > 1:
            known = ", ".join(str(rv.name) for rv in variables)
            raise ValueError(
                f"The model {name!r} has several observed variables ({known}): name one of them in "
                "`var_names`."
            )
        check_potentials(model, variables[0], is_named=var_names is not None)
        density = _whole_density(str(name), model, variables[0], compile_kwargs)
        check_circular(density.circular, RBF())
        stored = None if pair[1] is None else draws_group(pair[1])
        check_together(belonging(model), stored, parameters, argument=f"models[{name!r}]")
        draws = model_draws(pair[1], parameters)
        chosen = np.random.default_rng(seed)
        given = given_values(model, density.given, draws, num_draws, chosen)
        if not density.given:
            given = given[:1]  # its distribution is known
        found.append(Candidate(str(name), model, density, given, pair[1]))
    return found


def _whole_density(
    name: str, model: pm.Model, rv: TensorVariable, compile_kwargs: Mapping[str, Any] | None
) -> FittedDensity:
    """Return the density of an observed variable as it is, or say that it is not compared."""
    try:
        return fitted_density(model, rv, None, compile_kwargs, common_coordinates=True)
    except NotWholeError:
        raise ValueError(
            f"{str(rv.name)!r} of the model {name!r} cannot be compared: ksd_compare_models "
            "compares whole observations, which the first axis counts. Paths, single vectors, "
            "censored values and values with a probability of their own (hurdle models) are not "
            "compared. Check each model with ksd_ppc."
        ) from None


def common_observations(candidates: Sequence[Candidate], data: Any) -> np.ndarray:
    """Return the observations, the same for all models."""
    first, *others = candidates
    own = first.density.data()
    for other in others:
        one, two = (c.density for c in (first, other))
        same = (one.operator, one.variable.transform, one.variable.shape)
        if same != (two.operator, two.variable.transform, two.variable.shape):
            raise ValueError(
                f"The models {first.name!r} and {other.name!r} observe "
                f"{one.places.name!r} on different scales, which one kernel cannot compare: counts "
                "and continuous numbers, or numbers with other bounds."
            )
        values = two.data()
        if len(values) != len(own) or (data is None and not np.array_equal(values, own)):
            raise ValueError(
                f"The models {first.name!r} and {other.name!r} must observe the same data, in the "
                "same order, or be given new `data`."
            )
    if len(own) < _FEWEST:
        raise ValueError(
            f"At least {_FEWEST} observations are needed to tell the error of a difference, got "
            f"{len(own)}."
        )
    return own if data is None else _in_their_place(data, own)


def _in_their_place(data: Any, own: np.ndarray) -> np.ndarray:
    """Return a user's observations, which have to be as those of the models are."""
    values = np.asarray(data, dtype=float)
    if values.shape != own.shape or not np.isfinite(values).all():
        raise ValueError(
            f"`data` must have finite values of shape {own.shape}, one for every observation that "
            f"the models have inputs for, got shape {values.shape}"
            f"{'' if np.isfinite(values).all() else ' with values that are not finite'}."
        )
    if np.issubdtype(own.dtype, np.floating):
        return values.astype(own.dtype)
    with np.errstate(invalid="ignore"):
        same = values.astype(own.dtype)
    if not np.array_equal(same, values):
        bad = values[same != values]
        raise ValueError(
            f"`data` must have whole numbers of type {own.dtype}, as the models observe them, but "
            f"{len(bad)} value(s) are not, first {bad[0]:g}."
        )
    return same


def common_scale(
    candidates: Sequence[Candidate], observed: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return centre and spread of every observation, which no single model decides.

    They are medians of what the models say, of two spreads the geometric mean. The spread of the
    data around the centres would have an error of its own, which is in no interval.
    """
    found = []
    for one in candidates:
        step = -(-len(one.given) // _SCALE_DRAWS)
        scales = [residuals_given(one.density, len(observed), g, rng) for g in one.given[::step]]
        found.append(np.mean([(scale.centre, scale.spread) for scale in scales], axis=0))
    centre = np.median([own for own, _ in found], axis=0)
    return centre, np.exp(np.median([np.log(own) for _, own in found], axis=0))
