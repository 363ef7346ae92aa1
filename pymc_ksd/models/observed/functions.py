"""Functions of observations: unconstrained coordinates, log densities with scores, simulation.

Each takes, after the observations, the values of the variables that the model is *given*: none in a
model without free variables, a draw of the posterior in a fitted one. Other values, and another
number of observations, compile nothing again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.multivariate import DirichletMultinomialRV
from pymc.logprob.basic import transformed_conditional_logp
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.utils import MethodNotDefined
from pytensor.scan.op import Scan
from pytensor.tensor.random.basic import CategoricalRV, MultinomialRV
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import built_once, compile_function, inline_inner_graphs
from pymc_ksd.models.lattice import check_whole, dtype_range, is_discrete
from pymc_ksd.models.log_density import (
    compile_simulation,
    explain_missing_logp,
    gradient_of,
    unconstrained_graph,
)
from pymc_ksd.models.observed.layout import Layout
from pymc_ksd.models.observed.marginalised import support_dims


@dataclass(frozen=True)
class Observations:
    """Observed variables whose observations go together, as graphs of any number of them.

    Attributes
    ----------
    layouts : sequence of Layout
        Where the observations of each variable are.
    length : TensorVariable
        Their number along the first axis that counts them.
    given : sequence of TensorVariable
        What else the variables are graphs of; the last arguments of all compiled functions.
    """

    layouts: Sequence[Layout]
    length: TensorVariable
    given: Sequence[TensorVariable] = ()

    @property
    def names(self) -> list[str]:
        """Names of the variables."""
        return [layout.name for layout in self.layouts]

    def compile_unconstrain(self) -> Callable[..., list[np.ndarray]]:
        """Return the map ``(samples, *given)`` to unconstrained values, observations first."""
        function = None
        if any(layout.transform is not None for layout in self.layouts):
            values, forward = self._forward_graphs()
            function = compile_function([*values, *self.given], forward)

        def unconstrain(samples: Mapping[str, np.ndarray], *known: np.ndarray) -> list[np.ndarray]:
            parts = [np.asarray(samples[layout.name], np.float64) for layout in self.layouts]
            for layout, part in zip(self.layouts, parts, strict=True):
                if is_discrete(layout.rv):
                    check_whole(layout.name, part)
            if function is not None:
                parts = self._call(function, parts, known)
            return [part.astype(np.float64, copy=False) for part in parts]

        return unconstrain

    def compile_log_density(
        self, shapes: Sequence[tuple[int, ...]], compile_kwargs: Mapping[str, Any] | None
    ) -> Callable[..., tuple[np.ndarray, np.ndarray | None]]:
        """Return a function ``(points, *given)`` for log densities, shape (n,), and scores (n, d).

        The score of many observations is the gradient of the sum of their log densities; it is NaN
        where the log density is not finite. There is none on a lattice.
        """
        values = [
            layout.free_length(graph)
            for layout, graph in zip(self.layouts, self._forward_graphs()[1], strict=True)
        ]
        terms = self._log_densities(values)
        discrete, gradients = is_discrete(self.layouts[0].rv), []
        if not discrete:
            gradients = gradient_of(sum(term.sum() for term in terms), values, self.names)
        function = compile_function([*values, *self.given], [*terms, *gradients], compile_kwargs)
        sizes = [int(np.prod(shape, dtype=int)) for shape in shapes]
        if discrete:
            ranges = [dtype_range(layout.rv.dtype) for layout in self.layouts]
            low, high = np.repeat(np.array(ranges, np.float64), sizes, axis=0).T

        def log_density(
            points: np.ndarray, *known: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray | None]:
            n = len(points)
            if discrete:
                held = (points >= low) & (points <= high)
                points = np.where(held, points, 0.0)
            columns = np.split(points, np.cumsum(sizes)[:-1], axis=1)
            parts = [a.reshape(n, *shape) for a, shape in zip(columns, shapes, strict=True)]
            outputs = [part.reshape(n, -1) for part in self._call(function, parts, known)]
            total = np.zeros(n)
            for term in outputs[: len(terms)]:
                total += term.sum(axis=1)
            if discrete:
                return np.where(held.all(axis=1), total, -np.inf), None
            scores = np.concatenate(outputs[len(terms) :], axis=1)
            scores[~np.isfinite(total)] = np.nan
            return total, scores

        return log_density

    def compile_sampler(self) -> Callable[..., dict[str, np.ndarray]]:
        """Return a sampler ``(n, rng, *given)`` of any number of observations."""
        first = self.layouts[0]
        compiled = built_once(
            lambda: compile_simulation(
                [self.length, *self.given], [layout.rv for layout in self.layouts]
            )
        )

        def simulate(n: int, rng: np.random.Generator, *known: np.ndarray) -> dict[str, np.ndarray]:
            draw = compiled()
            # Observations with missing elements are drawn, too, and left out.
            total = n if first.complete is None else len(first.complete)
            with self._explain_lengths(n):
                outputs = draw(rng, total // int(np.prod(first.lengths[1:])), *known)
            samples = {}
            for layout, output in zip(self.layouts, outputs, strict=True):
                samples[layout.name] = layout.to_points(np.asarray(output))
                if len(samples[layout.name]) != n:
                    raise ValueError(
                        f"`null` 'parametric' draws {n} observations of {layout.name!r}, but PyMC "
                        "cannot draw them in another number than the model has."
                    )
            return samples

        return simulate

    def _call(
        self, function: Any, parts: Sequence[np.ndarray], known: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Call a function with a part for each variable, arranged as the model has them, and back.

        It has one output for each variable, or several times as many.
        """
        inputs = [
            np.ascontiguousarray(layout.from_points(part), dtype=layout.rv.dtype)
            for layout, part in zip(self.layouts, parts, strict=True)
        ]
        with np.errstate(all="ignore"), self._explain_lengths(len(parts[0])):
            outputs = function(*inputs, *known)
        return [
            layout.to_points(np.asarray(output))
            for layout, output in zip(cycle(self.layouts), outputs, strict=False)
        ]

    @contextmanager
    def _explain_lengths(self, n: int) -> Iterator[None]:
        """Say it when a model with parameters for each observation gets another number of them."""
        own = self.layouts[0].n_points
        try:
            yield
        except (AssertionError, ValueError) as error:
            if n == own:
                raise
            raise ValueError(
                f"`data` has {n} observations, but the model is written for {own} of "
                f"{', '.join(self.names)}: its parameters have one "
                "value for each observation. Give as many, or change the model's data with "
                "pm.set_data."
            ) from error

    def _own_length(self, values: Sequence[TensorVariable]) -> dict[Any, TensorVariable]:
        """Replace the number of observations by that of values."""
        return {self.length: values[0].shape[self.layouts[0].axes[0]]}

    def _forward_graphs(self) -> tuple[list[TensorVariable], list[TensorVariable]]:
        """Return variables for data and the unconstrained values as graphs of them."""
        values = [layout.free_length(layout.rv) for layout in self.layouts]
        known, forward = self._own_length(values), []
        for layout, value in zip(self.layouts, values, strict=True):
            known[layout.rv] = value
            inputs = layout.rv.owner.inputs
            forward.append(unconstrained_graph(layout.transform, value, inputs, layout.axes))
        return values, graph_replace(forward, known, strict=False)

    def _log_densities(self, values: Sequence[TensorVariable]) -> list[TensorVariable]:
        """Return the log density of every observation, for each variable."""
        single = self.layouts[0].single if len(self.layouts) == 1 else None
        if single is not None and self.layouts[0].rv.type.shape[0] == 1:
            return self._one_by_one(single, values[0])
        try:
            return self._together(values)
        except ValueError as error:
            # PyMC writes the log-probability of some vectors and matrices for a single one only.
            if single is not None:
                return self._one_by_one(single, values[0])
            if all(support_dims(layout.rv) == 0 for layout in self.layouts):
                raise
            raise ValueError(
                f"{str(error).rstrip('.')}. If that is because the variable holds several "
                "observations, write the model for one observation and give the sample as `data`."
            ) from error

    def _together(self, values: Sequence[TensorVariable]) -> list[TensorVariable]:
        with explain_missing_logp(self.names):
            terms = self._conditional_logp([layout.rv for layout in self.layouts], values)
            return graph_replace(terms, self._own_length(values), strict=False)

    def _one_by_one(self, rv: TensorVariable, values: TensorVariable) -> list[TensorVariable]:
        with explain_missing_logp(self.names):
            value = pt.tensor("value", shape=values.type.shape[1:], dtype=values.dtype)
            terms = self._conditional_logp([rv], [value])
            return vectorize_graph(inline_inner_graphs(terms), {value: values})

    def _conditional_logp(
        self, rvs: Sequence[TensorVariable], values: Sequence[TensorVariable]
    ) -> list[TensorVariable]:
        transforms = [layout.transform for layout in self.layouts]
        return transformed_conditional_logp(
            rvs,
            rvs_to_values=dict(zip(rvs, values, strict=True)),
            rvs_to_transforms=dict(zip(rvs, transforms, strict=True)),
        )


def compile_quantiles(
    layout: Layout, rv: TensorVariable, shape: tuple[int, ...], given: Sequence[TensorVariable]
) -> Callable[..., np.ndarray | None]:
    """Return ``(shares, *given)`` for quantiles of every observation, shape (shares, n, ...).

    They are None for counts, and for distributions whose quantiles PyMC does not know.
    """
    share, graph = pt.dscalar("share"), None
    if not is_discrete(rv):
        with suppress(NotImplementedError, MethodNotDefined, TypeError, ValueError):
            graph = pm.icdf(rv, share)
    if graph is None:
        return lambda shares, *known: None
    function = compile_function([share, *given], graph)

    def quantiles(shares: Sequence[float], *known: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            arrays = [np.asarray(function(np.asarray(part), *known)) for part in shares]
        return np.stack([layout.to_points(np.broadcast_to(array, shape)) for array in arrays])

    return quantiles


def draws_in_a_loop(rv: TensorVariable) -> bool:
    """Whether a distribution, or one that it is made of, draws by rejection or one by one."""
    op = rv.owner.op
    if isinstance(op, CategoricalRV | MultinomialRV | DirichletMultinomialRV):
        return True
    inner = getattr(op, "fgraph", None)
    if inner is not None and any(isinstance(node.op, Scan) for node in inner.apply_nodes):
        return True
    parts = [part for part in rv.owner.inputs if part.owner is not None]
    random = [part for part in parts if isinstance(part.owner.op, SymbolicRandomVariable)]
    return any(draws_in_a_loop(part) for part in random)
