"""Discrete data: probabilities from SciPy, the operator written out, sums over whole supports."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numeric import BIRTH_DEATH, all_pairs, block, members
from rejections import fewest, keeps_its_level
from scipy import stats

from benchmarks.calibration import rejection_rate
from benchmarks.count_cases import COUNT_CASES, COUNT_POWER_CASES
from pymc_ksd import IMQ, RBF, General, Matern52, compile_score, ksd_test
from pymc_ksd.engine.pairs import evaluate_pairs
from pymc_ksd.stein.stein_kernel import SteinKernel

# PyMC 5 builds truncated distributions through a call that PyTensor is about to change.
pytestmark = pytest.mark.filterwarnings("ignore:Scan return signature:DeprecationWarning")

KERNELS = {
    "rbf": (RBF(), lambda x, y, h: np.exp(-((x - y) ** 2).sum() / (2 * h**2))),
    "imq": (IMQ(), lambda x, y, h: (1 + ((x - y) ** 2).sum() / h**2) ** -0.5),
    "general": (
        General(lambda x, y, bandwidth: pt.exp(-pt.sum(pt.abs(x - y)) / bandwidth)),
        lambda x, y, h: np.exp(-np.abs(x - y).sum() / h),
    ),
}


def rates_at(score, points):
    return score._target.values(points)


def matrix(kernel, points, bandwidth):
    return block(SteinKernel(BIRTH_DEATH, kernel), points, points, bandwidth)


def operator_kernel(probability, kernel, points, steps):
    """The birth-death operator applied to both arguments of a kernel, every coordinate's term."""
    n, dim = points.shape
    terms = np.zeros((n, n, dim))

    def rates(point, step):
        up, here, down = (probability(point + move) for move in (step, 0 * step, -step))
        return up / (here + up), down / (here + down)

    for i, j in itertools.product(range(n), repeat=2):
        x, y = points[i], points[j]
        for coordinate in range(dim):
            step = np.eye(dim)[coordinate]
            (b, d), (c, e) = rates(x, step), rates(y, step)
            s = steps[coordinate]
            u, v = x @ steps, y @ steps
            terms[i, j, coordinate] = (
                b * c * kernel(u + s, v + s)
                - b * e * kernel(u + s, v)
                - d * c * kernel(u, v + s)
                + d * e * kernel(u, v)
            )
    return terms


@pytest.mark.parametrize("case", COUNT_CASES, ids=lambda case: case.name)
def test_rates_are_ratios_of_the_probabilities_that_scipy_has(case):
    score = case.score()
    data = case.draw(np.random.default_rng(0), 40)
    points = score.unconstrain(data)
    births, deaths = rates_at(score, points)
    assert births.shape == deaths.shape == points.shape
    values = np.asarray(data).reshape(40, -1)
    for coordinate in range(points.shape[1]):
        step = np.zeros(values.shape[1], dtype=int)
        step[coordinate] = 1
        if points.shape[1] < values.shape[1]:
            step[-1] = -1  # one more of this kind is one less of the last, the most likely one
        up, here, down = (
            case.probability((values + move * step).reshape(np.shape(data))) for move in (1, 0, -1)
        )
        # PyMC has the root of 2 for the probit in single precision.
        tolerance = 1e-6 if "Probit" in case.name else 1e-9
        expected = up / (here + up), down / (here + down)
        np.testing.assert_allclose(births[:, coordinate], expected[0], rtol=tolerance, atol=1e-12)
        np.testing.assert_allclose(deaths[:, coordinate], expected[1], rtol=tolerance, atol=1e-12)


@pytest.mark.parametrize("scale", [None, "std", "cov"])
@pytest.mark.parametrize("name", KERNELS)
def test_all_sums_match_the_operator_written_out(rng, name, scale):
    kernel, slow = KERNELS[name]
    values = np.column_stack([rng.poisson(2, 15), rng.binomial(4, 0.6, 15)]).astype(float)

    def probability(y):
        return stats.poisson.pmf(y[0], 2) * stats.binom.pmf(y[1], 4, 0.6)

    with pm.Model() as model:
        pm.Poisson("a", np.asarray(2.0), observed=values[:, 0].astype(int))
        pm.Binomial("b", 4, np.asarray(0.6), observed=values[:, 1].astype(int))
    score = compile_score(model)
    points = BIRTH_DEATH.scaled(values, rates_at(score, values), scale)
    steps = np.eye(2) / (1.0 if scale is None else values.std(axis=0, ddof=1))
    if scale == "cov":
        # Whitened: z = C⁻¹ y with C the Cholesky factor of the covariance, pulled to its diagonal.
        correlation = 15 / 17 * np.corrcoef(values.T) + 2 / 17 * np.eye(2)
        steps = steps @ np.linalg.inv(np.linalg.cholesky(correlation)).T
    terms = operator_kernel(probability, lambda x, y: slow(x, y, 1.3), values, steps)
    u = terms.sum(axis=-1)
    weights = rng.normal(size=(4, 15)).astype(np.float32)
    options = {"operator": BIRTH_DEATH, "weights": weights, "coordinates": True}
    sums = all_pairs(kernel, points, 1.3, block_size=4, **options)
    off = u - np.diag(np.diag(u))
    np.testing.assert_allclose(sums.diagonal, np.diag(u), rtol=1e-10)
    scaled = np.abs(terms).sum()
    np.testing.assert_allclose(sums.off_diagonal / scaled, off.sum() / scaled, atol=1e-10)
    quadratic = np.einsum("mi,ij,mj->m", weights.astype(float), off, weights.astype(float))
    np.testing.assert_allclose(sums.quadratic / scaled, quadratic / scaled, atol=1e-10)
    np.testing.assert_allclose(sums.coordinates / scaled, terms.sum((0, 1)) / scaled, atol=1e-10)
    own = np.einsum("iid->d", terms)
    np.testing.assert_allclose(sums.coordinates_diagonal, own, rtol=1e-10)
    chosen = members(kernel, 1.3, operator=BIRTH_DEATH)
    (pairs,) = evaluate_pairs(chosen, points, slice(0, 14, 2), slice(1, 14, 2))
    np.testing.assert_allclose(
        pairs, [u[i, i + 1] for i in range(0, 14, 2)], rtol=1e-10, atol=1e-10
    )
    part = matrix(kernel, points, 1.3)[3:9, 3:9]
    np.testing.assert_allclose(part, u[3:9, 3:9], rtol=1e-10, atol=1e-10)


def all_values(case, largest):
    """The whole support, as far as `largest`, with its probabilities."""
    shape = np.shape(case.draw(np.random.default_rng(0), 2))[1:]
    grid = itertools.product(range(largest + 1), repeat=int(np.prod(shape, dtype=int)))
    values = np.array(list(grid)).reshape(-1, *shape)
    probabilities = case.probability(values)
    return values[probabilities > 0], probabilities[probabilities > 0]


FINITE = [
    case
    for case in COUNT_CASES
    if case.name.split("(")[0]
    in (
        *("Bernoulli", "Binomial", "Categorical", "OrderedLogistic"),
        *("BetaBinomial", "HyperGeometric", "DiscreteUniform", "ZeroInflatedBinomial"),
        *("Multinomial", "DirichletMultinomial"),
    )
]


@pytest.mark.parametrize("kernel", [RBF(), IMQ(), Matern52()], ids=repr)
@pytest.mark.parametrize("case", FINITE, ids=lambda case: case.name)
def test_stein_kernel_sums_to_zero_over_the_whole_support(case, kernel):
    """Stein's identity by enumeration: the mean of u(y, y') over y vanishes for every y'."""
    values, probabilities = all_values(case, 10)
    np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-12)
    score = case.score()
    points = score.unconstrain(values)
    u = matrix(kernel, BIRTH_DEATH.scaled(points, rates_at(score, points), None), 1.5)
    size = probabilities @ np.abs(u)
    np.testing.assert_allclose(probabilities @ u / size, 0, atol=1e-10)


def test_statistic_against_enumeration():
    """U and V of a sample are sums over the support, weighted with the sample's frequencies."""
    p = np.asarray(0.25)
    support = np.arange(5)
    law = stats.binom(4, p)
    terms = operator_kernel(
        lambda y: law.pmf(y[0]),
        lambda x, y: np.exp(-((x - y) ** 2).sum() / 2),
        support[:, None].astype(float),
        np.eye(1),
    )[..., 0]
    data = np.repeat(support, [30, 40, 20, 7, 3])
    share = np.bincount(data, minlength=5) / 100
    with pm.Model() as model:
        pm.Binomial("y", 4, p, observed=data)
    v = ksd_test(model, statistic="v", bandwidth=1.0, random_seed=0)
    np.testing.assert_allclose(v["statistic"], share @ terms @ share, rtol=1e-10)
    u = ksd_test(model, bandwidth=1.0, random_seed=0)
    diagonal = share @ np.diag(terms)
    expected = (1e4 * share @ terms @ share - 100 * diagonal) / 9900
    np.testing.assert_allclose(u["statistic"], expected, rtol=1e-10)


def test_parameters_of_every_observation(rng):
    mean = np.linspace(1, 8, 150)
    with pm.Model() as model:
        pm.Poisson("y", mean, observed=rng.poisson(mean))
    good = ksd_test(model, random_seed=0)
    assert good["p_value"] > 0.05
    wrong = ksd_test(model, rng.poisson(1.5 * mean), random_seed=0)
    assert wrong["p_value"] <= 0.05
    with pytest.raises(ValueError, match="`data` has 10 observations, but the model is written"):
        ksd_test(model, rng.poisson(mean[:10]))


def test_contributions_and_dims_of_count_vectors(rng):
    with pm.Model(coords={"kind": ["a", "b"], "place": range(60)}) as model:
        data = rng.poisson([2, 9], size=(60, 2))
        pm.Poisson("y", [2.0, 3.0], observed=data, dims=("place", "kind"))
    result = ksd_test(model, random_seed=0)
    assert result["y"].dims == ("kind",)
    reference = result["member_statistic"].sel(member="rbf")
    np.testing.assert_allclose(result["y"].sum(), reference, rtol=1e-10)
    assert result["y"].sel(kind="b") > result["y"].sel(kind="a")
    with pm.Model() as multinomial:
        pm.Multinomial("m", 5, [0.5, 0.3, 0.2], observed=rng.multinomial(5, [0.5, 0.3, 0.2], 40))
    assert ksd_test(multinomial, random_seed=0)["m"].shape == ()


@pytest.mark.slow
@pytest.mark.default_stack
def test_values_that_are_all_the_same_need_the_parametric_null():
    for probability, rejected in ((0.5, True), (0.01, False)):
        with pm.Model() as model:
            pm.Bernoulli("y", probability, observed=np.zeros(50, dtype=int))
        with pytest.raises(ValueError, match=r"must vary.*`null` 'parametric' can test them"):
            ksd_test(model)
        for options in ({}, {"scale": "std"}, {"statistic": "block"}):
            result = ksd_test(
                model,
                null="parametric",
                n_bootstrap=99,
                random_seed=0,
                progressbar=False,
                **options,
            )
            assert (result["p_value"] <= 0.05) == rejected, options


@pytest.mark.parametrize(
    "options",
    [
        {"null": "parametric", "n_bootstrap": 39},
        {"statistic": "block"},
        {"statistic": "linear"},
        {"scale": "std", "kernel": "imq"},
        {"scale": "cov", "statistic": "v"},
        {"bandwidth": [0.5, 2.0]},
    ],
    ids=str,
)
def test_other_statistics_nulls_and_scales_of_counts(options):
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        pm.Poisson("y", [2.0, 12.0], observed=rng.poisson([2, 12], size=(120, 2)))
    wrong = rng.poisson([4, 20], size=(120, 2))
    assert ksd_test(model, random_seed=3, **options)["p_value"] > 0.02
    assert ksd_test(model, wrong, random_seed=3, **options)["p_value"] <= 0.05


OTHER_MODELS = {
    "truncated": (
        lambda data: pm.Truncated("y", pm.Poisson.dist(3.0), lower=1, upper=6, observed=data),
        lambda rng: (x := rng.poisson(3, 900))[(x >= 1) & (x <= 6)][:300],
    ),
    "censored": (
        lambda data: pm.Censored("y", pm.Poisson.dist(3.0), lower=1, upper=5, observed=data),
        lambda rng: np.clip(rng.poisson(3, 300), 1, 5),
    ),
    "mixture": (
        lambda data: pm.Mixture(
            "y", [0.4, 0.6], [pm.Poisson.dist(1.0), pm.Poisson.dist(6.0)], observed=data
        ),
        lambda rng: rng.poisson(rng.choice([1, 6], 300, p=[0.4, 0.6])),
    ),
    "hurdle": (
        lambda data: pm.HurdleNegativeBinomial("y", psi=0.6, mu=3.0, alpha=5.0, observed=data),
        lambda rng: np.where(
            rng.uniform(size=300) < 0.6,
            (x := rng.negative_binomial(5, 5 / 8, 3000))[x > 0][:300],
            0,
        ),
    ),
    "totals of every row": (
        lambda data: pm.Multinomial("y", np.repeat([4, 9], 150), [0.3, 0.5, 0.2], observed=data),
        lambda rng: rng.multinomial(np.repeat([4, 9], 150), [0.3, 0.5, 0.2]),
    ),
    "unsigned": (
        lambda data: pm.CustomDist(
            "y",
            3.0,
            logp=lambda v, mu: pm.logp(pm.Poisson.dist(mu), v),
            dtype="uint8",
            observed=data.astype("uint8"),
        ),
        lambda rng: rng.poisson(3, 300),
    ),
    "boolean": (
        lambda data: pm.CustomDist(
            "y",
            0.5,
            dist=lambda mu, size: pm.Normal.dist(mu, size=size) > 0,
            observed=data.astype(bool),
        ),
        lambda rng: rng.normal(0.5, 1, 300) > 0,
    ),
}


@pytest.mark.parametrize("name", OTHER_MODELS)
def test_other_models_of_counts(name):
    build, draw = OTHER_MODELS[name]
    rng = np.random.default_rng(11)
    data = draw(rng)
    with pm.Model() as model:
        build(data)
    score = compile_score(model)
    assert ksd_test(score, random_seed=0)["p_value"] > 0.02
    wrong = rng.permuted(data, axis=1) if data.ndim == 2 else None
    if name == "boolean":
        wrong = rng.uniform(size=300) < 0.5
    elif wrong is None:
        wrong = np.where(rng.uniform(size=len(data)) < 0.5, data, 3)
    assert ksd_test(score, wrong, random_seed=0)["p_value"] <= 0.05


def test_counts_of_several_sample_dims(rng):
    with pm.Model(coords={"place": range(20), "day": range(6), "kind": ["a", "b"]}) as model:
        data = rng.poisson([2, 5], size=(20, 6, 2))
        pm.Poisson("y", [2.0, 5.0], observed=data, dims=("place", "day", "kind"))
    result = ksd_test(model, sample_dims=["place", "day"], random_seed=0)
    assert result.attrs["n"] == 120
    assert result["y"].dims == ("kind",)
    assert result["p_value"] > 0.02


@pytest.mark.slow
@pytest.mark.newer_stack
def test_order_of_kinds_matters_little(rng):
    """The most likely kind gives and takes, wherever it stands."""
    shares = np.array([0.3, 0.69, 0.01])
    data = rng.multinomial(5, [0.42, 0.57, 0.01], 100)
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        with pm.Model() as model:
            pm.Multinomial("y", 5, shares[order], observed=data[:, order])
        assert ksd_test(model, random_seed=0)["p_value"] <= 0.01


def test_zeros_of_inflated_counts_are_no_reason_to_reject():
    case = next(case for case in COUNT_CASES if case.name == "ZeroInflatedPoisson(0.7, 8)")
    rate = rejection_rate(case, replications=40, n_bootstrap=199)
    assert rate.rejections <= 7


def test_rates_stay_bounded_however_unlikely_a_value_is():
    with pm.Model() as model:
        pm.Poisson("y", np.asarray(1e-3), observed=[0, 80, 0, 1])
    births, deaths = rates_at(compile_score(model), np.array([[0.0], [80.0]]))
    np.testing.assert_allclose(births[:, 0], [1e-3 / (1 + 1e-3), 1e-3 / (81 + 1e-3)], rtol=1e-9)
    np.testing.assert_allclose(deaths[:, 0], [0.0, 80 / (80 + 1e-3)], rtol=1e-9)


def test_new_counts_and_data_compile_nothing(rng, count_compilations):
    with pm.Model() as model:
        mean = pm.Data("mean", 2.0)
        pm.Poisson("y", mean, observed=rng.poisson(2, 50))
    score = compile_score(model)
    ksd_test(score, random_seed=0)
    before = len(count_compilations)
    with model:
        pm.set_data({"mean": 6.0})
    assert ksd_test(score, random_seed=0)["p_value"] <= 0.05
    assert ksd_test(score, rng.poisson(6, 70), random_seed=0)["p_value"] > 0.01
    assert len(count_compilations) == before


def test_bad_counts(rng):
    with pm.Model() as model:
        pm.Binomial("y", 3, 0.5, observed=[0, 1, 2, 3])
    with pytest.raises(ValueError, match="must be whole numbers, but 1 of 3 points are not, first"):
        ksd_test(model, [0, 1.5, 2])
    with pytest.raises(ValueError, match=r"1 of 3 points have no probability.*of 'y' \(rows 1\)"):
        ksd_test(model, [0, 4, 2])
    with pm.Model() as multinomial:
        pm.Multinomial("m", 3, [0.5, 0.5], observed=[[1, 2], [3, 0]])
    with pytest.raises(ValueError, match=r"1 of 2 points lie outside the support of 'm'"):
        ksd_test(multinomial, [[1, 2], [1, 1]])
    with pm.Model() as large:
        pm.Multinomial("m", 10**6, [0.5, 0.5], observed=[[500_000, 500_000]] * 2)
    with pytest.raises(ValueError, match=r"1 of 2 points lie outside the support of 'm'"):
        ksd_test(large, [[400_000, 600_000], [400_000, 599_999]])
    with pm.Model() as gap:
        pm.Categorical("y", [0.5, 0.0, 0.5], observed=[0, 2, 2, 0])
    with pytest.raises(ValueError, match="can make no single step up or down"):
        ksd_test(gap)
    with pm.Model() as dependent:
        first = pm.Poisson("a", 2.0, observed=[1, 2, 3])
        pm.Binomial("b", first, 0.5, observed=[1, 1, 1])
    with pytest.raises(ValueError, match=r"'b' depend on the observed counts a\. Put those in"):
        ksd_test(dependent)
    score = compile_score(model)
    with pytest.raises(ValueError, match="are discrete and have no gradient"):
        score(np.zeros((2, 1)))
    with pm.Model() as mixed:
        pm.Poisson("count", 2, observed=[1, 2])
        pm.Normal("size", observed=[0.1, 0.2])
    with pytest.raises(ValueError, match=r"partly discrete \(count\).*one by one with `var_names`"):
        ksd_test(mixed)
    assert "size" not in ksd_test(mixed, var_names="count", random_seed=0)


@pytest.mark.slow
@pytest.mark.newer_stack
@pytest.mark.parametrize("case", COUNT_CASES[::4], ids=lambda case: case.name)
def test_counts_keep_the_level(case):
    """13 of 100 data sets are rejected at most, see rejections.py; the page has 600."""
    assert keeps_its_level([rejection_rate(case, replications=100)])


@pytest.mark.slow
@pytest.mark.newer_stack
@pytest.mark.parametrize(
    ("index", "least"), [(1, 0.8), (3, 0.7)], ids=["over-dispersed", "more zeros"]
)
def test_wrong_counts_are_rejected(index, least):
    power = rejection_rate(COUNT_POWER_CASES[index], replications=60)
    assert power.rejections >= fewest(60, least)
