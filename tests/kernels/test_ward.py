import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import DYADIC, seeds, spread, tables

from dask_dpmeans import reference
from dask_dpmeans.kernels.ward import merge, merge_costs

TINY = 1e-9
"""Relative rounding of a cost, with room."""


@st.composite
def clusters(draw, most=14):
    """Centers, weights, which need not be whole, and a penalty; on grids there are ties."""
    centers = draw(tables((1, most), (1, 4), ("grid", "clouds", "offset"))).astype(np.float64)
    rng = np.random.default_rng(draw(seeds))
    whole = draw(st.booleans())
    weights = (
        rng.choice(DYADIC[1:], len(centers)) if whole else rng.uniform(0.01, 9.0, len(centers))
    )
    return centers, weights, draw(st.sampled_from([0.03, 0.3, 1.0, 3.0, 1e9])) * spread(centers)


def members_of(groups):
    return [np.flatnonzero(groups == group).tolist() for group in np.unique(groups)]


def grown(groups, members, centers, weights):
    """The cheapest merge that stays within the groups found, and the cheapest of all, by eq. 10 without the penalty."""
    within, every = {}, {}
    for a, left in enumerate(members):
        for b in range(a + 1, len(members)):
            cost = reference.merge_cost(left, members[b], centers, weights, 0.0)
            every[a, b] = cost
            if groups[left[0]] == groups[members[b][0]]:
                within[a, b] = cost
    return within, every


@given(clusters())
def test_every_merge_is_the_cheapest_by_eq_10_and_the_next_one_would_not_pay(drawn):
    """Up to rounding, which may decide between pairs of equal cost."""
    centers, weights, penalty = drawn
    groups = merge(centers, weights, penalty)
    members = [[number] for number in range(len(weights))]
    scale = TINY * (penalty + sum(weights) * max(1.0, float(np.square(centers).max())))
    while True:
        within, every = grown(groups, members, centers.tolist(), weights.tolist())
        if not within:
            break
        a, b = min(within, key=within.get)
        assert within[a, b] <= min(every.values()) + scale
        assert within[a, b] < penalty + scale
        members[a] = members[a] + members.pop(b)
    assert all(cost >= penalty - scale for cost in every.values())
    assert sorted(map(sorted, members)) == sorted(members_of(groups))


@given(st.integers(1, 14), st.integers(1, 4), st.sampled_from([0.1, 1.0, 10.0]), seeds)
def test_without_ties_the_groups_are_those_of_algorithm_4(k, d, penalty, seed):
    rng = np.random.default_rng(seed)
    centers, weights = rng.normal(size=(k, d)), rng.uniform(0.5, 5.0, k)
    wanted = reference.merge_dp_means(centers.tolist(), weights.tolist(), penalty)
    assert members_of(merge(centers, weights, penalty)) == [
        sorted(group) for group in wanted.members
    ]


@given(clusters(), st.data())
def test_the_sum_of_eq_10_follows_from_two_moments(drawn, data):
    centers, weights, penalty = drawn
    split = data.draw(
        st.lists(st.sampled_from("lr "), min_size=len(weights), max_size=len(weights))
    )
    left, right = (
        [number for number, side in enumerate(split) if side == wanted] for wanted in "lr"
    )
    if not (left and right):
        return
    means = np.array(
        [reference.group_mean(group, centers.tolist(), weights.tolist()) for group in (left, right)]
    )
    each = np.array([weights[left].sum(), weights[right].sum()])
    cost = merge_costs(0, np.array([1]), means, each)[0] - penalty
    wanted = reference.merge_cost(left, right, centers.tolist(), weights.tolist(), penalty)
    scale = penalty + each.sum() * max(1.0, float(np.square(centers).max()))
    assert cost == pytest.approx(wanted, rel=1e-9, abs=1e-12 * scale)


def test_a_merge_that_costs_what_it_saves_is_not_made():
    centers, ones = np.array([[0.0], [2.0]]), np.ones(2)
    assert merge(centers, ones, 2.0).tolist() == [0, 1]
    assert merge(centers, ones, np.nextafter(2.0, 3.0)).tolist() == [0, 0]


def test_of_pairs_that_cost_the_same_the_lowest_numbers_merge_first():
    assert merge(np.array([[0.0], [2.0], [4.0]]), np.ones(3), 3.0).tolist() == [0, 0, 2]
    assert merge(np.array([[4.0], [0.0], [2.0]]), np.ones(3), 3.0).tolist() == [0, 1, 0]


def test_groups_bear_their_lowest_number_however_they_came_about():
    centers = np.array([[9.0], [0.0], [0.5], [9.1], [30.0], [0.1], [8.0]])
    assert merge(centers, np.ones(7), 4.0).tolist() == [0, 1, 1, 0, 4, 1, 0]


def test_no_cluster_and_one_are_left_alone():
    assert merge(np.empty((0, 2)), np.empty(0), 1.0).tolist() == []
    assert merge(np.ones((1, 2)), np.ones(1), 1.0).tolist() == [0]
