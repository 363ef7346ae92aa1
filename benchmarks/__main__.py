"""Speed and memory beside other implementations and the hardware's limits, as one page.

``python -m benchmarks`` prints it; ``--quick`` takes a minute and smaller samples, ``--output``
writes a file. Other packages take part where they are installed, nothing is installed.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks import first_answer, panel_speed, speed
from benchmarks.rates import header, page
from benchmarks.speed_cases import statistics

SECTIONS = (
    "statistic",
    "test",
    "panel",
    "memory",
    "growth",
    "large",
    "small",
    "first",
    "notebook",
    "cluster",
)
#: Arrays of d numbers for each point, and bytes for each of its replicates: of data, of draws.
_SENT = ((2, 1), (3, 4))
PACKAGES = ("pymc", "pytensor", "numba", "numpy", "jax", "stein-thinning", "goodpoints", "coreax")


def _installed() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _time(seconds: float) -> str:
    digits = 1 if seconds >= 10 else 2 if seconds >= 0.2 else 3
    return f"{seconds:.{digits}f}"


def _table(columns: dict[str, dict[str, tuple[float, float]]], first: str) -> list[str]:
    lines = header(first, *columns)
    for name in next(iter(columns.values())):
        cells = []
        for results in columns.values():
            took, ratio = results[name]
            cells.append(f"over {-took:.0f} s" if took < 0 else f"{_time(took)} s, {ratio:.2g}×")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def statistic_section(n: int) -> list[str | list[str]]:
    """Compare the statistic alone."""
    columns, floors = {}, {}
    for dim in (1, 10, 100):
        _say(f"statistic, d = {dim}")
        arguments, small = speed.sample(n, dim), speed.sample(n // 5, dim)
        methods = statistics()
        values = {name: method(*small) for name, method in methods.items() if name != "pymc_ksd"}
        np.testing.assert_allclose(list(values.values()), methods["pymc_ksd"](*small), rtol=1e-9)
        columns[f"d = {dim}"] = speed.compare(methods, arguments, small)
        floors[dim] = speed.floor_seconds(columns[f"d = {dim}"])
    own = ", ".join(f"{1 / floor:.2f} (d = {dim})" for dim, floor in floors.items())
    return [
        f"## The statistic, n = {n:,}",
        "Seconds of the best call and the ratio to this library's, the median over rounds in which "
        "both were called in turn. All methods agree to nine digits. *Over* means that a fifth of "
        "the points predicts more than 30 seconds. The tuned loop is written by hand for this "
        "kernel alone; the products are those of points and scores, followed by one pass.",
        _table(columns, "method"),
        f"Ours in units of the better floor: {own}.",
    ]


def test_section(n: int, n_bootstrap: int) -> list[str | list[str]]:
    """Compare whole tests."""
    columns = {}
    for dim in (1, 10, 100):
        _say(f"test, d = {dim}")
        columns[f"d = {dim}"] = speed.test_seconds(n, dim, n_bootstrap)
    return [
        f"## A whole test, n = {n:,}, {n_bootstrap:,} replicates",
        "Ours is `ksd_test`, which draws its weights and finds contributions of coordinates; the "
        "others get their weights. The floor is that of the statistic and one product of the "
        "weights with half of the matrix, in double precision.",
        _table(columns, "method"),
    ]


def panel_section(n: int, n_bootstrap: int) -> list[str | list[str]]:
    """Compare a panel with one kernel, and with another implementation of many bandwidths."""
    dim, points, replicates = 10, 2 * n // 5, 4 * n_bootstrap + 1
    _say("panel")
    nine = panel_speed.panel_seconds(n, dim, n_bootstrap)
    ten = panel_speed.aggregated_seconds(points, dim, replicates)
    one_memory, nine_memory = (panel_speed.panel_memory(k, n, n_bootstrap) for k in (1, 9))
    return [
        f"## A panel of kernels, n = {n:,}, d = {dim}, {n_bootstrap:,} replicates",
        "Statistics and replicates of one kernel, and of nine at once: `rbf` with the bandwidth "
        "times 1/8 to 4, `imq` with it times 1/4, 1 and 4.",
        _table({"seconds and ratio": nine}, "weights"),
        f"Memory above `import pymc`: one kernel {one_memory:,.0f} MB, nine {nine_memory:,.0f} MB. "
        f"Nine kernels of 100 points in 2 dimensions with 1,000 replicates: "
        f"{1_000 * panel_speed.small_panel():.1f} ms.",
        f"Ten bandwidths, {replicates:,} replicates by random signs, n = {points:,}: what ksdagg "
        "computes. `jax.jit` is the same written with JAX in single precision.",
        _table({"seconds and ratio": ten}, "method"),
    ]


def memory_section(n: int, n_bootstrap: int) -> list[str | list[str]]:
    """Compare peak memory."""
    lines = header("method", "statistic", "test")
    for name in ("pymc_ksd", "NumPy", "jax.jit"):
        if name not in statistics():
            continue
        _say(f"memory, {name}")
        used = [f"{speed.memory(name, n, m):,.0f} MB" for m in (0, n_bootstrap)]
        lines.append(f"| {name} | {' | '.join(used)} |")
    return [
        f"## Memory, n = {n:,}, d = 10",
        "The peak of a fresh process above `import pymc`, other imports included.",
        lines,
    ]


def large_section(quick: bool) -> list[str | list[str]]:
    """Test many draws."""
    if find_spec("dask") is None:
        return []
    lines = header("statistic", "draws", "replicates", "seconds", "memory")
    cases = [("v", 100_000, 500), ("u", 100_000, 500), ("linear", 10**7, 1), ("block", 10**7, 1)]
    for statistic, n, m in cases:
        n = n // 10 if quick else n
        _say(f"{statistic} of {n:,} draws")
        peak, took = speed.large(statistic, n, m)
        replicates = f"{m}" if statistic in "uv" else "normal"
        lines.append(f"| {statistic} | {n:,} | {replicates} | {_time(took)} | {peak:,.0f} MB |")
    return [
        "## Many draws, d = 10",
        "One run each in a fresh process, imports and compilation included; memory is its peak "
        "above `import pymc`. Draws for the linear and block statistics are made chunk by chunk by "
        "Dask and read twice; all of them would take 800 MB.",
        lines,
    ]


def growth_section(quick: bool) -> list[str | list[str]]:
    """Fit how the time grows."""
    lines = header("grows", "seconds", "exponent of the larger half")
    for over in ("n", "d"):
        _say(f"growth with {over}")
        times, exponent = speed.growth(over, quick)
        shown = ", ".join(f"{value:,}: {_time(took)}" for value, took in times)
        fixed = "d = 10" if over == "n" else "n = 4,000"
        lines.append(f"| {over} ({fixed}) | {shown} | {exponent:.2f} |")
    return ["## Growth of the statistic", lines]


def small_section() -> list[str | list[str]]:
    """Time small tests."""
    _say("small tests")
    mine, plain = speed.small_tests()
    return [
        "## Small data",
        f"A whole `ksd_test` with a compiled score, n = 100, d = 2, 1,000 replicates: "
        f"{1_000 * mine:.1f} ms; the arithmetic alone in NumPy: {1_000 * plain:.1f} ms.",
    ]


def first_answer_section(names: list[str]) -> list[str | list[str]]:
    """Time fresh processes."""
    lines = header("model", "ours, cold", "PyMC's, cold", "ours, warm", "PyMC's, warm", "next")
    imports = []
    for name in names:
        _say(f"first answer, {name}")
        (cold, warm), (pymc_cold, pymc_warm) = (
            first_answer.measure(name, what) for what in ("ksd", "pymc")
        )
        imports.append(warm["import pymc_ksd"])
        figures = [times["answer"] for times in (cold, pymc_cold, warm, pymc_warm)]
        figures.append(warm["second answer"])
        lines.append(f"| {name} | {' | '.join(f'{_time(f)} s' for f in figures)} |")
    return [
        "## Time to the first answer",
        "Seconds of the first `ksd_test` in a fresh process, everything imported: *cold* with no "
        "compiled code on the machine, *warm* with that of an earlier process; PyMC's is the time "
        "to compile the model's log-density and gradient and to call them once. 4 × 1,000 draws, "
        "300 points for the README's model; *next* is the second call in the same process. "
        f"`import pymc_ksd` takes {min(imports):.2f} s beyond `import pymc`.",
        lines,
    ]


def notebook_section() -> list[str | list[str]]:
    """Time the first notebook in fresh processes."""
    _say("notebook")
    lines = header("compiled code", "imports of PyMC and ArviZ", "first answer", "whole notebook")
    for name, times in zip(("cold", "warm"), first_answer.measure_notebook(), strict=True):
        figures = [times[key] for key in ("imports", "first answer", "answer")]
        lines.append(f"| {name} | {' | '.join(f'{_time(f)} s' for f in figures)} |")
    return [
        "## The first notebook",
        "Seconds in a fresh process until the first cell of `notebooks/first_steps.ipynb` has its "
        "answer, and until all of it has run, sampling and report included, after imports.",
        lines,
    ]


def cluster_section(n: int, n_bootstrap: int) -> list[str | list[str]]:
    """Measure the cluster and predict a larger one."""
    if find_spec("distributed") is None:
        return []
    _say("cluster")
    dim = 10
    found = speed.cluster_seconds(n, dim, n_bootstrap)
    pairs = n * (n + 1) / 2
    rate = pairs / found["1 worker(s)"]
    speedup = found["1 worker(s)"] / found["2 worker(s)"]
    many, cores = 1_000_000, 100
    minutes = many**2 / 2 / (rate * cores) / 60
    sent = [many * (8 * arrays * dim + width * n_bootstrap) / 2**20 for arrays, width in _SENT]
    shown = ", ".join(f"{name} {_time(took)} s" for name, took in found.items())
    return [
        "## A cluster",
        f"n = {n:,}, d = {dim}, {n_bootstrap} replicates, single-threaded workers on this machine: "
        f"{shown}. Two workers are {speedup:.2f} times as fast as one.",
        f"One worker compares {rate / 1e6:.0f} million pairs a second. Every point travels to "
        "every worker once, with 16 d + m bytes for data (one byte a replicate) and 24 d + 4 m "
        "bytes for draws (whitened, multipliers of four bytes); a task of up to 64 blocks of "
        "1,024 × 1,024 pairs sends a few hundred bytes and returns 8 (d + m + 1), of `ksd` and its "
        "siblings up to "
        f"16 bytes more for each point of its columns. {many:,} points on {cores} such cores: "
        f"{minutes:.0f} minutes, {sent[0]:,.0f} MB (data) or {sent[1]:,.0f} MB (draws) to each "
        "worker. This is a prediction from the rate of one worker.",
    ]


def main() -> None:
    """Measure and print the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller samples, a few minutes")
    parser.add_argument("--output", type=Path, help="write the page to this file")
    parser.add_argument(
        "--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="SECTION",
        help=f"some of {', '.join(SECTIONS)}; by default all",
    )  # fmt: skip
    options = parser.parse_args()
    quick = options.quick
    n, m = (2_000, 200) if quick else (10_000, 1_000)
    sections: dict[str, Callable[[], list[str | list[str]]]] = {
        "statistic": lambda: statistic_section(n),
        "test": lambda: test_section(n, m),
        "panel": lambda: panel_section(n, m),
        "memory": lambda: memory_section(n, m),
        "growth": lambda: growth_section(quick),
        "large": lambda: large_section(quick),
        "small": small_section,
        "first": lambda: first_answer_section(list(first_answer.MODELS)[: 2 if quick else None]),
        "notebook": notebook_section,
        "cluster": lambda: cluster_section(4_000 if quick else 30_000, m // 2),
    }
    wanted = [name for name in sections if name in options.only]
    command = "python -m benchmarks" + (" --quick" if options.quick else "")
    if wanted != list(SECTIONS):
        command += f" --only {' '.join(wanted)}"
    text = page(
        [
            "# Measured speed",
            f"Made by `{command}` with {_installed()}, on {platform.machine()} with "
            f"{speed.n_cores()} cores. Kernel `imq`.",
            *(part for name in wanted for part in sections[name]()),
        ]
    )
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
