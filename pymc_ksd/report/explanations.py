"""Results in plain words: what was found, how sure it is, and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr

import pymc_ksd.diagnostics.sentences as sentences
from pymc_ksd.diagnostics.predictive.marks import where_marked
from pymc_ksd.diagnostics.results import (
    RESERVED,
    by_variable,
    conclusion,
    contribution_name,
    elements,
    growth,
    is_weak,
    parameter_sizes,
    status_of,
)
from pymc_ksd.diagnostics.sentences import few_hold, listed
from pymc_ksd.diagnostics.status import MOST_OF_DIAGONAL
from pymc_ksd.report.advice import may_be_chance, mismatch_of, next_step, tested
from pymc_ksd.report.findings import Explanation, Finding
from pymc_ksd.report.members import has_tilt, kind_of_error, strongest_member
from pymc_ksd.report.misfits import how_to_extend, where_it_shows
from pymc_ksd.report.mode_explanations import explain_modes
from pymc_ksd.report.moment_explanations import explain_moments

#: How many times `ess_bulk` must exceed the `ess_ksd` of a single parameter to call it low.
_LOW = 5.0
#: Variables that are named.
_NAMED = 3
#: What it means that few draws decide, and what to do about it.
_FEW_DECIDE = (
    "An error in the other draws could go unnoticed. These draws have the steepest gradients of "
    "the log density; the usual cause is a scale close to zero."
)
_NON_CENTRED = "Use a non-centred parametrization for hierarchical scales."
_LENIENT = (
    "A check that uses the data twice is lenient; ksd_test(model, new_data, posterior=idata) with "
    "held-out data is not."
)
_LEVEL_OFF = (
    "More draws of the same kind will not help: the sampler is biased, or its chains are stuck."
)
_COMPARE_WITH_NUTS = "Find out which parameters are biased with ksd_moments."


def explain(result: xr.Dataset | xr.DataTree) -> Explanation:
    """Explain what a result means and what to do next.

    Parameters
    ----------
    result : xarray.Dataset or DataTree
        What :func:`ksd_test`, :func:`ksd_moments`, :func:`ksd_expectation`, :func:`ksd_modes`,
        :func:`ksd`, :func:`ksd_evolution` or :func:`ksd_ppc` returned, also when it comes back from
        a file.

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


def _of_test(result: xr.Dataset) -> Explanation:
    status = status_of(result)
    if status == "cannot tell":
        finding = Finding("cannot tell", conclusion(result), (), next_step(result))
    elif status == "rejected":
        details = (
            *mismatch_of(result),
            *may_be_chance(result),
            *kind_of_error(result),
            *_largest_contributions(result),
        )
        finding = Finding("rejected", conclusion(result), details, next_step(result))
    else:
        blind = sentences.after_pass(tested(result))
        finding = Finding("passed", conclusion(result), (blind,))
    return Explanation((finding, *_few_decide(result)), tuple(_test_numbers(result)))


def _few_decide(result: xr.Dataset) -> tuple[Finding, ...]:
    """Say so where few draws hold most of the statistic, unless the test cannot tell anyway."""
    share = float(result.attrs.get("diagonal_share", 0.0))
    if not share > MOST_OF_DIAGONAL or status_of(result) == "cannot tell":
        return ()
    text = few_hold(int(result.attrs["n"]), share)
    if has_tilt(result) and status_of(result) == "passed":
        other = "tilted kernels, which give such draws less weight, do not reject either"
        return (Finding("passed", f"{text} without a tilt; {other}."),)
    return (Finding("warning", f"{text}.", (_FEW_DECIDE,), _NON_CENTRED),)


def _test_numbers(result: xr.Dataset) -> Iterator[tuple[str, str, str]]:
    """Walk the numbers of a test that matter, each with its meaning."""
    p_value, statistic, critical_value, ess_ksd = (
        float(result[name]) for name in ("p_value", "statistic", "critical_value", "ess_ksd")
    )
    told = status_of(result) != "cannot tell"
    kind = "exact draws" if result.attrs.get("sample") == "draws" else "data from the model"
    meaning = f"probability of a larger discrepancy for {kind}" if told else "not meaningful here"
    yield "p-value", f"{p_value:.3g}", meaning
    if not told:
        time = result.attrs.get("autocorrelation_time")
        if isinstance(time, int | float | np.number) and time > 0:
            size = f"{int(result.attrs['n']) / time:,.0f}"
            yield "ESS", size, f"effective sample size of {int(result.attrs['n']):,} draws"
        return
    unit = "squared discrepancy"
    if "member" in result.dims:
        unit = (
            f"largest standardized statistic of {result.sizes['member']} members "
            f"({strongest_member(result)})"
        )
    yield "statistic", f"{statistic:.3g}", f"{unit}; critical value {critical_value:.3g}"
    if np.isfinite(ess_ksd):
        yield "ess_ksd", *_effective(ess_ksd, int(result.attrs["n"]), "points")


def _effective(ess_ksd: float, n: int, what: str) -> tuple[str, str]:
    """Return an effective sample size, at most the number of points, and what it means."""
    meaning = f"number of exact {what} with the same discrepancy, out of {n:,}"
    return f"{min(round(ess_ksd), n):,}", meaning


def _of_check(check: xr.Dataset) -> Explanation:
    findings, numbers = [], []
    for name, one in by_variable(check).items():
        strongest = str(one["contributions_of"].item())
        status = status_of(one)
        if status == "rejected":
            shown = (*where_it_shows(one, strongest), where_marked(one))
            shown = (*filter(None, shown), *_largest_observations(one, name))
            details = (*may_be_chance(one), *shown)
            step = next_step(one) if is_weak(one) else how_to_extend(one, strongest)
            findings.append(Finding("rejected", conclusion(one), details, step))
        elif status == "cannot tell":
            findings.append(Finding("cannot tell", conclusion(one), (), next_step(one)))
        else:
            findings.append(Finding("passed", conclusion(one), (_LENIENT,)))
        meaning = f"share of replicated data sets with a larger discrepancy, mostly by {strongest}"
        numbers.append((f"p-value of {name}", f"{float(one['p_value']):.3g}", meaning))
    findings.sort(key=lambda one: ("rejected", "cannot tell", "passed").index(one.status))
    left_out = str(check.attrs.get("left_out", "")).splitlines()
    findings += [Finding("unknown", f"Not checked: {reason}") for reason in left_out]
    return Explanation(tuple(findings), tuple(numbers))


def _largest_observations(check: xr.Dataset, name: str) -> tuple[str, ...]:
    """Name the observations that contribute most to a misfit: those of the picture, if any."""
    has_names = "picture_within" in check  # not in results of former versions
    if named := [str(one) for one in check["picture_name"].values if one] if has_names else []:
        within = str(check["picture_within"].item())
        shown = listed([f"{name}[{label}]" for label in named])
        where = f" in {within}" if within else ""
        return (
            f"The observations that contribute most{where}: {shown}. plot_ksd_ppc shows where.",
        )
    array = check.get(contribution_name(name))
    if array is None or not np.isfinite(array.values).any():
        return ()
    order = np.argsort(-np.nan_to_num(array.values, nan=-np.inf), axis=None)[:_NAMED]
    labels = [label for label, _ in elements(name, array)]
    shown = listed([labels[place] for place in order])
    return (f"The observations that contribute most: {shown}.",)


def _of_evolution(evolution: xr.Dataset) -> Explanation:
    level, text = growth(evolution)
    if level:
        return Explanation((Finding("warning", f"{text}.", (_LEVEL_OFF,), _COMPARE_WITH_NUTS),))
    return Explanation((Finding("passed", f"{text}, and falls as draws accumulate.", ()),))


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
        ("ksd", f"{float(measures['ksd']):.3g}", "discrepancy: without unit, smaller is better"),
        ("ess_ksd", *_effective(float(measures["ess_ksd"]), n, "draws")),
    )
    headline = f"{sentences.worth(float(measures['ess_ksd']), n)}."
    test = "Test all parameters together with ksd_test."
    if not behind:
        blind = (
            "The ess_ksd of single parameters cannot detect an error that correlated ones share."
        )
        return Explanation((Finding("passed", headline, (blind,), test),), numbers)
    behind.sort(key=lambda row: row[1] / row[2])
    worst = [
        f"{label} ({own:,.0f}, with an ess_bulk of {usual:,.0f})"
        for label, own, usual in behind[:_NAMED]
    ]
    detail = (
        f"ess_ksd is low for {listed(worst)}. The draws may be wrong, but where parameters are "
        "correlated, other parameters may be the cause."
    )
    return Explanation((Finding("warning", headline, (detail,), test),), numbers)


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
    return (
        f"Most of the discrepancy comes from {listed(names)}; if variables are correlated, others "
        "may be the cause.",
    )


#: How each kind of result is explained.
_EXPLAINED: dict[str, Callable[[xr.Dataset], Explanation]] = {
    "ksd_test": _of_test,
    "ksd_moments": explain_moments,
    "ksd_modes": explain_modes,
    "ksd_expectation": explain_moments,
    "ksd": _of_measures,
    "ksd_evolution": _of_evolution,
    "ksd_ppc": _of_check,
}
