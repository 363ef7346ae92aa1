"""What kind of error a test of several kernels found, in words."""

from __future__ import annotations

import numpy as np
import xarray as xr

#: What is said of the kernel with the strongest evidence.
_NARROW = (
    "a narrow one, so the error is local: peaks, gaps or the width of modes, more than where the "
    "mass lies."
)
_WIDE = "a wide one, so the error is global: in the location or spread more than in fine structure."
_WIDE_NOT_MOMENTS = (
    "a wide one, so the error is global, but in no single mean or standard deviation."
)
_BULK = (
    "Only tilted kernels reject: the error is in the bulk of the draws, hidden from the others by "
    "a few draws with very large scores."
)
_OUTLIERS = (
    "Only kernels without a tilt reject: the error is in a few draws of low density, not in the "
    "bulk."
)
_KERNEL = "The kernel {name!r} gives the strongest evidence: it is {meaning}"
_MOMENT = (
    "The {name} gives the strongest evidence: it is off by {size:.1f} standard errors; ksd_moments "
    "shows by how much."
)
#: How the names of members tell that they are tilted, or no kernels.
_TILTED, _MOMENTS = ", tilted", ("mean of ", "sd of ")


def strongest_member(result: xr.Dataset) -> str:
    """Return the name of the member that exceeds its replicates most."""
    return str(result["member"].values[int(np.argmax(result["member_excess"].values))])


def is_kernel(name: str) -> bool:
    """Whether a member is a kernel, and not the test of a mean or standard deviation."""
    return not name.startswith(_MOMENTS)


def has_tilt(result: xr.Dataset) -> bool:
    """Whether a tilted kernel was tested beside others."""
    names = result["member"].values if "member" in result.dims else ()
    return any(str(name).endswith(_TILTED) for name in names)


def kind_of_error(result: xr.Dataset) -> tuple[str, ...]:
    """Say what kind of error a rejected test found, by the members that reject."""
    if "member" not in result.dims:
        return ()
    strongest, said = strongest_member(result), []
    if not is_kernel(strongest):
        size = float(result["member_statistic"].sel(member=strongest))
        said.append(_MOMENT.format(name=strongest, size=size))
    else:
        meaning = _size_of_error(result, strongest)
        said += [_KERNEL.format(name=strongest, meaning=meaning)] if meaning else []
    return (*said, *_bulk_or_outliers(result))


def _size_of_error(result: xr.Dataset, strongest: str) -> str:
    """Say whether the kernel is one of the narrow or of the wide ones."""
    widths = result["member_bandwidth"].values
    if len(np.unique(widths[np.isfinite(widths)])) < 2:
        return ""
    # The first is the reference.
    if float(result["member_bandwidth"].sel(member=strongest)) < widths[0]:
        return _NARROW
    names = map(str, result["member"].values)
    moments = [result["member_p_value"].sel(member=name) for name in names if not is_kernel(name)]
    quiet = moments and float(moments[0]) > float(result.attrs["alpha"])
    return _WIDE_NOT_MOMENTS if quiet else _WIDE


def _bulk_or_outliers(result: xr.Dataset) -> tuple[str, ...]:
    """Say where kernels with a tilt and the same without disagree."""
    p_values, alpha = result["member_p_value"], float(result.attrs["alpha"])
    names = [str(name) for name in result["member"].values if is_kernel(str(name))]
    rejecting = {name for name in names if float(p_values.sel(member=name)) <= alpha}
    tilted = {name for name in names if name.endswith(_TILTED)}
    plain = {name.removesuffix(_TILTED) for name in tilted}
    if not tilted or bool(rejecting & tilted) == bool(rejecting & plain):
        return ()
    return (_BULK,) if rejecting & tilted else (_OUTLIERS,)
