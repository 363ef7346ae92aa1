"""What a report on a fitted model says, as text, as a page, on a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

import pymc_ksd.plots as plots
import pymc_ksd.report.html_page as html
from pymc_ksd.diagnostics.predictive.marks import where_marked
from pymc_ksd.diagnostics.results import (
    by_variable,
    conclusion,
    parameter_table,
    status_of,
    why_uncorrected,
)
from pymc_ksd.report.findings import APPEARANCE, Explanation, Finding, rich_lines

if TYPE_CHECKING:
    from rich.console import Group

#: Columns of the summary table that are looked at first; a terminal has room for these alone.
_TERMINAL_COLUMNS = ("mean", "sd", "ess_bulk", "r_hat", "rhat", "bias_mean", "bias_sd", "p_value")
_FIRST_COLUMNS = (*_TERMINAL_COLUMNS, "stein_mean", "stein_mcse")
#: Rows of the summary table that a terminal shows.
_TERMINAL_ROWS = 12
#: Numbers and settings of the test that JSON holds.
_TEST_NUMBERS = ("p_value", "statistic", "critical_value", "ksd", "ess_ksd")
_TEST_SETTINGS = ("n", "n_chains", "null", "kernel")
#: Pictures of the draws: of which result, how it is drawn, and the caption.
_OF_DRAWS = (
    (
        "test",
        plots.plot_ksd_test,
        "The test statistic of the draws (line) and its distribution for exact draws.",
    ),
    (
        "evolution",
        plots.plot_ksd_evolution,
        "The discrepancy as draws accumulate. For exact draws it falls with the dashed line.",
    ),
)
#: The caption of the picture of parameters.
_MOMENTS = (
    "Errors of the mean and the standard deviation of each parameter, with 95 % intervals, the "
    "largest first. Pale errors are not significant."
)
#: What is said above the table of parameters.
_PARAMETERS = (
    "bias_mean is the error of the mean in posterior standard deviations, bias_sd that of the "
    "standard deviation as a fraction. stein_mean is the corrected mean, stein_mcse its standard "
    "error. Coloured rows have a p_value, adjusted for the number of rows, of at most {level:g}."
)
#: Pictures of every observed variable.
_OF_MODEL = (
    (
        plots.plot_ksd_ppc,
        "The observed {name}, and what the model expects: the median and 95 % of replicated data. "
        "Where they disagree is shaded. {where}",
    ),
    (
        plots.plot_ksd_witness,
        "Where the discrepancy finds that the model and {name} disagree: above zero the model "
        "expects larger values. Of replicated data, 95 % stay within the band everywhere.",
    ),
)
#: What is said above the table of comparisons.
_COMPARISONS = (
    "The p-value joins all comparisons of each variable. By itself, each has the p_value in its "
    "row; coloured rows are at or below the level {level:g}."
)


@dataclass(frozen=True)
class Report:
    """What :func:`ksd_report` found, displayed in notebooks and on terminals.

    Parameters
    ----------
    title : str
        The page's title.
    verdict : Finding
        The conclusion in one sentence, and the next step.
    findings : tuple of Finding
        What was found, one by one.
    test, moments, measures, evolution : xarray.Dataset or None
        What :func:`ksd_test`, :func:`ksd_moments`, :func:`ksd` and :func:`ksd_evolution` say of the
        draws; None where they cannot be checked.
    summary : pandas.DataFrame or None
        The table of :func:`ksd_summary`.
    check : xarray.Dataset or None
        What :func:`ksd_ppc` says of the model; None where it was not wanted or cannot be done.
    notes : tuple of str
        What else there is to know.
    missing : tuple of str
        What was wanted and could not be had, and why.
    reason : str
        Why a test or check cannot tell or was not made, or an empty string.
    settings : mapping
        Versions, seed and the like.
    modes : xarray.Dataset or None
        What :func:`ksd_modes` says of the draws; None where it was not wanted or cannot be done.
    """

    title: str
    verdict: Finding
    findings: tuple[Finding, ...]
    test: xr.Dataset | None
    moments: xr.Dataset | None
    measures: xr.Dataset | None
    evolution: xr.Dataset | None
    summary: pd.DataFrame | None
    check: xr.Dataset | None
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    reason: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    modes: xr.Dataset | None = None

    @property
    def rejected(self) -> bool:
        """Whether a test rejected the draws or the model."""
        return self.verdict.status == "rejected"

    @property
    def status(self) -> str:
        """The answer: "rejected", else "cannot tell" if there is a reason, else "passed"."""
        return "rejected" if self.rejected else "cannot tell" if self.reason else "passed"

    @property
    def _remarks(self) -> tuple[str, ...]:
        return (*self.missing, *self.notes)

    def save(self, path: str | Path) -> Path:
        """Write the report as one HTML page that needs nothing else.

        Parameters
        ----------
        path : str or Path
            Where to write it, such as ``"report.html"``.

        Returns
        -------
        Path
            Where it was written.
        """
        path = Path(path)
        path.write_text(self.to_html(), encoding="utf-8")
        return path

    def to_html(self) -> str:
        """Return the report as a whole HTML page."""
        return html.whole_page(self.title, self._repr_html_())

    def _repr_html_(self) -> str:
        """Return the report as HTML for a notebook."""
        of_draws, of_model = self._pictures_of_draws(), self._pictures_of_model()
        # One that matters of the draws and one of the model; what is shown is not shown again.
        shown = [pictures.pop(0) for pictures in (of_draws, of_model) if pictures]
        sections = [
            *self._sections_of_draws(of_draws),
            *self._sections_of_model(of_model),
            *self._sections_of_run(),
        ]
        footer = self._footer()
        return html.body(self.title, self.verdict, shown, self.findings, sections, footer)

    def __str__(self) -> str:
        """Return the words as plain text."""
        words = str(Explanation((self.verdict, *self.findings)))
        return "\n".join([words, *(f"Note: {note}" for note in self._remarks)])

    __repr__ = __str__

    def __rich__(self) -> Group:
        """Return the words and the summary table for a ``rich`` console."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        colour = APPEARANCE[self.verdict.status][0]
        parts: list[Any] = [
            Panel(Text(self.verdict.headline, style=f"bold {colour}"), border_style=colour)
        ]
        parts += rich_lines(self.verdict)
        parts.append(Explanation(self.findings).__rich__())
        if self.summary is not None:
            parts.append(_terminal_table(self.summary))
        parts += [Text(f"Note: {note}", style="italic") for note in self._remarks]
        return Group(*parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers and words as plain values, as JSON holds them."""
        return {
            "status": self.status,
            "reason": self.reason,
            "verdict": self.verdict.headline,
            "rejected": self.rejected,
            "advice": list(self.verdict.advice),
            "findings": [
                {"status": one.status, "headline": one.headline, "advice": list(one.advice)}
                for one in self.findings
            ],
            "sampler": None if self.test is None else _test_values(self.test),
            "moments": None if self.moments is None else _moment_values(self.moments),
            "modes": None if self.modes is None else _mode_values(self.modes),
            "predictive": None if self.check is None else _check_values(self.check),
            "summary": None if self.summary is None else _plain(self.summary.to_dict("index")),
            "complete": not self.missing,
            "missing": list(self.missing),
            "notes": list(self.notes),
            "settings": _plain(self.settings),
        }

    def _pictures_of_draws(self) -> list[str]:
        """Return pictures of the draws, that of single parameters first."""
        drawn = []
        if self.moments is not None:
            plot = plots.plot_ksd_moments(self.moments, backend="matplotlib")
            drawn.append(html.picture(plot, _MOMENTS, conclusion(self.moments)))
        for name, plot_of, caption in _OF_DRAWS:
            result = getattr(self, name)
            if result is not None:
                found = conclusion(result) if name == "test" else ""
                drawn.append(html.picture(plot_of(result, backend="matplotlib"), caption, found))
        return drawn

    def _pictures_of_model(self) -> list[str]:
        """Return pictures of the model's checks, those of the worst observed variable first."""
        checks = {} if self.check is None else by_variable(self.check)
        return [
            html.picture(
                plot(self.check, variable=name, backend="matplotlib"),
                caption.format(name=name, where=where_marked(checks[name])).rstrip(),
                conclusion(checks[name]),
            )
            for name in sorted(checks, key=lambda name: float(checks[name]["p_value"]))
            for plot, caption in _OF_MODEL
        ]

    def _sections_of_draws(self, pictures: Sequence[str]) -> list[str]:
        sections = []
        if self.moments is not None and self.summary is not None:
            level = float(self.moments.attrs["alpha"])
            wrong = self.summary["p_value"].to_numpy() <= level
            columns = sorted(self.summary.columns, key=lambda name: name not in _FIRST_COLUMNS)
            table = html.table(self.summary[columns], list(wrong))
            contents = [html.paragraph(_PARAMETERS.format(level=level)), table]
            sections.append(html.section("Means and standard deviations", contents))
        if pictures:
            sections.append(html.section("Test of the draws", [html.side_by_side(pictures)]))
        return sections

    def _sections_of_model(self, pictures: Sequence[str]) -> list[str]:
        if self.check is None:
            return []
        rows = {
            f"{name}: {comparison}": {"p_value": p_value}
            for name, one in by_variable(self.check).items()
            for comparison, p_value in [
                ("all", float(one["p_value"])),
                *zip(one["comparison"].values, one["comparison_p_value"].values, strict=True),
            ]
            if np.isfinite(p_value)
        }
        table = pd.DataFrame.from_dict(rows, orient="index")
        level = float(self.check.attrs["alpha"])
        contents = [
            html.paragraph(_COMPARISONS.format(level=level)),
            html.table(table, list(table["p_value"] <= level)),
            html.side_by_side(pictures),
        ]
        return [html.section("Check of the model against its data", contents)]

    def _sections_of_run(self) -> list[str]:
        rows = [(key, _shown(value)) for key, value in self.settings.items()]
        settings = html.section("Settings", [html.settings_table(rows)])
        if not self._remarks:
            return [settings]
        notes = map(html.paragraph, self._remarks)
        return [html.section("Notes", notes, opened=bool(self.missing)), settings]

    def _footer(self) -> str:
        names = ("inference_library_version", "created_at")
        version, time = (self.settings.get(name, "") for name in names)
        method = "Kernelized Stein discrepancy: Liu, Lee and Jordan (2016)."
        return f"pymc_ksd {version}, {time}. {method}"


def _terminal_table(summary: pd.DataFrame) -> Any:
    """Return the rows with the smallest p-values for a ``rich`` console."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    columns = [name for name in summary.columns if name in _TERMINAL_COLUMNS]
    # The largest errors first where p-values are all as small, or there are none.
    largest = summary[["bias_mean", "bias_sd"]].abs().max(axis=1)
    order = np.lexsort((-largest.to_numpy(), summary["p_value"].to_numpy()))
    rows = summary.iloc[order[:_TERMINAL_ROWS]]
    more = len(summary) - len(rows)
    caption = f"{more:,} more with larger p_value" if more else None
    shown = Table(caption=caption, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    # Columns that are too narrow are cut, but never names.
    shown.add_column("", no_wrap=True, min_width=max(map(len, map(str, rows.index)), default=0))
    for column in columns:
        shown.add_column(column, justify="right")
    for label, row in rows[columns].iterrows():
        shown.add_row(Text(str(label)), *(Text(_short(value)) for value in row))
    return shown


def _short(value: Any) -> str:
    """Return a number with as few digits as a terminal has room for."""
    if not isinstance(value, int | float | np.number) or not np.isfinite(value):
        return html.cell(value)
    number = float(value)
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _test_values(test: xr.Dataset) -> dict[str, Any]:
    numbers = {name: test[name].item() for name in _TEST_NUMBERS}
    settings = {name: test.attrs[name] for name in _TEST_SETTINGS}
    settings["diagonal_share"] = test.attrs.get("diagonal_share", np.nan)
    return _plain(_answer(test) | numbers | settings)


def _moment_values(moments: xr.Dataset) -> dict[str, Any]:
    names = moments["diagnostic"].values.tolist()
    labels, table = parameter_table(moments, names)
    rows: dict[str, dict[str, Any]] = {}
    for label, row in zip(labels, table, strict=True):
        rows[label] = dict(zip(names, row, strict=True))
        rows[label]["uncorrected"] = why_uncorrected(rows[label]["uncorrected"])
    numbers = {name: moments[name].item() for name in ("p_value", "gain")}
    settings = {name: moments.attrs.get(name) for name in ("alpha", "order", "margin")}
    settings["not_shown"] = str(moments.attrs.get("not_shown", "")).splitlines()
    return _plain(_answer(moments) | numbers | settings | {"parameters": rows})


def _mode_values(modes: xr.Dataset) -> dict[str, Any]:
    names = ("place", "share_of_posterior", "mcse", "share_of_draws")
    rows = [
        {name: modes[name].values[mode] for name in names} for mode in range(modes.sizes["mode"])
    ]
    return _plain(_answer(modes) | {"p_value": modes["p_value"].item(), "modes": rows})


def _answer(result: xr.Dataset) -> dict[str, Any]:
    return {
        "status": status_of(result),
        "reason": str(result.attrs.get("reason", "")),
        "reason_code": str(result.attrs.get("reason_code", "")),
        "mismatch": str(result.attrs.get("mismatch", "")),
    }


def _check_values(check: xr.Dataset) -> dict[str, Any]:
    return {
        name: {
            **_answer(one),
            "p_value": float(one["p_value"]),
            "comparisons": _plain(
                dict(zip(one["comparison"].values, one["comparison_p_value"].values, strict=True))
            ),
        }
        for name, one in by_variable(check).items()
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it; it has no NaN."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
