"""The one place that tells users' containers apart, by their type.

A new kind of container is a function of a few lines for each question that can be asked of it:
is it a sampler's draws, which groups of draws has it, which values of a density's variables, which
covariates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_ksd.models.target import Variable
from pymc_ksd.samples.data import as_numbers, from_array, from_dataframe, from_dataset

#: Name, values, and whether they are names of the model's data, of a user's covariates.
Part = tuple[str, Any, bool]
#: Groups in which pymc-extras keeps how an approximation was found.
_APPROXIMATION_GROUPS = {"fit", "optimizer_result", "pathfinder", "lbfgs"}
#: Statistics of a whole approximation, where no group of its own holds them.
_APPROXIMATION_STATISTICS = {"pareto_k", "importance_sampling_method", "lbfgs_status_counts"}
#: What PyMC writes beside draws of Markov chains, whatever sampler made them.
_CHAIN_ATTRIBUTES = {"sampling_time", "tuning_steps"}
#: The statistic by which PyMC's differential evolution is known, and libraries of ensembles.
_EVOLUTION_STATISTIC, _ENSEMBLES = "lambda", {"emcee", "zeus"}


@singledispatch
def holds_draws(data: Any) -> bool:
    """Whether data are a sampler's draws: a posterior container, or a dataset with draws."""
    # ArviZ 0.23 and PyMC have types of their own, which later versions do without.
    return type(data).__name__ in ("InferenceData", "MultiTrace")


@holds_draws.register
def _(data: xr.DataTree) -> bool:
    return True


@holds_draws.register(xr.Dataset)
@holds_draws.register(xr.DataArray)
def _(data: xr.Dataset | xr.DataArray) -> bool:
    return "draw" in data.dims or _stacked_dim(data) is not None


def check_draws(data: Any, argument: str) -> None:
    """Raise an error unless data are a sampler's draws."""
    if not holds_draws(data):
        raise TypeError(
            f"`{argument}` must hold a sampler's draws: a DataTree or InferenceData with a group "
            "'posterior', a MultiTrace, or a Dataset with the dims 'chain' and 'draw', got "
            f"{_with_dims(data)}.{_draw_first(data)}"
        )


def _draw_first(data: Any) -> str:
    """Say what to do with what a variational fit returns, of which draws are wanted."""
    is_fit = any(kind.__name__ == "Approximation" for kind in type(data).__mro__)
    return " Give draws of it, such as its `sample(1_000)`." if is_fit else ""


def _with_dims(data: Any) -> str:
    """Name a type, and the dims it has."""
    dims = getattr(data, "dims", ())
    return type(data).__name__ + (f" with the dims {', '.join(map(repr, dims))}" if dims else "")


def _stacked_dim(data: xr.Dataset | xr.DataArray) -> Any:
    """Return the dim in which chains and draws were stacked, as ``az.extract`` does, if any."""
    if {"chain", "draw"} <= set(data.coords):
        dims = data.coords["chain"].dims
        # Also where the labels are left and no longer an index, as in a file.
        if dims == data.coords["draw"].dims and len(dims) == 1 and dims != ("draw",):
            return dims[0]
    return None


def _unstacked(data: xr.Dataset, dim: Any) -> xr.Dataset:
    """Put stacked chains and draws apart again."""
    labels = ["chain", "draw"]
    if not isinstance(data.indexes.get(dim), pd.MultiIndex):
        data = data.drop_vars(dim, errors="ignore").set_index({dim: labels})
    index = data.indexes[dim]
    n_chains, n_draws = (index.get_level_values(label).nunique() for label in labels)
    if not index.is_unique or len(index) != n_chains * n_draws:
        raise ValueError(
            f"`data` must have every draw of its chains: along {dim!r} it has {len(index)} of "
            f"{n_chains} chain(s) with {n_draws} different draws, as from "
            "az.extract(num_samples=…). Give the whole posterior, or thin its chains with "
            ".isel(draw=slice(None, None, 10))."
        )
    return data.unstack(dim)


def draws_group(data: Any, group: str = "posterior") -> xr.Dataset | None:
    """Return a group of draws as a Dataset, or None when the container has no such group.

    Draws without chains are one chain; draws stacked with their chains are unstacked.
    """
    found = _group(data, group)
    if found is None:
        return None
    stacked = _stacked_dim(found)
    if stacked is not None:
        found = _unstacked(found, stacked)
    if "draw" in found.dims and "chain" not in found.dims:
        found = found.drop_vars("chain", errors="ignore").expand_dims("chain")
    return found


def drawn_independently(data: Any) -> bool:
    """Whether a container says that its draws come from an approximation, not from Markov chains.

    Those of variational fits, Laplace approximations, Pathfinder and importance resampling are
    independent of each other. Without positive evidence, as in a Dataset, draws are taken as those
    of a Markov chain.
    """
    if isinstance(data, xr.Dataset | xr.DataArray) or not holds_draws(data):
        return False
    data = as_tree(data)
    if "posterior" not in data.children:
        return False
    posterior, statistics = _group(data, "posterior"), _group(data, "sample_stats")
    if posterior is None or _CHAIN_ATTRIBUTES & set(posterior.attrs):
        return False
    own = {} if statistics is None else statistics.data_vars
    if any({"chain", "draw"} & set(array.dims) for array in own.values()):
        return False
    if any(_group(data, name) is not None for name in _APPROXIMATION_GROUPS):
        return True
    if own:
        return bool(_APPROXIMATION_STATISTICS & set(own))
    # A variational fit of PyMC itself leaves no trace but that there is none of a sampler.
    is_pymc = posterior.attrs.get("inference_library") == "pymc"
    return is_pymc and posterior.sizes.get("chain", 1) == 1


def chains_interact(data: Any) -> bool:
    """Whether a container says that its chains move by where others are, as ensembles do.

    PyMC's differential evolution with a memory of its own leaves the same trace, though its chains
    are independent.
    """
    if isinstance(data, xr.Dataset | xr.DataArray) or not holds_draws(data):
        return False
    data = as_tree(data)
    posterior, statistics = _group(data, "posterior"), _group(data, "sample_stats")
    if posterior is not None and posterior.attrs.get("inference_library") in _ENSEMBLES:
        return True
    return statistics is not None and _EVOLUTION_STATISTIC in statistics


def log_likelihood_tree(data: Any, variable: str) -> xr.DataTree | None:
    """Return draws as a DataTree if they have a variable's log likelihood, else None."""
    if isinstance(data, xr.Dataset | xr.DataArray) or not holds_draws(data):
        return None
    tree = as_tree(data)
    stored = _group(tree, "log_likelihood")
    return tree if stored is not None and variable in stored else None


def as_tree(data: Any) -> xr.DataTree:
    """Return draws that PyMC or an older ArviZ keep in types of their own as a DataTree."""
    from arviz_base import convert_to_datatree

    if type(data).__name__ == "MultiTrace":
        # The model gives names to dims; every chain knows it.
        model = next(iter(data._straces.values())).model
        data = pm.to_inference_data(data, model=model)
    return data if isinstance(data, xr.DataTree) else convert_to_datatree(data)


def as_only_variable(data: Any, variables: Sequence[Variable]) -> Any:
    """Return an array of draws as a dataset of the only variable, whatever the array is called.

    Other containers, and draws of several variables, stay as they are.
    """
    if isinstance(data, xr.DataArray) and len(variables) == 1:
        return data.to_dataset(name=variables[0].name)
    return data


def with_draw_numbers(draws: xr.Dataset) -> xr.Dataset:
    """Label chains and draws by their numbers where they have no labels.

    Errors name draws by their labels, which have to be those of the whole where draws are a part.
    """
    sizes = {dim: draws.sizes[dim] for dim in ("chain", "draw") if dim in draws.dims}
    missing = {dim: np.arange(size) for dim, size in sizes.items() if dim not in draws.coords}
    return draws.assign_coords(missing)


def number_of_draws(posterior: xr.Dataset | None) -> int | None:
    """Return None where draws are not what they should be: whoever tests them says why."""
    if posterior is None or not {"chain", "draw"} <= set(posterior.dims):
        return None
    return int(posterior.sizes["chain"] * posterior.sizes["draw"])


def sampling_time(data: Any) -> float | None:
    """Return how many seconds the draws took, where their container says so."""
    for group in ("posterior", "sample_stats"):
        found = None if isinstance(data, xr.DataArray) else _group(data, group)
        try:
            seconds = float(np.sum(found.attrs["sampling_time"])) if found is not None else 0.0
        except (KeyError, TypeError, ValueError):
            continue
        if np.isfinite(seconds) and seconds > 0:
            return seconds
    return None


def thinned(data: Any, step: int) -> Any:
    """Return a container with one draw of so many in all its groups."""

    def thin(group: xr.Dataset) -> xr.Dataset:
        if "draw" not in group.dims:
            return group
        return with_draw_numbers(group).isel(draw=slice(None, None, step))

    tree = None if isinstance(data, xr.Dataset | xr.DataArray) else as_tree(data)
    if tree is None or "posterior" not in tree.children:
        posterior = draws_group(data)
        return None if posterior is None else thin(posterior)
    groups = {name: thin(group.to_dataset()) for name, group in tree.children.items()}
    return xr.DataTree.from_dict(groups)


@singledispatch
def _group(data: Any, group: str) -> xr.Dataset | None:
    return _group(as_tree(data), group)


@_group.register
def _(data: xr.DataTree, group: str) -> xr.Dataset | None:
    if group in data.children:
        return data[group].to_dataset()
    # Or the group itself, ``idata.posterior``.
    return data.to_dataset() if group == "posterior" and "draw" in data.dims else None


@_group.register
def _(data: xr.Dataset, group: str) -> xr.Dataset | None:
    return data if group == "posterior" else None


@_group.register
def _(data: xr.DataArray, group: str) -> xr.Dataset | None:
    return data.to_dataset(name=data.name or "x") if group == "posterior" else None


def with_numbers(posterior: xr.Dataset) -> xr.Dataset:
    """Return draws without variables that are text or times, of which there are no diagnostics."""
    return posterior[[name for name, a in posterior.data_vars.items() if a.dtype.kind in "biuf"]]


@singledispatch
def values_of(data: Any, variables: Sequence[Variable]) -> dict[str, np.ndarray]:
    """Return an array for each variable that a user's sample has, points along the first axis."""
    return from_array(as_numbers(data, "data"), variables)


@values_of.register(str)
@values_of.register(bytes)
@values_of.register(type(None))
def _(data: Any, variables: Sequence[Variable]) -> dict[str, np.ndarray]:
    raise TypeError(f"`data` must hold numbers, got {type(data).__name__}.")


@values_of.register(Mapping)
def _(data: Mapping[Any, Any], variables: Sequence[Variable]) -> dict[str, np.ndarray]:
    return {str(name): as_numbers(value, str(name)) for name, value in data.items()}


values_of.register(pd.DataFrame, from_dataframe)
values_of.register(xr.Dataset, from_dataset)


@values_of.register
def _(data: xr.DataArray, variables: Sequence[Variable]) -> dict[str, np.ndarray]:
    if data.name is not None:
        return from_dataset(data.to_dataset(), variables)
    if len(variables) == 1:
        return from_dataset(data.to_dataset(name=variables[0].name), variables)
    return values_of(data.values, variables)


@singledispatch
def covariate_parts(covariates: Any) -> list[Part]:
    """Return the parts of a user's covariates."""
    return [("covariate", covariates, False)]


@covariate_parts.register
def _(covariates: str) -> list[Part]:
    return [(covariates, None, True)]


@covariate_parts.register(list)
@covariate_parts.register(tuple)
def _(covariates: Sequence[Any]) -> list[Part]:
    if len(covariates) and all(isinstance(key, str) for key in covariates):
        return [(key, None, True) for key in covariates]
    return [("covariate", covariates, False)]


@covariate_parts.register
def _(covariates: pd.Series) -> list[Part]:
    return [(str(covariates.name or "covariate"), covariates, False)]


@covariate_parts.register
def _(covariates: pd.DataFrame) -> list[Part]:
    return [(str(key), covariates[key], False) for key in covariates.columns]


@covariate_parts.register
def _(covariates: xr.Dataset) -> list[Part]:
    return [(str(key), array.values, False) for key, array in covariates.data_vars.items()]
