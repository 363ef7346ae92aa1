"""What a finding and an explanation are, and how they show themselves."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

Status = Literal["passed", "certified", "warning", "rejected", "cannot tell", "unknown"]

#: How a status looks: colour in a terminal, colour on a page, the word that goes with it.
APPEARANCE: dict[str, tuple[str, str, str]] = {
    "passed": ("green", "#1b7837", "passed"),
    "certified": ("green", "#1b7837", "certified"),
    "warning": ("yellow", "#8a5a00", "warning"),
    "rejected": ("red", "#c1272d", "rejected"),
    "cannot tell": ("magenta", "#6a3d9a", "cannot tell"),
    "unknown": ("blue", "#1f4e79", "not checked"),
}


_NEXT = "Next step:"


@dataclass(frozen=True)
class Finding:
    """One finding, with details and the next step.

    Parameters
    ----------
    status : {"passed", "certified", "warning", "rejected", "cannot tell", "unknown"}
        What it means: ``"certified"`` is what lies within a margin for sure, ``"cannot tell"`` is
        the answer of a test that could not have found an error, ``"unknown"`` stands for a check
        that was not made.
    headline : str
        The finding in one sentence.
    details : tuple of str
        What else there is to know about it.
    next_step : str
        What to do next, if anything.
    """

    status: Status
    headline: str
    details: tuple[str, ...] = ()
    next_step: str = ""

    @property
    def advice(self) -> tuple[str, ...]:
        """The details, and the next step last."""
        return (*self.details, *([self.next_step] if self.next_step else []))


@dataclass(frozen=True)
class Explanation:
    """A result in words, and its most important numbers with their meaning.

    It is displayed as text, in colour on a ``rich`` console, and as HTML in a notebook.

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
            lines += [finding.headline, *(f"  - {detail}" for detail in finding.details)]
            lines += [f"  {_NEXT} {finding.next_step}"] if finding.next_step else []
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
            parts += rich_lines(finding)
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
            parts.append(html_details(finding))
        if self.numbers:
            cell = 'style="text-align:left;padding:0 .75em"'
            rows = (
                f'<tr><th scope="row" {cell}>{escape(name)}</th><td {cell}>{escape(value)}</td>'
                f"<td {cell}>{escape(text)}</td></tr>"
                for name, value, text in self.numbers
            )
            parts.append(f"<table>{''.join(rows)}</table>")
        return "".join([*parts, "</div>"])


def rich_lines(finding: Finding) -> list[Text]:
    """Return the details of a finding and its next step for a ``rich`` console."""
    from rich.text import Text

    lines = [Text(f"  • {detail}") for detail in finding.details]
    if finding.next_step:
        lines.append(Text.assemble(("  " + _NEXT, "bold"), f" {finding.next_step}"))
    return lines


def html_details(finding: Finding) -> str:
    """Return the details of a finding and its next step as HTML."""
    items = "".join(f"<li>{escape(detail)}</li>" for detail in finding.details)
    step = f"<p><b>{_NEXT}</b> {escape(finding.next_step)}</p>" if finding.next_step else ""
    return (f"<ul>{items}</ul>" if items else "") + step
