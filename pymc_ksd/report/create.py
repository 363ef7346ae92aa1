"""The report on a fitted model: test its draws, check the model, and put all of it together."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_ksd.diagnostics.measured import DrawsResults, diagnose_draws
from pymc_ksd.diagnostics.predictive.check import ksd_ppc
from pymc_ksd.diagnostics.results import attributes
from pymc_ksd.diagnostics.summary import with_measures
from pymc_ksd.models.model_target import resolve_model
from pymc_ksd.options import check_alpha, check_count, renamed_data
from pymc_ksd.report.document import Report
from pymc_ksd.report.explanations import Finding
from pymc_ksd.report.verdict import all_findings, verdict
from pymc_ksd.samples.containers import check_draws, draws_group, with_numbers
from pymc_ksd.samples.draws import DrawsWarning
from pymc_ksd.stats.nulls import fewest_replicates

__all__ = ["LEAST_ALPHA", "ksd_report"]

#: The smallest level that 1,000 replicates can reject at.
LEAST_ALPHA = 0.001
#: Errors that say why a part of the report cannot be had.
_REASONS = (ValueError, TypeError, NotImplementedError)


def ksd_report(
    model: pm.Model | None = None,
    data: Any = None,
    *,
    var_names: str | Sequence[str] | None = None,
    predictive: bool | None = None,
    alpha: float = 0.05,
    num_draws: int | None = None,
    max_draws: int = 20_000,
    title: str | None = None,
    random_seed: int | None = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
    **former: Any,
) -> Report:
    """Check draws and model, and put everything on one page.

    Parameters
    ----------
    model : pm.Model, optional
        The model, by default the one whose context is active.
    data : DataTree, InferenceData or Dataset
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
    **former
        ``idata``, the former name of `data`.

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
    data = renamed_data(data, former, "ksd_report")
    alpha = check_alpha(alpha)
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
    check_draws(data, "data")
    names = _checked_names(var_names, data)
    if random_seed is None:
        random_seed = int(np.random.SeedSequence().generate_state(1)[0])
    shared = {
        "alpha": alpha,
        "random_seed": random_seed,
        "progressbar": progressbar,
        "compile_kwargs": compile_kwargs,
        "client": client,
    }
    parts = _Parts()
    with _recorded(parts):
        _check_draws(parts, model, data, names, max_draws, shared)
        if predictive or (predictive is None and model.observed_RVs):
            _check_model(parts, model, data, least, {**shared, "num_draws": num_draws})
        elif predictive is None:
            parts.notes.append("The model has no observed data to be checked against.")
    if parts.draws is None and parts.check is None:
        raise parts.problems[0]
    return _report(parts, data, title or f"Report on {model.name or 'a fitted model'}", shared)


@dataclass
class _Parts:
    """What a report is made of, as far as it could be had.

    Attributes
    ----------
    draws : DrawsResults, optional
        What was found about the draws.
    summary : pandas.DataFrame, optional
        The table of parameters.
    check : xarray.Dataset, optional
        What was found about the model.
    unchecked : bool
        Whether the model should have been checked and could not.
    problems : list of Exception
        Why draws or model could not be checked.
    notes, missing, warnings : list of str
        What else there is to know, what could not be had, and what was warned of.
    """

    draws: DrawsResults | None = None
    summary: pd.DataFrame | None = None
    check: xr.Dataset | None = None
    unchecked: bool = False
    problems: list[Exception] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _checked_names(var_names: str | Sequence[str] | None, data: Any) -> Sequence[str] | None:
    """Return the names of the table's rows after making sure that draws have them."""
    names = [var_names] if isinstance(var_names, str) else var_names
    if names is not None and not len(names):
        raise ValueError("`var_names` must name at least one variable of `data`, got none.")
    posterior = draws_group(data)
    known = None if posterior is None else with_numbers(posterior)
    unknown = [name for name in names or () if known is not None and name not in known]
    if unknown:
        raise ValueError(
            f"`var_names` must name variables of `data` with numbers, got {', '.join(unknown)}."
        )
    return names


@contextmanager
def _recorded(parts: _Parts) -> Iterator[None]:
    """Take warnings about draws into the report, and hand others on."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if issubclass(warning.category, DrawsWarning):
            parts.warnings.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def _check_draws(
    parts: _Parts,
    model: pm.Model,
    data: Any,
    names: Sequence[str] | None,
    max_draws: int,
    shared: Mapping[str, Any],
) -> None:
    """Test and measure the draws, and make the table."""
    draws, thinned = _thinned(data, max_draws)
    if thinned:
        parts.notes.append(thinned)
    try:
        parts.draws = diagnose_draws(model, draws, **shared)
    except _REASONS as error:
        parts.problems.append(error)
        parts.missing.append(f"The draws were not tested: {error}")
        return
    try:
        parts.summary = with_measures(parts.draws.measures, draws, names)
    except _REASONS as error:
        parts.missing.append(f"There is no summary table: {error}")


def _check_model(
    parts: _Parts, model: pm.Model, data: Any, least: int, options: Mapping[str, Any]
) -> None:
    """Check whether the model explains its data."""
    try:
        _check_possible(model, draws_group(data), least, options["alpha"])
        parts.check = ksd_ppc(model, data, **options)
    except _REASONS as error:
        parts.problems.append(error)
        parts.unchecked = True
        parts.missing.append(f"The model was not checked against its data: {error}")


def _report(parts: _Parts, data: Any, title: str, shared: Mapping[str, Any]) -> Report:
    """Put everything together."""
    found = parts.draws
    test, measures, evolution = (
        (None, None, None) if found is None else (found.test, found.measures, found.evolution)
    )
    findings = all_findings(test, measures, evolution, parts.check, data)
    findings += [Finding("warning", message) for message in dict.fromkeys(parts.warnings)]
    settings = {"alpha": shared["alpha"], "seed": shared["random_seed"]}
    if test is not None:
        settings |= {"draws": int(test.attrs["n"]), "chains": int(test.attrs["n_chains"])}
        settings |= {name: test.attrs[name] for name in ("kernel", "scale", "null")}
    return Report(
        title,
        verdict(test, parts.check, findings, unchecked=parts.unchecked),
        tuple(findings),
        test,
        measures,
        evolution,
        parts.summary,
        parts.check,
        tuple(parts.notes),
        tuple(parts.missing),
        {**settings, **attributes({})},
    )


def _thinned(data: Any, max_draws: int) -> tuple[Any, str]:
    """Return draws of which there are not too many, and a note about it."""
    posterior = draws_group(data)
    if posterior is None or not {"chain", "draw"} <= set(posterior.dims):
        return data, ""  # the test says what is wrong
    n = posterior.sizes["chain"] * posterior.sizes["draw"]
    step = -(-n // max_draws)
    if step == 1:
        return data, ""
    return (
        posterior.isel(draw=slice(None, None, step)),
        f"Of {n:,} draws one in {step} was used, except for ArviZ's warnings. "
        "ksd_test(model, data) uses all of them.",
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
