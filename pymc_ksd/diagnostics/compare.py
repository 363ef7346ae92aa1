"""Samplers beside each other, without a reference run: whose draws are right, and worth most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from pymc_ksd.diagnostics.judged import COLUMNS, NOT_TESTED, REASONS, Judged, judge_draws
from pymc_ksd.diagnostics.prepare import effort_of
from pymc_ksd.diagnostics.results import attributes
from pymc_ksd.diagnostics.score import Score, target_of
from pymc_ksd.engine.walk import Effort
from pymc_ksd.models.target import Target
from pymc_ksd.options import check_alpha, check_count, seeded_generator, warn_user, warnings_noted
from pymc_ksd.samples.containers import holds_draws
from pymc_ksd.samples.stored import holds_gradients


def ksd_compare(
    model: pm.Model | Score | None = None,
    data: Mapping[str, Any] | None = None,
    *,
    alpha: float = 0.05,
    max_draws: int = 20_000,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
) -> pd.DataFrame:
    """Compare samplers of one posterior: whose draws are right, and what they are worth.

    No draws are taken for the truth: each sampler's are held against the posterior itself, as
    :func:`ksd_test` and :func:`ksd_moments` do. The score of the model is prepared once for all.

    Parameters
    ----------
    model : pm.Model, bambi.Model or Score, optional
        The model, by default the one whose context is active, or its compiled score.
    data : mapping of str to DataTree, InferenceData or Dataset
        Draws of every sampler, by its name.
    alpha : float, default 0.05
        Level of the test of each sampler's draws.
    max_draws : int, default 20000
        More draws than these are thinned, which makes them worth less than all of them are.
    random_seed : int or numpy.random.Generator, optional
        Makes the bootstrap repeatable. Draws are tested with the same seed, whatever others there
        are.
    progressbar : bool, default True
        Show a progress bar when the work is long.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``.
    client : distributed.Client or False, optional
        See :func:`ksd_test`.

    Returns
    -------
    pandas.DataFrame
        A row for each sampler, the best first, with the columns

        - ``rank``: 0 for the best, as in ``az.compare``,
        - ``status``: "passed", "cannot tell" or "rejected", as in a report of :func:`ksd_report`;
          or "not tested" where draws could not be read, whatever became of the others,
        - ``p_value``: of the test that decides,
        - ``bias_mean`` and ``bias_mean_of``: by how many posterior standard deviations the worst
          mean is too high, and whose mean it is; infinite if it is proven to be off and too far to
          be measured,
        - ``bias_sd`` and ``bias_sd_of``: by what fraction the worst standard deviation is too
          large, likewise,
        - ``ess_ksd``: how many exact draws would be as far from the posterior,
        - ``ess_per_second``: the same, or the number of draws if it is smaller, for each second of
          sampling, where the draws say how long it took (``sampling_time`` among the attributes of
          the posterior or of the sampling statistics); NaN otherwise,
        - ``n``: the number of draws that were tested, and ``sampling_time``, in seconds,
        - ``reason``: why the test cannot tell or was not made, or why draws and model do not belong
          together.

        Draws that passed come first, then those of which nothing can be told, those that are
        rejected, and those that were not tested; in each of these, draws that are worth more,
        counted up to their number, and among equals those with the smaller errors.
        ``table.attrs`` holds the settings.

    Raises
    ------
    ValueError, TypeError
        If the model cannot be scored, or an option is unknown. What is wrong with the draws of one
        sampler stands in its row.

    Notes
    -----
    Each sampler is tested by itself: among twenty exact ones, one is rejected by chance at level
    0.05. Errors of draws that passed are mostly chance, and the smaller the more draws there are.
    Compare samplers by ``ess_per_second`` only among those that passed: wrong draws can be had in
    any number.

    Examples
    --------
    >>> import numpy as np, pymc as pm, xarray as xr
    >>> import pymc_ksd
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu")
    >>> rng = np.random.default_rng(0)
    >>> def draws(mean):
    ...     return xr.Dataset({"mu": (("chain", "draw"), rng.normal(mean, 1, size=(4, 250)))})
    >>> table = pm.ksd_compare(model, {"shifted": draws(0.3), "exact": draws(0.0)}, random_seed=1)
    >>> table[["rank", "status", "bias_mean"]].round(2)
             rank    status  bias_mean
    exact       0    passed      -0.01
    shifted     1  rejected       0.25
    """
    alpha = check_alpha(alpha)
    max_draws = check_count(max_draws, "max_draws", 100)
    entries = _checked(data)
    effort = effort_of(None, progressbar, client)
    seed, rng = seeded_generator(random_seed)
    if isinstance(seed, str):
        seed = int(rng.integers(2**32))
    # The gradient of the model is made ready unless all draws have theirs beside them.
    without = [draws for _, draws in entries if not holds_gradients(draws)]
    target = target_of(model, None, None, compile_kwargs, [*without, entries[0][1]][0])
    options = {
        "alpha": alpha,
        "max_draws": max_draws,
        "random_seed": seed,
        "compile_kwargs": compile_kwargs,
    }
    judged = {name: _judged(name, target, draws, effort, options) for name, draws in entries}
    ranked = sorted(judged, key=lambda name: judged[name].order())
    rows = [{"rank": rank, **judged[name].row()} for rank, name in enumerate(ranked)]
    table = pd.DataFrame(rows, index=pd.Index(ranked), columns=["rank", *COLUMNS])
    settings = {"target": target.kind, "alpha": alpha, "max_draws": max_draws, "seed": seed}
    table.attrs |= attributes({"result": "ksd_compare", **settings})
    return table


def _checked(data: Any) -> list[tuple[str, Any]]:
    """Return the names of samplers and their draws."""
    if holds_draws(data) or not isinstance(data, Mapping):
        raise TypeError(
            "`data` must be a mapping from the names of samplers to their draws, such as "
            f'{{"nuts": idata, "advi": other}}, got {type(data).__name__}.'
        )
    if not data:
        raise ValueError("`data` must have the draws of at least one sampler, got none.")
    names = [str(name) for name in data]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            "`data` must have names that differ as text, got several entries called "
            f"{', '.join(map(repr, twice))}."
        )
    return list(zip(names, data.values(), strict=True))


def _judged(
    name: str, target: Target, draws: Any, effort: Effort, options: Mapping[str, Any]
) -> Judged:
    """Judge the draws of one sampler; what is wrong with them does not concern others."""
    with warnings_noted() as noted:
        try:
            found = judge_draws(target, draws, effort=effort, **options)
        except REASONS as error:
            found = Judged(NOT_TESTED, reason=str(error))
    for text, kind in noted:
        if text != found.reason:
            warn_user(f"{name}: {text}", kind)
    return found
