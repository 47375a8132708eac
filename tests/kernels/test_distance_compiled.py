import numpy as np
import pytest
from strategies import DTYPES

from dask_dpmeans.kernels import distance_compiled
from dask_dpmeans.kernels.distance import Centers, nearest

pytestmark = pytest.mark.usefixtures("way")


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
    bound = distance_compiled._shift(rows, shift, shift[:0], left, left.reshape(-1).view(integer))
    assert left[:n].tolist() == np.column_stack([rows, np.ones(n)]).tolist()
    # The length of a row whose numbers all have this size.
    assert bound == pytest.approx(scale * np.sqrt(d), rel=1e-6)
