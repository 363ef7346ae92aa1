"""The target of a gradient function that knows no model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pymc_ksd.compilation import one_at_a_time
from pymc_ksd.models.target import Target, Variable


def callable_target(
    function: Callable[[np.ndarray], np.ndarray],
    variables: tuple[Variable, ...],
    simulate: Callable[[int, np.random.Generator], np.ndarray] | None,
    log_density: Callable[[np.ndarray], np.ndarray] | None,
) -> Target:
    """Return the target of a gradient function without transforms."""

    def values(points: np.ndarray) -> tuple[np.ndarray, ...]:
        scores = np.asarray(function(points), dtype=np.float64)
        if scores.shape != points.shape:
            raise ValueError(
                f"The score function must return an array of the points' shape {points.shape}, "
                f"got {scores.shape}."
            )
        if log_density is None:
            return (scores,)
        log_densities = np.asarray(log_density(points), dtype=np.float64)
        if log_densities.shape != points.shape[:1]:
            raise ValueError(
                f"`log_density` must return one number for each point, shape {points.shape[:1]}, "
                f"got {log_densities.shape}."
            )
        return scores, log_densities

    def unconstrain(samples: Mapping[str, np.ndarray]) -> np.ndarray:
        arrays = [np.asarray(samples[v.name], dtype=np.float64) for v in variables]
        return np.concatenate([array.reshape(len(array), -1) for array in arrays], axis=1)

    def draw(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        assert simulate is not None
        table = np.asarray(simulate(n, rng), dtype=np.float64).reshape(n, -1)
        stops = np.cumsum([v.size for v in variables])[:-1]
        parts = zip(variables, np.split(table, stops, axis=1), strict=True)
        return {v.name: part.reshape(n, *v.shape) for v, part in parts}

    return one_at_a_time(
        Target(
            variables=variables,
            operator="langevin",
            values=values,
            unconstrain=unconstrain,
            simulate=None if simulate is None else draw,
            no_simulation="the score came without a `simulate` function",
        )
    )


def stored_target(variables: tuple[Variable, ...]) -> Target:
    """Return the target of variables whose scores are known at stored draws only."""

    def unknown(*_: object) -> Any:
        raise ValueError(
            "`model` is a Score made from draws, which knows gradients at these draws alone, and "
            "no transforms: give the model itself, or a Score of its log density."
        )

    return Target(
        variables=variables,
        operator="langevin",
        values=unknown,
        unconstrain=unknown,
        simulate=None,
        no_simulation="the score is known at stored draws only",
        kind="posterior",
        pointwise=True,
        constrain=unknown,
        stored=True,
    )
