"""Blocks on a Dask cluster: the same numbers, whatever happens to its workers."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import xarray as xr

from pymc_ksd import RBF, General, Score, ksd, ksd_test
from pymc_ksd.block_walk import upper_triangle
from pymc_ksd.cluster import _added, _block_numbers, _blocks, _totals
from pymc_ksd.engine import evaluate_all_pairs
from pymc_ksd.pair_totals import PairWork, Totals
from pymc_ksd.points import scale_points
from pymc_ksd.stein import SteinKernel

distributed = pytest.importorskip("distributed")

# Dask's workers leave sockets and processes for the garbage collector when they are killed.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def standard_normal(x):
    return -x


def draws(n_draws, dim=4):
    values = np.random.default_rng(1).normal(size=(4, n_draws, dim))
    return xr.Dataset({"x": (("chain", "draw", "k"), values)})


def cluster(n_workers):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
    )


def test_tasks_cover_every_block_once():
    numbers = np.array(list(_block_numbers(103, 10)))
    assert _blocks(103, 10, numbers) == list(upper_triangle(103, 10))


@pytest.mark.parametrize("fused", [True, False])
def test_sums_of_parts_add_up(rng, fused, monkeypatch):
    """What tasks do, without a cluster."""
    monkeypatch.setattr("pymc_ksd.block_walk._FUSED_PAIRS", 0 if fused else np.inf)
    points = scale_points(rng.normal(size=(60, 3)), rng.normal(size=(60, 3)), "cov")
    weights = rng.integers(-1, 3, size=(7, 60)).astype(np.int8)
    groups = np.arange(60.0) % 4
    work = PairWork(SteinKernel(RBF()), points, np.array([1.0, 2.0]), weights, True, groups)
    numbers = np.array(list(_block_numbers(60, 17)))
    parts = [_totals(work, 17, part) for part in np.array_split(numbers, 4)]
    before = parts[0].quadratic.copy()
    together = _added(parts)
    np.testing.assert_array_equal(parts[0].quadratic, before)  # results may be needed again
    whole = evaluate_all_pairs(
        work.stein,
        points,
        work.bandwidths,
        weights=weights,
        coordinates=True,
        groups=groups,
        block_size=17,
    )
    np.testing.assert_allclose(together.u - whole.diagonal.sum(), whole.off_diagonal, rtol=1e-10)
    np.testing.assert_allclose(together.quadratic, whole.quadratic, rtol=1e-10)
    np.testing.assert_allclose(together.coordinates, whole.coordinates, rtol=1e-10)
    np.testing.assert_allclose(together.earlier, whole.earlier, rtol=1e-10, atol=1e-12)
    assert isinstance(together, Totals)


@pytest.mark.slow
def test_same_numbers_as_local(rng):
    score = Score.from_callable(standard_normal, 4)
    data = draws(500)
    options = {"random_seed": 3, "progressbar": False}
    local = ksd_test(score, data, client=False, **options)
    measures = ksd(score, data, progressbar=False, client=False)

    def periodic(x, y, bandwidth):
        from pytensor.tensor import exp, sin
        from pytensor.tensor import sum as total

        return exp(-2 * total(sin((x - y) / 2) ** 2) / bandwidth**2)

    few = data.isel(draw=slice(60), k=0)
    angles = Score.from_callable(standard_normal, 1)
    general = ksd_test(angles, few, kernel=General(periodic), client=False, **options)
    with cluster(2) as workers, distributed.Client(workers) as client:
        # Found by itself, and given.
        remote = ksd_test(score, data, **options)
        remote_measures = ksd(score, data, progressbar=False, client=client)
        remote_general = ksd_test(angles, few, kernel=General(periodic), client=client, **options)
        deadline = time.monotonic() + 20
        while client.futures and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not client.futures  # nothing is left behind
    pairs = [(local, remote), (measures, remote_measures), (general, remote_general)]
    for here, there in pairs:
        for name in here.data_vars:
            np.testing.assert_allclose(there[name], here[name], rtol=1e-10, err_msg=str(name))


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 2])
def test_killed_worker_costs_time_only(n_workers):
    score = Score.from_callable(standard_normal, 4)
    data = draws(3_000)
    options = {"random_seed": 3, "progressbar": False, "n_bootstrap": 500}
    local = ksd_test(score, data, client=False, **options)
    with cluster(n_workers) as workers, distributed.Client(workers) as client:
        ksd_test(score, draws(500), client=client, **options)  # compiled on the workers
        killed = []

        def kill():
            # While tasks are under way.
            while not any(client.processing().values()):
                time.sleep(0.01)
            time.sleep(0.3)
            pid = next(iter(workers.workers.values())).pid
            os.kill(pid, signal.SIGKILL)
            killed.append(bool(any(client.processing().values())))

        thread = threading.Thread(target=kill)
        thread.start()
        remote = ksd_test(score, data, client=client, **options)
        thread.join()
    assert killed == [True]
    np.testing.assert_allclose(remote["statistic"], local["statistic"], rtol=1e-10)
    np.testing.assert_allclose(remote["null_distribution"], local["null_distribution"], rtol=1e-10)


@pytest.mark.slow
def test_two_workers_share_the_work():
    """Each gets about half of the tasks; how much time that saves is for the benchmark to say."""
    score = Score.from_callable(standard_normal, 4)
    with cluster(2) as workers, distributed.Client(workers) as client:
        with distributed.get_task_stream(client=client) as stream:
            ksd_test(score, draws(2_000), client=client, progressbar=False)
        tasks = [task["worker"] for task in stream.data if task["key"].startswith("_totals")]
    counts = np.unique(tasks, return_counts=True)[1]
    assert len(counts) == 2
    assert counts.min() > 0.25 * counts.sum()


INTERRUPTED = """
import numpy as np, sys
import pymc_ksd
score = pymc_ksd.Score.from_callable(lambda x: -x, 5)
data = np.random.default_rng(0).normal(size=(60_000, 5))
pymc_ksd.ksd_test(score, data[:2_000], progressbar=False)
print("started", flush=True)
try:
    pymc_ksd.ksd_test(score, data, progressbar=False)
except KeyboardInterrupt:
    again = pymc_ksd.ksd_test(score, data[:2_000], random_seed=0, progressbar=False)
    print("stopped", float(again["p_value"]), flush=True)
"""


def test_interrupt_stops_at_once_and_leaves_the_library_usable():
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "started\n"
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output.startswith("stopped")
    # The whole test takes half a minute.
    assert time.monotonic() - start < 10
