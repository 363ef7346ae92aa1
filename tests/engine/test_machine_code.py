"""Machine code for blocks of pairs: generated from the kernel's expression, the graph its judge."""

import os
import subprocess
import sys
from weakref import WeakKeyDictionary

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numeric import LANGEVIN, all_pairs, members
from scipy import stats

from pymc_ksd import IMQ, RBF, Matern52, Radial, Score, ksd_test
from pymc_ksd.engine.conditional import evaluate_conditional
from pymc_ksd.engine.functions import BlockFunctions
from pymc_ksd.engine.machine_code import _loops_module
from pymc_ksd.engine.written_kernels import profile_source
from pymc_ksd.stein.stein_kernel import Member, SteinKernel, Wanted


@pytest.fixture
def machine_code(monkeypatch):
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", 0)


def test_code_that_does_not_compile_falls_back_to_the_graph(rng, machine_code, monkeypatch):
    score, x = Score.from_callable(lambda x: -x, dim=2), rng.normal(size=(60, 2))
    expected = ksd_test(score, x, kernel="rbf", random_seed=0)
    broken = "@njit(**_OPTIONS)\ndef profile_0(squared, parameters):\n    return unknown\n"

    def source(kernel, *, arrays):
        return profile_source(kernel, arrays=True) if arrays else broken

    monkeypatch.setattr("pymc_ksd.engine.machine_code.profile_source", source)
    monkeypatch.setattr("pymc_ksd.compilation._kept", WeakKeyDictionary())
    with pytest.warns(UserWarning, match=r"RBF\(\) could not be compiled to machine code"):
        found = ksd_test(score, x, kernel="rbf", random_seed=0)
    np.testing.assert_allclose(found["statistic"], expected["statistic"], rtol=1e-10)
    ksd_test(score, x, kernel="rbf", random_seed=1)  # and does not warn again


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (RBF(), lambda r: np.exp(-r / 8)),
        (IMQ(), lambda r: (1 + r / 4) ** -0.5),
        (IMQ(-0.3), lambda r: (1 + r / 4) ** -0.3),
        (Matern52(), lambda r: (1 + (a := np.sqrt(5 * r) / 2) + a**2 / 3) * np.exp(-a)),
        (0.3 * RBF() + IMQ(), lambda r: 0.3 * np.exp(-r / 8) + (1 + r / 4) ** -0.5),
        (Radial(lambda r, c: pt.exp(-c * r) + pt.abs(c), c=0.7), lambda r: np.exp(-0.7 * r) + 0.7),
    ],
    ids=str,
)
def test_profile_and_its_derivatives(kernel, expected):
    parameters = tuple(float(number) for number in kernel.parameter_values(2.0))
    profile = _loops_module((profile_source(kernel),)).profile_0
    r, step = np.linspace(0.5, 9, 40), 1e-3
    value, first, second = np.array([profile(number, parameters) for number in r]).T
    np.testing.assert_allclose(value, expected(r), rtol=1e-13)
    ahead, behind = expected(r + step), expected(r - step)
    np.testing.assert_allclose(first, (ahead - behind) / (2 * step), rtol=1e-5)
    np.testing.assert_allclose(second, (ahead - 2 * value + behind) / step**2, rtol=1e-4)


def test_exponential_is_exact_to_the_last_digits():
    exp = _loops_module((profile_source(RBF()),)).exp
    x = np.concatenate([np.linspace(-699, 708, 5_000), -np.geomspace(1e-300, 1, 200)])
    np.testing.assert_allclose([exp(number) for number in x], np.exp(x), rtol=4e-16)
    assert exp(-1e9) == 0.0
    assert np.isnan(exp(np.nan))


def test_kernel_with_other_operations_keeps_its_graph(rng, machine_code):
    def smooth(squared_distance):
        return pt.erfc(squared_distance)

    assert profile_source(Radial(smooth)) is None
    for kernel, options, fused in (
        (Radial(smooth), None, False),
        (RBF(), None, True),
        (RBF(), {"mode": "FAST_COMPILE"}, False),
    ):
        stein = SteinKernel(LANGEVIN, kernel, options)
        assert BlockFunctions([Member("", stein, 1.0)], Wanted(), 1).fused == fused


def several_scales(squared_distance):
    return pt.exp(-squared_distance[..., None] / np.array([1.0, 4.0, 16.0])).sum(axis=-1)


def kept_elsewhere(squared_distance):
    return pt.exp(-squared_distance * SHARED)


def infinite_bound(squared_distance):
    return pt.exp(-pt.minimum(squared_distance, np.inf))


def rounded(squared_distance):
    return pt.exp(-squared_distance) + 0.1 * pt.cast(2.5 + 0 * squared_distance, "int64")


def negative_base(squared_distance):
    return pt.exp(-squared_distance) * pt.pow(pt.constant(-2.0), pt.constant(2.0))


SHARED = pytensor.shared(0.5)


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (several_scales, False),
        (kept_elsewhere, False),
        (infinite_bound, False),
        (rounded, False),
        pytest.param(negative_base, True, marks=[pytest.mark.slow, pytest.mark.default_stack]),
    ],
)
def test_unusual_kernels_give_the_numbers_of_their_graph(rng, function, written, monkeypatch):
    points = LANGEVIN.scaled(rng.normal(size=(60, 2)), [rng.normal(size=(60, 2))], None)
    kernel = Radial(function)
    assert (profile_source(kernel) is not None) == written
    values = []
    for pairs in (0, np.inf):
        monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", pairs)
        values.append(all_pairs(kernel, points, 1.0).off_diagonal)
    np.testing.assert_allclose(*values, rtol=1e-10)


@pytest.mark.parametrize("dim", [3, 30])
def test_samples_with_covariates(rng, dim, monkeypatch):
    x, covariates = rng.normal(size=(2, 60, dim)), rng.normal(size=(60, 2))
    samples = [[LANGEVIN.scaled(points, [-points], None)] for points in x]
    changing = [covariates[:, :1], covariates[:, 1:]]
    sums, rows = [], []
    for pairs in (0, np.inf):
        monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", pairs)
        result = evaluate_conditional(members(RBF(), 2.0), samples, [None, covariates, changing])
        sums.append(result[0])
        rows.append(result[1])
    np.testing.assert_allclose(*sums, rtol=1e-10)
    np.testing.assert_allclose(*rows, rtol=1e-10, atol=1e-11)


def test_result_does_not_depend_on_blocks(rng, machine_code):
    points = LANGEVIN.scaled(rng.normal(size=(500, 4)), [rng.normal(size=(500, 4))], "cov")
    weights = rng.integers(-1, 3, size=(20, 500)).astype(np.int8)
    whole, parts = (
        all_pairs(
            IMQ(),
            points,
            2.0,
            weights=weights,
            coordinates=True,
            block_size=size,
        )
        for size in (500, 37)
    )
    np.testing.assert_allclose(parts.off_diagonal, whole.off_diagonal, rtol=1e-11)
    np.testing.assert_allclose(parts.coordinates, whole.coordinates, rtol=1e-11)
    np.testing.assert_allclose(parts.quadratic, whole.quadratic, atol=1e-6 * whole.quadratic.std())


@pytest.mark.slow
@pytest.mark.default_stack
def test_infinite_kernel_is_refused(rng, machine_code):
    kernel = Radial(lambda squared_distance: pt.log(2 - squared_distance), name="logarithm")
    points = LANGEVIN.scaled(rng.normal(size=(20, 2)), [rng.normal(size=(20, 2))], None)
    with pytest.raises(ValueError, match=r"Radial\(logarithm\) is not finite"):
        all_pairs(kernel, points, 1.0)


def heavy_tailed(rng):
    return rng.standard_cauchy((400, 2))


def huge_scores(rng):
    return 1e25 * rng.normal(size=(400, 2))


def far_away(rng):
    return np.concatenate([rng.normal(size=(399, 2)), [[1e6, 1e6]]])


@pytest.mark.parametrize("draw", [heavy_tailed, huge_scores, far_away])
@pytest.mark.parametrize("null", ["multinomial", "rademacher"])
def test_single_precision_does_not_move_the_p_value(rng, draw, null, monkeypatch):
    """Replicates in single precision keep their order, whatever the size of the numbers."""
    data = draw(rng)
    score = Score.from_callable(lambda x: -x, 2)
    results = []
    for pairs in (np.inf, 0):
        monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", pairs)
        results.append(ksd_test(score, data, null=null, kernel="imq", random_seed=1))
    exact, single = results
    # Points' own terms are in the graph's sum before they are taken away.
    own = float(exact["ess_ksd"] * exact["ksd"] ** 2) / len(data)
    np.testing.assert_allclose(
        single["statistic"], exact["statistic"], rtol=1e-10, atol=1e-15 * own
    )
    spread = float(exact["null_distribution"].std())
    difference = single["null_distribution"] - exact["null_distribution"]
    assert float(abs(difference).max()) < 1e-5 * spread
    assert float(single["p_value"]) == float(exact["p_value"])


@pytest.mark.slow
@pytest.mark.newer_stack
def test_p_values_of_many_samples_move_less_than_their_error(rng, monkeypatch):
    score = Score.from_callable(lambda x: -x, 3)
    p_values = np.empty((2, 40))
    for index in range(40):
        data = rng.normal(0.02 * index / 40, 1, size=(200, 3))
        for row, pairs in enumerate((np.inf, 0)):
            monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", pairs)
            p_values[row, index] = ksd_test(score, data, random_seed=index)["p_value"]
    assert stats.kstest(p_values[0], "uniform").pvalue > 1e-6  # not all the same
    # One replicate in a thousand may change sides; the Monte Carlo error is up to sixteen times it.
    assert abs(p_values[0] - p_values[1]).max() <= 1 / 1001 + 1e-12


@pytest.mark.slow
def test_code_is_found_again_by_the_next_process(tmp_path):
    script = (
        "import pathlib, sys, pymc_ksd, numpy as np\n"
        "from pymc_ksd.engine import functions\n"
        "functions._FUSED_PAIRS = 0\n"
        "score = pymc_ksd.Score.from_callable(lambda x: -x, 2)\n"
        "data = np.random.default_rng(0).normal(size=(50, 2))\n"
        "result = pymc_ksd.ksd_test(score, data, random_seed=0)\n"
        "modules = [m for name, m in sys.modules.items() if name.startswith('pymc_ksd_')]\n"
        "stats = [f.stats for m in modules for f in vars(m).values() if hasattr(f, 'stats')]\n"
        "print(sum(sum(s.cache_hits.values()) for s in stats))\n"
        "print(sum(sum(s.cache_misses.values()) for s in stats), float(result['statistic']))\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={
                **os.environ,
                "PYTENSOR_FLAGS": f"base_compiledir={tmp_path}",
                "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
            },
        ).stdout.split()
        for _ in range(2)
    ]
    (hits, misses), (hits_again, misses_again) = ((int(a), int(b)) for a, b, _ in runs)
    assert hits == misses_again == 0
    assert misses > hits_again > 0
    assert runs[0][-1] == runs[1][-1]
