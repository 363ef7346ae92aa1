"""The paper's experiments: their models, their rival tests, and what the stored results say."""

from itertools import product

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

from benchmarks.paper import boltzmann, ising, mixture
from benchmarks.paper.__main__ import TRIALS
from benchmarks.paper.figures import save_figures
from benchmarks.paper.report import largest_level, report
from benchmarks.paper.rival_tests import (
    classical_tests,
    likelihood_ratio,
    maximum_mean_discrepancy,
)
from benchmarks.paper.stored import auc, difference, errors, load, save, to_dataset
from benchmarks.paper.trials import Setting, run_experiment, trial_generator


def differences(function, x, step=1e-5):
    """Return the gradient of a function of rows, by finite differences."""
    columns = []
    for unit in step * np.eye(x.shape[1]):
        columns.append((function(x + unit) - function(x - unit)) / (2 * step))
    return np.stack(columns, axis=1)


def small_machine(rng):
    return boltzmann.Machine(rng.normal(size=(2, 3)), rng.normal(size=2), rng.normal(size=3))


def test_mixture_is_what_scipy_says(rng):
    truth = mixture.Mixture.random(rng)
    x = rng.uniform(-2, 12, size=40)
    for what in mixture.PERTURBED:
        model = truth.perturb(what, 0.7, rng)
        parts = stats.norm(model.means, model.sigma)
        weights = np.exp(model.log_weights)
        assert weights.sum() == pytest.approx(1)
        np.testing.assert_allclose(model.log_density(x), np.log(parts.pdf(x[:, None]) @ weights))
        np.testing.assert_allclose(model.distribution(x), parts.cdf(x[:, None]) @ weights)
        score = mixture.EXPERIMENT.score(model)(x[:, None])
        expected = differences(lambda points, m=model: m.log_density(points[:, 0]), x[:, None])
        np.testing.assert_allclose(score, expected, rtol=1e-6, atol=1e-7)
        sample = model.draw(2_000, rng)
        assert stats.kstest(sample, model.distribution).pvalue > 1e-3


def test_machine_has_the_closed_form_score(rng):
    machine = boltzmann.Machine.random(rng).perturb(0.1, rng)
    x = machine.draw(30, rng)
    score = boltzmann.EXPERIMENT.score(machine)(x)
    np.testing.assert_allclose(score, machine.score(x), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(differences(machine.log_density, x), score, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_machine_sums_and_draws_exactly(rng):
    machine = small_machine(rng)

    def joint(x, h):
        return np.exp(
            0.5 * x @ machine.couplings @ h + machine.visible @ x + machine.hidden @ h - 0.5 * x @ x
        )

    def density(a, b):
        x = np.array([a, b])
        return sum(joint(x, np.array(h)) for h in product((-1.0, 1.0), repeat=3))

    total, _ = integrate.dblquad(density, -9, 9, -9, 9, epsrel=1e-7)
    assert machine.log_normaliser == pytest.approx(np.log(total), rel=1e-6)
    point = np.array([[0.3, -0.8]])
    assert machine.log_unnormalised(point)[0] == pytest.approx(np.log(density(0.3, -0.8)))
    exact, chain = machine.draw(4_000, rng), machine.gibbs(20_000, rng)[::5]
    assert maximum_mean_discrepancy(exact[:800], chain[:800], rng).p_value > 1e-3
    for column in range(2):
        assert stats.ks_2samp(exact[:, column], chain[:, column]).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.newer_stack
def test_annealing_finds_the_normaliser(rng):
    machine = small_machine(rng)
    found = [machine.annealed_log_normaliser(rng) for _ in range(20)]
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(machine.log_normaliser, abs=4 * error + 1e-3)


@pytest.fixture
def small_grid(rng, monkeypatch):
    """A grid of 3 × 3 spins, whose 512 states can be listed."""
    monkeypatch.setattr(ising, "SIDE", 3)
    ising.row_states.cache_clear()
    yield ising.Grid.random(rng).perturb(0.3, rng)
    ising.row_states.cache_clear()


def test_transfer_matrices_are_exact(rng, small_grid):
    states = np.array(list(product((-1.0, 1.0), repeat=9)))
    logits = small_grid.log_unnormalised(states)
    quadratic = 0.5 * np.einsum("ij,jk,ik->i", states, small_grid.matrix, states)
    linear = states @ small_grid.fields.ravel()
    # The diagonal of A adds a constant.
    np.testing.assert_allclose(np.ptp(quadratic + linear - logits), 0, atol=1e-12)
    assert small_grid.log_normaliser == pytest.approx(logsumexp(logits))
    draws = small_grid.draw(40_000, rng)
    numbers = ((draws > 0) @ 2 ** np.arange(8, -1, -1)).astype(int)
    counts = np.bincount(numbers, minlength=512)
    expected = 40_000 * np.exp(logits - logsumexp(logits))
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_smoothed_spins_have_the_closed_form_score(rng):
    grid = ising.Grid.random(rng).perturb(0.2, rng)
    smoothed, spins = ising.EXPERIMENT.scores(grid)
    x = grid.draw(20, rng)
    y = grid.smooth(x, rng)
    b = grid.fields.ravel()
    expected = -np.linalg.solve(grid.matrix, (y - b).T).T + np.tanh(y)
    np.testing.assert_allclose(smoothed(y), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(grid.root @ grid.root, grid.matrix, atol=1e-12)
    # Rates of the spins: b = p(y + 1) / (p(y) + p(y + 1)) for a spin that is down.
    births, deaths = spins._target.values((x > 0).astype(float))
    flipped = x.copy()
    flipped[:, 7] *= -1
    ratio = np.exp(grid.log_unnormalised(flipped) - grid.log_unnormalised(x))
    rate = ratio / (1 + ratio)
    np.testing.assert_allclose(births[:, 7], np.where(x[:, 7] < 0, rate, 0), atol=1e-12)
    np.testing.assert_allclose(deaths[:, 7], np.where(x[:, 7] > 0, rate, 0), atol=1e-12)


@pytest.mark.parametrize("module", [mixture, boltzmann, ising])
def test_new_parameters_compile_nothing(module, rng, count_compilations):
    experiment = module.EXPERIMENT
    setting = Setting(experiment.settings[0].perturbed, 0.1, 60)
    experiment.trial(setting, True, rng)
    before = len(count_compilations)
    found = experiment.trial(setting, False, rng)
    assert len(count_compilations) == before
    assert set(found) <= set(experiment.methods)
    assert all(np.isfinite(measured.discrepancy) for measured in found.values())


def test_mmd_is_the_double_sum_and_keeps_its_level(rng):
    x, y = rng.normal(size=(30, 2)), rng.normal(0.3, 1, size=(50, 2))
    found = maximum_mean_discrepancy(x, y, rng)
    pooled = np.concatenate([x, y])
    distances = np.linalg.norm(pooled[:, None] - pooled, axis=-1)
    h = np.median(distances[np.triu_indices(80, 1)])
    kernel = np.exp(-(distances**2) / (2 * h**2))
    expected = kernel[:30, :30].mean() + kernel[30:, 30:].mean() - 2 * kernel[:30, 30:].mean()
    assert found.discrepancy == pytest.approx(expected, rel=1e-5)
    p_values = [
        maximum_mean_discrepancy(
            rng.normal(size=(20, 1)), rng.normal(size=(30, 1)), rng, 99
        ).p_value
        for _ in range(300)
    ]
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3
    far = maximum_mean_discrepancy(x, y + 2, rng)
    assert far.p_value == pytest.approx(1 / 1001)


def test_classical_tests_are_scipys(rng):
    x = rng.normal(size=100)
    found = classical_tests(stats.norm.cdf(x, 0.3))
    model = stats.norm(0.3)
    assert found["Kolmogorov–Smirnov"].p_value == pytest.approx(stats.kstest(x, model.cdf).pvalue)
    expected = stats.cramervonmises(x, model.cdf).pvalue
    assert found["Cramér–von Mises"].p_value == pytest.approx(expected)
    edges = model.ppf(np.linspace(0, 1, 14))
    counts = np.histogram(x, [-99, *edges[1:-1], 99])[0]
    assert found["χ²"].p_value == pytest.approx(stats.chisquare(counts).pvalue)


def test_oracle_keeps_its_level_and_has_the_power_of_neyman_and_pearson(rng):
    """A shift of a normal mean, where the power is known."""

    def p_value(shift):
        def log_ratio(x):
            return 0.4 * x - 0.08

        x = rng.normal(shift, 1, size=25)
        return likelihood_ratio(x, log_ratio, lambda n: rng.normal(size=n)).p_value

    level = np.mean([p_value(0.0) <= 0.05 for _ in range(400)])
    power = np.mean([p_value(0.4) <= 0.05 for _ in range(400)])
    expected = stats.norm.sf(stats.norm.isf(0.05) - 0.4 * 5)
    assert abs(level - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 400)
    assert abs(power - expected) < 4 * np.sqrt(expected * (1 - expected) / 400)


SETTINGS = (Setting("means", 1.0, 30), Setting("log-weights", 0.5, 20))


@pytest.mark.slow
@pytest.mark.newer_stack
def test_trials_do_not_depend_on_how_they_are_run(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.paper.trials._TOGETHER", 3)
    options = {"seed": 1, "n_processes": 1, "progressbar": False}
    whole = run_experiment("mixture", SETTINGS, 4, folder=tmp_path / "whole", **options)
    run_experiment("mixture", SETTINGS[:1], 3, folder=tmp_path / "parts", **options)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").iterdir()}
    again = run_experiment("mixture", SETTINGS, 4, folder=tmp_path / "parts", **options)
    assert before
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    for setting in SETTINGS:
        for name in ("p_value", "discrepancy"):
            np.testing.assert_array_equal(again[setting][name], whole[setting][name])
    other = run_experiment("mixture", SETTINGS[:1], 4, folder=tmp_path, **{**options, "seed": 2})
    assert (other[SETTINGS[0]]["discrepancy"] != whole[SETTINGS[0]]["discrepancy"]).all()


@pytest.mark.slow
@pytest.mark.newer_stack
def test_trials_in_processes_are_the_same(tmp_path):
    options = {"seed": 1, "progressbar": False}
    here = run_experiment("mixture", SETTINGS, 2, folder=tmp_path / "1", n_processes=1, **options)
    there = run_experiment("mixture", SETTINGS, 2, folder=tmp_path / "2", n_processes=2, **options)
    for setting in SETTINGS:
        np.testing.assert_allclose(there[setting]["p_value"], here[setting]["p_value"])


def test_trials_have_randomness_of_their_own():
    first = trial_generator("mixture", SETTINGS[0], 0, 0).random()
    others = [
        trial_generator("mixture", SETTINGS[0], 1, 0),
        trial_generator("mixture", SETTINGS[1], 0, 0),
        trial_generator("ising", SETTINGS[0], 0, 0),
        trial_generator("mixture", SETTINGS[0], 0, 1),
    ]
    assert all(other.random() != first for other in others)


def test_stored_trials_and_their_errors(tmp_path):
    methods = mixture.EXPERIMENT.methods
    p_values = np.full((4, len(methods)), np.nan)
    p_values[:, 0] = [0.01, 0.02, 0.5, 0.06]  # true models: rejected, not; others: rejected, not
    p_values[:, 1] = [0.2, 0.05, 0.3, 0.001]
    discrepancies = np.zeros(p_values.shape)
    discrepancies[:, 0] = [1.0, 3.0, 2.0, 1.5]
    trials = {"p_value": p_values, "discrepancy": discrepancies, "seconds": 30.0}
    dataset = to_dataset(mixture.EXPERIMENT, {SETTINGS[0]: trials}, seed=0, processes=2)
    save(dataset, tmp_path)
    found = load("mixture", tmp_path)
    assert found.attrs["core_minutes"] == 0.5
    rates = errors(found).isel(setting=0)
    assert rates["type_1"].values[:2].tolist() == [0.5, 0.0]
    assert rates["type_2"].values[:2].tolist() == [0.5, 0.0]
    assert rates["error_rate"].values[:2].tolist() == [0.5, 0.0]
    assert rates["type_1_se"].values[0] == pytest.approx(np.sqrt(0.25 / 2))
    assert np.isnan(rates["error_rate"].values[2:]).all()
    assert auc(found, 0, methods[0]) == 0.75
    compared = difference(found, methods[0], methods[1]).isel(setting=0)
    # Of each hypothesis one of two trials differs by one: mean 1/2, variance of the mean 1/4.
    assert float(compared["difference"]) == 0.5
    assert float(compared["se"]) == pytest.approx(np.sqrt(0.25 + 0.25) / 2)


def made_up(experiment, rng):
    """Results of no trial, with the columns that a real run would have."""
    results = {}
    for setting in experiment.settings:
        p_values = rng.uniform(size=(12, len(experiment.methods)))
        discrepancies = rng.gamma(1.0, size=p_values.shape)
        for column, method in enumerate(experiment.methods):
            if method in ("MMD-MC(50)", "MMD-MC(200)", "MMD-MC(500)") and setting.deviation != 0.05:
                p_values[:, column] = discrepancies[:, column] = np.nan
            if "AIS" in method:
                p_values[:, column] = np.nan
        results[setting] = {"p_value": p_values, "discrepancy": discrepancies, "seconds": 1.0}
    return to_dataset(experiment, results, seed=0, processes=2)


@pytest.mark.slow
@pytest.mark.newer_stack
def test_page_and_figures_are_made_of_any_results(rng, tmp_path):
    modules = {"mixture": mixture, "boltzmann": boltzmann, "ising": ising}
    datasets = {name: made_up(module.EXPERIMENT, rng) for name, module in modules.items()}
    text = report(datasets)
    for name, module in modules.items():
        save(datasets[name], tmp_path)
        for method in module.EXPERIMENT.methods:
            assert method in text
    rates = errors(datasets["ising"])
    one = rates.isel(setting=0).sel(test="spins: KSD-U")
    shown = f"{100 * float(one['error_rate']):.1f} ± {100 * float(one['error_rate_se']):.1f}"
    assert shown in text
    save_figures({name: load(name, tmp_path) for name in modules}, tmp_path)
    assert all((tmp_path / f"paper_{name}.png").stat().st_size > 10_000 for name in modules)


def test_trials_of_other_versions_are_refused(tmp_path, monkeypatch):
    options = {"seed": 1, "n_processes": 1, "progressbar": False, "folder": tmp_path}
    run_experiment("mixture", SETTINGS[:1], 1, **options)
    monkeypatch.setattr(mixture.MixtureExperiment, "revision", 99)
    with pytest.raises(ValueError, match="made with other methods or versions"):
        run_experiment("mixture", SETTINGS[:1], 1, **options)


@pytest.fixture(scope="module", params=["mixture", "boltzmann", "ising"])
def stored(request):
    return load(request.param)


def test_stored_tests_keep_their_level(stored):
    """At most 5 % and three standard errors, in every setting."""
    rate, excess, where = largest_level(stored)
    assert excess < 3, (rate, where)
    assert stored.sizes["trial"] == TRIALS[stored.attrs["experiment"]]


def test_stored_oracle_is_best(stored):
    oracle = "likelihood ratio"
    for method in stored["test"].values:
        if method != oracle and "AIS" not in method:
            compared = difference(stored, oracle, str(method)).dropna("setting")
            assert (compared["difference"] <= 3 * compared["se"]).all(), method


def test_stored_mixture_shows_what_the_page_says():
    results = load("mixture")
    rates = errors(results)["error_rate"]
    for what, others, sign in (
        ("means", ["Kolmogorov–Smirnov", "Cramér–von Mises", "MMD-MC(1000)", "χ²"], -1),
        ("log-variance", ["Kolmogorov–Smirnov", "Cramér–von Mises", "MMD-MC(1000)"], -1),
        ("log-weights", ["Kolmogorov–Smirnov", "Cramér–von Mises", "MMD-MC(1000)", "χ²"], 1),
    ):
        chosen = rates.isel(setting=np.flatnonzero(results["perturbed"] == what)).mean("setting")
        for other in others:
            assert sign * float(chosen.sel(test="KSD-U") - chosen.sel(test=other)) > 0, (
                what,
                other,
            )
    assert (rates.sel(test="KSD-linear") > rates.sel(test="KSD-U")).all()


def test_stored_machine_shows_what_the_page_says():
    results = load("boltzmann")
    at = {round(float(d), 3): number for number, d in enumerate(results["deviation"].values)}
    few, many = (difference(results, "KSD-U", f"MMD-MC({size})") for size in (100, 1000))
    # Ahead of 100 exact draws where the perturbation is seen, close to 1,000.
    assert float(few["difference"][at[0.05]]) < -3 * float(few["se"][at[0.05]])
    assert float(abs(many["difference"][at[0.05]])) < 0.06
    rates = errors(results).isel(setting=[at[0.05], at[0.1]])
    linear, quadratic = (rates["error_rate"].sel(test=f"KSD-{kind}") for kind in ("linear", "U"))
    assert (linear > quadratic + 0.25).all()
    # The sampler's draws are not the model's: true machines are rejected.
    assert (errors(results)["type_1"].sel(test="MMD-MCMC(1000)") > 0.5).all()
    assert abs(auc(results, at[0.03], "MMD-MCMC(1000)") - 0.5) < 0.1
