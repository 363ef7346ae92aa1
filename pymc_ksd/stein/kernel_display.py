"""How kernels show themselves: their formula as text, in a notebook and on a console."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["KernelDisplay"]


class KernelDisplay:
    """A kernel's formula, and what the letters in it stand for."""

    radial: bool
    bandwidth: float | None

    @property
    def takes_bandwidth(self) -> bool:
        """Whether the kernel needs a bandwidth from the test."""
        raise NotImplementedError

    @property
    def formula(self) -> str:
        """The kernel as a function of the distance r, or of two points, in one line of text."""
        return "k(x, y)"

    @property
    def meaning(self) -> str:
        """The formula, and what the letters in it stand for."""
        return ", ".join([self.formula, *self._letters])

    @property
    def _letters(self) -> tuple[str, ...]:
        letters = ["r = |x − y|"] if self.radial else []
        if self.bandwidth is not None:
            letters.append(f"h = {self.bandwidth:g}")
        elif self.takes_bandwidth:
            letters.append("h chosen by the test")
        return tuple(letters)

    def _repr_html_(self) -> str:
        """Return the kernel with its formula for a notebook."""
        return f"<code>{escape(repr(self))}</code> &nbsp; {escape(self.meaning)}"

    def __rich__(self) -> Text:
        """Return the kernel with its formula for a ``rich`` console."""
        from rich.text import Text

        return Text.assemble((repr(self), "bold"), "  ", self.meaning)
