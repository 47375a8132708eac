"""Rows of odd kinds: the same bytes as plain rows, or an error whose way out works as it stands."""

import re

import dask.array
import numpy as np
import pytest
import xarray
import zarr

from dask_dpmeans import DPMeans, InputError

CUBE = np.random.default_rng(0).integers(0, 9, (6, 5, 4)) / 2.0
FORMS = {"numpy": np.asarray, "dask": dask.array.from_array, "zarr": zarr.array}
NAMES = {"dask": dask, "np": np, "xarray": xarray}


@pytest.mark.parametrize("form", FORMS)
def test_an_array_of_three_dimensions_says_how_it_becomes_rows(form):
    X = FORMS[form](CUBE)
    with pytest.raises(InputError, match="Found array with dim 3, of shape") as refused:
        DPMeans(9.0).fit(X)
    last, first = re.findall(r"pass (\S+\.reshape\(\S+ \S+\))", str(refused.value))
    call = re.search(r"(fit\(xarray.*?\)), features", str(refused.value))[0]
    names = NAMES | {"X": X, "fit": DPMeans(9.0).fit}
    expected = DPMeans(9.0).fit(CUBE.reshape(-1, 4)).labels_
    np.testing.assert_array_equal(DPMeans(9.0).fit(eval(last, names)).labels_, expected)
    on_grid = eval(f"{call}='d2')", names)
    np.testing.assert_array_equal(on_grid.labels_, expected.reshape(6, 5))
    of_samples = DPMeans(9.0).fit(eval(first, names))
    np.testing.assert_array_equal(of_samples.labels_, DPMeans(9.0).fit(CUBE.reshape(6, -1)).labels_)
    model = DPMeans(9.0).fit(CUBE[0])
    with pytest.raises(InputError, match="Found array with dim 3, of shape"):
        model.predict(X)


@pytest.mark.parametrize("form", ["dask", "zarr"])
def test_one_dimension_says_how_it_becomes_rows(form):
    X = FORMS[form](CUBE[0, 0])
    with pytest.raises(InputError, match=r"of shape \(4,\), while DPMeans takes rows") as refused:
        DPMeans(9.0).fit(X)
    for way in re.findall(r"(\S+\.reshape\(.*?\))", str(refused.value)):
        DPMeans(9.0).fit(eval(way, NAMES | {"X": X}))
