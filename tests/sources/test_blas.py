"""BLAS runs on one thread in our tasks, and as before outside."""

from dataclasses import dataclass

import dask.array as da
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dask_dpmeans.kernels.block import Block
from dask_dpmeans.sources import as_source


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@dataclass(frozen=True)
class BlasThreads:
    def chunk(self, block: Block) -> set[int]:
        return blas_threads()

    def combine(self, left: set[int], right: set[int]) -> set[int]:
        return left | right


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("lazy", [False, True])
def test_blas_runs_on_one_thread_inside_and_as_before_outside(threads: int, lazy: bool) -> None:
    rows = np.zeros((500_000, 2), np.float32)
    with threadpool_limits(2):
        source = as_source(da.from_array(rows, chunks=100_000) if lazy else rows, threads=threads)
        assert source.fold(BlasThreads()) == {1}
        assert blas_threads() == {2}
