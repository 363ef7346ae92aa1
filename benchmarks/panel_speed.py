"""What a panel of kernels costs, in units of one kernel and of another implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from benchmarks.speed import compare, fresh, sample, seconds
from pymc_ksd import IMQ, RBF
from pymc_ksd.engine.pairs import PairSums, evaluate_all_pairs
from pymc_ksd.engine.walk import Effort
from pymc_ksd.samples.sample import Sample
from pymc_ksd.stats.nulls import Multinomial, Rademacher
from pymc_ksd.stein.langevin import Langevin
from pymc_ksd.stein.points import Points
from pymc_ksd.stein.stein_kernel import Member, SteinKernel

__all__ = [
    "aggregated",
    "aggregated_seconds",
    "panel_memory",
    "panel_seconds",
    "small_panel",
]

_KERNELS = {"rbf": SteinKernel(Langevin(), RBF()), "imq": SteinKernel(Langevin(), IMQ())}
#: Kernels and multiples of the bandwidth.
_ONE = [("rbf", 1.0)]
_NINE = [("rbf", 2.0**power) for power in range(-3, 3)] + [("imq", f) for f in (0.25, 1.0, 4.0)]
_TEN = [("imq", factor) for factor in np.geomspace(0.25, 4, 10)]
_NULLS = {"signs": Rademacher(), "counts": Multinomial()}


def _weights(kind: str, n: int, n_bootstrap: int) -> np.ndarray:
    shape, rng = Sample(np.empty((n, 1))), np.random.default_rng(1)
    return _NULLS[kind].weights(shape, n_bootstrap, rng)


def _sums(
    panel: Iterable[tuple[str, float]], x: np.ndarray, s: np.ndarray, h: float, w: np.ndarray
) -> PairSums:
    members = [Member(name, _KERNELS[name], h * factor) for name, factor in panel]
    return evaluate_all_pairs(members, Points(x, {"scores": s}), Effort(client=False), weights=w)


def panel_seconds(n: int, dim: int, n_bootstrap: int) -> dict[str, tuple[float, float]]:
    """Compare one kernel and a panel of nine, with random signs and with counts."""
    x, s, h = sample(n, dim)
    few = sample(n // 4, dim)
    signs, counts = (_weights(kind, n, n_bootstrap) for kind in _NULLS)
    methods: dict[str, Callable[..., Any]] = {
        "one kernel": lambda *data: _sums(_ONE, *data, signs[:, : len(data[0])]),
        "nine kernels, signs": lambda *data: _sums(_NINE, *data, signs[:, : len(data[0])]),
        "nine kernels, counts": lambda *data: _sums(_NINE, *data, counts[:, : len(data[0])]),
    }
    return compare(methods, (x, s, h), few)


def panel_case(count: int, n: int, n_bootstrap: int) -> None:
    """Evaluate one kernel or nine, for their memory."""
    _sums(_NINE if count == 9 else _ONE, *sample(n, 10), _weights("signs", n, n_bootstrap))


def panel_memory(count: int, n: int, n_bootstrap: int) -> float:
    """Return the peak memory of a fresh process above ``import pymc``, in megabytes."""
    return fresh("panel_case", count, n, n_bootstrap, module="panel_speed")[0]


def small_panel(n: int = 100, n_bootstrap: int = 1_000) -> float:
    """Return the seconds that nine kernels of few points take."""
    data, weights = sample(n, 2), _weights("signs", n, n_bootstrap)
    return float(np.median([seconds(lambda: _sums(_NINE, *data, weights)) for _ in range(50)]))


def _ours(x: np.ndarray, s: np.ndarray, h: float, signs: np.ndarray) -> np.ndarray:
    return _sums(_TEN, x, s, h, signs).quadratic


def _aggregated_jax() -> Callable[..., np.ndarray]:
    """Write what ksdagg does with JAX: a matrix and its product with signs for each bandwidth."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def replicates(x: Any, s: Any, h: Any, signs: Any) -> Any:
        norms, own, mixed = (x**2).sum(axis=1), (x * s).sum(axis=1), x @ s.T
        squared = jnp.maximum(norms[:, None] + norms - 2 * x @ x.T, 0)
        cross = mixed + mixed.T - own[:, None] - own
        value = jax.lax.rsqrt(1 + squared / h**2)
        u = (
            value * (s @ s.T)
            - value**3 * (cross - x.shape[1]) / h**2
            - 3 * value**5 * squared / h**4
        )
        u = u.at[jnp.diag_indices(len(x))].set(0)
        return ((u @ signs) * signs).sum(axis=0)

    def run(x: np.ndarray, s: np.ndarray, h: float, signs: np.ndarray) -> np.ndarray:
        # Single precision is JAX's default, and ksdagg's.
        x, s, signs = (jnp.asarray(a, dtype=jnp.float32) for a in (x, s, signs.T))
        widths = [jnp.float32(h * factor) for _, factor in _TEN]
        return np.array([replicates(x, s, width, signs) for width in widths])

    return run


def _ksdagg() -> Callable[..., Any]:
    from ksdagg import ksdagg

    def run(x: np.ndarray, s: np.ndarray, h: float, signs: np.ndarray) -> Any:
        # Ten bandwidths and 4,001 replicates are its defaults; other numbers it cannot trace.
        return np.asarray(ksdagg(x.astype(np.float32), s.astype(np.float32)))

    return run


def aggregated() -> dict[str, Callable[..., Any]]:
    """Return those ways to test with ten bandwidths that are installed, ours first."""
    found: dict[str, Callable[..., Any]] = {"pymc_ksd": _ours}
    for name, case in (("jax.jit", _aggregated_jax), ("ksdagg", _ksdagg)):
        with suppress(ImportError):
            found[name] = case()
    return found


def aggregated_seconds(n: int, dim: int, n_bootstrap: int) -> dict[str, tuple[float, float]]:
    """Compare ten bandwidths with so many replicates, as ksdagg has them."""
    x, s, h = sample(n, dim)
    few, signs = sample(n // 4, dim), _weights("signs", n, n_bootstrap)
    return compare(aggregated(), (x, s, h, signs), (*few, signs[:, : n // 4]))
