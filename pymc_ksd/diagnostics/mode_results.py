"""Modes as an xarray dataset: where they are, on the scale of the model, and what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.mode_words import conclusion_of_modes, in_words
from pymc_ksd.diagnostics.results import attributes
from pymc_ksd.diagnostics.status import status_of_visits
from pymc_ksd.models.target import Target
from pymc_ksd.samples.sample import Sample
from pymc_ksd.stats.local_modes import Modes
from pymc_ksd.stats.mode_shares import Shares

#: Names that the result has, dims last, so that a variable's location cannot have them.
RESERVED_FOR_MODES = (
    *("place", "log_density", "local_sd", "share_of_posterior", "mcse", "share_of_draws"),
    *("mode_p_value", "p_value", "mode", "coordinate"),
)


@dataclass(frozen=True)
class FoundModes:
    """Modes and how much of the density each holds.

    Attributes
    ----------
    modes : Modes
        The modes.
    shares : Shares
        Parts of the mass near each.
    n_lost : int
        The number of starts from which no mode was reached.
    by_balance : bool
        Whether the shares are those by which moves of the draws are in balance.
    """

    modes: Modes
    shares: Shares
    n_lost: int
    by_balance: bool = False

    def chosen(self, rows: np.ndarray) -> FoundModes:
        """Return some of the modes."""
        shares = replace(
            self.shares, shares=self.shares.shares[rows], errors=self.shares.errors[rows]
        )
        return replace(self, modes=self.modes.chosen(rows), shares=shares)


@dataclass(frozen=True)
class Visits:
    """How often draws are at modes, beside how often they should be.

    Attributes
    ----------
    shares : ndarray of shape (k,)
        Parts of the draws at each mode.
    p_values : ndarray of shape (k,)
        How likely that is, adjusted for the number of modes.
    moves : ndarray of shape (k,)
        How often chains come to each mode or leave it.
    free_moves : ndarray of shape (k,)
        How often they would if they moved between modes as freely as otherwise.
    information : ndarray of shape (k,)
        What moves between the modes tell, as a part of what they would if all had one shape; NaN
        where it is not known.
    """

    shares: np.ndarray
    p_values: np.ndarray
    moves: np.ndarray
    free_moves: np.ndarray
    information: np.ndarray

    @classmethod
    def of_no_test(cls, number: int) -> Visits:
        """Return those of draws where there are not two modes to be told apart."""
        ones, zeros = np.ones(number), np.zeros(number)
        return cls(ones, ones, zeros, zeros, ones)

    def chosen(self, rows: np.ndarray) -> Visits:
        """Return those of some modes."""
        names = ("shares", "p_values", "moves", "free_moves", "information")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


def modes_dataset(
    target: Target,
    sample: Sample | None,
    found: FoundModes,
    visits: Visits | None,
    settings: Mapping[str, Any],
) -> xr.Dataset:
    """Return what :func:`ksd_modes` returns.

    Parameters
    ----------
    target : Target
        The density.
    sample : Sample, optional
        The draws.
    found : FoundModes
        The modes.
    visits : Visits, optional
        How draws visit them.
    settings : mapping
        What decided the result.

    Returns
    -------
    xarray.Dataset
    """
    known = found.shares.are_known
    order = np.argsort(-found.shares.shares, kind="stable") if known else slice(None)
    rows = np.arange(found.modes.number)[order]
    found = found.chosen(rows)
    modes, shares = found.modes, found.shares
    result = _locations(target, modes)
    result["place"] = ("mode", np.array(in_words(target, modes), dtype=object))
    result["log_density"] = ("mode", modes.log_densities)
    result["local_sd"] = (("mode", "coordinate"), _local_sd(modes))
    nothing = np.full(modes.number, np.nan)
    result["share_of_posterior"] = ("mode", shares.shares if known else nothing)
    result["mcse"] = ("mode", shares.errors if known else nothing)
    result = result.assign_coords(mode=np.arange(modes.number), coordinate=target.labels)
    status, reason = "unknown", ""
    if visits is not None and sample is not None:
        visits = visits.chosen(rows)
        result["share_of_draws"] = ("mode", visits.shares)
        result["mode_p_value"] = ("mode", visits.p_values)
        result["p_value"] = ((), float(visits.p_values.min()) if modes.number else np.nan)
        status, reason = status_of_visits(
            sample,
            visits.p_values,
            settings["alpha"],
            visits.moves,
            visits.free_moves,
            visits.information,
        )
    result.attrs = attributes(
        {
            "result": "ksd_modes",
            "target": target.kind,
            "sample": "none" if sample is None else "draws" if sample.are_draws else "data",
            **settings,
            "n_lost": found.n_lost,
            "n": 0 if sample is None else sample.n_points,
            "n_chains": 0 if sample is None else sample.n_chains,
            "dim": target.dim,
            "shares_by": ("balance" if found.by_balance else "importance") if known else "none",
            "status": status,
            "reason": reason,
        }
    )
    result.attrs = {"conclusion": conclusion_of_modes(result), **result.attrs}
    return result


def _locations(target: Target, modes: Modes) -> xr.Dataset:
    """Return where modes are, each variable under its own name and dims."""
    arrays = {}
    values = target.constrained(modes.locations)
    for variable in target.variables:
        own = variable.dims or tuple(
            f"{variable.name}_dim_{axis}" for axis in range(len(variable.shape))
        )
        dims = [f"{dim}_" if dim in RESERVED_FOR_MODES else dim for dim in own]
        coords = {
            name: list(variable.coords[dim])
            for name, dim in zip(dims, own, strict=True)
            if dim in variable.coords
        }
        name = variable.name
        name = f"{name}_location" if name in RESERVED_FOR_MODES else name
        arrays[name] = xr.DataArray(values[variable.name], dims=["mode", *dims], coords=coords)
    return xr.Dataset(arrays)


def _local_sd(modes: Modes) -> np.ndarray:
    """Return the standard deviation of each coordinate near each mode."""
    return np.asarray(np.sqrt((modes.roots**2).sum(axis=2)) * modes.scales)
