"""The command ``pymc-ksd``: check draws and model in a pipeline, with exit codes."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pymc as pm
import xarray as xr
from rich.console import Console

from pymc_ksd._version import __version__
from pymc_ksd.models.bambi_models import is_bambi
from pymc_ksd.report.report import Report
from pymc_ksd.report.run_checks import LEAST_ALPHA, ksd_report
from pymc_ksd.report.verdict import deciding, why_untold

PASSED, REJECTED, FAILED = 0, 1, 2

_EXAMPLES = """\
examples:
  pymc-ksd check model.py posterior.nc
      Do the draws in posterior.nc come from the posterior of the model in model.py?
  pymc-ksd check model.py:build posterior.nc --ppc --report report.html
      Also: does the model explain its data? build is the model, or a function that returns it.
  pymc-ksd check model.py posterior.nc --json --alpha 0.01 > result.json
      For a pipeline: the numbers as JSON, and the exit code.
  pymc-ksd check model.py posterior.nc --margin 0.1
      Is every mean within 0.1 sd, and every sd within 10 %, of the posterior's?

exit codes:
  0  passed: nothing was rejected, and with --margin everything is certified to lie within it
  1  rejected: the draws, or with --ppc the model, at level ALPHA
  2  cannot tell, or the check or a part of it could not run; the reason is on standard error
"""


class _CannotRun(Exception):
    """Something that the user has to mend before anything can be checked."""


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
        report, unsaved = _check(options)
        failed = report.status == "cannot tell" or unsaved
        code = REJECTED if report.rejected else FAILED if failed else PASSED
        reason = " ".join([*report.missing, *unsaved] if code == FAILED else unsaved)
        options.report = None if unsaved else options.report
    except _CannotRun as problem:
        report, code, reason = None, FAILED, str(problem)
    except KeyboardInterrupt:
        report, code, reason = None, FAILED, "interrupted"
    except Exception as problem:
        report, code, reason = None, FAILED, f"{type(problem).__name__}: {problem}"
    # What was found is decided: a reader that has gone, or cannot show a letter, changes nothing.
    try:
        _show(report, reason, options)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _show(report: Report | None, reason: str, options: argparse.Namespace) -> None:
    """Print the report, and what could not run."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    untold = []
    if report is not None and not report.rejected:
        untold = why_untold(deciding(report.test, report.moments), report.check, report.modes)
    for what, why in {"cannot tell": " ".join(untold), "could not run": reason}.items():
        if why:
            print(f"pymc-ksd: {what}: {why}", file=sys.stderr)  # noqa: T201
    if options.json:
        failed = {"status": "cannot tell", "reason": reason, "error": reason}
        contents = failed if report is None else report.to_dict()
        print(json.dumps(contents, indent=2, allow_nan=False))  # noqa: T201
    elif report is not None:
        console = Console()
        console.print(report)
        if options.report:
            console.print(f"Report: {options.report}", markup=False, highlight=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pymc-ksd",
        description="Test whether a sampler's draws come from a PyMC model's posterior, and "
        "whether the model explains its data, by the kernelized Stein discrepancy.",
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
        "--ppc", action="store_true", help="also check whether the model explains its data"
    )
    check.add_argument(
        "--modes",
        action="store_true",
        help="also look for modes, and test whether the draws visit them in the right proportions",
    )
    check.add_argument(
        "--seed", type=int, default=0, help="seed that makes the check repeatable (default 0)"
    )
    return parser


def _level(text: str) -> float:
    value = float(text)
    if not LEAST_ALPHA <= value < 1:
        raise argparse.ArgumentTypeError(
            f"must be at least {LEAST_ALPHA:g} and less than 1, got {text}"
        )
    return value


def _margin(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be positive and finite, got {text}")
    return value


def _check(options: argparse.Namespace) -> tuple[Report, list[str]]:
    """Return the report, and why its page was not written, if so."""
    page = Path(options.report) if options.report else None
    if page is not None and (page.is_dir() or not os.access(page.parent, os.W_OK)):
        raise _CannotRun(f"--report cannot be written: {page} is a folder, or in none to write to")
    # What the user's file and progress bars print must not mix with JSON.
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those about the model and the draws are in the report
        model = load_model(options.model)
        draws = load_draws(options.idata)
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
        unsaved = []
        if page is not None:
            try:
                report.save(page)
            except Exception as problem:  # of a plot or of the disk: what was found stays found
                unsaved.append(f"{page} was not written: {type(problem).__name__}: {problem}")
    return report, unsaved


def load_model(place: str) -> Any:
    """Return the model in a Python file.

    Parameters
    ----------
    place : str
        ``"file.py"``, when it has one model, or ``"file.py:name"``, where the name is that of a
        model or of a function without arguments that returns one.

    Returns
    -------
    pm.Model or bambi.Model
    """
    file, _, name = place.rpartition(":") if _has_name(place) else (place, "", "")
    path = Path(file)
    if not path.is_file():
        raise _CannotRun(f"there is no file {file}")
    names = _executed(path)
    models = {key: value for key, value in names.items() if _is_model(value)}
    known = ", ".join(models) or "none"
    if not name:
        if len({id(model) for model in models.values()}) != 1:
            raise _CannotRun(f"{file} must have one pm.Model, found: {known}; say {file}:name")
        return next(iter(models.values()))
    if name not in names:
        raise _CannotRun(f"{file} has no {name!r}; models in it: {known}")
    found = names[name]
    if callable(found) and not _is_model(found):
        with _running(path):
            found = found()
    if not _is_model(found):
        raise _CannotRun(
            f"{name!r} in {file} must be a pm.Model or a function that returns one, got "
            f"{type(found).__name__}"
        )
    return found


def _is_model(value: Any) -> bool:
    return isinstance(value, pm.Model) or is_bambi(value)


def _has_name(place: str) -> bool:
    """Whether a name follows the file; a drive letter is not one."""
    return place.rpartition(":")[2].isidentifier() and not Path(place).is_file()


def _executed(path: Path) -> dict[str, Any]:
    """Run a file as a module, not as a script, and return its names."""
    spec = importlib.util.spec_from_file_location(f"pymc_ksd_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise _CannotRun(f"{path} must be a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses, for one, look for it
    with _running(path):
        spec.loader.exec_module(module)
    return vars(module)


@contextlib.contextmanager
def _running(path: Path) -> Iterator[None]:
    """Let a file import what lies beside it, as a script can, and say so when it fails."""
    before = list(sys.path)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        yield
    except (Exception, SystemExit) as problem:
        raise _CannotRun(f"{path} failed with {type(problem).__name__}: {problem}") from problem
    finally:
        sys.path[:] = before


def load_draws(place: str) -> xr.DataTree:
    """Return the draws in a netCDF file or a zarr folder.

    Parameters
    ----------
    place : str
        The file, as ArviZ of either stack has saved it.

    Returns
    -------
    xarray.DataTree
    """
    path = Path(place)
    if not path.exists():
        raise _CannotRun(f"there is no file {place}")
    try:
        tree: xr.DataTree = xr.open_datatree(path, engine="zarr" if path.is_dir() else "h5netcdf")
        tree.load()
        tree.close()
    except Exception as problem:
        raise _CannotRun(
            f"{place} cannot be read as netCDF or zarr ({type(problem).__name__}: {problem})"
        ) from problem
    if "posterior" not in tree.children:
        groups = ", ".join(tree.children) or "none"
        raise _CannotRun(f"{place} has no group 'posterior'; its groups: {groups}")
    return tree
