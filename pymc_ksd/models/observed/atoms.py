"""Mixtures of one value that has positive probability, and continuous others, as two parts.

Whether an observation is that value is a Bernoulli outcome. The others are observations of the
continuous rest of the mixture; which they are is taken as it is. The value of a hurdle or
zero-inflated model is zero.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import DiracDeltaRV, SymbolicRandomVariable
from pymc.distributions.mixture import MixtureRV, _HurdleRV
from pymc.distributions.shape_utils import change_dist_size
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function
from pymc_ksd.models.lattice import is_discrete
from pymc_ksd.models.log_density import evaluate_shapes
from pymc_ksd.models.observed.part import Part


def atom_parts(whole: Part, name: str) -> list[Part] | None:
    """Return the two parts of a mixture with one atom, None for other variables.

    Parameters
    ----------
    whole : Part
        The variable with its data.
    name : str
        Its name in results.
    """
    rv = whole.rv
    if not isinstance(rv.owner.op, MixtureRV | _HurdleRV) or is_discrete(rv):
        return None
    weights, *components = rv.owner.inputs[1:]
    atoms = [i for i, c in enumerate(components) if isinstance(c.owner.op, DiracDeltaRV)]
    if len(components) < 2 or len(atoms) != 1 or len(components) == len(atoms):
        return None
    dirac = components[atoms[0]].owner
    (atom,) = dirac.op.dist_params(dirac)
    constants = np.unique(_value(atom)) if _is_constant(atom) else np.zeros(2)
    if len(constants) != 1:
        return None
    (at,) = constants
    (shape,) = evaluate_shapes([rv])
    rest = [i for i in range(len(components)) if i != atoms[0]]
    size = tuple(shape)
    if len(rest) == 1:
        values = change_dist_size(components[rest[0]], size)
    else:
        shares = weights[..., rest]
        shares = shares / shares.sum(axis=-1, keepdims=True)
        values = pm.Mixture.dist(shares, [components[i] for i in rest], size=size)
    is_atom = pm.Bernoulli.dist(p=pt.broadcast_to(weights[..., atoms[0]], size))
    left_out = np.zeros(shape, dtype=bool) if whole.left_out is None else whole.left_out
    here = whole.data() == at
    word = "zero" if at == 0 else "atom"
    # What an input does to one part is a reason to compare the other by it, too.
    searched = (rv,)
    return [
        Part(
            name=f"{name}_{word}",
            rv=is_atom,
            data=lambda: (np.asarray(whole.data()) == at).astype(np.int64),
            key=("atom", whole.name),
            left_out=whole.left_out,
            searched=searched,
        ),
        Part(
            name=whole.name,
            rv=values,
            # Any value that the rest may have, in the place of the atom.
            data=lambda: _without(np.asarray(whole.data()), at),
            key=("values", whole.name, here.tobytes()),
            left_out=left_out | here,
            searched=searched,
        ),
    ]


def _without(values: np.ndarray, at: float) -> np.ndarray:
    others = values[values != at]
    return np.where(values == at, others[0] if others.size else at, values)


def _is_constant(graph: TensorVariable) -> bool:
    """Whether nothing random is in a graph."""
    random = RandomVariable | SymbolicRandomVariable
    return not any(node.owner and isinstance(node.owner.op, random) for node in ancestors([graph]))


def _value(graph: TensorVariable) -> np.ndarray:
    return np.asarray(compile_function([], graph)())
