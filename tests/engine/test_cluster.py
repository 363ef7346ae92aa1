"""Blocks on a Dask cluster: the same numbers, whatever happens to its workers."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr
from numeric import LANGEVIN, members

from pymc_ksd import RBF, General, Score, ksd, ksd_moments, ksd_ppc, ksd_test
from pymc_ksd.engine.cluster import _added, _totals, finished
from pymc_ksd.engine.conditional import _ConditionalWork, evaluate_conditional
from pymc_ksd.engine.pairs import PairWork, evaluate_all_pairs
from pymc_ksd.engine.schedule import upper_triangle
from pymc_ksd.engine.walk import Effort

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


def parts_of(n, size, count):
    """Blocks, dealt out to several tasks."""
    blocks = list(upper_triangle(n, size))
    return [blocks[start::count] for start in range(count)]


def test_tasks_cover_every_pair_once():
    times = np.zeros((103, 103))
    for part in parts_of(103, 10, 4):
        for block in part:
            times[block] += 1
    np.testing.assert_array_equal(np.triu(times), np.triu(np.ones((103, 103))))


@pytest.mark.parametrize("fused", [True, False])
def test_sums_of_parts_add_up(rng, fused, monkeypatch):
    """What tasks do, without a cluster."""
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", 0 if fused else np.inf)
    points = LANGEVIN.scaled(rng.normal(size=(60, 3)), [rng.normal(size=(60, 3))], "cov")
    weights = rng.integers(-1, 3, size=(7, 60)).astype(np.int8)
    groups = np.arange(60.0) % 4
    work = PairWork(members(RBF(), 1.0, 2.0), points, weights, True, groups)
    parts = [_totals(work, part) for part in parts_of(60, 17, 4)]
    before = deepcopy(parts[0])
    together = _added(parts)
    for name, values in before.sums.items():
        np.testing.assert_array_equal(parts[0].sums[name], values)  # may be needed again
    whole = evaluate_all_pairs(
        work.members,
        points,
        Effort(block_size=17),
        weights=weights,
        coordinates=True,
        groups=groups,
    )
    own = whole.diagonal.sum(axis=1)
    np.testing.assert_allclose(together.sums["u"] - own, whole.off_diagonal, rtol=1e-10)
    np.testing.assert_allclose(together.sums["quadratic"], whole.quadratic, rtol=1e-10)
    np.testing.assert_allclose(together.sums["coordinates"], whole.coordinates, rtol=1e-10)
    np.testing.assert_allclose(together.of_points(), whole.earlier, rtol=1e-10, atol=1e-12)


def test_sums_of_parts_with_covariates_add_up(rng):
    """What tasks of a predictive check do, without a cluster."""
    samples = [
        [LANGEVIN.scaled(rng.normal(size=(60, 2)), [rng.normal(size=(60, 2))], None) for _ in "ab"]
        for _ in range(3)
    ]
    covariates = [None, rng.normal(size=(60, 1)), [rng.normal(size=(60, 1)) for _ in samples]]
    chosen = members(RBF(), 1.0, 2.0)
    work = _ConditionalWork(chosen, samples, covariates, (60,))
    together = _added([_totals(work, part) for part in parts_of(60, 17, 4)])
    sums, rows = evaluate_conditional(chosen, samples, covariates, Effort(23))
    np.testing.assert_allclose(together.sums["u"], sums, rtol=1e-10)
    np.testing.assert_allclose(together.of_points(), rows, rtol=1e-9, atol=1e-11)


def test_threads_leave_the_process_as_they_found_it(rng):
    """Tasks of one worker may overlap."""
    from threadpoolctl import threadpool_info

    def gaussian(x, y, bandwidth):
        from pytensor.tensor import exp
        from pytensor.tensor import sum as total

        return exp(-total((x - y) ** 2) / (2 * bandwidth**2))

    def blas_threads():
        return [found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"]

    points = LANGEVIN.scaled(rng.normal(size=(60, 2)), [rng.normal(size=(60, 2))], None)
    work = PairWork(members(General(gaussian), 1.0), points)
    before = blas_threads(), pytensor.config.cxx
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda part: _totals(work, part), parts_of(60, 11, 8)))
    assert (blas_threads(), pytensor.config.cxx) == before
    expected = _totals(work, list(upper_triangle(60, 60)))
    np.testing.assert_allclose(_added(parts).sums["u"], expected.sums["u"], rtol=1e-10)


def test_client_must_be_one(rng):
    score = Score.from_callable(standard_normal, 2)
    with pytest.raises(TypeError, match=r"`client` must be a client of Dask, False .* got str"):
        ksd_test(score, rng.normal(size=(50, 2)), client="tcp://scheduler:8786")


def task(n):
    score = Score.from_callable(standard_normal, 2)
    data = np.random.default_rng(0).normal(size=(n, 2))
    return float(ksd_test(score, data, random_seed=0, progressbar=False)["p_value"])


@pytest.mark.slow
@pytest.mark.default_stack
def test_task_of_a_cluster_does_its_work_itself():
    """Tasks of its own could never start on its only thread."""
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.Client(processes=False, **options) as client:
        assert client.submit(task, 1_500).result(timeout=60) == task(1_500)


@pytest.mark.parametrize("function", [ksd_test, ksd_moments])
def test_a_cluster_without_workers_is_told(function, monkeypatch):
    monkeypatch.setattr("pymc_ksd.engine.cluster._PATIENCE", 0.2)
    score = Score.from_callable(standard_normal, 4)
    options = {"n_workers": 0, "processes": False, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options) as workers,
        distributed.Client(workers) as client,
        pytest.raises(RuntimeError, match="cluster of `client` has no workers"),
    ):
        function(score, draws(50), client=client, progressbar=False)


@pytest.mark.slow
@pytest.mark.default_stack
def test_moments_say_so_when_the_last_worker_is_lost(monkeypatch):
    monkeypatch.setattr("pymc_ksd.engine.cluster._PATIENCE", 0.5)
    with cluster(0) as workers, distributed.Client(workers) as client:
        workers.scale(1)
        client.wait_for_workers(1)
        future = client.submit(time.sleep, 600)
        while not any(client.processing().values()):
            time.sleep(0.01)
        workers.scale(0)
        with pytest.raises(RuntimeError, match="cluster of `client` has no workers"):
            finished(client, future)


@pytest.mark.slow
@pytest.mark.default_stack
def test_cluster_without_workers_is_waited_for(monkeypatch):
    monkeypatch.setattr("pymc_ksd.engine.cluster._PATIENCE", 20)
    score = Score.from_callable(standard_normal, 4)
    options = {"random_seed": 0, "progressbar": False}
    with cluster(0) as workers, distributed.Client(workers) as client:
        workers.scale(1)
        remote = ksd_test(score, draws(400), client=client, **options)
        workers.scale(0)
        monkeypatch.setattr("pymc_ksd.engine.cluster._PATIENCE", 0.2)
        while client.nthreads():
            time.sleep(0.1)
        with pytest.raises(RuntimeError, match="cluster of `client` has no workers"):
            ksd_test(score, draws(400), client=client, **options)
    local = ksd_test(score, draws(400), client=False, **options)
    np.testing.assert_allclose(remote["p_value"], local["p_value"])


@pytest.mark.slow
@pytest.mark.default_stack
def test_same_numbers_as_local(rng):
    score = Score.from_callable(standard_normal, 4)
    data = draws(500)
    options = {"random_seed": 3, "progressbar": False}
    local = ksd_test(score, data, client=False, **options)
    measures = ksd(score, data, progressbar=False, client=False)
    moments = ksd_moments(score, data, client=False)

    def periodic(x, y, bandwidth):
        from pytensor.tensor import exp, sin
        from pytensor.tensor import sum as total

        return exp(-2 * total(sin((x - y) / 2) ** 2) / bandwidth**2)

    few = data.isel(draw=slice(60), k=0)
    angles = Score.from_callable(standard_normal, 1)
    general = ksd_test(angles, few, kernel=General(periodic), client=False, **options)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=rng.normal(size=300))
    fitted = xr.Dataset({"mu": (("chain", "draw"), rng.normal(0, 0.06, size=(1, 30)))})
    check = ksd_ppc(model, fitted, client=False, **options)
    with cluster(2) as workers, distributed.Client(workers) as client:
        # Found by itself, and given.
        remote = ksd_test(score, data, **options)
        remote_measures = ksd(score, data, progressbar=False, client=client)
        remote_moments = ksd_moments(score, data, client=client)
        remote_general = ksd_test(angles, few, kernel=General(periodic), client=client, **options)
        remote_check = ksd_ppc(model, fitted, client=client, **options)
        deadline = time.monotonic() + 20
        while client.futures and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not client.futures  # nothing is left behind
    pairs = [(local, remote), (measures, remote_measures), (general, remote_general)]
    pairs.append((moments, remote_moments))
    pairs.append((check, remote_check))
    for here, there in pairs:
        for name, values in here.data_vars.items():
            if values.dtype.kind in "biuf":
                np.testing.assert_allclose(there[name], values, rtol=1e-10, err_msg=str(name))
            else:
                assert values.equals(there[name]), name


@pytest.mark.slow
@pytest.mark.default_stack
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
@pytest.mark.default_stack
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
import numpy as np, os, signal, threading, time
import pymc_ksd
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
score = pymc_ksd.Score.from_callable(lambda x: -x, 5)
data = np.random.default_rng(0).normal(size=(60_000, 5))
pymc_ksd.ksd_test(score, data[:2_000], progressbar=False)
seconds = []

def interrupt():
    seconds.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)

threading.Timer(1.5, interrupt).start()
try:
    pymc_ksd.ksd_test(score, data, progressbar=False)
except KeyboardInterrupt:
    seconds.append(time.process_time())
    again = pymc_ksd.ksd_test(score, data[:2_000], random_seed=0, progressbar=False)
    print(seconds[1] - seconds[0], float(again["p_value"]))
"""


@pytest.mark.slow
@pytest.mark.newer_stack
def test_interrupt_stops_at_once_and_leaves_the_library_usable():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, p_value = map(float, done.stdout.split())
    # Of processors, of which the whole test takes more than half a minute.
    assert seconds < 10
    assert 0 < p_value <= 1
