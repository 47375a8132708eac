"""The numbers of the page of a running fit."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_dpmeans import DPMeans
from dask_dpmeans.engine.history import History
from dask_dpmeans.figures.data.live import MOST_SPREAD, Placed, center_map, step_columns


def placed(seed: int, k: int, d: int, scale: float = 1.0) -> Placed:
    random = np.random.default_rng(seed)
    centers = scale * random.standard_normal((k, d)) * random.uniform(0.1, 10, d)
    weights = random.integers(1, 100, k).astype(np.float64)
    return Placed(centers, weights, np.arange(k)).heaviest(k)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    k=st.integers(2, 40),
    d=st.integers(3, 12),
    scale=st.sampled_from([1e-200, 1.0, 1e200]),
)
def test_the_map_has_the_largest_variances_of_the_weighted_centers(seed, k, d, scale):
    found = placed(seed, k, d, scale)
    coordinates, axes = center_map(found, [""] * d)
    covariance = np.cov((found.centers / scale).T, ddof=0, aweights=found.weights)
    variances = np.linalg.eigvalsh(covariance)[::-1]
    of_map = np.cov((coordinates / scale).T, ddof=0, aweights=found.weights)
    np.testing.assert_allclose(np.diag(of_map), variances[:2], atol=1e-9 * variances[0])
    assert abs(of_map[0, 1]) < 1e-9 * variances[0], "the directions are not correlated"
    for number in (0, 1):
        share = float(re.search(r", (\d+)% of the variance", axes[number])[1]) / 100
        assert share == pytest.approx(variances[number] / variances.sum(), abs=0.006)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), k=st.integers(1, 40), d=st.integers(3, 12))
def test_the_map_does_not_turn_when_clusters_change_their_order(seed, k, d):
    found = placed(seed, k, d)
    order = np.random.default_rng(seed).permutation(k)
    changed = Placed(*(each[order] for each in found))
    before, after = (center_map(each, [""] * d).coordinates for each in (found, changed))
    assert before.shape == (k, 2)
    np.testing.assert_allclose(after[:, 0], before[order, 0], atol=1e-6 * np.abs(before).max())


def test_of_many_centers_the_heaviest_give_the_directions():
    heavy = placed(0, MOST_SPREAD, 3)
    light = np.array([[0.0, 0.0, 1e3], [0.0, 0.0, -1e3]])
    both = Placed(
        np.concatenate([heavy.centers, light]),
        np.concatenate([heavy.weights, [1e-9, 1e-9]]),
        np.arange(MOST_SPREAD + 2),
    )
    some, every = (center_map(each, ["", "", ""]).coordinates for each in (heavy, both))
    np.testing.assert_allclose(every[:MOST_SPREAD], some, atol=1e-6)


def test_two_columns_are_the_map_and_one_is_drawn_against_the_weight():
    two, one = placed(1, 5, 2), placed(1, 5, 1)
    coordinates, axes = center_map(two, ["longitude", "latitude"])
    assert coordinates.tobytes() == two.centers.tobytes()
    assert axes == ["longitude", "latitude"]
    coordinates, axes = center_map(one, ["depth"])
    assert coordinates.tolist() == np.column_stack([one.centers[:, 0], one.weights]).tolist()
    assert axes == ["depth", "weight"]


def test_the_heaviest_centers_come_first_with_their_clusters():
    found = Placed(np.arange(4.0)[:, np.newaxis], np.array([1.0, 4.0, 2.0, 4.0]), np.arange(4) * 10)
    heaviest = found.heaviest(3)
    assert heaviest.groups.tolist() == [10, 30, 20]
    assert heaviest.centers[:, 0].tolist() == [1.0, 3.0, 2.0]
    assert heaviest.weights.tolist() == [4.0, 4.0, 2.0]


@pytest.fixture(scope="module")
def history() -> History:
    rows = np.random.default_rng(0).standard_normal((600, 2)) * 4
    model = DPMeans(20.0, search=True, tol=0, outlier_penalty=1e3, random_state=0)
    return model.fit(rows).history_  # with outliers, each move of the search is a step


def test_pieces_of_the_steps_are_the_steps(history):
    whole = step_columns(history, 0)
    assert len(history) > 2
    for cut in range(len(history) + 1):
        parts = step_columns(History(history[:cut]), 0), step_columns(history, cut)
        for name, column in whole.items():
            assert np.concatenate([part[name] for part in parts]).tolist() == column.tolist(), name


def test_changes_are_counted_by_their_sign(history):
    columns = step_columns(history, 0)
    assert columns["step"].tolist() == list(range(1, len(history) + 1))
    assert columns["objective"].tolist() == [record.objective for record in history]
    for number, record in enumerate(history):
        added = record.births + record.splits + record.openings
        removed = record.deaths + record.merges + record.deletes + record.closings
        assert columns["adding"][number] == added
        assert columns["removing"][number] == -removed
    assert columns["adding"].any()
