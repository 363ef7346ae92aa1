import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import reference
import xarray as xr
from numeric import BIRTH_DEATH, members
from scipy import stats

import pymc_ksd
from pymc_ksd import compilation
from pymc_ksd.diagnostics.predictive.comparisons import find_comparisons
from pymc_ksd.diagnostics.predictive.residuals import residuals_given
from pymc_ksd.engine.conditional import evaluate_conditional
from pymc_ksd.engine.walk import Effort
from pymc_ksd.models.observed.fitted import fitted_density
from pymc_ksd.samples.posterior import given_values
from pymc_ksd.stein.kernels import IMQ, RBF

#: A few draws are enough for all that is not about p-values.
pytestmark = pytest.mark.filterwarnings("ignore:With .* draws no p-value is below")

X = np.random.default_rng(20).uniform(-2, 2, size=60)
Y = 1 + X + np.random.default_rng(21).normal(size=60)


def draws(**values):
    """Posterior draws as a Dataset, one chain."""
    fields = {}
    for name, array in values.items():
        array = np.asarray(array, dtype=float)
        fields[name] = (
            ("chain", "draw", *[f"{name}_dim_{i}" for i in range(array.ndim - 1)]),
            array[None],
        )
    return xr.Dataset(fields)


def regression(x=X, y=Y, data=False):
    rng = np.random.default_rng(22)
    with pm.Model() as model:
        inputs = pm.Data("x", x) if data else x
        slope = pm.Normal("slope", 0, 10)
        sd = pm.HalfNormal("sd", 10)
        pm.Normal("y", 1 + slope * inputs, sd, observed=y)
    posterior = draws(slope=1 + 0.1 * rng.normal(size=40), sd=1 + 0.05 * rng.normal(size=40))
    return model, posterior


def parts(model, posterior, name="y", num_draws=3):
    density = fitted_density(model, model[name], None, None)
    given = given_values(model, density.given, posterior, num_draws)
    rng, n = np.random.default_rng(1), len(density.data())
    return density, given, [residuals_given(density, n, values, rng) for values in given]


def samples_of_data(density, residuals):
    """The observations as residuals, one sample for every draw."""
    return [[of_draw.of_data(density.data(), np.random.default_rng(0))] for of_draw in residuals]


@pytest.mark.parametrize(("kernel", "slow"), [(RBF(), reference.rbf), (IMQ(), reference.imq)])
def test_statistic_of_a_regression_is_the_double_loop(kernel, slow):
    model, posterior = regression()
    density, given, residuals = parts(model, posterior)
    covariates = X[:, None] / 0.7
    changing = [X[:, None] / width for width in (0.5, 1.0, 2.0)]
    (sums,), (rows,) = evaluate_conditional(
        members(kernel, 1.3),
        samples_of_data(density, residuals),
        [None, covariates, changing],
        Effort(17),
    )
    assert sums.shape == (3, 1, 3)
    expected_rows = np.zeros((60, 3))
    for index, (slope, sd) in enumerate(given):
        # The central 68 % of a normal distribution, given the draw.
        spread = sd * stats.norm.ppf(0.84)
        z = ((Y - 1 - slope * X) / spread)[:, None]
        score = (-(Y - 1 - slope * X) / sd**2 * spread)[:, None]
        u = reference.stein_matrix(slow, z, score, 1.3)[..., 0]
        np.fill_diagonal(u, 0)
        squared = (X[:, None] - X) ** 2
        kernels = [np.ones((60, 60)), np.exp(-squared / (2 * 0.7**2))]
        kernels.append(np.exp(-squared / (2 * (0.5, 1.0, 2.0)[index] ** 2)))
        products = np.stack([k * u for k in kernels])
        np.testing.assert_allclose(sums[index, 0], products.sum(axis=(1, 2)), rtol=1e-10)
        expected_rows += products.sum(axis=2).T
    np.testing.assert_allclose(rows, expected_rows, rtol=1e-9, atol=1e-10)


def poisson_regression():
    rng = np.random.default_rng(23)
    counts = rng.poisson(np.exp(0.5 + 0.4 * X))
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 10)
        pm.Poisson("y", pm.math.exp(0.5 + slope * X), observed=counts)
    return model, draws(slope=0.4 + 0.1 * rng.normal(size=40)), counts


def test_statistic_of_counts_is_the_operator_written_out():
    model, posterior, counts = poisson_regression()
    density, given, residuals = parts(model, posterior)
    (sums,), _ = evaluate_conditional(
        members(RBF(), 0.9, operator=BIRTH_DEATH),
        samples_of_data(density, residuals),
        [None],
        Effort(23),
    )
    for index, (slope,) in enumerate(given):
        centre, spread = residuals[index].centre[:, 0], residuals[index].spread[:, 0]
        law = stats.poisson(np.exp(0.5 + slope * X))
        here, above, below = law.pmf(counts), law.pmf(counts + 1), law.pmf(counts - 1)
        up, down = above / (here + above), below / (here + below)
        z, step = (counts - centre) / spread, 1 / spread
        up, down = np.maximum(spread, 1) * up, np.maximum(spread, 1) * down

        def kernel(a, b):
            return np.exp(-((a - b) ** 2) / (2 * 0.9**2))

        total = 0.0
        for i in range(60):
            for j in range(60):
                if i != j:
                    total += (
                        up[i] * up[j] * kernel(z[i] + step[i], z[j] + step[j])
                        - up[i] * down[j] * kernel(z[i] + step[i], z[j])
                        - down[i] * up[j] * kernel(z[i], z[j] + step[j])
                        + down[i] * down[j] * kernel(z[i], z[j])
                    )
        np.testing.assert_allclose(sums[index, 0, 0], total, rtol=1e-9, atol=1e-10)


def test_overdispersed_counts_of_many_trials_are_found():
    """They lay far from the model, and counted for less than those of few trials that fitted."""
    rng = np.random.default_rng(6)
    group, trials = np.repeat([0, 1], 24), np.tile([10, 25, 35], 16)
    chances = np.where(group, rng.beta(4, 4, size=48), 0.93)
    counts = rng.binomial(trials, chances)
    with pm.Model() as model:
        chance = pm.Beta("chance", 1, 1, shape=2)
        pm.Binomial("y", trials, chance[pm.Data("group", group)], observed=counts)
    left = trials - counts
    values = [
        rng.beta(1 + counts[group == one].sum(), 1 + left[group == one].sum(), size=200)
        for one in (0, 1)
    ]
    check = pymc_ksd.ksd_ppc(model, draws(chance=np.stack(values, axis=1)), random_seed=1)
    assert float(check["p_value"]) <= 0.02
    # Trials are parameters, and not also inputs beside others.
    assert check.attrs["compared_by"] == "residuals; parameters: n, p; groups: group"


def test_trials_of_a_model_without_free_variables_are_inputs():
    rng = np.random.default_rng(0)
    x, trials = rng.normal(size=60), rng.integers(5, 50, size=60)
    with pm.Model() as model:
        chance = pm.math.sigmoid(pm.Data("x", x))
        pm.Binomial("y", pm.Data("n", trials), chance, observed=rng.binomial(trials, 0.5))
    check = pymc_ksd.ksd_ppc(model, num_draws=20, random_seed=1, progressbar=False)
    assert check.attrs["compared_by"] in ("residuals; inputs: x, n", "residuals; inputs: n, x")


def known_scale():
    scale = pm.HalfNormal("scale")
    effect = pm.Normal("effect", 0, scale, shape=3)
    pm.Normal("y", effect[np.arange(60) % 3], scale, observed=Y)


def element_of_scales():
    scales = pm.HalfNormal("scale", shape=2)
    effect = pm.Normal("effect", 0, scales[0], shape=3)
    pm.Deterministic("slope", scales[1] * effect[0])
    pm.Normal("y", effect[np.arange(60) % 3] + scales[1] * X, 1.0, observed=Y)


@pytest.mark.parametrize("write", [known_scale, element_of_scales])
def test_what_is_behind_an_effect_may_be_beside_it(write):
    with pm.Model() as model:
        write()
    prior = pm.draw(model.free_RVs, 40, random_seed=1)
    posterior = draws(**{rv.name: one for rv, one in zip(model.free_RVs, prior, strict=True)})
    check = pymc_ksd.ksd_ppc(model, posterior, num_draws=20, random_seed=1, progressbar=False)
    assert 0 < float(check["p_value"]) <= 1


def test_mean_of_the_statistic_is_zero_under_the_model():
    """Stein's identity for every observation with its own parameters, by simulation."""
    model, posterior, _ = poisson_regression()
    _, _, residuals = parts(model, posterior, num_draws=1)
    rng = np.random.default_rng(5)
    samples = [[residuals[0].replicated(rng)[0] for _ in range(400)]]
    ((sums,),), _ = evaluate_conditional(
        members(RBF(), 1.0, operator=BIRTH_DEATH), samples, [None, X[:, None]]
    )
    error = sums.std(axis=0, ddof=1) / np.sqrt(len(sums))
    assert (np.abs(sums.mean(axis=0)) < 4 * error).all()


def truncated():
    return pm.TruncatedNormal("y", pm.Data("mu", X), 1.0, upper=3.0, observed=np.minimum(Y, 2.9))


@pytest.mark.parametrize(
    "write",
    [
        lambda: pm.Gamma("y", 2.0, pm.math.exp(X), observed=np.exp(Y)),
        lambda: pm.Beta("y", 2.0, 3.0, observed=1 / (1 + np.exp(-Y))),
        truncated,
        lambda: pm.TruncatedNormal("y", X, 1.0, lower=-3.0, observed=np.maximum(Y, -2.9)),
    ],
    ids=["lower bound", "two bounds", "upper bound", "PyMC 6 has no quantiles"],
)
def test_scale_from_quantiles_is_that_of_simulated_values(write, monkeypatch):
    with pm.Model() as model:
        write()
    density = fitted_density(model, model["y"], None, None)
    monkeypatch.setattr("pymc_ksd.diagnostics.predictive.residuals._SIMULATED", 20_001)
    rng = np.random.default_rng(1)
    without = replace(density, quantiles=lambda *_: None)
    simulated = residuals_given(without, 60, (), rng)
    # PyMC 5 does not know the quantiles of truncated ones: then both are simulated.
    found = residuals_given(density, 60, (), rng)
    np.testing.assert_allclose(found.centre, simulated.centre, atol=0.1)
    np.testing.assert_allclose(found.spread, simulated.spread, rtol=0.1)
    assert np.ptp(found.centre) > 0.5 or write is not truncated


def kinds_of_things(second):
    """Counts of three kinds, of which the third is rare in the data or most frequent."""
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(3))
        rows = np.random.default_rng(1).multinomial(9, [0.1, 0.2, 0.7], size=40)
        pm.Multinomial("y", n=9, p=share, observed=rows[:, ::-1] if second else rows)
    rng = np.random.default_rng(2)
    return model, draws(share=rng.dirichlet([20, 20, 25], size=20))


def line(second):
    _, posterior = regression(data=True)
    with pm.Model() as model:
        x = pm.Data("x", X)
        slope, sd = pm.Normal("slope", 0, 10), pm.HalfNormal("sd", 10)
        pm.Normal("y", 1 + slope * x, sd, observed=3 * Y + 5 if second else Y)
    return model, posterior


@pytest.mark.parametrize("write", [line, kinds_of_things])
def test_replicated_discrepancies_do_not_look_at_the_data(write):
    """What is held against the data is a function of the draws alone."""
    options = {"num_draws": 20, "random_seed": 1, "bandwidth": "median"}
    (model, posterior), (other, _) = write(False), write(True)
    first, second = (pymc_ksd.ksd_ppc(m, posterior, **options) for m in (model, other))
    np.testing.assert_array_equal(first["replicated_statistic"], second["replicated_statistic"])
    assert not np.allclose(first["observed_statistic"], second["observed_statistic"])


@pytest.fixture(scope="module")
def curved():
    """A straight line fitted to a parabola."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, size=200)
    y = x**2 + rng.normal(size=200)
    coords = {"town": [f"t{i}" for i in range(200)]}
    with pm.Model(coords=coords) as model:
        inputs = pm.Data("x", x, dims="town")
        level = pm.Normal("level", 0, 10)
        slope = pm.Normal("slope", 0, 10)
        pm.Normal("y", level + slope * inputs, 1.5, observed=y, dims="town")
    sd = 1.5 / np.sqrt(200)
    posterior = draws(
        level=rng.normal(y.mean(), sd, size=300),
        slope=rng.normal(np.cov(x, y)[0, 1] / x.var(), sd, size=300),
    )
    return model, posterior, x


def test_result_of_a_misfit(curved):
    model, posterior, _ = curved
    before = np.random.get_state()[1].copy()  # noqa: NPY002, the global state is what is watched
    check = pymc_ksd.ksd_ppc(model, posterior, num_draws=60, random_seed=3)
    assert float(check["p_value"]) == pytest.approx(1 / 61)
    assert check["observed"].dims == check["replicated"].dims == ("sample",)
    assert check.sizes["sample"] == 60
    assert check["y"].dims == ("town",)
    assert check["y"]["town"].values[3] == "t3"
    assert list(check["comparison"].values) == ["residuals", "inputs"]
    chosen = check["observed_statistic"].sel(member=check["contributions_member"].item())
    assert float(check["y"].sum()) == pytest.approx(float(chosen.mean()), rel=1e-9)
    again = pymc_ksd.ksd_ppc(model, posterior, num_draws=60, random_seed=3, block_size=33)
    xr.testing.assert_allclose(check, again)
    other = pymc_ksd.ksd_ppc(model, posterior, num_draws=60, random_seed=4)
    assert not np.allclose(check["observed"], other["observed"])
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002, for the same reason


def test_result_survives_netcdf_and_is_plotted(curved, tmp_path):
    model, posterior, _ = curved
    check = pymc_ksd.ksd_ppc(model, posterior, num_draws=20, random_seed=3)
    check.to_netcdf(tmp_path / "check.nc")
    with xr.open_dataset(tmp_path / "check.nc") as loaded:
        xr.testing.assert_allclose(loaded.load(), check)
        for backend in ("none", "matplotlib", "bokeh", "plotly"):
            data = pymc_ksd.plot_ksd_ppc(loaded, backend=backend)
            drawn = {"marked_0", "band", "median", "observations", "named_0", "xlabel", "title"}
            assert drawn <= set(data.viz.children)
            lines = pymc_ksd.plot_ksd_witness(loaded, covariate="x", backend=backend)
            drawn = {"marked_0", "band", "zero", "witness_0", "witness_1", "witness_2", "title"}
            assert drawn <= set(lines.viz.children)


def test_picture_shows_the_data(curved):
    model, posterior, x = curved
    check = pymc_ksd.ksd_ppc(model, posterior, num_draws=20, random_seed=3)
    tree = xr.DataTree.from_dict({"ksd_ppc": check})
    collection = pymc_ksd.plot_ksd_ppc(tree["ksd_ppc"], backend="matplotlib")
    axes = collection.get_target("y", {})
    dots = collection.viz["observations"]["y"].item().get_offsets()
    np.testing.assert_allclose(dots, np.column_stack([x, model.rvs_to_values[model["y"]].data]))
    assert "(p = 0.048): weak evidence that the model does not fit y" in axes.get_title()


def test_true_model_is_not_rejected():
    rng = np.random.default_rng(8)
    p_values = []
    for _ in range(10):
        y = 1 + X + rng.normal(size=60)
        with pm.Model() as model:
            slope = pm.Normal("slope", 0, 100)
            pm.Normal("y", 1 + slope * X, 1.0, observed=y)
        sd = 1 / np.sqrt(X @ X)
        posterior = draws(slope=rng.normal(X @ (y - 1) / (X @ X), sd, size=100))
        check = pymc_ksd.ksd_ppc(model, posterior, num_draws=50, random_seed=1)
        p_values.append(float(check["p_value"]))
    assert np.mean(np.array(p_values) <= 0.05) <= 0.2
    assert max(p_values) > 0.4


def test_compilations_do_not_grow_with_draws(monkeypatch):
    count = []
    real = compilation.pytensor.function
    monkeypatch.setattr(
        compilation.pytensor, "function", lambda *a, **k: count.append(1) or real(*a, **k)
    )
    model, posterior = regression(data=True)
    pymc_ksd.ksd_ppc(model, posterior, num_draws=3, random_seed=1)
    first = len(count)
    assert first > 0
    pymc_ksd.ksd_ppc(model, posterior, num_draws=30, random_seed=1)
    with model:
        pm.set_data({"x": X + 1.0})
    pymc_ksd.ksd_ppc(model, posterior, num_draws=30, random_seed=1, bandwidth=2.0)
    # Shapes and values of variables are asked for anew; densities and kernels are not built again.
    per_call = len(count) - first
    assert per_call <= 2
    fresh, _ = regression(data=True)
    before = len(count)
    pymc_ksd.ksd_ppc(fresh, posterior, num_draws=30, random_seed=1)
    assert len(count) - before <= first


def test_new_data_are_used(curved):
    model, posterior = regression(data=True)
    before = pymc_ksd.ksd_ppc(model, posterior, num_draws=20, random_seed=1)
    with model:
        pm.set_data({"x": X**2})
    after = pymc_ksd.ksd_ppc(model, posterior, num_draws=20, random_seed=1)
    assert float(after["p_value"]) < float(before["p_value"])


@pytest.mark.parametrize(
    "covariates",
    [X, X[:, None], pd.DataFrame({"x": X}), pd.Series(X, name="x"), "x", ["x"], {"y": X}],
    ids=["vector", "matrix", "frame", "series", "name", "names", "mapping"],
)
def test_covariates_of_users(covariates):
    model, posterior = regression(data=True)
    check = pymc_ksd.ksd_ppc(model, posterior, covariates=covariates, num_draws=10, random_seed=1)
    assert list(check["comparison"].values) == ["residuals", "covariates"]
    auto = pymc_ksd.ksd_ppc(model, posterior, num_draws=10, random_seed=1)
    np.testing.assert_allclose(check["observed_statistic"], auto["observed_statistic"])


def test_covariates_none_and_labels():
    model, posterior = regression()
    check = pymc_ksd.ksd_ppc(model, posterior, covariates=None, num_draws=10, random_seed=1)
    assert list(check["comparison"].values) == ["residuals"]
    assert "covariate_witness" not in check
    groups = pd.DataFrame({"group": np.where(X > 0, "high", "low")})
    density, given, _ = parts(model, posterior)
    _, local = find_comparisons(model, density, given, groups)
    (scaled,) = local.in_bandwidths(np.random.default_rng(0))
    same = np.exp(-0.5 * (scaled - scaled.T) ** 2)
    expected = (X[:, None] > 0) == (X[None, :] > 0)
    np.testing.assert_allclose(same, expected, atol=1e-7)


def test_many_covariates_are_compared_one_by_one(rng):
    model, posterior = regression()
    frame = pd.DataFrame(rng.normal(size=(60, 5)), columns=list("abcde"))
    check = pymc_ksd.ksd_ppc(model, posterior, covariates=frame, num_draws=5, random_seed=1)
    assert list(check["comparison"].values)[1:] == [f"covariates: {name}" for name in "abcde"]


def test_auto_finds_inputs_labels_and_parameters(rng):
    group = np.repeat([0, 1, 2], 20)
    with pm.Model() as model:
        effect = pm.Normal("effect", shape=3)
        slope = pm.Normal("slope")
        pm.Normal("y", effect[group] + slope * X, 1, observed=Y)
    posterior = draws(effect=rng.normal(size=(5, 3)), slope=rng.normal(size=5))
    density, given, _ = parts(model, posterior)
    found = {one.name: one for one in find_comparisons(model, density, given, "auto")}
    assert list(found) == ["residuals", "parameters", "inputs", "groups", "inputs within groups"]
    parameters, inputs = found["parameters"], found["inputs"]
    assert [column.labels for column in inputs.columns] == [False]
    assert [column.labels for column in found["groups"].columns] == [True]
    assert [column.labels for column in found["inputs within groups"].columns] == [False, True]
    assert parameters.changes
    assert not inputs.changes
    for values in given:
        (column,) = parameters.at(values)
        np.testing.assert_allclose(column.values, values[0][group] + values[1] * X)


def test_observations_are_no_covariates_of_themselves(rng):
    """Their length may be in the graph when they are pm.Data."""
    with pm.Model() as model:
        outcome = pm.Data("outcome", Y)
        inputs = pm.Data("x", X)
        slope = pm.Normal("slope")
        pm.Normal("y", 1 + slope * inputs, 1, observed=outcome)
    density, given, _ = parts(model, draws(slope=rng.normal(1, 0.1, size=5)))
    found = find_comparisons(model, density, given, "auto")
    assert [column.name for c in found for column in c.columns] == ["x"]


def test_hierarchical_model_needs_direct_parents_only(rng):
    with pm.Model() as model:
        mu, tau = pm.Normal("mu"), pm.HalfNormal("tau")
        theta = pm.Normal("theta", mu, tau, shape=3)
        pm.Normal("y", theta[np.repeat([0, 1, 2], 20)], 1.0, observed=Y)
    posterior = draws(theta=rng.normal(size=(20, 3)))
    density, _, _ = parts(model, posterior)
    assert density.given == ("theta",)
    assert "p_value" in pymc_ksd.ksd_ppc(model, posterior, num_draws=5)


def test_missing_values_are_left_out(rng):
    y = Y.copy()
    y[[3, 10]] = np.nan
    with pm.Model(coords={"i": range(60)}) as model:
        slope = pm.Normal("slope", 0, 10)
        with pytest.warns(pm.exceptions.ImputationWarning):
            pm.Normal("y", 1 + slope * X, 1.0, observed=y, dims="i")
    posterior = draws(slope=1 + 0.1 * rng.normal(size=40), y_unobserved=rng.normal(size=(40, 2)))
    check = pymc_ksd.ksd_ppc(model, posterior, var_names="y", num_draws=10, random_seed=1)
    assert check["y"].dims == ("i",)
    assert np.flatnonzero(np.isnan(check["y"])).tolist() == [3, 10]
    complete = np.delete(np.arange(60), [3, 10])
    with pm.Model() as without:
        slope = pm.Normal("slope", 0, 10)
        pm.Normal("y", 1 + slope * X[complete], 1.0, observed=Y[complete])
    same = pymc_ksd.ksd_ppc(without, posterior, num_draws=10, random_seed=1)
    np.testing.assert_allclose(check["y"].values[complete], same["y"].values, rtol=1e-8)


def test_incomplete_vectors_are_left_out():
    rng = np.random.default_rng(1)
    y = rng.normal(size=(30, 2))
    y[4, 1] = np.nan
    with pm.Model() as model:
        mu = pm.Normal("mu", shape=2)
        with pytest.warns(pm.exceptions.ImputationWarning):
            pm.MvNormal("y", mu, np.eye(2), observed=y)
    posterior = draws(mu=rng.normal(scale=0.2, size=(40, 2)))
    check = pymc_ksd.ksd_ppc(model, posterior, num_draws=10, random_seed=1)
    assert np.flatnonzero(np.isnan(check["y"])).tolist() == [4]
    assert "witness" not in check
    collection = pymc_ksd.plot_ksd_witness(check, backend="matplotlib")
    worst = int(np.nanargmax(check["y"]))
    title = collection.get_target("y", {}).get_title()
    assert title == f"Observation {worst} adds most to the discrepancy"
    with pytest.raises(ValueError, match="several dimensions"):
        pymc_ksd.plot_ksd_witness(check, covariate="x")


def outcomes():
    rng = np.random.default_rng(6)
    with pm.Model() as model:
        a = pm.HalfNormal("a", shape=3)
        pm.Dirichlet("simplex", 1 + a, observed=rng.dirichlet([2, 2, 2], size=25))
        pm.Multinomial(
            "kinds",
            n=8,
            p=(1 + a) / (3 + a.sum()),
            observed=rng.multinomial(8, [1 / 3] * 3, size=25),
        )
        pm.Mixture(
            "mixture",
            [0.5, 0.5],
            [pm.Normal.dist(-a[0], 1), pm.Normal.dist(a[1], 1)],
            observed=rng.normal(size=30),
        )
        pm.ZeroInflatedPoisson("zeros", 0.7, 1 + a[0], observed=rng.poisson(1.5, size=40))
        pm.OrderedLogistic("grade", a[0], [-1.0, 1.0], observed=rng.integers(3, size=30))
        pm.Gamma("wait", 1 + a[0], 1.0, observed=rng.gamma(1.5, size=30))
        pm.MvNormal("pair", a[:2], np.eye(2), observed=rng.normal(size=(20, 2)))
    return model, draws(a=np.abs(rng.normal(scale=0.5, size=(30, 3))))


@pytest.mark.slow
@pytest.mark.newer_stack
def test_several_outcomes_of_all_kinds():
    model, posterior = outcomes()
    check = pymc_ksd.ksd_ppc(model, posterior, num_draws=20, random_seed=1)
    names = [rv.name for rv in model.observed_RVs]
    assert check["p_value"].dims == ("variable",)
    assert check["variable"].values.tolist() == names
    assert np.isfinite(check["observed"]).all()
    reached = (check["replicated"] >= check["observed"]).sum("sample")
    np.testing.assert_allclose(check["p_value"], (1 + reached) / 21)
    for name in names:
        assert check[name].shape == (model[name].shape.eval()[0],)
        alone = pymc_ksd.ksd_ppc(model, posterior, var_names=name, num_draws=20, random_seed=1)
        assert alone["p_value"].shape == ()
        assert set(alone["comparison"].values) <= set(check["comparison"].values)
    worst = names[np.argmin(check["p_value"].values)]
    assert worst in pymc_ksd.plot_ksd_witness(check, backend="none").viz["title"]
    assert "wait" in pymc_ksd.plot_ksd_ppc(check, variable="wait", backend="none").viz["band"]
    with pytest.raises(ValueError, match="must be one of"):
        pymc_ksd.plot_ksd_ppc(check, variable="nothing", backend="none")


def test_model_without_free_variables_needs_no_draws(rng):
    with pm.Model() as model:
        pm.Normal("y", 0.0, 1.0, observed=rng.normal(2, 1, size=80))
    check = pymc_ksd.ksd_ppc(model, num_draws=40, random_seed=1)
    assert float(check["p_value"]) == pytest.approx(1 / 41)
    with model:
        again = pm.ksd_ppc(num_draws=40, random_seed=1)
    assert float(again["p_value"]) == float(check["p_value"])


def test_draws_follow_labels(rng):
    with pm.Model(coords={"k": ["a", "b"]}) as model:
        mu = pm.Normal("mu", dims="k")
        pm.Normal("y", mu[(X > 0).astype(int)], 1.0, observed=Y)
    values = rng.normal(size=(1, 20, 2))
    posterior = xr.Dataset({"mu": (("chain", "draw", "k"), values)}, coords={"k": ["a", "b"]})
    turned = posterior.isel(k=[1, 0])
    results = [pymc_ksd.ksd_ppc(model, d, random_seed=1) for d in (posterior, turned)]
    np.testing.assert_allclose(results[0]["observed"], results[1]["observed"])


def path_with_gaps():
    y = np.ma.masked_array(np.arange(20.0), np.arange(20) == 7)
    pm.GaussianRandomWalk("y", 0, 1, init_dist=pm.Normal.dist(), observed=y)


def single_vector():
    pm.Dirichlet("y", np.ones(4), observed=np.ones(4) / 4)


def vector_of_one_count():
    pm.Multinomial("y", 1, np.ones(3) / 3, observed=[0, 1, 0])


def one_number_in_a_vector():
    pm.Normal("y", 0, 1, observed=[1.0])


def one_row():
    pm.Normal("y", 0, 1, observed=np.zeros((1, 5)))


def one_number():
    pm.Normal("y", 0, 1, observed=1.0)


def two_atoms():
    parts = [pm.DiracDelta.dist(0.0), pm.DiracDelta.dist(1.0), pm.Normal.dist(0, 1)]
    pm.Mixture("y", np.ones(3) / 3, parts, observed=np.array([0.0, 1.0, 2.0]))


def simulator():
    pm.Simulator("y", lambda rng, a, size: rng.normal(a, size=size), 0.0, observed=np.zeros(5))


# PyMC 6 builds AR and Simulator through two PyTensor calls that are about to change:
@pytest.mark.filterwarnings("ignore:RandomVariable Ops will stop:DeprecationWarning")  # outputs
@pytest.mark.filterwarnings("ignore:Calling a RandomVariable without:DeprecationWarning")  # rng
# PyMC tells that it imputes them.
@pytest.mark.filterwarnings("ignore:Data in y contains missing values")
@pytest.mark.parametrize(
    ("write", "message"),
    [
        (path_with_gaps, r"'y' is a single path, of shape \(20,\).*none is missing"),
        (single_vector, r"^(?!.*(path|time series)).*'y' is a single vector.*MvNormal"),
        (vector_of_one_count, r"^(?!.*(path|time series|GP)).*single vector of counts.*items"),
        (one_number, r"^(?!.*(path|time series|vector)).*'y' is a single number"),
        (one_number_in_a_vector, r"^(?!.*(path|time series)).*'y' is a single number"),
        (one_row, r"^(?!.*(path|time series)).*single observation, of shape \(1, 5\).*sample_dims"),
        (two_atoms, r"positive probability on single values.*continuous part alone"),
        (simulator, "Simulator"),
        (lambda: pm.Normal("free"), "no observed variables"),
    ],
)
def test_what_cannot_be_checked_is_explained(write, message):
    with pm.Model() as model:
        write()
    with pytest.raises(ValueError, match=message):
        pymc_ksd.ksd_ppc(model)


def test_bad_arguments_are_explained():
    model, posterior = regression(data=True)
    check = pymc_ksd.ksd_ppc
    with pytest.raises(ValueError, match="must name observed variables"):
        check(model, posterior, var_names="z")
    with pytest.raises(ValueError, match="Draws of the posterior are required"):
        check(model)
    with pytest.raises(ValueError, match=r"lacks the variable.*sd"):
        check(model, posterior.drop_vars("sd"))
    with pytest.raises(ValueError, match="must name data of the model"):
        check(model, posterior, covariates="w")
    with pytest.raises(ValueError, match="one row for each of the 60 observations"):
        check(model, posterior, covariates=np.arange(5.0))
    with pytest.raises(ValueError, match="must be finite"):
        check(model, posterior, covariates=np.full(60, np.nan))
    with pytest.raises(ValueError, match="must vary"):
        check(model, posterior, covariates=np.ones(60))
    with pytest.raises(ValueError, match="must have an entry"):
        check(model, posterior, covariates={"z": X})
    with pytest.raises(ValueError, match="num_draws"):
        check(model, posterior, num_draws=1)
    with pytest.raises(ValueError, match="cannot be replicated with one of the draws"):
        check(model, posterior.assign(sd=-posterior["sd"]))
    with pytest.raises(ValueError, match="finite, but 1 value"):
        check(model, posterior.assign(sd=posterior["sd"].where(posterior["draw"] > 0)))
    with pytest.raises(ValueError, match="from ksd_ppc"):
        pymc_ksd.plot_ksd_ppc(xr.Dataset())


def test_draws_of_another_model_are_told():
    with pm.Model() as model:
        top = pm.HalfNormal("top")
        pm.Uniform("y", 0, top, observed=np.linspace(0.1, 0.9, 20))
    with pytest.raises(ValueError, match="finite density under one of the draws"):
        pymc_ksd.ksd_ppc(model, draws(top=np.full(10, 0.5)))
    check = pymc_ksd.ksd_ppc(model, draws(top=np.full(10, 1.0)))
    assert float(check["p_value"]) > 0.05


def test_angles_need_a_periodic_kernel(rng):
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.VonMises("y", mu, 2.0, observed=rng.vonmises(0, 2, size=40))
    posterior = draws(mu=rng.normal(scale=0.1, size=20))
    with pytest.raises(ValueError, match="circle"):
        pymc_ksd.ksd_ppc(model, posterior)

    def periodic(a, b):
        return pt.exp(pt.sum(pt.cos(a - b)))

    check = pymc_ksd.ksd_ppc(model, posterior, kernel=periodic, random_seed=1)
    assert float(check["p_value"]) > 0.05


@pytest.mark.slow
@pytest.mark.default_stack
def test_three_outcomes_with_and_without_covariates_and_witness(rng):
    with pm.Model() as model:
        b = pm.Normal("b", shape=2)
        pm.Normal("first", b[0] * X, 1.0, observed=Y)
        pm.Normal("second", b[1], 1.0, observed=Y)
        pm.MvNormal("third", b, np.eye(2), observed=rng.normal(size=(15, 2)))
        pm.Normal("fixed", 0.0, 1.0, observed=rng.normal(size=15))
    posterior = draws(b=rng.normal(1, 0.1, size=(10, 2)))
    # Fewer draws than asked for, and one variable that depends on none.
    check = pymc_ksd.ksd_ppc(model, posterior, num_draws=50, random_seed=1)
    assert check.sizes["sample"] == 10
    assert np.isfinite(check["observed"]).all()
    assert np.isnan(check["witness"].sel(variable="third")).all()
    assert np.isnan(check["covariate_witness"].sel(variable="second")).all()
    np.testing.assert_allclose(check.attrs["bandwidth"], [1, np.sqrt(2), 2, np.sqrt(8)])


def test_labels_are_those_of_now(rng):
    with pm.Model(coords={"obs": np.arange(60)}) as model:
        x = pm.Data("x", X, dims="obs")
        slope = pm.Normal("slope")
        pm.Normal("y", 1 + slope * x, 1, observed=Y, dims="obs")
    posterior = draws(slope=rng.normal(1, 0.1, size=10))
    assert pymc_ksd.ksd_ppc(model, posterior)["obs"].values[0] == 0
    with model:
        pm.set_data({"x": X}, coords={"obs": np.arange(100, 160)})
    assert pymc_ksd.ksd_ppc(model, posterior)["obs"].values[0] == 100


def test_custom_distributions(rng):
    def lognormal(mu, size):
        return pm.math.exp(pm.Normal.dist(mu, 1.0, size=size))

    def logp(value, mu):
        return pm.logp(pm.Normal.dist(mu, 1.0), value)

    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.CustomDist("y", slope * X, dist=lognormal, observed=np.exp(Y))
    with pm.Model() as plain:
        slope = pm.Normal("slope")
        pm.LogNormal("y", slope * X, 1.0, observed=np.exp(Y))
    posterior = draws(slope=rng.normal(1, 0.1, size=40))
    right, wrong = (
        pymc_ksd.ksd_ppc(model, given, random_seed=1) for given in (posterior, -posterior)
    )
    assert float(wrong["p_value"]) <= 0.05 < float(right["p_value"])
    density, given, _ = parts(model, posterior)
    reference_density, _, _ = parts(plain, posterior)
    own = density.log_density(density.unconstrain(np.exp(Y), *given[0]), *given[0])[0]
    log_y = reference_density.unconstrain(np.exp(Y), *given[0])
    expected = reference_density.log_density(log_y, *given[0])[0]
    # A custom distribution has no transform: no Jacobian either.
    np.testing.assert_allclose(own, expected - log_y[:, 0], rtol=1e-8)

    with pm.Model() as silent:
        slope = pm.Normal("slope")
        pm.CustomDist("y", slope * X, logp=logp, observed=Y)
    with pytest.raises(ValueError, match="cannot be replicated"):
        pymc_ksd.ksd_ppc(silent, posterior)


@pytest.mark.parametrize("kind", ["zero-inflated", "multinomial"])
def test_missing_counts_are_left_out(kind):
    rng = np.random.default_rng(3)
    with pm.Model() as model:
        a = pm.HalfNormal("a")
        values = {
            "zero-inflated": rng.poisson(2, size=30),
            "multinomial": rng.multinomial(6, [0.2, 0.3, 0.5], size=30),
        }[kind]
        values = np.ma.masked_array(values)
        values[5] = np.ma.masked
        write = {
            "zero-inflated": lambda: pm.ZeroInflatedPoisson("y", 0.8, 1 + a, observed=values),
            "multinomial": lambda: pm.Multinomial("y", n=6, p=[0.2, 0.3, 0.5], observed=values),
        }[kind]
        with pytest.warns(pm.exceptions.ImputationWarning):
            write()
    check = pymc_ksd.ksd_ppc(model, draws(a=np.full(20, 1.0)), num_draws=10, random_seed=1)
    assert np.flatnonzero(np.isnan(check["y"])).tolist() == [5]
    assert np.isfinite(check["observed"]).all()


def test_values_on_a_boundary_are_told():
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        pm.Exponential("y", scale=scale, observed=[0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="1 of 3 observations of 'y' lie on the boundary"):
        pymc_ksd.ksd_ppc(model, draws(scale=np.ones(10)))


def table_model(dims):
    values = np.random.default_rng(24).normal(size=(8, 8))
    with pm.Model(coords={"a": range(8), "b": range(8)}) as model:
        x = pm.Data("x", values, dims=("a", "b"))
        slope = pm.Normal("slope")
        pm.Normal("y", slope * x, 1.0, observed=2 * values, dims=("a", "b"))
    density = fitted_density(model, model["y"], dims, None)
    given = given_values(model, ["slope"], draws(slope=np.ones(3)), 3)
    return model, density, find_comparisons(model, density, given, "auto"), values


def test_inputs_follow_the_axes_of_observations():
    _, density, found, values = table_model(("b", "a"))
    inputs = found[-1].columns[0].values
    np.testing.assert_allclose(2 * inputs, density.data())
    np.testing.assert_allclose(inputs, values.T.ravel())
    model, density, found, values = table_model("b")
    assert density.data().shape == (8, 8)
    names = [comparison.name for comparison in found if comparison.name.startswith("inputs")]
    assert names == [f"inputs: x[{index}]" for index in range(8)]
    np.testing.assert_allclose(found[-1].columns[0].values, values[-1])
    posterior = draws(slope=np.ones(5))
    check = pymc_ksd.ksd_ppc(model, posterior, sample_dims=("b", "a"), random_seed=1)
    assert check["y"].dims == ("b", "a")


def test_draws_too_few_for_the_level_are_told():
    model, _, _, _ = table_model(None)
    with pytest.warns(pymc_ksd.DrawsWarning, match="at level 0.05: use 19 draws or more"):
        few = pymc_ksd.ksd_ppc(model, draws(slope=np.ones(18)), sample_dims=("a", "b"))
    assert few.sizes["sample"] == 18
    fewest = pymc_ksd.ksd_ppc(model, draws(slope=np.ones(2)), sample_dims=("a", "b"))
    assert np.isfinite(fewest["witness_band"]).all()
    pymc_ksd.ksd_ppc(model, draws(slope=np.ones(19)), sample_dims=("a", "b"))
    with pytest.warns(pymc_ksd.DrawsWarning, match="at level 0.01: use 99 draws or more"):
        pymc_ksd.ksd_ppc(model, draws(slope=np.ones(19)), sample_dims=("a", "b"), alpha=0.01)


def test_sample_dims_are_explained(rng):
    model, _, _, _ = table_model(None)
    posterior = draws(slope=np.ones(5))
    with pytest.raises(ValueError, match="`sample_dims` must be dims of the observed variable 'y'"):
        pymc_ksd.ksd_ppc(model, posterior, sample_dims="c")
    with model:
        pm.Normal("z", 0, 1, observed=rng.normal(size=12))
    check = pymc_ksd.ksd_ppc(model, posterior, sample_dims="b", random_seed=1)
    assert check["y"].dims == ("b",)
    assert check["z"].shape == (12,)


@pytest.mark.parametrize("dim", ["observed", "witness", "sample", "p_value"])
def test_dims_and_names_of_results_can_be_used(dim):
    with pm.Model(coords={dim: range(60)}) as model:
        slope = pm.Normal("slope")
        pm.Normal("replicated", 1 + slope * X, 1, observed=Y, dims=dim)
    check = pymc_ksd.ksd_ppc(model, draws(slope=np.ones(5)), random_seed=1)
    assert check["replicated_contribution"].dims == (f"{dim}_",)


def test_covariates_for_each_variable_and_as_datasets(rng):
    group = np.repeat([0, 1, 2], 20)
    with pm.Model() as model:
        index, treated = pm.Data("group", group), pm.Data("treated", X > 0)
        effect = pm.Normal("effect", shape=3)
        pm.Normal("y", effect[index] + treated, 1.0, observed=Y)
        pm.Normal("z", effect[0], 1.0, observed=Y)
    posterior = draws(effect=rng.normal(size=(5, 3)))
    density = fitted_density(model, model["y"], None, None)
    given = given_values(model, ["effect"], posterior, 5)

    def columns(covariates):
        found = find_comparisons(model, density, given, covariates)
        return {c.name: c.labels for comparison in found for c in comparison.columns}

    assert columns("auto") == {"mu": False, "group": True, "treated": False}
    assert columns("group") == {"group": True}
    assert columns({"y": "auto", "z": None}) == columns("auto")
    assert columns(xr.Dataset({"w": ("i", X)})) == {"w": False}
    check = pymc_ksd.ksd_ppc(model, posterior, covariates={"y": "auto", "z": X}, random_seed=1)
    kinds = {"residuals", "parameters", "inputs", "groups", "inputs within groups", "covariates"}
    assert set(check["comparison"].values) == kinds


def test_witness_shows_the_groups_with_the_largest_misfit(rng):
    group = np.repeat(np.arange(40), 5)
    y = rng.normal(size=200)
    y[group == 37] += 4
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu + np.zeros(40)[group], 1.0, observed=y)
    labels = pd.DataFrame({"group": [f"g{i:02d}" for i in group]})
    check = pymc_ksd.ksd_ppc(
        model, draws(mu=rng.normal(0, 0.05, size=30)), covariates=labels, random_seed=1
    )
    shown = check["covariate_value"].sel(covariate="group").values
    assert 37 in shown
    along = np.abs(check["covariate_witness"].sel(covariate="group", level="middle").values)
    assert shown[np.argmax(along)] == 37


def test_an_exact_name_wins(rng):
    with pm.Model() as model:
        pm.Normal("temp", 0, 1, observed=rng.normal(size=10))
        pm.Normal("temp_observed", 0, 1, observed=rng.normal(size=11))
    check = pymc_ksd.ksd_ppc(model, var_names="temp", num_draws=5)
    assert check["variable"].item() == "temp"


# PyMC 5 builds truncated distributions through a call that PyTensor is about to change.
@pytest.mark.filterwarnings("ignore:Scan return signature:DeprecationWarning")
def test_hurdles_are_scaled_by_few_values_and_little_memory():
    """Truncated counts are drawn in a loop, whose steps are all held in memory."""
    rng = np.random.default_rng(1)
    counts = rng.poisson(3, size=200) * rng.integers(2, size=200)
    with pm.Model() as model:
        share = pm.Beta("share", 2, 2)
        pm.HurdlePoisson("y", share, 3.0, observed=counts)
    density = fitted_density(model, model["y"], None, None)
    sizes = []
    real = density.simulate_many
    watched = replace(
        density,
        simulate_many=lambda times, *rest: sizes.append(times) or real(times, *rest),
    )
    residuals_given(watched, 200, (np.asarray(0.5),), rng)
    assert sizes == [21]
    tracemalloc.start()
    real(21, rng, np.asarray(0.5))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # One set of values takes 16 MB for 10,000 steps of the loop; 21 at once would take 336.
    assert peak < 64e6
