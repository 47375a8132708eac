import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import DTYPES, TAME, spread, tables, trace, weights_of

from dask_dpmeans.kernels import compiled
from dask_dpmeans.kernels.distance import Centers, nearest
from dask_dpmeans.sources import as_source


@given(tables(rows=(1, 300), columns=(1, 9), kinds=TAME), st.sampled_from([0.01, 0.1, 1.0]), st.data())
def test_a_fit_gives_the_same_bytes_with_compiled_loops_and_without(rows, factor, data):
    weights, penalty = data.draw(weights_of(len(rows))), factor * spread(rows)
    fits = []
    for available in (compiled.AVAILABLE, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled, "AVAILABLE", available)
            fits.append(trace(as_source(rows, weights), penalty))
    assert fits[0] == fits[1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [2, 17, 1024, 1025, 2049, 5000])
def test_any_number_of_centers_may_be_as_near_as_the_nearest(dtype, k):
    rows = np.arange(12, dtype=dtype).reshape(4, 3)
    centers = np.repeat(rows[:1] + 0.5, k, axis=0).astype(np.float64)
    centers[-1] = rows[3]
    assert nearest(rows, Centers(centers)).tolist() == [0, 0, k - 1, k - 1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 5, 8])
@pytest.mark.parametrize("d", [1, 3, 17])
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e3])
def test_the_norms_of_a_tile_are_bounded_by_its_rows_alone(dtype, n, d, scale):
    integer = np.int32 if dtype == np.float32 else np.int64
    random = np.random.default_rng([n, d])
    rows = (scale * random.choice([-1.0, 1.0], (n, d))).astype(dtype)
    left = np.full((8, d + 1), 1e20, dtype)
    shift = np.zeros(d, dtype)
    bound = compiled._shift(rows, shift, left, left.reshape(-1).view(integer), integer(np.iinfo(integer).max))
    assert left[:n].tolist() == np.column_stack([rows, np.ones(n)]).tolist()
    assert bound == pytest.approx(scale * np.sqrt(d), rel=1e-6)  # that of rows whose numbers are all as large


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
