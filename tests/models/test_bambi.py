"""Models of Bambi, whose draws are not those of the PyMC model's variables."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_ksd
from pymc_ksd.diagnostics.quantities import Quantities
from pymc_ksd.models.bambi_models import bambi_parameters
from pymc_ksd.report.loading import load_model
from pymc_ksd.samples.belonging import in_model_parameters

bambi = pytest.importorskip("bambi")

RNG = np.random.default_rng(120)
FRAME = pd.DataFrame(
    {
        "x": RNG.normal(3, 1, size=60),
        "kind": np.tile(list("pqr"), 20),
        "group": np.repeat(list("abcdef"), 10),
        "outcome": np.tile(["u", "v", "w"], 20),
    }
)
FRAME["y"] = 1 + FRAME["x"] + RNG.normal(size=60)


@pytest.fixture(autouse=True)
def quiet():
    """What Bambi and its neighbours say while they build a model is not the point here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        yield


def linear():
    """A regression with known scale and flat priors, whose posterior is normal."""
    priors = {
        "Intercept": bambi.Prior("Normal", mu=0, sigma=1e4),
        "x": bambi.Prior("Normal", mu=0, sigma=1e4),
        "sigma": 1.0,
    }
    model = bambi.Model("y ~ x", FRAME, priors=priors)
    model.build()
    return model


def exact_draws(rng, chains=2, draws=200):
    """Draws of intercept and slope as Bambi hands them out: of predictors as they are."""
    table = np.column_stack([np.ones(60), FRAME["x"]])
    covariance = np.linalg.inv(table.T @ table)
    mean = covariance @ table.T @ FRAME["y"]
    values = rng.multivariate_normal(mean, covariance, size=(chains, draws))
    mu = values @ table.T
    posterior = xr.Dataset(
        {
            "Intercept": (("chain", "draw"), values[..., 0]),
            "x": (("chain", "draw"), values[..., 1]),
        },
        attrs={"modeling_interface": "bambi"},
    )
    return posterior, posterior.assign(mu=(("chain", "draw", "__obs__"), mu))


def test_exact_draws_pass_and_shifted_ones_do_not(rng):
    model, (posterior, _) = linear(), exact_draws(rng)
    result = pymc_ksd.ksd_test(model, posterior, random_seed=1, progressbar=False)
    assert result["p_value"] > 0.05
    shifted = posterior.assign(Intercept=posterior["Intercept"] + 0.1)
    result = pymc_ksd.ksd_test(model, shifted, random_seed=1, progressbar=False)
    assert result["p_value"] < 0.01
    score = pymc_ksd.compile_score(model)
    again = pymc_ksd.ksd_test(score, shifted, random_seed=1, progressbar=False)
    assert again["p_value"] == result["p_value"]


def test_draws_that_pymc_handed_out_are_not_centred_again(rng):
    """Bambi does not un-centre draws of variational fits, nor of its PyMC model."""
    model, (posterior, _) = linear(), exact_draws(rng)
    centred = posterior.assign(
        Intercept=posterior["Intercept"] + FRAME["x"].mean() * posterior["x"]
    )
    centred.attrs = {"inference_library": "pymc"}
    result = pymc_ksd.ksd_test(model, centred, random_seed=1, progressbar=False)
    assert result["p_value"] > 0.05
    posterior.attrs = {"inference_library": "pymc"}
    result = pymc_ksd.ksd_test(model, posterior, random_seed=1, progressbar=False)
    assert result["p_value"] < 0.01


def test_a_model_that_was_not_built_is_refused_and_left_alone(rng):
    model = bambi.Model("y ~ x", FRAME)
    with pytest.raises(ValueError, match="call its `build` or `fit` first"):
        pymc_ksd.ksd_test(model, exact_draws(rng)[0])
    assert not model.built


def test_every_function_takes_a_bambi_model(rng):
    model, (_, posterior) = linear(), exact_draws(rng)
    options = {"random_seed": 1, "progressbar": False}
    assert pymc_ksd.ksd(model, posterior, **options)["ess_ksd"] > 50
    table = pymc_ksd.ksd_summary(model, posterior, progressbar=False)
    assert set(table.index) == {"Intercept", "x"}
    # Of the intercept that Bambi shows, not that of centred predictors.
    error = (table["stein_mean"] - table["mean"]).abs()
    assert (error < 4 * table["mcse_mean"] + 1e-3).all()
    assert pymc_ksd.ksd_evolution(model, posterior, **options)["ksd"][-1] < 1
    check = pymc_ksd.ksd_ppc(model, posterior, num_draws=50, **options)
    assert check["p_value"] > 0.05
    report = pymc_ksd.ksd_report(model, posterior, **options)
    assert report.check is not None
    assert not report.rejected
    held_out = pymc_ksd.ksd_test(
        model, FRAME["y"].to_numpy(), posterior=posterior, null="multinomial", **options
    )
    assert held_out["p_value"] > 0.01


def test_the_pymc_model_with_bambis_draws_is_noticed(rng):
    model, (posterior, with_mu) = linear(), exact_draws(rng)
    options = {"random_seed": 1, "progressbar": False}
    backend = model.backend.model
    without_attributes = with_mu.drop_attrs()
    for draws, words in [(posterior, "are Bambi's"), (without_attributes, "'mu' in `data` is not")]:
        with pytest.warns(pymc_ksd.DrawsWarning, match=f"{words}.*bambi.Model itself"):
            pymc_ksd.ksd_test(backend, draws, **options)
        with pytest.warns(pymc_ksd.DrawsWarning, match=f"{words}.*bambi.Model itself"):
            pymc_ksd.ksd_ppc(backend, draws, num_draws=25, **options)
    report = pymc_ksd.ksd_report(backend, without_attributes, **options)
    assert any("belong together" in finding.headline for finding in report.findings)


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("y ~ x + (x|group)", "gaussian"),
        pytest.param("y ~ x + kind + (1|group)", "gaussian", marks=pytest.mark.slow),
        pytest.param("outcome ~ x + kind", "categorical", marks=pytest.mark.slow),
        ("y ~ 1 + (1|group)", "gaussian"),
        pytest.param("y ~ 0 + x", "gaussian", marks=pytest.mark.slow),
        pytest.param(
            bambi.Formula("y ~ x", "sigma ~ x + kind"), "gaussian", marks=pytest.mark.slow
        ),
    ],
)
def test_bambis_own_changes_are_undone(formula, family):
    """What Bambi does to draws of the PyMC model, by its own function, and back."""
    model = bambi.Model(formula, FRAME, family=family)
    model.build()
    score = pymc_ksd.compile_score(model)
    backend = model.backend.model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = pm.sample_prior_predictive(5, backend, random_seed=1)["prior"]
        names = [rv.name for rv in [*backend.free_RVs, *backend.deterministics]]
        before = (before.to_dataset() if hasattr(before, "to_dataset") else before)[names]
        after = model.backend._clean_results(_container(before), True, False)["posterior"]
    after = after if isinstance(after, xr.Dataset) else after.to_dataset()
    restored = in_model_parameters(after, bambi_parameters(model))
    for rv in backend.free_RVs:
        expected = before[rv.name]
        np.testing.assert_allclose(restored[rv.name].transpose(*expected.dims), expected)
    assert score.dim == sum(int(np.prod(before[rv.name].shape[2:])) for rv in backend.free_RVs)


def _container(posterior):
    """Return draws in the container of this version of ArviZ."""
    posterior = posterior.copy(deep=True)
    try:
        import arviz as az

        return az.InferenceData(posterior=posterior)
    except (AttributeError, TypeError):
        return xr.DataTree.from_dict({"posterior": posterior})


def test_draws_without_offsets_are_tested(rng):
    """Bambi leaves standardised effects of groups out."""
    model = bambi.Model("y ~ x + (1|group)", FRAME)
    model.build()
    free = [rv.name for rv in model.backend.model.free_RVs]
    assert "1|group_offset" in free
    size = (2, 50)
    posterior = xr.Dataset(
        {
            "Intercept": (("chain", "draw"), rng.normal(1, 0.2, size)),
            "x": (("chain", "draw"), rng.normal(1, 0.1, size)),
            "sigma": (("chain", "draw"), rng.gamma(50, 0.02, size)),
            "1|group_sigma": (("chain", "draw"), rng.gamma(5, 0.1, size)),
            "1|group": (("chain", "draw", "group__factor_dim"), rng.normal(0, 0.3, (*size, 6))),
        },
        coords={"group__factor_dim": list("abcdef")},
    )
    result = pymc_ksd.ksd_test(model, posterior, random_seed=1, progressbar=False)
    assert "1|group_offset" in result
    moments = pymc_ksd.ksd_moments(model, posterior, progressbar=False)
    assert "1|group_offset" not in moments
    assert moments.attrs["not_shown"] == "1|group_offset"
    assert "do not contain them: 1|group_offset." in str(pymc_ksd.explain(moments))
    named = pymc_ksd.ksd_moments(model, posterior, var_names="x", progressbar=False)
    assert "not_shown" not in named.attrs
    check = pymc_ksd.ksd_ppc(model, posterior, num_draws=25, random_seed=1, progressbar=False)
    assert np.isfinite(check["p_value"])


def test_moments_of_the_intercept_are_those_of_bambis(rng):
    """Un-centred, as in the draws, and off by what the draws are off by."""
    draws, _ = exact_draws(rng, 4, 500)
    table = np.column_stack([np.ones(60), FRAME["x"]])
    covariance = np.linalg.inv(table.T @ table)
    truth = covariance @ table.T @ FRAME["y"]
    sd = np.sqrt(np.diag(covariance))
    moments = pymc_ksd.ksd_moments(linear(), draws, progressbar=False)
    assert moments.attrs["status"] == "passed"
    for name, mean, spread in zip(("Intercept", "x"), truth, sd, strict=True):
        found = moments[name].to_series()
        assert found["stein_mean"] == pytest.approx(mean, abs=0.01 * spread)
        assert found["stein_sd"] == pytest.approx(spread, rel=0.01)
    shifted = draws.assign(Intercept=draws["Intercept"] + 0.2 * sd[0])
    off = pymc_ksd.ksd_moments(linear(), shifted, progressbar=False)
    bias = (float(shifted["Intercept"].mean()) - truth[0]) / sd[0]
    assert float(off["Intercept"].sel(diagnostic="bias_mean")) == pytest.approx(bias, abs=0.02)


def test_own_features_of_bambis_intercept_are_those_of_all_its_terms(rng):
    """It is a function of several coordinates, not of the centred intercept alone."""
    target = pymc_ksd.compile_score(linear())._target
    draws, _ = exact_draws(rng)
    own = Quantities.of_variables(target, draws, ["Intercept", "x"]).own
    assert own[0] == -1
    assert own[1] == target.names.index("x")


def test_changed_draws_of_any_model_are_noticed(labelled):
    model, posterior = labelled
    changed = posterior.assign(mu=posterior["mu"] + 1)
    with pytest.warns(pymc_ksd.DrawsWarning, match=r"'shifted' in `data` is not what"):
        pymc_ksd.ksd_test(model, changed, progressbar=False)
    pymc_ksd.ksd_test(model, posterior.astype("float32"), progressbar=False)


def test_order_of_labels_and_axes_is_no_change(rng):
    with pm.Model(coords={"k": ["a", "b"], "row": [1, 2, 3]}) as model:
        theta = pm.Normal("theta", dims="k")
        pm.Deterministic("mu", theta[np.array([0, 1, 1])] * 2.0, dims="row")
    values = rng.normal(size=(2, 50, 2))
    posterior = xr.Dataset(
        {
            "theta": (("chain", "draw", "k"), values),
            "mu": (("row", "chain", "draw"), np.moveaxis(2 * values[..., [0, 1, 1]], -1, 0)),
        },
        coords={"k": ["a", "b"], "row": [1, 2, 3]},
    )
    turned = posterior.isel(k=[1, 0], row=[2, 0, 1])
    pymc_ksd.ksd_test(model, turned, progressbar=False)
    changed = turned.assign(mu=turned["mu"].isel(row=[1, 2, 0]).assign_coords(row=[3, 1, 2]))
    with pytest.warns(pymc_ksd.DrawsWarning, match="'mu' in `data` is not"):
        pymc_ksd.ksd_test(model, changed, progressbar=False)


def test_the_command_line_finds_a_bambi_model(tmp_path):
    file = tmp_path / "written_by_bambi.py"
    file.write_text(
        "import bambi, pandas as pd\n"
        "frame = pd.DataFrame({'x': [1.0, 2.0, 4.0], 'y': [1.0, 3.0, 4.0]})\n"
        "model = bambi.Model('y ~ x', frame)\n"
    )
    for place in (str(file), f"{file}:model"):
        assert isinstance(load_model(place), bambi.Model)
