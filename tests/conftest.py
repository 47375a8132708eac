"""What holds around every test."""

from collections.abc import Iterator

import pytest
import s3fs
from fsspec.implementations.memory import MemoryFileSystem

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.numba_support import PastWork
from dask_dpmeans.methods.dpmeans import search


def pytest_configure(config: pytest.Config) -> None:
    """Let xdist hand out files in the order of the folders, so that the short doctests come last.

    Its own order, by the number of tests, starts the slowest files last.
    """
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.fixture(autouse=True, scope="session")
def compiled_at_once() -> Iterator[None]:
    """Loops are compiled however little work there is: the tests compare them with NumPy.

    What other processes did is not known, nor kept.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "LEAST_WORK", 0)
        patch.setattr(numba_support, "PastWork", lambda _: PastWork(None))
        yield


@pytest.fixture(autouse=True)
def empty_memory() -> Iterator[None]:
    """A test that writes to memory://, which all of a process share, leaves nothing to the next."""
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture(autouse=True)
def no_cached_s3() -> Iterator[None]:
    """The file systems of S3 that a test opens end with it.

    fsspec caches them by their options alone: one whose endpoint came from the environment would
    be given to the next test, whose endpoint is another.
    """
    yield
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def few_kicks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches end after eight kicks that fail: what is compared is the same however good they are."""
    monkeypatch.setattr(search, "KICKS", 8)
