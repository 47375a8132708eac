import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import TAME, seeds, tables

from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.kernel_centers import (
    ImplicitCenters,
    ImplicitDistances,
    ImplicitInertia,
    Partition,
    WithinClusterSums,
)
from dask_dpmeans.kernels.kernel_functions import ComputedGram, NamedSimilarity


@given(tables((3, 60), kinds=TAME), seeds, st.sampled_from(["rbf", "linear", "poly", "cosine"]))
def test_a_row_gets_the_same_bits_whatever_rows_come_with_it(rows, seed, name):
    n, rng = len(rows), np.random.default_rng(seed)
    labels = rng.integers(-1, 3, n).astype(np.int32)
    labels[:3] = range(3)
    partition = Partition(labels, rng.choice([0.5, 1.0, 3.0], n), 3)
    gram = ComputedGram(NamedSimilarity(name), rows)
    totals = rng.uniform(0, 9, 5)
    centers = ImplicitCenters(gram, partition, totals, np.array([1, n - 1]))
    found, scores = centers.nearest(rows)
    start, stop = sorted(rng.integers(0, n + 1, 2))
    some, their_scores = centers.nearest(rows[start:stop])
    assert some.tobytes() == found[start:stop].tobytes()
    assert their_scores.tobytes() == scores[start:stop].tobytes()
    assert centers.scores(rows).min(axis=1).tobytes() == scores.tobytes()
    assert (
        gram.diagonal(rows[start:stop], start).tobytes()
        == gram.diagonal(rows, 0)[start:stop].tobytes()
    )


def test_the_mean_of_a_cluster_is_the_same_whether_others_count_or_not():
    """A cluster that dies takes its rows out of the sums, not out of the products."""
    rng = np.random.default_rng(1)
    rows, labels = rng.normal(size=(300, 5)), rng.integers(0, 2, 300).astype(np.int32)
    gram, weights = ComputedGram(NamedSimilarity("rbf"), rows), np.ones(300)
    both = ImplicitCenters(
        gram, Partition(labels, weights, 2), np.array([4.0, 5.0]), np.empty(0, np.int64)
    )
    alone = Partition(np.where(labels == 1, 0, -1).astype(np.int32), weights, 1)
    one = ImplicitCenters(gram, alone, np.array([5.0]), np.empty(0, np.int64))
    assert one.scores(rows)[:, 0].tobytes() == both.scores(rows)[:, 1].tobytes()


@given(tables((2, 60), kinds=("grid",)), seeds, st.integers(1, 5))
def test_totals_are_sums_over_all_pairs_of_a_cluster(rows, seed, k):
    n, rng = len(rows), np.random.default_rng(seed)
    labels, weights = rng.integers(-1, k, n).astype(np.int32), rng.integers(1, 4, n).astype(float)
    gram = ComputedGram(NamedSimilarity("linear"), rows)
    reduction = WithinClusterSums(gram, Partition(labels, weights, k))
    found = np.zeros(k)
    for start in range(0, n, 16):
        found = reduction.combine(
            found, reduction.chunk(Block(start, rows[start : start + 16], None))
        )
    shares = (labels == np.arange(k)[:, np.newaxis]) * weights
    wanted = np.einsum("ci,ij,cj->c", shares, rows.astype(float) @ rows.astype(float).T, shares)
    assert found.tolist() == wanted.tolist()


def test_distances_and_inertia_are_those_to_the_means_and_to_opened_rows():
    rows = np.array([[0.0, 0.0], [2.0, 0.0], [5.0, 4.0], [9.0, 9.0]])
    partition = Partition(np.array([0, 0, -1, -1], np.int32), np.array([1.0, 3.0, 1.0, 2.0]), 1)
    centers = ImplicitCenters(
        ComputedGram(NamedSimilarity("linear"), rows),
        partition,
        np.array([36.0, 162.0]),
        np.array([3]),
    )
    block = Block(0, rows, partition.weights)
    at = np.array([[1.5, 0.0], [9.0, 9.0]])
    wanted = np.sqrt(((rows[:, np.newaxis] - at) ** 2).sum(axis=2))
    np.testing.assert_allclose(ImplicitDistances(centers)(block)[0], wanted)
    assert ImplicitInertia(centers).chunk(block) == 2.25 + 3 * 0.25 + 28.25


def test_distances_within_rounding_are_0():
    """Three equal rows are their own mean, but sums of their similarities are rounded."""
    rows = np.full((3, 5), 0.1) * np.array([1.0, 3.0, 7.0, 11.0, 13.0])
    gram = ComputedGram(NamedSimilarity("linear"), rows)
    weights, own = np.array([0.1, 0.7, 1.3]), float(rows[0] @ rows[0])
    partition = Partition(np.zeros(3, np.int32), weights, 1)
    for noise in (-3, 0, 3):
        within = np.array([own * weights.sum() ** 2 * (1 + noise * np.finfo(float).eps)])
        centers = ImplicitCenters(gram, partition, within, np.empty(0, np.int64))
        assert ImplicitDistances(centers)(Block(0, rows, weights))[0].tolist() == [[0.0]] * 3
