"""The battery: a sampler on a dozen targets with known trouble, beside samplers that are wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_ksd.diagnostics.judged import COLUMNS, NOT_TESTED, Judged, judge_draws
from pymc_ksd.diagnostics.modes import ksd_modes
from pymc_ksd.diagnostics.results import attributes, status_of
from pymc_ksd.diagnostics.score import compile_score, target_of
from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.engine.walk import Effort
from pymc_ksd.options import check_alpha, check_count, seeded_generator, warnings_noted
from pymc_ksd.samplers.battery_result import BatteryResult
from pymc_ksd.samplers.controls import CONTROLS, Chains
from pymc_ksd.samplers.targets import TARGETS, BatteryTarget

#: Draws of each chain of a control.
_CONTROL_DRAWS = 250
#: What a sampler is: a function of a model, with the keyword argument `random_seed`.
Sampler = Callable[..., Any]


def battery(
    sampler: Callable[..., Any],
    *,
    targets: Sequence[str] | None = None,
    controls: bool = True,
    alpha: float = 0.05,
    max_draws: int = 4_000,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> BatteryResult:
    """Try a sampler on targets with known trouble, and make sure that wrong samplers are caught.

    Parameters
    ----------
    sampler : callable
        ``sampler(model, random_seed=seed)`` returns draws of the free variables of a ``pm.Model``:
        a DataTree, InferenceData, MultiTrace or Dataset with the dims ``chain`` and ``draw``, on
        the scale of the model. Four chains of 500 to 1,000 draws are enough.
    targets : sequence of str, optional
        Names of the targets, see Notes; by default all of them.
    controls : bool, default True
        Whether samplers that are known to be wrong are tried, too. If one of them passes, the
        battery cannot tell whether others are right.
    alpha : float, default 0.05
        Level of all targets together: a sampler that is right on all of them is rejected with at
        most about this probability.
    max_draws : int, default 4000
        More draws than these are thinned.
    random_seed : int or numpy.random.Generator, optional
        Makes the battery repeatable, as far as the sampler is. A target has the same seeds
        whatever others are chosen.
    progressbar : bool, default True
        Show a progress bar.

    Returns
    -------
    BatteryResult
        ``result.passed`` says whether the sampler passed everywhere and all controls were caught,
        ``result.table`` has a row for each target, ``print(result)`` shows everything.

    Notes
    -----
    Draws of every target are held against its density, by :func:`ksd_test` and
    :func:`ksd_moments`, and those of several modes by :func:`ksd_modes`, too. With m targets each
    has the level `alpha` / m (Bonferroni). A target from which exact draws can be had shows how
    often they are rejected: see the page "Level and power of the battery" of the documentation.

    The targets are "normal", "correlated", "badly scaled", "funnel", "banana", "heavy tails",
    "bounded", "simplex", "ordered", "regression", "hundred dimensions" and "two modes". An error
    that the sampler raises, and draws that cannot be read, make a target "not tested", and the
    battery "cannot tell" unless another target is rejected.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> import pymc_ksd
    >>> def sampler(model, random_seed):
    ...     values = np.random.default_rng(random_seed).normal(size=(4, 250, 2))  # no correlation
    ...     return xr.Dataset({"x": (("chain", "draw", "k"), values)})
    >>> result = pymc_ksd.battery(sampler, targets=["correlated"], random_seed=1, progressbar=False)
    >>> result.status
    'rejected'
    >>> bool(result.controls["caught"].all())
    True
    """
    if not callable(sampler):
        raise TypeError(f"`sampler` must be callable, got {type(sampler).__name__}.")
    chosen = _chosen(targets)
    alpha = check_alpha(alpha)
    max_draws = check_count(max_draws, "max_draws", 100)
    seed, rng = seeded_generator(random_seed)
    level = alpha / len(chosen)
    # Seeds do not depend on which targets are chosen.
    target_seeds, control_seeds = (rng.integers(2**31, size=100) for _ in range(2))
    rows, found = {}, {}
    total = len(chosen) + (len(CONTROLS) if controls else 0)
    with progress_bar("Trying the sampler", total, progressbar) as bar:
        for index, target in chosen:
            own = int(target_seeds[index])
            rows[target.name] = _tried(target, sampler, level, max_draws, own)
            bar.advance(1)
        for index, control in enumerate(CONTROLS if controls else ()):
            own = int(control_seeds[index])
            draws = as_dataset(control.draw(_CONTROL_DRAWS, np.random.default_rng(own)))
            judged = judge_target(by_name(control.target), draws, level, max_draws, own)
            found[control.name] = {
                "target": control.target,
                "caught": judged.status in ("rejected", "cannot tell"),
                "status": judged.status,
                "p_value": judged.p_value,
                "error": control.error,
            }
            bar.advance(1)
    settings = {"alpha": alpha, "level_of_a_target": level, "max_draws": max_draws, "seed": seed}
    return BatteryResult(
        table=_table(rows, ("trouble", *COLUMNS)),
        controls=_table(found, ("target", "caught", "status", "p_value", "error")),
        alpha=alpha,
        settings=attributes(settings),
    )


def _chosen(targets: Sequence[str] | None) -> list[tuple[int, BatteryTarget]]:
    """Return targets by name, with their places among all."""
    names = [target.name for target in TARGETS]
    wanted = names if targets is None else [targets] if isinstance(targets, str) else list(targets)
    unknown = [str(name) for name in wanted if name not in names]
    if unknown or not wanted:
        raise ValueError(
            f"`targets` must name some of {', '.join(map(repr, names))}, got "
            f"{', '.join(map(repr, unknown)) or 'none'}."
        )
    return [(index, TARGETS[index]) for index, name in enumerate(names) if name in wanted]


def by_name(name: str) -> BatteryTarget:
    """Return a target."""
    ((_, target),) = _chosen([name])
    return target


def _tried(
    target: BatteryTarget, sampler: Sampler, level: float, max_draws: int, seed: int
) -> dict[str, Any]:
    """Run a sampler on a target and judge its draws."""
    begin = time.perf_counter()
    try:
        # A new model: what the sampler does to it does not concern the judge.
        draws = sampler(target.build(), random_seed=seed)
        seconds = time.perf_counter() - begin
        judged = replace(judge_target(target, draws, level, max_draws, seed), sampling_time=seconds)
    except (Exception, SystemExit) as error:  # whatever a sampler under test may raise
        judged = Judged(NOT_TESTED, reason=f"{type(error).__name__}: {error}")
    return {"trouble": target.trouble, **judged.row()}


def judge_target(
    target: BatteryTarget, draws: Any, level: float, max_draws: int, seed: int
) -> Judged:
    """Judge draws of a target; where it has several modes, half of the level is for them."""
    model = target.model()
    part = level / 2 if target.several_modes else level
    effort = Effort(progressbar=False, client=False)
    with warnings_noted():
        judged = judge_draws(
            target_of(model, None, None, None),
            draws,
            alpha=part,
            max_draws=max_draws,
            random_seed=seed,
            effort=effort,
        )
        if not target.several_modes or judged.status == "rejected":
            return judged
        modes = ksd_modes(
            compile_score(model), draws, alpha=part, random_seed=seed, progressbar=False
        )
    status = status_of(modes)
    if status == "passed" or (status == "cannot tell" and judged.status == "cannot tell"):
        return judged
    p_value = float(modes["p_value"]) if status == "rejected" else judged.p_value
    reason = "Modes are visited in wrong proportions." if status == "rejected" else ""
    reason = reason or str(modes.attrs.get("reason", ""))
    return replace(judged, status=status, p_value=p_value, reason=reason)


def as_dataset(chains: Chains) -> xr.Dataset:
    """Return chains as a dataset."""
    return xr.Dataset(
        {
            name: (("chain", "draw", *(f"{name}_dim_{axis}" for axis in range(a.ndim - 2))), a)
            for name, a in chains.items()
        }
    )


def _table(rows: Mapping[str, Mapping[str, Any]], columns: Iterable[str]) -> pd.DataFrame:
    return pd.DataFrame(list(rows.values()), index=pd.Index(list(rows)), columns=list(columns))
