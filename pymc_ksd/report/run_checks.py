"""The report on a fitted model: test its draws, check the model, and put all of it together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_ksd.diagnostics.judged import deciding
from pymc_ksd.diagnostics.measured import DrawsResults, diagnose_draws
from pymc_ksd.diagnostics.modes import ksd_modes, modes_if_cheap
from pymc_ksd.diagnostics.predictive.check import ksd_ppc
from pymc_ksd.diagnostics.results import attributes
from pymc_ksd.diagnostics.summary import with_moments
from pymc_ksd.models.model_target import resolve_model
from pymc_ksd.options import (
    check_alpha,
    check_count,
    positive_number,
    renamed_data,
    warnings_noted,
)
from pymc_ksd.report.convergence import worst_numbers
from pymc_ksd.report.explanations import explain
from pymc_ksd.report.findings import Finding
from pymc_ksd.report.report import Report
from pymc_ksd.report.verdict import (
    all_findings,
    below_verdict,
    verdict,
    why_untold,
    with_modes,
)
from pymc_ksd.samples.containers import (
    check_draws,
    draws_group,
    number_of_draws,
    thinned,
    with_numbers,
)
from pymc_ksd.samples.draws import DrawsWarning
from pymc_ksd.stats.nulls import fewest_replicates

#: The smallest level.
LEAST_ALPHA = 0.001
#: Errors that say why a part of the report cannot be had.
_REASONS = (ValueError, TypeError, NotImplementedError)


def ksd_report(
    model: pm.Model | None = None,
    data: Any = None,
    *,
    var_names: str | Sequence[str] | None = None,
    predictive: bool | None = None,
    modes: bool | None = None,
    alpha: float = 0.05,
    margin: float | None = None,
    num_draws: int | None = None,
    max_draws: int = 20_000,
    title: str | None = None,
    random_seed: int | None = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
    **former: Any,
) -> Report:
    """Test the draws, check the model, and report everything on one page.

    Parameters
    ----------
    model : pm.Model or bambi.Model, optional
        The model, by default the one whose context is active.
    data : DataTree, InferenceData or Dataset
        A sampler's draws of the posterior.
    var_names : str or sequence of str, optional
        Rows of the summary table, by default all free variables. Tests are always those of the
        whole posterior.
    predictive : bool, optional
        Check with :func:`ksd_ppc` whether the model explains its data, by default if it has any.
    modes : bool, optional
        Look for modes with :func:`ksd_modes`, and test whether the draws visit them in the right
        proportions. This takes some thousands of log densities; by default it is done if there are
        at most 50 unconstrained coordinates and a log density computes at most 50,000 numbers,
        which takes seconds, and shown if there are several modes.
    alpha : float, default 0.05
        Level, at least 0.001: of the test of the draws (:func:`ksd_test`), which joins kernels and
        moments, and of the predictive check of each observed variable. Means and standard
        deviations by themselves (:func:`ksd_moments`) are tested at half of it, their part of the
        joined test. Where several modes are found, half of the level is for them.
    margin : float, optional
        Let a certificate decide about the draws, at level `alpha`: that every mean is within this
        many posterior standard deviations of the posterior's, and every standard deviation within
        this fraction. See :func:`ksd_moments`.
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
        Displayed in notebooks; ``report.save("report.html")`` writes a self-contained page,
        ``report.verdict`` has the conclusion and the next step, ``report.status`` is "passed",
        "rejected" or "cannot tell", and ``report.reason`` says why it cannot tell.

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
            f"`alpha` must be at least {LEAST_ALPHA:g}, because smaller p-values take more "
            f"replicates than a report has, got {alpha:g}."
        )
    margin = None if margin is None else positive_number(margin, "margin")
    max_draws = check_count(max_draws, "max_draws", 100)
    least = max(2, fewest_replicates(alpha))
    num_draws = max(200, least) if num_draws is None else num_draws
    num_draws = check_count(num_draws, "num_draws", least)
    pymc_model = resolve_model(model)
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
    found = _Found()
    with warnings_noted() as noted:
        few = _few_enough(found, data, max_draws)
        _look_for_modes(found, model, few, modes, shared)
        _test_draws(found, model, few, names, margin, shared)
        if predictive or (predictive is None and pymc_model.observed_RVs):
            _check_model(found, model, data, least, {**shared, "num_draws": num_draws})
        elif predictive is None:
            found.notes.append("The model has no observed data to be checked against.")
    # Observed variables that were left out are warned of, too, and stand among what is missing.
    found.warnings = [text for text, kind in noted if issubclass(kind, DrawsWarning)]
    if found.draws is None and found.check is None:
        raise found.problems[0]
    return _report(found, data, title or f"Report on {pymc_model.name or 'a fitted model'}", shared)


@dataclass
class _Found:
    """What the checks found, as far as they could be made.

    Attributes
    ----------
    draws : DrawsResults, optional
        What was found about the draws.
    moments : xarray.Dataset, optional
        Which of their means and standard deviations are off.
    modes : xarray.Dataset, optional
        Whether they visit modes in the right proportions.
    summary : pandas.DataFrame, optional
        The table of parameters.
    check : xarray.Dataset, optional
        What was found about the model.
    unchecked : bool
        Whether the model should have been checked and could not be.
    untested : list of str
        What could not be tested or checked, and why.
    problems : list of Exception
        Why draws or model could not be checked.
    notes, missing, warnings : list of str
        What else there is to know, what else could not be had, and what is to be warned of.
    """

    draws: DrawsResults | None = None
    moments: xr.Dataset | None = None
    modes: xr.Dataset | None = None
    summary: pd.DataFrame | None = None
    check: xr.Dataset | None = None
    unchecked: bool = False
    untested: list[str] = field(default_factory=list)
    problems: list[Exception] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _checked_names(var_names: str | Sequence[str] | None, data: Any) -> Sequence[str] | None:
    """Return the names of the table's rows after making sure that draws have them."""
    names = [var_names] if isinstance(var_names, str) else var_names
    if names is None:
        return None
    if not len(names):
        raise ValueError("`var_names` must name at least one variable of `data`, got none.")
    posterior = draws_group(data)
    known = names if posterior is None else with_numbers(posterior)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"`var_names` must name numeric variables of `data`, got {', '.join(unknown)}."
        )
    return names


def _few_enough(found: _Found, data: Any, max_draws: int) -> Any:
    """Return the draws, thinned where they are many."""
    n = number_of_draws(draws_group(data))
    if n is None or n <= max_draws:
        return data
    step = -(-n // max_draws)
    found.notes.append(
        f"One in {step} of the {n:,} draws was used, except for ArviZ's diagnostics. "
        "ksd_test(model, data) uses all of them."
    )
    return thinned(data, step)


def _test_draws(
    found: _Found,
    model: pm.Model,
    data: Any,
    names: Sequence[str] | None,
    margin: float | None,
    shared: Mapping[str, Any],
) -> None:
    """Test and measure the draws, and make the table."""
    # The test joins kernels and moments, of which either has half of the level; a certificate
    # decides alone. Visits of modes are tested where there are several.
    has_modes = found.modes is not None and found.modes.sizes["mode"] > 1
    alpha = shared["alpha"] / (2 if has_modes else 1)
    level = alpha / 2 if margin is None else shared["alpha"]
    try:
        found.draws = diagnose_draws(model, data, **{**shared, "alpha": alpha})
    except _REASONS as error:
        found.problems.append(error)
        found.untested.append(f"The draws were not tested: {error}")
        return
    try:
        found.moments = found.draws.moments(data, level, margin)
    except _REASONS as error:
        found.untested.append(f"Means and standard deviations were not tested: {error}")
        return
    if margin is None:
        found.notes.append(_levels(found.draws.test, alpha, level))
    try:
        shown = found.moments
        if names is not None:
            shown = found.draws.moments(data, level, var_names=names)
        found.summary = with_moments(shown, data, names)
    except _REASONS as error:
        found.missing.append(f"There is no summary table: {error}")


def _levels(test: xr.Dataset, alpha: float, level: float) -> str:
    """Say how the level of what is told about draws is shared."""
    if float(test.attrs["alpha"]) < alpha:
        return (
            f"The draws are tested by kernels and by their means and standard deviations, each at "
            f"level {level:g}; the level of both together is {alpha:g}."
        )
    return (
        f"The test of the draws, at level {alpha:g}, combines kernels that compare whole "
        "distributions with a test of means and standard deviations. By themselves, means and "
        f"standard deviations are tested at level {level:g}."
    )


def _look_for_modes(
    found: _Found, model: pm.Model, data: Any, wanted: bool | None, shared: Mapping[str, Any]
) -> None:
    """Look for modes, and test whether draws visit them as they should."""
    options = {key: value for key, value in shared.items() if key != "client"}
    options["alpha"] = shared["alpha"] / 2
    if wanted is None:
        found.modes = modes_if_cheap(model, data, **options)
    elif wanted:
        try:
            found.modes = ksd_modes(model, data, **options)
        except _REASONS as error:
            found.untested.append(f"Modes were not looked for: {error}")


def _check_model(
    found: _Found, model: pm.Model, data: Any, least: int, options: Mapping[str, Any]
) -> None:
    """Check whether the model explains its data, unless the check could not reject anything."""
    n, alpha = number_of_draws(draws_group(data)), options["alpha"]
    try:
        if not resolve_model(model).observed_RVs:
            raise ValueError("it has no observed data.")
        if n is not None and n < least:
            raise ValueError(
                f"{n} draws cannot reject at level {alpha:g}; {least:,} or more are needed."
            )
        found.check = ksd_ppc(model, data, **options)
    except _REASONS as error:
        found.problems.append(error)
        found.unchecked = True
        found.untested.append(f"The model was not checked against its data: {error}")
        return
    for reason in str(found.check.attrs.get("left_out", "")).splitlines():
        found.unchecked = True
        found.untested.append(f"The model was not checked against {reason}")


def _report(found: _Found, data: Any, title: str, shared: Mapping[str, Any]) -> Report:
    """Put everything together."""
    findings = all_findings(found.draws, found.moments, found.check, data)
    findings += () if found.modes is None else explain(found.modes).findings
    told = " ".join(text for one in findings for text in (one.headline, *one.details))
    findings += [
        Finding("warning", text) for text in dict.fromkeys(found.warnings) if text not in told
    ]
    settings = {"alpha": shared["alpha"], "seed": shared["random_seed"]}
    test = measures = evolution = None
    if found.draws is not None:
        test, measures, evolution = found.draws.test, found.draws.measures, found.draws.evolution
        settings |= {"draws": int(test.attrs["n"]), "chains": int(test.attrs["n_chains"])}
        settings |= {name: test.attrs[name] for name in ("kernel", "scale", "null")}
    decides = deciding(test, found.moments)
    untold = why_untold(decides, found.check, found.modes)
    worst = worst_numbers(data) if why_untold(decides) else ""
    unchecked = found.unchecked
    concluded = verdict(
        test, found.moments, found.check, findings, unchecked=unchecked, worst=worst
    )
    return Report(
        title,
        with_modes(concluded, found.modes),
        tuple(map(below_verdict, findings)),
        test,
        found.moments,
        measures,
        evolution,
        found.summary,
        found.check,
        tuple(found.notes),
        (*found.untested, *found.missing),
        " ".join([*untold, *found.untested]),
        {**settings, **attributes({})},
        found.modes,
    )
