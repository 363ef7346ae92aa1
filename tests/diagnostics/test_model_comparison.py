"""Which of several fitted models explains the data better."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.spatial.distance import cdist

import pymc_ksd
from tests.reference import rbf, stein_coordinates


def known(y, mu, sigma, name="y"):
    """A model without free variables; its draws are not looked at."""
    with pm.Model() as model:
        pm.Normal(name, mu, sigma, observed=y)
    return model, xr.Dataset({"none": (("chain", "draw"), np.zeros((1, 4)))})


def regression(x, y, degree):
    """A linear regression with known noise and a flat prior, and exact draws of its posterior."""
    inputs = np.stack([x**power for power in range(degree + 1)], axis=1)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 100, shape=degree + 1)
        pm.Normal("y", pm.math.dot(inputs, beta), 1.0, observed=y)
    covariance = np.linalg.inv(inputs.T @ inputs)
    rng = np.random.default_rng(degree)
    draws = rng.multivariate_normal(covariance @ inputs.T @ y, covariance, size=(4, 50))
    return model, xr.Dataset({"beta": (("chain", "draw", "power"), draws)})


def test_table_is_that_of_a_double_loop(rng):
    """Means differ: the centre is between both models', and the unit the spread around it."""
    n, x = 25, rng.normal(size=25)
    y = x + rng.normal(size=n)
    settings = {"one": (0.5 * x, 1.0), "two": (1.2 * x, 2.0)}
    models = {name: known(y, *values) for name, values in settings.items()}
    table = pm.ksd_compare_models(models, covariates=x, random_seed=1)
    centre = 0.85 * x
    ordered = np.sort(y - centre)
    # Half the width of the central 68 % of 25.
    spread = np.full(n, (ordered[20] - ordered[4]) / 2)
    places = (y - centre) / spread
    distances = cdist(x[:, None], x[:, None])
    width = np.median(distances[np.triu_indices(n, 1)]) / 3
    local = np.exp(-0.5 * (distances / width) ** 2)
    mean = (local.sum() - n) / (n * (n - 1)) + 1 / n
    expected = {}
    for name, (mu, sigma) in settings.items():
        scores = -(y - mu) / sigma**2 * spread
        u = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                pair = (places[[i]], scores[[i]], places[[j]], scores[[j]])
                u[i, j] = (i != j) * stein_coordinates(rbf, *pair, 1.0)[0]
        expected[name] = u * (1 + local / mean) / 2
    statistics = {name: h.sum() / (n * (n - 1)) for name, h in expected.items()}
    assert table.index.tolist() == sorted(statistics, key=statistics.get)
    for name, statistic in statistics.items():
        np.testing.assert_allclose(table.loc[name, "discrepancy"], statistic, rtol=1e-8)
    best, other = table.index
    h = expected[other] - expected[best]
    left_out = [np.delete(np.delete(h, i, 0), i, 1).sum() / ((n - 1) * (n - 2)) for i in range(n)]
    jackknife = np.sqrt((n - 1) / n * np.sum((left_out - np.mean(left_out)) ** 2))
    np.testing.assert_allclose(table.loc[other, "dse"], jackknife, rtol=1e-8)
    np.testing.assert_allclose(table.loc[other, "difference"], h.sum() / (n * (n - 1)), rtol=1e-8)
    z = table.loc[other, "difference"] / jackknife
    np.testing.assert_allclose(table.loc[other, "p_value"], 2 * stats.norm.sf(abs(z)))
    assert table.loc[best, ["difference", "dse"]].tolist() == [0, 0]


def test_the_true_regression_is_preferred(rng):
    x = rng.uniform(-2, 2, size=300)
    y = 1 + x + 0.6 * x**2 + rng.normal(size=300)
    models = {"line": regression(x, y, 1), "parabola": regression(x, y, 2)}
    table = pymc_ksd.ksd_compare_models(models, random_seed=1)
    assert table.index.tolist() == ["parabola", "line"]
    assert table["rank"].tolist() == [0, 1]
    assert table["clear"].tolist() == [False, True]
    assert table.loc["line", "lower"] > 0
    assert table.attrs["result"] == "ksd_compare_models"
    again = pymc_ksd.ksd_compare_models(models, random_seed=1)
    assert table.equals(again)


def test_families_of_counts(rng):
    y = rng.negative_binomial(3, 0.3, size=150)
    models = {}
    for name, family, options in (
        ("poisson", pm.Poisson, {}),
        ("negbin", pm.NegativeBinomial, {"alpha": 3}),
    ):
        with pm.Model() as model:
            mu = pm.Gamma("mu", 1, 0.1)
            family("y", mu=mu, observed=y, **options)
        draws = np.random.default_rng(0).normal(y.mean(), 0.3, size=(2, 40))
        models[name] = model, xr.Dataset({"mu": (("chain", "draw"), draws)})
    table = pm.ksd_compare_models(models, random_seed=0)
    assert table.index[0] == "negbin"
    assert table.loc["poisson", "clear"]
    assert np.isnan(table["elpd"]).all()


def test_new_observations_take_the_place_of_the_old_ones(rng):
    mu = rng.normal(size=40)
    old, new = mu, -mu + 0.1 * rng.normal(size=40)
    models = {"up": known(old, mu, 1.0), "down": known(old, -mu, 1.0)}
    assert pm.ksd_compare_models(models).index[0] == "up"
    assert pm.ksd_compare_models(models, new).index[0] == "down"
    with pytest.raises(ValueError, match=r"`data` must have finite values of shape \(40,\)"):
        pm.ksd_compare_models(models, new[1:])


def test_cross_validation_stands_beside_it(rng):
    y = rng.normal(size=60)
    models = {}
    for name, mean in (("near", 0.0), ("far", 1.0)):
        model, _ = known(y, mean, 1.0)
        stored = stats.norm.logpdf(y, mean, 1.0) * np.ones((2, 100, 1))
        stored += 1e-3 * rng.normal(size=stored.shape)
        draws = xr.Dataset({"a": (("chain", "draw"), rng.normal(size=(2, 100)))})
        groups = {"/posterior": draws, "/log_likelihood": xr.Dataset()}
        groups["/log_likelihood"]["y"] = (("chain", "draw", "i"), stored)
        tree = xr.DataTree.from_dict(groups)
        if "InferenceData" in vars(az):  # ArviZ 0
            tree = az.InferenceData(**{name[1:]: group for name, group in groups.items()})
        models[name] = model, tree
    table = pm.ksd_compare_models(models)
    assert table.index.tolist() == ["near", "far"]
    expected = stats.norm.logpdf(y, 0.0, 1.0).sum() - stats.norm.logpdf(y, 1.0, 1.0).sum()
    np.testing.assert_allclose(table.loc["far", "elpd_diff"], expected, rtol=0.01)
    assert table.loc["near", "elpd_diff"] == 0


def test_models_that_cannot_be_compared_are_refused(rng):
    y = rng.gamma(5, size=30)
    one = known(y, 5.0, 2.0)
    with pytest.raises(ValueError, match="at least two models to compare, got 1"):
        pm.ksd_compare_models({"one": one})
    with pytest.raises(TypeError, match="mapping from names to pairs"):
        pm.ksd_compare_models([one, one])
    with pytest.raises(TypeError, match="'two' has Model"):
        pm.ksd_compare_models({"one": one, "two": one[0]})
    with pytest.raises(ValueError, match="'one' and 'two' must observe the same data"):
        pm.ksd_compare_models({"one": one, "two": known(y[::-1], 5.0, 2.0)})
    with pm.Model() as gamma:
        pm.Gamma("y", 5, 1, observed=y)
    with pytest.raises(ValueError, match="'one' and 'two' observe 'y' on different scales"):
        pm.ksd_compare_models({"one": one, "two": (gamma, one[1])})
    with pm.Model() as several:
        pm.Normal("y", 5, 2, observed=y)
        pm.Normal("z", 5, 2, observed=y)
    with pytest.raises(ValueError, match=r"several observed variables \(y, z\)"):
        pm.ksd_compare_models({"one": one, "two": (several, one[1])})
    assert len(pm.ksd_compare_models({"one": one, "two": (several, one[1])}, var_names="y")) == 2


@pytest.mark.slow
@pytest.mark.newer_stack
def test_intervals_cover_the_difference():
    """Of two models that are both wrong, measured once with very many observations."""
    rng = np.random.default_rng(5)

    def compared(n):
        x = rng.normal(size=n)
        y = x + 0.5 * x**2 + rng.normal(size=n)
        models = {"one": known(y, 0.5 + x, 1.3), "two": known(y, 0.3 + 1.2 * x, 1.0)}
        table = pm.ksd_compare_models(models, covariates=None, random_seed=0, progressbar=False)
        return table

    def signed(table):
        """The difference two minus one, with its error, whichever is the best."""
        other = table.index[1]
        sign = 1 if other == "two" else -1
        return sign * table.loc[other, "difference"], table.loc[other, "dse"]

    truth, error = signed(compared(20_000))
    found = np.array([signed(compared(150)) for _ in range(200)])
    covered = np.abs(found[:, 0] - truth) < 1.96 * np.hypot(found[:, 1], error)
    assert 0.90 <= covered.mean() <= 0.985
