"""A fusion takes the better of two searches, region by region; the choice is compared with all choices."""

from dataclasses import dataclass
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
from dask_dpmeans.methods.dpmeans.crossover import cross
from dask_dpmeans.methods.dpmeans.fusion import cheapest_changes, fuse, group_centers
from dask_dpmeans.methods.dpmeans.moves import Placement
from dask_dpmeans.methods.dpmeans.trials import SHARES, Trial, judge

SIZES = st.integers(1, 7)


@given(seeds, SIZES, st.integers(0, 12), st.sampled_from([2.0**-40, 1.0, 2.0**40]))
def test_no_choice_of_changes_costs_less_and_of_equal_ones_none_changes_less(seed, n, m, unit):
    random = np.random.default_rng(seed)
    changes = random.integers(-5, 6, n) * unit
    left, right = random.integers(0, n, (2, m))
    apart = random.integers(0, 6, m) * unit * (left != right)

    def cost(changed):
        return changes[changed].sum() + apart[~changed[left] & changed[right]].sum()

    found = cheapest_changes(changes, left, right, apart)
    choices = [np.array(choice) for choice in product([False, True], repeat=n)]
    least = min(map(cost, choices))
    assert cost(found) == least
    assert found.sum() == min(choice.sum() for choice in choices if cost(choice) == least)


@given(seeds, SIZES, st.integers(0, 12))
def test_costs_of_any_size_are_compared(seed, n, m):
    """A change that is very dear, or a pair, does not hide the gain of another."""
    random = np.random.default_rng(seed)
    changes = random.choice([-1, 1], n) * 10.0 ** random.integers(0, 13, n)
    left, right = random.integers(0, n, (2, m))
    apart = 10.0 ** random.integers(0, 13, m) * (left != right)

    def cost(changed):
        return changes[changed].sum() + apart[~changed[left] & changed[right]].sum()

    found = cheapest_changes(changes, left, right, apart)
    least = min(cost(np.array(choice)) for choice in product([False, True], repeat=n))
    assert cost(found) <= least + 1e-7 * np.maximum(-changes, 0.0).sum()


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


@given(seeds, st.floats(0.5, 1.0))
def test_the_same_centers_in_another_order_are_no_fusion(seed, counted):
    random = np.random.default_rng(seed)
    rows, weights = random.normal(size=(400, 3)), random.random(400)
    centers = rows[:12]  # each has a row
    for two in (centers, random.permutation(centers)):
        pairs = PairCosts(Centers(centers), Centers(two))
        sums = pairs.chunk(Block(0, rows, weights, Scratch()))
        kept, taken = fuse(sums, (12, 12), 3.0, counted)
        assert kept.all()
        assert not taken.any()


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


@dataclass(frozen=True)
class Counting:
    """Rows in memory that count how often they are read."""

    rows: InMemoryRows
    folds: list[str]

    def fold(self, reduction, name="fold"):
        self.folds.append(name)
        return self.rows.fold(reduction, name=name)

    def __getattr__(self, name):
        return getattr(self.rows, name)


def at(method, source, centers):
    """The state of a pass at some centers, with children that tell to which center they belong."""
    children = np.stack([centers - 0.25, centers + 0.25], axis=1)
    return method._probe(source, Placement(centers, children))


def test_a_crossover_is_a_fusion_where_that_gains(two_regions):
    rows, means, worse_left, worse_right = two_regions
    source, method = InMemoryRows(rows, None), search.Method(penalty=100.0)
    parents = [
        method._commit(method.init(source), at(method, source, centers))
        for centers in (worse_left, worse_right)
    ]
    settled = []

    class Seen(search.Method):
        def settle_state(self, source, start, places, goal, random):
            settled.append(places)
            return super().settle_state(source, start, places, goal, random)

    child = cross(Seen(penalty=100.0), source, parents, np.inf, np.random.default_rng(0))
    assert len(child.centers) == len(means)
    assert child.objective < min(parent.objective for parent in parents)
    (places,) = settled
    assert np.array_equal(np.unique(places.centers, axis=0), np.unique(means, axis=0))
    assert np.array_equal(places.children[:, 0], places.centers - 0.25)
    assert np.array_equal(places.children[:, 1], places.centers + 0.25)
    # another sample swaps a center of a fusion, too
    cross(Seen(penalty=100.0), source, parents, np.inf, np.random.default_rng(0), source)
    assert not np.array_equal(np.unique(settled[1].centers, axis=0), np.unique(means, axis=0))


def test_a_trial_that_is_not_lower_is_kept_where_it_is_better(two_regions):
    rows, means, worse_left, worse_right = two_regions
    source, method = Counting(InMemoryRows(rows, None), []), search.Method(penalty=100.0)
    start = method._commit(method.init(source.rows), at(method, source, worse_left))
    moves = search.MoveCounts(swaps=1)

    end = Trial(at(method, source, worse_right), 3, moves)
    assert end.found.objective > start.objective
    source.folds.clear()
    after = method._best_regions(source, end, start)
    assert after.found.objective < start.objective
    assert after.found.alive == len(means)
    assert after.passes == end.passes + len(source.folds)

    worse = Trial(at(method, source, worse_left + 1.0), 3, moves)  # nowhere better
    source.folds.clear()
    after = method._best_regions(source, worse, start)
    assert after.found is worse.found
    assert after.passes == worse.passes + len(source.folds) == 4

    lower = Trial(at(method, source, means), 3, moves)
    assert method._best_regions(source, lower, start) is lower


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_share_is_given_up_after_some_rounds_that_fail(rounds):
    state = search.Method(penalty=1.0).init(InMemoryRows(np.zeros((4, 1)), None))
    for _ in range(3 * rounds - 1):
        state = judge(state, False, rounds)
    assert state.share == 0
    assert judge(state, True, rounds).failures == 0
    assert judge(state, False, rounds).share == len(SHARES)  # one cluster: no smaller share


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
    monkeypatch.setattr(search, "FUSED_CLUSTERS", 2)
    model = DPMeans(**given).fit(rows)
    assert seen
    objectives = [step.objective for step in model.history_]
    assert all(after < before for before, after in pairwise(objectives))
    seen.clear()
    DPMeans(**given, effort="quick").fit(rows)
    assert seen
