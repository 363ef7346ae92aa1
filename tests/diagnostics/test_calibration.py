"""Level and power of the test, by simulation (see benchmarks/calibration.py)."""

from functools import cache

import pytest

from benchmarks.calibration import (
    OTHER_TEST_CASES,
    OTHER_TESTS,
    PERTURBATIONS,
    mixture_rejection_rate,
    rejection_rate,
)
from benchmarks.calibration_cases import LEVEL_CASES, POWER_CASES

#: Bounds for the share of true models that are rejected at the nominal level 5 %.
LEAST, MOST = 0.02, 0.085
#: What each share of rejected wrong models must reach, less three standard errors.
LEAST_POWER = {
    "Normal(0.5, 1)": 0.99,
    "Normal(0, 1.5)": 0.98,
    "StudentT(3)": 0.8,
    "Laplace(0, 1/√2), variance 1": 0.9,
}

#: PyMC's MatrixNormal calls functions that PyTensor has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*(trace|matrix_dot) is deprecated:FutureWarning")


#: Data sets for each share; the page has more.
REPLICATIONS = 300


@cache
def default_level(case):
    return rejection_rate(case, replications=REPLICATIONS, n=200)


def test_rejection_rate_tells_true_from_wrong_models_and_is_repeatable():
    normal = LEVEL_CASES[0]
    shifted = next(case for case in POWER_CASES if case.name == "Normal(0.5, 1)")
    options = {"replications": 10, "n": 100, "n_bootstrap": 200}
    true, wrong = rejection_rate(normal, **options), rejection_rate(shifted, **options)
    assert true.rejections <= 3
    assert wrong.rejections >= 8
    assert rejection_rate(normal, **options) == true
    assert wrong.error == pytest.approx((wrong.rate * (1 - wrong.rate) / 10) ** 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("case", LEVEL_CASES, ids=lambda case: case.name)
def test_ksd_test_keeps_its_level(case):
    assert LEAST <= default_level(case).rate <= MOST


@pytest.mark.slow
def test_ksd_test_keeps_its_level_on_average():
    rates = [default_level(case).rate for case in LEVEL_CASES]
    assert len(rates) >= 25
    assert 0.035 <= sum(rates) / len(rates) <= 0.065


@pytest.mark.slow
@pytest.mark.parametrize("case", OTHER_TEST_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("test", OTHER_TESTS)
def test_other_statistics_and_nulls_keep_their_level(test, case):
    rate = rejection_rate(case, replications=REPLICATIONS, n=200, **OTHER_TESTS[test])
    assert LEAST <= rate.rate <= MOST


@pytest.mark.slow
@pytest.mark.parametrize("name", LEAST_POWER)
def test_ksd_test_rejects_a_normal_model_of_other_data(name):
    case = next(case for case in POWER_CASES if case.name == name)
    power = rejection_rate(case, replications=REPLICATIONS, n=200)
    assert power.rate >= LEAST_POWER[name] - 3 * power.error


@pytest.mark.slow
@pytest.mark.parametrize("perturbed", PERTURBATIONS)
def test_ksd_test_finds_perturbed_mixtures(perturbed):
    power = mixture_rejection_rate(perturbed, replications=REPLICATIONS, n=100)
    if perturbed == "nothing":
        assert LEAST <= power.rate <= MOST
    else:
        assert power.rate - 3 * power.error > MOST
