"""A progress bar that appears only when the work turns out to be long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rich.console import Console
from rich.errors import LiveError
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

#: Seconds of work before a bar is shown.
_PATIENCE = 1.5


class ProgressBar:
    """Counts finished work and draws a bar once the work has taken a while.

    Nothing is drawn where nobody looks: in a file or a pipe.
    """

    def __init__(self, description: str, total: float, visible: bool) -> None:
        self._description = description
        self._total = total
        self._visible = visible
        self._done = 0.0
        self._started = time.monotonic()
        self._bar: Progress | None = None

    def advance(self, amount: float) -> None:
        """Report that `amount` of the work is finished."""
        self._done += amount
        if self._visible and self._bar is None and time.monotonic() - self._started >= _PATIENCE:
            self._show()
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)

    def _show(self) -> None:
        console = Console()
        self._visible = console.is_terminal or console.is_jupyter
        if not self._visible:
            return
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("remaining"),
            TimeRemainingColumn(),
            transient=True,
            console=console,
            get_time=lambda: time.monotonic(),
        )
        try:
            bar.start()
        except LiveError:
            # Another bar is on the screen, that of another thread: one at a time is enough.
            self._visible = False
            return
        self._bar, self._task = bar, bar.add_task(self._description, total=self._total)
        # Work began before the bar was worth showing.
        bar.tasks[0].start_time = self._started

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


@dataclass(frozen=True)
class Advancing:
    """Part of a longer work, whose own units are counted in those of a bar.

    Attributes
    ----------
    bar : ProgressBar
        The bar of the whole work.
    amount : float
        How much of it this part is.
    total : float
        How many units of its own the part has.
    """

    bar: ProgressBar
    amount: float
    total: float = 1.0

    def of(self, total: float) -> Advancing:
        """Return the same part in other units of its own."""
        return replace(self, total=total)

    def advance(self, done: float) -> None:
        """Report that so many of the part's own units are finished."""
        self.bar.advance(self.amount * done / self.total)


@contextmanager
def progress_bar(description: str, total: float, visible: bool) -> Iterator[ProgressBar]:
    """Give a bar for `total` units of work; it is removed at the end, also after an error."""
    bar = ProgressBar(description, total, visible)
    try:
        yield bar
    finally:
        bar.stop()
