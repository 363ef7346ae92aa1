"""Models that no function answers for, because their log density is not that of a posterior."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pytensor.tensor.random.op import RandomVariable

import pymc_ksd

pytestmark = [
    # PyMC itself says that `total_size` is missing.
    pytest.mark.filterwarnings("ignore:total_size not provided:UserWarning"),
    # PyTensor 3 has deprecated the usual way to call an operation that draws.
    pytest.mark.filterwarnings("ignore:RandomVariable Ops will stop hiding:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Calling a RandomVariable without:DeprecationWarning"),
]

X = np.linspace(-1, 1, 40)
Y = X + np.random.default_rng(1).normal(size=40)


def minibatch():
    with pm.Model() as model:
        few_x, few_y = pm.Minibatch(X, Y, batch_size=10)
        slope = pm.Normal("slope")
        pm.Normal("y", slope * few_x, 1, observed=few_y, total_size=40)
    return model


def minibatch_without_total_size():
    with pm.Model() as model:
        few_x, few_y = pm.Minibatch(X, Y, batch_size=10)
        slope = pm.Normal("slope")
        pm.Normal("y", slope * few_x, 1, observed=few_y)
    return model


def minibatch_in_a_potential():
    with pm.Model() as model:
        few_x, few_y = pm.Minibatch(X, Y, batch_size=10)
        slope = pm.Normal("slope")
        pm.Potential("y", 4 * pm.logp(pm.Normal.dist(slope * few_x, 1), few_y).sum())
    return model


def weighted():
    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.Normal("y", slope * X, 1, observed=Y, total_size=200)
    return model


def without_free_variables():
    with pm.Model() as model:
        pm.Normal("y", 0, 1, observed=Y, total_size=200)
    return model


class TreesRV(RandomVariable):
    """What pymc_bart's variables look like: their log-probability is zero."""

    name = "BART"
    signature = "()->()"
    dtype = "floatX"
    __module__ = "pymc_bart.bart"


def trees():
    with pm.Model() as model:
        mu = model.register_rv(TreesRV()(0.0, size=(40,)), name="mu")
        pm.Normal("y", mu, 1, observed=Y)
    return model


PARTS_OF_DATA = [
    minibatch,
    minibatch_without_total_size,
    minibatch_in_a_potential,
    weighted,
    without_free_variables,
]
FUNCTIONS = ["ksd_test", "ksd", "ksd_moments", "ksd_summary", "ksd_evolution", "ksd_ppc"]
FUNCTIONS += ["ksd_report"]


def draws(rng):
    return xr.Dataset({"slope": (("chain", "draw"), rng.normal(size=(2, 50)))})


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("build", PARTS_OF_DATA)
def test_parts_of_the_data_are_refused(build, function, rng):
    with pytest.raises(ValueError, match=r"'y'.*pm\.Minibatch.*total_size.*all the data"):
        getattr(pymc_ksd, function)(build(), draws(rng), progressbar=False)


def test_parts_of_the_data_have_no_score():
    for build in PARTS_OF_DATA:
        with pytest.raises(ValueError, match=r"'y'.*all the data"):
            pymc_ksd.compile_score(build())
    with minibatch(), pytest.raises(ValueError, match=r"'y'.*all the data"):
        pymc_ksd.compile_score()


def test_held_out_data_of_a_weighted_model_are_refused(rng):
    with pytest.raises(ValueError, match=r"'y'.*all the data"):
        pymc_ksd.ksd_test(weighted(), Y, posterior=draws(rng), progressbar=False)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_trees_are_refused(function, rng):
    with pytest.raises(ValueError, match=r"'mu' are BART's"):
        getattr(pymc_ksd, function)(trees(), draws(rng), progressbar=False)
    with pytest.raises(ValueError, match="BART"):
        pymc_ksd.compile_score(trees())
