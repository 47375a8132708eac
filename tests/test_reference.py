"""The oracle, against numbers worked out by hand."""

from dask_dpmeans.reference import dpmeans, mean_of, nearest_center, objective, squared_distance, sweep

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
