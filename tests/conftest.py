import os

import matplotlib as mpl
import numpy as np
import pymc as pm
import pytest
import xarray as xr

mpl.use("Agg")
import matplotlib.pyplot as plt

os.environ.setdefault("BOKEH_BROWSER", "none")


@pytest.fixture(autouse=True)
def no_figures_left():
    """Close figures: matplotlib warns of many, which would fail whatever test comes then."""
    yield
    plt.close("all")


@pytest.fixture
def rng(request):
    """Randomness that depends on nothing but the test's name."""
    name = request.node.originalname or request.node.name
    return np.random.default_rng([ord(letter) for letter in name])


@pytest.fixture(scope="session")
def gaussian_model():
    """A correlated bivariate normal density over one free variable."""
    with pm.Model() as model:
        pm.MvNormal("x", mu=[0.0, 0.0], cov=[[1.0, 0.5], [0.5, 1.0]])
    return model


@pytest.fixture
def count_compilations(monkeypatch):
    """Return a list that grows with every function PyTensor makes."""
    try:
        from pytensor.compile import maker as module
    except ImportError:
        from pytensor.compile.function import types as module

    calls = []
    original = module.FunctionMaker.__init__

    def counted(self, *args, **kwargs):
        calls.append(args)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(module.FunctionMaker, "__init__", counted)
    return calls


@pytest.fixture(scope="session")
def labelled():
    """A model with labels, a bounded variable and a simplex, and exact draws of its posterior."""
    with pm.Model(coords={"school": ["A", "B"], "part": range(3)}) as model:
        mu = pm.Normal("mu")
        tau = pm.HalfNormal("tau")
        pm.Normal("theta", dims="school")
        pm.Dirichlet("weights", np.ones(3), dims="part")
        pm.Deterministic("shifted", mu + tau)
        pm.Normal("y", mu, 1.0, observed=[0.3])
    rng = np.random.default_rng(1)
    values = {
        "mu": rng.normal(0.15, np.sqrt(0.5), size=(2, 100)),
        "tau": np.abs(rng.normal(size=(2, 100))),
        "theta": rng.normal(size=(2, 100, 2)),
        "weights": rng.dirichlet(np.ones(3), size=(2, 100)),
    }
    dims = {"theta": ["school"], "weights": ["part"]}
    posterior = xr.Dataset(
        {name: (("chain", "draw", *dims.get(name, [])), array) for name, array in values.items()}
        | {"shifted": (("chain", "draw"), values["mu"] + values["tau"])},
        coords={
            "chain": [0, 1],
            "draw": np.arange(100),
            "school": ["A", "B"],
            "part": np.arange(3),
        },
    )
    return model, posterior
