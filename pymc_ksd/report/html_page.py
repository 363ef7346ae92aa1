"""A report as one HTML page that needs nothing from outside: style, pictures and numbers inside."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd

from pymc_ksd.report.findings import APPEARANCE, Finding, html_details

#: Rows that a table shows before the rest is folded away.
_ROWS = 25
#: Dots for an inch of a picture: sharp on a phone and on paper.
_DOTS = 170
#: Colours of a picture: its lines and letters need no more, and the page stays small.
_COLOURS = 96

_STYLE = """
.pymc-ksd-report{color-scheme:light;--ground:#fff;--text:#1c1c1c;--soft:#f4f5f7;--line:#d9dce1;
--quiet:#555;--link:#1f4e79;--low:#fdeceb;box-sizing:border-box;max-width:76rem;margin:0 auto;
padding:1rem;background:var(--ground);color:var(--text);line-height:1.5;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.pymc-ksd-report *{box-sizing:border-box}
.pymc-ksd-report h1{font-size:1.25rem;margin:0 0 .75rem;overflow-wrap:anywhere}
.pymc-ksd-report h2{font-size:1.1rem;margin:1.5rem 0 .5rem}
.pymc-ksd-report p,.pymc-ksd-report ul{max-width:60rem;overflow-wrap:anywhere}
.pymc-ksd-report p{margin:.4rem 0}
.pymc-ksd-report ul{margin:.25rem 0 .5rem;padding-left:1.25rem}
.pymc-ksd-report .verdict{border-left:.5rem solid var(--status);background:var(--soft);
border-radius:.25rem;padding:.75rem 1rem;margin:0 0 1rem}
.pymc-ksd-report .verdict .headline{font-size:1.2rem;font-weight:600;margin:.4rem 0}
.pymc-ksd-report .status{display:inline-block;color:#fff;background:var(--status);
border-radius:.25rem;padding:0 .5rem;font-size:.8rem;font-weight:600;margin-right:.4rem}
.pymc-ksd-report .pictures{display:grid;gap:1rem;
grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}
.pymc-ksd-report figure{margin:0;min-width:0}
.pymc-ksd-report img{display:block;width:100%;max-width:52rem;height:auto;background:#fff;
border-radius:.25rem}
.pymc-ksd-report figcaption{font-size:.85rem;color:var(--quiet);margin:.25rem 0 .5rem}
.pymc-ksd-report details{border-top:1px solid var(--line)}
.pymc-ksd-report details:last-of-type{border-bottom:1px solid var(--line)}
.pymc-ksd-report summary,.pymc-ksd-report .plain{padding:.5rem 0;overflow-wrap:anywhere}
.pymc-ksd-report summary{cursor:pointer}
.pymc-ksd-report .plain{border-top:1px solid var(--line);padding-left:1.05rem}
.pymc-ksd-report .section>summary{font-size:1.05rem;font-weight:600}
.pymc-ksd-report .section>summary>h2{display:inline;font:inherit;margin:0}
.pymc-ksd-report details>*:not(summary){margin-left:1.05rem}
.pymc-ksd-report .scroll{overflow-x:auto}
.pymc-ksd-report table{border-collapse:collapse;font-size:.85rem;margin:.5rem 0;
font-variant-numeric:tabular-nums}
.pymc-ksd-report th,.pymc-ksd-report td{padding:.25rem .4rem;border-bottom:1px solid var(--line);
text-align:right;white-space:nowrap}
.pymc-ksd-report thead th{white-space:normal;vertical-align:bottom}
.pymc-ksd-report th:first-child{text-align:left;position:sticky;left:0;background:var(--ground)}
.pymc-ksd-report td.text{text-align:left;white-space:normal;overflow-wrap:anywhere}
.pymc-ksd-report tr.low td,.pymc-ksd-report tr.low th:first-child{background:var(--low)}
.pymc-ksd-report footer{margin-top:2rem;font-size:.8rem;color:var(--quiet)}
@media(prefers-color-scheme:dark){.pymc-ksd-report{color-scheme:dark;--ground:#16181c;
--text:#e8e8e8;--soft:#22262c;--line:#3a4048;--quiet:#b3b8c0;--link:#8ab8e8;--low:#4a2320}
.pymc-ksd-report img{opacity:.92}}
@media print{.pymc-ksd-report{color-scheme:light;--ground:#fff;--text:#000;--soft:#f4f5f7;
--line:#ccc;--quiet:#333;--low:#fdeceb;max-width:none;padding:0}
.pymc-ksd-report figure,.pymc-ksd-report .finding,.pymc-ksd-report tr{break-inside:avoid}
.pymc-ksd-report summary{break-after:avoid}.pymc-ksd-report .scroll{overflow:visible}
.pymc-ksd-report table{font-size:.7rem}
.pymc-ksd-report details::details-content{content-visibility:visible;block-size:auto}
.pymc-ksd-report .verdict,.pymc-ksd-report .status,.pymc-ksd-report tr.low *{
print-color-adjust:exact}}
"""
#: The page around it takes its colour in the dark, and unfolds everything to be printed.
_PAGE_STYLE = "body{margin:0}@media(prefers-color-scheme:dark){body{background:#16181c}}"
#: Around a table that may be wider than the page, and can be scrolled by keys.
_SCROLL = '<div class="scroll" tabindex="0" role="region" aria-label="table">'
_UNFOLD = (
    'addEventListener("beforeprint",()=>document.querySelectorAll("details")'
    ".forEach(one=>{one.open=true}))"
)


def whole_page(title: str, contents: str) -> str:
    """Return a whole page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_PAGE_STYLE}</style>\n"
        f"<script>{_UNFOLD}</script>\n</head>\n<body>\n{contents}\n</body>\n</html>\n"
    )


def body(
    title: str,
    verdict: Finding,
    pictures: Iterable[str],
    findings: Sequence[Finding],
    sections: Iterable[str],
    footer: str,
) -> str:
    """Return the page's body, with its style, so that it can also stand in a notebook.

    First come the verdict and the pictures that matter; details are folded.
    """
    parts = [
        f"<style>{_STYLE}</style>",
        '<main class="pymc-ksd-report">',
        f"<h1>{escape(title)}</h1>",
        f'<div class="verdict" style="--status:{APPEARANCE[verdict.status][1]}">{_badge(verdict)}'
        f'<p class="headline">{escape(verdict.headline)}</p>{html_details(verdict)}</div>',
        side_by_side(pictures),
        "<h2>What was found</h2>",
        *map(_finding, findings),
        *sections,
        f"<footer>{escape(footer)}</footer></main>",
    ]
    return "\n".join(part for part in parts if part)


def _badge(finding: Finding) -> str:
    return f'<span class="status">{APPEARANCE[finding.status][2]}</span> '


def _finding(finding: Finding) -> str:
    """Return a finding, its details folded if it has any."""
    more, line = html_details(finding), _badge(finding) + escape(finding.headline)
    style = f'style="--status:{APPEARANCE[finding.status][1]}"'
    if not more:
        return f'<div class="finding plain" {style}>{line}</div>'
    return f'<details class="finding" {style}><summary>{line}</summary>{more}</details>'


def section(title: str, contents: Iterable[str], *, opened: bool = False) -> str:
    """Return a part of the page that can be folded: HTML whose labels are escaped already."""
    state = " open" if opened else ""
    return (
        f'<details class="section"{state}><summary><h2>{escape(title)}</h2></summary>'
        f"{''.join(contents)}</details>"
    )


def side_by_side(pictures: Iterable[str]) -> str:
    """Return pictures beside each other where there is room."""
    shown = "".join(pictures)
    return f'<div class="pictures">{shown}</div>' if shown else ""


def paragraph(text: str) -> str:
    """Return text as a paragraph."""
    return f"<p>{escape(text)}</p>"


def picture(plot: Any, caption: str, found: str = "") -> str:
    """Return a PlotCollection as an image inside the page, and close its figure.

    What was found is said, beside the caption, to those who cannot see the picture.
    """
    import matplotlib.pyplot as plt
    from PIL import Image

    figure = plot.viz["figure"].item()
    drawn, small = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png", dpi=_DOTS, bbox_inches="tight")
    plt.close(figure)
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(_COLOURS).save(small, format="png", optimize=True)
    data, text = b64encode(small.getvalue()).decode("ascii"), escape(f"{caption} {found}".rstrip())
    return (
        f'<figure><img alt="{text}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
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
    return f"{_SCROLL}<table><tbody>{''.join(lines)}</tbody></table></div>"


def _rows(frame: pd.DataFrame, low: Sequence[bool]) -> list[str]:
    rows = []
    for (label, values), is_low in zip(frame.iterrows(), low, strict=True):
        cells = "".join(f"<td>{escape(cell(value))}</td>" for value in values)
        kind, sign = (' class="low"', " ▾") if is_low else ("", "")
        rows.append(f'<tr{kind}><th scope="row">{escape(str(label))}{sign}</th>{cells}</tr>')
    return rows


def _wrapped(frame: pd.DataFrame, rows: Iterable[str]) -> str:
    # Long names may break after an underscore.
    names = [escape(str(column)).replace("_", "_<wbr>") for column in frame.columns]
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        f"{_SCROLL}<table><thead><tr><th></th>{head}</tr></thead>"
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
