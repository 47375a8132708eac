import pytest

from dask_dpmeans.kernels import center_tree, distance, numba_support
from dask_dpmeans.kernels.center_tree import CenterTree


@pytest.fixture(autouse=True, scope="module", params=["Numba", "NumPy"])
def loops(request):
    """Every kernel test runs with compiled loops, where Numba is installed, and without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            numba_support, "AVAILABLE", numba_support.AVAILABLE and request.param == "Numba"
        )
        yield


@pytest.fixture(scope="module", params=["definition", "ranking", "tree"])
def way(request):
    """Few rows go to the nearest center as many do: by the definition, a ranking or a tree."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "definition":
            patch.setattr(distance, "FEW_DIFFERENCES", 0)
        if request.param == "tree":
            patch.setattr(distance, "LEAST_ROWS", 0)
            patch.setattr(distance, "LEAST_CENTERS", 2)
            patch.setattr(distance, "MOST_COLUMNS", 10**6)
            patch.setattr(center_tree, "LEAF", 2)
            patch.setattr(CenterTree, "pays", lambda tree, rows: True)
        else:
            patch.setattr(distance, "MOST_COLUMNS", 0)
        yield
