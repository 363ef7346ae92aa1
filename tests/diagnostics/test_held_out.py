"""New data against the posterior predictive distribution."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_ksd
from pymc_ksd.diagnostics.score import predictive

#: A few draws are enough for all that is not about the level.
pytestmark = pytest.mark.filterwarnings("ignore:`posterior` has .* draws")

MU = np.random.default_rng(4).normal(size=30)
SD = 1 + 0.2 * np.random.default_rng(5).uniform(size=30)
#: Every other draw is mixed; new data are replicated with the rest.
MIXED = slice(None, None, 2)


def normal_model():
    with pm.Model() as model:
        mu, sd = pm.Normal("mu"), pm.HalfNormal("sd")
        pm.Normal("y", mu, sd, observed=np.zeros(5))
    fields = {"mu": MU, "sd": SD}
    return model, xr.Dataset({k: (("chain", "draw"), v[None]) for k, v in fields.items()})


def score_of(model, posterior):
    """The posterior predictive distribution, as a score."""
    new = np.zeros(2)
    target, _ = predictive(model, new, posterior, None, None, None, False)
    return pymc_ksd.Score(target)


def test_score_is_that_of_the_mixture():
    score = score_of(*normal_model())
    y = np.linspace(-6, 6, 41)

    def log_density(value):
        density = stats.norm(MU[MIXED], SD[MIXED]).pdf(np.asarray(value)[:, None])
        return np.log(density.mean(axis=1))

    step = 1e-5
    expected = (log_density(y + step) - log_density(y - step)) / (2 * step)
    np.testing.assert_allclose(score(y[:, None])[:, 0], expected, rtol=1e-6, atol=1e-7)


def test_score_far_out_does_not_underflow():
    score = score_of(*normal_model())
    far = score(np.array([[80.0], [-80.0]]))
    assert np.isfinite(far).all()
    # The widest components rule the tails.
    assert far[0, 0] < -30
    assert far[1, 0] > 30


def test_rates_are_those_of_the_mixture(rng):
    rates = rng.gamma(3, size=25)
    with pm.Model() as model:
        rate = pm.HalfNormal("rate")
        pm.Poisson("y", rate, observed=np.zeros(4, dtype=int))
    posterior = xr.Dataset({"rate": (("chain", "draw"), rates[None])})
    score = score_of(model, posterior)
    y = np.arange(12.0)

    def probability(value):
        return stats.poisson(rates[MIXED]).pmf(value[:, None]).mean(axis=1)

    births, deaths = score._target.values(y[:, None])
    here, above, below = probability(y), probability(y + 1), probability(y - 1)
    np.testing.assert_allclose(births[:, 0], above / (here + above), rtol=1e-9)
    np.testing.assert_allclose(deaths[:, 0], below / (here + below), rtol=1e-9)


def test_bounded_outcomes_are_transformed(rng):
    rates = rng.gamma(5, size=20)
    with pm.Model() as model:
        rate = pm.HalfNormal("rate")
        pm.Exponential("y", rate, observed=np.ones(4))
    posterior = xr.Dataset({"rate": (("chain", "draw"), rates[None])})
    score = score_of(model, posterior)
    t = np.linspace(-3, 1, 9)

    def log_density(at):
        y = np.exp(at)[:, None]
        return np.log((rates[MIXED] * np.exp(-rates[MIXED] * y)).mean(axis=1)) + at

    step = 1e-5
    expected = (log_density(t + step) - log_density(t - step)) / (2 * step)
    np.testing.assert_allclose(score(t[:, None])[:, 0], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
@pytest.mark.default_stack
def test_new_data_true_and_false(rng):
    model, posterior = normal_model()
    chosen = rng.integers(30, size=150)
    own = rng.normal(MU[chosen], SD[chosen])
    result = pymc_ksd.ksd_test(model, own, posterior=posterior, random_seed=1)
    assert float(result["p_value"]) > 0.05
    assert result.attrs["target"] == "predictive"
    assert (result.attrs["null"], result.attrs["n_bootstrap"]) == ("parametric", 199)
    shifted = pm.ksd_test(model, own + 5, posterior=posterior, random_seed=1)
    assert float(shifted["p_value"]) == 1 / 200
    strict = pm.ksd_test(model, own + 5, posterior=posterior, random_seed=1, alpha=1 / 300)
    assert strict.attrs["n_bootstrap"] == 299
    assert float(strict["p_value"]) == pytest.approx(1 / 300)


@pytest.mark.slow
@pytest.mark.default_stack
def test_new_inputs_come_by_set_data(rng):
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(5))
        slope = pm.Normal("slope")
        pm.Normal("y", slope * x, 1.0, observed=np.zeros(5), shape=x.shape)
    slopes = rng.normal(2, 0.05, size=40)
    posterior = xr.Dataset({"slope": (("chain", "draw"), slopes[None])})
    new_x = rng.normal(size=100)
    new_y = 2 * new_x + rng.normal(size=100)
    with pytest.raises(ValueError, match="the model is written for 5"):
        pymc_ksd.ksd_test(model, new_y, posterior=posterior)
    with model:
        pm.set_data({"x": new_x})
        right = pm.ksd_test(data=new_y, posterior=posterior, random_seed=1)
        wrong = pm.ksd_test(data=-new_y, posterior=posterior, random_seed=1)
    assert float(right["p_value"]) > 0.05
    assert float(wrong["p_value"]) < 0.01


def test_new_bounds_come_by_set_data(rng):
    with pm.Model() as model:
        low = pm.Data("low", np.zeros(5))
        mu = pm.Normal("mu")
        pm.TruncatedNormal("y", mu, 1.0, lower=low, observed=np.ones(5), shape=low.shape)
    posterior = xr.Dataset({"mu": (("chain", "draw"), rng.normal(0, 0.01, size=(1, 20)))})
    new_low = rng.uniform(-1, 1, size=80)
    values = stats.truncnorm(new_low, np.inf).rvs(random_state=rng)
    with model:
        pm.set_data({"low": new_low})
    result = pymc_ksd.ksd_test(model, values, posterior=posterior, random_seed=1)
    assert float(result["p_value"]) > 0.05


def test_new_data_share_their_parameters(rng):
    """With a wide posterior new data from one parameter are no sample of the mixture."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 10)
        pm.Normal("y", mu, 1.0, observed=np.zeros(10))
    posterior = xr.Dataset({"mu": (("chain", "draw"), rng.normal(0, 1, size=(1, 50)))})
    new = rng.normal(1.0, 1.0, size=80)
    options = {"posterior": posterior, "random_seed": 1}
    mixture = pymc_ksd.ksd_test(model, new, null="multinomial", **options)
    shared = pymc_ksd.ksd_test(model, new, **options)
    assert float(mixture["p_value"]) <= 0.05 < float(shared["p_value"])


@pytest.mark.parametrize("statistic", ["v", "block", "linear"])
def test_every_statistic_of_new_data_is_calibrated(statistic, rng):
    model, posterior = normal_model()
    new = rng.normal(MU[3], SD[3], size=60)
    options = {"posterior": posterior, "statistic": statistic, "n_bootstrap": 39, "random_seed": 1}
    result = pymc_ksd.ksd_test(model, new, **options)
    assert result.attrs["null"] == "parametric"
    assert float(result["p_value"]) > 0.05


def test_new_data_are_replicated_with_draws_that_are_not_mixed():
    """Data that are part of a mixture are closer to it than any others."""
    model, posterior = normal_model()
    score = score_of(model, posterior.assign(sd=1e-9 * posterior["sd"]))
    rng = np.random.default_rng(1)
    values = {round(float(score.simulate(1, rng)[0, 0]), 5) for _ in range(300)}
    assert values == {round(float(mu), 5) for mu in MU[1::2]}


def test_few_draws_are_told():
    model, posterior = normal_model()
    with pytest.warns(pymc_ksd.DrawsWarning, match="`posterior` has 30 draws: fewer than 100"):
        pymc_ksd.ksd_test(model, np.zeros(5) + MU[:5], posterior=posterior, n_bootstrap=2)


def test_replicates_on_the_boundary_are_drawn_again():
    """Most values of this distribution are rounded to its bounds now and then."""
    with pm.Model() as model:
        shape = pm.HalfNormal("shape")
        pm.Beta("y", shape, shape, observed=np.full(5, 0.5))
    draws = xr.Dataset({"shape": (("chain", "draw"), np.full((1, 20), 0.1))})
    new = np.clip(np.random.default_rng(1).beta(0.1, 0.1, size=60), 1e-6, 1 - 1e-6)
    result = pymc_ksd.ksd_test(model, new, posterior=draws, n_bootstrap=19, random_seed=1)
    assert np.isfinite(result["null_distribution"]).all()


def test_without_a_random_function_there_is_a_way_out():
    def logp(value, mu):
        return pm.logp(pm.Normal.dist(mu, 1.0), value)

    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.CustomDist("y", mu, logp=logp, observed=np.zeros(4))
    draws = xr.Dataset({"mu": (("chain", "draw"), np.zeros((1, 20)))})
    new = np.random.default_rng(1).normal(size=30)
    with pytest.raises(ValueError, match=r"Give its distribution a `random` function, or"):
        pymc_ksd.ksd_test(model, new, posterior=draws)
    result = pymc_ksd.ksd_test(model, new, posterior=draws, null="multinomial", random_seed=1)
    assert result["p_value"] > 0.01


def test_bad_use_is_explained(rng):
    model, posterior = normal_model()
    data = rng.normal(size=20)
    with pytest.raises(ValueError, match="use ksd_ppc"):
        pymc_ksd.ksd_test(model, posterior=posterior)
    with pytest.raises(TypeError, match="compiled Score"):
        pymc_ksd.ksd_test(score_of(model, posterior), data, posterior=posterior)
    with pytest.raises(ValueError, match="lacks the variable"):
        pymc_ksd.ksd_test(model, data, posterior=posterior[["mu"]])
    with model:
        pm.Normal("z", model["mu"], 1, observed=np.zeros(3))
    with pytest.raises(ValueError, match="choose the one"):
        pymc_ksd.ksd_test(model, data, posterior=posterior)
    assert "z" in pymc_ksd.ksd_test(model, data, posterior=posterior, var_names="z")
    with pm.Model() as bounded:
        top = pm.HalfNormal("top")
        pm.Uniform("y", 0, top, observed=np.full(3, 0.1))
    tops = xr.Dataset({"top": (("chain", "draw"), np.linspace(1, 2, 10)[None])})
    with pytest.raises(ValueError, match="support of 'y' depends on free variables"):
        pymc_ksd.ksd_test(bounded, rng.uniform(size=30), posterior=tops)


@pytest.mark.slow
@pytest.mark.newer_stack
@pytest.mark.parametrize("fitted", [True, False])
def test_many_observations_with_inputs_of_their_own(rng, fitted):
    """Each observation's score belongs to its row."""
    n = 2_500
    x = rng.normal(size=n)
    y = 2 * x + rng.normal(size=n)
    with pm.Model() as model:
        slope = pm.Normal("slope") if fitted else 2.0
        pm.Normal("y", slope * x, 1.0, observed=y)
    posterior = None
    if fitted:
        values = 2 + 0.02 * rng.normal(size=(1, 20))
        posterior = xr.Dataset({"slope": (("chain", "draw"), values)})
    options = {"posterior": posterior, "statistic": "block", "n_bootstrap": 49, "random_seed": 0}
    assert float(pymc_ksd.ksd_test(model, y, **options)["p_value"]) > 0.02
    least = 1 / 50 if fitted else 1e-6
    assert float(pymc_ksd.ksd_test(model, y[::-1], **options)["p_value"]) <= least
