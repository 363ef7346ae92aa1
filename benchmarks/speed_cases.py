"""The same V-statistic by different means: this library, plain references, other packages, floors.

Every case takes points, scores and the bandwidth of the kernel (1 + r²/h²)^(-1/2). Packages that
are not installed are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numba import njit, prange

from pymc_ksd import IMQ, Score, ksd_test
from pymc_ksd.engine.pairs import evaluate_all_pairs
from pymc_ksd.engine.walk import Effort
from pymc_ksd.stein.langevin import Langevin
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import Member, SteinKernel

__all__ = ["FLOORS", "Statistic", "numpy_test", "statistics", "whole_test_floor", "whole_tests"]

Statistic = Callable[[np.ndarray, np.ndarray, float], float]
_FAST = {"reassoc", "contract", "arcp", "nsz"}


def ours(x: np.ndarray, s: np.ndarray, h: float) -> float:
    """Call the engine of this library, without a model around it."""
    member = Member("imq", SteinKernel(Langevin(), IMQ()), h)
    sums = evaluate_all_pairs([member], Points(x, {"scores": s}), Effort(client=False))
    return float(sums.off_diagonal[0] + sums.diagonal.sum()) / len(x) ** 2


def _matrix(x: Any, s: Any, h: Any, numpy: Any, inverse_root: Callable[[Any], Any]) -> Any:
    norms, own = (x**2).sum(axis=1), (x * s).sum(axis=1)
    squared = numpy.maximum(norms[:, None] + norms - 2 * x @ x.T, 0)
    mixed = x @ s.T
    cross = mixed + mixed.T - own[:, None] - own
    value = inverse_root(1 + squared / h**2)
    cube = value**2 * value
    return (
        value * (s @ s.T)
        - cube * (cross - x.shape[1]) / h**2
        - 3 * cube * value**2 * squared / h**4
    )


def plain_numpy(x: np.ndarray, s: np.ndarray, h: float) -> float:
    """Do what one writes with NumPy."""
    return float(_matrix(x, s, h, np, lambda a: 1 / np.sqrt(a)).mean())


def numpy_test(x: np.ndarray, s: np.ndarray, h: float, weights: np.ndarray) -> np.ndarray:
    """Test with NumPy: the statistic and its replicates."""
    u = _matrix(x, s, h, np, lambda a: 1 / np.sqrt(a))
    np.fill_diagonal(u, 0)
    w = weights.astype(float)
    return ((w @ u) * w).sum(axis=1)


def _jax_cases() -> tuple[Statistic, Callable[..., np.ndarray]]:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    @jax.jit
    def statistic(x: Any, s: Any, h: Any) -> Any:
        return _matrix(x, s, h, jnp, jax.lax.rsqrt).mean()

    @jax.jit
    def replicates(x: Any, s: Any, h: Any, w: Any) -> Any:
        u = _matrix(x, s, h, jnp, jax.lax.rsqrt)
        u = u - jnp.diag(jnp.diag(u))
        w = w.astype(float)
        return u.sum(), ((w @ u) * w).sum(axis=1)

    def run(x: np.ndarray, s: np.ndarray, h: float) -> float:
        return float(statistic(x, s, h))

    def run_test(x: np.ndarray, s: np.ndarray, h: float, weights: np.ndarray) -> np.ndarray:
        return np.asarray(replicates(x, s, h, weights)[1])

    return run, run_test


def _stein_thinning() -> Statistic:
    from stein_thinning.kernel import vfk0_imq
    from stein_thinning.stein import ksd

    def run(x: np.ndarray, s: np.ndarray, h: float) -> float:
        inverse = np.eye(x.shape[1]) / h**2
        values = ksd(lambda i, j: vfk0_imq(x[i], x[j], s[i], s[j], inverse), len(x))
        return float(values[-1] ** 2)

    return run


def _goodpoints() -> Statistic:
    from goodpoints.jax.kernel.precond_stein import PrecondSteinKernel
    from goodpoints.jax.kernel.scalar import imq
    from goodpoints.jax.mmd import compute_mmd

    kernels: dict[Any, Any] = {}

    def run(x: np.ndarray, s: np.ndarray, h: float) -> float:
        # Its functions are compiled for each kernel object.
        key = (x.shape[1], h)
        kernel = kernels.setdefault(key, PrecondSteinKernel(imq, np.eye(x.shape[1]), h**2))
        return float(compute_mmd(kernel, kernel.prepare_input(x, s)))

    return run


def _coreax() -> Statistic:
    import jax
    from coreax import Data
    from coreax.kernels import PCIMQKernel, SteinKernel

    @partial(jax.jit, static_argnames=("h", "block_size"))
    def mean(x: Any, h: float, block_size: int | None) -> Any:
        # It takes the score as a function: here that of the standard normal distribution.
        kernel = SteinKernel(PCIMQKernel(h / np.sqrt(2)), score_function=lambda z: -z)
        return kernel.compute_mean(Data(x), Data(x), block_size=block_size)

    def run(x: np.ndarray, s: np.ndarray, h: float) -> float:
        n, dim = x.shape
        block = None if n**2 * dim**2 <= 2e8 else max(1, int(np.sqrt(2e8) / dim))
        return float(mean(x, h, block))

    return run


@njit(parallel=True, fastmath=_FAST, error_model="numpy", cache=True)
def _tuned_loop(x, s, y, t, inverse, tile):
    n, dim = x.shape
    tiles = (n + tile - 1) // tile
    sums = np.zeros(tiles)
    for number in prange(tiles):
        # Rows with many partners and rows with few take turns.
        block = number // 2 if number % 2 == 0 else tiles - 1 - number // 2
        squared, scores, cross = np.empty(n), np.empty(n), np.empty(n)
        total = 0.0
        for i in range(block * tile, min(n, (block + 1) * tile)):
            m = n - i - 1
            a, b, ys, ts = x[i, 0], s[i, 0], y[0, i + 1 :], t[0, i + 1 :]
            for j in range(m):
                difference = a - ys[j]
                squared[j] = difference * difference
                scores[j] = b * ts[j]
                cross[j] = difference * (ts[j] - b)
            for k in range(1, dim):
                a, b, ys, ts = x[i, k], s[i, k], y[k, i + 1 :], t[k, i + 1 :]
                for j in range(m):
                    difference = a - ys[j]
                    squared[j] += difference * difference
                    scores[j] += b * ts[j]
                    cross[j] += difference * (ts[j] - b)
            for j in range(m):
                value = 1 / np.sqrt(1 + squared[j] * inverse)
                square = value * value
                cube = value * square * inverse
                total += (
                    value * scores[j]
                    - cube * (cross[j] - dim)
                    - 3 * inverse * cube * square * squared[j]
                )
        sums[number] = total
    return sums.sum()


def tuned_loop(x: np.ndarray, s: np.ndarray, h: float) -> float:
    """Write the double loop by hand for this one kernel, on all cores."""
    y, t = np.ascontiguousarray(x.T), np.ascontiguousarray(s.T)
    above = _tuned_loop(x, s, y, t, 1 / h**2, 32)
    n, dim = x.shape
    return float((2 * above + (s**2).sum() + n * dim / h**2) / n**2)


@njit(parallel=True, fastmath=_FAST, error_model="numpy", cache=True)
def _pass(squared, scores, cross, norms, others, own, theirs, inverse, dim):
    n, m = squared.shape
    total = 0.0
    for i in prange(n):
        part = 0.0
        for j in range(m):
            r = max(norms[i] + others[j] - 2 * squared[i, j], 0.0)
            value = 1 / np.sqrt(1 + r * inverse)
            square = value * value
            cube = value * square * inverse
            part += (
                value * scores[i, j]
                - cube * (cross[i, j] - own[i] - theirs[j] - dim)
                - 3 * inverse * cube * square * r
            )
        total += part
    return total


def products_and_pass(x: np.ndarray, s: np.ndarray, h: float) -> float:
    """Form matrix products on all cores, and pass once over their results."""
    n, dim = x.shape
    norms, own = (x**2).sum(axis=1), (x * s).sum(axis=1)
    left, right = np.concatenate([x, s], axis=1), np.concatenate([s, x], axis=1)
    total, size = 0.0, 500
    for start in range(0, n, size):
        rows = slice(start, start + size)
        for times, columns in ((1, rows), (2, slice(start + size, n))):
            if columns.start < n:
                total += times * _pass(
                    x[rows] @ x[columns].T,
                    s[rows] @ s[columns].T,
                    left[rows] @ right[columns].T,
                    *(norms[rows], norms[columns], own[rows], own[columns], 1 / h**2, dim),
                )
    return float(total / n**2)


FLOORS: dict[str, Statistic] = {
    "floor: tuned loop": tuned_loop,
    "floor: products and a pass": products_and_pass,
}


def whole_test_floor(weights: np.ndarray) -> None:
    """Multiply the weights with half of an n × n matrix once, in double precision."""
    n = weights.shape[1]
    size = min(1_000, n)
    block, w = np.ones((size, size)), weights[:, :size].astype(float)
    for _ in range((n // size) * (n // size + 1) // 2):
        w @ block


_STATISTICS: dict[str, Callable[[], Statistic]] = {
    "pymc_ksd": lambda: ours,
    "floor: tuned loop": lambda: tuned_loop,
    "floor: products and a pass": lambda: products_and_pass,
    "NumPy": lambda: plain_numpy,
    "jax.jit": lambda: _jax_cases()[0],
    "stein-thinning": _stein_thinning,
    "goodpoints": _goodpoints,
    "coreax": _coreax,
}


def statistics(names: Iterable[str] = tuple(_STATISTICS)) -> dict[str, Statistic]:
    """Return those ways to the statistic that are installed, ours first."""
    found = {}
    for name in names:
        with suppress(ImportError):
            found[name] = _STATISTICS[name]()
    return found


def our_test(x: np.ndarray, s: np.ndarray, h: float, weights: np.ndarray) -> Any:
    """Call this library as users do; it draws its weights itself and finds contributions."""
    score = Score.from_callable(lambda points: -points, x.shape[1])
    return ksd_test(
        score, x, kernel="imq", bandwidth=h, n_bootstrap=len(weights), progressbar=False
    )


_TESTS: dict[str, Callable[[], Callable[..., Any]]] = {
    "pymc_ksd": lambda: our_test,
    "NumPy": lambda: numpy_test,
    "jax.jit": lambda: _jax_cases()[1],
}


def whole_tests(names: Iterable[str] = tuple(_TESTS)) -> dict[str, Callable[..., Any]]:
    """Return those ways to a whole test that are installed, ours first."""
    found = {}
    for name in names:
        with suppress(ImportError):
            found[name] = _TESTS[name]()
    return found
