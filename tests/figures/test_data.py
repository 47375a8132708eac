"""The numbers of pictures."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from dask_dpmeans import (
    DPMeans,
    GraphCutDPMeans,
    HDPMeans,
    InputError,
    KernelDPMeans,
    LinkageDPMeans,
    OnlineDPMeans,
    SpectralDPMeans,
    fit,
)
from dask_dpmeans.figures import data
from dask_dpmeans.selection.tree import cluster_tree
from dask_dpmeans.sources import layout


def blobs(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-10, 10, (k, d))[rng.integers(k, size=n)] + 0.5 * rng.normal(size=(n, d))


@pytest.fixture(scope="module")
def rows():
    return blobs(12_000, 3, 5)


@pytest.fixture(scope="module")
def model(rows):
    return DPMeans(16.0).fit(rows)


def test_a_history_holds_what_the_steps_came_to(model):
    found = data.history(model)
    assert found.objectives.tolist() == [record.objective for record in model.history_]
    assert found.n_clusters[-1] == model.n_clusters_
    assert found.changes["births"].tolist() == [record.births for record in model.history_]
    assert "merges" not in found.changes
    assert data.history(model.history_[:1]).objectives.tolist() == [model.history_[0].objective]


def test_a_history_without_steps_is_refused():
    with pytest.raises(InputError, match="the history has no steps"):
        data.history([])
    with pytest.raises(InputError, match="OnlineDPMeans has no steps"):
        data.history(OnlineDPMeans(4.0).fit(np.eye(3)))


def test_sizes_go_from_the_heaviest_cluster_on(rows, model):
    found = data.sizes(model)
    assert (np.diff(found.weights) <= 0).all()
    for cluster, weight, radius in zip(found.clusters, found.weights, found.radii, strict=True):
        members = rows[model.labels_ == cluster]
        assert weight == len(members)
        assert radius == pytest.approx(
            np.sqrt(((members - model.cluster_centers_[cluster]) ** 2).sum(axis=1).mean())
        )
    assert (found.limit, found.unit, found.cut) == (4.0, "sum over rows", False)
    assert (found.radii < 4.0).all()


def test_a_penalty_is_a_radius_where_the_method_reads_it_so(rows, model):
    assert DPMeans(9.0, search=True).description().radius is None
    assert HDPMeans(1.0, 4.0).description().radius is None
    assert SpectralDPMeans(7.0, threshold=0.25).description().radius == 0.5
    assert KernelDPMeans(0.64).description().radius == pytest.approx(0.8)


def test_sizes_of_a_graph_are_parts_of_its_cut():
    graph = np.kron(np.eye(2), np.ones((4, 4)) - np.eye(4))
    graph[3, 4] = graph[4, 3] = 1
    model = GraphCutDPMeans(-0.5, random_state=0).fit(graph)
    found = data.sizes(model)
    assert (found.unit, found.cut, found.limit) == ("link ends", True, None)
    assert found.radii.sum() == pytest.approx(model.cut_)


def test_scores_have_mean_0_and_deviation_1_by_weight(model):
    found = data.profile(model)
    share = model.cluster_weights_ / model.cluster_weights_.sum()
    np.testing.assert_allclose(share @ found.scores, 0, atol=1e-12)
    np.testing.assert_allclose(share @ found.scores**2, 1)
    assert found.features == ["column 0", "column 1", "column 2"]
    assert len(found.clusters_left_out) == len(found.features_left_out) == 0


def test_features_and_clusters_that_differ_least_are_left_out():
    centers = np.array([[0.0, 5.0, 1.0], [9.0, 5.0, 1.5], [0.0, 5.0, 1.0], [9.0, 5.0, 1.0]])
    model = DPMeans(0.01).fit(np.repeat(centers, [9, 3, 8, 9], axis=0))
    order = model.predict(centers).tolist()
    found = data.profile(model, ["a", "b", "c"], max_features=2, max_clusters=1)
    assert (found.features, found.features_left_out) == (["a", "c"], ["b"])
    assert found.clusters.tolist() == [order[1]]
    assert found.clusters_left_out.tolist() == sorted(set(order) - {order[1]})
    with pytest.raises(
        InputError, match="feature_names must be 3 names, one for each column of the centers, got 2"
    ):
        data.profile(model, ["a", "b"])


def test_features_are_called_as_the_columns_were(rows, tmp_path):
    frame = pd.DataFrame(rows[:100], columns=["x", "y", "z"])
    assert data.feature_names(DPMeans(16.0).fit(frame)) == ["x", "y", "z"]
    zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(5000, 3))
    run = fit(
        tmp_path / "rows.zarr", tmp_path / "run.zarr", DPMeans(1.0), columns=[2, 0], scale="std"
    )
    assert data.feature_names(run) == ["column 2", "column 0"]
    assert run.description().units == "standard deviations"
    found = data.density(tmp_path / "rows.zarr", run, columns=(0, 2))
    assert found.axes == ["column 0", "column 2"]
    np.testing.assert_allclose(found.centers, run.cluster_centers_[:, ::-1])


def test_equal_centers_of_one_cluster_have_no_scores():
    model = DPMeans(100.0).fit(np.full((5, 2), 0.1))
    assert data.profile(model).scores.tolist() == [[0.0, 0.0]]


def test_a_model_without_centers_says_so(rows):
    model = KernelDPMeans(0.5).fit(rows[:50])
    with pytest.raises(
        InputError, match="KernelDPMeans has no centers of rows, which a profile needs"
    ):
        data.profile(model)
    assert model.description().units == "in the space of the kernel"


# HDP


@pytest.fixture(scope="module")
def shared():
    rng = np.random.default_rng(0)
    spots = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    uses = [[0], [1], [0, 1, 1], [2, 2, 0], [1]]
    return HDPMeans(2.0, 8.0).fit(
        [spots[each] + 0.1 * rng.normal(size=(len(each), 2)) for each in uses]
    )


def test_shares_are_those_of_each_data_set(shared):
    found = data.sharing(shared)
    whole = shared.local_clusters_.toarray()
    whole /= whole.sum(axis=1, keepdims=True)
    assert sorted(int(each[0]) for each in found.sets) == [0, 1, 2, 3, 4]
    for line, sets in zip(found.shares, found.sets, strict=True):
        np.testing.assert_allclose(line, whole[sets[0], found.centers])
    assert np.diff(shared.cluster_weights_[found.centers]).max() <= 0
    chief = found.shares.argmax(axis=1)
    assert (np.diff(chief) >= 0).all()


def test_many_data_sets_and_centers_are_drawn_together(shared):
    found = data.sharing(shared, max_lines=2, max_centers=1)
    assert [len(sets) for sets in found.sets] == [3, 2]
    assert found.shares.shape == (2, 2)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1)
    assert sorted([*found.centers, *found.centers_together]) == list(range(shared.n_clusters_))


def test_sharing_is_of_data_sets(model):
    with pytest.raises(InputError, match="data sets share clusters in HDPMeans, got DPMeans"):
        data.sharing(model)


# Density


def test_few_rows_are_points(rows, model):
    found = data.density(rows[:500], model, columns=(2, 0))
    np.testing.assert_array_equal(found.points, rows[:500, [2, 0]])
    np.testing.assert_array_equal(found.centers, model.cluster_centers_[:, [2, 0]])
    assert (found.counts, found.outside, found.n_rows) == (None, 0.0, 500)
    assert found.axes == ["column 2", "column 0"]


def test_principal_directions_are_those_of_the_covariance(rows, model):
    found = data.density(rows[:2000] + 1e6, model)
    values, vectors = np.linalg.eigh(np.cov(rows[:2000].T))
    centered = rows[:2000] - rows[:2000].mean(axis=0)
    np.testing.assert_allclose(
        np.abs(found.points), np.abs(centered @ vectors[:, [2, 1]]), atol=1e-6
    )
    assert found.axes[0] == f"principal direction 1, {values[2] / values.sum():.0%} of the variance"


def test_every_row_is_in_the_picture_or_counted_outside(rows, model):
    far = rows.copy()
    far[7] = 1e4
    for columns in (None, (0, 1), (1,)):
        whole, less = (data.density(each, model, columns, bins=64) for each in (rows, far))
        assert (whole.counts.sum(), whole.outside) == (len(rows), 0)
        assert (less.counts.sum(), less.outside) == (len(rows) - 1, 1)
        assert (whole.low <= whole.centers).all()
        assert (whole.centers <= whole.high).all()


def test_weights_count(rows, model):
    weights = np.arange(len(rows)) % 3.0
    found = data.density(rows, model, (0, 1), sample_weight=weights)
    assert found.counts.sum() == weights.sum()


def test_weights_that_are_converted_block_by_block_count_as_what_they_are(
    rows, model, tmp_path, monkeypatch
):
    monkeypatch.setattr(layout, "RESIDENT_SHARE", 0.0)  # converted once where rows are in memory
    weights = np.random.default_rng(3).integers(0, 5, len(rows))
    stored = zarr.create_array(tmp_path / "weights.zarr", data=weights, chunks=5_000)
    np.save(tmp_path / "rows.npy", rows)
    found = data.density(
        tmp_path / "rows.npy", model, (0, 1), sample_weight=stored, threads=1, block_rows=64
    )
    wanted = data.density(rows, model, (0, 1), sample_weight=weights)
    np.testing.assert_array_equal(found.counts, wanted.counts)
    assert found.outside == wanted.outside


def test_a_picture_is_the_same_for_any_chunks_and_threads(rows, model):
    wanted = data.density(rows, model, threads=1)
    for each in (da.from_array(rows, chunks=(5000, 3)), rows):
        found = data.density(each, model, threads=2)
        for name in ("counts", "low", "high", "centers"):
            assert getattr(found, name).tobytes() == getattr(wanted, name).tobytes()


def test_one_column_is_a_histogram(rows):
    model = DPMeans(4.0).fit(rows[:300, :1])
    found = data.density(rows[:300, :1], model)
    assert found.counts.ndim == 2
    assert found.counts.sum() == 300
    assert found.counts.shape[1] <= 34


def test_layers_are_the_heaviest_clusters_and_hold_their_rows(rows, model):
    found = data.density(rows, model)
    order = np.argsort(-model.cluster_weights_, kind="stable")
    assert found.layers.tolist() == [*order, -1]
    np.testing.assert_array_equal(
        found.counts.sum(axis=(1, 2))[:-1], np.bincount(model.predict(rows))[order]
    )
    few = data.density(rows[:500], model)
    np.testing.assert_array_equal(few.labels, model.predict(rows[:500]))


def test_all_clusters_but_24_share_a_layer():
    rows = blobs(11_000, 2, 60)
    model = DPMeans(0.01, init=rows[:40]).fit(rows)
    found = data.density(rows, model)
    assert len(found.layers) == len(found.counts) == 25
    heavy = np.sort(np.bincount(model.predict(rows)))[::-1]
    np.testing.assert_array_equal(found.counts.sum(axis=(1, 2))[:2], heavy[:2])
    assert found.counts.sum() + found.outside == len(rows)


def test_what_cannot_be_looked_at_is_refused(rows, model, tmp_path):
    for columns in ((0, 3), (0, 0), (0, 1, 2), ("x", 0)):
        with pytest.raises(
            InputError, match="columns must be one or two different columns of the fit"
        ):
            data.density(rows, model, columns)
    np.save(tmp_path / "other.npy", rows[:, :2])
    with pytest.raises(InputError, match="X has 2 columns, the fit had 3"):
        data.density(tmp_path / "other.npy", model)
    wide = DPMeans(1e9).fit(np.ones((3, 2100)) * [[0], [1], [2]])
    with pytest.raises(InputError, match="up to 2,048: give two columns"):
        data.density(np.ones((3, 2100)), wide)


def test_directions_are_drawn_at_unit_length(rows):
    model = DPMeans(0.5, metric="cosine").fit(rows)
    found = data.density(rows, model, (0, 1))
    assert found.unit == "rows of unit length"
    assert found.low.min() >= -1
    assert found.high.max() <= 1


# Graphs


def test_a_small_graph_can_be_drawn():
    graph = csr_array(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0.0]]))
    found = data.drawable(graph, [0, 0, 1])
    assert (found.adjacency != graph).nnz == 0
    assert found.labels.tolist() == [0, 0, 1]


def test_a_graph_too_large_to_draw_is_refused_with_the_way_out():
    with pytest.raises(
        InputError,
        match="the graph has 501 nodes, and up to 500 can be drawn: take the nodes of a few",
    ):
        data.drawable(csr_array(np.eye(501)), np.zeros(501, int))
    full = np.ones((250, 250))
    with pytest.raises(
        InputError, match="the graph has 31,250 links, and up to 20,000 can be drawn"
    ):
        data.drawable(full, np.zeros(250, int))
    with pytest.raises(
        InputError, match=r"labels must be 2 integers, one a node, got float64 of shape \(2,\)"
    ):
        data.drawable(np.eye(2), [0.0, 1.0])


def test_the_upper_part_of_a_tree_joins_as_the_whole_does():
    tree = cluster_tree(
        DPMeans(1e-9, random_state=0).fit(np.random.default_rng(0).normal(0, 10, (30, 2)))
    )
    top = data.upper(tree, 12)
    assert top.leaves.n_clusters == max(
        level.n_clusters for level in tree.levels if level.n_clusters <= 12
    )
    for level in top.levels:
        whole = next(each for each in tree.levels if each.penalty == level.penalty)
        lowest = next(each for each in tree.levels if each.penalty == top.leaves.penalty)
        np.testing.assert_array_equal(level.clusters[lowest.clusters], whole.clusters)
    found = data.dendrogram(top)
    assert min(join.heights.min() for join in found.joins) == top.leaves.penalty
    assert data.upper(tree, 30).leaves.n_clusters == 30


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(0, 99))
def test_no_two_joins_of_a_dendrogram_cross(k, seed):
    rng = np.random.default_rng(seed)
    model = DPMeans(1e-9, random_state=0).fit(rng.normal(0, 10, (k, 2)))
    tree = cluster_tree(model)
    found = data.dendrogram(tree)
    assert sorted(found.leaves.tolist()) == list(range(k))
    assert [join.height for join in found.joins] == sorted(join.height for join in found.joins)
    assert sum(len(join.places) - 1 for join in found.joins) == k - 1
    for level in tree.levels:
        along = level.clusters[found.leaves]
        assert np.count_nonzero(np.diff(along)) == level.n_clusters - 1
    for join in found.joins:
        assert (join.heights < join.height).all()
        assert (np.diff(join.places) > 0).all()


def test_numbers_of_a_choice_fall_as_penalties_rise_and_the_best_score_is_chosen(rows):
    found = DPMeans(random_state=0).fit(rows).choice_
    numbers = data.choice(found)
    assert (np.diff(numbers.n_clusters) < 0).all()
    assert (numbers.low[1:] == numbers.high[:-1]).all()
    assert numbers.n_clusters[np.nanargmax(numbers.scores)] == found.n_clusters
    assert np.isnan(numbers.scores[numbers.n_clusters > found.largest]).all()
    assert numbers.alternatives == found.alternatives


@pytest.fixture(scope="module")
def rings():
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, 200)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    rows = np.concatenate([circle, 3 * circle])
    return rows, LinkageDPMeans(penalty=-0.02, micro_penalty=4.0, random_state=0).fit(rows)


def test_merges_end_with_one_cluster_and_save_less_and_less(rings):
    _, model = rings
    found, k = data.merges(model, 300), len(model.groups_)
    assert found.n_micro == k
    assert len(found.places) == len(found.clusters) == k - 1
    assert found.penalty == -0.02
    assert (found.gains[:, 1] == found.gains[:, 2]).all()
    assert (found.gains[:, 1:2] <= found.gains[:, [0, 3]]).all()
    assert set(range(k)) <= set(found.places[:, [0, 3]][found.gains[:, [0, 3]] == 1.0])


def test_merges_below_the_level_of_a_fit_are_within_its_clusters(rings):
    _, model = rings
    found = data.merges(model, 300)
    assert model.n_clusters_ == 2
    assert sorted(found.clusters)[0] == -1
    assert (found.clusters == -1).sum() == 1
    sizes = np.bincount(model.groups_)
    assert np.bincount(found.clusters[found.clusters >= 0]).tolist() == (sizes - 1).tolist()


def test_the_last_merges_of_many_micro_clusters_are_those_of_all(rings):
    _, model = rings
    some, everything = data.merges(model, 5), data.merges(model, 300)
    assert len(some.places) == 4
    assert sorted(some.gains[:, 1]) == sorted(everything.gains[:, 1])[:4]


def test_one_micro_cluster_has_no_merges():
    model = LinkageDPMeans(penalty=-0.5, micro_penalty=1e6, random_state=0).fit(blobs(20, 2, 1))
    with pytest.raises(InputError, match="one micro-cluster: there are no merges to show"):
        data.merges(model, 300)


def test_centers_of_micro_clusters_lie_among_the_rows(rings):
    rows, model = rings
    assert np.array_equal(data.density(rows, model).centers, model.micro_centers_)
