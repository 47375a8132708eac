"""Short searches: the objective is that of the partition, and NumPy gives the bytes of compiled loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TAME, seeds, spread, tables

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.changed_clusters_compiled import LIGHT
from dask_dpmeans.kernels.short_search import SWAP_TRIES, FewRows
from dask_dpmeans.kernels.short_search_compiled import (
    WIDER,
    add_chances,
    assign_from,
    bound_costs,
    cross_compiled,
    draw_row,
    swap_compiled,
)


@st.composite
def problems(draw):
    rows = draw(tables(rows=(1, 40), columns=(1, 12), kinds=TAME))
    random = np.random.default_rng(draw(seeds))
    weights = np.ones(len(rows))
    if draw(st.booleans()):
        weights = random.integers(1, 5, len(rows)) / 4
    penalty = draw(st.floats(0.01, 3.0)) * max(spread(rows), 1e-9)
    return FewRows(np.ascontiguousarray(rows, np.float64), weights, penalty, 60), random


def started(few, draws):
    labels, costs = few.start(draws[0, 0])
    half = len(draws) // 2
    k = few.open(draws[1:half], 1, labels, costs)
    if k == half:
        k = few.open(draws[half:], k, labels, costs)
    assert k == labels.max() + 1
    return labels


def ends(few, draws, crossing):
    one, two = (few.settle(started(few, each)) for each in draws)
    enough = one.centers.shape[1] + two.centers.shape[1] + 2 * SWAP_TRIES
    return one, two, few.child(one, two, crossing[:enough])


def drawn(few, random):
    n = len(few.rows)
    return random.random((2, n + 1, 3)), random.random(2 * n + 2 * SWAP_TRIES)


def assert_numpy_gives_the_same(searches):
    """The ends of searches are the same to the bit without Numba."""
    compiled = searches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        plain = searches()
    for one, other in zip(compiled, plain, strict=True):
        assert one.centers.tobytes() == other.centers.tobytes()
        assert (one.objective, one.passes) == (other.objective, other.passes)
        assert one.labels.tolist() == other.labels.tolist()


@settings(max_examples=60)
@given(problem=problems())
def test_numpy_gives_the_bytes_of_compiled_loops(problem):
    few, random = problem
    draws = drawn(few, random)
    assert_numpy_gives_the_same(lambda: ends(few, *draws))


@settings(max_examples=60)
@given(
    seed=seeds,
    n=st.integers(60, 160),
    k=st.integers(4, 30),
    d=st.integers(1, 10),
    magnitudes=st.sampled_from([0, 1, 5]),
    spread=st.sampled_from([2.0, 6.0]),
)
def test_rows_that_stay_unseen_would_have_stayed(seed, n, k, d, magnitudes, spread):
    """Compiled loops evaluate few rows again; NumPy evaluates all in each pass."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(k, d))[random.integers(k, size=n)] * spread
    rows += random.normal(size=(n, d))
    weights = 10.0 ** random.uniform(-magnitudes, 0, n)
    few = FewRows(rows, weights, 2.0 * d * float(weights.mean()), 60)
    draws = drawn(few, random)

    def generations():
        one, two, child = ends(few, *draws)
        later = draws[1][: one.centers.shape[1] + child.centers.shape[1] + 2 * SWAP_TRIES]
        return one, two, child, few.child(child, one, later)

    assert_numpy_gives_the_same(generations)


@settings(max_examples=60)
@given(problem=problems())
def test_rows_are_as_far_from_other_centers_as_a_crossover_says(problem):
    few, random = problem
    one, two, _ = ends(few, *drawn(few, random))
    draws = random.random(one.centers.shape[1] + two.centers.shape[1] + 2 * SWAP_TRIES)
    labels, seconds, centers = cross_compiled(
        few.rows, few.weights, one.centers, two.centers, one.labels, draws
    )
    assert np.isinf(centers).all(axis=0).sum() == (centers.shape[1] > 1)
    squared = np.square(few.rows[:, :, np.newaxis] - centers).sum(axis=1)
    squared[np.arange(len(labels)), labels] = np.inf
    assert (seconds <= squared.min(axis=1) * (1 + 1e-12)).all()
    assert (seconds > 0).any() or len(np.unique(squared)) < 3


@settings(max_examples=60)
@given(problem=problems(), motion=st.sampled_from([0.0, 1e-9, 1e-3, 0.1]))
def test_what_is_kept_of_a_row_is_at_most_what_it_costs_in_clusters_that_stay(problem, motion):
    few, random = problem
    n, k = len(few.rows), int(random.integers(1, 9))
    centers = few.rows[random.integers(n, size=k)].T + random.normal(0, 0.1, (few.rows.shape[1], k))
    before = centers + random.normal(size=centers.shape) * motion * random.choice([0.0, 1.0], k)
    counts, kept, ages = random.integers(0, 3, k), np.empty(n), np.empty(k, np.int64)
    counts[0], masses = 1, random.choice([1e-3, 4.0, 40.0], k)
    squared, own = np.square(few.rows[:, :, np.newaxis] - before).sum(axis=1), np.arange(n) % k
    squared[np.arange(n), own] = np.inf
    seconds, clusters = np.minimum(squared.min(axis=1), 1e300), (centers, masses, counts)
    bound_costs(few.weights, seconds, before, 0.01, clusters, kept, ages)
    light = LIGHT * few.weights.mean()
    moved = (np.sqrt(np.square(centers - before).sum(axis=0)) > 0.01) | (masses < light)
    assert ages.tolist() == np.where(moved & (counts > 0), 2, 0).tolist()
    joined = few.weights[:, np.newaxis] * masses / (masses + few.weights[:, np.newaxis])
    costs = joined * np.square(few.rows[:, :, np.newaxis] - centers).sum(axis=1)
    costs[np.arange(n), own] = np.inf
    unchanged = (ages == 0) & (counts > 0)
    assert (kept <= costs[:, unchanged].min(axis=1, initial=np.inf)).all()
    lightest = masses[(counts > 0) & (masses >= light)].min(initial=np.inf)
    lightest = lightest if lightest < np.inf else light
    least = few.weights * lightest / (lightest + few.weights) * seconds
    if not (before != centers).any():
        np.testing.assert_allclose(kept, least, rtol=1e-6)


@settings(max_examples=60)
@given(problem=problems())
def test_the_objective_is_what_the_means_cost_with_the_price_of_the_clusters(problem):
    few, random = problem
    for end in ends(few, *drawn(few, random)):
        differences = few.rows[:, :, np.newaxis] - end.centers
        nearest = np.square(differences).sum(axis=1).min(axis=1)
        k = end.centers.shape[1]
        assert 1 <= k <= len(few.rows)
        means = [few.weights[end.labels == c] @ few.rows[end.labels == c] for c in range(k)]
        masses = np.bincount(end.labels, few.weights, k)
        np.testing.assert_allclose(end.centers, np.array(means).T / masses, rtol=1e-9, atol=1e-9)
        exact = float(few.weights @ nearest) + few.penalty * k
        assert end.objective == pytest.approx(exact, rel=1e-9, abs=1e-9 * few.penalty)


@settings(max_examples=40)
@given(problem=problems())
def test_no_merge_of_two_clusters_lowers_the_objective(problem):
    few, random = problem
    for end in ends(few, *drawn(few, random)):
        labels = np.square(few.rows[:, :, np.newaxis] - end.centers).sum(axis=1).argmin(axis=1)
        masses = np.bincount(labels, few.weights, end.centers.shape[1])
        for a in range(len(masses)):
            for b in range(a):
                squared = float(np.square(end.centers[:, a] - end.centers[:, b]).sum())
                rise = masses[a] * masses[b] / max(masses[a] + masses[b], 1e-300) * squared
                assert min(masses[a], masses[b]) == 0 or rise >= few.penalty * (1 - 1e-6)


def swapped(few, centers, draws):
    """What `swap` does, row by row, with whole numbers, whose sums are exact."""
    k, rows = centers.shape[1], [[int(x) for x in row] for row in few.rows]
    sites = {c: [int(x) for x in centers[:, c]] for c in range(k)}

    def squared(one, other):
        return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))

    def cost(places):
        nearest = (min(squared(row, place) for place in places) for row in rows)
        return sum(int(w) * least for w, least in zip(few.weights, nearest, strict=True))

    tried = [min(k - 1, int(draw * k)) for draw in draws[0]]
    left = min(tried, key=lambda c: cost([sites[b] for b in sites if b != c]))
    del sites[left]
    labels = [min(sites, key=lambda c: (squared(row, sites[c]), c)) for row in rows]
    costs = [squared(row, sites[label]) for row, label in zip(rows, labels, strict=True)]
    chances = np.cumsum([int(w) * each for w, each in zip(few.weights, costs, strict=True)])
    if not chances[-1]:
        return labels
    opened = [int(np.flatnonzero(chances > draw * chances[-1])[0]) for draw in draws[1]]
    best = min(opened, key=lambda row: cost([*sites.values(), rows[row]]))
    return [
        left if squared(row, rows[best]) < least else label
        for row, least, label in zip(rows, costs, labels, strict=True)
    ]


@settings(max_examples=200)
@given(
    seed=seeds,
    n=st.integers(2, 12),
    d=st.integers(1, 3),
    k=st.integers(2, 6),
    compiled=st.booleans(),
)
def test_a_swap_takes_the_cheapest_center_and_opens_where_it_saves_most(seed, n, d, k, compiled):
    random = np.random.default_rng(seed)
    rows = random.integers(-4, 5, (n, d)).astype(np.float64)
    few = FewRows(rows, random.integers(1, 4, n).astype(np.float64), 1.0, 60)
    centers = random.integers(-4, 5, (d, k)).astype(np.float64)
    draws = random.random((2, SWAP_TRIES))
    if compiled:
        labels = random.integers(k, size=n)
        swap_compiled(few.rows, few.weights, centers, draws, labels)
    else:
        labels = few.swap(centers, draws)
    assert labels.tolist() == swapped(few, centers, draws)


@settings(max_examples=200)
@given(
    seed=seeds,
    n=st.integers(1, 40),
    d=st.integers(1, 4),
    k=st.integers(2, 20),
    whole=st.booleans(),
    scale=st.sampled_from([1.0, 1e-162]),
)
def test_rows_find_the_first_of_the_nearest_centers_from_any_label(seed, n, d, k, whole, scale):
    random = np.random.default_rng(seed)
    draw = (lambda shape: random.integers(-3, 4, shape)) if whole else random.standard_normal
    rows, centers = draw((n, d)) * scale, draw((d, k)) * scale
    labels, costs, seconds = random.integers(k, size=n), np.empty(n), np.empty(n)
    start = labels.copy()
    assign_from(rows, centers, labels, costs, seconds)
    squared = np.zeros((n, k))
    for row, center in zip(rows.T, centers, strict=True):
        squared += np.square(row[:, np.newaxis] - center)
    every = np.arange(n)
    assert labels.tolist() == squared.argmin(axis=1).tolist()
    assert costs.tolist() == squared.min(axis=1).tolist()
    farther = squared.copy()
    farther[every, labels] = np.inf
    assert (seconds <= farther.min(axis=1)).all()
    least = np.minimum(farther.min(axis=1), WIDER**2 * squared[every, start])
    if scale == 1.0:
        between = np.square(centers[:, :, np.newaxis] - centers[:, np.newaxis]).sum(axis=0)
        between[np.arange(k), np.arange(k)] = np.inf
        near = np.sqrt(between.min(axis=1)[start]) - np.sqrt(squared[every, start])
        alone = near > np.sqrt(squared[every, start])
        least[alone] = np.square(near[alone])
        assert (seconds >= least * (1 - 1e-6) - 1e-12).all()


@given(seed=seeds, n=st.integers(1, 30))
def test_a_row_is_drawn_by_its_weight_times_its_cost(seed, n):
    random = np.random.default_rng(seed)
    weights, costs = random.integers(1, 4, n) / 4, random.integers(0, 3, n).astype(np.float64)
    sums = np.empty(n)
    last = add_chances(weights, costs, sums)
    assert last == max(np.flatnonzero(costs), default=-1)
    for draw in [0.0, *random.random(4), 1.0 - 2**-53] if last >= 0 else []:
        chances = np.cumsum(weights * costs)
        wanted = draw * chances[-1]
        expected = min(np.searchsorted(chances, wanted, side="right"), last)
        assert draw_row(sums, last, draw) == expected
