"""One pass over all pairs of a sampler's draws, from which every diagnostic of them is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_ksd.diagnostics.goodness_of_fit import (
    default_replicates,
    null_of_draws,
    run_prepared,
)
from pymc_ksd.diagnostics.largest_moment import (
    has_moments,
    largest_moment,
    moments_of_prepared,
)
from pymc_ksd.diagnostics.prepare import Comparing, Prepared, comparing, prepare
from pymc_ksd.diagnostics.results import attributes, contribution_name, contributions
from pymc_ksd.diagnostics.score import Score, target_of
from pymc_ksd.engine.pairs import PairSums
from pymc_ksd.engine.walk import Effort
from pymc_ksd.models.target import Target
from pymc_ksd.samples.containers import check_draws
from pymc_ksd.stats.nulls import fewest_replicates, get_null
from pymc_ksd.stats.statistics import Request, VStatistic
from pymc_ksd.stats.test import Plan

#: Steps of an evolution curve.
_STEPS = 100


@dataclass(frozen=True)
class Measured:
    """Draws, and sums over all their pairs.

    Attributes
    ----------
    prepared : Prepared
        The draws.
    sums : PairSums
        The sums, joined over members, with those over the draws before each draw.
    """

    prepared: Prepared
    sums: PairSums

    def distance(self, names: Sequence[str] | None = None) -> xr.Dataset:
        """Return what :func:`ksd` returns, with contributions of the named variables or of all."""
        sums, n = self.sums, len(self.sums.diagonal)
        total = VStatistic().of_sums(sums), sums.diagonal.mean()
        dataset = self._dataset("ksd", {}, total, [curve[:, -1] for curve in self._chain_curves()])
        variables = self.prepared.target.variables
        v = contributions(sums.coordinates / n**2, variables)
        diagonal = contributions(sums.coordinates_diagonal / n, variables)
        for variable in variables:
            if names is None or variable.name in names:
                key = contribution_name(variable.name)
                ess_bulk = _ess_bulk(self.prepared.sample.posterior, variable.name, v[key])
                with np.errstate(divide="ignore", invalid="ignore"):
                    # Rounding may take the part of a single coordinate below zero.
                    parts = [np.sqrt(v[key]), diagonal[key] / v[key], ess_bulk]
                joined = xr.concat(parts, "diagnostic", coords="minimal", compat="override")
                dataset[key] = joined.assign_coords(diagnostic=["ksd", "ess_ksd", "ess_bulk"])
        return dataset

    def evolution(self) -> xr.Dataset:
        """Return what :func:`ksd_evolution` returns."""
        sample = self.prepared.sample
        steps = np.unique(np.geomspace(1, sample.n_draws, _STEPS).round().astype(int))
        pooled = _curves(self.sums.diagonal, self.sums.earlier[:, 0])
        return self._dataset(
            "ksd_evolution",
            {"n_draws": steps},
            [curve[steps * sample.n_chains - 1] for curve in pooled],
            [curve[:, steps - 1] for curve in self._chain_curves()],
        )

    def _chain_curves(self) -> tuple[np.ndarray, np.ndarray]:
        """Return V and the mean diagonal of each chain by itself, shape (chain, draw)."""
        by_chain = self.prepared.sample.by_chain
        return _curves(by_chain(self.sums.diagonal), by_chain(self.sums.earlier[:, 1]))

    def _dataset(
        self, result: str, coords: Mapping[str, Any], pooled: Sequence[Any], chains: Sequence[Any]
    ) -> xr.Dataset:
        """Return `ksd` and `ess_ksd` from V and the mean diagonal, of all draws and by chain."""
        fields = {}
        for suffix, dims, (v, diagonal) in (("", (), pooled), ("_per_chain", ("chain",), chains)):
            fields[f"ksd{suffix}"] = ((*dims, *coords), np.sqrt(np.maximum(v, 0)))
            with np.errstate(divide="ignore", invalid="ignore"):
                fields[f"ess_ksd{suffix}"] = ((*dims, *coords), diagonal / v)
        labels = self.prepared.sample.posterior.coords
        chain = {"chain": labels["chain"].values} if "chain" in labels else {}
        settings = self.prepared.settings
        del settings["sample"]
        attrs = attributes({"result": result, **settings})
        return xr.Dataset(fields, coords={**coords, **chain}, attrs=attrs)


def _curves(diagonal: np.ndarray, earlier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return V and the mean diagonal of the draws up to each, along the last axis.

    `earlier` has the sum over the pairs of each draw and those before it.
    """
    counts = np.arange(1, diagonal.shape[-1] + 1)
    v = np.cumsum(diagonal + 2 * earlier, axis=-1) / counts**2
    return v, np.cumsum(diagonal, axis=-1) / counts


def _ess_bulk(posterior: xr.Dataset, name: str, template: xr.DataArray) -> xr.DataArray:
    """Return ArviZ's bulk ESS of a variable in the shape of its contribution."""
    from arviz_stats.base import array_stats

    if name not in posterior:
        return xr.full_like(template, np.nan)
    values = posterior[name].values
    flat = values.reshape(*values.shape[:2], -1)
    sizes = np.array([array_stats.ess(flat[..., j]) for j in range(flat.shape[-1])])
    if template.shape == values.shape[2:]:
        return template.copy(data=sizes.reshape(template.shape))
    known = sizes[np.isfinite(sizes)]
    return xr.full_like(template, known.min() if known.size else np.nan)


def measure(
    model: pm.Model | Score | None,
    data: Any,
    how: Comparing,
    effort: Effort,
    random_seed: int | np.random.Generator | None,
    *,
    coordinates: bool = False,
    var_names: Sequence[str] = (),
) -> Measured:
    """Read, score and compare all draws, with contributions of coordinates if they are wanted."""
    check_draws(data, "data")
    target = target_of(model, None, None, how.compile_kwargs, data)
    unknown = [name for name in var_names if name not in target.names]
    if unknown:
        raise ValueError(
            f"`var_names` must name free variables ({', '.join(target.names)}), got "
            f"{', '.join(unknown)}."
        )
    prepared = prepare(target, data, how, random_seed, progressbar=effort.progressbar)
    groups = prepared.sample.chain_numbers
    estimate = VStatistic().estimate(
        Request(prepared.panel, prepared.points, effort, groups=groups, details=coordinates)
    )
    assert estimate.sums is not None  # all pairs were evaluated
    return Measured(prepared, estimate.sums)


@dataclass(frozen=True)
class DrawsResults:
    """What ``ksd_test``, ``ksd`` and ``ksd_evolution`` say of the same draws.

    Attributes
    ----------
    test, measures, evolution : xarray.Dataset
        The results.
    prepared : Prepared
        The draws, for what else is made of them.
    effort : Effort
        Whose workers do the work.
    """

    test: xr.Dataset
    measures: xr.Dataset
    evolution: xr.Dataset
    prepared: Prepared
    effort: Effort

    def moments(
        self,
        data: Any,
        alpha: float,
        margin: float | None = None,
        var_names: Sequence[str] | None = None,
    ) -> xr.Dataset:
        """Return what :func:`ksd_moments` returns of the same draws, which are not scored again."""
        return moments_of_prepared(self.prepared, data, alpha, self.effort, margin, var_names)


def diagnose_draws(
    model: pm.Model | Score | None,
    data: Any,
    *,
    alpha: float,
    random_seed: int | np.random.Generator | None,
    progressbar: bool,
    compile_kwargs: Mapping[str, Any] | None,
    client: Any,
) -> DrawsResults:
    """Test draws and measure them, with the defaults of the public functions."""
    target = target_of(model, None, None, compile_kwargs, data)
    effort = Effort(progressbar=progressbar, client=client)
    tested = examine_draws(target, data, alpha, random_seed, compile_kwargs, effort, by_chain=True)
    measured = Measured(tested.prepared, tested.sums)
    return DrawsResults(
        tested.test, measured.distance(), measured.evolution(), tested.prepared, effort
    )


@dataclass(frozen=True)
class ExaminedDraws:
    """What ``ksd_test`` says of draws, and what else is made of them.

    Attributes
    ----------
    test : xarray.Dataset
        The result.
    prepared : Prepared
        The draws.
    sums : PairSums
        Sums over all their pairs.
    """

    test: xr.Dataset
    prepared: Prepared
    sums: PairSums


def examine_draws(
    target: Target,
    data: Any,
    alpha: float,
    random_seed: int | np.random.Generator | None,
    compile_kwargs: Mapping[str, Any] | None,
    effort: Effort,
    *,
    by_chain: bool = False,
) -> ExaminedDraws:
    """Test draws with the defaults of ``ksd_test``, with sums of each chain if they are wanted.

    Moments that are doubtful are not joined with the kernels, but tested beside them by whoever
    calls: the level of the kernels is then half of `alpha`.
    """
    how = comparing(None, "auto", "auto", compile_kwargs, draws=True, joins=True)
    prepared = prepare(target, data, how, random_seed, progressbar=effort.progressbar)
    null = get_null(null_of_draws(data), VStatistic())
    other = largest_moment(prepared, data, alpha, effort)
    if other is None and has_moments(prepared, data):
        alpha /= 2
    n_replicates = max(default_replicates(prepared, alpha), fewest_replicates(alpha))
    plan = Plan(prepared.panel, VStatistic(), null, n_replicates, alpha, effort, other)
    groups = prepared.sample.chain_numbers if by_chain else None
    test, sums = run_prepared(prepared, plan, groups=groups)
    assert sums is not None  # all pairs were evaluated
    return ExaminedDraws(test, prepared, sums)
