"""Results in plain words: what was found, how sure it is, and what to do next."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import (
    RESERVED,
    by_variable,
    conclusion,
    elements,
    growth,
    parameter_sizes,
    rejects,
    worth,
)
from pymc_ksd.report.findings import Explanation, Finding, listed

#: How many times `ess_bulk` must exceed the `ess_ksd` of a single parameter to call it low.
_LOW = 5.0
#: Share of its level above which a p-value that rejects may well be chance.
_NEAR = 0.2
#: Variables that are named.
_NAMED = 3
#: What to do after a test that rejects, by what was tested.
_AFTER_REJECTION: dict[str, tuple[str, ...]] = {
    "posterior": (
        "Look at R-hat and divergences first: chains that disagree need a longer run or another "
        "parametrization.",
        "Draws of an approximation (ADVI, Pathfinder, Laplace): its error is more than chance. "
        "Sample with NUTS, or use a richer approximation.",
        "Chains that agree with each other and not with the posterior: were the draws made with "
        "this very model and these data, and does the sampler correct its steps?",
    ),
    "predictive": (
        "New data differ from what the fitted model predicts: look for a change since the fit, "
        "and check the fit itself with ksd_ppc.",
    ),
    "data": (
        "Draw from the model and compare with the data; plot_ksd_test shows how clear the "
        "rejection is.",
        "A large sample finds small errors: decide whether this one matters for your question.",
    ),
}
#: The same after one that does not.
_AFTER_PASS: dict[str, tuple[str, ...]] = {
    "posterior": (
        "The test uses gradients of the log-density where there are draws. It cannot see modes "
        "that no chain has visited, nor how much weight modes far apart have: keep looking at "
        "R-hat of chains with dispersed starts.",
    ),
    "predictive": ("No evidence against a model is not evidence for it; more new data tell more.",),
    "data": (
        "No evidence against a model is not evidence for it. Parameters that were estimated from "
        "the same data make the test lenient.",
    ),
}
#: What to do about a misfit, by the comparison that shows it most.
_MISFITS = {
    "residuals": (
        "The distribution of the residuals is wrong, for all observations alike: try heavier "
        "tails, skewness, over-dispersion or a mixture."
    ),
    "parameters": (
        "The misfit changes with the fitted values: let the spread or the shape vary with them, or "
        "transform the outcome."
    ),
    "inputs": (
        "The misfit changes with the inputs: add a curve, an interaction, a group effect or a "
        "spread that depends on them."
    ),
    "covariates": (
        "The misfit changes with the covariates that were given: let the model depend on them."
    ),
}
_WITNESS_SHOWS = "plot_ksd_witness shows where the model expects larger or smaller values."
_LENIENT = (
    "A check that uses the data twice is lenient: hold data out and use ksd_test(model, new_data, "
    "posterior=idata) for a test that is not."
)


def explain(result: xr.Dataset | xr.DataTree) -> Explanation:
    """Say in plain words what a result means and what to do next.

    Parameters
    ----------
    result : xarray.Dataset or DataTree
        What :func:`ksd_test`, :func:`ksd`, :func:`ksd_evolution` or :func:`ksd_ppc` returned, also
        when it comes back from a file.

    Returns
    -------
    Explanation
        Shows itself in a notebook, prints as text, and has ``findings`` and ``numbers``.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_ksd
    >>> score = pymc_ksd.Score.from_callable(lambda x: -x, dim=1)
    >>> result = pymc_ksd.ksd_test(score, np.random.default_rng(0).normal(1, 1, 100), random_seed=0)
    >>> print(pymc_ksd.explain(result).findings[0].headline)
    Rejected at level 0.05 (p = 0.001): the data do not come from the model.
    """
    if isinstance(result, xr.DataTree):
        result = result.to_dataset()
    if not isinstance(result, xr.Dataset):
        raise TypeError(f"`result` must be a Dataset or DataTree, got {type(result).__name__}.")
    explained = _EXPLAINED.get(str(result.attrs.get("result")))
    if explained is None:
        raise ValueError(
            f"`result` must come from {', '.join(_EXPLAINED)}, which its attribute 'result' says; "
            f"it says {result.attrs.get('result')!r}."
        )
    return explained(result)


def low_share(count: int) -> float:
    """Return the share of `ess_bulk` below which the `ess_ksd` of one of several is called low.

    The inverse of `ess_ksd` has exponential tails: with a bound that grows with the logarithm of
    their number, exact draws of many parameters have a low one as seldom as those of one.
    """
    return 1 / (_LOW + float(np.log(max(count, 1))))


def near_the_level(result: xr.Dataset) -> tuple[str, ...]:
    """Say that a rejection may be chance, where its p-value is not far below the level."""
    p_value, alpha = float(result["p_value"]), float(result.attrs["alpha"])
    if not _NEAR * alpha < p_value <= alpha:
        return ()
    return (
        f"The p-value is close to the level, at which {alpha:.2g} of all true ones are rejected by "
        "chance: repeat it with new draws or data, where there are any, before looking for an "
        "error.",
    )


def _of_test(result: xr.Dataset) -> Explanation:
    rejected = rejects(result)
    draws = result.attrs.get("sample") == "draws"
    target = "posterior" if draws else str(result.attrs.get("target"))
    known = _AFTER_REJECTION if rejected else _AFTER_PASS
    advice = known.get(target, known["data"])
    if rejected:
        advice = (*near_the_level(result), *_largest_contributions(result), *advice)
    p_value, statistic, critical_value, ess_ksd = (
        float(result[name]) for name in ("p_value", "statistic", "critical_value", "ess_ksd")
    )
    numbers = [
        ("p-value", f"{p_value:.3g}", "how often true ones look this bad"),
        (
            "statistic",
            f"{statistic:.3g}",
            f"squared discrepancy; critical value {critical_value:.3g}",
        ),
    ]
    if np.isfinite(ess_ksd):
        meaning = "independent exact points this close to the target"
        numbers.append(("ess_ksd", f"{ess_ksd:,.0f}", f"of {int(result.attrs['n']):,}: {meaning}"))
    finding = Finding("rejected" if rejected else "passed", conclusion(result), advice)
    return Explanation((finding,), tuple(numbers))


def _of_check(check: xr.Dataset) -> Explanation:
    findings, numbers = [], []
    for name, one in by_variable(check).items():
        strongest = str(one["contributions_of"].item())
        if rejects(one):
            advice = (*_misfits(one, strongest), _WITNESS_SHOWS)
            findings.append(Finding("rejected", conclusion(one), advice))
        else:
            findings.append(Finding("passed", conclusion(one), (_LENIENT,)))
        meaning = f"share of replicated data sets at least as far off; strongest by {strongest}"
        numbers.append((f"p-value of {name}", f"{float(one['p_value']):.3g}", meaning))
    findings.sort(key=lambda finding: finding.status != "rejected")
    left_out = str(check.attrs.get("left_out", "")).splitlines()
    findings += [Finding("unknown", f"Not checked: {reason}") for reason in left_out]
    return Explanation(tuple(findings), tuple(numbers))


def _misfits(check: xr.Dataset, strongest: str) -> list[str]:
    """Say what to do about the comparisons that show a misfit by themselves, strongest first."""
    p_values = dict(
        zip(check["comparison"].values.tolist(), check["comparison_p_value"].values, strict=True)
    )
    alpha = float(check.attrs["alpha"])
    others = [name for name, p in p_values.items() if p <= alpha and name != strongest]
    columns: dict[str, list[str]] = {}
    for name in (strongest, *others):
        # Many columns are compared one by one, each under the name of its kind.
        kind, _, column = name.partition(": ")
        columns.setdefault(kind, []).extend([column] if column else [])
    return [
        _MISFITS[kind] + (f" It shows most by {listed(names[:_NAMED])}." if names else "")
        for kind, names in columns.items()
    ]


def _of_evolution(evolution: xr.Dataset) -> Explanation:
    level, text = growth(evolution)
    if level:
        advice = (
            "More draws of the same kind will not help: the sampler is biased, or its chains are "
            "stuck. Compare with draws of NUTS.",
        )
        return Explanation((Finding("warning", f"{text}.", advice),))
    return Explanation((Finding("passed", f"{text}; more draws would be worth more.", ()),))


def _of_measures(measures: xr.Dataset) -> Explanation:
    n = int(measures.attrs["n"])
    labels, sizes = parameter_sizes(measures)
    low = low_share(len(labels))
    behind = [
        (label, own, usual)
        for label, (own, usual) in zip(labels, sizes, strict=True)
        if own < low * min(usual, n)
    ]
    numbers = (
        ("ksd", f"{float(measures['ksd']):.3g}", "the discrepancy; no unit, smaller is better"),
        ("ess_ksd", f"{float(measures['ess_ksd']):,.0f}", f"of {n:,} draws"),
    )
    headline = f"{worth(float(measures['ess_ksd']), n)}."
    if not behind:
        return Explanation((Finding("passed", headline, ()),), numbers)
    behind.sort(key=lambda row: row[1] / row[2])
    worst = [
        f"{label} (worth {own:,.0f} exact draws, by autocorrelation {usual:,.0f})"
        for label, own, usual in behind[:_NAMED]
    ]
    advice = (
        f"Draws look biased for {listed(worst)}.",
        "ksd_test tells whether the draws as a whole differ from the posterior by more than "
        "chance.",
    )
    return Explanation((Finding("warning", headline, advice),), numbers)


def _largest_contributions(result: xr.Dataset) -> tuple[str, ...]:
    """Name the variables that contribute most to a rejected test, if there are several."""
    parts = [
        (float(value), label)
        for name, array in result.data_vars.items()
        if name not in RESERVED
        for label, value in elements(name, array)
    ]
    names = [label for value, label in sorted(parts, reverse=True)[:_NAMED] if value > 0]
    if len(parts) < 2 or not names:
        return ()
    return (f"Most of the discrepancy comes from {listed(names)}.",)


#: How each kind of result is explained.
_EXPLAINED: dict[str, Callable[[xr.Dataset], Explanation]] = {
    "ksd_test": _of_test,
    "ksd": _of_measures,
    "ksd_evolution": _of_evolution,
    "ksd_ppc": _of_check,
}
