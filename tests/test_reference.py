"""The oracle, against numbers worked out by hand."""

import pytest

from dask_dpmeans.reference import (
    Box,
    Merged,
    Online,
    direction,
    dpmeans,
    eigenpairs,
    halves,
    implicit_distance,
    indicators,
    kernel_objective,
    kernel_sweep,
    mean_of,
    merge_cost,
    merge_dp_means,
    nearest_center,
    objective,
    online_dp_means,
    partition_objective,
    relaxed_trace,
    should_split,
    spectral_rows,
    spherical_sweep,
    split_dp_means,
    squared_distance,
    sweep,
)

LINE = [[0.0], [1.0], [10.0]]
ONES = [1.0, 1.0, 1.0]


def test_a_squared_distance_is_added_up_over_the_columns():
    assert squared_distance([1.0, 2.0], [4.0, -2.0]) == 25.0


def test_columns_are_added_in_order():
    assert squared_distance([1e8, 1.0, 1.0], [0.0, 0.0, 0.0]) == 1e16
    assert squared_distance([1.0, 1.0, 1e8], [0.0, 0.0, 0.0]) == 1e16 + 2


def test_the_lowest_number_wins_a_tie():
    assert nearest_center([0.0], [[3.0], [1.0], [-1.0]]) == (1, 1.0)


def test_a_mean_is_by_weight():
    assert mean_of([[0.0], [4.0]], [3.0, 1.0]) == [1.0]


def test_a_row_beyond_the_radius_opens_a_cluster_and_one_at_it_does_not():
    found = sweep(LINE, 25.0, [[5.0]], range(3), ONES)
    assert (found.opened, found.labels, found.means) == ([], [0, 0, 0], [[11 / 3]])
    found = sweep(LINE, 24.9, [[5.0]], range(3), ONES)
    assert (found.opened, found.labels) == ([0, 2], [1, 1, 2])
    assert found.centers == [[5.0], [0.0], [10.0]]
    assert found.means == [[0.5], [10.0]]


def test_a_direction_has_unit_length_unless_rows_cancel():
    assert direction([0.0, -0.5], [1.0, 0.0]) == [0.0, -1.0]
    assert direction([0.3, 0.4], [1.0, 0.0]) == [0.6, 0.8]
    assert direction([1e-13, 0.0], [0.0, 1.0]) == [0.0, 1.0]


def test_means_of_a_spherical_sweep_are_directions_and_rows_that_cancel_keep_their_center():
    axes = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
    found = spherical_sweep(axes, 2.0, [[1.0, 0.0]], range(4), [1.0] * 4)
    assert (found.opened, found.labels) == ([2], [0, 0, 1, 0])
    assert found.means == [[1.0, 0.0], [-1.0, 0.0]]
    found = spherical_sweep(axes, 4.0, [[0.0, 1.0], [0.0, 2.0]], range(4), [1.0, 0.5, 1.0, 0.5])
    assert (found.opened, found.labels, found.means) == ([], [0, 0, 0, 0], [[0.0, 1.0]])


def test_the_order_of_the_rows_decides_which_of_them_open():
    assert sweep(LINE, 16.0, [[5.0]], [1, 0, 2], ONES).opened == [0, 2]
    assert sweep(LINE, 15.0, [[5.0]], [1, 0, 2], ONES).opened == [1, 2]
    assert sweep(LINE, 15.0, [[5.0]], [0, 1, 2], ONES).opened == [0, 2]


def test_a_row_labeled_before_a_nearer_cluster_opens_stays():
    found = sweep([[3.0], [5.0]], 16.0, [[0.0]], [0, 1], ONES)
    assert (found.labels, found.opened) == ([0, 1], [1])


def test_a_light_row_opens_only_what_it_can_pay_for_and_a_heavy_one_opens_as_one_does():
    assert sweep([[5.0]], 12.0, [[0.0]], [0], [0.5]).opened == [0]
    assert sweep([[5.0]], 12.5, [[0.0]], [0], [0.5]).opened == []
    assert sweep([[5.0]], 25.0, [[0.0]], [0], [100.0]).opened == []
    assert sweep([[5.0]], 1.0, [[0.0]], [0], [0.0]).opened == []


def test_iterations_go_on_until_the_means_repeat():
    sweeps = dpmeans(LINE, 20.0)
    assert [found.opened for found in sweeps] == [[2], []]
    assert [found.means for found in sweeps] == [[[0.5], [10.0]], [[0.5], [10.0]]]


def test_the_objective_is_the_error_and_a_penalty_for_each_cluster_with_weight():
    found = sweep(LINE, 24.9, [[5.0]], range(3), ONES)
    assert objective(LINE, 24.9, found) == 1.0 + 2 * 24.9
    assert objective(LINE, 24.9, found, [1.0, 3.0, 1.0]) == 3.0 + 2 * 24.9


def test_online_rows_beyond_the_radius_open_and_others_move_the_nearest_mean():
    found = online_dp_means([[0.0], [4.0], [10.0], [9.0], [5.0]], 16.0)
    assert found == Online([[3.0], [9.5]], [3.0, 2.0])
    assert online_dp_means([[0.0], [4.0]], 15.9).weights == [1.0, 1.0]


def test_online_goes_on_where_it_was():
    rows = [[0.0], [4.0], [10.0], [9.0], [5.0]]
    assert online_dp_means(rows[2:], 16.0, online_dp_means(rows[:2], 16.0)) == online_dp_means(
        rows, 16.0
    )


def test_a_row_within_the_radius_joins_the_nearest_box_and_one_at_it_opens():
    assert split_dp_means([[0.0], [5.0], [2.0]], 16.0) == [
        Box([1.0], 2.0, [0.0], [2.0]),
        Box([5.0], 1.0, [5.0], [5.0]),
    ]
    assert len(split_dp_means([[0.0], [4.0]], 16.0)) == 2


def test_a_row_outside_a_box_that_it_would_split_opens_instead():
    """Weight times squared range: 3 * 4 is not above 16, with the fourth row outside 4 * 9 would be."""
    box = Box([1.0], 3.0, [0.0], [2.0])
    assert should_split(box, 0.74)
    assert not should_split(box, 0.75)
    assert split_dp_means([[3.0]], 4.0, [Box([2.0], 7.0, [1.0], [2.0])]) == [
        Box([2.125], 8.0, [1.0], [3.0])
    ]
    assert split_dp_means([[3.0]], 1.9, [Box([2.0], 7.0, [1.0], [2.0])]) == [
        Box([2.0], 7.0, [1.0], [2.0]),
        Box([3.0], 1.0, [3.0], [3.0]),
    ]


def test_a_row_inside_a_box_splits_it_at_the_mean_in_the_widest_column():
    box = Box([2.0, 0.5], 7.0, [0.0, 0.0], [8.0, 1.0])
    left, right = split_dp_means([[2.0, 0.5]], 20.0, [box])
    assert left == Box([1.0, 0.5], 2.0, [0.0, 0.0], [2.0, 1.0])
    assert right == Box([5.0, 0.5], 6.0, [2.0, 0.0], [8.0, 1.0])


def test_of_columns_of_equal_range_the_first_is_cut():
    left, right = halves(Box([1.0, 1.0], 4.0, [0.0, 0.0], [2.0, 2.0]))
    assert (left.high, right.low) == ([1.0, 2.0], [1.0, 0.0])


def test_a_merge_costs_the_squared_error_that_it_adds_less_the_penalty():
    """Groups {0, 2} and {6}: the mean goes from 1 to 8/3, and the errors from 2 + 0 to 56/3."""
    centers = [[0.0], [2.0], [6.0]]
    assert merge_cost([0, 1], [2], centers, [1.0, 1.0, 1.0], 0.0) == pytest.approx(56 / 3 - 2)
    assert merge_cost([0], [1], centers, [3.0, 1.0, 1.0], 2.0) == pytest.approx(
        3 * 0.25 + 2.25 - 2.0
    )


def test_the_cheapest_merges_come_first_and_end_where_none_pays():
    found = merge_dp_means([[0.0], [9.0], [1.0], [11.0], [30.0]], [1.0, 1.0, 3.0, 1.0, 0.0], 2.5)
    assert found == Merged([[0, 2], [1, 3]], [[0.75], [10.0]], [4.0, 2.0])
    assert merge_dp_means([[0.0], [2.0]], [1.0, 1.0], 2.0).members == [[0], [1]]


def test_the_distance_to_an_implicit_mean_is_that_to_the_mean():
    rows, weights = [[0.0, 1.0], [2.0, 3.0], [8.0, 0.0]], [1.0, 3.0]
    gram = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in rows] for one in rows]
    mean = mean_of(rows[:2], weights)
    assert mean == [1.5, 2.5]
    assert implicit_distance(gram, 2, [0, 1], weights) == squared_distance(rows[2], mean) == 48.5


def test_a_sweep_in_the_space_of_the_linear_kernel_is_the_sweep_of_the_rows():
    gram = [[one[0] * other[0] for other in LINE] for one in LINE]
    found = kernel_sweep(gram, 13.0, [[0, 1, 2]], range(3), ONES)
    plain = sweep(LINE, 13.0, [mean_of(LINE, ONES)], range(3), ONES)
    assert (found.labels, found.opened) == (plain.labels, plain.opened) == ([1, 1, 2], [0, 2])
    assert (found.clusters, found.squared) == ([[0, 1], [2]], [0.0, 1.0, 0.0])
    assert kernel_objective(found, 13.0, ONES) == objective(LINE, 13.0, plain) == 27.0


PRODUCTS = [[4.0, 6.0], [6.0, 9.0]]
"""Of the rows 2 and 3."""


def test_the_objective_in_the_space_of_a_kernel_is_that_of_the_rows():
    assert partition_objective(PRODUCTS, [0, 0], 7.0) == 0.5 + 7
    assert partition_objective(PRODUCTS, [0, 1], 7.0) == 14


def test_indicators_have_unit_length_and_their_trace_is_what_the_objective_leaves():
    assert indicators([1, 0, 1, 1, 1]) == [
        [0.0, 0.5],
        [1.0, 0.0],
        [0.0, 0.5],
        [0.0, 0.5],
        [0.0, 0.5],
    ]
    assert 13 - relaxed_trace(PRODUCTS, indicators([0, 0]), 7.0) == pytest.approx(7.5)


def test_rotations_end_in_eigenvectors_and_rows_of_those_above_the_penalty_have_unit_length():
    (large, one), (small, other) = eigenpairs([[2.0, 1.0], [1.0, 2.0]])
    assert (large, small) == pytest.approx((3.0, 1.0))
    assert one[0] == pytest.approx(one[1])
    assert other[0] == pytest.approx(-other[1])
    assert spectral_rows([[3.0, 0.0], [0.0, 1.0]], 2.0) == [[1.0], [0.0]]
