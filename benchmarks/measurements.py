"""Long measurements: made once, here or in other processes, and kept to go on from.

Every finished measurement is a small JSON file in a folder. An interrupted run finds it there and
goes on with the rest; what other versions have left there is refused.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import re
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Measurements", "measured", "versions", "write_page", "write_scaled_page"]


def versions() -> dict[str, str]:
    """Return the versions of what measurements depend on."""
    packages = ("pymc-ksd", "pymc", "pytensor", "numpy", "scipy", "numba")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


class Measurements:
    """Calls of functions whose results are kept.

    Parameters
    ----------
    folder : Path, optional
        Where results are kept, and found again. By default they are not.
    name : str, default "measurements"
        What is measured: several may share a folder.
    made_with : dict, optional
        What results depend on, beside the versions of packages. If a folder holds results that
        were made with something else, it is refused.
    workers : int, default 1
        Processes side by side; 1 measures everything in this one.
    shown : bool, default True
        Print every result.

    Use it as a context: calls return futures, and results are JSON values, with rates as
    dictionaries and arrays as lists, whether they were measured now or before.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        name: str = "measurements",
        made_with: dict[str, Any] | None = None,
        workers: int = 1,
        shown: bool = True,
    ) -> None:
        self._folder = folder
        self._name = name
        self._shown = shown
        # Started anew: a copy of this process could inherit locks that its threads hold.
        self._pool = ProcessPoolExecutor(workers, get_context("spawn")) if workers > 1 else None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._check({**(made_with or {}), "versions": versions()}, folder / f"{name}.json")

    def __enter__(self) -> Measurements:
        """Start."""
        return self

    def __exit__(self, *error: object) -> None:
        """Wait until the last result is kept; leave out what has not begun after an error."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def __call__(self, key: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Return the result of a call, which is known by its key or will be."""
        path = self._path(key)
        if path is not None and path.exists():
            kept: Future[Any] = Future()
            kept.set_result(json.loads(path.read_text(encoding="utf-8"))["result"])
            return kept
        if self._pool is None:
            measured: Future[str] = Future()
            measured.set_result(_measure(function, *arguments))
        else:
            measured = self._pool.submit(_measure, function, *arguments)
        result: Future[Any] = Future()
        measured.add_done_callback(lambda done: self._finish(key, done, result))
        return result

    def _finish(self, key: str, measured: Future[str], result: Future[Any]) -> None:
        if measured.cancelled():
            result.cancel()
            return
        try:
            found = json.loads(measured.result())
            path = self._path(key)
            if path is not None:
                _write(path, {"key": key, **found})
        except BaseException as error:
            # Whoever waits for the result is to learn of it.
            result.set_exception(error)
            return
        if self._shown:
            print(f"{key}: {json.dumps(found['result'])} ({found['seconds']:.0f} s)", flush=True)
        result.set_result(found["result"])

    def _path(self, key: str) -> Path | None:
        """Return a file's name that people can read and that no other key has."""
        if self._folder is None:
            return None
        readable = re.sub(r"[^\w.=-]+", "_", key)[:80]
        return self._folder / f"{self._name}-{readable}-{zlib.crc32(key.encode()):08x}.json"

    def _check(self, made_with: dict[str, Any], path: Path) -> None:
        if not path.exists():
            _write(path, made_with)
        elif json.loads(path.read_text(encoding="utf-8")) != made_with:
            raise ValueError(
                f"The results kept in {path.parent} were made with other methods or versions, see "
                f"{path}: give another folder, or remove this one to begin anew."
            )


def measured(
    report: Callable[[float, Callable[..., Future[Any]]], str],
    name: str,
    scale: float,
    workers: int,
    kept: Path | None,
) -> str:
    """Return a page whose report measures by calls of functions, each known by its arguments.

    Parameters
    ----------
    report : callable
        ``report(scale, measure)`` returns the page, where ``measure(function, *arguments)`` returns
        a future.
    name : str
        What is measured.
    scale : float
        Multiplies the number of runs.
    workers : int
        Processes side by side.
    kept : Path, optional
        Where results are kept.
    """
    with Measurements(kept, name=name, workers=workers) as measurements:

        def measure(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
            return measurements(f"{function.__name__}{arguments}", function, *arguments)

        return report(scale, measure)


def write_scaled_page(
    description: str | None,
    report: Callable[[float, int, Path | None], str],
    page: str,
    arguments: Sequence[str] | None,
) -> None:
    """Run a command line with a scale, workers and a folder, which writes a page."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of runs")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, help="a folder for finished cells, to go on from")
    write_page(
        parser,
        lambda options: report(options.scale, options.workers, options.keep),
        page,
        arguments,
    )


def write_page(
    parser: argparse.ArgumentParser,
    report: Callable[[argparse.Namespace], str],
    page: str,
    arguments: Sequence[str] | None,
) -> None:
    """Run a command line that measures something and writes a page.

    Parameters
    ----------
    parser : ArgumentParser
        Has the options of the measurement; ``--out`` is added.
    report : callable
        Returns the page's text, given the options.
    page : str
        Where the page is written by default.
    arguments : sequence of str, optional
        By default those of the process.
    """
    parser.add_argument("--out", type=Path, default=Path(page))
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    options.out.write_text(report(options), encoding="utf-8")
    print(f"{options.out} written after {time.perf_counter() - start:.0f} s")


def _measure(function: Callable[..., Any], *arguments: Any) -> str:
    start = time.perf_counter()
    result = function(*arguments)
    seconds = time.perf_counter() - start
    return json.dumps({"result": result, "seconds": seconds}, default=_plain)


def _plain(value: Any) -> Any:
    """Return arrays and their numbers as lists and numbers, and a record as a dictionary."""
    return (
        value.tolist() if isinstance(value, np.ndarray | np.generic) else dataclasses.asdict(value)
    )


def _write(path: Path, content: dict[str, Any]) -> None:
    """Write a file at once, so that an interrupted run leaves no half of one."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    temporary.replace(path)
