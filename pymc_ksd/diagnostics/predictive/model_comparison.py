r"""Which of several fitted models explains the data better, by one kernel for all of them.

Every model's posterior predictive distribution of observation :math:`i` has a score, and the
U-statistic of its Stein kernel,

.. math::

    D_m = \frac{1}{n(n-1)} \sum_{i \ne j} u_m(y_i, y_j)\,
        \tfrac12 \Big(1 + \frac{l(x_i, x_j)}{\bar l}\Big),

estimates how far it is from the distribution of the data, in one unit for all: the kernels of
outcomes and of covariates, :math:`l`, are the same for all models. So are centre and scale of every
observation, the mean of what the models say. The difference of two such statistics is a U-statistic
itself, whose error is known from leaving out one observation at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from scipy import stats

from pymc_ksd.diagnostics.predictive.comparisons import in_bandwidths, input_columns
from pymc_ksd.diagnostics.predictive.elpd import with_elpd
from pymc_ksd.diagnostics.predictive.residuals import residuals_given
from pymc_ksd.diagnostics.prepare import Comparing, check_circular, effort_of
from pymc_ksd.diagnostics.results import attributes
from pymc_ksd.engine.conditional import evaluate_conditional
from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.engine.walk import Effort
from pymc_ksd.models.bambi_models import bambi_parameters
from pymc_ksd.models.model_target import resolve_model
from pymc_ksd.models.observed.fitted import FittedDensity, fitted_density, observed_variables
from pymc_ksd.models.observed.predictive import predictive_values
from pymc_ksd.options import check_alpha, check_count, seeded_generator
from pymc_ksd.samples.belonging import model_draws
from pymc_ksd.samples.covariates import Column, user_columns
from pymc_ksd.samples.posterior import Given, given_values
from pymc_ksd.stein.kernels import RBF
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import OPERATORS

#: Draws from which centre and scale of the observations are taken.
_SCALE_DRAWS = 20
#: Most columns that observations are compared by together.
_MOST_COLUMNS = 3


@dataclass(frozen=True)
class _Candidate:
    """One of the models, with its draws.

    Attributes
    ----------
    name : str
        What the user calls it.
    model : pm.Model
        The model.
    density : FittedDensity
        Its observed variable.
    given : list of tuple of ndarray
        Draws of the free variables.
    data : object
        The draws as the user gave them.
    """

    name: str
    model: pm.Model
    density: FittedDensity
    given: Sequence[Given]
    data: Any


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
    to the best comes with a standard error over observations, in the style of ``az.compare``.

    Parameters
    ----------
    models : mapping of str to (model, draws)
        The models by name, each a ``pm.Model`` or ``bambi.Model`` with draws of its posterior. They
        must observe the same data on the same scale; inputs, parameters and families may differ.
    data : array_like, optional
        Observations to compare with, in the place of the models' own: as many, in the same order
        and with the same inputs. Set new inputs with ``pm.set_data`` first.
    var_names : str, optional
        The observed variable, if models have several.
    covariates : "auto", None, array_like, DataFrame, str or sequence of str
        What observations are compared by beside the outcome. By default the inputs that any of the
        models has, if they are at most three, and otherwise what the models predict on average.
        Names are those of ``pm.Data`` of the first model. None compares outcomes alone.
    num_draws : int, default 200
        Number of draws of each posterior, chosen at random; all, if there are fewer.
    alpha : float, default 0.05
        One minus the coverage of the intervals.
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
        - ``dse``: the standard error of the difference,
        - ``lower``, ``upper``: the interval of coverage 1 − `alpha` for the difference,
        - ``p_value``: how likely a difference this large is if both models are equally far from
          the data (two-sided),
        - ``clear``: whether the interval leaves out zero,
        - ``elpd``, ``elpd_diff``, ``elpd_dse``: what ``az.compare`` says, where all draws have the
          log likelihood of the variable: the expected log predictive density, how much lower it is
          than the highest, and the error of that; NaN otherwise.

        ``table.attrs`` holds the settings.

    Raises
    ------
    ValueError, TypeError
        If there are fewer than two models, or they do not observe the same data on the same scale.

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
    candidates = _candidates(models, var_names, num_draws, compile_kwargs, rng)
    observed = _observations(candidates, data)
    centre, spread = _common_scale(candidates, observed, rng)
    tables = _covariates(candidates, covariates, centre, rng)
    how = Comparing(RBF(), "dimension", None, compile_kwargs)
    rows = np.stack(
        [
            _rows(one, _points(one, observed, centre, spread, effort), tables, how, effort, rng)
            for one in candidates
        ]
    )
    table = _table([one.name for one in candidates], rows, alpha)
    name = candidates[0].density.places.name
    settings = {"variable": name, "n": len(observed), "num_draws": num_draws}
    settings |= {"alpha": alpha, "seed": seed}
    table = with_elpd(table, {one.name: one.data for one in candidates}, name)
    table.attrs |= attributes({"result": "ksd_compare_models", **settings})
    return table


def _candidates(
    models: Any,
    var_names: str | None,
    num_draws: int,
    compile_kwargs: Mapping[str, Any] | None,
    rng: np.random.Generator,
) -> list[_Candidate]:
    """Return the models with their observed variables and draws."""
    if not isinstance(models, Mapping):
        raise TypeError(
            "`models` must be a mapping from names to pairs of a model and its draws, such as "
            f'{{"poisson": (model, idata)}}, got {type(models).__name__}.'
        )
    if len(models) < 2:
        raise ValueError(f"`models` must have at least two models to compare, got {len(models)}.")
    found = []
    for name, pair in models.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"`models` must have a pair of a model and its draws for every name, but {name!r} "
                f"has {type(pair).__name__}."
            )
        parameters, model = bambi_parameters(pair[0]), resolve_model(pair[0])
        variables = observed_variables(model, var_names)
        if len(variables) > 1:
            known = ", ".join(str(rv.name) for rv in variables)
            raise ValueError(
                f"The model {name!r} has several observed variables ({known}): name one of them in "
                "`var_names`."
            )
        density = fitted_density(model, variables[0], None, compile_kwargs, common_coordinates=True)
        check_circular(density.circular, RBF())
        draws = model_draws(pair[1], parameters)
        given = given_values(model, density.given, draws, num_draws, rng)
        found.append(_Candidate(str(name), model, density, given, pair[1]))
    return found


def _observations(candidates: Sequence[_Candidate], data: Any) -> np.ndarray:
    """Return the observations, the same for all models."""
    first, *others = candidates
    own = first.density.data()
    for other in others:
        one, two = (c.density for c in (first, other))
        same = (one.operator, one.variable.transform, one.variable.shape)
        if same != (two.operator, two.variable.transform, two.variable.shape):
            raise ValueError(
                f"The models {first.name!r} and {other.name!r} observe "
                f"{one.places.name!r} on different scales, which one kernel cannot compare: counts "
                "and continuous numbers, or numbers with other bounds."
            )
        values = two.data()
        if len(values) != len(own) or (data is None and not np.array_equal(values, own)):
            raise ValueError(
                f"The models {first.name!r} and {other.name!r} must observe the same data, in the "
                "same order, or be given new `data`."
            )
    if data is None:
        return own
    values = np.asarray(data, dtype=own.dtype)
    if values.shape != own.shape or not np.isfinite(values).all():
        raise ValueError(
            f"`data` must have finite values of shape {own.shape}, one for every observation that "
            f"the models have inputs for, got shape {values.shape}."
        )
    return values


def _common_scale(
    candidates: Sequence[_Candidate], observed: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return centre and spread of every observation, the mean of what the models say."""
    found = []
    for one in candidates:
        step = -(-len(one.given) // _SCALE_DRAWS)
        scales = [residuals_given(one.density, len(observed), g, rng) for g in one.given[::step]]
        found.append(np.mean([(scale.centre, scale.spread) for scale in scales], axis=0))
    centre, spread = np.mean(found, axis=0)
    return centre, spread


def _covariates(
    candidates: Sequence[_Candidate], covariates: Any, centre: np.ndarray, rng: np.random.Generator
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
    candidate: _Candidate,
    observed: np.ndarray,
    centre: np.ndarray,
    spread: np.ndarray,
    effort: Effort,
) -> Points:
    """Return the observations as points of one model, with what it says of them."""
    density, given = candidate.density, candidate.given
    points = density.unconstrain(observed, *given[0])
    with progress_bar(f"Scoring {candidate.name}", len(given), effort.progressbar) as bar:

        def watched(draws: Sequence[Given]) -> Any:
            for values in draws:
                yield values
                bar.advance(1)

        values = predictive_values(density, given, points, watched)
    operator = OPERATORS[density.operator]
    bad = operator.unusable(values).any(axis=1) | ~np.isfinite(points).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{bad.sum()} of {len(bad)} observations of {density.places.name!r} have no finite "
            f"density under the model {candidate.name!r}, which cannot explain them."
        )
    return operator.standardised(points, values, centre, spread)


def _rows(
    candidate: _Candidate,
    points: Points,
    covariates: Sequence[np.ndarray | None],
    how: Comparing,
    effort: Effort,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the mean of the Stein kernel over all pairs that each observation is in."""
    panel = how.panel(OPERATORS[candidate.density.operator], points.positions, rng)
    _, rows = evaluate_conditional(panel.members, [[points]], list(covariates), effort)
    mean = panel.joined(rows) / (len(points.positions) - 1)
    weights = [1.0, *(1 / _mean_kernel(one, rng) for one in covariates if one is not None)]
    return np.asarray((mean * weights).mean(axis=1))


def _mean_kernel(covariates: np.ndarray, rng: np.random.Generator) -> float:
    """Return the mean of the kernel of covariates over pairs, of many observations some."""
    from scipy.spatial.distance import pdist  # slow to import

    few = covariates[rng.permutation(len(covariates))[:1_000]]
    return float(np.exp(-0.5 * pdist(few, "sqeuclidean")).mean()) + 1 / len(few)


def _table(names: Sequence[str], rows: np.ndarray, alpha: float) -> pd.DataFrame:
    """Return the table, from each observation's mean over the pairs it is in, shape (models, n)."""
    n = rows.shape[1]
    discrepancy = rows.mean(axis=1)
    order = np.argsort(discrepancy, kind="stable")
    apart = rows - rows[order[0]]
    difference = apart.mean(axis=1)
    # Jackknife: without observation i the difference is (n U - 2 row_i) / (n - 2).
    squares = ((apart - difference[:, None]) ** 2).sum(axis=1)
    error = np.sqrt((n - 1) / n * squares) * 2 / (n - 2)
    reach = stats.norm.isf(alpha / 2) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        p_value = 2 * stats.norm.sf(np.abs(difference) / error)
    table = pd.DataFrame(
        {
            "rank": np.argsort(order),
            "discrepancy": discrepancy,
            "difference": difference,
            "dse": error,
            "lower": difference - reach,
            "upper": difference + reach,
            "p_value": p_value,
            "clear": difference > reach,
        },
        index=pd.Index(names),
    )
    return table.iloc[order]
