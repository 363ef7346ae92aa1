"""Draws of a sampler: chains kept apart, unconstrained, with their correlation time.

Either stack's container becomes a DataTree at this door.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_ksd.sample_data import Variable
from pymc_ksd.score import Score

__all__ = [
    "Draws",
    "estimate_autocorrelation_time",
    "holds_draws",
    "posterior_dataset",
    "read_draws",
]

#: Chains shorter than this cannot tell how correlated their draws are.
_FEW_DRAWS = 20
#: Draws on which unconstrained values are held against the posterior they are stored with.
_COMPARED_DRAWS = 20


@dataclass(frozen=True)
class Draws:
    """Unconstrained draws of several chains.

    Attributes
    ----------
    points : ndarray of shape (draw * chain, d)
        The draws: first draw of every chain, second draw of every chain, and so on.
    n_chains, n_draws : int
        Number of chains and of draws in each.
    """

    points: np.ndarray
    n_chains: int
    n_draws: int

    @property
    def chains(self) -> np.ndarray:
        """The draws as an array of shape (chain, draw, d)."""
        return self.points.reshape(self.n_draws, self.n_chains, -1).swapaxes(0, 1)

    @property
    def groups(self) -> np.ndarray:
        """One column for each chain with ones at its draws, shape (draw * chain, chain)."""
        return np.tile(np.eye(self.n_chains), (self.n_draws, 1))


def holds_draws(data: Any) -> bool:
    """Whether data are a sampler's draws: a posterior container, or a dataset with chains."""
    if isinstance(data, xr.Dataset | xr.DataArray):
        return {"chain", "draw"} <= set(data.dims)
    return isinstance(data, xr.DataTree) or type(data).__name__ == "InferenceData"


def posterior_dataset(data: Any, group: str = "posterior") -> xr.Dataset | None:
    """Return a group of draws as a Dataset, or None when the container has no such group."""
    if isinstance(data, xr.Dataset):
        return data if group == "posterior" else None
    if isinstance(data, xr.DataArray):
        return data.to_dataset() if group == "posterior" and data.name is not None else None
    if not isinstance(data, xr.DataTree):
        from arviz_base import convert_to_datatree

        data = convert_to_datatree(data)
    if group in data.children:
        return data[group].to_dataset()
    if group == "posterior" and {"chain", "draw"} <= set(data.dims):
        return data.to_dataset()  # the group itself, ``idata.posterior``
    return None


def read_draws(score: Score, data: Any, *, stacklevel: int = 3) -> Draws:
    """Collect a sampler's draws of every variable and bring them to unconstrained coordinates.

    Parameters
    ----------
    score : Score
        The density the draws are meant to come from.
    data : DataTree, InferenceData, Dataset or DataArray
        Draws with the dims ``chain`` and ``draw``. Values in a group ``unconstrained_posterior``
        are taken as they are, if they belong to these draws; warm-up draws never enter.
    stacklevel : int, default 3
        Whom warnings point at, as in ``warnings.warn``.

    Returns
    -------
    Draws
    """
    if score.kind == "observed":
        raise ValueError(
            "`data` holds a sampler's draws, but the model has no free variables they could be "
            "draws of."
        )
    if isinstance(data, xr.DataArray) and len(score.variables) == 1:
        data = data.to_dataset(name=score.variables[0].name)
    posterior = posterior_dataset(data)
    if posterior is None:
        raise ValueError("`data` must have a group 'posterior' with the draws to be tested.")
    values = _unconstrained_values(score, posterior, data)
    ready = values is not None
    if values is None:
        missing = [v.name for v in score.variables if v.name not in posterior]
        if missing:
            raise ValueError(
                f"`data` lacks the variable(s) {', '.join(missing)} in its posterior; it has "
                f"{', '.join(map(str, posterior.data_vars)) or 'none'}."
            )
        values = {v.name: _values(posterior[v.name], v, v.shape) for v in score.variables}
    n_draws, n_chains = next(iter(values.values())).shape[:2]
    n = n_draws * n_chains
    if n_draws < _FEW_DRAWS:
        warnings.warn(
            f"Only {n_draws} draws in each chain: with fewer than {_FEW_DRAWS} their correlation "
            "cannot be estimated, and the p-value is not to be trusted.",
            UserWarning,
            stacklevel=stacklevel,
        )
    if n < 2:
        raise ValueError(f"`data` must have at least 2 draws, got {n}.")
    flat = {name: array.reshape(n, *array.shape[2:]) for name, array in values.items()}
    if not ready:
        return Draws(score.unconstrain_samples(flat), n_chains, n_draws)
    points = np.concatenate([flat[v.name].reshape(n, -1) for v in score.variables], axis=1)
    if not _belongs(score, posterior, points, n_draws, n_chains):
        warnings.warn(
            "The unconstrained values stored in `data` are not those of its posterior, which may "
            "have been changed since; the posterior is used.",
            UserWarning,
            stacklevel=stacklevel,
        )
        return read_draws(score, posterior[[v.name for v in score.variables]])
    return Draws(points, n_chains, n_draws)


def _unconstrained_values(
    score: Score, posterior: xr.Dataset, data: Any
) -> dict[str, np.ndarray] | None:
    """Return unconstrained draws when the container has them for every draw and variable."""
    unconstrained = posterior_dataset(data, "unconstrained_posterior")
    values = {}
    for variable in score.variables:
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
        values[variable.name] = _values(array, variable, variable.unconstrained_shape)
    return values


def _belongs(
    score: Score, posterior: xr.Dataset, points: np.ndarray, n_draws: int, n_chains: int
) -> bool:
    """Whether unconstrained points are those of the posterior, as far as a few draws tell."""
    if any(v.name not in posterior for v in score.variables):
        return True
    few = np.unique(np.linspace(0, n_draws - 1, _COMPARED_DRAWS).astype(int))
    some = posterior.isel(draw=few)
    flat = {}
    for v in score.variables:
        array = _values(some[v.name], v, v.shape)
        flat[v.name] = array.reshape(-1, *array.shape[2:])
    own = score.unconstrain_samples(flat)
    stored = points.reshape(n_draws, n_chains, -1)[few].reshape(own.shape)
    # Values next to a bound come back with few digits: most must agree, not all.
    close = np.isclose(own, stored, rtol=1e-3, atol=1e-3).mean(axis=0)
    return bool((close > 0.5).all())


def _values(array: xr.DataArray, variable: Variable, shape: tuple[int, ...]) -> np.ndarray:
    """Return values of shape (draw, chain, *shape), all finite."""
    if not {"chain", "draw"} <= set(array.dims):
        raise ValueError(
            f"`data` for {variable.name!r} must have the dims 'chain' and 'draw', got {array.dims}."
        )
    rest = [dim for dim in array.dims if dim not in ("chain", "draw")]
    if variable.dims and set(variable.dims) == set(rest):
        rest = list(variable.dims)
    array = _ordered(array, variable)
    values = np.asarray(array.transpose("draw", "chain", *rest).values, dtype=np.float64)
    if values.shape[2:] != shape:
        raise ValueError(
            f"`data` for {variable.name!r} must have shape {shape} in every draw, got "
            f"{values.shape[2:]}."
        )
    bad = ~np.isfinite(values)
    if bad.any():
        draw, chain, *index = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"`data` must be finite, but {np.count_nonzero(bad)} value(s) of {variable.name!r} are "
            f"not, first in chain {array['chain'].values[chain]}, draw "
            f"{array['draw'].values[draw]} ({variable.element(tuple(index))})."
        )
    return values


def _ordered(array: xr.DataArray, variable: Variable) -> xr.DataArray:
    """Bring elements into the model's order: labels decide which is which, where both have them."""
    for dim in variable.dims or ():
        if dim not in array.indexes or dim not in variable.coords:
            continue
        given, wanted = array.indexes[dim], pd.Index(list(variable.coords[dim]))
        if given.equals(wanted) or len(given) != len(wanted):
            continue  # in order, or of another shape, which is told elsewhere
        if given.is_unique and set(given) == set(wanted):
            array = array.sel({dim: list(variable.coords[dim])})
        elif not given.equals(pd.RangeIndex(len(given))):
            raise ValueError(
                f"`data` for {variable.name!r} must have the model's labels along {dim!r} "
                f"({_few(wanted)}), got {_few(given)}."
            )
    return array


def _few(labels: pd.Index) -> str:
    shown = ", ".join(map(repr, labels[:4].tolist()))
    return f"{shown}, …" if len(labels) > 4 else shown


def estimate_autocorrelation_time(draws: Draws) -> float:
    r"""Return the integrated autocorrelation time of the least favourable function of the draws.

    It is :math:`n / \mathrm{ESS}` with ArviZ's effective sample size, for every coordinate and for
    the squared distance from the centre in units of the covariance, which alternating chains move
    slowly even where each coordinate looks better than independent. At least 1 and at most
    the length of a chain. Every chain is taken around its own mean: that chains disagree is a fault
    the test is to find, not a correlation.
    """
    from arviz_stats.base import array_stats

    n = draws.n_draws
    if n < 4:
        return 1.0
    chains = draws.chains - draws.chains.mean(axis=1, keepdims=True)
    flat = chains.reshape(-1, chains.shape[-1])
    standard = flat / np.maximum(flat.std(axis=0), np.finfo(float).tiny)
    directions, singular, _ = np.linalg.svd(standard, full_matrices=False)
    radius = (directions[:, singular > 1e-8 * singular[0]] ** 2).sum(axis=1)
    radius = radius.reshape(chains.shape[:2])
    radius -= radius.mean(axis=1, keepdims=True)
    series = [*np.moveaxis(chains, -1, 0), radius]
    sizes = np.array([array_stats.ess(values, method="mean") for values in series])
    total = n * draws.n_chains
    times = np.where(np.isfinite(sizes) & (sizes > 0), total / np.maximum(sizes, 1e-300), n)
    return float(np.clip(times.max(), 1.0, n))
