"""Results in words: what they say, to whom, and that labels cannot break out of HTML."""

import io
import re

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from rich.console import Console

from pymc_ksd import Score, explain, ksd, ksd_evolution, ksd_moments, ksd_ppc, ksd_test
from pymc_ksd.diagnostics.results import Uncorrected, parameter_sizes
from pymc_ksd.diagnostics.sentences import EXTENSIONS
from pymc_ksd.models.lattice import kind_of_outcome
from pymc_ksd.report.convergence import arviz_findings, worst_numbers
from pymc_ksd.report.explanations import low_share
from pymc_ksd.report.misfits import how_to_extend

STANDARD = Score.from_callable(lambda x: -x, dim=2)


def draws_of(values, **groups):
    return xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"x": (("chain", "draw", "k"), values)}), **groups}
    )


def headline(explanation):
    return explanation.findings[0].headline


@pytest.fixture(scope="module")
def two_variables():
    with pm.Model() as model:
        pm.Normal("good")
        pm.Normal("bad")
    return model


def test_rejected_data_name_what_contributes_most(two_variables, rng):
    data = {"good": rng.normal(size=200), "bad": rng.normal(1.0, 1.0, size=200)}
    words = explain(ksd_test(two_variables, data, random_seed=0))
    assert words.status == "rejected"
    assert headline(words).startswith("Rejected at level 0.05")
    evidence, contributes = words.findings[0].details
    assert "gives the strongest evidence: it is a wide one, so the error is global" in evidence
    assert words.findings[0].next_step.startswith("Compare draws from the model with the data")
    assert contributes.startswith("Most of the discrepancy comes from bad")
    assert [name for name, _, _ in words.numbers] == ["p-value", "statistic", "ess_ksd"]


def test_data_that_fit_get_a_warning_about_evidence(two_variables, rng):
    data = {"good": rng.normal(size=200), "bad": rng.normal(size=200)}
    words = explain(ksd_test(two_variables, data, random_seed=0))
    assert words.status == "passed"
    assert "A pass does not prove the model right" in str(words)


def test_draws_get_advice_about_samplers(labelled):
    model, posterior = labelled
    passed = explain(ksd_test(model, posterior, random_seed=0))
    assert passed.status == "passed"
    assert "modes that no chain has visited" in str(passed)
    # What was computed from the former draws would tell that they were changed.
    shifted = posterior.drop_vars("shifted").assign(mu=posterior["mu"] + 2)
    rejected = explain(ksd_test(model, shifted, random_seed=0))
    assert rejected.status == "rejected"
    assert "R-hat" in str(rejected)


def test_measures_name_parameters_that_are_worth_little(rng):
    values = rng.normal([0.0, 0.5], 1.0, size=(4, 500, 2))
    words = explain(ksd(STANDARD, draws_of(values)))
    assert words.status == "warning"
    assert "x[1]" in words.findings[0].advice[0]
    assert explain(ksd(STANDARD, draws_of(rng.normal(size=(4, 500, 2))))).status == "passed"


def test_evolution_that_levels_off_is_a_warning(rng):
    biased = ksd_evolution(STANDARD, draws_of(rng.normal(size=(4, 1000, 2)) + 0.5))
    words = explain(biased)
    assert words.status == "warning"
    assert "hardly better than after the first" in headline(words)
    exact = ksd_evolution(STANDARD, draws_of(rng.normal(size=(4, 1000, 2))))
    assert explain(exact).status == "passed"
    # A draw with a huge score makes ess_ksd jump while the discrepancy stays.
    jumps = biased.copy(deep=True)
    jumps["ess_ksd"][-20:] *= 2
    assert explain(jumps).status == "warning"


@pytest.fixture(scope="module")
def checked():
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, size=150)
    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.Normal("curved", slope * x, 1.0, observed=x**2 + rng.normal(size=150))
        pm.Normal("noise", 0.0, 1.0, observed=rng.normal(size=150))
    draws = xr.Dataset({"slope": (("chain", "draw"), 0.1 * rng.normal(size=(2, 60)))})
    return ksd_ppc(model, draws, num_draws=60, random_seed=0)


def test_checks_of_several_variables_start_with_the_misfit(checked):
    words = explain(checked)
    assert [finding.status for finding in words.findings] == ["rejected", "passed"]
    assert "curved" in headline(words)
    residuals, inputs, marked, observations = words.findings[0].details
    assert "residuals" in residuals  # whose mean is off, too
    assert inputs == "The misfit depends on the inputs."
    assert marked.startswith("In the data, ")
    assert "than expected" in marked
    assert re.match(r"The observations that contribute most: curved\[\d+\], curved", observations)
    assert "heavier tails or skewness" in words.findings[0].next_step
    assert "lenient" in words.findings[1].details[0]


def test_extensions_follow_what_is_marked(checked):
    one = checked.sel(variable="curved").assign_attrs(outcome="curved: count\nnoise: x")
    as_marked = one["marked_as"].copy(data=np.full(one["marked_as"].shape, "wider"))
    assert "nonlinear" in how_to_extend(one, "inputs")
    assert "negative binomial" in how_to_extend(one.assign(marked_as=as_marked), "inputs")
    # A stretch that says nothing clear changes nothing.
    more = one.drop_dims("marked").assign(
        marked_from=("marked", [0.0, 1.0]),
        marked_to=("marked", [1.0, 2.0]),
        marked_as=("marked", ["different", "wider"]),
    )
    assert "negative binomial" in how_to_extend(more, "inputs")


@pytest.mark.parametrize("strongest", list(EXTENSIONS))
@pytest.mark.parametrize("outcome", ["continuous", "count", "binary", "category"])
def test_extensions_suit_the_likelihood(checked, outcome, strongest):
    one = checked.sel(variable="curved").assign_attrs(outcome=f"curved: {outcome}\nnoise: x")
    step = how_to_extend(one, strongest)
    for word in ("transform", "log", "scale", "skewness"):
        assert word not in step or (outcome, word) in {
            ("continuous", "scale"),
            ("continuous", "skewness"),
        }
    if strongest in ("residuals", "parameters"):
        assert ("negative binomial" in step) == (outcome == "count")


@pytest.mark.parametrize(
    ("variable", "kind"),
    [
        (pm.Normal.dist(), "continuous"),
        (pm.Poisson.dist(2.0), "count"),
        (pm.Bernoulli.dist(0.5), "binary"),
        (pm.Categorical.dist([0.5, 0.5]), "category"),
        (pm.Multinomial.dist(3, [0.5, 0.5]), "category"),
    ],
)
def test_kinds_of_outcomes(variable, kind):
    assert kind_of_outcome(variable) == kind


def test_many_inputs_are_compared_one_by_one_and_named():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(150, 5))
    with pm.Model() as model:
        slopes = pm.Normal("slopes", shape=5)
        pm.Normal("y", x @ slopes, 1.0, observed=3 * x[:, 2] ** 2 + rng.normal(size=150))
    draws = xr.Dataset({"slopes": (("chain", "draw", "k"), 0.1 * rng.normal(size=(2, 30, 5)))})
    check = ksd_ppc(model, draws, num_draws=40, random_seed=0)
    assert sum(str(name).startswith("inputs: ") for name in check["comparison"].values) == 5
    words = explain(check)
    assert words.status == "rejected"
    advice = "\n".join(words.findings[0].advice)
    assert advice.count("The misfit depends on the inputs, most of all on") == 1
    assert "[2]" in advice


def test_a_p_value_near_the_level_may_be_chance(rng):
    result = ksd_test(STANDARD, rng.normal(size=(100, 2)), random_seed=0)
    advice = {
        p: "\n".join(explain(result.assign(p_value=p)).findings[0].advice)
        for p in (0.001, 0.04, 0.3)
    }
    assert ["by chance" in text for text in advice.values()] == [False, True, False]


@pytest.mark.parametrize(("p_value", "once"), [(0.04995, "1 of 20 tests"), (0.02, "1 of 50")])
def test_weak_evidence_is_called_so(p_value, once, rng):
    result = ksd_test(STANDARD, rng.normal(size=(100, 2)), random_seed=0)
    weak = explain(result.assign(p_value=p_value))
    assert weak.status == "rejected"
    assert "weak evidence that the data do not come from the model" in headline(weak)
    assert once in weak.findings[0].details[0]
    assert weak.findings[0].next_step.startswith("Repeat the test with new data")


@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_the_smallest_p_value_there_is_is_not_called_weak(alpha, rng):
    result = ksd_test(STANDARD, rng.normal(3, 1, size=(100, 2)), random_seed=0, alpha=alpha)
    words = explain(result)
    assert float(result["p_value"]) == 1 / 1001
    assert "weak" not in str(words)
    assert "by chance" not in str(words)


def test_weak_evidence_against_a_fitted_model_is_called_so(checked):
    rejected = checked["p_value"].copy(data=[0.045, 0.6])
    words = explain(checked.assign(p_value=rejected))
    assert headline(words) == (
        "Rejected at level 0.05 (p = 0.045): weak evidence that the model does not fit curved."
    )
    assert "up to 1 of 22 checks" in words.findings[0].details[0]
    assert words.findings[0].next_step.startswith("Repeat the check with other data")
    assert "weak" not in str(explain(checked))  # as small as 60 draws allow


CANNOT_TELL = {"status": "cannot tell", "reason": "The chains disagree (R-hat 3.1)."}


def test_a_test_that_cannot_tell_says_why_and_what_to_do(rng):
    result = ksd_test(STANDARD, draws_of(rng.normal(size=(4, 250, 2))), random_seed=0)
    words = explain(result.assign_attrs(CANNOT_TELL))
    assert words.status == "cannot tell"
    assert headline(words) == (
        "Cannot tell whether the draws come from the model. The chains disagree (R-hat 3.1)."
    )
    assert len(words.findings[0].advice) == 1
    numbers = {name: (value, meaning) for name, value, meaning in words.numbers}
    assert numbers["p-value"][1] == "not meaningful here"
    assert numbers["ESS"][1] == "effective sample size of 1,000 draws"
    assert "consistent" not in str(words)
    assert "Cannot tell" in words._repr_html_()
    # Of chains that stand still no p-value is an answer.
    assert explain(result.assign(p_value=0.001).assign_attrs(CANNOT_TELL)).status == "cannot tell"


def test_a_check_that_cannot_tell_is_no_pass(checked):
    few = checked.assign(p_value=checked["p_value"].copy(data=[0.2, 0.6]))
    words = explain(few.assign_attrs(status="cannot tell", reason="There are 4 draws."))
    assert [finding.status for finding in words.findings] == ["cannot tell"] * 2
    assert headline(words) == "Cannot tell whether the model fits curved. There are 4 draws."
    # One variable of several that is rejected does not make the others so.
    one = explain(checked.assign_attrs(status="rejected", reason=""))
    assert [finding.status for finding in one.findings] == ["rejected", "passed"]


@pytest.mark.parametrize(("share", "told"), [(0.83, True), (0.5, False), (None, False)])
def test_few_draws_that_decide_are_told(share, told, rng):
    result = ksd_test(STANDARD, draws_of(rng.normal(size=(4, 250, 2))), random_seed=0)
    result.attrs.pop("diagonal_share", None)
    words = explain(result if share is None else result.assign_attrs(diagonal_share=share))
    assert words.status == "passed"
    found = [one for one in words.findings if one.status == "warning"]
    assert len(found) == told
    if told:
        assert found[0].headline == "1 % of the draws hold 83 % of the statistic."
        few = explain(result.assign_attrs(diagonal_share=share, n=40)).findings[1]
        assert few.headline == "1 of 40 draws holds 83 % of the statistic."
        # Said once, where it is why the test cannot tell.
        reason = {"status": "cannot tell", "reason": "1 % of the draws hold 83 % of the statistic."}
        assert len(explain(result.assign_attrs(diagonal_share=share, **reason)).findings) == 1


def test_too_few_replicates_need_more_of_them(rng):
    result = ksd_test(STANDARD, rng.normal(size=(100, 2)), n_bootstrap=10, random_seed=0)
    words = explain(result)
    assert words.status == "cannot tell"
    assert words.findings[0].advice == ("Test again with more replicates (n_bootstrap).",)


def test_draws_are_worth_at_most_their_number(rng):
    measures = ksd(STANDARD, draws_of(rng.normal(size=(4, 250, 2))))
    lucky = measures.assign(ess_ksd=1484.0)
    words = explain(lucky)
    assert headline(words) == "The discrepancy of 1,000 draws is that of exact draws."
    assert "1,484" not in str(words)
    assert "is that of 23 exact draws" in headline(explain(measures.assign(ess_ksd=23.0)))
    assert headline(explain(measures.assign(ess_ksd=1.2))).endswith("that of 1 exact draw.")
    result = ksd_test(STANDARD, draws_of(rng.normal(size=(4, 250, 2))), random_seed=0)
    assert "1,484" not in str(explain(result.assign(ess_ksd=1484.0)))


def test_single_parameters_are_not_blamed_or_cleared_where_they_are_correlated(rng):
    """With a correlation of 0.98 both means are off, and each number by itself looks good."""
    covariance = np.array([[1.0, 0.98], [0.98, 1.0]])
    precision = np.linalg.inv(covariance)
    score = Score.from_callable(lambda x: -x @ precision, dim=2)
    values = rng.multivariate_normal([0.3, 0.3], covariance, size=(4, 500))
    measures = ksd(score, draws_of(values))
    assert parameter_sizes(measures)[1][:, 0].min() > 1000
    assert ksd_test(score, draws_of(values), random_seed=0)["p_value"] <= 1 / 1001
    words = "\n".join(explain(measures).findings[0].advice)
    assert "cannot detect an error that correlated ones share" in words
    assert "ksd_test" in words
    low = explain(ksd(STANDARD, draws_of(rng.normal([0.0, 0.5], 1.0, size=(4, 500, 2)))))
    assert "other parameters may be the cause" in low.findings[0].details[0]


def test_exact_draws_of_many_parameters_are_not_called_biased(rng):
    """One parameter in hundreds has an `ess_ksd` below a fifth of `ess_bulk` by chance."""
    score = Score.from_callable(lambda x: -x, dim=50)
    low = []
    for _ in range(6):
        measures = ksd(score, draws_of(rng.normal(size=(4, 100, 50))))
        low += [own / usual for own, usual in parameter_sizes(measures)[1]]
        assert explain(measures).status == "passed"
    assert min(low) < low_share(1)  # the bound for one parameter would have called them so
    shares = [low_share(count) for count in (1, 10, 100)]
    np.testing.assert_allclose(shares, [1 / 5, 1 / (5 + np.log(10)), 1 / (5 + np.log(100))])


def test_results_that_come_back_from_a_file_can_be_explained(tmp_path, rng):
    result = ksd_test(STANDARD, rng.normal(size=(100, 2)), random_seed=0)
    result.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "result.nc", engine="h5netcdf") as tree:
        assert str(explain(tree)) == str(explain(result))


def test_other_datasets_are_refused():
    with pytest.raises(ValueError, match="must come from ksd_test"):
        explain(xr.Dataset({"a": 1.0}))
    with pytest.raises(TypeError, match="must be a Dataset or DataTree, got list"):
        explain([])


def test_html_escapes_labels_and_rich_does_not_read_them_as_markup(rng):
    with pm.Model() as model:
        pm.Normal("<b>[red]x")
        pm.Normal("y")
    data = {"<b>[red]x": rng.normal(3, 1, size=50), "y": rng.normal(size=50)}
    words = explain(ksd_test(model, data, random_seed=0))
    assert "<b>[red]x" in str(words)
    assert "&lt;b&gt;[red]x" in words._repr_html_()
    assert "<b>[red]x" not in words._repr_html_()
    console = Console(file=io.StringIO(), width=200)
    console.print(words)
    assert "<b>[red]x" in console.file.getvalue()


# Means and standard deviations


def moments_of(rng, shifts, scales, **options):
    """Moments of independent normal draws with wrong means and standard deviations."""
    dim = len(shifts)
    values = rng.normal(shifts, scales, size=(4, 500, dim))
    return ksd_moments(Score.from_callable(lambda x: -x, dim), draws_of(values), **options)


def test_moments_say_which_parameter_is_off_and_by_how_much(rng):
    moments = moments_of(rng, [0.0, -0.3, 0.15], [1.0, 0.6, 1.0])
    words = explain(moments)
    assert words.status == "rejected"
    worst, (first, other) = headline(words).split("). ")[1], words.findings[0].details
    mean, sd = re.fullmatch(
        r"x\[1\]: mean (0\.\d+) sd too low, sd (\d+) % too narrow; 1 more is off\.", worst
    ).groups()
    assert float(mean) == pytest.approx(0.3, abs=0.1)
    assert float(sd) == pytest.approx(40, abs=5)
    # In the draws' own units, too: the model's mean is 0, its sd 1.
    number = r"(-?\d\.\d+(?:e-\d+)?|0|1)"
    values = re.fullmatch(
        rf"x\[1\]: mean \S+ sd too low \({number} instead of {number}\), "
        rf"sd \d+ % too narrow \({number} instead of {number}\)",
        first,
    )
    assert list(map(float, values.groups())) == pytest.approx([-0.3, 0, 0.6, 1], abs=0.1)
    assert re.match(r"x\[2\]: mean 0\.\d+ sd too high \(", other)
    assert "stein_mean" in words.findings[0].next_step
    assert "x[0]" not in str(words)
    assert dict((name, value) for name, value, _ in words.numbers)["p-value"] == "< 1e-10"


def test_many_wrong_moments_are_counted(rng):
    words = explain(moments_of(rng, [0.3] * 12, [1.0] * 12))
    assert headline(words).endswith("; 11 more are off.")
    listed = [one for one in words.findings[0].details if "sd too high" in one]
    assert len(listed) == 5
    assert "And 7 more, see plot_ksd_moments." in words.findings[0].details


def test_moments_that_are_right(rng):
    moments = moments_of(rng, [0.0, 0.0], [1.0, 1.0])
    words = explain(moments)
    assert words.status == "passed"
    assert "no significant error in any mean or standard deviation" in headline(words)
    assert "as precise as those of more than 2,000,000,000 draws" in str(words)
    worth = {gain: str(explain(moments.assign(gain=gain))) for gain in (1.4, 22.4, np.nan)}
    assert ["(stein_mean)" in text for text in worth.values()] == [False, True, False]
    assert "(stein_mean) are as precise as those of 45,000 draws." in worth[22.4]
    assert "margin=0.1" in str(words)


def test_moments_that_cannot_tell_say_why(rng):
    moments = moments_of(rng, [0.0, 0.0], [1.0, 1.0])
    words = explain(moments.assign_attrs(CANNOT_TELL))
    assert words.status == "cannot tell"
    assert headline(words) == (
        "Cannot tell whether means and standard deviations are right. "
        "The chains disagree (R-hat 3.1)."
    )
    assert "stein_mean" not in str(words)


def test_certificates_in_words(rng):
    words = explain(moments_of(rng, [0.0, 0.0], [1.0, 1.0], margin=0.2))
    assert words.status == "certified"
    assert headline(words) == (
        "Certified: every mean is within 0.2 sd and every sd within 20 % of the model's "
        "(95 % confidence)."
    )
    assert "margin=0.1" not in str(words)
    outside = explain(moments_of(rng, [0.05, 0.4], [1.0, 1.0], margin=0.2))
    assert outside.status == "rejected"
    assert headline(outside).startswith("Rejected at level 0.05: outside the margin. x[1]: mean 0.")
    assert "x[0]" not in str(outside)  # off, and within the margin
    untold = explain(moments_of(rng, [0.0, 0.0], [1.0, 1.0], margin=0.01))
    assert untold.status == "cannot tell"
    assert "would be enough to" in headline(untold)


def test_what_is_too_far_off_has_no_number(rng):
    words = explain(moments_of(rng, [0.0, 3.0], [1.0, 1.0]))
    assert headline(words).endswith("x[1]: too far off to be corrected.")
    assert "nan" not in str(words)
    # Of a posterior that is right, it is said how many have none.
    moments = moments_of(rng, [0.0, 0.0], [1.0, 1.0])
    moments["x"].loc[{"k": 1, "diagnostic": ["stein_mean", "bias_mean"]}] = np.nan
    moments["x"].loc[{"k": 1, "diagnostic": "uncorrected"}] = Uncorrected.DISAGREE
    assert (
        "The means of 1 of 2 parameters cannot be corrected: parts of the draws disagree about the "
        "correction (1)."
    ) in str(explain(moments))


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (Uncorrected.FEW_DECIDE, "x[0]: off, but a few draws dominate the correction."),
        (Uncorrected.DISAGREE, "x[0]: off, but parts of the draws disagree about the correction."),
        (Uncorrected.TOO_FAR, "x[0]: too far off to be corrected."),
    ],
)
def test_what_is_off_and_has_no_number_says_why(why, words, rng):
    moments = moments_of(rng, [0.0, 0.0], [1.0, 1.0])
    names = ["stein_mean", "bias_mean", "stein_sd", "bias_sd", "p_mean", "uncorrected"]
    moments["x"].loc[{"k": 0, "diagnostic": names}] = [np.nan] * 4 + [1e-5, why]
    rejected = moments.assign(p_value=1e-5).assign_attrs(status="rejected")
    assert headline(explain(rejected)).endswith(words)
    # Only what is too far off is known to lie outside a margin.
    outside = explain(rejected.assign_attrs(margin=0.1))
    assert headline(outside).endswith(words) == (why == Uncorrected.TOO_FAR)


def test_an_sd_too_far_off_stands_beside_the_mean(rng):
    moments = moments_of(rng, [0.0, 0.4], [1.0, 1.0])
    names = ["stein_sd", "bias_sd", "p_sd", "uncorrected"]
    moments["x"].loc[{"k": 1, "diagnostic": names}] = [np.nan] * 2 + [0, Uncorrected.SD_TOO_FAR]
    words = headline(explain(moments))
    assert re.search(r"x\[1\]: mean 0\.\d+ sd too high, sd too far off to be corrected\.$", words)


def test_free_variables_that_are_not_stored_are_named(rng):
    moments = moments_of(rng, [0.0, 0.0], [1.0, 1.0])
    assert "Not shown" not in str(explain(moments))
    named = moments.assign_attrs(not_shown="1|g_offset\n1|h_offset")
    words = "Not shown, because the draws do not contain them: 1|g_offset and 1|h_offset."
    for status in ("passed", "rejected", "cannot tell"):
        assert words in explain(named.assign_attrs(status=status)).findings[0].advice


@pytest.mark.parametrize(("p_value", "weak"), [(0.03, True), (0.005, False)])
def test_weak_evidence_of_moments_is_called_so(p_value, weak, rng):
    moments = moments_of(rng, [0.0, 0.0], [1.0, 1.0])
    moments["x"].loc[{"k": 0, "diagnostic": ["bias_sd", "p_sd"]}] = [0.042, p_value]
    words = explain(moments.assign(p_value=p_value).assign_attrs(status="rejected"))
    assert ("weak evidence" in headline(words)) == weak
    assert headline(words).endswith("x[0]: sd 4.2 % too wide.")
    assert ("by chance in 1 of 33 tests" in str(words)) == weak


def test_moments_come_back_from_a_file(rng, tmp_path):
    moments = moments_of(rng, [0.0, 0.4], [1.0, 1.0], margin=0.1)
    moments.to_netcdf(tmp_path / "moments.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "moments.nc", engine="h5netcdf") as tree:
        assert str(explain(tree)) == str(explain(moments))


# ArviZ's diagnostics


def energy(values):
    return xr.Dataset({"energy": (("chain", "draw"), values)})


def test_arviz_finds_nothing_in_good_draws(rng):
    tree = draws_of(rng.normal(size=(4, 500, 2)), sample_stats=energy(rng.normal(size=(4, 500))))
    (finding,) = arviz_findings(tree)
    assert finding.status == "passed"


def test_arviz_finds_chains_that_disagree_few_draws_divergences_and_energy(rng):
    values = rng.normal(size=(4, 200, 2))
    values[0, :, 0] += 2
    values[:, :, 1] = np.cumsum(values[:, :, 1], axis=1)
    statistics = energy(np.cumsum(0.1 * rng.normal(size=(4, 200)), axis=1)).assign(
        diverging=(("chain", "draw"), rng.random((4, 200)) < 0.1),
        reached_max_treedepth=(("chain", "draw"), np.ones((4, 200), dtype=bool)),
    )
    found = arviz_findings(draws_of(values, sample_stats=statistics))
    text = "\n".join(finding.headline for finding in found)
    assert "R-hat is above 1.01 for x" in text
    assert "The effective sample size is below 400 for x" in text
    assert f"{int(statistics['diverging'].sum())} of 800 transitions diverged" in text
    assert "800 transitions reached the maximum tree depth" in text
    assert "E-BFMI is below 0.3 in chain 0, 1, 2, 3" in text


def test_arviz_says_what_it_cannot_know(rng):
    (single,) = arviz_findings(draws_of(rng.normal(size=(1, 500, 2))))
    assert single.status == "unknown"
    (few,) = arviz_findings(draws_of(rng.normal(size=(4, 3, 2))))
    assert "at least 4 draws" in few.headline


def test_worst_numbers_of_arviz_in_one_sentence(rng):
    values = rng.normal(size=(4, 250, 2))
    values[0] += 5
    assert re.fullmatch(
        r"The largest R-hat is [12]\.\d\d \(x\) "
        r"and the smallest bulk ESS is \d+ of 1,000 draws \(x\)\.",
        worst_numbers(draws_of(values)),
    )
    frozen = np.broadcast_to(rng.normal(size=(4, 1, 2)), (4, 250, 2))
    assert "nan" not in worst_numbers(draws_of(frozen))
    assert "R-hat" not in worst_numbers(draws_of(rng.normal(size=(1, 250, 2))))
    assert worst_numbers(draws_of(rng.normal(size=(4, 3, 2)))) == ""


def test_booleans_among_the_draws_are_no_obstacle(rng):
    values = rng.normal(size=(4, 250, 2))
    draws = draws_of(values)
    draws["posterior"] = draws["posterior"].to_dataset().assign(positive=lambda own: own["x"] > 0)
    assert [one.status for one in arviz_findings(draws)] == ["passed"]
    assert worst_numbers(draws)
