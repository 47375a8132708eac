import numpy as np
import pytest
from strategies import by_definition, table

from dask_dpmeans.kernels import distance, numba_support
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.center_tree import CenterTree
from dask_dpmeans.kernels.distance import Centers, nearest_squared, nearest_two

NOTHING = np.empty(0)


@pytest.mark.parametrize("kind", ["grid", "offset", "huge", "tiny", "clouds"])
@pytest.mark.parametrize(("d", "k"), [(1, 900), (2, 1025), (3, 4000), (8, 300), (20, 129)])
def test_a_tree_has_the_answers_of_the_definition(kind, d, k):
    rows, centers = table(kind, (600, d), np.float32, 0), table(kind, (k, d), np.float64, 1)
    centers[1::3] = centers[::3][: len(centers[1::3])]  # equal centers
    squared, expected = np.empty(len(rows)), by_definition(rows, centers)
    order = expected.argsort(axis=1, kind="stable")
    tree = CenterTree.of(centers)
    assert tree.nearest(rows, 2, squared).tolist() == order[:, :2].T.tolist()
    assert squared.tobytes() == expected.min(axis=1).tobytes()
    assert tree.nearest(rows, 1, NOTHING).tolist() == order[:, :1].T.tolist()


def test_a_tree_follows_the_definition_where_distances_are_infinite_or_no_numbers():
    centers = np.arange(40.0).reshape(20, 2)
    rows = np.array([[np.inf, 0.0], [np.nan, 1.0], [1e200, 1e200], [5.0, 4.0]])
    squared = np.empty(4)
    with np.errstate(all="ignore"):
        labels = CenterTree.of(centers).nearest(rows, 2, squared)
        expected = by_definition(rows, centers).min(axis=1)
    assert labels.tolist() == [[0, 0, 0, 2], [1, 1, 1, 1]]
    assert squared.tolist() == pytest.approx(expected.tolist(), nan_ok=True, abs=0)


def test_a_tree_of_balls_pays_for_their_centers_and_not_for_the_second_nearest():
    random = np.random.default_rng(0)
    centers = random.normal(size=(2000, 16))
    rows = centers[:600] + 0.01 * random.normal(size=(600, 16))
    assert [CenterTree.of(centers).pays(rows, count) for count in (1, 2)] == [True, False]


def test_a_tree_visits_few_nodes_of_many_and_is_used_where_that_pays(monkeypatch):
    random = np.random.default_rng(0)
    few = random.normal(size=(300, 2)), random.normal(size=(10_000, 2))
    many = random.normal(size=(300, 40)), random.normal(size=(2000, 40))
    assert [CenterTree.of(centers).pays(rows, 1) for rows, centers in (few, many)] == [True, False]
    if not numba_support.AVAILABLE:
        return
    for name in ("_rank_compiled", "_rank_tiles"):
        monkeypatch.setattr(distance, name, None)
    labels, squared = nearest_squared(few[0], Centers(few[1]))
    assert labels.tolist() == by_definition(*few).argmin(axis=1).tolist()
    assert squared.tolist() == by_definition(*few).min(axis=1).tolist()
    assert nearest_two(few[0], Centers(few[1]), Scratch())[0].tolist() == labels.tolist()
