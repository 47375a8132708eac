"""What is imported when it is first used."""

import gc

import pytest

from dask_dpmeans.lazy import paused_collector


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
