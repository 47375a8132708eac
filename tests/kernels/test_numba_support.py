import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import TAME, spread, tables, trace, weights_of

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.sources import as_source


@given(
    tables(rows=(1, 300), columns=(1, 9), kinds=TAME), st.sampled_from([0.01, 0.1, 1.0]), st.data()
)
def test_a_fit_gives_the_same_bytes_with_compiled_loops_and_without(rows, factor, data):
    weights, penalty = data.draw(weights_of(len(rows))), factor * spread(rows)
    fits = []
    for available in (numba_support.AVAILABLE, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numba_support, "AVAILABLE", available)
            fits.append(trace(as_source(rows, weights), penalty))
    assert fits[0] == fits[1]


def test_compiled_loops_load_no_other_blas_than_those_that_are_limited():
    script = """
import numpy as np
from threadpoolctl import threadpool_info
from dask_dpmeans.kernels.distance import Centers, nearest
before = {pool["filepath"] for pool in threadpool_info() if pool["user_api"] == "blas"}
nearest(np.eye(5), Centers(np.eye(5)))
assert {pool["filepath"] for pool in threadpool_info() if pool["user_api"] == "blas"} == before
"""
    subprocess.run([sys.executable, "-c", script], check=True)
