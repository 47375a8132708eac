"""After any earlier passes, the two nearest centers are those that all distances give."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.test_hamerly_bounds import CHANGES, KINDS, blobs, changed
from strategies import seeds, table

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.kernels import numba_support, pair_bounds
from dask_dpmeans.kernels.block import Block, Scratch
from dask_dpmeans.kernels.distance import Centers, nearest_two, squared_distances
from dask_dpmeans.kernels.move_statistics import MoveScan
from dask_dpmeans.kernels.pair_bounds import PairBounds


def check_pairs(found, rows, centers):
    """They are the first two of least squared distance, by a sort of all of them."""
    labels, seconds, near, far = found
    all_squared = np.stack(
        [squared_distances(rows, centers, np.full(len(rows), c)) for c in range(len(centers))]
    )
    order = np.argsort(all_squared, axis=0, kind="stable")
    assert labels.tolist() == order[0].tolist()
    assert seconds.tolist() == order[1].tolist()
    assert near.tobytes() == np.take_along_axis(all_squared, order[:1], axis=0)[0].tobytes()
    assert far.tobytes() == np.take_along_axis(all_squared, order[1:2], axis=0)[0].tobytes()


@settings(max_examples=200)
@given(
    st.sampled_from(KINDS),
    st.sampled_from([np.float32, np.float64]),
    st.lists(st.sampled_from(CHANGES), min_size=1, max_size=8),
    st.integers(2, 40),
    st.sampled_from([1, 2, 7]),
    seeds,
)
def test_pairs_are_those_of_the_definition_after_any_changes(kind, dtype, changes, k, d, seed):
    rng = np.random.default_rng(seed)
    rows = table(kind, (120, d), dtype, seed)
    centers = rows[rng.integers(len(rows), size=k)].astype(np.float64)
    bounds = PairBounds()
    with np.errstate(over="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_bounds, "MOST_FAR", 0.5)
        for change in [*changes, "none", "none"]:
            check_pairs(bounds.nearest_two(rows, Centers(centers), Scratch()), rows, centers)
            centers = changed(centers, rows, change, rng)


def ranked_rows(monkeypatch):
    """How many rows are ranked, call by call."""
    calls = []

    def count(rows, *others):
        calls.append(len(rows))
        return nearest_two(rows, *others)

    monkeypatch.setattr(pair_bounds, "nearest_two", count)
    return calls


def test_rows_whose_centers_hardly_move_are_not_ranked_again(monkeypatch):
    rows, centers = blobs(4000, 140, 6)
    calls, bounds, rng = ranked_rows(monkeypatch), PairBounds(), np.random.default_rng(1)
    for _ in range(5):
        centers = centers + 1e-5 * rng.normal(size=centers.shape)
        check_pairs(bounds.nearest_two(rows, Centers(centers), Scratch()), rows, centers)
    assert calls[0] == 4000
    assert sum(calls[1:]) < (400 if numba_support.AVAILABLE else 16_001)


def test_centers_may_get_other_numbers_and_few_may_move_far(monkeypatch):
    rows, centers = blobs(4000, 140, 6)
    calls, bounds = ranked_rows(monkeypatch), PairBounds()
    bounds.nearest_two(rows, Centers(centers), Scratch())
    after = np.delete(centers, 3, axis=0)[::-1].copy()
    after[:2] += 40
    check_pairs(bounds.nearest_two(rows, Centers(after), Scratch()), rows, after)
    assert calls[0] == 4000
    assert 0 < calls[1] < (1200 if numba_support.AVAILABLE else 4001)


def test_gaps_of_a_ranking_are_lower_bounds_and_nearly_reached():
    rows, centers = blobs(2000, 60, 12)
    gaps = np.zeros(len(rows))
    nearest_two(rows, Centers(centers), Scratch(), gaps)
    exact = ((rows[:, np.newaxis].astype(np.float64) - centers) ** 2).sum(axis=2)
    exact.sort(axis=1)
    expected = exact[:, 2] - exact[:, 1]
    assert (gaps <= expected * (1 + 1e-12)).all()
    assert np.median(gaps / expected) > (0.99 if numba_support.AVAILABLE else -1)


def test_rows_in_memory_keep_bounds_of_each_block_which_do_not_travel():
    rows, centers = blobs(20_000, 140, 6)
    source, children = InMemoryRows(rows, None), np.repeat(centers[:, np.newaxis], 2, axis=1)
    for _ in range(2):
        found = source.fold(MoveScan(Centers(centers), children, math.inf))
    alone = MoveScan(Centers(centers), children, math.inf)
    again = [alone.chunk(Block(start, rows[start : start + 2**14], None)) for start in (0, 2**14)]
    whole = alone.combine(*again)
    assert found.inertias.tobytes() == whole.inertias.tobytes()
    assert found.transfers.losses.tobytes() == whole.transfers.losses.tobytes()
    assert any("pairs" in memory for memory in source.memories.values()) == numba_support.AVAILABLE
    assert not pickle.loads(pickle.dumps(source)).memories
