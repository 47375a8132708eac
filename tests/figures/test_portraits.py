"""Maps of rows and portraits of clusters, against the rows themselves."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from strategies import seeds

from dask_dpmeans import DPMeans, LinkageDPMeans
from dask_dpmeans.figures.data import overview, rows_of
from dask_dpmeans.figures.data.portraits import MOST_PORTRAITS
from dask_dpmeans.figures.data.rows import covariance_of, discriminant_view, nearest_clusters
from dask_dpmeans.figures.plot import row_map
from dask_dpmeans.kernels.cluster_statistics import NearestTwo


def clouds(seed, n=400, d=4, k=3, apart=6.0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-apart, apart, (k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def fitted(rows, k=3, scale=1.0):
    return DPMeans(1e9, init=np.asarray(rows)[:k] * scale).fit(rows)


def soft(model, penalty=1e9):
    return NearestTwo(model._mixture(), penalty)


def seen(rows, model, *, predict=None, penalty=4.0, **options):
    source = rows_of(rows, model, options.pop("sample_weight", None), threads=1)
    names = [f"f{number}" for number in range(np.shape(rows)[1])]
    return overview(source, model, predict or soft(model, penalty), penalty, names, **options)


@settings(max_examples=12, deadline=None)
@given(seeds, st.integers(1, 5), st.integers(1, 4))
def test_a_portrait_says_what_the_rows_of_its_cluster_say(seed, d, k):
    rows = clouds(seed, d=d, k=k)
    model = fitted(rows, k)
    labels, found = model.predict(rows), seen(rows, model)
    assert [each.cluster for each in found.clusters] == np.argsort(
        -model.cluster_weights_, kind="stable"
    ).tolist()
    distances = cdist(rows, model.cluster_centers_)
    for each in found.clusters:
        own = np.flatnonzero(labels == each.cluster)
        assert each.weight == len(own)
        assert each.share == len(own) / len(rows)
        assert each.radius == pytest.approx(
            np.sqrt((distances[own, each.cluster] ** 2).mean()), abs=1e-6
        )
        order = own[np.argsort(distances[own, each.cluster], kind="stable")]
        assert [row.name for row in each.nearest] == list(map(str, order[:3]))
        assert [row.distance for row in each.farthest] == pytest.approx(
            np.sort(distances[own, each.cluster])[::-1][:3]
        )
        scores = (model.cluster_centers_[each.cluster] - rows.mean(axis=0)) / rows.std(axis=0)
        best = np.argsort(-np.abs(scores), kind="stable")[:4]
        assert [feature.name for feature in each.features] == [f"f{column}" for column in best]
        np.testing.assert_allclose(
            [feature.score for feature in each.features], scores[best], atol=1e-12
        )
        for feature in each.features:
            assert feature.counts.sum() == len(own)
            assert feature.overall.sum() == len(rows)
            assert (feature.counts <= feature.overall).all()


@settings(max_examples=12, deadline=None)
@given(seeds, st.integers(2, 4))
def test_rows_in_doubt_are_those_that_are_less_than_three_times_as_probable(seed, k):
    rows = clouds(seed, k=k, apart=2.0)
    model = fitted(rows, k)
    found, mixture, labels = seen(rows, model), model._mixture(), model.predict(rows)
    squared = cdist(rows, model.cluster_centers_) ** 2
    seconds = squared.argsort(axis=1, kind="stable")[:, 1]
    density = mixture.log_weights - mixture.precision / 2 * squared
    at = np.arange(len(rows))
    doubtful = np.exp(density[at, labels] - density[at, seconds]) < 3
    assert found.doubt == pytest.approx(doubtful.mean())
    for each in found.clusters:
        own = labels == each.cluster
        assert each.doubt == pytest.approx(doubtful[own].mean())
        for neighbor in each.neighbors:
            both = own & doubtful & (seconds == neighbor.cluster)
            assert neighbor.doubt == pytest.approx(both.sum() / own.sum())


def test_neighbors_are_the_nearest_centers():
    rows = np.repeat([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0], [20.0, 0.0], [60.0, 0.0]], 4, axis=0)
    model = DPMeans(0.01, init=rows[::4]).fit(rows)
    found = {each.cluster: each for each in seen(rows, model).clusters}
    assert [each.cluster for each in found[1].neighbors] == [0, 2, 3]
    assert [each.distance for each in found[1].neighbors] == [1.0, 4.0, 19.0]


@settings(max_examples=12, deadline=None)
@given(seeds)
def test_an_overview_is_the_same_for_any_chunks_and_threads(seed):
    rows = clouds(seed % 5, n=20_000).astype(np.float32)
    weights = np.random.default_rng(seed).integers(0, 3, len(rows)).astype(float)
    model = fitted(rows)
    found = [
        overview(
            rows_of(each, model, weights, threads=threads), model, soft(model), 4.0, list("abcd")
        )
        for each, threads in ((rows, 1), (da.from_array(rows, chunks=(3_000, 4)), 2))
    ]
    assert repr_of(found[0]) == repr_of(found[1])


def repr_of(value):
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return [repr_of(each) for each in value]
    return repr(value)


def test_a_map_separates_what_the_largest_variance_hides():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 3)) * [100.0, 50.0, 1.0]
    rows[300:, 2] += 30
    means = np.array([rows[:300].mean(axis=0), rows[300:].mean(axis=0)])
    model = DPMeans(1e9, init=means).fit(rows)
    model.cluster_centers_, model.cluster_weights_ = means, np.array([300.0, 300.0])
    source = rows_of(rows, model)
    view = discriminant_view(source, model, covariance_of(source))
    along = view.plane(rows)
    assert abs(along[300:, 0].mean() - along[:300, 0].mean()) > 20
    within = np.concatenate(
        [along[:300] - along[:300].mean(axis=0), along[300:] - along[300:].mean(axis=0)]
    )
    np.testing.assert_allclose(within.T @ within / 600, np.eye(2), atol=1e-5)
    assert abs(np.corrcoef(along[:, 1], rows[:, 0])[0, 1]) > 0.99


@pytest.mark.parametrize("constant", [None, 1e9])
def test_one_cluster_has_no_direction_that_separates(constant):
    rows = clouds(0, k=1)
    if constant is not None:
        rows[:, 3] = constant
    model = fitted(rows, 1)
    model.cluster_centers_[:, 3] *= 1 + 1e-15  # as another order of the sums
    source = rows_of(rows, model)
    assert discriminant_view(source, model, covariance_of(source)) is None
    found = seen(rows, model)
    assert [each.title for each in found.maps] == ["Principal directions"]
    assert (found.doubt, found.clusters[0].neighbors) == (0.0, [])


def test_maps_are_of_asked_columns_first_and_pairs_of_the_columns_that_differ_most():
    rows = np.concatenate([clouds(0, d=5), np.random.default_rng(1).normal(size=(400, 4))], axis=1)
    found = seen(rows, fitted(rows), columns=[7, 0])
    assert [each.title for each in found.maps] == [
        "f7 and f0",
        "Clusters apart",
        "Principal directions",
    ]
    assert len(found.columns) == 6
    assert set(found.columns) >= {"f0", "f1", "f2", "f3", "f4"}
    assert len(found.pairs) == 15
    assert found.pairs[0].axes == found.columns[:2]
    flat = clouds(0, d=2)
    assert [each.title for each in seen(flat, fitted(flat)).maps] == ["f0 and f1"]
    assert seen(flat, fitted(flat)).pairs == []


def test_rows_are_called_as_in_the_index_and_features_are_in_units_of_the_data():
    rows = clouds(0)
    frame = pd.DataFrame(
        rows * [1, 10, 100, 1000], columns=list("abcd"), index=[f"r{n}" for n in range(400)]
    )
    model = DPMeans(1e9, init=rows[:3]).fit(frame)
    found = seen(frame, model, index=frame.index)
    labels = model.predict(frame)
    for each in found.clusters:
        assert frame.index.get_loc(each.nearest[0].name) in np.flatnonzero(labels == each.cluster)
        for feature in each.features:
            column = frame.iloc[:, int(feature.name[1:])]
            assert feature.low >= column.min()
            assert feature.high <= column.max()


def test_portraits_are_of_the_heaviest_clusters_and_noise_has_none():
    rows = np.repeat(np.arange(70.0)[:, np.newaxis] * [10, 0, 1], np.arange(1, 71), axis=0)
    model = DPMeans(1.0, init=np.arange(70.0)[:, np.newaxis] * [10, 0, 1]).fit(rows)
    found = seen(rows, model)
    assert len(found.clusters) == MOST_PORTRAITS
    assert min(each.weight for each in found.clusters) == 11
    rng = np.random.default_rng(0)
    noisy = np.concatenate([rng.normal(size=(2000, 2)), rng.uniform(-20, 20, (40, 2))])
    shapes = LinkageDPMeans(penalty=-0.5, micro_penalty=4.0, noise=0.2, random_state=0).fit(noisy)
    maps = seen(noisy, shapes, predict=nearest_clusters(shapes)).maps
    np.testing.assert_array_equal(maps[0].labels, shapes.labels_)
    assert (maps[0].labels == -1).any()


def test_noise_is_no_part_of_a_portrait():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(2000, 3)), rng.uniform(5, 60, (40, 3))])
    shapes = LinkageDPMeans(penalty=-0.9, micro_penalty=9.0, noise=0.2, random_state=0).fit(rows)
    labels, found = shapes.labels_, seen(rows, shapes, predict=nearest_clusters(shapes))
    noisy = shapes.groups_[shapes.micro_noise_]
    assert set(noisy.tolist()) & {each.cluster for each in found.clusters}
    for each in found.clusters:
        own = rows[labels == each.cluster]
        assert each.share == pytest.approx(len(own) / (labels >= 0).sum())
        for feature in each.features:
            assert feature.mean == pytest.approx(own[:, int(feature.name[1:])].mean())
        squared = cdist(own, shapes.micro_centers_).min(axis=1) ** 2
        assert each.radius == pytest.approx(np.sqrt(squared.mean()))


@pytest.mark.parametrize("value", [1e20, -3e18, 0.1])
def test_a_constant_column_of_any_size_has_all_its_rows_in_the_first_bin(value):
    rows = np.column_stack([clouds(0, n=200, d=2), np.full(200, value)])
    rows[:, :2] += 10 * (np.arange(200) % 2)[:, np.newaxis]
    found = seen(rows, fitted(rows))
    for each in found.clusters:
        (constant,) = [feature for feature in each.features if feature.name == "f2"]
        assert constant.high > constant.low
        assert constant.counts[0] == each.weight
        assert constant.overall[0] == len(rows)
    for pair in found.pairs:
        assert pair.counts.sum() == len(rows)
    axes = row_map(seen(rows, fitted(rows), columns=[0, 2]).maps[0]).axes
    assert any(
        np.ptp(each.get_ylim()) > 0 and min(each.get_ylim()) < value < max(each.get_ylim())
        for each in axes
    )


@pytest.mark.parametrize("n", [400, 12_000])
def test_columns_that_depend_on_each_other_have_maps_of_all_rows(n):
    rows = np.repeat(clouds(0, n=n, d=1, k=2), 3, axis=1)
    for each in seen(rows, fitted(rows, 2)).maps:
        assert np.isfinite([each.low, each.high]).all()
        shown = len(each.points) if each.counts is None else each.counts.sum()
        assert shown >= 0.99 * n
