"""Several kernels, one test: panels of data and of draws, and when points are whitened."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from rejections import fewest, most
from scipy import stats
from scipy.signal import lfilter

from pymc_ksd import Null, Score, explain, ksd_moments, ksd_test
from pymc_ksd.stats.panel import MemberEstimate, OtherTest, joined_excess, joined_p_value
from pymc_ksd.stein.points import Scaling


def normal_score(dim):
    return Score.from_callable(
        lambda x: -x,
        dim,
        log_density=lambda x: -0.5 * (x**2).sum(axis=1),
        simulate=lambda n, rng: rng.normal(size=(n, dim)),
    )


def draws(values):
    return xr.Dataset({"x": (("chain", "draw", "axis"), values)})


@pytest.mark.parametrize(
    "options", [{"null": "multinomial"}, {"null": "rademacher"}, {"statistic": "v"}]
)
def test_several_bandwidths_are_tested_side_by_side(rng, options):
    data, score = rng.normal(0.2, 1, size=(60, 2)), normal_score(2)
    widths = [0.4, 1.0, 3.0]
    joined = ksd_test(score, data, bandwidth=widths, random_seed=3, **options)
    single = [ksd_test(score, data, bandwidth=h, random_seed=3, **options) for h in widths]
    assert joined["member"].values.tolist() == ["rbf, 0.4", "rbf, 1", "rbf, 3"]
    np.testing.assert_array_equal(joined.attrs["bandwidth"], widths)
    for name in ("statistic", "p_value"):
        alone = [float(one[name]) for one in single]
        np.testing.assert_allclose(joined[f"member_{name}"], alone, rtol=1e-9)
    replicates = np.array([one["null_distribution"].values for one in single])
    statistics = np.array([float(one["statistic"]) for one in single])

    def symmetric(values, of):
        # The cube root of a gamma variable with the same first three moments.
        shape = 4 / stats.skew(of) ** 2
        gamma = shape + np.sqrt(shape) * (values - of.mean()) / of.std()
        return 3 * np.sqrt(shape) * (np.cbrt(gamma / shape) - 1 + 1 / (9 * shape))

    excess = np.array([symmetric(*pair) for pair in zip(statistics, replicates, strict=True)])
    np.testing.assert_allclose(joined["member_excess"], excess, rtol=1e-6)
    np.testing.assert_allclose(joined["statistic"], excess.max(), rtol=1e-6)
    largest = np.max([symmetric(own, own) for own in replicates], axis=0)
    np.testing.assert_allclose(joined["null_distribution"], largest, rtol=1e-5, atol=1e-8)
    assert joined["p_value"] == (1 + np.sum(largest >= excess.max())) / 1001
    # One kernel is the reference.
    assert joined["ksd"] == single[0]["ksd"]


def test_the_paper_s_null_is_that_of_one_kernel(rng):
    data, score = rng.normal(size=(60, 2)), normal_score(2)
    nulls = {
        str(options): ksd_test(score, data, **options).attrs["null"]
        for options in ({}, {"bandwidth": [0.5, 2.0]}, {"kernel": "rbf"}, {"bandwidth": 1.0})
    }
    assert list(nulls.values()) == ["rademacher", "rademacher", "multinomial", "multinomial"]


def test_linear_and_block_statistics_average_several_bandwidths(rng):
    data, score = rng.normal(size=(60, 2)), normal_score(2)
    for statistic in ("linear", "block"):
        joined, *single = (
            ksd_test(score, data, statistic=statistic, bandwidth=width)
            for width in ([0.5, 2.0], 0.5, 2.0)
        )
        mean = np.mean([float(one["statistic"]) for one in single])
        np.testing.assert_allclose(joined["statistic"], mean, rtol=1e-10)
        assert "member" not in joined.dims


def test_default_panel_of_data_finds_what_one_kernel_does_not(rng):
    data = rng.laplace(0, np.sqrt(0.5), size=(500, 15))
    panel = ksd_test(normal_score(15), data, random_seed=0)
    alone = ksd_test(normal_score(15), data, kernel="rbf", random_seed=0)
    names = ["rbf", "rbf, 1/4 median", "rbf, 1/2 median", "rbf, 2 × median"]
    names += ["imq, 4 × median"]
    assert panel["member"].values.tolist() == names
    assert panel["p_value"] <= 0.002 < 0.05 < alone["p_value"]
    assert panel["member_statistic"].sel(member="rbf") == alone["statistic"]
    parts = panel["member_bandwidth"] / panel.attrs["bandwidth"]
    np.testing.assert_allclose(parts, [1, 1 / 4, 1 / 2, 2, 4])
    words = explain(panel).findings[0].advice[0]
    assert words.startswith(
        "The kernel 'rbf, 1/4 median' gives the strongest evidence: it is a narrow"
    )


def test_simulated_samples_go_through_all_members(rng):
    data = rng.normal(size=(40, 2))
    options = {"null": "parametric", "n_bootstrap": 39, "random_seed": 0}
    good, wrong = (ksd_test(normal_score(2), data + by, **options) for by in (0, 0.6))
    assert good.sizes["member"] == wrong.sizes["member"] == 5
    assert wrong["p_value"] == 1 / 40 < good["p_value"]
    assert wrong["statistic"] == wrong["member_excess"].max()


def test_joined_test_beside_simulated_samples_is_exact():
    """The rank of the sample's own statistic is uniform, for any number of replicates."""
    rng, ranks = np.random.default_rng(0), []
    for _ in range(4_000):
        values = rng.gamma(0.3, size=(20, 1)) + rng.gamma(0.3, size=(20, 3))
        members = [
            MemberEstimate("k", own[0], own[1:], 0.0, counts_itself=True) for own in values.T
        ]
        statistic, replicates = joined_excess(members)
        ranks.append(np.count_nonzero(replicates >= statistic))
    assert stats.chisquare(np.bincount(ranks, minlength=20)).pvalue > 0.001


def test_few_replicates_keep_the_level():
    """Of 19 only the largest may be reached; how large they seem would depend on chance."""
    rng = np.random.default_rng(2)
    score = Score.from_callable(lambda x: -x, dim=1)
    options = {"n_bootstrap": 19, "random_seed": rng, "progressbar": False}
    rejections = sum(
        float(ksd_test(score, rng.normal(size=(40, 1)), **options)["p_value"]) <= 0.05
        for _ in range(1_000)
    )
    assert fewest(1_000) <= rejections <= most(1_000)


@pytest.mark.parametrize("shape", [0.5, 2.0, 50.0, 1e6])
def test_excess_without_skewness_is_nearly_standard_normal(shape):
    """Of gamma variables as skewed as the statistics of wide and of narrow kernels."""
    replicates = np.random.default_rng(0).gamma(shape, size=40_000)
    excess = MemberEstimate("k", 0.0, replicates, 0.0).replicated_excess
    beyond = [np.mean(excess > stats.norm.isf(p)) for p in (0.05, 0.01)]
    np.testing.assert_allclose(beyond, [0.05, 0.01], rtol=0.2)


def test_excess_of_replicates_that_are_skewed_to_the_left_is_in_standard_deviations(rng):
    replicates = -rng.gamma(2, size=400)
    left = MemberEstimate("k", replicates[0], replicates, 0.0)
    standard = (left.value - replicates.mean()) / replicates.std()
    assert left.excess == pytest.approx(standard, abs=1e-3)


def test_members_count_by_dimension(rng):
    """In several the narrow one counts less."""
    for dim, counts in ((1, [1, 1, 1, 1, 1]), (2, [1, 0.6, 1, 1, 1]), (5, [1, 0.6, 1, 1, 1])):
        data, score = rng.normal(size=(50, dim)), normal_score(dim)
        panel = ksd_test(score, data, random_seed=0)
        widths = panel["member_bandwidth"].values
        for name, count, width in zip(panel["member"].values, counts, widths, strict=True):
            kernel = "imq" if str(name).startswith("imq") else "rbf"
            options = {"kernel": kernel, "bandwidth": width, "null": "rademacher", "scale": None}
            alone = ksd_test(score, data, random_seed=0, **options)
            replicates = alone["null_distribution"].values
            one = MemberEstimate("k", float(alone["statistic"]), replicates, 0.0)
            expected = count * one.excess
            assert float(panel["member_excess"].sel(member=name)) == pytest.approx(expected, 1e-5)


def test_panels_of_counts(rng):
    with pm.Model() as model:
        pm.Poisson("y", 20.0, observed=rng.poisson(20.0, size=100))
    result = ksd_test(model, random_seed=0)
    assert result.attrs["status"] == "passed"
    assert (result.sizes["member"], result.attrs["scale"]) == (5, "none")
    spread = 20 + 4 * rng.choice([-1, 1], size=100)  # the right mean, and too narrow
    assert ksd_test(model, spread, random_seed=0)["p_value"] <= 0.01


def test_mean_of_one_parameter_speaks(rng):
    values = rng.normal(size=(4, 250, 8))
    values[..., 5] += 0.2
    result = ksd_test(normal_score(8), draws(values), random_seed=0)
    assert result["member"].values[-1] == "mean of x[5]"
    assert result["p_value"] <= 0.01
    assert result["statistic"] == result["member_excess"].max()
    assert result["member_excess"][-1] == result["statistic"]
    z = float(result["member_statistic"][-1])
    np.testing.assert_allclose(z, 0.2 * np.sqrt(1_000), atol=3)
    assert np.isnan(result["member_bandwidth"][-1])
    advice = explain(result).findings[0].advice
    assert (
        f"The mean of x[5] gives the strongest evidence: it is off by {z:.1f} standard errors; "
        "ksd_moments shows by how much."
    ) in advice


def test_moments_are_left_out_where_their_errors_cannot_be_trusted(rng):
    values = np.cumsum(rng.normal(size=(4, 100, 2)), axis=1)
    result = ksd_test(normal_score(2), draws(values / values.std()), random_seed=0)
    assert not [name for name in result["member"].values if name.startswith(("mean", "sd"))]


def test_bulk_and_outliers_are_told_apart(rng):
    values = rng.normal(size=(4, 250, 3))
    values[rng.random((4, 250)) < 0.05] += 7
    far = ksd_test(normal_score(3), draws(values), random_seed=0)
    assert "Only kernels without a tilt reject" in str(explain(far))
    changed = far.copy(deep=True)
    tilted = [str(name).endswith("tilted") for name in far["member"].values]
    changed["member_p_value"][:] = np.where(tilted, 0.001, 0.5)
    assert "Only tilted kernels reject" in str(explain(changed))
    changed["member_p_value"][:] = np.where(tilted, 0.5, 0.001)
    assert "Only kernels without a tilt reject" in str(explain(changed))


@pytest.mark.parametrize("p_value", [0.9, 0.3, 0.02, 1e-4, 1e-300, 0.0])
def test_excess_of_another_test_is_exceeded_as_rarely(rng, p_value):
    replicates = rng.normal(size=999)
    excess = OtherTest("z", 2.0, p_value).excess(replicates)
    assert np.isfinite(excess)
    share = np.mean(replicates >= excess)
    assert abs(share - p_value) < 0.002
    assert excess >= OtherTest("z", 2.0, min(1.0, 1.5 * p_value + 0.01)).excess(replicates)


def test_excess_of_another_test_goes_on_where_replicates_end(rng):
    replicates = rng.normal(size=999)
    p_values = [1.01e-3, 1e-3, 0.99e-3, 1e-4, 1e-9, 1e-300]
    excess = [OtherTest("z", 2.0, p_value).excess(replicates) for p_value in p_values]
    np.testing.assert_allclose(excess[:3], replicates.max(), atol=0.02)
    assert (np.diff(excess) > 0).all()
    np.testing.assert_allclose(np.diff(excess[3:5]), np.diff(stats.norm.isf([1e-4, 1e-9])))


def test_one_far_value_does_not_hide_among_simulated_samples(rng):
    """It is one of few replicates of its own member, whose skewness it makes large."""
    members = [
        MemberEstimate("k", value, rng.chisquare(1, size=39), 0.0, counts_itself=True)
        for value in (1e3, 1.0, 1.0, 1.0, 1.0)
    ]
    statistic, replicates = joined_excess(members)
    assert statistic > replicates.max()


def test_two_joined_tests_keep_the_level():
    first, second = np.random.default_rng(1).uniform(size=(2, 20_000))
    joined = np.array([joined_p_value(a, b) for a, b in zip(first, second, strict=True)])
    for level in (0.001, 0.01, 0.05, 0.5):
        error = np.sqrt(level * (1 - level) / len(joined))
        assert abs(np.mean(joined <= level) - level) < 4 * error
    assert joined_p_value(1.0, 1.0) == 1
    assert joined_p_value(1e-200, 0.5) == pytest.approx(2e-200)


def test_joined_test_rejects_where_it_exceeds_the_critical_value(rng):
    """Whether a kernel or a moment decides."""
    for by in (0.0, 0.05, 0.07, 0.1):
        for alpha in (0.01, 0.05, 0.3):
            values = rng.normal(by, 1, size=(4, 100, 2))
            result = ksd_test(normal_score(2), draws(values), alpha=alpha, n_bootstrap=399)
            assert (result["p_value"] <= alpha) == (result["statistic"] > result["critical_value"])


def test_doubtful_moments_are_left_out_whatever_they_say():
    """Chains disagree, and their moments would be rejected at one of the levels."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(4, 200, 2))
    values[..., 0] += np.linspace(-0.8, 0.8, 4)[:, None]
    values[..., 0] = (values[..., 0] - 1.2) / values[..., 0].std()
    moments = ksd_moments(normal_score(2), draws(values))
    assert moments.attrs["doubt"].startswith("The chains disagree")
    p_value = float(moments["p_value"])
    assert 1e-6 < p_value < 0.05
    found = [
        ksd_test(normal_score(2), draws(values), alpha=alpha, n_bootstrap=399, random_seed=0)
        for alpha in (0.8 * p_value, 11 * p_value)
    ]
    assert found[0]["p_value"] == found[1]["p_value"]
    assert not [name for name in found[1]["member"].values if name.startswith(("mean", "sd"))]


def test_moment_that_is_named_is_that_of_the_p_value():
    """The largest z-score is that of a slow chain, whose p-value is not the smallest."""
    rng = np.random.default_rng(3)
    slow = lfilter([1.0], [1.0, -0.9], rng.normal(size=400)) * np.sqrt(1 - 0.9**2) + 0.5
    fast = rng.normal(size=400) + 0.13
    values = np.stack([slow, fast, *rng.normal(size=(2, 400))], axis=1)[None]
    moments = ksd_moments(normal_score(4), draws(values))
    assert not moments.attrs["doubt"]
    z_mean, p_mean = (moments["x"].sel(diagnostic=f"{name}_mean").values for name in "zp")
    assert (np.argmax(np.abs(z_mean)), np.argmin(p_mean)) == (0, 1)
    result = ksd_test(normal_score(4), draws(values), n_bootstrap=99)
    assert str(result["member"].values[-1]) == "mean of x[1]"
    np.testing.assert_allclose(result["member_statistic"][-1], abs(z_mean[1]))
    np.testing.assert_allclose(result["member_p_value"][-1], p_mean[1])


def test_equal_signs_of_few_points_are_ties():
    """Of two points half of all signs are equal, which gives the statistic itself."""
    score = normal_score(1)
    p_values = [
        float(
            ksd_test(score, np.random.default_rng(seed).normal(size=2), n_bootstrap=99)["p_value"]
        )
        for seed in range(60)
    ]
    assert min(p_values) > 0.3


def test_equal_bandwidths_are_one_member(rng):
    data, score = rng.normal(size=(40, 2)), normal_score(2)
    result = ksd_test(score, data, bandwidth=[1.0, 1.0, 2.0])
    assert result["member"].values.tolist() == ["rbf, 1", "rbf, 2"]
    close = ksd_test(score, data, bandwidth=[1.0, 1.0 + 1e-9])
    assert len(set(close["member"].values)) == 2
    assert str(explain(close))


def test_null_that_knows_one_kernel_only_is_refused(rng):
    class Once(Null):
        name = "once"
        simulates = True

        def distribution(self, estimate, again, n_replicates, progressbar):
            return np.array([again()[0] for _ in range(n_replicates)])

    data, options = rng.normal(size=(40, 2)), {"null": Once(), "n_bootstrap": 19}
    with pytest.raises(ValueError, match="replicates of all 5 kernels that are tested"):
        ksd_test(normal_score(2), data, **options)
    assert ksd_test(normal_score(2), data, kernel="rbf", **options)["p_value"] > 0


def stiff(rng, n):
    covariance = np.diag(np.logspace(2, -2, 8))
    turn = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    covariance = turn @ covariance @ turn.T
    precision = np.linalg.inv(covariance)
    data = rng.multivariate_normal(np.zeros(8), covariance, size=n)
    return Score.from_callable(lambda x: -x @ precision, 8), data


def test_data_are_whitened_where_directions_differ(rng):
    score, data = stiff(rng, 300)
    assert ksd_test(score, data, random_seed=0).attrs["scale"] == "stein"
    assert ksd_test(score, data, random_seed=0, scale=None).attrs["scale"] == "none"
    # As in the paper where a kernel or a bandwidth is named, and not by a handful of points.
    for options in ({"kernel": "rbf"}, {"bandwidth": 1.0}, {"bandwidth": [1.0, 2.0]}):
        assert ksd_test(score, data, **options).attrs["scale"] == "none"
    assert ksd_test(score, data[:40], random_seed=0).attrs["scale"] == "none"
    assert ksd_test(normal_score(8), rng.normal(size=(300, 8))).attrs["scale"] == "none"


def test_modes_far_apart_and_tails_are_no_reason_to_whiten(rng):
    """Points are far longer in one direction, and the density is as steep as in the other."""
    side = np.array([20.0, 0.0])
    modes = Score.from_callable(lambda x: -x + side * np.tanh(x @ side)[:, None], 2)
    data = rng.normal(size=(300, 2)) + side * rng.choice([-1, 1], size=(300, 1))
    assert ksd_test(modes, data).attrs["scale"] == "none"
    cauchy = Score.from_callable(lambda x: -2 * x / (1e-4 + x**2) * [1e-2, 1.0], 2)
    assert ksd_test(cauchy, rng.standard_cauchy(size=(300, 2))).attrs["scale"] == "none"


def test_points_and_scores_agree_on_the_covariance_of_a_normal_density(rng):
    covariance = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.03], [0.0, 0.03, 0.01]])
    # From another distribution altogether.
    points = rng.laplace(size=(400, 3)) * [1.0, 5.0, 0.2]
    points -= points.mean(axis=0)
    scaling = Scaling.of_scores(points, -points @ np.linalg.inv(covariance))
    root = scaling.deviations[:, None] * scaling.factor
    np.testing.assert_allclose(root @ root.T, covariance * np.sqrt(400 / 399), rtol=1e-7, atol=1e-9)


def test_scale_stein_needs_scores():
    with pm.Model() as model:
        pm.Poisson("y", [3.0, 5.0], observed=np.array([[1, 2], [3, 4], [2, 2]]))
    with pytest.raises(ValueError, match=r"`scale` 'stein' takes the scores.*whiten them by 'cov'"):
        ksd_test(model, scale="stein")


def test_simulated_samples_choose_their_own_scale(rng, monkeypatch):
    """What the sample went through, they go through: the choice of a scale included."""
    chosen = []

    def recorded(points, scores):
        chosen.append("stein" if len(chosen) % 2 else None)
        return chosen[-1]

    monkeypatch.setattr("pymc_ksd.diagnostics.prepare.scale_of_data", recorded)
    ksd_test(normal_score(2), rng.normal(size=(40, 2)), null="parametric", n_bootstrap=19)
    assert len(chosen) == 20


@pytest.mark.slow
@pytest.mark.newer_stack
def test_replicates_are_enough_for_clear_rejections(rng):
    score, few = normal_score(1), rng.normal(size=40)
    chains = xr.Dataset({"x": (("chain", "draw"), rng.normal(size=(4, 30)))})
    assert ksd_test(score, few, alpha=0.01).sizes["bootstrap"] == 1_000
    assert ksd_test(score, chains).sizes["bootstrap"] == 1_000
    # A twentieth of the level can be reached.
    assert ksd_test(score, chains, alpha=0.01).sizes["bootstrap"] == 1_999
    assert ksd_test(score, rng.normal(size=5_001)).sizes["bootstrap"] == 500


def test_words_do_not_blame_moments_that_are_right(rng):
    """Laplace draws with the right mean and standard deviation."""
    values = rng.laplace(0, np.sqrt(0.5), size=(4, 250, 5))
    result = ksd_test(normal_score(5), draws(values), random_seed=0)
    assert result["p_value"] <= 0.05
    loudest = str(result["member"].values[int(np.argmax(result["member_excess"].values))])
    words = explain(result).findings[0].advice[0]
    assert words.startswith(f"The kernel {loudest!r} gives the strongest evidence: it is a narrow")
    assert "location" not in words
