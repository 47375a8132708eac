import math
from types import FunctionType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import DYADIC, seeds, spread, tables

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels import row_exchange as kernel
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.changed_clusters_compiled import (
    begin_pass,
    first_changed,
    light_share,
    note_change,
)
from dask_dpmeans.kernels.divergence import SQUARED
from dask_dpmeans.kernels.features import UnitRows
from dask_dpmeans.kernels.metrics import METRICS
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.kernels.row_exchange import exchange
from dask_dpmeans.kernels.row_exchange_compiled import exchange_rows_compiled

MOST = 60
DIVERGENCES = {False: SQUARED, True: METRICS["cosine"]}


def cost(rows, weights, labels, penalty, spherical):
    """The objective of a partition: about the means, or the directions of the sums."""
    parts = []
    for label in np.unique(labels):
        mine, each = rows[labels == label], weights[labels == label]
        if spherical:
            parts.append(2 * (each.sum() - np.linalg.norm(each @ mine)))
        else:
            parts.append(float(each @ ((mine - each @ mine / each.sum()) ** 2).sum(axis=1)))
    return math.fsum(parts) + penalty * len(parts)


@st.composite
def partitions(draw, most=30, columns=4):
    """Rows, weights, labels at first, a penalty, and whether rows are directions."""
    rows = draw(tables((1, most), (1, columns), ("grid", "clouds"))).astype(np.float64)
    spherical = draw(st.booleans())
    if spherical:
        rows[~rows.any(axis=1)] = 1.0
        rows = UnitRows()(rows, Scratch()).copy()
    rng = np.random.default_rng(draw(seeds))
    weights = rng.choice(DYADIC[1:], len(rows))
    labels = rng.integers(0, rng.integers(1, len(rows) + 1), len(rows))
    penalty = draw(st.sampled_from([0.03, 0.3, 1.0, 3.0])) * (1.0 if spherical else spread(rows))
    return rows, weights, labels.astype(np.int64), penalty, spherical


@given(partitions())
def test_rows_move_to_a_lower_objective_that_no_move_of_one_row_lowers(drawn):
    rows, weights, labels, penalty, spherical = drawn
    before = labels.copy()
    found = exchange(rows, weights, labels, LinearPrice(penalty), MOST, DIVERGENCES[spherical])
    least = cost(rows, weights, found.labels, penalty, spherical)
    assert labels.tolist() == before.tolist()
    assert found.objective == pytest.approx(least, rel=1e-9, abs=1e-9 * penalty)
    assert least <= cost(rows, weights, before, penalty, spherical) * (1 + 1e-12)
    assert found.passes < MOST
    for row in range(len(rows)):
        for label in {*found.labels.tolist(), int(found.labels.max()) + 1}:
            other = found.labels.copy()
            other[row] = label
            assert cost(rows, weights, other, penalty, spherical) >= least - 1e-7 * penalty


def exchanged_with_and_without_numba(*given):
    """The end of moves, which is the same to the bit without Numba."""
    found = exchange(*given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        other = exchange(*given)
    assert found.labels.tolist() == other.labels.tolist()
    assert (found.objective, found.passes) == (other.objective, other.passes)
    return found


@settings(max_examples=80)
@given(partitions(most=90, columns=10), st.sampled_from([math.inf, 0.5, 0.05]))
def test_compiled_loops_and_numpy_move_the_same_rows_to_the_bit(drawn, outliers):
    rows, weights, labels, penalty, spherical = drawn
    if outliers < math.inf:
        labels[1::3] = -1
    given = LinearPrice(penalty), MOST, DIVERGENCES[spherical], outliers * penalty
    exchanged_with_and_without_numba(rows, weights, labels, *given)


@settings(max_examples=40)
@given(
    seed=seeds,
    n=st.integers(60, 160),
    k=st.integers(4, 30),
    d=st.integers(1, 4),
    outliers=st.sampled_from([0.1, 0.3, 1.0]),
)
def test_rows_that_become_outliers_late_do_so_with_compiled_loops(seed, n, k, d, outliers):
    """A row may pay more as others leave its cluster, while no other cluster changes."""
    random = np.random.default_rng(seed)
    rows = random.normal(0, 4, (k, d))[random.integers(k, size=n)] + random.normal(size=(n, d))
    weights = random.choice(DYADIC[1:], n)
    labels = random.integers(-1, k, n)
    labels[0] = 0
    given = LinearPrice(4.0 * d), MOST, SQUARED, outliers * 4.0 * d
    exchanged_with_and_without_numba(rows, weights, labels, *given)


def test_of_costs_that_underflow_to_0_the_first_cluster_counts():
    """A row of weight 1e-295 costs nothing in two clusters, of which the second is nearer."""
    rows, weights = np.array([[0.0], [2e-20], [-1e-20]]), np.array([1e-295, 1.0, 1.0])
    given = LinearPrice(1e-41), 1, SQUARED
    found = exchanged_with_and_without_numba(rows, weights, np.array([2, 0, 1]), *given)
    assert found.labels.tolist() == [0, 0, 1]


def nearest_changed(centers, shares, counts, ages):
    """The distance of each center with rows to the nearest other one that changed, less for light ones."""
    found = []
    for c in np.flatnonzero(counts):
        others = np.flatnonzero((ages > 0) & (counts > 0) & (np.arange(len(counts)) != c))
        squared = np.square(centers[:, others].T - centers[:, c]).sum(axis=1) * shares[others]
        found.append(np.sqrt(squared.min(initial=np.inf)))
    return found


def test_rows_are_evaluated_once_if_few_clusters_change():
    """Where one row of twelve clusters moves, the second pass looks at rows of its neighborhood."""
    random = np.random.default_rng(0)
    middles = 20.0 * np.stack(np.meshgrid(np.arange(4), np.arange(3)), -1).reshape(-1, 2)
    rows = (middles[:, np.newaxis] + random.normal(size=(12, 20, 2))).reshape(-1, 2)
    labels = np.repeat(np.arange(12), 20)
    labels[0] = 1
    seen, loop = [], numba_support.plain(exchange_rows_compiled)
    names = loop.__globals__
    cheapest = names["_cheapest"]

    def counting(row, *rest):
        seen.append(row)
        return cheapest(row, *rest)

    counted = FunctionType(loop.__code__, names | {"_cheapest": counting})
    clusters = kernel._clusters(rows, np.ones(240), labels, 20, 0.0)
    nothing_known = np.zeros(240), np.zeros(20, np.int64)
    passes = counted(rows, np.ones(240), labels, 100.0, np.inf, 0.0, MOST, clusters, *nothing_known)
    assert passes == 2
    assert labels.tolist() == np.repeat(np.arange(12), 20).tolist()
    assert 240 <= len(seen) < 250


@settings(max_examples=15)
@given(seed=seeds, k=st.integers(2, 6), light=st.booleans(), few=st.sampled_from([0.25, 1.0]))
def test_rows_move_alike_without_the_table_of_distances(seed, k, light, few):
    random, loop = np.random.default_rng(seed), numba_support.plain(exchange_rows_compiled)
    n = 4 * k if light else 20 * k
    rows = random.normal(0, 4, (k, 2))[random.integers(k, size=n)] + random.normal(size=(n, 2))
    labels, weights, room = random.integers(k, size=n), random.choice(DYADIC[1:], n), 2 * k + 8

    def without_table(ages, d):
        (*memory, _, shares), count = first_changed(ages, d)
        return (*memory, np.full((1, room), np.nan), shares), count

    found = []
    for changes in ({}, {"_first_changed": without_table, "FEW_CHANGED": few}):
        moved = FunctionType(loop.__code__, loop.__globals__ | changes)
        mine = labels.copy()
        clusters = kernel._clusters(rows, weights, mine, room, 0.0)
        known = np.zeros(n), np.zeros(room, np.int64)
        moved(rows, weights, mine, 8.0, np.inf, 0.0, 5, clusters, *known)
        found.append(mine)
    np.testing.assert_array_equal(*found)


def test_memory_of_moves_does_not_grow_with_the_square_of_the_clusters():
    def most_bytes(room):
        memory, _ = numba_support.plain(first_changed)(np.ones(room, np.int64), 2)
        return sum(each.nbytes for each in memory)

    assert most_bytes(2_000) <= 2 * most_bytes(1_000)
    assert most_bytes(100_000) <= 1.01 * 10 * most_bytes(10_000)
    assert most_bytes(100_000) < 2 * most_bytes(1_000)


@given(seed=seeds, k=st.integers(2, 12), d=st.integers(1, 4))
def test_centers_know_the_nearest_one_that_changed(seed, k, d):
    random = np.random.default_rng(seed)
    centers, counts = random.integers(-3, 4, (d, k)).astype(np.float64), random.integers(0, 3, k)
    counts[0], masses, others = 1, random.choice([0.5, 2.0, 8.0], k), (2.0, 1.0)
    clusters, ages = (centers, masses, counts), random.choice([0, 1, 2], k)
    numbers = np.concatenate([np.flatnonzero(ages), np.zeros(k, np.int64)])[:k]
    distances, apart = np.empty(k), np.full((k, k), np.inf)
    columns = np.empty((d, k))
    changed = numbers, np.empty(k, np.int64), ages, distances, columns, apart, np.empty(k)
    centers[:, counts == 0] = np.inf
    before, shares = ages.copy(), np.array([light_share(mass, others) for mass in masses])
    count = begin_pass(changed, int((before > 0).sum()), clusters, k, others, np.empty(d))
    later = np.where((before == 2) | ((before == 1) & (shares < 1)), 1, 0)
    assert ages.tolist() == np.where(counts > 0, later, 0).tolist()
    assert numbers[:count].tolist() == np.flatnonzero(ages).tolist()
    exact = nearest_changed(centers, shares, counts, ages)
    np.testing.assert_allclose(distances[counts > 0], exact, rtol=1e-12)
    for c in random.integers(k, size=6):
        counts[c] = random.integers(3)
        centers[:, c] = random.integers(-3, 4, d) if counts[c] else np.inf
        count = note_change(c, changed, count, clusters, k, others, (np.empty(k), np.empty(d)))
        assert sorted(numbers[:count]) == np.flatnonzero(ages).tolist()
        assert ages[c] == 2
        exact = np.array(nearest_changed(centers, shares, counts, ages))
        assert (distances[counts > 0] <= exact * (1 + 1e-12)).all()
        for place, other in enumerate(numbers[:count]):
            seen = np.flatnonzero((counts > 0) & (np.arange(k) != other))
            expected = np.full(len(seen), np.inf)
            if counts[other]:
                squared = np.square(centers[:, [other]] - centers[:, seen]).sum(axis=0)
                expected = squared * shares[other]
                assert apart[other, place] == np.inf
            np.testing.assert_allclose(apart[seen, place], expected, rtol=1e-9)


@given(
    mass=st.floats(1e-3, 1e3),
    weight=st.floats(1e-3, 1.0),
    lightest=st.floats(1e-3, 1e3),
    lower=st.floats(0.01, 1.0),
)
def test_a_light_cluster_costs_no_less_than_its_share(mass, weight, lightest, lower):
    """Also if other clusters have become lighter since."""
    share = light_share(mass, (lightest, 1.0))
    assert 0.0 < share <= 1.0
    others = lightest * lower
    if mass < lightest or lower == 1.0:
        bound = share * others / (others + weight)
        assert mass / (mass + weight) >= bound
    if mass < lightest and weight == 1.0 == lower:
        assert mass / (mass + weight) == pytest.approx(share * lightest / (lightest + weight))


def test_rows_that_stay_are_looked_at_together_without_numba(monkeypatch):
    """Once for each move, and some for each pass; never once for each row."""
    looks, best_moves = [], kernel._best_moves
    monkeypatch.setattr(numba_support, "AVAILABLE", False)
    monkeypatch.setattr(
        kernel,
        "_best_moves",
        lambda rows, *rest: looks.append(len(rows)) or best_moves(rows, *rest),
    )
    rows = np.repeat(np.eye(4), 1000, axis=0)
    found = exchange(
        rows, np.ones(4000), np.repeat(np.arange(4), 1000), LinearPrice(1.0), MOST, SQUARED
    )
    assert found.passes == 1
    assert sum(looks) == 4000
    assert len(looks) <= 10


def test_passes_are_no_more_than_asked():
    rows = np.random.default_rng(0).normal(size=(200, 2))
    found = exchange(rows, np.ones(200), np.arange(200) % 20, LinearPrice(1.0), 1, SQUARED)
    assert found.passes == 1
    assert found.objective == pytest.approx(cost(rows, np.ones(200), found.labels, 1.0, False))


def test_a_row_that_outweighs_its_cluster_stays_and_the_others_may_leave():
    rows, weights = np.array([[0.0], [1.0]]), np.array([1e12, 1.0])
    found = exchange(rows, weights, np.zeros(2, np.int64), LinearPrice(0.5), MOST, SQUARED)
    assert found.labels[0] == 0
    assert found.objective == 1.0


def test_directions_that_cancel_part():
    rows = np.array([[1.0, 0.0], [-1.0, 0.0]])
    found = exchange(
        rows, np.ones(2), np.zeros(2, np.int64), LinearPrice(1.0), MOST, METRICS["cosine"]
    )
    assert found.labels[0] != found.labels[1]
    assert found.objective == 2.0
