"""Level and power of the test, by simulation (see benchmarks/calibration.py)."""

from functools import cache

import pytest
from rejections import fewest, keeps_its_level, most

from benchmarks.calibration import (
    OTHER_TEST_CASES,
    OTHER_TESTS,
    PERTURBATIONS,
    mixture_rejection_rate,
    rejection_rate,
)
from benchmarks.calibration_cases import LEVEL_CASES, POWER_CASES

#: What each share of rejected wrong models must reach, give or take chance.
LEAST_POWER = {
    "Normal(0.5, 1)": 0.99,
    "Normal(0, 1.5)": 0.98,
    "StudentT(3)": 0.8,
    "Laplace(0, 1/√2), variance 1": 0.9,
}

#: PyMC's MatrixNormal calls functions that PyTensor has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*(trace|matrix_dot) is deprecated:FutureWarning")


#: Data sets for each share, of which 13 are rejected at most (see rejections.py); the page has 400.
REPLICATIONS = 100


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
@pytest.mark.default_stack
@pytest.mark.parametrize("case", LEVEL_CASES, ids=lambda case: case.name)
def test_ksd_test_keeps_its_level(case):
    assert keeps_its_level([default_level(case)])


@pytest.mark.slow
@pytest.mark.default_stack
def test_ksd_test_keeps_its_level_on_average():
    """Between 4.0 and 6.1 % of 4,100 data sets, a binomial number leaves that once in 500 times."""
    assert len(LEVEL_CASES) >= 25
    assert keeps_its_level([default_level(case) for case in LEVEL_CASES])


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.parametrize("test", OTHER_TESTS)
def test_other_statistics_and_nulls_keep_their_level(test):
    """From 5 to 28 of 5 × 60 data sets."""
    rates = [
        rejection_rate(case, replications=60, n=200, **OTHER_TESTS[test])
        for case in OTHER_TEST_CASES
    ]
    assert keeps_its_level(rates)


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.parametrize("name", LEAST_POWER)
def test_ksd_test_rejects_a_normal_model_of_other_data(name):
    case = next(case for case in POWER_CASES if case.name == name)
    power = rejection_rate(case, replications=REPLICATIONS, n=200)
    assert power.rejections >= fewest(REPLICATIONS, LEAST_POWER[name])


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.parametrize("perturbed", PERTURBATIONS)
def test_ksd_test_finds_perturbed_mixtures(perturbed):
    rate = mixture_rejection_rate(perturbed, replications=REPLICATIONS, n=100)
    if perturbed == "nothing":
        assert keeps_its_level([rate])
    else:
        assert rate.rejections > most(REPLICATIONS)
