"""The report on a fitted model: test its draws, check the model, and put all of it together."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pymc as pm

from pymc_ksd.draws import DrawsWarning, check_draws, posterior_dataset, with_numbers
from pymc_ksd.explanations import Finding
from pymc_ksd.goodness_of_fit import check_alpha, check_count, ksd_test
from pymc_ksd.nulls import fewest_replicates
from pymc_ksd.predictive_check import ksd_ppc
from pymc_ksd.report import Report
from pymc_ksd.results import attributes
from pymc_ksd.sampler_quality import ksd, ksd_evolution
from pymc_ksd.score import compile_score, resolve_model
from pymc_ksd.summary_table import with_measures
from pymc_ksd.verdict import all_findings, verdict

__all__ = ["LEAST_ALPHA", "ksd_report"]

#: The smallest level that 1,000 replicates can reject at.
LEAST_ALPHA = 0.001
#: Errors that say why a part of the report cannot be had.
_REASONS = (ValueError, TypeError, NotImplementedError)


def ksd_report(
    model: pm.Model | None = None,
    idata: Any = None,
    *,
    var_names: str | Sequence[str] | None = None,
    predictive: bool | None = None,
    alpha: float = 0.05,
    num_draws: int | None = None,
    max_draws: int = 20_000,
    title: str | None = None,
    random_seed: int | None = 0,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
) -> Report:
    """Check draws and model, and put everything on one page.

    Parameters
    ----------
    model : pm.Model, optional
        The model, by default the one whose context is active.
    idata : DataTree, InferenceData or Dataset
        A sampler's draws of the posterior.
    var_names : str or sequence of str, optional
        Rows of the summary table, by default all free variables. Tests are always those of the
        whole posterior.
    predictive : bool, optional
        Check with :func:`ksd_ppc` whether the model explains its data, by default if it has any.
    alpha : float, default 0.05
        Level of each test, at least 0.001: p-values of 1,000 replicates cannot be smaller.
    num_draws : int, optional
        Draws for the predictive check, by default 200 or as many as the level needs.
    max_draws : int, default 20000
        More draws are thinned to about this many.
    title : str, optional
        Title of the page.
    random_seed : int, optional
        Makes the report repeatable.
    progressbar : bool, default True
        Show a progress bar when the work is long.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``.
    client : distributed.Client or False, optional
        See :func:`ksd_test`.

    Returns
    -------
    Report
        Shows itself in a notebook; ``report.save("report.html")`` writes a page that needs nothing
        else, ``report.verdict`` has the conclusion.

    Raises
    ------
    ValueError, TypeError
        If neither the draws nor the model can be checked, or an option is unknown.

    Examples
    --------
    >>> import numpy as np, pymc as pm, xarray as xr
    >>> import pymc_ksd
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu")
    >>> values = np.random.default_rng(0).normal(0.5, 1, size=(4, 250))  # wrong mean
    >>> draws = xr.Dataset({"mu": (("chain", "draw"), values)})
    >>> report = pymc_ksd.ksd_report(model, draws)
    >>> report.rejected
    True
    """
    check_alpha(alpha)
    if alpha < LEAST_ALPHA:
        raise ValueError(
            f"`alpha` must be at least {LEAST_ALPHA:g}, because p-values of 1,000 replicates "
            f"cannot be smaller, got {alpha:g}."
        )
    max_draws = check_count(max_draws, "max_draws", 100)
    least = max(2, fewest_replicates(alpha))
    num_draws = max(200, least) if num_draws is None else num_draws
    num_draws = check_count(num_draws, "num_draws", least)
    model = resolve_model(model)
    check_draws(idata, "idata")
    names = [var_names] if isinstance(var_names, str) else var_names
    posterior = posterior_dataset(idata)
    if names is not None and not len(names):
        raise ValueError("`var_names` must name at least one variable of `idata`, got none.")
    known = None if posterior is None else with_numbers(posterior)
    unknown = [name for name in names or () if known is not None and name not in known]
    if unknown:
        raise ValueError(
            f"`var_names` must name variables of `idata` with numbers, got {', '.join(unknown)}."
        )
    notes, missing = [], []
    draws, thinned = _thinned(idata, max_draws)
    if thinned:
        notes.append(thinned)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problems: list[Exception] = []
        shared = {
            "random_seed": random_seed,
            "progressbar": progressbar,
            "compile_kwargs": compile_kwargs,
            "client": client,
        }
        test = measures = evolution = summary = check = None
        unchecked = False
        try:
            score = compile_score(model, compile_kwargs=compile_kwargs)
            test = ksd_test(score, draws, alpha=alpha, **shared)
            shared["random_seed"] = 0 if random_seed is None else random_seed
            measures = ksd(score, draws, **shared)
            evolution = ksd_evolution(score, draws, **shared)
        except _REASONS as error:
            test = None
            problems.append(error)
            missing.append(f"The draws were not tested: {error}")
        if measures is not None:
            try:
                summary = with_measures(measures, draws, names)
            except _REASONS as error:
                missing.append(f"There is no summary table: {error}")
        if predictive or (predictive is None and model.observed_RVs):
            try:
                _check_possible(model, posterior, least, alpha)
                check = ksd_ppc(
                    model,
                    idata,
                    alpha=alpha,
                    num_draws=num_draws,
                    random_seed=random_seed,
                    progressbar=progressbar,
                    compile_kwargs=compile_kwargs,
                )
            except _REASONS as error:
                problems.append(error)
                unchecked = True
                missing.append(f"The model was not checked against its data: {error}")
        elif predictive is None:
            notes.append("The model has no observed data to be checked against.")
    if test is None and check is None:
        raise problems[0]
    findings = all_findings(test, measures, evolution, check, idata)
    told = dict.fromkeys(
        str(warning.message) for warning in caught if issubclass(warning.category, DrawsWarning)
    )
    findings += [Finding("warning", message) for message in told]
    for warning in caught:
        if not issubclass(warning.category, DrawsWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    settings = {"alpha": float(alpha), "seed": random_seed}
    if test is not None:
        settings |= {"draws": int(test.attrs["n"]), "chains": int(test.attrs["n_chains"])}
        settings |= {name: test.attrs[name] for name in ("kernel", "scale", "null")}
    return Report(
        title or f"Report on {model.name or 'a fitted model'}",
        verdict(test, check, findings, unchecked=unchecked),
        tuple(findings),
        test,
        measures,
        evolution,
        summary,
        check,
        tuple(notes),
        tuple(missing),
        {**settings, **attributes({})},
    )


def _thinned(idata: Any, max_draws: int) -> tuple[Any, str]:
    """Return draws of which there are not too many, and a note about it."""
    posterior = posterior_dataset(idata)
    if posterior is None or not {"chain", "draw"} <= set(posterior.dims):
        return idata, ""  # the test says what is wrong
    n = posterior.sizes["chain"] * posterior.sizes["draw"]
    step = -(-n // max_draws)
    if step == 1:
        return idata, ""
    return (
        posterior.isel(draw=slice(None, None, step)),
        f"Of {n:,} draws one in {step} was used, except for ArviZ's warnings. "
        "ksd_test(model, idata) uses all of them.",
    )


def _check_possible(model: pm.Model, posterior: Any, least: int, alpha: float) -> None:
    """Refuse a predictive check that could not reject whatever the data."""
    if not model.observed_RVs:
        raise ValueError("it has no observed data.")
    if posterior is None or not {"chain", "draw"} <= set(posterior.dims):
        return  # the check says what is wrong
    n = posterior.sizes["chain"] * posterior.sizes["draw"]
    if n < least:
        raise ValueError(f"{n} draws cannot reject at level {alpha:g}; it takes {least:,} or more.")
