"""Draws beside a model they are not of, as far as what is stored with them tells."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_ksd import DrawsWarning, ksd_ppc, ksd_test

DATA = np.array([0.3, -0.2, 1.1, 0.4])


def model_of(observed, transform=lambda data: data):
    with pm.Model() as model:
        mu = pm.Normal("mu")
        data = pm.Data("data", observed)
        pm.Normal("y", mu, 1.0, observed=transform(data))
    return model


def draws(observed, rng):
    """Exact draws of the posterior given DATA, stored with some data."""
    n = len(DATA)
    values = rng.normal(DATA.sum() / (n + 1), (n + 1) ** -0.5, size=(4, 100))
    posterior = xr.Dataset({"mu": (("chain", "draw"), values)})
    groups = {"posterior": posterior, "observed_data": xr.Dataset({"y": ("i", observed)})}
    return xr.DataTree.from_dict(groups)


@pytest.mark.parametrize(
    "stored",
    [
        DATA,
        DATA.astype(np.float32),
        DATA[::-1],  # of the same posterior
        DATA.astype(str),  # which tells nothing
        np.append(DATA, np.nan),
    ],
    ids=["own", "single floats", "another order", "text", "missing"],
)
def test_the_models_own_data(stored, rng):
    result = ksd_test(model_of(DATA), draws(stored, rng), random_seed=1)
    assert result.attrs["mismatch"] == ""
    assert result.attrs["status"] == "passed"
    assert result.attrs["reason_code"] == ""


@pytest.mark.parametrize("stored", [DATA + 0.5, DATA[:3]], ids=["other values", "fewer"])
def test_other_data(stored, rng):
    with pytest.warns(DrawsWarning, match="The observed data of 'y' that are stored") as caught:
        result = ksd_test(model_of(DATA), draws(stored, rng), random_seed=1)
    assert caught[0].filename == __file__
    assert result.attrs["status"] == "cannot tell"
    assert result.attrs["reason_code"] == "mismatch"
    assert result.attrs["reason"] == result.attrs["mismatch"]


def test_data_that_were_set_since(rng):
    model = model_of(DATA)
    with model:
        pm.set_data({"data": DATA + 3.0})
    with pytest.warns(DrawsWarning, match="or the model's were changed since"):
        result = ksd_test(model, draws(DATA, rng), random_seed=1)
    assert result.attrs["status"] == "rejected"  # these draws are not those of the new posterior
    assert result.attrs["mismatch"]


def test_data_that_are_computed_tell_nothing(rng):
    model = model_of(np.exp(DATA), transform=pm.math.log)
    result = ksd_test(model, draws(DATA + 0.5, rng), random_seed=1)
    assert result.attrs["mismatch"] == ""


def test_counts_that_were_given_as_other_numbers(rng):
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0)
        pm.Poisson("y", rate, observed=pm.Data("counts", np.array([1.0, 3.0, 2.0])))
    values = rng.gamma(8.0, 1 / 4.0, size=(4, 100))
    posterior = xr.Dataset({"rate": (("chain", "draw"), values)})
    for counts, mismatch in (([3, 1, 2], False), ([3, 1, 7], True)):
        groups = {"posterior": posterior, "observed_data": xr.Dataset({"y": ("i", counts)})}
        tree = xr.DataTree.from_dict(groups)
        if mismatch:
            with pytest.warns(DrawsWarning, match="The observed data of 'y'"):
                result = ksd_test(model, tree, random_seed=1)
        else:
            result = ksd_test(model, tree, random_seed=1)
        assert bool(result.attrs["mismatch"]) == mismatch


def test_data_far_from_zero(rng):
    far = DATA + 293.0
    with pm.Model() as model:
        mu = pm.Normal("mu", 293.0, 1.0)
        pm.Normal("y", mu, 1.0, observed=far)
    tree = draws(far + 0.5, rng)
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset() + 293.0)
    with pytest.warns(DrawsWarning, match="The observed data of 'y' that are stored"):
        assert ksd_test(model, tree, random_seed=1).attrs["mismatch"]
    tree["observed_data"] = xr.DataTree(xr.Dataset({"y": ("i", far.astype(np.float32))}))
    assert ksd_test(model, tree, random_seed=1).attrs["mismatch"] == ""


def test_check_of_a_model_whose_data_were_set_since(rng):
    model = model_of(DATA)
    with model:
        pm.set_data({"data": DATA + 0.1})
    with pytest.warns(DrawsWarning, match="or the model's were changed since"):
        result = ksd_ppc(model, draws(DATA, rng), random_seed=1, progressbar=False)
    assert result.attrs["status"] == "cannot tell"
    assert result.attrs["reason_code"] == "mismatch"
    with model:
        pm.set_data({"data": DATA})
    result = ksd_ppc(model, draws(DATA, rng), random_seed=1, progressbar=False)
    assert result.attrs["status"] == "passed"
