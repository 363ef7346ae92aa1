"""Results in plain words: what was found, how sure it is, and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import (
    RESERVED,
    conclusion,
    elements,
    growth,
    parameter_sizes,
    worth,
)

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["Explanation", "Finding", "explain", "listed", "low_share", "near_the_level"]

Status = Literal["passed", "warning", "rejected", "unknown"]

#: How a status looks: colour in a terminal, colour on a page, the word that goes with it.
APPEARANCE: dict[str, tuple[str, str, str]] = {
    "passed": ("green", "#1b7837", "passed"),
    "warning": ("yellow", "#8a5a00", "look closer"),
    "rejected": ("red", "#c1272d", "rejected"),
    "unknown": ("blue", "#1f4e79", "not checked"),
}
#: How many times `ess_bulk` must exceed the `ess_ksd` of a single parameter to call it low.
_LOW = 5.0
#: Share of its level above which a p-value that rejects may well be chance.
_NEAR = 0.2
#: Variables that are named.
_NAMED = 3


@dataclass(frozen=True)
class Finding:
    """One thing that was found out.

    Parameters
    ----------
    status : {"passed", "warning", "rejected", "unknown"}
        What it means.
    headline : str
        The finding in one sentence.
    advice : tuple of str
        What to do next.
    """

    status: Status
    headline: str
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """What a result says, in words and in a few numbers with their meaning.

    It shows itself: as text where it is printed, in colour on a ``rich`` console, and as HTML in a
    notebook.

    Parameters
    ----------
    findings : tuple of Finding
        The most important one first.
    numbers : tuple of (str, str, str)
        Name, value and meaning of the numbers that matter.
    """

    findings: tuple[Finding, ...]
    numbers: tuple[tuple[str, str, str], ...] = ()

    @property
    def status(self) -> Status:
        """The status of the first finding."""
        return self.findings[0].status

    def __str__(self) -> str:
        """Return the words and numbers as plain text."""
        lines = []
        for finding in self.findings:
            lines += [finding.headline, *(f"  - {advice}" for advice in finding.advice)]
        width = max((len(name) for name, _, _ in self.numbers), default=0)
        lines += [f"{name:<{width}}  {value}  ({text})" for name, value, text in self.numbers]
        return "\n".join(lines)

    __repr__ = __str__

    def __rich__(self) -> Group:
        """Return the words and numbers for a ``rich`` console."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[Text | Table] = []
        for finding in self.findings:
            parts.append(Text(finding.headline, style=f"bold {APPEARANCE[finding.status][0]}"))
            parts += [Text(f"  • {advice}") for advice in finding.advice]
        if self.numbers:
            table = Table("", "", "", box=None, show_header=False, padding=(0, 2, 0, 0))
            for row in self.numbers:
                table.add_row(*(Text(cell) for cell in row))
            parts.append(table)
        return Group(*parts)

    def _repr_html_(self) -> str:
        """Return the words and numbers as HTML."""
        parts = ['<div class="pymc-ksd-explanation">']
        for finding in self.findings:
            colour = APPEARANCE[finding.status][1]
            parts.append(f'<p style="color:{colour}"><b>{escape(finding.headline)}</b></p>')
            if finding.advice:
                items = "".join(f"<li>{escape(advice)}</li>" for advice in finding.advice)
                parts.append(f"<ul>{items}</ul>")
        if self.numbers:
            cell = 'style="text-align:left;padding:0 .75em"'
            rows = (
                f'<tr><th scope="row" {cell}>{escape(name)}</th><td {cell}>{escape(value)}</td>'
                f"<td {cell}>{escape(text)}</td></tr>"
                for name, value, text in self.numbers
            )
            parts.append(f"<table>{''.join(rows)}</table>")
        return "".join([*parts, "</div>"])


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


def near_the_level(p_value: float, alpha: float) -> tuple[str, ...]:
    """Say that a rejection may be chance, where its p-value is not far below the level."""
    if not _NEAR * alpha < p_value <= alpha:
        return ()
    return (
        f"The p-value is close to the level, at which {alpha:.2g} of all true ones are rejected by "
        "chance: repeat it with new draws or data, where there are any, before looking for an "
        "error.",
    )


def _of_test(result: xr.Dataset) -> Explanation:
    rejected = float(result["p_value"]) <= float(result.attrs["alpha"])
    draws = result.attrs.get("sample") == "draws"
    target = "posterior" if draws else str(result.attrs.get("target"))
    advice = (_AFTER_REJECTION if rejected else _AFTER_PASS).get(target)
    if advice is None:
        advice = (_AFTER_REJECTION if rejected else _AFTER_PASS)["data"]
    if rejected:
        names = _largest_contributions(result)
        if names:
            advice = (f"Most of the discrepancy comes from {names}.", *advice)
        advice = (*near_the_level(float(result["p_value"]), float(result.attrs["alpha"])), *advice)
    numbers = [
        ("p-value", f"{float(result['p_value']):.3g}", "how often true ones look this bad"),
        (
            "statistic",
            f"{float(result['statistic']):.3g}",
            f"squared discrepancy; critical value {float(result['critical_value']):.3g}",
        ),
    ]
    if np.isfinite(float(result["ess_ksd"])):
        numbers.append(
            (
                "ess_ksd",
                f"{float(result['ess_ksd']):,.0f}",
                f"of {int(result.attrs['n']):,}: independent exact points this close to the target",
            )
        )
    status: Status = "rejected" if rejected else "passed"
    return Explanation((Finding(status, conclusion(result), advice),), tuple(numbers))


def _of_check(check: xr.Dataset) -> Explanation:
    findings, numbers = [], []
    names = [str(name) for name in np.atleast_1d(check["variable"].values)]
    for name in names:
        one = check.sel(variable=name) if "variable" in check.dims else check
        rejected = float(one["p_value"]) <= float(check.attrs["alpha"])
        strongest = str(one["contributions_of"].item())
        advice: tuple[str, ...] = (
            "A check that uses the data twice is lenient: hold data out and use ksd_test(model, "
            "new_data, posterior=idata) for a test that is not.",
        )
        if rejected:
            advice = (
                *_misfits(one, strongest),
                "plot_ksd_witness shows where the model expects larger or smaller values.",
            )
        findings.append(Finding("rejected" if rejected else "passed", conclusion(one), advice))
        numbers.append(
            (
                f"p-value of {name}",
                f"{float(one['p_value']):.3g}",
                f"share of replicated data sets at least as far off; strongest by {strongest}",
            )
        )
    findings.sort(key=lambda finding: finding.status != "rejected")
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


def _largest_contributions(result: xr.Dataset) -> str:
    """Name the variables that contribute most to a rejected test, if there are several."""
    parts = [
        (float(value), label)
        for name, array in result.data_vars.items()
        if name not in RESERVED
        for label, value in elements(name, array)
    ]
    if len(parts) < 2:
        return ""
    parts.sort(reverse=True)
    return listed([label for value, label in parts[:_NAMED] if value > 0])


def listed(names: Sequence[str]) -> str:
    """Return names with commas and an "and"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


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
#: How each kind of result is explained.
_EXPLAINED: dict[str, Callable[[xr.Dataset], Explanation]] = {
    "ksd_test": _of_test,
    "ksd": _of_measures,
    "ksd_evolution": _of_evolution,
    "ksd_ppc": _of_check,
}
