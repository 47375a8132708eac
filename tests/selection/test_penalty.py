"""Penalties from numbers of clusters."""

import shutil
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chunkings, grid_problems, seeds, tables, weights_of

from dask_dpmeans import DPMeans, InputError, TooManyClustersError, fit, reference
from dask_dpmeans.api.synthetic import Synthetic
from dask_dpmeans.errors import CorruptStoreError
from dask_dpmeans.methods.dpmeans import farthest_first as farthest
from dask_dpmeans.methods.dpmeans.batch import inertia_of
from dask_dpmeans.methods.dpmeans.path import Interval
from dask_dpmeans.selection import trial_fits
from dask_dpmeans.selection.penalty import (
    PenaltyPath,
    farthest_first,
    hdp_penalties,
    penalty_for,
    penalty_path,
    read_path,
    stored_path,
    write_path,
)
from dask_dpmeans.sources import as_source
from dask_dpmeans.storage.output import Output

THIN = pytest.mark.filterwarnings(
    "ignore:at penalties up to .* fits saw a summary of fewer than 32 rows"
)
DATA = Path(__file__).parents[3] / "shared" / "data"

# ---------------------------------------------------------------- farthest-first


@contextmanager
def few_candidates(most):
    """Passes bring no more rows than this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(farthest, "CANDIDATES", most)
        patch.setattr(farthest, "LEAST_CANDIDATES", 1)
        yield


@given(tables(), st.integers(1, 6), st.integers(1, 7), st.integers(0, 3), st.data())
def test_farthest_first_is_the_serial_loop_to_the_bit(rows, k, most, height, data):
    n, weights = len(rows), data.draw(weights_of(len(rows)))
    each = [1.0] * n if weights is None else weights.tolist()
    first = as_source(rows, weights, block_rows=2**height).summary.mean
    wanted = reference.farthest_first(rows.astype(float).tolist(), k, first.tolist(), each)
    lazy = da.from_array(rows, chunks=(data.draw(chunkings(n, empty=False)), -1))
    with few_candidates(most):
        for table, where in ((rows, {}), (lazy, {"threads": 2})):
            options = {"sample_weight": weights, "block_rows": 2**height, **where}
            if wanted[-1][1] > 0:
                found = farthest_first(table, k, **options)
                assert (
                    list(zip(found.rows.tolist(), found.penalties.tolist(), strict=True)) == wanted
                )
                assert found.penalty == wanted[-1][1]
                assert found.points.tobytes() == rows[found.rows].astype(float).tobytes()
                assert found.n_passes <= k
            else:
                different = sum(squared > 0 for _, squared in wanted)
                message = "all rows are equal: there is one cluster at any penalty"
                if different:
                    message = rf"{k} clusters are more than .* mean, {different}: ask"
                with pytest.raises(InputError, match=message):
                    farthest_first(table, k, **options)


@settings(max_examples=150)
@given(grid_problems(), st.integers(1, 8), st.integers(1, 4))
def test_farthest_first_begins_with_the_mean_and_knows_ties(problem, k, most):
    """On a grid the sums are exact, and many rows are equally far."""
    rows = problem.rows.astype(float).tolist()
    wanted = reference.farthest_first(rows, k, reference.mean_of(rows, problem.each), problem.each)
    wanted = [each for each in wanted if each[1] > 0]
    if wanted:
        source = as_source(
            problem.rows, problem.weights, block_rows=problem.block_rows, threads=problem.threads
        )
        with few_candidates(most):
            found = farthest.traverse(source, source.summary.mean[np.newaxis], len(wanted))
        assert list(zip(found.numbers.tolist(), found.squared.tolist(), strict=True)) == wanted


def test_a_row_that_was_not_brought_may_be_the_first_of_equals():
    """Of 10 and 8, which are brought, 8 comes as near to 10 as -2 is to the mean; -2 is the lower row."""
    rows = np.array([[-2.0], [10.0], [8.0], *[[-1.0]] * 16])
    with few_candidates(2):
        found = farthest_first(rows, 3)
    assert (found.rows.tolist(), found.penalties.tolist()) == ([1, 0, 2], [100.0, 4.0, 4.0])


@pytest.mark.parametrize(("kind", "most"), [("blobs", 6), ("outliers", 1)])
def test_a_pass_takes_several_points_and_no_prefix_changes(kind, most):
    """20 points of 40,000 rows in three blocks."""
    rows = np.concatenate([part for _, part, _ in Synthetic(kind, 40_000, 3, 12, 0).parts()])
    found = farthest_first(rows, 20)
    assert found.n_passes <= most
    assert (np.diff(found.penalties) <= 0).all()
    for k in (1, 5, 13):
        shorter = farthest_first(rows, k)
        assert shorter.penalty == found.penalties[k - 1]
        assert shorter.rows.tolist() == found.rows[:k].tolist()
    with few_candidates(1):
        alone = farthest_first(rows, 20)
    assert alone.n_passes == 20
    assert alone.penalties.tobytes() == found.penalties.tobytes()
    assert alone.rows.tolist() == found.rows.tolist()


def test_farthest_first_finds_directions_and_scaled_columns():
    rows = np.random.default_rng(0).normal(size=(300, 3))
    unit = rows / np.sqrt((rows**2).sum(axis=1, keepdims=True))
    found = farthest_first(rows, 4, metric="cosine")
    mean = unit.mean(axis=0)
    assert found.penalties[0] == pytest.approx(
        2 - 2 * (unit @ mean).min() / np.sqrt(mean @ mean), rel=1e-12
    )
    scaled = farthest_first(rows, 4, columns=[2, 0], scale="std")
    wanted = farthest_first(rows[:, [2, 0]] / rows[:, [2, 0]].std(axis=0), 4)
    assert scaled.penalties == pytest.approx(wanted.penalties, rel=1e-12)


@pytest.mark.parametrize(
    ("rows", "k", "message"),
    [
        (np.zeros((3, 2)), 0, "k must be an integer >= 1, got 0"),
        (np.zeros((3, 2)), 2.0, "k must be an integer >= 1, got 2.0"),
        (np.zeros((3, 2)), 1, "^all rows are equal: there is one cluster at any penalty$"),
        (
            np.array([[0.0], [1.0]]),
            3,
            "3 clusters are more than the rows that differ from each other and .* mean, 2",
        ),
    ],
)
def test_numbers_of_clusters_that_cannot_be_are_refused(rows, k, message):
    with pytest.raises(InputError, match=message):
        farthest_first(rows, k)


# ---------------------------------------------------------------- paths


def three_gaussians(seed=0, n=100):
    """As figure 2a of Kulis & Jordan 2012 shows them."""
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [rng.normal(center, 0.5, (n, 2)) for center in ((0, 0), (3, 0), (1.5, 2.6))]
    )


def path_bytes(path):
    return [
        value.tobytes() if isinstance(value, np.ndarray) else [each.tobytes() for each in value]
        for value in (
            path.penalties,
            path.n_clusters,
            path.inertias,
            path.objectives,
            path.stability,
            path.centers,
        )
    ] + [path.intervals, path.rows_used]


def test_three_gaussians_are_three_clusters_over_the_longest_interval():
    path = penalty_path(
        three_gaussians(), np.geomspace(1, 1000, 16), search=True, halvings=1, random_state=0
    )
    assert path.longest == 3
    interval = next(each for each in path.intervals if each.n_clusters == 3)
    assert interval.low < path.penalty < interval.high
    assert interval.length > 2.5
    assert (
        DPMeans(path.penalty, search=True, random_state=0).fit(three_gaussians()).n_clusters_ == 3
    )
    assert (np.diff(path.n_clusters) <= 0).all()
    assert np.median(path.stability[path.n_clusters == 3]) > 0.98
    assert (path.stability[(path.n_clusters == 2) | (path.n_clusters > 5)] < 0.8).all()


@pytest.mark.parametrize("search", [False, True])
def test_usual_penalties_reach_from_one_cluster_to_many(search, monkeypatch):
    monkeypatch.setattr(trial_fits, "USUAL_CLUSTERS", 12)
    path = penalty_path(three_gaussians(), search=search, random_state=0)
    assert len(path.penalties) == 40
    assert path.n_clusters[-1] == 1
    assert 10 <= path.n_clusters[0] <= 16
    assert path.intervals[0].low == path.penalties[0]
    assert path.intervals[-1].high == path.penalties[-1]


@pytest.mark.parametrize(("name", "k"), [("s1", 15), ("a1", 20)])
def test_the_longest_interval_of_published_sets(name, k):
    if not (DATA / f"{name}.npz").exists():
        pytest.skip(f"needs {name}.npz")
    rows = np.load(DATA / f"{name}.npz")["X"]
    total = float(((rows - rows.mean(axis=0)) ** 2).sum())
    path = penalty_path(rows, np.geomspace(1e-4 * total, total, 16), search=True, random_state=0)
    assert path.longest == k


@pytest.mark.parametrize("search", [False, True])
def test_figures_are_those_of_the_clusters(search):
    rows = three_gaussians()
    path = penalty_path(rows, [200.0, 2.0, 40.0, 2.0], search=search, random_state=0)
    assert path.penalties.tolist() == [2.0, 40.0, 200.0]
    assert (path.full, path.rows_used, path.random_state, path.stability) == (True, 300, 0, None)
    for k, inertia, centers in zip(path.n_clusters, path.inertias, path.centers, strict=True):
        assert len(centers) == k
        assert inertia == -DPMeans(1.0, init=centers, max_iter=1).fit(centers).score(rows)
    np.testing.assert_array_equal(path.objectives, path.inertias + path.penalties * path.n_clusters)


@pytest.mark.parametrize("summary_rows", [1000, 50])
def test_radii_in_full_are_what_the_estimator_gives(summary_rows):
    rows, weights = (
        three_gaussians(n=80),
        np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.0], 240),
    )
    path = penalty_path(
        rows, [0.5, 2.0, 30.0], full=True, sample_weight=weights, summary_rows=summary_rows
    )
    models = [DPMeans(each).fit(rows, sample_weight=weights) for each in path.penalties]
    assert path.n_clusters.tolist() == [model.n_clusters_ for model in models]
    if summary_rows == 50:
        assert path.inertias.tolist() == [model.inertia_ for model in models]
        assert [each.tobytes() for each in path.centers] == [
            model.cluster_centers_.tobytes() for model in models
        ]


def test_a_summary_is_said_and_its_figures_are_about_those_of_all_rows():
    rows = np.concatenate([part for _, part, _ in Synthetic("blobs", 6_000, 4, 8, 1).parts()])
    options = {"search": True, "random_state": 0, "summary_rows": 1000}
    penalties = [3e3, 2e4, 9e4]
    path = penalty_path(rows, penalties, **options)
    assert not path.full
    assert 800 < path.rows_used < 1200
    full = penalty_path(rows, penalties, full=True, **options)
    assert (full.full, full.rows_used) == (True, 6_000)
    assert full.n_clusters.tolist() == path.n_clusters.tolist() == [8, 8, 6]
    np.testing.assert_allclose(path.inertias, full.inertias, rtol=0.1)
    for centers, inertia in zip(full.centers, full.inertias, strict=True):
        assert inertia == inertia_of(as_source(rows), centers)
    radii = penalty_path(rows, [30.0], summary_rows=1000, random_state=0)
    assert not radii.full


def test_a_summary_has_64_rows_for_each_cluster_of_the_lowest_penalty(monkeypatch):
    monkeypatch.setattr(trial_fits, "SUMMARY_ROWS", 256)
    rows = np.concatenate([part for _, part, _ in Synthetic("blobs", 6_000, 3, 24, 1).parts()])
    for penalties, most in (([2e2, 1e6], 24), ([1e6], 1)):
        path = penalty_path(rows, penalties, search=True, random_state=0)
        assert path.n_clusters[0] == most
        assert 0.9 < path.rows_used / max(256, 64 * most) < 2
        assert (path.full, path.crowded, path.caution) == (False, 0.0, "")
    assert penalty_path(
        rows, [20.0], search=True, random_state=0
    ).full  # twice 64 rows a cluster are more than all
    found = penalty_for(rows, 24, search=True, random_state=0)
    assert 0.9 < found.rows_used / (64 * 24) < 1.1


def test_a_summary_grows_no_further_than_memory_and_says_so(monkeypatch):
    monkeypatch.setattr(trial_fits, "SUMMARY_ROWS", 256)
    monkeypatch.setattr(trial_fits, "MOST_BYTES", 8 * 3 * 600)
    rows = np.concatenate([part for _, part, _ in Synthetic("blobs", 6_000, 3, 24, 1).parts()])
    with pytest.warns(UserWarning, match="fits saw a summary of fewer than 32 rows a cluster"):
        assert 500 < penalty_path(rows, [2e2], search=True, random_state=0).rows_used < 700
    with pytest.warns(
        UserWarning, match="fewer than 32 rows a cluster: the penalty may be far off; raise"
    ):
        assert 500 < penalty_for(rows, 24, search=True, random_state=0).rows_used < 700


@pytest.mark.parametrize("full", [False, True])
def test_a_summary_of_few_rows_a_cluster_is_warned_of(full):
    rows = np.concatenate([part for _, part, _ in Synthetic("blobs", 6_000, 3, 24, 1).parts()])
    options = {"search": True, "full": full, "random_state": 0, "summary_rows": 400}
    with pytest.warns(
        UserWarning,
        match="at penalties up to 200 fits saw a summary of fewer than 32 rows a cluster",
    ):
        path = penalty_path(rows, [200.0, 1e6], **options)
    assert path.crowded == 200.0
    assert penalty_path(rows, [1e6], **options).crowded == 0.0


@THIN
def test_a_summary_is_not_nearer_to_its_means_than_all_rows_are(monkeypatch):
    """Rows without clusters: a tenth of them is drawn, and what that flatters is taken off."""
    rows = np.random.default_rng(0).normal(size=(5_000, 6))
    full = penalty_path(rows, [150.0], search=True, random_state=0)
    shares = []
    for optimism in (2.0, 0.0):
        monkeypatch.setattr("dask_dpmeans.methods.dpmeans.starts.OPTIMISM", optimism)
        paths = [
            penalty_path(rows, [150.0], search=True, random_state=s, summary_rows=500)
            for s in range(3)
        ]
        shares.append(np.mean([path.inertias[0] for path in paths]) / full.inertias[0])
    assert 0.9 < shares[0] < 1.1
    assert shares[1] < 0.85


@THIN
@pytest.mark.parametrize("search", [False, True])
@pytest.mark.parametrize("summary_rows", [64, 1000])
def test_a_path_has_the_same_bytes_for_any_chunks_and_threads(search, summary_rows):
    rows = three_gaussians().astype(np.float32)
    options = {
        "search": search,
        "summary_rows": summary_rows,
        "halvings": 1,
        "random_state": 1,
        "full": True,
    }
    wanted = path_bytes(penalty_path(rows, [3.0, 50.0], **options))
    for chunks, threads in (((100, 2), 1), ((7, 1), 2)):
        lazy = da.from_array(rows, chunks=chunks)
        assert path_bytes(penalty_path(lazy, [3.0, 50.0], threads=threads, **options)) == wanted


def same(one, other):
    """Whether two values are the same, arrays to the bit."""
    if isinstance(one, tuple) and not isinstance(one, Interval):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    return type(one) is type(other) and one == other


@THIN
@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (three_gaussians(), {"search": True, "halvings": 1}),
        (
            three_gaussians().astype(np.float32),
            {"summary_rows": 64, "columns": [1], "scale": "std"},
        ),
        (np.zeros((3, 2)), {}),
    ],
)
def test_a_stored_path_is_read_to_the_bit(rows, options, tmp_path):
    path = penalty_path(rows, [0.7, 30.0, 1 / 3], random_state=0, **options)
    write_path(path, tmp_path / "path.zarr")
    found = read_path(tmp_path / "path.zarr")
    for each in fields(PenaltyPath):
        assert same(getattr(found, each.name), getattr(path, each.name)), each.name


def test_a_damaged_path_is_an_error_that_names_the_array(tmp_path):
    write_path(
        penalty_path(three_gaussians(), [2.0, 30.0], random_state=0, halvings=1), tmp_path / "whole"
    )
    arrays = [each.parent.name for each in (tmp_path / "whole").glob("*/zarr.json")]
    assert len(arrays) == 9
    for name in arrays:
        shutil.copytree(tmp_path / "whole", tmp_path / "path.zarr")
        chunk = next(
            each for each in (tmp_path / "path.zarr" / name / "c").rglob("*") if each.is_file()
        )
        chunk.write_bytes(chunk.read_bytes()[:-1])
        with pytest.raises(
            CorruptStoreError, match=rf"path\.zarr/{name}: a chunk does not match its checksum"
        ):
            read_path(tmp_path / "path.zarr")
        shutil.rmtree(tmp_path / "path.zarr" / name)
        with pytest.raises(CorruptStoreError, match=rf"path\.zarr/{name} cannot be opened"):
            read_path(tmp_path / "path.zarr")
        shutil.rmtree(tmp_path / "path.zarr")


def test_arrays_that_do_not_fit_each_other_are_an_error(tmp_path):
    write_path(penalty_path(three_gaussians(), [2.0, 30.0], random_state=0), tmp_path / "path.zarr")
    write_path(penalty_path(three_gaussians(), [2.0], random_state=0), tmp_path / "other.zarr")
    shutil.rmtree(tmp_path / "path.zarr" / "inertia")
    shutil.copytree(tmp_path / "other.zarr" / "inertia", tmp_path / "path.zarr" / "inertia")
    with pytest.raises(
        CorruptStoreError, match=r"path\.zarr/inertia does not hold what was written there"
    ):
        read_path(tmp_path / "path.zarr")
    attributes = tmp_path / "other.zarr" / "zarr.json"
    attributes.write_text(attributes.read_text().replace('"rows_used": 300', '"rows_used": 301'))
    with pytest.raises(
        CorruptStoreError, match=r"other\.zarr/zarr\.json: the attributes do not match their digest"
    ):
        read_path(tmp_path / "other.zarr")


def test_a_path_that_is_none_or_half_written_is_said(tmp_path, monkeypatch):
    path = penalty_path(three_gaussians(), [2.0], random_state=0)
    with pytest.raises(
        InputError, match=r"none\.zarr holds no path of this package: nothing is there"
    ):
        read_path(tmp_path / "none.zarr")
    fit(three_gaussians(), tmp_path / "run.zarr", DPMeans(2.0))
    with pytest.raises(InputError, match=r"run\.zarr holds a run, not a path"):
        read_path(tmp_path / "run.zarr")
    monkeypatch.setattr(Output, "finish_with", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        write_path(path, tmp_path / "path.zarr")
    with pytest.raises(
        InputError, match=r"holds a path that has not finished: resume=True goes on with it"
    ):
        read_path(tmp_path / "path.zarr")
    monkeypatch.undo()
    write_path(path, tmp_path / "path.zarr", force=True)
    assert read_path(tmp_path / "path.zarr").penalties.tolist() == [2.0]


@pytest.mark.parametrize("resume", [False, True])
def test_a_whole_path_is_taken_away_by_force_alone(tmp_path, resume):
    rows, place = three_gaussians(), tmp_path / "path.zarr"
    write_path(penalty_path(rows, [2.0], random_state=0), place)
    with pytest.raises(InputError, match=r"path\.zarr holds a path: force=True removes it first"):
        penalty_path(rows, [5.0], checkpoint=place, resume=resume)
    with pytest.raises(InputError, match=r"path\.zarr holds a path: force=True removes it first"):
        stored_path(rows, [5.0], place, resume=resume)
    with pytest.raises(InputError, match="of another kind, path"):
        penalty_for(rows, 3, checkpoint=place)
    assert read_path(place).penalties.tolist() == [2.0]
    stored_path(rows, [5.0], place, force=True)
    assert read_path(place).penalties.tolist() == [5.0]


def test_a_checkpoint_keeps_numbers_of_numpy(tmp_path):
    rows, place = three_gaussians(), tmp_path / "kept"
    numbers = {"summary_rows": np.int64(140), "random_state": np.int32(3)}
    flags = {"search": np.True_, "full": np.False_}
    found = penalty_for(rows, np.int8(3), checkpoint=place, **numbers, **flags)
    assert found == penalty_for(rows, 3, summary_rows=140, random_state=3, search=True)
    assert not place.exists()
    numbers |= {"halvings": np.uint8(1), "max_clusters": np.int16(90)}
    stored_path(rows, np.float32([64.0, 128.0]), place, **numbers, **flags)
    assert read_path(place).asked["parameters"] == {
        "penalties": [64.0, 128.0],
        "search": True,
        "full": False,
        "metric": "euclidean",
        "halvings": 1,
        "summary_rows": 140,
        "max_clusters": 90,
    }


@pytest.mark.parametrize("odd", [True, 3, "", b"here", ["here"], "a\0b"])
def test_an_odd_checkpoint_is_named(odd):
    for call in (partial(penalty_path, penalties=[2.0]), partial(penalty_for, n_clusters=2)):
        with pytest.raises(InputError, match=r"^checkpoint must be a path or URL, got "):
            call(three_gaussians(), checkpoint=odd)


def test_directions_have_a_path_too():
    rows = three_gaussians() - [1.5, 0.9]
    path = penalty_path(
        rows, np.geomspace(0.5, 300, 12), search=True, metric="cosine", random_state=0
    )
    assert path.longest == 3
    assert all(np.sqrt((each**2).sum(axis=1)) == pytest.approx(1.0) for each in path.centers)
    for wanted in (1, 3):
        assert penalty_for(rows, wanted, metric="cosine").n_clusters == wanted
    opposite = np.array([[1.0], [-1.0], [-2.0]])
    assert penalty_for(opposite, 1, metric="cosine").tried == ((4.0, 1),)
    assert penalty_path(opposite, metric="cosine").penalties[-1] == 4.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalties": []}, r"penalties must be a list of finite numbers > 0, got \[\]"),
        ({"penalties": ["a"]}, r"penalties must be a list of finite numbers > 0, got \['a'\]"),
        ({"penalties": 4.0}, r"penalties must be a list of finite numbers > 0, got 4.0"),
        (
            {"penalties": [1.0, -1.0]},
            r"penalties must be a list of finite numbers > 0, got \[1.0, -1.0\]",
        ),
        ({"penalties": [1.0, np.nan]}, r"penalties must be a list of finite numbers > 0"),
        (
            {"penalties": [3.0, 5.0], "metric": "cosine"},
            r"penalty must be <= 4 where metric='cosine', got 5.0",
        ),
        ({"halvings": -1}, r"halvings must be an integer >= 0, got -1"),
        ({"summary_rows": 0}, r"summary_rows must be an integer >= 1 or None, got 0"),
        ({"search": "yes"}, r"search must be True or False, got 'yes'"),
        ({"full": 1}, r"full must be True or False, got 1"),
        ({"metric": "far"}, r"metric must be one of 'euclidean', 'cosine', 'haversine', got 'far'"),
        ({"max_clusters": 0}, r"max_clusters must be an integer >= 1 or None, got 0"),
    ],
)
def test_what_makes_no_path_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        penalty_path(three_gaussians(n=5), **{"penalties": [1.0], **options})


def test_as_prices_halves_of_the_rows_weigh_as_much_as_all():
    rows, told = (
        np.repeat([[-1.0], [1.0]], 100, axis=0),
        [],
    )  # two clusters save 200, of half the rows about 100
    options = {"search": True, "halvings": 1, "random_state": 0}
    path = penalty_path(rows, [150.0], **options, threads=1, on_pass=told.append)
    assert path.n_clusters.tolist() == [2]
    assert told[-1].done == 3
    assert told[-1].last == {"penalty": 150.0, "n_clusters": 2}


def test_prices_in_full_go_on_in_the_middle_of_those_at_which_clusters_stand(monkeypatch):
    rows = np.concatenate([part for _, part, _ in Synthetic("blobs", 6_000, 3, 24, 1).parts()])
    tried, at = [], trial_fits.Prices.at

    def noted(fits, source, price, start, **how):
        tried.append((source.plan.n_rows, price))
        return at(fits, source, price, start, **how)

    monkeypatch.setattr(trial_fits.Prices, "at", noted)
    options = {"search": True, "full": True, "summary_rows": 2000, "random_state": 0}
    path = penalty_path(rows, [500.0, 2000.0], **options)
    assert path.n_clusters.tolist() == [24, 24]
    assert [price for n_rows, price in tried if n_rows == len(rows)] == [pytest.approx(1000.0)]


def test_of_radii_that_are_equally_near_the_highest_is_taken():
    found = penalty_for(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), 3)
    near = [radius for radius, k in found.tried if k == found.n_clusters == 4]
    assert len(near) > 1
    assert found.penalty == max(near)


def test_two_rows_have_one_usual_radius():
    assert penalty_path(np.array([[0.0], [1.0]])).penalties.tolist() == [0.25]


def test_equal_rows_have_no_usual_penalties():
    with pytest.raises(InputError, match="all rows are equal: there is one cluster at any penalty"):
        penalty_path(np.ones((5, 2)))


def test_too_many_clusters_are_an_error():
    with pytest.raises(
        TooManyClustersError,
        match=r"penalty=0.01 makes at least \d+ clusters, more than max_clusters=9",
    ):
        penalty_path(three_gaussians(), [0.01], max_clusters=9)


# ---------------------------------------------------------------- penalties for numbers of clusters


@pytest.mark.parametrize("search", [False, True])
@pytest.mark.parametrize("wanted", [1, 3, 12])
def test_the_penalty_found_gives_the_number_reached(search, wanted):
    rows = three_gaussians(1)
    found = penalty_for(rows, wanted, search=search, random_state=0)
    assert (found.wanted, found.rows_used, found.full) == (wanted, 300, True)
    assert abs(found.n_clusters - wanted) <= (0 if wanted < 12 else 1)
    model = DPMeans(found.penalty, search=search, random_state=0).fit(rows)
    assert abs(model.n_clusters_ - found.n_clusters) <= (1 if search and wanted == 12 else 0)
    if not search:
        assert (found.penalty, found.n_clusters) in found.tried


def test_all_rows_may_be_asked():
    rows = np.concatenate([part for _, part, _ in Synthetic("blobs", 4_000, 3, 7, 1).parts()])
    radius = penalty_for(rows, 7, full=True, summary_rows=500, random_state=0)
    assert radius.rows_used == 4_000
    assert DPMeans(radius.penalty).fit(rows).n_clusters_ == radius.n_clusters == 7
    price = penalty_for(rows, 7, search=True, full=True, summary_rows=500, random_state=0)
    assert (price.n_clusters, price.rows_used) == (7, 4_000)
    some = penalty_for(rows, 7, search=True, summary_rows=500, random_state=0)
    assert some.penalty == price.penalty
    assert not some.full
    assert 400 < some.rows_used < 600


def test_the_square_whose_numbers_jump():
    square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    found = penalty_for(square, 3)
    assert (found.n_clusters, found.wanted) == (4, 3)
    assert {k for _, k in found.tried} == {1, 4}


@pytest.mark.parametrize("search", [False, True])
def test_more_clusters_than_rows_are_refused(search):
    with pytest.raises(
        InputError, match=r"7 clusters are more than the rows that differ .*, 6: ask for fewer"
    ):
        penalty_for(np.repeat(three_gaussians(n=2), 2, axis=0), 7, search=search)
    with pytest.raises(
        InputError,
        match=r"70 clusters are more than the \d\d rows of the summary: raise summary_rows",
    ):
        penalty_for(three_gaussians(), 70, search=search, summary_rows=40)
    with pytest.raises(InputError, match="n_clusters must be an integer >= 1, got 0"):
        penalty_for(np.zeros((3, 1)), 0, search=search)


# ---------------------------------------------------------------- of several data sets


def by_hand(rows, groups, k, g):
    """Row by row, with Python's numbers."""
    table = rows.astype(float).tolist()
    sets = {
        j: [row for row, other in zip(table, groups, strict=True) if other == j]
        for j in sorted(set(groups))
    }

    def mean(some):
        return [sum(column) / len(some) for column in zip(*some, strict=True)]

    def squared(row, points):
        return min(
            sum((a - b) * (a - b) for a, b in zip(row, point, strict=True)) for point in points
        )

    ends = []
    for some in sets.values():
        points = [mean(some)]
        for _ in range(k):
            away = [squared(row, points) for row in some]
            points.append(some[away.index(max(away))])
        ends.append(max(away))
    points, total = [mean(table)], 0.0
    for _ in range(g):
        sums = {j: sum(squared(row, points) for row in some) for j, some in sets.items()}
        total = max(sums.values())
        dearest = sets[max(sums, key=sums.get)]
        away = [squared(row, points) for row in dearest]
        points.append(dearest[away.index(max(away))])
    return sum(ends) / len(ends), total


@settings(max_examples=40)
@given(tables(kinds=("clouds",), dtypes=(np.float64,)), seeds, st.integers(1, 4), st.integers(1, 5))
def test_they_are_those_of_the_loops(rows, seed, k, g):
    groups = 3 * np.random.default_rng(seed).integers(0, 4, len(rows))
    wanted = by_hand(rows, groups.tolist(), k, g)
    if min(wanted) > 0:
        assert hdp_penalties(rows, k, g, groups=groups) == pytest.approx(wanted, rel=1e-9)
    else:
        with pytest.raises(InputError, match=f"fewer different rows than {k} or {g} clusters"):
            hdp_penalties(rows, k, g, groups=groups)


@settings(max_examples=25)
@given(tables(rows=(12, 40), kinds=("clouds",)), seeds, st.data())
def test_the_same_for_any_chunks_and_lists(rows, seed, data):
    groups = np.sort(np.random.default_rng(seed).integers(0, 3, len(rows)))
    wanted = hdp_penalties(rows, 2, 3, groups=groups)
    chunks = data.draw(chunkings(len(rows), empty=False))
    assert (
        hdp_penalties(da.from_array(rows, chunks=(chunks, -1)), 2, 3, groups=groups, threads=2)
        == wanted
    )
    listed = [rows[groups == j] for j in np.unique(groups)]
    assert hdp_penalties(listed, 2, 3) == wanted


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0, 3), "local_clusters must be an integer >= 1, got 0"),
        ((2, 1.5), "global_clusters must be an integer"),
    ],
)
def test_numbers_that_are_none_are_refused(numbers, message):
    with pytest.raises(InputError, match=message):
        hdp_penalties([np.zeros((3, 2))], *numbers)


def test_rows_without_groups_are_refused():
    with pytest.raises(InputError, match="groups are missing"):
        hdp_penalties(np.zeros((3, 2)), 1, 1)


def test_rows_whose_squared_distances_vanish_are_not_said_to_be_equal() -> None:
    rows = 1e-170 * np.random.default_rng(0).normal(size=(30, 2))
    message = "squared distances underflow float64: .* multiply the data by a constant first"
    with pytest.raises(InputError, match=message):
        farthest_first(rows, 3)
    with pytest.raises(InputError, match=message):
        penalty_path(rows)
    assert farthest_first(rows * 1e20, 3).penalty > 0
    with pytest.raises(InputError, match="all rows are equal"):
        penalty_path(np.full((30, 2), 1e-170))
