"""Level and power on draws of samplers, by simulation (see benchmarks/sampler_calibration.py)."""

import json
import logging

import pytest
from rejections import fewest

from benchmarks.sampler_calibration import nuts_rate, report, sampler_rejection_rate
from benchmarks.sampler_cases import POWER_CASES, SMC_CASES, autoregressive

#: Bounds for the share of right draws that are rejected at the nominal level 5 %.
LEAST, MOST = 0.015, 0.08
#: What each share of rejected draws must reach with 4 × 250 draws, give or take chance.
LEAST_POWER = {
    "all chains in one of two overlapping modes": 0.99,
    "one chain of four in one of two overlapping modes": 0.9,
    "mean wrong by 0.1 sd, d = 1": 0.8,
    "mean wrong by 0.1 sd, d = 2": 0.7,
    "scale wrong by 10 %, d = 1": 0.65,
    "unadjusted Langevin, step 0.2": 0.6,
    "mean-field optimum, target's correlation 0.5": 0.99,
    "mean-field optimum, target's correlation 0.9": 0.99,
}


def power_case(name):
    return next(case for case in POWER_CASES if case.name == name)


def test_rates_tell_right_from_wrong_draws_and_are_repeatable():
    options = {"replications": 6, "n_draws": 100}
    right = sampler_rejection_rate(autoregressive(0.5, 2), **options)
    stuck = power_case("all chains in one of two overlapping modes")
    assert right.rejections <= 2
    assert sampler_rejection_rate(stuck, **options).rejections >= 5
    assert sampler_rejection_rate(autoregressive(0.5, 2), **options) == right


def keeps_its_level(rate):
    """Whether a share lies within the bounds, give or take two standard errors at the bound.

    With 80 runs, 14 % of them at most. The page has 600 runs of each.
    """
    error = [2 * (bound * (1 - bound) / rate.replications) ** 0.5 for bound in (LEAST, MOST)]
    return LEAST - error[0] <= rate.rate <= MOST + error[1]


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.parametrize("dim", [1, 2, 10])
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.95])
def test_wild_keeps_its_level(phi, dim):
    rate = sampler_rejection_rate(autoregressive(phi, dim), replications=80, n_draws=250)
    assert keeps_its_level(rate), rate


@pytest.mark.slow
@pytest.mark.default_stack
def test_wild_keeps_its_level_on_alternating_chains():
    rate = sampler_rejection_rate(autoregressive(-0.8, 10), replications=80, n_draws=250)
    assert keeps_its_level(rate), rate


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.parametrize("name", LEAST_POWER)
def test_wrong_draws_are_rejected(name):
    rate = sampler_rejection_rate(power_case(name), replications=30, n_draws=250)
    assert rate.rejections >= fewest(30, LEAST_POWER[name]), rate


@pytest.mark.slow
@pytest.mark.default_stack
def test_metropolis_adjustment_makes_langevin_draws_right():
    rate = sampler_rejection_rate(
        power_case("MALA (exact), step 0.2"), replications=60, n_draws=250
    )
    assert keeps_its_level(rate), rate


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.filterwarnings("ignore::FutureWarning")  # PyMC calls what PyTensor has deprecated
def test_too_few_particles_are_rejected(caplog):
    caplog.set_level(logging.ERROR, logger="pymc")  # SMC reports every run
    few, many = (
        sampler_rejection_rate(case, replications=runs, n_draws=0).rejections
        for case, runs in zip(SMC_CASES, (4, 6), strict=True)
    )
    assert few >= 3
    # Rejected in a tenth of all runs, see the page: more than two of six are chance once in 63.
    assert many <= 2


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.filterwarnings("ignore::FutureWarning")  # nutpie calls what PyTensor has deprecated
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # and signatures that will change
def test_draws_of_nuts_are_rarely_rejected():
    rate = nuts_rate("eight schools", 250, 20)
    assert keeps_its_level(rate), rate


@pytest.mark.slow
@pytest.mark.default_stack
def test_interrupted_report_goes_on_from_what_it_kept(tmp_path, monkeypatch):
    module = "benchmarks.sampler_calibration"
    monkeypatch.setattr(f"{module}.CORRELATIONS", (0.0,))
    monkeypatch.setattr(f"{module}.DIMENSIONS", (1,))
    monkeypatch.setattr(f"{module}.HIGH_DIMENSIONS", ())
    monkeypatch.setattr(f"{module}.NUTS_MODELS", ())
    monkeypatch.setattr(f"{module}.POWER_CASES", POWER_CASES[:1])
    monkeypatch.setattr(f"{module}.SMC_CASES", ())
    page = report(0.01, 1, tmp_path)
    assert "| 4 × 250 | 1 |" in page
    cells = {json.loads(path.read_text()).get("key"): path for path in tmp_path.glob("samplers-*")}
    assert len(cells) == 4
    path = cells["autoregressive_rate(0.0, 1, 250, 6)"]
    cell = json.loads(path.read_text()) | {"result": {"rejections": 3, "replications": 6}}
    path.write_text(json.dumps(cell))
    assert "| 4 × 250 | 1 | 50.0 ± 20.4 |" in report(0.01, 1, tmp_path)
