"""Draws of a sampler: chains kept apart, elements in the model's order, unconstrained."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_ksd.models.bambi_models import BambiParameters
from pymc_ksd.models.target import Belonging, Target, Variable
from pymc_ksd.options import warn_user
from pymc_ksd.samples.belonging import in_model_parameters, not_together
from pymc_ksd.samples.containers import (
    as_only_variable,
    chains_interact,
    drawn_independently,
    draws_group,
)
from pymc_ksd.samples.data import as_numbers
from pymc_ksd.samples.sample import Sample

#: Chains shorter than this cannot tell how correlated their draws are.
_FEW_DRAWS = 20
#: Draws on which unconstrained values are held against the posterior they are stored with.
_COMPARED_DRAWS = 20
#: Draws on which stored deterministics are held against what the model computes.
_COMPUTED_DRAWS = 3


class DrawsWarning(UserWarning):
    """Something about draws because of which their test is less sure than it looks."""


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
    mismatch = "" if is_part else check_together(target.belonging, posterior, target.bambi)
    if target.bambi is not None:
        posterior = in_model_parameters(posterior, target.bambi)
    own = xr.Dataset(
        {v.name: arranged(posterior[v.name], v) for v in target.variables if v.name in posterior}
    )
    points = _stored_points(target, posterior, data)
    complete = len(own) == len(target.variables)
    if points is not None and complete and not _belongs(target, own, points):
        warn_user(
            "The unconstrained values stored in `data` are not those of its posterior, which may "
            "have been changed since; the posterior is used.",
            DrawsWarning,
        )
        points = None
    if points is None:
        check_has(posterior, target.names)
        points = _unconstrained(target, own, check=True)
    n_draws, n_chains, dim = points.shape
    if n_draws < _FEW_DRAWS and not is_part:
        warn_user(
            f"Only {n_draws} draws in each chain: with fewer than {_FEW_DRAWS} their correlation "
            "cannot be estimated, and the p-value is not to be trusted.",
            DrawsWarning,
        )
    if n_draws * n_chains < 2 and not is_part:
        raise ValueError(f"`data` must have at least 2 draws, got {n_draws * n_chains}.")
    return Sample(
        points.reshape(-1, dim),
        n_chains,
        own,
        are_draws=True,
        independent=drawn_independently(data),
        interacting=chains_interact(data),
        mismatch=mismatch,
    )


def check_together(
    found: Belonging | None, posterior: xr.Dataset | None, bambi: BambiParameters | None
) -> str:
    """Warn when draws and model cannot belong together, and return why, or nothing.

    A few draws have to tell, as they are stored.
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
    problem = not_together(found, posterior.attrs, values, is_bambi=bambi is not None)
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
        v.name: _values(posterior[v.name], v, v.shape).reshape(n_draws * n_chains, *v.shape)
        for v in target.variables
    }
    points = target.unconstrain(flat).reshape(n_draws, n_chains, -1)
    bad = ~np.isfinite(points)
    if check and bad.any():
        draw, chain, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"`data`: {np.count_nonzero(bad.any(axis=2))} of {n_draws * n_chains} draws lie "
            f"outside the support of {target.variable_of(column).name!r}, first in "
            f"{_place(posterior, chain, draw)}."
        )
    return points


def _place(posterior: xr.Dataset | xr.DataArray, chain: int, draw: int) -> str:
    return f"chain {posterior['chain'].values[chain]}, draw {posterior['draw'].values[draw]}"


def _stored_points(target: Target, posterior: xr.Dataset, data: Any) -> np.ndarray | None:
    """Return unconstrained draws, shape (draw, chain, d), if all are in the container."""
    unconstrained = draws_group(data, "unconstrained_posterior")
    parts = []
    for variable in target.variables:
        name = variable.unconstrained_name
        if unconstrained is not None and name in unconstrained:
            array = unconstrained[name]
            if any(array.sizes.get(dim) != posterior.sizes.get(dim) for dim in ("chain", "draw")):
                return None  # something else than draws, or draws before they were thinned
        elif name in posterior:
            # Also where there is no transform and the name is the variable's own.
            array = posterior[name]
        else:
            return None
        part = _values(arranged(array, variable), variable, variable.unconstrained_shape)
        parts.append(part.reshape(*part.shape[:2], -1))
    return np.concatenate(parts, axis=2)


def _belongs(target: Target, posterior: xr.Dataset, points: np.ndarray) -> bool:
    """Whether unconstrained values are those of the posterior, as far as a few draws tell."""
    few = np.unique(np.linspace(0, len(points) - 1, _COMPARED_DRAWS).astype(int))
    own = _unconstrained(target, posterior.isel(draw=few), check=False)
    # Next to a bound the way back loses digits, or all of them: most have to agree, in each chain.
    known = np.isfinite(own)
    close = known & np.isclose(own, points[few], rtol=1e-3, atol=1e-3)
    return bool((2 * close.sum(axis=0) >= known.sum(axis=0)).all())


def check_has(posterior: xr.Dataset, names: Sequence[str], argument: str = "data") -> None:
    """Refuse draws that lack variables."""
    missing = [name for name in names if name not in posterior]
    if missing:
        raise ValueError(
            f"`{argument}` lacks the variable(s) {', '.join(missing)} in its posterior; it has "
            f"{', '.join(map(str, posterior.data_vars)) or 'none'}."
        )


def check_shape(
    array: xr.DataArray, name: str, shape: tuple[int, ...], argument: str = "data"
) -> None:
    """Refuse draws, with chain and draw first, of another shape than the variable has."""
    if array.shape[2:] != shape:
        raise ValueError(
            f"`{argument}` for {name!r} must have shape {shape} in every draw, got "
            f"{array.shape[2:]}."
        )


def arranged(array: xr.DataArray, variable: Variable) -> xr.DataArray:
    """Bring draws to the dims chain, draw and the variable's own, elements in the model's order.

    Labels decide which element is which, where both the model and the draws have them.
    """
    if not {"chain", "draw"} <= set(array.dims):
        raise ValueError(
            f"`data` for {variable.name!r} must have the dims 'chain' and 'draw', got {array.dims}."
        )
    rest = [dim for dim in array.dims if dim not in ("chain", "draw")]
    numbered = [f"{array.name}_dim_{axis}" for axis in range(len(rest))]
    if variable.dims and set(variable.dims) == set(rest):
        rest = list(variable.dims)
    elif set(rest) == set(numbered):
        rest = list(numbered)
    for dim in rest:
        if dim not in array.indexes or dim not in variable.coords:
            continue
        # As an array, which is what ArviZ makes of a model's labels.
        given, wanted = array.indexes[dim], pd.Index(np.asarray(list(variable.coords[dim])))
        if given.equals(wanted) or len(given) != len(wanted):
            continue  # in order, or of another shape, which is told elsewhere
        if given.is_unique and set(given) == set(wanted):
            array = array.isel({dim: given.get_indexer(wanted)})
        elif not given.equals(pd.RangeIndex(len(given))):
            raise ValueError(
                f"`data` for {variable.name!r} must have the model's labels along {dim!r} "
                f"({_few(wanted)}), got {_few(given)}."
            )
    return array.transpose("chain", "draw", *rest)


def _few(labels: pd.Index) -> str:
    shown = ", ".join(map(repr, labels[:4].tolist()))
    return f"{shown}, …" if len(labels) > 4 else shown


def _values(array: xr.DataArray, variable: Variable, shape: tuple[int, ...]) -> np.ndarray:
    """Return values of shape (draw, chain, *shape), all finite."""
    check_shape(array, variable.name, shape)
    values = as_numbers(array.values, variable.name).swapaxes(0, 1)
    bad = ~np.isfinite(values)
    if bad.any():
        draw, chain, *index = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"`data` must be finite, but {np.count_nonzero(bad)} value(s) of {variable.name!r} are "
            f"not, first in {_place(array, chain, draw)} ({variable.element(tuple(index))})."
        )
    return values
