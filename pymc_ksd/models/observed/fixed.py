"""The density or probability of a model's observed variables, for models without free variables.

PyMC gives observed variables no transform; the distribution's default transform is applied here, so
that data on a bounded support are compared in unconstrained coordinates too. The first axis of an
observed variable counts observations unless `sample_dims` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function
from pymc_ksd.models.lattice import is_discrete, operator_values
from pymc_ksd.models.log_density import (
    check_observed_logp,
    check_parents,
    is_circular,
    named_variables,
)
from pymc_ksd.models.observed.functions import Observations
from pymc_ksd.models.observed.layout import Layout, find_layout
from pymc_ksd.models.target import Target


def fixed_target(
    model: pm.Model,
    var_names: Sequence[str] | None,
    sample_dims: str | Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
) -> Target:
    """Return the target over the observed variables, one observation a point."""
    rvs = named_variables(model.observed_RVs, var_names, "observed")
    check_parents(rvs, model.observed_RVs)
    _check_kinds(model, rvs)
    length = pt.lscalar("length")
    found: dict[TensorVariable, Layout] = {}
    for rv in rvs:
        resized = {other: layout.rv for other, layout in found.items()}
        found[rv] = find_layout(model, rv, sample_dims, length, name=str(rv.name), resized=resized)
    layouts = list(found.values())
    observations = Observations(layouts, length)
    current_data = _own_data(model, rvs, layouts)
    unconstrain_parts = observations.compile_unconstrain()
    data = current_data()
    shapes = [part.shape[1:] for part in unconstrain_parts(data)]
    log_density = observations.compile_log_density(shapes, compile_kwargs)
    operator = "birth_death" if is_discrete(rvs[0]) else "langevin"

    def unconstrain(samples: Mapping[str, np.ndarray]) -> np.ndarray:
        parts = unconstrain_parts(samples)
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    return Target(
        variables=tuple(
            layout.describe(model, data[layout.name].shape[1:], shape)
            for layout, shape in zip(layouts, shapes, strict=True)
        ),
        operator=operator,
        values=partial(operator_values, operator, log_density),
        unconstrain=unconstrain,
        simulate=observations.compile_sampler(),
        observed=current_data,
        circular=tuple(layout.name for layout in layouts if is_circular(layout.transform)),
        kind="observed",
    )


def _own_data(
    model: pm.Model, rvs: Sequence[TensorVariable], layouts: Sequence[Layout]
) -> Callable[[], dict[str, np.ndarray]]:
    """Return a function for the model's observed values as they are then, observations first."""
    function = compile_function([], [model.rvs_to_values[rv] for rv in rvs])

    def current() -> dict[str, np.ndarray]:
        data = {}
        for layout, values in zip(layouts, function(), strict=True):
            array = np.asarray(values)
            data[layout.name] = layout.to_points(array if layout.single is None else array[None])
        return data

    return current


def _check_kinds(model: pm.Model, rvs: Sequence[TensorVariable]) -> None:
    """Refuse observed variables that no operator can compare together."""
    if model.potentials:
        raise ValueError(
            "The observed variables of a model without free variables are tested one observation "
            "at a time, and it is not known how the Potential(s) "
            f"{', '.join(str(potential.name) for potential in model.potentials)} divide among "
            "observations. Write them as a CustomDist, or test free variables."
        )
    for rv in rvs:
        check_observed_logp(rv)
    counts = [rv for rv in rvs if is_discrete(rv)]
    if counts and len(counts) < len(rvs):
        names = ", ".join(str(rv.name) for rv in counts)
        raise ValueError(
            f"The observed variables are partly discrete ({names}) and partly continuous: they "
            "have no common Stein operator. Test them one by one with `var_names`; where one "
            "depends on another, put that in as pm.Data."
        )
    for rv in counts:
        # Steps of counts could leave the range of others that they are parameters of.
        above = set(ancestors([rv]))
        parents = [str(other.name) for other in counts if other is not rv and other in above]
        if parents:
            raise ValueError(
                f"The observed counts {rv.name!r} depend on the observed counts "
                f"{', '.join(parents)}. Put those in as pm.Data to test {rv.name!r} given them, "
                "and test them by themselves with `var_names`."
            )
