"""Results in plain words: what was found, how sure it is, and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.predictive.marks import where_marked
from pymc_ksd.diagnostics.results import (
    RESERVED,
    by_variable,
    conclusion,
    elements,
    growth,
    parameter_sizes,
    status_of,
    worth,
)
from pymc_ksd.diagnostics.status import MOST_OF_DIAGONAL, few_hold
from pymc_ksd.report.advice import after_pass, after_rejection, may_be_chance, next_step
from pymc_ksd.report.findings import Explanation, Finding, listed
from pymc_ksd.report.members import has_tilt, loudest_member, which_member_speaks
from pymc_ksd.report.mode_explanations import explain_modes
from pymc_ksd.report.moment_explanations import explain_moments

#: How many times `ess_bulk` must exceed the `ess_ksd` of a single parameter to call it low.
_LOW = 5.0
#: Variables that are named.
_NAMED = 3
#: What to do where few draws decide.
_FEW_DECIDE = (
    "An error in all other draws could go unseen. Look at the draws whose log-density has the "
    "steepest gradient: scales near zero are the usual cause, and a non-centred parametrization is "
    "the usual cure.",
)
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
    "past": (
        "The misfit changes with what came before: add lags, or let the spread depend on the steps "
        "before."
    ),
    "inputs": (
        "The misfit changes with the inputs: add a curve, an interaction, a group effect or a "
        "spread that depends on them."
    ),
    "groups": (
        "The misfit differs between groups: add a group effect, or let the spread or the shape "
        "differ between them."
    ),
    "inputs within groups": (
        "The misfit changes with the inputs in another way in every group: let slopes or curves "
        "vary between groups."
    ),
    "covariates": (
        "The misfit changes with the covariates that were given: let the model depend on them."
    ),
    "covariates within groups": (
        "The misfit changes with the covariates that were given, in another way in every group: "
        "let the model depend on both."
    ),
}
_PICTURE_SHOWS = "plot_ksd_ppc shows where, on the data."
_LENIENT = (
    "A check that uses the data twice is lenient: hold data out and use ksd_test(model, new_data, "
    "posterior=idata) for a test that is not."
)


def explain(result: xr.Dataset | xr.DataTree) -> Explanation:
    """Say in plain words what a result means and what to do next.

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
    draws = result.attrs.get("sample") == "draws"
    target = "posterior" if draws else str(result.attrs.get("target"))
    if status == "cannot tell":
        advice: tuple[str, ...] = (next_step(result),)
        finding = Finding("cannot tell", conclusion(result), advice)
    elif status == "rejected":
        advice = after_rejection(target)
        speaks = which_member_speaks(result)
        advice = (*may_be_chance(result), *speaks, *_largest_contributions(result), *advice)
        finding = Finding("rejected", conclusion(result), advice)
    else:
        advice = after_pass(target)
        finding = Finding("passed", conclusion(result), advice)
    return Explanation((finding, *_few_decide(result)), tuple(_test_numbers(result)))


def _few_decide(result: xr.Dataset) -> tuple[Finding, ...]:
    """Say so where few draws hold most of the statistic, unless the test cannot tell anyway."""
    share = float(result.attrs.get("diagonal_share", 0.0))
    if not share > MOST_OF_DIAGONAL or status_of(result) == "cannot tell":
        return ()
    text = few_hold(int(result.attrs["n"]), share)
    if has_tilt(result) and status_of(result) == "passed":
        other = "tilted kernels, in which such draws count less, do not reject either"
        return (Finding("passed", f"{text} without a tilt; {other}."),)
    return (Finding("warning", f"{text}: so few decide.", _FEW_DECIDE),)


def _test_numbers(result: xr.Dataset) -> Iterator[tuple[str, str, str]]:
    """Walk the numbers of a test that matter, each with its meaning."""
    p_value, statistic, critical_value, ess_ksd = (
        float(result[name]) for name in ("p_value", "statistic", "critical_value", "ess_ksd")
    )
    told = status_of(result) != "cannot tell"
    meaning = "how often true ones look this bad" if told else "says nothing here"
    yield "p-value", f"{p_value:.3g}", meaning
    if not told:
        time = result.attrs.get("autocorrelation_time")
        if isinstance(time, int | float | np.number) and time > 0:
            size = f"{int(result.attrs['n']) / time:,.0f}"
            yield "ESS", size, f"effective draws of {int(result.attrs['n']):,}, chain by chain"
        return
    unit = "squared discrepancy"
    if "member" in result.dims:
        unit = f"largest of {result.sizes['member']} members in sd, {loudest_member(result)}"
    yield "statistic", f"{statistic:.3g}", f"{unit}; critical value {critical_value:.3g}"
    if np.isfinite(ess_ksd):
        yield "ess_ksd", *_effective(ess_ksd, int(result.attrs["n"]), "points")


def _effective(ess_ksd: float, n: int, what: str) -> tuple[str, str]:
    """Return an effective sample size, at most the number of points, and what it means."""
    if round(ess_ksd) >= n:
        return f"{n:,}", f"of {n:,}: the discrepancy is as good as that of exact {what}"
    return f"{ess_ksd:,.0f}", f"of {n:,}: this many exact {what} would have such a discrepancy"


def _of_check(check: xr.Dataset) -> Explanation:
    findings, numbers = [], []
    for name, one in by_variable(check).items():
        strongest = str(one["contributions_of"].item())
        status = status_of(one)
        if status == "rejected":
            advice = (
                *may_be_chance(one),
                *_misfits(one, strongest),
                f"{where_marked(one)} {_PICTURE_SHOWS}".lstrip(),
            )
            findings.append(Finding("rejected", conclusion(one), advice))
        elif status == "cannot tell":
            findings.append(Finding("cannot tell", conclusion(one), (next_step(one),)))
        else:
            findings.append(Finding("passed", conclusion(one), (_LENIENT,)))
        meaning = f"share of replicated data sets at least as far off; strongest by {strongest}"
        numbers.append((f"p-value of {name}", f"{float(one['p_value']):.3g}", meaning))
    findings.sort(key=lambda one: ("rejected", "cannot tell", "passed").index(one.status))
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
        ("ess_ksd", *_effective(float(measures["ess_ksd"]), n, "draws")),
    )
    headline = f"{worth(float(measures['ess_ksd']), n)}."
    test = (
        "ksd_test compares all parameters together, and tells whether the draws differ from the "
        "posterior by more than chance."
    )
    if not behind:
        blind = "Numbers of single parameters cannot see an error that correlated ones share."
        return Explanation((Finding("passed", headline, (blind, test)),), numbers)
    behind.sort(key=lambda row: row[1] / row[2])
    worst = [
        f"{label} ({own:,.0f}, with an ess_bulk of {usual:,.0f})"
        for label, own, usual in behind[:_NAMED]
    ]
    advice = (
        f"ess_ksd is low for {listed(worst)}: a sign that the draws are wrong, though where "
        "parameters are correlated, not that these are the wrong ones.",
        test,
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
    return (
        f"Most of the discrepancy comes from {listed(names)}; where variables are correlated, the "
        "error may be in others.",
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
