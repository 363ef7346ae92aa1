"""What parameters and inputs are called, what is computed once, and moments of counts."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats

import pymc_ksd
from pymc_ksd.models.observed.fitted import fitted_density
from pymc_ksd.models.observed.inputs import indexing_names, inputs_of

X = np.linspace(-1, 1, 12)
GROUP = np.repeat([0, 1, 2], 4)
Y = np.random.default_rng(7).normal(size=12)
TABLE = np.random.default_rng(0).normal(size=(12, 2))


def names_of(write, coords=None):
    """Names of parameters, and of inputs, with whether they are groups."""
    with pm.Model(coords=coords) as model:
        write()
    density = fitted_density(model, model["y"], None, None)
    free = [v for v in model.free_RVs if v.name in density.given]
    given = [np.ones(tuple(v.shape.eval()), v.dtype) for v in free]
    inputs = {}
    for names, table, labels in inputs_of(model, density):
        assert len(names) == table.shape[1]
        inputs |= dict.fromkeys(names, labels)
    return list(density.parameters(*given)), inputs


def plain():
    pm.Normal("y", pm.Normal("slope") * X, pm.math.exp(X), observed=Y)


def named():
    dose = pm.Data("dose", X)
    mu = pm.Deterministic("predictor", pm.Normal("slope") * dose)
    pm.Normal("y", mu, 1.0, observed=Y)


def element():
    b = pm.Normal("b", shape=2)
    pm.Normal("y", b[0] + b[1] * X, 1.0, observed=Y)


def labelled_element():
    b = pm.Normal("b", dims="term")
    pm.Poisson("y", pm.math.exp(b[0] + b[1] * X), observed=GROUP)


def labelled_table():
    beta = pm.Normal("beta", dims="feature")
    pm.Bernoulli("y", logit_p=pt.dot(TABLE, beta), observed=GROUP > 0)


def labelled_data():
    table = pm.Data("table", TABLE, dims=("row", "feature"))
    beta = pm.Normal("beta", shape=2)
    pm.NegativeBinomial("y", mu=pm.math.exp(table @ beta), alpha=2.0, observed=GROUP)


def index():
    pm.Normal("y", pm.Normal("effect", dims="county")[GROUP], 1.0, observed=X)


def index_without_dims():
    pm.Normal("y", pm.Normal("effect", shape=3)[GROUP], 1.0, observed=X)


def index_as_data():
    group = pm.Data("town", GROUP)
    pm.StudentT("y", nu=3.0, mu=pm.Normal("effect", shape=3)[group], observed=X)


def rounded():
    """Numbers from which an index is computed are no groups themselves."""
    age = pm.Data("age", X)
    pm.Normal("y", pm.Normal("effect", shape=3)[pt.floor(age + 1).astype(int)], 1.0, observed=Y)


def beside_all_elements():
    pm.Normal("y", pm.Normal("level", shape=3) + X[:, None], 1.0, observed=np.zeros((12, 3)))


def truncated():
    mu = pm.math.exp(pm.Normal("slope") * X)
    pm.HurdleNegativeBinomial("y", psi=0.5, mu=mu, alpha=2.0, observed=GROUP)


def alone():
    pm.Normal("y", pm.math.sin(X) + pm.Normal("level"), 1.0, observed=Y)


def known_errors():
    pm.Normal("y", pm.Normal("level"), np.abs(X) + 0.5, observed=Y)


def trials():
    """Known numbers of trials are a parameter of PyMC's, whatever type they are turned into."""
    pm.Binomial("y", np.arange(3.0, 15.0), pm.Beta("chance", 1, 1), observed=GROUP)


# PyMC 5 builds truncated distributions through a call that PyTensor is about to change.
@pytest.mark.filterwarnings("ignore:Scan return signature:DeprecationWarning")
@pytest.mark.parametrize(
    ("write", "parameters", "inputs"),
    [
        (plain, ["mu", "sigma"], {"input of slope": False}),
        (named, ["predictor"], {"dose": False}),
        (element, ["mu"], {"input of b[1]": False}),
        (labelled_element, ["mu"], {"input of b[age]": False}),
        (labelled_table, ["p"], {"age": False, "height": False}),
        (labelled_data, ["p"], {"table[age]": False, "table[height]": False}),
        (index, ["mu"], {"county": True}),
        (index_without_dims, ["mu"], {"group of effect": True}),
        (index_as_data, ["mu"], {"town": True}),
        (rounded, ["mu"], {"age": False}),
        (alone, ["mu"], {"unnamed input": False}),
        (beside_all_elements, ["mu"], {"unnamed input": False}),
        (truncated, ["p"], {"input of slope": False}),
        (known_errors, ["sigma"], {"sigma": False}),
        (trials, ["n"], {"n": False}),
    ],
)
def test_names_are_those_that_users_know(write, parameters, inputs):
    coords = {"term": ["level", "age"], "feature": ["age", "height"], "county": ["a", "b", "c"]}
    found = names_of(write, {**coords, "row": range(12)})
    assert found[0] == parameters
    assert {name: found[1][name] for name in inputs} == inputs
    assert not any(name.startswith(("parameter ", "input 0", "input 1")) for name in found[1])


@pytest.mark.parametrize("is_vector", [False, True])
@pytest.mark.parametrize("as_data", [True, False])
def test_observations_before_others_are_no_inputs(as_data, is_vector):
    """A mean that is computed from what was observed before does not make it an input."""
    with pm.Model() as model:
        past = pm.Data("past", Y) if as_data else pt.as_tensor(Y[:, None]).ravel()
        mu = pm.Normal("rho") * pt.concatenate([[0.0], past[:-1]])
        observed = past if as_data else Y
        if is_vector:
            pm.MvNormal("y", mu, np.eye(12), observed=observed)
        else:
            pm.Normal("y", mu + X, 1.0, observed=observed)
    density = fitted_density(model, model["y"], None, None)
    tables = [table for _, table, _ in inputs_of(model, density) if table.shape[1] == 1]
    columns = [table[:, 0] for table in tables if np.ptp(table)]
    np.testing.assert_array_equal(columns, [] if is_vector else [X])
    # Elements of a vector are taken in their own order and not in that of the observations.
    assert len(density.along) == is_vector


@pytest.mark.parametrize(("write", "names"), [(rounded, set()), (index_as_data, {"town"})])
def test_only_whole_numbers_are_groups_where_users_name_them(write, names):
    with pm.Model() as model:
        write()
    found = indexing_names(fitted_density(model, model["y"], None, None))
    assert found & {"age", "town"} == names


def test_parameters_of_mixtures_have_different_names():
    def write():
        parts = [pm.Normal.dist(X, 1.0), pm.Normal.dist(-X, 1.0)]
        pm.Mixture("y", [0.5, 0.5], parts, observed=X)

    parameters, _ = names_of(write)
    assert parameters == ["mu", "mu (2)"]


def looped():
    """A model whose mean takes a loop, and how often that was run."""
    runs = []

    class Watched(pt.Op):
        itypes, otypes = [pt.dvector], [pt.dvector]

        def perform(self, node, inputs, outputs):
            runs.append(1)
            outputs[0][0] = inputs[0] * 1.0

        def grad(self, inputs, gradients):
            return gradients

    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.Normal("y", pm.math.exp(Watched()(slope * X)), 1.0, observed=X)
    return model, runs


def test_what_takes_long_is_computed_once_for_a_draw():
    model, runs = looped()
    density = fitted_density(model, model["y"], None, None)
    runs.clear()
    rng, given = np.random.default_rng(0), (np.asarray(0.5),)
    for _ in range(3):
        density.log_density(X[:, None], *given)
        density.simulate(12, rng, *given)
        density.quantiles((0.5,), *given)
        density.parameters(*given)
    assert len(runs) == 1
    expected = stats.norm(np.exp(0.7 * X)).logpdf(X)
    found, scores = density.log_density(X[:, None], np.asarray(0.7))
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(scores[:, 0], np.exp(0.7 * X) - X)
    assert len(runs) == 2
    again, _ = density.log_density(X[:, None], *given)
    np.testing.assert_allclose(again, stats.norm(np.exp(0.5 * X)).logpdf(X))
    assert len(runs) == 3
    posterior = xr.Dataset({"slope": (("chain", "draw"), np.linspace(0, 1, 25)[None])})
    runs.clear()
    pymc_ksd.ksd_ppc(model, posterior, random_seed=1, num_draws=25)
    # Once for each of 25 draws, and for the three that tell which parameters vary.
    assert len(runs) <= 28


# PyTensor 2 and 3 return different things, and warn of it.
@pytest.mark.filterwarnings("ignore:Scan return signature:DeprecationWarning")
def test_a_scan_is_computed_once():
    with pm.Model() as model:
        rate = pm.Normal("rate")
        path, *_ = pytensor.scan(
            lambda last, r: last * r,
            outputs_info=[pt.as_tensor(np.array(1.0))],
            non_sequences=[rate],
            n_steps=12,
        )
        pm.Normal("y", path, 1.0, observed=X)
    density = fitted_density(model, model["y"], None, None)
    found, _ = density.log_density(X[:, None], np.asarray(0.9))
    expected = stats.norm(0.9 ** np.arange(1, 13)).logpdf(X)
    np.testing.assert_allclose(found, expected)


SHARE = 0.5 + 0.3 * X


@pytest.mark.parametrize(
    ("write", "law"),
    [
        (lambda y: pm.Poisson("y", np.exp(X), observed=y), stats.poisson(np.exp(X))),
        (
            lambda y: pm.Bernoulli("y", SHARE, observed=y > 0),
            stats.bernoulli(SHARE),
        ),
        (lambda y: pm.Binomial("y", 9, SHARE, observed=y), stats.binom(9, SHARE)),
        (
            lambda y: pm.NegativeBinomial("y", n=3.0, p=SHARE, observed=y),
            stats.nbinom(3.0, SHARE),
        ),
        (lambda y: pm.Geometric("y", SHARE, observed=1 + y), stats.geom(SHARE)),
        (
            lambda y: pm.BetaBinomial("y", n=9, alpha=2.0, beta=1.5 + X, observed=y),
            stats.betabinom(9, 2.0, 1.5 + X),
        ),
        (
            lambda y: pm.Categorical("y", np.tile([0.2, 0.5, 0.3], (12, 1)), observed=y),
            stats.rv_discrete(values=([0, 1, 2], [0.2, 0.5, 0.3])),
        ),
    ],
    ids=["Poisson", "Bernoulli", "binomial", "negative", "geometric", "beta-binomial", "kinds"],
)
def test_moments_of_counts_are_those_of_scipy(write, law):
    with pm.Model() as model:
        write(GROUP)
    mean, deviation = fitted_density(model, model["y"], None, None).moments()
    np.testing.assert_allclose(mean, np.broadcast_to(law.mean(), 12), rtol=1e-10)
    np.testing.assert_allclose(deviation, np.broadcast_to(law.std(), 12), rtol=1e-10)


def test_parameters_are_not_called_like_another_variable():
    x = np.linspace(0, 1, 20)
    with pm.Model() as model:
        mu, group = pm.Normal("mu"), pm.Normal("group", shape=20)
        pm.Normal("y", mu + group * x, 1.0, observed=x)
    density = fitted_density(model, model["y"], None, None)
    assert list(density.parameters(np.array(0.5), np.ones(20))) == ["mu of y"]
