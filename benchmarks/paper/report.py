"""The page on the paper's experiments: tables of error rates, and what they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from benchmarks.paper.mixture import moved_weight, random_pair
from benchmarks.paper.stored import auc, difference, errors
from benchmarks.paper.trials import Setting, trial_generator
from benchmarks.rates import ALPHA, header, page

__all__ = ["error_table", "largest_level", "report"]


def _setting(results: xr.Dataset, number: int) -> str:
    one = results.isel(setting=number)
    return f"{one['perturbed'].item()}, σ = {one['deviation'].item():g}, n = {one['n'].item()}"


def error_table(
    results: xr.Dataset, measure: str = "error_rate", methods: Sequence[str] | None = None
) -> list[str]:
    """Return a Markdown table in per cent with Monte Carlo standard errors, a row a setting."""
    rates = errors(results)
    if methods is None:
        tested = rates[measure].notnull().any("setting")
        methods = [str(name) for name in results["test"].values[tested.values]]
    lines = header("perturbed", *methods)
    for number in range(results.sizes["setting"]):
        cells = []
        for method in methods:
            one = rates.isel(setting=number).sel(test=method)
            rate, se = 100 * float(one[measure]), 100 * float(one[f"{measure}_se"])
            cells.append("" if np.isnan(rate) else f"{rate:.1f} ± {se:.1f}")
        lines.append(f"| {_setting(results, number)} | {' | '.join(cells)} |")
    return lines


def largest_level(results: xr.Dataset) -> tuple[float, float, str]:
    """Return the largest share of rejected true models of the library's tests.

    Returns
    -------
    rate, excess : float
        The share, and how many standard errors of a level of 0.05 it lies above that.
    where : str
        Method and setting.
    """
    rates = errors(results)["type_1"]
    own = rates.sel(test=[name for name in rates["test"].values if "KSD" in str(name)])
    number, column = np.unravel_index(int(np.nanargmax(own.values)), own.shape)
    count = int((~results["alternative"]).sum())
    rate = float(own[number, column])
    excess = (rate - ALPHA) / np.sqrt(ALPHA * (1 - ALPHA) / count)
    return rate, excess, f"{own['test'].values[column]}, {_setting(results, int(number))}"


def _level_sentence(results: xr.Dataset) -> str:
    rate, excess, where = largest_level(results)
    return (
        f"Of true models the library's tests reject at most {100 * rate:.1f} % ({where}): "
        f"{excess:.1f} Monte Carlo standard errors more than 5 %, the most of all cells."
    )


def difference_table(results: xr.Dataset, method: str, others: Sequence[str]) -> list[str]:
    """Return a Markdown table of a method's error rate less others', in percentage points."""
    lines = header("perturbed", *others)
    tables = {other: difference(results, method, other) for other in others}
    for number in range(results.sizes["setting"]):
        cells = []
        for table in tables.values():
            one = 100 * table.isel(setting=number)
            cells.append(f"{float(one['difference']):+.1f} ± {float(one['se']):.1f}")
        lines.append(f"| {_setting(results, number)} | {' | '.join(cells)} |")
    return lines


def moved_weight_table(results: xr.Dataset, setting: Setting) -> list[str]:
    """Return how many wrong weights are found, by how much of them crossed the widest gap."""
    keep = [results["perturbed"] == setting.perturbed, results["deviation"] == setting.deviation]
    number = int(np.flatnonzero(keep[0] & keep[1] & (results["n"] == setting.n))[0])
    trials = np.flatnonzero(results["alternative"].values.astype(bool))
    seed = int(results.attrs["seed"])
    pairs = [random_pair(setting, trial_generator("mixture", setting, t, seed)) for t in trials]
    moved = np.array([moved_weight(*pair) for pair in pairs])
    rejected = results["p_value"].isel(setting=number, trial=trials) <= ALPHA
    methods = ["KSD-U", "χ²", "Kolmogorov–Smirnov", "Cramér–von Mises", "MMD-MC(1000)"]
    lines = header("weight moved across the widest gap", *methods)
    for third in np.array_split(np.argsort(moved), 3):
        shares = rejected.isel(trial=third).mean("trial")
        cells = [f"{100 * float(shares.sel(test=method)):.0f}" for method in methods]
        between = f"{moved[third].min():.2f} – {moved[third].max():.2f}"
        lines.append(f"| {between} | {' | '.join(cells)} |")
    return lines


def _minutes(results: xr.Dataset) -> str:
    return f"{results.attrs['core_minutes'] / results.attrs['processes']:.0f}"


def _discrepancy_table(results: xr.Dataset) -> list[str]:
    methods = [
        "KSD-U", "KSD-linear", "MMD-MC(100)", "MMD-MC(1000)", "MMD-MCMC(1000)", "likelihood ratio",
        "likelihood ratio (AIS)",
    ]  # fmt: skip
    lines = header("perturbed", *methods)
    for number in range(results.sizes["setting"]):
        areas = [f"{auc(results, number, method):.2f}" for method in methods]
        lines.append(f"| {_setting(results, number)} | {' | '.join(areas)} |")
    return lines


def report(datasets: Mapping[str, xr.Dataset]) -> str:
    """Return the page."""
    mixture, boltzmann, ising = (datasets[name] for name in ("mixture", "boltzmann", "ising"))
    trials = {name: dataset.sizes["trial"] for name, dataset in datasets.items()}
    return page(
        [
            "# The paper's experiments",
            "Section 6 of Liu, Lee and Jordan (2016) and their test of discrete models, run "
            "through the library on PyMC models. In every trial a true model is drawn and a sample "
            "from it; the tested model is the true one in half of the trials and a perturbed one "
            "in the other half, at level 5 %. An *error rate* is the mean of the share of true "
            "models that are rejected and of wrong ones that are not: 50 % for a test that sees "
            "nothing, or that rejects everything, and 2.5 % for one that sees everything. Numbers "
            "are per cent, "
            f"± one Monte Carlo standard error, over {trials['mixture']:,} (mixture), "
            f"{trials['boltzmann']:,} (Boltzmann machine) and {trials['ising']:,} (Ising) trials a "
            "row, with fixed seeds.",
            "```\npython -m benchmarks.paper            # all of it, goes on where it stopped\n"
            "python -m benchmarks.paper --quick    # a few trials of each\n```",
            f"On two cores the mixture took {_minutes(mixture)}, the Boltzmann machine "
            f"{_minutes(boltzmann)} and the Ising model {_minutes(ising)} minutes: the times of "
            "all trials, added up and divided by two, on a machine that did other work meanwhile. "
            "Every family is one PyMC model whose parameters are `pm.Data`: its score is compiled "
            "once, trials only change numbers. The results are stored in "
            "`benchmarks/paper/results`; the notebooks in `notebooks/` read them and run small "
            "versions.",
            "Columns: *KSD-U* and *KSD-linear* are the paper's tests (RBF kernel, median "
            "bandwidth, 1,000 bootstrap replicates). The last columns go beyond it: *IMQ* is the "
            'kernel `"imq"`, *parametric* the null of that name with 19 replicates, the fewest for '
            "a level of 5 % (exact, at some cost of power: more replicates find more), *block* the "
            "block statistic. *MMD-MC(n')* is the two-sample test of the data against n' exact "
            "draws of the tested model, by 1,000 permutations. *Likelihood ratio* is the oracle: "
            "the most powerful test of the model against the one true alternative, which nobody "
            "knows; where the tested model is true, the alternative is a perturbed one.",
            "## Five-component mixture",
            "Five normal components on the line with weights 1/5, standard deviation 1 and means "
            "uniform on [0, 10]; normal noise with standard deviation σ is added to the means, to "
            "the logarithm of the common variance or to the logarithms of the weights. The χ² "
            "test has about 2 n^(2/5) cells of equal probability under the tested model.",
            "![Error rates on the mixture](images/paper_mixture.png)",
            error_table(mixture),
            _level_sentence(mixture),
            "KSD-U's error rate less that of others, on the same trials, in percentage points "
            "(negative: KSD-U is better):",
            difference_table(
                mixture,
                "KSD-U",
                ["χ²", "Kolmogorov–Smirnov", "Cramér–von Mises", "MMD-MC(1000)", "KSD-linear"],
            ),
            "The oracle is best throughout, and the linear statistic, which looks at 50 of 4,950 "
            "pairs, is last. Wrong *means* are found by KSD-U as soon as by χ² or sooner, and "
            "sooner than by the others; at a wrong *variance* it is ahead of all but χ², to which "
            "it loses with more data. Wrong *weights* it finds later than all of them, where the "
            "paper reports no such difference. The reason is what a score sees: inside a group of "
            "components that does not touch the others it does not depend on the group's weight. "
            "Divide the wrong mixtures (log-weights, σ = 1, n = 100) into thirds by how much "
            "weight the noise has moved across the widest gap between the means; in per cent "
            "found:",
            moved_weight_table(mixture, Setting("log-weights", 1.0, 100)),
            "Where hardly any weight crosses the gap KSD-U is as good as the others. Weight that "
            "does cross it is what they find and KSD-U does not.",
            "### True models rejected",
            error_table(mixture, "type_1"),
            "## Gaussian–Bernoulli restricted Boltzmann machine",
            "50 visible and 10 hidden units, couplings of ±1 to which normal noise is added, n = "
            "100. The joint density has ½ xᵀBh, and so has everything here: the score is b − x + "
            "½ B tanh(½ Bᵀx + c). (The score printed in the paper belongs to a density without "
            "the ½.) *MMD-MCMC* takes 1,000 successive states of a Gibbs sampler after a burn-in "
            "of 1,000 steps for a sample of the model.",
            "![Error rates and discrepancies of the Boltzmann machine](images/paper_boltzmann.png)",
            error_table(boltzmann),
            _level_sentence(boltzmann),
            "KSD-U's error rate less that of others, on the same trials:",
            difference_table(
                boltzmann, "KSD-U", ["MMD-MC(100)", "MMD-MC(1000)", "MMD-MCMC(1000)", "KSD-linear"]
            ),
            "As in the paper, KSD-U is ahead of MMD-MC(100) once the perturbation is large enough "
            "to be found in most samples (σ = 0.05) and about as good as MMD-MC(1000), and "
            "KSD-linear is far behind. The Gibbs sampler stays in a few of the machine's modes, so "
            "MMD-MCMC rejects most true machines. At smaller perturbations the two-sample tests "
            "find more than KSD-U: noise on the couplings moves the modes and changes their "
            "proportions as well, and a score hardly sees proportions of modes that do not touch.",
            "How well do the discrepancies themselves tell true from perturbed models? The "
            "probability that a perturbed model's is the larger one (area under the ROC curve), "
            "also for the likelihood ratio whose normalising constants come from annealed "
            "importance sampling (1,000 temperatures, 50 paths), which is no test:",
            _discrepancy_table(boltzmann),
            "### True models rejected",
            error_table(boltzmann, "type_1"),
            "## Ising model",
            "25 spins on a 5 × 5 grid, couplings uniform on [0, 0.5] to which normal noise is "
            "added; exact draws by transfer matrices. *Smoothed* is the paper's way: y = b + Ax + "
            "A^½ ε with the tested model's A, its diagonal such that the smallest eigenvalue is "
            "0.1, tested as a continuous model. *Spins* tests them as they are, by the "
            "birth–death operator.",
            "![Error rates on the Ising model](images/paper_ising.png)",
            error_table(ising),
            _level_sentence(ising),
            "Smoothing keeps its level and costs nearly all power: wrong couplings hardly move the "
            "score of the smoothed spins, and with 200 observations it finds none of what the "
            "direct test finds nearly every time (σ = 0.4). A thousand observations suffice if "
            'the smoothed spins are whitened (`scale="cov"`): A is stiff in some directions, whose '
            "noise drowns the others. The diagonal of A makes no difference: smallest eigenvalues "
            "between 0.02 and 4 (40 samples each) found at most 10 % of the perturbed models at "
            "σ = 0.4, n = 200. Test spins as they are. The extra columns of the direct test are "
            "fewer because its parametric null would take most of the time of all trials, and "
            "samples of 1,000 spins are tested smoothed only.",
            "### True models rejected",
            error_table(ising, "type_1"),
        ]
    )
