"""How PyTensor graphs become functions: interpreted by default, compiled on request.

PyTensor can run a graph without generating any code: every node then calls NumPy or SciPy. For
graphs that work on whole arrays this is nearly as fast as compiled code and is ready in a fraction
of a second, where code generation takes seconds to minutes on a machine that has not compiled the
same graph before. Nothing else in the package calls ``pytensor.function``.

Neither PyTensor's configuration, which building a function changes for a while, nor a function of
its making is safe in several threads. :data:`FUNCTIONS_LOCK` is held while anything is built, and
while functions run that are shared by all callers; functions of one model have a lock of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from functools import cache, reduce, wraps
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import clone_get_equiv
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.link.jax import JAXLinker
from pytensor.link.vm import VMLinker
from pytensor.scalar import Add, Mul
from pytensor.scalar.math import Log1mexp, Softplus
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.rewriting.ofg import inline_ofg_node

Record = TypeVar("Record")

#: Held while functions are built, and while those run that all callers share.
FUNCTIONS_LOCK = RLock()
#: What is kept for a model, or for all, at the most; what was used longest ago is dropped.
_MOST_KEPT = 64


class _Everybody:
    """Owner of what belongs to no model."""


EVERYBODY = _Everybody()
_kept: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


def kept(owner: Any, key: Any, build: Callable[[], Any]) -> Any:
    """Return what was built before for a key, or build it.

    The one place where compiled functions, and what is made of them, wait to be used again.

    Parameters
    ----------
    owner : object
        A model, whose functions are kept as long as it lives, or :data:`EVERYBODY`.
    key : hashable
        What tells functions of one owner apart.
    build : callable
        Builds it.

    Returns
    -------
    object
    """
    with FUNCTIONS_LOCK:
        own = _kept.setdefault(owner, {})
        found = own.pop(key) if key in own else build()
        while len(own) >= _MOST_KEPT:
            own.pop(next(iter(own)))
        own[key] = found
        return found


def replaced_in(graphs: Sequence[Any], replacements: Mapping[Any, Any]) -> list[Any]:
    """Return copies of graphs in which variables are replaced, where they are a part of them.

    PyTensor's ``graph_replace`` cannot do that in version 2.38 if one of the variables is behind
    another, as a scale that is also in the prior of an effect.
    """
    copies = {one: one for one in graphs if one.owner is None} | dict(replacements)
    clone_get_equiv(
        list(replacements), list(graphs), copy_inputs=False, copy_orphans=False, memo=copies
    )
    return [copies[graph] for graph in graphs]


@node_rewriter([OpFromGraph])
def _inline(fgraph: Any, node: Any) -> list[Any]:
    """Replace a node that holds a graph of its own by that graph."""
    return inline_ofg_node(node)


@node_rewriter([Elemwise])
def _split_long_sums_and_products(fgraph: Any, node: Any) -> list[Any] | None:
    """Write sums and products of many terms with two terms each, as NumPy has them."""
    if isinstance(node.op.scalar_op, Add | Mul) and len(node.inputs) > 2:
        return [reduce(node.op, node.inputs)]
    return None


@node_rewriter([Elemwise])
def _in_functions_of_numpy(fgraph: Any, node: Any) -> list[Any] | None:
    """Write what NumPy has no function for, and would be called for every element, with others."""
    if isinstance(node.op.scalar_op, Softplus):
        (x,) = node.inputs
        written = pt.maximum(x, 0) + pt.log1p(pt.exp(-abs(x)))
    elif isinstance(node.op.scalar_op, Log1mexp):
        (x,) = node.inputs
        written = pt.switch(x < -np.log(2.0), pt.log1p(-pt.exp(x)), pt.log(-pt.expm1(x)))
    else:
        return None
    return [written] if written.type == node.outputs[0].type else None


@cache
def interpreted_mode() -> Mode:
    """Return the mode that rewrites a graph as usual but runs it on NumPy, without compiling.

    Whatever NumPy has no function for would run element by element, so fused nodes are left out,
    long sums are split, and logarithms of one plus or minus an exponential written out. Nodes that
    hold a graph, such as softmax in PyTensor 3, would be functions of their own, so they are
    inlined.
    """
    query = RewriteDatabaseQuery(
        include=["fast_run", "py_only"],
        # The last of these fails on stacks of matrices in PyTensor 2.
        exclude=["fusion", "inplace", "BlasOpt", "cxx_only", "slogdet_specialization"],
    )
    mode = Mode(linker=VMLinker(use_cloop=False, c_thunks=False), optimizer=query)
    return mode.register(
        (in2out(_inline, name="inline_inner_graphs"), 99),
        (in2out(_split_long_sums_and_products, name="split_long_sums"), 100),
        (in2out(_in_functions_of_numpy, name="in_functions_of_numpy"), 101),
    )


@contextmanager
def without_compiler() -> Iterator[None]:
    """Let PyTensor evaluate constants and inner graphs without compiling.

    Constants are folded, and loops and other inner graphs linked, with the C compiler whatever the
    mode of the function they end up in.
    """
    # The flag is everybody's: two threads at a time could leave it changed for good.
    with FUNCTIONS_LOCK, pytensor.config.change_flags(cxx=""):
        yield


def built_once(build: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function for what is built on its first call: a function that may never be needed.

    The lock is held meanwhile, because writing graphs changes PyTensor's configuration, too.
    """
    return _locked(cache(build), FUNCTIONS_LOCK)


def one_at_a_time(record: Record) -> Record:
    """Return a dataclass whose functions run in one thread at a time, with one lock for all."""
    lock = RLock()
    members = {field.name: getattr(record, field.name) for field in fields(record)}  # type: ignore[arg-type]
    locked = {name: _locked(member, lock) for name, member in members.items() if callable(member)}
    return replace(record, **locked)  # type: ignore[type-var]


def _locked(function: Callable[..., Any], lock: Any) -> Callable[..., Any]:
    @wraps(function)
    def locked(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return function(*args, **kwargs)

    return locked


def inline_inner_graphs(outputs: Sequence[Any]) -> list[Any]:
    """Return graphs without nodes that hold a graph, as those are repeated point by point."""
    return rewrite_graph(
        list(outputs), include=(), custom_rewrite=in2out(_inline, name="inline_inner_graphs")
    )


def _usable(mode: Mode) -> Mode:
    """Return the mode without rewrites after which its linker fails."""
    # Diagonals would be taken by positions, of a number that JAX cannot know beforehand.
    return mode.excluding("extract_diag_lift_pass") if isinstance(mode.linker, JAXLinker) else mode


def compile_function(
    inputs: Sequence[Any], outputs: Any, compile_kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Return a function for a graph, interpreted unless `compile_kwargs` asks for a mode."""
    options = {"on_unused_input": "ignore", **(compile_kwargs or {})}
    with FUNCTIONS_LOCK:
        interpreted = "mode" not in options
        options["mode"] = interpreted_mode() if interpreted else _usable(get_mode(options["mode"]))
        with without_compiler() if interpreted else nullcontext():
            function = pytensor.function(list(inputs), outputs, **options)
    function.trust_input = True
    return function


def unoptimised_function(inputs: Sequence[Any], output: Any) -> Callable[..., Any]:
    """Return a function that evaluates a graph as it stands, node by node.

    It is slow, and ready in an instant: for a few calls.
    """
    with without_compiler():
        mode = Mode(linker="py", optimizer=None)
        function = pytensor.function(list(inputs), output, mode=mode, on_unused_input="ignore")

    def call(*values: Any) -> Any:
        # Loops link their inner graphs when they first run.
        with without_compiler():
            return function(*values)

    return call


def compile_key(compile_kwargs: Mapping[str, Any] | None) -> str:
    """Return a string that tells compile options apart, for caches of functions."""
    if compile_kwargs is not None and not isinstance(compile_kwargs, Mapping):
        raise TypeError(
            "`compile_kwargs` must be a mapping of options for pytensor.function, such as "
            f'{{"mode": "NUMBA"}}, or None, got {type(compile_kwargs).__name__}.'
        )
    return repr(sorted((compile_kwargs or {}).items(), key=lambda item: item[0]))
