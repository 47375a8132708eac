"""What holds around every test."""

from collections.abc import Iterator

import pytest
from fsspec.implementations.memory import MemoryFileSystem


@pytest.fixture(autouse=True)
def empty_memory() -> Iterator[None]:
    """A test that writes to memory://, which all of a process share, leaves nothing to the next."""
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
