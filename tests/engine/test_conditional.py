"""Sums of Stein kernels times kernels of covariates, against loops over pairs written out."""

import numpy as np
import pytest
from numeric import BIRTH_DEATH, LANGEVIN, members
from scipy import stats

from pymc_ksd.engine import machine_conditional
from pymc_ksd.engine.cluster import _added, _totals
from pymc_ksd.engine.conditional import evaluate_conditional
from pymc_ksd.engine.machine_code import conditional_loops
from pymc_ksd.engine.machine_conditional import stacked_work
from pymc_ksd.engine.schedule import blocks_of_parts
from pymc_ksd.engine.walk import Effort
from pymc_ksd.stein.kernels import IMQ, RBF
from pymc_ksd.stein.stein_kernel import CORES

N, DRAWS = 23, 3


@pytest.fixture(params=["machine code", "graphs"])
def way(request, monkeypatch):
    pairs = 0 if request.param == "machine code" else np.inf
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", pairs)
    return request.param


def scores_and_steps(operator, dim, n=N, draws=DRAWS, seed=0):
    """Two samples for every draw, each point with a scale of its own."""
    rng = np.random.default_rng(seed)
    samples = []
    for _ in range(draws):
        pair = []
        for _ in range(2):
            z, spread = rng.normal(size=(n, dim)), rng.uniform(0.5, 2, size=(n, dim))
            if operator is LANGEVIN:
                pair.append(operator.standardised(z * spread, [-z / spread], 0 * z, spread))
            else:
                rates = rng.uniform(size=(2, n, dim))
                pair.append(operator.standardised(np.round(3 * z), rates, 0 * z, 3 * spread))
        samples.append(pair)
    return samples


def covariates_of(n=N, draws=DRAWS, seed=1):
    rng = np.random.default_rng(seed)
    fixed, changing = rng.normal(size=(n, 2)), [rng.normal(size=(n, 1)) for _ in range(draws)]
    return [None, fixed, changing, fixed[:, :1] / 3]


def gaussian(a, b, width=1.0):
    return np.exp(-np.sum((a - b) ** 2) / (2 * width**2))


def inverse(a, b, width):
    return (1 + np.sum((a - b) ** 2) / width**2) ** -0.5


def slow_langevin(kernel, width, points, i, j, step=1e-3):
    """The kernel's derivatives by differences."""
    x, s = points.positions[i], points.terms["scores"][i]
    y, t = points.positions[j], points.terms["scores"][j]
    total = s @ t * kernel(x, y, width)
    for coordinate in np.eye(len(x)) * step:
        own, other = s @ coordinate / step, t @ coordinate / step
        by_y = kernel(x, y + coordinate, width) - kernel(x, y - coordinate, width)
        by_x = kernel(x + coordinate, y, width) - kernel(x - coordinate, y, width)
        both = sum(
            a * b * kernel(x + a * coordinate, y + b * coordinate, width)
            for a in (1, -1)
            for b in (1, -1)
        )
        total += own * by_y / (2 * step) + other * by_x / (2 * step) + both / (4 * step**2)
    return total


def slow_birth_death(kernel, width, points, i, j):
    x, y, terms = points.positions[i], points.positions[j], points.terms
    total = 0.0
    for coordinate, unit in enumerate(np.eye(len(x))):
        up, down, long = (terms[name][i, coordinate] for name in ("births", "deaths", "lengths"))
        ups, downs, other = (terms[name][j, coordinate] for name in ("births", "deaths", "lengths"))
        total += up * ups * kernel(x + long * unit, y + other * unit, width)
        total -= up * downs * kernel(x + long * unit, y, width)
        total -= down * ups * kernel(x, y + other * unit, width)
        total += down * downs * kernel(x, y, width)
    return total


def slow_sums(slow, kernels, samples, covariates, parts=(N,)):
    part_of = np.repeat(np.arange(len(parts)), parts)
    shape = (len(kernels), len(samples), len(samples[0]), len(covariates))
    sums, rows = np.zeros(shape), np.zeros((len(kernels), N, len(covariates)))
    for draw, pair in enumerate(samples):
        for q, points in enumerate(pair):
            for i in range(N):
                for j in range(N):
                    if i == j or part_of[i] != part_of[j]:
                        continue
                    for k, (kernel, width) in enumerate(kernels):
                        u = slow(kernel, width, points, i, j)
                        for c, covariate in enumerate(covariates):
                            own = covariate[draw] if isinstance(covariate, list) else covariate
                            w = 1.0 if own is None else gaussian(own[i], own[j])
                            sums[k, draw, q, c] += u * w
                            rows[k, i, c] += u * w if q == 0 else 0.0
    return sums, rows


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize(
    ("operator", "slow", "precision"),
    # Derivatives by differences, and single precision in machine code.
    [(LANGEVIN, slow_langevin, 2e-5), (BIRTH_DEATH, slow_birth_death, 1e-6)],
    ids=["scores", "steps"],
)
def test_sums_are_the_double_loop(operator, slow, precision, dim, way):
    samples, covariates = scores_and_steps(operator, dim), covariates_of()
    chosen = members(RBF(), 0.8, 1.7, operator=operator) + members(IMQ(), 1.2, operator=operator)
    kernels = [(gaussian, 0.8), (gaussian, 1.7), (inverse, 1.2)]
    found = evaluate_conditional(chosen, samples, covariates, Effort(9))
    expected = slow_sums(slow, kernels, samples, covariates)
    for own, judge in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, judge, rtol=precision, atol=precision * np.abs(judge).max())
    # Stated in numbers: a wrong weight or a forgotten pair is seen.
    assert not np.allclose(found[0][..., 1], found[0][..., 3], rtol=0.01)


@pytest.mark.parametrize("operator", [LANGEVIN, BIRTH_DEATH], ids=["scores", "steps"])
def test_only_pairs_within_parts_are_compared(operator, way):
    slow = slow_langevin if operator is LANGEVIN else slow_birth_death
    samples, covariates, parts = scores_and_steps(operator, 1), covariates_of(), (8, 9, 6)
    chosen = members(RBF(), 1.0, operator=operator)
    found = evaluate_conditional(chosen, samples, covariates, Effort(5), parts=parts)
    expected = slow_sums(slow, [(gaussian, 1.0)], samples, covariates, parts)
    for own, judge in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, judge, rtol=2e-5, atol=2e-5 * np.abs(judge).max())


@pytest.mark.parametrize("operator", [LANGEVIN, BIRTH_DEATH], ids=["scores", "steps"])
def test_result_does_not_depend_on_blocks_threads_or_tasks(operator, monkeypatch):
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", 0)
    samples, covariates = scores_and_steps(operator, 1, n=90), covariates_of(n=90)
    chosen, parts = members(RBF(), 1.0, 2.0, operator=operator), (50, 40)
    whole = evaluate_conditional(chosen, samples, covariates, Effort(90), parts=parts)
    work = stacked_work(chosen, samples, covariates, parts)
    blocks = list(blocks_of_parts(parts, 13))
    tasks = _added([_totals(work, blocks[start::5]) for start in range(5)])
    others = [
        evaluate_conditional(chosen, samples, covariates, Effort(7), parts=parts),
        (tasks.sums["u"], tasks.of_points()),
    ]
    monkeypatch.setattr(machine_conditional.ConditionalFunctions, "count", 1)
    others.append(evaluate_conditional(chosen, samples, covariates, Effort(13), parts=parts))
    # Sums of single precision depend on their order, in the last digits.
    tolerance = 1e-12 if operator is LANGEVIN else 1e-6
    for found in others:
        for own, judge in zip(found, whole, strict=True):
            np.testing.assert_allclose(own, judge, atol=tolerance * np.abs(judge).max())


def test_other_numbers_compile_nothing(monkeypatch):
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", 0)
    for operator, name in ((LANGEVIN, "add_scores"), (BIRTH_DEATH, "add_rates")):
        chosen = members(RBF(), 1.0, 2.0, operator=operator)
        evaluate_conditional(chosen, scores_and_steps(operator, 1), covariates_of())
        compiled = getattr(conditional_loops(chosen).module, name)
        before = len(compiled.signatures)
        wider = members(RBF(), 3.0, operator=operator)
        for seed, n in ((2, 30), (3, 41)):
            samples = scores_and_steps(operator, 2, n=n, draws=2, seed=seed)
            evaluate_conditional(wider, samples, covariates_of(n, 2, seed))
            evaluate_conditional(wider, samples, [None])
        assert len(compiled.signatures) == before == 1


def test_kernels_without_machine_code_are_left_to_graphs():
    samples, covariates = scores_and_steps(LANGEVIN, 1), covariates_of()
    compiled = members(RBF(), 1.0, compile_kwargs={"mode": "FAST_RUN"})
    assert stacked_work(compiled, samples, covariates, (N,)) is None
    steps = scores_and_steps(BIRTH_DEATH, 2)
    turned = [
        [type(p)(p.positions, p.terms, {"steps": np.array([[1.0, 0.5], [0.0, 1.0]])}) for p in pair]
        for pair in steps
    ]
    chosen = members(RBF(), 1.0, operator=BIRTH_DEATH)
    assert stacked_work(chosen, steps, covariates, (N,)) is not None
    assert stacked_work(chosen, turned, covariates, (N,)) is None


@pytest.mark.parametrize("mean", [500.0, 5_000.0])
def test_large_counts_have_the_same_sums_in_machine_code(mean, monkeypatch):
    """Steps that are too short for single precision are left to double precision."""
    law = stats.nbinom(2, 2 / (2 + mean))
    counts = law.rvs(size=(60, 1), random_state=3).astype(float)
    here, above, below = law.pmf(counts), law.pmf(counts + 1), law.pmf(counts - 1)
    rates = [above / (here + above), below / (here + below)]
    centre, spread = np.full_like(counts, mean), np.full_like(counts, law.std())
    samples = [[BIRTH_DEATH.standardised(counts, rates, centre, spread)]]
    chosen, sums = members(RBF(), 1.0, operator=BIRTH_DEATH), []
    for pairs in (0, np.inf):
        monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", pairs)
        sums.append(evaluate_conditional(chosen, samples, [None])[0].item())
    np.testing.assert_allclose(*sums, rtol=0.02)
    work = stacked_work(chosen, samples, [None], (60,))
    assert (work is None) == (law.std() > 500)


def test_all_cores_are_used():
    samples = scores_and_steps(LANGEVIN, 1)
    work = stacked_work(members(RBF(), 1.0), samples, [None], (N,))
    assert work.functions().count == CORES


@pytest.mark.parametrize("x", [0.0, -1e-3, -0.7, -5.0, -40.0, -85.9])
def test_exponential_in_single_precision(x):
    loops = conditional_loops(members(RBF(), 1.0)).module
    found = loops.exp_single(np.float32(x))
    np.testing.assert_allclose(found, np.exp(np.float64(np.float32(x))), rtol=3e-7)
    assert loops.exp_single(np.float32(-1e30)) == 0.0
