"""What a report on a fitted model says, as text, as a page, on a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_ksd.plots import (
    plot_ksd_contributions,
    plot_ksd_evolution,
    plot_ksd_ppc,
    plot_ksd_test,
    plot_ksd_witness,
)
from pymc_ksd.report.explanations import APPEARANCE, Explanation, Finding, low_share
from pymc_ksd.report.page import (
    Section,
    cell,
    document,
    fragment,
    paragraph,
    picture,
    settings_table,
    table,
)
from pymc_ksd.report.verdict import by_variable

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["Report"]

#: Columns of the summary table that are looked at first; a terminal shows no others.
_FIRST_COLUMNS = ("mean", "sd", "ess_bulk", "r_hat", "rhat", "ksd", "ess_ksd")
#: Rows of the summary table that a terminal shows.
_TERMINAL_ROWS = 12


@dataclass(frozen=True)
class Report:
    """What :func:`ksd_report` found: it shows itself in a notebook and on a terminal.

    Parameters
    ----------
    title : str
        The page's title.
    verdict : Finding
        The whole in one sentence, and what to do next.
    findings : tuple of Finding
        What was found, one by one.
    test, measures, evolution : xarray.Dataset or None
        What :func:`ksd_test`, :func:`ksd` and :func:`ksd_evolution` say of the draws; None where
        they cannot be checked.
    summary : pandas.DataFrame or None
        The table of :func:`ksd_summary`.
    check : xarray.Dataset or None
        What :func:`ksd_ppc` says of the model; None where it was not wanted or cannot be done.
    notes : tuple of str
        What else there is to know.
    missing : tuple of str
        What was wanted and could not be checked, and why.
    settings : mapping
        Versions, seed and the like.
    """

    title: str
    verdict: Finding
    findings: tuple[Finding, ...]
    test: xr.Dataset | None
    measures: xr.Dataset | None
    evolution: xr.Dataset | None
    summary: pd.DataFrame | None
    check: xr.Dataset | None
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rejected(self) -> bool:
        """Whether a test rejected the draws or the model."""
        return self.verdict.status == "rejected"

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
        return document(self.title, self._repr_html_())

    def _repr_html_(self) -> str:
        """Return the report as HTML for a notebook."""
        return fragment(self.title, self.verdict, self.findings, self._sections(), self._footer())

    def __str__(self) -> str:
        """Return the words as plain text."""
        words = str(Explanation((self.verdict, *self.findings)))
        return "\n".join([words, *(f"Note: {note}" for note in (*self.missing, *self.notes))])

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
        parts += [Text(f"  • {advice}") for advice in self.verdict.advice]
        parts.append(Explanation(self.findings).__rich__())
        if self.summary is not None:
            parts.append(_terminal_table(self.summary))
        parts += [Text(f"Note: {note}", style="italic") for note in (*self.missing, *self.notes)]
        return Group(*parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers and words as plain values, as JSON holds them."""
        contents: dict[str, Any] = {
            "verdict": self.verdict.headline,
            "rejected": self.rejected,
            "advice": list(self.verdict.advice),
            "findings": [
                {"status": one.status, "headline": one.headline, "advice": list(one.advice)}
                for one in self.findings
            ],
            "sampler": None,
            "predictive": None,
            "summary": None,
            "complete": not self.missing,
            "missing": list(self.missing),
            "notes": list(self.notes),
            "settings": {key: _plain(value) for key, value in self.settings.items()},
        }
        if self.test is not None:
            names = ("p_value", "statistic", "critical_value", "ksd", "ess_ksd")
            contents["sampler"] = {name: _plain(self.test[name].item()) for name in names} | {
                name: _plain(self.test.attrs[name]) for name in ("n", "n_chains", "null", "kernel")
            }
        if self.summary is not None:
            rows = self.summary.to_dict(orient="index")
            contents["summary"] = {
                str(label): {str(name): _plain(value) for name, value in row.items()}
                for label, row in rows.items()
            }
        if self.check is not None:
            contents["predictive"] = {
                name: {
                    "p_value": float(one["p_value"]),
                    "comparisons": {
                        str(key): _plain(value)
                        for key, value in zip(
                            one["comparison"].values, one["comparison_p_value"].values, strict=True
                        )
                    },
                }
                for name, one in by_variable(self.check).items()
            }
        return contents

    def _sections(self) -> list[Section]:
        sections = []
        if self.test is not None and self.evolution is not None and self.measures is not None:
            pictures = [
                picture(
                    plot_ksd_test(self.test, backend="matplotlib"),
                    "The test of the draws: the statistic among values it takes for draws that are "
                    "right.",
                ),
                picture(
                    plot_ksd_evolution(self.evolution, backend="matplotlib"),
                    "The discrepancy as draws accumulate; draws that are right keep falling with "
                    "the dashed line.",
                ),
                picture(
                    plot_ksd_contributions(self.measures, backend="matplotlib"),
                    "What the draws of each parameter are worth, beside their effective sample "
                    "size by autocorrelation.",
                ),
            ]
            sections.append(Section("Are the draws right?", "".join(pictures)))
        if self.summary is not None:
            share = low_share(len(self.summary))
            low = self.summary["ess_ksd"] < share * self.summary["ess_bulk"].astype(float)
            text = paragraph(
                "ArviZ's summary with the discrepancy (ksd) and the number of exact draws that "
                "would be as close (ess_ksd). Coloured rows: ess_ksd below "
                f"{share:.0%} of ess_bulk, which is hardly chance in any of so many rows."
            )
            shown = self.summary[_ordered(list(self.summary.columns))]
            sections.append(Section("Parameters", text + table(shown, list(low))))
        if self.check is not None:
            pictures = []
            for name in by_variable(self.check):
                for plot, caption in (
                    (
                        plot_ksd_ppc,
                        f"Discrepancies of the observed {name} and of data replicated from the "
                        "model; right of the line the observed data are further off.",
                    ),
                    (
                        plot_ksd_witness,
                        f"Where the model and {name} disagree: of data replicated from the model, "
                        "95 % stay in the band everywhere.",
                    ),
                ):
                    collection = plot(self.check, variable=name, backend="matplotlib")
                    pictures.append(picture(collection, caption))
            title = "Does the model explain its data?"
            sections.append(Section(title, "".join(pictures)))
        if self.missing or self.notes:
            notes = "".join(paragraph(note) for note in (*self.missing, *self.notes))
            sections.append(Section("Notes", notes))
        rows = [(key, _shown(value)) for key, value in self.settings.items()]
        sections.append(Section("Settings", settings_table(rows)))
        return sections

    def _footer(self) -> str:
        attrs = self.settings
        return (
            f"pymc_ksd {attrs.get('inference_library_version', '')}, "
            f"{attrs.get('created_at', '')}. Kernelized Stein discrepancy: Liu, Lee and Jordan "
            "(2016)."
        )


def _ordered(columns: Sequence[str]) -> list[str]:
    """Return columns with those first that are looked at first."""
    return sorted(columns, key=lambda name: name not in _FIRST_COLUMNS)


def _terminal_table(summary: pd.DataFrame) -> Any:
    """Return the rows with the smallest effective sample sizes for a ``rich`` console."""
    from rich.table import Table
    from rich.text import Text

    columns = [name for name in summary.columns if name in _FIRST_COLUMNS]
    rows = summary.iloc[np.argsort(summary["ess_ksd"].to_numpy(), kind="stable")[:_TERMINAL_ROWS]]
    more = len(summary) - len(rows)
    caption = f"{more:,} more with larger ess_ksd" if more else None
    shown = Table("", *columns, caption=caption)
    for label, row in rows[columns].iterrows():
        shown.add_row(Text(str(label)), *(Text(cell(value)) for value in row))
    return shown


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it; it has no NaN."""
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value.tolist()]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
