import pytest

from dask_dpmeans.kernels import (
    center_grid,
    center_tree,
    definition_compiled,
    distance,
    leading_columns,
    numba_support,
)
from dask_dpmeans.kernels.center_tree import CenterTree
from dask_dpmeans.kernels.leading_columns import LeadingColumns


def pytest_collection_modifyitems(items):
    """Trees, cells and main axes have compiled loops alone: without these, rows are ranked."""
    found = [(item, getattr(item, "callspec", None)) for item in items]
    items[:] = [
        item
        for item, spec in found
        if spec is None
        or spec.params.get("loops") != "NumPy"
        or spec.params.get("way") not in ("narrow", "tree", "grid", "turned")
    ]


@pytest.fixture(autouse=True, scope="module", params=["Numba", "NumPy"])
def loops(request):
    """Every kernel test runs with compiled loops and without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            numba_support, "AVAILABLE", numba_support.AVAILABLE and request.param == "Numba"
        )
        yield


@pytest.fixture(
    scope="module", params=["definition", "narrow", "ranking", "tree", "grid", "turned"]
)
def way(request):
    """Few rows go to the nearest center as many do, in each of the ways that there are."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "definition":
            patch.setattr(distance, "FEW_DIFFERENCES", 0)
        if request.param in ("tree", "grid"):
            patch.setattr(distance, "LEAST_ROWS", 0)
            patch.setattr(distance, "LEAST_CENTERS", 2)
            patch.setattr(distance, "MOST_COLUMNS", 10**6)
            patch.setattr(center_tree, "LEAF", 2)
            patch.setattr(CenterTree, "pays", lambda tree, rows, count: True)
            patch.setattr(distance, "LEAST_GRID", 2 if request.param == "grid" else 10**6)
            patch.setattr(center_grid, "ROWS_OF_CELL", 0)
            patch.setattr(center_grid, "MOST_LEFT", 1.0)
        else:
            patch.setattr(distance, "MOST_COLUMNS", 0)
        if request.param != "narrow":
            patch.setattr(definition_compiled, "NARROW", 0)
        if request.param == "turned":
            patch.setattr(distance, "LEAST_ROWS", 0)
            patch.setattr(distance, "LEAST_TURNED", 2)
            patch.setattr(distance, "LEAST_COLUMNS", 1)
            patch.setattr(leading_columns, "SHARES", (0.5,))
            patch.setattr(leading_columns, "CHUNK", 7)
            patch.setattr(LeadingColumns, "cost", lambda turned, rows, count: 0.0)
        yield
