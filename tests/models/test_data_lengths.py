"""Observations and inputs of different lengths, as after ``pm.set_data`` for predictions."""

import gc
import weakref

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_ksd

X = np.linspace(-1, 1, 30)
Y = X + np.random.default_rng(1).normal(size=30)
FIT = r"'y' has observations of shape \(30,\).*'x' has shape \(7,\).*pm\.set_data"


def regression(*, sized, mutable=True):
    """A regression on two inputs, whose outcome has their size or that of the observations."""
    with pm.Model() as model:
        x, z = pm.Data("x", X), pm.Data("z", X**2)
        y = pm.Data("y_data", Y) if mutable else Y
        pm.Data("unused", np.ones(3))
        a, b = pm.Normal("a"), pm.Normal("b")
        shape = {"shape": x.shape} if sized else {}
        pm.Normal("y", a * x + b * z, 1, observed=y, **shape)
    return model


def draws(rng, size=(2, 50)):
    return xr.Dataset({name: (("chain", "draw"), rng.normal(0.5, 0.2, size)) for name in "ab"})


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("mutable", [True, False])
@pytest.mark.parametrize("names", [["x"], ["x", "z"]])
def test_inputs_set_for_predictions_are_named(sized, mutable, names, rng):
    model = regression(sized=sized, mutable=mutable)
    score, points = pymc_ksd.compile_score(model), rng.normal(size=(5, 2))
    before = score(points)
    with model:
        pm.set_data({name: np.ones(7) for name in names})
    for call in (
        lambda: score(points),
        lambda: pymc_ksd.compile_score(model)(points),
        lambda: pymc_ksd.ksd_test(model, draws(rng), progressbar=False),
        lambda: pymc_ksd.ksd(model, draws(rng), progressbar=False),
    ):
        with pytest.raises(ValueError, match=FIT) as caught:
            call()
        assert "unused" not in str(caught.value)
    with pytest.raises(ValueError, match=r"'y'.*pm\.set_data"):
        pymc_ksd.ksd_ppc(model, draws(rng), progressbar=False)
    with pytest.raises(ValueError, match=r"'y'.*pm\.set_data"):
        pymc_ksd.ksd_report(model, draws(rng), progressbar=False)
    with model:
        pm.set_data({"x": X, "z": X**2})
    np.testing.assert_array_equal(score(points), before)


def test_one_input_does_not_make_one_observation(rng):
    model = regression(sized=True)
    with model:
        pm.set_data({"x": [0.5], "z": [0.5]})
    with pytest.raises(ValueError, match=r"shape \(30,\).*\(1,\).*pm\.set_data"):
        pymc_ksd.ksd_ppc(model, draws(rng), progressbar=False)


def test_other_errors_are_not_about_lengths(rng):
    """Data of another length, such as knots, are no reason to blame them for everything."""
    with pm.Model() as model:
        knots = pm.Data("knots", np.arange(5.0))
        mu = pm.Normal("mu")
        count = pm.Poisson("count", 3)
        pm.Normal("y", mu + count + 0 * knots.sum(), 1, observed=Y)
    with pytest.raises(ValueError, match="'count' is discrete"):
        pymc_ksd.compile_score(model)
    with pm.Model() as model:
        knots = pm.Data("knots", np.arange(5.0))
        mu = pm.Normal("mu")
        pm.Dirichlet("y", np.ones(3) + mu**2 + 0 * knots.sum(), observed=np.ones(3) / 3)
    with pytest.raises(ValueError, match="'y' is a single vector") as caught:
        pymc_ksd.ksd_ppc(model, draws(rng).rename(a="mu"), progressbar=False)
    assert "knots" not in str(caught.value)


def test_a_kept_target_does_not_keep_its_model():
    model = regression(sized=False)
    pymc_ksd.compile_score(model)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
