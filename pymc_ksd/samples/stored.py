"""What samplers store beside draws: unconstrained values, gradients and log densities there.

Two layouts are read. In the first, which any sampler can write, the groups
``unconstrained_posterior`` and ``unconstrained_gradient`` have a variable for each of the model's,
by its unconstrained name, and ``sample_stats`` may have the log density ``unconstrained_lp``. The
other is nutpie's: ``unconstrained_draw``, ``gradient`` and ``logp`` in ``sample_stats``, with a
label for every coordinate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.models.target import Target, Variable
from pymc_ksd.samples.arranged import arranged, finite_values
from pymc_ksd.samples.containers import draws_group, holds_draws

#: Names of the first layout.
POINTS, GRADIENTS, LOG_DENSITY = (
    "unconstrained_posterior",
    "unconstrained_gradient",
    "unconstrained_lp",
)
#: Names of nutpie's, all in ``sample_stats``.
_FLAT_POINTS, _FLAT_GRADIENTS, _FLAT_LOG_DENSITY, _FLAT_DIM = (
    "unconstrained_draw",
    "gradient",
    "logp",
    "unconstrained_parameter",
)
#: Other names of log densities, which may or may not be those of unconstrained values.
_OTHER_LOG_DENSITIES = ("logp", "lp")


def holds_gradients(data: Any) -> bool:
    """Whether a container of draws has gradients beside them."""
    has_groups = not isinstance(data, xr.Dataset | xr.DataArray) and holds_draws(data)
    if not has_groups or type(data).__name__ == "MultiTrace":
        return False
    if draws_group(data, GRADIENTS) is not None:
        return True
    statistics = draws_group(data, "sample_stats")
    return statistics is not None and _is_flat(statistics, _FLAT_GRADIENTS)


def stored_points(target: Target, posterior: xr.Dataset, data: Any) -> np.ndarray | None:
    """Return unconstrained draws, shape (draw, chain, d), if all are in the container.

    Where no model tells which variables are transformed, a group of unconstrained values has to:
    those that it lacks are not. Without one, draws of NumPyro and Stan look like their own
    unconstrained values, which have the same names.
    """
    flat = _flat(target, posterior, data, _FLAT_POINTS)
    if flat is not None:
        return flat
    group = draws_group(data, POINTS)
    if group is None and target.stored:
        return None
    return _joined(target, posterior, group, may_be_in_posterior=True)


def stored_gradients(target: Target, posterior: xr.Dataset, data: Any) -> np.ndarray | None:
    """Return the gradients of log densities at all draws, shape (draw, chain, d), if there are any.

    Of nutpie's, those that are not finite everywhere are none; who writes a group of their own is
    told of such numbers by an error.
    """
    if not holds_gradients(data):
        return None
    group = draws_group(data, GRADIENTS)
    if group is not None:
        return _joined(target, posterior, group, may_be_in_posterior=False)
    return _flat(target, posterior, data, _FLAT_GRADIENTS)


def stored_log_densities(
    posterior: xr.Dataset, data: Any, *, only_unconstrained: bool
) -> list[np.ndarray]:
    """Return log densities at all draws, shape (draw, chain), under any of their names.

    With `only_unconstrained`, those alone that are known to be of unconstrained values.
    """
    statistics = draws_group(data, "sample_stats")
    if statistics is None:
        return []
    names = [LOG_DENSITY]
    if _is_flat(statistics, _FLAT_GRADIENTS):
        names.append(_FLAT_LOG_DENSITY)
    if not only_unconstrained:
        names += [name for name in _OTHER_LOG_DENSITIES if name not in names]
    found = []
    for name in names:
        if name not in statistics or set(statistics[name].dims) != {"chain", "draw"}:
            continue
        values = np.asarray(statistics[name].transpose("draw", "chain").values, dtype=np.float64)
        if _has_sizes(statistics[name], posterior) and np.isfinite(values).all():
            found.append(values)
    return found


def stored_variables(data: Any) -> tuple[Variable, ...]:
    """Return the variables whose gradients a container has, as far as it tells without a model.

    A name such as ``tau_log__`` is that of ``tau``, if the posterior has it, as PyMC calls them.
    """
    posterior = draws_group(data)
    gradients = draws_group(data, GRADIENTS)
    statistics = draws_group(data, "sample_stats")
    if posterior is None:
        raise ValueError("`data` must have a group 'posterior' with the draws.")
    if gradients is not None:
        shapes = {str(name): _own_shape(array) for name, array in gradients.data_vars.items()}
    elif statistics is not None and _is_flat(statistics, _FLAT_GRADIENTS):
        shapes = _flat_shapes(statistics, posterior, draws_group(data, POINTS))
    else:
        raise ValueError(
            "`data` must have gradients beside its draws: a group 'unconstrained_gradient', see "
            "pymc_ksd.with_gradients, or nutpie's statistic 'gradient', from "
            "nutpie.sample(…, store_gradient=True, store_unconstrained=True)."
        )
    unconstrained = draws_group(data, POINTS)
    moved = set() if unconstrained is None else set(map(str, unconstrained.data_vars))
    return tuple(_variable(name, shape, posterior, moved) for name, shape in shapes.items())


def _variable(
    name: str, shape: tuple[int, ...], posterior: xr.Dataset, moved: set[str]
) -> Variable:
    """Return the variable of an unconstrained value."""
    own = [str(one) for one in posterior.data_vars if name.endswith("__")]
    own = [one for one in own if name.startswith(f"{one}_") and one != name]
    seen = max(own, key=len) if own else name
    if seen not in posterior:
        return Variable(seen, shape, shape, transform="unknown", unconstrained_name=name)
    dims = tuple(str(dim) for dim in posterior[seen].dims if dim not in ("chain", "draw"))
    coords = {
        dim: posterior[seen].indexes[dim].tolist() for dim in dims if dim in posterior[seen].indexes
    }
    is_same = seen == name and name not in moved
    return Variable(
        seen,
        _own_shape(posterior[seen]),
        shape,
        dims or None,
        coords,
        transform=None if is_same else "unknown",
        unconstrained_name=name,
        elementwise=_own_shape(posterior[seen]) == shape,
    )


def _flat_shapes(
    statistics: xr.Dataset, posterior: xr.Dataset, unconstrained: xr.Dataset | None
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of unconstrained values from labels of coordinates."""
    known: dict[str, tuple[int, ...]] = {}
    for group in (posterior, unconstrained):
        if group is not None:
            known |= {str(name): _own_shape(array) for name, array in group.data_vars.items()}
    labels, found = _flat_labels(statistics), {}
    while labels:
        fitting = [
            name
            for name, shape in known.items()
            if (own := _expected_labels(name, shape)) and labels[: len(own)] == own
        ]
        name = max(fitting, key=lambda one: int(np.prod(known[one], dtype=int)), default=labels[0])
        found[name] = known[name] if fitting else ()
        labels = labels[int(np.prod(found[name], dtype=int)) :]
    return found


def _joined(
    target: Target, posterior: xr.Dataset, group: xr.Dataset | None, *, may_be_in_posterior: bool
) -> np.ndarray | None:
    """Return a number for every coordinate of every draw, from a variable for each."""
    parts = []
    for variable in target.variables:
        name = variable.unconstrained_name
        # A value that is not transformed may be in the posterior alone, by the variable's name.
        own = name != variable.name or variable.transform is None
        if group is not None and name in group:
            array = group[name]
            if not _has_sizes(array, posterior):
                return None  # something else than draws, or draws before they were thinned
        elif may_be_in_posterior and own and name in posterior:
            array = posterior[name]
        else:
            return None
        part = finite_values(arranged(array, variable), variable, variable.unconstrained_shape)
        parts.append(part.reshape(*part.shape[:2], -1))
    return np.concatenate(parts, axis=2)


def _flat(target: Target, posterior: xr.Dataset, data: Any, name: str) -> np.ndarray | None:
    """Return the same from one array with a label for every coordinate."""
    statistics = draws_group(data, "sample_stats") if holds_gradients(data) else None
    if statistics is None or not _is_flat(statistics, name):
        return None
    array = statistics[name].transpose("draw", "chain", _FLAT_DIM)
    wanted = [
        label
        for variable in target.variables
        for label in _expected_labels(variable.unconstrained_name, variable.unconstrained_shape)
    ]
    given = _flat_labels(statistics)
    values = np.asarray(array.values, dtype=np.float64)
    if sorted(given) != sorted(wanted) or not _has_sizes(array, posterior):
        return None
    if given != wanted:
        if len(set(wanted)) < len(wanted):
            return None  # two coordinates of one name in an order that is not the model's
        values = values[..., [given.index(label) for label in wanted]]
    return values if np.isfinite(values).all() else None


def _is_flat(statistics: xr.Dataset, name: str) -> bool:
    return name in statistics and set(statistics[name].dims) == {"chain", "draw", _FLAT_DIM}


def _flat_labels(statistics: xr.Dataset) -> list[str]:
    return [str(label) for label in statistics[_FLAT_DIM].values]


def _expected_labels(name: str, shape: Sequence[int]) -> list[str]:
    """Return what nutpie calls the coordinates of a variable."""
    return ["_".join([name, *map(str, index)]) for index in np.ndindex(*shape)]


def _has_sizes(array: xr.DataArray, posterior: xr.Dataset) -> bool:
    return all(array.sizes.get(dim) == posterior.sizes.get(dim) for dim in ("chain", "draw"))


def _own_shape(array: xr.DataArray) -> tuple[int, ...]:
    """Return the shape of one draw."""
    return tuple(size for dim, size in array.sizes.items() if dim not in ("chain", "draw"))
