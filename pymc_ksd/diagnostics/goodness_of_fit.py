"""The public goodness-of-fit test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_ksd.diagnostics.largest_moment import largest_moment
from pymc_ksd.diagnostics.prepare import Prepared, comparing, effort_of, prepare
from pymc_ksd.diagnostics.results import attributes, conclusion, contributions
from pymc_ksd.diagnostics.score import Score, predictive, target_of
from pymc_ksd.diagnostics.status import status_of_test
from pymc_ksd.engine.pairs import PairSums
from pymc_ksd.options import check_alpha, optional_count, warn_user
from pymc_ksd.samples.containers import drawn_independently, holds_draws
from pymc_ksd.samples.draws import DrawsWarning
from pymc_ksd.stats.nulls import Null, Wild, fewest_replicates, get_null
from pymc_ksd.stats.statistics import Block, Statistic, VStatistic, get_statistic
from pymc_ksd.stats.test import MemberResult, Outcome, Plan, run_test
from pymc_ksd.stein.kernels import Kernel

#: Replicates of the null, of several kernels at many points, where they take most of the time, and
#: where each is scored under all draws of a posterior.
_REPLICATES, _FEWER_REPLICATES, _SLOW_REPLICATES = 1_000, 500, 199
#: The most that there are unless the user says, however small the level.
_MOST_REPLICATES = 2_000
#: Points that are many.
_MANY_POINTS = 5_000


def ksd_test(
    model: pm.Model | Score | None = None,
    data: Any = None,
    *,
    posterior: Any = None,
    var_names: str | Sequence[str] | None = None,
    sample_dims: str | Sequence[str] | None = None,
    kernel: str | Kernel | Callable[..., Any] | None = None,
    bandwidth: str | float | ArrayLike = "auto",
    scale: str | None = "auto",
    statistic: str | Statistic | None = None,
    null: str | Null | None = None,
    autocorrelation_time: float | None = None,
    n_bootstrap: int | None = None,
    alpha: float = 0.05,
    points_per_block: int | None = None,
    block_size: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
) -> xr.Dataset:
    r"""Test whether data or draws come from a model, by the kernelized Stein discrepancy.

    The discrepancy between the sample's distribution p and the model's density q is
    :math:`\mathbb{E}_{x, x' \sim p}\, u_q(x, x')`, zero if and only if p = q. It needs only the
    gradient of :math:`\log q`, so q need not be normalised and is never sampled from [1]_. Counts
    are tested by ratios of neighbouring probabilities in its place.

    Parameters
    ----------
    model : pm.Model or Score, optional
        The model, by default the one whose context is active. Its free variables are tested, or,
        if it has none, its observed variables, counts included. A :class:`Score` compiled before,
        or wrapped around any gradient function, is accepted too.
    data : array_like, mapping, DataFrame, Dataset, DataArray, DataTree or InferenceData, optional
        Independent points: an array with one row a point, or one entry for each variable with
        points along the first axis, on the scale the model is written in. Or a sampler's *draws*:
        a container with a group ``posterior``, or a dataset with a dim ``draw`` and, unless it is
        one chain, ``chain``.
        By default a model without free variables is tested on its own observed data.
    posterior : DataTree, InferenceData or Dataset, optional
        Draws of the posterior. `data` are then new observations of an observed variable, and they
        are tested against its posterior predictive distribution: a mixture over draws. Inputs of
        new observations are set before, with ``pm.set_data``. At most 500 draws are used, evenly
        spaced: every other one is mixed, and data are replicated with the rest. New data share one
        value of the parameters, so by default they are compared with data replicated with one draw
        each (``null="parametric"``). The bootstraps are faster, but take the observations as
        independent draws from the mixture: they reject true models unless these were fitted to many
        more data than are tested.
    var_names : str or sequence of str, optional
        Test some variables only, see :func:`compile_score`.
    sample_dims : str or sequence of str, optional
        Dims of an observed variable that count observations, by default its first axis.
    kernel : str, Kernel or callable, optional
        ``"rbf"``, ``"imq"``, ``"matern52"``, a kernel object such as ``RBF() + IMQ()``, or a
        PyTensor function of two vectors. A kernel that is named is tested alone; by default several
        are, see Notes.
    bandwidth : {"auto", "median", "dimension"}, float or array_like, default "auto"
        The kernel's bandwidth: the median distance between points (of at most 1,000 of them), the
        square root of their dimension, or a number, by which one kernel is tested; or several
        numbers, which are tested side by side (averaged by ``"linear"`` and ``"block"``). The unit
        of the default panel is the median for data and the dimension for draws that are scaled.
    scale : {"auto", None, "std", "cov", "stein"}, default "auto"
        Scale points by nothing, by their standard deviations, or whiten them by their covariance
        before they are compared, or by the geometric mean of it and the inverse of the scores'
        second moment, which for a normal model is the model's own covariance. By default draws are
        whitened by their covariance if there are enough to know how, :math:`2 d^{3/2}` effective
        draws in d dimensions, and otherwise scaled by their standard deviations. As many data are
        whitened by ``"stein"`` where the scores' mean square in some direction is 25 times that in
        another, unless a kernel or a bandwidth is named; other data are not scaled.
    statistic : {"u", "v", "linear", "block"} or Statistic, optional
        The estimator, see Notes, or an object with options of its own, such as ``Block(50)``. By
        default ``"u"`` for data and ``"v"`` for draws.
    null : {"multinomial", "rademacher", "wild", "parametric", "normal"} or Null, optional
        How the statistic's distribution under the model is found, or an object with options of its
        own, such as ``Wild(autocorrelation_time=3)``. By default ``"wild"`` for draws, which may be
        correlated, and ``"rademacher"`` for those of approximations (ADVI, Laplace, Pathfinder),
        which are independent, and for data; ``"multinomial"`` for data where one kernel is tested
        by ``"u"``; ``"normal"`` with ``"linear"`` and ``"block"``. ``"parametric"`` simulates data
        from the model and is exact, at many times the cost; it is the default with `posterior`.
    autocorrelation_time : float, optional
        Integrated autocorrelation time of the draws for ``"wild"``, 1 for independent draws. By
        default estimated: the number of draws over ArviZ's effective sample size, chains taken
        around their own means, of the least favourable among all coordinates and the squared
        distance from the centre.
    n_bootstrap : int, optional
        Number of replicates, by default 1,000; 500 where several kernels compare more than 5,000
        points, more for levels below 0.02, and for the parametric null with `posterior` 199, or as
        many as `alpha` needs.
    alpha : float, default 0.05
        Level of the test.
    points_per_block : int, optional
        Points in a block of the ``"block"`` statistic, by default the square root of their number.
    block_size : int, optional
        Points that are compared at a time. Changes speed and memory, never the result.
    random_seed : int or numpy.random.Generator, optional
        Makes the bootstrap repeatable.
    progressbar : bool, default True
        Show a progress bar when the work is long.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``, such as ``{"mode": "NUMBA"}`` or ``{"mode": "JAX"}``. By
        default comparisons of many points are compiled, others run on NumPy.
    client : distributed.Client or False, optional
        Compare points on the workers of this Dask cluster, or, if False, on this machine. By
        default on the active client's workers, if there is one and points are many.

    Returns
    -------
    xarray.Dataset
        With variables

        - ``statistic``: the estimate of the squared discrepancy; where several kernels were tested,
          the largest excess of any of them over its replicates,
        - ``p_value``: :math:`(1 + \#\{S^* \ge S\}) / (1 + m)`; where kernels and moments were
          tested, :math:`1 - (1 - p)^2` with the smaller of both p-values,
        - ``critical_value``: what the statistic must exceed to be rejected at level `alpha`,
        - ``ksd``: the square root of the V-statistic (NaN for ``"linear"`` and ``"block"``),
        - ``ess_ksd``: mean of :math:`u(x_i, x_i)` over the V-statistic, the number of independent
          draws from the model with the same expected discrepancy (NaN likewise); by chance it may
          exceed the number of points,
        - ``null_distribution``: the replicates, over the dim ``bootstrap``,
        - ``member_statistic``, ``member_p_value``, ``member_excess`` and ``member_bandwidth`` of
          each kernel, where several were tested, over the dim ``member``; the excess is in standard
          deviations of the replicates, without their skewness, times what the kernel counts,
        - for each variable, under its own name and dims, what its coordinates add to the estimate
          (not for ``"linear"`` and ``"block"``). Variables whose unconstrained coordinates do not
          belong to single elements, such as simplexes, show one number. Where several kernels were
          tested, these are the contributions to the first, and so are ``ksd`` and ``ess_ksd``.

        The attribute ``status`` is "passed", "rejected" or "cannot tell", the last with a
        ``reason``: nothing was rejected, but wrong draws might not have been rejected either,
        because chains disagree (R-hat above 1.1), are shorter than 20 autocorrelation times, 1 % of
        the draws outweigh all others, or draws and model do not belong together. The status is
        always "cannot tell" if the chains do not move. With chains that short, or correlated draws
        that are few for more than 100 parameters, only p-values of at most a tenth of `alpha`
        reject. For draws, ``diagonal_share`` is the share of the discrepancy that the 1 % of draws
        with the largest scores hold (one draw, if there are fewer than 200). Settings and library
        versions are attributes, too. The dataset can be saved with ``to_netcdf`` and attached to
        inference data.

    Raises
    ------
    ValueError, TypeError
        If the data are not finite, lie outside the support, do not fit the variables or do not
        vary, if the model has discrete free variables, no log-probability or no gradient, or if an
        option is unknown.

    Notes
    -----
    ========== ================================================================= =============
    statistic  estimator                                                         cost
    ========== ================================================================= =============
    "u"        :math:`\frac{1}{n(n-1)} \sum_{i \ne j} u(x_i, x_j)`               O(n²)
    "v"        :math:`\frac{1}{n^2} \sum_{i, j} u(x_i, x_j)`                     O(n²)
    "linear"   mean of :math:`u(x_1, x_2), u(x_3, x_4), \dots`                   O(n)
    "block"    mean of "u" over consecutive blocks                               O(n^1.5)
    ========== ================================================================= =============

    A kernel detects errors of about its bandwidth. By default the statistics "u" and "v" are those
    of a *panel*: of data the RBF kernel with the median distance, twice, half and a
    quarter of it, and the IMQ kernel with four times the median; of draws the IMQ kernel with the
    square root of the dimension, the RBF kernel with half and a quarter of it, two of these with a
    tilt, and the largest z-score of a mean or standard deviation (:func:`ksd_moments`) where its
    standard errors can be trusted. All members see the same points and replicates, each statistic
    is standardized by its own replicates, and the largest decides.

    A few draws with huge scores, as where a scale is close to zero, can outweigh all others in the
    statistic and in every replicate, and hide any error in them. A tilted kernel
    :math:`w(x) k(x, x') w(x')` weighs draws down whose log density is far below that of most; the
    kernel without a tilt sees what those draws do.

    The multinomial bootstrap draws counts :math:`c \sim \mathrm{Mult}(n; 1/n)` and forms
    :math:`\sum_{i \ne j} \frac{c_i - 1}{n} \frac{c_j - 1}{n} u(x_i, x_j)`.

    References
    ----------
    .. [1] Liu, Q., Lee, J. D., and Jordan, M. I. (2016). A kernelized Stein discrepancy for
       goodness-of-fit tests. Proceedings of the 33rd International Conference on Machine Learning.
       arXiv:1602.03253

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> import pymc_ksd
    >>> data = np.random.default_rng(1).standard_t(3, size=(300, 2))
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0, 1, shape=2)
    >>> result = pm.ksd_test(model, data, random_seed=1)
    >>> bool(result["p_value"] <= 0.05)
    True
    """
    is_draws, held_out = holds_draws(data), posterior is not None
    chosen = _statistic(statistic, points_per_block, is_draws)
    how = comparing(
        kernel, bandwidth, scale, compile_kwargs, draws=is_draws, joins=chosen.takes_weights
    )
    if null is None and chosen.takes_weights and is_draws and not held_out:
        null = null_of_draws(data, autocorrelation_time)
    elif null is None and how.joins_several and not held_out:
        null = "rademacher"  # the paper's null is that of its one kernel, and takes longer
    chosen_null = _null(null, autocorrelation_time, chosen, held_out)
    alpha = check_alpha(alpha)
    n_replicates = optional_count(n_bootstrap, "n_bootstrap", 1)
    if n_replicates is None and chosen_null.simulates and held_out:
        n_replicates = max(_SLOW_REPLICATES, fewest_replicates(alpha))
    effort = effort_of(block_size, progressbar, client)
    mismatch = ""
    if held_out:
        target, mismatch = predictive(
            model, data, posterior, var_names, sample_dims, compile_kwargs, progressbar
        )
    else:
        target = target_of(model, var_names, sample_dims, compile_kwargs, data)
    if is_draws and chosen_null.name == "normal":
        warn_user(
            f"`statistic` {chosen.name!r} with the normal null takes the draws as independent: "
            "thin them first, or use the statistic 'v' and the null 'wild'.",
            DrawsWarning,
        )
    prepared = prepare(
        target,
        data,
        how,
        random_seed,
        progressbar=progressbar,
        may_be_constant=chosen_null.simulates,
        may_stream=chosen_null.name == "normal",
    )
    if mismatch:
        prepared = replace(prepared, sample=replace(prepared.sample, mismatch=mismatch))
    other = largest_moment(prepared, data, alpha, effort) if how.joined else None
    n_replicates = n_replicates or default_replicates(prepared, alpha)
    plan = Plan(prepared.panel, chosen, chosen_null, n_replicates, alpha, effort, other)
    result, _ = run_prepared(prepared, plan)
    return result


def default_replicates(prepared: Prepared, alpha: float) -> int:
    """Return how many replicates a test has unless the user says."""
    if not prepared.panel.others:
        return _REPLICATES
    many = prepared.points.n_points > _MANY_POINTS
    # Of draws half of the level is that of moments, and if they are doubtful a tenth of it rejects.
    needed = fewest_replicates(alpha / 20 if prepared.sample.are_draws else alpha)
    return max(_FEWER_REPLICATES if many else _REPLICATES, min(_MOST_REPLICATES, needed))


def _statistic(
    statistic: str | Statistic | None, points_per_block: int | None, is_draws: bool
) -> Statistic:
    """Return the statistic, whose option may be given in two ways."""
    found = get_statistic(statistic if statistic is not None else "v" if is_draws else "u")
    if points_per_block is None:
        return found
    if found.name != "block":
        raise ValueError(
            f"`points_per_block` belongs to `statistic` 'block', but it is {found.name!r}."
        )
    return Block(points_per_block)


def _null(
    null: str | Null | None,
    autocorrelation_time: float | None,
    statistic: Statistic,
    held_out: bool,
) -> Null:
    """Return the null, whose option may be given in two ways."""
    if null is None and held_out:
        null = "parametric"
    found = get_null(null, statistic)
    if autocorrelation_time is None:
        return found
    if found.name != "wild":
        raise ValueError(
            f"`autocorrelation_time` belongs to `null` 'wild', but `null` is {found.name!r}."
        )
    return Wild(autocorrelation_time)


def null_of_draws(data: Any, autocorrelation_time: float | None = None) -> str:
    """Return the null for a sampler's draws, which draws of an approximation are not."""
    known = drawn_independently(data) and autocorrelation_time is None
    return "rademacher" if known else "wild"


def run_prepared(
    prepared: Prepared, plan: Plan, *, groups: np.ndarray | None = None
) -> tuple[xr.Dataset, PairSums | None]:
    """Test a prepared sample; return what :func:`ksd_test` returns, and sums over all pairs."""
    plan = replace(plan, null=plan.null.fitted_to(prepared.sample))
    points, sample, rng = prepared.points, prepared.sample, prepared.rng
    replicates = prepared.replicates(plan.n_replicates)
    outcome = run_test(plan, points, sample, rng, lambda: next(replicates), groups=groups)
    return _dataset(prepared, plan, outcome), outcome.estimate.sums


def _dataset(prepared: Prepared, plan: Plan, outcome: Outcome) -> xr.Dataset:
    """Return the numbers of a test with names, and what decided it as attributes."""
    settings = {
        **prepared.settings,
        "statistic": plan.statistic.name,
        "null": plan.null.name,
        "alpha": plan.alpha,
        "autocorrelation_time": None,
        **plan.null.options,
        "n_bootstrap": plan.n_replicates,
    }
    estimate = outcome.estimate
    v = mean_diagonal = float("nan")
    if estimate.sums is not None:
        v, mean_diagonal = VStatistic().of_sums(estimate.sums), estimate.sums.diagonal.mean()
    status, reason = status_of_test(prepared.sample, plan, outcome)
    settings |= {"status": status, "reason": reason, "mismatch": prepared.sample.mismatch}
    if prepared.sample.are_draws and estimate.members:
        settings["diagonal_share"] = estimate.members[0].diagonal_share
    dataset = xr.Dataset(
        {
            "statistic": ((), outcome.statistic),
            "p_value": ((), outcome.p_value),
            "critical_value": ((), outcome.critical_value),
            "ksd": ((), float(np.sqrt(max(v, 0.0))) if np.isfinite(v) else np.nan),
            "ess_ksd": ((), mean_diagonal / v if v > 0 else np.nan),
            "null_distribution": (("bootstrap",), outcome.null_distribution),
        },
        attrs=attributes({"result": "ksd_test", **settings}),
    )
    dataset.attrs = {"conclusion": conclusion(dataset), **dataset.attrs}
    if outcome.members:
        dataset = dataset.assign(_of_members(outcome.members))
    if estimate.coordinates.size:
        variables = prepared.target.variables
        dataset = dataset.merge(contributions(estimate.coordinates, variables))
    return dataset


def _of_members(members: Sequence[MemberResult]) -> xr.Dataset:
    """Return what each member of a panel came to."""
    names = ("statistic", "p_value", "excess", "bandwidth")
    return xr.Dataset(
        {f"member_{name}": ("member", [getattr(one, name) for one in members]) for name in names},
        coords={"member": [member.name for member in members]},
    )
