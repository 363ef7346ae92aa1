r"""Spins on a 5 × 5 grid, made continuous by noise, or tested as they are.

The probability is :math:`p(x) \propto \exp(\tfrac12 x^\top A x + b^\top x)` for :math:`x \in \{-1,
1\}^{25}`. The diagonal of A adds a constant, so it can be chosen to make A positive definite; then
:math:`y = b + A x + A^{1/2} \epsilon` has the density :math:`\propto \exp(-\tfrac12 (y - b)^\top
A^{-1} (y - b)) \prod_i 2 \cosh y_i`, whose score is known although the sum over 2²⁵ states is not.
That sum, and exact draws, come here from transfer matrices of the grid's rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from benchmarks.paper.rival_tests import likelihood_ratio
from benchmarks.paper.stein_tests import EXTENSIONS, PAPER_METHODS, stein_tests
from benchmarks.paper.trials import Experiment, Measured, Setting
from pymc_ksd import Score, compile_score

__all__ = ["EXPERIMENT", "Grid", "smoothed_model", "spin_model"]

SIDE = 5
#: The smallest eigenvalue of A.
_SMALLEST = 0.1
#: Tests of the spins themselves. Their parametric null would take most of the time of all trials.
_DIRECT = ("KSD-U", "KSD-linear", "KSD-block")
#: Tests of the smoothed spins, and those of large samples, which the spins themselves do not need.
_SMOOTHED = (*PAPER_METHODS, *EXTENSIONS, "KSD-U, whitened")
_LARGE = ("KSD-U", "KSD-linear", "KSD-U, IMQ", "KSD-block", "KSD-U, whitened")
_LARGE_POINTS = 200


@cache
def row_states() -> np.ndarray:
    """Return all states of a row of spins."""
    return np.array(list(product((-1.0, 1.0), repeat=SIDE)))


@dataclass(frozen=True)
class Grid:
    """An Ising model on a grid.

    Attributes
    ----------
    right : ndarray of shape (5, 4)
        Couplings of neighbours in a row.
    down : ndarray of shape (4, 5)
        Couplings of neighbours in a column.
    fields : ndarray of shape (5, 5)
        The vector b.
    """

    right: np.ndarray
    down: np.ndarray
    fields: np.ndarray

    @classmethod
    def random(cls, rng: np.random.Generator) -> Grid:
        """Draw couplings uniform on [0, 0.5] and small normal fields."""
        return cls(
            rng.uniform(0, 0.5, size=(SIDE, SIDE - 1)),
            rng.uniform(0, 0.5, size=(SIDE - 1, SIDE)),
            0.1 * rng.normal(size=(SIDE, SIDE)),
        )

    def perturb(self, deviation: float, rng: np.random.Generator) -> Grid:
        """Add normal noise to the couplings."""
        right, down = (c + deviation * rng.normal(size=c.shape) for c in (self.right, self.down))
        return Grid(right, down, self.fields)

    @cached_property
    def matrix(self) -> np.ndarray:
        """The matrix A, positive definite by its diagonal."""
        places = np.arange(SIDE**2).reshape(SIDE, SIDE)
        a = np.zeros((SIDE**2, SIDE**2))
        a[places[:, :-1], places[:, 1:]] = self.right
        a[places[:-1], places[1:]] = self.down
        a += a.T
        return a + (_SMALLEST - np.linalg.eigvalsh(a)[0]) * np.eye(SIDE**2)

    @cached_property
    def root(self) -> np.ndarray:
        """The symmetric root of A."""
        values, vectors = np.linalg.eigh(self.matrix)
        return np.asarray(vectors * np.sqrt(values) @ vectors.T)

    def log_unnormalised(self, x: np.ndarray) -> np.ndarray:
        """Return the log-probability of spins, shape (n, 25), up to a constant."""
        spins = x.reshape(-1, SIDE, SIDE)
        return np.asarray(
            (self.right * spins[:, :, :-1] * spins[:, :, 1:]).sum(axis=(1, 2))
            + (self.down * spins[:, :-1] * spins[:, 1:]).sum(axis=(1, 2))
            + (self.fields * spins).sum(axis=(1, 2))
        )

    @cached_property
    def _messages(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the first row's log weights, and of each later row those given the row before."""
        states = row_states()
        own = (states[:, :-1] * states[:, 1:]) @ self.right.T + states @ self.fields.T
        message = np.zeros(len(states))
        following: list[np.ndarray] = []
        for row in range(SIDE - 1, 0, -1):
            weights = (states * self.down[row - 1]) @ states.T + own[:, row] + message
            following.insert(0, weights)
            message = np.logaddexp.reduce(weights, axis=1)
        return own[:, 0] + message, following

    @cached_property
    def log_normaliser(self) -> float:
        """The logarithm of the sum over all states of :meth:`log_unnormalised`'s exponential."""
        return float(np.logaddexp.reduce(self._messages[0]))

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw spins exactly, row by row."""
        first, following = self._messages
        rows = [_pick(np.broadcast_to(first, (n, len(first))), rng)]
        for weights in following:
            rows.append(_pick(weights[rows[-1]], rng))
        return row_states()[np.stack(rows, axis=1)].reshape(n, SIDE**2)

    def smooth(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Make spins continuous: b + A x + A^½ ε."""
        return self.fields.ravel() + x @ self.matrix + rng.normal(size=x.shape) @ self.root

    @classmethod
    def of_matrix(cls, matrix: np.ndarray, fields: np.ndarray) -> Grid:
        """Return the grid whose couplings are the entries of A off the diagonal."""
        places = np.arange(SIDE**2).reshape(SIDE, SIDE)
        matrix = matrix.reshape(SIDE**2, SIDE**2)  # without batch dimensions of length one
        right, down = matrix[places[:, :-1], places[:, 1:]], matrix[places[:-1], places[1:]]
        return cls(right, down, fields.reshape(SIDE, SIDE))


def _pick(log_weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one column of each row with probability proportional to its weight."""
    sums = np.cumsum(np.exp(log_weights - log_weights.max(axis=1, keepdims=True)), axis=1)
    chosen = (sums < rng.random((len(sums), 1)) * sums[:, -1:]).sum(axis=1)
    return np.asarray(chosen)


def _log_cosh(x: Any) -> Any:
    return pt.logaddexp(x, -x) - np.log(2.0)


def smoothed_model() -> pm.Model:
    """Write the smoothed spins in PyMC, a continuous model."""

    def log_density(y: Any, matrix: Any, precision: Any, fields: Any) -> Any:
        centred = y - fields
        quadratic = pt.vecdot(centred, pt.matvec(precision, centred))
        return pt.sum(_log_cosh(y), axis=-1) - 0.5 * quadratic

    def random(
        matrix: np.ndarray,
        precision: np.ndarray,
        fields: np.ndarray,
        rng: np.random.Generator,
        size: Any,
    ) -> np.ndarray:
        size = () if size is None else tuple(size)
        grid = Grid.of_matrix(matrix, fields)
        sample = grid.smooth(grid.draw(int(np.prod(size)), rng), rng)
        return sample.reshape(*size, SIDE**2)

    with pm.Model() as model:
        matrix = pm.Data("matrix", np.eye(SIDE**2))
        precision = pm.Data("precision", np.eye(SIDE**2))
        fields = pm.Data("fields", np.zeros(SIDE**2))
        pm.CustomDist(
            "y",
            matrix,
            precision,
            fields,
            logp=log_density,
            random=random,
            signature="(d,d),(d,d),(d)->(d)",
        )
    return model


def spin_model() -> pm.Model:
    """Write the spins in PyMC, as zeros and ones: steps of counts have length one."""

    def log_probability(ones: Any, matrix: Any, fields: Any) -> Any:
        x = 2.0 * ones - 1.0
        value = 0.5 * pt.vecdot(x, pt.matvec(matrix, x)) + pt.vecdot(x, fields)
        inside = pt.all((ones >= 0) & (ones <= 1), axis=-1)
        return pt.switch(inside, value, -np.inf)

    def random(
        matrix: np.ndarray, fields: np.ndarray, rng: np.random.Generator, size: Any
    ) -> np.ndarray:
        size = () if size is None else tuple(size)
        sample = Grid.of_matrix(matrix, fields).draw(int(np.prod(size)), rng)
        return (sample.reshape(*size, SIDE**2) > 0).astype("int64")

    with pm.Model() as model:
        matrix = pm.Data("matrix", np.eye(SIDE**2))
        fields = pm.Data("fields", np.zeros(SIDE**2))
        pm.CustomDist(
            "ones",
            matrix,
            fields,
            logp=log_probability,
            random=random,
            signature="(d,d),(d)->(d)",
            dtype="int64",
            observed=np.zeros((2, SIDE**2), dtype="int64"),
        )
    return model


class IsingExperiment(Experiment):
    """Algorithm 2 of the paper, beside the test of the spins themselves."""

    name = "ising"
    methods = (
        *(f"smoothed: {method}" for method in _SMOOTHED),
        *(f"spins: {method}" for method in _DIRECT),
        "likelihood ratio",
    )
    settings = tuple(
        Setting("couplings", deviation, n)
        for deviation, n in ((0.1, 200), (0.2, 200), (0.4, 200), (0.4, 1000))
    )
    quick_settings = (settings[1],)

    @cached_property
    def _models(self) -> tuple[pm.Model, pm.Model]:
        return smoothed_model(), spin_model()

    def scores(self, grid: Grid) -> tuple[Score, Score]:
        """Return the score of the smoothed spins and the rates of the spins."""
        smoothed, spins = self._models
        values = {"matrix": grid.matrix, "fields": grid.fields.ravel()}
        with smoothed:
            pm.set_data({**values, "precision": np.linalg.inv(grid.matrix)})
        with spins:
            pm.set_data(values)
        return compile_score(smoothed), compile_score(spins)

    def trial(
        self, setting: Setting, alternative: bool, rng: np.random.Generator
    ) -> Mapping[str, Measured]:
        """See :meth:`Experiment.trial`."""
        truth = Grid.random(rng)
        perturbed = truth.perturb(setting.deviation, rng)
        tested, other = (perturbed, truth) if alternative else (truth, perturbed)
        x = truth.draw(setting.n, rng)
        smoothed, spins = self.scores(tested)
        large = setting.n > _LARGE_POINTS
        found = {
            f"smoothed: {method}": measured
            for method, measured in stein_tests(
                smoothed, tested.smooth(x, rng), rng, _LARGE if large else _SMOOTHED
            ).items()
        }
        if not large:
            ones = {"ones": (x > 0).astype("int64")}
            for method, measured in stein_tests(spins, ones, rng, _DIRECT).items():
                found[f"spins: {method}"] = measured
        constant = other.log_normaliser - tested.log_normaliser
        found["likelihood ratio"] = likelihood_ratio(
            x,
            lambda p: other.log_unnormalised(p) - tested.log_unnormalised(p) - constant,
            lambda count: tested.draw(count, rng),
        )
        return found


EXPERIMENT = IsingExperiment()
