"""The benchmark compares like with like: every method gives the same numbers."""

import numpy as np
import pytest

from benchmarks.__main__ import _table, _time
from benchmarks.panel_speed import aggregated
from benchmarks.speed import compare, sample
from benchmarks.speed_cases import FLOORS, numpy_test, statistics, whole_tests


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # other packages' own warnings
@pytest.mark.parametrize("dim", [1, 4])
def test_all_methods_agree(dim):
    arguments = sample(150, dim)
    values = {name: method(*arguments) for name, method in statistics().items()}
    assert {"pymc_ksd", "NumPy", "jax.jit", "stein-thinning", *FLOORS} <= set(values)
    np.testing.assert_allclose(list(values.values()), values["NumPy"], rtol=1e-9)


def test_replicates_agree():
    x, s, h = sample(80, 2)
    weights = np.random.default_rng(0).integers(-1, 3, size=(9, 80)).astype(np.int8)
    expected = numpy_test(x, s, h, weights)
    np.testing.assert_allclose(whole_tests(["jax.jit"])["jax.jit"](x, s, h, weights), expected)


def test_many_bandwidths_agree(monkeypatch):
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", 0)
    x, s, h = sample(80, 2)
    signs = np.random.default_rng(0).choice(np.array([-1, 1], dtype=np.int8), size=(9, 80))
    methods = aggregated()
    found = [methods[name](x, s, h, signs) for name in ("pymc_ksd", "jax.jit")]
    np.testing.assert_allclose(*found, atol=1e-4 * found[0].std())


def test_ratios_stand_beside_seconds():
    def quick(points):
        return None

    def slow(points):
        return [sum(range(2_000)) for _ in range(20)]

    results = compare({"ours": quick, "theirs": slow}, (np.zeros(4),), (np.zeros(2),))
    assert results["ours"][1] == 1
    assert results["theirs"][1] > 1
    lines = _table({"d = 1": {"ours": (0.5, 1.0), "theirs": (-120.0, np.nan)}}, "method")
    assert lines[-2:] == ["| ours | 0.50 s, 1× |", "| theirs | over 120 s |"]
    assert [_time(took) for took in (12.34, 0.5, 0.0123)] == ["12.3", "0.50", "0.012"]


@pytest.mark.slow
@pytest.mark.newer_stack
@pytest.mark.filterwarnings("ignore")  # samplers' own warnings
def test_a_comparison_puts_samplers_in_order():
    from benchmarks.sampler_comparison import before_both, comparison, in_order

    assert in_order(["NUTS", "short NUTS", "ADVI", "Pathfinder"])
    assert in_order(["NUTS", "ADVI", "short NUTS", "Pathfinder"])
    assert not in_order(["short NUTS", "NUTS", "ADVI", "Pathfinder"])
    assert not before_both(["NUTS", "ADVI", "short NUTS", "Pathfinder"])
    table = comparison("linear regression", 0)
    assert in_order([row["sampler"] for row in table]), table
