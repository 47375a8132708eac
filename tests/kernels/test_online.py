import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import grid_problems, spread, tables

from dask_dpmeans import reference
from dask_dpmeans.kernels.online import LEAST_ROOM, Boxes, online, split

KINDS = ("grid", "clouds", "offset", "outliers", "tiny", "subnormal")


@st.composite
def sequences(draw, most=60):
    """Rows in float64 and a penalty; on grids there are ties, and squared distances that equal the penalty."""
    if draw(st.booleans()):
        problem = draw(grid_problems(most))
        return problem.rows.astype(np.float64), problem.penalty
    rows = draw(tables((1, most), (1, 9), KINDS))
    return rows.astype(np.float64), draw(st.sampled_from([0.001, 0.03, 0.3, 1.0, 8.0])) * spread(
        rows
    )


def nothing(d):
    return np.empty((0, d)), np.empty(0)


def no_boxes(d):
    return Boxes(np.empty((0, d)), np.empty(0), np.empty((0, d)), np.empty((0, d)))


def boxes_of(found):
    return [reference.Box(*(each.tolist() for each in box)) for box in zip(*found, strict=True)]


@given(sequences(), st.data())
def test_online_is_algorithm_2_to_the_bit_wherever_the_rows_are_cut(drawn, data):
    rows, penalty = drawn
    cut = data.draw(st.integers(0, len(rows)))
    centers, weights = online(
        rows[cut:], penalty, *online(rows[:cut], penalty, *nothing(rows.shape[1]))
    )
    wanted = reference.online_dp_means(rows.tolist(), penalty)
    assert centers.tolist() == wanted.centers
    assert weights.tolist() == wanted.weights


@given(sequences(), st.data())
def test_split_is_algorithm_3_to_the_bit_wherever_the_rows_are_cut(drawn, data):
    rows, penalty = drawn
    cut = data.draw(st.integers(0, len(rows)))
    found = split(rows[cut:], penalty, split(rows[:cut], penalty, no_boxes(rows.shape[1])))
    assert boxes_of(found) == reference.split_dp_means(rows.tolist(), penalty)


@pytest.mark.parametrize("d", [1, 10])
def test_many_clusters_are_given_room(d):
    rows = np.random.default_rng(0).permutation(3 * LEAST_ROOM)[:, np.newaxis] * np.ones(d)
    assert len(online(rows, 0.5, *nothing(d))[0]) == 3 * LEAST_ROOM
    assert len(split(rows, 0.5, no_boxes(d)).centers) == 3 * LEAST_ROOM


@given(sequences(), st.integers(1, 4))
def test_rules_end_one_cluster_beyond_the_limit(drawn, most):
    rows, penalty = drawn
    d = rows.shape[1]
    for rule in (
        lambda **limit: online(rows, penalty, *nothing(d), **limit)[0],
        lambda **limit: split(rows, penalty, no_boxes(d), **limit).centers,
    ):
        assert len(rule(most=most)) == min(len(rule()), most + 1)


def test_what_is_given_stays_as_it_was():
    rows = np.array([[0.0], [0.5], [9.0]])
    centers, weights = online(rows, 4.0, *nothing(1))
    before = centers.copy(), weights.copy()
    online(rows, 4.0, centers, weights)
    assert (centers.tolist(), weights.tolist()) == (before[0].tolist(), before[1].tolist())
    boxes = split(rows, 4.0, no_boxes(1))
    kept = Boxes(*(each.copy() for each in boxes))
    split(rows, 4.0, boxes)
    assert boxes_of(boxes) == boxes_of(kept)


def test_a_mean_that_rounding_has_moved_out_of_its_box_splits_it_at_the_end():
    """No half gets a weight below 0."""
    outside = 1.0 + 4 * np.finfo(np.float64).eps
    boxes = Boxes(np.array([[outside]]), np.array([7.0]), np.array([[0.5]]), np.array([[1.0]]))
    found = split(np.array([[1.0]]), 1 / 16, boxes)
    assert boxes_of(found) == reference.split_dp_means([[1.0]], 1 / 16, boxes_of(boxes))
    assert found.weights.tolist() == [8.0, 0.0]
    assert found.centers.tolist() == [[0.75], [1.0]]


def test_of_columns_of_equal_range_the_first_is_cut():
    boxes = Boxes(
        np.array([[4.0, 4.0]]), np.array([7.0]), np.array([[0.0, 0.0]]), np.array([[8.0, 8.0]])
    )
    found = split(np.array([[4.0, 4.0]]), 20.0, boxes)
    assert found.centers.tolist() == [[2.0, 4.0], [6.0, 4.0]]
    assert (found.lows.tolist(), found.highs.tolist()) == (
        [[0.0, 0.0], [4.0, 0.0]],
        [[4.0, 8.0], [8.0, 8.0]],
    )
