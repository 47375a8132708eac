"""What is imported when it is first used."""

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from dask_dpmeans import lazy
from dask_dpmeans.lazy import PausedCollector, paused_collector


@paused_collector()
def paused(depth):
    """Fail with the collector off, some way down."""
    assert not gc.isenabled()
    if not depth:
        raise ImportError("gone")
    with pytest.raises(ImportError, match="gone"):
        paused(depth - 1)
    assert not gc.isenabled()
    raise ImportError("gone")


@pytest.mark.parametrize("enabled", [True, False])
def test_no_garbage_is_collected_for_a_while_and_then_as_before(enabled):
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(ImportError, match="gone"):
            paused(2)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("enabled", [True, False])
def test_threads_may_pause_at_once_and_end_in_any_order(enabled):
    before = gc.isenabled()
    ends = Event(), Event()
    inside = Event(), Event()

    def pause(number):
        with paused_collector():
            inside[number].set()
            assert ends[number].wait(10)

    (gc.enable if enabled else gc.disable)()
    try:
        with ThreadPoolExecutor(2) as pool:
            jobs = []
            for number in (0, 1):
                jobs.append(pool.submit(pause, number))
                assert inside[number].wait(10)
            for number in (0, 1):  # the first to pause ends first
                assert not gc.isenabled()
                ends[number].set()
                jobs[number].result(10)
        assert gc.isenabled() == enabled
    finally:
        for end in ends:
            end.set()
        (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("when", ["isenabled", "disable", "enable"])
@pytest.mark.parametrize("after", [True, False])
def test_finalizers_that_run_as_a_pause_begins_or_ends_may_pause(when, after, monkeypatch):
    """Garbage is collected as soon as the collector is on: a pause inside waited for its own thread."""
    enabled, nested = [True], []
    paused = PausedCollector()

    def finalize():
        if not nested:
            nested.append(when)
            with paused():
                pass

    def called(name):
        def call():
            if name == when and not after:
                finalize()
            value = enabled[0]
            if name != "isenabled":
                enabled[0] = name == "enable"
            if name == when and after:
                finalize()
            return value

        return call

    def pause():
        with paused():
            assert not enabled[0]

    fake = SimpleNamespace(**{name: called(name) for name in ("isenabled", "disable", "enable")})
    monkeypatch.setattr(lazy, "gc", fake)
    thread = Thread(target=pause, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert enabled[0]
    assert nested
    assert paused.pauses == 0
