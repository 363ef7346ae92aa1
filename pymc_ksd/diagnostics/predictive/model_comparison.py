r"""Which of several fitted models explains the data better, by one kernel for all of them.

Every model's posterior predictive distribution of observation :math:`i` has a score, and the
U-statistic of its Stein kernel,

.. math::

    D_m = \frac{1}{n(n-1)} \sum_{i \ne j} u_m(y_i, y_j)\,
        \tfrac12 \Big(1 + \frac{l(x_i, x_j)}{\bar l}\Big),

estimates how far it is from the distribution of the data, in one unit for all: the kernels of
outcomes and of covariates, :math:`l`, are the same for all models. So are centre and scale of every
observation, medians of what the models say. The difference of two such statistics is a U-statistic
itself, whose error over observations is known from leaving out one at a time, and that over draws
of the posteriors from leaving out one batch of them at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from pymc_ksd.diagnostics.predictive.candidates import (
    Candidate,
    common_observations,
    common_scale,
    read_candidates,
)
from pymc_ksd.diagnostics.predictive.comparisons import in_bandwidths, input_columns
from pymc_ksd.diagnostics.predictive.elpd import with_elpd
from pymc_ksd.diagnostics.prepare import Comparing, effort_of
from pymc_ksd.diagnostics.results import attributes
from pymc_ksd.engine.conditional import evaluate_conditional
from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.engine.walk import Effort
from pymc_ksd.models.observed.predictive import predictive_values
from pymc_ksd.options import check_alpha, check_count, seeded_generator, warn_user
from pymc_ksd.samples.covariates import Column, user_columns
from pymc_ksd.samples.posterior import Given
from pymc_ksd.stats.panel import level_of_each
from pymc_ksd.stein.kernels import RBF
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import OPERATORS

#: Most columns that observations are compared by together.
_MOST_COLUMNS = 3
#: Errors that are a smaller share of the largest number are zero.
_ROUNDING = 1e-12
#: Consecutive batches of draws that are left out in turn.
_BATCHES = 10


def ksd_compare_models(
    models: Mapping[str, tuple[Any, Any]],
    data: Any = None,
    *,
    var_names: str | None = None,
    covariates: Any = "auto",
    num_draws: int = 200,
    alpha: float = 0.05,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
) -> pd.DataFrame:
    r"""Compare fitted models by how far their predictions are from the data.

    All models are measured with the same kernels: of the outcome, and of covariates. The difference
    to the best comes with a standard error, in the style of ``az.compare``.

    Parameters
    ----------
    models : mapping of str to (model, draws)
        The models by name, each a ``pm.Model`` or ``bambi.Model`` with draws of its posterior. They
        must observe the same data on the same scale; inputs, parameters and families may differ.
        Whole observations are compared, counted by the first axis: paths, single vectors, censored
        values and values with a probability of their own (hurdle models) are not.
    data : array_like, optional
        Observations to compare with, in the place of the models' own: as many, in the same order
        and with the same inputs. Set new inputs with ``pm.set_data`` first.
    var_names : str, optional
        The observed variable, if models have several, or a ``pm.Potential`` beside it that only
        restrains parameters, see :func:`ksd_ppc`.
    covariates : "auto", None, array_like, DataFrame, str or sequence of str
        What observations are compared by beside the outcome. By default the inputs that any of the
        models has, if they are at most three, and otherwise what the models predict on average.
        Names are those of ``pm.Data`` of the first model. None compares outcomes alone.
    num_draws : int, default 200
        Number of draws of each posterior, chosen at random; all, if there are fewer. A single draw,
        such as a point estimate, is taken as exact.
    alpha : float, default 0.05
        One minus the coverage of all intervals together.
    random_seed : int or numpy.random.Generator, optional
        Makes the choice of draws repeatable.
    progressbar : bool, default True
        Show a progress bar when the work is long.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``.
    client : distributed.Client or False, optional
        See :func:`ksd_test`.

    Returns
    -------
    pandas.DataFrame
        A row for each model, the best first, with the columns

        - ``rank``: 0 for the best,
        - ``discrepancy``: the estimate of the squared discrepancy between predictions and data;
          by chance it may be negative,
        - ``difference``: how much larger it is than that of the best,
        - ``dse``: the standard error of the difference, from leaving out one observation at a time,
          and one of ten batches of the draws at a time,
        - ``lower``, ``upper``: the interval for the difference. Because the best is chosen among
          all, intervals are adjusted for all pairs of the K models (Šidák): those of all K(K − 1)/2
          pairs together have at least the coverage 1 − `alpha`,
        - ``p_value``: how likely a difference this large between any two of as many models is if
          all are equally far from the data (two-sided, adjusted in the same way), 1 where the error
          is zero,
        - ``clear``: whether the interval leaves out zero, and the error is not zero,
        - ``elpd``, ``elpd_diff``, ``elpd_dse``: what ``az.compare`` says, where all draws have the
          log likelihood of the variable: the expected log predictive density, how much lower it is
          than the highest, and the error of that. NaN otherwise, with `data`, whose log likelihoods
          are not stored, and with a warning where ``az.compare`` fails. One warning has the largest
          Pareto k of all models, if it is too large.

        ``table.attrs`` holds the settings.

    Raises
    ------
    ValueError, TypeError
        If there are fewer than two models or ten observations, models do not observe the same data
        on the same scale, or `data` do not fit them. If an observed variable is not a sample of
        whole observations, or a Potential may change its distribution.

    Notes
    -----
    The discrepancy measures the shape of the predictions, and their dependence on covariates, where
    the kernels look. Cross-validation (``az.loo``, ``az.compare``) measures the log density of
    observations that were left out: a model that is too wide everywhere loses there at once, one
    whose predictions are of the wrong shape only as far as it costs density. Here all models have
    seen the data, so that one with many more parameters is favoured; if both disagree about such a
    model, trust cross-validation. If no model is far from the data, their differences are as small
    as their errors: that none is clearly better is then the answer. Whether the best model is good
    enough is told by :func:`ksd_ppc`.

    Examples
    --------
    >>> import numpy as np, pymc as pm, xarray as xr
    >>> import pymc_ksd
    >>> rng = np.random.default_rng(1)
    >>> y = rng.negative_binomial(3, 0.3, size=200)  # mean 7, variance 23
    >>> def fitted(family, **options):
    ...     with pm.Model() as model:
    ...         mu = pm.Gamma("mu", 1, 0.1)
    ...         family("y", mu=mu, observed=y, **options)
    ...     draws = rng.normal(y.mean(), 0.2, size=(4, 50))
    ...     return model, xr.Dataset({"mu": (("chain", "draw"), draws)})
    >>> models = {"poisson": fitted(pm.Poisson), "negbin": fitted(pm.NegativeBinomial, alpha=3)}
    >>> table = pm.ksd_compare_models(models, random_seed=1)
    >>> table.index[0], bool(table["clear"].iloc[1])
    ('negbin', True)
    """
    alpha = check_alpha(alpha)
    num_draws = check_count(num_draws, "num_draws", 2)
    effort = effort_of(None, progressbar, client)
    seed, rng = seeded_generator(random_seed)
    candidates = read_candidates(models, var_names, num_draws, compile_kwargs, rng)
    observed = common_observations(candidates, data)
    scale = common_scale(candidates, observed, rng)
    tables = _covariates(candidates, covariates, scale[0], rng)
    weights = [1.0 if one is None else 1 / _mean_kernel(one, rng) for one in tables]
    batches = min([len(one.given) for one in candidates if len(one.given) > 1] + [_BATCHES])
    how = Comparing(RBF(), "dimension", None, compile_kwargs)
    measured = [
        _measured(one, _points(one, observed, scale, batches, effort), tables, weights, how, effort)
        for one in candidates
    ]
    rows = np.stack([own for own, _ in measured])
    table = _table([one.name for one in candidates], rows, _without(measured, batches), alpha)
    name = candidates[0].density.places.name
    settings = {"variable": name, "n": len(observed), "num_draws": num_draws}
    settings |= {"alpha": alpha, "seed": seed}
    # Stored log likelihoods are those of the models' own data.
    table = with_elpd(
        table, {one.name: one.data for one in candidates} if data is None else {}, name
    )
    table.attrs |= attributes({"result": "ksd_compare_models", **settings})
    return table


def _covariates(
    candidates: Sequence[Candidate], covariates: Any, centre: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray | None]:
    """Return what observations are compared by, in bandwidths: nothing, and covariates."""
    if covariates is None:
        return [None]
    if not (isinstance(covariates, str) and covariates == "auto"):
        first = candidates[0]
        columns = user_columns(first.model, covariates, first.density)
    else:
        different: dict[bytes, Column] = {}
        for one in candidates:
            for column in input_columns(one.model, one.density):
                different.setdefault(column.values.tobytes(), column)
        columns = list(different.values())
        if len(columns) > _MOST_COLUMNS:
            columns = [Column("prediction", values) for values in centre.T if np.ptp(values) > 0]
            columns = columns[:_MOST_COLUMNS]
    return [None, *in_bandwidths(columns, rng)] if columns else [None]


def _points(
    candidate: Candidate,
    observed: np.ndarray,
    scale: tuple[np.ndarray, np.ndarray],
    batches: int,
    effort: Effort,
) -> list[Points]:
    """Return the observations with what one model says of them, and without each batch of draws.

    A model with a single draw has no batches.
    """
    density, given = candidate.density, candidate.given
    points = density.unconstrain(observed, *given[0])
    with progress_bar(f"Scoring {candidate.name}", len(given), effort.progressbar) as bar:

        def watched(draws: Sequence[Given]) -> Any:
            for values in draws:
                yield values
                bar.advance(1)

        count = batches if len(given) > 1 else 1
        everything, *others = predictive_values(density, given, points, watched, count)
    operator = OPERATORS[density.operator]
    bad = operator.unusable(everything).any(axis=1) | ~np.isfinite(points).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{bad.sum()} of {len(bad)} observations of {density.places.name!r} have no finite "
            f"density under the model {candidate.name!r}, which cannot explain them."
        )
    lost = [np.asarray(operator.unusable(values).any(axis=1)) for values in others]
    if np.any(lost):
        warn_user(
            f"{np.any(lost, axis=0).sum()} of {len(bad)} observations of {density.places.name!r} "
            f"have a density under few draws of the model {candidate.name!r} only: the errors of "
            "its differences are too small.",
            UserWarning,
        )
        others = [
            tuple(np.where(gone[:, None], *pair) for pair in zip(everything, values, strict=True))
            for gone, values in zip(lost, others, strict=True)
        ]
    return [operator.standardised(points, values, *scale) for values in (everything, *others)]


def _measured(
    candidate: Candidate,
    points: Sequence[Points],
    covariates: Sequence[np.ndarray | None],
    weights: Sequence[float],
    how: Comparing,
    effort: Effort,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the Stein kernel over all pairs that each observation is in.

    And its mean over all pairs without each batch of draws.
    """
    operator, positions = OPERATORS[candidate.density.operator], points[0].positions
    n = len(positions)
    panel = how.panel(operator, positions, np.random.default_rng(0))
    sums, rows = evaluate_conditional(panel.members, [points], list(covariates), effort)
    own = (panel.joined(rows) / (n - 1) * weights).mean(axis=1)
    means = (panel.joined(sums)[0] / (n * (n - 1)) * weights).mean(axis=1)
    return np.asarray(own), np.asarray(means[1:])


def _mean_kernel(covariates: np.ndarray, rng: np.random.Generator) -> float:
    """Return the mean of the kernel of covariates over pairs, of many observations some."""
    from scipy.spatial.distance import pdist  # slow to import

    few = covariates[rng.permutation(len(covariates))[:1_000]]
    return float(np.exp(-0.5 * pdist(few, "sqeuclidean")).mean()) + 1 / len(few)


def _without(measured: Sequence[tuple[np.ndarray, np.ndarray]], batches: int) -> np.ndarray:
    """Return discrepancies without each batch of draws, shape (models, batches)."""
    return np.stack(
        [others if others.size else np.full(batches, own.mean()) for own, others in measured]
    )


def _table(
    names: Sequence[str], rows: np.ndarray, without: np.ndarray, alpha: float
) -> pd.DataFrame:
    """Return the table of comparisons.

    Parameters
    ----------
    names : sequence of str
        What the models are called.
    rows : ndarray of shape (models, n)
        Each observation's mean over the pairs it is in.
    without : ndarray of shape (models, batches)
        Discrepancies without each batch of draws.
    alpha : float
        One minus the coverage of all intervals together.

    Returns
    -------
    DataFrame
    """
    batches, pairs = without.shape[1], len(names) * (len(names) - 1) // 2
    discrepancy = rows.mean(axis=1)
    # Jackknife: few draws make a mixture look further off than it is.
    discrepancy += (batches - 1) * (discrepancy - without.mean(axis=1))
    order = np.argsort(discrepancy, kind="stable")
    difference = discrepancy - discrepancy[order[0]]
    of_data, of_draws = _variances(rows - rows[order[0]], without - without[order[0]])
    error = np.sqrt(of_data + of_draws)
    error = np.where(error > _ROUNDING * np.abs(rows).max(), error, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Degrees of freedom by Welch and Satterthwaite: few batches tell their error roughly.
        freedom = np.where(of_draws > 0, (batches - 1) * (error**2 / of_draws) ** 2, np.inf)
        p_value = 2 * stats.t.sf(difference / error, freedom)
        p_value = np.where(error > 0, -np.expm1(pairs * np.log1p(-p_value)), 1.0)
    reach = stats.t.isf(level_of_each(alpha, pairs) / 2, freedom) * error
    table = pd.DataFrame(
        {
            "rank": np.argsort(order),
            "discrepancy": discrepancy,
            "difference": difference,
            "dse": error,
            "lower": difference - reach,
            "upper": difference + reach,
            "p_value": p_value,
            "clear": (difference > reach) & (error > 0),
        },
        index=pd.Index(names),
    )
    return table.iloc[order]


def _variances(rows: np.ndarray, without: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the variances of differences over observations, and over draws, by the jackknife."""
    n, batches = rows.shape[1], without.shape[1]
    # Without observation i the difference is (n U - 2 row_i) / (n - 2).
    of_data = (n - 1) * (2 / (n - 2)) ** 2 * rows.var(axis=1)
    return of_data, (batches - 1) * without.var(axis=1)
