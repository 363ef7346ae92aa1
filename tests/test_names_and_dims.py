"""Models as people write them: any names, dims with and without labels, data set anew."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_ksd

FUNCTIONS = ["ksd_test", "ksd", "ksd_evolution", "ksd_moments", "ksd_summary", "ksd_ppc"]
FUNCTIONS += ["ksd_report"]


def call(name, model, draws):
    """Return what a public function says, as something that can be compared."""
    options = {} if name in ("ksd_moments", "ksd_summary") else {"random_seed": 1}
    result = getattr(pymc_ksd, name)(model, draws, progressbar=False, **options)
    return result.test if name == "ksd_report" else result


def regression(x, y, dim="obs_id"):
    """A regression with an effect for every observation, over a dim without labels."""
    with pm.Model() as model:
        inputs, outcome = pm.Data("x", x, dims=dim), pm.Data("outcome", y, dims=dim)
        slope, sd = pm.Normal("slope"), pm.HalfNormal("sd", 5)
        effect = pm.Normal("effect", dims=dim)
        mu = pm.Deterministic("mu", slope * inputs + effect, dims=dim)
        pm.Normal("y", mu, sd, observed=outcome, dims=dim)
    return model


def draws_of(n, rng, dim="obs_id"):
    return xr.Dataset(
        {
            "slope": (("chain", "draw"), rng.normal(size=(2, 40))),
            "sd": (("chain", "draw"), rng.gamma(5, 0.2, size=(2, 40))),
            "effect": (("chain", "draw", dim), rng.normal(size=(2, 40, n))),
        }
    )


@pytest.fixture
def resized(rng):
    """A model whose data were set to another length after its first use, one written with them."""
    model = regression(*rng.normal(size=(2, 12)))
    pymc_ksd.ksd_test(model, draws_of(12, rng), random_seed=1)
    pymc_ksd.ksd_ppc(model, draws_of(12, rng), num_draws=20, random_seed=1)
    x, y = rng.normal(size=(2, 17))
    with model:
        pm.set_data({"x": x, "outcome": y})
    return model, regression(x, y), draws_of(17, rng)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "ksd_report" else [])
        for name in FUNCTIONS
    ],
)
def test_dims_without_labels(function, resized):
    model, fresh, draws = resized
    changed, expected = call(function, model, draws), call(function, fresh, draws)
    if function == "ksd_summary":
        assert changed.equals(expected)
        assert len(changed) == 19
    else:
        xr.testing.assert_allclose(changed, expected)
        assert "obs_id" in changed.dims or function in ("ksd_evolution",)


def test_observed_dims_without_labels(rng):
    with pm.Model() as model:
        pm.Normal("y", 0, 1, observed=pm.Data("data", rng.normal(size=30), dims="i"), dims="i")
    assert pymc_ksd.ksd_test(model, random_seed=1).attrs["n"] == 30
    with model:
        pm.set_data({"data": rng.normal(2, 1, size=40)})
    result = pymc_ksd.ksd_test(model, random_seed=1)
    assert result.attrs["n"] == 40
    assert result["p_value"] <= 0.05
    assert pymc_ksd.ksd_ppc(model, random_seed=1)["y"].shape == (40,)


NAMES = [
    "1|g",
    *(
        pytest.param(one, marks=[pytest.mark.slow, pytest.mark.newer_stack])
        for one in ("x:z", "a name, with spaces", "float64", "i4,f8")
    ),
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name(name, rng, tmp_path):
    """Names that NumPy would read as number types, or stumble over, are names."""
    index, counts = np.arange(20) % 2, rng.poisson(1, size=20)

    def model_and_draws(effect, scale, outcome, dim):
        with pm.Model(coords={dim: ["a b", "c"]}) as model:
            a, b = pm.Normal(effect, dims=dim), pm.HalfNormal(scale)
            pm.Poisson(outcome, pm.math.exp(a[index]) * b, observed=counts)
        generator = np.random.default_rng(1)
        values = {
            effect: (("chain", "draw", dim), generator.normal(size=(2, 40, 2))),
            scale: (("chain", "draw"), generator.gamma(5, 0.2, size=(2, 40))),
        }
        return model, xr.Dataset(values, coords={dim: ["a b", "c"]})

    odd = model_and_draws(name, f"{name} scale", f"{name} outcome", f"{name} dim")
    plain = model_and_draws("effect", "scale", "outcome", "dim")
    for function in ("ksd_test", "ksd", "ksd_moments", "ksd_ppc"):
        result, expected = call(function, *odd), call(function, *plain)
        key = f"{name} outcome" if function == "ksd_ppc" else name
        own = {"ksd_ppc": "outcome"}.get(function, "effect")
        np.testing.assert_allclose(result[key].values, expected[own].values)
        result.to_netcdf(tmp_path / f"{function}.nc")
        with xr.open_dataset(tmp_path / f"{function}.nc") as loaded:
            assert key in loaded
    report = pymc_ksd.ksd_report(*odd, random_seed=1, progressbar=False)
    assert f"{name} scale" in report.summary.index
    collection = pymc_ksd.plot_ksd_contributions(report.measures, backend="matplotlib")
    ticks = collection.get_target("ess", {}).get_yticklabels()
    assert [tick.get_text() for tick in ticks] == [f"{name}[a b]", f"{name}[c]", f"{name} scale"]
    collection = pymc_ksd.plot_ksd_moments(report.moments, backend="matplotlib")
    ticks = collection.get_target("bias", {}).get_yticklabels()
    shown = {tick.get_text().removesuffix(" (no correction)") for tick in ticks}
    assert shown == {f"{name}[a b]", f"{name}[c]", f"{name} scale"}
