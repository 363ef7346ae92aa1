"""Draws of a sampler: chains kept apart, unconstrained, with their correlation time.

Either stack's container becomes a DataTree at this door.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
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
    return data[group].to_dataset() if group in data.children else None


def read_draws(score: Score, data: Any) -> Draws:
    """Collect a sampler's draws of every variable and bring them to unconstrained coordinates.

    Parameters
    ----------
    score : Score
        The density the draws are meant to come from.
    data : DataTree, InferenceData, Dataset or DataArray
        Draws with the dims ``chain`` and ``draw``. Values in a group ``unconstrained_posterior``
        are taken as they are; warm-up draws never enter.

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
    ready = _ready_values(score, posterior, posterior_dataset(data, "unconstrained_posterior"))
    if ready is None:
        missing = [v.name for v in score.variables if v.name not in posterior]
        if missing:
            raise ValueError(
                f"`data` lacks the variable(s) {', '.join(missing)} in its posterior; it has "
                f"{', '.join(map(str, posterior.data_vars)) or 'none'}."
            )
        values = {v.name: _values(posterior[v.name], v, v.shape) for v in score.variables}
    else:
        values = {v.name: _values(ready[v.name], v, v.unconstrained_shape) for v in score.variables}
    n_draws, n_chains = next(iter(values.values())).shape[:2]
    n = n_draws * n_chains
    if n_draws < _FEW_DRAWS:
        warnings.warn(
            f"Only {n_draws} draws in each chain: with fewer than {_FEW_DRAWS} their correlation "
            "cannot be estimated, and the p-value is not to be trusted.",
            UserWarning,
            stacklevel=4,
        )
    if n < 2:
        raise ValueError(f"`data` must have at least 2 draws, got {n}.")
    flat = {name: array.reshape(n, *array.shape[2:]) for name, array in values.items()}
    if ready is None:
        return Draws(score.unconstrain_samples(flat), n_chains, n_draws)
    points = np.concatenate([flat[v.name].reshape(n, -1) for v in score.variables], axis=1)
    return Draws(points, n_chains, n_draws)


def _ready_values(
    score: Score, posterior: xr.Dataset, unconstrained: xr.Dataset | None
) -> dict[str, xr.DataArray] | None:
    """Return unconstrained draws when the container has them for every variable."""
    values = {}
    for variable in score.variables:
        if unconstrained is not None and variable.unconstrained_name in unconstrained:
            values[variable.name] = unconstrained[variable.unconstrained_name]
        elif variable.unconstrained_name in posterior:
            # Also where there is no transform and the name is the variable's own.
            values[variable.name] = posterior[variable.unconstrained_name]
        else:
            return None
    return values


def _values(array: xr.DataArray, variable: Variable, shape: tuple[int, ...]) -> np.ndarray:
    """Return values of shape (draw, chain, *shape), all finite."""
    if not {"chain", "draw"} <= set(array.dims):
        raise ValueError(
            f"`data` for {variable.name!r} must have the dims 'chain' and 'draw', got {array.dims}."
        )
    rest = [dim for dim in array.dims if dim not in ("chain", "draw")]
    if variable.dims and set(variable.dims) == set(rest):
        rest = list(variable.dims)
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


def estimate_autocorrelation_time(draws: Draws) -> float:
    r"""Return the integrated autocorrelation time of the least favourable coordinate.

    It is :math:`n / \mathrm{ESS}` with ArviZ's effective sample size of each chain by itself,
    averaged over chains, at least 1. Chains are not compared with each other: that they disagree
    is a fault the test is to find, not a correlation.
    """
    from arviz_stats.base import array_stats

    n = draws.n_draws
    if n < 4:
        return 1.0
    sizes = np.array(
        [
            [array_stats.ess(chain[None, :, j], method="mean") for j in range(chain.shape[1])]
            for chain in draws.chains
        ]
    )
    times = np.where(np.isfinite(sizes) & (sizes > 0), n / np.maximum(sizes, 1e-300), n)
    return float(max(1.0, np.max(times.mean(axis=0))))
