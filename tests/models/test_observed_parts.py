"""Paths, single vectors and mixtures as independent parts: SciPy and PyMC's own logp are judges."""

import gc
import weakref

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import sparse, stats

import pymc_ksd
from pymc_ksd.compilation import compile_function
from pymc_ksd.diagnostics.predictive.comparisons import find_comparisons
from pymc_ksd.models.observed.fitted import fitted_densities, fitted_density
from pymc_ksd.models.observed.inputs import inputs_of
from pymc_ksd.models.observed.items import MOST_PARCELS, in_parcels

# PyMC 6 builds AR through two PyTensor calls that are about to change.
pytestmark = [
    pytest.mark.filterwarnings("ignore:RandomVariable Ops will stop:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Calling a RandomVariable without:DeprecationWarning"),
    # PyMC 5 writes the log-probability of KroneckerNormal with it.
    pytest.mark.filterwarnings("ignore:batched_dot is deprecated:FutureWarning"),
]

WALK = np.cumsum(np.random.default_rng(3).normal(size=12))
WALKS = np.cumsum(np.random.default_rng(4).normal(size=(3, 12)), axis=1)
VECTORS = np.cumsum(np.random.default_rng(5).normal(size=(12, 2)), axis=0)
PLACES = np.random.default_rng(6).uniform(0, 4, size=12)
START, STARTS = stats.norm(0, 2), stats.multivariate_normal(np.zeros(2), np.eye(2))


def autoregression(theta):
    start = pm.Normal.dist(0, 2, shape=2)
    rho = pm.math.stack([0.3, theta, -0.2])
    pm.AR("y", rho, 1 + theta**2, constant=True, init_dist=start, observed=WALK)
    return START.logpdf(WALK[:2]).sum()


def autoregressions(theta):
    start = pm.Normal.dist(0, 2, shape=(3, 1))
    pm.AR("y", theta[..., None], np.array([1.0, 2.0, 0.5]), init_dist=start, observed=WALKS)
    return START.logpdf(WALKS[:, 0]).sum()


def random_walk(theta):
    start = pm.Normal.dist(0, 2)
    pm.GaussianRandomWalk("y", mu=theta, sigma=1.5, init_dist=start, observed=WALK)
    return START.logpdf(WALK[0])


def random_walks(theta):
    start = pm.Normal.dist(0, 2)
    pm.GaussianRandomWalk("y", mu=theta, sigma=1.5, init_dist=start, observed=WALKS)
    return START.logpdf(WALKS[:, 0]).sum()


def student_t_walk(theta):
    steps = pm.StudentT.dist(nu=4, mu=theta, sigma=1.2)
    pm.RandomWalk("y", innovation_dist=steps, init_dist=pm.Normal.dist(0, 2), observed=WALK)
    return START.logpdf(WALK[0])


def walk_of_vectors(theta):
    start = pm.MvNormal.dist(np.zeros(2), np.eye(2))
    chol = np.array([[1.0, 0.0], [0.5, 1.2]])
    mu = pm.math.stack([theta, 0.1])
    pm.MvGaussianRandomWalk("y", mu=mu, chol=chol, init_dist=start, observed=VECTORS)
    return STARTS.logpdf(VECTORS[0])


def student_t_walk_of_vectors(theta):
    start = pm.MvNormal.dist(np.zeros(2), np.eye(2))
    scale = np.array([[1.0, 0.3], [0.3, 1.2]])
    mu = pm.math.stack([theta, 0.1])
    pm.MvStudentTRandomWalk("y", nu=5, mu=mu, scale=scale, init_dist=start, observed=VECTORS)
    return STARTS.logpdf(VECTORS[0])


def garch(theta):
    pm.GARCH11("y", omega=1.0 + theta**2, alpha_1=0.3, beta_1=0.2, initial_vol=1.3, observed=WALK)
    return 0.0


def diffusion(theta):
    def drift_and_scale(x, theta):
        return theta * x, 1 + 0.1 * x**2

    start = pm.Normal.dist(0, 2)
    pm.EulerMaruyama("y", 0.2, drift_and_scale, (theta,), init_dist=start, observed=WALK)
    return START.logpdf(WALK[0])


def gaussian_process(theta):
    gp = pm.gp.Marginal(cov_func=(1 + theta**2) * pm.gp.cov.ExpQuad(1, 0.8))
    gp.marginal_likelihood("y", X=PLACES[:, None], y=WALK, sigma=0.5)
    return 0.0


def few_normal_vectors(theta):
    covariance = np.eye(12) + 0.4
    pm.MvNormal("y", mu=theta + np.arange(12) / 5, cov=covariance, observed=WALKS)
    return 0.0


def student_t_vector(theta):
    scale = np.eye(12) * (1 + theta**2) + 0.4
    pm.MvStudentT("y", nu=4, mu=np.arange(12) / 5, scale=scale, observed=WALK)
    return 0.0


def kronecker_vector(theta):
    covs = [np.eye(3) + 0.2, np.eye(4) * (1 + theta**2) + 0.3]
    pm.KroneckerNormal("y", mu=np.zeros(12), covs=covs, sigma=0.7, observed=WALK)
    return 0.0


def areas(theta):
    near = np.abs(np.subtract.outer(np.arange(12), np.arange(12))) == 1
    pm.CAR("y", mu=np.zeros(12), W=near * 1.0, alpha=0.6, tau=1.14 + theta**2, observed=WALK)
    return 0.0


def areas_of_a_sparse_matrix(theta):
    near = sparse.csr_matrix(np.eye(12, k=1) + np.eye(12, k=-1))
    pm.CAR("y", mu=np.zeros(12), W=near, alpha=0.6, tau=1.14 + theta**2, observed=WALK)
    return 0.0


def built(write, shape=()):
    with pm.Model() as model:
        theta = pm.Normal("theta", shape=shape)
        initial = write(theta)
    return model, initial


def logp_of(model, value):
    """PyMC's own log-probability of the observed variable."""
    graph = model.logp(vars=[model["y"]])
    return compile_function([model.rvs_to_values[model["theta"]]], graph)(value)


@pytest.mark.parametrize(
    ("write", "n"),
    [
        (autoregression, 10),
        (autoregressions, 33),
        (random_walk, 11),
        (random_walks, 33),
        (student_t_walk, 11),
        (walk_of_vectors, 11),
        (student_t_walk_of_vectors, 11),
        (garch, 12),
        (diffusion, 11),
        (gaussian_process, 12),
        (few_normal_vectors, 36),
        (student_t_vector, 12),
        (kronecker_vector, 12),
        (areas, 12),
        (areas_of_a_sparse_matrix, 12),
    ],
)
def test_conditional_log_densities_add_up_to_the_logp(write, n):
    model, initial = built(write, (3,) if write is autoregressions else ())
    density = fitted_density(model, model["y"], None, None)
    value = np.array([0.4, -0.3, 0.2]) if write is autoregressions else np.array(0.4)
    points = density.unconstrain(density.data(), value)
    terms, scores = density.log_density(points, value)
    whole = logp_of(model, value)
    assert len(terms) == density.places.n == n
    # CAR is normalised in PyMC 5 without the constant of the normal density.
    constant = areas_constant() if write in (areas, areas_of_a_sparse_matrix) else 0.0
    np.testing.assert_allclose(terms.sum() + initial, whole + constant, rtol=1e-6)
    step = 1e-5 * np.eye(points.shape[1])[0]
    differences = [density.log_density(points + sign * step, value)[0] for sign in (1, -1)]
    slope = (differences[0] - differences[1]) / 2e-5
    np.testing.assert_allclose(slope, scores[:, 0], atol=1e-5)


def areas_constant():
    """What PyMC's CAR leaves out of the density, if it does."""
    near = np.abs(np.subtract.outer(np.arange(12), np.arange(12))) == 1
    precision = 1.3 * (np.diag(near.sum(axis=1)) - 0.6 * near)
    dist = pm.CAR.dist(np.zeros(12), near * 1.0, 0.6, 1.3)
    law = stats.multivariate_normal(np.zeros(12), np.linalg.inv(precision))
    return law.logpdf(WALK) - compile_function([], pm.logp(dist, WALK).sum())()


def test_elements_of_a_process_follow_their_places():
    """Conditional means and scales, from the dense formula for each element."""
    model, _ = built(gaussian_process)
    density = fitted_density(model, model["y"], None, None)
    found = density.parameters(np.array(0.4))
    kernel = np.exp(-0.5 * np.subtract.outer(PLACES, PLACES) ** 2 / 0.8**2)
    covariance = 1.16 * kernel + 0.25 * np.eye(12)
    order = np.argsort(PLACES)
    residuals = np.empty(12)
    for rank, i in enumerate(order):
        past = order[:rank]
        weights = np.linalg.solve(covariance[np.ix_(past, past)], covariance[past, i])
        mean = weights @ WALK[past]
        variance = covariance[i, i] - weights @ covariance[past, i]
        # gp.Marginal adds a millionth to the diagonal.
        np.testing.assert_allclose(found["mu"][i], mean, atol=1e-4)
        np.testing.assert_allclose(found["sigma"][i], np.sqrt(variance), rtol=1e-4)
        residuals[i] = (WALK[i] - mean) / np.sqrt(variance)
    past = density.past(np.array(0.4))
    np.testing.assert_allclose(past["1 before"][order[1:], 0], residuals[order[:-1]], atol=1e-3)
    np.testing.assert_allclose(past["2 before"][order[2:], 0], residuals[order[:-2]], atol=1e-3)
    assert not past["1 before"][order[0]].any()
    assert not density.along
    np.testing.assert_array_equal(next(iter(inputs_of(model, density)))[1][:, 0], PLACES)


def test_places_that_stand_twice_in_a_graph_order_elements_too():
    with pm.Model() as model:
        theta = pm.Normal("theta")
        near = pm.gp.cov.ExpQuad(1, 0.8)(PLACES[:, None]) + 0.5 * np.eye(12)
        pm.MvNormal("y", mu=theta * PLACES, cov=near, observed=WALK)
    density = fitted_density(model, model["y"], None, None)
    order = np.argsort(PLACES)
    found = density.parameters(np.array(0.4))["mu"][:, 0]
    # The first has nobody before it.
    np.testing.assert_allclose(found[order[0]], 0.4 * PLACES[order[0]])
    assert not np.isclose(found[0], 0.4 * PLACES[0])


def test_past_of_a_path_of_many_dims_is_compared_by(rng):
    with pm.Model() as model:
        mu, start = pm.Normal("mu", shape=4), pm.MvNormal.dist(np.zeros(4), np.eye(4))
        path = rng.normal(size=(12, 4)).cumsum(axis=0)
        pm.MvGaussianRandomWalk("y", mu, chol=np.eye(4), init_dist=start, observed=path)
    density = fitted_density(model, model["y"], None, None)
    names = [one.name for one in find_comparisons(model, density, [(np.zeros(4),)], "auto")]
    assert {f"past: {lag} before[{dim}]" for lag in (1, 2) for dim in range(4)} <= set(names)


def test_elements_of_a_student_t_vector_against_scipy():
    model, _ = built(student_t_vector)
    density = fitted_density(model, model["y"], None, None)
    points = density.unconstrain(density.data(), np.array(0.4))
    terms, _ = density.log_density(points, np.array(0.4))
    mean, scale = np.arange(12) / 5, np.eye(12) * 1.16 + 0.4
    wholes = [
        stats.multivariate_t(mean[:k], scale[:k, :k], df=4).logpdf(WALK[:k]) for k in range(1, 13)
    ]
    np.testing.assert_allclose(terms, np.diff([0.0, *wholes]), rtol=1e-8)
    np.testing.assert_allclose(density.parameters(np.array(0.4))["nu"][:, 0], 4 + np.arange(12))


def test_steps_know_their_time_and_their_series():
    coords = {"day": np.arange(12) * 2.0, "person": ["a", "b", "c"]}
    with pm.Model(coords=coords) as model:
        theta = pm.Normal("theta")
        start = pm.Normal.dist(0, 2)
        pm.GaussianRandomWalk(
            "y", theta, 1, init_dist=start, observed=WALKS, dims=("person", "day")
        )
    density = fitted_density(model, model["y"], None, None)
    along = {name: (table[:, 0], labels) for name, table, labels in density.along}
    assert [labels for _, labels in along.values()] == [True, False]
    assert density.places.dims == ("person", "day")
    values = density.data()
    for number, (person, day) in enumerate(zip(along["person"][0], along["day"][0], strict=True)):
        steps = np.diff(WALKS[int(person)])
        assert values[number] == steps[int(day / 2) - 1]
    np.testing.assert_array_equal(density.places.spread(values)[:, 1:], np.diff(WALKS, axis=1))
    assert np.isnan(density.places.spread(values)[:, 0]).all()
    before = density.past(np.array(0.0))["1 before"][:, 0]
    np.testing.assert_array_equal(
        density.places.spread(before)[:, 2:], np.diff(WALKS, axis=1)[:, :-1]
    )


def test_new_data_of_a_path_are_seen():
    with pm.Model() as model:
        observed = pm.Data("observed", WALK)
        pm.GaussianRandomWalk(
            "y", pm.Normal("theta"), 1, init_dist=pm.Normal.dist(), observed=observed
        )
    density = fitted_density(model, model["y"], None, None)
    with model:
        pm.set_data({"observed": 2 * WALK})
    assert fitted_density(model, model["y"], None, None) is density
    np.testing.assert_allclose(density.data(), 2 * np.diff(WALK))


@pytest.mark.slow
@pytest.mark.newer_stack
def test_a_checked_path_does_not_keep_its_model():
    model, _ = built(autoregression)
    draws = xr.Dataset({"theta": (("chain", "draw"), np.full((1, 25), 0.3))})
    pymc_ksd.ksd_ppc(model, draws, progressbar=False)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


COUNTS = np.array([31, 60, 57])


def of_counts(theta):
    share = pm.math.sigmoid(theta)
    kinds = pm.math.stack([share**2, 2 * share * (1 - share), (1 - share) ** 2])
    pm.Multinomial("y", n=COUNTS.sum(), p=kinds, observed=COUNTS)


def of_clustered_counts(theta):
    pm.DirichletMultinomial(
        "y", n=COUNTS.sum(), a=pm.math.exp(theta) * np.array([1.0, 2.0, 3.0]), observed=COUNTS
    )


@pytest.mark.parametrize("write", [of_counts, of_clustered_counts])
def test_items_are_as_likely_as_their_counts(write):
    """Up to a constant: the number of ways in which items can be put into parcels."""
    model, _ = built(write)
    density = fitted_density(model, model["y"], None, None)
    assert density.data().shape == (MOST_PARCELS, 3)
    np.testing.assert_array_equal(density.data().sum(axis=0), COUNTS)
    of_parcels, of_vector = [], []
    for value in (np.array(-0.4), np.array(0.8)):
        points = density.unconstrain(density.data(), value)
        of_parcels.append(density.log_density(points, value)[0].sum())
        of_vector.append(logp_of(model, value))
    np.testing.assert_allclose(np.diff(of_parcels), np.diff(of_vector), rtol=1e-8)


def test_few_items_are_compared_one_by_one():
    parcels = in_parcels(np.array([3, 0, 4]))
    assert (parcels.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(parcels.sum(axis=0), [3, 0, 4])
    # In any order, not kind by kind.
    assert not (np.diff(parcels.argmax(axis=1)) >= 0).all()


def test_hurdle_is_zeros_and_values():
    y = np.array([0.0, 1.5, 0.0, 2.5, 0.7, 0.0])
    x = np.arange(6.0)
    with pm.Model(coords={"patient": list("abcdef")}) as model:
        psi, shape = pm.Beta("psi", 1, 1), pm.HalfNormal("shape")
        given_x = pm.Data("x", x)
        pm.HurdleGamma(
            "y", psi, alpha=shape, beta=pm.math.exp(0.1 * given_x), observed=y, dims="patient"
        )
    zeros, values = fitted_densities(model, model["y"], None, None)
    assert (zeros.variable.name, values.variable.name) == ("y_zero", "y")
    assert (zeros.given, values.given) == (("psi",), ("shape",))
    np.testing.assert_array_equal(zeros.data(), y == 0)
    np.testing.assert_array_equal(values.data(), y[y > 0])
    terms, _ = zeros.log_density(zeros.data()[:, None].astype(float), np.array(0.7))
    np.testing.assert_allclose(terms, np.log(np.where(y == 0, 0.3, 0.7)))
    points = values.unconstrain(values.data(), np.array(2.0))
    terms, _ = values.log_density(points, np.array(2.0))
    law = stats.gamma(2.0, scale=np.exp(-0.1 * x[y > 0]))
    # In unconstrained coordinates, here logarithms, with their Jacobian.
    np.testing.assert_allclose(terms, law.logpdf(y[y > 0]) + np.log(y[y > 0]), rtol=1e-7)
    assert values.places.dims == ("patient",)
    np.testing.assert_array_equal(np.isnan(values.places.spread(np.ones(3))), y == 0)
    # Both are compared by inputs of the whole.
    for part, rows in ((zeros, x), (values, x[y > 0])):
        tables = {name: table[:, 0] for (name,), table, _ in inputs_of(model, part)}
        np.testing.assert_array_equal(tables["x"], rows)


def test_mixture_with_one_atom_is_checked_in_two_parts(rng):
    y = np.where(rng.uniform(size=40) < 0.4, 1.0, rng.normal(size=40))
    with pm.Model() as model:
        share = pm.Beta("share", 1, 1)
        rest = (1 - share) / 2
        parts = [pm.Normal.dist(0, 1), pm.DiracDelta.dist(1.0), pm.Normal.dist(0.1, 1)]
        weights = pm.math.stack([rest, share, rest])
        pm.Mixture("y", w=weights, comp_dists=parts, observed=y)
    zeros, values = fitted_densities(model, model["y"], None, None)
    assert zeros.places.name == "y_atom"
    np.testing.assert_array_equal(values.data(), y[y != 1])
    terms, _ = values.log_density(values.data()[:, None], np.array(0.4))
    law = 0.5 * stats.norm(0, 1).pdf(y[y != 1]) + 0.5 * stats.norm(0.1, 1).pdf(y[y != 1])
    np.testing.assert_allclose(terms, np.log(law))
    draws = xr.Dataset({"share": (("chain", "draw"), rng.beta(17, 25, size=(1, 30)))})
    check = pymc_ksd.ksd_ppc(model, draws, covariates={"y": np.arange(40.0)}, progressbar=False)
    assert list(check["variable"].values) == ["y_atom", "y"]
    assert list(check["comparison"].values) == ["residuals", "covariates"]


def test_what_is_computed_once_follows_new_data_without_free_variables():
    """Steps depend on the data: other data have other means at the same (empty) draw."""
    with pm.Model() as model:
        observed = pm.Data("observed", WALK)
        pm.AR("y", [0.5], sigma=1.0, init_dist=pm.Normal.dist(shape=1), observed=observed)
    density = fitted_density(model, model["y"], None, None)
    np.testing.assert_allclose(density.parameters()["mu"][:, 0], 0.5 * WALK[:-1])
    with model:
        pm.set_data({"observed": 2 * WALK})
    np.testing.assert_allclose(density.parameters()["mu"][:, 0], WALK[:-1])


def test_path_is_compared_by_its_past_with_every_bandwidth():
    model, _ = built(autoregression)
    draws = xr.Dataset({"theta": (("chain", "draw"), np.linspace(0.2, 0.4, 25)[None])})
    check = pymc_ksd.ksd_ppc(model, draws, progressbar=False, random_seed=1)
    assert {"past: 1 before", "past: 2 before"} <= set(check["comparison"].values)
    own = [str(name) for name in check["member"].values if name.startswith("past: 1 before")]
    assert len(own) == 4
    assert "past: 1 before; past: 2 before" in check.attrs["compared_by"]
    # Every comparison that may show a misfit has something to be said about it.
    shown = check.assign(p_value=0.01, comparison_p_value=0 * check["comparison_p_value"])
    told = pymc_ksd.explain(shown.assign_attrs(status="rejected"))
    assert "depends on earlier values" in str(told)
