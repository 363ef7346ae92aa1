"""The public goodness-of-fit test."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_ksd.birth_death import BirthDeathKernel
from pymc_ksd.custom_kernels import get_kernel
from pymc_ksd.draw_stream import DrawStream, ScaledStream, is_large
from pymc_ksd.draws import (
    Draws,
    DrawsWarning,
    estimate_autocorrelation_time,
    holds_draws,
    read_draws,
)
from pymc_ksd.kernels import Kernel, positive_number
from pymc_ksd.nulls import NULLS, fewest_replicates
from pymc_ksd.points import (
    BANDWIDTH_RULES,
    SCALES,
    Points,
    bandwidth_rule,
    choose_bandwidths,
)
from pymc_ksd.predictive_density import predictive_score
from pymc_ksd.results import test_dataset
from pymc_ksd.score import Score, compile_score, resolve_model
from pymc_ksd.scored_points import scored_points, simulated_points
from pymc_ksd.statistics import TestSettings, run_test
from pymc_ksd.stein import SteinKernel

__all__ = ["ksd_test"]

#: Replicates of the null, and where each is scored under all draws of a posterior.
_REPLICATES, _SLOW_REPLICATES = 1_000, 199


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
    statistic: str | None = None,
    null: str | None = None,
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
        are tested against its posterior predictive distribution: the mixture over these draws, of
        which at most 500 are used, evenly spaced. Inputs of new observations are set before, with
        ``pm.set_data``. New data share one value of the parameters, so by default they are held
        against data replicated with one draw each (``null="parametric"``). The bootstraps are
        faster, but take the observations as independent draws from the mixture: they reject true
        models unless these were fitted to many more data than are tested.
    var_names : str or sequence of str, optional
        Test some variables only, see :func:`compile_score`.
    sample_dims : str or sequence of str, optional
        Dims of an observed variable that count observations, by default its first axis.
    kernel : str, Kernel or callable, optional
        ``"rbf"``, ``"imq"``, ``"matern52"``, a kernel object such as ``RBF() + IMQ()``, or a
        PyTensor function of two vectors. By default ``"rbf"`` for data and ``"imq"`` for draws.
    bandwidth : {"auto", "median", "dimension"}, float or array_like, default "auto"
        The kernel's bandwidth: the median distance between points (of at most 1,000 of them), the
        square root of their dimension, a number, or several numbers whose kernels are averaged. By
        default the median for data and the dimension for draws that are scaled.
    scale : {"auto", None, "std", "cov"}, default "auto"
        Scale points by nothing, by their standard deviations, or whiten them by their covariance
        before they are compared. By default data are not scaled and draws are whitened.
    statistic : {"u", "v", "linear", "block"}, optional
        The estimator, see Notes. By default ``"u"`` for data and ``"v"`` for draws.
    null : {"multinomial", "rademacher", "wild", "parametric", "normal"}, optional
        How the statistic's distribution under the model is found. By default ``"wild"`` for draws,
        which may be correlated; for data ``"multinomial"`` with ``"u"`` and ``"rademacher"`` with
        ``"v"``; ``"normal"`` with ``"linear"`` and ``"block"``. ``"parametric"`` simulates data
        from the model and is exact, at many times the cost; it is the default with `posterior`.
    autocorrelation_time : float, optional
        Integrated autocorrelation time of the draws for ``"wild"``, 1 for independent draws. By
        default estimated: the number of draws over ArviZ's effective sample size, chains taken
        around their own means, of the least favourable among all coordinates and the squared
        distance from the centre.
    n_bootstrap : int, optional
        Number of replicates, by default 1,000; for the parametric null with `posterior` 199, or as
        many as `alpha` needs.
    alpha : float, default 0.05
        Level of the test, for `critical_value`.
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

        - ``statistic``: the estimate of the squared discrepancy,
        - ``p_value``: :math:`(1 + \#\{S^* \ge S\}) / (1 + m)`,
        - ``critical_value``: what the statistic must exceed to be rejected at level `alpha`,
        - ``ksd``: the square root of the V-statistic (NaN for ``"linear"`` and ``"block"``),
        - ``ess_ksd``: mean of :math:`u(x_i, x_i)` over the V-statistic, the number of independent
          draws from the model that would be as far from it (NaN likewise),
        - ``null_distribution``: the replicates, over the dim ``bootstrap``,
        - for each variable, under its own name and dims, what its coordinates add to the statistic
          (not for ``"linear"`` and ``"block"``). Variables whose unconstrained coordinates do not
          belong to single elements, such as simplexes, show one number.

        Settings and library versions are attributes. The dataset can be saved with ``to_netcdf``
        and attached to inference data.

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
    is_draws = holds_draws(data)
    base_kernel = get_kernel(kernel if kernel is not None else "imq" if is_draws else "rbf")
    statistic = statistic if statistic is not None else "v" if is_draws else "u"
    if scale == "auto":
        scale = "cov" if is_draws else None
    if null is None and posterior is not None:
        null = "parametric"
    elif null is None and is_draws and statistic in ("u", "v"):
        null = "wild"
    null = _check_options(base_kernel, statistic, null, scale, bandwidth, alpha)
    bandwidth = bandwidth_rule(bandwidth, draws=is_draws, scale=scale)
    if n_bootstrap is None:
        n_bootstrap = _REPLICATES
        if null == "parametric" and posterior is not None:
            n_bootstrap = max(_SLOW_REPLICATES, fewest_replicates(alpha))
    n_bootstrap = check_count(n_bootstrap, "n_bootstrap", 1)
    points_per_block = (
        None if points_per_block is None else check_count(points_per_block, "points_per_block", 2)
    )
    block_size = None if block_size is None else check_count(block_size, "block_size", 1)
    if posterior is None:
        score = resolve_score(model, var_names, sample_dims, compile_kwargs)
    else:
        score = _predictive_score(
            model, data, posterior, var_names, sample_dims, compile_kwargs, progressbar
        )
    check_circular(score.circular, base_kernel)
    if data is None:
        data = score.observed_data()
        if data is None:
            raise ValueError(
                "`data` is required: only a model without free variables has data of its own to "
                "test."
            )
    n_chains = 1
    if is_draws and null == "normal":
        warnings.warn(
            f"`statistic` {statistic!r} with the normal null takes the draws as independent: thin "
            "them first, or use the statistic 'v' and the null 'wild'.",
            DrawsWarning,
            stacklevel=2,
        )
    seed, rng = generator(random_seed)
    bandwidth_rng, null_rng = rng.spawn(2)
    scaled: Points | ScaledStream
    if is_draws and null == "normal" and is_large(score, data):
        stream = DrawStream(score, data)
        n_chains, n = stream.n_chains, stream.n_chains * stream.n_draws
        scaled = stream.scaled(scale, progressbar)
        positions = scaled.sample
    else:
        if is_draws:
            draws = read_draws(score, data)
            points, n_chains = draws.points, draws.n_chains
        else:
            points = score.unconstrain(data)
        n = len(points)
        if not (score.discrete and null == "parametric"):
            check_varies(points, score)
        scaled = scored_points(score, points, scale, progressbar)
        positions = scaled.positions
    bandwidths = choose_bandwidths(bandwidth, positions, bandwidth_rng)

    samples = simulated_points(score, n, n_bootstrap, scale, null_rng)

    def replicate() -> tuple[Points, np.ndarray]:
        sample = next(samples)
        return sample, choose_bandwidths(bandwidth, sample.positions, bandwidth_rng)

    if autocorrelation_time is not None:
        if null != "wild":
            raise ValueError(
                f"`autocorrelation_time` belongs to `null` 'wild', but `null` is {null!r}."
            )
        autocorrelation_time = positive_number(autocorrelation_time, "autocorrelation_time")
    elif null == "wild":
        chains = Draws(points, n_chains, len(points) // n_chains)
        autocorrelation_time = estimate_autocorrelation_time(chains)
    settings = TestSettings(
        stein=(BirthDeathKernel if score.discrete else SteinKernel)(base_kernel, compile_kwargs),
        statistic=statistic,
        null=null,
        n_bootstrap=n_bootstrap,
        alpha=float(alpha),
        points_per_block=points_per_block,
        block_size=block_size,
        progressbar=progressbar,
        n_chains=n_chains,
        autocorrelation_time=autocorrelation_time or 1.0,
        client=client,
    )
    outcome = run_test(settings, scaled, bandwidths, null_rng, replicate)
    return test_dataset(
        outcome,
        score.variables,
        {
            "target": score.kind,
            "sample": "draws" if is_draws else "data",
            "kernel": base_kernel,
            "bandwidth": bandwidths,
            "scale": scale,
            "statistic": statistic,
            "null": null,
            "alpha": float(alpha),
            "n": n,
            "n_chains": n_chains,
            "autocorrelation_time": autocorrelation_time,
            "dim": score.dim,
            "n_bootstrap": n_bootstrap,
            "seed": seed,
        },
    )


def _predictive_score(
    model: Any,
    data: Any,
    posterior: Any,
    var_names: str | Sequence[str] | None,
    sample_dims: str | Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
    progressbar: bool,
) -> Score:
    """Return the score of new observations under the posterior predictive distribution."""
    if isinstance(model, Score):
        raise TypeError("`posterior` needs the model itself: `model` is a compiled Score.")
    if data is None or holds_draws(data):
        raise ValueError(
            "`data` must be new observations when `posterior` is given. To check the model on the "
            "data it was fitted to, use ksd_ppc."
        )
    model = resolve_model(model)
    return predictive_score(
        model, posterior, var_names, sample_dims, compile_kwargs, progressbar=progressbar
    )


def _check_options(
    kernel: Kernel, statistic: str, null: str | None, scale: Any, bandwidth: Any, alpha: float
) -> str:
    """Check what can be checked before anything is compiled, and return the null."""
    if statistic not in NULLS:
        raise ValueError(
            f"`statistic` must be one of {', '.join(map(repr, NULLS))}, got {statistic!r}."
        )
    allowed = NULLS[statistic]
    if null is None:
        null = allowed[0]
    elif null not in allowed:
        raise ValueError(
            f"`null` must be one of {', '.join(map(repr, allowed))} for `statistic` "
            f"{statistic!r}, got {null!r}."
        )
    if scale not in SCALES:
        raise ValueError(f"`scale` must be one of {', '.join(map(repr, SCALES))}, got {scale!r}.")
    check_bandwidth(kernel, bandwidth)
    check_alpha(alpha)
    return null


def check_alpha(alpha: Any) -> None:
    """Refuse a level that is none."""
    if not (isinstance(alpha, int | float | np.number) and 0 < alpha < 1):
        raise ValueError(f"`alpha` must lie strictly between 0 and 1, got {alpha!r}.")


def check_bandwidth(kernel: Kernel, bandwidth: Any) -> None:
    """Refuse a bandwidth that is none, or that the kernel would ignore."""
    if isinstance(bandwidth, str) and bandwidth in BANDWIDTH_RULES:
        return
    choose_bandwidths(bandwidth, np.empty((0, 0)), np.random.default_rng(0))
    if not kernel.takes_bandwidth:
        raise ValueError(
            f"`bandwidth` was given, but `kernel` {kernel!r} does not take one from the test."
        )


def check_count(value: Any, argument: str, least: int) -> int:
    """Return a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"`{argument}` must be an integer, got {type(value).__name__}.")
    if value < least:
        raise ValueError(f"`{argument}` must be at least {least}, got {value}.")
    return int(value)


def check_circular(names: Sequence[str], kernel: Kernel) -> None:
    """Refuse kernels that are not periodic for variables on a circle."""
    if names and kernel.radial:
        raise ValueError(
            f"The variable(s) {', '.join(names)} live on a circle, where `kernel` "
            f"{kernel!r} is not periodic: the test would reject true models. Pass a periodic "
            "kernel, see the example of pymc_ksd.General."
        )


def resolve_score(
    model: pm.Model | Score | None,
    var_names: str | Sequence[str] | None,
    sample_dims: str | Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
) -> Score:
    """Return the score of a model, or the compiled one that was given in its place."""
    if not isinstance(model, Score):
        return compile_score(
            model, var_names, sample_dims=sample_dims, compile_kwargs=compile_kwargs
        )
    if var_names is not None or sample_dims is not None:
        raise ValueError(
            "`var_names` and `sample_dims` are fixed in a compiled Score: give them to "
            "compile_score."
        )
    return model


def check_varies(points: np.ndarray, score: Score) -> None:
    """Refuse points that are all the same in some coordinate, and name it."""
    constant = np.flatnonzero((points == points[0]).all(axis=0))
    if constant.size:
        shown = ", ".join(score.labels[index] for index in constant[:5])
        more = f" and {constant.size - 5} more" if constant.size > 5 else ""
        hint = " `null` 'parametric' can test them all the same." if score.discrete else ""
        raise ValueError(
            f"`data` must vary, but all {len(points)} values of {shown}{more} are the same.{hint}"
        )


def generator(
    random_seed: int | np.random.Generator | None,
) -> tuple[int | str, np.random.Generator]:
    """Return a seed worth writing down and a generator."""
    if isinstance(random_seed, np.random.Generator):
        return "generator", random_seed
    if random_seed is None:
        random_seed = int(np.random.SeedSequence().generate_state(1)[0])
    elif isinstance(random_seed, bool) or not isinstance(random_seed, int | np.integer):
        raise TypeError(
            "`random_seed` must be an integer, a numpy.random.Generator or None, got "
            f"{type(random_seed).__name__}."
        )
    return int(random_seed), np.random.default_rng(int(random_seed))
