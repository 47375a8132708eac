"""What labels are worth, and how well two labelings agree."""

import math

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics
from sklearn.metrics.cluster import contingency_matrix
from strategies import TAME, chunkings, seeds, tables, weights_of

from dask_dpmeans import DPMeans, InputError, reference
from dask_dpmeans.kernels.labelings import LabelPairs
from dask_dpmeans.selection import metrics
from dask_dpmeans.selection.metrics import agreement, contingency, partition


def by_hand(rows, labels, weights):
    """The clusters, row by row, with the reference's means: label -> size, weight, inertia, radius."""
    found = {}
    for label in sorted(set(labels)):
        some = [number for number, other in enumerate(labels) if other == label]
        members, each = [rows[i] for i in some], [weights[i] for i in some]
        if sum(each) > 0:
            center = reference.mean_of(members, each)
            away = [reference.squared_distance(row, center) for row in members]
            error = sum(w * squared for w, squared in zip(each, away, strict=True))
            radius = math.sqrt(max(squared for w, squared in zip(each, away, strict=True) if w > 0))
            found[label] = len(some), sum(each), error, radius
    return found


def labels_of(n, seed, most=5):
    return np.random.default_rng(seed).integers(-1, most, n) * 3


def contents(found):
    return [value.tobytes() for value in vars(found).values()]


@settings(max_examples=40)
@given(tables(kinds=TAME), seeds, st.data())
def test_clusters_are_those_of_a_loop(rows, seed, data):
    labels, weights = labels_of(len(rows), seed), data.draw(weights_of(len(rows)))
    each = [1.0] * len(rows) if weights is None else weights.tolist()
    wanted = by_hand(rows.astype(float).tolist(), labels.tolist(), each)
    found = partition(rows, labels, weights)
    assert found.labels.tolist() == list(wanted)
    sizes, weighed, errors, radii = map(list, zip(*wanted.values(), strict=True))
    assert found.sizes.tolist() == sizes
    assert found.weights.tolist() == weighed
    scale = np.abs(rows).max().astype(float) ** 2 * 1e-22  # rounding of means of equal rows
    np.testing.assert_allclose(found.inertias, errors, rtol=1e-10, atol=scale * len(rows))
    np.testing.assert_allclose(found.radii, radii, rtol=1e-10, atol=math.sqrt(scale))
    np.testing.assert_allclose(found.deviations**2 * found.weights, found.inertias, rtol=1e-12)
    assert metrics.inertia(rows, labels, weights) == found.inertia
    assert metrics.objective(rows, labels, 2.5, weights) == found.inertia + 2.5 * len(wanted)


@settings(max_examples=25)
@given(tables(), seeds, st.data())
def test_the_same_bytes_for_any_chunks(rows, seed, data):
    n, labels = len(rows), labels_of(len(rows), seed)
    weights = data.draw(weights_of(n))
    wanted = contents(partition(rows, labels, weights))
    lazy = [data.draw(chunkings(n, empty=False)) for _ in range(3)]
    table = da.from_array(rows, chunks=(lazy[0], -1))
    beside = (
        da.from_array(labels, chunks=(lazy[1],)),
        None if weights is None else da.from_array(weights, lazy[2]),
    )
    assert contents(partition(table, *beside, threads=2)) == wanted
    assert contents(partition(table, labels, weights)) == wanted
    assert contents(partition(rows, *beside)) == wanted


def test_several_blocks_and_stores_give_the_bytes_of_memory(tmp_path):
    rng = np.random.default_rng(0)
    rows, labels = (
        rng.normal(size=(70_000, 3)).astype(np.float32),
        rng.integers(0, 50, 70_000).astype(np.int16),
    )
    stored = zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(9_000, 2))
    beside = zarr.create_array(tmp_path / "labels.zarr", data=labels, chunks=(11_111,))
    wanted = contents(partition(rows, labels))
    for table, given_labels in (
        (stored, beside),
        (str(tmp_path / "rows.zarr"), str(tmp_path / "labels.zarr")),
    ):
        assert contents(partition(table, given_labels, threads=2)) == wanted
    lazy = da.from_array(labels, chunks=7_001)
    assert contents(partition(stored, lazy[lazy >= 0])) == wanted  # lengths of chunks unknown


def test_the_labels_of_a_fit_have_at_most_its_objective():
    rows = np.random.default_rng(0).normal(size=(500, 2))
    model = DPMeans(1.5, tol=0).fit(rows)
    found = metrics.objective(rows, model.labels_, 1.5)
    assert found <= model.objective_
    assert found == pytest.approx(
        model.objective_, rel=1e-12
    )  # with tol=0 the centers are the means
    directions = DPMeans(0.2, metric="cosine", tol=0).fit(rows)
    assert metrics.inertia(rows, directions.labels_, metric="cosine") == pytest.approx(
        directions.inertia_, rel=1e-9
    )


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "haversine"])
def test_outliers_are_a_cluster_unless_they_weigh_nothing(metric):
    rows, labels = np.random.default_rng(0).uniform(1, 80, (60, 2)), labels_of(60, 0) // 3
    found = partition(rows, labels, metric=metric)
    assert found.labels.tolist() == [-1, 0, 1, 2, 3, 4]
    assert contents(partition(rows, labels + 1, metric=metric))[1:] == contents(found)[1:]
    without = partition(rows, labels, (labels >= 0).astype(float), metric=metric)
    alone = partition(rows[labels >= 0], labels[labels >= 0], metric=metric)
    assert without.labels.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(without.inertias, alone.inertias, rtol=1e-12)
    np.testing.assert_allclose(without.centers, alone.centers, rtol=1e-12)


def test_the_labels_of_a_fit_with_outliers_have_its_objective_without_these():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    model = DPMeans(9.0, search=True, outlier_penalty=4.0, random_state=0, tol=0).fit(rows)
    outliers = int(np.count_nonzero(model.labels_ == -1))
    assert outliers > 0
    inside = (model.labels_ >= 0).astype(float)
    found = metrics.objective(rows, model.labels_, 9.0, inside) + 4.0 * outliers
    assert found == pytest.approx(model.objective_, rel=1e-9)


def test_a_squared_error_that_moments_would_cancel():
    rows = np.array([[1e8], [1e8 + 1], [-1e8], [-1e8 - 1]])
    assert metrics.inertia(rows, [0, 0, 1, 1]) == 1.0


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            [0, -(2**24), 2],
            r"labels holds -16777216 at row 1: labels must be from -16,777,215 to below 16,777,216; number them",
        ),
        ([0.0, 1.0, 2.0], r"labels must be integers, got float64"),
        ([0, 1], r"labels must hold one number a row: 3 rows, but 2 numbers"),
        (None, r"labels is None: pass one integer a row"),
        ([[0, 1, 2]], r"labels must have 1 dimension, got shape \(1, 3\)"),
    ],
)
def test_labels_that_are_none_are_refused(labels, message):
    with pytest.raises(InputError, match=message):
        partition(np.zeros((3, 1)), labels)


def test_parameters_that_cannot_be_used_are_refused():
    with pytest.raises(InputError, match=r"penalty must be a finite number > 0, got 0"):
        metrics.objective(np.zeros((3, 1)), [0, 1, 2], 0)
    with pytest.raises(
        InputError,
        match=r"metric must be one of 'euclidean', 'cosine', 'haversine', got 'manhattan'",
    ):
        partition(np.zeros((3, 1)), [0, 1, 2], metric="manhattan")


# ---------------------------------------------------------------- agreement


@st.composite
def labelings(draw, most=60):
    """Two labelings of the same rows: alike, unlike, one a copy of the other, of one cluster or of one row each."""
    n, rng = draw(st.integers(1, most)), np.random.default_rng(draw(seeds))
    first = rng.integers(-2, draw(st.integers(-1, 6)), n)
    kind = draw(st.sampled_from(["any", "near", "copy", "one", "each"]))
    others = {
        "any": rng.integers(0, 5, n),
        "near": np.where(rng.random(n) < 0.1, 9, first),
        "copy": first * 1000,
        "one": np.zeros(n, np.int64),
        "each": rng.permutation(n),
    }
    return first, others[kind]


@given(labelings())
def test_agreement_is_that_of_scikit_learn(labels):
    found = agreement(*labels)
    wanted = [
        sklearn_metrics.adjusted_rand_score(*labels),
        sklearn_metrics.normalized_mutual_info_score(*labels),
        *sklearn_metrics.homogeneity_completeness_v_measure(*labels),
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert metrics.adjusted_rand_score(*labels) == found.adjusted_rand
    assert metrics.normalized_mutual_info_score(*labels) == found.normalized_mutual_information
    assert metrics.v_measure_score(*labels) == found.v_measure


@settings(max_examples=30)
@given(labelings(), st.data())
def test_the_contingency_table_is_scikit_learns_for_any_chunks(labels, data):
    chunks = [data.draw(chunkings(len(labels[0]), empty=False)) for _ in labels]
    lazy = [
        da.from_array(each, chunks=(sizes,)) for each, sizes in zip(labels, chunks, strict=True)
    ]
    for given_labels in (labels, lazy, (lazy[0], labels[1]), (labels[0], lazy[1])):
        found = contingency(*given_labels)
        np.testing.assert_array_equal(found.table.toarray(), contingency_matrix(*labels))
        np.testing.assert_array_equal(found.classes, np.unique(labels[0]))
        np.testing.assert_array_equal(found.clusters, np.unique(labels[1]))


def test_pairs_of_rows_are_counted_beyond_64_bits():
    """2**34 rows: their pairs are 2**68."""
    half = 2**33
    same = LabelPairs(np.array([0, 1]), np.array([5, 3]), np.array([half, half]))
    assert same.adjusted_rand == 1.0
    crossed = LabelPairs(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.full(4, half // 2))
    assert crossed.adjusted_rand == pytest.approx(-1 / (2 * half), rel=1e-6)


def test_many_blocks_and_stores(tmp_path):
    rng = np.random.default_rng(0)
    first = rng.integers(0, 300, 100_000).astype(np.uint16)
    second = np.where(rng.random(100_000) < 0.3, rng.integers(0, 7, 100_000), first)
    stored = [
        zarr.create_array(tmp_path / f"{number}.zarr", data=labels, chunks=(size,))
        for number, labels, size in ((0, first, 30_000), (1, second, 7_777))
    ]
    found = contingency(*stored, threads=2)
    np.testing.assert_array_equal(found.table.toarray(), contingency_matrix(first, second))
    assert agreement(*(str(tmp_path / f"{number}.zarr") for number in (0, 1))) == agreement(
        first, second
    )
    wanted = sklearn_metrics.adjusted_rand_score(first, second)
    assert metrics.adjusted_rand_score(*stored) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            ([0, 1], [0, 1, 2]),
            r"labels_true and labels_pred must be labels of the same rows, got 2 and 3 of them",
        ),
        (([0.5, 1], [0, 1]), r"labels_true must be integers, got float64: number them"),
        (([0, 1], ["a", "b"]), r"labels_pred must be integers, got <U1: number them"),
        (([0, 1], None), r"labels_pred is None: pass an array of integers"),
        (([], []), r"labels_true must be integers, got float64"),
    ],
)
def test_labelings_that_cannot_be_compared_are_refused(labels, message):
    with pytest.raises(InputError, match=message):
        contingency(*labels)
