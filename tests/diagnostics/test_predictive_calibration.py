"""Level and power of checks of fitted models (see benchmarks/predictive_calibration.py)."""

from concurrent.futures import Future
from functools import cache

import numpy as np
import pytest
from rejections import fewest, keeps_its_level, most

from benchmarks.held_out import HELD_OUT, MANY_DRAWS, held_out_rate
from benchmarks.predictive_calibration import COLUMNS, check_rates, report
from benchmarks.predictive_cases import EFFECTS, MISFITS, TRUE

AUTO, ALONE = COLUMNS[:2]


def by_name(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: f"{case.family}, {case.data}")


@pytest.mark.slow
@pytest.mark.default_stack
def test_rates_tell_true_from_wrong_models():
    noisy = next(case for case in MISFITS if case.data == "heteroscedastic noise")
    true, wrong = check_rates(TRUE[0], 3), check_rates(noisy, 3)
    assert true[AUTO].rejections <= 1
    assert wrong[AUTO].rejections >= 2
    assert np.isfinite([rate.rate for rate in wrong.values()]).all()


#: The slowest of these models run on one stack only.
ONE_PER_EFFECT = [case for case in EFFECTS if case.data == "1 per effect"]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=case.family,
            marks=[pytest.mark.slow, pytest.mark.newer_stack] if number else (),
        )
        for number, case in enumerate(ONE_PER_EFFECT)
    ],
)
def test_an_effect_for_every_observation_is_no_misfit(case):
    assert check_rates(case, 4)[AUTO].rejections == 0


def rejects_in_half(key, function, case, replications):
    """Stand in for a measurement."""
    cell = Future()
    cell.set_result([{"rejections": replications // 2, "replications": replications}] * 7)
    return cell


def test_sections_that_are_not_measured_again_stay_as_they_are():
    whole = report(20, 10, rejects_in_half)
    before = whole.replace("50.0 ± 11.2", "5.0 ± 4.9")
    after = report(20, 10, rejects_in_half, only=["Random effects"], before=before)
    start, end = after.index("## Random effects"), after.index("## Wrong models")
    assert after[:start] == before[:start]
    assert after[end:] == before[before.index("## Wrong models") :]
    assert after[start:end] == whole[whole.index("## Random") : whole.index("## Wrong models")]
    assert "Over all lines it is 50.0 ± 2.3 % with" in after
    with pytest.raises(ValueError, match="written with as many data sets"):
        report(30, 10, rejects_in_half, only=["Random effects"], before=before)


def rejections(rates, column):
    return sum(rate[column].rejections for rate in rates)


@pytest.mark.slow
@pytest.mark.newer_stack
def test_random_effects_are_hardly_ever_rejected():
    """Predictive checks use the data twice: of 24 × 5 data sets at most as many as the level's."""
    rates = [check_rates(case, 5) for case in EFFECTS]
    for column in (AUTO, ALONE):
        assert max(rate[column].rejections for rate in rates) <= most(5)
        assert rejections(rates, column) <= most(120)


@pytest.mark.slow
@pytest.mark.newer_stack
def test_true_models_are_hardly_ever_rejected():
    """Of 15 data sets of each model at most 4, of all 60 at most 9."""
    rates = [check_rates(case, 15) for case in TRUE]
    for column in (AUTO, ALONE):
        assert max(rate[column].rejections for rate in rates) <= most(15)
        assert rejections(rates, column) <= most(60)


SMALL = [case for case in MISFITS if case.n <= 300]


@cache
def found(case):
    return check_rates(case, 8)


@pytest.mark.slow
@pytest.mark.newer_stack
def test_wrong_models_are_found_on_average():
    """The page has 95 % of these; 90 % of 48 are 36 at least."""
    assert len(SMALL) == 6
    assert rejections([found(case) for case in SMALL], AUTO) >= fewest(48, 0.9)


@pytest.mark.slow
@pytest.mark.newer_stack
@by_name(SMALL)
def test_wrong_models_are_found(case):
    rates = found(case)
    assert rates[AUTO].rejections >= fewest(8, 0.8)
    if "quadratic" in case.data:
        assert rates[AUTO].rejections > rates[ALONE].rejections + 3
    for summary in ("mean", "variance"):
        assert rates[AUTO].rejections >= rates[summary].rejections - 2


@pytest.mark.slow
@pytest.mark.newer_stack
def test_held_out_data_keep_the_level():
    """New data share parameters that the fit knows only so well."""
    rates = [held_out_rate(case, 30, n_bootstrap=19) for case in HELD_OUT]
    assert max(rate.rejections for rate in rates) <= most(30)
    assert keeps_its_level(rates)


@pytest.mark.slow
@pytest.mark.newer_stack
def test_bootstrap_keeps_the_level_where_observations_share_nothing():
    # The mixture of 100 draws is not close enough to the predictive distribution.
    options = {"shared": False, "null": "multinomial", "n_bootstrap": 400, "draws": MANY_DRAWS}
    rates = [held_out_rate(case, 50, **options) for case in HELD_OUT]
    # At most 8 of 50; from 2 to 21 of 200.
    assert max(rate.rejections for rate in rates) <= most(50)
    assert keeps_its_level(rates)


@pytest.mark.slow
@pytest.mark.newer_stack
def test_bootstrap_of_held_out_data_wants_much_fitted_data():
    bootstrap = {"null": "multinomial", "n_bootstrap": 200}
    # The page has 47 %: of 25 data sets more than the 6 that a right test rejects at most.
    assert held_out_rate(HELD_OUT[0], 25, **bootstrap).rejections > most(25)
    enough = held_out_rate(HELD_OUT[0], 40, fitted=2_000, **bootstrap)
    assert enough.rejections <= most(40)
