"""Scores against finite differences: every continuous distribution, and structured models."""

import re
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from distribution_cases import CASES, IS_PYMC_5, NOT_CONTINUOUS, Case
from pymc.distributions import transforms
from pymc.distributions.mixture import MixtureTransformWarning
from pymc.exceptions import ImputationWarning

from pymc_ksd import compile_score
from pymc_ksd.compilation import interpreted_mode, without_compiler

TABLE = Path(__file__).parents[2] / "docs" / "distributions.md"
N_POINTS = 5

pytestmark = [
    # SciPy 1.17 announces a change of dtype in a function that PyMC draws CAR with.
    pytest.mark.filterwarnings("ignore:Input has data type int64:FutureWarning"),
    # PyMC 5 writes KroneckerNormal and MatrixNormal, PyMC 6 MatrixNormal and Interpolated with
    # functions that PyTensor has deprecated.
    pytest.mark.filterwarnings("ignore:batched_dot is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:pytensor.tensor.linalg.trace is:FutureWarning"),
    pytest.mark.filterwarnings("ignore:matrix_dot is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:SplineWrapper should implement:FutureWarning"),
    # PyMC 6 calls the random function of Simulator in a way that PyTensor has deprecated.
    pytest.mark.filterwarnings("ignore:RandomVariable Ops will stop hiding:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Calling a RandomVariable without:DeprecationWarning"),
    # PyMC 5 advises against its Wishart, which is refused here; PyMC 6 against WishartBartlett.
    pytest.mark.filterwarnings("ignore:The Wishart distribution can currently:UserWarning"),
    pytest.mark.filterwarnings("ignore:WishartBartlett is deprecated:FutureWarning"),
    # Hurdle models have no transform, which does not matter as they are refused.
    pytest.mark.filterwarnings(
        f"ignore:No safe default:{MixtureTransformWarning.__module__}"
        f".{MixtureTransformWarning.__name__}"
    ),
]


#: Distributions whose graphs take longest to compile.
LONG = ("GARCH11", "LKJCorr", "MvStudentTRandomWalk", "Wishart")


def by_label(cases):
    slow = (pytest.mark.slow, pytest.mark.newer_stack)
    return [
        pytest.param(case, id=case.label, marks=slow if case.label in LONG else ())
        for case in cases
    ]


@cache
def free_score(case):
    """Return the model with a free variable and its score, made once for all tests."""
    model = case.free_model()
    return model, compile_score(model)


@cache
def observed_score(case):
    return compile_score(case.observed_model(case.sample(N_POINTS)["x"]))


def find(name):
    return next(case for case in CASES if case.name == name)


SUPPORTED = [case for case in CASES if case.free is None]
OBSERVED = [case for case in CASES if case.is_observable and case.observed is None]


def central_differences(function, points, step=1e-4):
    """Return gradients of a function at points, by differences over two steps and extrapolation.

    The error is of order step**4 (1e-16) for truncation and precision / step (2e-12) times the
    size of the log density for rounding.
    """
    gradients = np.empty_like(points)
    for point, gradient in zip(points, gradients, strict=True):
        for i, direction in enumerate(step * np.eye(len(point))):
            near = (function(point + direction) - function(point - direction)) / 2
            far = (function(point + 2 * direction) - function(point - 2 * direction)) / 4
            gradient[i] = (4 * near - far) / (3 * step)
    return gradients


def assert_is_gradient(scores, function, points):
    """Compare to a millionth: far above rounding (see above), far below any term left out."""
    expected = central_differences(function, points)
    assert np.isfinite(scores).all()
    tolerance = 1e-6 * np.maximum(1.0, np.abs(expected))
    np.testing.assert_array_less(np.abs(scores - expected), tolerance)


def model_logp(model, score):
    """Return the model's own log density as a function of one flat unconstrained point."""
    with without_compiler():
        logp = model.compile_logp(mode=interpreted_mode())
    shapes = [variable.unconstrained_shape for variable in score._target.variables]
    names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
    stops = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])[:-1]

    def at(point):
        parts = np.split(point, stops)
        values = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        return float(logp(dict(zip(names, values, strict=True))))

    return at


def one_observation_logp(case: Case, score):
    """Return the log density of one unconstrained observation, from outside PyMC if possible."""
    if case.logpdf is not None:

        def outside(point):
            value, log_jacobian = case.support(point)
            return float(case.logpdf(value) + log_jacobian)

        return outside

    model, _ = free_score(case)
    rv = model["x"]
    transform = model.rvs_to_transforms[rv]
    point = pt.tensor(
        "point", shape=score._target.variables[0].unconstrained_shape, dtype="float64"
    )
    value = transform.backward(point, *rv.owner.inputs)
    log_jacobian = transform.log_jac_det(point, *rv.owner.inputs)
    with without_compiler():
        logp = pm.logp(rv, value).sum() + log_jacobian.sum()
        function = pytensor.function([point], logp, mode=interpreted_mode())
    return lambda point: float(function(point))


def test_cases_name_every_exported_distribution():
    named = {case.name for case in CASES} | set(NOT_CONTINUOUS)
    assert set(pm.distributions.__all__) == named
    assert not {case.name for case in CASES} & set(NOT_CONTINUOUS)
    assert pm.Lognormal is pm.LogNormal
    assert issubclass(pm.DensityDist, pm.CustomDist)


@pytest.mark.parametrize("case", by_label(SUPPORTED))
def test_compile_score_free_matches_finite_differences(case):
    model, score = free_score(case)
    points = score.unconstrain(case.sample(N_POINTS))
    assert points.shape == (N_POINTS, score.dim)
    assert score._target.kind == "prior"
    assert score._target.circular == (("x",) if case.name == "VonMises" else ())
    assert_is_gradient(score(points), model_logp(model, score), points)


@pytest.mark.parametrize("case", by_label(case for case in CASES if case.free is not None))
def test_compile_score_free_refuses_clearly(case):
    model = case.free_model()
    with pytest.raises(ValueError, match=case.free):
        compile_score(model)


@pytest.mark.parametrize("case", by_label(OBSERVED))
def test_compile_score_observed_matches_finite_differences(case):
    sample = case.sample(N_POINTS)["x"]
    score = observed_score(case)
    points = score.unconstrain(sample)
    assert points.shape == (N_POINTS, score.dim)
    assert score._target.kind == "observed"
    scores = score(points)
    assert_is_gradient(scores, one_observation_logp(case, score), points)
    np.testing.assert_allclose(score(points[1:3]), scores[1:3], rtol=1e-10)
    own = score._target.observed()["x"]
    np.testing.assert_array_equal(own, sample[:1] if case.is_single else sample)


@pytest.mark.parametrize("case", by_label(case for case in CASES if case.observed is not None))
def test_compile_score_observed_refuses_clearly(case):
    model = case.observed_model(case.sample(N_POINTS)["x"])
    with pytest.raises(ValueError, match=case.observed):
        compile_score(model)


@pytest.mark.parametrize("name", ["MatrixNormal", "LKJCholeskyCov", "ICAR"])
def test_compile_score_says_how_to_give_many_observations(name):
    case = find(name)
    sample = case.sample(N_POINTS)["x"]
    with pm.Model() as model:
        case.build("x", shape=sample.shape, observed=sample)
    with pytest.raises(ValueError, match="write the model for one observation and give the sample"):
        compile_score(model)


OUTSIDE = {
    "Exponential": -0.5,
    "Beta": 1.5,
    "Uniform": 2.5,
    "Dirichlet": [0.2, -0.3, 1.1],
    "Pareto": 1.2,
    "Truncated": 0.1,
    "TruncatedNormal": -1.5,
}


@pytest.mark.parametrize("role", ["free", "observed"])
@pytest.mark.parametrize("name", OUTSIDE)
def test_unconstrain_refuses_points_outside_the_support(name, role):
    case = find(name)
    score = free_score(case)[1] if role == "free" else observed_score(case)
    sample = case.sample(N_POINTS)["x"]
    sample[[1, 3]] = OUTSIDE[name]
    message = r"2 of 5 points lie outside the support of 'x' \(rows 1, 3\)"
    with pytest.raises(ValueError, match=message):
        score.unconstrain(sample)


@pytest.mark.parametrize("role", ["free", "observed"])
@pytest.mark.parametrize("name", ["Dirichlet", "StickBreakingWeights", "ZeroSumNormal"])
def test_unconstrain_refuses_vectors_with_another_sum(name, role):
    case = find(name)
    score = free_score(case)[1] if role == "free" else observed_score(case)
    sample = case.sample(N_POINTS)["x"]
    sample[2, -1] += 0.1
    with pytest.raises(ValueError, match=r"outside the support of 'x' \(rows 2\)"):
        score.unconstrain(sample)


@pytest.mark.parametrize(
    "build",
    [
        lambda: pm.Exponential("x", 1.0, default_transform=None),
        lambda: pm.Dirichlet("x", [1.0, 2.0], default_transform=None),
    ],
)
def test_compile_score_refuses_a_constrained_variable_without_transform(build):
    with pm.Model() as model:
        build()
    with pytest.raises(ValueError, match="'x' has a constrained support but no transform"):
        compile_score(model)


@pytest.mark.slow
@pytest.mark.newer_stack
def test_simulate_draws_what_pymc_can_draw(rng):
    cases = [("Normal", 1), ("Dirichlet", 2), ("GaussianRandomWalk", 4)]
    for name, dim in cases if IS_PYMC_5 else [*cases, ("LKJCorr", 3)]:
        _, score = free_score(find(name))
        assert score.simulate(4, rng).shape == (4, dim)
    _, flat = free_score(find("Flat"))
    with pytest.raises(ValueError, match="PyMC cannot draw from it: Cannot sample from flat"):
        flat.simulate(4, rng)


DATA = np.array([[0.3, -1.2], [0.8, 0.1], [-0.4, 0.9], [1.7, -0.3]])


def ordered():
    pm.Normal("x", 0.0, 2.0, shape=3, transform=transforms.ordered, initval=[-1.0, 0.0, 1.0])


def dependent_bounds():
    lower = pm.Normal("lower", 0.0, 1.0)
    pm.Uniform("x", lower, lower + pm.Exponential("width", 1.0))


def potential():
    x = pm.Normal("x", 0.0, 1.0, shape=2)
    pm.Potential("pull", -pt.log1p(pt.sum(x**2)) + x[0] * x[1])


def deterministic():
    scale = pm.Deterministic("scale", pt.exp(pm.Normal("log_scale", 0.0, 1.0)))
    pm.Normal("y", pm.Normal("mean", 0.0, scale), scale, observed=DATA[:, 0])


def mixture():
    weights = pm.Dirichlet("weights", [1.0, 2.0, 3.0])
    mean = pm.Normal("mean", [-1.0, 0.0, 1.0], 1.0, shape=3)
    pm.NormalMixture("y", weights, mean, sigma=0.7, observed=DATA[:, 1])


def custom():
    mean = pm.Normal("mean", 0.0, 1.0)
    pm.CustomDist("y", mean, logp=lambda value, mu: -((value - mu) ** 4), observed=DATA[:, 0])


def scan():
    x = pm.Normal("x", 0.0, 1.0, shape=2)
    levels = pytensor.scan(
        lambda before, x: pt.tanh(before * x[0] + x[1]),
        outputs_info=[pt.constant(0.5, dtype="float64")],
        non_sequences=[x],
        n_steps=3,
        return_updates=False,
    )
    pm.Potential("loop", -pt.sum(levels**2))


def autoregression():
    rho = pm.Normal("rho", 0.0, 0.5, shape=2)
    sigma = pm.HalfNormal("sigma", 1.0)
    start = pm.Normal.dist(0.0, 1.0, shape=2)
    pm.AR("y", rho, sigma, init_dist=start, observed=DATA.ravel())


def missing_values():
    data = np.where(DATA > 1.0, np.nan, DATA)
    with pytest.warns(ImputationWarning):
        pm.Normal("y", pm.Normal("mean", 0.0, 1.0), pm.HalfNormal("sigma", 1.0), observed=data)


def correlated():
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=2))
    pm.MvNormal("y", pm.Normal("mean", 0.0, 1.0, shape=2), chol=chol, observed=DATA)


def with_dims():
    pm.modelcontext(None).add_coords({"group": ["a", "b"], "item": range(4)})
    spread = pm.HalfNormal("spread", 1.0)
    effect = pm.Normal("effect", 0.0, spread, dims="group")
    pm.Normal("y", effect, 1.0, observed=DATA, dims=("item", "group"))


def matrix():
    weights = pm.Normal("weights", 0.0, 1.0, shape=(2, 3))
    positive = pm.Gamma("positive", 2.0, 1.0, shape=(3, 2))
    pm.Normal("y", DATA @ weights @ positive, 1.0, observed=DATA)


STRUCTURES = [
    ordered,
    dependent_bounds,
    potential,
    deterministic,
    mixture,
    custom,
    scan,
    autoregression,
    missing_values,
    correlated,
    with_dims,
    matrix,
]


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(build, marks=pytest.mark.slow if build in (scan, correlated) else ())
        for build in STRUCTURES
    ],
)
def test_compile_score_of_structured_models_matches_finite_differences(build, rng):
    with pm.Model() as model:
        build()
    # Compiling the covariance model for speed takes a minute, so it gets another mode.
    options = {"mode": interpreted_mode()} if build is correlated else None
    with without_compiler() if build is correlated else nullcontext():
        score = compile_score(model, compile_kwargs=options)
    assert [variable.name for variable in score._target.variables] == [
        rv.name for rv in model.free_RVs
    ]
    points = rng.normal(0.0, 0.7, size=(N_POINTS, score.dim))
    assert_is_gradient(score(points), model_logp(model, score), points)


def test_missing_values_are_coordinates():
    with pm.Model() as model:
        missing_values()
    score = compile_score(model)
    assert "y_unobserved" in " ".join(score.labels)
    assert score._target.kind == "posterior"


def test_compile_score_uses_new_data_without_compiling(rng, count_compilations):
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 1.0)
        sigma = pm.HalfNormal("sigma", 1.0)
        x = pm.Data("x", DATA[:, 0])
        pm.Normal("y", slope * x, sigma, observed=pm.Data("data", DATA[:, 1]), shape=x.shape)
    score = compile_score(model)
    logp = model_logp(model, score)
    points = rng.normal(size=(N_POINTS, score.dim))
    before = score(points)
    compiled = len(count_compilations)
    pm.set_data({"x": [1.0, 2.0, -1.0], "data": [0.5, 2.5, 0.0]}, model=model)
    assert compile_score(model)._target is score._target
    after = score(points)
    assert len(count_compilations) == compiled
    assert np.abs(after - before).max() > 0.1
    assert_is_gradient(after, logp, points)


def test_compile_score_of_observed_data_uses_new_parameters_without_compiling(count_compilations):
    with pm.Model() as model:
        pm.Normal("y", pm.Data("mean", 1.0), 2.0, observed=pm.Data("data", DATA[:, 0]))
    score = compile_score(model)
    points = DATA[:, :1]
    np.testing.assert_allclose(score(points), (1.0 - points) / 4)
    compiled = len(count_compilations)
    pm.set_data({"mean": 3.0}, model=model)
    np.testing.assert_allclose(score(points), (3.0 - points) / 4)
    assert len(count_compilations) == compiled


def test_table_of_distributions_has_every_case():
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in TABLE.read_text().splitlines()
        if line.startswith("| `")
    ]
    table = {row[0].replace("`", ""): row[1:] for row in rows}
    assert sorted(table) == sorted(case.label for case in CASES)
    for case in CASES:
        free, observed = table[case.label]
        assert re.search(case.free or "supported", free)
        if case.is_observable:
            assert re.search(case.observed or "supported", observed)
        else:
            assert observed.startswith("–")
