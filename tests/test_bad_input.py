"""Every mistake gets an error that names it; other packages answer many of these with a p-value."""

import math

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_ksd import RBF, Radial, Score, compile_score, ksd_test

GOOD = np.random.default_rng(0).normal(size=(20, 2))


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    return model


def changed(row, column, value):
    data = GOOD.copy()
    data[row, column] = value
    return data


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (
            changed(3, 1, np.nan),
            ValueError,
            r"`data` must be finite, but 'x' has 1 NaN value\(s\), first in row 3 \(x\[1\]\)",
        ),
        (changed(5, 0, -np.inf), ValueError, r"'x' has 1 infinite value\(s\), first in row 5"),
        (np.ma.masked_array(GOOD, GOOD > 1), ValueError, r"'x' has \d+ NaN value"),
        (GOOD[:1], ValueError, r"`data` must have at least 2 points, got 1"),
        (GOOD[:0], ValueError, r"`data` must have at least 2 points, got 0"),
        (np.ones((20, 2)), ValueError, r"all 20 values of x\[0\], x\[1\] are the same"),
        (
            np.column_stack([GOOD[:, 0], np.ones(20)]),
            ValueError,
            r"all 20 values of x\[1\] are the same",
        ),
        (np.zeros((20, 3)), ValueError, r"'x' must have shape \(n, 2\).*got \(20, 3\)"),
        (GOOD[:, 0], ValueError, r"`data` must have shape \(n, 2\).*got shape \(20,\)"),
        (np.zeros((2, 2, 2, 2)), ValueError, r"got shape \(2, 2, 2, 2\)"),
        ({"y": GOOD}, ValueError, r"`data` lacks the variable\(s\) x; it has y"),
        ({"x": GOOD, "y": GOOD}, ValueError, r"does not know: y; it knows x"),
        ({}, ValueError, r"lacks the variable\(s\) x; it has none"),
        (
            pd.DataFrame({"x[0]": GOOD[:, 0], "z": 1.0}),
            ValueError,
            r"no column for x\[1\]; its columns are x\[0\], z",
        ),
        (
            pd.DataFrame({"x[0]": GOOD[:, 0], "x[1]": GOOD[:, 1], "z": 1.0}),
            ValueError,
            r"columns the density does not know: z",
        ),
        ("numbers", TypeError, r"`data` must hold numbers, got str"),
        ({"x": [["a", "b"]]}, TypeError, r"'x' cannot be read as an array of numbers"),
        (xr.DataArray(GOOD, name="z"), ValueError, r"lacks the variable\(s\) x; it has z"),
        (xr.DataArray(np.zeros((4, 5, 2))), ValueError, r"'x' must have shape \(n, 2\)"),
        (GOOD + 1j, TypeError, r"cannot be read as an array of numbers \(complex numbers\)"),
        (
            pd.DataFrame(GOOD, columns=["u", "v"]),
            ValueError,
            r"no column for x\[0\], x\[1\]; its columns are u, v\. Rename them, or give an array",
        ),
        (
            pd.DataFrame({"x[0]": pd.date_range("2024", periods=20), "x[1]": GOOD[:, 0]}),
            TypeError,
            r"'x' cannot be read as an array of numbers",
        ),
        (np.arange(40).reshape(20, 2).astype("M8[D]"), TypeError, r"of numbers \(dates\)"),
        ({"x": np.arange(40).reshape(20, 2).astype("m8[s]")}, TypeError, r"of numbers \(times\)"),
        (xr.DataArray(np.arange(40).reshape(20, 2).astype("M8[s]")), TypeError, r"\(dates\)"),
        (None, ValueError, r"`data` is required: only a model without free .* check with ksd_ppc"),
    ],
)
def test_bad_data(model, data, error, message):
    with pytest.raises(error, match=message):
        ksd_test(model, data)


def test_numbered_columns_are_taken_in_order(model):
    expected = ksd_test(model, GOOD, random_seed=0)["statistic"]
    for columns in (None, [3, 7], np.array([1, 0])):
        frame = pd.DataFrame(GOOD, columns=columns)
        assert ksd_test(model, frame, random_seed=0)["statistic"] == expected


def test_fewer_points_than_coordinates_are_shown():
    rng = np.random.default_rng(0)
    with pm.Model() as free:
        pm.Normal("x", shape=25)
    with pm.Model() as observed:
        pm.Normal("y", observed=rng.normal(size=(10, 25)))
    for model, data, name in ((free, rng.normal(size=(10, 25)), "x"), (observed, None, "y")):
        with pytest.warns(
            UserWarning, match=rf"are read as 10 points of dimension 25, .*: {name} \(10, 25\)"
        ):
            ksd_test(model, data)
    ksd_test(free, rng.normal(size=(25, 25)))


def test_unequal_lengths():
    with pm.Model() as model:
        pm.Normal("a")
        pm.Normal("b")
    with pytest.raises(ValueError, match=r"as many points for every variable, got a: 5, b: 6"):
        ksd_test(model, {"a": np.arange(5.0), "b": np.arange(6.0)})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kernel": "gauss"}, ValueError, "`kernel` must be one of 'rbf', 'imq', 'matern52'"),
        ({"kernel": 1}, TypeError, "`kernel` must be a name, a Kernel or a function"),
        ({"statistic": "w"}, ValueError, "`statistic` must be one of 'u', 'v', 'linear', 'block'"),
        (
            {"null": "bootstrap"},
            ValueError,
            "`null` must be one of 'multinomial', 'rademacher', 'wild', 'parametric' for",
        ),
        (
            {"statistic": "linear", "null": "multinomial"},
            ValueError,
            "`null` must be one of 'normal', 'parametric' for `statistic` 'linear'",
        ),
        (
            {"scale": "mad"},
            ValueError,
            "`scale` must be one of None, 'std', 'cov', 'stein', got 'mad'",
        ),
        ({"bandwidth": 0}, ValueError, "`bandwidth` must be positive and finite, got 0"),
        ({"bandwidth": -2.0}, ValueError, "`bandwidth` must be positive and finite, got -2.0"),
        ({"bandwidth": "mean"}, ValueError, "`bandwidth` must be 'auto', 'median'"),
        (
            {"kernel": RBF(bandwidth=1), "bandwidth": 2},
            ValueError,
            r"`bandwidth` was given, but `kernel` RBF\(bandwidth=1\) does not take one",
        ),
        ({"alpha": 0}, ValueError, "`alpha` must lie strictly between 0 and 1, got 0"),
        ({"alpha": 1.0}, ValueError, "`alpha` must lie strictly between 0 and 1, got 1.0"),
        ({"alpha": "5%"}, ValueError, "`alpha` must lie strictly between 0 and 1, got '5%'"),
        ({"n_bootstrap": 0}, ValueError, "`n_bootstrap` must be at least 1, got 0"),
        ({"n_bootstrap": 10.5}, TypeError, "`n_bootstrap` must be an integer, got float"),
        ({"block_size": 0}, ValueError, "`block_size` must be at least 1, got 0"),
        ({"compile_kwargs": 3}, TypeError, "`compile_kwargs` must be a mapping .*, got int"),
        ({"compile_kwargs": ["mode"]}, TypeError, "`compile_kwargs` must be a mapping .*got list"),
        ({"random_seed": "one"}, TypeError, "`random_seed` must be an integer"),
        ({"random_seed": -1}, ValueError, "`random_seed` must be at least 0, got -1"),
        ({"var_names": []}, ValueError, "`var_names` must name at least one variable, got none"),
        ({"var_names": ["y"]}, ValueError, r"`var_names` must name free variables \(x\), got y"),
        ({"sample_dims": "k"}, ValueError, "`sample_dims` belongs to observed variables"),
        (
            {"statistic": "block", "points_per_block": 15},
            ValueError,
            "got 20 points in blocks of 15",
        ),
    ],
)
def test_bad_options(model, options, error, message):
    with pytest.raises(error, match=message):
        ksd_test(model, GOOD, **options)


def test_options_are_checked_before_anything_is_compiled(count_compilations):
    with pm.Model() as model:
        pm.Normal("x")
    with pytest.raises(ValueError, match="`statistic` must be one of"):
        ksd_test(model, GOOD[:, 0], statistic="nonsense")
    assert not count_compilations


def test_outside_the_support():
    with pm.Model() as model:
        pm.Gamma("g", 2, 1)
    data = np.array([1.0, 2.0, -1.0, 3.0, -4.0])
    with pytest.raises(
        ValueError, match=r"2 of 5 points lie outside the support of 'g' \(rows 2, 4\)"
    ):
        ksd_test(model, data)
    with pm.Model() as observed:
        pm.Gamma("g", 2, 1, observed=np.abs(data))
    with pytest.raises(ValueError, match=r"outside the support of 'g' \(rows 2, 4\)"):
        ksd_test(observed, data)


def test_transform_switched_off():
    with pm.Model() as model:
        pm.Uniform("u", 0, 1, default_transform=None)
    with pytest.raises(ValueError, match=r"'u' has a constrained support but no transform"):
        ksd_test(model, np.array([0.2, 0.7, 0.4]))


def test_outside_the_support_of_a_potential():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("below one", pt.switch(x < 1, 0.0, -np.inf))
    with pytest.raises(ValueError, match=r"1 of 3 points have no finite score.*'x' \(rows 1\)"):
        ksd_test(model, np.array([0.2, 1.7, 0.4]))


def test_no_model_in_context():
    with pytest.raises(TypeError, match=r"`model` was not given and no model is on the context"):
        ksd_test(data=GOOD)


def test_not_a_model():
    with pytest.raises(
        TypeError, match=r"`model` must be a pm.Model, a bambi.Model, a Score or None, got str"
    ):
        ksd_test("model", GOOD)


def test_model_without_variables():
    with pm.Model() as model:
        pm.Data("d", 1.0)
    with pytest.raises(ValueError, match="`model` has no random variables"):
        ksd_test(model, GOOD)


def test_discrete_free_variable():
    with pm.Model() as model:
        pm.Normal("x")
        pm.Poisson("count", 3)
    with pytest.raises(ValueError, match=r"free variable 'count' is discrete.*marginalize"):
        ksd_test(model, GOOD)


# PyMC 6.3 builds its Simulator through a PyTensor call that is about to change.
@pytest.mark.filterwarnings("ignore:RandomVariable Ops will stop hiding:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Calling a RandomVariable without:DeprecationWarning")
def test_simulator_has_no_logp():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Simulator("s", lambda rng, mu, size: rng.normal(mu, size=size), mu, observed=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"'s' is a Simulator: it has no log-probability"):
        ksd_test(model, GOOD[:, 0])


class Blackbox(Op):
    """A number that PyTensor cannot differentiate."""

    itypes = (pt.dscalar,)
    otypes = (pt.dscalar,)

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(-(inputs[0] ** 2))


class BlackboxOf(Op):
    """The same, elementwise."""

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(-(inputs[0] ** 2))


def test_no_gradient():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("blackbox", Blackbox()(x))
    with pytest.raises(ValueError, match=r"cannot be differentiated .* variable\(s\) x"):
        ksd_test(model, GOOD[:, 0])


def test_potential_among_observed_variables():
    with pm.Model() as model:
        y = pm.Normal("y", observed=np.arange(5.0))
        pm.Potential("extra", -(y**2).sum())
    with pytest.raises(ValueError, match=r"not known how the Potential\(s\) extra divide"):
        ksd_test(model)


def test_var_names_of_a_posterior():
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.Normal("b")
        pm.Normal("y", a, observed=[1.0])
    with pytest.raises(ValueError, match=r"cannot pick some variables of a posterior"):
        ksd_test(model, GOOD[:, 0], var_names="b")


def test_single_observation():
    with pm.Model() as model:
        pm.MvNormal("y", [0, 0], np.eye(2), observed=[0.1, 0.2])
    with pytest.raises(ValueError, match=r"`data` must have at least 2 points, got 1"):
        ksd_test(model)


def test_wrong_number_of_observations_in_a_regression():
    with pm.Model() as model:
        pm.Normal("y", np.arange(10.0), 1, observed=np.arange(10.0) + 0.3)
    with pytest.raises(
        ValueError, match=r"`data` has 7 observations, but the model is written for 10 of y"
    ):
        ksd_test(model, np.arange(7.0))


def test_sample_dims_of_observed_variable_are_checked():
    with pm.Model(coords={"i": range(4), "k": range(2)}) as model:
        pm.MvNormal("y", [0, 0], np.eye(2), observed=np.ones((4, 2)), dims=("i", "k"))
    with pytest.raises(ValueError, match=r"must be dims of .* 'y' \(i, k\), got j"):
        ksd_test(model, sample_dims="j")
    with pytest.raises(ValueError, match=r"but 'k' is an axis of a single one"):
        ksd_test(model, sample_dims="k")


def test_score_from_callable_checks():
    with pytest.raises(TypeError, match="`function` must be callable"):
        Score.from_callable(3, 1)
    with pytest.raises(ValueError, match="`dim` must be a positive integer, got 0"):
        Score.from_callable(lambda x: -x, 0)
    score = Score.from_callable(lambda x: -x[:, :1], 2)
    with pytest.raises(ValueError, match=r"must return an array of the points' shape \(20, 2\)"):
        ksd_test(score, GOOD)
    nan_score = Score.from_callable(lambda x: np.where(x > 1, np.nan, -x), 2)
    with pytest.raises(ValueError, match=r"points have no finite score"):
        ksd_test(nan_score, GOOD)
    plain = Score.from_callable(lambda x: -x, 2)
    with pytest.raises(ValueError, match=r"`points` must have shape \(n, 2\), got \(3,\)"):
        plain(np.zeros(3))
    with pytest.raises(ValueError, match="came without a `simulate` function"):
        ksd_test(plain, GOOD, null="parametric")
    with pytest.raises(ValueError, match="are fixed in a compiled Score"):
        ksd_test(plain, GOOD, var_names="x")


def test_parametric_null_of_a_posterior():
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.Normal("y", a, observed=[1.0])
    with pytest.raises(ValueError, match=r"'parametric' draws data .* a posterior"):
        ksd_test(model, GOOD[:, 0], null="parametric", n_bootstrap=5)


def test_kernel_not_smooth_at_zero(model):
    kernel = Radial(lambda squared_distance: pt.exp(-pt.sqrt(squared_distance)))
    with pytest.raises(ValueError, match="is not finite at 20 pair"):
        ksd_test(model, GOOD, kernel=kernel)


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (lambda x, y: 1.0, ValueError, r"'<lambda>' must depend on two vectors, got 1\.0"),
        (lambda x, y: pt.sum(x**2), ValueError, "must depend on two vectors"),
        (lambda x, y: None, TypeError, "must take two vectors and return an expression made of"),
        (lambda x: x.sum(), TypeError, "must take two vectors .*1 positional argument"),
        (lambda x, y: math.exp(-(x - y)[0]), TypeError, "made of PyTensor operations, but failed"),
        (max, TypeError, "'max' must take two vectors"),
        (lambda x, y: Blackbox()(pt.dot(x, y)), ValueError, r"must have a gradient, but cannot be"),
        (
            lambda x, y: pt.all(pt.eq(x, y)).astype("float64"),
            ValueError,
            r"`kernel` General\(<lambda>\) must have a gradient.*in both of its arguments",
        ),
        (Radial(lambda squared: 1.0), ValueError, "must depend on squared distances"),
        (Radial(lambda squared: pt.exp(-pt.floor(squared))), ValueError, "is zero at all points"),
        (lambda x, y: 1 + 0 * pt.dot(x, y), ValueError, "is zero at all points"),
        (Radial(lambda squared: BlackboxOf()(squared)), ValueError, "must have a gradient, but"),
    ],
)
def test_kernel_function_that_cannot_be_used(model, kernel, error, message):
    with pytest.raises(error, match=message):
        ksd_test(model, GOOD, kernel=kernel)


def test_kernel_of_counts_needs_no_gradient():
    with pm.Model() as model:
        pm.Poisson("y", 3, observed=np.random.default_rng(0).poisson(3, size=30))
    same = ksd_test(model, kernel=lambda x, y: pt.all(pt.eq(x, y)).astype("float64"))
    assert 0 < same["p_value"] <= 1


def test_compile_score_repr_and_labels(model):
    score = compile_score(model)
    assert repr(score) == "<Score of the prior of x; dim=2>"
    assert score.labels == ["x[0]", "x[1]"]
