"""Why a test cannot tell: a sentence for people, and a code that stays the same for programs."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pymc_ksd.diagnostics.sentences import REASONS

Code = Literal[
    "mismatch",
    "chains_stand_still",
    "chains_disagree",
    "chains_short",
    "many_parameters",
    "few_replicates",
    "few_draws",
    "few_draws_dominate",
    "not_finite",
    "not_corrected",
    "margin_undecided",
    "no_mode",
    "modes_seldom_visited",
    "modes_differ_in_shape",
]
#: All of them.
CODES: tuple[str, ...] = get_args(Code)


class Reason(str):
    """A sentence that says why a test cannot tell, with a code.

    Parameters
    ----------
    code : str
        One of `CODES`.
    text : str
        The sentence.
    """

    __slots__ = ("code",)

    code: Code

    def __new__(cls, code: Code, text: str) -> Reason:
        """Return the sentence with its code."""
        found = super().__new__(cls, text)
        found.code = code
        return found

    def __getnewargs__(self) -> tuple[Code, str]:  # type: ignore[override]
        """Return what copies are made of."""
        return self.code, str(self)


def because(code: Code, sentence: str = "", **numbers: Any) -> Reason:
    """Return why a test cannot tell: the sentence of a code, or another one, with its numbers."""
    return Reason(code, REASONS[sentence or code].format(**numbers))


def code_of(reason: str) -> str:
    """Return the code of a reason, or nothing where there is none."""
    return reason.code if isinstance(reason, Reason) else ""
