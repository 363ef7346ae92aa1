"""Gradients put beside draws, in the layout that this package reads, by whoever has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.samples.containers import as_tree, check_draws
from pymc_ksd.samples.data import as_numbers
from pymc_ksd.samples.stored import GRADIENTS, LOG_DENSITY, POINTS


def with_gradients(
    data: Any,
    gradients: Mapping[str, Any],
    *,
    points: Mapping[str, Any] | None = None,
    log_density: Any = None,
    of_potential: bool = False,
) -> xr.DataTree:
    """Return draws with the gradients that their sampler has computed beside them.

    Parameters
    ----------
    data : DataTree, InferenceData or Dataset
        The draws, on the scale users see, with the dims ``chain`` and ``draw``. It is not changed.
    gradients : mapping of str to array_like
        Gradients of the log density, Jacobian included, with respect to the unconstrained values:
        an array of shape (chain, draw, ...) for each variable, by its unconstrained name, which is
        ``tau_log__`` in PyMC and ``tau`` in NumPyro and Stan.
    points : mapping of str to array_like, optional
        The unconstrained values, by the same names. Variables that are not transformed may be left
        out if one is given, and all of them where tests are given the model, which knows its
        transforms. :meth:`Score.from_draws` needs them.
    log_density : array_like of shape (chain, draw), optional
        The log density of the unconstrained values, up to a constant. With it a test can also weigh
        draws, so that a few with huge gradients hide nothing.
    of_potential : bool, default False
        Whether `gradients` and `log_density` are those of the potential energy, which is minus the
        log density, as NumPyro's ``z_grad`` and ``potential_energy`` are.

    Returns
    -------
    DataTree
        The same groups, with ``unconstrained_gradient`` and ``unconstrained_posterior``, and
        ``unconstrained_lp`` in ``sample_stats``.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from pymc_ksd import Score, ksd_test, with_gradients
    >>> x = np.random.default_rng(1).normal(size=(4, 250))
    >>> draws = xr.Dataset({"x": (("chain", "draw"), x)})
    >>> stored = with_gradients(draws, {"x": -x}, points={"x": x}, log_density=-(x**2) / 2)
    >>> result = ksd_test(Score.from_draws(stored), stored, random_seed=1)
    >>> result.attrs["scores"]
    'stored'
    """
    check_draws(data, "data")
    if isinstance(data, xr.Dataset | xr.DataArray):
        own = data if isinstance(data, xr.Dataset) else data.to_dataset(name=data.name or "x")
        groups = {"posterior": own}
    else:
        groups = {name: node.to_dataset() for name, node in as_tree(data).children.items()}
    if "posterior" not in groups:
        raise ValueError("`data` must have a group 'posterior' with the draws.")
    posterior = groups["posterior"]
    sign = -1.0 if of_potential else 1.0
    groups[GRADIENTS] = _dataset(gradients, posterior, "gradients", sign)
    if points is not None:
        groups[POINTS] = _dataset(points, posterior, "points", 1.0)
    if log_density is not None:
        statistics = groups.get("sample_stats", xr.Dataset())
        array = _array(LOG_DENSITY, log_density, posterior, "log_density", sign)
        if array.ndim != 2:
            raise ValueError(
                "`log_density` must have one number for every chain and draw, got an array of "
                f"shape {array.shape}."
            )
        groups["sample_stats"] = statistics.assign({LOG_DENSITY: array})
    return xr.DataTree.from_dict(groups)


def _dataset(
    arrays: Mapping[str, Any], posterior: xr.Dataset, argument: str, sign: float
) -> xr.Dataset:
    if not isinstance(arrays, Mapping) or not arrays:
        raise TypeError(
            f"`{argument}` must be a mapping of names to arrays, got {type(arrays).__name__}."
        )
    return xr.Dataset(
        {
            str(name): _array(str(name), values, posterior, argument, sign)
            for name, values in arrays.items()
        }
    )


def _array(
    name: str, values: Any, posterior: xr.Dataset, argument: str, sign: float
) -> xr.DataArray:
    """Return an array with the dims of the posterior's variable of that name and shape."""
    numbers = as_numbers(np.asarray(values), name) * sign
    sizes = tuple(int(posterior.sizes.get(dim, 1)) for dim in ("chain", "draw"))
    if numbers.shape[:2] != sizes:
        raise ValueError(
            f"`{argument}` for {name!r} must have shape {sizes} and the variable's own, chains and "
            f"draws first, got {numbers.shape}."
        )
    labels = {dim: posterior[dim].values for dim in ("chain", "draw") if dim in posterior.coords}
    dims = [f"{name}_dim_{axis}" for axis in range(numbers.ndim - 2)]
    if name in posterior:
        own = posterior[name].transpose("chain", "draw", ...)
        if own.shape == numbers.shape:
            dims = [str(dim) for dim in own.dims[2:]]
            labels |= {dim: own.coords[dim].values for dim in dims if dim in own.coords}
    return xr.DataArray(numbers, dims=("chain", "draw", *dims), coords=labels, name=name)
