"""Means and standard deviations of draws, corrected by Stein features, and what they are off by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from pymc_ksd.samples.chains import autocorrelation_times
from pymc_ksd.stats.control_variates import ControlVariates, FoldSums, fit_control_variates
from pymc_ksd.stats.panel import share_of_few
from pymc_ksd.stats.zero_means import ZeroMeans, cautious_times, zero_means
from pymc_ksd.stein.features import Frame, Stretch
from pymc_ksd.stein.tilt import Tilt

#: Parts of a sample of which each is corrected by what the others have shown.
_FOLDS = 4
#: Numbers of features that are formed at a time.
_NUMBERS_TOGETHER = 4_000_000
#: What the hundredth part of all draws may hold of a coordinate's squared scores before the tilt.
_LARGE_SHARE = 0.2
#: What it may hold of a correction.
_LARGEST_SHARE = 0.5
#: How far a correction may reach, in standard deviations of the draws, and by what factor it may
#: change a variance: further away it is an extrapolation.
_FARTHEST, _LARGEST_FACTOR = 1.0, 4.0
#: How improbable it must be that parts of the sample differ so much in what they say.
_DISAGREEMENT = 1e-4
#: Coordinates from which the draws' effective number is estimated.
_COORDINATES = 100


@dataclass(frozen=True)
class ScoredDraws:
    """Draws in unconstrained coordinates with their scores, and the quantities that are wanted.

    Rows are the first draw of every chain, the second draw of every chain, and so on.

    Attributes
    ----------
    points, scores : ndarray of shape (n, d)
        Unconstrained draws and scores.
    log_densities : ndarray of shape (n,), optional
        Log densities, where they are known.
    quantities : ndarray of shape (n, p)
        What means are wanted of.
    coordinates : ndarray of int of shape (p, c)
        The coordinates that explain each quantity.
    n_chains : int
        The number of chains.
    independent : bool
        Whether draws are known to be independent.
    """

    points: np.ndarray
    scores: np.ndarray
    log_densities: np.ndarray | None
    quantities: np.ndarray
    coordinates: np.ndarray
    n_chains: int
    independent: bool = False

    def by_chain(self, values: np.ndarray) -> np.ndarray:
        """Arrange rows as (chain, draw, ...)."""
        shape = (-1, self.n_chains, *values.shape[1:])
        return values.reshape(shape).swapaxes(0, 1)

    def times(self, values: np.ndarray) -> np.ndarray:
        """Return autocorrelation times of columns."""
        if self.independent:
            return np.ones(values.shape[1])
        return autocorrelation_times(self.by_chain(values))

    @property
    def folds(self) -> tuple[np.ndarray, int]:
        """The part of the sample that each row is in: chains, or stretches of a single one."""
        n_draws = len(self.points) // self.n_chains
        if self.n_chains > 1 and not self.independent:
            count = min(self.n_chains, _FOLDS)
            return np.tile(np.arange(self.n_chains) * count // self.n_chains, n_draws), count
        return np.repeat(np.arange(n_draws) * _FOLDS // n_draws, self.n_chains), _FOLDS


@dataclass(frozen=True)
class CorrectedMeans:
    """Moments of quantities in draws, the same corrected, and tests of the difference.

    All arrays have the shape (p,) and the quantities' own units.

    Attributes
    ----------
    mean, sd, error : ndarray
        Of the draws, with ArviZ's standard error of the mean.
    stein_mean, stein_sd, stein_error : ndarray
        Corrected, and the standard error of the corrected mean; NaN where the checks fail.
    of_mean, of_sd : ZeroMeans
        By what means, and variances in units of the draws' variance, are off.
    order : int
        Order of the features.
    is_tilted : bool
        Whether they are tilted.
    few_decide : ndarray of bool
        Where so few draws hold most of a correction that errors of all others could not be seen.
    sd_error : ndarray
        Standard error of the corrected variance, as a part of the draws' variance.
    unexplained : ndarray of shape (p, 2)
        The part of the variance of quantities and of their squares that features do not explain.
    """

    mean: np.ndarray
    sd: np.ndarray
    error: np.ndarray
    stein_mean: np.ndarray
    stein_sd: np.ndarray
    stein_error: np.ndarray
    of_mean: ZeroMeans
    of_sd: ZeroMeans
    order: int
    is_tilted: bool
    few_decide: np.ndarray
    sd_error: np.ndarray
    unexplained: np.ndarray

    def is_explained(self, least: float) -> np.ndarray:
        """Whether features explain at least this part of a quantity and of its square."""
        return np.asarray((self.unexplained <= 1 - least).all(axis=1))


def correct_means(draws: ScoredDraws, orders: Sequence[int]) -> CorrectedMeans:
    """Correct the means and standard deviations of quantities.

    Parameters
    ----------
    draws : ScoredDraws
        The draws.
    orders : sequence of int
        Orders of features that may be used.

    Returns
    -------
    CorrectedMeans
    """
    frame = _frame(draws)
    centre, spread = draws.quantities.mean(axis=0), draws.quantities.std(axis=0)
    varies = spread > 1e-12 * np.maximum(np.abs(centre), np.finfo(float).tiny)
    unit = np.where(varies, spread, 1.0)
    standard = np.where(varies, (draws.quantities - centre) / unit, 0.0)
    variates, folds = _variates(draws, frame, standard, orders)
    explained = np.concatenate(
        [variates.explained(stretch) for stretch, _ in _stretches(draws, frame, standard, folds)]
    )
    # Without the mean of a quantity, its square has the derivative of its variance.
    series = explained.reshape(len(explained), -1)
    kinds = np.tile([1, 2], standard.shape[1])
    times = draws.times(series)
    found = zero_means(draws.by_chain(series), series.mean(axis=0), times, kinds)
    of_mean, of_sd = (_every_other(found, start) for start in (0, 1))
    residuals = standard - explained[..., 0]
    error, residual_error, sd_error = (
        _errors(draws, values) for values in (standard, residuals, standard**2 - explained[..., 1])
    )
    bias = np.where(variates.unexplained[:, 0] < 1, of_mean.mean, 0.0)
    residual_error = np.where(variates.unexplained[:, 0] < 1, residual_error, error)
    variance = 1 - of_sd.mean - bias**2
    few = np.array([_few_decide(column) for column in explained[..., 0].T])
    good = varies & ~few & (np.abs(bias) <= _FARTHEST) & _agree(draws, residuals, folds)
    sd_good = good & (variance >= 1 / _LARGEST_FACTOR) & (variance <= _LARGEST_FACTOR)
    n = len(standard)
    return CorrectedMeans(
        centre,
        spread * np.sqrt(n / (n - 1)),
        spread * error,
        np.where(good, centre - spread * bias, np.nan),
        np.where(sd_good, spread * np.sqrt(np.maximum(variance, 0) * n / (n - 1)), np.nan),
        np.where(good, spread * residual_error, np.nan),
        of_mean,
        of_sd,
        variates.basis.order,
        frame.tilt is not None,
        few & varies,
        sd_error,
        variates.unexplained,
    )


def _frame(draws: ScoredDraws) -> Frame:
    """Return the units of features, with a tilt where few draws have most of the scores."""
    tilt = None
    if draws.log_densities is not None:
        shares = [share_of_few(column) for column in (draws.scores**2).T]
        if max(shares) > _LARGE_SHARE:
            tilt = Tilt.of(draws.log_densities)
    return Frame(draws.points.mean(axis=0), draws.points.std(axis=0), tilt)


def _stretches(
    draws: ScoredDraws, frame: Frame, standard: np.ndarray, folds: np.ndarray
) -> Iterator[tuple[Stretch, np.ndarray]]:
    """Walk draws, some at a time, with the quantities that belong to them."""
    n, dim = draws.points.shape
    width = max(4 * standard.shape[1] * draws.coordinates.shape[1], 2 * dim)
    step = max(1, _NUMBERS_TOGETHER // width)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        log_densities = None if draws.log_densities is None else draws.log_densities[rows]
        stretch = frame.stretch(draws.points[rows], draws.scores[rows], log_densities, folds[rows])
        yield stretch, standard[rows]


def _variates(
    draws: ScoredDraws, frame: Frame, standard: np.ndarray, orders: Sequence[int]
) -> tuple[ControlVariates, np.ndarray]:
    """Fit the control variates; return them and the fold of every draw."""
    folds, n_folds = draws.folds
    n, dim = draws.points.shape

    def add_up(products: Callable[[Stretch, np.ndarray], FoldSums]) -> FoldSums:
        stretches = _stretches(draws, frame, standard, folds)
        return reduce(FoldSums.__add__, (products(*one) for one in stretches))

    some = np.unique(np.linspace(0, dim - 1, _COORDINATES).astype(int))
    time = max(1.0, float(draws.times(draws.points[:, some]).mean()))
    n_effective = n / time * (1 - 1 / n_folds)
    variates = fit_control_variates(add_up, draws.coordinates, dim, n_folds, n_effective, orders)
    return variates, folds


def _every_other(found: ZeroMeans, start: int) -> ZeroMeans:
    return ZeroMeans(*(getattr(found, name)[start::2] for name in found.__dataclass_fields__))


def _errors(draws: ScoredDraws, values: np.ndarray) -> np.ndarray:
    """Return standard errors of means as ArviZ computes them."""
    times = draws.times(values)
    return np.asarray(values.std(axis=0, ddof=1) * np.sqrt(times / len(values)))


def _few_decide(explained: np.ndarray) -> bool:
    return share_of_few((explained - explained.mean()) ** 2) > _LARGEST_SHARE


def _agree(draws: ScoredDraws, residuals: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Whether corrected means of the folds differ by no more than their errors."""
    from scipy.special import chdtrc  # slow to import

    times = cautious_times(draws.times(residuals), np.zeros(residuals.shape[1], int))
    numbers = np.unique(folds)
    counts = np.array([np.count_nonzero(folds == number) for number in numbers])
    means = np.array([residuals[folds == number].mean(axis=0) for number in numbers])
    variance = np.maximum(residuals.var(axis=0), np.finfo(float).tiny) * times
    overall = residuals.mean(axis=0)
    distance = (counts[:, None] * (means - overall) ** 2).sum(axis=0) / variance
    return np.asarray(chdtrc(len(numbers) - 1, distance) > _DISAGREEMENT)
