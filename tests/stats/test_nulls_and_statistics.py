"""Nulls and statistics against their formulas."""

import numpy as np
from reference import imq, rbf, stein_matrix, u_statistic
from scipy import stats

from pymc_ksd import Score, ksd_test


def standard_normal(dim):
    return Score.from_callable(lambda x: -x, dim)


def test_multinomial_null_matches_explicit_weights(rng):
    x = rng.normal(size=(30, 2))
    u = stein_matrix(imq, x, -x, 1.3).sum(-1)
    off = u - np.diag(np.diag(u))
    result = ksd_test(
        standard_normal(2), x, kernel="imq", bandwidth=1.3, n_bootstrap=20_000, random_seed=3
    )
    counts = rng.multinomial(30, np.full(30, 1 / 30), size=20_000)
    weights = counts / 30 - 1 / 30
    expected = np.einsum("mi,ij,mj->m", weights, off, weights)
    null = result["null_distribution"].values
    # Same law, other draws: a two-sample test does not tell them apart.
    assert stats.ks_2samp(null, expected).pvalue > 0.01
    with_the_printed_weights = np.einsum("mi,ij,mj->m", counts - 1 / 30, off, counts - 1 / 30)
    assert stats.ks_2samp(null, with_the_printed_weights / 30**2).pvalue < 1e-6


def test_rademacher_null_has_the_known_variance(rng):
    x = rng.normal(size=(40, 1))
    u = stein_matrix(rbf, x, -x, 1.0).sum(-1)
    off = u - np.diag(np.diag(u))
    result = ksd_test(
        standard_normal(1),
        x,
        bandwidth=1.0,
        null="rademacher",
        n_bootstrap=40_000,
        random_seed=1,
    )
    null = result["null_distribution"].values
    # For random signs, E S* = 0 and Var S* = 2 Σ_{i≠j} u_ij² / (n (n − 1))².
    variance = 2 * (off**2).sum() / (40 * 39) ** 2
    assert abs(null.mean()) < 4 * np.sqrt(variance / len(null))
    np.testing.assert_allclose(null.var(), variance, rtol=0.05)


def test_linear_statistic_and_its_normal_null(rng):
    x = rng.normal(0.3, 1, size=(41, 1))
    u = stein_matrix(rbf, x, -x, 1.0).sum(-1)
    terms = np.array([u[i, i + 1] for i in range(0, 40, 2)])
    result = ksd_test(standard_normal(1), x, statistic="linear", bandwidth=1.0)
    np.testing.assert_allclose(result["statistic"], terms.mean(), rtol=1e-10)
    judge = stats.norm.sf(terms.mean() / (terms.std(ddof=1) / np.sqrt(20)))
    np.testing.assert_allclose(result["p_value"], judge, rtol=1e-9)
    critical = stats.norm.isf(0.05) * terms.std(ddof=1) / np.sqrt(20)
    np.testing.assert_allclose(result["critical_value"], critical, rtol=1e-9)
    assert np.isnan(result["ksd"])


def test_block_statistic_averages_blocks(rng):
    x = rng.normal(size=(33, 2))
    u = stein_matrix(rbf, x, -x, 1.0).sum(-1)
    blocks = [u_statistic(u[i : i + 8, i : i + 8]) for i in (0, 8, 16, 24)]
    result = ksd_test(standard_normal(2), x, statistic="block", bandwidth=1.0, points_per_block=8)
    np.testing.assert_allclose(result["statistic"], np.mean(blocks), rtol=1e-10)
    off = [u[i + j, i + k] for i in (0, 8, 16, 24) for j in range(8) for k in range(8) if j != k]
    error = np.sqrt(2 * np.mean(np.square(off)) / (8 * 7) / 4)
    judge = stats.norm.sf(np.mean(blocks) / error)
    np.testing.assert_allclose(result["p_value"], judge, rtol=1e-9)
