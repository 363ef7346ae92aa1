r"""Estimators of the squared discrepancy, each with its test.

=========== ===================================================================== ==============
`statistic` estimator                                                             cost
=========== ===================================================================== ==============
``"u"``     :math:`\frac{1}{n(n-1)} \sum_{i \ne j} u(x_i, x_j)`, unbiased         :math:`O(n^2)`
``"v"``     :math:`\frac{1}{n^2} \sum_{i, j} u(x_i, x_j)`, never negative         :math:`O(n^2)`
``"linear"`` mean of :math:`u(x_1, x_2), u(x_3, x_4), \dots`                      :math:`O(n)`
``"block"`` mean of ``"u"`` over consecutive blocks of b points                   :math:`O(n b)`
=========== ===================================================================== ==============
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_ksd.draw_stream import ScaledStream
from pymc_ksd.engine import PairSums, evaluate_all_pairs, evaluate_pairs, evaluate_squares
from pymc_ksd.nulls import (
    bootstrap_weights,
    critical_value,
    monte_carlo_p_value,
    normal_test,
    wild_weights,
)
from pymc_ksd.points import Points
from pymc_ksd.progress import progress_bar
from pymc_ksd.stein import SteinKernel

__all__ = ["Outcome", "TestSettings", "run_test"]


@dataclass(frozen=True)
class TestSettings:
    """Everything that decides a test, apart from points and randomness."""

    __test__ = False

    stein: SteinKernel
    statistic: str
    null: str
    n_bootstrap: int
    alpha: float
    points_per_block: int | None
    block_size: int | None
    progressbar: bool
    n_chains: int = 1
    autocorrelation_time: float = 1.0
    client: Any = None


@dataclass(frozen=True)
class Outcome:
    """The numbers of a test.

    Attributes
    ----------
    statistic, p_value, critical_value : float
        The test.
    null_distribution : ndarray of shape (m,)
        The statistic under the null hypothesis.
    v_statistic : float
        The V-statistic, NaN when the pairs were not all evaluated.
    mean_diagonal : float
        Mean of ``u(x_i, x_i)``.
    coordinates : ndarray of shape (d,), optional
        What each coordinate adds to the statistic.
    """

    statistic: float
    p_value: float
    critical_value: float
    null_distribution: np.ndarray
    v_statistic: float = float("nan")
    mean_diagonal: float = float("nan")
    coordinates: np.ndarray | None = None


def run_test(
    settings: TestSettings,
    points: Points | ScaledStream,
    bandwidths: np.ndarray,
    rng: np.random.Generator,
    replicate: Callable[[], tuple[Points, np.ndarray]],
) -> Outcome:
    """Compute a statistic and its null distribution.

    Parameters
    ----------
    settings : TestSettings
        Which test.
    points : Points or ScaledStream
        The sample; draws too many to hold go with statistics of a mean only.
    bandwidths : ndarray
        Bandwidths of the kernel.
    rng : numpy.random.Generator
        Randomness of the bootstrap.
    replicate : callable
        Simulates a sample from the model, with bandwidths chosen for it; for the parametric null.

    Returns
    -------
    Outcome
    """
    if settings.statistic in ("u", "v"):
        assert not isinstance(points, ScaledStream)
        return _quadratic_test(settings, points, bandwidths, rng, replicate)
    statistic, error = _mean_and_error(settings, points, bandwidths)
    if settings.null != "parametric":
        if error == 0:
            raise ValueError(
                "The terms of the statistic are all equal, so its error cannot be estimated: are "
                "the points repeated?"
            )
        p_value, critical, null = normal_test(
            statistic, error, settings.alpha, settings.n_bootstrap
        )
    else:
        null = _simulate(
            settings,
            replicate,
            lambda sample, h: _mean_and_error(replace(settings, progressbar=False), sample, h)[0],
        )
        p_value = monte_carlo_p_value(statistic, null)
        critical = critical_value(null, settings.alpha)
    return Outcome(statistic, p_value, critical, null)


def _quadratic_test(
    settings: TestSettings,
    points: Points,
    bandwidths: np.ndarray,
    rng: np.random.Generator,
    replicate: Callable[[], tuple[Points, np.ndarray]],
) -> Outcome:
    n = len(points.positions)
    weights = None
    if settings.null == "wild":
        weights = wild_weights(
            settings.n_chains,
            n // settings.n_chains,
            settings.n_bootstrap,
            settings.autocorrelation_time,
            rng,
        )
    elif settings.null != "parametric":
        weights = bootstrap_weights(settings.null, n, settings.n_bootstrap, rng)
    sums = evaluate_all_pairs(
        settings.stein,
        points,
        bandwidths,
        weights=weights,
        coordinates=True,
        block_size=settings.block_size,
        progressbar=settings.progressbar,
        client=settings.client,
    )
    statistic = _estimate(settings.statistic, sums)
    if weights is None:
        null = _simulate(
            settings,
            replicate,
            lambda sample, h: _estimate(
                settings.statistic,
                evaluate_all_pairs(
                    settings.stein, sample, h, block_size=settings.block_size, client=False
                ),
            ),
        )
    else:
        null = _bootstrap(settings, sums, n)
    assert sums.coordinates is not None
    assert sums.coordinates_diagonal is not None
    coordinates = sums.coordinates / n**2
    if settings.statistic == "u":
        coordinates = (sums.coordinates - sums.coordinates_diagonal) / (n * (n - 1))
    return Outcome(
        statistic=statistic,
        p_value=monte_carlo_p_value(statistic, null),
        critical_value=critical_value(null, settings.alpha),
        null_distribution=null,
        v_statistic=_estimate("v", sums),
        mean_diagonal=float(sums.diagonal.mean()),
        coordinates=coordinates,
    )


def _estimate(statistic: str, sums: PairSums) -> float:
    n = len(sums.diagonal)
    if statistic == "u":
        return sums.off_diagonal / (n * (n - 1))
    return (sums.off_diagonal + float(sums.diagonal.sum())) / n**2


def _bootstrap(settings: TestSettings, sums: PairSums, n: int) -> np.ndarray:
    assert sums.quadratic is not None
    assert sums.quadratic_diagonal is not None
    if settings.statistic == "v":
        return (sums.quadratic + sums.quadratic_diagonal) / n**2
    return sums.quadratic / (n**2 if settings.null == "multinomial" else n * (n - 1))


def _simulate(
    settings: TestSettings,
    replicate: Callable[[], tuple[Points, np.ndarray]],
    estimate: Callable[[Points, np.ndarray], float],
) -> np.ndarray:
    null = np.empty(settings.n_bootstrap)
    with progress_bar("Simulating the null", len(null), settings.progressbar) as bar:
        for index in range(len(null)):
            null[index] = estimate(*replicate())
            bar.advance(1)
    return null


def _mean_and_error(
    settings: TestSettings, points: Points | ScaledStream, bandwidths: np.ndarray
) -> tuple[float, float]:
    r"""Return the linear or block statistic and its standard error under the null hypothesis.

    The linear statistic's error is that of a mean of independent terms. A block's U-statistic has
    variance :math:`2\, \mathbb{E} u^2 / b(b-1)` under the null hypothesis; estimating it from all
    pairs of all blocks, and not from the few blocks' spread, keeps the level of the test.
    """
    n = points.n_points if isinstance(points, ScaledStream) else len(points.positions)
    size = settings.points_per_block or int(np.sqrt(n))
    if settings.statistic == "linear":
        size = 2
        if n < 4:
            raise ValueError(f"`statistic` 'linear' needs at least 4 points, got {n}.")
    elif size < 2 or n // size < 2:
        raise ValueError(
            f"`statistic` 'block' needs at least 2 blocks of at least 2 points, got {n} points "
            f"in blocks of {size}."
        )
    stretches = points.stretches(size) if isinstance(points, ScaledStream) else [points]
    terms, squares = [], 0.0
    with progress_bar("Comparing points", n, settings.progressbar) as bar:
        for part in stretches:
            length = len(part.positions)
            if settings.statistic == "linear":
                first, second = slice(0, length - length % 2, 2), slice(1, length, 2)
                terms.append(evaluate_pairs(settings.stein, part, bandwidths, first, second))
            else:
                sums, of_squares = evaluate_squares(settings.stein, part, bandwidths, size)
                terms.append(sums / (size * (size - 1)))
                squares += float(of_squares.sum())
            bar.advance(length)
            del part  # before the next stretch is read
    values = np.concatenate(terms)
    if settings.statistic == "linear":
        error = float(values.std(ddof=1) / np.sqrt(len(values)))
    else:
        pairs = size * (size - 1)
        error = float(np.sqrt(2 * squares / (pairs * len(values)) / pairs / len(values)))
    return float(values.mean()), error
