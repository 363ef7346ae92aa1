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
from functools import cache, reduce, wraps
from threading import RLock
from typing import Any

import pytensor
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.link.jax import JAXLinker
from pytensor.link.vm import VMLinker
from pytensor.scalar import Add, Mul
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.rewriting.ofg import inline_ofg_node

__all__ = [
    "FUNCTIONS_LOCK",
    "compile_function",
    "compile_key",
    "inline_inner_graphs",
    "interpreted_mode",
    "one_at_a_time",
    "without_compiler",
]

#: Held while functions are built, and while those run that all callers share.
FUNCTIONS_LOCK = RLock()


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


@cache
def interpreted_mode() -> Mode:
    """Return the mode that rewrites a graph as usual but runs it on NumPy, without compiling.

    Whatever NumPy has no function for would run element by element, so fused nodes are left out
    and long sums are split. Nodes that hold a graph, such as softmax in PyTensor 3, would be
    functions of their own, so they are inlined.
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


def one_at_a_time(function: Callable[..., Any], lock: Any) -> Callable[..., Any]:
    """Return a function that runs in one thread at a time."""

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
    if isinstance(mode.linker, JAXLinker):
        # Diagonals would be taken by positions, of a number that JAX cannot know beforehand.
        return mode.excluding("extract_diag_lift_pass")
    return mode


def compile_function(
    inputs: Sequence[Any], outputs: Any, compile_kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Return a function for a graph, interpreted unless `compile_kwargs` asks for a mode."""
    options = {"mode": interpreted_mode(), "on_unused_input": "ignore", **(compile_kwargs or {})}
    interpreted = options["mode"] is interpreted_mode()
    if not interpreted:
        options["mode"] = _usable(get_mode(options["mode"]))
    with FUNCTIONS_LOCK, without_compiler() if interpreted else nullcontext():
        function = pytensor.function(list(inputs), outputs, **options)
    function.trust_input = True
    return function


def compile_key(compile_kwargs: Mapping[str, Any] | None) -> str:
    """Return a string that tells compile options apart, for caches of functions."""
    return repr(sorted((compile_kwargs or {}).items(), key=lambda item: item[0]))
