import numpy as np
import pytensor.tensor as pt
import pytest
from numeric import LANGEVIN, all_pairs, block, members, unscaled
from reference import imq, matern52, rbf, stein_matrix

from pymc_ksd import IMQ, RBF, General, Matern52, Radial
from pymc_ksd.engine.pairs import evaluate_pairs, evaluate_squares
from pymc_ksd.stein.stein_kernel import SteinKernel


def general_rbf(x, y, bandwidth):
    return pt.exp(-pt.sum((x - y) ** 2) / (2 * bandwidth**2))


def radial_imq(squared_distance, bandwidth, beta):
    return (1 + squared_distance / bandwidth**2) ** beta


CASES = {
    "rbf": (RBF(), rbf),
    "imq": (IMQ(), imq),
    "imq power": (IMQ(-0.3), lambda x, y, h: imq(x, y, h, -0.3)),
    "matern52": (Matern52(), matern52),
    "sum": (
        RBF() + 0.5 * IMQ(bandwidth=2.0),
        lambda x, y, h: tuple(
            a + 0.5 * b for a, b in zip(rbf(x, y, h), imq(x, y, 2.0), strict=True)
        ),
    ),
    "radial and general": (
        Matern52() + 0.5 * General(general_rbf),
        lambda x, y, h: tuple(
            a + 0.5 * b for a, b in zip(matern52(x, y, h), rbf(x, y, h), strict=True)
        ),
    ),
    "user's radial": (Radial(radial_imq, beta=-0.4), lambda x, y, h: imq(x, y, h, -0.4)),
    "user's general": (General(general_rbf), rbf),
}


def sample(rng, n, dim):
    x = rng.normal(size=(n, dim))
    s = -0.7 * x + 0.2 * rng.normal(size=(n, dim))
    return unscaled(x, s)


@pytest.fixture(params=["graph", "machine code"])
def route(request, monkeypatch):
    """Whichever way blocks are evaluated, however few points there are."""
    pairs = 0 if request.param == "machine code" else np.inf
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", pairs)
    return request.param


@pytest.mark.parametrize("dim", [1, 2, 10, 100])
@pytest.mark.parametrize("name", CASES)
def test_all_sums_match_the_double_loop(rng, name, dim, route):
    kernel, reference = CASES[name]
    points = sample(rng, 17, dim)
    bandwidth = 0.8 * np.sqrt(dim)
    terms = stein_matrix(reference, points.positions, points.terms["scores"], bandwidth)
    u = terms.sum(axis=-1)
    weights = rng.normal(size=(6, 17)).astype(np.float32)
    groups = np.arange(17.0) % 3
    sums = all_pairs(
        kernel,
        points,
        bandwidth,
        weights=weights,
        coordinates=True,
        groups=groups,
        block_size=5,
    )
    off = u - np.diag(np.diag(u))
    np.testing.assert_allclose(sums.diagonal, np.diag(u), rtol=1e-10)
    np.testing.assert_allclose(sums.off_diagonal, off.sum(), rtol=1e-10)
    weights = weights.astype(float)
    quadratic = np.einsum("mi,ij,mj->m", weights, off, weights)
    size = np.einsum("mi,ij,mj->m", abs(weights), abs(off), abs(weights))
    # Machine code leaves these products to single precision.
    precision = 1e-12 if route == "graph" else 1e-6
    np.testing.assert_allclose(sums.quadratic / size, quadratic / size, atol=precision)
    np.testing.assert_allclose(sums.quadratic_diagonal, weights**2 @ np.diag(u), rtol=1e-10)
    earlier = np.triu(u, 1)
    own = earlier * (groups[:, None] == groups)
    np.testing.assert_allclose(sums.earlier[:, 0], earlier.sum(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(sums.earlier[:, 1], own.sum(axis=0), rtol=1e-9, atol=1e-12)
    scale = np.abs(terms).sum(axis=(0, 1))
    np.testing.assert_allclose(sums.coordinates / scale, terms.sum((0, 1)) / scale, atol=1e-12)
    np.testing.assert_allclose(sums.coordinates_diagonal, np.einsum("iid->d", terms), rtol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_pairs_and_squares_agree_with_the_double_loop(rng, name, route):
    kernel, reference = CASES[name]
    points = sample(rng, 8, 3)
    u = stein_matrix(reference, points.positions, points.terms["scores"], 1.1).sum(axis=-1)
    chosen = members(kernel, 1.1)
    (pairs,) = evaluate_pairs(chosen, points, slice(0, 8, 2), slice(1, 8, 2))
    np.testing.assert_allclose(pairs, [u[i, i + 1] for i in range(0, 8, 2)], rtol=1e-10)
    (sums,), ((squares,),) = evaluate_squares(chosen, points, 3)
    different = u * (1 - np.eye(8))
    parts = [different[:3, :3], different[3:6, 3:6]]
    np.testing.assert_allclose(sums, [part.sum() for part in parts], rtol=1e-10)
    np.testing.assert_allclose(squares, [(part**2).sum() for part in parts], rtol=1e-10)


@pytest.mark.parametrize("name", ["rbf", "user's general"])
def test_coordinates_of_whitened_points(rng, name, route):
    """Coordinates are standardised ones while the kernel compares whitened points."""
    kernel, _ = CASES[name]
    x = rng.normal(size=(12, 3)) @ np.array([[3.0, 1.0, 0.0], [0.0, 0.5, 0.2], [0.0, 0.0, 7.0]])
    s = rng.normal(size=(12, 3))
    points = LANGEVIN.scaled(x, [s], "cov")
    y = (x - np.median(x, axis=0)) / x.std(0, ddof=1)
    t = s * x.std(0, ddof=1)
    h, mixing = 1.3, points.constants["mixing"]
    np.testing.assert_allclose(points.positions, y @ mixing.T, atol=1e-12)
    expected = np.zeros(3)
    for i in range(12):
        for j in range(12):
            z = mixing @ (y[i] - y[j])
            k = np.exp(-z @ z / (2 * h**2))
            pull = mixing.T @ z / h**2
            mixed = k * ((mixing**2).sum(0) / h**2 - pull**2)
            expected += t[i] * t[j] * k + t[i] * pull * k - t[j] * pull * k + mixed
    sums = all_pairs(kernel, points, h, coordinates=True, block_size=5)
    np.testing.assert_allclose(sums.coordinates, expected, rtol=1e-10)


def test_stein_kernel_has_mean_zero_under_its_density(rng):
    """Stein's identity, by quadrature: the integral of u(x, y) q(x) over x vanishes."""
    grid = np.linspace(-12, 12, 4001)[:, None]
    density = np.exp(-0.5 * grid[:, 0] ** 2) / np.sqrt(2 * np.pi)
    y = np.array([[0.7]])
    for kernel in (RBF(), IMQ(), Matern52()):
        u = block(SteinKernel(LANGEVIN, kernel), unscaled(grid, -grid), unscaled(y, -y), 1.0)
        integral = np.trapezoid(u[:, 0] * density, grid[:, 0])
        assert abs(integral) < 1e-6


def test_several_bandwidths_average(rng):
    points = sample(rng, 9, 2)
    single = [all_pairs(RBF(), points, h).off_diagonal for h in (0.5, 2.0)]
    both = all_pairs(RBF(), points, 0.5, 2.0).off_diagonal
    np.testing.assert_allclose(both, np.mean(single), rtol=1e-12)


def test_kernel_that_is_not_finite_far_away_is_refused(rng):
    kernel = Radial(lambda squared_distance: pt.log(2 - squared_distance), name="logarithm")
    with pytest.raises(ValueError, match=r"Radial\(logarithm\) is not finite"):
        all_pairs(kernel, sample(rng, 20, 2), 1.0)


def test_general_kernels_are_evaluated_in_chunks(rng, monkeypatch):
    points, kernel = sample(rng, 20, 3), General(general_rbf)
    whole = all_pairs(kernel, points, 1.0, coordinates=True)
    monkeypatch.setattr("pymc_ksd.engine.pairs.GENERAL_NUMBERS", 50)
    parts = all_pairs(kernel, points, 1.0, coordinates=True)
    np.testing.assert_allclose(parts.diagonal, whole.diagonal, rtol=1e-12)
    np.testing.assert_allclose(parts.coordinates_diagonal, whole.coordinates_diagonal, rtol=1e-12)


def test_kernel_without_derivative_at_zero_is_refused(rng):
    kernel = Radial(lambda squared_distance: pt.exp(-pt.sqrt(squared_distance)), name="exponential")
    with pytest.raises(ValueError, match=r"Radial\(exponential\) is not finite .*zero distance"):
        all_pairs(kernel, sample(rng, 5, 2), 1.0)


# Numba says so when it compiles a product with a transposed matrix; it does not when the compiled
# function comes from its cache.
@pytest.mark.filterwarnings("ignore:.*is faster on contiguous arrays")
# JAX has no place for PyTensor's check that shapes fit, which hold here.
@pytest.mark.filterwarnings("ignore:Skipping Assert.*as JAX tracing would remove it")
@pytest.mark.parametrize("mode", ["NUMBA", "FAST_RUN", "JAX"])
@pytest.mark.parametrize("kernel", [IMQ(), General(general_rbf)], ids=str)
@pytest.mark.slow
def test_compiled_modes_agree_with_the_interpreted_graph(rng, kernel, mode):
    points = sample(rng, 40, 3)
    weights = rng.normal(size=(5, 40))
    interpreted, compiled = (
        all_pairs(
            kernel,
            points,
            1.2,
            compile_kwargs=options,
            weights=weights,
            coordinates=True,
            groups=np.arange(40.0) % 4,
            block_size=16,
        )
        for options in (None, {"mode": mode})
    )
    for part in ("off_diagonal", "quadratic", "coordinates", "earlier"):
        expected = getattr(interpreted, part)
        np.testing.assert_allclose(getattr(compiled, part), expected, rtol=1e-9, atol=1e-11)
