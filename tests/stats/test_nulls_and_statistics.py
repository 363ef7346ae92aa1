"""Nulls and statistics against their formulas."""

import numpy as np
import pytest
from reference import imq, rbf, stein_matrix, u_statistic
from scipy import stats

from pymc_ksd import Score, ksd_test
from pymc_ksd.stats.nulls import Normal, monte_carlo_p_value
from pymc_ksd.stats.panel import MemberEstimate, joined_excess
from pymc_ksd.stats.statistics import Estimate


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


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_no_p_value(rng, bad):
    """A comparison with NaN is false, so that NaN would have the smallest p-value there is."""
    replicates = rng.normal(size=99)
    with pytest.raises(ValueError, match=r"is not finite.*overflow"):
        monte_carlo_p_value(bad, replicates)
    with pytest.raises(ValueError, match=r"is not finite.*overflow"):
        monte_carlo_p_value(1.0, np.append(replicates, bad))
    with pytest.raises(ValueError, match=r"is not finite.*overflow"):
        Normal().p_value(Estimate(bad, error=1.0), replicates)


def test_no_member_hides_another_whose_excess_is_unknown(rng):
    replicates = rng.normal(size=99)
    members = [MemberEstimate("imq", value, replicates, 0.1) for value in (1.0, np.nan)]
    assert np.isnan(joined_excess(members)[0])
    assert np.isnan(joined_excess(members[::-1])[0])


def test_excess_of_statistics_whose_squares_overflow(rng):
    replicates = rng.gamma(2, size=(99, 2))
    plain = [MemberEstimate("imq", 5.0, own, 0.1).excess for own in replicates.T]
    for unit in (1e-200, 1e200):
        members = [MemberEstimate("imq", 5 * unit, own * unit, 0.1) for own in replicates.T]
        np.testing.assert_allclose([member.excess for member in members], plain)
    nothing = MemberEstimate("imq", 5.0, np.zeros(9), 0.1)
    assert nothing.excess == pytest.approx(5, abs=1e-3)
