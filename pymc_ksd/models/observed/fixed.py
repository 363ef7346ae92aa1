"""The density or probability of a model's observed variables, for models without free variables.

PyMC gives observed variables no transform; the distribution's default transform is applied here, so
that data on a bounded support are compared in unconstrained coordinates too. The first axis of an
observed variable counts observations unless `sample_dims` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.models.lattice import is_discrete, step_rates
from pymc_ksd.models.log_density import check_observed_logp, describe, is_circular
from pymc_ksd.models.observed.functions import (
    compile_log_probability,
    compile_sampler,
    compile_score_function,
    compile_unconstrain,
    own_data,
)
from pymc_ksd.models.observed.layout import Layout, find_layout, point_dims
from pymc_ksd.models.target import Target, Variable

__all__ = ["fixed_target"]


def fixed_target(
    model: pm.Model,
    var_names: Sequence[str] | None,
    sample_dims: str | Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
) -> Target:
    """Return the target over the observed variables, one observation a point."""
    rvs = _select(model, var_names)
    _check_kinds(model, rvs)
    length = pt.lscalar("length")
    layouts: list[Layout] = []
    for rv in rvs:
        layouts.append(find_layout(model, rv, sample_dims, length, rvs[: len(layouts)], layouts))
    current_data = own_data(model, rvs, layouts)
    unconstrain_parts = compile_unconstrain(layouts, length)
    variables = _variables(model, layouts, current_data(), unconstrain_parts)

    def unconstrain(samples: Mapping[str, np.ndarray]) -> np.ndarray:
        parts = unconstrain_parts(samples)
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    arguments = (layouts, [v.unconstrained_shape for v in variables], length, compile_kwargs)
    discrete = is_discrete(rvs[0])
    return Target(
        variables=variables,
        operator="birth_death" if discrete else "langevin",
        values=_rates(*arguments) if discrete else _scores(*arguments),
        unconstrain=unconstrain,
        simulate=compile_sampler(layouts, length),
        observed=current_data,
        circular=tuple(layout.name for layout in layouts if is_circular(layout.transform)),
        kind="observed",
    )


def _variables(
    model: pm.Model,
    layouts: Sequence[Layout],
    data: Mapping[str, np.ndarray],
    unconstrain: Callable[..., list[np.ndarray]],
) -> tuple[Variable, ...]:
    return tuple(
        describe(
            model,
            layout.rv,
            layout.transform,
            data[layout.name].shape[1:],
            part.shape[1:],
            point_dims(model, layout),
        )
        for layout, part in zip(layouts, unconstrain(data), strict=True)
    )


def _rates(*arguments: Any) -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
    log_probability = compile_log_probability(*arguments)
    return lambda points: step_rates(log_probability, points)


def _scores(*arguments: Any) -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
    score = compile_score_function(*arguments)
    return lambda points: (score(points)[1],)


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
    _check_independent(counts)


def _select(model: pm.Model, var_names: Sequence[str] | None) -> list[TensorVariable]:
    known = {str(rv.name): rv for rv in model.observed_RVs}
    if var_names is None:
        return list(known.values())
    unknown = [name for name in var_names if name not in known]
    if unknown:
        raise ValueError(
            f"`var_names` must name observed variables ({', '.join(known)}), got "
            f"{', '.join(unknown)}."
        )
    chosen = [known[name] for name in known if name in var_names]
    above = set(ancestors(chosen))
    needed = [name for name, rv in known.items() if rv in above and rv not in chosen]
    if needed:
        raise ValueError(
            "`var_names` must include every variable that the chosen ones depend on, otherwise "
            f"their marginal density is unknown; missing: {', '.join(needed)}."
        )
    return chosen


def _check_independent(rvs: Sequence[TensorVariable]) -> None:
    """Refuse counts that are parameters of other counts, whose range their steps could leave."""
    for rv in rvs:
        above = set(ancestors([rv]))
        parents = [str(other.name) for other in rvs if other is not rv and other in above]
        if parents:
            raise ValueError(
                f"The observed counts {rv.name!r} depend on the observed counts "
                f"{', '.join(parents)}. Put those in as pm.Data to test {rv.name!r} given them, "
                "and test them by themselves with `var_names`."
            )
