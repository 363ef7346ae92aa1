import numpy as np
import pymc as pm
import pytest
import xarray as xr
from reference import imq, stein_matrix

import pymc_ksd
from pymc_ksd import Score, compile_score, ksd, ksd_evolution, ksd_test


def chains(values):
    """A posterior dataset from an array of shape (chain, draw, d)."""
    return xr.Dataset(
        {"x": (("chain", "draw", "x_dim_0"), values)}, coords={"chain": np.arange(len(values))}
    )


@pytest.fixture
def normal_draws(rng):
    return rng.normal(size=(3, 20, 2))


def test_ksd_overall_and_per_chain_match_the_double_loop(normal_draws):
    score = Score.from_callable(lambda x: -x, 2)
    result = ksd(score, chains(normal_draws), scale=None, bandwidth=1.2)
    x = normal_draws.reshape(-1, 2)
    u = stein_matrix(imq, x, -x, 1.2).sum(-1)
    np.testing.assert_allclose(result["ksd"], np.sqrt(u.mean()), rtol=1e-10)
    np.testing.assert_allclose(result["ess_ksd"], np.diag(u).mean() / u.mean(), rtol=1e-10)
    for chain in range(3):
        own = u[20 * chain : 20 * (chain + 1), 20 * chain : 20 * (chain + 1)]
        np.testing.assert_allclose(result["ksd_per_chain"][chain], np.sqrt(own.mean()), rtol=1e-10)
        expected = np.diag(own).mean() / own.mean()
        np.testing.assert_allclose(result["ess_ksd_per_chain"][chain], expected, rtol=1e-10)


def test_ksd_evolution_matches_prefixes(normal_draws):
    score = Score.from_callable(lambda x: -x, 2)
    result = ksd_evolution(score, chains(normal_draws), scale=None, bandwidth=1.2, block_size=7)
    assert result["n_draws"].values.tolist() == list(range(1, 21))
    for steps in (1, 2, 9, 20):
        x = normal_draws[:, :steps].reshape(-1, 2)
        u = stein_matrix(imq, x, -x, 1.2).sum(-1)
        at = result.sel(n_draws=steps)
        np.testing.assert_allclose(at["ksd"], np.sqrt(u.mean()), rtol=1e-9)
        np.testing.assert_allclose(at["ess_ksd"], np.diag(u).mean() / u.mean(), rtol=1e-9)
        own = u[:steps, :steps]
        np.testing.assert_allclose(at["ksd_per_chain"][0], np.sqrt(own.mean()), rtol=1e-9)


def test_contributions_sum_to_the_total_with_scale_std(normal_draws):
    score = Score.from_callable(lambda x: -x, 2)
    for scale in ("std", None):
        result = ksd(score, chains(normal_draws * [1.0, 5.0]), scale=scale)
        squares = result["x"].sel(diagnostic="ksd") ** 2
        np.testing.assert_allclose(squares.sum(), result["ksd"] ** 2, rtol=1e-10)


def test_contributions_under_whitening_match_a_double_loop(rng):
    """Coordinate terms in standard deviations, distances in whitened coordinates."""
    values = rng.normal(size=(2, 20, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    score = Score.from_callable(lambda x: -x, 2)
    result = ksd(score, chains(values), scale="cov", bandwidth=1.4)
    x = values.swapaxes(0, 1).reshape(-1, 2)
    deviations = x.std(axis=0, ddof=1)
    precision = np.linalg.inv(np.cov(x.T))
    n, h = len(x), 1.4
    v, diagonal = np.zeros(2), np.zeros(2)
    for i in range(n):
        for j in range(n):
            difference = x[i] - x[j]
            base = 1 + difference @ precision @ difference / h**2
            # k = base^(-1/2) and its derivatives with respect to the original coordinates.
            pull = precision @ difference / h**2
            k, kx, ky = base**-0.5, -pull * base**-1.5, pull * base**-1.5
            mixed = np.diag(precision) / h**2 * base**-1.5 - 3 * pull**2 * base**-2.5
            s, t = -x[i], -x[j]
            term = deviations**2 * (s * t * k + s * ky + t * kx + mixed)
            v += term
            diagonal += term * (i == j)
    np.testing.assert_allclose(result["x"].sel(diagnostic="ksd") ** 2, v / n**2, rtol=1e-10)
    np.testing.assert_allclose(result["x"].sel(diagnostic="ess_ksd"), diagonal * n / v, rtol=1e-10)


def test_perturbed_parameter_has_the_lowest_ess(rng):
    values = rng.normal(size=(4, 500, 5))
    score = Score.from_callable(lambda x: -x, 5)
    for parameter in range(5):
        perturbed = values.copy()
        perturbed[..., parameter] += 0.3
        result = ksd(score, chains(perturbed))
        sizes = result["x"].sel(diagnostic="ess_ksd").values
        assert sizes.argmin() == parameter
        assert sizes.min() < 0.5 * np.sort(sizes)[1]


def test_ess_ksd_of_exact_biased_and_correlated_draws(rng):
    score = Score.from_callable(lambda x: -x, 2)
    exact = ksd_evolution(score, chains(rng.normal(size=(4, 500, 2))))
    biased = ksd_evolution(score, chains(rng.normal(0.3, 1, size=(4, 500, 2))))
    assert 1000 < exact["ess_ksd"][-1] < 4000
    early = exact["ess_ksd"].sel(n_draws=125, method="nearest")
    assert exact["ess_ksd"][-1] / early > 2
    assert biased["ess_ksd"][-1] / biased["ess_ksd"].sel(n_draws=125, method="nearest") < 1.5
    assert biased["ess_ksd"][-1] < 200


def test_wild_test_rejects_wrong_draws_and_keeps_right_ones(rng):
    score = Score.from_callable(lambda x: -x, 2)
    good = ksd_test(score, chains(rng.normal(size=(4, 250, 2))), random_seed=0)
    shifted = ksd_test(score, chains(rng.normal(0.2, 1, size=(4, 250, 2))), random_seed=0)
    assert good["p_value"] > 0.05 >= shifted["p_value"]


def test_ksd_contributions_carry_dims_and_coords(labelled):
    model, posterior = labelled
    result = ksd(model, posterior, var_names=["theta", "weights"])
    assert result["theta"].dims == ("diagnostic", "school")
    assert list(result["school"].values) == ["A", "B"]
    assert result["weights"].dims == ("diagnostic",)
    assert "mu" not in result
    assert result["ksd"] == ksd(model, posterior)["ksd"]
    with pytest.raises(ValueError, match=r"`var_names` must name free variables \(mu, tau"):
        ksd(model, posterior, var_names="shifted")


def test_every_diagnostic_follows_labels_and_axes():
    """Labels and dims, not positions, decide where a number goes: ess_bulk included."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 200, 2, 3))
    values[..., 0, 2] = np.repeat(values[:, ::20, 0, 2], 20, axis=1)  # one slow element
    draws = xr.Dataset(
        {"t": (("chain", "draw", "k", "j"), values)}, coords={"k": ["a", "b"], "j": [0, 1, 2]}
    )
    with pm.Model(coords={"k": ["a", "b"], "j": [0, 1, 2]}) as model:
        pm.Normal("t", dims=("k", "j"))
    expected = ksd(model, draws)
    sizes = expected["t"].sel(diagnostic="ess_bulk")
    assert sizes.argmin(...) == {"k": 0, "j": 2}
    assert sizes.sel(k="a", j=2) < 50 < np.sort(sizes.values.ravel())[1]
    for other in (
        draws.isel(k=[1, 0]),
        draws.transpose("chain", "draw", "j", "k"),
        draws.isel(j=[2, 0, 1]).transpose("j", "k", "draw", "chain"),
    ):
        xr.testing.assert_allclose(ksd(model, other)["t"], expected["t"])


def test_names_of_results_may_be_names_of_variables(rng):
    names = ("ksd", "diagnostic", "bootstrap", "x", "x_contribution")
    with pm.Model() as model:
        for name in names:
            pm.Normal(name)
    draws = xr.Dataset({n: (("chain", "draw"), rng.normal(size=(2, 50))) for n in names})
    result = ksd(model, draws)
    for name in names[:3]:
        assert f"{name}_contribution" in result
    assert ksd_test(model, draws, random_seed=0)["bootstrap_contribution"].shape == ()
    assert "x_contribution" in pymc_ksd.ksd_summary(model, draws).index


def test_many_short_chains_need_no_table_of_chains(rng):
    """As many chains as draws, from a sampler of particles."""
    score = Score.from_callable(lambda x: -x, 1)
    values = rng.normal(size=(300, 1))
    draws = xr.Dataset({"x": (("chain", "draw"), values)})
    with pytest.warns(UserWarning, match="Only 1 draws"):
        result = ksd(score, draws, scale=None, bandwidth=1.0)
    u = stein_matrix(imq, values, -values, 1.0).sum(-1)
    np.testing.assert_allclose(result["ksd"], np.sqrt(u.mean()), rtol=1e-10)
    np.testing.assert_allclose(result["ksd_per_chain"], np.sqrt(np.diag(u)), rtol=1e-10)


def test_ksd_checks_options_before_it_measures(labelled, monkeypatch):
    model, posterior = labelled
    monkeypatch.setattr("pymc_ksd.stats.statistics.evaluate_all_pairs", None)
    for options, message in (
        ({"var_names": "typo"}, "`var_names` must name free variables"),
        ({"block_size": 0}, "`block_size` must be at least 1"),
        ({"bandwidth": "mean"}, "`bandwidth` must be 'auto'"),
        ({"kernel": pymc_ksd.IMQ(bandwidth=2.0), "bandwidth": 0.1}, "`bandwidth` was given, but"),
    ):
        with pytest.raises(ValueError, match=message):
            ksd(model, posterior, **options)


def test_ksd_results_round_trip_and_reuse_a_score(labelled, tmp_path, count_compilations):
    model, posterior = labelled
    score = compile_score(model)
    first = ksd(score, posterior)
    before = len(count_compilations)
    again = ksd(score, posterior.isel(draw=slice(50)))
    assert len(count_compilations) == before
    assert again.attrs["n"] == 100
    first.to_netcdf(tmp_path / "ksd.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "ksd.nc", engine="h5netcdf") as loaded:
        xr.testing.assert_allclose(loaded.load().drop_attrs(), first.drop_attrs())


def test_ksd_wants_draws():
    score = Score.from_callable(lambda x: -x, 1)
    with pytest.raises(TypeError, match=r"`data` must hold a sampler's draws.*got ndarray"):
        ksd(score, np.zeros((10, 1)))
