"""Draws judged in a row of numbers: whether they are right, how far off, and what worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.largest_moment import has_moments, moments_of_prepared
from pymc_ksd.diagnostics.measured import examine_draws
from pymc_ksd.diagnostics.results import Biases, Uncorrected, status_of, within_margin
from pymc_ksd.engine.walk import Effort
from pymc_ksd.models.target import Target
from pymc_ksd.samples.containers import (
    check_draws,
    draws_group,
    number_of_draws,
    sampling_time,
    thinned,
)

#: Errors that say why draws cannot be judged.
REASONS = (ValueError, TypeError, NotImplementedError)
#: What is told of draws, in this order.
COLUMNS = (
    *("status", "p_value", "bias_mean", "bias_mean_of", "bias_sd", "bias_sd_of"),
    *("ess_ksd", "ess_per_second", "n", "sampling_time", "reason"),
)
#: The status of draws that could not be tested.
NOT_TESTED = "not tested"
#: The order of what is known of draws, the best first.
STATUSES = ("passed", "cannot tell", "rejected", NOT_TESTED)


def deciding(test: xr.Dataset | None, moments: xr.Dataset | None) -> xr.Dataset | None:
    """Return the result that decides about the draws.

    A certificate for their moments, where one was asked for; else the test, unless moments reject
    what it does not.
    """
    if test is None or moments is None or within_margin(moments):
        return test if moments is None else moments
    only_moments = status_of(moments) == "rejected" and status_of(test) != "rejected"
    return moments if only_moments else test


@dataclass(frozen=True)
class Judged:
    """What is known of draws.

    Attributes
    ----------
    status : {"passed", "rejected", "cannot tell", "not tested"}
        The answer.
    p_value : float
        Of the result that decides, see :func:`deciding`.
    bias_mean, bias_sd : float
        The largest error of a mean, in posterior standard deviations, and of a standard deviation,
        as a fraction of the posterior's, with their signs; infinite where an error is proven and
        too large to be measured, NaN where none can be.
    bias_mean_of, bias_sd_of : str
        The parameters that have them.
    ess_ksd : float
        What the draws are worth in exact ones.
    n : int
        Their number.
    sampling_time : float
        How many seconds they took, NaN where that is not known.
    reason : str
        Why draws and model do not belong together, or why the test cannot tell or was not made.
    """

    status: str
    p_value: float = np.nan
    bias_mean: float = np.nan
    bias_mean_of: str = ""
    bias_sd: float = np.nan
    bias_sd_of: str = ""
    ess_ksd: float = np.nan
    n: int = 0
    sampling_time: float = np.nan
    reason: str = ""

    @property
    def worth(self) -> float:
        """What the draws are worth, at most their number: more than that is chance."""
        return min(self.ess_ksd, float(self.n))

    @property
    def ess_per_second(self) -> float:
        """What a second of sampling was worth."""
        return self.worth / self.sampling_time

    @property
    def largest_bias(self) -> float:
        """The larger of the two errors, 0 where none is known."""
        return float(np.nanmax([0.0, abs(self.bias_mean), abs(self.bias_sd)]))

    def row(self) -> dict[str, Any]:
        """Return all of it by name."""
        return {name: getattr(self, name) for name in COLUMNS}

    def order(self) -> tuple[int, float, float]:
        """Return what sorts the best first: the status, then what they are worth, then errors."""
        worth = np.nan_to_num(self.worth, nan=-np.inf)
        return STATUSES.index(self.status), -float(worth), self.largest_bias


def judge_draws(
    target: Target,
    data: Any,
    *,
    alpha: float,
    max_draws: int,
    random_seed: int | np.random.Generator | None,
    compile_kwargs: Mapping[str, Any] | None = None,
    effort: Effort,
) -> Judged:
    """Judge draws as a report does: by kernels and moments together, at level `alpha`.

    Raises what says why they cannot be tested.
    """
    check_draws(data, "data")
    seconds = sampling_time(data)
    n = number_of_draws(draws_group(data))
    if n is not None and n > max_draws:
        data = thinned(data, -(-n // max_draws))
    found = examine_draws(target, data, alpha, random_seed, compile_kwargs, effort)
    moments = None
    if has_moments(found.prepared, data):
        moments = moments_of_prepared(found.prepared, data, alpha / 2, effort)
    decides = deciding(found.test, moments)
    assert decides is not None  # there is a test
    status, mismatch = status_of(decides), str(found.test.attrs["mismatch"])
    return Judged(
        status=status,
        p_value=float(decides["p_value"]),
        ess_ksd=float(found.test["ess_ksd"]),
        n=int(found.test.attrs["n"]),
        sampling_time=np.nan if seconds is None else seconds,
        reason=mismatch or str(decides.attrs.get("reason", "")),
        **({} if moments is None else _largest_biases(moments)),
    )


def _largest_biases(moments: xr.Dataset) -> dict[str, Any]:
    """Return the largest errors of a mean and of a standard deviation, and whose they are."""
    biases = Biases.of(moments)
    too_far = {
        "mean": biases.uncorrected == Uncorrected.TOO_FAR,
        "sd": np.isin(biases.uncorrected, [Uncorrected.TOO_FAR, Uncorrected.SD_TOO_FAR]),
    }
    found: dict[str, Any] = {}
    for column, (what, far) in enumerate(too_far.items()):
        sizes = biases.sizes[:, column]
        sizes = np.where(far & biases.proven[:, column] & np.isnan(sizes), np.inf, sizes)
        if np.isnan(sizes).all():
            continue
        worst = int(np.nanargmax(np.abs(sizes)))
        found[f"bias_{what}"] = float(sizes[worst])
        found[f"bias_{what}_of"] = biases.labels[worst]
    return found
