"""Sums of several members: the same numbers as each alone, and as written out with NumPy."""

import numpy as np
import pytensor.tensor as pt
import pytest
from numeric import unscaled

from pymc_ksd import IMQ, RBF, General, Matern52, Radial
from pymc_ksd.engine import machine_block
from pymc_ksd.engine.cluster import _added, _totals
from pymc_ksd.engine.conditional import evaluate_conditional
from pymc_ksd.engine.functions import BlockFunctions
from pymc_ksd.engine.machine_code import machine_signs
from pymc_ksd.engine.pairs import (
    PairWork,
    evaluate_all_pairs,
    evaluate_pairs,
    evaluate_squares,
)
from pymc_ksd.engine.schedule import upper_triangle
from pymc_ksd.engine.walk import Effort
from pymc_ksd.stein.stein_kernel import OPERATORS, Member, SteinKernel, Wanted
from pymc_ksd.stein.tilt import with_tilts

PLAIN, TILTED = OPERATORS["langevin"], OPERATORS["tilted langevin"]


def member(kernel, bandwidth, operator=PLAIN, compile_kwargs=None):
    return Member(repr(kernel), SteinKernel(operator, kernel, compile_kwargs), bandwidth)


def mixed(width=1.5):
    """Kernels, bandwidths and operators of many kinds, none of them next to its like."""
    return [
        member(RBF(), width / 8),
        member(IMQ(), width, TILTED),
        member(RBF(), width),
        member(Matern52(), width / 2),
        member(RBF(), 4 * width, TILTED),
        member(IMQ(), width / 4),
        member(IMQ(-0.3), width),
        member(0.5 * RBF() + IMQ(bandwidth=2.0), width),
        member(Radial(lambda squared: pt.exp(-squared) + pt.maximum(1 - squared, 0) ** 4), 1.0),
    ]


def points_of(rng, n, dim):
    x = rng.normal(size=(n, dim))
    scores = -x - 0.1 * x**3
    log_densities = -0.5 * (x**2).sum(axis=1) - 0.025 * (x**4).sum(axis=1)
    return with_tilts(unscaled(x, scores), log_densities)


@pytest.fixture(params=["machine code", "arrays"])
def way(request, monkeypatch):
    pairs = 0 if request.param == "machine code" else np.inf
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", pairs)
    return request.param


def alone(chosen, function, monkeypatch):
    """What the graph of every member gives, of which each is evaluated by itself."""
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", np.inf)
    return [function([one]) for one in chosen]


SIGNS = np.array([-1, 1], dtype=np.int8)
WEIGHTS = {
    "signs": lambda rng, m, n: rng.choice(SIGNS, size=(m, n)),
    "counts": lambda rng, m, n: rng.poisson(1.0, size=(m, n)).astype(np.int8) - np.int8(1),
    "numbers": lambda rng, m, n: rng.normal(size=(m, n)).astype(np.float32),
}


@pytest.mark.parametrize("draw", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize(
    "dim",
    [
        pytest.param(1, marks=[pytest.mark.slow, pytest.mark.newer_stack]),
        3,
        pytest.param(30, marks=[pytest.mark.slow, pytest.mark.default_stack]),
    ],
)
def test_every_member_as_by_itself(rng, way, dim, draw, monkeypatch):
    points, chosen = points_of(rng, 150, dim), mixed(np.sqrt(dim))
    options = {"weights": draw(rng, 40, 150), "coordinates": True, "groups": np.arange(150.0) % 3}
    sizes = Effort(block_size=64)
    together = evaluate_all_pairs(chosen, points, sizes, **options)
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", np.inf)
    for index, one in enumerate(chosen):
        judge = evaluate_all_pairs([one], points, sizes, **options)
        scale = np.abs(judge.diagonal).sum()
        for name, digits in [
            ("diagonal", 1e-11),
            ("off_diagonal", 1e-11),
            ("quadratic_diagonal", 1e-11),
            ("coordinates", 1e-11),
            ("coordinates_diagonal", 1e-11),
            ("earlier", 1e-11),
            ("quadratic", 1e-6),  # in single precision
        ]:
            np.testing.assert_allclose(
                getattr(together, name)[index],
                getattr(judge, name)[0],
                rtol=1e-10,
                atol=digits * scale,
                err_msg=f"{name} of {one.name}",
            )


def test_sums_as_written_out(rng, way):
    """Two kernels by their formulas, in loops over pairs."""
    n, dim, width = 40, 3, 1.3
    points = points_of(rng, n, dim)
    x, s = points.positions, points.terms["scores"]
    factors, tilts = points.terms["tilt_factors"], points.terms["tilts"][:, 0]
    weights = rng.choice(SIGNS, size=(5, n))

    def stein(s, derivatives):
        u = np.empty((n, n))
        for i in range(n):
            for j in range(n):
                r = ((x[i] - x[j]) ** 2).sum()
                k0, k1, k2 = derivatives(r)
                u[i, j] = k0 * (s[i] @ s[j]) + 2 * k1 * ((x[i] - x[j]) @ (s[j] - s[i]) - dim)
                u[i, j] -= 4 * k2 * r
        return u

    def gaussian(r):
        a = -0.5 / width**2
        return np.exp(a * r) * np.array([1, a, a**2])

    def inverse(r):
        b = 1 + r / width**2
        return b**-0.5, -0.5 * b**-1.5 / width**2, 0.75 * b**-2.5 / width**4

    expected = [
        stein(s, gaussian),
        np.outer(tilts, tilts) * stein(s * factors, gaussian),
        stein(s, inverse),
        np.outer(tilts, tilts) * stein(s * factors, inverse),
    ]
    chosen = [member(k(), width, o) for k in (RBF, IMQ) for o in (PLAIN, TILTED)]
    sums = evaluate_all_pairs(chosen, points, Effort(block_size=16), weights=weights)
    assert tilts.min() < 0.8  # or the weights would not have been seen
    for index, u in enumerate(expected):
        own = np.diag(u)
        np.testing.assert_allclose(sums.diagonal[index], own, rtol=1e-11)
        np.testing.assert_allclose(sums.off_diagonal[index], u.sum() - own.sum(), rtol=1e-10)
        forms = ((weights @ (u - np.diag(own))) * weights).sum(axis=1)
        np.testing.assert_allclose(sums.quadratic[index], forms, rtol=1e-6, atol=1e-6 * own.sum())


def test_pairs_and_squares(rng, way, monkeypatch):
    points, chosen = points_of(rng, 60, 3), mixed()
    first, second = slice(0, 60, 2), slice(1, 60, 2)
    pairs = evaluate_pairs(chosen, points, first, second)
    sums, products = evaluate_squares(chosen, points, 20)
    for index, judge in enumerate(
        alone(chosen, lambda one: evaluate_pairs(one, points, first, second), monkeypatch)
    ):
        np.testing.assert_allclose(pairs[index], judge[0], rtol=1e-10, atol=1e-12)
    squares = alone(chosen, lambda one: evaluate_squares(one, points, 20), monkeypatch)
    for index, (judge, squared) in enumerate(squares):
        np.testing.assert_allclose(sums[index], judge[0], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(products[index, index], squared[0, 0], rtol=1e-10)


def test_samples_with_covariates(rng, way, monkeypatch):
    samples, chosen = [[points_of(rng, 50, 2)] for _ in range(2)], mixed()
    covariates = [None, rng.normal(size=(50, 1))]
    sums, rows = evaluate_conditional(chosen, samples, covariates)
    judges = alone(chosen, lambda one: evaluate_conditional(one, samples, covariates), monkeypatch)
    for index, (judge, judge_rows) in enumerate(judges):
        np.testing.assert_allclose(sums[index], judge[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(rows[index], judge_rows[0], rtol=1e-9, atol=1e-9)


def test_members_of_other_kinds_stand_beside(rng, way, monkeypatch):
    """A kernel that is not radial, one that is compiled otherwise, and one not written out."""

    def gaussian(x, y):
        return pt.exp(-pt.sum((x - y) ** 2))

    points, weights = points_of(rng, 50, 2), WEIGHTS["counts"](rng, 6, 50)
    chosen = [
        member(RBF(), 1.0),
        member(General(gaussian), 1.0),
        member(IMQ(), 1.0, TILTED),
        member(RBF(), 2.0, compile_kwargs={"mode": "FAST_COMPILE"}),
        member(Radial(lambda squared: pt.erfc(squared + 1)), 1.0),
        member(IMQ(), 2.0),
    ]
    assert not BlockFunctions(chosen, Wanted(), 50**2).fused
    assert BlockFunctions([chosen[0], chosen[2], chosen[5]], Wanted(), 50**2).fused
    together = evaluate_all_pairs(chosen, points, weights=weights)
    judges = alone(
        chosen, lambda one: evaluate_all_pairs(one, points, weights=weights), monkeypatch
    )
    for index, judge in enumerate(judges):
        np.testing.assert_allclose(together.off_diagonal[index], judge.off_diagonal[0], rtol=1e-9)
        spread = 1e-6 * judge.diagonal.sum()
        np.testing.assert_allclose(together.quadratic[index], judge.quadratic[0], atol=spread)


@pytest.mark.parametrize(
    ("count", "n", "m", "replicates"),
    [(1, 1, 1, 3), (4, 9, 25, 30), (16, 4, 12, 7), (37, 30, 13, 9)],
)
def test_signs_are_looked_up(rng, count, n, m, replicates):
    """The tables against products, for numbers of points that do and do not fill them."""
    u = rng.normal(size=(count, n, m)).astype(np.float32)
    rows, columns = rng.choice(SIGNS, size=(replicates, n)), rng.choice(SIGNS, size=(replicates, m))
    signs, forms = machine_signs(), np.ones((replicates, count))
    signs.add_forms(u, signs.row_codes(rows), signs.column_codes(columns), -1, forms)
    expected = np.einsum("kij,ri,rj->rk", u, rows, columns, dtype=float)
    np.testing.assert_allclose(forms, 1 + expected, atol=1e-4)


def test_only_signs_are_looked_up(rng, monkeypatch):
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", 0)
    used = []

    def counted():
        used.append(1)
        return machine_signs()

    monkeypatch.setattr(machine_block, "machine_signs", counted)
    points = points_of(rng, 30, 2)
    for name, draw in WEIGHTS.items():
        evaluate_all_pairs(mixed(), points, weights=draw(rng, 5, 30))
        assert bool(used) == (name == "signs")
        used.clear()
    zeros = np.zeros((5, 30), dtype=np.int8)
    assert not evaluate_all_pairs(mixed(), points, weights=zeros).quadratic.any()
    assert not used


def test_tasks_of_a_cluster_add_up(rng, way):
    points, weights = points_of(rng, 90, 3), WEIGHTS["signs"](rng, 12, 90)
    work = PairWork(mixed(), points, weights)
    blocks = list(upper_triangle(90, 25))
    together = _added([_totals(work, blocks[start::3]) for start in range(3)])
    whole = evaluate_all_pairs(work.members, points, Effort(block_size=25), weights=weights)
    own = whole.diagonal.sum(axis=1)
    np.testing.assert_allclose(together.sums["u"] - own, whole.off_diagonal, rtol=1e-9)
    np.testing.assert_allclose(together.sums["quadratic"], whole.quadratic, rtol=1e-10)


def test_new_numbers_and_members_compile_nothing(rng, monkeypatch):
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", 0)
    points, weights = points_of(rng, 40, 2), WEIGHTS["signs"](rng, 5, 40)

    def loops(*widths):
        chosen = [member(k(), width) for width in widths for k in (RBF, IMQ)]
        chosen.append(member(RBF(), 1.0, TILTED))
        evaluate_all_pairs(chosen, points, weights=weights)
        functions = BlockFunctions(chosen, Wanted(weights=True), 1)
        return functions._machine_block.loops.module.reduce_block

    before = loops(1.0, 2.0)
    count = len(before.signatures)
    after = loops(0.5, 1.5, 3.0)
    assert after is before
    assert len(after.signatures) == count


@pytest.mark.slow
@pytest.mark.default_stack
def test_kernel_that_is_not_finite_is_named(rng, way):
    points = points_of(rng, 30, 2)
    kernel = Radial(lambda squared: pt.log(2 - squared), name="logarithm")
    with pytest.raises(ValueError, match=r"logarithm\) is not finite"):
        evaluate_all_pairs([member(RBF(), 1.0), member(kernel, 1.0)], points)
