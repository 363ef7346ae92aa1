"""Pictures of the stored results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from benchmarks.paper.stored import auc, chosen_settings, errors

__all__ = ["boltzmann_figure", "ising_figure", "mixture_figure", "save_figures"]

#: One look for a method wherever it appears.
_LOOKS: dict[str, dict[str, Any]] = {
    "KSD-U": {"color": "C0", "marker": "o", "lw": 2.2},
    "KSD-linear": {"color": "C0", "marker": "v", "ls": "--"},
    "KSD-U, IMQ": {"color": "C9", "marker": "P"},
    "KSD-U, parametric": {"color": "C9", "marker": "X", "ls": "--"},
    "KSD-block": {"color": "C9", "marker": "d", "ls": ":"},
    "χ²": {"color": "C2", "marker": "s"},
    "Kolmogorov–Smirnov": {"color": "C8", "marker": "^"},
    "Cramér–von Mises": {"color": "C4", "marker": "<"},
    "MMD-MC(100)": {"color": "C1", "marker": "D", "ls": "--"},
    "MMD-MC(1000)": {"color": "C1", "marker": "D"},
    "MMD-MCMC(1000)": {"color": "C3", "marker": "x"},
    "likelihood ratio": {"color": "black", "marker": "*", "ls": "-."},
    "smoothed: KSD-U": {"color": "C1", "marker": "o", "lw": 2.2},
    "smoothed: KSD-U, whitened": {"color": "C3", "marker": "o", "lw": 2.2},
    "smoothed: KSD-linear": {"color": "C1", "marker": "v", "ls": "--"},
    "spins: KSD-U": {"color": "C0", "marker": "s", "lw": 2.2},
    "spins: KSD-linear": {"color": "C0", "marker": "v", "ls": "--"},
}
_STYLE = {"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}


def _curves(
    axes: Any, results: xr.Dataset, methods: Sequence[str], numbers: Sequence[int], along: str
) -> None:
    rates = errors(results).isel(setting=list(numbers))
    x = results[along].values[list(numbers)]
    for method in methods:
        one = rates.sel(test=method)
        axes.errorbar(
            x, one["error_rate"], one["error_rate_se"], label=method, ms=5, capsize=2,
            **{"lw": 1.3, **_LOOKS[method]},
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(x, [f"{value:g}" for value in x])
    axes.minorticks_off()
    axes.set_ylim(0, 0.53)
    axes.axhline(0.025, color="0.7", lw=0.8, zorder=0)


def mixture_figure(results: xr.Dataset) -> Any:
    """Draw error rates against perturbation and sample size, and a ROC curve."""
    methods = [name for name in results["test"].values if name not in _extensions(results)]
    kinds = ("means", "log-variance", "log-weights")
    with mpl.rc_context(_STYLE):
        figure, grid = plt.subplots(2, 4, figsize=(13, 6), layout="constrained")
        for column, what in enumerate(kinds):
            for row, (along, fixed) in enumerate(
                (("deviation", {"n": 100}), ("n", {"deviation": 1.0}))
            ):
                axes = grid[row, column]
                numbers = chosen_settings(results, perturbed=what, along=along, fixed=fixed)
                _curves(axes, results, methods, numbers, along)
                axes.set_title(
                    f"{what} perturbed, {'n = 100' if not row else 'σ = 1'}", fontsize=10
                )
                axes.set_xlabel("perturbation σ" if not row else "sample size n")
                if not column:
                    axes.set_ylabel("error rate")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        grid[0, 3].legend(handles, labels, loc="center", fontsize=9)
        grid[0, 3].set_axis_off()
        (number,) = chosen_settings(
            results, perturbed="means", along="n", fixed={"n": 100, "deviation": 1.0}
        )
        _roc(grid[1, 3], results, methods, number)
    return figure


def _roc(axes: Any, results: xr.Dataset, methods: Sequence[str], number: int) -> None:
    chosen = results["alternative"].values
    thresholds = np.linspace(0, 1, 402)
    for method in methods:
        values = results["p_value"].isel(setting=number).sel(test=method).values
        false, true = (
            (values[kind][:, None] <= thresholds).mean(axis=0) for kind in (~chosen, chosen)
        )
        look = {**_LOOKS[method], "marker": None, "lw": 1.3}
        axes.plot(false, true, **look)
    axes.set_title("ROC, means perturbed, n = 100, σ = 1", fontsize=10)
    axes.set_xlabel("true models rejected")
    axes.set_ylabel("wrong models rejected")


def _extensions(results: xr.Dataset) -> list[str]:
    ends = ("IMQ", "parametric", "KSD-block")
    return [str(name) for name in results["test"].values if str(name).endswith(ends)]


def boltzmann_figure(results: xr.Dataset) -> Any:
    """Draw error rates, the effect of the Monte Carlo size, and the discrepancies."""
    methods = [
        "KSD-U", "KSD-linear", "MMD-MC(100)", "MMD-MC(1000)", "MMD-MCMC(1000)", "likelihood ratio",
    ]  # fmt: skip
    shown = [*methods, "likelihood ratio (AIS)"]
    with mpl.rc_context(_STYLE):
        figure = plt.figure(figsize=(13, 6.4), layout="constrained")
        top, bottom = figure.subfigures(2, 1, height_ratios=(1.15, 1))
        left, middle, right = top.subplots(1, 3)
        numbers = chosen_settings(results, perturbed="couplings", along="deviation", fixed={})
        _curves(left, results, methods, numbers, "deviation")
        left.set(xlabel="perturbation σ of the couplings", ylabel="error rate")
        left.set_title("errors of the tests, n = 100", fontsize=10)
        _monte_carlo_sizes(middle, results)
        right.legend(*left.get_legend_handles_labels(), loc="center", fontsize=9)
        right.set_axis_off()
        panels = bottom.subplots(1, len(shown))
        for axes, method in zip(panels, shown, strict=True):
            _discrepancies(axes, results, method, numbers)
        panels[0].set_ylabel("discrepancy")
        bottom.suptitle(
            "true models blue, perturbed ones red: median and central 80 %", fontsize=10
        )
    return figure


def _monte_carlo_sizes(axes: Any, results: xr.Dataset) -> None:
    rates = errors(results)
    sizes = sorted(
        int(name[7:-1]) for name in map(str, results["test"].values) if name.startswith("MMD-MC(")
    )
    number = int(np.flatnonzero(rates["error_rate"].sel(test="MMD-MC(50)").notnull())[0])
    at = rates.isel(setting=number)
    two_sample = at.sel(test=[f"MMD-MC({size})" for size in sizes])
    axes.errorbar(
        sizes, two_sample["error_rate"], two_sample["error_rate_se"], capsize=2,
        **_LOOKS["MMD-MC(1000)"],
    )  # fmt: skip
    axes.axhline(float(at["error_rate"].sel(test="KSD-U")), **{"color": "C0", "lw": 2.2})
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(0, 0.53)
    axes.set_xlabel("exact draws for MMD-MC")
    axes.set_title(
        f"MMD-MC beside KSD-U (line), σ = {float(results['deviation'][number]):g}", fontsize=10
    )


def _discrepancies(axes: Any, results: xr.Dataset, method: str, numbers: Sequence[int]) -> None:
    x = results["deviation"].values[list(numbers)]
    values = results["discrepancy"].sel(test=method).isel(setting=list(numbers))
    chosen = results["alternative"].values
    for kind, color in ((~chosen, "C0"), (chosen, "C3")):
        low, mid, high = np.quantile(values.values[:, kind], (0.1, 0.5, 0.9), axis=1)
        axes.fill_between(x, low, high, color=color, alpha=0.2, lw=0)
        axes.plot(x, mid, color=color, ls="-" if color == "C0" else "--")
    axes.set_xscale("log")
    axes.set_xticks(x[::2], [f"{value:g}" for value in x[::2]])
    axes.minorticks_off()
    if method.startswith("MMD"):
        axes.set_yscale("log")
    elif method.startswith("likelihood"):
        axes.set_yscale("symlog", linthresh=10)
    axes.tick_params(labelsize=7)
    area = auc(results, numbers[len(numbers) // 2], method)
    axes.set_title(f"{method}\nAUC {area:.2f} at σ = {x[len(numbers) // 2]:g}", fontsize=9)


def ising_figure(results: xr.Dataset) -> Any:
    """Draw error rates of the smoothed and of the direct test."""
    methods = [
        "smoothed: KSD-U", "smoothed: KSD-U, whitened", "smoothed: KSD-linear", "spins: KSD-U",
        "spins: KSD-linear", "likelihood ratio",
    ]  # fmt: skip
    with mpl.rc_context(_STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
        for axes, along, fixed in (
            (left, "deviation", {"n": 200}),
            (right, "n", {"deviation": 0.4}),
        ):
            numbers = chosen_settings(results, perturbed="couplings", along=along, fixed=fixed)
            _curves(axes, results, methods, numbers, along)
        left.set(xlabel="perturbation σ of the couplings", ylabel="error rate")
        left.set_title("n = 200", fontsize=10)
        right.set(xlabel="sample size n")
        right.set_title("σ = 0.4 (spins: n = 200 only)", fontsize=10)
        right.legend(*left.get_legend_handles_labels(), fontsize=8, loc="center left",
                     bbox_to_anchor=(1.0, 0.5))  # fmt: skip
    return figure


def save_figures(datasets: dict[str, xr.Dataset], folder: Path) -> None:
    """Write all figures."""
    draw = {"mixture": mixture_figure, "boltzmann": boltzmann_figure, "ising": ising_figure}
    for name, dataset in datasets.items():
        figure = draw[name](dataset)
        figure.savefig(folder / f"paper_{name}.png", dpi=110)
        plt.close(figure)
