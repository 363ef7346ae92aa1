"""Scores from elsewhere: JAX, NumPyro and Stan programs, against closed forms and PyMC."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pymc as pm
import pytest
import xarray as xr

from benchmarks.first_answer import eight_schools
from pymc_ksd import Score, compile_score, ksd_modes, ksd_test, with_gradients

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools(errors, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, errors), obs=y)


def differences(function, points, step=1e-5):
    """Central differences of a log density, coordinate by coordinate."""
    found = np.empty_like(points)
    for column in range(points.shape[1]):
        move = np.zeros(points.shape[1])
        move[column] = step
        found[:, column] = (function(points + move) - function(points - move)) / (2 * step)
    return found


def test_scores_of_jax_are_those_of_any_tree(rng):
    def log_density(z):
        return -((z["a"][0] - 1) ** 2) / 2 - (z["a"][1] ** 4).sum() - (z["b"]["c"] ** 2).sum() / 8

    example = {"a": (0.0, jnp.zeros(2)), "b": {"c": jnp.zeros((2, 2))}}
    score = Score.from_jax(log_density, example)
    assert score.labels[:4] == ["a.0", "a.1[0]", "a.1[1]", "b.c[0,0]"]
    points = rng.normal(size=(1_100, 7))  # more than are evaluated together
    expected = np.concatenate(
        [1 - points[:, :1], -4 * points[:, 1:3] ** 3, -points[:, 3:] / 4], axis=1
    )
    np.testing.assert_allclose(score(points), expected, rtol=1e-12)  # in double precision
    assert not jax.config.jax_enable_x64
    assert Score.from_jax(lambda x: -(x**2).sum(), np.zeros(3)).labels == ["x[0]", "x[1]", "x[2]"]
    with pytest.raises(TypeError, match="`log_density` must be callable"):
        Score.from_jax(3, np.zeros(2))
    with pytest.raises(ValueError, match="`example` must hold at least one array"):
        Score.from_jax(log_density, {})


def test_double_precision_of_older_versions_of_jax(monkeypatch):
    """Before 0.8 it is among what JAX tries out."""
    double = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    monkeypatch.delattr(jax, "enable_x64", raising=False)
    monkeypatch.setattr("jax.experimental.enable_x64", double, raising=False)
    score = Score.from_jax(lambda x: -(x**2) / 2, 0.0)
    x = 1 + 1e-10  # a single float has no digits for it
    assert score(np.array([[x]]))[0, 0] == pytest.approx(-x, rel=1e-14)


def test_draws_of_a_jax_density_are_tested(rng):
    score = Score.from_jax(lambda z: -(z["mu"] ** 2).sum() / 2, {"mu": np.zeros(2)})
    dims = ("chain", "draw", "k")
    good = xr.Dataset({"mu": (dims, rng.normal(size=(4, 100, 2)))})
    assert ksd_test(score, good, random_seed=1)["p_value"] > 0.05
    assert ksd_test(score, good + 0.5, random_seed=1)["p_value"] < 0.01
    with pytest.raises(ValueError, match="a log density cannot be simulated"):
        ksd_test(score, rng.normal(size=(30, 2)), null="parametric")


def test_numpyro_and_pymc_agree_where_coordinates_do(rng):
    model, _ = eight_schools()
    ours, theirs = Score.from_numpyro(schools, ERRORS, y=EFFECTS), compile_score(model)
    assert ours.labels == theirs.labels
    assert repr(ours) == "<Score of the posterior of mu, tau, theta; dim=10>"
    points = rng.normal(size=(40, 10))
    np.testing.assert_allclose(ours(points), theirs(points), rtol=1e-10, atol=1e-10)
    samples = {"mu": points[:, 0], "tau": np.exp(points[:, 1]), "theta": points[:, 2:]}
    np.testing.assert_allclose(ours.unconstrain(samples), points, rtol=1e-12)
    samples["tau"][7] = -1.0
    with pytest.raises(ValueError, match=r"1 of 40 points lie outside the support .*rows 7"):
        ours.unconstrain(samples)


def test_improper_priors_of_numpyro():
    def model(y):
        mu = numpyro.sample("mu", dist.ImproperUniform(dist.constraints.real, (), ()))
        sd = numpyro.sample("sd", dist.ImproperUniform(dist.constraints.positive, (), (2,)))
        numpyro.sample("y", dist.Normal(mu, sd), obs=y)

    score = Score.from_numpyro(model, np.array([0.5, 1.0]))
    assert score.labels == ["mu", "sd[0]", "sd[1]"]
    # By hand, at mu = 0 and sd = 1: y for mu, and y squared - 1, with the Jacobian's 1, for log sd.
    np.testing.assert_allclose(score(np.zeros((1, 3))), [[1.5, 0.25, 1.0]], rtol=1e-12)


def test_numpyro_transforms_and_gradients_of_constrained_variables(rng):
    def model():
        weights = numpyro.sample("weights", dist.Dirichlet(jnp.array([2.0, 3.0, 4.0])))
        numpyro.sample("share", dist.Beta(2.0, 3.0).expand([2]).to_event(1))
        numpyro.sample("y", dist.Multinomial(10, weights), obs=np.array([2, 3, 5]))

    score = Score.from_numpyro(model)
    target = score._target
    assert [v.elementwise for v in target.variables] == [False, False]
    assert score.dim == 2 + 2
    points = rng.normal(size=(6, 4)) / 2
    np.testing.assert_allclose(target.unconstrained(target.constrained(points)), points, atol=1e-6)
    heights = lambda z: target.values(z)[1]  # noqa: E731
    np.testing.assert_allclose(score(points), differences(heights, points), rtol=1e-5, atol=1e-6)
    # The log density has the Jacobian: that of Beta(2, 3) by the logistic transform.
    moved = points.copy()
    moved[:, -1] += 0.7
    shares = [1 / (1 + np.exp(-z[:, -1])) for z in (points, moved)]
    change = np.diff([2 * np.log(p) + 3 * np.log1p(-p) for p in shares], axis=0)[0]
    np.testing.assert_allclose(heights(moved) - heights(points), change, rtol=1e-9)


def simplex_models():
    """The same posterior, whose coordinates are PyMC's and NumPyro's; and exact draws of it."""
    with pm.Model() as ours:
        weights = pm.Dirichlet("weights", np.array([2.0, 3.0, 4.0]))
        pm.Multinomial("y", 10, weights, observed=[2, 3, 5])

    def theirs():
        weights = numpyro.sample("weights", dist.Dirichlet(jnp.array([2.0, 3.0, 4.0])))
        numpyro.sample("y", dist.Multinomial(10, weights), obs=np.array([2, 3, 5]))

    def draws(rng, counts):
        values = rng.dirichlet(counts, size=(4, 100))
        return xr.Dataset({"weights": (("chain", "draw", "weights_dim_0"), values)})

    return ours, Score.from_numpyro(theirs), draws


def test_verdicts_are_the_same_where_coordinates_are_not(rng):
    ours, theirs, draws = simplex_models()
    for counts, status in (([4, 6, 9], "passed"), ([2, 3, 4], "rejected")):
        sample = draws(rng, counts)
        results = [ksd_test(one, sample, random_seed=1) for one in (ours, theirs)]
        assert [one.attrs["status"] for one in results] == [status, status]


def test_numpyro_models_that_have_no_score_are_refused():
    def discrete():
        numpyro.sample("k", dist.Poisson(3.0))

    with pytest.raises(ValueError, match=r"variable\(s\) k of `model` are discrete"):
        Score.from_numpyro(discrete)

    def subsampled():
        mu = numpyro.sample("mu", dist.Normal())
        with numpyro.plate("rows", 10, subsample_size=5):
            numpyro.sample("y", dist.Normal(mu), obs=np.zeros(5))

    with pytest.raises(ValueError, match=r"plate\(s\) rows of `model` take a random part"):
        Score.from_numpyro(subsampled)
    with pytest.raises(ValueError, match="no latent variables"):
        Score.from_numpyro(lambda: numpyro.sample("x", dist.Normal(), obs=1.0))
    with pytest.raises(TypeError, match="must be a NumPyro model"):
        Score.from_numpyro("model")


@pytest.mark.parametrize(
    ("missing", "make", "hint"),
    [
        ("numpyro", lambda: Score.from_numpyro(schools, ERRORS), r"pymc-ksd\[numpyro\]"),
        ("jax", lambda: Score.from_jax(abs, 0.0), r"pymc-ksd\[jax\]"),
    ],
)
def test_what_is_not_installed_is_told(missing, make, hint, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "numpyro":
        monkeypatch.setitem(sys.modules, "numpyro.infer", None)
    with pytest.raises(ImportError, match=hint):
        make()


@pytest.mark.slow
def test_gradients_of_numpyro_have_the_other_sign():
    from arviz_base import from_numpyro
    from numpyro.infer import MCMC, NUTS

    sampler = MCMC(
        NUTS(schools, target_accept_prob=0.95),
        num_warmup=200,
        num_samples=100,
        num_chains=2,
        chain_method="sequential",
        progress_bar=False,
    )
    fields = ("z_grad", "potential_energy")
    sampler.run(jax.random.PRNGKey(1), ERRORS, y=EFFECTS, extra_fields=fields)
    extra = sampler.get_extra_fields(group_by_chain=True)
    draws = from_numpyro(sampler)
    stored = with_gradients(
        draws, extra["z_grad"], log_density=extra["potential_energy"], of_potential=True
    )
    score = Score.from_numpyro(schools, ERRORS, y=EFFECTS)
    own, taken = (ksd_test(score, one, random_seed=1) for one in (draws, stored))
    assert (own.attrs["scores"], taken.attrs["scores"]) == ("model", "stored")
    assert list(own["member"].values) == list(taken["member"].values)
    np.testing.assert_allclose(taken["ksd"], own["ksd"], rtol=1e-3)  # in single precision


@pytest.mark.slow
def test_states_of_blackjax_are_tested_without_a_model():
    import blackjax

    def log_density(z):
        return -((z["a"] - 1) ** 2) / 2 - (z["b"] ** 2).sum() / 8

    kernel = blackjax.hmc(
        log_density,
        step_size=0.8,
        inverse_mass_matrix=jnp.array([1.0, 4.0, 4.0]),
        num_integration_steps=3,
    )

    def chain(key):
        def step(state, key):
            state, _ = kernel.step(key, state)
            return state, state

        start = kernel.init({"a": jnp.array(1.0), "b": jnp.zeros(2)})
        return jax.lax.scan(step, start, jax.random.split(key, 300))[1]

    states = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.PRNGKey(0), 4))
    posterior = xr.Dataset(
        {
            "a": (("chain", "draw"), np.asarray(states.position["a"])),
            "b": (("chain", "draw", "k"), np.asarray(states.position["b"])),
        }
    )
    stored = with_gradients(
        posterior,
        states.logdensity_grad,
        points=states.position,
        log_density=states.logdensity,
    )
    score = Score.from_jax(log_density, {"a": 0.0, "b": np.zeros(2)})
    results = [
        ksd_test(Score.from_draws(stored), stored, random_seed=1),
        ksd_test(score, stored, random_seed=1),
        ksd_test(score, posterior, random_seed=1),
    ]
    assert [one.attrs["scores"] for one in results] == ["stored", "stored", "model"]
    for one in results:
        np.testing.assert_allclose(one["ksd"], results[-1]["ksd"], rtol=1e-4)
        assert one.attrs["status"] == "passed"
    wide = 1.5 * posterior
    gradients = {"a": 1 - wide["a"], "b": -wide["b"] / 4}
    wrong = with_gradients(wide, gradients, points=wide.data_vars)
    assert ksd_test(Score.from_draws(wrong), wrong, random_seed=1).attrs["status"] == "rejected"


def test_modes_of_a_numpyro_model_are_on_the_users_scale():
    def model():
        numpyro.sample("scale", dist.Gamma(3.0, 2.0))

    score = Score.from_numpyro(model)
    draws = xr.Dataset(
        {"scale": (("chain", "draw"), np.random.default_rng(1).gamma(3.0, 0.5, size=(2, 60)))}
    )
    found = ksd_modes(score, draws, random_seed=1, progressbar=False)
    np.testing.assert_allclose(found["scale"], [1.5], rtol=1e-3)  # 3 / 2, Jacobian included
