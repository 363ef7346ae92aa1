"""Regressions with all the usual outcomes."""

import numpy as np
import pymc as pm

from tests.zoo.registry import WORKS, Error, add

X = np.random.default_rng(20).normal(size=36)


def _linear_outcome():
    return 1 + 2 * X + np.random.default_rng(21).normal(size=36)


def _exact_linear(rng, chains, draws):
    design = np.column_stack([np.ones_like(X), X])
    precision = design.T @ design + np.eye(2) / 25
    mean = np.linalg.solve(precision, design.T @ _linear_outcome())
    values = rng.multivariate_normal(mean, np.linalg.inv(precision), size=(chains, draws))
    return {"intercept": values[..., 0], "slope": values[..., 1]}


@add(quick=True, exact=_exact_linear)
def linear_regression_known_scale():
    with pm.Model() as model:
        intercept, slope = pm.Normal("intercept", 0, 5), pm.Normal("slope", 0, 5)
        pm.Normal("y", intercept + slope * X, 1, observed=_linear_outcome())
    return model


@add()
def linear_regression():
    with pm.Model() as model:
        intercept, slope = pm.Normal("intercept", 0, 5), pm.Normal("slope", 0, 5)
        sigma = pm.HalfNormal("sigma", 2)
        pm.Normal("y", intercept + slope * X, sigma, observed=_linear_outcome())
    return model


@add()
def robust_regression():
    rng = np.random.default_rng(22)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 5, shape=2)
        nu = pm.Gamma("nu", 2, 0.1)
        sigma = pm.HalfNormal("sigma", 2)
        y = X + rng.standard_t(3, size=36)
        pm.StudentT("y", nu=nu, mu=beta[0] + beta[1] * X, sigma=sigma, observed=y)
    return model


@add()
def heteroscedastic():
    rng = np.random.default_rng(23)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        gamma = pm.Normal("gamma", 0, 1, shape=2)
        sigma = pm.math.exp(gamma[0] + gamma[1] * X)
        pm.Normal("y", beta[0] + beta[1] * X, sigma, observed=X + rng.normal(0, np.exp(X / 2)))
    return model


@add(quick=True)
def logistic_regression():
    rng = np.random.default_rng(24)
    y = rng.binomial(1, 1 / (1 + np.exp(-X)))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=beta[0] + beta[1] * X, observed=y)
    return model


@add()
def binomial_regression():
    rng = np.random.default_rng(25)
    n = rng.integers(5, 20, size=36)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        p = pm.Deterministic("p", pm.math.invlogit(beta[0] + beta[1] * X))
        pm.Binomial("y", n=n, p=p, observed=rng.binomial(n, 1 / (1 + np.exp(-X))))
    return model


@add(quick=True)
def poisson_regression():
    rng = np.random.default_rng(26)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Poisson("y", pm.math.exp(beta[0] + beta[1] * X), observed=rng.poisson(np.exp(X / 2)))
    return model


@add()
def negative_binomial_regression():
    rng = np.random.default_rng(27)
    y = rng.poisson(np.exp(1 + X / 2) * rng.gamma(2, 0.5, size=36))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        alpha = pm.Exponential("alpha", 1)
        mu = pm.math.exp(beta[0] + beta[1] * X)
        pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=y)
    return model


@add()
def beta_regression():
    rng = np.random.default_rng(28)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        kappa = pm.Gamma("kappa", 2, 0.1)
        mu = pm.math.invlogit(beta[0] + beta[1] * X)
        pm.Beta("y", mu * kappa, (1 - mu) * kappa, observed=rng.beta(3, 3, size=36))
    return model


@add()
def gamma_regression():
    rng = np.random.default_rng(29)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        shape = pm.Exponential("shape", 0.5)
        mu = pm.math.exp(beta[0] + beta[1] * X)
        y = rng.gamma(2, np.exp(X / 2) / 2)
        pm.Gamma("y", alpha=shape, beta=shape / mu, observed=y)
    return model


@add()
def weibull_regression():
    rng = np.random.default_rng(30)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        alpha = pm.Gamma("alpha", 2, 1)
        scale = pm.math.exp(beta[0] + beta[1] * X)
        pm.Weibull("y", alpha=alpha, beta=scale, observed=np.exp(X / 2) * rng.weibull(2, size=36))
    return model


@add()
def ordered_logistic():
    rng = np.random.default_rng(31)
    y = np.digitize(X + rng.logistic(size=36), [-1.0, 0.5, 2.0])
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 2)
        cutpoints = pm.Normal(
            "cutpoints",
            0,
            3,
            shape=3,
            transform=pm.distributions.transforms.ordered,
            initval=[-1.0, 0.0, 1.0],
        )
        pm.OrderedLogistic("y", eta=slope * X, cutpoints=cutpoints, observed=y)
    return model


@add(quick=True)
def softmax_regression():
    rng = np.random.default_rng(32)
    with pm.Model(coords={"class": list("abc")}) as model:
        a, b = (pm.Normal(name, 0, 1, dims="class") for name in ("a", "b"))
        p = pm.math.softmax(a + b * X[:, None], axis=-1)
        pm.Categorical("y", p=p, observed=rng.integers(3, size=36))
    return model


@add(quick=True)
def spline_regression():
    x = np.linspace(0, 1, 36)
    knots = np.linspace(0, 1, 6)
    basis = np.maximum(0, 1 - np.abs(x[:, None] - knots) * 5)  # linear B-splines
    y = np.sin(6 * x) + np.random.default_rng(33).normal(0, 0.3, size=36)
    with pm.Model(coords={"spline": range(6), "obs": range(36)}) as model:
        weights = pm.Normal("weights", 0, 1, dims="spline")
        sigma = pm.Exponential("sigma", 1)
        mu = pm.Deterministic("mu", pm.math.dot(basis, weights), dims="obs")
        pm.Normal("y", mu, sigma, observed=y, dims="obs")
    return model


#: Clear, as long as no kernel on the circle is the default.
ON_A_CIRCLE = Error("live on a circle", may_work=True)


@add(quick=True, compiled=WORKS, score=ON_A_CIRCLE, ppc=ON_A_CIRCLE, report=ON_A_CIRCLE)
def von_mises():
    with pm.Model() as model:
        mu = pm.VonMises("mu", 0, 0.1)
        kappa = pm.Gamma("kappa", 2, 0.5)
        y = np.random.default_rng(34).vonmises(1, 3, size=30)
        pm.VonMises("y", mu=mu, kappa=kappa, observed=y)
    return model


@add()
def multivariate_student():
    rng = np.random.default_rng(35)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2, shape=2)
        scale = np.array([[1.0, 0.4], [0.4, 1.0]])
        pm.MvStudentT("y", nu=4, mu=mu, scale=scale, observed=rng.standard_t(4, size=(30, 2)))
    return model


@add()
def dot_product_of_data():
    """Coefficients by `pm.math.dot`, a column of ones and priors of different kinds."""
    rng = np.random.default_rng(36)
    design = np.column_stack([np.ones(36), X, X**2])
    with pm.Model() as model:
        b = pm.Laplace("b", 0, 1, shape=3)
        sigma = pm.HalfStudentT("sigma", nu=3, sigma=1)
        pm.Normal("y", pm.math.dot(design, b), sigma, observed=X + rng.normal(size=36))
    return model
