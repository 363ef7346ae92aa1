"""Means and standard deviations of draws, corrected by Stein features, and what they are off by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_ksd.diagnostics.explained_series import Series, Units
from pymc_ksd.diagnostics.quantities import Quantities
from pymc_ksd.diagnostics.results import Uncorrected
from pymc_ksd.diagnostics.scored_draws import Part, ScoredDraws
from pymc_ksd.engine.cluster import checked_client
from pymc_ksd.engine.parts import add_parts, map_parts
from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.engine.walk import PLAIN, Effort
from pymc_ksd.samples.chains import autocorrelation_times
from pymc_ksd.stats.control_variates import ControlVariates, FoldSums, fit_control_variates
from pymc_ksd.stats.panel import share_of_few
from pymc_ksd.stats.zero_means import ZeroMeans, cautious_times, zero_means
from pymc_ksd.stein.features import Frame, Polynomials, Stretch
from pymc_ksd.stein.tilt import Tilt

#: What the hundredth part of all draws may hold of a coordinate's squared scores before the tilt.
_LARGE_SHARE = 0.2
#: What it may hold of a correction.
_LARGEST_SHARE = 0.5
#: How far a correction may reach, in standard deviations of the draws, and by what factor it may
#: change a variance: further away it is an extrapolation.
_FARTHEST, _LARGEST_FACTOR = 1.0, 4.0
#: How improbable it must be that parts of the sample differ so much in what they say.
_DISAGREEMENT = 1e-4
#: Points from which the coordinates are chosen that explain a quantity.
_SOME = 1_000
#: By what factor one quantity must be slower than others to decide how long chains are.
_SLOW = 2.0
#: Coordinates from which the draws' effective number is estimated.
_COORDINATES = 100
#: How many times as much draws may be off in what features do not explain as in what they do.
_UNSEEN = 2.0
#: The spread of numbers, as a part of them, from which on they vary.
_RESOLUTION = 1e-12
#: Numbers of all series that are held, and the least draws of a chain that they have.
_SERIES_NUMBERS, _SERIES_DRAWS = 25_000_000, 1_000
#: Series of each quantity: itself and its square, what features explain of both, and what both are
#: tested by where that is something else.
_SERIES = 6


@dataclass(frozen=True)
class CorrectedMeans:
    """Moments of quantities in draws, the same corrected, and tests of the difference.

    Arrays have the shape (p,) and the quantities' own units, unless said otherwise.

    Attributes
    ----------
    mean, sd, error : ndarray
        Of the draws, with ArviZ's standard error of the mean.
    stein_mean, stein_sd, stein_error : ndarray
        Corrected, and the standard error of the corrected mean; NaN where the checks fail.
    of_mean, of_sd : ZeroMeans
        By what means and variances are off, in units of the draws' spread and variance.
    chain_length : float
        The length of a chain in autocorrelation times.
    mean_bias_error : ndarray
        Standard error of what means are off by, in units of the draws' spread.
    variance_errors : ndarray of shape (2, p)
        Standard errors of the draws' variance and of the corrected one, in units of the first.
    unexplained : ndarray of shape (p, 2)
        The part of the variance of quantities and of their squares that features do not explain.
    few_decide : ndarray of bool
        Where so few draws hold most of a correction that errors of all others could not be seen.
    too_far : ndarray of bool
        Where the correction would reach so far that it is left out.
    uncorrected : ndarray of int
        Why there is no corrected mean or standard deviation, see :class:`Uncorrected`.
    order : int
        Order of the features.
    is_tilted : bool
        Whether they are tilted.
    """

    mean: np.ndarray
    sd: np.ndarray
    error: np.ndarray
    stein_mean: np.ndarray
    stein_sd: np.ndarray
    stein_error: np.ndarray
    of_mean: ZeroMeans
    of_sd: ZeroMeans
    chain_length: float
    mean_bias_error: np.ndarray
    variance_errors: np.ndarray
    unexplained: np.ndarray
    few_decide: np.ndarray
    too_far: np.ndarray
    uncorrected: np.ndarray
    order: int
    is_tilted: bool

    def is_explained(self, least: float) -> np.ndarray:
        """Whether features explain at least this part of a quantity and of its square."""
        return np.asarray((self.unexplained <= 1 - least).all(axis=1))

    def biases(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what means and standard deviations are off by, and standard errors of that.

        Both have the shape (2, p): means in posterior standard deviations, or in those of the draws
        where the posterior's are unknown, and standard deviations as fractions of the posterior's.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.sd / self.stein_sd
            unit = np.where(np.isfinite(self.stein_sd), self.stein_sd, self.sd)
            bias = np.stack([(self.mean - self.stein_mean) / unit, ratio - 1])
            # The ratio is the square root of that of two variances, with errors of their own.
            of_draws, of_corrected = self.variance_errors
            of_sd = ratio / 2 * np.hypot(of_draws, ratio**2 * of_corrected)
            error = np.stack([self.mean_bias_error * self.sd / unit, of_sd])
        return bias, np.where(np.isfinite(bias), error, np.nan)

    def whole_biases(self) -> tuple[np.ndarray, np.ndarray]:
        """Return biases with what features do not see of them, and standard errors of that.

        Where the density of the draws is off in proportion to a quantity, features see the part of
        its bias that they explain of its variance. What they see, divided by that part, has the
        chance error of what is explained, divided by it, too: that is the whole bias of whatever
        made the draws. In the draws themselves chance in what is explained is seen, and what it
        says of the rest is its error; chance in the rest adds to that. The larger error counts.

        Errors of other shapes are seen less: of wrong weights of two modes, and of tails that are
        cut off, about as much as if the draws were off by twice as much in what is not explained.
        The bias is taken to be as large as that would make it. Shapes are those of :meth:`biases`.
        """
        bias, _ = self.biases()
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, explained = self.sd / self.stein_sd, 1 - self.unexplained.T
            seen = np.stack([ratio * self.of_mean.error, ratio / 2 * self.of_sd.error])
            of_squares = ratio**3 / 2 * self.variance_errors[1]
            rest = np.stack([self.stein_error / self.stein_sd, of_squares])
            in_draws = np.hypot(seen * (1 - explained) / explained, rest)
            most = bias * (explained + _UNSEEN * (1 - explained)) / explained
            return most, np.maximum(seen / explained, in_draws)


def correct_means(
    draws: ScoredDraws,
    quantities: Quantities,
    orders: Sequence[int],
    effort: Effort = PLAIN,
) -> CorrectedMeans:
    """Correct the means and standard deviations of quantities.

    Parameters
    ----------
    draws : ScoredDraws
        The draws.
    quantities : Quantities
        Which coordinates explain each quantity.
    orders : sequence of int
        Orders of features that may be used.
    effort : Effort, optional
        Whose workers do the work.

    Returns
    -------
    CorrectedMeans
    """
    some = draws.some()
    step = -(-some.n_points // _SOME)
    coordinates = quantities.coordinates(some.quantities[::step], some.points[::step])
    units = _units(draws, some)
    n, dim = draws.n_draws * draws.n_chains, some.points.shape[1]
    p = coordinates.shape[0]
    width = max(4 * p * coordinates.shape[1], 2 * min(Polynomials(2).size(dim), 500), 2 * dim)
    client = checked_client(effort.client, float(n) * width)

    def add_up(products: Callable[[Stretch, np.ndarray], FoldSums]) -> FoldSums:
        with progress_bar("Fitting corrections", n, effort.progressbar) as bar:
            parts = draws.parts(width, 1)
            sums: FoldSums = add_parts(
                lambda part: products(*units.stretch(part)), parts, client, bar
            )
        return sums

    n_effective = n / _typical_time(draws) * (1 - 1 / units.n_folds)
    variates = fit_control_variates(add_up, coordinates, dim, units.n_folds, n_effective, orders)
    length = max(1, min(n * p * _SERIES // _SERIES_NUMBERS + 1, draws.n_draws // _SERIES_DRAWS))
    with progress_bar("Correcting means", n, effort.progressbar) as bar:
        found = list(
            map_parts(
                lambda part: Series.of(part, units, variates, length),
                draws.parts(width, length),
                client,
                bar,
            )
        )
    return _from_series(Series.joined(found), units, variates, independent=draws.independent)


def _units(draws: ScoredDraws, some: Part) -> Units:
    """Return the units, with a tilt where few draws have most of the scores."""
    tilt = None
    if some.log_densities is not None:
        if _few_hold(some.scores**2, _LARGE_SHARE).any():
            tilt = Tilt.of(some.log_densities)
    frame = Frame(some.points.mean(axis=0), some.points.std(axis=0), tilt)
    centre, spread = some.quantities.mean(axis=0), some.quantities.std(axis=0)
    # What does not vary in these draws may do so in others, where these are but some.
    varies = spread > _RESOLUTION * np.abs(centre)
    return Units(
        frame,
        centre,
        np.where(varies, spread, np.maximum(np.abs(centre), 1.0)),
        draws.n_chains,
        draws.n_draws,
        draws.n_chains > 1 and not draws.independent,
    )


def _typical_time(draws: ScoredDraws) -> float:
    """Return the average autocorrelation time of coordinates, as far as consecutive draws tell."""
    if draws.independent:
        return 1.0
    chains = draws.consecutive()
    chosen = np.unique(np.linspace(0, chains.shape[2] - 1, _COORDINATES).astype(int))
    return max(1.0, float(autocorrelation_times(chains[:, :, chosen]).mean()))


def _from_series(
    series: Series, units: Units, variates: ControlVariates, *, independent: bool
) -> CorrectedMeans:
    """Return moments, errors and tests of all quantities."""
    n = units.n_draws * units.n_chains
    totals = series.sums.sum(axis=1) / n
    variance_of_draws = totals[1] - totals[0] ** 2
    varies = variance_of_draws * units.spread**2 > (_RESOLUTION * units.centre) ** 2

    def times(values: np.ndarray) -> np.ndarray:
        found = np.ones(len(varies)) if independent else autocorrelation_times(values)
        return np.where(varies, found, np.nan)

    def errors(values: np.ndarray) -> np.ndarray:
        size = values.shape[0] * values.shape[1]
        return np.asarray(values.std(axis=(0, 1), ddof=1) * np.sqrt(times(values) / size))

    own, squares, explained, explained_squares = series.means[:4]
    helps = (variates.unexplained < 1).T
    bias, square_bias = np.where(helps, totals[2:4], 0.0)
    of_mean, of_sd = _tests(series, totals, np.where(variates.is_noise[:, 1], 0.0, bias), times)
    variance = totals[1] - square_bias - (totals[0] - bias) ** 2
    error, left, left_of_squares = map(errors, (own, own - explained, squares - explained_squares))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = variance / variance_of_draws
        of_squares = left_of_squares / np.sqrt(variates.unexplained[:, 1])
    reasons = {
        Uncorrected.NOT_FINITE: ~np.isfinite(variance_of_draws),
        Uncorrected.CONSTANT: ~varies,
        **_doubts(explained, bias, n),
        Uncorrected.DISAGREE: ~_agree(series, independent=independent),
        Uncorrected.SD_TOO_FAR: ~((ratio >= 1 / _LARGEST_FACTOR) & (ratio <= _LARGEST_FACTOR)),
    }
    uncorrected = np.select(list(reasons.values()), list(reasons), Uncorrected.NO)
    too_far = varies & reasons[Uncorrected.TOO_FAR]
    if too_far.any():
        # What features explain in draws of another distribution they need not explain in this one.
        corrected = np.isin(uncorrected, [Uncorrected.NO, Uncorrected.SD_TOO_FAR])
        uncorrected[corrected] = Uncorrected.OTHERS_TOO_FAR
    sd_good = uncorrected == Uncorrected.NO
    good = sd_good | (uncorrected == Uncorrected.SD_TOO_FAR)
    # What is noise is tested by other functions, whose errors are none of the correction.
    noise = variates.is_noise.T
    mean_bias_error = np.where(noise[0], error, np.hypot(of_mean.error, left))
    variance_errors = np.where(noise[1], [of_squares, 0 * left], [of_sd.error, left_of_squares])
    unit, unbiased = np.where(varies, units.spread, 0.0), np.sqrt(n / (n - 1))
    known = np.where(np.isfinite(variance_of_draws), 1.0, np.nan)
    return CorrectedMeans(
        mean=units.centre + units.spread * totals[0],
        sd=known * unit * np.sqrt(np.maximum(variance_of_draws, 0)) * unbiased,
        error=known * np.where(varies, unit * error, 0.0),
        stein_mean=np.where(good, units.centre + unit * (totals[0] - bias), np.nan),
        stein_sd=np.where(sd_good, unit * np.sqrt(np.maximum(variance, 0)) * unbiased, np.nan),
        stein_error=np.where(good, unit * np.where(helps[0], left, error), np.nan),
        of_mean=of_mean,
        of_sd=of_sd,
        chain_length=_chain_length(series.means.shape[2], of_mean.time[varies]),
        mean_bias_error=mean_bias_error,
        variance_errors=variance_errors,
        unexplained=variates.unexplained,
        few_decide=varies & reasons[Uncorrected.FEW_DECIDE],
        too_far=too_far,
        uncorrected=uncorrected,
        order=variates.basis.order,
        is_tilted=units.frame.tilt is not None,
    )


def _tests(
    series: Series,
    totals: np.ndarray,
    about: np.ndarray,
    times: Callable[[np.ndarray], np.ndarray],
) -> tuple[ZeroMeans, ZeroMeans]:
    """Return the tests of means and of standard deviations.

    Squares are about the mean of the draws. What that is off by, `about`, is a part of what they
    are off by, and no error of the standard deviation.
    """
    of_values, of_squares = series.means[-2:]
    of_mean = zero_means(of_values, totals[-2], times(of_values))
    of_variance = of_squares + 2 * about * series.means[2]
    return of_mean, zero_means(of_variance, totals[-1] + about**2, times(of_variance))


def _chain_length(n_draws: int, times: np.ndarray) -> float:
    """Return the length of chains in autocorrelation times, of a single slow quantity if it is."""
    if not times.size:
        return float(n_draws)
    typical, slowest = float(np.median(times)), float(times.max())
    return n_draws / (slowest if slowest > _SLOW * typical else typical)


def _doubts(explained: np.ndarray, bias: np.ndarray, n: int) -> dict[Uncorrected, np.ndarray]:
    """Return where few draws decide a correction, and where it would reach too far.

    It may reach as far as what features explain is spread in single draws: where zero lies outside
    of all that features are in the draws, a correction extrapolates.
    """
    flat = explained.reshape(-1, explained.shape[2])
    reach = flat.std(axis=0) * np.sqrt(n / len(flat))
    return {
        Uncorrected.FEW_DECIDE: _few_hold((flat - flat.mean(axis=0)) ** 2, _LARGEST_SHARE),
        Uncorrected.TOO_FAR: np.abs(bias) > _FARTHEST * np.minimum(1.0, reach),
    }


def _few_hold(squares: np.ndarray, share: float) -> np.ndarray:
    """Whether the hundredth part of all rows holds more than a share of a column's sum."""
    few = max(1, len(squares) // 100)
    # Most columns have no number large enough for it.
    held = few * squares.max(axis=0) > share * squares.sum(axis=0)
    held[held] = [share_of_few(column) > share for column in squares[:, held].T]
    return np.asarray(held)


def _agree(series: Series, *, independent: bool) -> np.ndarray:
    """Whether corrected means of the folds differ by no more than their errors."""
    from scipy.special import chdtrc  # slow to import

    filled = series.counts > 0
    left, sums = (array[0] - array[2] for array in (series.means, series.sums[:, filled]))
    counts, size = series.counts[filled, None], left.shape[0] * left.shape[1]
    # Every chain around its own mean: what they disagree in is to be found, not to be an error.
    left = left - left.mean(axis=1, keepdims=True)
    variance = left.reshape(size, -1).var(axis=0) / size
    # That of the mean of all draws; a fold has a part of them.
    variance = np.maximum(variance, np.finfo(float).tiny) * counts.sum()
    distance = (sums / counts - sums.sum(axis=0) / counts.sum()) ** 2 * counts / variance
    distance = distance.sum(axis=0)

    def is_probable(distance: np.ndarray) -> np.ndarray:
        return np.asarray(chdtrc(max(len(counts) - 1, 1), distance) > _DISAGREEMENT)

    agree = is_probable(distance)
    if not independent and not agree.all():
        # The errors of correlated draws are larger.
        times = np.maximum(autocorrelation_times(left[:, :, ~agree]), 1.0)
        agree[~agree] = is_probable(distance[~agree] / cautious_times(times))
    return agree
