"""Fitted models with data that they explain, and with data that they do not.

Posteriors are exact or nearly so and cost little: conjugate for normal regression and for models
with an effect for every few observations, importance resampling around the mode for Poisson and
logistic regression, a long Gibbs sampler for the hierarchical model. Models are written once and
get their data by ``pm.set_data``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pymc as pm
import xarray as xr
from scipy import special, stats

__all__ = ["EFFECTS", "MISFITS", "TRUE", "Case", "Fitted", "importance_sample", "posterior_of"]

#: Observations in each group of the hierarchical model.
GROUP = 10
#: Priors of the effects of binomial and of Poisson outcomes, and trials of the former.
_BETA, _GAMMA, _TRIALS = (2.0, 3.0), (2.0, 0.5), 10
#: Prior standard deviation of a slope beside effects.
_SLOPE = 0.5


@dataclass(frozen=True)
class Fitted:
    """A model with its data in it, and draws of its posterior."""

    model: pm.Model
    posterior: xr.Dataset
    y: np.ndarray


@dataclass(frozen=True)
class Case:
    """A kind of data for a kind of model.

    Attributes
    ----------
    family : str
        The model.
    data : str
        What the data are, "true" where the model is right.
    n : int
        Number of observations.
    conditional : bool
        Whether what the model misses depends on the inputs.
    """

    family: str
    data: str
    n: int
    conditional: bool = False

    def fit(self, rng: np.random.Generator, num_draws: int) -> Fitted:
        """Simulate data and draw from the posterior."""
        return _FAMILIES[self.family](self.data, self.n, rng, num_draws)


def _inputs(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=n), rng.normal(size=n)


def _design(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(x)), x, w])


def posterior_of(**values: np.ndarray) -> xr.Dataset:
    """Return draws, along the first axis of every array, as one chain."""
    fields = {}
    for name, array in values.items():
        own = [f"{name}_dim_{axis}" for axis in range(array.ndim - 1)]
        fields[name] = (("chain", "draw", *own), array[None])
    return xr.Dataset(fields)


@cache
def _regression(family: str, n: int) -> pm.Model:
    kind = float if family == "normal" else np.int64
    with pm.Model() as model:
        x, w = (pm.Data(name, np.zeros(n)) for name in ("x", "w"))
        outcome = pm.Data("outcome", np.zeros(n, dtype=kind))
        b = pm.Normal("b", 0, 100, shape=3)
        predictor = b[0] + b[1] * x + b[2] * w
        if family == "normal":
            sd = pm.HalfNormal("sd", 100)
            pm.Normal("y", predictor, sd, observed=outcome)
        elif family == "Poisson":
            pm.Poisson("y", pm.math.exp(predictor), observed=outcome)
        else:
            pm.Bernoulli("y", logit_p=predictor, observed=outcome)
    return model


def _with_data(family: str, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> pm.Model:
    model = _regression(family, len(x))
    with model:
        pm.set_data({"x": x, "w": w, "outcome": y})
    return model


def _normal(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
    x, w = _inputs(n, rng)
    mean, noise = 1 + x + 0.5 * w, rng.normal(size=n)
    if data == "missing quadratic term":
        mean = mean + 0.4 * x**2
    elif data == "missing interaction":
        mean = mean + 0.4 * x * w
    elif data == "heteroscedastic noise":
        noise = noise * np.exp(0.5 * x)
    elif data == "Student-t(3) noise":
        noise = rng.standard_t(3, size=n)
    y = mean + noise
    design = _design(x, w)
    inverse = np.linalg.inv(design.T @ design)
    best = inverse @ design.T @ y
    variance = np.sum((y - design @ best) ** 2) / rng.chisquare(n - 3, size=num_draws)
    steps = rng.normal(size=(num_draws, 3)) @ np.linalg.cholesky(inverse).T
    b = best + np.sqrt(variance)[:, None] * steps
    return Fitted(_with_data("normal", x, w, y), posterior_of(b=b, sd=np.sqrt(variance)), y)


def importance_sample(
    log_likelihood: Callable[[np.ndarray], np.ndarray],
    mode: np.ndarray,
    hessian: np.ndarray,
    rng: np.random.Generator,
    num_draws: int,
) -> np.ndarray:
    """Draw from a posterior with a flat prior, by resampling heavy-tailed proposals."""
    law = stats.multivariate_t(mode, np.linalg.inv(hessian), df=10)
    proposals = law.rvs(size=40 * num_draws, random_state=rng)
    logarithms = log_likelihood(proposals) - law.logpdf(proposals)
    weights = special.softmax(logarithms)
    chosen: np.ndarray = proposals[rng.choice(len(weights), size=num_draws, p=weights)]
    return chosen


def _mode(
    derivatives: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Find the mode by Newton's method, and minus the second derivatives there."""
    b = np.zeros(3)
    for _ in range(100):
        gradient, hessian = derivatives(b)
        step = np.linalg.solve(hessian, gradient)
        b = b + step / max(1.0, np.abs(step).max())
        if np.abs(step).max() < 1e-9:
            break
    return b, hessian


def _poisson(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
    x, w = _inputs(n, rng)
    predictor = 1 + 0.3 * x + 0.2 * w
    if data == "missing quadratic term":
        predictor = predictor + 0.2 * x**2
    elif data == "missing interaction":
        predictor = predictor + 0.2 * x * w
    rate = np.exp(predictor)
    if data == "wrong link":
        rate = np.maximum(3 + 1.5 * x + w, 0.2)
    if data == "over-dispersed counts":
        rate = rate * rng.gamma(4, 1 / 4, size=n)
    y = rng.poisson(rate)
    design = _design(x, w)

    def derivatives(b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = np.exp(design @ b)
        return design.T @ (y - mean), (design.T * mean) @ design

    def log_likelihood(b: np.ndarray) -> np.ndarray:
        total: np.ndarray = (b @ design.T) @ y - np.exp(b @ design.T).sum(axis=1)
        return total

    b = importance_sample(log_likelihood, *_mode(derivatives), rng, num_draws)
    return Fitted(_with_data("Poisson", x, w, y), posterior_of(b=b), y)


def _logistic(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
    x, w = _inputs(n, rng)
    predictor = 0.3 + x + 0.5 * w
    if data == "missing quadratic term":
        predictor = predictor - 0.6 + 0.6 * x**2
    elif data == "missing interaction":
        predictor = predictor + 0.8 * x * w
    share = special.expit(predictor)
    if data == "wrong link":
        share = 0.5 + np.arctan(8 * x + 4 * w) / np.pi
    y = rng.binomial(1, share)
    design = _design(x, w)

    def derivatives(b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = special.expit(design @ b)
        return design.T @ (y - mean), (design.T * (mean * (1 - mean))) @ design

    def log_likelihood(b: np.ndarray) -> np.ndarray:
        predictors = b @ design.T
        total: np.ndarray = predictors @ y - np.logaddexp(0, predictors).sum(axis=1)
        return total

    b = importance_sample(log_likelihood, *_mode(derivatives), rng, num_draws)
    return Fitted(_with_data("logistic", x, w, y), posterior_of(b=b), y)


@cache
def _groups(n: int) -> pm.Model:
    group = np.arange(n) // GROUP
    with pm.Model() as model:
        outcome = pm.Data("outcome", np.zeros(n))
        mu = pm.Normal("mu", 0, 100)
        tau, sd = pm.HalfNormal("tau", 10), pm.HalfNormal("sd", 10)
        theta = pm.Normal("theta", mu, tau, shape=n // GROUP)
        pm.Normal("y", theta[group], sd, observed=outcome)
    return model


def _hierarchical(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
    groups = n // GROUP
    noise = rng.normal(size=(groups, GROUP))
    if data == "scale differs between groups":
        noise *= np.exp(0.5 * rng.normal(size=(groups, 1)))
    elif data == "Student-t(3) noise":
        noise = rng.standard_t(3, size=noise.shape)
    values = rng.normal(size=(groups, 1)) + noise
    theta, mu, tau, sd = _gibbs(values, rng, num_draws)
    model = _groups(n)
    with model:
        pm.set_data({"outcome": values.ravel()})
    return Fitted(model, posterior_of(theta=theta, mu=mu, tau=tau, sd=sd), values.ravel())


def _gibbs(
    values: np.ndarray, rng: np.random.Generator, num_draws: int, thin: int = 10
) -> tuple[np.ndarray, ...]:
    """Draw from the posterior of a normal model of groups, with flat priors on both scales."""
    groups, size = values.shape
    means, within = values.mean(axis=1), np.sum((values - values.mean(axis=1)[:, None]) ** 2)
    mu, tau, sd = means.mean(), means.std(), np.sqrt(within / (values.size - groups))
    kept = []
    for step in range(100 + thin * num_draws):
        precision = size / sd**2 + 1 / tau**2
        centre = (size * means / sd**2 + mu / tau**2) / precision
        theta = centre + rng.normal(size=groups) / np.sqrt(precision)
        mu = theta.mean() + tau * rng.normal() / np.sqrt(groups)
        tau = np.sqrt(np.sum((theta - mu) ** 2) / rng.chisquare(groups - 1))
        squares = within + size * np.sum((means - theta) ** 2)
        sd = np.sqrt(squares / rng.chisquare(values.size - 1))
        if step >= 100 and (step - 100) % thin == 0:
            kept.append((theta, mu, tau, sd))
    return tuple(np.array(column) for column in zip(*kept, strict=True))


@cache
def _effects_model(family: str, n: int, per_effect: int, has_input: bool) -> pm.Model:
    effect, count = np.arange(n) // per_effect, n // per_effect
    with pm.Model() as model:
        outcome = pm.Data("outcome", np.zeros(n, dtype=float if family == "normal" else np.int64))
        if family == "binomial":
            theta = pm.Beta("theta", *_BETA, shape=count)
            trials = pm.Data("x", np.ones(n, dtype=np.int64)) if has_input else _TRIALS
            pm.Binomial("y", trials, theta[effect], observed=outcome)
            return model
        term = pm.Normal("b", 0, _SLOPE) * pm.Data("x", np.zeros(n)) if has_input else 0.0
        if family == "normal":
            theta = pm.Normal("theta", 0, 1, shape=count)
            pm.Normal("y", theta[effect] + term, 1, observed=outcome)
        else:
            theta = pm.Gamma("theta", *_GAMMA, shape=count)
            pm.Poisson("y", theta[effect] * pm.math.exp(term), observed=outcome)
    return model


#: Outcomes, a row for each effect, draws of the posterior, and the input if there is one.
_Simulated = tuple[np.ndarray, dict[str, np.ndarray], np.ndarray | None]


def _without_input(
    family: str, shape: tuple[int, int], size: int, rng: np.random.Generator
) -> _Simulated:
    """Draw effects and outcomes, and from the conjugate posterior."""
    per_effect, sizes = shape[1], (size, shape[0])
    if family == "normal":
        y = rng.normal(rng.normal(size=(shape[0], 1)), size=shape)
        precision = 1 + per_effect
        theta = rng.normal(y.sum(axis=1) / precision, 1 / np.sqrt(precision), size=sizes)
    elif family == "binomial":
        y = rng.binomial(_TRIALS, rng.beta(*_BETA, size=(shape[0], 1)), size=shape)
        hits = y.sum(axis=1)
        theta = rng.beta(_BETA[0] + hits, _BETA[1] + _TRIALS * per_effect - hits, size=sizes)
    else:
        y = rng.poisson(rng.gamma(_GAMMA[0], 1 / _GAMMA[1], size=(shape[0], 1)), size=shape)
        theta = rng.gamma(_GAMMA[0] + y.sum(axis=1), 1 / (_GAMMA[1] + per_effect), size=sizes)
    return y, {"theta": theta}, None


def _with_input(
    family: str, shape: tuple[int, int], size: int, rng: np.random.Generator
) -> _Simulated:
    """Do the same beside a slope, or a number of trials, that the input brings."""
    if family == "binomial":
        trials = rng.integers(1, 2 * _TRIALS, size=shape)
        y = rng.binomial(trials, rng.beta(*_BETA, size=(shape[0], 1)))
        hits, misses = y.sum(axis=1), (trials - y).sum(axis=1)
        theta = rng.beta(_BETA[0] + hits, _BETA[1] + misses, size=(size, shape[0]))
        return y, {"theta": theta}, trials
    x, slope = rng.normal(size=shape), rng.normal(0, _SLOPE)
    if family == "normal":
        y = rng.normal(rng.normal(size=(shape[0], 1)) + slope * x)
        design = np.column_stack([np.repeat(np.eye(shape[0]), shape[1], axis=0), x.ravel()])
        precision = np.diag([*np.ones(shape[0]), _SLOPE**-2]) + design.T @ design
        mean = np.linalg.solve(precision, design.T @ y.ravel())
        noise = rng.normal(size=(shape[0] + 1, size))
        values = mean + np.linalg.solve(np.linalg.cholesky(precision).T, noise).T
        return y, {"theta": values[:, :-1], "b": values[:, -1]}, x
    y = rng.poisson(rng.gamma(_GAMMA[0], 1 / _GAMMA[1], size=(shape[0], 1)) * np.exp(slope * x))
    # The slope on a fine grid, effects integrated out; then effects given the slope.
    grid = np.linspace(-6 * _SLOPE, 6 * _SLOPE, 2_001)
    rates = _GAMMA[1] + np.exp(grid[:, None, None] * x).sum(axis=2)
    shapes = _GAMMA[0] + y.sum(axis=1)
    logarithms = grid * (x * y).sum() - np.log(rates) @ shapes + stats.norm.logpdf(grid, 0, _SLOPE)
    chosen = rng.choice(len(grid), size=size, p=special.softmax(logarithms))
    return y, {"theta": rng.gamma(shapes, 1 / rates[chosen]), "b": grid[chosen]}, x


def _effects(family: str, *, has_input: bool) -> Callable[..., Fitted]:
    """Return a true model with an effect for every few observations, its hyperparameters known."""
    simulate = _with_input if has_input else _without_input

    def fit(data: str, n: int, rng: np.random.Generator, num_draws: int) -> Fitted:
        per_effect = int(data.split()[0])
        y, values, x = simulate(family, (n // per_effect, per_effect), num_draws, rng)
        model = _effects_model(family, n, per_effect, has_input)
        with model:
            pm.set_data({"outcome": y.ravel()} | ({} if x is None else {"x": x.ravel()}))
        return Fitted(model, posterior_of(**values), y.ravel())

    return fit


#: Outcomes of models with effects, and what these are called with and without an input.
_OUTCOMES, _EFFECTS = ("normal", "binomial", "Poisson"), ("effects", "effects and input")
_FAMILIES: dict[str, Callable[..., Fitted]] = {
    "normal": _normal,
    "Poisson": _poisson,
    "logistic": _logistic,
    "hierarchical": _hierarchical,
    **{
        f"{family} {effects}": _effects(family, has_input="input" in effects)
        for effects in _EFFECTS
        for family in _OUTCOMES
    },
}

#: Models of data that they explain.
TRUE = [Case(family, "true", 200) for family in ("normal", "Poisson", "logistic", "hierarchical")]
#: Such models with an effect for every one, two, four or eight observations.
EFFECTS = [
    Case(f"{family} {effects}", f"{size} per effect", 96 if size == 8 else 100)
    for effects in _EFFECTS
    for family in _OUTCOMES
    for size in (1, 2, 4, 8)
]
#: Models of data that they do not, each with as many observations as the misfit needs.
MISFITS = [
    Case("normal", "missing quadratic term", 300, True),
    Case("normal", "missing interaction", 800, True),
    Case("normal", "heteroscedastic noise", 200, True),
    Case("normal", "Student-t(3) noise", 300),
    Case("Poisson", "missing quadratic term", 400, True),
    Case("Poisson", "missing interaction", 1_000, True),
    Case("Poisson", "over-dispersed counts", 300),
    Case("Poisson", "wrong link", 400, True),
    Case("logistic", "missing quadratic term", 800, True),
    Case("logistic", "missing interaction", 900, True),
    Case("logistic", "wrong link", 800, True),
    Case("hierarchical", "scale differs between groups", 200, True),
    Case("hierarchical", "Student-t(3) noise", 300),
]
