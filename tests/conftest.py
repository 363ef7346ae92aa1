import os

import matplotlib as mpl
import numpy as np
import pymc as pm
import pytest

mpl.use("Agg")
os.environ.setdefault("BOKEH_BROWSER", "none")


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
