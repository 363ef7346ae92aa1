"""Every continuous distribution that PyMC exports, and what the library makes of it.

A case builds the distribution as the free variable ``x`` of a model, or as observed data, and
carries an independent log density of one observation where there is one: SciPy's, or a formula
written out. Tests and the table in the docs are made from the same cases.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import expit, log_expit, logit, logsumexp, softmax

from pymc_ksd.compilation import interpreted_mode, without_compiler

#: PyMC 5 and 6 differ in the matrices they can transform.
IS_PYMC_5 = pm.__version__.startswith("5.")

COV = np.array([[1.0, 0.3], [0.3, 0.5]])
OTHER_COV = np.array([[1.0, -0.2], [-0.2, 0.7]])
COV_3 = np.array([[1.0, 0.3, 0.1], [0.3, 0.8, -0.2], [0.1, -0.2, 1.5]])
MEAN = np.array([0.5, -1.0])
NEIGHBOURS = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
CONCENTRATION = np.array([1.5, 2.0, 3.0])
KNOTS = np.linspace(0.0, 3.0, 11)
HEIGHTS = np.exp(-((KNOTS - 1.2) ** 2))

#: Exported names that are no continuous distribution, and what they are instead.
NOT_CONTINUOUS = {
    **dict.fromkeys(
        [
            "Bernoulli",
            "BetaBinomial",
            "Binomial",
            "Categorical",
            "DirichletMultinomial",
            "DiscreteUniform",
            "DiscreteWeibull",
            "Geometric",
            "HurdleNegativeBinomial",
            "HurdlePoisson",
            "HyperGeometric",
            "Multinomial",
            "NegativeBinomial",
            "OrderedLogistic",
            "OrderedMultinomial",
            "OrderedProbit",
            "Poisson",
            "ZeroInflatedBinomial",
            "ZeroInflatedNegativeBinomial",
            "ZeroInflatedPoisson",
        ],
        "discrete",
    ),
    **dict.fromkeys(
        ["Continuous", "Discrete", "Distribution", "SymbolicRandomVariable"], "base class"
    ),
    "DensityDist": "former name of CustomDist",
    "Lognormal": "other name of LogNormal",
}

ATOMS = r"puts positive probability on single values"
NO_GRADIENT = r"log-probability cannot be differentiated with respect to the variable\(s\) x"


def _real(y):
    return y, 0.0


def _above(lower, y):
    return lower + np.exp(y), np.sum(y)


def _between(lower, upper, y):
    return lower + (upper - lower) * expit(y), np.sum(log_expit(y) + log_expit(-y))


def _simplex(y):
    """PyMC's simplex: softmax of coordinates that sum to zero; the Jacobian is K times the product.

    With p = softmax(y, -sum(y)) the derivatives are dp_i/dy_j = p_i ((i = j) - p_j + p_K), a
    diagonal matrix plus one of rank one.
    """
    p = softmax(np.append(y, -np.sum(y)))
    return p, np.sum(np.log(p))


def _cholesky_cov(y):
    """Positive definite matrices by the logarithms on the diagonal of their Cholesky factor."""
    n = int((np.sqrt(8 * len(y) + 1) - 1) / 2)
    factor = np.zeros((n, n))
    factor[np.tril_indices(n)] = y
    diagonal = np.diag(factor).copy()
    np.fill_diagonal(factor, np.exp(diagonal))
    return factor @ factor.T, np.sum(np.arange(n + 1, 1, -1) * diagonal)


POSITIVE = partial(_above, 0.0)
UNIT = partial(_between, 0.0, 1.0)


@dataclass(frozen=True)
class Case:
    """One distribution with parameters.

    Attributes
    ----------
    name : str
        The exported name.
    build : callable
        Adds the variable to the model in context: takes its name, and shape and observed values.
    variant : str
        Tells several cases of one name apart.
    free, observed : str, optional
        Pattern of the error that it gives as free variable or as data. None when it is supported.
    is_observable : bool
        Whether it makes sense as data.
    is_single : bool
        Whether PyMC's log-probability is that of one observation only.
    draw : callable, optional
        Makes n values on the scale users see, where PyMC cannot draw them.
    logpdf : callable, optional
        Independent log density of one observation, up to a constant.
    support : callable
        Maps the unconstrained coordinates of one observation to its value and to the logarithm of
        the Jacobian determinant, up to a constant.
    remark : str
        What the table in the docs should add.
    """

    name: str
    build: Callable[..., Any]
    variant: str = ""
    free: str | None = None
    observed: str | None = None
    is_observable: bool = True
    is_single: bool = False
    draw: Callable[[int, np.random.Generator], np.ndarray] | None = None
    logpdf: Callable[[np.ndarray], Any] | None = None
    support: Callable[[np.ndarray], tuple[np.ndarray, Any]] = field(default=_real)
    remark: str = ""

    @property
    def label(self) -> str:
        return f"{self.name} ({self.variant})" if self.variant else self.name

    def free_model(self) -> pm.Model:
        with pm.Model() as model:
            self.build("x")
        return model

    def observed_model(self, sample: np.ndarray) -> pm.Model:
        """Return a model of the sample, or of its first point if PyMC's density is for one only."""
        with pm.Model() as model:
            if self.is_single:
                self.build("x", observed=sample[0])
            else:
                self.build("x", shape=sample.shape, observed=sample)
        return model

    def sample(self, n: int, seed: int = 1) -> dict[str, np.ndarray]:
        """Return n values of every free variable."""
        return {name: values.copy() for name, values in _draw(self, n, seed).items()}


@cache
def _draw(case: Case, n: int, seed: int) -> dict[str, np.ndarray]:
    if case.draw is not None:
        return {"x": case.draw(n, np.random.default_rng(seed))}
    variables = case.free_model().free_RVs
    with without_compiler():
        values = pm.draw(variables, n, random_seed=seed, mode=interpreted_mode())
    return {str(rv.name): value for rv, value in zip(variables, values, strict=True)}


def _of(name, variant="", **keywords):
    """Return a case whose distribution takes nothing but numbers."""
    fields = {key: keywords.pop(key) for key in Case.__dataclass_fields__ if key in keywords}
    return Case(name, partial(getattr(pm, name), **keywords), variant, **fields)


def _scipy(distribution, *args, **kwargs):
    frozen = distribution(*args, **kwargs)
    return lambda x: np.sum(frozen.logpdf(x))


def _kumaraswamy(x, a=2.0, b=3.0):
    return (a - 1) * np.log(x) + (b - 1) * np.log1p(-(x**a))


def _gaussian_steps(x, mean=0.1, sigma=0.8):
    steps = stats.norm(mean, sigma).logpdf(np.diff(x)).sum()
    return stats.norm(0.0, 2.0).logpdf(x[0]) + steps


def _ar(x):
    mean = 0.5 * x[1:-1] - 0.2 * x[:-2]
    return stats.norm(0, 1).logpdf(x[:2]).sum() + stats.norm(mean, 0.8).logpdf(x[2:]).sum()


def _garch(x, omega=0.5, alpha=0.3, beta=0.4, volatility=1.0):
    total = stats.norm(0, volatility).logpdf(x[0])
    for before, now in pairwise(x):
        volatility = np.sqrt(omega + alpha * before**2 + beta * volatility**2)
        total += stats.norm(0, volatility).logpdf(now)
    return total


def _euler_maruyama(x, dt=0.1):
    steps = stats.norm(x[:-1] * (1 - 1.5 * dt), 0.5 * np.sqrt(dt)).logpdf(x[1:])
    return stats.norm(0, 1).logpdf(x[0]) + steps.sum()


def _vector_steps(innovation, x):
    x = x.reshape(-1, 2)
    first = stats.multivariate_normal(np.zeros(2), np.eye(2)).logpdf(x[0])
    return first + innovation.logpdf(np.diff(x, axis=0)).sum()


def _normal_mixture(x):
    parts = stats.norm([-1.0, 1.0], [0.5, 1.0]).logpdf(x)
    return logsumexp(parts, b=[0.3, 0.7])


def _positive_mixture(x):
    parts = [stats.gamma(2.0).logpdf(x[0]), stats.lognorm(1.0, scale=np.e).logpdf(x[0])]
    return logsumexp(parts, b=[0.3, 0.7])


def _vector_mixture(x):
    parts = [stats.multivariate_normal(mean, COV).logpdf(x) for mean in ([0, 0], [1, 2])]
    return logsumexp(parts, b=[0.3, 0.7])


def _icar(x, sigma=0.7, spread=0.001):
    edges = np.argwhere(np.tril(NEIGHBOURS))
    steps = np.sum((x[edges[:, 0]] - x[edges[:, 1]]) ** 2) / (2 * sigma**2)
    return -steps - 0.5 * (x.mean() / spread) ** 2


def _quartic(value, mu):
    return -((value - mu) ** 4) / 4


def _normal_draws(mu, rng=None, size=None):
    return rng.normal(mu, 1.0, size=size)


def _exp_normal(mu, size):
    return pt.exp(pm.Normal.dist(mu, 1.0, size=size))


def _simulation(rng, mu, size):
    return rng.normal(mu, 1.0, size=size)


def _drift_and_noise(x, rate):
    return -rate * x, 0.5


def _small(*shape):
    return lambda n, rng: 0.1 * rng.normal(size=(n, *shape))


def _positive_numbers(n, rng):
    return rng.gamma(2.0, size=n)


_CAR_PRECISION = 2.0 * (np.diag(NEIGHBOURS.sum(axis=1)) - 0.5 * NEIGHBOURS)
_IMPROPER = "no proper distribution, so there is nothing to test data against"

CASES = [
    Case(
        "AR",
        lambda name, **kwargs: pm.AR(
            name,
            rho=[0.5, -0.2],
            sigma=0.8,
            init_dist=pm.Normal.dist(0.0, 1.0, shape=2),
            steps=3,
            **kwargs,
        ),
        logpdf=_ar,
    ),
    _of(
        "AsymmetricLaplace",
        kappa=1.5,
        mu=0.5,
        b=0.8,
        logpdf=_scipy(stats.laplace_asymmetric, 1.5, 0.5, 1 / 0.8),
    ),
    _of("Beta", alpha=2.0, beta=3.0, logpdf=_scipy(stats.beta, 2.0, 3.0), support=UNIT),
    _of(
        "CAR",
        mu=np.zeros(4),
        W=NEIGHBOURS,
        alpha=0.5,
        tau=2.0,
        logpdf=_scipy(stats.multivariate_normal, np.zeros(4), np.linalg.inv(_CAR_PRECISION)),
    ),
    _of("Cauchy", alpha=0.5, beta=2.0, logpdf=_scipy(stats.cauchy, 0.5, 2.0)),
    Case(
        "Censored",
        lambda name, **kwargs: pm.Censored(
            name, dist=pm.Normal.dist(0.0, 1.0), lower=-1.0, upper=1.0, **kwargs
        ),
        free=r"The free variable 'x' is censored",
        observed=r"The observed variable 'x' is censored",
    ),
    _of("ChiSquared", nu=4, logpdf=_scipy(stats.chi2, 4), support=POSITIVE),
    Case(
        "CustomDist",
        lambda name, **kwargs: pm.CustomDist(
            name, 0.5, logp=_quartic, random=_normal_draws, **kwargs
        ),
        "from a log-probability",
        logpdf=lambda x: np.sum(_quartic(x, 0.5)),
        remark="on its own scale, where its density must vanish at the edges of its support",
    ),
    Case(
        "CustomDist",
        lambda name, **kwargs: pm.CustomDist(name, 0.5, dist=_exp_normal, **kwargs),
        "from other distributions",
        logpdf=_scipy(stats.lognorm, 1.0, scale=np.exp(0.5)),
        remark="on its own scale, where its density must vanish at the edges of its support",
    ),
    _of(
        "DiracDelta",
        c=1.5,
        free=rf"The free variable 'x' {ATOMS}",
        observed=rf"The observed variable 'x' {ATOMS}",
    ),
    _of(
        "Dirichlet",
        a=CONCENTRATION,
        logpdf=_scipy(stats.dirichlet, CONCENTRATION),
        support=_simplex,
    ),
    Case(
        "EulerMaruyama",
        lambda name, **kwargs: pm.EulerMaruyama(
            name,
            dt=0.1,
            sde_fn=_drift_and_noise,
            sde_pars=(1.5,),
            init_dist=pm.Normal.dist(0.0, 1.0),
            steps=3,
            **kwargs,
        ),
        logpdf=_euler_maruyama,
    ),
    _of("ExGaussian", mu=0.5, sigma=0.8, nu=1.5, logpdf=_scipy(stats.exponnorm, 1.875, 0.5, 0.8)),
    _of("Exponential", lam=1.5, logpdf=_scipy(stats.expon, scale=1 / 1.5), support=POSITIVE),
    _of("Flat", is_observable=False, draw=_small(), remark=_IMPROPER),
    _of(
        "GARCH11",
        omega=0.5,
        alpha_1=0.3,
        beta_1=0.4,
        initial_vol=1.0,
        steps=3,
        logpdf=_garch,
    ),
    _of(
        "Gamma",
        alpha=2.5,
        beta=1.5,
        logpdf=_scipy(stats.gamma, 2.5, scale=1 / 1.5),
        support=POSITIVE,
    ),
    Case(
        "GaussianRandomWalk",
        lambda name, **kwargs: pm.GaussianRandomWalk(
            name, mu=0.1, sigma=0.8, init_dist=pm.Normal.dist(0.0, 2.0), steps=3, **kwargs
        ),
        logpdf=_gaussian_steps,
    ),
    _of("Gumbel", mu=0.5, beta=1.2, logpdf=_scipy(stats.gumbel_r, 0.5, 1.2)),
    _of("HalfCauchy", beta=1.2, logpdf=_scipy(stats.halfcauchy, scale=1.2), support=POSITIVE),
    _of("HalfFlat", is_observable=False, draw=_positive_numbers, remark=_IMPROPER),
    _of("HalfNormal", sigma=1.3, logpdf=_scipy(stats.halfnorm, scale=1.3), support=POSITIVE),
    _of("HalfStudentT", nu=4, sigma=1.3, logpdf=_scipy(stats.t, 4, scale=1.3), support=POSITIVE),
    _of(
        "HurdleGamma",
        psi=0.7,
        alpha=2.0,
        beta=1.0,
        free=rf"The free variable 'x' {ATOMS}",
        observed=rf"The observed variable 'x' {ATOMS}",
    ),
    _of(
        "HurdleLogNormal",
        psi=0.7,
        mu=0.0,
        sigma=1.0,
        free=rf"The free variable 'x' {ATOMS}",
        observed=rf"The observed variable 'x' {ATOMS}",
    ),
    _of("ICAR", W=NEIGHBOURS, sigma=0.7, is_single=True, draw=_small(4), logpdf=_icar),
    _of(
        "Interpolated",
        x_points=KNOTS,
        pdf_points=HEIGHTS,
        logpdf=lambda x: np.sum(np.log(np.interp(x, KNOTS, HEIGHTS))),
        support=partial(_between, 0.0, 3.0),
    ),
    _of(
        "InverseGamma",
        alpha=3.0,
        beta=2.0,
        logpdf=_scipy(stats.invgamma, 3.0, scale=2.0),
        support=POSITIVE,
    ),
    _of(
        "KroneckerNormal",
        mu=np.arange(4.0),
        covs=[COV, OTHER_COV],
        sigma=0.3,
        logpdf=_scipy(
            stats.multivariate_normal, np.arange(4.0), np.kron(COV, OTHER_COV) + 0.09 * np.eye(4)
        ),
    ),
    _of("Kumaraswamy", a=2.0, b=3.0, logpdf=lambda x: np.sum(_kumaraswamy(x)), support=UNIT),
    Case(
        "LKJCholeskyCov",
        lambda name, **kwargs: pm.LKJCholeskyCov(
            name,
            n=3,
            eta=2.0,
            sd_dist=pm.Exponential.dist(1.0, shape=3),
            compute_corr=False,
            **kwargs,
        ),
        is_single=True,
    ),
    _of(
        "LKJCorr",
        n=3,
        eta=2.0,
        is_single=True,
        free=r"The free variable 'x' is an LKJCorr matrix" if IS_PYMC_5 else None,
        observed=r"The observed variable 'x' is an LKJCorr matrix" if IS_PYMC_5 else None,
    ),
    _of("Laplace", mu=0.5, b=1.2, logpdf=_scipy(stats.laplace, 0.5, 1.2)),
    _of(
        "LogNormal",
        mu=0.5,
        sigma=0.8,
        logpdf=_scipy(stats.lognorm, 0.8, scale=np.exp(0.5)),
        support=POSITIVE,
    ),
    _of("Logistic", mu=0.5, s=0.8, logpdf=_scipy(stats.logistic, 0.5, 0.8)),
    _of(
        "LogitNormal",
        mu=0.5,
        sigma=0.8,
        logpdf=lambda x: np.sum(stats.norm(0.5, 0.8).logpdf(logit(x)) - np.log(x * (1 - x))),
        remark="on its own scale, where its density vanishes at 0 and 1",
    ),
    _of(
        "MatrixNormal",
        mu=np.zeros((2, 3)),
        rowcov=COV,
        colcov=COV_3,
        is_single=True,
        logpdf=lambda x: stats.matrix_normal(np.zeros((2, 3)), COV, COV_3).logpdf(x.reshape(2, 3)),
    ),
    Case(
        "Mixture",
        lambda name, **kwargs: pm.Mixture(
            name,
            w=[0.3, 0.7],
            comp_dists=[pm.Normal.dist(-1.0, 0.5), pm.Normal.dist(1.0, 1.0)],
            **kwargs,
        ),
        "of numbers",
        logpdf=_normal_mixture,
    ),
    Case(
        "Mixture",
        lambda name, **kwargs: pm.Mixture(
            name,
            w=[0.3, 0.7],
            comp_dists=[pm.Gamma.dist(2.0, 1.0), pm.LogNormal.dist(1.0, 1.0)],
            **kwargs,
        ),
        "of positive numbers",
        logpdf=_positive_mixture,
        support=POSITIVE,
    ),
    Case(
        "Mixture",
        lambda name, **kwargs: pm.Mixture(
            name,
            w=[0.3, 0.7],
            comp_dists=[pm.MvNormal.dist([0.0, 0.0], COV), pm.MvNormal.dist([1.0, 2.0], COV)],
            **kwargs,
        ),
        "of vectors",
        logpdf=_vector_mixture,
    ),
    _of("Moyal", mu=0.5, sigma=1.2, logpdf=_scipy(stats.moyal, 0.5, 1.2)),
    Case(
        "MvGaussianRandomWalk",
        lambda name, **kwargs: pm.MvGaussianRandomWalk(
            name,
            mu=np.zeros(2),
            cov=COV,
            init_dist=pm.MvNormal.dist(np.zeros(2), np.eye(2)),
            steps=2,
            **kwargs,
        ),
        logpdf=partial(_vector_steps, stats.multivariate_normal(np.zeros(2), COV)),
    ),
    _of("MvNormal", mu=MEAN, cov=COV, logpdf=_scipy(stats.multivariate_normal, MEAN, COV)),
    _of("MvStudentT", nu=5, mu=MEAN, scale=COV, logpdf=_scipy(stats.multivariate_t, MEAN, COV, 5)),
    Case(
        "MvStudentTRandomWalk",
        lambda name, **kwargs: pm.MvStudentTRandomWalk(
            name,
            nu=5,
            mu=np.zeros(2),
            scale=COV,
            init_dist=pm.MvNormal.dist(np.zeros(2), np.eye(2)),
            steps=2,
            **kwargs,
        ),
        logpdf=partial(_vector_steps, stats.multivariate_t(np.zeros(2), COV, 5)),
    ),
    _of("Normal", mu=0.5, sigma=1.2, logpdf=_scipy(stats.norm, 0.5, 1.2)),
    _of(
        "NormalMixture",
        w=[0.3, 0.7],
        mu=[-1.0, 1.0],
        sigma=[0.5, 1.0],
        logpdf=_normal_mixture,
    ),
    _of(
        "Pareto",
        alpha=3.0,
        m=1.5,
        logpdf=_scipy(stats.pareto, 3.0, scale=1.5),
        support=partial(_above, 1.5),
    ),
    _of(
        "PolyaGamma",
        h=1.0,
        z=0.5,
        free=NO_GRADIENT,
        observed=NO_GRADIENT,
        draw=_positive_numbers,
    ),
    Case(
        "RandomWalk",
        lambda name, **kwargs: pm.RandomWalk(
            name,
            innovation_dist=pm.Normal.dist(0.1, 0.8),
            init_dist=pm.Normal.dist(0.0, 2.0),
            steps=3,
            **kwargs,
        ),
        logpdf=_gaussian_steps,
    ),
    _of("Rice", nu=1.0, sigma=1.2, logpdf=_scipy(stats.rice, 1 / 1.2, scale=1.2), support=POSITIVE),
    Case(
        "Simulator",
        lambda name, **kwargs: pm.Simulator(name, _simulation, 0.0, **kwargs),
        free=r"The free variable 'x' is a Simulator: it has no log-probability",
        observed=r"The observed variable 'x' is a Simulator: it has no log-probability",
        draw=_small(),
    ),
    _of("SkewNormal", mu=0.5, sigma=1.2, alpha=2.0, logpdf=_scipy(stats.skewnorm, 2.0, 0.5, 1.2)),
    _of(
        "SkewStudentT",
        a=3.0,
        b=4.0,
        mu=0.5,
        sigma=1.2,
        logpdf=_scipy(stats.jf_skew_t, 3.0, 4.0, 0.5, 1.2),
    ),
    _of("StickBreakingWeights", alpha=2.0, K=3),
    _of("StudentT", nu=4, mu=0.5, sigma=1.2, logpdf=_scipy(stats.t, 4, 0.5, 1.2)),
    _of(
        "Triangular",
        lower=-1.0,
        c=0.5,
        upper=2.0,
        logpdf=_scipy(stats.triang, 0.5, -1.0, 3.0),
        support=partial(_between, -1.0, 2.0),
    ),
    Case(
        "Truncated",
        lambda name, **kwargs: pm.Truncated(
            name, dist=pm.Gamma.dist(2.0, 1.0), lower=0.5, upper=3.0, **kwargs
        ),
        "on both sides",
        logpdf=_scipy(stats.gamma, 2.0),
        support=partial(_between, 0.5, 3.0),
    ),
    Case(
        "Truncated",
        lambda name, **kwargs: pm.Truncated(
            name, dist=pm.Normal.dist(2.0, 1.0), lower=0.5, **kwargs
        ),
        "on one side",
        logpdf=_scipy(stats.norm, 2.0, 1.0),
        support=partial(_above, 0.5),
    ),
    _of(
        "TruncatedNormal",
        mu=0.5,
        sigma=1.2,
        lower=-1.0,
        upper=2.0,
        logpdf=_scipy(stats.norm, 0.5, 1.2),
        support=partial(_between, -1.0, 2.0),
    ),
    _of(
        "Uniform",
        lower=-1.0,
        upper=2.0,
        logpdf=_scipy(stats.uniform, -1.0, 3.0),
        support=partial(_between, -1.0, 2.0),
    ),
    _of(
        "VonMises",
        mu=0.5,
        kappa=1.5,
        logpdf=_scipy(stats.vonmises, 1.5, 0.5),
        remark="needs a periodic kernel",
    ),
    _of("Wald", mu=1.0, lam=2.0, logpdf=_scipy(stats.invgauss, 0.5, scale=2.0), support=POSITIVE),
    _of(
        "Weibull",
        alpha=2.0,
        beta=1.5,
        logpdf=_scipy(stats.weibull_min, 2.0, scale=1.5),
        support=POSITIVE,
    ),
    _of(
        "Wishart",
        nu=5,
        V=COV,
        free=r"The free variable 'x' is a Wishart matrix" if IS_PYMC_5 else None,
        observed=r"The observed variable 'x' is a Wishart matrix" if IS_PYMC_5 else None,
        logpdf=_scipy(stats.wishart, 5, COV),
        support=_cholesky_cov,
    ),
    Case(
        "WishartBartlett",
        lambda name: pm.WishartBartlett(name, COV, 5),
        is_observable=False,
        remark="builds a model of several variables",
    ),
    Case(
        "ZeroSumNormal",
        lambda name, shape=(4,), **kwargs: pm.ZeroSumNormal(name, 1.5, shape=shape, **kwargs),
        "vector",
        # The coordinates are orthonormal, so the squared length of x is theirs.
        logpdf=_scipy(stats.norm, 0.0, 1.5),
    ),
    Case(
        "ZeroSumNormal",
        lambda name, shape=(3, 4), **kwargs: pm.ZeroSumNormal(
            name, 1.5, n_zerosum_axes=2, shape=shape, **kwargs
        ),
        "matrix",
        # The coordinates are orthonormal, so the squared length of x is theirs.
        logpdf=_scipy(stats.norm, 0.0, 1.5),
    ),
]
