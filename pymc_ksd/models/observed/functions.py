"""Functions of observations: unconstrained coordinates, log densities with scores, simulation.

Each takes, after the observations, the values of the variables that the model is *given*: none in a
model without free variables, a draw of the posterior in a fitted one. Other values, and another
number of observations, compile nothing again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.shape_utils import change_dist_size
from pymc.logprob.basic import transformed_conditional_logp
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.utils import MethodNotDefined, MissingInputError
from pytensor.scan.op import Scan
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import built_once, compile_function, inline_inner_graphs
from pymc_ksd.models.lattice import check_whole, is_discrete, within_dtype
from pymc_ksd.models.log_density import (
    compile_simulation,
    gradient_of,
    log_density,
    unconstrained_graph,
)
from pymc_ksd.models.observed.layout import Layout, explain_lengths, in_layout

__all__ = [
    "compile_log_probability",
    "compile_quantiles",
    "compile_repeated_sampler",
    "compile_sampler",
    "compile_score_function",
    "compile_unconstrain",
    "draws_in_a_loop",
    "own_data",
]

Variables = Sequence[TensorVariable]


def own_data(
    model: pm.Model, rvs: Variables, layouts: Sequence[Layout]
) -> Callable[[], dict[str, np.ndarray]]:
    """Return a function for the model's observed values as they are then, observations first."""
    function = compile_function([], [model.rvs_to_values[rv] for rv in rvs])

    def current() -> dict[str, np.ndarray]:
        data = {}
        for layout, values in zip(layouts, function(), strict=True):
            array = np.asarray(values)
            data[layout.name] = layout.to_points(array if layout.single is None else array[None])
        return data

    return current


def compile_unconstrain(
    layouts: Sequence[Layout], length: TensorVariable, given: Variables = ()
) -> Callable[..., list[np.ndarray]]:
    """Return the map ``(samples, *given)`` to unconstrained values, observations first."""
    function = None
    if any(layout.transform is not None for layout in layouts):
        values, forward = _forward_graphs(layouts, length)
        function = compile_function([*values, *given], forward)

    def unconstrain(samples: Mapping[str, np.ndarray], *known: np.ndarray) -> list[np.ndarray]:
        parts = [np.asarray(samples[layout.name], dtype=np.float64) for layout in layouts]
        for layout, part in zip(layouts, parts, strict=True):
            if is_discrete(layout.rv):
                check_whole(layout.name, part)
        if function is None:
            return parts
        inputs = in_layout(layouts, parts)
        with np.errstate(all="ignore"), explain_lengths(layouts, len(parts[0])):
            outputs = function(*inputs, *known)
        return [
            layout.to_points(np.asarray(output, dtype=np.float64))
            for layout, output in zip(layouts, outputs, strict=True)
        ]

    return unconstrain


def compile_score_function(
    layouts: Sequence[Layout],
    shapes: Sequence[tuple[int, ...]],
    length: TensorVariable,
    compile_kwargs: Mapping[str, Any] | None,
    given: Variables = (),
) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """Return a function ``(points, *given)`` for log densities, shape (n,), and scores (n, d).

    The score of many observations is the gradient of the sum of their log densities; it is NaN
    where the log density is not finite.
    """
    names = [layout.name for layout in layouts]
    values = _unconstrained_values(layouts, length)
    terms = _log_densities(layouts, values, length)
    gradients = gradient_of(sum(term.sum() for term in terms), values, names)
    function = compile_function([*values, *given], [*terms, *gradients], compile_kwargs)

    def score(points: np.ndarray, *known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outputs = _call(function, layouts, shapes, points, known)
        total = _total(layouts, outputs[: len(layouts)], len(points))
        scores = np.concatenate(
            [
                layout.to_points(np.asarray(array)).reshape(len(points), -1)
                for layout, array in zip(layouts, outputs[len(layouts) :], strict=True)
            ],
            axis=1,
        )
        scores[~np.isfinite(total)] = np.nan
        return total, scores

    return score


def compile_log_probability(
    layouts: Sequence[Layout],
    shapes: Sequence[tuple[int, ...]],
    length: TensorVariable,
    compile_kwargs: Mapping[str, Any] | None,
    given: Variables = (),
) -> Callable[..., np.ndarray]:
    """Return a function ``(points, *given)`` for the log probabilities of points on a lattice."""
    values = _unconstrained_values(layouts, length)
    terms = _log_densities(layouts, values, length)
    function = compile_function([*values, *given], terms, compile_kwargs)
    sizes = [int(np.prod(shape, dtype=int)) for shape in shapes]
    dtypes = [layout.rv.dtype for layout in layouts for _ in range(sizes[layouts.index(layout)])]

    def log_probability(points: np.ndarray, *known: np.ndarray) -> np.ndarray:
        held = np.stack(
            [within_dtype(column, kind) for column, kind in zip(points.T, dtypes, strict=True)], 1
        )
        outputs = _call(function, layouts, shapes, np.where(held, points, 0.0), known)
        total = _total(layouts, outputs, len(points))
        return np.where(held.all(axis=1), total, -np.inf)

    return log_probability


def compile_sampler(
    layouts: Sequence[Layout], length: TensorVariable, given: Variables = ()
) -> Callable[..., dict[str, np.ndarray]]:
    """Return a sampler ``(n, rng, *given)`` of any number of observations."""
    compiled = built_once(
        lambda: compile_simulation([length, *given], [layout.rv for layout in layouts])
    )

    def simulate(n: int, rng: np.random.Generator, *known: np.ndarray) -> dict[str, np.ndarray]:
        draw = compiled()
        with explain_lengths(layouts, n):
            outputs = draw(rng, n // int(np.prod(layouts[0].lengths[1:])), *known)
        for layout, output in zip(layouts, outputs, strict=True):
            if len(layout.to_points(np.asarray(output))) != n:
                raise ValueError(
                    f"`null` 'parametric' draws {n} observations of {layout.name!r}, but PyMC "
                    "cannot draw them in another number than the model has."
                )
        return {
            layout.name: layout.to_points(np.asarray(output))
            for layout, output in zip(layouts, outputs, strict=True)
        }

    return simulate


def compile_quantiles(
    layout: Layout, rv: TensorVariable, shape: tuple[int, ...], given: Variables
) -> Callable[..., np.ndarray] | None:
    """Return ``(shares, *given)`` for quantiles of every observation, shape (shares, n, ...).

    None for distributions whose quantiles PyMC does not know.
    """
    share = pt.dscalar("share")
    try:
        graph = pm.icdf(rv, share)
    except (NotImplementedError, MethodNotDefined, TypeError, ValueError):
        return None
    function = compile_function([share, *given], graph)

    def quantiles(shares: Sequence[float], *known: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            arrays = [np.asarray(function(np.asarray(part), *known)) for part in shares]
        return np.stack([layout.to_points(np.broadcast_to(array, shape)) for array in arrays])

    return quantiles


def compile_repeated_sampler(
    layout: Layout, rv: TensorVariable, given: Variables
) -> Callable[..., np.ndarray]:
    """Return a sampler ``(times, rng, *given)`` of all observations of a variable, many times.

    What the variable's parameters are computed from is computed once for all of them.
    """
    times = pt.lscalar("times")

    def build() -> tuple[Callable[..., list[np.ndarray]], bool]:
        graph = rv
        # Distributions that cannot have a symbolic size are drawn one by one, and so are those
        # that draw in a loop, all steps of which are held in memory.
        if not draws_in_a_loop(rv):
            with suppress(NotImplementedError, MissingInputError):
                graph = change_dist_size(rv, (times,), expand=True)
        return compile_simulation([times, *given], [graph]), graph is not rv

    compiled = built_once(build)

    def simulate(number: int, rng: np.random.Generator, *known: np.ndarray) -> np.ndarray:
        draw, at_once = compiled()
        drawn = [draw(rng, number, *known)[0] for _ in range(1 if at_once else number)]
        values = drawn[0] if at_once else drawn
        return np.stack([layout.to_points(np.asarray(part)) for part in values])

    return simulate


def draws_in_a_loop(rv: TensorVariable) -> bool:
    """Whether a distribution, or one that it is made of, draws by rejection in a loop."""
    op = rv.owner.op
    inner = getattr(op, "fgraph", None)
    if inner is not None and any(isinstance(node.op, Scan) for node in inner.apply_nodes):
        return True
    parts = [part for part in rv.owner.inputs if part.owner is not None]
    random = [part for part in parts if isinstance(part.owner.op, SymbolicRandomVariable)]
    return any(draws_in_a_loop(part) for part in random)


def _forward_graphs(
    layouts: Sequence[Layout], length: TensorVariable
) -> tuple[list[TensorVariable], list[TensorVariable]]:
    """Return variables for data and the unconstrained values as graphs of them."""
    values = [layout.free_length(layout.rv) for layout in layouts]
    forward = [
        unconstrained_graph(layout.transform, value, layout.rv.owner.inputs, layout.axes)
        for layout, value in zip(layouts, values, strict=True)
    ]
    replacements = {layout.rv: value for layout, value in zip(layouts, values, strict=True)}
    replacements[length] = values[0].shape[layouts[0].axes[0]]
    return values, graph_replace(forward, replacements, strict=False)


def _unconstrained_values(
    layouts: Sequence[Layout], length: TensorVariable
) -> list[TensorVariable]:
    """Return variables for unconstrained values of any number of observations."""
    _, forward = _forward_graphs(layouts, length)
    return [layout.free_length(graph) for layout, graph in zip(layouts, forward, strict=True)]


def _call(
    function: Callable[..., list[np.ndarray]],
    layouts: Sequence[Layout],
    shapes: Sequence[tuple[int, ...]],
    points: np.ndarray,
    known: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """Give points to a function of one array for each variable, arranged as the model has them."""
    n = len(points)
    stops = np.cumsum([int(np.prod(shape, dtype=int)) for shape in shapes])[:-1]
    parts = [
        part.reshape(n, *shape)
        for part, shape in zip(np.split(points, stops, axis=1), shapes, strict=True)
    ]
    inputs = in_layout(layouts, parts)
    with np.errstate(all="ignore"), explain_lengths(layouts, n):
        return function(*inputs, *known)


def _total(layouts: Sequence[Layout], terms: Sequence[np.ndarray], n: int) -> np.ndarray:
    """Return each observation's log density, summed over its variables and elements."""
    total = np.zeros(n)
    for layout, term in zip(layouts, terms, strict=True):
        total += layout.to_points(np.asarray(term)).reshape(n, -1).sum(axis=1)
    return total


def _log_densities(
    layouts: Sequence[Layout], values: Sequence[TensorVariable], length: TensorVariable
) -> list[TensorVariable]:
    """Return the log density of every observation, for each variable."""
    names = [layout.name for layout in layouts]
    rvs = [layout.rv for layout in layouts]

    def together() -> list[TensorVariable]:
        terms = transformed_conditional_logp(
            rvs,
            rvs_to_values=dict(zip(rvs, values, strict=True)),
            rvs_to_transforms={layout.rv: layout.transform for layout in layouts},
        )
        return graph_replace(terms, {length: values[0].shape[layouts[0].axes[0]]}, strict=False)

    def one_by_one() -> list[TensorVariable]:
        rv: Any = layouts[0].single
        value = pt.tensor("value", shape=values[0].type.shape[1:], dtype=values[0].dtype)
        terms = transformed_conditional_logp(
            [rv],
            rvs_to_values={rv: value},
            rvs_to_transforms={rv: layouts[0].transform},
        )
        return vectorize_graph(inline_inner_graphs(terms), {value: values[0]})

    is_single = len(layouts) == 1 and layouts[0].single is not None
    if is_single and rvs[0].type.shape[0] == 1:
        return log_density(one_by_one, names)
    try:
        return log_density(together, names)
    except ValueError as error:
        # PyMC writes the log-probability of some vectors and matrices for a single one only.
        if is_single:
            return log_density(one_by_one, names)
        if all(rv.owner.op.ndim_supp == 0 for rv in rvs):
            raise
        raise ValueError(
            f"{str(error).rstrip('.')}. If that is because the variable holds several "
            "observations, write the model for one observation and give the sample as `data`."
        ) from error
