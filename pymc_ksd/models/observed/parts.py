"""Which parts of an observed variable are checked, or why it cannot be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pymc as pm
from pymc.distributions.distribution import PartialObservedRV
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function
from pymc_ksd.models.observed.atoms import atom_parts
from pymc_ksd.models.observed.censoring import censored_part
from pymc_ksd.models.observed.items import items_part
from pymc_ksd.models.observed.layout import is_split
from pymc_ksd.models.observed.part import Part, evaluated, observed_values
from pymc_ksd.models.observed.paths import path_part
from pymc_ksd.models.observed.vectors import vector_part


def find_parts(
    model: pm.Model, rv: TensorVariable, sample_dims: Sequence[str] | None
) -> list[Part]:
    """Return the parts of an observed variable, each a sample given the free variables.

    Parameters
    ----------
    model : pm.Model
        The model.
    rv : TensorVariable
        The observed variable.
    sample_dims : sequence of str, optional
        Dims that count its observations; with these, paths and vectors are observations as they
        are.

    Returns
    -------
    list of Part
    """
    whole = whole_part(model, rv)
    censored = censored_part(whole)
    if censored is not None:
        return [censored]
    atoms = atom_parts(whole, part_name(model, whole.name))
    if atoms is not None:
        return atoms
    if sample_dims is None and whole.left_out is None and rv.ndim:
        for find in (path_part, vector_part, items_part):
            part = find(model, rv)
            if part is not None:
                return [part]
    return [whole]


def part_name(model: pm.Model, name: str) -> str:
    """Return what results call a variable: its own name, also where values are missing."""
    return name.removesuffix("_observed") if is_split(model, name) else name


def whole_part(model: pm.Model, rv: TensorVariable) -> Part:
    """Return a variable as it is, with the variable that an observed part belongs to.

    Missing values have some other value of the variable in their place.
    """
    if not isinstance(rv.owner.op, PartialObservedRV):
        return Part(str(rv.name), rv, evaluated(model.rvs_to_values[rv]))
    observed = observed_values(model, rv)
    whole, mask = rv.owner.inputs[:2]
    is_missing = np.asarray(compile_function([], mask)(), dtype=bool)
    full = np.full(is_missing.shape, observed[0], dtype=observed.dtype)
    full[~is_missing] = observed
    name = str(rv.name).removesuffix("_observed")
    return Part(name, whole, lambda: full, left_out=is_missing)
