"""The witness function: its formula, its tie to the discrepancy, and where it points."""

import numpy as np
import pymc as pm
import pytest
import reference
import xarray as xr
from numeric import BIRTH_DEATH, LANGEVIN, members, unscaled
from rejections import most

import pymc_ksd
from pymc_ksd.diagnostics.predictive.marks import marks
from pymc_ksd.diagnostics.results import conclusion
from pymc_ksd.engine import conditional
from pymc_ksd.stein.kernels import IMQ, RBF
from pymc_ksd.stein.points import Points


def evaluate_witness(kernel, sample, bandwidth, places, weights, operator=LANGEVIN):
    chosen = members(kernel, bandwidth, operator=operator)
    (f,) = conditional.evaluate_witness(chosen, sample, places, weights)
    return f


def points(dim, rng):
    return unscaled(rng.normal(size=(20, dim)), rng.normal(size=(20, dim)))


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize(("kernel", "slow"), [(RBF(), reference.rbf), (IMQ(), reference.imq)])
def test_witness_is_the_sum_written_out(kernel, slow, dim, rng):
    sample = points(dim, rng)
    places, weights = rng.normal(size=(5, dim)), rng.uniform(size=(20, 5))
    f = evaluate_witness(kernel, sample, 1.2, places, weights)
    for at, place in enumerate(places):
        expected = np.zeros(dim)
        for i in range(20):
            k, gradient, _, _ = slow(sample.positions[i], place, 1.2)
            expected += weights[i, at] * (sample.terms["scores"][i] * k + gradient) / 20
        np.testing.assert_allclose(f[at], expected, rtol=1e-10, atol=1e-12)


def test_operator_on_the_witness_gives_the_discrepancy(rng):
    """The V-statistic is the mean of s f + f' over the points."""
    sample = points(1, rng)
    ones = np.ones((20, 20))

    def witness(at):
        return evaluate_witness(RBF(), sample, 1.0, at, ones)

    x, s = sample.positions, sample.terms["scores"]
    slope = (witness(x + 1e-5) - witness(x - 1e-5)) / 2e-5
    u = reference.stein_matrix(reference.rbf, x, s, 1.0)[..., 0]
    assert float(np.mean(s * witness(x) + slope)) == pytest.approx(u.mean(), rel=1e-7)


def test_witness_of_counts_is_the_operator_written_out(rng):
    z, up, down, step = (rng.uniform(size=(15, 1)) for _ in range(4))
    rates = {"births": up, "deaths": down, "lengths": step}
    sample = Points(z, rates, {"steps": np.eye(1)})
    places, weights = np.linspace(-1, 2, 4)[:, None], rng.uniform(size=(15, 4))
    f = evaluate_witness(RBF(), sample, 0.8, places, weights, BIRTH_DEATH)

    def kernel(a, b):
        return np.exp(-((a - b.T) ** 2) / (2 * 0.8**2))

    expected = weights * (up * kernel(z + step, places) - down * kernel(z, places))
    np.testing.assert_allclose(f[:, 0], expected.mean(axis=0), rtol=1e-10)


def fitted_line(x, y, rng):
    """Check a straight line with normal noise, its posterior with a flat prior."""
    design = np.column_stack([np.ones_like(x), x])
    inverse = np.linalg.inv(design.T @ design)
    best = inverse @ design.T @ y
    variance = np.sum((y - design @ best) ** 2) / rng.chisquare(len(x) - 2, size=80)
    steps = rng.normal(size=(80, 2)) @ np.linalg.cholesky(inverse).T
    b = best + np.sqrt(variance)[:, None] * steps
    with pm.Model() as model:
        inputs = pm.Data("x", x)
        line = pm.Normal("b", 0, 100, shape=2)
        sd = pm.HalfNormal("sd", 100)
        pm.Normal("y", line[0] + line[1] * inputs, sd, observed=y)
    posterior = xr.Dataset(
        {
            "b": (("chain", "draw", "b_dim_0"), b[None]),
            "sd": (("chain", "draw"), np.sqrt(variance)[None]),
        }
    )
    return pymc_ksd.ksd_ppc(model, posterior, num_draws=60, random_seed=1)


def title(check, **options):
    collection = pymc_ksd.plot_ksd_witness(check, backend="matplotlib", **options)
    return collection.get_target("y", {}).get_title()


def place_of(line, places):
    return float(places[int(np.argmax(np.abs(line)))])


def test_witness_points_at_a_bump_of_the_mean():
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(-3, 3, size=400))
    bump = 2.0 * np.exp(-(x**2) / (2 * 0.3**2))
    check = fitted_line(x, x + bump + rng.normal(size=400), rng)
    assert float(check["p_value"]) <= 0.05
    along = check["covariate_witness"].sel(covariate="x", level="middle").values
    where = place_of(along, check["covariate_value"].sel(covariate="x").values)
    assert abs(where) < 0.4
    # The data are larger than the model expects: the witness is negative there.
    assert along[np.argmax(np.abs(along))] < 0
    assert title(check, covariate="x") == conclusion(check)
    # The picture of the data marks the same place.
    assert str(check["picture_along"].item()) == "x"
    ((start, stop, word),) = (m for m in marks(check) if m[0] < 0.0 < m[1])
    assert -1.5 < start < stop < 1.5
    assert word == "larger"


def test_witness_points_at_the_noisy_end():
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(-3, 3, size=400))
    noise = rng.normal(size=400) * np.where(x > 1.5, 3.0, 1.0)
    check = fitted_line(x, x + noise, rng)
    high, low = (
        check["covariate_witness"].sel(covariate="x", level=level).values
        for level in ("high", "low")
    )
    places = check["covariate_value"].sel(covariate="x").values
    # Residuals are too wide at the end: pulled in on both sides, and too narrow before it.
    noisy = places > 1.7
    assert np.mean(high[noisy]) < 0 < np.mean(low[noisy])
    assert np.mean(high[places < 1.0]) > 0 > np.mean(low[places < 1.0])
    band = check["covariate_witness_band"].sel(covariate="x", level="high")
    assert (high < band.sel(bound="lower").values)[noisy].any()
    assert (high > band.sel(bound="upper").values)[places < 1.0].any()


def test_witness_points_at_a_cluster_of_outcomes():
    rng = np.random.default_rng(3)
    y = rng.normal(size=400)
    y[:40] = 3 + 0.3 * rng.normal(size=40)
    with pm.Model() as model:
        pm.Normal("y", 0.0, 1.0, observed=y)
    check = pymc_ksd.ksd_ppc(model, num_draws=60, random_seed=1)
    witness, places = check["witness"].values, check["residual_value"].values
    assert 1.8 < place_of(witness, places) < 3.5
    # Larger values than the model expects, and more than replicated data show.
    worst = np.argmax(np.abs(witness))
    assert witness[worst] < check["witness_band"].sel(bound="lower").values[worst]


@pytest.mark.slow
@pytest.mark.default_stack
def test_the_band_holds_whole_curves():
    """Of data from the model about 5 % leave the band somewhere."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-2, 2, size=100)
    with pm.Model() as model:
        pm.Normal("y", 0.5 * pm.Data("x", x), 1.0, observed=pm.Data("data", np.zeros(100)))
    left = []
    for seed in range(80):
        pm.set_data({"data": 0.5 * x + rng.normal(size=100)}, model=model)
        check = pymc_ksd.ksd_ppc(model, num_draws=40, random_seed=seed, progressbar=False)
        for name in ("witness", "covariate_witness"):
            low, high = check[f"{name}_band"].transpose("bound", ...)
            left.append(bool(((check[name] < low) | (check[name] > high)).any()))
    # Of 80 data sets 11 at most leave a band, see rejections.py; and bands are not too wide.
    over_residuals, along_x = np.sum(np.reshape(left, (-1, 2)), axis=0)
    assert max(over_residuals, along_x) <= most(80)
    assert over_residuals + along_x >= 1


def test_witness_of_a_true_model_stays_quiet():
    rng = np.random.default_rng(4)
    x = rng.uniform(-3, 3, size=200)
    check = fitted_line(x, x + rng.normal(size=200), rng)
    assert float(check["p_value"]) > 0.05
    for options in ({}, {"covariate": "residual"}, {"covariate": "x"}):
        collection = pymc_ksd.plot_ksd_witness(check, backend="none", **options)
        assert "marked_0" not in collection.viz.children
    assert "y is consistent with the model" in title(check)
    with pytest.raises(ValueError, match="must be one of residual, x"):
        pymc_ksd.plot_ksd_witness(check, covariate="z")
