"""Statistics of rows by cluster, against loops over all rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import reduced, seeds

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.boxes import Histogram, PairHistograms
from dask_dpmeans.kernels.cluster_statistics import (
    ByCluster,
    Doubts,
    Edge,
    ExtremeRows,
    FeatureHistograms,
    LabelledBlock,
    NearestTwo,
    Points,
)
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.membership import Mixture
from dask_dpmeans.kernels.plot_statistics import Plane

K = 4
"""Clusters; the label is the last column modulo K + 1, less 1."""


def labels_of(rows):
    return (rows[:, -1].astype(int) % (K + 1) - 1).astype(np.int32)


def squared_of(rows):
    return np.abs(rows[:, 0]) + 0.0


def plainly(block):
    squared = squared_of(block.rows)
    return labels_of(block.rows), squared, squared > 1


def softly(block):
    """The second cluster is the next one; its odds are the last column less 4."""
    labels, squared, beyond = plainly(block)
    return labels, squared, beyond, (labels + 1) % K, block.rows[:, -1] - 4.0


def drawn(seed, n=100, weighted=True):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-8, 9, (n, 3)) / 4
    rows[:, 2] = rng.integers(0, 10, n)
    return rows, rng.integers(0, 3, n).astype(float) if weighted else None


def by_cluster(statistic, rows, weights=None, predict=plainly, height=16):
    (answer,) = reduced(ByCluster(predict, (statistic,)), rows, weights, height)
    return answer


def histogram(boxes, rows, weights=None):
    return boxes.counts(by_cluster(boxes, rows, weights))


LAYERS = np.array([0, 2, 1, 2, 2])
"""Clusters 0 and 2 have layers of their own."""


@given(seeds, st.booleans(), st.integers(1, 9))
def test_each_layer_of_a_histogram_is_that_of_numpy(seed, weighted, bins):
    rows, weights = drawn(seed, weighted=weighted)
    low, high = np.array([-2.0, -1.0]), np.array([1.0, 2.0])
    plane = Plane.of_columns(3, [1, 0])
    found = histogram(Histogram(plane, low, high, 2**bins, LAYERS), rows, weights)
    for layer in range(3):
        own = LAYERS[labels_of(rows)] == layer
        wanted, *_ = np.histogram2d(
            rows[own, 1],
            rows[own, 0],
            2**bins,
            [(-2.0, 1.0), (-1.0, 2.0)],
            weights=None if weights is None else weights[own],
        )
        np.testing.assert_array_equal(found[layer], wanted)


ONE = np.zeros(K + 1, int)


def test_a_histogram_along_one_direction_is_that_of_numpy():
    rows = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    low, high = np.array([-1.0]), np.array([2.0])
    found = histogram(Histogram(Plane.of_columns(2, [1]), low, high, 7, ONE), rows)
    wanted = np.histogram(rows[:, 1].astype(float), 7, (-1.0, 2.0))[0]
    np.testing.assert_array_equal(found, [wanted])


def test_boxes_that_are_many_are_told_apart():
    boxes = Histogram(Plane.of_columns(2, [0, 1]), np.zeros(2), np.ones(2), 50_000, ONE)
    rows = np.array([[0.99999, 0.5], [1.0, 1.0], [2.0, 0.5]])
    found = boxes.chunk(LabelledBlock(Block(0, rows, None), *plainly(Block(0, rows, None))))
    assert found.numbers.tolist() == [49_999 * 50_000 + 25_000, 50_000**2 - 1, 50_000**2]


def test_a_histogram_leaves_out_rows_however_far_they_are():
    rows, weights = np.array([[0.5], [1e200], [-1e200], [1e-201]]), np.array([1.0, 0.0, 0.0, 2.0])
    boxes = Histogram(Plane.of_columns(1, [0]), np.array([0.0]), np.array([1e-200]), 2, ONE)
    found = boxes.counts(reduced(ByCluster(one_cluster, (boxes,)), rows, weights)[0])
    assert found.tolist() == [[2.0, 0.0]]


def one_cluster(block):
    n = len(block.rows)
    return np.zeros(n, np.int32), np.zeros(n), np.zeros(n, bool)


@given(seeds, st.booleans(), st.booleans())
def test_pairs_of_columns_are_counted_and_rows_beyond_are_at_the_sides(seed, weighted, compiled):
    rows, weights = drawn(seed, weighted=weighted)
    low, high = np.array([-1.0, -0.5, 0.0]), np.array([1.0, 1.5, 8.0])
    asked = PairHistograms(np.array([0, 1, 2]), low, high, 8, LAYERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", compiled and numba_support.AVAILABLE)
        found = asked.counts(by_cluster(asked, rows, weights))
        late = asked.counts(asked._sums(by_cluster(asked, rows, weights, height=7)))
    places = np.clip(np.floor((rows - low) * 8 / (high - low)), 0, 7).astype(int)
    wanted = np.zeros((3, 3, 8, 8))
    for number, at in enumerate(places):
        layer, weight = LAYERS[labels_of(rows)[number]], 1.0 if weights is None else weights[number]
        for pair, (one, other) in enumerate([(0, 1), (0, 2), (1, 2)]):
            wanted[pair, layer, at[one], at[other]] += weight
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(late, wanted)


@given(seeds, st.integers(1, 30), st.integers(0, 400))
def test_late_sums_are_those_of_all_rows_at_any_time(seed, height, few):
    rows, weights = drawn(seed)
    asked = PairHistograms(np.array([0, 1]), np.zeros(2), np.ones(2), 2, LAYERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PairHistograms, "n_boxes", few)
        found = asked.counts(by_cluster(asked, rows, weights, height=height))
    np.testing.assert_array_equal(found, asked.counts(by_cluster(asked, rows, weights, height=100)))


@given(seeds)
def test_points_are_in_row_order_with_their_labels(seed):
    rows, _ = drawn(seed)
    found = by_cluster(Points(Plane.of_columns(3, [1, 0])), rows)
    np.testing.assert_array_equal(found.coordinates, rows[:, [1, 0]])
    np.testing.assert_array_equal(found.labels, labels_of(rows))


@given(seeds, st.booleans(), st.booleans())
def test_histograms_of_features_count_each_row_in_its_bin_and_those_beyond_at_the_ends(
    seed, weighted, compiled
):
    rows, weights = drawn(seed, weighted=weighted)
    slots, chosen = np.array([1, 2, 0, 2, 2]), np.array([[0, 1], [1, 0]])
    low, high, bins = np.array([-1.0, -0.5]), np.array([1.0, 1.5]), 4
    told = FeatureHistograms(slots, np.array([1, 0]), chosen, low, high, bins)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", compiled and numba_support.AVAILABLE)
        found = by_cluster(told, rows, weights)
    overall, counts = np.zeros((2, bins)), np.zeros((2, 2, bins))
    for number, row in enumerate(rows):
        weight, slot = 1.0 if weights is None else weights[number], slots[labels_of(rows)[number]]
        at = [
            min(max(int(np.floor((row[column] - low[place]) * bins / 2)), 0), bins - 1)
            for place, column in enumerate((1, 0))
        ]
        for place in range(2):
            overall[place, at[place]] += weight
            if slot < 2:
                counts[slot, place, at[chosen[slot, place]]] += weight
    np.testing.assert_array_equal(found.overall, overall)
    np.testing.assert_array_equal(found.counts, counts)


@given(seeds, st.integers(1, 40), st.booleans())
def test_extreme_rows_are_the_first_of_all_in_order_of_distance(seed, height, compiled):
    rows, weights = drawn(seed)
    slots = np.array([1, 2, 0, 2, 2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", compiled and numba_support.AVAILABLE)
        found = by_cluster(ExtremeRows(slots, 2, 3), rows, weights, height=height)
    squared = squared_of(rows)
    for slot, cluster in enumerate((2, 0)):
        own = [n for n in range(len(rows)) if labels_of(rows)[n] == cluster and weights[n] > 0]
        near = sorted(own, key=lambda n: (squared[n], n))[:3]
        far = sorted(own, key=lambda n: (-squared[n], n))[:3]
        assert [n for n in found.nearest[slot] if n >= 0] == near
        assert [n for n in found.farthest[slot] if n >= 0] == far
        np.testing.assert_array_equal(found.near[slot, : len(near)], squared[near])
        np.testing.assert_array_equal(found.far[slot, : len(far)], squared[far])


@given(seeds)
def test_doubts_are_weights_of_rows_of_small_odds_by_pair(seed):
    rows, weights = drawn(seed)
    found = by_cluster(Doubts(K), rows, weights, softly)
    wanted = np.zeros(K * K)
    for row, label, weight in zip(rows, labels_of(rows), weights, strict=True):
        if np.exp(row[-1] - 4) < 3 and label >= 0:
            wanted[label * K + (label + 1) % K] += weight
    whole = np.zeros(K * K)
    whole[found.keys] = found.values
    np.testing.assert_array_equal(whole, wanted)


@given(seeds, st.integers(1, 4), st.booleans())
def test_the_second_cluster_is_of_the_second_center_if_it_is_another(seed, k, grouped):
    rng = np.random.default_rng(seed)
    rows, centers = rng.normal(size=(40, 2)), rng.normal(size=(k, 2))
    groups, log_weights = np.arange(k) // 2, np.log(rng.dirichlet(np.ones(k)))
    noise = np.arange(k) == 1
    mixture = Mixture(Centers(centers), log_weights, 2.0, groups if grouped else None)
    found = LabelledBlock(
        Block(0, rows, None), *NearestTwo(mixture, 0.5, noise)(Block(0, rows, None))
    )
    for number, row in enumerate(rows):
        squared = ((row - centers) ** 2).sum(axis=1)
        first, *others = squared.argsort(kind="stable").tolist()
        own = groups[first] if grouped else first
        assert found.labels[number] == (-1 if first == 1 else own)
        assert found.squared[number] == pytest.approx(squared[first])
        assert found.beyond[number] == (squared[first] > 0.5)
        second = (groups[others[0]] if grouped else others[0]) if others else -1
        assert found.seconds[number] == (-1 if grouped and second == own else second)
        if others:
            odds = log_weights[first] - log_weights[others[0]] + squared[others[0]] - squared[first]
            assert found.log_odds[number] == pytest.approx(odds)
        else:
            assert found.log_odds[number] == np.inf


def test_rows_near_the_edge_and_beyond_are_counted():
    rows = np.array([[0.0], [0.9], [0.91], [1.0], [1.1], [9.0]])
    assert by_cluster(Edge(1.0), rows, height=2).tolist() == [2, 2]
    weights = np.array([1.0, 1.0, 0.5, 1.0, 0.0, 2.0])
    assert by_cluster(Edge(1.0), rows, weights, height=2).tolist() == [1, 1]
