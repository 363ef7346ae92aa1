"""What ArviZ finds out about a sampler's draws, in words beside those about the discrepancy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_ksd.report.findings import Finding
from pymc_ksd.samples.containers import draws_group, with_numbers

#: ArviZ's limits: the largest R-hat, effective draws for each chain, the smallest E-BFMI.
_LARGEST_RHAT, _SMALLEST_ESS, _SMALLEST_BFMI = 1.01, 100, 0.3
#: Draws of a chain that ArviZ needs.
_FEWEST_DRAWS = 4
#: An R-hat above this is not told more exactly.
_HUGE_RHAT = 100
#: Variables that are named.
_NAMED = 5


def arviz_findings(data: Any) -> tuple[Finding, ...]:
    """Say what ArviZ's diagnostics find: R-hat, effective sample sizes, divergences, energy.

    Parameters
    ----------
    data : DataTree, InferenceData or Dataset
        A sampler's draws, and its statistics where it has some.

    Returns
    -------
    tuple of Finding
        Warnings, or a single finding that there are none.
    """
    tree = _tree(data)
    n_chains, n_draws = (tree["posterior"].sizes[dim] for dim in ("chain", "draw"))
    if n_draws < _FEWEST_DRAWS:
        needs = f"ArviZ needs at least {_FEWEST_DRAWS} draws of a chain for its diagnostics."
        return (Finding("unknown", needs),)
    with np.errstate(all="ignore"):  # of constants and single chains, whose values are NaN
        found = _diagnosed(tree)
    findings = _warnings(found, n_chains, n_draws)
    if n_chains == 1:
        findings.append(
            Finding(
                "unknown",
                "With a single chain, R-hat cannot be computed.",
                (),
                "Run several chains from different starting points.",
            )
        )
    return tuple(findings) or (Finding("passed", "ArviZ's diagnostics find no problem."),)


def worst_numbers(data: Any) -> str:
    """Name the largest R-hat and the smallest effective sample size, as far as there are any."""
    import arviz_stats

    tree = _tree(data)
    n_chains, n_draws = (tree["posterior"].sizes[dim] for dim in ("chain", "draw"))
    if n_draws < _FEWEST_DRAWS:
        return ""
    with np.errstate(all="ignore"):  # of constants and single chains, whose values are NaN
        ranks = [arviz_stats.rhat(tree, method=name).to_dataset() for name in ("rank", "folded")]
        bulk = arviz_stats.ess(tree, method="bulk").to_dataset()
    parts = []
    name, rhat = _largest(xr.apply_ufunc(np.fmax, *ranks))
    if name:
        size = f"above {_HUGE_RHAT}" if rhat > _HUGE_RHAT else f"{rhat:.2f}"
        parts.append(f"the largest R-hat is {size} ({name})")
    name, negative = _largest(-bulk)
    if name:
        total = n_chains * n_draws
        parts.append(f"the smallest bulk ESS is {-negative:,.0f} of {total:,} draws ({name})")
    text = " and ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _largest(numbers: xr.Dataset) -> tuple[str, float]:
    """Return the variable with the largest number, and that number; no name if all are NaN."""
    largest = {str(name): float(array.max()) for name, array in numbers.items()}
    known = {name: number for name, number in largest.items() if not np.isnan(number)}
    return max(known.items(), key=lambda item: item[1], default=("", np.nan))


def _tree(data: Any) -> xr.DataTree:
    """Return draws with numbers, and the sampler's statistics, as ArviZ wants them."""
    posterior = draws_group(data)
    assert posterior is not None  # whoever calls has tested these draws
    # ArviZ 1 cannot subtract booleans.
    posterior = with_numbers(posterior).astype(np.float64, copy=False)
    statistics = draws_group(data, "sample_stats")
    # ArviZ wants labels for chains and draws.
    numbers = {dim: np.arange(posterior.sizes[dim]) for dim in ("chain", "draw")}
    tree = xr.DataTree()
    for name, group in {"posterior": posterior, "sample_stats": statistics}.items():
        if group is not None:
            missing = {dim: numbers[dim] for dim in numbers if dim not in group.coords}
            tree[name] = xr.DataTree(group.assign_coords(missing))
    return tree


def _warnings(found: dict[str, Any], n_chains: int, n_draws: int) -> list[Finding]:
    """Put what fails into words, each with what to do about it."""
    rhat, ess, bfmi = (_few(found[name]) for name in ("rhat", "ess", "bfmi"))
    words = {
        "rhat": (
            f"R-hat is above {_LARGEST_RHAT} for {rhat}: the chains disagree.",
            "Run longer chains; if that does not help, reparametrize the model or use stronger "
            "priors.",
        ),
        "ess": (
            f"The effective sample size is below {_SMALLEST_ESS * n_chains} for {ess}.",
            "Run longer chains, or reparametrize the model.",
        ),
        "divergent": (
            f"{found['divergent']:,} of {n_chains * n_draws:,} transitions diverged.",
            "Increase target_accept; if divergences remain, reparametrize the model.",
        ),
        "treedepth": (
            f"{found['treedepth']:,} transitions reached the maximum tree depth.",
            "Increase max_treedepth, or rescale the parameters.",
        ),
        "bfmi": (
            f"E-BFMI is below {_SMALLEST_BFMI} in chain {bfmi}: the energy is explored slowly.",
            "Reparametrize the model; heavy tails and hierarchies are the usual causes.",
        ),
    }
    return [
        Finding("warning", headline, (), step)
        for name, (headline, step) in words.items()
        if found[name]
    ]


def _diagnosed(tree: xr.DataTree) -> dict[str, Any]:
    """Return what fails: names of variables and chains, and numbers of transitions."""
    import arviz as az
    import arviz_stats

    bulk = arviz_stats.ess(tree, method="bulk").to_dataset()
    least = _SMALLEST_ESS * tree["posterior"].sizes["chain"]
    found: dict[str, Any] = {"ess": [name for name in bulk if (bulk[name] < least).any()]}
    if hasattr(az, "diagnose"):
        _, details = az.diagnose(
            tree,
            rhat_max=_LARGEST_RHAT,
            bfmi_threshold=_SMALLEST_BFMI,
            show_diagnostics=False,
            return_diagnostics=True,
        )
        found["rhat"] = details["rhat"]["bad_params"]
        found["bfmi"] = details.get("bfmi", {}).get("failed_chains", [])
        found["divergent"] = details.get("divergent", {}).get("n_divergent", 0)
        found["treedepth"] = details.get("treedepth", {}).get("n_max", 0)
        return found
    # ArviZ 0.23 has the numbers, without limits.
    statistics = tree["sample_stats"] if "sample_stats" in tree.children else {}
    ranks = [arviz_stats.rhat(tree, method=method).to_dataset() for method in ("rank", "folded")]
    found["rhat"] = [
        name for name in bulk if any((rank[name] > _LARGEST_RHAT).any() for rank in ranks)
    ]
    found["bfmi"] = []
    if "energy" in statistics:
        energy = arviz_stats.bfmi(tree)["energy"]
        found["bfmi"] = energy["chain"].values[energy.values < _SMALLEST_BFMI].tolist()
    for key, name in {"divergent": "diverging", "treedepth": "reached_max_treedepth"}.items():
        found[key] = int(statistics[name].sum()) if name in statistics else 0
    return found


def _few(names: Sequence[Any]) -> str:
    """Name some of many."""
    shown = ", ".join(str(name) for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown
