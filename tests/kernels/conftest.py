import pytest

from dask_dpmeans.kernels import compiled


@pytest.fixture(autouse=True, scope="module", params=["Numba", "NumPy"])
def loops(request):
    """Every kernel test runs with compiled loops, where Numba is installed, and without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "AVAILABLE", compiled.AVAILABLE and request.param == "Numba")
        yield
