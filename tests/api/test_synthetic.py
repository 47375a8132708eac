"""Synthetic rows: what a seed means, and that the truth belongs to the rows."""

from itertools import islice

import numpy as np
import pytest

from dask_dpmeans.api.synthetic import BOX, KINDS, PART_ROWS, Synthetic


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_part_do_not_depend_on_how_many_follow(kind: str) -> None:
    few = list(Synthetic(kind, PART_ROWS + 10, 3, 4, seed=1).parts())
    many = list(islice(Synthetic(kind, 10 * PART_ROWS, 3, 4, seed=1).parts(), 1))
    np.testing.assert_array_equal(few[0][1], many[0][1])
    assert [(start, rows.shape, labels.shape) for start, rows, labels in few] == [
        (0, (PART_ROWS, 3), (PART_ROWS,)),
        (PART_ROWS, (10, 3), (10,)),
    ]


def test_blobs_have_unit_deviation_around_their_centers() -> None:
    data = Synthetic("blobs", PART_ROWS, 3, 5, seed=2)
    _, rows, labels = next(data.parts())
    assert np.abs((rows - data.centers[labels]).std(axis=0) - 1).max() < 0.02
    assert set(labels) == set(range(5))


def test_outliers_are_marked_and_far_apart() -> None:
    data = Synthetic("outliers", PART_ROWS, 3, 5, seed=2)
    _, rows, labels = next(data.parts())
    assert 20 < np.count_nonzero(labels == -1) < 150
    assert np.abs(rows[labels == -1]).max() > 2 * BOX
    assert np.abs(rows[labels >= 0]).max() < BOX + 10


def test_another_seed_is_other_data() -> None:
    first, second = (next(Synthetic("uniform", 10, 2, 1, seed=seed).parts())[1] for seed in (0, 1))
    assert not np.array_equal(first, second)
