"""One page about a fitted model: are the draws right, does it explain its data, what next."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_ksd.draws import posterior_dataset
from pymc_ksd.explanations import APPEARANCE, LOW_SHARE, Explanation, Finding
from pymc_ksd.goodness_of_fit import check_alpha, check_count, ksd_test
from pymc_ksd.plots import (
    plot_ksd_contributions,
    plot_ksd_evolution,
    plot_ksd_ppc,
    plot_ksd_test,
    plot_ksd_witness,
)
from pymc_ksd.predictive_check import ksd_ppc
from pymc_ksd.report_page import (
    Section,
    cell,
    document,
    fragment,
    paragraph,
    picture,
    settings_table,
    table,
)
from pymc_ksd.results import attributes
from pymc_ksd.sampler_quality import ksd, ksd_evolution
from pymc_ksd.score import compile_score, resolve_model
from pymc_ksd.summary_table import with_measures
from pymc_ksd.verdict import all_findings, by_variable, verdict

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["Report", "ksd_report"]

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
        What was left out, and why.
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
        return "\n".join([words, *(f"Note: {note}" for note in self.notes)])

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
        parts += [Text(f"Note: {note}", style="italic") for note in self.notes]
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
            low = self.summary["ess_ksd"] < LOW_SHARE * self.summary["ess_bulk"].astype(float)
            text = paragraph(
                "ArviZ's summary with the discrepancy (ksd) and the number of exact draws that "
                "would be as close (ess_ksd). Coloured rows: ess_ksd below a fifth of ess_bulk."
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
                        f"Where the model and {name} disagree; data replicated from the model "
                        "stay in the band.",
                    ),
                ):
                    collection = plot(self.check, variable=name, backend="matplotlib")
                    pictures.append(picture(collection, caption))
            title = "Does the model explain its data?"
            sections.append(Section(title, "".join(pictures)))
        if self.notes:
            notes = "".join(paragraph(note) for note in self.notes)
            sections.append(Section("Left out", notes))
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


def ksd_report(
    model: pm.Model | None = None,
    idata: Any = None,
    *,
    var_names: str | Sequence[str] | None = None,
    predictive: bool = True,
    alpha: float = 0.05,
    num_draws: int = 200,
    max_draws: int = 20_000,
    title: str | None = None,
    random_seed: int | None = 0,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
    client: Any = None,
) -> Report:
    """Check draws and model, and put everything on one page.

    Parameters
    ----------
    model : pm.Model, optional
        The model, by default the one whose context is active.
    idata : DataTree, InferenceData or Dataset
        A sampler's draws of the posterior.
    var_names : str or sequence of str, optional
        Rows of the summary table, all by default. Tests are always those of the whole posterior.
    predictive : bool, default True
        Check with :func:`ksd_ppc` whether the model explains its data.
    alpha : float, default 0.05
        Level of each test.
    num_draws : int, default 200
        Draws for the predictive check.
    max_draws : int, default 20000
        More draws are thinned to about this many.
    title : str, optional
        Title of the page.
    random_seed : int, optional
        Makes the report repeatable.
    progressbar : bool, default True
        Show a progress bar when the work is long.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``.
    client : distributed.Client or False, optional
        See :func:`ksd_test`.

    Returns
    -------
    Report
        Shows itself in a notebook; ``report.save("report.html")`` writes a page that needs nothing
        else, ``report.verdict`` has the conclusion.

    Raises
    ------
    ValueError, TypeError
        If neither the draws nor the model can be checked, or an option is unknown.

    Examples
    --------
    >>> import numpy as np, pymc as pm, xarray as xr
    >>> import pymc_ksd
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu")
    >>> values = np.random.default_rng(0).normal(0.5, 1, size=(4, 250))  # wrong mean
    >>> draws = xr.Dataset({"mu": (("chain", "draw"), values)})
    >>> report = pymc_ksd.ksd_report(model, draws)
    >>> report.rejected
    True
    """
    check_alpha(alpha)
    max_draws = check_count(max_draws, "max_draws", 100)
    num_draws = check_count(num_draws, "num_draws", 2)
    model = resolve_model(model)
    notes: list[str] = []
    draws, thinned = _thinned(idata, max_draws)
    if thinned:
        notes.append(thinned)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problems: list[Exception] = []
        shared = {"random_seed": random_seed, "progressbar": progressbar, "client": client}
        test = measures = evolution = summary = check = None
        try:
            score = compile_score(model, compile_kwargs=compile_kwargs)
            test = ksd_test(score, draws, alpha=alpha, **shared)
            shared["random_seed"] = 0 if random_seed is None else random_seed
            measures = ksd(score, draws, **shared)
            evolution = ksd_evolution(score, draws, **shared)
            summary = with_measures(measures, draws, var_names)
        except (ValueError, TypeError, NotImplementedError) as error:
            problems.append(error)
            notes.append(f"The draws were not checked: {error}")
        if predictive and model.observed_RVs:
            try:
                check = ksd_ppc(
                    model,
                    idata,
                    alpha=alpha,
                    num_draws=num_draws,
                    random_seed=random_seed,
                    progressbar=progressbar,
                    compile_kwargs=compile_kwargs,
                )
            except (ValueError, TypeError, NotImplementedError) as error:
                problems.append(error)
                notes.append(f"The model was not checked against its data: {error}")
        elif predictive:
            notes.append("The model has no observed data to be checked against.")
    if test is None and check is None:
        raise problems[0]
    notes += sorted({f"Warning: {warning.message}" for warning in caught if _is_ours(warning)})
    findings = all_findings(test, measures, evolution, check, draws)
    settings = {"alpha": float(alpha), "seed": random_seed}
    if test is not None:
        settings |= {"draws": int(test.attrs["n"]), "chains": int(test.attrs["n_chains"])}
        settings |= {name: test.attrs[name] for name in ("kernel", "scale", "null")}
    return Report(
        title or f"Report on {model.name or 'a fitted model'}",
        verdict(test, check, findings),
        tuple(findings),
        test,
        measures,
        evolution,
        summary,
        check,
        tuple(notes),
        {**settings, **attributes({})},
    )


def _thinned(idata: Any, max_draws: int) -> tuple[Any, str]:
    """Return draws of which there are not too many, and a note about it."""
    posterior = posterior_dataset(idata)
    if posterior is None or not {"chain", "draw"} <= set(posterior.dims):
        return idata, ""  # the test says what is wrong
    n = posterior.sizes["chain"] * posterior.sizes["draw"]
    step = -(-n // max_draws)
    if step == 1:
        return idata, ""
    groups = {"posterior": posterior.isel(draw=slice(None, None, step))}
    statistics = posterior_dataset(idata, "sample_stats")
    if statistics is not None and statistics.sizes.get("draw") == posterior.sizes["draw"]:
        groups["sample_stats"] = statistics.isel(draw=slice(None, None, step))
    return (
        xr.DataTree.from_dict(groups),
        f"Of {n:,} draws every {step}th was used. ksd_test(model, idata) uses all of them.",
    )


def _is_ours(warning: warnings.WarningMessage) -> bool:
    """Whether a warning is about the user's model or draws."""
    return issubclass(warning.category, UserWarning) and "BLAS" not in str(warning.message)


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
