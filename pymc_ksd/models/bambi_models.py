"""Models that Bambi writes: their PyMC model, and how Bambi's draws differ from its variables.

Bambi centres predictors where there is an intercept, and un-centres the intercept of the draws it
hands out; it leaves out the standardised effects of groups, from which it has computed the effects.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm


@dataclass(frozen=True)
class BambiParameters:
    """What makes variables of the PyMC model out of those in Bambi's draws.

    Attributes
    ----------
    means : mapping
        For every intercept that was un-centred, by the names of terms, the means of their columns.
    offsets : mapping
        For every standardised effect of groups the names of the effect and of its scale.
    """

    means: Mapping[str, Mapping[str, np.ndarray]]
    offsets: Mapping[str, tuple[str, str]]

    @property
    def names(self) -> set[str]:
        """Names of the variables in Bambi's draws that are needed."""
        return {name for parts in self.offsets.values() for name in parts}


def is_bambi(model: Any) -> bool:
    """Whether a model is one of Bambi's, which is not imported to look for it."""
    bambi = sys.modules.get("bambi")
    return bambi is not None and isinstance(model, bambi.Model)


def pymc_model(model: Any) -> pm.Model:
    """Return the PyMC model of a Bambi model, which must have been built."""
    if not model.built:
        raise ValueError(
            "`model` is a bambi.Model that has no PyMC model yet: call its `build` or `fit` first."
        )
    built: pm.Model = model.backend.model
    return built


def bambi_parameters(model: Any) -> BambiParameters | None:
    """Return how draws of a Bambi model differ from its PyMC model; None for other models."""
    if not is_bambi(model):
        return None
    free = {str(rv.name) for rv in pymc_model(model).free_RVs}
    means, offsets = {}, {}
    for part in model.backend.distributional_components.values():
        component, columns = part.component, part.design_matrix_without_intercept
        # Bambi keeps the matrix only where it has centred it.
        if columns is not None and component.intercept_term and component.common_terms:
            widths = {
                _name(term): np.reshape(term.data, (len(term.data), -1)).shape[1]
                for term in component.common_terms.values()
            }
            parts = np.split(columns.mean(axis=0), np.cumsum([*widths.values()])[:-1])
            means[_name(component.intercept_term)] = dict(zip(widths, parts, strict=True))
        for term in component.group_specific_terms.values():
            name = _name(term)
            if f"{name}_offset" in free:
                sigma = (getattr(term, "hyperprior_alias", None) or {}).get("sigma", "sigma")
                offsets[f"{name}_offset"] = (name, f"{name}_{sigma}")
    return BambiParameters(means, offsets)


def _name(term: Any) -> str:
    return str(term.alias or term.name)
