"""Inputs in the place of a model's variables, for the functions of one part of an observed one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import replaced_in
from pymc_ksd.models.log_density import evaluate_shapes
from pymc_ksd.models.observed.numbers import named_parameters, parameter_graphs
from pymc_ksd.models.observed.once import Once, computed_once
from pymc_ksd.models.observed.part import Part


@dataclass(frozen=True)
class PartInputs:
    """What the functions of a part are given.

    Attributes
    ----------
    names : tuple of str
        Free variables.
    once : Once
        Inputs in their place, and what is computed from them once for each draw.
    some : list of ndarray
        Any values of the free variables, and of the part's own inputs: it is shapes that are asked
        for.
    rv : TensorVariable
        The part's distribution as a graph of :attr:`inputs`.
    resized : TensorVariable
        The same for any number of observations.
    bounds : list of TensorVariable
        Bounds beyond which values are hidden, if the part has any, as graphs of :attr:`inputs`.
    parameter_names : list of str
        What users call the distribution's parameters.
    numbers : tuple of TensorVariable
        Graphs of the distribution's parameters in the model, in which numbers are looked for.
    replaced : mapping
        What takes the place of the model's variables.
    """

    names: tuple[str, ...]
    once: Once
    some: list[np.ndarray]
    rv: TensorVariable
    resized: TensorVariable
    bounds: list[TensorVariable]
    parameter_names: list[str]
    numbers: tuple[TensorVariable, ...]
    replaced: Mapping[TensorVariable, TensorVariable]

    @property
    def inputs(self) -> list[TensorVariable]:
        """What the part's graphs are graphs of."""
        return self.once.given

    @classmethod
    def of(
        cls, model: pm.Model, rv: TensorVariable, part: Part, resized: TensorVariable
    ) -> PartInputs:
        """Put inputs in the place of free variables, and data in that of observed ones."""
        # What it depends on directly: parents of free variables do not matter once these are known.
        others = [other for other in model.basic_RVs if other is not rv]
        graphs = [part.rv, resized, *(part.bounds or ()), *part.graphs]
        needed = set(ancestors([*graphs, *part.past], blockers=others))
        searched = [part.rv] if part.searched is None else list(part.searched)
        above = needed | set(ancestors(searched, blockers=others))
        replaced = {v: v.type(name=str(v.name)) for v in model.free_RVs if v in above}
        free = {v: replaced[v] for v in replaced if v in needed}
        replaced |= {o: model.rvs_to_values[o] for o in others if o in above and o not in replaced}
        found = replaced_in([*graphs, *searched], replaced)
        own, later = found[: len(graphs)], found[len(graphs) :]
        steps = own[len(graphs) - len(part.graphs) :]
        once = (
            Once(list(free.values()), dict(zip(steps, part.inputs, strict=True)))
            if part.inputs
            else computed_once(own[:2], list(parameter_graphs(own[0])), list(free.values()))
        )
        cut_rv, cut_resized, *bounds = once.cut(own[: len(graphs) - len(part.graphs)])
        stand_ins = [*free, *part.inputs]
        shapes = evaluate_shapes(stand_ins)
        return cls(
            names=tuple(str(variable.name) for variable in free),
            once=once,
            some=[np.ones(s, v.dtype) for s, v in zip(shapes, stand_ins, strict=True)],
            rv=cut_rv,
            resized=cut_resized,
            bounds=bounds,
            # Graphs that were put together anew have lost the names that users gave them.
            parameter_names=[name for name, _ in named_parameters(part.rv, others)],
            numbers=tuple(graph for other in later for graph in parameter_graphs(other)),
            replaced=replaced,
        )
