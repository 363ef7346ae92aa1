"""Level and power of checks of fitted models (see benchmarks/predictive_calibration.py)."""

from functools import cache

import numpy as np
import pytest

from benchmarks.predictive_calibration import COLUMNS, HELD_OUT, check_rates, held_out_rate
from benchmarks.predictive_cases import EFFECTS, MISFITS, TRUE

AUTO, ALONE = COLUMNS[:2]


def by_name(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: f"{case.family}, {case.data}")


def test_rates_tell_true_from_wrong_models():
    noisy = next(case for case in MISFITS if case.data == "heteroscedastic noise")
    true, wrong = check_rates(TRUE[0], 3), check_rates(noisy, 3)
    assert true[AUTO].rejections <= 1
    assert wrong[AUTO].rejections >= 2
    assert np.isfinite([rate.rate for rate in wrong.values()]).all()


@by_name(EFFECTS[::3])
def test_an_effect_for_every_observation_is_no_misfit(case):
    assert check_rates(case, 4)[AUTO].rejections == 0


@pytest.mark.slow
@by_name(EFFECTS)
def test_random_effects_are_hardly_ever_rejected(case):
    rates = check_rates(case, 30)
    assert rates[AUTO].rejections <= 4
    assert rates[ALONE].rejections <= 4


@pytest.mark.slow
@by_name(TRUE)
def test_true_models_are_hardly_ever_rejected(case):
    rates = check_rates(case, 40)
    assert rates[AUTO].rejections <= 5
    assert rates[ALONE].rejections <= 5


SMALL = [case for case in MISFITS if case.n <= 300]


@cache
def found(case):
    return check_rates(case, 12)


@pytest.mark.slow
def test_wrong_models_are_found_on_average():
    assert sum(found(case)[AUTO].rejections for case in SMALL) >= 0.8 * 12 * len(SMALL)


@pytest.mark.slow
@by_name(SMALL)
def test_wrong_models_are_found(case):
    rates = found(case)
    assert rates[AUTO].rate >= 0.8 - 3 * np.sqrt(0.8 * 0.2 / 12)
    if "quadratic" in case.data:
        assert rates[AUTO].rejections > rates[ALONE].rejections + 3
    for summary in ("mean", "variance"):
        assert rates[AUTO].rejections >= rates[summary].rejections - 3


@pytest.mark.slow
@pytest.mark.parametrize("case", HELD_OUT, ids=lambda case: case.name)
def test_held_out_data_keep_the_level(case):
    """New data share parameters that the fit knows only so well."""
    rate = held_out_rate(case, 60, n_bootstrap=19)
    assert rate.rate <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)


@pytest.mark.slow
@pytest.mark.parametrize("case", HELD_OUT, ids=lambda case: case.name)
def test_bootstrap_keeps_the_level_where_observations_share_nothing(case):
    rate = held_out_rate(case, 100, shared=False, null="multinomial", n_bootstrap=400)
    assert 0.01 <= rate.rate <= 0.1


@pytest.mark.slow
def test_bootstrap_of_held_out_data_wants_much_fitted_data():
    bootstrap = {"null": "multinomial", "n_bootstrap": 200}
    assert held_out_rate(HELD_OUT[0], 40, **bootstrap).rate > 0.15
    enough = held_out_rate(HELD_OUT[0], 60, fitted=2_000, **bootstrap)
    assert enough.rate <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)
