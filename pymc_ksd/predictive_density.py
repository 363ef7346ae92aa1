r"""The posterior predictive density of new observations, a mixture over draws.

.. math::

    p(\tilde y) = \frac{1}{S} \sum_s p(\tilde y \mid \theta_s), \qquad
    \nabla \log p(\tilde y) = \sum_s w_s(\tilde y)\, \nabla \log p(\tilde y \mid \theta_s),

with :math:`w_s` in proportion to :math:`p(\tilde y \mid \theta_s)`. Draws are added one by one, so
nothing of the size of all of them is held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm

from pymc_ksd.fitted_density import FittedDensity, fitted_density, observed_variables
from pymc_ksd.lattice import step_rates
from pymc_ksd.model_variables import Density
from pymc_ksd.posterior_given import Given, given_values
from pymc_ksd.progress import progress_bar
from pymc_ksd.score import Score

__all__ = ["predictive_score"]

#: Draws that are used at most, evenly spaced among all: half of them are mixed, and new data are
#: replicated with the others.
MOST_DRAWS = 500


def predictive_score(
    model: pm.Model,
    posterior: Any,
    var_names: str | Sequence[str] | None,
    sample_dims: str | Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
    *,
    progressbar: bool = False,
) -> Score:
    """Return the score of an observed variable under the posterior predictive distribution."""
    rvs = observed_variables(model, var_names)
    if len(rvs) > 1:
        raise ValueError(
            f"The model has several observed variables ({', '.join(str(rv.name) for rv in rvs)}): "
            "choose the one that `data` are new observations of with `var_names`."
        )
    density = fitted_density(model, rvs[0], sample_dims, compile_kwargs)
    given = given_values(model, density.given, posterior, MOST_DRAWS if density.given else 1)
    mixture = _Mixture(density, given[::2], given[1::2] or given, progressbar)
    return Score(
        Density(
            variables=(density.variable,),
            gradient=None if density.discrete else mixture.gradient,
            rates=mixture.rates if density.discrete else None,
            unconstrain=mixture.unconstrain,
            simulate=mixture.simulate,
            circular=density.circular,
            kind="predictive",
        )
    )


class _Mixture:
    """The mixture of a variable's distributions over draws.

    Replicated data come from other draws than those that are mixed, as real ones do: they would be
    closer to a mixture that their own parameters are part of.
    """

    def __init__(
        self,
        density: FittedDensity,
        given: Sequence[Given],
        others: Sequence[Given],
        progressbar: bool,
    ) -> None:
        self.density = density
        self.given = given
        self.others = others
        self.progressbar = progressbar

    def unconstrain(self, samples: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return unconstrained points, the same for all draws."""
        values = samples[self.density.variable.name]
        points = self.density.unconstrain(values, *self.given[0])
        other = self.density.unconstrain(values, *self.given[-1])
        if not np.allclose(points, other, equal_nan=True):
            raise ValueError(
                f"The support of {self.density.variable.name!r} depends on free variables, so the "
                "draws have no common unconstrained coordinates and their mixture has no score in "
                "them. Check the model on its own data with ksd_ppc."
            )
        return points

    def gradient(self, points: np.ndarray) -> np.ndarray:
        """Return the score of the mixture."""
        largest, total = np.full(len(points), -np.inf), np.zeros(len(points))
        weighted = np.zeros(points.shape)
        for values, scores in self._terms(points):
            known = np.isfinite(values)
            higher = np.where(known, np.maximum(largest, values), largest)
            with np.errstate(invalid="ignore"):
                shrink = np.where(np.isfinite(largest), np.exp(largest - higher), 0.0)
                weight = np.where(known, np.exp(values - higher), 0.0)
            weighted *= shrink[:, None]
            weighted += weight[:, None] * np.where(known[:, None], scores, 0.0)
            total = total * shrink + weight
            largest = higher
        with np.errstate(invalid="ignore", divide="ignore"):
            score: np.ndarray = weighted / total[:, None]
        return score

    def rates(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rates of steps up and down under the mixture."""
        return step_rates(self._log_probability, points)

    def _log_probability(self, points: np.ndarray) -> np.ndarray:
        total = np.full(len(points), -np.inf)
        for values, _ in self._terms(points):
            total = np.logaddexp(total, np.where(np.isnan(values), -np.inf, values))
        return total

    def _terms(self, points: np.ndarray) -> Any:
        with progress_bar("Mixing draws", len(self.given), self.progressbar) as bar:
            for given in self.given:
                values, scores = self.density.log_density(points, *given)
                yield values, points if scores is None else scores
                bar.advance(1)

    def simulate(self, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Draw new observations that share one draw of the free variables, as real ones would."""
        self.progressbar = False  # replicates have a bar of their own
        chosen = self.others[int(rng.integers(len(self.others)))]
        return {self.density.variable.name: self.density.simulate(n, rng, *chosen)}
