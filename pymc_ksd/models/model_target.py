"""The target of a PyMC model: its free variables, or, if it has none, its observed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pymc as pm

from pymc_ksd.compilation import compile_key, kept, one_at_a_time
from pymc_ksd.models.bambi_models import is_bambi, pymc_model
from pymc_ksd.models.belonging import belonging
from pymc_ksd.models.data_lengths import data_behind, explained
from pymc_ksd.models.free_variables import free_target
from pymc_ksd.models.log_density import as_tuple, model_key
from pymc_ksd.models.observed.fixed import fixed_target
from pymc_ksd.models.refused import check_model
from pymc_ksd.models.target import Target


def model_target(
    model: pm.Model,
    var_names: str | Sequence[str] | None,
    sample_dims: str | Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
) -> Target:
    """Return a model's target; it is kept as long as the model."""
    names, dims = as_tuple(var_names), as_tuple(sample_dims)
    if names == ():
        raise ValueError("`var_names` must name at least one variable, got none.")
    key = ("target", model_key(model), names, dims, compile_key(compile_kwargs))
    target: Target = kept(
        model, key, lambda: one_at_a_time(_build(model, names, dims, compile_kwargs))
    )
    return target


def _build(
    model: pm.Model,
    names: Sequence[str] | None,
    sample_dims: Sequence[str] | None,
    compile_kwargs: Mapping[str, Any] | None,
) -> Target:
    if not model.free_RVs and not model.observed_RVs:
        raise ValueError("`model` has no random variables, so there is nothing to test.")
    if model.free_RVs and sample_dims is not None:
        raise ValueError(
            "`sample_dims` belongs to observed variables of a model without free variables; this "
            "model has free variables."
        )
    if model.free_RVs:
        target = free_target(model, names, compile_kwargs)
    else:
        target = fixed_target(model, names, sample_dims, compile_kwargs)
    behind, count = data_behind(model), target.numbers_computed
    return replace(
        target,
        values=explained(target.values, behind),
        numbers_computed=None if count is None else explained(count, behind),
        belonging=belonging(model) if model.free_RVs else None,
    )


def resolve_model(model: Any) -> pm.Model:
    """Return the model that was given, or the one whose context is active.

    Of a Bambi model it is the PyMC model that Bambi has written. Models whose log density is not
    that of a posterior are refused.
    """
    if model is None:
        try:
            model = pm.modelcontext(None)
        except TypeError as error:
            raise TypeError(
                "`model` was not given and no model is on the context stack: pass a model or call "
                "inside `with model:`."
            ) from error
    if is_bambi(model):
        model = pymc_model(model)
    if type(model).__name__ == "Score":
        raise TypeError(
            "`model` must be the pm.Model itself here: a compiled Score does not know the model's "
            "observed variables."
        )
    if not isinstance(model, pm.Model):
        raise TypeError(
            "`model` must be a pm.Model, a bambi.Model, a Score or None, got "
            f"{type(model).__name__}."
        )
    check_model(model)
    return model
