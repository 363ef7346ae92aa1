"""Observed variables from which pymc-extras has summed discrete ones out."""

from __future__ import annotations

from typing import Any

import pymc as pm
from pymc.distributions.transforms import _default_transform
from pymc.logprob.transforms import LogOddsTransform, LogTransform
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable


def support_dims(rv: TensorVariable) -> int:
    """Return how many axes one observation has.

    What pymc-extras has summed out may leave observations independent, as one group for each of
    them does, or tie them together, as a change point does.
    """
    known = getattr(rv.owner.op, "ndim_supp", None)
    if known is not None:
        return int(known)
    tensors = [out for out in rv.owner.outputs if not isinstance(out.type, RandomType)]
    problem = ""
    if not _is_marginalised(rv):
        problem = f"is made by {type(rv.owner.op).__name__}, which is not a distribution of PyMC"
    elif len(tensors) > 2:
        problem = "shares a variable that was marginalised with others, given which it is not known"
    elif _terms_dims(rv) < rv.ndim:
        problem = (
            "was marginalised over a variable that all observations share, so that they depend on "
            "each other and are one observation, which is not a sample"
        )
    elif not isinstance(inner_transform(rv), LogTransform | LogOddsTransform | None):
        problem = "was marginalised, and has bounds that are not known outside of it"
    if problem:
        raise ValueError(
            f"The observed variable {rv.name!r} {problem}. Write it as a distribution of PyMC, "
            "such as a Mixture, or check the model by other means."
        )
    return 0


def inner_transform(rv: TensorVariable) -> Any:
    """Return the default transform of an observed variable, or of what it was before."""
    op = rv.owner.op
    if not _is_marginalised(rv):
        return _default_transform(op, rv)
    inner = op.inner_outputs[rv.owner.outputs.index(rv)]
    return _default_transform(inner.owner.op, inner)


def _is_marginalised(rv: TensorVariable) -> bool:
    """Whether an operation is one of pymc-extras, which need not be installed."""
    op = rv.owner.op
    return type(op).__module__.startswith("pymc_extras.") and hasattr(op, "inner_outputs")


def _terms_dims(rv: TensorVariable) -> int:
    """Return how many axes the log-probability has."""
    node = rv.owner
    fresh = [v.type() if isinstance(v.type, TensorType) else v for v in node.inputs]
    same = node.clone_with_new_inputs(fresh).outputs[node.outputs.index(rv)]
    terms: Any = pm.logp(same, same.type())
    # One for each of several outputs, even if there is one only.
    return int((terms[0] if isinstance(terms, list | tuple) else terms).ndim)
