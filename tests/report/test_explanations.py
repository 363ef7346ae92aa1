"""Results in words: what they say, to whom, and that labels cannot break out of HTML."""

import io

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from rich.console import Console

from pymc_ksd import Score, explain, ksd, ksd_evolution, ksd_ppc, ksd_test
from pymc_ksd.diagnostics.results import parameter_sizes
from pymc_ksd.report.convergence import arviz_findings
from pymc_ksd.report.explanations import low_share

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
    assert words.findings[0].advice[0].startswith("Most of the discrepancy comes from bad")
    assert [name for name, _, _ in words.numbers] == ["p-value", "statistic", "ess_ksd"]


def test_data_that_fit_get_a_warning_about_evidence(two_variables, rng):
    data = {"good": rng.normal(size=200), "bad": rng.normal(size=200)}
    words = explain(ksd_test(two_variables, data, random_seed=0))
    assert words.status == "passed"
    assert "No evidence against a model is not evidence for it" in str(words)


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
    assert "hardly more than the first" in headline(words)
    exact = ksd_evolution(STANDARD, draws_of(rng.normal(size=(4, 1000, 2))))
    assert explain(exact).status == "passed"


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
    assert "residuals" in words.findings[0].advice[0]  # whose mean is off, too
    assert "changes with the inputs" in words.findings[0].advice[1]
    assert "lenient" in words.findings[1].advice[0]


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
    assert advice.count("The misfit changes with the inputs") == 1
    assert "[2]" in advice


def test_a_p_value_near_the_level_may_be_chance(rng):
    result = ksd_test(STANDARD, rng.normal(size=(100, 2)), random_seed=0)
    advice = {
        p: "\n".join(explain(result.assign(p_value=p)).findings[0].advice)
        for p in (0.001, 0.04, 0.3)
    }
    assert ["by chance" in text for text in advice.values()] == [False, True, False]


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
    assert "Fewer than 400 effective draws of x" in text
    assert f"{int(statistics['diverging'].sum())} of 800 transitions diverged" in text
    assert "800 transitions reached the largest depth" in text
    assert "E-BFMI is below 0.3 in chain 0, 1, 2, 3" in text


def test_arviz_says_what_it_cannot_know(rng):
    (single,) = arviz_findings(draws_of(rng.normal(size=(1, 500, 2))))
    assert single.status == "unknown"
    (few,) = arviz_findings(draws_of(rng.normal(size=(4, 3, 2))))
    assert "at least 4 draws" in few.headline
