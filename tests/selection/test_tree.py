"""Clusters of clusters."""

import json
import shutil
from itertools import pairwise
from unittest import mock

import dask.array as da
import numpy as np
import pytest
import xarray
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans import (
    DPMeans,
    HDPMeans,
    InputError,
    KernelDPMeans,
    LinkageDPMeans,
    OnlineDPMeans,
    fit,
)
from dask_dpmeans.cli import main
from dask_dpmeans.errors import CorruptStoreError
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.selection.metrics import partition
from dask_dpmeans.selection.tree import cluster_tree, read_tree, write_tree


def nested(seed=0):
    """Three groups of four blobs."""
    rng = np.random.default_rng(seed)
    groups = rng.normal(0, 100, (3, 1, 1, 2))
    blobs = groups + rng.normal(0, 10, (1, 4, 1, 2)) + rng.normal(0, 5, (3, 4, 1, 2))
    return (blobs + rng.normal(0, 0.3, (3, 4, 25, 2))).reshape(-1, 2)


@settings(max_examples=25)
@given(seeds, st.sampled_from(["euclidean", "cosine"]), st.booleans())
def test_the_figures_of_a_level_are_those_of_its_rows(seed, metric, weighted):
    rows = nested(seed) + 1.0
    weights = np.random.default_rng(seed).uniform(0.1, 2, len(rows)) if weighted else None
    model = DPMeans(0.01 if metric == "cosine" else 9.0, metric=metric, tol=0).fit(
        rows, sample_weight=weights
    )
    with mock.patch.object(search, "KICKS", 8):  # how low the levels are does not matter here
        tree = cluster_tree(model)
    assert tree.levels[-1].n_clusters == 1
    for level in tree.levels:
        found = partition(rows, level.labels(model.labels_), weights, metric=metric)
        np.testing.assert_allclose(level.weights, found.weights)
        np.testing.assert_allclose(
            level.inertias, found.inertias, rtol=1e-6, atol=1e-9 * model.inertia_
        )
        np.testing.assert_allclose(level.centers, found.centers, atol=1e-7 * np.abs(rows).max())


def test_the_figures_are_near_where_a_tolerance_ended_the_fit():
    rows = np.random.default_rng(0).normal(size=(5000, 2))
    model = DPMeans(1.0, random_state=0).fit(rows)
    assert np.abs(partition(rows, model.labels_).centers - model.cluster_centers_).max() > 1e-6
    for level in cluster_tree(model).levels:
        distances = ((rows - level.centers[level.labels(model.labels_)]) ** 2).sum()
        assert level.inertia == pytest.approx(distances, rel=0.002)


def test_levels_are_unions_of_those_below_at_rising_penalties():
    model = DPMeans(9.0).fit(nested())
    tree = cluster_tree(model)
    assert tree.leaves.n_clusters == model.n_clusters_ == 12
    assert 3 in [level.n_clusters for level in tree.levels]
    for below, above in pairwise([tree.leaves, *tree.levels]):
        pairs = set(zip(below.clusters.tolist(), above.clusters.tolist(), strict=True))
        assert len(pairs) == below.n_clusters
        assert above.n_clusters < below.n_clusters
        assert above.penalty > below.penalty
        assert sorted(set(above.clusters.tolist())) == list(range(above.n_clusters))
        assert above.objective <= below.inertia + above.penalty * below.n_clusters


def test_clusters_of_a_level_are_numbered_by_the_first_of_the_fit_in_each():
    model = DPMeans(4.0, random_state=0).fit(np.random.default_rng(0).normal(0, 5, (60, 2)))
    for level in cluster_tree(model, [40.0, 150.0]).levels:
        assert 1 < level.n_clusters < model.n_clusters_
        assert (np.diff(np.unique(level.clusters, return_index=True)[1]) > 0).all()


def test_labels_of_rows_follow_lazily():
    rows = nested()
    model = DPMeans(9.0).fit(da.from_array(rows, chunks=(70, 2)))
    level = cluster_tree(model, [1e4]).levels[0]
    lazy = level.labels(model.labels_)
    assert isinstance(lazy, da.Array)
    assert lazy.compute().tolist() == level.clusters[model.labels_.compute()].tolist()


def test_data_sets_share_a_tree_and_what_has_no_centers_has_none():
    rows = nested()
    shared = HDPMeans(9.0, 9.0).fit(rows, groups=np.arange(len(rows)) % 3)
    assert cluster_tree(shared).levels[-1].weights.tolist() == [len(rows)]
    for model in (DPMeans(9.0), KernelDPMeans(1.0).fit(rows[:20]), OnlineDPMeans(9.0).fit(rows)):
        with pytest.raises(
            InputError, match=r"a tree needs centers, .* and \w+ has not all of them: fit it"
        ):
            cluster_tree(model)
    shapes = LinkageDPMeans(-0.5, 9.0, random_state=0).fit(rows)
    with pytest.raises(
        InputError, match=r"^a fit of LinkageDPMeans has its own tree, .*: it is in cluster_tree_"
    ):
        cluster_tree(shapes)


@pytest.mark.parametrize("penalties", [[], [2.0, 1.0], [1.0, 1.0], [-1.0], [np.nan]])
def test_penalties_that_do_not_rise_are_refused(penalties):
    with pytest.raises(
        InputError, match=r"penalties must be (rising numbers > 0|a finite number > 0), got"
    ):
        cluster_tree(DPMeans(9.0).fit(nested()), penalties)


def test_one_cluster_and_equal_centers_make_a_tree():
    assert cluster_tree(DPMeans(9.0).fit(np.zeros((5, 2)))).levels == ()
    model = DPMeans(9.0).fit(nested())
    model.cluster_centers_[:] = 1.0
    assert [level.n_clusters for level in cluster_tree(model).levels] == [1]


@pytest.mark.parametrize("penalties", [None, [10.0, 1e5]])
def test_a_stored_tree_is_read_to_the_bit(penalties, tmp_path):
    for rows in (nested(), np.zeros((5, 2))):
        tree = cluster_tree(DPMeans(9.0, random_state=3).fit(rows), penalties, run="run.zarr")
        write_tree(tree, tmp_path / "tree.zarr", force=True)
        found = read_tree(tmp_path / "tree.zarr")
        assert (found.random_state, found.asked) == (3, tree.asked)
        assert len(found.levels) == len(tree.levels)
        for one, other in zip(
            (found.leaves, *found.levels), (tree.leaves, *tree.levels), strict=True
        ):
            assert one.penalty == other.penalty
            for read, wanted in zip(one[1:], other[1:], strict=True):
                assert (read.dtype, read.shape, read.tobytes()) == (
                    wanted.dtype,
                    wanted.shape,
                    wanted.tobytes(),
                )
            assert one.objective == other.objective


def test_a_damaged_tree_is_an_error_that_names_the_array(tmp_path):
    write_tree(cluster_tree(DPMeans(9.0).fit(nested())), tmp_path / "whole")
    for name in (
        "penalty",
        "n_clusters",
        "clusters",
        "cluster_centers",
        "cluster_weights",
        "cluster_inertias",
    ):
        shutil.copytree(tmp_path / "whole", tmp_path / "tree.zarr")
        chunk = next(
            each for each in (tmp_path / "tree.zarr" / name / "c").rglob("*") if each.is_file()
        )
        chunk.write_bytes(chunk.read_bytes()[::-1])
        with pytest.raises(
            CorruptStoreError, match=rf"tree\.zarr/{name}: a chunk does not match its checksum"
        ):
            read_tree(tmp_path / "tree.zarr")
        shutil.rmtree(tmp_path / "tree.zarr")
    with pytest.raises(InputError, match=r"tree\.zarr holds no tree of this package"):
        read_tree(tmp_path / "tree.zarr")


def test_a_tree_is_stored_and_written_by_a_command(tmp_path):
    rows = nested()
    np.save(tmp_path / "rows.npy", rows)
    model = fit(tmp_path / "rows.npy", tmp_path / "run.zarr", DPMeans(9.0, random_state=0))
    tree, out = cluster_tree(model), tmp_path / "tree.zarr"
    write_tree(tree, out)
    stored = xarray.open_zarr(out)
    assert stored.n_clusters.values.tolist() == [12, *(level.n_clusters for level in tree.levels)]
    assert stored.clusters.values.tolist() == [
        each.clusters.tolist() for each in (tree.leaves, *tree.levels)
    ]
    with pytest.raises(InputError, match=r"tree\.zarr holds .*: force=True removes it first"):
        write_tree(tree, out)
    told = CliRunner().invoke(main, ["tree", str(tmp_path / "run.zarr"), str(out), "--force"])
    assert told.exit_code == 0, told.output
    assert "12" in told.output.splitlines()[1]
    told = CliRunner().invoke(
        main, ["tree", str(tmp_path / "run.zarr"), "--json", "--penalties", "1e3,1e6"]
    )
    levels = json.loads(told.output)["levels"]
    assert [level["penalty"] for level in levels] == [0.0, 1e3, 1e6]
    assert levels[-1]["n_clusters"] == 1
