"""Paths, single vectors, and outcomes with atoms or bounds, fitted by true and by wrong models.

Posteriors are exact or as good as exact: conjugate (autoregression given its first value, random
walk, shares of a Multinomial, zeros of a hurdle), on a fine grid (Gaussian process, censored
times), or by importance resampling around the mode. Priors are flat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pymc as pm
from scipy import optimize, special, stats

from benchmarks.predictive_cases import Fitted, importance_sample, posterior_of

__all__ = ["PATHS", "PATH_MISFITS", "PathCase", "autoregressive_paths"]

#: Distance between the places of the Gaussian process, and its length scale.
_STEP, _LENGTH = 0.2, 1.0
#: Cut points of ordered outcomes.
_CUTS = np.array([-1.0, 0.3, 1.5])
#: Groups and intervals of the survival model.
_GROUPS, _EDGES = np.linspace(-1, 1, 6), np.linspace(0, 4, 9)


@dataclass(frozen=True)
class PathCase:
    """A kind of data for a kind of model.

    Attributes
    ----------
    family : str
        The model.
    data : str
        What the data are, "true" where the model is right.
    n : int
        Number of steps, places, observations, items or persons.
    slow : bool
        Whether a data set takes long, so that fewer of them are measured.
    """

    family: str
    data: str
    n: int
    slow: bool = False

    def fit(self, rng: np.random.Generator, num_draws: int) -> Fitted:
        """Simulate data and draw from the posterior."""
        return _FAMILIES[self.family](self.data, self.n, rng, num_draws)


def _fitted(
    model: pm.Model, y: np.ndarray, data: dict[str, np.ndarray], **draws: np.ndarray
) -> Fitted:
    with model:
        pm.set_data({"outcome": y, **data})
    return Fitted(model, posterior_of(**draws), y)


def _sampled(
    log_likelihood: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    rng: np.random.Generator,
    num_draws: int,
) -> np.ndarray:
    """Draw from a posterior with a flat prior, given log-likelihoods of rows of parameters."""
    found = optimize.minimize(lambda b: -log_likelihood(b[None])[0], start, method="BFGS")
    mode, size, step = found.x, len(start), 1e-3
    shifts = step * np.eye(size)
    corners = np.array([[a * i + b * j for i in shifts for j in shifts] for a, b in _SIGNS])
    values = log_likelihood((mode + corners).reshape(-1, size)).reshape(4, size, size)
    hessian = -(values[0] - values[1] - values[2] + values[3]) / (4 * step**2)
    return importance_sample(log_likelihood, mode, (hessian + hessian.T) / 2, rng, num_draws)


_SIGNS = ((1, 1), (1, -1), (-1, 1), (-1, -1))


@cache
def _autoregressive(n: int) -> pm.Model:
    with pm.Model() as model:
        outcome = pm.Data("outcome", np.zeros(n))
        rho, sd = pm.Normal("rho", 0, 10, shape=2), pm.HalfNormal("sd", 10)
        start = pm.Normal.dist(0, 10)
        pm.AR("y", rho=rho, sigma=sd, constant=True, init_dist=start, observed=outcome)
    return model


def _autoregression(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
    noise = rng.standard_t(3, size=n + 50) if "Student" in data else rng.normal(size=n + 50)
    first, second = (0.2, 0.5) if data == "second order" else (0.5, 0.0)
    y = np.zeros(n + 50)
    for t in range(2, len(y)):
        y[t] = 0.2 + first * y[t - 1] + second * y[t - 2] + noise[t]
    y = y[50:]
    design = np.column_stack([np.ones(n - 1), y[:-1]])
    inverse = np.linalg.inv(design.T @ design)
    best = inverse @ design.T @ y[1:]
    squares = np.sum((y[1:] - design @ best) ** 2)
    sd = np.sqrt(squares / rng.chisquare(n - 3, size=num_draws))
    steps = rng.normal(size=(num_draws, 2)) @ np.linalg.cholesky(inverse).T
    return _fitted(_autoregressive(n), y, {}, rho=best + sd[:, None] * steps, sd=sd)


def autoregressive_paths(fitted: Fitted, rng: np.random.Generator) -> np.ndarray:
    """Return replicated paths, all at once: PyMC draws them one by one in a loop."""
    rho, sd = fitted.posterior["rho"].values[0], fitted.posterior["sd"].values[0]
    paths = [rng.normal(0, 10, size=len(sd))]
    for _ in range(len(fitted.y) - 1):
        paths.append(rng.normal(rho[:, 0] + rho[:, 1] * paths[-1], sd))
    return np.stack(paths, axis=1)


@cache
def _walking(n: int) -> pm.Model:
    with pm.Model() as model:
        outcome = pm.Data("outcome", np.zeros(n))
        sd, start = pm.HalfNormal("sd", 10), pm.Normal.dist(0, 10)
        pm.GaussianRandomWalk("y", mu=0, sigma=sd, init_dist=start, observed=outcome)
    return model


def _random_walk(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
    drift = 0.35 if data == "drift" else 0.0
    y = np.cumsum(rng.normal(drift, 1, size=n))
    sd = np.sqrt(np.sum(np.diff(y) ** 2) / rng.chisquare(n - 2, size=num_draws))
    return _fitted(_walking(n), y, {}, sd=sd)


def _covariance(n: int, length: float) -> np.ndarray:
    places = _STEP * np.arange(n)
    return np.exp(-0.5 * (places[:, None] - places[None, :]) ** 2 / length**2)


@cache
def _process(n: int) -> tuple[pm.Model, np.ndarray, np.ndarray]:
    """Return the model of a process, and the eigenvalues and eigenvectors of its covariance."""
    with pm.Model() as model:
        outcome = pm.Data("outcome", np.zeros(n))
        scale, sd = pm.HalfNormal("scale", 10), pm.HalfNormal("sd", 10)
        gp = pm.gp.Marginal(cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=_LENGTH))
        gp.marginal_likelihood("y", X=_STEP * np.arange(n)[:, None], y=outcome, sigma=sd)
    return model, *np.linalg.eigh(_covariance(n, _LENGTH))


def _gaussian_process(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
    model, values, vectors = _process(n)
    length = 0.3 if data == "shorter length scale" else _LENGTH
    factor = np.linalg.cholesky(_covariance(n, length) + 1e-8 * np.eye(n))
    noise = rng.standard_t(3, size=n) if "Student" in data else rng.normal(size=n)
    y = factor @ rng.normal(size=n) + 0.3 * noise
    rotated = (vectors.T @ y) ** 2
    scales, sds = np.meshgrid(np.geomspace(0.1, 10, 90), np.geomspace(0.03, 3, 90))
    variances = scales.reshape(-1, 1) ** 2 * np.maximum(values, 0) + sds.reshape(-1, 1) ** 2
    logarithms = -0.5 * (np.log(variances) + rotated / variances).sum(axis=1)
    # Flat in both scales, on a grid that is even in their logarithms.
    logarithms += np.log(scales.ravel()) + np.log(sds.ravel())
    chosen = rng.choice(len(logarithms), size=num_draws, p=special.softmax(logarithms))
    return _fitted(model, y, {}, scale=scales.ravel()[chosen], sd=sds.ravel()[chosen])


@cache
def _censoring(n: int) -> pm.Model:
    with pm.Model() as model:
        outcome, bound = pm.Data("outcome", np.ones(n)), pm.Data("bound", np.ones(n))
        mu, sd = pm.Normal("mu", 0, 10), pm.HalfNormal("sd", 10)
        pm.Censored("y", pm.LogNormal.dist(mu, sd), lower=None, upper=bound, observed=outcome)
    return model


def _censored(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
    times = (
        rng.weibull(1.5, size=n) if data == "Weibull times" else rng.lognormal(-0.3, 0.8, size=n)
    )
    bound = rng.uniform(0.5, 3, size=n)
    y, seen = np.minimum(times, bound), times < bound
    logs = np.log(y)

    def log_likelihood(b: np.ndarray) -> np.ndarray:
        z = (logs - b[:, :1]) / np.exp(b[:, 1:])
        total: np.ndarray = np.where(seen, stats.norm.logpdf(z) - b[:, 1:], stats.norm.logsf(z))
        return total.sum(axis=1)

    b = _sampled(log_likelihood, np.array([logs.mean(), 0.0]), rng, num_draws)
    return _fitted(_censoring(n), y, {"bound": bound}, mu=b[:, 0], sd=np.exp(b[:, 1]))


@cache
def _hurdles(n: int) -> pm.Model:
    with pm.Model() as model:
        outcome, x = pm.Data("outcome", np.ones(n)), pm.Data("x", np.zeros(n))
        psi, shape = pm.Beta("psi", 1, 1), pm.HalfNormal("shape", 10)
        b = pm.Normal("b", 0, 10, shape=2)
        mean = pm.math.exp(b[0] + b[1] * x)
        pm.HurdleGamma("y", psi=psi, alpha=shape, beta=shape / mean, observed=outcome)
    return model


def _hurdle(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
    x = rng.normal(size=n)
    mean = np.exp(0.5 + 0.5 * x)
    share = special.expit(0.8 + 0.8 * x) if "input" in data else np.full(n, 0.7)
    values = rng.gamma(2, mean / 2)
    if data == "log-normal values":
        values = mean * rng.lognormal(-0.32, 0.8, size=n)
    positive = rng.uniform(size=n) < share
    y = np.where(positive, values, 0.0)
    logs, inputs, some = np.log(values[positive]), x[positive], values[positive]

    def log_likelihood(b: np.ndarray) -> np.ndarray:
        shape, rate = np.exp(b[:, :1]), np.exp(b[:, :1] - b[:, 1:2] - b[:, 2:] * inputs)
        total: np.ndarray = (
            shape * np.log(rate) + (shape - 1) * logs - rate * some - special.gammaln(shape)
        ).sum(axis=1)
        return total

    b = _sampled(log_likelihood, np.array([0.5, 0.5, 0.5]), rng, num_draws)
    psi = rng.beta(1 + positive.sum(), 1 + n - positive.sum(), size=num_draws)
    return _fitted(_hurdles(n), y, {"x": x}, psi=psi, shape=np.exp(b[:, 0]), b=b[:, 1:])


@cache
def _equilibrium(n: int) -> pm.Model:
    with pm.Model() as model:
        outcome = pm.Data("outcome", np.array([n - 2, 1, 1]))
        share = pm.Beta("share", 1, 1)
        kinds = pm.math.stack([share**2, 2 * share * (1 - share), (1 - share) ** 2])
        pm.Multinomial("y", n=n, p=kinds, observed=outcome)
    return model


def _multinomial(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
    share, excess = 0.4, 0.2 if data == "too few of the mixed kind" else 0.0
    mixed = 2 * share * (1 - share) * (1 - excess)
    y = rng.multinomial(n, [share - mixed / 2, mixed, 1 - share - mixed / 2])
    draws = rng.beta(1 + 2 * y[0] + y[1], 1 + 2 * y[2] + y[1], size=num_draws)
    return _fitted(_equilibrium(n), y, {}, share=draws)


@cache
def _ordering(n: int) -> pm.Model:
    with pm.Model() as model:
        outcome = pm.Data("outcome", np.zeros(n, dtype=np.int64))
        x = pm.Data("x", np.zeros(n))
        slope = pm.Normal("slope", 0, 10)
        cuts = pm.Normal("cuts", 0, 10, shape=3, initval=_CUTS)
        pm.OrderedLogistic("y", eta=slope * x, cutpoints=cuts, observed=outcome)
    return model


def _ordered(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
    x = rng.normal(size=n)
    eta = x + (0.8 * x**2 if data == "missing quadratic term" else 0.0)
    below = special.expit(_CUTS - eta[:, None])
    y = (rng.uniform(size=n)[:, None] > below).sum(axis=1)

    def log_likelihood(b: np.ndarray) -> np.ndarray:
        cuts = np.cumsum(np.concatenate([b[:, 1:2], np.exp(b[:, 2:])], axis=1), axis=1)
        shares = special.expit(cuts[:, None, :] - (b[:, :1] * x)[:, :, None])
        shares = np.pad(shares, ((0, 0), (0, 0), (1, 1)), constant_values=((0, 0), (0, 0), (0, 1)))
        own = shares[:, np.arange(n), y + 1] - shares[:, np.arange(n), y]
        # Flat in the cut points, whose distances are parameters here.
        total: np.ndarray = np.log(np.maximum(own, 1e-300)).sum(axis=1) + b[:, 2:].sum(axis=1)
        return total

    b = _sampled(log_likelihood, np.array([1.0, -1.0, 0.2, 0.2]), rng, num_draws)
    cuts = np.cumsum(np.concatenate([b[:, 1:2], np.exp(b[:, 2:])], axis=1), axis=1)
    return _fitted(_ordering(n), y, {"x": x}, slope=b[:, 0], cuts=cuts)


@cache
def _survival_model() -> pm.Model:
    cells = len(_GROUPS) * (len(_EDGES) - 1)
    with pm.Model() as model:
        outcome = pm.Data("outcome", np.zeros(cells, dtype=np.int64))
        x, time = pm.Data("x", np.zeros(cells)), pm.Data("time", np.zeros(cells))
        at_risk = pm.Data("at_risk", np.ones(cells))
        b = pm.Normal("b", 0, 10, shape=3)
        pm.Poisson("y", at_risk * pm.math.exp(b[0] + b[1] * x + b[2] * time), observed=outcome)
    return model


def _survival(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
    """Deaths of groups of persons in intervals, given their time at risk."""
    group = rng.integers(len(_GROUPS), size=n)
    middles, widths = (_EDGES[1:] + _EDGES[:-1]) / 2, np.diff(_EDGES)
    crossing = 0.8 if data == "hazards that cross" else 0.0
    slope = 0.5 + crossing * (middles - 2)
    hazard = np.exp(-1.5 + 0.2 * middles + slope * _GROUPS[group][:, None])
    cumulated = np.cumsum(np.pad(hazard * widths, ((0, 0), (1, 0))), axis=1)
    limit = rng.exponential(size=n)
    exposed = np.clip((limit[:, None] - cumulated[:, :-1]) / hazard, 0, widths)
    died = (limit[:, None] > cumulated[:, :-1]) & (limit[:, None] <= cumulated[:, 1:])
    at_risk, y = (
        np.stack([table[group == g].sum(axis=0) for g in range(len(_GROUPS))]).ravel()
        for table in (exposed, died)
    )
    x, time = np.repeat(_GROUPS, len(middles)), np.tile(middles, len(_GROUPS))
    # Where nobody is left, nothing is told.
    at_risk = np.maximum(at_risk, 1e-9)
    design = np.column_stack([np.ones(len(x)), x, time])

    def log_likelihood(b: np.ndarray) -> np.ndarray:
        predictors = b @ design.T
        total: np.ndarray = predictors @ y - np.exp(predictors) @ at_risk
        return total

    b = _sampled(log_likelihood, np.array([-1.5, 0.5, 0.2]), rng, num_draws)
    inputs = {"x": x, "time": time, "at_risk": at_risk}
    return _fitted(_survival_model(), y, inputs, b=b)


_FAMILIES: dict[str, Callable[..., Fitted]] = {
    "AR(1)": _autoregression,
    "random walk": _random_walk,
    "marginal GP": _gaussian_process,
    "censored log-normal": _censored,
    "hurdle Gamma": _hurdle,
    "one Multinomial vector": _multinomial,
    "ordered logistic": _ordered,
    "survival as Poisson": _survival,
}

#: Models of data that they explain.
PATHS = [
    PathCase("AR(1)", "true", 200),
    PathCase("random walk", "true", 150),
    PathCase("marginal GP", "true", 100),
    PathCase("censored log-normal", "true", 200),
    PathCase("hurdle Gamma", "true", 200, True),
    PathCase("one Multinomial vector", "true", 400, True),
    PathCase("ordered logistic", "true", 200, True),
    PathCase("survival as Poisson", "true", 800),
]
#: Models of data that they do not.
PATH_MISFITS = [
    PathCase("AR(1)", "second order", 300),
    PathCase("AR(1)", "Student-t(3) noise", 250),
    PathCase("random walk", "drift", 150),
    PathCase("marginal GP", "shorter length scale", 200),
    PathCase("marginal GP", "Student-t(3) noise", 450, True),
    PathCase("censored log-normal", "Weibull times", 400),
    PathCase("hurdle Gamma", "zeros depend on the input", 300, True),
    PathCase("hurdle Gamma", "log-normal values", 600, True),
    PathCase("one Multinomial vector", "too few of the mixed kind", 400, True),
    PathCase("ordered logistic", "missing quadratic term", 250, True),
    PathCase("ordered logistic", "missing quadratic term", 400, True),
    PathCase("survival as Poisson", "hazards that cross", 800),
]
