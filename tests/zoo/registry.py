"""What an entry of the zoo is, and what may be expected of a function that is given one."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymc as pm

__all__ = [
    "CANNOT_TELL",
    "ENTRIES",
    "FUNCTIONS",
    "MAY_NOT_TELL",
    "NOT_PASSED",
    "PYMC",
    "WORKS",
    "Entry",
    "Error",
    "Expectation",
    "Pending",
    "add",
]

#: The public functions that every model is given to.
FUNCTIONS = (
    "compile_score",
    "ksd_test",
    "ksd",
    "ksd_summary",
    "ksd_evolution",
    "ksd_moments",
    "ksd_expectation",
    "ksd_ppc",
    "ksd_report",
)
#: Functions that need the score of the free variables, and fail together where there is none.
_OF_THE_SCORE = FUNCTIONS[:7]
#: Functions of the default run: not the report, which takes longest, nor those that compare the
#: pairs of ksd_test or have the moments of ksd_summary.
_QUICK = ("compile_score", "ksd_test", "ksd_summary", "ksd_ppc")
#: Which of the two stacks this is.
PYMC = int(pm.__version__.split(".")[0])

#: A result of the right kind with finite numbers and no warning, whatever its verdict.
WORKS = "works"
#: A result that says it cannot tell: neither "passed" nor "rejected".
CANNOT_TELL = "cannot tell"
#: A result that rejects, or says that it cannot tell.
NOT_PASSED = "not passed"
#: A result that tells, or says that it cannot.
MAY_NOT_TELL = "works or cannot tell"


@dataclass(frozen=True)
class Error:
    """An error that says what is wrong and what to do.

    Parameters
    ----------
    message : str
        Regular expression that the message has to match.
    kind : type
        Its type.
    may_work : bool
        Whether a right answer would do as well.
    """

    message: str
    kind: type[Exception] | tuple[type[Exception], ...] = ValueError
    may_work: bool = False

    def describes(self, error: Exception) -> bool:
        """Whether an error is of this kind and says this."""
        return isinstance(error, self.kind) and re.search(self.message, str(error)) is not None


Expectation = str | Error


@dataclass(frozen=True)
class Pending:
    """What the code does today where it does not do what is expected.

    Parameters
    ----------
    reason : str
        What happens.
    pymc : int, optional
        The version of PyMC with which it does, by default both.
    """

    reason: str
    pymc: int | None = None


@dataclass(frozen=True)
class Entry:
    """A model, what is expected of every function, and how to get draws.

    Parameters
    ----------
    name : str
        Unique name, that of the function that builds the model.
    build : callable
        Returns the model (a ``pm.Model`` or a ``bambi.Model``) with data from a fixed seed.
    expected : mapping
        The expectation of each public function; :data:`WORKS` for those not named.
    pending : mapping
        Functions that do something else today, and what.
    exact : callable, optional
        ``exact(rng, chains, draws)`` returns independent draws of the posterior, from its closed
        form, by the names of free variables.
    draws : callable, optional
        ``draws(model, posterior, rng)`` replaces draws near the posterior by others: draws that
        are wrong in some way, or stored in another form.
    after : callable, optional
        ``after(model)`` changes the model after the draws were made, as ``pm.set_data`` does.
    checked : tuple of str
        Observed variables that ``ksd_ppc`` has to check, by default all; it warns of the others.
    parts : tuple of str
        What ``ksd_ppc`` calls the parts of observed variables that it takes apart.
    needs : tuple of str
        Packages without which the model cannot be built.
    quick : tuple of str
        Functions that are called in the default run; those left out are slow, or similar to others.
    reason : str
        Why the expectation is what it is, if that is not plain.
    """

    name: str
    build: Callable[[], Any]
    expected: Mapping[str, Expectation] = field(default_factory=dict)
    pending: Mapping[str, Pending] = field(default_factory=dict)
    exact: Callable[..., Mapping[str, Any]] | None = None
    draws: Callable[..., Any] | None = None
    after: Callable[[Any], None] | None = None
    checked: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()
    reason: str = ""

    def expectation(self, function: str) -> Expectation:
        """Return what the function has to do."""
        return self.expected.get(function, WORKS)

    def is_pending(self, function: str) -> Pending | None:
        """Return why the function does not do it yet, in this stack."""
        found = self.pending.get(function)
        return found if found and found.pymc in (None, PYMC) else None

    @property
    def missing_packages(self) -> list[str]:
        """Packages that are needed and not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


#: All entries by name.
ENTRIES: dict[str, Entry] = {}


def add(
    *,
    score: Expectation = WORKS,
    compiled: Expectation | None = None,
    test: Expectation | None = None,
    ppc: Expectation = WORKS,
    report: Expectation = WORKS,
    pending: Mapping[str, str | Pending] | None = None,
    quick: bool | Sequence[str] = False,
    **options: Any,
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Add the model that the decorated function builds to the zoo.

    Parameters
    ----------
    score, ppc, report : str or Error
        What is expected of the functions of draws, of ``ksd_ppc`` and of ``ksd_report``.
    compiled, test : str or Error, optional
        What is expected of ``compile_score`` and of ``ksd_test``, if that is something else.
    pending : mapping, optional
        By the name of a function, or ``"score"`` for all functions of draws, what happens today.
    quick : bool or sequence of str
        Functions in the default run; if True, all but the report and moments.
    **options
        Other fields of :class:`Entry`.
    """
    expected = dict.fromkeys(_OF_THE_SCORE, score) | {"ksd_ppc": ppc, "ksd_report": report}
    expected |= {"compile_score": compiled} if compiled is not None else {}
    expected |= {"ksd_test": test} if test is not None else {}
    reasons: dict[str, Pending] = {}
    for name, reason in (pending or {}).items():
        one = reason if isinstance(reason, Pending) else Pending(reason)
        reasons |= dict.fromkeys(_OF_THE_SCORE if name == "score" else (name,), one)

    if isinstance(quick, bool):
        quick = _QUICK if quick else ()

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        name = build.__name__
        if name in ENTRIES:
            raise ValueError(f"There are two models of the name {name!r}.")
        ENTRIES[name] = Entry(name, build, expected, reasons, quick=tuple(quick), **options)
        return build

    return register
