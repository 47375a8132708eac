import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds, tables, weights_of

from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.moments import Moments, cluster_moments


def added_up(rows, weights, labels, squared, k):
    """Moments, row after row."""
    each = [1.0] * len(rows) if weights is None else weights.tolist()
    counts, totals, inertias = [0] * k, [0.0] * k, [0.0] * k
    sums = [[0.0] * rows.shape[1] for _ in range(k)]
    for row, weight, label, error in zip(
        rows.tolist(), each, labels.tolist(), squared.tolist(), strict=True
    ):
        counts[label] += 1
        totals[label] += weight
        inertias[label] += weight * error
        for column, value in enumerate(row):
            sums[label][column] += weight * value
    return counts, totals, sums, inertias


@st.composite
def partitions(draw):
    rows = draw(tables())
    k = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(seeds))
    return (
        rows,
        draw(weights_of(len(rows))),
        rng.integers(k, size=len(rows)),
        rng.random(len(rows)),
        k,
    )


@given(partitions())
def test_moments_are_float64_sums_in_row_order(partition):
    rows, weights, labels, squared, k = partition
    moments = cluster_moments(Block(0, rows, weights), labels, squared, k)
    found = moments.counts, moments.weights, moments.sums, moments.inertias
    assert tuple(values.tolist() for values in found) == added_up(*partition)
    assert [values.dtype for values in found] == [np.int64, np.float64, np.float64, np.float64]


def example():
    return Moments(
        np.array([2, 0, 1]),
        np.array([4.0, 0.0, 0.5]),
        np.array([[8.0], [0.0], [3.0]]),
        np.arange(3.0),
    )


def test_moments_add_cluster_by_cluster():
    twice = example() + example()
    assert twice.counts.tolist() == [4, 0, 2]
    assert twice.weights.tolist() == [8, 0, 1]
    assert twice.sums.tolist() == [[16], [0], [6]]
    assert twice.inertias.tolist() == [0, 2, 4]


def test_means_are_by_weight_and_kept_clusters_keep_all_their_moments():
    kept = example().keep(np.array([True, False, True]))
    assert kept.means.tolist() == [[2.0], [6.0]]
    assert (kept.counts.tolist(), kept.weights.tolist(), kept.inertias.tolist()) == (
        [2, 1],
        [4, 0.5],
        [0, 2],
    )


def test_the_inertia_of_all_clusters_is_rounded_once():
    moments = Moments(np.ones(3, np.int64), np.ones(3), np.ones((3, 1)), np.array([1e16, 1.0, 1.0]))
    assert moments.inertia == 1e16 + 2
