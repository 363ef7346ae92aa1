"""What is made of parts of a sample, here and with a client that does its work in this process."""

from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import pytest

from pymc_ksd.engine import parts as module
from pymc_ksd.engine.parts import add_parts, map_parts
from pymc_ksd.engine.progress import ProgressBar


@dataclass(frozen=True)
class Numbers:
    values: np.ndarray

    @property
    def n_points(self):
        return len(self.values)


class Here:
    """A client whose tasks are done when they are submitted."""

    def __init__(self):
        self.submitted = 0

    def nthreads(self):
        return {"worker": 2}

    def wait_for_workers(self, n_workers, timeout):
        pass

    def submit(self, function, *arguments, pure):
        self.submitted += 1
        found = Future()
        resolved = [
            [one.result() if isinstance(one, Future) else one for one in argument]
            if isinstance(argument, list)
            else argument
            for argument in arguments
        ]
        found.set_result(function(*resolved))
        return found


def numbers():
    return (Numbers(np.arange(start, start + 7)) for start in range(0, 140, 7))


@pytest.fixture
def bar():
    return ProgressBar("Adding", 140, False)


@pytest.mark.parametrize("client", [None, Here()], ids=["alone", "client"])
def test_sums_and_lists_are_those_of_all_parts(client, bar, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("distributed.wait", lambda future, timeout: future.result())
    assert add_parts(lambda part: part.values.sum(), numbers(), client, bar) == 139 * 70
    found = list(map_parts(lambda part: int(part.values[0]), numbers(), client, bar))
    assert found == list(range(0, 140, 7))
    assert bar._done == 280


def test_sums_are_added_where_they_were_found(bar, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("distributed.wait", lambda future, timeout: future.result())
    client = Here()
    add_parts(lambda part: part.values.sum(), numbers(), client, bar)
    # Twenty parts, three sums of up to eight of them, and two sums of these.
    assert client.submitted == 20 + 3 + 2
    assert module._ADDED == 8
