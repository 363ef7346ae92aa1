r"""Does a fitted model explain its data? The realised discrepancy against that of replicated data.

For draws :math:`\theta_s` of the posterior, replicated data :math:`\tilde y_s` come from the model.
The discrepancy :math:`T(y, \theta_s)` is a U-statistic of the Stein kernel of the residuals given
:math:`\theta_s`, times a kernel of covariates; the p-value is the share of draws with
:math:`T(\tilde y_s, \theta_s) \ge T(y, \theta_s)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_ksd.diagnostics.predictive.comparisons import Comparison, find_comparisons
from pymc_ksd.diagnostics.predictive.residuals import residuals_given
from pymc_ksd.diagnostics.predictive.witness import (
    LEVELS,
    Samples,
    covariate_curve,
    outcome_curve,
)
from pymc_ksd.diagnostics.prepare import check_circular
from pymc_ksd.diagnostics.results import (
    at_places,
    attributes,
    conclusion,
    contribution_name,
)
from pymc_ksd.engine.conditional import evaluate_conditional
from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.models.model_target import resolve_model
from pymc_ksd.models.observed.fitted import FittedDensity, fitted_density, observed_variables
from pymc_ksd.options import (
    check_alpha,
    check_count,
    optional_count,
    renamed_data,
    seeded_generator,
    warn_user,
)
from pymc_ksd.samples.covariates import Column
from pymc_ksd.samples.draws import DrawsWarning
from pymc_ksd.samples.posterior import Given, given_values
from pymc_ksd.stats.null import fewest_replicates, monte_carlo_p_value
from pymc_ksd.stats.panel import Panel
from pymc_ksd.stats.statistic import Effort
from pymc_ksd.stein.bandwidths import check_bandwidth, choose_bandwidths
from pymc_ksd.stein.kernels import Kernel
from pymc_ksd.stein.named_kernels import get_kernel
from pymc_ksd.stein.operators import OPERATORS
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import SteinKernel

#: Numbers that samples evaluated together may have.
_NUMBERS = 25_000_000
#: Draws from which the witness is computed.
_WITNESS_DRAWS = 40
#: Where the witness of residuals, and of angles, is evaluated.
_ENDS, _CIRCLE = (-4.0, 4.0), (-np.pi, np.pi)


def ksd_ppc(
    model: pm.Model | None = None,
    data: Any = None,
    *,
    var_names: str | Sequence[str] | None = None,
    covariates: Any = "auto",
    num_draws: int = 200,
    sample_dims: str | Sequence[str] | None = None,
    kernel: str | Kernel | Callable[..., Any] = "rbf",
    bandwidth: str | float | ArrayLike = "dimension",
    alpha: float = 0.05,
    block_size: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
    **former: Any,
) -> xr.Dataset:
    r"""Check whether a fitted model explains its own data, and where it does not.

    A posterior predictive check: for draws :math:`\theta_s` of the posterior, the kernelized Stein
    discrepancy between the observations and their distribution given :math:`\theta_s` is held
    against that of data replicated from it. Each observation has its own score, or, for counts, its
    own rates of steps up and down.

    Parameters
    ----------
    model : pm.Model, optional
        The model, by default the one whose context is active.
    data : DataTree, InferenceData or Dataset, optional
        Draws of the posterior. Not needed when the model has no free variables.
    var_names : str or sequence of str, optional
        Observed variables to check, all by default. Each is checked given the others.
    covariates : "auto", None, array_like, DataFrame, str, sequence of str or mapping
        What observations are compared by beside their residuals. By default the inputs found in the
        model's graph with one row for each observation, and the distribution's own parameters at
        the same draw, each unless they have more than 12 columns. Or an array, DataFrame or
        Dataset with one row for each observation (columns of text are groups), names of
        ``pm.Data``, or, by the names of observed variables, one of these for each. None compares
        residuals alone.
    num_draws : int, default 200
        Number of draws of the posterior, chosen at random; all, if there are fewer.
    sample_dims : str or sequence of str, optional
        Dims of an observed variable that count observations, by default its first axis.
    kernel : str, Kernel or callable, default "rbf"
        Kernel of the residuals, see :func:`ksd_test`.
    bandwidth : {"dimension", "median"}, float or array_like, default "dimension"
        Its bandwidth: the square root of an outcome's dimension, because residuals have scale 1,
        the median distance between residuals, a number, or several whose kernels are averaged.
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
          largest over all comparisons in standard deviations of the replicated ones,
        - ``comparison_p_value``: the p-value of every comparison alone, over ``comparison``
          (``"residuals"``, ``"parameters"``, ``"inputs"``, ``"covariates"``);
          ``observed_statistic``, ``replicated_statistic``: their U-statistics;
          ``comparison_excess``: by how many standard deviations the observed ones are larger,
        - for each observed variable, under its own name and dims, what every observation adds to
          the comparison named in ``contributions_of``, on average over draws; NaN where an
          observation is missing,
        - for outcomes of one dimension, ``witness`` over ``residual`` and
          ``covariate_witness`` over ``covariate``, ``position`` and ``level``, with the bounds
          ``witness_band`` and ``covariate_witness_band`` of replicated data, see
          :func:`plot_ksd_witness`.

        With several observed variables all but the contributions have a dim ``variable``.

    Raises
    ------
    ValueError, TypeError
        If an observed variable is a single path or vector, is censored or otherwise without a
        score, if draws are missing or do not belong to the model, or if an option is unknown.

    Notes
    -----
    Like every posterior predictive check it is conservative: the data have been used to fit the
    model, so p-values of true models gather around one half.

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
    base_kernel = get_kernel(kernel)
    check_bandwidth(base_kernel, bandwidth)
    if isinstance(bandwidth, str) and bandwidth == "auto":
        bandwidth = "dimension"
    alpha = check_alpha(alpha)
    num_draws = check_count(num_draws, "num_draws", 2)
    effort = Effort(optional_count(block_size, "block_size", 1), progressbar, client)
    model = resolve_model(model)
    seed, rng = seeded_generator(random_seed)
    # Every variable is checked with the same draws.
    draws_seed = int(rng.integers(2**32))
    checks: list[xr.Dataset] = []
    for rv in observed_variables(model, var_names):
        density = fitted_density(model, rv, sample_dims, compile_kwargs)
        check_circular(density.circular, base_kernel)
        given = given_values(
            model, density.given, data, num_draws, np.random.default_rng(draws_seed)
        )
        _check_number(given, alpha, warn=not checks)
        comparisons = find_comparisons(model, density, given, covariates)
        stein = SteinKernel(OPERATORS[density.operator], base_kernel, compile_kwargs)
        checks.append(_check(stein, density, given, comparisons, bandwidth, effort, rng))
    settings = {
        "result": "ksd_ppc",
        "target": "fitted",
        "kernel": base_kernel,
        "bandwidth": np.unique(np.concatenate([check.attrs["bandwidth"] for check in checks])),
        "alpha": alpha,
        "num_draws": len(checks[0]["sample"]),
        "seed": seed,
    }
    names = [check.attrs["variable"] for check in checks]
    told = [
        conclusion(check.assign_coords(variable=name).assign_attrs(settings))
        for check, name in zip(checks, names, strict=True)
    ]
    settings = {"conclusion": " ".join(told), **settings}
    return _together(checks).assign_attrs(attributes(settings))


def _check_number(given: Sequence[Given], alpha: float, *, warn: bool) -> None:
    """Refuse a single draw, and say it when there are too few for the level."""
    if len(given) < 2:
        raise ValueError(f"`data` must have at least 2 draws, got {len(given)}.")
    if warn and 1 / (1 + len(given)) > alpha:
        warn_user(
            f"With {len(given)} draws no p-value is below 1/{len(given) + 1}, so that no model can "
            f"be rejected at level {alpha:g}: take {fewest_replicates(alpha):,} or more.",
            DrawsWarning,
        )


@dataclass
class _Compared:
    """What comes of comparing observed and replicated data at all draws.

    Attributes
    ----------
    panel : Panel
        The Stein kernels.
    sums : list of ndarray of shape (draws, 2, comparisons)
        Sums over pairs of observed and of replicated data, for batches of draws.
    rows : ndarray of shape (n, comparisons)
        What each observation has part in, added up over draws.
    shown : list of pairs of Points
        Residuals of observed and replicated data at some draws.
    """

    panel: Panel
    sums: list[np.ndarray]
    rows: np.ndarray
    shown: list[tuple[Points, Points]]


def _check(
    stein: SteinKernel,
    density: FittedDensity,
    given: Sequence[Given],
    comparisons: Sequence[Comparison],
    bandwidth: Any,
    effort: Effort,
    rng: np.random.Generator,
) -> xr.Dataset:
    """Return the result for one observed variable."""
    *rngs, median_rng = rng.spawn(3)
    compared = _compare(stein, density, given, comparisons, bandwidth, effort, rngs, median_rng)
    n = len(compared.rows)
    pairs = n * (n - 1)
    observed, replicated = np.moveaxis(np.concatenate(compared.sums) / pairs, 1, 0)
    dataset = _numbers(observed, replicated, comparisons)
    strongest = int(np.argmax(dataset["comparison_excess"].values))
    dataset = dataset.assign(contributions_of=((), comparisons[strongest].name))
    contributions = compared.rows[:, strongest] / (len(given) * pairs)
    dataset = dataset.merge(at_places(contributions, density.places))
    if density.variable.unconstrained_size == 1:
        shown = compared.shown
        columns = {
            name: draws
            for comparison in comparisons
            for name, draws in _columns(comparison, given[: len(shown)]).items()
        }
        ends = _CIRCLE if density.circular else _ENDS
        dataset = dataset.merge(_witness(compared.panel, shown, columns, ends, median_rng))
    return dataset.assign_attrs(bandwidth=compared.panel.bandwidths, variable=density.places.name)


def _compare(
    stein: SteinKernel,
    density: FittedDensity,
    given: Sequence[Given],
    comparisons: Sequence[Comparison],
    bandwidth: Any,
    effort: Effort,
    rngs: Sequence[np.random.Generator],
    median_rng: np.random.Generator,
) -> _Compared:
    """Compare observed and replicated data at all draws, a batch of them at a time."""
    scale_rng, replicate_rng = rngs
    data = density.data()
    n = len(data)
    compared = _Compared(Panel(()), [], np.zeros((n, len(comparisons))), [])
    fixed = [comparison.in_bandwidths(median_rng) for comparison in comparisons]
    # Without free variables all draws are the same: so are centre and scale.
    known = None if density.given else residuals_given(density, n, (), scale_rng)
    step = max(1, _NUMBERS // (8 * n * density.variable.unconstrained_size))
    for start in range(0, len(given), step):
        batch = given[start : start + step]
        samples: list[tuple[Points, Points]] = []
        with progress_bar("Replicating data", len(batch), effort.progressbar) as bar:
            for values in batch:
                residuals = known or residuals_given(density, n, values, scale_rng)
                observed = samples[0][0] if known and samples else residuals.of_data(data)
                samples.append((observed, residuals.replicated(replicate_rng)))
                bar.advance(1)
        if start == 0:
            # From replicated data: a bandwidth must not look at the observations.
            widths = choose_bandwidths(bandwidth, samples[0][1].positions, median_rng)
            compared.panel = Panel.of_bandwidths(stein, widths)
        sums, rows = evaluate_conditional(
            compared.panel.members,
            samples,
            [
                comparison.in_bandwidths_at(batch, median_rng) if comparison.changes else same
                for comparison, same in zip(comparisons, fixed, strict=True)
            ],
            block_size=effort.block_size,
            progressbar=effort.progressbar,
            client=effort.client,
        )
        compared.sums.append(compared.panel.joined(sums))
        compared.rows += compared.panel.joined(rows)
        compared.shown += samples[: _WITNESS_DRAWS - len(compared.shown)]
    return compared


def _columns(comparison: Comparison, given: Sequence[Given]) -> dict[str, list[Column]]:
    """Return each covariate of a comparison at some draws, by its name."""
    at_draws = [comparison.at(values) for values in given]
    return {
        column.name: [columns[index] for columns in at_draws]
        for index, column in enumerate(comparison.columns)
    }


def _numbers(
    observed: np.ndarray, replicated: np.ndarray, comparisons: Sequence[Comparison]
) -> xr.Dataset:
    """Return p-values and discrepancies from the statistics of all draws and comparisons."""
    centre, spread = replicated.mean(axis=0), replicated.std(axis=0, ddof=1)
    spread = np.where(spread > 0, spread, 1.0)
    standard = [(values - centre) / spread for values in (observed, replicated)]
    largest = [values.max(axis=1) for values in standard]
    single = [_p_value(*pair) for pair in zip(observed.T, replicated.T, strict=True)]
    both = ("sample", "comparison")
    return xr.Dataset(
        {
            "p_value": ((), _p_value(*largest)),
            "observed": (("sample",), largest[0]),
            "replicated": (("sample",), largest[1]),
            "comparison_p_value": (("comparison",), single),
            "observed_statistic": (both, observed),
            "replicated_statistic": (both, replicated),
            "comparison_excess": (("comparison",), standard[0].mean(axis=0)),
        },
        coords={"comparison": [comparison.name for comparison in comparisons]},
    )


def _p_value(observed: np.ndarray, replicated: np.ndarray) -> float:
    """Return the share of draws whose replicated data are at least as far off."""
    return monte_carlo_p_value(0.0, replicated - observed)


def _witness(
    panel: Panel,
    samples: Samples,
    columns: Mapping[str, Sequence[Column]],
    ends: tuple[float, float],
    rng: np.random.Generator,
) -> xr.Dataset:
    """Return the witness over residuals, and along every covariate."""
    outcome = outcome_curve(panel, samples, ends)
    fields: dict[str, Any] = {
        "residual_value": (("residual",), outcome.places),
        "witness": (("residual",), outcome.observed),
        "witness_band": (("bound", "residual"), outcome.band),
    }
    coords: dict[str, Any] = {"bound": ["lower", "upper"]}
    if columns:
        curves = [covariate_curve(panel, samples, column, rng) for column in columns.values()]
        dims = ("covariate", "position", "level")
        fields["covariate_value"] = (dims[:2], np.stack([curve.places for curve in curves]))
        fields["covariate_witness"] = (dims, np.stack([curve.observed for curve in curves]))
        band = np.stack([curve.band for curve in curves], axis=1)
        fields["covariate_witness_band"] = (("bound", *dims), band)
        coords |= {"covariate": list(columns), "level": list(LEVELS)}
    return xr.Dataset(fields, coords=coords)


def _together(checks: Sequence[xr.Dataset]) -> xr.Dataset:
    """Join the results of several observed variables along a dim ``variable``."""
    names = [check.attrs["variable"] for check in checks]
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
    )
    parts = [check[own] for check, own in zip(checks, kept, strict=True)]
    return xr.merge([joined, *parts], combine_attrs="drop")
