"""Results as xarray datasets: numbers with names, settings as attributes that netCDF can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import pymc
import pytensor
import xarray as xr

import pymc_ksd.diagnostics.sentences as sentences
from pymc_ksd._version import __version__
from pymc_ksd.diagnostics.reasons import code_of
from pymc_ksd.models.observed.layout import Places
from pymc_ksd.models.observed.names import as_written
from pymc_ksd.models.target import Variable

#: Growth of `ess_ksd`, or fall of the squared discrepancy, with the draws (1: in proportion) below
#: which they count as levelling off, and the share of the draws that `ess_ksd` must stay below: a
#: good sampler's curve is noisy, but high.
_LEVEL_SLOPE, _LEVEL_SHARE = 0.25, 0.2
#: The largest p-value that is more than weak evidence.
_WEAK = 0.01
#: How diagnostics of biases begin: sizes, standard errors, p-values, z-scores.
_PREFIXES = ("bias", "mcse_bias", "p", "z")
_VALUES = ("mean", "sd", "stein_mean", "stein_sd")
#: Names that results have, dims last, so that a variable's contribution cannot have them.
RESERVED = (
    *("statistic", "p_value", "critical_value", "null_distribution"),
    *("ksd", "ess_ksd", "ksd_per_chain", "ess_ksd_per_chain"),
    *("member_statistic", "member_p_value", "member_excess", "member_bandwidth", "member"),
    *("observed", "replicated", "observed_statistic", "replicated_statistic"),
    *("comparison_p_value", "comparison_excess", "contributions_of"),
    *("member_width", "contributions_member"),
    *("residual_value", "witness", "witness_band"),
    *("covariate_value", "covariate_witness", "covariate_witness_band"),
    *("picture_kind", "picture_along", "picture_outcome", "picture_x", "picture_y", "picture_at"),
    *("picture_strength", "picture_expected", "picture_observed", "picture_label"),
    *("picture_name", "picture_name_x", "picture_name_y", "picture_within"),
    *("marked_from", "marked_to", "marked_as", "marked"),
    *("picture_dot", "picture_place", "picture_quantile", "picture_named"),
    *("bootstrap", "diagnostic", "chain", "sample", "comparison", "residual", "bound", "covariate"),
    *("position", "level", "variable"),
)


class Uncorrected(IntEnum):
    """Why there is no corrected mean or standard deviation, as results hold it."""

    NO = 0
    NOT_FINITE = 1
    CONSTANT = 2
    FEW_DECIDE = 3
    TOO_FAR = 4
    DISAGREE = 5
    SD_TOO_FAR = 6
    OTHERS_TOO_FAR = 7


_WHY_UNCORRECTED = {
    Uncorrected.NOT_FINITE: "not finite in every draw",
    Uncorrected.CONSTANT: "the same in every draw",
    Uncorrected.FEW_DECIDE: "a few draws dominate the correction",
    Uncorrected.TOO_FAR: "too far off to be corrected",
    Uncorrected.DISAGREE: "parts of the draws disagree about the correction",
    Uncorrected.SD_TOO_FAR: "sd too far off to be corrected",
    Uncorrected.OTHERS_TOO_FAR: "other parameters are too far off for a correction",
}


def why_uncorrected(code: float) -> str:
    """Say why there is no corrected value, or nothing where there is one."""
    return _WHY_UNCORRECTED.get(Uncorrected(int(code)), "")


def contribution_name(variable: str) -> str:
    """Return what a variable's contribution is called, also where a result has that name."""
    return f"{variable}_contribution" if variable in RESERVED else variable


def moments_name(variable: str) -> str:
    """Return what the moments of a variable are called, also where their result has that name."""
    return f"{variable}_moments" if variable in ("p_value", "gain", "diagnostic") else variable


def contributions(values: np.ndarray, variables: Sequence[Variable]) -> xr.Dataset:
    """Give each variable its part of a vector over unconstrained coordinates.

    A variable whose unconstrained coordinates do not belong to single elements (simplex, ordered,
    Cholesky factor) gets the sum of its coordinates.
    """
    arrays, start = {}, 0
    for variable in variables:
        stop = start + variable.unconstrained_size
        part, start = values[start:stop], stop
        name = contribution_name(variable.name)
        if not variable.elementwise:
            arrays[name] = xr.DataArray(float(part.sum()))
            continue
        dims = variable.dims or tuple(
            f"{variable.name}_dim_{axis}" for axis in range(len(variable.shape))
        )
        arrays[name] = _labelled(part.reshape(variable.shape), dims, variable.coords)
    return xr.Dataset(arrays)


def at_places(values: np.ndarray, places: Places) -> xr.Dataset:
    """Give each observation's number the variable's own name, dims and labels."""
    array = _labelled(places.spread(values), places.dims, places.coords)
    return xr.Dataset({contribution_name(places.name): array})


def _labelled(
    values: np.ndarray, dims: Sequence[str], coords: Mapping[str, Sequence[Any]]
) -> xr.DataArray:
    """Return values with a variable's dims and labels, also where results have a dim like it."""
    names = [f"{dim}_" if dim in RESERVED else dim for dim in dims]
    labels = {
        name: list(coords[dim]) for name, dim in zip(names, dims, strict=True) if dim in coords
    }
    return xr.DataArray(values, dims=names, coords=labels)


def elements(
    name: Any, array: xr.DataArray, labeller: Any = None, skip: str = ""
) -> Iterator[tuple[str, np.ndarray]]:
    """Walk the elements of a variable with ArviZ's labels for them, along all dims but `skip`."""
    from arviz_base.labels import BaseLabeller

    labeller = labeller or BaseLabeller()
    dims = [dim for dim in array.dims if dim != skip]
    moved = array.transpose(*dims, ...)
    for index in np.ndindex(*(array.sizes[dim] for dim in dims)):
        position = dict(zip(dims, index, strict=True))
        selection = {
            dim: as_written(array[dim].values[at]) if dim in array.coords else at
            for dim, at in position.items()
        }
        yield labeller.make_label_flat(name, selection, position), moved.values[index]


def parameter_sizes(measures: xr.Dataset) -> tuple[list[str], np.ndarray]:
    """Return a label and (``ess_ksd``, ``ess_bulk``) for every parameter of what ``ksd`` found."""
    return parameter_table(measures, ["ess_ksd", "ess_bulk"])


def parameter_table(result: xr.Dataset, diagnostics: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return a label for every parameter, and a row with these diagnostics of it."""
    found = [
        element
        for name, array in result.items()
        if "diagnostic" in array.dims
        for element in elements(name, array.sel(diagnostic=diagnostics), skip="diagnostic")
    ]
    rows = np.array([row for _, row in found], dtype=float)
    return [label for label, _ in found], rows.reshape(-1, len(diagnostics))


def attributes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, versions and the time as attributes that netCDF can hold.

    A reason is followed by its code.
    """
    if "reason" in settings:
        settings = {**settings, "reason_code": code_of(settings["reason"])}
    return {
        **{key: _plain(value) for key, value in settings.items()},
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "inference_library": "pymc_ksd",
        "inference_library_version": __version__,
        "pymc_version": pymc.__version__,
        "pytensor_version": pytensor.__version__,
        "arviz_version": _arviz_version(),
    }


@cache
def _arviz_version() -> str:
    """Return ArviZ's version without importing it; looking it up takes milliseconds."""
    return version("arviz")


def _plain(value: Any) -> Any:
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    if isinstance(value, str):
        return str(value)  # without anything that a subclass adds
    if isinstance(value, int | float | np.integer | np.floating):
        return value
    if isinstance(value, np.ndarray | list | tuple):
        array = np.asarray(value)
        return array.item() if array.size == 1 else array
    return repr(value)


def rejects(result: xr.Dataset) -> bool:
    """Whether a test, or a check of one observed variable, rejects at its level."""
    return float(result["p_value"]) <= float(result.attrs["alpha"])


def are_moments(result: xr.Dataset) -> bool:
    """Whether a result is about means and standard deviations."""
    return result.attrs.get("result") in ("ksd_moments", "ksd_expectation")


def status_of(result: xr.Dataset) -> str:
    """Return whether a test or check "passed", was "rejected" or "cannot tell".

    Results without the attribute "status" are judged by p-value and level, and so is one observed
    variable of several, which share the attribute, unless nothing can be told of any. Moments may
    also be "certified", or be rejected by more than their p-value.
    """
    if are_moments(result) or result.attrs.get("result") == "ksd_modes":
        return str(result.attrs["status"])
    if result.attrs.get("status") == "cannot tell":
        return "cannot tell"
    rejected = bool((result["p_value"] <= float(result.attrs["alpha"])).any())
    return "rejected" if rejected else "passed"


def is_weak(result: xr.Dataset) -> bool:
    """Whether a rejection is weak evidence, such as chance produces now and then.

    A p-value that is as small as the replicates allow may stand for a much smaller one, and what is
    proven to lie outside a margin is no chance.
    """
    p_value, alpha = float(result["p_value"]), float(result.attrs["alpha"])
    n_replicates = result.sizes.get("bootstrap", result.sizes.get("sample", 0))
    # Where moments are joined with kernels, the smallest p-value of these counts twice.
    least = 2.5 if result.attrs.get("sample") == "draws" else 1.5
    smallest = n_replicates > 0 and p_value * (1 + n_replicates) < least
    sure = "margin" in result.attrs or (smallest and p_value <= alpha / 2)
    return p_value > _WEAK and not sure


def by_variable(check: xr.Dataset) -> dict[str, xr.Dataset]:
    """Return the predictive check of every observed variable."""
    if "variable" not in check.dims:
        return {str(check["variable"].item()): check}
    return {str(name): check.sel(variable=name) for name in check["variable"].values}


def conclusion(result: xr.Dataset) -> str:
    """Say in one sentence what a test found."""
    status, reason = status_of(result), str(result.attrs.get("reason", ""))
    p_value, alpha = float(result["p_value"]), float(result.attrs["alpha"])
    weak = status == "rejected" and is_weak(result)
    if are_moments(result):
        worst = worst_moment(result) if status == "rejected" else ""
        within = within_margin(result)
        return sentences.conclusion_of_moments(
            status, alpha, p_value, reason, within, worst, weak=weak
        )
    target = str(result.attrs.get("target"))
    if target == "fitted":
        name = str(result["variable"].item())
        return sentences.conclusion_of_check(status, name, alpha, p_value, reason, weak=weak)
    sample = str(result.attrs.get("sample", "data"))
    return sentences.conclusion_of_test(status, target, sample, alpha, p_value, reason, weak=weak)


def within_margin(moments: xr.Dataset) -> str:
    """Say what a certificate would say, or nothing where no margin was given."""
    if "margin" not in moments.attrs:
        return ""
    target = str(moments.attrs.get("target"))
    return sentences.within_margin(float(moments.attrs["margin"]), target)


def shown_p_value(result: xr.Dataset) -> str:
    """Return the p-value of a result in words."""
    return in_words(float(result["p_value"]))


#: A p-value in words.
in_words = sentences.p_value_in_words


def in_short(p_value: float) -> str:
    """Return a p-value as tables show it, nothing where there is none."""
    return "" if np.isnan(p_value) else sentences.p_value_in_short(p_value)


def wrong_moments(moments: xr.Dataset) -> list[str]:
    """Say by how much the mean or sd of parameters is off, where it is proven; the worst first.

    With a margin, those outside of it. What a mean or an sd should be is told beside what it is.
    """
    biases = Biases.of(moments)
    return [
        f"{biases.labels[row]}: {biases.amount(row, values=True)}"
        for row in _outside(biases, moments)
    ]


def _outside(biases: Biases, moments: xr.Dataset) -> list[int]:
    """Return the rows of what is proven to be off, with a margin outside of it."""
    outside = biases.proven_sizes > float(moments.attrs.get("margin", 0.0))
    return [int(row) for row in np.flatnonzero(outside)]


def worst_moment(moments: xr.Dataset) -> str:
    """Say by how much the worst parameter is off, and how many others are."""
    biases = Biases.of(moments)
    wrong = _outside(biases, moments)
    if not wrong:
        return ""
    more = len(wrong) - 1
    others = f"; {more:,} more {'is' if more == 1 else 'are'} off" if more else ""
    return f"{biases.labels[wrong[0]]}: {biases.amount(wrong[0])}{others}."


@dataclass(frozen=True)
class Biases:
    """What means and standard deviations of draws are off by, the worst parameters first.

    First come those that are proven off, then others by their z-scores.

    Attributes
    ----------
    labels : list of str
        Parameters.
    sizes, errors : ndarray of shape (parameters, 2)
        Of the mean, in posterior standard deviations, and of the standard deviation, as a fraction
        of it, with standard errors; NaN where nothing can be said.
    proven : ndarray of bool of shape (parameters, 2)
        Which of them are more than chance.
    uncorrected : ndarray of int of shape (parameters,)
        Why there is no corrected value, see :class:`Uncorrected`.
    values : ndarray of shape (parameters, 4)
        Mean and standard deviation of the draws, then both corrected.
    """

    labels: list[str]
    sizes: np.ndarray
    errors: np.ndarray
    proven: np.ndarray
    uncorrected: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, moments: xr.Dataset) -> Biases:
        """Return those of what :func:`ksd_moments` returned."""
        wanted = [f"{prefix}_{of}" for prefix in _PREFIXES for of in ("mean", "sd")]
        labels, table = parameter_table(moments, [*wanted, "uncorrected", *_VALUES])
        sizes, errors, p_values, z, (why,), values = np.split(table.T, [2, 4, 6, 8, 9])
        proven = p_values.T <= float(moments.attrs["alpha"])
        found = cls(labels, sizes.T, errors.T, proven, why.astype(int), values.T)
        strength = np.nan_to_num(np.abs(z)).max(axis=0)
        return found._rows(np.lexsort((-strength, -found.proven_sizes)))

    def first(self, count: int) -> Biases:
        """Return the worst."""
        return self._rows(np.arange(len(self.labels))[:count])

    def _rows(self, rows: np.ndarray) -> Biases:
        arrays = (self.sizes, self.errors, self.proven, self.uncorrected, self.values)
        return Biases([self.labels[row] for row in rows], *(array[rows] for array in arrays))

    @property
    def proven_sizes(self) -> np.ndarray:
        """The larger of what a mean and an sd are off by, 0 where it may be chance."""
        # What is too far off to be corrected is the furthest; others without a correction are off
        # by no one knows how much.
        far = np.isin(self.uncorrected, [Uncorrected.TOO_FAR, Uncorrected.SD_TOO_FAR])
        unknown = np.where(far, np.inf, np.finfo(float).tiny)[:, None]
        sizes = np.where(np.isnan(self.sizes), unknown, np.abs(self.sizes))
        return np.asarray(np.where(self.proven, sizes, 0.0).max(axis=1))

    def amount(self, row: int, *, values: bool = False) -> str:
        """Say by how much a mean, a standard deviation or both are off, or why that is unknown.

        With `values`, also what they are and what they should be.
        """
        (mean, sd), proven, parts = self.sizes[row], self.proven[row], []
        why = why_uncorrected(self.uncorrected[row])
        if np.isnan(self.sizes[row])[proven].all():
            too_far = self.uncorrected[row] in (Uncorrected.TOO_FAR, Uncorrected.SD_TOO_FAR)
            return why if too_far else f"off, but {why}"
        own, right = self.values[row, :2], self.values[row, 2:]
        beside = [
            sentences.instead_of(was, is_right) if values and np.isfinite(is_right) else ""
            for was, is_right in zip(own, right, strict=True)
        ]
        if proven[0]:
            direction = "high" if mean > 0 else "low"
            parts.append(f"mean {abs(mean):.2g} sd too {direction}{beside[0]}")
        if proven[1]:
            percent, direction = 100 * abs(sd), "wide" if sd > 0 else "narrow"
            size = f"{percent:.{0 if percent >= 10 else 1}f} % too {direction}{beside[1]}"
            # Where the mean is corrected and the sd is not, that is why.
            parts.append(why if np.isnan(sd) else f"sd {size}")
        return ", ".join(parts)


def growth(evolution: xr.Dataset) -> tuple[bool, str]:
    """Tell whether the effective sample size has stopped growing, and say so in words."""
    steps, sizes = evolution["n_draws"].values, evolution["ess_ksd"].values
    n_chains = evolution.sizes["chain"]
    quarter = int(np.argmin(np.abs(steps - steps[-1] / 4)))
    n, n_quarter = (int(steps[index]) * n_chains for index in (-1, quarter))
    total = sentences.worth(sizes[-1], n)
    if steps[quarter] == steps[-1]:
        return False, total
    # A single draw with a huge score changes ess_ksd, and the discrepancy itself hardly.
    squares = evolution["ksd"].values ** 2
    grown = min(sizes[-1] / sizes[quarter], squares[quarter] / squares[-1])
    slope = np.log(grown) / np.log(steps[-1] / steps[quarter])
    if slope < _LEVEL_SLOPE and sizes[-1] < _LEVEL_SHARE * n:
        return True, sentences.levelled_off(total, n_quarter)
    return False, total
