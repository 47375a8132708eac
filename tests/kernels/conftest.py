import pytest

from dask_dpmeans.kernels import distance, numba_support


@pytest.fixture(autouse=True, scope="module", params=["Numba", "NumPy"])
def loops(request):
    """Every kernel test runs with compiled loops, where Numba is installed, and without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            numba_support, "AVAILABLE", numba_support.AVAILABLE and request.param == "Numba"
        )
        yield


@pytest.fixture(scope="module", params=["definition", "ranking"])
def way(request):
    """Few rows go to the nearest center by the definition, and by the ranking of many rows."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "ranking":
            patch.setattr(distance, "FEW_DIFFERENCES", 0)
        yield
