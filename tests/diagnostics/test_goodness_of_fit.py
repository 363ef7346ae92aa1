import gc
import weakref

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from reference import rbf, stein_matrix, u_statistic, v_statistic
from scipy import stats

import pymc_ksd
from pymc_ksd import IMQ, General, Score, compile_score, ksd_test
from pymc_ksd.diagnostics.results import conclusion


def standard_normal(dim):
    return Score.from_callable(lambda x: -x, dim)


def test_ksd_test_is_on_pymc():
    assert pm.ksd_test is pymc_ksd.ksd_test


@pytest.mark.filterwarnings("ignore:.*fewer points than coordinates:UserWarning")
@pytest.mark.parametrize("dim", [1, 2, 10, 100])
def test_u_statistic_matches_the_double_loop(rng, dim):
    x = rng.normal(0.2, 1.1, size=(25, dim))
    u = stein_matrix(rbf, x, -x, 2.0 * np.sqrt(dim)).sum(-1)
    result = ksd_test(
        standard_normal(dim), x, bandwidth=2.0 * np.sqrt(dim), n_bootstrap=5, random_seed=0
    )
    np.testing.assert_allclose(result["statistic"], u_statistic(u), rtol=1e-10)
    np.testing.assert_allclose(result["ksd"], np.sqrt(v_statistic(u)), rtol=1e-10)
    np.testing.assert_allclose(result["ess_ksd"], np.diag(u).mean() / v_statistic(u), rtol=1e-10)
    np.testing.assert_allclose(result["x"].sum(), u_statistic(u), rtol=1e-9)


@pytest.mark.parametrize("dim", [2, 10])
def test_v_statistic_matches_stein_thinning(rng, dim):
    """The published package, inverse multiquadric with identity preconditioner."""
    from stein_thinning.kernel import vfk0_imq
    from stein_thinning.stein import ksd as published_ksd

    x, h = rng.normal(size=(60, dim)), 1.7
    result = ksd_test(
        standard_normal(dim), x, kernel="imq", bandwidth=h, statistic="v", random_seed=0
    )

    def integrand(i, j):
        first, second = x[i].reshape(-1, dim), x[j].reshape(-1, dim)
        values = vfk0_imq(first, second, -first, -second, np.eye(dim) / h**2)
        return values[0] if isinstance(i, int) else values

    published = published_ksd(integrand, 60)
    np.testing.assert_allclose(result["ksd"], published[-1], rtol=1e-10)
    np.testing.assert_allclose(result["statistic"], published[-1] ** 2, rtol=1e-10)


@pytest.mark.parametrize("dim", [1, 3])
def test_u_statistic_closed_form(dim):
    """For q = N(0, I), p = N(μ, I) and an RBF, S = ‖μ‖² (1 + 2/h²)^(−d/2)."""
    rng = np.random.default_rng(5)
    mu, h, runs = 0.6, 1.5, 250
    expected = dim * mu**2 * (1 + 2 / h**2) ** (-dim / 2)
    estimates = [
        ksd_test(
            standard_normal(dim),
            rng.normal(mu, 1, size=(400, dim)),
            bandwidth=h,
            n_bootstrap=1,
            random_seed=0,
        )["statistic"].item()
        for _ in range(runs)
    ]
    error = np.std(estimates, ddof=1) / np.sqrt(runs)
    assert abs(np.mean(estimates) - expected) < 4 * error
    assert error < 0.02 * expected


@pytest.mark.parametrize("statistic", ["u", "v", "linear", "block"])
def test_parametric_null_simulates_the_model(gaussian_model, statistic):
    rng = np.random.default_rng(2)
    covariance = [[1, 0.5], [0.5, 1]]
    good = rng.multivariate_normal([0, 0], covariance, size=60)
    options = {"statistic": statistic, "null": "parametric", "n_bootstrap": 60, "random_seed": 1}
    accepted = ksd_test(gaussian_model, good, **options)
    rejected = ksd_test(gaussian_model, good + 1.5, **options)
    assert accepted["p_value"] > 0.05 >= rejected["p_value"]
    assert accepted.attrs["null"] == "parametric"


def test_p_value_and_critical_value_agree(gaussian_model, rng):
    for shift in (0.0, 0.1, 0.2, 0.3):
        data = rng.multivariate_normal([shift, 0], [[1, 0.5], [0.5, 1]], size=80)
        result = ksd_test(gaussian_model, data, random_seed=1, n_bootstrap=199)
        null, statistic = result["null_distribution"].values, float(result["statistic"])
        assert result["p_value"] == (1 + (null >= statistic).sum()) / 200
        assert (result["p_value"] <= 0.05) == (statistic > result["critical_value"])


def test_too_few_replicates_never_reject():
    result = ksd_test(standard_normal(1), np.arange(20.0) / 4 + 9, n_bootstrap=10, random_seed=0)
    assert result["critical_value"] == np.inf
    # The least that ten replicates can give, and no reason to reject.
    assert result["p_value"] == pytest.approx(1 / 11)
    assert conclusion(result).startswith("Cannot tell")


def test_seed_and_block_size(gaussian_model, rng):
    data = rng.normal(size=(300, 2))
    first, again, other_blocks = (
        ksd_test(gaussian_model, data, random_seed=7, block_size=size) for size in (None, None, 41)
    )
    xr.testing.assert_equal(first["null_distribution"], again["null_distribution"])
    xr.testing.assert_allclose(first.drop_attrs(), other_blocks.drop_attrs(), rtol=1e-10)
    other_seed = ksd_test(gaussian_model, data, random_seed=8)
    assert not np.array_equal(first["null_distribution"], other_seed["null_distribution"])
    generator = ksd_test(gaussian_model, data, random_seed=np.random.default_rng(7))
    xr.testing.assert_equal(first["null_distribution"], generator["null_distribution"])


def test_unseeded_result_can_be_repeated_from_its_attributes(gaussian_model, rng):
    data = rng.normal(size=(40, 2))
    result = ksd_test(gaussian_model, data)
    again = ksd_test(gaussian_model, data, random_seed=int(result.attrs["seed"]))
    assert result["p_value"] == again["p_value"]


def test_every_container_gives_the_same_answer():
    with pm.Model(coords={"k": ["a", "b"]}) as model:
        pm.Exponential("rate", 1.0)
        pm.Normal("x", dims="k")
    rng = np.random.default_rng(0)
    rate, x = rng.exponential(size=50), rng.normal(size=(50, 2))
    dataset = xr.Dataset({"x": (("k", "sample"), x.T), "rate": ("sample", rate)})
    containers = [
        np.column_stack([rate, x]),
        {"x": x, "rate": rate},
        {"rate": list(rate), "x": x.tolist()},
        pd.DataFrame({"x[0]": x[:, 0], "x[1]": x[:, 1], "rate": rate}),
        pd.DataFrame({"rate": rate, "x[a]": x[:, 0], "x[b]": x[:, 1]}),
        dataset,
    ]
    results = [ksd_test(model, data, random_seed=1) for data in containers]
    for result in results[1:]:
        xr.testing.assert_allclose(result.drop_attrs(), results[0].drop_attrs(), rtol=1e-12)
    assert results[0]["x"].dims == ("k",)
    assert list(results[0]["k"].values) == ["a", "b"]


def test_data_array_and_matrix_variable(rng):
    with pm.Model() as model:
        pm.Normal("x", shape=(2, 3))
    values = rng.normal(size=(20, 2, 3))
    plain = ksd_test(model, values, random_seed=0)
    labelled = ksd_test(model, xr.DataArray(values, dims=("sample", "a", "b")), random_seed=0)
    flat = ksd_test(model, values.reshape(20, 6), random_seed=0)
    assert plain["statistic"] == labelled["statistic"] == flat["statistic"]
    assert plain["x"].shape == (2, 3)


def test_observed_data_of_a_model_without_free_variables(rng):
    values = rng.gamma(2.0, 1 / 3.0, size=200)
    with pm.Model() as observed:
        pm.Gamma("y", 2.0, 3.0, observed=values)
    with pm.Model() as free:
        pm.Gamma("y", 2.0, 3.0)
    own = ksd_test(observed, random_seed=0)
    np.testing.assert_allclose(
        own["statistic"], ksd_test(free, values, random_seed=0)["statistic"], rtol=1e-10
    )
    assert own.attrs["target"] == "observed"
    other = ksd_test(observed, values[:77], random_seed=0)
    assert other.attrs["n"] == 77
    with observed:
        assert ksd_test(random_seed=0)["p_value"] == own["p_value"]


def test_sample_dims_of_observed_variables(rng):
    values = rng.normal(size=(3, 40))
    with pm.Model(coords={"sensor": range(3), "time": range(40)}) as model:
        pm.Normal("y", 0, 1, observed=values, dims=("sensor", "time"))
    result = ksd_test(model, sample_dims="time", random_seed=0)
    assert (result.attrs["n"], result.attrs["dim"]) == (40, 3)
    assert result["y"].dims == ("sensor",)
    expected = ksd_test(standard_normal(3), values.T, random_seed=0)
    np.testing.assert_allclose(result["statistic"], expected["statistic"], rtol=1e-10)
    both = ksd_test(model, sample_dims=["sensor", "time"], random_seed=0)
    assert (both.attrs["n"], both.attrs["dim"]) == (120, 1)


def test_var_names_of_a_model_without_posterior(rng):
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.Normal("b", a)
    result = ksd_test(model, rng.normal(size=50), var_names=["a"], random_seed=0)
    assert result.attrs["dim"] == 1
    with pytest.raises(ValueError, match=r"`var_names` must include every variable.*missing: a"):
        ksd_test(model, rng.normal(size=50), var_names="b")


def test_offset_and_scale_do_not_matter(rng):
    """Data around 1e8, or 1e8 times as wide, give the same test."""
    z = rng.normal(size=(200, 2))
    plain = ksd_test(standard_normal(2), z, random_seed=1)
    with pm.Model() as shifted:
        pm.Normal("x", 1e8, 1.0, shape=2)
    with pm.Model() as scaled:
        pm.Normal("x", 0.0, 1e8, shape=2)
    # Adding 1e8 rounds the data themselves to 1.5e-8.
    offset = ksd_test(shifted, z + 1e8, random_seed=1)
    np.testing.assert_allclose(offset["statistic"], plain["statistic"], rtol=1e-5)
    assert abs(offset["p_value"] - plain["p_value"]) < 0.003
    wide = ksd_test(scaled, z * 1e8, random_seed=1)
    np.testing.assert_allclose(wide["statistic"], plain["statistic"], rtol=1e-10)
    np.testing.assert_allclose(
        wide["member_statistic"] * 1e16, plain["member_statistic"], rtol=1e-10
    )
    assert wide["p_value"] == plain["p_value"]
    wrong = ksd_test(shifted, z + 1e8 + 0.5, random_seed=1)
    assert wrong["p_value"] == 1 / 1001


@pytest.mark.parametrize("outlier", [1e8, 1e12])
def test_one_point_far_off_does_not_blur_the_others(outlier):
    """Distances come from matrix products, which lose digits when points are far from zero."""
    x = np.random.default_rng(0).standard_cauchy(size=(40, 1))
    x[0] = outlier
    s = -2 * x / (1 + x**2)
    u = stein_matrix(rbf, x, s, 1.0).sum(-1)
    score = Score.from_callable(lambda x: -2 * x / (1 + x**2), 1)
    result = ksd_test(score, x, bandwidth=1.0, n_bootstrap=5, random_seed=0)
    np.testing.assert_allclose(result["statistic"], u_statistic(u), rtol=1e-10)


def test_observed_data_follow_set_data(count_compilations, rng):
    with pm.Model() as model:
        # Quantiles in random order: as much like normal data as can be.
        values = pm.Data("values", rng.permutation(stats.norm.ppf((np.arange(50) + 0.5) / 50)))
        pm.Normal("y", 0, 1, observed=values)
    assert ksd_test(model, random_seed=0)["p_value"] > 0.05
    before = len(count_compilations)
    with model:
        pm.set_data({"values": rng.normal(3, 1, size=80)})
    changed = ksd_test(model, random_seed=0)
    assert changed.attrs["n"] == 80
    assert changed["p_value"] <= 0.05
    assert len(count_compilations) == before


def test_free_variable_resized_by_set_data(rng):
    with pm.Model(coords={"k": [0, 1]}) as model:
        sizes = pm.Data("sizes", np.ones(2), dims="k")
        pm.Normal("x", 0, sizes, dims="k")
    assert ksd_test(model, rng.normal(size=(30, 2)), random_seed=0).attrs["dim"] == 2
    with model:
        pm.set_data({"sizes": np.ones(3)}, coords={"k": [0, 1, 2]})
    assert ksd_test(model, rng.normal(size=(30, 3)), random_seed=0).attrs["dim"] == 3


def test_dim_named_like_the_bootstrap_and_huge_seed(rng, tmp_path):
    with pm.Model(coords={"bootstrap": range(3)}) as model:
        pm.Normal("x", dims="bootstrap")
    result = ksd_test(model, rng.normal(size=(20, 3)), random_seed=2**70)
    assert result["x"].dims == ("bootstrap_",)
    result.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    assert result.attrs["seed"] == str(2**70)


def test_general_kernel_tests_circular_data(rng):
    def periodic(x, y, bandwidth):
        return pt.exp(-2 * pt.sum(pt.sin((x - y) / 2) ** 2) / bandwidth**2)

    data = rng.vonmises(0.5, 0.7, size=150)
    with pm.Model() as model:
        pm.VonMises("angle", 0.5, 0.7)
    result = ksd_test(model, data, kernel=General(periodic), bandwidth=1.0, random_seed=0)
    assert result["p_value"] > 0.05
    wrong = ksd_test(model, -data, kernel=periodic, bandwidth=1.0, random_seed=0)
    assert wrong["p_value"] <= 0.05
    with pytest.raises(ValueError, match=r"angle live on a circle.*Pass a periodic kernel"):
        ksd_test(model, data)


def test_nothing_recompiles_for_new_numbers(count_compilations, rng):
    with pm.Model() as model:
        scale = pm.Data("scale", 1.0)
        pm.Gamma("y", 2.0, scale, observed=rng.gamma(2, 1, size=30))
    for bandwidth in ("auto", [1.0, 2.0]):
        ksd_test(model, random_seed=0, kernel=IMQ(-0.4), bandwidth=bandwidth)
    before = len(count_compilations)
    first = ksd_test(model, random_seed=0, kernel=IMQ(-0.4))
    for n, bandwidth, seed in ((30, 0.5, 1), (64, 2.0, 2), (700, [1.0, 3.0], 3)):
        data = rng.gamma(2, 1, size=n)
        ksd_test(model, data, bandwidth=bandwidth, random_seed=seed, kernel=IMQ(-0.2))
    with model:
        pm.set_data({"scale": 2.5})
    changed = ksd_test(model, random_seed=0, kernel=IMQ(-0.4))
    assert len(count_compilations) == before
    assert changed["statistic"] > first["statistic"]


def test_posterior_draws_reuse_the_score_after_set_data(count_compilations, rng):
    with pm.Model() as model:
        data = pm.Data("data", np.zeros(10))
        mu = pm.Normal("mu", 0, 10)
        pm.Normal("y", mu, 1, observed=data)
    draws = rng.normal(0, 1 / np.sqrt(10.01), size=200)
    assert ksd_test(model, draws, random_seed=0)["p_value"] > 0.05
    before = len(count_compilations)
    with model:
        pm.set_data({"data": np.full(10, 3.0)})
    assert ksd_test(model, draws, random_seed=0)["p_value"] <= 0.05
    assert len(count_compilations) == before


def test_compiled_scores_do_not_keep_models_alive():
    with pm.Model() as model:
        pm.Normal("x")
    compile_score(model)
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_caller_keeps_model_data_and_random_state(gaussian_model, rng):
    data = rng.normal(size=(30, 2))
    before, names = data.copy(), list(gaussian_model.named_vars)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    generators = [
        variable.get_value().bit_generator.state
        for variable in gaussian_model["x"].owner.inputs
        if hasattr(variable, "get_value") and hasattr(variable.get_value(), "bit_generator")
    ]
    assert generators
    ksd_test(gaussian_model, data, null="parametric", n_bootstrap=3, random_seed=0)
    np.testing.assert_array_equal(data, before)
    assert list(gaussian_model.named_vars) == names
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    after = [
        variable.get_value().bit_generator.state
        for variable in gaussian_model["x"].owner.inputs
        if hasattr(variable, "get_value") and hasattr(variable.get_value(), "bit_generator")
    ]
    assert after == generators


def test_variables_named_like_result_fields(rng):
    with pm.Model() as model:
        pm.Normal("ksd")
        pm.Normal("p_value")
    result = ksd_test(model, rng.normal(size=(20, 2)), random_seed=0)
    total = result["ksd_contribution"] + result["p_value_contribution"]
    np.testing.assert_allclose(total, result["member_statistic"].sel(member="rbf"), rtol=1e-9)


def test_simplex_shows_one_pooled_contribution(rng):
    with pm.Model() as model:
        pm.Dirichlet("p", [1.0, 2.0, 3.0])
    result = ksd_test(model, rng.dirichlet([1, 2, 3], size=50), random_seed=0)
    assert result["p"].dims == ()
    np.testing.assert_allclose(result["p"], result["member_statistic"].sel(member="rbf"), rtol=1e-9)
