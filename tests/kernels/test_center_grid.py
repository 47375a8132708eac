import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import KINDS, by_definition, table

from dask_dpmeans.kernels import center_grid, center_tree, numba_support
from dask_dpmeans.kernels.center_grid import CenterGrid
from dask_dpmeans.kernels.center_tree import CenterTree
from dask_dpmeans.kernels.distance import Centers, nearest_squared, nearest_two

NOTHING = np.empty(0)


@pytest.fixture(autouse=True)
def all_blocks(monkeypatch):
    """Rows are looked for in cells however many are left to the tree."""
    monkeypatch.setattr(center_grid, "MOST_LEFT", 1.0)


def check(rows, centers):
    """The nearest one and two, and the squared distances, are the definition's."""
    expected, tree = by_definition(rows, centers), CenterTree.of(centers)
    order = expected.argsort(axis=1, kind="stable")
    for count in (1, 2):
        squared = np.empty(len(rows))
        grid = CenterGrid.of(tree, centers, count)
        assert grid.nearest(rows, squared).tolist() == order[:, :count].T.tolist()
        assert squared.tobytes() == expected.min(axis=1).tobytes()
        assert grid.nearest(rows, NOTHING).tolist() == order[:, :count].T.tolist()
        assert len(grid.cells[0]) <= 2 * center_grid.CELLS[rows.shape[1]] * len(tree.points)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(("d", "k"), [(1, 900), (2, 1025), (3, 700), (3, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cells_have_the_answers_of_the_definition(kind, d, k, dtype):
    rows, centers = table(kind, (600, d), dtype, 0), table(kind, (k, d), np.float64, 1)
    centers[1::3] = centers[::3][: len(centers[1::3])]  # equal centers
    check(rows, centers)


@given(data=st.data(), d=st.integers(1, 3), wide=st.sampled_from([1, 3, 20]))
def test_cells_have_the_answers_of_the_definition_among_ties(data, d, wide):
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    offset = data.draw(st.sampled_from([0.0, 1e6, -1e12]))
    centers = random.integers(0, wide, (data.draw(st.integers(2, 200)), d)) + offset
    rows = random.integers(-2, 2 * wide + 2, (100, d)) / 2 + offset
    check(rows, centers.astype(np.float64))


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e9])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_rows_on_the_borders_of_cells_have_the_answers_of_the_definition(d, offset):
    random = np.random.default_rng(d)
    centers = random.normal(size=(400, d)) + offset
    grid = CenterGrid.of(CenterTree.of(centers), centers, 1)
    boxes, sides, _ = grid.leaves
    places = random.integers(0, sides[:, np.newaxis] + 1, (len(sides), 20, d))
    rows = boxes[:, np.newaxis, 0] + places / boxes[:, np.newaxis, 2]
    rows = rows.reshape(-1, d)
    for near in (rows, np.nextafter(rows, -np.inf), np.nextafter(rows, np.inf)):
        check(near, centers)


@pytest.mark.parametrize("seed", range(40))
def test_rows_halfway_between_evenly_spaced_centers_have_the_answers_of_the_definition(seed):
    random = np.random.default_rng(seed)
    step, offset = random.random() * 10.0 ** random.integers(-3, 3), random.normal() * 10
    even = np.arange(random.integers(20, 300)) * step + offset
    halves = np.concatenate([(even[1:] + even[:-1]) / 2, even])
    rows = np.concatenate([halves, np.nextafter(halves, -np.inf), np.nextafter(halves, np.inf)])
    check(rows[:, np.newaxis], random.permutation(even)[:, np.newaxis])


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_box_of_a_cell_has_all_rows_whose_place_is_there(kind, d):
    centers = table(kind, (300, d), np.float64, 0)
    tree = CenterTree.of(centers)
    leaves = boxes, sides, firsts = CenterGrid.of(tree, centers, 1).leaves
    random = np.random.default_rng(1)
    places = random.integers(0, sides[:, np.newaxis] + 1, (len(sides), 40, d))
    width = np.where(boxes[:, 2] > 0, boxes[:, 2], 1)
    rows = (boxes[:, np.newaxis, 0] + places / width[:, np.newaxis]).reshape(-1, d)
    rows = np.concatenate([np.nextafter(rows, -np.inf), rows, np.nextafter(rows, np.inf)])
    cells = np.empty(len(rows), np.int64)
    center_grid._fill_cells(rows, tree.parts, leaves, cells)
    inside = np.flatnonzero(cells >= 0)
    assert len(inside) > 0 or not np.isfinite(boxes).all()
    for row in inside:
        box = np.empty((2, d))
        leaf = int(np.searchsorted(firsts, cells[row], side="right")) - 1
        center_grid._fill_box(leaves, leaf, int(cells[row]), box)
        assert (box[0] <= rows[row]).all()
        assert (rows[row] <= box[1]).all()


def test_leaves_of_the_least_numbers_have_no_cells():
    centers = np.random.default_rng(0).uniform(1, 2, (512, 1))
    centers[:16] = 0.0
    centers[:16:2] = 5e-324
    rows = np.concatenate([centers, [[1e-323], [1e-300], [-5e-324]]])
    check(rows, centers)
    check(rows[:20], centers[:16])


def test_a_center_halfway_between_others_is_a_candidate_wherever_it_is_the_nearest():
    x = np.arange(64.0)
    centers = np.column_stack([np.repeat(x, 2), np.tile([0.0, 1e-9], 64)])
    rows = np.column_stack([np.linspace(-1, 64, 2000), np.random.default_rng(0).normal(size=2000)])
    check(rows, centers)
    check(rows * 1e-9, centers)


def test_cells_follow_the_definition_where_distances_are_infinite_or_no_numbers():
    centers = np.arange(40.0).reshape(20, 2)
    rows = np.array([[np.inf, 0.0], [np.nan, 1.0], [1e200, 1e200], [5.0, 4.0], [5.0, np.nan]])
    squared = np.empty(5)
    with np.errstate(all="ignore"):
        grid = CenterGrid.of(CenterTree.of(centers), centers, 2)
        labels = grid.nearest(rows, squared)
        expected = by_definition(rows, centers).min(axis=1)
    assert labels.tolist() == [[0, 0, 0, 2, 0], [1, 1, 1, 1, 1]]
    assert squared.tolist() == pytest.approx(expected.tolist(), nan_ok=True, abs=0)


def share_left(grid, rows):
    left, labels = np.empty(len(rows), np.bool_), np.empty((1, len(rows)), np.intp)
    given = grid.leaves, grid.cells, grid.values, labels, NOTHING, left
    center_grid._search(rows, grid.tree.parts, *given)
    return left.mean()


def test_nearly_all_rows_are_in_cells_with_few_candidates():
    random = np.random.default_rng(0)
    ball = random.normal(size=(4000, 3))
    sphere = ball / np.linalg.norm(ball, axis=1)[:, np.newaxis]
    clouds = random.normal(size=(4000, 2)) * np.exp(2 * random.normal(size=(4, 1))).repeat(1000, 0)
    for points in (ball, sphere, clouds, ball[:, :2], ball[:, :1]):
        centers, rows = points[::4].copy(), points[1::2]
        grid = CenterGrid.of(CenterTree.of(centers), centers, 1)
        starts, lists = grid.cells
        assert share_left(grid, rows) < 0.15
        assert lists[starts[starts >= 0]].mean() < 24
    same = np.zeros((1000, 2))
    assert share_left(CenterGrid.of(CenterTree.of(same), same, 1), ball[:, :2].copy()) == 1
    assert center_grid.WIDTH == center_tree.WIDTH


def fitted_cells(centers, rows, times):
    """Centers, after so many searches of rows."""
    taken = Centers(centers)
    for _ in range(times):
        labels, _ = nearest_squared(rows, taken)
    assert labels.tolist() == CenterTree.of(centers).nearest(rows, 1, NOTHING)[0].tolist()
    return taken


def parts_of(centers):
    return {name for name in vars(centers) if name.startswith("grid")}


def test_cells_are_made_once_there_were_many_rows_and_are_not_sent_to_workers():
    if not numba_support.AVAILABLE:
        pytest.skip("cells have compiled loops alone")
    random = np.random.default_rng(0)
    centers, rows = random.normal(size=(2000, 2)), random.normal(size=(4000, 2))
    expected = by_definition(rows[:500], centers).argsort(axis=1, kind="stable")
    # 128 leaves of 64 cells, of which each asks for four rows
    assert parts_of(fitted_cells(centers, rows, 8)) == set()
    taken = fitted_cells(centers, rows, 9)
    assert parts_of(taken) == {"grid_1"}
    made = vars(taken)["grid_1"]
    for _ in range(9):
        nearest_two(rows, taken)
    assert parts_of(taken) == {"grid_1", "grid_2"}
    assert vars(taken)["grid_1"] is made
    assert [vars(taken)[f"grid_{count}"].count for count in (1, 2)] == [1, 2]
    found = nearest_two(rows[:500], taken)
    assert [labels.tolist() for labels in found] == expected[:, :2].T.tolist()
    sent = pickle.loads(pickle.dumps(taken))
    assert vars(sent).keys() == {"values", "divergence", "most"}
    assert sent.values.tolist() == centers.tolist()


def test_blocks_of_which_many_rows_are_outside_of_cells_are_searched_in_other_ways(monkeypatch):
    if not numba_support.AVAILABLE:
        pytest.skip("cells have compiled loops alone")
    monkeypatch.setattr(center_grid, "MOST_LEFT", 0.25)
    random = np.random.default_rng(0)
    centers, rows = random.normal(size=(2000, 2)), random.normal(size=(4000, 2))
    taken = fitted_cells(centers, rows, 9)
    grid, far = vars(taken)["grid_1"], rows + np.array([100.0, 0.0])
    assert grid.nearest(far, NOTHING) is None
    assert nearest_squared(far, taken)[0].tolist() == by_definition(far, centers).argmin(1).tolist()
    mixed = np.where(np.arange(4000)[:, np.newaxis] % 8, rows, far)
    labels = grid.nearest(mixed, NOTHING)[0]
    assert labels.tolist() == by_definition(mixed, centers).argmin(1).tolist()


def test_cells_wait_for_rows_that_pay_for_them():
    random = np.random.default_rng(0)
    tree = CenterTree.of(random.normal(size=(1024, 2)))
    least = center_grid.ROWS_OF_CELL * center_grid.CELLS[2] * 64
    found = [
        center_grid.grid_pays(tree, random.normal(size=(300, d)), searched)
        for d, searched in ((2, least - 1), (2, least), (4, 10**9))
    ]
    assert found == [False, numba_support.AVAILABLE, False]
