"""``pm.Data``, ``pm.set_data``, missing values, minibatches and ``total_size``."""

import numpy as np
import pymc as pm

from tests.zoo.registry import FUNCTIONS, Error, add

#: What a function has to say that sees part of the data, or weighs them.
NOT_ALL_THE_DATA = Error(r"(?is)(minibatch|total_size)")
#: Observations and inputs that do not fit: both, and how to mend it.
DO_NOT_FIT = Error(r"(?is)(?=.*'y')(?=.*'x')(?=.*set_data)")
DO_NOT_FIT_IN_CHECK = Error(r"(?is)'y'.*(set_data|same length)")


def _data(n=30, seed=100):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return x, 1 + x + rng.normal(size=n)


def _regression_of_data(dims=None, coords=None):
    x_values, y_values = _data()
    with pm.Model(coords=coords) as model:
        x = pm.Data("x", x_values, dims=dims)
        y = pm.Data("y_data", y_values, dims=dims)
        b = pm.Normal("b", 0, 2, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        shape = {"dims": dims} if dims else {"shape": x.shape}
        mu = pm.Deterministic("mu", b[0] + b[1] * x, **({"dims": dims} if dims else {}))
        pm.Normal("y", mu, sigma, observed=y, **shape)
    return model


@add()
def data_without_dims():
    return _regression_of_data()


@add()
def data_with_dims_and_coords():
    return _regression_of_data("obs_id", {"obs_id": [f"row {i}" for i in range(30)]})


@add(quick=True)
def data_with_dims_without_coords():
    return _regression_of_data("obs_id")


def _set_as_many(model):
    x, y = _data(seed=101)
    with model:
        pm.set_data({"x": x, "y_data": y})


@add(after=_set_as_many)
def data_set_to_as_many():
    return _regression_of_data("obs_id")


def _set_other_length(model):
    x, y = _data(20, seed=102)
    with model:
        pm.set_data({"x": x, "y_data": y})


@add(quick=True, after=_set_other_length)
def data_set_to_another_length():
    """Inputs and observations are both set, so that they fit."""
    return _regression_of_data("obs_id")


def _set_for_predictions(model):
    with model:
        pm.set_data({"x": np.linspace(-2, 2, 7)})


@add(
    quick=True,
    after=_set_for_predictions,
    score=DO_NOT_FIT,
    ppc=DO_NOT_FIT_IN_CHECK,
    report=DO_NOT_FIT,
    pending=dict.fromkeys(["score", "ksd_report"], "a raw error about broadcasting"),
)
def inputs_set_for_predictions():
    """Only the inputs are set, as for ``pm.sample_posterior_predictive``."""
    return _regression_of_data()


@add(
    after=_set_for_predictions,
    score=DO_NOT_FIT,
    ppc=DO_NOT_FIT_IN_CHECK,
    report=DO_NOT_FIT,
    pending=dict.fromkeys(["score", "ksd_report"], "a raw error about broadcasting"),
)
def inputs_set_for_predictions_fixed_outcome():
    """The same with observations that are no ``pm.Data``."""
    x_values, y_values = _data()
    with pm.Model() as model:
        x = pm.Data("x", x_values)
        slope = pm.Normal("slope", 0, 2)
        pm.Normal("y", slope * x, 1, observed=y_values, shape=x.shape)
    return model


@add(quick=True)
def missing_outcomes():
    x, y = _data()
    y = np.where(np.arange(30) % 7 == 3, np.nan, y)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", b[0] + b[1] * x, sigma, observed=np.ma.masked_invalid(y))
    return model


@add(quick=True)
def missing_inputs():
    x, y = _data()
    holes = np.ma.masked_array(x, mask=np.arange(30) % 6 == 2)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        full = pm.Normal("x", 0, 1, observed=holes)
        pm.Normal("y", b[0] + b[1] * full, sigma, observed=y)
    return model


@add(
    quick=FUNCTIONS,
    score=NOT_ALL_THE_DATA,
    ppc=NOT_ALL_THE_DATA,
    report=NOT_ALL_THE_DATA,
    pending={
        "score": "answers without a word",
        "ksd_ppc": "AttributeError: ndim_supp",
        "ksd_report": "AttributeError: ndim_supp",
    },
)
def minibatch():
    x, y = _data(200)
    with pm.Model() as model:
        few_x, few_y = pm.Minibatch(x, y, batch_size=20)
        b = pm.Normal("b", 0, 2, shape=2)
        pm.Normal("y", b[0] + b[1] * few_x, 1, observed=few_y, total_size=200)
    return model


@add(
    quick=True,
    score=NOT_ALL_THE_DATA,
    ppc=NOT_ALL_THE_DATA,
    report=NOT_ALL_THE_DATA,
    pending={
        "score": "answers without a word",
        "ksd_ppc": "AttributeError: ndim_supp",
        "ksd_report": "AttributeError: ndim_supp",
    },
)
def weighted_by_total_size():
    x, y = _data()
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2, shape=2)
        pm.Normal("y", b[0] + b[1] * x, 1, observed=y, total_size=200)
    return model
