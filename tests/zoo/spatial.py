"""Gaussian processes and neighbours on a map."""

import numpy as np
import pymc as pm

from tests.zoo.registry import add

PLACES = np.linspace(0, 1, 15)[:, None]


def _curve(seed=80):
    return np.sin(6 * PLACES.ravel()) + np.random.default_rng(seed).normal(0, 0.2, size=15)


@add()
def latent_gaussian_process():
    y = np.random.default_rng(81).poisson(np.exp(_curve()))
    with pm.Model() as model:
        length = pm.InverseGamma("length", 3, 1)
        gp = pm.gp.Latent(cov_func=pm.gp.cov.Matern52(1, ls=length))
        f = gp.prior("f", X=PLACES)
        pm.Poisson("y", pm.math.exp(f), observed=y)
    return model


@add(quick=("ksd_ppc",))
def marginal_gaussian_process():
    with pm.Model() as model:
        length, scale = pm.InverseGamma("length", 3, 1), pm.HalfNormal("scale", 1)
        gp = pm.gp.Marginal(cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=length))
        sigma = pm.HalfNormal("sigma", 0.5)
        gp.marginal_likelihood("y", X=PLACES, y=_curve(), sigma=sigma)
    return model


@add()
def hilbert_space_gaussian_process():
    with pm.Model() as model:
        length, scale = pm.InverseGamma("length", 3, 1), pm.HalfNormal("scale", 1)
        gp = pm.gp.HSGP(m=[6], c=2.0, cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=length))
        f = gp.prior("f", X=PLACES)
        sigma = pm.HalfNormal("sigma", 0.5)
        pm.Normal("y", f, sigma, observed=_curve())
    return model


def _ring(n=12):
    index = np.arange(n)
    neighbours = np.zeros((n, n))
    neighbours[index, (index + 1) % n] = neighbours[(index + 1) % n, index] = 1.0
    return neighbours


def _cases():
    rng = np.random.default_rng(82)
    return rng.poisson(4 * np.exp(0.3 * np.sin(np.arange(12))))


@add()
def conditional_autoregression():
    with pm.Model(coords={"area": range(12)}) as model:
        alpha = pm.Beta("alpha", 2, 2)
        tau = pm.Gamma("tau", 4, 1)
        phi = pm.CAR("phi", mu=np.zeros(12), W=_ring(), alpha=alpha, tau=tau, dims="area")
        pm.Poisson("y", pm.math.exp(1.4 + phi), observed=_cases(), dims="area")
    return model


@add(quick=True)
def intrinsic_conditional_autoregression():
    with pm.Model() as model:
        sd = pm.HalfNormal("sd", 0.5)
        phi = pm.ICAR("phi", W=_ring())
        pm.Poisson("y", pm.math.exp(1.4 + sd * phi), observed=_cases())
    return model
