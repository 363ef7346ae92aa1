"""Which draws are known to be independent: layouts in which samplers leave them on both stacks."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_ksd import compile_score
from pymc_ksd.samples.containers import chains_interact, drawn_independently
from pymc_ksd.samples.draws import read_draws
from pymc_ksd.samples.stream import DrawStream

PYMC = {"inference_library": "pymc", "inference_library_version": "6.0"}
NUTS = {**PYMC, "sampling_time": 1.5, "tuning_steps": 1000}
PER_DRAW = xr.Dataset({"lp": (("chain", "draw"), np.zeros((1, 30)))})
#: As pymc-extras 0.10 writes them.
OF_PATHS = xr.Dataset({"pareto_k": ((), 0.3), "lbfgs_status_counts": ("status", [4, 0])})
LAPLACE = {"fit": xr.Dataset({"mean_vector": ("rows", [0.0])}), "optimizer_result": xr.Dataset()}
PATHFINDER = {"pathfinder": xr.Dataset({"pareto_k": 0.3}), "lbfgs": xr.Dataset({"maxcor": 5})}


def container(attrs, chains=1, **groups):
    """The container of this stack's ArviZ with draws of a variable and other groups."""
    values = np.random.default_rng(0).normal(size=(chains, 30))
    posterior = xr.Dataset({"x": (("chain", "draw"), values)}, attrs=attrs)
    groups = {"posterior": posterior, **groups}
    if az.__version__.startswith("0."):
        return az.InferenceData(**groups)
    return xr.DataTree.from_dict(groups)


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        pm.Normal("x")
    return model


@pytest.mark.parametrize(
    "data",
    [
        container(PYMC),
        container(PYMC, sample_stats=xr.Dataset(attrs=PYMC)),
        container(PYMC, **LAPLACE),
        container(PYMC, chains=4, **LAPLACE),
        container({}, **PATHFINDER),
        container({}, sample_stats=OF_PATHS),
    ],
    ids=["fit-5", "fit-6", "laplace", "laplace-in-chains", "pathfinder-6", "pathfinder-5"],
)
def test_draws_of_approximations_are_independent(model, data):
    assert drawn_independently(data)
    target = compile_score(model)._target
    assert read_draws(target, data).independent
    assert DrawStream(target, data).independent


@pytest.mark.parametrize(
    "data",
    [
        container(NUTS, sample_stats=PER_DRAW),
        container(NUTS),
        container(PYMC, sample_stats=PER_DRAW),
        container({"inference_library": "nutpie"}),
        container({}),
        container({}, sample_stats=xr.Dataset({"runtime": 3.0})),
        container(PYMC, chains=2),
        # SMC, by PyMC 6 and by PyMC 5.
        container(PYMC, sample_stats=xr.Dataset({"beta": ("chain", [1.0])})),
        container(PYMC, sample_stats=PER_DRAW.isel(draw=[0, 1])),
        # A sampler that was started at a mode, or by Pathfinder.
        container(NUTS, sample_stats=PER_DRAW, **LAPLACE),
        container({}, sample_stats=PER_DRAW, **PATHFINDER),
        container(PYMC)["posterior"],
        xr.Dataset({"x": (("chain", "draw"), np.arange(30.0).reshape(1, 30))}, attrs=PYMC),
        xr.DataArray(np.arange(30.0).reshape(1, 30), dims=("chain", "draw"), name="x"),
    ],
)
def test_draws_are_not_independent_without_evidence(model, data):
    assert not drawn_independently(data)
    assert not read_draws(compile_score(model)._target, data).independent


@pytest.mark.slow
def test_draws_of_a_variational_fit_and_of_chains(model):
    with model:
        fitted = pm.fit(n=50, random_seed=1, progressbar=False).sample(50, random_seed=1)
        sampled = pm.sample(
            50, tune=50, chains=1, cores=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    assert drawn_independently(fitted)
    assert not drawn_independently(sampled)


def test_data_are_no_draws():
    assert not drawn_independently(np.zeros((30, 1)))
    assert not drawn_independently(None)


@pytest.mark.parametrize(
    ("attrs", "statistics", "expected"),
    [
        ({}, ["accept", "scaling"], False),
        ({}, ["accept", "scaling", "lambda"], True),  # PyMC's differential evolution
        ({"inference_library": "emcee"}, ["lp"], True),
        ({"inference_library": "pymc"}, [], False),
    ],
)
def test_chains_that_move_by_where_others_are(attrs, statistics, expected):
    shape = ("chain", "draw")
    posterior = xr.Dataset({"x": (shape, np.zeros((2, 4)))}, attrs=attrs)
    own = xr.Dataset({name: (shape, np.zeros((2, 4))) for name in statistics})
    tree = xr.DataTree.from_dict({"posterior": posterior, "sample_stats": own})
    assert chains_interact(tree) is expected
    assert not chains_interact(np.zeros((30, 1)))
