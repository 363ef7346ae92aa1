"""Moments of draws: exact posteriors, planted errors, and when nothing can be said."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import special, stats

from pymc_ksd import Score, ksd_expectation, ksd_moments
from pymc_ksd.diagnostics.results import Uncorrected


def draws_of(**values):
    """Draws with the dims chain, draw and numbered others."""
    fields = {}
    for name, array in values.items():
        own = [f"{name}_dim_{axis}" for axis in range(array.ndim - 2)]
        fields[name] = (("chain", "draw", *own), array)
    return xr.Dataset(fields)


def of(result, name, diagnostic):
    return result[name].sel(diagnostic=diagnostic).values


@pytest.fixture(scope="module")
def normal():
    with pm.Model() as model:
        pm.Normal("mu", 2.0, 3.0)
        pm.HalfNormal("tau", 1.0)
    return model


def exact(rng, n_draws=500):
    return draws_of(
        mu=rng.normal(2, 3, size=(4, n_draws)), tau=np.abs(rng.normal(size=(4, n_draws)))
    )


def test_plain_columns_are_those_of_arviz(normal):
    draws = exact(np.random.default_rng(0))
    result = ksd_moments(normal, draws)
    table = az.summary(draws, round_to="none")
    for name in ("mu", "tau"):
        for diagnostic in ("mean", "sd", "mcse_mean"):
            assert of(result, name, diagnostic) == pytest.approx(
                float(table.loc[name, diagnostic]), rel=1e-9
            )


def test_corrected_means_of_exact_draws_are_nearly_exact(normal):
    draws = exact(np.random.default_rng(1))
    result = ksd_moments(normal, draws)
    assert result.attrs["status"] == "passed"
    error = of(result, "mu", "stein_mcse")
    assert error < 0.1 * of(result, "mu", "mcse_mean")
    assert of(result, "mu", "stein_mean") == pytest.approx(2.0, abs=4 * error)
    assert of(result, "mu", "stein_sd") == pytest.approx(3.0, abs=1e-2)
    # The mean of a half-normal variable, whose logarithm is what the sampler moves.
    error = of(result, "tau", "stein_mcse")
    assert of(result, "tau", "stein_mean") == pytest.approx(np.sqrt(2 / np.pi), abs=4 * error)
    assert error < 0.4 * of(result, "tau", "mcse_mean")
    assert of(result, "tau", "stein_sd") == pytest.approx(np.sqrt(1 - 2 / np.pi), abs=0.02)
    bias = (of(result, "mu", "mean") - 2) / 3
    assert of(result, "mu", "bias_mean") == pytest.approx(bias, abs=5e-3)
    assert float(result["gain"]) > 10


def test_errors_that_correlated_parameters_share_are_seen_in_each():
    covariance = np.array([[1.0, 0.98], [0.98, 1.0]])
    precision = np.linalg.inv(covariance)
    score = Score.from_callable(lambda x: -x @ precision, dim=2, names=["a", "b"])
    rng = np.random.default_rng(2)
    values = rng.multivariate_normal([0.3, 0.3], covariance, size=(4, 500))
    result = ksd_moments(score, draws_of(a=values[..., 0], b=values[..., 1]))
    assert result.attrs["status"] == "rejected"
    for j, name in enumerate("ab"):
        off = values[..., j].mean() / 1.0
        assert of(result, name, "bias_mean") == pytest.approx(off, abs=0.02)
        assert of(result, name, "p_mean") < 1e-6
        assert of(result, name, "p_sd") > 0.05


@pytest.mark.parametrize(("dim", "n_draws"), [(3, 250), (60, 500)])
def test_wrong_scale_of_one_parameter_is_found_and_measured(dim, n_draws):
    score = Score.from_callable(lambda x: -x, dim=dim, log_density=lambda x: -(x**2).sum(1) / 2)
    values = np.random.default_rng(3).normal(size=(4, n_draws, dim))
    values[..., 1] *= 1.25
    result = ksd_moments(score, draws_of(x=values))
    culprit = of(result, "x", "p_sd").argmin()
    assert culprit == 1
    assert result.attrs["status"] == "rejected"
    assert of(result, "x", "bias_sd")[1] == pytest.approx(0.25, abs=0.08)
    assert (of(result, "x", "p_sd")[[0, 2]] > 0.05).all()


def test_elements_of_simplex_ordered_and_matrix_variables_have_exact_means():
    with pm.Model() as model:
        pm.Dirichlet("weights", a=np.array([2.0, 3.0, 5.0]))
        pm.Normal(
            "cuts", 0, 1, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1, 1]
        )
    rng = np.random.default_rng(4)
    weights = rng.dirichlet([2, 3, 5], size=(4, 1000))
    cuts = np.sort(rng.normal(size=(4, 1000, 2)), axis=2)
    result = ksd_moments(model, draws_of(weights=weights, cuts=cuts))
    for name, truth in {
        "weights": np.array([0.2, 0.3, 0.5]),
        "cuts": np.array([-1, 1]) / np.sqrt(np.pi),
    }.items():
        error = of(result, name, "stein_mcse")
        np.testing.assert_array_less(np.abs(of(result, name, "stein_mean") - truth), 4.5 * error)
        assert (error < of(result, name, "mcse_mean")).all()
    assert float(result["p_value"]) > 0.01


def test_dims_labels_and_order_of_elements_are_kept():
    with pm.Model(coords={"school": ["A", "B", "C"]}) as model:
        pm.Normal("theta", [0.0, 10.0, 20.0], 1.0, dims="school")
    values = np.random.default_rng(5).normal([20.0, 0.0, 10.0], 1, size=(2, 300, 3))
    draws = xr.Dataset(
        {"theta": (("chain", "draw", "school"), values)}, coords={"school": ["C", "A", "B"]}
    )
    result = ksd_moments(model, draws)
    found = result["theta"].sel(diagnostic="stein_mean")
    assert found.dims == ("school",)
    for label, truth in {"A": 0, "B": 10, "C": 20}.items():
        assert float(found.sel(school=label)) == pytest.approx(truth, abs=0.01)


def test_deterministics_on_request_and_functions_of_draws(normal):
    draws = exact(np.random.default_rng(6), 1000)
    draws["double"] = 2 * draws["mu"] + 1
    draws["word"] = (("chain", "draw"), np.full((4, 1000), "a"))
    result = ksd_moments(normal, draws, var_names=["double"])
    assert set(result.data_vars) == {"double", "p_value", "gain"}
    assert of(result, "double", "stein_mean") == pytest.approx(5, abs=1e-2)
    with pytest.raises(ValueError, match=r"must name numeric variables of `data`.*got word"):
        ksd_moments(normal, draws, var_names=["word"])
    square = ksd_expectation(normal, draws, lambda posterior: posterior["mu"] ** 2)
    error = of(square, "expectation", "stein_mcse")
    assert error < 0.2 * of(square, "expectation", "mcse_mean")
    assert of(square, "expectation", "stein_mean") == pytest.approx(13, abs=4 * error)
    both = ksd_expectation(
        normal,
        draws,
        lambda posterior: {"positive": posterior["mu"] > 0, "tau": posterior["tau"] ** 2},
    )
    truth = stats.norm.cdf(2 / 3)
    error = of(both, "positive", "stein_mcse")
    assert of(both, "positive", "stein_mean") == pytest.approx(truth, abs=4 * error)
    # A name that a free variable has does not make a function that variable.
    assert of(both, "tau", "stein_mean") == pytest.approx(1.0, abs=0.05)


def test_elements_that_never_vary_say_nothing(normal):
    draws = exact(np.random.default_rng(7))
    draws["fixed"] = xr.full_like(draws["mu"], 3.0)
    result = ksd_moments(normal, draws, var_names=["mu", "fixed"])
    assert of(result, "fixed", "mean") == 3
    assert of(result, "fixed", "sd") == 0
    assert np.isnan(of(result, "fixed", "p_mean"))
    assert np.isfinite(float(result["p_value"]))


def test_what_is_not_finite_or_never_varies_is_not_certified(normal):
    draws = exact(np.random.default_rng(16), 2000)
    draws["hole"] = draws["mu"].where(draws["mu"] < 5)
    draws["fixed"] = xr.full_like(draws["mu"], 3.0)
    result = ksd_moments(normal, draws, var_names=["mu", "hole"], margin=0.5)
    assert np.isnan(of(result, "hole", "mean"))
    assert np.isfinite(of(result, "mu", "stein_mean"))
    assert result.attrs["status"] == "cannot tell"
    for margin in (None, 0.5):
        assert (
            ksd_moments(normal, draws, var_names="fixed", margin=margin).attrs["status"]
            == "cannot tell"
        )


def test_a_wrong_mean_is_no_error_of_the_standard_deviation():
    score = Score.from_callable(lambda x: -x, dim=1)
    values = np.random.default_rng(17).normal(0.5, 1, size=(4, 1000))
    result = ksd_moments(score, draws_of(x=values))
    assert of(result, "x", "p_mean") < 1e-10
    assert of(result, "x", "p_sd") > 0.05
    assert of(result, "x", "bias_sd") == pytest.approx(values.std() - 1, abs=0.01)


def test_one_parameter_that_does_not_mix_does_not_pass():
    score = Score.from_callable(lambda x: -x, dim=20)
    rng = np.random.default_rng(18)
    values = rng.normal(size=(4, 500, 20))
    values[..., 3] = 0.1 * np.cumsum(rng.normal(size=(4, 500)), axis=1)
    assert ksd_moments(score, draws_of(x=values)).attrs["status"] != "passed"


def test_certificates(normal):
    rng = np.random.default_rng(8)
    certified = ksd_moments(normal, exact(rng, 4000), margin=0.1)
    assert certified.attrs["status"] == "certified"
    few = ksd_moments(normal, exact(rng, 50), margin=0.1)
    assert few.attrs["status"] == "cannot tell"
    assert "draws would" in few.attrs["reason"]
    off = exact(rng, 4000)
    off["mu"] = off["mu"] + 0.5 * 3
    assert ksd_moments(normal, off, margin=0.1).attrs["status"] == "rejected"
    # Too far off to be corrected is outside, too.
    off["mu"] = off["mu"] + 5 * 3
    far = ksd_moments(normal, off, margin=0.1)
    assert np.isnan(of(far, "mu", "stein_mean"))
    assert far.attrs["status"] == "rejected"
    # A test rejects any error, however small; a margin says which ones matter.
    slightly = exact(rng, 25_000)
    slightly["mu"] = slightly["mu"] + 0.04 * 3
    assert ksd_moments(normal, slightly).attrs["status"] == "rejected"
    assert ksd_moments(normal, slightly, margin=0.1).attrs["status"] == "certified"


def test_draws_that_would_decide_take_the_test_that_decides():
    """All must be proven inside, each by itself; one outside, adjusted for their number."""
    score = Score.from_callable(lambda x: -x, dim=2, names=["a", "b"])
    rng = np.random.default_rng(24)
    for shift, tail in ((0.0, 0.05), (0.35, 0.05 / 8)):
        values = rng.normal([shift, 0.0], 1, size=(4, 40, 2))
        draws = draws_of(a=values[..., 0], b=values[..., 1])
        result = ksd_moments(score, draws, margin=0.25)
        assert result.attrs["status"] == "cannot tell"
        names = ("mean", "sd")
        bias, error = (
            np.array([[of(result, x, f"{kind}_{name}") for name in names] for x in "ab"])
            for kind in ("bias", "mcse_bias")
        )
        times = (stats.norm.isf(tail) * error / (np.abs(bias) - 0.25)) ** 2
        outside = np.abs(bias) > 0.25
        assert outside.any() == (shift > 0)
        needed = 160 * (times[outside].min() if shift else times.max())
        assert f"about {needed:,.0f} draws would" in result.attrs["reason"]


def test_every_missing_correction_has_its_reason(normal):
    draws = exact(np.random.default_rng(25))
    draws["fixed"] = xr.full_like(draws["mu"], 3.0)
    draws["hole"] = draws["mu"].where(draws["mu"] < 5)
    result = ksd_moments(normal, draws, var_names=["mu", "fixed", "hole"])
    why = {name: int(of(result, name, "uncorrected")) for name in ("mu", "fixed", "hole")}
    expected = [Uncorrected.NO, Uncorrected.CONSTANT, Uncorrected.NOT_FINITE]
    assert list(why.values()) == expected
    draws["mu"] = draws["mu"] + 9
    assert of(ksd_moments(normal, draws), "mu", "uncorrected") == Uncorrected.TOO_FAR
    # Chains in two modes, each of which is right where it is.
    score = Score.from_callable(lambda x: -x + 5 * np.tanh(5 * x), 1)
    rng = np.random.default_rng(26)
    modes = rng.normal([[-5.0], [5.0]], 1, size=(2, 500))
    apart = ksd_moments(score, draws_of(x=modes))
    assert of(apart, "x", "uncorrected") == Uncorrected.DISAGREE
    # One draw with an enormous score.
    values = rng.normal(size=(4, 250))
    values[0, 7] = 4.0
    steep = Score.from_callable(lambda x: np.where(x >= 3.99, -1e4, -x), 1)
    few = ksd_moments(steep, draws_of(x=values))
    assert of(few, "x", "uncorrected") == Uncorrected.FEW_DECIDE
    narrow = Score.from_callable(lambda x: -x, 1)
    thin = ksd_moments(narrow, draws_of(x=0.3 * rng.normal(size=(4, 500))))
    assert np.isfinite(of(thin, "x", "stein_mean"))
    assert of(thin, "x", "uncorrected") == Uncorrected.SD_TOO_FAR


def test_chains_that_disagree_stand_still_or_are_short_cannot_tell():
    score = Score.from_callable(lambda x: -x, dim=2)
    rng = np.random.default_rng(9)
    apart = rng.normal(size=(2, 500, 2)) * 0.3 + np.array([-1, 1])[:, None, None]
    result = ksd_moments(score, draws_of(x=apart))
    assert result.attrs["status"] != "passed"
    frozen = np.repeat(rng.normal(size=(4, 1, 2)), 200, axis=1)
    assert ksd_moments(score, draws_of(x=frozen)).attrs["status"] == "cannot tell"
    slow = np.empty((4, 100, 2))
    slow[:, 0] = rng.normal(size=(4, 2))
    for draw in range(1, 100):
        slow[:, draw] = 0.98 * slow[:, draw - 1] + np.sqrt(1 - 0.98**2) * rng.normal(size=(4, 2))
    assert ksd_moments(score, draws_of(x=slow)).attrs["status"] == "cannot tell"


def test_few_draws_with_huge_scores_do_not_hide_an_error():
    """A regression's prior draws: a small scale makes the scores of a few of them enormous."""
    rng = np.random.default_rng(10)
    x = rng.normal(size=100)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", slope * x, sigma, observed=x + 0.5 * rng.normal(size=100))
    prior = draws_of(slope=rng.normal(size=(4, 250)), sigma=np.abs(rng.normal(size=(4, 250))))
    result = ksd_moments(model, prior)
    assert result.attrs["status"] != "passed"


@pytest.mark.parametrize("order", ["auto", 1, 2])
def test_orders(normal, order):
    draws = exact(np.random.default_rng(11))
    result = ksd_moments(normal, draws, order=order)
    assert order == "auto" or result.attrs["order"] == order
    assert of(result, "mu", "stein_mean") == pytest.approx(2.0, abs=0.02)


def test_draws_that_are_too_many_to_hold_have_the_same_moments(normal, monkeypatch):
    draws = exact(np.random.default_rng(12), 3_000)
    held = ksd_moments(normal, draws)
    monkeypatch.setattr("pymc_ksd.samples.stream._LARGE_NUMBERS", 1_000)
    monkeypatch.setattr("pymc_ksd.samples.stream._STRETCH_NUMBERS", 3_000)
    monkeypatch.setattr("pymc_ksd.diagnostics.corrected_means._SERIES_NUMBERS", 50_000)
    pytest.importorskip("dask")
    streamed = ksd_moments(normal, draws.chunk(draw=500))
    for name in ("mu", "tau"):
        for diagnostic in ("mean", "sd"):
            assert of(streamed, name, diagnostic) == pytest.approx(
                float(of(held, name, diagnostic)), rel=1e-9
            )
        np.testing.assert_allclose(
            of(streamed, name, "stein_mean"),
            of(held, name, "stein_mean"),
            atol=0.2 * of(held, name, "mcse_mean"),
        )
        assert of(streamed, name, "stein_mcse") == pytest.approx(
            float(of(held, name, "stein_mcse")), rel=0.3
        )
    assert streamed.attrs["n"] == 12_000


def test_functions_of_streamed_draws_may_take_any_variable(normal, monkeypatch):
    pytest.importorskip("dask")
    draws = exact(np.random.default_rng(19), 3_000)
    draws["double"] = 2 * draws["mu"]

    def rare(posterior):
        return {"double": posterior["double"] ** 2, "rare": posterior["double"] > 25}

    held = ksd_expectation(normal, draws, rare)
    monkeypatch.setattr("pymc_ksd.samples.stream._LARGE_NUMBERS", 1_000)
    monkeypatch.setattr("pymc_ksd.samples.stream._STRETCH_NUMBERS", 3_000)
    monkeypatch.setattr("pymc_ksd.diagnostics.scored_draws._SOME", 20)
    streamed = ksd_expectation(normal, draws.chunk(draw=500), rare)
    for name in ("double", "rare"):
        np.testing.assert_allclose(of(streamed, name, "mean"), of(held, name, "mean"), rtol=1e-9)
    assert of(held, "rare", "mean") > 0


@pytest.fixture
def streamed(monkeypatch):
    """Few draws are too many to hold, and read in short stretches."""
    pytest.importorskip("dask")
    monkeypatch.setattr("pymc_ksd.samples.stream._LARGE_NUMBERS", 1_000)
    monkeypatch.setattr("pymc_ksd.samples.stream._STRETCH_NUMBERS", 20_000)


@pytest.mark.parametrize(("correlation", "gains"), [(0.0, True), (0.9, False)])
def test_effective_number_of_streamed_draws_is_that_of_all(streamed, correlation, gains):
    """Products of 20 coordinates, 230 features, take more draws than stand for all of them."""
    score = Score.from_callable(lambda x: -x, dim=20)
    values = np.random.default_rng(20).normal(size=(4, 3_000, 20))
    for draw in range(1, 3_000):
        values[:, draw] *= np.sqrt(1 - correlation**2)
        values[:, draw] += correlation * values[:, draw - 1]
    result = ksd_expectation(
        score,
        draws_of(x=values).chunk(draw=500),
        lambda posterior: posterior["x"][..., 0] * posterior["x"][..., 1],
    )
    error = of(result, "expectation", "stein_mcse")
    assert (error < 0.1 * of(result, "expectation", "mcse_mean")) == gains


def test_streamed_array_may_have_any_name(normal, streamed):
    with pm.Model() as model:
        pm.Normal("mu", 2.0, 3.0)
    array = exact(np.random.default_rng(21), 500)["mu"]
    for name in ("mu", "other", None):
        result = ksd_moments(model, array.rename(name).chunk(draw=100))
        assert of(result, "mu", "mean") == pytest.approx(float(array.mean()))
        found = ksd_expectation(model, array.rename(name), lambda posterior: posterior["mu"])
        assert of(found, "expectation", "mean") == pytest.approx(float(array.mean()))
    with pytest.raises(ValueError, match=r"lacks the variable\(s\) mu, tau .* it has other"):
        ksd_moments(normal, array.rename("other").chunk(draw=100))


@pytest.mark.parametrize("draw", [650, 651], ids=["among few", "among all"])
def test_streamed_points_without_score_are_numbered_among_all(streamed, monkeypatch, draw):
    monkeypatch.setattr("pymc_ksd.diagnostics.scored_draws._SOME", 140)
    monkeypatch.setattr("pymc_ksd.samples.stream._STRETCH_NUMBERS", 300)
    score = Score.from_callable(lambda x: np.where(x > 9, np.nan, -x), 1)
    values = np.random.default_rng(22).normal(size=(2, 700))
    values[1, draw] = 10.0
    row = 2 * draw + 1
    with pytest.raises(ValueError, match=rf"1 of 1400 points have no .* \(rows {row}\)"):
        ksd_moments(score, draws_of(x=values).chunk(draw=100))


def test_streamed_draws_outside_the_support_are_named_by_their_own_place(
    normal, streamed, monkeypatch
):
    monkeypatch.setattr("pymc_ksd.diagnostics.moments._SOME_DRAWS", 200)
    draws = exact(np.random.default_rng(23), 500)
    draws["tau"].values[1, 330] = -1.0
    with pytest.raises(
        ValueError, match="outside the support of 'tau', first in chain 1, draw 330"
    ):
        ksd_moments(normal, draws.chunk(draw=100))


def test_results_survive_a_file(normal, tmp_path):
    result = pm.ksd_moments(normal, exact(np.random.default_rng(13)), margin=0.5)
    result.to_netcdf(tmp_path / "moments.nc", engine="h5netcdf")
    again = xr.load_dataset(tmp_path / "moments.nc", engine="h5netcdf")
    xr.testing.assert_allclose(again, result)
    assert again.attrs["status"] == result.attrs["status"]


def test_bad_input(normal):
    draws = exact(np.random.default_rng(14), 50)
    with pytest.raises(ValueError, match="`order` must be 'auto', 1 or 2, got 3"):
        ksd_moments(normal, draws, order=3)
    with pytest.raises(ValueError, match="`margin` must be positive"):
        ksd_moments(normal, draws, margin=-1)
    with pytest.raises(TypeError, match="`data` must hold a sampler's draws"):
        ksd_moments(normal, np.zeros(10))
    with pytest.raises(TypeError, match="`function` must take the posterior"):
        ksd_expectation(normal, draws, "mu")
    with pytest.raises(ValueError, match="must return a DataArray with the dims 'chain'"):
        ksd_expectation(normal, draws, lambda posterior: posterior["mu"].mean())


def test_caller_keeps_what_is_theirs(normal):
    draws = exact(np.random.default_rng(15))
    before, state = draws.copy(deep=True), np.random.get_state()[1].copy()  # noqa: NPY002
    ksd_moments(normal, draws)
    xr.testing.assert_identical(draws, before)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def level(dim, correlation, n_draws, runs, seed, transform):
    """The share of exact autoregressive draws that are rejected."""
    rng = np.random.default_rng(seed)
    score = Score.from_callable(
        transform[1], dim=dim, log_density=transform[2] if len(transform) > 2 else None
    )
    rejected = 0
    for _ in range(runs):
        values = rng.normal(size=(4, n_draws, dim))
        for draw in range(1, n_draws):
            values[:, draw] *= np.sqrt(1 - correlation**2)
            values[:, draw] += correlation * values[:, draw - 1]
        draws = transform[0](values)[..., 0] if dim == 1 else transform[0](values)
        result = ksd_moments(score, draws_of(x=draws), progressbar=False)
        rejected += float(result["p_value"]) <= 0.05
    return rejected


TARGETS = {
    "normal": (lambda u: u, lambda x: -x, lambda x: -(x**2).sum(1) / 2),
    "logarithm of a gamma": (
        lambda u: np.log(special.gammainccinv(2, special.ndtr(-u))),
        lambda x: 2 - np.exp(x),
        lambda x: (2 * x - np.exp(x)).sum(1),
    ),
}


@pytest.mark.slow
@pytest.mark.newer_stack
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dim", "correlation"), [(1, 0.8), (10, 0.0), (10, 0.8), (50, 0.0)])
def test_exact_draws_keep_the_level(target, dim, correlation):
    # 5 % of 60 are 3; more than nine are chance once in 900 times.
    assert level(dim, correlation, 250, 60, dim, TARGETS[target]) <= 9


def test_a_quantity_that_is_not_finite_does_not_pass(normal):
    draws = exact(np.random.default_rng(25), 500)
    for number in (np.nan, np.inf):
        draws["hole"] = draws["mu"].where(draws["mu"] < float(draws["mu"].max()), number)
        result = ksd_moments(normal, draws, var_names=["mu", "hole"])
        assert result.attrs["status"] == "cannot tell"
        assert "1 of 2 quantities are not finite" in result.attrs["reason"]


def test_a_name_twice_is_one_variable(normal):
    draws = exact(np.random.default_rng(26), 100)
    draws["none"] = (("chain", "draw", "nothing"), np.ones((4, 100, 0)))
    result = ksd_moments(normal, draws, var_names=["mu", "mu", "none"])
    assert [name for name in result if "diagnostic" in result[name].dims] == ["mu"]
    with pytest.raises(ValueError, match="variables of `data` that have elements"):
        ksd_moments(normal, draws, var_names="none")


def test_what_features_hardly_see_is_not_certified():
    """Weights of two modes are wrong, which the features see in part."""
    centre, weight = 1.5, 0.6
    score = Score.from_callable(
        lambda x: centre * np.tanh(centre * x) - x,
        dim=1,
        log_density=lambda x: (np.logaddexp(centre * x, -centre * x) - x**2 / 2)[:, 0],
    )
    rng = np.random.default_rng(27)
    signs = np.where(rng.uniform(size=(4, 5_000)) < weight, 1, -1)
    off = ksd_moments(score, draws_of(x=rng.normal(centre * signs, 1)), margin=0.1)
    assert 0.04 < of(off, "x", "bias_mean") < 0.1 < 0.16  # the last is what it really is
    assert off.attrs["status"] != "certified"


def test_functions_of_draws_return_a_number_for_each(normal):
    draws = exact(np.random.default_rng(28), 50)

    def adds(posterior):
        posterior["mu"] = posterior["mu"] * 0 + posterior["tau"]
        return posterior["mu"]

    before = draws.copy(deep=True)
    ksd_expectation(normal, draws, adds)
    xr.testing.assert_identical(draws, before)
    for function, message in (
        (lambda posterior: posterior["mu"].isel(draw=slice(9)), "every chain and draw"),
        (lambda posterior: {}, "at least one array"),
    ):
        with pytest.raises(ValueError, match=message):
            ksd_expectation(normal, draws, function)


def test_fits_are_no_draws():
    with pm.Model() as model:
        pm.Normal("x")
        fit = pm.fit(2, progressbar=False)
    with pytest.raises(TypeError, match=r"got MeanField\. Give draws of it, such as its `sample"):
        ksd_moments(model, fit)


def test_nothing_is_corrected_where_one_parameter_is_far_off(rng):
    """A hierarchy far from its posterior: others' corrections would point anywhere."""
    values = rng.normal([0.0, 0.3, 4.0], size=(4, 250, 3))
    draws = xr.Dataset({"x": (("chain", "draw", "k"), values)})
    score = Score.from_callable(lambda x: -x, dim=3)
    found = ksd_moments(score, draws)["x"]
    np.testing.assert_array_equal(found.sel(diagnostic="uncorrected"), [7, 7, 4])
    assert np.isnan(found.sel(diagnostic=["stein_mean", "stein_sd", "bias_mean"])).all()
    assert found.sel(diagnostic="p_mean", k=1) < 1e-6  # it is tested all the same
    near = ksd_moments(score, draws.isel(k=[0, 1, 1]))["x"]
    assert np.isfinite(near.sel(diagnostic="bias_mean")).all()
