"""Which parameter is off, by how much, and what the right number is: moments by Stein features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_ksd.diagnostics.certificate import certificate
from pymc_ksd.diagnostics.corrected_means import CorrectedMeans, correct_means
from pymc_ksd.diagnostics.prepare import effort_of
from pymc_ksd.diagnostics.quantities import Quantities
from pymc_ksd.diagnostics.results import attributes, conclusion
from pymc_ksd.diagnostics.score import Score, target_of
from pymc_ksd.diagnostics.scored_draws import HeldDraws, ScoredDraws, StreamedDraws
from pymc_ksd.diagnostics.scoring import check_varies, score_sample
from pymc_ksd.diagnostics.status import status_of_moments
from pymc_ksd.engine.walk import Effort
from pymc_ksd.models.target import Target
from pymc_ksd.options import check_alpha, positive_number
from pymc_ksd.samples.containers import (
    as_only_variable,
    check_draws,
    draws_group,
    thinned,
    with_numbers,
)
from pymc_ksd.samples.draws import read_draws
from pymc_ksd.samples.sample import Sample
from pymc_ksd.samples.stream import DrawStream, is_large
from pymc_ksd.stats.zero_means import family_wise

#: What the argument `order` may be, and the orders of features that are tried.
ORDERS: dict[Any, tuple[int, ...]] = {"auto": (1, 2), 1: (1,), 2: (2,)}
#: Draws by which those that are too many to hold are judged.
_SOME_DRAWS = 10_000


def ksd_moments(
    model: pm.Model | Score | None = None,
    data: Any = None,
    *,
    var_names: str | Sequence[str] | None = None,
    order: str | int = "auto",
    alpha: float = 0.05,
    margin: float | None = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
) -> xr.Dataset:
    r"""Estimate and correct the errors of the means and standard deviations of draws.

    The score of the posterior gives functions whose posterior mean is known to be zero. If the
    draws come from the posterior, the averages of these functions are zero up to chance. If not,
    they show by how much the mean and the standard deviation of every parameter are off, and what
    they should be. The cost is proportional to the number of draws.

    Parameters
    ----------
    model : pm.Model, bambi.Model or Score, optional
        The model, by default the one whose context is active, or its compiled score.
    data : DataTree, InferenceData or Dataset
        A sampler's draws of all free variables.
    var_names : str or sequence of str, optional
        Variables to show: by default the free variables; any other variable of the draws, such as
        Deterministics, may be named. P-values are adjusted for the number of elements shown.
    order : {"auto", 1, 2}, default "auto"
        Order of the features: scores only, or also products of scores and coordinates. By default,
        whichever better explains draws that were not used for fitting. Parameters that are too many
        for all of these get two features of their own each, one of either order.
    alpha : float, default 0.05
        Level of the test and of a certificate.
    margin : float, optional
        Certify that every mean is within this many posterior standard deviations of the
        posterior's, and every standard deviation within this fraction (0.1 is 10 %). A test that
        does not reject cannot show that; a certificate does.
    progressbar : bool, default True
        Show a progress bar when scoring takes long.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``.
    client : distributed.Client or False, optional
        See :func:`ksd_test`.

    Returns
    -------
    xarray.Dataset
        For each variable, under its own name and dims and with the dim ``diagnostic``:

        - ``mean``, ``sd`` and ``mcse_mean`` of the draws, as ArviZ computes them,
        - ``stein_mean``, ``stein_sd`` and ``stein_mcse``: the corrected mean and standard deviation
          and the standard error of the corrected mean; NaN where the correction cannot be relied
          on,
        - ``bias_mean``: by how many posterior standard deviations the draws' mean is too high,
        - ``bias_sd``: by what fraction their standard deviation is too large,
        - ``mcse_bias_mean`` and ``mcse_bias_sd``: standard errors of the two biases,
        - ``z_mean`` and ``z_sd``: z-scores of the mean and of the standard deviation,
        - ``p_mean`` and ``p_sd``: their p-values, adjusted for everything that is shown,
        - ``uncorrected``: 0, or why there is no corrected value: it is not finite in every draw
          (1), the same in every draw (2), a few draws decide the correction (3), the draws are too
          far off (4), parts of them disagree about the correction (5), only the standard
          deviation is too far off (6), or another parameter is, so that no correction can be
          trusted (7),

        and the scalars ``p_value``, the smallest of the adjusted p-values, and ``gain``: how many
        times as many draws it would take for plain means to be as precise as the corrected ones
        (the median over everything that is shown). The attributes hold ``status``, with ``reason``
        if it is "cannot tell", ``doubt``, why errors might be larger than they look, ``not_shown``,
        free variables that the draws do not contain, one per line, ``mismatch``, why draws and
        model do not belong together if they do not, and the settings.

    Notes
    -----
    With features :math:`g` of mean zero and a quantity :math:`f \approx \alpha + \beta \cdot g`,
    the mean of :math:`f - \beta \cdot g` is a corrected mean, and :math:`\beta \cdot \bar g` is
    the error of the draws' own mean [1]_ [2]_. The coefficients for each part of the draws are
    fitted to the other parts. A correction is left out if a few draws decide it, if it exceeds one
    standard deviation, or if parts of the draws disagree about it.

    A mode that no chain has visited, and errors that change neither a mean nor a variance, remain
    invisible; :func:`ksd_test` compares whole distributions.

    References
    ----------
    .. [1] Mira, A., Solgi, R. and Imparato, D. (2013). Zero variance Markov chain Monte Carlo for
       Bayesian estimators. Statistics and Computing 23, 653-662. doi:10.1007/s11222-012-9344-6
    .. [2] Oates, C. J., Girolami, M. and Chopin, N. (2017). Control functionals for Monte Carlo
       integration. Journal of the Royal Statistical Society B 79, 695-718. doi:10.1111/rssb.12185

    Examples
    --------
    >>> import numpy as np, pymc as pm, xarray as xr
    >>> import pymc_ksd
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu")
    ...     tau = pm.HalfNormal("tau")
    >>> rng = np.random.default_rng(0)
    >>> draws = xr.Dataset(
    ...     {
    ...         "mu": (("chain", "draw"), rng.normal(0.3, 1, size=(4, 250))),  # wrong mean
    ...         "tau": (("chain", "draw"), abs(rng.normal(size=(4, 250)))),
    ...     }
    ... )
    >>> moments = pm.ksd_moments(model, draws)
    >>> moments["mu"].sel(diagnostic=["bias_mean", "stein_mean"]).values.round(2)
    array([ 0.25, -0.  ])
    >>> bool(moments["p_value"] < 0.001)
    True
    """
    alpha = check_alpha(alpha)
    margin = None if margin is None else positive_number(margin, "margin")
    if isinstance(order, bool) or not isinstance(order, str | int) or order not in ORDERS:
        raise ValueError(f"`order` must be 'auto', 1 or 2, got {order!r}.")
    effort = effort_of(None, progressbar, client)
    draws = read_scored(model, data, compile_kwargs, progressbar)
    quantities = shown_quantities(draws, var_names)
    return moments_of(draws, quantities, ORDERS[order], alpha, margin, effort)


@dataclass(frozen=True)
class ReadDraws:
    """Draws whose moments are wanted, read and, unless they are too many to hold, scored.

    Attributes
    ----------
    target : Target
        The density.
    sample : Sample
        The draws, or some of them that are evenly spaced.
    posterior : xarray.Dataset
        All variables of the draws on the users' scale.
    n_draws : int
        The number of draws of a chain.
    values : tuple of ndarray
        Scores and log densities of the sample; none of draws that are too many to hold.
    stream : callable, optional
        Gives all draws, with other variables by name, where they are too many to hold.
    """

    target: Target
    sample: Sample
    posterior: xr.Dataset
    n_draws: int
    values: tuple[np.ndarray, ...] = ()
    stream: Callable[[Sequence[str]], DrawStream] | None = None

    def scored(self, quantities: Quantities) -> ScoredDraws:
        """Return all draws with scores and quantities."""
        if self.stream is None:
            return HeldDraws.of(self.sample, self.values, quantities.values())
        # A function may take any variable.
        names = quantities.arrays if quantities.function is None else self.posterior
        return StreamedDraws(self.stream(list(names)), self.target, quantities)


def read_scored(
    model: pm.Model | Score | None,
    data: Any,
    compile_kwargs: Mapping[str, Any] | None,
    progressbar: bool,
) -> ReadDraws:
    """Read draws and score them, or make ready to do so a stretch at a time."""
    check_draws(data, "data")
    target = continuous_target(model, compile_kwargs, data)
    data = as_only_variable(data, target.variables)
    posterior = draws_group(data)
    if posterior is not None and is_large(target, data):
        step = -(-posterior.sizes["draw"] * posterior.sizes["chain"] // _SOME_DRAWS)
        # A stream is scored by the model, whatever is stored.
        sample = replace(read_draws(target, thinned(data, step)), values=(), scores="model")
        check_varies(sample.points, target)
        return ReadDraws(
            target,
            sample,
            posterior,
            posterior.sizes["draw"],
            stream=lambda names: DrawStream(target, data, names),
        )
    sample = read_draws(target, data)
    check_varies(sample.points, target)
    values = score_sample(target, sample, progressbar)
    assert posterior is not None  # the draws were read from it
    return ReadDraws(target, sample, posterior, sample.n_draws, values)


def continuous_target(
    model: pm.Model | Score | None, compile_kwargs: Mapping[str, Any] | None, data: Any
) -> Target:
    """Return the density of draws, unless it has no score."""
    target = target_of(model, None, None, compile_kwargs, data)
    if target.operator != "langevin":
        raise ValueError(
            f"The variable(s) {', '.join(target.names)} are discrete and have no score, which the "
            "correction of moments needs."
        )
    if target.circular:
        raise ValueError(
            f"The variable(s) {', '.join(target.circular)} live on a circle, where means and "
            "standard deviations depend on where it is cut: they cannot be corrected."
        )
    return target


def shown_quantities(draws: ReadDraws, var_names: str | Sequence[str] | None) -> Quantities:
    """Return the elements of the variables that are shown: free ones, or those that are named."""
    target, known = draws.target, with_numbers(draws.posterior)
    names = [var_names] if isinstance(var_names, str) else var_names
    not_stored: list[str] = []
    if names is None:
        names = [name for name in target.names if name in known]
        not_stored = [name for name in target.names if name not in known]
        if not names:
            raise ValueError(
                f"`data` has none of the free variables {', '.join(target.names)} in its "
                "posterior: name other variables in `var_names`."
            )
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(
            f"`var_names` must name numeric variables of `data` ({', '.join(map(str, known))})"
            f", got {', '.join(unknown) or 'none'}."
        )
    names = [name for name in dict.fromkeys(names) if known[name].size]
    if not names:
        raise ValueError("`var_names` must name variables of `data` that have elements.")
    quantities = Quantities.of_variables(target, known, names)
    return replace(quantities, not_stored=tuple(not_stored))


def moments_of(
    draws: ReadDraws,
    quantities: Quantities,
    orders: Sequence[int],
    alpha: float,
    margin: float | None,
    effort: Effort,
) -> xr.Dataset:
    """Return what :func:`ksd_moments` returns, of draws that were read."""
    target, sample = draws.target, draws.sample
    corrected = correct_means(draws.scored(quantities), quantities, orders, effort)
    columns = _columns(corrected)
    result = quantities.arranged(columns)
    p_values = np.concatenate([columns["p_mean"], columns["p_sd"]])
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (corrected.error / corrected.stein_error) ** 2
    known = np.isfinite(gain)
    result["p_value"] = ((), float(np.nanmin(p_values)) if np.isfinite(p_values).any() else np.nan)
    result["gain"] = ((), float(np.median(gain[known])) if known.any() else np.nan)
    n = draws.n_draws * sample.n_chains
    settings = {
        "target": target.kind,
        "sample": "draws",
        "scores": sample.scores,
        "alpha": alpha,
        "order": corrected.order,
        "tilted": corrected.is_tilted,
        "n": n,
        "n_chains": sample.n_chains,
        "dim": target.dim,
    }
    p_value = float(result["p_value"])
    status, reason, doubt = status_of_moments(sample, corrected, p_value, alpha)
    if margin is not None:
        settings["margin"] = margin
        status, reason = certificate(corrected, status, doubt, alpha, margin, n)
    settings |= {"status": status, "reason": reason, "doubt": doubt, "mismatch": sample.mismatch}
    if quantities.not_stored:
        settings["not_shown"] = "\n".join(quantities.not_stored)
    result.attrs = attributes({"result": "ksd_moments", **settings})
    result.attrs = {"conclusion": conclusion(result), **result.attrs}
    return result


def _columns(corrected: CorrectedMeans) -> dict[str, np.ndarray]:
    """Return the diagnostics of every quantity."""
    bias, bias_error = corrected.biases()
    tests = np.stack([corrected.of_mean.p_value, corrected.of_sd.p_value])
    varies = corrected.sd > 0
    adjusted = np.full(tests.shape, np.nan)
    adjusted[:, varies] = family_wise(tests[:, varies])
    return {
        "mean": corrected.mean,
        "sd": corrected.sd,
        "mcse_mean": corrected.error,
        "stein_mean": corrected.stein_mean,
        "stein_sd": corrected.stein_sd,
        "stein_mcse": corrected.stein_error,
        "bias_mean": bias[0],
        "bias_sd": bias[1],
        "mcse_bias_mean": bias_error[0],
        "mcse_bias_sd": bias_error[1],
        "z_mean": np.where(varies, corrected.of_mean.z, np.nan),
        "z_sd": np.where(varies, corrected.of_sd.z, np.nan),
        "p_mean": adjusted[0],
        "p_sd": adjusted[1],
        "uncorrected": corrected.uncorrected,
    }
