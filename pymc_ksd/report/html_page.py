"""A report as one HTML page that needs nothing from outside: style, pictures and numbers inside."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd

from pymc_ksd.report.findings import APPEARANCE, Finding, html_list

#: Rows that a table shows before the rest is folded away.
_ROWS = 25
#: Dots for an inch of a picture: sharp on a phone and on paper.
_DOTS = 170

_STYLE = """
.pymc-ksd-report{color-scheme:light;box-sizing:border-box;max-width:60rem;margin:0 auto;
padding:1rem;background:#fff;color:#1c1c1c;line-height:1.5;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.pymc-ksd-report *{box-sizing:border-box}
.pymc-ksd-report h1{font-size:1.3rem;margin:0 0 .75rem;overflow-wrap:anywhere}
.pymc-ksd-report h2{font-size:1.1rem;margin:2rem 0 .5rem;border-bottom:1px solid #ddd}
.pymc-ksd-report p{margin:.5rem 0;overflow-wrap:anywhere}
.pymc-ksd-report .verdict{border-left:.5rem solid var(--status);background:#f6f6f6;
padding:.75rem 1rem;margin:0 0 1rem}
.pymc-ksd-report .verdict p{font-size:1.2rem;font-weight:600;margin:0}
.pymc-ksd-report ul{margin:.25rem 0 .75rem;padding-left:1.25rem}
.pymc-ksd-report li{overflow-wrap:anywhere}
.pymc-ksd-report .finding>p{font-weight:600}
.pymc-ksd-report .status{display:inline-block;color:#fff;background:var(--status);
border-radius:.25rem;padding:0 .5rem;font-size:.8rem;font-weight:600;margin-right:.25rem}
.pymc-ksd-report figure{margin:1rem 0;text-align:center}
.pymc-ksd-report img{max-width:100%;height:auto}
.pymc-ksd-report figcaption{font-size:.85rem;color:#555;text-align:left}
.pymc-ksd-report .scroll{overflow-x:auto}
.pymc-ksd-report table{border-collapse:collapse;font-size:.85rem;margin:.5rem 0;
font-variant-numeric:tabular-nums}
.pymc-ksd-report th,.pymc-ksd-report td{padding:.2rem .6rem;border-bottom:1px solid #e4e4e4;
text-align:right;white-space:nowrap}
.pymc-ksd-report th:first-child,.pymc-ksd-report td.text{text-align:left}
.pymc-ksd-report tr.low td,.pymc-ksd-report tr.low th{background:#fdeceb}
.pymc-ksd-report summary{cursor:pointer;color:#1f4e79}
.pymc-ksd-report footer{margin-top:2rem;font-size:.8rem;color:#555}
@media print{.pymc-ksd-report{max-width:none;padding:0}
.pymc-ksd-report figure,.pymc-ksd-report .finding,.pymc-ksd-report tr{break-inside:avoid}
.pymc-ksd-report h2{break-after:avoid}.pymc-ksd-report .scroll{overflow:visible}
.pymc-ksd-report table{font-size:.7rem}
.pymc-ksd-report details::details-content{content-visibility:visible;block-size:auto}
.pymc-ksd-report .verdict,.pymc-ksd-report .status,.pymc-ksd-report tr.low *{
print-color-adjust:exact}}
"""


def whole_page(title: str, contents: str) -> str:
    """Return a whole page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n</head>\n<body>\n{contents}\n</body>\n</html>\n"
    )


def body(
    title: str,
    verdict: Finding,
    findings: Sequence[Finding],
    sections: Iterable[str],
    footer: str,
) -> str:
    """Return the page's body, with its style, so that it can also stand in a notebook."""
    parts = [
        f"<style>{_STYLE}</style>",
        '<div class="pymc-ksd-report">',
        f"<h1>{escape(title)}</h1>",
        f'<div class="verdict" style="--status:{APPEARANCE[verdict.status][1]}">'
        f"<p>{escape(verdict.headline)}</p></div>",
        html_list(verdict.advice),
        "<h2>What was found</h2>",
    ]
    for finding in findings:
        _, colour, word = APPEARANCE[finding.status]
        parts.append(
            f'<div class="finding" style="--status:{colour}"><p><span class="status">{word}</span>'
            f"{escape(finding.headline)}</p>{html_list(finding.advice)}</div>"
        )
    parts += [*sections, f"<footer>{escape(footer)}</footer></div>"]
    return "\n".join(part for part in parts if part)


def section(title: str, contents: Iterable[str]) -> str:
    """Return a part of the page: a heading, and HTML whose labels are escaped already."""
    return f"<section><h2>{escape(title)}</h2>{''.join(contents)}</section>"


def paragraph(text: str) -> str:
    """Return text as a paragraph."""
    return f"<p>{escape(text)}</p>"


def picture(plot: Any, caption: str) -> str:
    """Return a PlotCollection as an image inside the page, and close its figure."""
    import matplotlib.pyplot as plt

    figure = plot.viz["figure"].item()
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=_DOTS, bbox_inches="tight")
    plt.close(figure)
    data, text = b64encode(buffer.getvalue()).decode("ascii"), escape(caption)
    return (
        f'<figure><img alt="{text}" src="data:image/png;base64,{data}">'
        f"<figcaption>{text}</figcaption></figure>"
    )


def table(frame: pd.DataFrame, low: Sequence[bool]) -> str:
    """Return a table of numbers whose rows are marked where they are low.

    A long table shows its marked rows and some of the others, and folds all of them away below.
    """
    whole = _rows(frame, low)
    if len(frame) <= _ROWS:
        return _wrapped(frame, whole)
    # Marked rows first, each in the order of the table.
    chosen = np.sort(np.argsort(~np.asarray(low), kind="stable")[:_ROWS])
    return (
        _wrapped(frame, [whole[index] for index in chosen])
        + f"<details><summary>All {len(frame):,} rows</summary>{_wrapped(frame, whole)}</details>"
    )


def settings_table(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and values as a small table."""
    lines = (
        f'<tr><th scope="row">{escape(name)}</th><td class="text">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<div class="scroll"><table><tbody>{"".join(lines)}</tbody></table></div>'


def _rows(frame: pd.DataFrame, low: Sequence[bool]) -> list[str]:
    rows = []
    for (label, values), is_low in zip(frame.iterrows(), low, strict=True):
        cells = "".join(f"<td>{escape(cell(value))}</td>" for value in values)
        kind, sign = (' class="low"', " ▾") if is_low else ("", "")
        rows.append(f'<tr{kind}><th scope="row">{escape(str(label))}{sign}</th>{cells}</tr>')
    return rows


def _wrapped(frame: pd.DataFrame, rows: Iterable[str]) -> str:
    head = "".join(f'<th scope="col">{escape(str(column))}</th>' for column in frame.columns)
    return (
        f'<div class="scroll"><table><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def cell(value: object) -> str:
    """Return a number, or whatever a table holds, as text."""
    if not isinstance(value, int | float | np.number):
        return str(value)
    number = float(value)
    if not np.isfinite(number):
        return "–" if np.isnan(number) else "∞" if number > 0 else "-∞"
    whole = number == round(number) and abs(number) >= 10
    return f"{number:,.0f}" if whole else f"{number:.4g}"
