"""Models that Bambi writes: it centres predictors and un-centres the intercept after sampling."""

import numpy as np

from tests.zoo.registry import NOT_PASSED, WORKS, Error, add

NEEDS = ("bambi",)
#: All functions want a PyMC model.
#: Draws and a model that cannot belong together.
NOT_TOGETHER = Error(r"(?i)(bambi|belong)", (ValueError, UserWarning))


def _frame():
    import pandas as pd

    rng = np.random.default_rng(120)
    group = np.repeat(list("abcde"), 6)
    x = rng.normal(3, 1, size=30)
    y = 1 + x + np.repeat(rng.normal(size=5), 6) + rng.normal(size=30)
    return pd.DataFrame({"x": x, "y": y, "g": group, "count": rng.poisson(3, size=30)})


def _built(formula, **options):
    import bambi

    model = bambi.Model(formula, _frame(), **options)
    model.build()
    return model


def _uncentred(model, posterior, rng):
    """Return the draws as Bambi hands them out."""
    return posterior.assign(
        Intercept=posterior["Intercept"] - _frame()["x"].mean() * posterior["x"]
    )


@add(quick=True, needs=NEEDS, draws=_uncentred)
def bambi_slope():
    return _built("y ~ x")


@add(needs=NEEDS, draws=_uncentred)
def bambi_counts():
    return _built("count ~ x", family="poisson")


@add(needs=NEEDS)
def bambi_groups():
    return _built("y ~ 1 + (1|g)")


@add(quick=True, needs=NEEDS, draws=_uncentred)
def bambi_slope_and_groups():
    return _built("y ~ x + (1|g)")


@add(quick=True, needs=NEEDS)
def bambi_backend_groups():
    """The PyMC model itself, without a slope: draws and model belong together."""
    return _built("y ~ 1 + (1|g)").backend.model


@add(
    quick=True,
    needs=NEEDS,
    draws=_uncentred,
    compiled=WORKS,
    score=NOT_TOGETHER,
    ppc=NOT_TOGETHER,
    report=NOT_PASSED,
)
def bambi_backend_slope():
    """The PyMC model itself, with draws whose intercept is not the model's: their ``mu`` tells."""
    return _built("y ~ x").backend.model
