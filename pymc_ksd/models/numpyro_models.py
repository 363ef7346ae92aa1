"""Targets of NumPyro models, in their unconstrained coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_ksd.compilation import one_at_a_time
from pymc_ksd.models.jax_models import (
    INSTALL,
    import_jax,
    in_double,
    jax_gradient,
    join_arrays,
    split_points,
)
from pymc_ksd.models.target import Target, Variable


def numpyro_target(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Target:
    """Return the posterior of a NumPyro model in its unconstrained coordinates."""
    jax = import_jax("Score.from_numpyro", extra="numpyro")
    try:
        from numpyro.handlers import seed
        from numpyro.infer import util
    except ImportError as error:
        hint = INSTALL.format(extra="numpyro")
        raise ImportError(f"Score.from_numpyro needs NumPyro: {hint}.") from error
    if not callable(model):
        raise TypeError(
            f"`model` must be a NumPyro model, which is a function, got {type(model).__name__}."
        )
    # Copies: JAX may remember an array of NumPy in the precision in which a sampler has used it.
    args, keywords = jax.tree_util.tree_map(_copy, (tuple(args), dict(kwargs)))
    sites = in_double(jax, lambda: _sites(jax, model, args, keywords))()
    _check_sites(sites)
    latent = {name: site for name, site in sites.items() if site.is_latent}

    def unconstrained(sample: Any) -> Any:
        return util.unconstrain_fn(seed(model, 0), args, keywords, sample)

    def constrained(sample: Any) -> Any:
        return util.constrain_fn(seed(model, 0), args, keywords, sample)

    like = {name: np.zeros(site.shape) for name, site in latent.items()}
    moved = in_double(jax, lambda: jax.eval_shape(unconstrained, like))()
    shapes = {name: tuple(moved[name].shape) for name in latent}

    def of_point(point: Any) -> Any:
        parts = dict(zip(shapes, split_points(point, list(shapes.values())), strict=True))
        return -util.potential_energy(seed(model, 0), args, keywords, parts)

    forward, backward = (
        in_double(jax, jax.jit(jax.vmap(one))) for one in (unconstrained, constrained)
    )
    unconstrain, constrain = _ways(forward, backward, shapes)
    return one_at_a_time(
        Target(
            variables=tuple(_variable(name, latent[name], shapes[name]) for name in latent),
            operator="langevin",
            values=jax_gradient(jax, of_point),
            unconstrain=unconstrain,
            simulate=None,
            no_simulation="a posterior cannot be simulated directly",
            kind="posterior",
            pointwise=True,
            constrain=constrain,
        )
    )


def _ways(
    forward: Callable[[Any], Any],
    backward: Callable[[Any], Any],
    shapes: Mapping[str, tuple[int, ...]],
) -> tuple[
    Callable[[Mapping[str, np.ndarray]], np.ndarray],
    Callable[[np.ndarray], dict[str, np.ndarray]],
]:
    """Return the ways to unconstrained points and back, from those of a model's sites."""

    def unconstrain(samples: Mapping[str, np.ndarray]) -> np.ndarray:
        given = {name: np.asarray(samples[name], dtype=np.float64) for name in shapes}
        free = {name: np.asarray(array) for name, array in forward(given).items()}
        returned = backward(free)
        points = join_arrays([free[name] for name in shapes])
        # Transforms take what is outside the support for something inside.
        for name in shapes:
            off = ~np.isclose(np.asarray(returned[name]), given[name], rtol=1e-4, atol=1e-6)
            points[off.reshape(len(points), -1).any(axis=1)] = np.nan
        return points

    def constrain(points: np.ndarray) -> dict[str, np.ndarray]:
        parts = split_points(points, list(shapes.values()))
        seen = backward(dict(zip(shapes, parts, strict=True)))
        return {name: np.asarray(seen[name]) for name in shapes}

    return unconstrain, constrain


def _variable(name: str, site: _Site, free_shape: tuple[int, ...]) -> Variable:
    """Return the variable of a site, which is called the same in all its coordinates."""
    return Variable(
        name,
        site.shape,
        free_shape,
        # Also where values stay as they are: only stored points are taken for unconstrained.
        transform="numpyro",
        unconstrained_name=name,
        elementwise=free_shape == site.shape and site.is_elementwise,
    )


def _copy(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


@dataclass(frozen=True)
class _Site:
    """What is asked of a site of a NumPyro model.

    Attributes
    ----------
    shape : tuple of int
        Shape of its value.
    is_latent, is_discrete, is_subsampled : bool
        Whether it is sampled without data; has no gradient; stands for a part of the data.
    is_elementwise : bool
        Whether each unconstrained coordinate is that of one element, if there are as many.
    """

    shape: tuple[int, ...] = ()
    is_latent: bool = False
    is_discrete: bool = False
    is_subsampled: bool = False
    is_elementwise: bool = True


def _sites(
    jax: Any, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, _Site]:
    """Return the sites of a model, which runs once without any numbers."""
    from numpyro.distributions import biject_to
    from numpyro.distributions.transforms import IdentityTransform
    from numpyro.handlers import seed, substitute, trace
    from numpyro.infer.initialization import init_to_uniform

    found: dict[str, _Site] = {}

    def run() -> int:
        # Improper distributions cannot be sampled from: values are those that NumPyro starts from.
        started = substitute(seed(model, 0), substitute_fn=init_to_uniform)
        for name, site in trace(started).get_trace(*args, **kwargs).items():
            if site["type"] == "plate":
                size, taken = site["args"]
                found[name] = _Site(is_subsampled=taken is not None and size != taken)
            elif site["type"] == "sample" and not site["is_observed"]:
                is_discrete = bool(site["fn"].support.is_discrete)
                is_same = not is_discrete and isinstance(
                    biject_to(site["fn"].support), IdentityTransform
                )
                found[name] = _Site(
                    np.shape(site["value"]),
                    is_latent=True,
                    is_discrete=is_discrete,
                    is_elementwise=is_same or not site["fn"].event_dim,
                )
        return 0

    jax.eval_shape(run)
    return found


def _check_sites(sites: Mapping[str, _Site]) -> None:
    """Refuse models that have no score, or not that of all their data."""
    discrete = [name for name, site in sites.items() if site.is_discrete]
    if discrete:
        raise ValueError(
            f"The variable(s) {', '.join(discrete)} of `model` are discrete and have no gradient: "
            "sum over them first, and give the log density to Score.from_jax."
        )
    parts = [name for name, site in sites.items() if site.is_subsampled]
    if parts:
        raise ValueError(
            f"The plate(s) {', '.join(parts)} of `model` take a random part of the data, so its "
            "log density changes from call to call: leave out `subsample_size`."
        )
    if not any(site.is_latent for site in sites.values()):
        raise ValueError("`model` has no latent variables, so there is nothing to test.")
