"""Draws of a sampler: chains kept apart, elements in the model's order, unconstrained."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.models.bambi_models import BambiParameters
from pymc_ksd.models.target import Belonging, Target, Variable
from pymc_ksd.options import warn_user
from pymc_ksd.samples.arranged import arranged, check_has, finite_values, place
from pymc_ksd.samples.belonging import in_model_parameters, not_together, of_other_data
from pymc_ksd.samples.containers import (
    as_only_variable,
    chains_interact,
    drawn_independently,
    draws_group,
)
from pymc_ksd.samples.gradients import checked_gradients
from pymc_ksd.samples.sample import DrawsWarning, Sample
from pymc_ksd.samples.stored import stored_gradients, stored_points

#: Chains shorter than this cannot tell how correlated their draws are.
_FEW_DRAWS = 20
#: Draws on which unconstrained values are held against the posterior they are stored with.
_COMPARED_DRAWS = 20
#: Draws on which stored deterministics are held against what the model computes.
_COMPUTED_DRAWS = 3


def read_draws(target: Target, data: Any, *, is_part: bool = False) -> Sample:
    """Collect a sampler's draws of every variable and bring them to unconstrained coordinates.

    Parameters
    ----------
    target : Target
        The density the draws are meant to come from.
    data : DataTree, InferenceData, Dataset or DataArray
        Draws with the dims ``chain`` and ``draw``. Values in a group ``unconstrained_posterior``
        are taken as they are, if they belong to these draws; warm-up draws never enter.
    is_part : bool, default False
        Whether these are a few of the draws, so that it does not matter how few.

    Returns
    -------
    Sample
    """
    if target.kind == "observed":
        raise ValueError(
            "`data` holds a sampler's draws, but the model has no free variables they could be "
            "draws of."
        )
    data = as_only_variable(data, target.variables)
    posterior = draws_group(data)
    if posterior is None:
        raise ValueError("`data` must have a group 'posterior' with the draws to be tested.")
    mismatch = ""
    if not is_part:
        observed = draws_group(data, "observed_data")
        mismatch = check_together(target.belonging, posterior, target.bambi, observed)
    if target.bambi is not None:
        posterior = in_model_parameters(posterior, target.bambi)
    own = xr.Dataset(
        {v.name: arranged(posterior[v.name], v) for v in target.variables if v.name in posterior}
    )
    points, gradients = stored_points(target, posterior, data), None
    if target.stored and points is None:
        raise ValueError(
            "`data` must have the unconstrained values of the draws that the Score was made of, "
            f"for the variables {', '.join(target.names)}, in the group 'unconstrained_posterior' "
            "(give `points` to pymc_ksd.with_gradients) or as nutpie stores them "
            "(store_unconstrained=True)."
        )
    complete = len(own) == len(target.variables) and not target.stored
    if points is not None and complete and not _belongs(target, own, points):
        warn_user(
            "The unconstrained values stored in `data` are not those of its posterior, which may "
            "have been changed since; the posterior is used.",
            DrawsWarning,
        )
        points = None
    elif not is_part:
        gradients = stored_gradients(target, posterior, data)
    if points is None:
        check_has(posterior, target.names)
        points = _unconstrained(target, own, check=True)
    n_draws, n_chains, dim = points.shape
    if n_draws < _FEW_DRAWS and not is_part:
        warn_user(
            f"Only {n_draws} draws in each chain: with fewer than {_FEW_DRAWS} their correlation "
            "cannot be estimated, and the p-value cannot be trusted.",
            DrawsWarning,
        )
    if n_draws * n_chains < 2 and not is_part:
        raise ValueError(f"`data` must have at least 2 draws, got {n_draws * n_chains}.")
    values: tuple[np.ndarray, ...] = ()
    scores = "model"
    if gradients is not None or target.stored:
        values, scores = checked_gradients(target, points, gradients, posterior, data)
    return Sample(
        points.reshape(-1, dim),
        n_chains,
        own,
        are_draws=True,
        independent=drawn_independently(data),
        interacting=chains_interact(data),
        mismatch=mismatch,
        values=values,
        scores=scores,
    )


def check_together(
    found: Belonging | None,
    posterior: xr.Dataset | None,
    bambi: BambiParameters | None,
    observed: xr.Dataset | None = None,
    *,
    argument: str = "data",
) -> str:
    """Warn when draws and model cannot belong together, and return why, or nothing.

    A few draws have to tell, as they are stored, and the data that are stored with them. They were
    given as `argument`.
    """
    if found is None or posterior is None or not posterior.sizes.get("draw"):
        return ""  # whoever reads the draws says why
    rows = np.unique(np.linspace(0, posterior.sizes["draw"] - 1, _COMPUTED_DRAWS).astype(int))
    few = posterior.isel(chain=[0], draw=rows)
    if bambi is not None:
        few = in_model_parameters(few, bambi)
    stored = [variable for variable in found.computed if variable.name in few]
    values = {}
    # Nothing is read where there is nothing to be compared.
    for variable in (*found.free, *stored) if stored else ():
        # Draws that cannot be arranged are told of elsewhere.
        if variable.name in few and _has_order(few[variable.name], variable):
            with suppress(ValueError):
                array = arranged(few[variable.name], variable)
                values[variable.name] = array.isel(chain=0).values
    problem = not_together(
        found, posterior.attrs, values, is_bambi=bambi is not None, argument=argument
    )
    problem = problem or of_other_data(found, observed)
    if problem:
        warn_user(problem, DrawsWarning)
    return problem


def _has_order(array: xr.DataArray, variable: Variable) -> bool:
    """Whether dims tell which element is which: the model's own, or numbers in its order."""
    rest = {dim for dim in array.dims if dim not in ("chain", "draw")}
    numbered = {f"{variable.name}_dim_{axis}" for axis in range(len(rest))}
    return rest in (set(variable.dims or ()), numbered)


def _unconstrained(target: Target, posterior: xr.Dataset, *, check: bool) -> np.ndarray:
    """Unconstrain draws, into shape (draw, chain, d).

    With `check`, draws outside the support are an error that names chain and draw by its labels.
    """
    n_draws, n_chains = posterior.sizes["draw"], posterior.sizes["chain"]
    flat = {
        v.name: finite_values(posterior[v.name], v, v.shape).reshape(n_draws * n_chains, *v.shape)
        for v in target.variables
    }
    points = target.unconstrain(flat).reshape(n_draws, n_chains, -1)
    bad = ~np.isfinite(points)
    if check and bad.any():
        draw, chain, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"`data`: {np.count_nonzero(bad.any(axis=2))} of {n_draws * n_chains} draws lie "
            f"outside the support of {target.variable_of(column).name!r}, first in "
            f"{place(posterior, chain, draw)}."
        )
    return points


def _belongs(target: Target, posterior: xr.Dataset, points: np.ndarray) -> bool:
    """Whether unconstrained values are those of the posterior, as far as a few draws tell."""
    few = np.unique(np.linspace(0, len(points) - 1, _COMPARED_DRAWS).astype(int))
    own = _unconstrained(target, posterior.isel(draw=few), check=False)
    # Next to a bound the way back loses digits, or all of them: most have to agree, in each chain.
    known = np.isfinite(own)
    close = known & np.isclose(own, points[few], rtol=1e-3, atol=1e-3)
    return bool((2 * close.sum(axis=0) >= known.sum(axis=0)).all())
