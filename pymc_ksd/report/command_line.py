"""The command ``pymc-ksd``: check draws and model in a pipeline, with exit codes."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from rich.console import Console

from pymc_ksd._version import __version__
from pymc_ksd.diagnostics.compare import ksd_compare
from pymc_ksd.diagnostics.judged import NOT_TESTED, deciding
from pymc_ksd.diagnostics.results import in_short
from pymc_ksd.report.loading import CannotRun, load_draws, load_model, load_sampler
from pymc_ksd.report.machine_readable import of_battery, of_check, of_failure
from pymc_ksd.report.report import Report
from pymc_ksd.report.run_checks import LEAST_ALPHA, ksd_report
from pymc_ksd.report.verdict import why_untold
from pymc_ksd.samplers.battery import battery
from pymc_ksd.samplers.targets import TARGETS
from pymc_ksd.samples.belonging import MismatchError

PASSED, REJECTED, FAILED = 0, 1, 2
#: What the draws that are checked are called beside others.
CHECKED = "checked"
_N = TypeVar("_N", int, float)

_EXAMPLES = """\
examples:
  pymc-ksd check model.py posterior.nc
      Do the draws in posterior.nc come from the posterior of the model in model.py?
  pymc-ksd check model.py:build posterior.nc --ppc --report report.html
      Also: does the model fit its data? build is the model, or a function that returns it.
  pymc-ksd check model.py posterior.nc --json --alpha 0.01 > result.json
      For a pipeline: JSON output and the exit code.
  pymc-ksd check model.py posterior.nc --margin 0.1
      Is every mean within 0.1 sd, and every sd within 10 %, of the posterior's?
  pymc-ksd check model.py nuts.nc --compare advi=advi.nc --compare smc=smc.nc
      The same for nuts.nc, and which sampler is most efficient.
  pymc-ksd battery my_package.sampler:sample
      Is the function sample(model, random_seed) in my_package/sampler.py a correct sampler?

exit codes:
  0  passed: nothing was rejected, and with --margin everything is certified to lie within it
  1  rejected: the draws, with --ppc the model, or the sampler, at level ALPHA
  2  cannot tell, or the check or a part of it could not run; the reason is on standard error
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        0 when everything passed, 1 when something was rejected, 2 when the test cannot tell or
        could not run.
    """
    options = _parser().parse_args(arguments)
    try:
        answer = _check(options) if options.command == "check" else _battery(options)
    except CannotRun as problem:
        answer = _failed(options, "could_not_run", str(problem))
    except KeyboardInterrupt:
        answer = _failed(options, "interrupted", "interrupted")
    except (Exception, SystemExit) as problem:  # users' code may call sys.exit
        code = "mismatch" if isinstance(problem, MismatchError) else "could_not_run"
        answer = _failed(options, code, f"{type(problem).__name__}: {problem}")
    # What was found is decided: a reader that has gone, or cannot show a letter, changes nothing.
    try:
        _show(answer, as_json=options.json)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return answer.code


@dataclass(frozen=True)
class _Answer:
    """What a command found.

    Attributes
    ----------
    code : int
        The exit code.
    contents : dict
        The same for programs.
    shown : list
        The same for people, as a ``rich`` console prints it.
    complaints : dict
        What stands on standard error: what is the matter, and why.
    """

    code: int
    contents: dict[str, Any]
    shown: list[Any] = field(default_factory=list)
    complaints: dict[str, str] = field(default_factory=dict)


def _failed(options: argparse.Namespace, code: str, reason: str) -> _Answer:
    contents = of_failure(options.command, FAILED, code, reason)
    return _Answer(FAILED, contents, complaints={"could not run": reason})


def _show(answer: _Answer, *, as_json: bool) -> None:
    """Print what was found, and what could not run."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    for what, why in answer.complaints.items():
        if why:
            print(f"pymc-ksd: {what}: {why}", file=sys.stderr)  # noqa: T201
    if as_json:
        print(json.dumps(answer.contents, indent=2, allow_nan=False))  # noqa: T201
        return
    console = Console()
    for one in answer.shown:
        # Tables made of text are not broken into lines of another width.
        is_text = isinstance(one, str)
        console.print(one, markup=False, highlight=False, soft_wrap=is_text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pymc-ksd",
        description="Test whether a sampler's draws come from a PyMC model's posterior, and "
        "whether the model fits its data, by the kernelized Stein discrepancy.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pymc_ksd {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="check draws, and the model with --ppc",
        description="Check a sampler's draws against the model they were made for.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_argument(
        "model",
        metavar="MODEL.py[:name]",
        help="Python file, and the name of a pm.Model or bambi.Model in it, or of a function that "
        "returns one; without a name the file must have one model",
    )
    check.add_argument(
        "idata", metavar="IDATA.nc", help="draws as ArviZ saves them: a netCDF file or zarr folder"
    )
    check.add_argument("--report", metavar="OUT.html", help="write a page with pictures")
    check.add_argument("--json", action="store_true", help="print JSON instead of text")
    check.add_argument(
        "--alpha", type=_level, default=0.05, help="level of the tests (default 0.05)"
    )
    check.add_argument(
        "--margin",
        type=_margin,
        help="pass only if every mean is within this many posterior sd of the posterior's, and "
        "every sd within this fraction",
    )
    check.add_argument(
        "--compare",
        metavar="NAME=DRAWS.nc",
        type=_named_file,
        action="append",
        default=[],
        help="rank these draws beside IDATA.nc, which alone decides the exit code; may be repeated",
    )
    check.add_argument(
        "--ppc", action="store_true", help="also check whether the model fits its data"
    )
    check.add_argument(
        "--modes",
        action=argparse.BooleanOptionalAction,
        help="look for modes, and test whether the draws visit them in the right proportions; by "
        "default in models small enough for that to take seconds",
    )
    check.add_argument(
        "--seed", type=_seed, default=0, help="seed that makes the check repeatable (default 0)"
    )
    _add_battery(commands)
    return parser


def _add_battery(commands: Any) -> None:
    """Add the command that tries a sampler."""
    trial = commands.add_parser(
        "battery",
        help="test a sampler on targets with known difficulties",
        description="Test a sampler on targets with known difficulties, and make sure that "
        "samplers which are known to be wrong are detected.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    trial.add_argument(
        "sampler",
        metavar="MODULE:FUNCTION",
        help="a function of a pm.Model and random_seed that returns draws, in a module or in a "
        "Python file",
    )
    trial.add_argument(
        "--targets",
        metavar="NAME",
        nargs="+",
        choices=[target.name for target in TARGETS],
        help="some targets only: " + ", ".join(repr(target.name) for target in TARGETS),
    )
    trial.add_argument(
        "--no-controls", action="store_true", help="do not test samplers that are known to be wrong"
    )
    trial.add_argument("--json", action="store_true", help="print JSON instead of text")
    trial.add_argument(
        "--alpha", type=_level, default=0.05, help="level of all targets together (default 0.05)"
    )
    trial.add_argument(
        "--seed", type=_seed, default=0, help="seed of the battery and of the sampler (default 0)"
    )


def _named_file(text: str) -> tuple[str, str]:
    name, equals, place = text.partition("=")
    if not (name and equals and place) or name == CHECKED:
        raise argparse.ArgumentTypeError(
            f"must be NAME=DRAWS.nc with a name other than {CHECKED!r}, got {text}"
        )
    return name, place


def _level(text: str) -> float:
    required = f"a number of at least {LEAST_ALPHA:g} and less than 1"
    return _number(text, float, lambda value: LEAST_ALPHA <= value < 1, required)


def _margin(text: str) -> float:
    return _number(text, float, lambda value: 0 < value < math.inf, "a positive, finite number")


def _seed(text: str) -> int:
    return _number(text, int, lambda value: value >= 0, "a whole number of at least 0")


def _number(
    text: str, kind: Callable[[str], _N], is_right: Callable[[_N], bool], required: str
) -> _N:
    """Return the number that an option was given, if it is what is required."""
    with contextlib.suppress(ValueError):
        if is_right(value := kind(text)):
            return value
    raise argparse.ArgumentTypeError(f"must be {required}, got {text!r}")


def _check(options: argparse.Namespace) -> _Answer:
    """Check draws, and the model, and write the page."""
    page = Path(options.report) if options.report else None
    if page is not None and (page.is_dir() or not os.access(page.parent, os.W_OK)):
        raise CannotRun(
            f"--report cannot be written: {page} is a folder, or its folder is not writable"
        )
    names = [name for name, _ in options.compare]
    if len(set(names)) < len(names):
        raise CannotRun(f"--compare needs a different name for every file, got {', '.join(names)}")
    comparison, untested = None, []
    with _quietly():
        model = load_model(options.model)
        draws = load_draws(options.idata)
        others = {name: load_draws(place) for name, place in options.compare}
        report = ksd_report(
            model,
            draws,
            predictive=options.ppc,
            modes=options.modes,
            alpha=options.alpha,
            margin=options.margin,
            title=f"{options.model}, {Path(options.idata).name}",
            random_seed=options.seed,
            progressbar=sys.stderr.isatty(),
        )
        if others:
            comparison = _compared(options, model, {CHECKED: draws, **others})
            rows = comparison[comparison["status"] == NOT_TESTED]["reason"]
            untested = [f"{name} was not compared: {reason}" for name, reason in rows.items()]
        unsaved = _saved(report, page)
    failed = report.status == "cannot tell" or unsaved or untested
    code = REJECTED if report.rejected else FAILED if failed else PASSED
    left_out = [*unsaved, *untested]
    untold = []
    if not report.rejected:
        untold = why_untold(deciding(report.test, report.moments), report.check, report.modes)
    shown: list[Any] = [report] + ([] if comparison is None else [_as_text(comparison)])
    if page is not None and not unsaved:
        shown.append(f"Report: {options.report}")
    complaints = {
        "cannot tell": " ".join(untold),
        "could not run": " ".join([*report.missing, *left_out] if code == FAILED else left_out),
    }
    return _Answer(code, of_check(report, code, comparison, left_out), shown, complaints)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep what users' files and progress bars print from mixing with what was found."""
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those about the model and the draws are in the report
        yield


def _saved(report: Report, page: Path | None) -> list[str]:
    """Write the page, if there is to be one, and return why it was not written."""
    if page is None:
        return []
    try:
        report.save(page)
    except Exception as problem:  # of a plot or of the disk: what was found stays found
        return [f"{page} was not written: {type(problem).__name__}: {problem}"]
    return []


def _compared(options: argparse.Namespace, model: Any, draws: Mapping[str, Any]) -> pd.DataFrame:
    return ksd_compare(
        model,
        draws,
        alpha=options.alpha,
        random_seed=options.seed,
        progressbar=sys.stderr.isatty(),
    )


def _as_text(comparison: pd.DataFrame) -> str:
    columns = ["rank", "status", "p_value", "bias_mean", "bias_sd", "ess_ksd", "ess_per_second"]
    shown = comparison[columns].copy()
    shown["p_value"] = [in_short(value) or "–" for value in shown["p_value"]]
    return str(shown.to_string(float_format="{:.3g}".format, na_rep="–"))


def _battery(options: argparse.Namespace) -> _Answer:
    """Try a sampler on the targets."""
    with _quietly():
        sampler = load_sampler(options.sampler)
        result = battery(
            sampler,
            targets=options.targets,
            controls=not options.no_controls,
            alpha=options.alpha,
            random_seed=options.seed,
            progressbar=sys.stderr.isatty(),
        )
    code = {"passed": PASSED, "rejected": REJECTED}.get(result.status, FAILED)
    complaints = {"cannot tell": " ".join(result.reasons)} if code == FAILED else {}
    return _Answer(code, of_battery(result, code), [str(result)], complaints)
