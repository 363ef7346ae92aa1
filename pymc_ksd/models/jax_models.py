"""Targets of log densities written in JAX, of any tree of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from pymc_ksd.compilation import one_at_a_time
from pymc_ksd.models.target import Target, Variable
from pymc_ksd.options import warn_user

#: Points that are evaluated at a time, few or many: other numbers of points compile nothing.
_TOGETHER = (16, 1_024)
#: What to do where a library is missing.
INSTALL = 'install it with `pip install "pymc-ksd[{extra}]"`'


def jax_target(log_density: Callable[[Any], Any], example: Any) -> Target:
    """Return the target of a log density over a tree of arrays without bounds."""
    jax = import_jax("Score.from_jax")
    if not callable(log_density):
        raise TypeError(f"`log_density` must be callable, got {type(log_density).__name__}.")
    leaves, tree = jax.tree_util.tree_flatten_with_path(example)
    if not leaves:
        raise ValueError("`example` must hold at least one array, got none.")
    names = [_name(path) for path, _ in leaves]
    shapes = [np.shape(leaf) for _, leaf in leaves]
    if len(set(names)) < len(names):
        raise ValueError(f"`example` must have a different name for every array, got {names}.")

    def of_point(point: Any) -> Any:
        return log_density(jax.tree_util.tree_unflatten(tree, split_points(point, shapes)))

    variables = tuple(
        Variable(name, shape, shape, unconstrained_name=name)
        for name, shape in zip(names, shapes, strict=True)
    )
    return one_at_a_time(
        Target(
            variables=variables,
            operator="langevin",
            values=jax_gradient(jax, of_point),
            unconstrain=lambda samples: join_arrays([samples[name] for name in names]),
            simulate=None,
            no_simulation="a log density cannot be simulated",
            kind="posterior",
            pointwise=True,
        )
    )


def import_jax(function: str, extra: str = "jax") -> Any:
    """Return JAX, or say how to install it."""
    try:
        import jax
    except ImportError as error:
        raise ImportError(f"{function} needs JAX: {INSTALL.format(extra=extra)}.") from error
    return jax


def jax_gradient(
    jax: Any, of_point: Callable[[Any], Any]
) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return scores and log densities of points, in double precision."""
    compiled = in_double(jax, jax.jit(jax.vmap(jax.value_and_grad(of_point))))

    def values(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        points = np.asarray(points, dtype=np.float64)
        scores, log_densities = np.empty_like(points), np.empty(len(points))
        size = _TOGETHER[0] if len(points) <= _TOGETHER[0] else _TOGETHER[1]
        for start in range(0, len(points), size):
            part = points[start : start + size]
            rows = np.minimum(np.arange(size), len(part) - 1)
            heights, slopes = compiled(part[rows])
            stop = start + len(part)
            log_densities[start:stop] = np.asarray(heights)[: len(part)]
            scores[start:stop] = np.asarray(slopes)[: len(part)]
        scores[~np.isfinite(log_densities)] = np.nan
        return scores, log_densities

    return values


def in_double(jax: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs in double precision, or as JAX is set where that fails.

    It fails where the function holds arrays that were used in single precision before, as JAX
    takes what it remembers of them for the same.
    """
    double = [True]

    def call(*args: Any) -> Any:
        if not double[0]:
            return function(*args)
        try:
            with _double_precision(jax):
                return function(*args)
        except (TypeError, jax.errors.JaxRuntimeError):
            found = function(*args)  # what is wrong with the function itself is told here
        double[0] = False
        warn_user(
            "Scores are computed in single precision: `model` holds arrays that JAX has used in "
            "single precision before. Give them as arguments, or enable double precision at the "
            'start, with jax.config.update("jax_enable_x64", True).',
            UserWarning,
        )
        return found

    return call


def _double_precision(jax: Any) -> Any:
    """Return the context in which JAX has double precision, which versions before 0.8 hide."""
    known = jax if hasattr(jax, "enable_x64") else import_module("jax.experimental")
    return known.enable_x64(True)


def split_points(points: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return the parts of points, whose last axis has all coordinates."""
    sizes = [int(np.prod(shape, dtype=int)) for shape in shapes]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int).tolist()
    return [
        points[..., start : start + size].reshape(*points.shape[:-1], *shape)
        for start, size, shape in zip(starts, sizes, shapes, strict=True)
    ]


def join_arrays(arrays: Sequence[Any]) -> np.ndarray:
    """Return points from arrays, points along their first axis."""
    values = [np.asarray(array, dtype=np.float64) for array in arrays]
    return np.concatenate([value.reshape(len(value), -1) for value in values], axis=1)


def _name(path: Sequence[Any]) -> str:
    """Name a leaf by the keys, attributes and numbers that lead to it."""
    kinds = ("key", "name", "idx")
    parts = [getattr(one, kind) for one in path for kind in kinds if hasattr(one, kind)]
    return ".".join(map(str, parts)) or "x"
