import numpy as np
import pytest

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.gibbs import Seats, reseat, squared_to_means


def seats_of(rows, opening=-2.0, half_precision=0.5):
    return Seats(rows, rows + 0.25, np.full(len(rows), opening), half_precision)


def random_rows(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) * 2


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 3), (60, 1), (60, 2), (40, 20)])
@pytest.mark.parametrize("opening", [-30.0, -2.0, 3.0])
def test_the_same_bytes_with_compiled_loops_and_without(n, d, opening):
    rows, found = random_rows(n, d), []
    labels = np.arange(n) % min(n, 3)
    for available in (numba_support.AVAILABLE, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numba_support, "AVAILABLE", available)
            answers = reseat(
                seats_of(rows, opening), labels, rows[: labels.max() + 1], np.random.default_rng(1)
            )
            found.append([answer.tobytes() for answer in answers])
    assert found[0] == found[1]


def test_labels_means_and_counts_belong_together():
    rows = random_rows(200, 2)
    labels, means, counts = reseat(
        seats_of(rows, 3.0), np.zeros(200, np.int64), rows[:1], np.random.default_rng(0)
    )
    assert len(means) > 20  # more than there was room for
    assert np.array_equal(counts, np.bincount(labels, minlength=len(means)))
    assert np.array_equal(means[0], rows[0])
    opened = [int(np.flatnonzero(np.all(rows + 0.25 == mean, axis=1))[0]) for mean in means[1:]]
    assert opened == sorted(opened)


def test_a_row_that_can_open_no_cluster_stays_among_those_of_others():
    rows, before = (
        np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]]),
        np.array([0, 1, 0, 1, 1, 0]),
    )
    given = np.array([[0.0], [9.0]])
    labels, means, counts = reseat(
        seats_of(rows, -np.inf, 50.0), before, given, np.random.default_rng(0)
    )
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert counts.tolist() == [3, 3]
    assert means.tolist() == [[0.0], [9.0]]


def test_a_cluster_that_its_only_row_leaves_is_there_no_more():
    rows = np.array([[0.0], [5.0]])
    labels, _, counts = reseat(
        seats_of(rows, -1e9), np.array([0, 1]), rows, np.random.default_rng(0)
    )
    assert labels.tolist() == [1, 1]
    assert counts.tolist() == [0, 2]


@pytest.mark.parametrize("opening", [-1.0, 0.5])
def test_a_row_joins_and_opens_in_proportion_to_the_weights(opening):
    """Rows at the means 0 and 1 of two clusters of 3 and 1 others; each of 4,000 draws is of the last row alone."""
    rows = np.array([[0.0], [0.0], [0.0], [1.0], [0.5]])
    weights = np.array([3.0, 1.0, 0.0]) * np.exp(-0.125) + np.array([0.0, 0.0, np.exp(opening)])
    opens = np.array([-np.inf] * 4 + [opening])
    seats = Seats(rows, rows, opens, 0.5)
    drawn = np.zeros(3)
    for seed in range(4000):
        labels, _, _ = reseat(
            seats, np.array([0, 0, 0, 1, 1]), np.array([[0.0], [1.0]]), np.random.default_rng(seed)
        )
        sizes = np.bincount(labels[:4], minlength=2)
        if sizes.tolist() == [3, 1]:  # the others stayed where they were
            drawn[labels[4]] += 1
    assert drawn.sum() > 500
    expected = weights / weights.sum()
    assert np.abs(drawn / drawn.sum() - expected).max() < 4 * np.sqrt(0.25 / drawn.sum())


def test_distances_follow_the_definition():
    rows, centers = random_rows(5, 20), random_rows(3, 20, seed=1)
    wanted = [[0.0] * 3 for _ in rows]
    for i, row in enumerate(rows.tolist()):
        for c, center in enumerate(centers.tolist()):
            for value, middle in zip(row, center, strict=True):
                wanted[i][c] += (value - middle) ** 2
    assert squared_to_means(rows, centers).tolist() == wanted
