"""Whether draws and model belong together, and draws that Bambi has changed after sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.models.bambi_models import BambiParameters
from pymc_ksd.models.belonging import Belonging
from pymc_ksd.samples.containers import draws_group

#: Draws on which stored deterministics are held against those that the model computes.
_COMPARED_DRAWS = 3
#: How far they may differ, as a share of the largest value: draws may be stored as single floats.
_TOLERANCE = 0.01


def in_model_parameters(posterior: xr.Dataset, parameters: BambiParameters) -> xr.Dataset:
    """Return Bambi's draws as those of its PyMC model's variables.

    Intercepts are those of centred predictors again, and standardised effects of groups are put
    back where they were left out.
    """
    changed = {}
    for intercept, means in parameters.means.items():
        if intercept not in posterior or not set(means) <= set(posterior.data_vars):
            continue  # whoever reads the draws says what is missing
        array = posterior[intercept]
        for name, columns in means.items():
            own = [dim for dim in posterior[name].dims if dim not in array.dims]
            weights = xr.DataArray(columns if own else columns[0], dims=own)
            array = array + (posterior[name] * weights).sum(own)
        changed[intercept] = array.transpose(*posterior[intercept].dims)
    for offset, (effect, scale) in parameters.offsets.items():
        if offset not in posterior and {effect, scale} <= set(posterior.data_vars):
            ratio = posterior[effect] / posterior[scale]
            changed[offset] = ratio.transpose(*posterior[effect].dims)
    return posterior.assign(changed)


def model_draws(data: Any, parameters: BambiParameters | None) -> Any:
    """Return a container's posterior as draws of the PyMC model's variables.

    Whatever is no draws of Bambi's stays as it is.
    """
    posterior = None if data is None or parameters is None else draws_group(data)
    if posterior is None or parameters is None:
        return data
    return in_model_parameters(posterior, parameters)


def not_together(found: Belonging, posterior: xr.Dataset | None, *, is_bambi: bool) -> str:
    """Say why draws and model cannot belong together, as far as a few draws tell; or nothing."""
    if posterior is None or not {"chain", "draw"} <= set(posterior.dims):
        return ""  # whoever reads the draws says why
    if (
        posterior.attrs.get("modeling_interface") == "bambi"
        and found.has_centred_inputs
        and not is_bambi
    ):
        return (
            "The draws in `data` are Bambi's, which un-centres the intercept after sampling, but "
            "`model` is a PyMC model with centred predictors: they do not belong together. Give "
            "the bambi.Model itself as `model`."
        )
    different = _different(found, posterior)
    if not different:
        return ""
    return (
        f"{', '.join(map(repr, different))} in `data` is not what `model` computes from the same "
        "draws: draws and model do not belong together, or the draws were changed since. For a "
        "model that Bambi has written, give the bambi.Model itself as `model`."
    )


def _different(found: Belonging, posterior: xr.Dataset) -> list[str]:
    """Return the deterministics that are something else in every one of a few draws."""
    names = [name for name in found.dims if name in posterior]
    if not names or not set(found.free) <= set(posterior.data_vars):
        return []
    rows = np.unique(np.linspace(0, posterior.sizes["draw"] - 1, _COMPARED_DRAWS).astype(int))
    few = posterior[[*names, *found.free]].isel(chain=0, draw=rows).transpose("draw", ...)
    agree = dict.fromkeys(names, False)
    for row in range(len(rows)):
        draw = few.isel(draw=row)
        try:
            computed = found.compute({name: draw[name].values for name in found.free})
        except (ValueError, TypeError, AssertionError):
            return []  # of another shape, which is told elsewhere
        for name in names:
            stored = draw[name]
            if set(found.dims[name]) == set(stored.dims):
                stored = stored.transpose(*found.dims[name])
            agree[name] |= _is_close(stored.values, np.asarray(computed[name]))
    return [name for name, is_same in agree.items() if not is_same]


def _is_close(stored: np.ndarray, computed: np.ndarray) -> bool:
    """Whether two arrays are the same; of other shapes, or without numbers, they tell nothing."""
    if stored.shape != computed.shape or stored.dtype.kind not in "biuf" or not stored.size:
        return True
    known = np.isfinite(stored) & np.isfinite(computed)
    stored, computed = stored[known].astype(float), computed[known].astype(float)
    if not stored.size:
        return True
    return bool(np.abs(stored - computed).max() <= _TOLERANCE * np.abs(stored).max())
