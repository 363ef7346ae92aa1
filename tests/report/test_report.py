"""The report: what it concludes, what it holds, and that it stands alone."""

import io
import json
import re
import warnings
from dataclasses import replace
from functools import partial
from importlib import import_module

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from rich.console import Console

import pymc_ksd
from pymc_ksd import ksd_ppc, ksd_summary, ksd_test
from pymc_ksd.diagnostics.measured import diagnose_draws
from pymc_ksd.report import run_checks

ksd_report = partial(pymc_ksd.ksd_report, random_seed=0)
MARKUP = "<script>alert(1)</script>"
LEVELS = (
    "The test of the draws, at level 0.05, combines kernels that compare whole distributions with "
    "a test of means and standard deviations. By themselves, means and standard deviations are "
    "tested at level 0.025."
)


def regression(curve=0.0, shift=0.0, n=100):
    """A regression with flat priors, exact draws of its posterior, and data that may be curved."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=n)
    y = 1 + 2 * x + curve * (x**2 - 1) + rng.normal(size=n)
    with pm.Model(coords={"term": ["constant", MARKUP]}) as model:
        beta = pm.Normal("beta", 0, 100, dims="term")
        pm.Normal("y", beta[0] + beta[1] * x, 1.0, observed=y)
    design = np.stack([np.ones(n), x], axis=1)
    precision = design.T @ design + np.eye(2) / 100**2
    mean = np.linalg.solve(precision, design.T @ y)
    rng = np.random.default_rng(1)  # one in twenty seeds would be rejected
    values = rng.multivariate_normal(mean + shift, np.linalg.inv(precision), size=(4, 250))
    posterior = xr.Dataset(
        {"beta": (("chain", "draw", "term"), values)},
        coords={"term": ["constant", MARKUP], "chain": range(4), "draw": range(250)},
    )
    return model, xr.DataTree.from_dict({"posterior": posterior})


@pytest.fixture(scope="module")
def good():
    model, draws = regression()
    return ksd_report(model, draws, num_draws=60, progressbar=False)


@pytest.fixture(scope="module")
def page(good):
    return good.to_html()


def test_a_good_fit_passes(good):
    assert good.verdict.status == good.status == "passed"
    assert good.reason == ""
    assert not good.rejected
    assert good.verdict.headline == (
        "Passed: the draws are consistent with the posterior, and the data with the model."
    )
    assert {one.status for one in good.findings} == {"passed"}
    assert good.notes == (LEVELS,)


def test_numbers_are_those_of_the_single_functions(good):
    model, draws = regression()
    assert float(good.test["p_value"]) == float(ksd_test(model, draws, random_seed=0)["p_value"])
    table = ksd_summary(model, draws)
    assert good.summary.equals(table)


def wide(report):
    console = Console(file=io.StringIO(), width=300)
    console.print(report)
    return console.file.getvalue()


def test_numbers_of_moments_are_those_of_the_single_function(good):
    model, draws = regression()
    moments = pymc_ksd.ksd_moments(model, draws, alpha=0.025)
    xr.testing.assert_allclose(good.moments, moments)
    assert (good.test.attrs["alpha"], good.moments.attrs["alpha"]) == (0.05, 0.025)


def test_moments_reject_what_the_test_does_not(monkeypatch):
    changed(monkeypatch, p_value=0.3, status="passed")
    model, draws = regression()
    draws["posterior"]["beta"][..., 0] += 0.02  # 0.2 sd
    report = ksd_report(model, draws, predictive=False)
    assert report.status == "rejected"
    assert report.reason == ""
    assert report.verdict.headline.startswith(
        "Rejected: the draws do not come from the posterior (p"
    )
    (culprit,) = report.verdict.details
    assert re.fullmatch(
        r"beta\[constant\]: mean 0\.\d+ sd too high \(0\.930 instead of 0\.912\)", culprit
    )
    assert report.to_dict()["moments"]["status"] == "rejected"
    rejected = [one for one in report.findings if one.status == "rejected"]
    assert [culprit in one.details for one in rejected] == [True]
    # Also of chains of which the test as a whole cannot tell.
    changed(monkeypatch, p_value=0.3, status="cannot tell", reason=REASON)
    report = ksd_report(model, draws, predictive=False)
    assert (report.status, report.reason) == ("rejected", "")


def test_weak_evidence_by_moments_is_called_so(monkeypatch):
    model, draws = regression()
    moments = pymc_ksd.ksd_moments(model, draws, alpha=0.025)
    weak = moments.assign(p_value=0.02, beta=moments["beta"].copy())
    weak["beta"].loc[{"term": "constant", "diagnostic": ["bias_mean", "p_mean"]}] = [0.1, 0.02]
    weak.attrs["status"] = "rejected"
    monkeypatch.setattr(
        "pymc_ksd.diagnostics.measured.DrawsResults.moments", lambda *args, **options: weak
    )
    report = ksd_report(model, draws, predictive=False)
    assert report.verdict.headline == (
        "Rejected, on weak evidence: the draws may not come from the posterior (p = 0.02)."
    )
    often, bias = report.verdict.details
    assert "by chance in 1 of 50 tests" in often
    assert bias.startswith("beta[constant]: mean 0.1 sd too high (")


@pytest.mark.slow
@pytest.mark.newer_stack
def test_moments_that_cannot_tell_do_not_change_the_status(monkeypatch):
    model, draws = regression()
    moments = pymc_ksd.ksd_moments(model, draws, alpha=0.025)
    untold = moments.assign_attrs(status="cannot tell", reason="The chains are short.")
    monkeypatch.setattr(
        "pymc_ksd.diagnostics.measured.DrawsResults.moments", lambda *args, **options: untold
    )
    report = ksd_report(model, draws, predictive=False)
    assert (report.status, report.reason) == ("passed", "")
    headline = "Cannot tell whether means and standard deviations are right. The chains are short."
    assert [one.headline for one in report.findings if one.status == "cannot tell"] == [headline]


def test_moments_that_cannot_be_had_are_no_pass(monkeypatch):
    def broken(*args, **options):
        raise ValueError("no moments today")

    monkeypatch.setattr("pymc_ksd.diagnostics.measured.DrawsResults.moments", broken)
    report = ksd_report(*regression(), predictive=False)
    assert report.status == "cannot tell"
    assert report.reason == "Means and standard deviations were not tested: no moments today"
    assert report.verdict.status == "cannot tell"
    assert report.to_dict()["moments"] is None
    assert report.to_html().count("<img") == 2


def test_a_certificate_decides_alone(monkeypatch):
    model, draws = regression()
    # The test as a whole rejects, and all the same every mean and sd lies within the margin.
    changed(monkeypatch, p_value=1 / 1001, status="rejected")
    report = ksd_report(model, draws, margin=0.3, predictive=False)
    assert report.status == "passed"
    assert report.verdict.headline == (
        "Certified: every mean is within 0.3 sd and every sd within 30 % of the posterior's "
        "(95 % confidence). See the warnings below."
    )
    assert {one.status for one in report.findings} == {"warning", "certified", "passed"}
    assert LEVELS not in report.notes
    assert report.moments.attrs["alpha"] == 0.05
    found = report.to_dict()["moments"]
    assert (found["status"], found["margin"]) == ("certified", 0.3)
    monkeypatch.undo()
    clear = ksd_report(model, draws, margin=0.3, num_draws=60)
    assert clear.verdict.status == "certified"
    assert clear.verdict.headline.endswith("(95 % confidence).")


def test_a_certificate_that_cannot_be_given():
    model, draws = regression()
    report = ksd_report(model, draws, margin=0.01, predictive=False)
    assert report.status == report.verdict.status == "cannot tell"
    assert report.reason.startswith("The draws are too few for a margin of 0.01")
    assert report.reason in report.verdict.headline
    assert "cannot tell" in report.to_html()


def test_draws_outside_of_the_margin():
    model, draws = regression(shift=0.05)
    report = ksd_report(model, draws, margin=0.1, predictive=False)
    assert report.status == "rejected"
    assert report.verdict.headline == ("Rejected: a mean or an sd is outside the margin of 0.1.")
    assert "sd too high" in report.verdict.details[0]
    with pytest.raises(ValueError, match="`margin` must be positive and finite, got -1"):
        ksd_report(model, draws, margin=-1)


@pytest.mark.slow
@pytest.mark.newer_stack
def test_rows_that_are_off_are_marked_and_come_first():
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        pm.Normal("theta", shape=30)
    values = rng.normal(size=(4, 250, 30))
    values[..., 27] += 0.4
    report = ksd_report(model, xr.Dataset({"theta": (("chain", "draw", "k"), values)}))
    html = report.to_html()
    assert re.findall(r'<tr class="low"><th scope="row">(.*?) ▾', html) == ["theta[27]"] * 2
    assert "Means and standard deviations" in html
    shown = wide(report)
    rows = [line for line in shown.splitlines() if re.match(r" *theta\[\d+\] +\S", line)]
    assert len(rows) == 12
    assert "theta[27]" in rows[0]
    assert "18 more with larger p_value" in shown


def test_rows_of_the_table_may_be_others_than_those_of_the_test(good):
    model, draws = regression()
    posterior = draws["posterior"].to_dataset()
    posterior["slope"] = posterior["beta"].isel(term=1, drop=True) * 1.0
    report = ksd_report(model, posterior, var_names=["slope"], predictive=False)
    assert list(report.summary.index) == ["slope"]
    assert np.isfinite(report.summary.loc["slope", "stein_mean"])
    xr.testing.assert_allclose(report.moments, good.moments)


def test_the_smallest_level_can_be_reached():
    report = ksd_report(*regression(shift=1.0), alpha=0.001, predictive=False)
    assert report.rejected
    assert float(report.test["p_value"]) <= report.test.attrs["alpha"] == 0.001


def test_wrong_draws_come_before_a_wrong_model():
    model, draws = regression(curve=2.0, shift=0.5)
    report = ksd_report(model, draws, num_draws=60)
    assert report.rejected
    assert report.verdict.headline == (
        "Rejected: the draws do not come from the posterior (p < 1e-10)."
    )
    assert report.verdict.details[-1] == (
        "The check of the model, which relies on these draws, found a misfit in y."
    )
    assert report.verdict.next_step.startswith("Check that the draws were made with this model")


@pytest.mark.parametrize("p_value", [1 / 1001, 0.02])
def test_draws_of_another_model_are_told_before_the_sampler_is_blamed(p_value, monkeypatch):
    model, draws = regression(shift=0.5 if p_value < 0.01 else 0.0)
    mismatch = "'twice' in `data` is not what `model` computes from the same draws."
    changed(monkeypatch, p_value=p_value, status="rejected", mismatch=mismatch)
    report = ksd_report(model, draws, predictive=False)
    assert report.rejected
    assert report.verdict.headline.startswith("Draws and model do not belong together. Rejected")
    assert report.verdict.details[0] == mismatch
    assert report.verdict.next_step.startswith("Test draws that were made with this model")
    test = pymc_ksd.explain(report.test).findings[0]
    assert (test.details[0], test.next_step) == (mismatch, report.verdict.next_step)
    moments = report.moments.assign_attrs(mismatch=mismatch, status="rejected")
    found = pymc_ksd.explain(moments).findings[0]
    assert (found.details[0], found.next_step) == (mismatch, report.verdict.next_step)


@pytest.mark.parametrize("options", [{"curve": 2.0, "shift": 0.5}, {"curve": 2.0}, {}], ids=str)
def test_a_report_has_one_next_step(options):
    report = ksd_report(*regression(**options), num_draws=60)
    assert str(report).count("Next step:") == 1
    assert report.to_html().count("Next step:") == 1
    assert wide(report).count("Next step:") == 1
    # What to do about warnings stays.
    warned = [one for one in report.findings if one.status == "warning"]
    assert all(one.details for one in warned)


def changed(monkeypatch, p_value=None, **attrs):
    """Let reports find another p-value of the draws, or other attributes of their test."""

    def diagnose(*args, **options):
        found = diagnose_draws(*args, **options)
        test = found.test if p_value is None else found.test.assign(p_value=p_value)
        return replace(found, test=test.assign_attrs(attrs))

    monkeypatch.setattr(run_checks, "diagnose_draws", diagnose)


REASON = "The chains disagree (R-hat 3.1), so there is no sample of one distribution to test."


@pytest.mark.slow
@pytest.mark.default_stack
def test_a_report_that_cannot_tell_is_no_pass(monkeypatch):
    changed(monkeypatch, status="cannot tell", reason=REASON)
    report = ksd_report(*regression(), num_draws=60, progressbar=False)
    assert report.status == report.verdict.status == "cannot tell"
    assert not report.rejected
    assert report.verdict.headline == (
        f"Cannot tell whether the draws come from the posterior. {REASON}"
    )
    (beside,), step = report.verdict.details, report.verdict.next_step
    assert beside.startswith("The largest R-hat is 1.0")
    assert "the smallest bulk ESS is" in beside
    assert step.startswith("Run longer chains")
    console = Console(file=io.StringIO(), width=400)
    console.print(report)
    for shown in (str(report), report.to_html(), console.file.getvalue()):
        assert "Cannot tell whether the draws come from the posterior" in shown
        assert "draws are consistent" not in shown
        assert "Passed: the draws" not in shown
        assert "is that of exact draws" not in shown
    found = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert (found["status"], found["reason"]) == ("cannot tell", REASON)
    assert (found["sampler"]["status"], found["sampler"]["reason"]) == ("cannot tell", REASON)
    assert found["sampler"]["p_value"] > 0.05
    assert found["predictive"]["y"]["status"] == "passed"


def test_a_model_that_is_rejected_by_draws_that_cannot_be_told(monkeypatch):
    changed(monkeypatch, status="cannot tell", reason=REASON)
    report = ksd_report(*regression(curve=2.0), num_draws=60, progressbar=False)
    assert report.status == report.verdict.status == "cannot tell"
    assert not report.rejected
    assert report.reason == REASON
    assert report.verdict.headline == (
        f"Cannot tell whether the draws come from the posterior. {REASON}"
    )
    assert report.verdict.details[-1].endswith("found a misfit in y.")


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.parametrize("curve", [0.0, 2.0], ids=["fits", "misfit"])
def test_draws_of_another_model_are_no_pass(curve):
    model, draws = regression(curve=curve)
    with model:
        pm.Deterministic("twice", 2 * model["beta"], dims="term")
    posterior = draws["posterior"].to_dataset()
    own = ksd_report(model, posterior.assign(twice=2 * posterior["beta"]), num_draws=60)
    assert own.status == ("rejected" if curve else "passed")
    report = ksd_report(model, posterior.assign(twice=posterior["beta"]), num_draws=60)
    assert report.status == report.verdict.status == "cannot tell"
    assert report.reason.count("'twice' in `data` is not what `model` computes") == 1
    assert ("found a misfit in y" in str(report.verdict.details)) == bool(curve)
    assert report.verdict.next_step.startswith("Test draws that were made with this model")
    assert "rejected" not in {one.status for one in report.findings}


def test_a_check_that_cannot_tell_is_no_pass(monkeypatch):
    def few(*args, **options):
        untold = {"status": "cannot tell", "reason": "There are too few draws."}
        return ksd_ppc(*args, **options).assign_attrs(untold)

    monkeypatch.setattr(run_checks, "ksd_ppc", few)
    report = ksd_report(*regression(), num_draws=60, progressbar=False)
    assert report.status == "cannot tell"
    assert report.reason == "There are too few draws."
    assert report.verdict.headline == (
        "Cannot tell whether the model fits its data. The draws passed. There are too few draws."
    )


def test_words_scale_with_the_evidence(monkeypatch):
    changed(monkeypatch, p_value=0.02)
    weak = ksd_report(*regression(), predictive=False)
    assert weak.rejected
    assert weak.verdict.headline == (
        "Rejected, on weak evidence: the draws may not come from the posterior (p = 0.02)."
    )
    assert "by chance in 1 of 50 tests" in weak.verdict.details[0]
    assert "another seed" in weak.verdict.next_step
    changed(monkeypatch, p_value=1 / 1001)
    strong = ksd_report(*regression(), predictive=False)
    assert strong.verdict.headline.startswith("Rejected: the draws do not come from")
    assert "by chance" not in str(strong)


def test_few_draws_that_decide_are_in_the_report(monkeypatch):
    changed(monkeypatch, diagonal_share=0.9)
    report = ksd_report(*regression(), predictive=False)
    assert report.verdict.status == "passed"  # by the tilted kernel, too
    assert "1 % of the draws hold 90 % of the statistic without a tilt" in str(report)
    assert report.to_dict()["sampler"]["diagonal_share"] == 0.9


def test_a_wrong_model_with_right_draws():
    model, draws = regression(curve=2.0)
    report = ksd_report(model, draws, num_draws=60)
    assert report.rejected
    assert re.fullmatch(
        r"Rejected: the model does not fit y \(p = 0\.016\)\. The draws passed\.",
        report.verdict.headline,
    )
    assert "depends on the inputs" in str(report.verdict.details)
    assert report.verdict.next_step.startswith("Add a nonlinear term")
    without = ksd_report(model, draws, predictive=False)
    assert not without.rejected
    assert without.check is None
    assert without.verdict.headline == "Passed: the draws are consistent with the posterior."


def test_few_draws_are_a_warning():
    model, draws = regression()
    report = ksd_report(model, draws.isel(draw=slice(40)), predictive=False)
    assert report.verdict.headline.startswith("Passed, with warnings:")
    assert "The effective sample size is below 400" in str(report)


def test_many_draws_are_thinned_and_the_page_says_so():
    model, draws = regression()
    report = ksd_report(model, draws, max_draws=500, predictive=False)
    assert report.test.attrs["n"] == 500
    assert "One in 2 of the 1,000 draws was used" in report.notes[0]
    assert "One in 2 of the 1,000 draws was used" in report.to_html()


def test_what_cannot_be_checked_is_named_and_the_rest_is_done():
    model, draws = regression()
    with model:
        pm.Bernoulli("switch", 0.5)
    posterior = draws["posterior"].to_dataset()
    posterior["switch"] = (("chain", "draw"), np.ones((4, 250), dtype=int))
    report = ksd_report(model, posterior, num_draws=60)
    assert report.test is None
    assert report.verdict.status == report.status == "cannot tell"
    assert report.reason == report.missing[0]
    assert "draws were not tested" in report.missing[0]
    assert "switch" in report.missing[0]
    assert report.check is not None
    assert report.to_dict()["complete"] is False
    # What ArviZ knows is told all the same.
    posterior["beta"][0] += 5
    assert "R-hat is above 1.01 for beta" in str(ksd_report(model, posterior, num_draws=60))
    with pytest.raises(ValueError, match="switch"):
        ksd_report(model, posterior, predictive=False)


def test_a_model_that_cannot_be_checked_is_named_in_the_verdict():
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.CustomDist("y", mu, logp=lambda value, mu: -((value - mu) ** 2), observed=np.zeros(9))
    draws = xr.Dataset({"mu": (("chain", "draw"), rng.normal(0, 19**-0.5, size=(4, 500)))})
    report = ksd_report(model, draws)
    assert report.verdict.headline == (
        "Cannot tell whether the model fits its data: it could not be checked. The draws passed."
    )
    assert report.verdict.status == "cannot tell"
    assert "not checked against its data" in report.missing[0]


def test_too_few_draws_for_the_level_are_no_pass():
    """A misfit that nobody could miss, and draws too few to reject anything."""
    model, draws = regression(curve=3.0)
    few = draws["posterior"].to_dataset().isel(draw=slice(0, 200))
    report = ksd_report(model, few, alpha=0.001, progressbar=False)
    assert report.check is None
    assert report.verdict.status == "cannot tell"
    assert "800 draws cannot reject at level 0.001; 999 or more are needed." in report.missing[0]


def test_what_other_libraries_warn_of_is_no_finding(monkeypatch):
    def noisy(*args, **kwargs):
        warnings.warn("install something", UserWarning, stacklevel=2)
        return ksd_ppc(*args, **kwargs)

    monkeypatch.setattr("pymc_ksd.report.run_checks.ksd_ppc", noisy)
    model, draws = regression()
    with pytest.warns(UserWarning, match="install something"):
        report = ksd_report(model, draws, num_draws=60, progressbar=False)
    assert report.verdict.status == "passed"
    assert "install" not in str(report)


@pytest.mark.slow
@pytest.mark.newer_stack
def test_a_table_that_cannot_be_made_does_not_lose_the_test(monkeypatch):
    def broken(*args, **kwargs):
        raise TypeError("no table today")

    monkeypatch.setattr("pymc_ksd.report.run_checks.with_moments", broken)
    for shift, status in {0.0: "passed", 1.0: "rejected"}.items():
        model, draws = regression(shift=shift)
        report = ksd_report(model, draws, predictive=False, progressbar=False)
        assert report.status == status
    assert report.summary is None
    assert report.missing == ("There is no summary table: no table today",)
    assert "no table today" in report.to_html()


def test_text_among_the_draws_is_left_out(good):
    model, draws = regression()
    posterior = draws["posterior"].to_dataset()
    named = posterior.assign(label=posterior["beta"].isel(term=0).astype(str))
    report = ksd_report(model, named, predictive=False, progressbar=False)
    assert report.summary.equals(good.summary)
    assert report.verdict.status == "passed"
    with pytest.raises(ValueError, match="numeric variables of `data`, got label"):
        ksd_report(model, named, var_names="label")


def test_divergences_are_counted_before_thinning():
    model, draws = regression()
    diverging = np.zeros((4, 250), dtype=bool)
    diverging[:, 1::2] = True
    draws["sample_stats"] = xr.DataTree(xr.Dataset({"diverging": (("chain", "draw"), diverging)}))
    report = ksd_report(model, draws, max_draws=500, predictive=False)
    assert "500 of 1,000 transitions diverged" in str(report)


def test_one_chain_and_few_draws_are_no_pass():
    model, draws = regression()
    single = ksd_report(model, draws.isel(chain=[0]), predictive=False).verdict
    assert single.headline.startswith("Passed, with warnings:")
    few = ksd_report(model, draws.isel(draw=slice(3)), predictive=False)
    assert few.verdict.status == "cannot tell"
    assert "at least 4 draws" in str(few)


@pytest.mark.slow
@pytest.mark.default_stack
def test_names_with_dollars_are_shown_as_they_are():
    rng = np.random.default_rng(0)
    with pm.Model(coords={"price": ["0$ to 5$", "$x_$"]}) as model:
        mu = pm.Normal("$x_$", dims="price")
        pm.Normal("y$_$", mu[0], 1.0, observed=rng.normal(size=30))
    draws = xr.Dataset(
        {"$x_$": (("chain", "draw", "price"), rng.normal(size=(4, 250, 2)))},
        coords={"price": ["0$ to 5$", "$x_$"]},
    )
    report = ksd_report(model, draws)
    assert "$x_$[0$ to 5$]" in report.to_html()


def test_draws_of_a_prior_are_called_draws():
    with pm.Model() as model:
        pm.Normal("mu")
    values = np.random.default_rng(0).normal(size=(4, 500))
    draws = xr.Dataset({"mu": (("chain", "draw"), values)})
    assert "the draws are consistent with the model" in str(ksd_report(model, draws))
    assert "the draws do not come from the model" in str(ksd_report(model, draws + 1))


def test_a_predictive_check_that_was_asked_for_needs_data():
    with pm.Model() as model:
        pm.Normal("mu")
    values = np.random.default_rng(0).normal(size=(4, 500))
    report = ksd_report(model, xr.Dataset({"mu": (("chain", "draw"), values)}), predictive=True)
    assert report.verdict.status == "cannot tell"
    assert report.missing == (
        "The model was not checked against its data: it has no observed data.",
    )


def test_a_model_without_data_needs_no_predictive_check(labelled):
    with pm.Model() as model:
        pm.Normal("mu")
    values = np.random.default_rng(0).normal(size=(4, 500))
    report = ksd_report(model, xr.Dataset({"mu": (("chain", "draw"), values)}))
    assert report.check is None
    assert report.notes == (LEVELS, "The model has no observed data to be checked against.")


def test_several_observed_variables_have_their_own_pictures():
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("a", mu, 1.0, observed=rng.normal(size=50))
        pm.Normal("b", mu, 1.0, observed=rng.normal(4, 1, size=50))
    draws = xr.Dataset({"mu": (("chain", "draw"), rng.normal(2, 0.1, size=(4, 250)))})
    report = ksd_report(model, draws, num_draws=60)
    assert set(report.to_dict()["predictive"]) == {"a", "b"}
    html = report.to_html()
    assert html.count("<img") == 3 + 4
    assert 'alt="The observed a, and what the model expects' in html
    # The wrong one is marked, in words, too.
    (told,) = re.findall(r'alt="The observed b, [^"]*is shaded. ([^"]*) Rejected at level', html)
    assert "than expected" in told
    assert told in str(report)


def test_the_page_needs_nothing_from_outside(page):
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<img") == 5
    assert not re.findall(r"(?:src|href)=[\"'](?!data:)", page)
    assert "http" not in re.sub(r"base64,[^\"]*", "", page)
    assert 'name="viewport"' in page
    assert "@media print" in page


def test_the_verdict_comes_first(page, good):
    text = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    assert text.index(good.verdict.headline) < text.index("<img") < text.index("What was found")


def test_labels_are_escaped(page):
    assert MARKUP not in page
    assert "&lt;script&gt;" in page


@pytest.mark.slow
@pytest.mark.newer_stack
def test_it_shows_itself_in_notebooks_and_terminals(good):
    html = good._repr_html_()
    assert "<html" not in html
    assert good.verdict.headline in html
    console = Console(file=io.StringIO(), width=120)
    console.print(good)
    shown = console.file.getvalue()
    assert good.verdict.headline in shown
    assert "bias_mean" in shown
    assert "p_value" in shown
    assert repr(good).startswith(good.verdict.headline)


def test_saving_writes_the_page_and_leaves_no_figures_open(good, tmp_path):
    before = plt.get_fignums()
    path = good.save(tmp_path / "report.html")
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert plt.get_fignums() == before


def test_the_dictionary_is_json(good):
    found = json.loads(json.dumps(good.to_dict(), allow_nan=False))
    assert found["sampler"]["p_value"] == float(good.test["p_value"])
    assert found["predictive"]["y"]["p_value"] == float(good.check["p_value"])
    assert found["summary"]["beta[constant]"]["p_value"] > 0.05
    moments, own = found["moments"], good.moments["beta"].sel(term="constant")
    assert moments["status"] == "passed"
    assert moments["reason"] == ""
    assert (moments["alpha"], moments["order"], moments["margin"]) == (0.025, 2, None)
    assert moments["p_value"] == float(good.moments["p_value"])
    assert moments["gain"] == float(good.moments["gain"])
    row = moments["parameters"]["beta[constant]"]
    assert row.pop("uncorrected") == ""  # in words
    names = [name for name in own["diagnostic"].values if name != "uncorrected"]
    assert row == {name: float(own.sel(diagnostic=name)) for name in names}
    assert moments["not_shown"] == []
    assert found["rejected"] is False


@pytest.mark.slow
@pytest.mark.default_stack
def test_long_tables_are_folded():
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        pm.Normal("theta", shape=60)
    draws = xr.Dataset({"theta": (("chain", "draw", "k"), rng.normal(size=(4, 250, 60)))})
    html = ksd_report(model, draws).to_html()
    assert "All 60 rows" in html
    assert html.count('<th scope="row">theta[') == 25 + 60


def test_neither_model_nor_draws_nor_random_state_are_changed():
    model, draws = regression()
    before, names = draws.copy(deep=True), list(model.named_vars)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    ksd_report(model, draws, num_draws=30)
    xr.testing.assert_identical(before, draws)
    assert list(model.named_vars) == names
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 2}, "alpha"),
        ({"alpha": 0.0005}, "at least 0.001"),
        ({"max_draws": 10}, "max_draws"),
        ({"num_draws": 10}, "num_draws"),
        ({"var_names": "gamma"}, "var_names.*gamma"),
    ],
)
def test_wrong_options_are_named(options, message):
    model, draws = regression()
    with pytest.raises(ValueError, match=message):
        ksd_report(model, draws, **options)
    with pytest.raises(TypeError, match="`data` must hold a sampler's draws"):
        ksd_report(model)


def test_report_hands_compile_options_on(monkeypatch):
    model, posterior = regression(n=20)
    seen = {}
    for name in ("diagnose_draws", "ksd_ppc"):
        original = getattr(run_checks, name)

        def recorded(*args, name=name, original=original, **options):
            seen[name] = options.pop("compile_kwargs")
            return original(*args, **options)

        monkeypatch.setattr(run_checks, name, recorded)
    options = {"mode": "FAST_COMPILE"}
    ksd_report(model, posterior, compile_kwargs=options, random_seed=0)
    assert seen == dict.fromkeys(("diagnose_draws", "ksd_ppc"), options)


def test_draws_are_read_scored_and_compared_once(monkeypatch):
    model, posterior = regression(n=20)
    counts = {}

    def counted(place):
        module, _, name = place.rpartition(".")
        original = getattr(import_module(module), name)

        def call(*args, **options):
            counts[name] = counts.get(name, 0) + 1
            return original(*args, **options)

        monkeypatch.setattr(place, call)

    counted("pymc_ksd.diagnostics.prepare.read_draws")
    counted("pymc_ksd.diagnostics.prepare.score_sample")
    counted("pymc_ksd.stats.statistics.evaluate_all_pairs")
    report = ksd_report(model, posterior, predictive=False)
    # By the reference once, and once by all other kernels; moments take no pairs.
    assert report.test.sizes["member"] == 6
    assert counts == {"read_draws": 1, "score_sample": 1, "evaluate_all_pairs": 2}
    assert report.test is not None
