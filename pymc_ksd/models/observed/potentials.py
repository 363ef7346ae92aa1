"""Potentials beside observed variables, which data replicated from the model know nothing of.

A Potential that restrains parameters is a part of the prior: draws already follow it, and the
distribution of an observed variable given the parameters is what the model says. One that stands
for data, such as observations that were censored, is not: the variable's own observations are then
a selection, and true models would be rejected. Graphs of both look the same.
"""

from __future__ import annotations

import pymc as pm
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.models.observed.numbers import data_of, is_data


def check_potentials(model: pm.Model, rv: TensorVariable, *, is_named: bool) -> None:
    """Refuse Potentials that may change the distribution of an observed variable.

    Parameters
    ----------
    model : pm.Model
        The model.
    rv : TensorVariable
        The observed variable.
    is_named : bool
        Whether the user asked for this variable, and so vouches for Potentials of parameters.

    Raises
    ------
    ValueError
        If a Potential has the variable or its observations in it, or, unless the variable is named,
        a free variable that its distribution is computed from.
    """
    own, parameters = data_of(model, rv), _given(model, rv)
    for potential in model.potentials:
        nodes = set(ancestors([potential], blockers=model.basic_RVs))
        if rv in nodes or any(is_data(node, own) for node in nodes):
            raise ValueError(
                f"The Potential {potential.name!r} changes the distribution of the observed "
                f"variable {rv.name!r} by its observations, and it is not known how to replicate "
                "data from that. Write both as one distribution, such as pm.Censored, "
                "pm.Truncated or a CustomDist."
            )
        shared = [str(other.name) for other in parameters if other in nodes]
        if shared and not is_named:
            raise ValueError(
                f"The Potential {potential.name!r} depends on {', '.join(shared)}, as the observed "
                f"variable {rv.name!r} does, but data replicated from {rv.name!r} know nothing of "
                "it. If it stands for data, such as censored observations, write it as a "
                "distribution. If it only restrains parameters, as a prior does, the check is "
                f"right without it: ask for it with `var_names` {str(rv.name)!r}."
            )


def _given(model: pm.Model, rv: TensorVariable) -> list[TensorVariable]:
    """Return the free variables that the distribution is directly computed from."""
    others = [other for other in model.basic_RVs if other is not rv]
    above = set(ancestors([rv], blockers=others))
    return [other for other in model.free_RVs if other in above]
