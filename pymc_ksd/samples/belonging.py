"""Whether draws and model belong together, and draws that Bambi has changed after sampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.models.bambi_models import BambiParameters
from pymc_ksd.models.target import Belonging
from pymc_ksd.samples.containers import draws_group


class MismatchError(ValueError):
    """Draws that cannot be those of the model: it has other variables, shapes or labels."""


#: How far stored deterministics may be from those that the model computes, as a share of the
#: largest value: draws may be stored as single floats.
_TOLERANCE = 0.01
#: The same of observed data, which may be stored as single floats.
_OF_DATA = 1e-6
_GIVE_BAMBI = " For a model that Bambi has written, give the bambi.Model itself as `model`."


def in_model_parameters(posterior: xr.Dataset, parameters: BambiParameters) -> xr.Dataset:
    """Return Bambi's draws as those of its PyMC model's variables.

    Intercepts are those of centred predictors again, and standardised effects of groups are put
    back where they were left out. Draws that PyMC itself handed out, as those of a variational fit
    are, were not changed, and stay as they are.
    """
    attrs, changed = posterior.attrs, {}
    if attrs.get("inference_library") and attrs.get("modeling_interface") != "bambi":
        return posterior
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


def not_together(
    found: Belonging,
    attrs: Mapping[str, Any],
    values: Mapping[str, np.ndarray],
    *,
    is_bambi: bool,
    argument: str,
) -> str:
    """Say why draws and model cannot belong together, as far as a few draws tell; or nothing.

    Parameters
    ----------
    found : Belonging
        What the model computes from its free variables.
    attrs : mapping
        Attributes of the stored draws.
    values : mapping
        A few draws of free variables and deterministics, as far as they are stored, in the model's
        order, shape (few, *shape).
    is_bambi : bool
        Whether the model was given as Bambi's.
    argument : str
        What the draws were given as.

    Returns
    -------
    str
    """
    if attrs.get("modeling_interface") == "bambi" and found.has_centred_inputs and not is_bambi:
        return (
            f"The draws in `{argument}` are Bambi's, which un-centres the intercept after "
            "sampling, but `model` is a PyMC model with centred predictors: they do not belong "
            "together. Give the bambi.Model itself as `model`."
        )
    different = _different(found, values)
    if not different:
        return ""
    return (
        f"{', '.join(map(repr, different))} in `{argument}` is not what `model` computes from "
        "the same draws: draws and model do not belong together, or the draws were changed."
        f"{'' if is_bambi else _GIVE_BAMBI}"
    )


def of_other_data(found: Belonging, observed: xr.Dataset | None) -> str:
    """Say which of the data that are stored with draws are not the model's; or nothing.

    The same numbers in another order have the same posterior, unless inputs go with them.
    """
    if observed is None:
        return ""
    own = found.observed() if len(observed.data_vars) else {}
    names = [name for name in own if name in observed]
    other = [name for name in names if not _are_same_data(observed[name].values, own[name])]
    if not other:
        return ""
    return (
        f"The observed data of {', '.join(map(repr, other))} that are stored with the draws are "
        "not those of `model`: the draws were made with other data, or the model's were changed "
        "since."
    )


def _are_same_data(stored: np.ndarray, own: np.ndarray) -> bool:
    if stored.dtype.kind not in "biuf" or own.dtype.kind not in "biuf":
        return True
    stored, own = (np.sort(one.astype(float), axis=None) for one in (stored, own))
    if stored.shape != own.shape:
        # Values that are missing may be stored, or not.
        stored, own = (one[np.isfinite(one)] for one in (stored, own))
    # They are stored as they are: what differs is more than the rounding of single floats.
    return stored.shape == own.shape and _is_close(stored, own, _OF_DATA)


def _different(found: Belonging, values: Mapping[str, np.ndarray]) -> list[str]:
    """Return the deterministics that are something else in every one of a few draws."""
    names = [one.name for one in found.computed if one.name in values]
    if not names or not {one.name for one in found.free} <= set(values):
        return []
    agree = dict.fromkeys(names, False)
    for row in range(len(values[names[0]])):
        try:
            computed = found.compute({one.name: values[one.name][row] for one in found.free})
        except (ValueError, TypeError, AssertionError):
            return []  # of another shape, which is told elsewhere
        for name in names:
            agree[name] |= _is_close(values[name][row], np.asarray(computed[name]))
    return [name for name, is_same in agree.items() if not is_same]


def _is_close(stored: np.ndarray, computed: np.ndarray, tolerance: float = _TOLERANCE) -> bool:
    """Whether two arrays are the same; of other shapes, or without numbers, they tell nothing."""
    if stored.shape != computed.shape or stored.dtype.kind not in "biuf" or not stored.size:
        return True
    known = np.isfinite(stored) & np.isfinite(computed)
    stored, computed = stored[known].astype(float), computed[known].astype(float)
    if not stored.size:
        return True
    return bool(np.abs(stored - computed).max() <= tolerance * np.abs(stored).max())
