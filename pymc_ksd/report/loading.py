"""What the command line is given: models and samplers in Python files, and files of draws."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymc as pm
import xarray as xr

from pymc_ksd.models.bambi_models import is_bambi


class CannotRun(Exception):
    """Something that the user has to mend before anything can be checked."""


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
        raise CannotRun(f"there is no file {file}")
    names = _executed(path)
    models = {key: value for key, value in names.items() if _is_model(value)}
    known = ", ".join(models) or "none"
    if not name:
        if len({id(model) for model in models.values()}) != 1:
            raise CannotRun(f"{file} must have one pm.Model, found: {known}; say {file}:name")
        return next(iter(models.values()))
    if name not in names:
        raise CannotRun(f"{file} has no {name!r}; models in it: {known}")
    found = names[name]
    if callable(found) and not _is_model(found):
        with _running(path):
            found = found()
    if not _is_model(found):
        raise CannotRun(
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
        raise CannotRun(f"{path} must be a Python file")
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
        raise CannotRun(f"{path} failed with {type(problem).__name__}: {problem}") from problem
    finally:
        sys.path[:] = before


def load_sampler(place: str) -> Callable[..., Any]:
    """Return the function in a module or a Python file.

    Parameters
    ----------
    place : str
        ``"package.module:function"``, where the working folder is looked at first, or
        ``"file.py:function"``.

    Returns
    -------
    callable
    """
    where, _, name = place.rpartition(":")
    if not where or not name.isidentifier():
        raise CannotRun(f"a sampler is given as module:function or file.py:function, got {place}")
    path = Path(where)
    if path.suffix == ".py":
        if not path.is_file():
            raise CannotRun(f"there is no file {where}")
        names = _executed(path)
    else:
        with _running(path):
            names = vars(importlib.import_module(where))
    if name not in names:
        raise CannotRun(f"{where} has no {name!r}")
    if not callable(names[name]):
        raise CannotRun(f"{name!r} in {where} must be a function, got {type(names[name]).__name__}")
    return names[name]


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
        raise CannotRun(f"there is no file {place}")
    try:
        tree: xr.DataTree = xr.open_datatree(path, engine="zarr" if path.is_dir() else "h5netcdf")
        tree.load()
        tree.close()
    except Exception as problem:
        raise CannotRun(
            f"{place} cannot be read as netCDF or zarr ({type(problem).__name__}: {problem})"
        ) from problem
    if "posterior" not in tree.children:
        groups = ", ".join(tree.children) or "none"
        raise CannotRun(f"{place} has no group 'posterior'; its groups: {groups}")
    return tree
