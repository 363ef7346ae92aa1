"""Five normal components on the line, whose means, variance or weights the model has wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pymc as pm
from scipy.special import log_softmax, logsumexp, ndtr

from benchmarks.paper.rival_tests import (
    classical_tests,
    likelihood_ratio,
    maximum_mean_discrepancy,
)
from benchmarks.paper.stein_tests import EXTENSIONS, PAPER_METHODS, stein_tests
from benchmarks.paper.trials import Experiment, Measured, Setting
from pymc_ksd import Score, compile_score

__all__ = ["EXPERIMENT", "Mixture", "mixture_model"]

PERTURBED = ("means", "log-variance", "log-weights")
#: Exact draws of the model that the two-sample test compares the data with.
_EXACT_DRAWS = 1000


@dataclass(frozen=True)
class Mixture:
    """A mixture of normal distributions with one variance."""

    means: np.ndarray
    log_variance: float
    log_weights: np.ndarray

    @classmethod
    def random(cls, rng: np.random.Generator) -> Mixture:
        """Draw the means of five equally likely components uniformly from [0, 10]."""
        return cls(rng.uniform(0, 10, size=5), 0.0, np.full(5, -np.log(5)))

    def perturb(self, what: str, deviation: float, rng: np.random.Generator) -> Mixture:
        """Add normal noise to the means, to the log-variance or to the log-weights."""
        if what == "means":
            return replace(self, means=self.means + deviation * rng.normal(size=5))
        if what == "log-variance":
            return replace(self, log_variance=self.log_variance + deviation * rng.normal())
        if what == "log-weights":
            noisy = log_softmax(self.log_weights + deviation * rng.normal(size=5))
            return replace(self, log_weights=noisy)
        raise ValueError(f"`what` must be one of {PERTURBED}, got {what!r}.")

    @property
    def sigma(self) -> float:
        """The components' standard deviation."""
        return float(np.exp(self.log_variance / 2))

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n points."""
        chosen = rng.choice(5, p=np.exp(self.log_weights), size=n)
        return self.means[chosen] + self.sigma * rng.normal(size=n)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the logarithm of the density."""
        z = (x[:, None] - self.means) / self.sigma
        constant = np.log(self.sigma) + np.log(2 * np.pi) / 2
        return np.asarray(logsumexp(self.log_weights - z**2 / 2, axis=1) - constant)

    def distribution(self, x: np.ndarray) -> np.ndarray:
        """Return the distribution function."""
        return np.asarray(ndtr((x[:, None] - self.means) / self.sigma) @ np.exp(self.log_weights))


def random_pair(setting: Setting, rng: np.random.Generator) -> tuple[Mixture, Mixture]:
    """Draw the true and the perturbed mixture of a trial."""
    truth = Mixture.random(rng)
    return truth, truth.perturb(setting.perturbed, setting.deviation, rng)


def moved_weight(truth: Mixture, other: Mixture) -> float:
    """Return how much weight one mixture has moved across the widest gap between the means."""
    order = np.argsort(truth.means)
    left = order[: int(np.argmax(np.diff(truth.means[order]))) + 1]
    return float(abs(np.exp(other.log_weights[left]).sum() - np.exp(truth.log_weights[left]).sum()))


def mixture_model() -> pm.Model:
    """Write the mixture in PyMC; its parameters are data, so that they can change."""
    with pm.Model() as model:
        means = pm.Data("means", np.linspace(0, 10, 5))
        sigma = pm.Data("sigma", 1.0)
        weights = pm.Data("weights", np.full(5, 0.2))
        pm.NormalMixture("x", w=weights, mu=means, sigma=sigma)
    return model


class MixtureExperiment(Experiment):
    """Figure 1 of the paper."""

    name = "mixture"
    methods = (
        *PAPER_METHODS,
        "χ²",
        "Kolmogorov–Smirnov",
        "Cramér–von Mises",
        "MMD-MC(1000)",
        "likelihood ratio",
        *EXTENSIONS,
    )
    settings = tuple(
        Setting(what, deviation, n)
        for what in PERTURBED
        for deviation, n in [
            *((deviation, 100) for deviation in (0.25, 0.5, 1.0, 2.0)),
            *((1.0, n) for n in (50, 200)),
        ]
    )
    quick_settings = tuple(
        Setting(what, deviation, n)
        for what in PERTURBED
        for deviation, n in ((0.25, 100), (1.0, 100), (1.0, 50))
    )

    @cached_property
    def _model(self) -> pm.Model:
        return mixture_model()

    def score(self, mixture: Mixture) -> Score:
        """Return the score of a mixture; it is compiled once for all."""
        with self._model:
            pm.set_data(
                {
                    "means": mixture.means,
                    "sigma": mixture.sigma,
                    "weights": np.exp(mixture.log_weights),
                }
            )
        return compile_score(self._model)

    def trial(
        self, setting: Setting, alternative: bool, rng: np.random.Generator
    ) -> Mapping[str, Measured]:
        """See :meth:`Experiment.trial`."""
        truth, perturbed = random_pair(setting, rng)
        tested, other = (perturbed, truth) if alternative else (truth, perturbed)
        x = truth.draw(setting.n, rng)
        exact = tested.draw(_EXACT_DRAWS, rng)
        oracle = likelihood_ratio(
            x,
            lambda points: other.log_density(points) - tested.log_density(points),
            lambda count: tested.draw(count, rng),
        )
        return {
            **stein_tests(self.score(tested), x, rng),
            **classical_tests(tested.distribution(x)),
            "MMD-MC(1000)": maximum_mean_discrepancy(x[:, None], exact[:, None], rng),
            "likelihood ratio": oracle,
        }


EXPERIMENT = MixtureExperiment()
