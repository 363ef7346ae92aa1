r"""Does a fitted model explain its data? The realised discrepancy against that of replicated data.

For draws :math:`\theta_s` of the posterior, replicated data :math:`\tilde y_s` come from the model.
The discrepancy :math:`T(y, \theta_s)` is a U-statistic of the Stein kernel of the residuals given
:math:`\theta_s`, times a kernel of covariates; the p-value is the share of draws with
:math:`T(\tilde y_s, \theta_s) \ge T(y, \theta_s)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_ksd.diagnostics.predictive.comparisons import find_comparisons
from pymc_ksd.diagnostics.predictive.discrepancies import Fitted, check_variable
from pymc_ksd.diagnostics.prepare import Comparing, check_circular, effort_of
from pymc_ksd.diagnostics.results import attributes, conclusion, contribution_name
from pymc_ksd.diagnostics.status import status_of_check
from pymc_ksd.models.bambi_models import bambi_parameters
from pymc_ksd.models.belonging import belonging
from pymc_ksd.models.data_lengths import data_behind, explain_lengths
from pymc_ksd.models.lattice import kind_of_outcome
from pymc_ksd.models.model_target import resolve_model
from pymc_ksd.models.observed.fitted import fitted_densities, observed_variables
from pymc_ksd.models.observed.potentials import check_potentials
from pymc_ksd.options import check_alpha, check_count, renamed_data, seeded_generator, warn_user
from pymc_ksd.samples.belonging import model_draws
from pymc_ksd.samples.containers import draws_group
from pymc_ksd.samples.draws import DrawsWarning, check_together
from pymc_ksd.samples.posterior import Given, given_values
from pymc_ksd.stats.nulls import fewest_replicates
from pymc_ksd.stein.bandwidths import check_bandwidth
from pymc_ksd.stein.custom_kernels import get_kernel
from pymc_ksd.stein.kernels import Kernel

#: Bandwidths of residuals that are tested side by side, in units of the first.
_MULTIPLES = (1.0, 2.0)


def ksd_ppc(
    model: pm.Model | None = None,
    data: Any = None,
    *,
    var_names: str | Sequence[str] | None = None,
    covariates: Any = "auto",
    num_draws: int = 200,
    sample_dims: str | Sequence[str] | None = None,
    kernel: str | Kernel | Callable[..., Any] | None = None,
    bandwidth: str | float | ArrayLike = "auto",
    alpha: float = 0.05,
    block_size: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
    **former: Any,
) -> xr.Dataset:
    r"""Check whether a fitted model fits its own data, and where it does not.

    A posterior predictive check: for draws :math:`\theta_s` of the posterior, the kernelized Stein
    discrepancy between the observations and their distribution given :math:`\theta_s` is held
    against that of data replicated from it. Each observation has its own score, or, for counts, its
    own rates of steps up and down.

    Parameters
    ----------
    model : pm.Model or bambi.Model, optional
        The model, by default the one whose context is active.
    data : DataTree, InferenceData or Dataset, optional
        Draws of the posterior. Not needed when the model has no free variables.
    var_names : str or sequence of str, optional
        Observed variables to check, all by default. Each is checked given the others. Beside a
        ``pm.Potential`` of the same parameters a variable is checked only if it is named here,
        because that is right only if the Potential stands for no data.
    covariates : "auto", None, array_like, DataFrame, str, sequence of str or mapping
        What observations are compared by beside their residuals. By default the inputs found in the
        model's graph with one row for each observation, and the distribution's own parameters at
        the same draw, each unless they have more than 12 columns; of paths also time and past.
        Inputs that others are indexed by are groups. Or an array, DataFrame or Dataset with one row
        for each observation (columns of text are groups), names of ``pm.Data``, or, by the names of
        observed variables, one of these for each. None compares residuals alone.
    num_draws : int, default 200
        Number of draws of the posterior, chosen at random; all, if there are fewer.
    sample_dims : str or sequence of str, optional
        Dims of an observed variable that count observations, by default its first axis.
    kernel : str, Kernel or callable, optional
        Kernel of the residuals, see :func:`ksd_test`, by default ``"rbf"``. A kernel or a bandwidth
        that is named is the only one.
    bandwidth : {"auto", "dimension", "median"}, float or array_like, default "auto"
        Its bandwidth: the square root of an outcome's dimension, because residuals have scale 1,
        the median distance between residuals, a number, or several that are joined. By default
        the first, and twice as much beside it.
    alpha : float, default 0.05
        Level below which a p-value counts as a misfit, for conclusions and plots.
    block_size : int, optional
        Observations that are compared at a time. Changes speed and memory, never the result.
    random_seed : int or numpy.random.Generator, optional
        Makes the check repeatable.
    progressbar : bool, default True
        Show a progress bar when the work is long.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``, such as ``{"mode": "NUMBA"}``.
    client : distributed.Client or False, optional
        See :func:`ksd_test`.
    **former
        ``idata``, the former name of `data`.

    Returns
    -------
    xarray.Dataset
        With variables

        - ``p_value``: :math:`(1 + \#\{T(\tilde y_s, \theta_s) \ge T(y, \theta_s)\}) / (1 + S)`,
        - ``observed``, ``replicated``: the paired discrepancies over the dim ``sample``, the
          largest over all members in standard deviations of the replicated ones, where half of
          what residuals alone show is taken out of members by covariates, and those by the shorter
          distance count 0.85 times as much,
        - ``comparison_p_value``: the p-value of each comparison's own members, over ``comparison``
          (``"residuals"``, ``"parameters"``, ``"past: ..."``, ``"inputs"``, ``"groups"``,
          ``"inputs within groups"``, ``"covariates"``); ``comparison_excess``: by how many standard
          deviations the observed discrepancies are larger, at the most,
        - ``observed_statistic``, ``replicated_statistic``: the U-statistics of all members, over
          ``member``: each comparison with each kernel of the residuals, of bandwidth
          ``member_bandwidth``, and each bandwidth of covariates, ``member_width`` times their
          median distance; ``member_p_value``, ``member_excess``: the same of every member alone,
        - for each observed variable, under its own name and dims, what every observation adds to
          the member named in ``contributions_member``, of the comparison ``contributions_of``, on
          average over draws; NaN where an observation is missing,
        - for outcomes of one dimension, ``witness`` over ``residual`` and
          ``covariate_witness`` over ``covariate``, ``position`` and ``level``, with the bounds
          ``witness_band`` and ``covariate_witness_band`` of replicated data, see
          :func:`plot_ksd_witness`,
        - ``marked_from``, ``marked_to``, ``marked_as``: the stretches of ``picture_along`` where
          data and model disagree, and what the data are there ("larger", "smaller", "wider",
          "narrower", "more", "fewer" or "different"); NaN unless the check rejects. Of values the
          first and the last stretch reach to the furthest of all,
        - ``picture_...``: what :func:`plot_ksd_ppc` shows, of up to 1,000 observations: outcomes,
          quantiles of replicated ones, the names of those that contribute most, along what,
          ``picture_within`` which group if it is a single one;
          ``picture_strength``: how far the furthest place is off, where 1 is what 95 % of
          replicated data do not exceed anywhere.

        With several observed variables all but the contributions have a dim ``variable``. The
        attribute ``status`` is "rejected" if any of them is, "cannot tell" with a ``reason`` where
        there are fewer draws than the level needs, or draws and model do not belong together, and
        otherwise "passed". The attribute ``compared_by`` names the covariates of every comparison,
        and which of them are groups, because others are indexed by them; ``outcome`` says whether
        the variable is "continuous", a "count", "binary" or a "category". Of more than 7,000
        observations only those in the same of ``n_parts`` random parts are compared. The attribute
        ``left_out`` has a line for every observed variable that
        cannot be checked, with the reason; it is missing if there is none.

    Raises
    ------
    ValueError, TypeError
        If no observed variable, or not every one in `var_names`, can be checked: it is a single
        number or vector, or without a score. If draws are missing or do not belong to the model, or
        if an option is unknown.

    Notes
    -----
    Like every posterior predictive check it is conservative: the data have been used to fit the
    model, so p-values of true models gather around one half.

    Variables that are not a sample by themselves are taken apart. A path (``AR``, random walks,
    ``GARCH11``, ``EulerMaruyama``) is compared by its steps, a single ``MvNormal`` (a marginal GP),
    ``MvStudentT``, ``KroneckerNormal`` or ``CAR`` vector by its elements, each given those before
    it, and also by the residuals one and two steps before, and by time or place. A single
    ``Multinomial`` or ``DirichletMultinomial`` vector is compared by its items. Values hidden by
    ``Censored`` are drawn from the model beyond their bounds, in data and replicates alike. Of a
    hurdle, or a mixture with one atom, whether values are at the atom is checked as
    ``<name>_zero`` or ``<name>_atom``, and the others under the variable's own name.

    Examples
    --------
    >>> import numpy as np, pymc as pm, xarray as xr
    >>> import pymc_ksd
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-2, 2, size=150)
    >>> y = x**2 + rng.normal(size=150)
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 10)
    ...     outcome = pm.Normal("y", 1 + slope * x, 1.6, observed=y)
    >>> draws = rng.normal(x @ (y - 1) / (x @ x), 0.11, size=(4, 100))
    >>> posterior = xr.Dataset({"slope": (("chain", "draw"), draws)})
    >>> check = pm.ksd_ppc(model, posterior, num_draws=50, random_seed=1)
    >>> bool(check["p_value"] <= 0.05)
    True
    """
    data = renamed_data(data, former, "ksd_ppc")
    how = _comparing(kernel, bandwidth, compile_kwargs)
    base_kernel = how.kernel
    alpha = check_alpha(alpha)
    num_draws = check_count(num_draws, "num_draws", 2)
    effort = effort_of(block_size, progressbar, client)
    parameters, model = bambi_parameters(model), resolve_model(model)
    stored = None if data is None else draws_group(data)
    observed = None if data is None else draws_group(data, "observed_data")
    mismatch = check_together(belonging(model), stored, parameters, observed)
    data = model_draws(data, parameters)
    seed, rng = seeded_generator(random_seed)
    # Every variable is checked with the same draws.
    draws_seed = int(rng.integers(2**32))
    checks: list[xr.Dataset] = []
    failures: dict[str, ValueError] = {}
    for rv in observed_variables(model, var_names):
        name, behind = str(rv.name), data_behind(model, [rv])
        with _noted(failures, name), explain_lengths(behind):
            check_potentials(model, rv, is_named=var_names is not None)
            densities = fitted_densities(model, rv, sample_dims, compile_kwargs)
            for density in densities:
                check_circular(density.circular, base_kernel)
        if name in failures:
            continue
        for density in densities:
            draws_rng = np.random.default_rng(draws_seed)
            given = given_values(model, density.given, data, num_draws, draws_rng)
            _check_number(given, alpha, warn=not checks)
            with _noted(failures, name), explain_lengths(behind):
                comparisons = find_comparisons(model, density, given, covariates)
                fitted = Fitted(density, given, comparisons)
                check = check_variable(fitted, how, effort, alpha, rng)
                checks.append(check.assign_attrs(outcome=kind_of_outcome(rv)))
    left_out = _left_out(failures, has_checks=bool(checks), is_asked_for=var_names is not None)
    settings = {"kernel": base_kernel, "alpha": alpha, "seed": seed, "left_out": left_out}
    return _together(checks, settings, mismatch)


def _comparing(
    kernel: str | Kernel | Callable[..., Any] | None,
    bandwidth: Any,
    compile_kwargs: Mapping[str, Any] | None,
) -> Comparing:
    """Check how residuals are to be compared."""
    base = get_kernel("rbf" if kernel is None else kernel)
    check_bandwidth(base, bandwidth)
    is_auto = isinstance(bandwidth, str) and bandwidth == "auto"
    multiples = _MULTIPLES if is_auto and kernel is None else (1.0,)
    rule = "dimension" if is_auto else bandwidth
    return Comparing(base, rule, None, compile_kwargs, side_by_side=True, multiples=multiples)


@contextmanager
def _noted(failures: dict[str, ValueError], name: str) -> Iterator[None]:
    """Note why a variable cannot be checked, so that others still can be."""
    try:
        yield
    except ValueError as error:
        failures[name] = error


def _left_out(
    failures: Mapping[str, ValueError], *, has_checks: bool, is_asked_for: bool
) -> list[str]:
    """Say which variables are left out and why; an error if none is left, or all were asked for."""
    reasons = [f"{name}: {error}" for name, error in failures.items()]
    if len(failures) > 1 and not has_checks:
        raise ValueError(
            f"None of the observed variables can be checked. {' '.join(reasons)}"
        ) from next(iter(failures.values()))
    if failures and (is_asked_for or not has_checks):
        raise next(iter(failures.values()))
    if failures:
        names = ", ".join(map(repr, failures))
        warn_user(f"Not checked: {names}. {' '.join(reasons)}", UserWarning)
    return reasons


def _check_number(given: Sequence[Given], alpha: float, *, warn: bool) -> None:
    """Refuse a single draw, and say it when there are too few for the level."""
    if len(given) < 2:
        raise ValueError(f"`data` must have at least 2 draws, got {len(given)}.")
    if warn and 1 / (1 + len(given)) > alpha:
        warn_user(
            f"With {len(given)} draws no p-value is below 1/{len(given) + 1}, so no model can be "
            f"rejected at level {alpha:g}: use {fewest_replicates(alpha):,} draws or more.",
            DrawsWarning,
        )


def _together(
    checks: Sequence[xr.Dataset], options: Mapping[str, Any], mismatch: str
) -> xr.Dataset:
    """Return the result for all observed variables, with conclusions and settings."""
    names = [check.attrs["variable"] for check in checks]
    p_values = [float(check["p_value"]) for check in checks]
    n_draws = len(checks[0]["sample"])
    status, reason = status_of_check(p_values, options["alpha"], n_draws, mismatch)
    settings = {
        "result": "ksd_ppc",
        "status": status,
        "reason": reason,
        "mismatch": mismatch,
        "target": "fitted",
        "kernel": options["kernel"],
        "bandwidth": np.unique(np.concatenate([check.attrs["bandwidth"] for check in checks])),
        "alpha": options["alpha"],
        "num_draws": n_draws,
        "compared_by": _by_variable(checks, names, "compared_by"),
        "outcome": _by_variable(checks, names, "outcome"),
        "n_parts": max(check.attrs["n_parts"] for check in checks),
        "seed": options["seed"],
    }
    told = [
        conclusion(check.assign_coords(variable=name).assign_attrs(settings))
        for check, name in zip(checks, names, strict=True)
    ]
    if options["left_out"]:
        settings["left_out"] = "\n".join(options["left_out"])
        told += [f"Not checked: {reason}" for reason in options["left_out"]]
    attrs = attributes({"conclusion": " ".join(told), **settings})
    return _joined(checks, names).assign_attrs(attrs)


def _by_variable(checks: Sequence[xr.Dataset], names: Sequence[str], attribute: str) -> str:
    """Return an attribute of every variable, a line for each of several."""
    told = [str(check.attrs[attribute]) for check in checks]
    if len(told) == 1:
        return told[0]
    return "\n".join(f"{name}: {own}" for name, own in zip(names, told, strict=True))


def _joined(checks: Sequence[xr.Dataset], names: Sequence[str]) -> xr.Dataset:
    """Join the results of several observed variables along a dim ``variable``."""
    if len(checks) == 1:
        return checks[0].drop_attrs(deep=False).assign_coords(variable=names[0])
    kept = [contribution_name(name) for name in names]
    shared = [
        check.drop_vars([own, *(dim for dim in check[own].dims if dim in check.coords)])
        for check, own in zip(checks, kept, strict=True)
    ]
    labels = xr.IndexVariable("variable", names)
    joined = xr.concat(
        shared,
        dim=labels,
        join="outer",
        combine_attrs="drop",
        data_vars="all",
        coords="minimal",
        compat="override",
        fill_value={name: "" for name in checks[0] if checks[0][name].dtype.kind in "UO"},
    )
    parts = [check[own] for check, own in zip(checks, kept, strict=True)]
    return xr.merge([joined, *parts], combine_attrs="drop")
