"""Two worker processes of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
from distributed import Client

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.sources import connect


def without_numba() -> None:
    """Loops give the same bytes compiled or not, and two workers less to compile."""
    numba_support.AVAILABLE = False


@contextmanager
def two_workers(folder: Path) -> Iterator[Client]:
    """A client of two workers without Numba, which write to this folder."""
    with (
        dask.config.set({"temporary-directory": str(folder)}),
        connect(None, workers=2, threads=1, memory_limit="1GB", timeout=60) as client,
    ):
        assert isinstance(client, Client)
        client.run(without_numba)
        yield client
