"""Penalties from numbers of clusters."""

from contextlib import contextmanager

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chunkings, grid_problems, seeds, tables, weights_of

from dask_dpmeans import InputError, reference
from dask_dpmeans.algorithms import farthest
from dask_dpmeans.penalty import farthest_first, hdp_penalties
from dask_dpmeans.sources import as_source
from dask_dpmeans.synth import Synthetic

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
                assert list(zip(found.rows.tolist(), found.penalties.tolist(), strict=True)) == wanted
                assert found.penalty == wanted[-1][1]
                assert found.points.tobytes() == rows[found.rows].astype(float).tobytes()
                assert found.n_passes <= k
            else:
                different = sum(squared > 0 for _, squared in wanted)
                with pytest.raises(InputError, match=rf"k={k} is more than the rows that differ .*, {different}: ask"):
                    farthest_first(table, k, **options)


@given(grid_problems(), st.integers(1, 5))
def test_farthest_first_begins_with_the_mean(problem, k):
    rows = problem.rows.astype(float).tolist()
    wanted = reference.farthest_first(rows, k, reference.mean_of(rows, problem.each), problem.each)
    if wanted[-1][1] > 0:
        found = farthest_first(problem.rows, k, sample_weight=problem.weights, block_rows=problem.block_rows)
        assert list(zip(found.rows.tolist(), found.penalties.tolist(), strict=True)) == wanted


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
    assert found.penalties[0] == pytest.approx(2 - 2 * (unit @ mean).min() / np.sqrt(mean @ mean), rel=1e-12)
    scaled = farthest_first(rows, 4, columns=[2, 0], scale="std")
    wanted = farthest_first(rows[:, [2, 0]] / rows[:, [2, 0]].std(axis=0), 4)
    assert scaled.penalties == pytest.approx(wanted.penalties, rel=1e-12)


@pytest.mark.parametrize(
    ("rows", "k", "message"),
    [
        (np.zeros((3, 2)), 0, "k must be an integer >= 1, got 0"),
        (np.zeros((3, 2)), 2.0, "k must be an integer >= 1, got 2.0"),
        (np.zeros((3, 2)), 1, "k=1 is more than the rows that differ from each other and from their mean, 0"),
        (np.array([[0.0], [1.0]]), 3, "k=3 is more than the rows that differ from each other and from their mean, 2"),
    ],
)
def test_numbers_of_clusters_that_cannot_be_are_refused(rows, k, message):
    with pytest.raises(InputError, match=message):
        farthest_first(rows, k)


# ---------------------------------------------------------------- of several data sets


def by_hand(rows, groups, k, g):
    """Row by row, with Python's numbers."""
    table = rows.astype(float).tolist()
    sets = {j: [row for row, other in zip(table, groups, strict=True) if other == j] for j in sorted(set(groups))}

    def mean(some):
        return [sum(column) / len(some) for column in zip(*some, strict=True)]

    def squared(row, points):
        return min(sum((a - b) * (a - b) for a, b in zip(row, point, strict=True)) for point in points)

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
    assert hdp_penalties(da.from_array(rows, chunks=(chunks, -1)), 2, 3, groups=groups, threads=2) == wanted
    listed = [rows[groups == j] for j in np.unique(groups)]
    assert hdp_penalties(listed, 2, 3) == wanted


@pytest.mark.parametrize(
    ("numbers", "message"),
    [((0, 3), "local_clusters must be an integer >= 1, got 0"), ((2, 1.5), "global_clusters must be an integer")],
)
def test_numbers_that_are_none_are_refused(numbers, message):
    with pytest.raises(InputError, match=message):
        hdp_penalties([np.zeros((3, 2))], *numbers)


def test_rows_without_groups_are_refused():
    with pytest.raises(InputError, match="groups are missing"):
        hdp_penalties(np.zeros((3, 2)), 1, 1)
