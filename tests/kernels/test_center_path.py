"""Paths over numbers of clusters: what each clustering promises, and that bounds change no bit."""

import itertools
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optimum import labelings
from strategies import rows_and_centers, seeds, tables

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.center_clusters import (
    ASSIGN,
    DISTANCE,
    HALVE,
    PASS,
    VANISHING,
    Clusters,
    CompiledClusters,
)
from dask_dpmeans.kernels.center_clusters_compiled import _bound, _threshold
from dask_dpmeans.kernels.center_path import center_path
from dask_dpmeans.kernels.halves import halve

KINDS = ("grid", "clouds", "offset", "outliers", "tiny", "subnormal", "uneven", "huge")


@st.composite
def problems(draw, rows=(1, 40), columns=(1, 4), kinds=KINDS):
    """Rows, some of them twice, weights, a greatest number of clusters, and whether rows are directions."""
    values = draw(tables(rows, columns, kinds, (np.dtype(np.float64),)))
    rng = np.random.default_rng(draw(seeds))
    values = values[rng.integers(len(values), size=len(values))] if draw(st.booleans()) else values
    spherical = draw(st.booleans())
    if spherical:
        longest = np.abs(values).max(axis=1, keepdims=True)
        values = np.where(longest > 0, values / np.where(longest > 0, longest, 1), 1.0)
        values /= np.sqrt(np.square(values).sum(axis=1, keepdims=True))
    weights = rng.choice([0.25, 1.0, 3.0, 0.1], len(values))
    if draw(st.booleans()):
        weights = np.ones(len(values))
    return values, weights, draw(st.integers(1, 45)), spherical


def nearest(rows, centers):
    """Labels and squared distances, (n,), by the definition."""
    squared = np.zeros((len(rows), len(centers)))
    for column in range(rows.shape[1]):
        squared += (rows[:, column, np.newaxis] - centers[:, column]) ** 2
    return squared.argmin(axis=1), squared.min(axis=1)


def error_of(rows, weights, labels, squared, k):
    return math.fsum(np.bincount(labels, weights * squared, minlength=k).tolist())


def mean_of(rows, weights, spherical):
    """The center of a cluster, added up in row order; None where unit rows cancel."""
    sums, weight = np.zeros(rows.shape[1]), 0.0
    for row, share in zip(rows, weights.tolist(), strict=True):
        sums += share * row
        weight += share
    sums /= weight
    if spherical:
        length = math.sqrt(np.cumsum(sums * sums)[-1])
        return sums / length if length > VANISHING else None
    return sums


@given(problems(), st.integers(0, 6), st.booleans())
def test_each_error_is_that_of_the_rows_at_their_nearest_centers(problem, turns, settled):
    """Centers are means where Lloyd's steps end by themselves."""
    rows, weights, most, spherical = problem
    with pytest.MonkeyPatch.context() as patch:
        if settled:
            patch.setattr(numba_support, "AVAILABLE", False)  # a compiled number stays
            patch.setattr("dask_dpmeans.kernels.center_clusters.LLOYD_STEPS", 1000)
        path = center_path(rows, weights, most, spherical, turns)
    assert 1 <= len(path.inertias) == len(path.centers) <= min(most, len(np.unique(rows, axis=0)))
    for k, (inertia, centers) in enumerate(zip(path.inertias, path.centers, strict=True), 1):
        assert centers.shape == (k, rows.shape[1])
        labels, squared = nearest(rows, centers)
        assert np.unique(labels).tolist() == list(range(k))
        assert inertia == error_of(rows, weights, labels, squared, k)
        for c in range(k):
            mean = mean_of(rows[labels == c], weights[labels == c], spherical)
            assert not settled or mean is None or np.array_equal(centers[c], mean)
    assert all(below < above for above, below in pairwise(path.inertias.tolist()))


@given(problems(), st.integers(1, 5))
def test_several_clusters_are_halved_at_once(problem, stride):
    """Errors belong to the centers, and of k clusters one in so many is halved, until none gains."""
    rows, weights, most, spherical = problem
    path = center_path(rows, weights, most, spherical, stride=stride)
    numbers = [len(centers) for centers in path.centers]
    assert path.largest == numbers[-1] <= min(most, len(np.unique(rows, axis=0)))
    for k, after, inertia, centers in zip(
        numbers, [*numbers[1:], math.inf], path.inertias, path.centers, strict=True
    ):
        labels, squared = nearest(rows, centers)
        assert inertia == error_of(rows, weights, labels, squared, k)
        assert after == math.inf or k < after <= k + max(1, k // stride)
    assert all(below < above for above, below in pairwise(path.inertias.tolist()))
    assert path.best(0.0) is path.centers[-1]


def test_rows_apart_are_found_by_leaps():
    """One in two of up to 9 clusters is halved; of 13, only two have several of the 16 rows."""
    rows = np.arange(16.0)[:, np.newaxis] ** 2
    path = center_path(rows, np.ones(16), 20, stride=2)
    assert [len(centers) for centers in path.centers] == [1, 2, 3, 4, 6, 9, 13, 15, 16]
    assert path.inertias[-1] == 0.0


def test_a_distance_that_overflows_as_float32_says_nothing():
    """A constant column may be off by its rounding, which can be far more than the widest of the rows."""
    assert [_bound(2.0, squared, 1.0) for squared in (4.0, 1e58, 1e62, np.inf)] == [
        5.0,
        2e29 + 1,
        -np.inf,
        -np.inf,
    ]
    assert 2.0 < _threshold(2.0, 1.0) < 2.0 + 1e-8
    assert _threshold(1e-200, 1.0) > 1e-38  # the least float32 with all its digits
    rows = np.full((60, 9), 0.1)
    rows[:, 0] = np.random.default_rng(0).normal(size=60) * 1e-80
    first = center_path(rows, np.ones(60), 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        second = center_path(rows, np.ones(60), 20)
    assert [each.tobytes() for each in first.centers] == [each.tobytes() for each in second.centers]


KINDS_OF_CLUSTERS = (Clusters, CompiledClusters) if numba_support.AVAILABLE else (Clusters,)


@given(rows_and_centers(), st.sampled_from(KINDS_OF_CLUSTERS))
def test_restored_rows_go_to_their_nearest_centers_and_ties_to_the_lowest_number(drawn, kind):
    """Bounds may skip no center that wins or ties; rows start from the lists of other centers."""
    rows, centers = (np.ascontiguousarray(values, np.float64) for values in drawn)
    clusters = kind(rows, np.ones(len(rows)), len(centers), False)
    clusters.start()
    for some in (centers[: len(centers) // 2 + 1], centers, centers[::-1]):
        some = some[np.unique(nearest(rows, some)[0])]
        clusters.centers[: len(some)] = some
        clusters.restore(len(some))
        labels, squared = nearest(rows, some)
        assert np.array_equal(clusters.labels, labels)
        assert np.array_equal(clusters.squared, squared)


def test_two_distant_pairs_and_what_splits_alone_find():
    rows = np.array([[0.0], [1.0], [8.0], [9.0]])
    path = center_path(rows, np.ones(4), 10, turns=0)
    assert path.inertias.tolist() == [65.0, 1.0, 0.5, 0.0]
    assert sorted(path.centers[1].ravel().tolist()) == [0.5, 8.5]


@pytest.mark.parametrize(
    ("rows", "spherical", "inertias"),
    [
        ([[3.0]], False, [0.0]),
        ([[0.0], [-0.0]], False, [0.0]),
        ([[5e-324], [0.0], [1e-323]], False, [0.0]),
        ([[1e150], [-1e150], [3e150]], False, [8e300, 2e300, 0.0]),
        ([[1e300], [1.0]], False, [math.inf, 0.0]),
        ([[1.0, 0.0], [-1.0, 0.0]], True, [4.0, 0.0]),
    ],
)
def test_extreme_rows(rows, spherical, inertias):
    """One row, signs of 0, subnormal and huge numbers, and unit rows that cancel."""
    path = center_path(np.array(rows), np.ones(len(rows)), 5, spherical)
    assert path.inertias.tolist() == pytest.approx(inertias, rel=1e-14)


@given(
    problems(),
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from([1, 50, 2**20]),
    st.sampled_from([1, 200, 2**16]),
    st.sampled_from([1.0, 1e-160, 1e-45, 1e-20, 1e38, 1e150]),
    st.sampled_from([0, 0, 1, 3]),
)
def test_compiled_loops_return_the_same_bytes(
    problem, turns, bounded, at_once, ahead, unit, stride
):
    """However many steps are taken in one call, and for any unit: bounds of distances are float32."""
    rows, weights, most, spherical = problem
    rows = rows if spherical else rows * unit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dask_dpmeans.kernels.center_clusters.AHEAD", ahead)
        patch.setattr("dask_dpmeans.kernels.center_clusters.BOUNDED", 1 if bounded else 5)
        first = center_path(rows, weights, most, spherical, turns, stride)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        patch.setattr("dask_dpmeans.kernels.center_clusters.DISTANCES_AT_ONCE", at_once)
        patch.setattr("dask_dpmeans.kernels.halves.HALVED_AT_ONCE", at_once)
        second = center_path(rows, weights, most, spherical, turns, stride)
    assert first.inertias.tobytes() == second.inertias.tobytes()
    assert [each.tobytes() for each in first.centers] == [each.tobytes() for each in second.centers]


@given(problems(), st.integers(0, 4), st.sampled_from([0, 0, 1, 3]), st.integers(0, 40))
def test_compiled_steps_take_over_in_the_middle_of_a_path(problem, turns, stride, after):
    """Wherever they do, clusters, their gains and the sides of their rows stay as they are."""
    rows, weights, most, spherical = problem
    asked = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        if numba_support.AVAILABLE:
            patch.setattr(CompiledClusters, "pay", lambda *_: next(asked) >= after)
        first = center_path(rows, weights, most, spherical, turns, stride)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        second = center_path(rows, weights, most, spherical, turns, stride)
    assert first.inertias.tobytes() == second.inertias.tobytes()
    assert [each.tobytes() for each in first.centers] == [each.tobytes() for each in second.centers]


@given(problems(), st.integers(1, 8))
def test_clusters_that_are_taken_over_are_the_same(problem, k):
    """Whole searches hardly show it if squared distances, and the greatest in each cluster, are not."""
    rows, weights, most, spherical = problem
    some = rows[: min(k, most)]
    some = some[np.unique(nearest(rows, some)[0])]
    k, most = len(some), min(most, len(rows))
    before, after = (kind(rows, weights, most, spherical) for kind in (Clusters, CompiledClusters))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        before.start()
        before.centers[:k] = some
        before.restore(k)
        after.take_over(before, k)
    assert np.array_equal(after.labels, before.labels)
    assert np.array_equal(after.squared, before.squared)
    pool, starts, counts, free, reach = after._lists
    assert free == len(rows)
    for c in range(k):
        members = np.flatnonzero(before.labels == c)
        assert pool[starts[c] : starts[c] + counts[c]].tolist() == members.tolist()
        assert reach[c] == before.squared[members].max(initial=0.0)


def test_a_path_counts_what_numpy_handles(monkeypatch):
    """Four rows go to one center, then four numbers are halved, and the rows go to one of two centers."""
    told = []
    monkeypatch.setattr(numba_support, "AVAILABLE", True)
    monkeypatch.setattr(CompiledClusters, "pay", lambda _, work: told.append(work))
    center_path(np.array([[0.0], [1.0], [8.0], [9.0]]), np.ones(4), 3, turns=0)
    each = ASSIGN + 4 * PASS
    assert told == [each + 4 * DISTANCE, each + 4 * HALVE + 8 * DISTANCE]


@pytest.mark.parametrize(
    ("n", "d", "spherical"),
    [(600, 2, False), (300, 19, False), (200, 40, False), (300, 3, True), (200, 24, True)],
)
def test_so_do_they_on_more_rows(n, d, spherical):
    rng = np.random.default_rng(n)
    rows = rng.normal(size=(n, d)) + 6 * rng.integers(0, 3, (n, d))
    if spherical:
        rows /= np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    rows[::7] = np.round(rows[::7]) if not spherical else rows[::7]
    weights = rng.choice([0.3, 1.0, 2.0], n)
    first = center_path(rows, weights, 40, spherical)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        second = center_path(rows, weights, 40, spherical)
    assert first.inertias.tobytes() == second.inertias.tobytes()
    assert [each.tobytes() for each in first.centers] == [each.tobytes() for each in second.centers]


@given(problems(), seeds)
def test_clusters_that_are_halved_together_are_halved_as_each_alone(problem, seed):
    """Clusters of fewer rows are filled up with rows of no weight."""
    rows, weights, _, spherical = problem
    rng = np.random.default_rng(seed)
    clusters = [rng.permutation(len(rows))[: rng.integers(1, len(rows) + 1)] for _ in range(4)]
    m = max(len(members) for members in clusters)
    together, shares = rows[np.zeros((4, m), int)], np.zeros((4, m))
    for values, own, members in zip(together, shares, clusters, strict=True):
        values[: len(members)], own[: len(members)] = rows[members], weights[members]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        gains, sides = halve(together, shares, spherical)
        for gain, side, members in zip(gains, sides, clusters, strict=True):
            alone, part = halve(rows[np.newaxis, members], weights[np.newaxis, members], spherical)
            assert gain.tobytes() == alone[0].tobytes()
            assert side[: len(members)].tolist() == part[0].tolist()
            assert not side[len(members) :].any()


def test_without_numba_only_rows_that_may_change_are_compared_with_centers(monkeypatch):
    """One of two distant groups is halved: rows of the other group need no distance."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(30, 2)), rng.normal(9000.0, 0.1, (40, 2))])
    clusters = Clusters(rows, np.ones(len(rows)), 5, False)
    clusters.start()
    clusters.grow(1)
    compared, choose = [], Clusters._choose

    def note(self, places, among, changed):
        compared.extend(places.tolist())
        choose(self, places, among, changed)

    monkeypatch.setattr(Clusters, "_choose", note)
    assert clusters.grow(2)[0].k == 3
    assert set(compared) == set(range(30))


def lowest_errors(rows, weights, spherical):
    """(n,), the least error of all partitions into 1, ..., n clusters."""
    n = len(rows)
    inside = (np.arange(2**n)[:, np.newaxis] >> np.arange(n) & 1).astype(float) * weights
    sums, weight = inside @ rows, inside.sum(axis=1)
    if spherical:
        costs = 2 * (weight - np.sqrt(np.square(sums).sum(axis=1)))
    else:
        squares = inside @ np.square(rows).sum(axis=1)
        costs = squares - np.square(sums).sum(axis=1) / np.maximum(weight, 1e-300)
    least = np.full(n, np.inf)
    for labels in labelings(n):
        k = labels.max() + 1
        sets = [int((1 << np.flatnonzero(labels == c)).sum()) for c in range(k)]
        least[k - 1] = min(least[k - 1], costs[sets].sum())
    return least


@pytest.mark.parametrize("spherical", [False, True])
def test_most_are_the_best_of_all_partitions_of_a_few_rows_and_none_is_better(spherical):
    found = best = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 8))
        rows = rng.normal(size=(n, 2)) + 2 * rng.integers(0, 3, (n, 2))
        if spherical:
            rows /= np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
        weights = rng.choice([1.0, 1.0, 2.0, 0.5], n)
        least = lowest_errors(rows, weights, spherical)
        path = center_path(rows, weights, n, spherical)
        assert len(path.inertias) == n
        assert (path.inertias >= least - 1e-9 * least[0]).all()
        found += n
        best += int((path.inertias <= least + 1e-9 * least[0]).sum())
    assert best >= 0.97 * found


@pytest.mark.parametrize(("seed", "each", "most"), [(21, 8, 31), (5, 8, 18), (4, 16, 26)])
def test_a_way_down_below_what_is_above_does_not_end_the_path(
    seed: int, each: int, most: int
) -> None:
    """Merges find fewer clusters of a lower error than the splits found for more."""
    rng = np.random.default_rng(seed)
    points = np.stack(np.meshgrid(np.arange(6), np.arange(6)), -1).reshape(-1, 2)
    rows = np.repeat(points, each, axis=0) + rng.normal(0, 0.04, (36 * each, 2))
    found = center_path(rows, np.ones(len(rows)), most, turns=1)
    assert len(found.centers) == len(found.inertias) == most
    assert (np.diff(found.inertias) < 0).all()


@given(problems(), st.floats(1e-9, 1e9))
def test_the_best_centers_at_a_penalty_cost_least_and_are_the_fewest(problem, penalty):
    path = center_path(*problem[:3], spherical=problem[3], turns=0)
    costs = [each + penalty * k for k, each in enumerate(path.inertias.tolist(), 1)]
    assert len(path.best(penalty)) == costs.index(min(costs)) + 1
