"""Every diagnostic of a sampler's draws from one preparation and one pass over all pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_ksd.diagnostics.distance import distance_result
from pymc_ksd.diagnostics.evolution import evolution_result
from pymc_ksd.diagnostics.goodness_of_fit import REPLICATES, result_of_test, run_prepared
from pymc_ksd.diagnostics.measured import Measured
from pymc_ksd.diagnostics.prepare import comparing, prepare
from pymc_ksd.diagnostics.score import Score, target_of
from pymc_ksd.stats.nulls import Wild
from pymc_ksd.stats.statistic import Effort
from pymc_ksd.stats.statistics import VStatistic
from pymc_ksd.stats.test import Plan


@dataclass(frozen=True)
class DrawsResults:
    """What ``ksd_test``, ``ksd`` and ``ksd_evolution`` say of the same draws."""

    test: xr.Dataset
    measures: xr.Dataset
    evolution: xr.Dataset


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
    how = comparing(None, "auto", "auto", compile_kwargs, draws=True)
    target = target_of(model, None, None, compile_kwargs)
    prepared = prepare(target, data, how, random_seed=random_seed, progressbar=progressbar)
    effort = Effort(progressbar=progressbar, client=client)
    plan = Plan(prepared.panel, VStatistic(), Wild(), REPLICATES, alpha, effort)
    plan, outcome = run_prepared(prepared, plan, groups=prepared.sample.chain_numbers)
    assert outcome.estimate.sums is not None  # all pairs were evaluated
    measured = Measured(prepared, outcome.estimate.sums)
    return DrawsResults(
        result_of_test(prepared, plan, outcome),
        distance_result(measured),
        evolution_result(measured),
    )
