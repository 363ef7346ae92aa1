"""Recipes of CONTRIBUTING.md, followed from outside the package."""

import numpy as np
import pytest

from pymc_ksd import (
    RBF,
    Null,
    Score,
    Statistic,
    ksd_test,
    register_kernel,
    register_null,
    register_statistic,
)
from pymc_ksd.engine.pairs import evaluate_pairs
from pymc_ksd.stats.nulls import NULLS
from pymc_ksd.stats.statistics import STATISTICS, Estimate
from pymc_ksd.stein.custom_kernels import KERNELS


@pytest.fixture(autouse=True)
def unchanged():
    """Registries as they were."""
    before = [(registry, dict(registry)) for registry in (NULLS, STATISTICS, KERNELS)]
    yield
    for registry, contents in before:
        registry.clear()
        registry.update(contents)


SCORE = Score.from_callable(lambda x: -x, 2)


class GaussianNull(Null):
    """Normal multipliers in the place of signs."""

    name = "gaussian"

    def weights(self, shape, n_replicates, rng):
        return rng.normal(size=(n_replicates, shape.n_points))


def test_a_null(rng):
    data = rng.normal(size=(80, 2))
    with pytest.raises(ValueError, match=r"`null` must be one of 'multinomial'.*got 'gaussian'"):
        ksd_test(SCORE, data, null="gaussian")
    register_null(GaussianNull)
    good = ksd_test(SCORE, data, null="gaussian", random_seed=1)
    wrong = ksd_test(SCORE, data + 0.7, null="gaussian", random_seed=1)
    assert good.attrs["null"] == "gaussian"
    assert wrong["p_value"] <= 0.01 < good["p_value"]
    signs = ksd_test(SCORE, data, null="rademacher", random_seed=1)
    assert abs(float(good["p_value"] - signs["p_value"])) < 0.1
    with pytest.raises(ValueError, match="`null` must be one of 'normal', 'parametric' for"):
        ksd_test(SCORE, data, statistic="linear", null="gaussian")
    assert ksd_test(SCORE, data, null=GaussianNull(), random_seed=1).equals(good)


class EveryOther(Statistic):
    """The mean over pairs of points that have one point between them."""

    name = "every other"
    default_null = "normal"
    has_error = True

    def estimate(self, request):
        panel, points = request.panel, request.points
        n = points.n_points - points.n_points % 4
        first = np.arange(n).reshape(-1, 4)[:, :2].ravel()
        values = panel.joined(evaluate_pairs(panel.members, points, first, first + 2))
        return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


def test_a_statistic(rng):
    data = rng.normal(size=(400, 2))
    with pytest.raises(ValueError, match=r"`statistic` must be one of 'u'.*got 'every other'"):
        ksd_test(SCORE, data, statistic="every other")
    register_statistic(EveryOther)
    good = ksd_test(SCORE, data, statistic="every other", random_seed=1)
    wrong = ksd_test(SCORE, data + 0.7, statistic="every other", random_seed=1)
    assert good.attrs["statistic"] == "every other"
    assert wrong["p_value"] < 0.01 < good["p_value"]
    # The same points in another order are what the linear statistic compares.
    order = np.arange(400).reshape(-1, 4)[:, [0, 2, 1, 3]].ravel()
    linear = ksd_test(SCORE, data[order], statistic="linear", bandwidth=1.5, random_seed=1)
    same = ksd_test(SCORE, data, statistic=EveryOther(), bandwidth=1.5, random_seed=1)
    np.testing.assert_allclose(same["statistic"], linear["statistic"], rtol=1e-12)


class Narrow(RBF):
    """A Gaussian kernel of half the bandwidth."""

    def parameter_values(self, bandwidth):
        return super().parameter_values(bandwidth / 2)


def test_a_kernel(rng):
    data = rng.normal(size=(50, 2))
    register_kernel("narrow", Narrow)
    named = ksd_test(SCORE, data, kernel="narrow", bandwidth=2.0, random_seed=1)
    plain = ksd_test(SCORE, data, kernel="rbf", bandwidth=1.0, random_seed=1)
    np.testing.assert_allclose(named["statistic"], plain["statistic"], rtol=1e-12)


def test_options_of_nulls_and_statistics_can_be_given_in_two_ways(rng):
    from pymc_ksd import Block, Wild

    data = rng.normal(size=(120, 2))
    assert ksd_test(SCORE, data, statistic=Block(20), random_seed=1).equals(
        ksd_test(SCORE, data, statistic="block", points_per_block=20, random_seed=1)
    )
    assert ksd_test(SCORE, data, null=Wild(autocorrelation_time=3), random_seed=1).equals(
        ksd_test(SCORE, data, null="wild", autocorrelation_time=3, random_seed=1)
    )
    with pytest.raises(ValueError, match="`points_per_block` belongs to `statistic` 'block'"):
        ksd_test(SCORE, data, points_per_block=20)
