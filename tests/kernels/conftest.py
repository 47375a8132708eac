import pytest

from dask_dpmeans.kernels import numba_support


@pytest.fixture(autouse=True, scope="module", params=["Numba", "NumPy"])
def loops(request):
    """Every kernel test runs with compiled loops, where Numba is installed, and without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            numba_support, "AVAILABLE", numba_support.AVAILABLE and request.param == "Numba"
        )
        yield
