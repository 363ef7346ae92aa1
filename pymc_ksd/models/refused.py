"""Models whose log density is not that of a posterior: refused at the door of every function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pymc as pm
from pymc.data import MinibatchOp
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.graph.traversal import ancestors


def check_model(model: pm.Model) -> None:
    """Refuse models of a part of their data, and models with trees in the place of a density.

    Parameters
    ----------
    model : pm.Model
        Any model.

    Raises
    ------
    ValueError
        If the model has a ``pm.Minibatch``, a ``total_size`` or variables of ``pymc_bart``; it
        names them and says what to do.
    """
    names = _with(model, lambda op: isinstance(op, MinibatchOp | MinibatchRandomVariable))
    if names:
        raise ValueError(
            f"The variable(s) {names} have a part of the data (pm.Minibatch) or weigh them "
            "(`total_size`), so that the log density is not that of the posterior. Build the model "
            "with all the data, without pm.Minibatch and `total_size`, and check the draws with it."
        )
    names = _with(model, _is_tree)
    if names:
        raise ValueError(
            f"The variable(s) {names} are BART's: pymc_bart samples trees, and gives their sum no "
            "log density that a score or a check could be made of. Check such a model by other "
            "means, such as R-hat, cross-validation and a plot of predictions beside the data."
        )


def _is_tree(op: Any) -> bool:
    """Whether an operation is one of pymc_bart, which need not be installed."""
    return any(kind.__module__.split(".")[0] == "pymc_bart" for kind in type(op).__mro__)


def _with(model: pm.Model, is_refused: Any) -> str:
    """Return the names of the variables that such operations are a part of."""
    parts = {rv: [rv, model.rvs_to_values[rv]] for rv in model.basic_RVs}
    parts |= {potential: [potential] for potential in model.potentials}
    everything = [graph for graphs in parts.values() for graph in graphs]
    if not any(map(is_refused, _operations(everything))):
        return ""
    found = [
        variable
        for variable, graphs in parts.items()
        if any(map(is_refused, _operations(graphs, set(parts) - {variable})))
    ]
    return ", ".join(repr(str(variable.name)) for variable in found)


def _operations(graphs: Iterable[Any], others: Iterable[Any] = ()) -> Iterator[Any]:
    """Walk the operations in graphs, without those behind other variables."""
    for variable in ancestors(list(graphs), blockers=list(others)):
        if variable.owner is not None and variable not in others:
            yield variable.owner.op
