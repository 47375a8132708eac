"""Penalties from numbers of clusters."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chunkings, seeds, tables

from dask_dpmeans import InputError
from dask_dpmeans.penalty import hdp_penalties


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
