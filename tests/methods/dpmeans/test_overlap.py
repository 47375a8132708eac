"""The overlap of clusters, against folded normal rows, loops over rows, and known mixtures."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import foldnorm, norm
from strategies import TAME, seeds, tables, weights_of

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.methods.dpmeans.stability import (
    component_index,
    misclassified,
    squared_projections,
)


@given(st.floats(0.1, 8.0))
def test_a_component_is_misclassified_as_its_folded_rows_say(half: float) -> None:
    folded = foldnorm(half)
    found = misclassified(np.array([folded.mean() / folded.std()]))[0]
    assert found == pytest.approx(norm.sf(half), rel=1e-3, abs=1e-17)


def test_rows_without_spread_are_never_misclassified_and_half_of_a_component_that_was_cut_is() -> (
    None
):
    cut = np.sqrt(2 / np.pi) / np.sqrt(1 - 2 / np.pi)
    ratios = np.array([0.0, 1.0, cut, 1.5, 2.0, 5.0, 50.0, np.inf])
    found = misclassified(ratios)
    assert found[:3].tolist() == [0.5] * 3
    assert (np.diff(found[2:]) <= 0).all()
    assert (1 - found[-2:]).tolist() == [1.0, 1.0]


@given(tables((1, 30), (1, 4), TAME), st.integers(1, 4), seeds, st.data())
def test_projections_are_of_the_row_less_its_center_on_the_lines_to_other_centers(
    rows, k, seed, data
) -> None:
    rng = np.random.default_rng(seed)
    weights, labels = data.draw(weights_of(len(rows))), rng.integers(k, size=len(rows))
    centers = rows[rng.integers(len(rows), size=k)] + rng.normal(size=(k, rows.shape[1]))
    found = squared_projections(Block(0, rows, weights), labels, centers)
    radius = max(np.linalg.norm(each - centers.mean(axis=0)) for each in centers) if k > 1 else 1.0
    wanted = np.zeros((k, k))
    for i, (row, label) in enumerate(zip(rows.astype(float), labels, strict=True)):
        for other in range(k):
            along = (row - centers[label]) @ (centers[other] - centers[label]) / radius
            wanted[label, other] += along**2 * (1.0 if weights is None else weights[i])
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * max(1.0, wanted.max()))


def test_projections_have_the_same_bytes_without_compiled_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    rows, centers = rng.normal(size=(700, 3)).astype(np.float32), rng.normal(size=(5, 3))
    block, labels = Block(0, rows, rng.random(700)), rng.integers(5, size=700)
    found = squared_projections(block, labels, centers)
    monkeypatch.setattr(numba_support, "AVAILABLE", False)
    assert found.tobytes() == squared_projections(block, labels, centers).tobytes()


def index_of(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The index of clusters whose centers are the means of their rows."""
    weights = np.bincount(labels).astype(float)
    centers = np.stack([rows[labels == each].mean(axis=0) for each in range(len(weights))])
    squares = squared_projections(Block(0, rows, None), labels, centers)
    return component_index(squares, weights, centers)


@pytest.mark.parametrize("scale", [1e-120, 1.0, 1e120])
@pytest.mark.parametrize("apart", [2.0, 3.0, 4.0, 6.0])
def test_two_normal_components_have_the_index_of_their_bayes_error(
    apart: float, scale: float
) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40_000, 3))
    rows[::2, 0] += apart
    labels = (rows[:, 0] > apart / 2).astype(np.int64)
    error = norm.sf(apart / 2)
    found = index_of(np.ascontiguousarray((rows + 50.0) * scale), labels)
    np.testing.assert_allclose(found, (1 - error) / (1 + error), atol=0.03)


def test_a_component_that_was_cut_in_two_has_a_low_index_however_long_it_is() -> None:
    rng = np.random.default_rng(0)
    for length in (1.0, 5.0):
        rows = rng.normal(size=(40_000, 2)) * [length, 1.0]
        assert index_of(rows, (rows[:, 0] > 0).astype(np.int64)).max() < 0.65


def test_rows_of_a_large_cluster_weigh_more_in_a_small_one_than_the_other_way() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(11_000, 2))
    rows[:1000, 0] += 4.0
    labels = (rows[:, 0] < 2.0).astype(np.int64)
    small, large = index_of(rows, labels)
    assert small < 0.9 < 0.95 < large


def test_equal_rows_and_one_cluster_are_their_components() -> None:
    equal = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 5.0]], 10, axis=0)
    assert index_of(equal, np.arange(30) // 10).tolist() == [1.0] * 3
    assert index_of(np.random.default_rng(0).normal(size=(9, 2)), np.zeros(9, int)).tolist() == [1]
