"""Modes, their shares, and draws that visit them or not: normal mixtures, models, chains."""

import itertools

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.special import logsumexp

import pymc_ksd
from pymc_ksd import Score, explain, ksd_modes
from pymc_ksd.diagnostics.modes import _information
from pymc_ksd.diagnostics.status import status_of_visits
from pymc_ksd.samples.sample import Sample
from pymc_ksd.stats.balance import Orbits
from pymc_ksd.stats.mode_shares import Shares


def mixture_score(weights, centres, scales, **options):
    """A normal mixture whose components are at `centres` in every coordinate."""
    centres, scales = np.asarray(centres, float), np.asarray(scales, float)
    dim = centres.shape[1]

    def logs(x):
        places = (x - centres[:, None]) / scales[:, None, None]
        constants = np.log(weights) - dim * np.log(scales)
        return constants[:, None] - 0.5 * (places**2).sum(axis=2), places

    def gradient(x):
        heights, places = logs(x)
        shares = np.exp(heights - logsumexp(heights, axis=0))
        return np.einsum("kn,knd->nd", shares, -places / scales[:, None, None])

    return Score.from_callable(
        gradient, dim, log_density=lambda x: logsumexp(logs(x)[0], axis=0), **options
    )


def two_modes(weight=0.6, dim=1):
    return mixture_score([weight, 1 - weight], [[0.0] * dim, [6.0] * dim], [1.0, 0.5])


def drawn(rng, n, weight=0.6, dim=1):
    first = rng.random(n) < weight
    values = rng.normal(size=(n, dim))
    return np.where(first[:, None], values, 6 + 0.5 * values)


def as_chains(values, n_chains):
    """Draws of shape (n, 1) as chains, first draws first."""
    return xr.Dataset({"x": (("chain", "draw"), values.reshape(n_chains, -1))})


def test_shares_are_the_weights_and_errors_are_right():
    for dim in (1, 5):
        result = ksd_modes(two_modes(dim=dim), starts=np.full((1, dim), 5.5), random_seed=1)
        np.testing.assert_allclose(result["x"].values.reshape(2, -1)[:, 0], [0, 6], atol=1e-3)
        error = result["share_of_posterior"].values - [0.6, 0.4]
        assert (np.abs(error) < 4 * result["mcse"].values).all()
        assert (result["mcse"] < 0.01).all()
        np.testing.assert_allclose(result["local_sd"], [[1] * dim, [0.5] * dim], rtol=0.1)
        assert result.attrs["status"] == "unknown"
        assert "p_value" not in result


def test_exact_draws_pass(rng):
    result = ksd_modes(two_modes(), drawn(rng, 500), random_seed=1)
    assert result.attrs["status"] == "passed"
    assert result["p_value"] > 0.05
    assert result["share_of_draws"].sum() == pytest.approx(1)
    assert explain(result).status == "passed"


def test_a_missed_mode_is_rejected_in_words(rng):
    result = ksd_modes(two_modes(), rng.normal(size=(200, 1)), random_seed=1)
    assert result.attrs["status"] == "rejected"
    # The chance that 200 of 200 independent draws are at the mode with 60 %.
    np.testing.assert_allclose(np.log(result["p_value"]), np.log(2) + 200 * np.log(0.6), rtol=0.02)
    words = "A second mode near x = 6 holds about 40 % of the density; no draw is there."
    assert words in result.attrs["conclusion"]
    explanation = explain(result)
    assert words in explanation.findings[0].headline
    assert "Modes that none of" in str(explanation)
    assert "The first mode near" in str(explanation)


def test_wrong_proportions_are_rejected(rng):
    result = ksd_modes(two_modes(0.5), drawn(rng, 1_000, weight=0.35), random_seed=1)
    assert result.attrs["status"] == "rejected"
    assert "of the draws are there" in result.attrs["conclusion"]


def test_three_modes_are_adjusted_for(rng):
    centres, weights = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]]), [0.5, 0.3, 0.2]
    score = mixture_score(weights, centres, [1.0, 1.0, 1.0])
    labels = rng.choice(3, p=weights, size=400)
    points = centres[labels] + rng.normal(size=(400, 2))
    exact = ksd_modes(score, points, random_seed=1)
    np.testing.assert_allclose(exact["share_of_posterior"], weights, atol=0.02)
    assert exact.attrs["status"] == "passed"
    lost = ksd_modes(score, points[labels < 2], random_seed=1)
    assert lost.attrs["status"] == "rejected"
    assert lost["mode_p_value"].values.argmin() == 2
    assert lost["p_value"] == lost["mode_p_value"].min()


def test_one_mode_is_no_test(rng):
    score = Score.from_callable(lambda x: -x, 3, log_density=lambda x: -0.5 * (x**2).sum(axis=1))
    result = ksd_modes(score, rng.normal(size=(100, 3)), random_seed=1)
    assert result.sizes["mode"] == 1
    assert result.attrs["status"] == "passed"
    assert result["p_value"] == 1
    assert "one mode was found" in str(explain(result))


# Chains


def test_chains_that_all_miss_a_mode_are_rejected(rng):
    result = ksd_modes(two_modes(), as_chains(rng.normal(size=1_000), 4), random_seed=1)
    assert result.attrs["status"] == "rejected"


@pytest.mark.parametrize("modes", [(0, 0, 6, 6), (0, 0, 0, 6)])
def test_chains_that_never_move_cannot_tell(modes, rng):
    values = rng.normal(size=(4, 250)) * np.where(np.array(modes) > 0, 0.5, 1)[:, None]
    draws = as_chains(values + np.array(modes)[:, None], 4)
    result = ksd_modes(two_modes(0.5), draws, random_seed=1)
    assert result.attrs["status"] == "cannot tell"
    assert "never" in result.attrs["reason"]
    assert result["p_value"] > 0.05
    assert "pm.sample_smc" in str(explain(result))


def test_a_chain_at_a_mode_that_holds_nothing_is_rejected(rng):
    score = mixture_score([1 - 1e-9, 1e-9], [[0.0], [30.0]], [1.0, 1.0])
    values = rng.normal(size=(4, 250)) + np.array([0, 0, 0, 30])[:, None]
    result = ksd_modes(score, as_chains(values, 4), random_seed=1)
    assert result.attrs["status"] == "rejected"
    assert result["share_of_draws"][1] == 0.25
    assert result["share_of_posterior"][1] < 1e-6


def test_shares_that_all_draws_contradict_do_not_pass():
    """No draw can be moved to the mode that is said to hold everything, so none tells."""
    everyone, nobody = np.ones(200, dtype=bool), np.zeros(200, dtype=bool)
    at_second = np.tile([0.0, 1.0], (200, 1))
    first = Shares(np.array([1.0, 0.0]), np.zeros(2), True)
    unknown = Shares(np.full(2, np.nan), np.full(2, np.nan), False)
    for used, known in ((everyone, first), (nobody, first), (nobody, unknown)):
        orbits = Orbits(everyone.astype(int), np.zeros((200, 1)), used, at_second)
        information = _information(orbits, known, 1.0)
        assert information.tolist() == [0, 0]
        nothing = np.zeros(2)
        status, _ = status_of_visits(
            Sample(np.zeros((200, 1))), np.ones(2), 0.05, nothing, nothing, information
        )
        assert status == "cannot tell"


def test_slow_visits_count_less_than_independent_ones(rng):
    """Ten stretches of 50 draws, seven of them at the mode with one half."""
    labels = np.tile(np.repeat(rng.permutation([0] * 7 + [6] * 3), 50), (4, 1))
    scale = np.where(labels > 0, 0.5, 1)
    values = labels + scale * rng.normal(size=labels.shape)
    slow = ksd_modes(two_modes(0.5), as_chains(values, 4), random_seed=1)
    independent = ksd_modes(two_modes(0.5), values.reshape(-1, 1), random_seed=1)
    assert independent["p_value"] < 1e-10
    assert slow["p_value"] > 1e-4


# Models


@pytest.fixture(scope="module")
def label_switching():
    """A mixture of two components that may change places."""
    rng = np.random.default_rng(1)
    with pm.Model(coords={"part": ["a", "b"]}) as model:
        weights = pm.Dirichlet("weights", np.full(2, 5.0), dims="part")
        mu = pm.Normal("mu", 0, 5, dims="part")
        sigma = pm.HalfNormal("sigma", 2)
        y = rng.normal(size=40) + np.where(np.arange(40) % 4 == 0, 6, 0)
        pm.NormalMixture("y", w=weights, mu=mu, sigma=sigma, observed=y)
    return model


@pytest.mark.slow
@pytest.mark.newer_stack
def test_permuted_components_are_two_modes(label_switching, tmp_path):
    result = ksd_modes(label_switching, random_seed=1)
    assert result.sizes["mode"] == 2
    np.testing.assert_allclose(result["share_of_posterior"], 0.5, atol=0.03)
    first, second = result["mu"].values
    np.testing.assert_allclose(first, second[::-1], rtol=1e-3)
    np.testing.assert_allclose(result["weights"].sum("part"), 1)
    np.testing.assert_allclose(*result["sigma"].values, rtol=1e-3)
    assert result["mu"].dims == ("mode", "part")
    assert result["mu"]["part"].values.tolist() == ["a", "b"]
    assert "mu" in str(result["place"].values[0])
    result.to_netcdf(tmp_path / "modes.nc")
    with xr.open_dataset(tmp_path / "modes.nc") as loaded:
        assert str(explain(loaded)) == str(explain(result))


@pytest.mark.slow
@pytest.mark.default_stack
def test_no_mode_where_the_density_has_no_bound():
    y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    sigma = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, sigma, observed=y)
    result = ksd_modes(model, random_seed=1)
    assert result.sizes["mode"] == 0
    assert result.attrs["n_lost"] == result.attrs["n_starts"]
    assert "or kept rising" in str(explain(result))
    rng = np.random.default_rng(0)
    draws = xr.Dataset(
        {
            "mu": (("chain", "draw"), rng.normal(4, 3, size=(2, 50))),
            "tau": (("chain", "draw"), rng.gamma(2, 2, size=(2, 50))),
            "theta": (("chain", "draw", "theta_dim_0"), rng.normal(4, 3, size=(2, 50, 8))),
        }
    )
    assert ksd_modes(model, draws, random_seed=1).attrs["status"] == "cannot tell"


def test_flat_priors_and_bounds_have_modes():
    with pm.Model() as model:
        mu = pm.Flat("mu")
        tau = pm.HalfNormal("tau")
        pm.Normal("y", mu, tau + 0.1, observed=[40.0, 41.0, 42.0])
    result = ksd_modes(model, random_seed=1)
    np.testing.assert_allclose(result["mu"], [41.0], rtol=1e-3)
    assert (result["tau"] > 0).all()


def test_given_starts_find_what_others_do_not():
    score = mixture_score([0.5, 0.5], [[0.0], [500.0]], [1.0, 1e-3])
    assert ksd_modes(score, random_seed=1).sizes["mode"] == 1
    found = ksd_modes(score, starts=np.array([[500.0005]]), random_seed=1)
    np.testing.assert_allclose(found["share_of_posterior"], 0.5, atol=0.02)
    with pytest.raises(ValueError, match="`starts` must have shape"):
        ksd_modes(score, starts=np.zeros((3, 2)))


@pytest.mark.slow
@pytest.mark.newer_stack
def test_it_is_repeatable_and_changes_nothing(label_switching):
    values = {name: v.eval() for name, v in label_switching.named_vars.items() if name == "y"}
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (ksd_modes(label_switching, random_seed=3) for _ in range(2))
    xr.testing.assert_equal(first, second)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.testing.assert_array_equal(label_switching["y"].eval(), values["y"])


def test_new_numbers_do_not_compile_again(count_compilations):
    with pm.Model() as model:
        pm.NormalMixture("mu", w=[0.5, 0.5], mu=pm.Data("centres", [0.0, 6.0]), sigma=1.0)
    ksd_modes(model, random_seed=1)
    made = len(count_compilations)
    with model:
        pm.set_data({"centres": [-3.0, 9.0]})
    result = ksd_modes(model, random_seed=1)
    np.testing.assert_allclose(np.sort(result["mu"]), [-3, 9], atol=1e-3)
    assert len(count_compilations) == made


def test_names_of_the_result_do_not_hide_variables():
    with pm.Model(coords={"mode": [1, 2]}) as model:
        pm.Normal("mcse", [1.0, 5.0], dims="mode")
    result = ksd_modes(model, random_seed=1)
    np.testing.assert_allclose(result["mcse_location"].values, [[1, 5]], atol=1e-4)
    assert result["mcse_location"].dims == ("mode", "mode_")


# Bad input


def test_what_has_no_modes_is_refused():
    with pytest.raises(ValueError, match="must have a log density"):
        ksd_modes(Score.from_callable(lambda x: -x, 1))
    with pm.Model() as counts:
        pm.Poisson("y", 3.0, observed=[1, 2, 3])
    with pytest.raises(ValueError, match="discrete"):
        ksd_modes(counts)
    with pm.Model() as observed:
        pm.Normal("y", 0, 1, observed=[1.0, 2.0])
    with pytest.raises(ValueError, match="must have free variables"):
        ksd_modes(observed)
    with pm.Model() as large:
        pm.Normal("x", shape=501)
    with pytest.raises(ValueError, match="at most 500 unconstrained coordinates"):
        ksd_modes(large)
    with pm.Model() as circle:
        pm.VonMises("angle", 0, 1)
    with pytest.raises(ValueError, match="live on a circle"):
        ksd_modes(circle)
    for option in ({"n_starts": 0}, {"max_modes": 0}, {"alpha": 2}):
        with pytest.raises(ValueError, match=f"`{next(iter(option))}`"):
            ksd_modes(two_modes(), **option)


# In the report


def test_the_report_looks_for_modes_where_that_is_cheap(monkeypatch):
    with pm.Model() as model:
        pm.NormalMixture("mu", w=[0.6, 0.4], mu=[0, 8], sigma=[1, 1])
    values = np.random.default_rng(0).normal(size=(4, 250))
    draws = xr.Dataset({"mu": (("chain", "draw"), values)})
    options = {"random_seed": 1, "progressbar": False}
    without = pymc_ksd.ksd_report(model, draws, modes=False, **options)
    assert not without.rejected
    report = pymc_ksd.ksd_report(model, draws, **options)
    assert report.rejected
    # Half of the level is for the modes.
    assert report.test.attrs["alpha"] == without.test.attrs["alpha"] / 2
    with monkeypatch.context() as patched:
        patched.setattr("pymc_ksd.diagnostics.modes._CHEAP_NUMBERS", 0)
        assert pymc_ksd.ksd_report(model, draws, **options).modes is None
    assert "second mode near mu = 8 holds about 40 %" in report.verdict.headline
    assert report.to_dict()["modes"]["modes"][1]["share_of_draws"] == 0


def test_no_clock_decides_whether_the_report_looks_for_modes(monkeypatch):
    with pm.Model() as model:
        pm.NormalMixture("mu", w=[0.6, 0.4], mu=[0, 8], sigma=[1, 1])
    values = np.random.default_rng(0).normal(size=(4, 250))
    draws = xr.Dataset({"mu": (("chain", "draw"), values)})
    clock = itertools.count(step=100.0)
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    report = pymc_ksd.ksd_report(model, draws, random_seed=1, progressbar=False)
    assert report.modes is not None


def test_the_report_is_silent_about_one_mode():
    with pm.Model() as model:
        pm.Normal("mu")
    values = np.random.default_rng(0).normal(size=(4, 250))
    draws = xr.Dataset({"mu": (("chain", "draw"), values)})
    options = {"random_seed": 1, "progressbar": False}
    report = pymc_ksd.ksd_report(model, draws, **options)
    assert report.modes is None
    assert report.test.attrs["alpha"] == 0.05
    asked = pymc_ksd.ksd_report(model, draws, modes=True, **options)
    assert asked.modes.sizes["mode"] == 1
    assert asked.test.attrs["alpha"] == 0.05


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 10])
def test_level_and_power(dim, rng):
    score = two_modes(0.5, dim)
    rejected = {"exact": 0, "uneven": 0}
    for _ in range(200):
        for name, weight in (("exact", 0.5), ("uneven", 0.4)):
            draws = drawn(rng, 500, weight, dim)
            result = ksd_modes(score, draws, random_seed=rng, progressbar=False)
            rejected[name] += float(result["p_value"]) <= 0.05
    assert rejected["exact"] <= 20  # 5 % and three standard errors
    assert rejected["uneven"] >= 180
