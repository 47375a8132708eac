"""A fusion takes the better of two searches, region by region; the choice is compared with all choices."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans import DPMeans
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.kernels.block import Block, Scratch
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.fusion import PairCosts
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.methods.dpmeans.fusion import cheapest_changes, fuse, group_centers
from dask_dpmeans.methods.dpmeans.moves import Placement
from dask_dpmeans.methods.dpmeans.trials import Trial

SIZES = st.integers(1, 7)


@given(seeds, SIZES, st.integers(0, 12), st.sampled_from([1.0, 1e-12, 1e12]))
def test_no_choice_of_changes_costs_less(seed, n, m, unit):
    random = np.random.default_rng(seed)
    changes = random.integers(-5, 6, n) * unit
    left, right = random.integers(0, n, (2, m))
    apart = random.integers(0, 6, m) * unit

    def cost(changed):
        return changes[changed].sum() + apart[~changed[left] & changed[right]].sum()

    found = cheapest_changes(changes, left, right, apart)
    choices = [np.array(choice) for choice in product([False, True], repeat=n)]
    least = min(map(cost, choices))
    assert cost(found) <= least + 1e-6 * unit
    # of equally cheap choices, the one with the fewest changes
    fewest = min(choice.sum() for choice in choices if cost(choice) <= least + 1e-6 * unit)
    assert found.sum() == fewest


def sums_of(rows, one, two):
    block = Block(0, rows, None, Scratch())
    return PairCosts(Centers(one), Centers(two)).chunk(block)


@given(seeds, st.integers(1, 40), st.floats(0.0, 1.0), st.floats(0.1, 50.0))
def test_of_all_choices_by_groups_the_fusion_costs_least(seed, n, counted, penalty):
    random = np.random.default_rng(seed)
    rows = random.integers(-6, 7, (n, 2)) * 1.0
    one, two = (random.integers(-6, 7, (random.integers(1, 5), 2)) * 1.0 for _ in range(2))
    sizes = len(one), len(two)
    sums = sums_of(rows, one, two)
    kept, taken = fuse(sums, sizes, penalty, counted)
    squared = [((rows[:, np.newaxis] - each) ** 2).sum(axis=2) for each in (one, two)]
    labels = [each.argmin(axis=1) for each in squared]
    near = [each.min(axis=1) for each in squared]
    far = [np.sort(each, axis=1)[:, min(1, each.shape[1] - 1)] for each in squared]
    shared = np.array(
        [np.bincount(labels[1][labels[0] == a], minlength=sizes[1]) for a in range(sizes[0])]
    )
    groups = groups_by_hand(shared)
    dearer = np.maximum(*near)
    lost = dearer + counted * (np.maximum(dearer, np.minimum(*far)) - dearer)

    def cost(second):
        first_stays, second_comes = ~second[groups[0]], second[groups[1]]
        a, b = first_stays[labels[0]], second_comes[labels[1]]
        paid = np.select([a & b, a, b], [np.minimum(*near), *near], lost)
        return paid.sum() + penalty * (first_stays.sum() + second_comes.sum())

    n_groups = max(each.max() for each in groups) + 1
    least = min(cost(np.array(choice)) for choice in product([False, True], repeat=n_groups))
    found = np.zeros(n_groups, np.bool_)
    found[groups[1][taken]] = True
    found[groups[0][~kept]] = True
    assert cost(found) <= least + 1e-6 * (1 + abs(least))
    assert np.array_equal(kept, ~found[groups[0]])
    assert np.array_equal(taken, found[groups[1]])


def groups_by_hand(shared):
    """Groups of first and second centers, joined while two share more than half of the rows of one."""
    k, others = shared.shape
    groups = np.arange(k + others)
    for a, b in product(range(k), range(others)):
        if shared[a, b] > 0.5 * min(shared[a].sum(), shared[:, b].sum()):
            groups[groups == groups[k + b]] = groups[a]
    numbers = np.unique(groups, return_inverse=True)[1]
    return numbers[:k], numbers[k:]


def test_centers_that_share_more_than_half_of_the_rows_of_one_are_a_group():
    first, second = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])
    weights = np.array(
        [6.0, 4.0, 4.0, 1.0]
    )  # 4 of 8 rows of the second center 1: not more than half
    one, two = group_centers(weights, first, second, (4, 3))
    assert one[0] == two[0]
    assert one[1] == two[1]  # all 4 rows of the first center 1
    assert one[2] == two[2]
    assert len({*one, *two}) == 4  # the center 3 without rows is a group of its own


@pytest.fixture
def two_regions():
    """Rows of four clusters on the left and four on the right, and two centers in place of one there."""
    random = np.random.default_rng(3)
    means = np.array([[x + side, y] for side in (0, 1000) for x in (0, 20) for y in (0, 20)]) * 1.0
    rows = np.repeat(means, 50, axis=0) + random.normal(size=(400, 2))
    joined = (means[0] + means[1]) / 2, (means[4] + means[5]) / 2
    worse_left = np.concatenate([[joined[0]], means[2:]])
    worse_right = np.concatenate([means[:4], [joined[1] + [9.0, 0.0]], means[6:]])
    return rows, means, worse_left, worse_right


def test_a_fusion_is_better_than_both_if_each_is_better_in_one_region(two_regions):
    rows, means, worse_left, worse_right = two_regions
    for one, two in ((worse_left, worse_right), (worse_right, worse_left)):
        kept, taken = fuse(sums_of(rows, one, two), (len(one), len(two)), 100.0, 1.0)
        fused = np.concatenate([one[kept], two[taken]])
        assert np.array_equal(np.unique(fused, axis=0), np.unique(means, axis=0))


def test_a_trial_that_is_not_lower_is_kept_where_it_is_better(two_regions):
    rows, means, worse_left, worse_right = two_regions
    source = InMemoryRows(rows, None)
    method = search.Method(penalty=100.0)

    def found(centers):
        children = np.repeat(centers[:, np.newaxis], 2, axis=1)
        return method._probe(source, Placement(centers, children))

    start = method._commit(method.init(source), found(worse_left))
    end = Trial(
        found(np.concatenate([worse_right, [[500.0, 500.0]]])), 3, search.MoveCounts(swaps=1)
    )
    assert end.found.objective > start.objective
    after = method._best_regions(source, end, start)
    assert after.found.objective < start.objective
    assert after.found.alive == len(means)
    assert after.passes > end.passes
    lower = Trial(found(means), 3, search.MoveCounts(swaps=1))
    assert method._best_regions(source, lower, start) is lower


def test_trials_of_many_clusters_are_kept_by_region(monkeypatch):
    random = np.random.default_rng(0)
    rows, seen = random.normal(size=(9000, 4)), []
    best_regions = search.Method._best_regions
    monkeypatch.setattr(
        search.Method, "_best_regions", lambda *given: seen.append(1) or best_regions(*given)
    )
    given = {"penalty": 300.0, "search": True, "random_state": 0}
    DPMeans(**given).fit(rows)
    assert not seen  # fewer than 128 clusters
    monkeypatch.setattr(search, "REGIONS", 2)
    model = DPMeans(**given).fit(rows)
    assert seen
    objectives = [step.objective for step in model.history_]
    assert all(after < before for before, after in pairwise(objectives))
    seen.clear()
    DPMeans(**given, effort="quick").fit(rows)
    assert not seen
