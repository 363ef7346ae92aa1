"""Values of a model's free variables, draw by draw, for densities of observed variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm

from pymc_ksd.models.log_density import describe, evaluate_shapes
from pymc_ksd.models.observed.fitted import Given
from pymc_ksd.samples.arranged import arranged, check_has, check_shape
from pymc_ksd.samples.containers import check_draws, draws_group
from pymc_ksd.samples.data import as_numbers


def given_values(
    model: pm.Model,
    names: Sequence[str],
    data: Any,
    num_draws: int,
    rng: np.random.Generator | None = None,
    *,
    argument: str = "data",
) -> list[Given]:
    """Return the values of free variables at some draws of the posterior.

    Parameters
    ----------
    model : pm.Model
        The model.
    names : sequence of str
        Free variables, in the order of the values.
    data : DataTree, InferenceData or Dataset
        Draws of the posterior. Not needed without variables.
    num_draws : int
        How many draws to take; all, if there are fewer.
    rng : numpy.random.Generator, optional
        Chooses them at random, without repetition; without it they are evenly spaced.
    argument : str, default "data"
        What the user calls `data`, for messages.

    Returns
    -------
    list of tuple of ndarray
        One tuple for each draw.
    """
    if data is not None:
        check_draws(data, argument)
    posterior = None if data is None else draws_group(data)
    total = 0
    if posterior is not None and "draw" in posterior.dims:
        total = posterior.sizes["chain"] * posterior.sizes["draw"]
    if not names:
        return [()] * min(num_draws, total or num_draws)
    if data is None:
        raise ValueError(
            "Draws of the posterior are required: the observed variables depend on "
            f"{', '.join(names)}."
        )
    if posterior is None or not total:
        raise ValueError(
            f"`{argument}` must have a group 'posterior' with draws of the free variables."
        )
    check_has(posterior, names, argument)
    if num_draws >= total:
        chosen = np.arange(total)
    elif rng is None:
        chosen = np.linspace(0, total - 1, num_draws).round().astype(int)
    else:
        chosen = np.sort(rng.permutation(total)[:num_draws])
    arrays = []
    rvs = [model[name] for name in names]
    for rv, shape in zip(rvs, evaluate_shapes(rvs), strict=True):
        dims = model.named_vars_to_dims.get(rv.name)
        array = arranged(posterior[rv.name], describe(model, rv.name, None, shape, shape, dims))
        check_shape(array, rv.name, shape, argument)
        values = as_numbers(array.values.reshape(total, *shape)[chosen], rv.name)
        if not np.isfinite(values).all():
            count = np.count_nonzero(~np.isfinite(values))
            raise ValueError(
                f"`{argument}` must be finite, but {count} value(s) of {rv.name!r} are not."
            )
        arrays.append(np.ascontiguousarray(values, dtype=rv.dtype))
    return [tuple(np.asarray(array[draw]) for array in arrays) for draw in range(len(chosen))]
