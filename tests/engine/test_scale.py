"""Large samples stay within memory, measured in a fresh process."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, pathlib, re, resource, time
import numpy as np
import pymc

def peak_memory():
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text()).group(1)) / 1024
    # It starts from that of the process which started this one.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

before = peak_memory()
import pymc_ksd

n, dim, replicates = {n}, {dim}, {replicates}
score = pymc_ksd.Score.from_callable(lambda x: -x, dim)
data = np.random.default_rng(0).normal(size=(n, dim))
start = time.perf_counter()
result = pymc_ksd.ksd_test(
    score, data, n_bootstrap=replicates, random_seed=0, progressbar=False
)
seconds = time.perf_counter() - start
peak = peak_memory() - before
print(json.dumps({{"peak": peak, "seconds": seconds, "p_value": float(result["p_value"])}}))
"""


def run(n, dim, replicates):
    script = SCRIPT.format(n=n, dim=dim, replicates=replicates)
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True
    )
    return json.loads(finished.stdout.splitlines()[-1])


@pytest.mark.slow
def test_memory_of_a_large_sample_is_far_below_the_matrix():
    # Above `import pymc`; the n × n matrix alone would take 800 MB.
    report = run(10_000, 10, 1_000)
    assert report["peak"] < 400
    assert report["p_value"] > 0.001


@pytest.mark.slow
@pytest.mark.default_stack
def test_fifty_thousand_points_fit_into_one_and_a_half_gigabytes():
    report = run(50_000, 10, 250)
    assert report["peak"] < 1500
    assert report["p_value"] > 0.001
