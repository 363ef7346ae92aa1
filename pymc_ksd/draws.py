"""Draws of a sampler: chains kept apart, unconstrained, with their correlation time.

Either stack's container becomes a DataTree at this door.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_ksd.sample_data import Variable
from pymc_ksd.score import Score

__all__ = [
    "Draws",
    "DrawsWarning",
    "arranged",
    "check_draws",
    "estimate_autocorrelation_time",
    "holds_draws",
    "posterior_dataset",
    "read_draws",
    "with_numbers",
]

#: Chains shorter than this cannot tell how correlated their draws are.
_FEW_DRAWS = 20
#: Draws on which unconstrained values are held against the posterior they are stored with.
_COMPARED_DRAWS = 20


class DrawsWarning(UserWarning):
    """Something about draws because of which their test is less sure than it looks."""


@dataclass(frozen=True)
class Draws:
    """Unconstrained draws of several chains.

    Attributes
    ----------
    points : ndarray of shape (draw * chain, d)
        The draws: first draw of every chain, second draw of every chain, and so on.
    n_chains, n_draws : int
        Number of chains and of draws in each.
    posterior : xarray.Dataset
        The draws on the scale users see, as far as they have it, with the dims chain, draw and the
        variable's own, elements in the model's order.
    """

    points: np.ndarray
    n_chains: int
    n_draws: int
    posterior: xr.Dataset = field(default_factory=xr.Dataset)

    @property
    def chains(self) -> np.ndarray:
        """The draws as an array of shape (chain, draw, d)."""
        return self.points.reshape(self.n_draws, self.n_chains, -1).swapaxes(0, 1)

    @property
    def chain_numbers(self) -> np.ndarray:
        """The number of each point's chain."""
        return np.tile(np.arange(self.n_chains, dtype=np.float64), self.n_draws)


def holds_draws(data: Any) -> bool:
    """Whether data are a sampler's draws: a posterior container, or a dataset with draws."""
    if isinstance(data, xr.Dataset | xr.DataArray):
        return "draw" in data.dims or _stacked_dim(data) is not None
    return isinstance(data, xr.DataTree) or type(data).__name__ == "InferenceData"


def check_draws(data: Any, argument: str) -> None:
    """Raise an error unless data are a sampler's draws."""
    if not holds_draws(data):
        raise TypeError(
            f"`{argument}` must hold a sampler's draws: a DataTree or InferenceData with a group "
            "'posterior', or a Dataset with the dims 'chain' and 'draw', got "
            f"{type(data).__name__}."
        )


def _stacked_dim(data: xr.Dataset | xr.DataArray) -> Any:
    """Return the dim in which chains and draws were stacked, if there is one."""
    for dim in data.dims:
        index = data.indexes.get(dim)
        if isinstance(index, pd.MultiIndex) and set(index.names) == {"chain", "draw"}:
            return dim
    return None


def posterior_dataset(data: Any, group: str = "posterior") -> xr.Dataset | None:
    """Return a group of draws as a Dataset, or None when the container has no such group.

    Draws without chains are one chain; draws stacked with their chains are unstacked.
    """
    if isinstance(data, xr.DataArray):
        data = data.to_dataset(name=data.name or "x")
    if isinstance(data, xr.Dataset):
        found = data if group == "posterior" else None
    else:
        if not isinstance(data, xr.DataTree):
            from arviz_base import convert_to_datatree

            data = convert_to_datatree(data)
        if group in data.children:
            found = data[group].to_dataset()
        elif group == "posterior" and "draw" in data.dims:
            found = data.to_dataset()  # the group itself, ``idata.posterior``
        else:
            return None
    if found is None:
        return None
    stacked = _stacked_dim(found)
    if stacked is not None:
        found = found.unstack(stacked)
    if "draw" in found.dims and "chain" not in found.dims:
        found = found.drop_vars("chain", errors="ignore").expand_dims("chain")
    return found


def with_numbers(posterior: xr.Dataset) -> xr.Dataset:
    """Return draws without variables that are text or times, of which there are no diagnostics."""
    return posterior[[name for name, a in posterior.data_vars.items() if a.dtype.kind in "biuf"]]


def read_draws(score: Score, data: Any, *, stacklevel: int = 3, is_part: bool = False) -> Draws:
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
    is_part : bool, default False
        Whether these are a few of the draws, so that it does not matter how few.

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
    own = xr.Dataset(
        {v.name: arranged(posterior[v.name], v) for v in score.variables if v.name in posterior}
    )
    values = _unconstrained_values(score, posterior, data)
    missing = [v.name for v in score.variables if v.name not in own]
    if values is not None and not missing and not _belongs(score, own, values):
        warnings.warn(
            "The unconstrained values stored in `data` are not those of its posterior, which may "
            "have been changed since; the posterior is used.",
            DrawsWarning,
            stacklevel=stacklevel,
        )
        values = None
    if values is None and missing:
        raise ValueError(
            f"`data` lacks the variable(s) {', '.join(missing)} in its posterior; it has "
            f"{', '.join(map(str, posterior.data_vars)) or 'none'}."
        )
    if values is None:
        samples = {v.name: _values(own[v.name], v, v.shape) for v in score.variables}
        points = _unconstrained(score, samples, check=own)
    else:
        points = np.concatenate(
            [values[v.name].reshape(*values[v.name].shape[:2], -1) for v in score.variables], axis=2
        )
    n_draws, n_chains, dim = points.shape
    if n_draws < _FEW_DRAWS and not is_part:
        warnings.warn(
            f"Only {n_draws} draws in each chain: with fewer than {_FEW_DRAWS} their correlation "
            "cannot be estimated, and the p-value is not to be trusted.",
            DrawsWarning,
            stacklevel=stacklevel,
        )
    if n_draws * n_chains < 2 and not is_part:
        raise ValueError(f"`data` must have at least 2 draws, got {n_draws * n_chains}.")
    return Draws(points.reshape(-1, dim), n_chains, n_draws, own)


def _unconstrained(
    score: Score, samples: Mapping[str, np.ndarray], check: xr.Dataset | None = None
) -> np.ndarray:
    """Unconstrain values of shape (draw, chain, *shape), into shape (draw, chain, d).

    With `check`, draws outside the support are an error that names chain and draw by its labels.
    """
    n_draws, n_chains = next(iter(samples.values())).shape[:2]
    flat = {name: a.reshape(n_draws * n_chains, *a.shape[2:]) for name, a in samples.items()}
    points = score.unconstrain_samples(flat, check=False).reshape(n_draws, n_chains, -1)
    bad = ~np.isfinite(points)
    if check is not None and bad.any():
        draw, chain, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"`data`: {np.count_nonzero(bad.any(axis=2))} of {n_draws * n_chains} draws lie "
            f"outside the support of {score.variable_of(column).name!r}, first in "
            f"{_place(check, chain, draw)}."
        )
    return points


def _place(posterior: xr.Dataset | xr.DataArray, chain: int, draw: int) -> str:
    return f"chain {posterior['chain'].values[chain]}, draw {posterior['draw'].values[draw]}"


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
        values[variable.name] = _values(
            arranged(array, variable), variable, variable.unconstrained_shape
        )
    return values


def _belongs(score: Score, posterior: xr.Dataset, values: Mapping[str, np.ndarray]) -> bool:
    """Whether unconstrained values are those of the posterior, as far as a few draws tell."""
    n_draws = posterior.sizes["draw"]
    few = np.unique(np.linspace(0, n_draws - 1, _COMPARED_DRAWS).astype(int))
    some = posterior.isel(draw=few)
    samples = {v.name: _values(some[v.name], v, v.shape) for v in score.variables}
    own = _unconstrained(score, samples)
    stored = np.concatenate(
        [values[v.name][few].reshape(*own.shape[:2], -1) for v in score.variables], axis=2
    )
    # Next to a bound the way back loses digits, or all of them: most have to agree, in each chain.
    known = np.isfinite(own)
    close = known & np.isclose(own, stored, rtol=1e-3, atol=1e-3)
    return bool((2 * close.sum(axis=0) >= known.sum(axis=0)).all())


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
    values = np.asarray(array.values, dtype=np.float64).swapaxes(0, 1)
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
            f"not, first in {_place(array, chain, draw)} ({variable.element(tuple(index))})."
        )
    return values


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
