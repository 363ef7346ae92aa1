"""Seconds, ratios, memory and growth, each measured within one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.speed_cases import (
    FLOORS,
    numpy_test,
    ours,
    statistics,
    whole_test_floor,
    whole_tests,
)
from pymc_ksd import Score, compile_score, ksd_test
from pymc_ksd.samples.sample import Sample
from pymc_ksd.stats.nulls import Multinomial

__all__ = [
    "cluster_seconds",
    "compare",
    "floor_seconds",
    "fresh",
    "growth",
    "large",
    "memory",
    "n_cores",
    "sample",
    "seconds",
    "small_tests",
    "test_seconds",
]

#: Seconds that a method may take at the full size; slower ones are told by a smaller run.
_PATIENCE = 30.0
#: Seconds between two calls.
_REST = 0.3


def sample(n: int, dim: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return standard normal points, their scores and a bandwidth."""
    x = np.random.default_rng(0).normal(size=(n, dim))
    return x, -x, float(np.sqrt(dim))


def n_cores() -> int:
    """Return the number of cores."""
    return os.cpu_count() or 1


def seconds(function: Callable[[], Any]) -> float:
    """Time one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def compare(
    methods: Mapping[str, Callable[..., Any]], arguments: tuple[Any, ...], small: tuple[Any, ...]
) -> dict[str, tuple[float, float]]:
    """Return seconds and the ratio to the first method of every method.

    Every call stands next to one of the first method, so that both meet the same neighbours on the
    machine; ratios are medians over rounds. What `small`, with fewer points, predicts to take too
    long is not run, and its seconds are the prediction, negative.
    """
    (first, reference), *others = methods.items()
    growth = (len(arguments[0]) / len(small[0])) ** 2
    reference(*arguments)
    best, found = np.inf, {}
    for name, method in others:
        method(*small)
        predicted = seconds(lambda method=method: method(*small)) * growth
        if predicted > _PATIENCE:
            found[name] = (-predicted, np.nan)
            continue
        method(*arguments)  # compiles
        rounds = 5 if predicted < 2 else 3 if predicted < 10 else 1
        pairs = []
        for _ in range(rounds):
            # Threads of other libraries stay busy for a while after a call.
            time.sleep(_REST)
            mine = seconds(lambda: reference(*arguments))
            time.sleep(_REST)
            theirs = seconds(lambda method=method: method(*arguments))
            pairs.append((theirs, theirs / mine))
            best = min(best, mine)
        found[name] = (min(p[0] for p in pairs), float(np.median([p[1] for p in pairs])))
    return {first: (best, 1.0), **found}


def floor_seconds(results: Mapping[str, tuple[float, float]]) -> float:
    """Return the better floor's time in units of ours."""
    return min(results[name][1] for name in FLOORS)


def _weights(n: int, n_bootstrap: int) -> np.ndarray:
    sample = Sample(np.empty((n, 1)))
    return Multinomial().weights(sample, n_bootstrap, np.random.default_rng(1))


def test_seconds(n: int, dim: int, n_bootstrap: int) -> dict[str, tuple[float, float]]:
    """Compare whole tests with m replicates, and the floor of their arithmetic."""
    x, s, h = sample(n, dim)
    weights = _weights(n, n_bootstrap)
    few = sample(n // 4, dim)

    def floor(x: np.ndarray, s: np.ndarray, h: float, weights: np.ndarray) -> None:
        min_floor(x, s, h)
        whole_test_floor(weights)

    timed = {name: seconds(lambda f=f: (f(x, s, h), f(x, s, h))) for name, f in FLOORS.items()}
    min_floor = FLOORS[min(timed, key=timed.__getitem__)]
    methods = whole_tests()
    methods["floor: statistic and one product"] = floor
    return compare(methods, (x, s, h, weights), (*few, weights[:, : n // 4]))


test_seconds.__test__ = False  # type: ignore[attr-defined]


def growth(over: str, quick: bool) -> tuple[list[tuple[int, float]], float]:
    """Return our times for growing n or d, and the exponent that fits the larger half."""
    if over == "n":
        counts = (2_000, 4_000, 8_000) if quick else (4_000, 8_000, 16_000, 32_000)
        sizes = [(n, 10) for n in counts]
    else:
        sizes = [(4_000, d) for d in ((10, 20, 40) if quick else (1, 4, 16, 64, 256))]
    times = []
    for n, dim in sizes:
        arguments = sample(n, dim)
        ours(*arguments)
        times.append(min(seconds(lambda a=arguments: ours(*a)) for _ in range(3)))
    values = [n if over == "n" else dim for n, dim in sizes]
    half = len(values) // 2
    slope = np.polyfit(np.log(values[half:]), np.log(times[half:]), 1)[0]
    return list(zip(values, times, strict=True)), float(slope)


_FRESH = """
import json, pathlib, re, sys, time
import pymc
def peak():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", status).group(1)) / 1024
before = peak()
import importlib
module = importlib.import_module(f"benchmarks.{sys.argv[1]}")
start = time.perf_counter()
getattr(module, sys.argv[2])(*json.loads(sys.argv[3]))
print(json.dumps([peak() - before, time.perf_counter() - start]))
"""


def fresh(function: str, *arguments: Any, module: str = "speed") -> tuple[float, float]:
    """Run a function of a benchmark in a fresh process; return megabytes and seconds."""
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FRESH, module, function, json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    peak, took = json.loads(finished.stdout.splitlines()[-1])
    return peak, took


def memory_case(name: str, n: int, n_bootstrap: int) -> None:
    """Run one whole test, for its memory; without replicates the statistic alone."""
    x, s, h = sample(n, 10)
    if not n_bootstrap:
        statistics([name])[name](x, s, h)
        return
    weights = None
    if name != "pymc_ksd":
        weights = _weights(n, n_bootstrap)
    whole_tests([name])[name](x, s, h, np.empty((n_bootstrap, 0)) if weights is None else weights)


def memory(name: str, n: int, n_bootstrap: int) -> float:
    """Return the peak memory of a fresh process above ``import pymc``, in megabytes."""
    return fresh("memory_case", name, n, n_bootstrap)[0]


def large_case(statistic: str, n: int, n_bootstrap: int) -> None:
    """Test many draws, for the statistics of a mean from chunks that Dask makes when asked."""
    import pymc as pm
    import xarray as xr

    shape = (4, n // 4, 10)
    if statistic in ("linear", "block"):
        import dask.array as da

        values = da.random.default_rng(0).normal(size=shape, chunks=(1, 100_000, 10))
    else:
        values = np.random.default_rng(0).normal(size=shape)
    with pm.Model() as model:
        pm.Normal("x", 0, 1, shape=10)
    draws = xr.Dataset({"x": (("chain", "draw", "k"), values)})
    ksd_test(model, draws, statistic=statistic, n_bootstrap=n_bootstrap, progressbar=False)


def large(statistic: str, n: int, n_bootstrap: int) -> tuple[float, float]:
    """Return megabytes above ``import pymc`` and seconds of a test of many draws."""
    return fresh("large_case", statistic, n, n_bootstrap)


def small_tests(n: int = 100, n_bootstrap: int = 1_000) -> tuple[float, float]:
    """Return the seconds of a warm test of few data, and of its arithmetic in NumPy."""
    import pymc as pm

    with pm.Model() as model:
        pm.Normal("x", 0, 1, shape=2)
    score: Score = compile_score(model)
    x, s, h = sample(n, 2)
    weights = _weights(n, n_bootstrap)
    options: dict[str, Any] = {"random_seed": 0, "progressbar": False, "kernel": "imq"}
    mine, plain = [], []
    for _ in range(50):
        mine.append(seconds(lambda: ksd_test(score, x, bandwidth=h, **options)))
        plain.append(seconds(lambda: numpy_test(x, s, h, weights)))
    return float(np.median(mine)), float(np.median(plain))


def cluster_seconds(n: int, dim: int, n_bootstrap: int) -> dict[str, float]:
    """Return the seconds of a test on this machine's threads and on one and two workers."""
    from distributed import Client, LocalCluster

    x, _, h = sample(n, dim)
    score = Score.from_callable(lambda points: -points, dim)

    def test(points: np.ndarray, client: Any) -> None:
        ksd_test(
            score, points, kernel="imq", bandwidth=h, n_bootstrap=n_bootstrap, random_seed=0,
            progressbar=False, client=client,
        )  # fmt: skip

    test(x[:2_000], False)
    found = {"threads": min(seconds(lambda: test(x, False)) for _ in range(2))}
    for count in (1, 2):
        with (
            LocalCluster(
                n_workers=count, threads_per_worker=1, dashboard_address=None, memory_limit=0
            ) as cluster,
            Client(cluster) as client,
        ):
            test(x[:2_000], client)
            found[f"{count} worker(s)"] = min(
                seconds(lambda c=client: test(x, c)) for _ in range(2)
            )
    return found
