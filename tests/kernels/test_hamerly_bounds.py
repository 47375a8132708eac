"""Whatever a memory has seen before, it answers as the definition does."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds, table

from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.kernels import assign, hamerly_bounds
from dask_dpmeans.kernels.block import Block, Scratch
from dask_dpmeans.kernels.distance import Centers, nearest, squared_distances
from dask_dpmeans.kernels.hamerly_bounds import HamerlyBounds
from dask_dpmeans.methods.dpmeans import batch
from dask_dpmeans.sources import as_source
from dask_dpmeans.sources.shards import Prepare, Shard

KINDS = ("clouds", "grid", "offset", "outliers", "huge", "tiny", "subnormal", "uneven")
CHANGES = ("none", "creep", "few", "far", "open", "close", "swap", "onto")


def changed(centers, rows, kind, rng):
    """The centers of the next pass, in one of the ways in which they change."""
    k = len(centers)
    width = np.abs(rows.astype(np.float64)).max() + 1e-320
    if kind == "creep":
        return centers + 1e-4 * width * rng.normal(size=centers.shape)
    if kind == "few":
        return np.where(
            np.arange(k)[:, np.newaxis] < max(1, k // 8), centers + 0.3 * width, centers
        )
    if kind == "far":
        return width * rng.normal(size=centers.shape)
    if kind == "open":
        return np.concatenate([centers, rows[rng.integers(len(rows), size=max(1, k // 6))]])
    if kind == "close":
        return centers[1:] if k > 2 else centers
    if kind == "swap":
        return centers[::-1].copy()
    if kind == "onto":  # as far from some rows as another center
        return np.concatenate([centers, centers[:1]])
    return centers.copy()


@settings(max_examples=200)
@given(
    st.sampled_from(KINDS),
    st.sampled_from([np.float32, np.float64]),
    st.lists(st.sampled_from(CHANGES), min_size=1, max_size=8),
    st.integers(2, 40),
    st.sampled_from([1, 2, 7]),
    seeds,
)
def test_labels_and_distances_are_those_of_the_definition_after_any_changes(
    kind, dtype, changes, k, d, seed
):
    rng = np.random.default_rng(seed)
    rows = table(kind, (120, d), dtype, seed)
    centers = rows[rng.integers(len(rows), size=k)].astype(np.float64)
    remembered = HamerlyBounds()
    for change in [*changes, "none", "none"]:
        labels, squared = remembered.assign(rows, Centers(centers), Scratch())
        expected = nearest(rows, Centers(centers))
        assert labels.tolist() == expected.tolist()
        assert squared.tobytes() == squared_distances(rows, centers, expected).tobytes()
        centers = changed(centers, rows, change, rng)


def blobs(n, k, d=2):
    rng = np.random.default_rng(0)
    centers = 10 * rng.normal(size=(k, d))
    return (centers[np.arange(n) % k] + 0.1 * rng.normal(size=(n, d))).astype(np.float32), centers


def ranked_rows(monkeypatch):
    """How many rows are ranked against how many centers, call by call."""
    calls = []
    for name in ("nearest_squared", "nearest_two"):
        plain = getattr(hamerly_bounds, name)

        def counted(rows, centers, *others, plain=plain):
            calls.append((len(rows), len(centers)))
            return plain(rows, centers, *others)

        monkeypatch.setattr(hamerly_bounds, name, counted)
    return calls


@given(st.lists(st.floats(0, allow_nan=False, allow_infinity=True), min_size=1))
def test_bounds_are_kept_in_float32_never_above_and_hardly_below_what_they_were(values):
    values = np.array(values)
    kept = hamerly_bounds.rounded_down(values)
    assert kept.dtype == np.float32
    assert (kept <= values).all()
    ordinary = (values > 2 * hamerly_bounds.LEAST_BOUND) & (values < 1e38)
    assert (kept[ordinary] >= values[ordinary] * (1 - 1e-6)).all()
    assert (kept[values < hamerly_bounds.LEAST_BOUND / 2] == 0).all()


def test_once_centers_are_calm_only_rows_in_doubt_are_ranked(monkeypatch):
    rows, centers = blobs(2000, 100)
    calls, remembered = ranked_rows(monkeypatch), HamerlyBounds()
    for _ in range(4):
        remembered.assign(rows, Centers(centers), Scratch())
        centers = centers + 1e-4
    assert calls[0] == (2000, 100)  # nothing known
    assert sum(n for n, _ in calls[1:]) < 200
    calls.clear()
    far = centers.copy()
    far[:3] += 1.0
    remembered.assign(rows, Centers(far), Scratch())
    assert sum(n for n, _ in calls) < 500  # rows of these, and rows that may be nearer to them


def test_rows_between_two_centers_that_change_places_are_not_ranked(monkeypatch):
    """The bound holds for all centers but two, and either of the two may be the nearer one."""
    rows, centers = blobs(2000, 100)
    centers = np.concatenate([centers, centers + 0.01])
    calls, remembered = ranked_rows(monkeypatch), HamerlyBounds()
    for turn in range(6):
        moved = centers + 0.02 * (-1) ** turn * (np.arange(200) < 100)[:, np.newaxis]
        labels, _ = remembered.assign(rows, Centers(moved), Scratch())
        assert labels.tolist() == nearest(rows, Centers(moved)).tolist()
    assert calls[0] == (2000, 200)
    assert sum(n for n, _ in calls[1:]) < 2000


def test_bounds_that_leave_most_rows_open_are_given_up_for_longer_and_longer():
    rows = np.random.default_rng(0).normal(size=(1000, 2))
    centers = np.random.default_rng(1).normal(size=(400, 2))
    remembered, rests = HamerlyBounds(), []
    for turn in range(16):
        remembered.assign(rows, Centers(centers), Scratch())
        rests.append(remembered.rest)
        centers = centers + 0.3 * (-1) ** turn
    assert [rest for before, rest in pairwise(rests) if rest > before] == [1, 3, 7]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_is_the_same_to_the_byte_with_and_without_memories(monkeypatch, weighted):
    rows, _ = blobs(4000, 160, 3)
    rows = rows + np.random.default_rng(1).normal(size=rows.shape).astype(np.float32)
    weights = np.random.default_rng(2).choice([0.0, 0.5, 1.0, 3.0], len(rows)) if weighted else None

    def traced():
        source = as_source(rows, weights, threads=2, block_rows=256)
        return [step.state for step in iterate(source, batch.Method(6.0, tol=0.0))]

    with_memories = traced()
    assert len(with_memories[-1].centers) >= hamerly_bounds.LEAST_CENTERS
    monkeypatch.setattr(assign, "LEAST_CENTERS", 10**9)
    without = traced()
    assert len(with_memories) == len(without) > 5
    for one, other in zip(with_memories, without, strict=True):
        assert one.means.tobytes() == other.means.tobytes()
        assert one.inertias.tobytes() == other.inertias.tobytes()


def test_shards_keep_a_memory_for_each_block_and_scale_and_send_none():
    rows, centers = blobs(1000, 140)
    shard = Shard(0, rows, None)
    plain, scaled = (
        Prepare(np.dtype(np.float32)),
        Prepare(np.dtype(np.float32), scale=np.array([2.0, 0.5])),
    )
    for prepare in (plain, scaled, plain):
        for block in shard.blocks(prepare, 256, range(4)):
            labels, _ = assign.assign(block, Centers(centers))
            assert labels.tolist() == nearest(block.rows, Centers(centers)).tolist()
    assert len(shard.memories) == 8
    assert all(isinstance(each["assign"], HamerlyBounds) for each in shard.memories.values())
    assert pickle.loads(pickle.dumps(shard)).memories == {}
    assert Block(0, rows, None).memory is None
