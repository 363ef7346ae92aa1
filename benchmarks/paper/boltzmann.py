r"""A restricted Boltzmann machine with 50 normal visible and 10 binary hidden units.

The joint density is :math:`p(x, h) \propto \exp(\tfrac12 x^\top B h + b^\top x + c^\top h -
\tfrac12 \|x\|^2)` with :math:`h \in \{-1, 1\}^{10}`. Visible units given hidden ones are normal,
and with 2¹⁰ hidden states everything can be summed exactly, which serves as truth for methods that
cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numba import njit
from scipy.special import logsumexp, softmax

from benchmarks.paper.rival_tests import likelihood_ratio, maximum_mean_discrepancy
from benchmarks.paper.stein_tests import EXTENSIONS, PAPER_METHODS, stein_tests
from benchmarks.paper.trials import Experiment, Measured, Setting
from pymc_ksd import Score, compile_score

__all__ = ["EXPERIMENT", "Machine", "boltzmann_model"]

VISIBLE, HIDDEN = 50, 10
#: Steps of the Gibbs sampler that are thrown away.
_BURN_IN = 1000
#: Temperatures of annealed importance sampling, and how many paths through them.
_TEMPERATURES, _PATHS = 1000, 50
#: Exact draws for the two-sample test: always, and where its size is varied.
_ALWAYS, _SIZES = (100, 1000), (50, 200, 500)
#: The perturbation at which it is varied.
_REFERENCE = 0.05


@cache
def hidden_states(hidden: int = HIDDEN) -> np.ndarray:
    """Return all states of the hidden units, one a row."""
    return np.array(list(product((-1.0, 1.0), repeat=hidden)))


@dataclass(frozen=True)
class Machine:
    """A restricted Boltzmann machine: couplings B, fields b of visible and c of hidden units."""

    couplings: np.ndarray
    visible: np.ndarray
    hidden: np.ndarray

    @classmethod
    def random(cls, rng: np.random.Generator) -> Machine:
        """Draw normal fields and couplings of ±1."""
        couplings = rng.choice([-1.0, 1.0], size=(VISIBLE, HIDDEN))
        return cls(couplings, rng.normal(size=VISIBLE), rng.normal(size=HIDDEN))

    def perturb(self, deviation: float, rng: np.random.Generator) -> Machine:
        """Add normal noise to the couplings."""
        noise = deviation * rng.normal(size=self.couplings.shape)
        return replace(self, couplings=self.couplings + noise)

    @cached_property
    def _state_means(self) -> np.ndarray:
        return self.visible + 0.5 * hidden_states(len(self.hidden)) @ self.couplings.T

    @cached_property
    def _state_logits(self) -> np.ndarray:
        states = hidden_states(len(self.hidden))
        return 0.5 * (self._state_means**2).sum(axis=1) + states @ self.hidden

    @cached_property
    def log_normaliser(self) -> float:
        """The logarithm of the integral of :meth:`log_unnormalised`."""
        constant = 0.5 * len(self.visible) * np.log(2 * np.pi)
        return float(logsumexp(self._state_logits) + constant)

    def log_unnormalised(self, x: np.ndarray) -> np.ndarray:
        """Return the log density of visible units up to a constant."""
        inputs = 0.5 * x @ self.couplings + self.hidden
        log_sums = np.logaddexp(inputs, -inputs).sum(axis=1)
        return np.asarray(x @ self.visible - 0.5 * (x**2).sum(axis=1) + log_sums)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log density of visible units."""
        return self.log_unnormalised(x) - self.log_normaliser

    def score(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient of the log density, in closed form."""
        inputs = 0.5 * x @ self.couplings + self.hidden
        return np.asarray(self.visible - x + 0.5 * np.tanh(inputs) @ self.couplings.T)

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw visible units exactly."""
        states = rng.choice(len(self._state_logits), p=softmax(self._state_logits), size=n)
        return self._state_means[states] + rng.normal(size=(n, len(self.visible)))

    def gibbs(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw visible units by a Gibbs sampler that starts anywhere, after its burn-in."""
        return np.asarray(_gibbs(*self._arrays, n, _BURN_IN, rng), dtype=float)

    @property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Couplings of one hidden unit after the other, and both fields."""
        return np.ascontiguousarray(self.couplings.T), self.visible, self.hidden

    def annealed_log_normaliser(self, rng: np.random.Generator) -> float:
        """Estimate the normaliser by annealed importance sampling.

        Paths lead from independent units, couplings and hidden fields zero, to this machine.
        """
        logs = _anneal(*self._arrays, _TEMPERATURES, _PATHS, rng)
        dim, hidden = self.couplings.shape
        constant = 0.5 * (dim * np.log(2 * np.pi) + self.visible @ self.visible)
        return float(logsumexp(logs) - np.log(_PATHS) + hidden * np.log(2) + constant)


@njit(cache=True, fastmath=True)
def _hidden_inputs(x, couplings, hidden):  # type: ignore[no-untyped-def]
    """Return what acts on every hidden unit."""
    inputs = hidden.copy()
    for unit in range(len(hidden)):
        total = 0.0
        for k in range(len(x)):
            total += x[k] * couplings[unit, k]
        inputs[unit] += 0.5 * total
    return inputs


@njit(cache=True, fastmath=True)
def _next_visible(x, inputs, couplings, visible, temperature, rng):  # type: ignore[no-untyped-def]
    """Draw hidden units given what acts on them, then visible ones in the place of x."""
    x[:] = visible
    for unit in range(len(inputs)):
        up = rng.random() * (1 + np.exp(-2 * temperature * inputs[unit])) < 1
        sign = temperature * (0.5 if up else -0.5)
        for k in range(len(x)):
            x[k] += sign * couplings[unit, k]
    for k in range(len(x)):
        x[k] += rng.normal()


@njit(cache=True)
def _gibbs(couplings, visible, hidden, n, burn_in, rng):  # type: ignore[no-untyped-def]
    x = np.empty(len(visible))
    for k in range(len(x)):
        x[k] = visible[k] + rng.normal()
    draws = np.empty((n, len(x)))
    for step in range(burn_in + n):
        inputs = _hidden_inputs(x, couplings, hidden)
        _next_visible(x, inputs, couplings, visible, 1.0, rng)
        if step >= burn_in:
            draws[step - burn_in] = x
    return draws


@njit(cache=True)
def _anneal(couplings, visible, hidden, temperatures, paths, rng):  # type: ignore[no-untyped-def]
    """Return the log weight of every path, for the density summed over hidden units."""
    logs = np.zeros(paths)
    x = np.empty(len(visible))
    for path in range(paths):
        for k in range(len(x)):
            x[k] = visible[k] + rng.normal()
        for step in range(temperatures):
            before, after = step / temperatures, (step + 1) / temperatures
            inputs = _hidden_inputs(x, couplings, hidden)
            ratio = 1.0
            for size in np.abs(inputs):
                # log cosh(after size) - log cosh(before size), the first part here.
                logs[path] += (after - before) * size
                ratio *= (1 + np.exp(-2 * after * size)) / (1 + np.exp(-2 * before * size))
            logs[path] += np.log(ratio)
            _next_visible(x, inputs, couplings, visible, after, rng)
    return logs


def boltzmann_model(visible: int = VISIBLE, hidden: int = HIDDEN) -> pm.Model:
    """Write the machine in PyMC: hidden units are summed out, parameters are data."""

    def log_density(x: Any, couplings: Any, fields: Any, hidden_fields: Any) -> Any:
        inputs = 0.5 * pt.vecmat(x, couplings) + hidden_fields
        log_sums = pt.sum(pt.logaddexp(inputs, -inputs), axis=-1)
        return pt.vecdot(x, fields - 0.5 * x) + log_sums

    def random(
        couplings: np.ndarray,
        fields: np.ndarray,
        hidden_fields: np.ndarray,
        rng: np.random.Generator,
        size: Any,
    ) -> np.ndarray:
        # PyMC may put batch dimensions of length one before the parameters' own.
        machine = Machine(
            couplings.reshape(visible, hidden),
            fields.reshape(visible),
            hidden_fields.reshape(hidden),
        )
        size = () if size is None else tuple(size)
        return machine.draw(int(np.prod(size)), rng).reshape(*size, visible)

    with pm.Model() as model:
        couplings = pm.Data("couplings", np.ones((visible, hidden)))
        fields = pm.Data("fields", np.zeros(visible))
        hidden_fields = pm.Data("hidden_fields", np.zeros(hidden))
        pm.CustomDist(
            "x",
            couplings,
            fields,
            hidden_fields,
            logp=log_density,
            random=random,
            signature="(d,k),(d),(k)->(d)",
        )
    return model


class BoltzmannExperiment(Experiment):
    """Figure 2 of the paper."""

    name = "boltzmann"
    methods = (
        *PAPER_METHODS,
        *(f"MMD-MC({size})" for size in _ALWAYS),
        "MMD-MCMC(1000)",
        "likelihood ratio",
        "likelihood ratio (AIS)",
        *EXTENSIONS,
        *(f"MMD-MC({size})" for size in _SIZES),
    )
    settings = tuple(
        Setting("couplings", deviation, 100) for deviation in (0.01, 0.02, 0.03, 0.05, 0.1)
    )
    quick_settings = (settings[3],)

    @cached_property
    def _model(self) -> pm.Model:
        return boltzmann_model()

    def score(self, machine: Machine) -> Score:
        """Return the score of a machine; it is compiled once for all."""
        with self._model:
            pm.set_data(
                {
                    "couplings": machine.couplings,
                    "fields": machine.visible,
                    "hidden_fields": machine.hidden,
                }
            )
        return compile_score(self._model)

    def trial(
        self, setting: Setting, alternative: bool, rng: np.random.Generator
    ) -> Mapping[str, Measured]:
        """See :meth:`Experiment.trial`."""
        truth = Machine.random(rng)
        perturbed = truth.perturb(setting.deviation, rng)
        tested, other = (perturbed, truth) if alternative else (truth, perturbed)
        x = truth.draw(setting.n, rng)
        found = dict(stein_tests(self.score(tested), x, rng))
        sizes = _ALWAYS + (_SIZES if setting.deviation == _REFERENCE else ())
        for size in sizes:
            exact = tested.draw(size, rng)
            found[f"MMD-MC({size})"] = maximum_mean_discrepancy(x, exact, rng)
        found["MMD-MCMC(1000)"] = maximum_mean_discrepancy(x, tested.gibbs(1000, rng), rng)
        found["likelihood ratio"] = likelihood_ratio(
            x,
            lambda points: other.log_density(points) - tested.log_density(points),
            lambda count: tested.draw(count, rng),
        )
        normalisers = [machine.annealed_log_normaliser(rng) for machine in (other, tested)]
        unnormalised = other.log_unnormalised(x) - tested.log_unnormalised(x)
        ratio = 2 * float(np.sum(unnormalised - normalisers[0] + normalisers[1]))
        found["likelihood ratio (AIS)"] = Measured(np.nan, ratio)
        return found


EXPERIMENT = BoltzmannExperiment()
