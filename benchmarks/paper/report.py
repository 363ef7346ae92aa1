"""The page on the paper's experiments: tables of error rates, and what they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from benchmarks.paper.stored import auc, errors
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
    number, column = np.unravel_index(int(own.argmax()), own.shape)
    count = int((~results["alternative"]).sum())
    rate = float(own[number, column])
    excess = (rate - ALPHA) / np.sqrt(ALPHA * (1 - ALPHA) / count)
    return rate, excess, f"{own['method'].values[column]}, {_setting(results, int(number))}"


def _level_sentence(results: xr.Dataset) -> str:
    rate, excess, where = largest_level(results)
    return (
        f"Of true models the library's tests reject at most {100 * rate:.1f} % ({where}), "
        f"{excess:.1f} standard errors above 5 %."
    )


def _minutes(results: xr.Dataset) -> str:
    return f"{results.attrs['core_minutes'] / 2:.0f}"


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
            "models that are rejected and of wrong ones that are not: 50 % (or a little less) for "
            "a test that sees nothing, 2.5 % for one that sees everything. Numbers are per cent, "
            f"± one Monte Carlo standard error, over {trials['mixture']:,} (mixture), "
            f"{trials['boltzmann']:,} (Boltzmann machine) and {trials['ising']:,} (Ising) trials a "
            "row, with fixed seeds.",
            "```\npython -m benchmarks.paper            # all of it, goes on where it stopped\n"
            "python -m benchmarks.paper --quick    # a few trials of each\n```",
            f"On two cores the mixture takes {_minutes(mixture)}, the Boltzmann machine "
            f"{_minutes(boltzmann)} and the Ising model {_minutes(ising)} minutes. Every family is "
            "one PyMC model whose parameters are `pm.Data`: its score is compiled once, trials "
            "only change numbers. The results are stored in `benchmarks/paper/results`; the "
            "notebooks in `notebooks/` read them and run small versions.",
            "Columns: *KSD-U* and *KSD-linear* are the paper's tests (RBF kernel, median "
            "bandwidth, 1,000 bootstrap replicates). The last columns go beyond it: *IMQ* is the "
            'kernel `"imq"`, *parametric* the null of that name with 19 replicates, *block* the '
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
            "### True models rejected",
            error_table(ising, "type_1"),
        ]
    )
