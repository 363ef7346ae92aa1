import io

import pytest
from rich.console import Console

from pymc_ksd.engine import progress


@pytest.fixture
def screen(monkeypatch):
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100)
    monkeypatch.setattr(progress, "Console", lambda: console)
    return text


def test_progress_bar_is_not_written_to_files(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    monkeypatch.setattr(progress, "Console", lambda: Console(file=text))
    with progress.progress_bar("Working", 2, visible=True) as bar:
        bar.advance(1)
        bar.advance(1)
    assert text.getvalue() == ""


def test_progress_bar_stays_away_from_short_work(screen):
    with progress.progress_bar("Working", 2, visible=True) as bar:
        bar.advance(1)
    assert screen.getvalue() == ""


def test_progress_bar_shows_long_work(screen, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    with progress.progress_bar("Working", 2, visible=True) as bar:
        bar.advance(1)
        bar._bar.refresh()
    assert "Working" in screen.getvalue()
    assert "50%" in screen.getvalue()


def test_progress_bar_tells_the_time_that_remains(screen, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with progress.progress_bar("Working", 1_000, visible=True) as bar:
        for _ in range(40):  # ten a second
            clock[0] += 1.0
            bar.advance(10)
        (task,) = bar._bar.tasks
        assert task.time_remaining == pytest.approx(60, abs=3)
        assert task.elapsed == pytest.approx(40)


def test_progress_bar_can_be_off(screen, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    with progress.progress_bar("Working", 2, visible=False) as bar:
        bar.advance(1)
    assert screen.getvalue() == ""


def interrupted_work():
    with progress.progress_bar("Working", 2, visible=True) as bar:
        interrupted_work.bar = bar
        bar.advance(1)
        raise KeyboardInterrupt


def test_progress_bar_ends_after_an_error(screen, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0)
    with pytest.raises(KeyboardInterrupt):
        interrupted_work()
    assert not interrupted_work.bar._bar.live.is_started
