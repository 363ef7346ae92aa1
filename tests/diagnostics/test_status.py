"""Passed, rejected, or cannot tell: garbage never passes, and good draws are told."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.signal import lfilter

from pymc_ksd import DrawsWarning, Score, explain, ksd_moments, ksd_ppc, ksd_test
from pymc_ksd.diagnostics.results import status_of


def normal_score(dim, **options):
    return Score.from_callable(lambda x: -x, dim, **options)


def with_density(dim):
    return normal_score(dim, log_density=lambda x: -0.5 * (x**2).sum(axis=1))


def draws(values):
    return xr.Dataset({"x": (("chain", "draw", "axis")[: values.ndim], values)})


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(100, 2))
    with pm.Model() as model:
        a = pm.Normal("a", 0, 10)
        b = pm.Normal("b", 0, 10, shape=2)
        sigma = pm.HalfNormal("sigma", 5)
        outcome = 1 + inputs @ [2, -1] + rng.normal(size=100)
        pm.Normal("y", a + pm.math.dot(inputs, b), sigma, observed=outcome)
    return model


@pytest.mark.parametrize("seed", range(3))
def test_draws_of_the_prior_are_rejected(regression, seed):
    rng = np.random.default_rng(seed)
    prior = xr.Dataset(
        {
            "a": (("chain", "draw"), 10 * rng.normal(size=(4, 250))),
            "b": (("chain", "draw", "axis"), 10 * rng.normal(size=(4, 250, 2))),
            "sigma": (("chain", "draw"), np.abs(5 * rng.normal(size=(4, 250)))),
        }
    )
    result = ksd_test(regression, prior, random_seed=seed)
    assert result.attrs["status"] == "rejected"
    assert result["member_p_value"].sel(member="imq, tilted") <= 0.002
    # One kernel alone sees nothing: a few draws hold nearly all of it.
    assert result["member_p_value"].sel(member="imq") > 0.05
    assert result.attrs["diagonal_share"] > 0.9


def test_one_bad_draw_hides_no_shift(rng):
    """The density of a mean and the log of a scale, with a draw of a tiny scale."""

    def log_density(x):
        return -50 * x[:, 1] - 25 * (1 + x[:, 0] ** 2) * np.exp(-2 * x[:, 1])

    def score(x):
        precision = np.exp(-2 * x[:, 1])
        gradient = -50 * x[:, 0] * precision, -50 + 50 * (1 + x[:, 0] ** 2) * precision
        return np.stack(gradient, axis=1)

    values = rng.normal(size=(4, 250, 2)) * [0.14, 0.1] + [0.14, 0]  # one sd off
    values[0, 100, 1] = -6
    tilted = ksd_test(Score.from_callable(score, 2, log_density=log_density), draws(values))
    assert tilted.attrs["status"] == "rejected"
    alone = ksd_test(Score.from_callable(score, 2), draws(values))
    assert alone.attrs["status"] == "cannot tell"
    assert "1 % of the draws hold" in alone.attrs["reason"]


def test_a_few_draws_far_away_are_found_by_the_untilted_kernel(rng):
    values = rng.normal(size=(4, 250, 3))
    values[rng.random((4, 250)) < 0.05] += 7
    result = ksd_test(with_density(3), draws(values), random_seed=0)
    assert result.attrs["status"] == "rejected"
    assert result["member_p_value"].sel(member="imq") <= 0.002
    assert result["member_p_value"].sel(member="imq, tilted") > 0.01


def test_a_single_chain_is_told_by_its_halves(rng):
    values = rng.normal(size=(1, 500, 2))
    assert ksd_test(with_density(2), draws(values), random_seed=0).attrs["status"] == "passed"
    values[:, 250:] += 4
    drifted = ksd_test(normal_score(2), draws(values - 2), random_seed=0)
    assert drifted.attrs["status"] != "passed"


@pytest.mark.parametrize("score", [normal_score(2), with_density(2)], ids=["scores", "densities"])
def test_frozen_chains_do_not_pass(rng, score):
    frozen = np.repeat(rng.normal(size=(4, 1, 2)), 250, axis=1)
    result = ksd_test(score, draws(frozen), random_seed=0)
    assert result.attrs["status"] == "cannot tell"
    assert "do not move" in result.attrs["conclusion"]


def test_chains_that_disagree_do_not_pass(rng):
    for seed in range(3):
        values = rng.normal(size=(2, 500, 2)) * 0.4 + np.array([[[-3.0, 0]], [[3.0, 0]]])
        result = ksd_test(with_density(2), draws(values), random_seed=seed)
        assert result.attrs["status"] != "passed"
    # Not even where each part is what the target has there.
    halves = np.sort(rng.normal(size=1_000)).reshape(2, 500)
    halves = rng.permuted(halves, axis=1)
    result = ksd_test(with_density(1), draws(halves), random_seed=0)
    assert result.attrs["status"] == "cannot tell"
    assert "R-hat" in result.attrs["reason"]
    assert "R-hat" in result.attrs["conclusion"]
    assert result["p_value"] > 0.05  # kept


def test_draws_in_an_order_do_not_pass_as_a_slow_chain(rng):
    values = np.sort(rng.normal(size=400)) + 0.0
    result = ksd_test(with_density(1), draws(values[None, :]), random_seed=0)
    assert result.attrs["status"] == "cannot tell"


def test_slow_chains_cannot_tell_and_long_ones_can(rng):
    noise = rng.normal(size=(4, 1_800)) * np.sqrt(1 - 0.95**2)
    chain = lfilter([1.0], [1.0, -0.95], noise, axis=1)[:, 200:]
    long = ksd_test(with_density(1), draws(chain), random_seed=0, n_bootstrap=199)
    assert long.attrs["status"] in ("passed", "rejected")
    short = ksd_test(with_density(1), draws(chain[:, :200]), random_seed=0)
    assert short.attrs["status"] in ("cannot tell", "rejected")
    assert short.attrs["reason"] or short["p_value"] <= 0.05


@pytest.mark.parametrize(("dim", "kind"), [(1, "cov"), (10, "cov"), (50, "cov"), (300, "std")])
def test_exact_draws_pass_in_any_dimension(rng, dim, kind):
    """Whitening by few draws would take from the statistic what it is to find."""
    p_values = []
    for seed in range(4):
        values = rng.normal(size=(4, 250, dim))
        if dim == 1:
            values = values[..., 0]
        result = ksd_test(with_density(dim), draws(values), random_seed=seed, n_bootstrap=300)
        assert result.attrs["scale"] == kind
        assert result.attrs["status"] != "cannot tell"
        p_values.append(float(result["p_value"]))
    # All four are at least 0.9 once in 10,000 times, and were for every seed in 300 dimensions.
    assert min(p_values) < 0.9
    assert max(p_values) > 0.02


def test_short_chains_are_rejected_only_clearly(rng):
    """Exact chains this slow have a p-value of at most 0.05 more often than they should."""
    noise = rng.normal(size=(12, 4, 400)) * np.sqrt(1 - 0.99**2)
    statuses = []
    for seed, chains in enumerate(lfilter([1.0], [1.0, -0.99], noise, axis=2)[..., 200:]):
        result = ksd_test(with_density(1), draws(chains), random_seed=seed, n_bootstrap=400)
        statuses.append(result.attrs["status"])
        rejected = float(result["p_value"]) <= 0.005
        assert (statuses[-1] == "rejected") == rejected
    assert statuses.count("cannot tell") >= 10
    far_off = ksd_test(with_density(1), draws(chains + 9), random_seed=0)
    assert far_off.attrs["status"] == "rejected"


@pytest.mark.slow
@pytest.mark.default_stack
def test_correlated_draws_in_many_dimensions_are_rejected_only_clearly():
    statuses = []
    for seed in range(6):
        noise = np.random.default_rng(seed).normal(size=(2, 700, 300)) * np.sqrt(1 - 0.5**2)
        chains = lfilter([1.0], [1.0, -0.5], noise, axis=1)[:, 200:]
        result = ksd_test(with_density(300), draws(chains), random_seed=seed, n_bootstrap=400)
        statuses.append(result.attrs["status"])
        assert (statuses[-1] == "cannot tell") == (0.005 < float(result["p_value"]) <= 0.05)
    assert statuses.count("rejected") <= 1
    wrong = ksd_test(with_density(300), draws(chains + 0.3), random_seed=0, n_bootstrap=400)
    assert wrong.attrs["status"] == "rejected"


def test_reason_names_the_autocorrelation_time_that_was_given(rng):
    values = draws(rng.normal(size=(4, 200, 2)))
    result = ksd_test(with_density(2), values, autocorrelation_time=15, random_seed=0)
    assert result.attrs["status"] == "cannot tell"
    assert "each is 13.3 autocorrelation times long" in result.attrs["reason"]


def test_kernels_that_are_named_are_tested_alone(rng):
    values = draws(rng.normal(size=(4, 100, 2)))
    assert "member" not in ksd_test(with_density(2), values, kernel="imq").dims
    assert "member" not in ksd_test(with_density(2), values, bandwidth=1.0).dims
    # Without log densities there is no tilt.
    narrow = ["rbf, 1/4 sqrt(d)", "rbf, 1/2 sqrt(d)"]
    tilted = ["imq, tilted", "rbf, 1/2 sqrt(d), tilted"]
    *kernels, moment = ksd_test(normal_score(2), values)["member"].values
    assert kernels == ["imq", *narrow]
    assert moment in [f"{what} of x[{axis}]" for what in ("mean", "sd") for axis in (0, 1)]
    *kernels, again = ksd_test(with_density(2), values)["member"].values
    assert kernels == ["imq", *narrow, *tilted]
    assert again == moment


def test_joined_test_is_the_largest_excess_of_members(rng):
    values = draws(rng.normal(0.1, 1, size=(4, 100, 2)))
    result = ksd_test(with_density(2), values, random_seed=4)
    assert result["statistic"] == result["member_excess"].max()
    alone = ksd_test(with_density(2), values, random_seed=4, kernel="imq")
    np.testing.assert_allclose(alone["statistic"], result["member_statistic"].sel(member="imq"))
    np.testing.assert_allclose(alone["p_value"], result["member_p_value"].sel(member="imq"))
    assert result["ksd"] == alone["ksd"]


def test_too_few_replicates_cannot_tell():
    result = ksd_test(normal_score(1), np.arange(5.0) + 9, n_bootstrap=10, random_seed=0)
    assert result.attrs["status"] == "cannot tell"
    assert "at least 19 are needed" in result.attrs["reason"]


def test_log_density_of_the_wrong_shape_is_refused(rng):
    score = normal_score(2, log_density=lambda x: x)
    with pytest.raises(ValueError, match="`log_density` must return one number for each point"):
        ksd_test(score, draws(rng.normal(size=(2, 50, 2))))


@pytest.fixture
def of_another_model(labelled):
    """Exact draws beside a deterministic that this model does not compute from them."""
    model, posterior = labelled
    return model, posterior.assign(shifted=posterior["shifted"] + 1)


def test_draws_of_another_model_do_not_pass(of_another_model):
    with pytest.warns(DrawsWarning, match="do not belong together"):
        result = ksd_test(*of_another_model, random_seed=0)
    assert result["p_value"] > 0.05
    assert result.attrs["status"] == "cannot tell"
    assert "'shifted' in `data` is not what `model` computes" in result.attrs["reason"]
    assert result.attrs["mismatch"] == result.attrs["reason"]
    step = explain(result).findings[0].next_step
    assert step.startswith("Test draws that were made with this model")
    with pytest.warns(DrawsWarning, match="do not belong together"):
        moments = ksd_moments(*of_another_model)
    assert moments.attrs["mismatch"] == result.attrs["mismatch"]
    model, draws = of_another_model
    with pytest.warns(DrawsWarning, match="do not belong together"):
        wrong = ksd_test(model, draws.assign(mu=draws["mu"] + 3), random_seed=0)
    assert wrong.attrs["status"] == "rejected"


@pytest.mark.parametrize("centre", [0.1, 30.0], ids=["fits", "misfit"])
def test_draws_of_another_model_say_nothing_of_this_one(rng, centre):
    values = centre + np.linspace(-2, 2, 20)
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Deterministic("twice", 2 * mu)
        pm.Normal("y", mu, 1.0, observed=values)
    own = rng.normal(0.1, 0.2, size=(2, 100))
    posterior = xr.Dataset({name: (("chain", "draw"), own) for name in ("mu", "twice")})
    with pytest.warns(DrawsWarning, match="do not belong together"):
        check = ksd_ppc(model, posterior, num_draws=50, random_seed=0)
    assert (check["p_value"] <= 0.05) == (centre == 30)
    assert check.attrs["status"] == status_of(check) == "cannot tell"
    assert "belong together" in check.attrs["conclusion"]
    assert check.attrs["mismatch"] == check.attrs["reason"]
    advice = "Test draws that were made with this model"
    assert explain(check).findings[0].advice[0].startswith(advice)
    # Whatever the words of the reason are.
    other = check.assign_attrs(reason="Something else.")
    assert explain(other).findings[0].advice[0].startswith(advice)
    fewer = check.assign_attrs(mismatch="", reason="They belong together.", reason_code="")
    assert not explain(fewer).findings[0].advice[0].startswith(advice)
    with pytest.warns(DrawsWarning, match="do not belong together"):
        new = ksd_test(model, values, posterior=posterior, random_seed=0, n_bootstrap=39)
    assert new.attrs["status"] == ("rejected" if centre == 30 else "cannot tell")


def test_one_draw_of_few_that_decides_is_called_one(rng):
    values = rng.normal(size=(2, 20))
    score = Score.from_callable(lambda x: np.where(np.abs(x) == np.abs(x).max(), 1e3, -x), 1)
    result = ksd_test(score, draws(values), random_seed=0, autocorrelation_time=0.1)
    assert result.attrs["status"] == "cannot tell"
    assert result.attrs["reason"].startswith("1 of 40 draws holds 100 % of the statistic")
    assert len(explain(result).findings) == 1


def test_scores_that_overflow_are_refused_and_large_ones_are_not(rng):
    """Products of excess would be NaN, which is at least as large as no replicate."""
    values = rng.normal(size=(4, 100, 2))

    def score_with(size):
        return Score.from_callable(
            lambda x: np.where(np.arange(len(x))[:, None] == 7, size, -x),
            2,
            log_density=lambda x: -0.5 * (x**2).sum(axis=1),
        )

    for options in ({}, {"kernel": "imq"}):
        with pytest.raises(ValueError, match=r"1 of 400 points have no finite score.*'x'.*rows 7"):
            ksd_test(score_with(1e153), draws(values), **options)
    large = ksd_test(score_with(1e100), draws(values), random_seed=0)
    assert large.attrs["status"] == "cannot tell"
    less = ksd_test(score_with(1e50), draws(values), random_seed=0)
    np.testing.assert_allclose(large["member_excess"], less["member_excess"])
    np.testing.assert_allclose(large["p_value"], less["p_value"], rtol=1e-9)
