"""The tree of groups: greedy merges of the normalized cut, levels, and moves, against plain loops."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import is_valid_linkage
from scipy.sparse import csr_array
from strategies import seeds

from dask_dpmeans.methods.linkage import tree
from dask_dpmeans.methods.linkage.tree import (
    cut_parts,
    groups_at,
    hosts_of,
    level_groups,
    masses_of,
    move_nodes,
    tree_of,
)


def slow_cut(links, groups):
    """The normalized cut of a matrix of links."""
    total = 0.0
    for group in set(groups):
        own = np.array(groups) == group
        mass = links[own].sum()
        if mass > 0:
            total += links[own][:, ~own].sum() / mass
    return total


def slow_cuts(links):
    """The cuts of the greedy tree, from one group for each node down to one for each component."""
    groups = list(range(len(links)))
    cuts = [slow_cut(links, groups)]
    while True:
        tried = []
        for one, other in itertools.combinations(sorted(set(groups)), 2):
            a, b = np.array(groups) == one, np.array(groups) == other
            if links[a][:, b].any():
                merged = [one if each == other else each for each in groups]
                tried.append((slow_cut(links, merged), merged))
        if not tried:
            return cuts
        cut, groups = min(tried, key=lambda each: each[0])
        cuts.append(cut)


@st.composite
def graphs(draw, most=9):
    """Symmetric links, (k, k), without ties."""
    k, rng = draw(st.integers(2, most)), np.random.default_rng(draw(seeds))
    links = np.triu(
        rng.uniform(0.1, 1.0, (k, k)) * (rng.random((k, k)) < draw(st.floats(0.2, 1.0))), 1
    )
    return links + links.T, rng.normal(size=(k, 2)), rng.integers(1, 9, k).astype(float)


@given(graphs())
@settings(max_examples=40)
def test_the_cuts_are_those_of_greedy_merges(drawn):
    links, centers, _ = drawn
    weights = np.ones(len(links))  # at least the mean: nodes without links stay alone
    tree = tree_of(csr_array(links), centers, weights)
    expected = slow_cuts(links)
    np.testing.assert_allclose(tree.cuts[::-1][: len(expected)], expected, atol=1e-9)
    assert not tree.cuts[: len(tree.cuts) - len(expected)].any()  # without links, nothing is cut
    assert is_valid_linkage(tree.merges)


@given(graphs(), st.data())
@settings(max_examples=40)
def test_each_level_has_its_number_of_groups_and_lies_within_the_next(drawn, data):
    links, centers, weights = drawn
    tree = tree_of(csr_array(links), centers, weights)
    k = len(links)
    for count in range(1, k + 1):
        groups = level_groups(tree.merges, count)
        assert sorted(set(groups.tolist())) == list(range(count))
        if count < k:
            finer = level_groups(tree.merges, count + 1)
            assert len({(a, b) for a, b in zip(groups, finer, strict=True)}) == count + 1
        found = groups_at(tree.merges, count, csr_array(links), centers, weights)
        assert (np.diff(np.bincount(found, weights, count)) <= 0).all()
        parts = cut_parts(csr_array(links), found, count)
        assert parts.sum() == pytest.approx(slow_cut(links, found.tolist()))


@given(graphs(), seeds)
@settings(max_examples=40)
def test_moves_lower_the_cut_until_no_single_move_does(drawn, seed):
    links, _, _ = drawn
    k, rng = len(links), np.random.default_rng(seed)
    count = int(rng.integers(1, k + 1))
    before = rng.permutation(np.concatenate([np.arange(count), rng.integers(0, count, k - count)]))
    after, masses = before.copy(), masses_of(csr_array(links))
    move_nodes(csr_array(links), masses, after, count)
    cut = slow_cut(links, after.tolist())
    assert cut <= slow_cut(links, before.tolist()) + 1e-9
    linked = np.bincount(after[masses > 0], minlength=count)
    for node, target in itertools.product(np.flatnonzero(masses > 0), range(count)):
        moved = after.copy()
        moved[node] = target
        if linked[after[node]] > 1 and links[node][after == target].any():
            assert slow_cut(links, moved.tolist()) >= cut - 1e-9


def test_groups_from_balls_lower_the_cut_where_greedy_merges_end_above(monkeypatch):
    falls = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        clouds = rng.normal(size=(30, 2)), 2 * rng.normal(size=(30, 2)) + [4, 0]
        centers, weights = np.concatenate(clouds), np.ones(60)
        links = np.exp(-np.square(centers[:, np.newaxis] - centers).sum(axis=2))
        np.fill_diagonal(links, 0.0)
        graph, cuts = csr_array(links), []
        merges = tree_of(graph, centers, weights).merges
        for most in (0, 2**11):
            monkeypatch.setattr(tree, "MOST_BALLS", most)
            cuts.append(slow_cut(links, groups_at(merges, 2, graph, centers, weights)))
        falls.append(cuts[0] - cuts[1])
    assert min(falls) > -1e-9
    assert max(falls) > 0.01


def test_the_best_level_has_the_least_cut_and_price():
    links = (
        np.kron(np.eye(3), np.ones((4, 4)) - np.eye(4))
        + 0.01 * np.eye(12, k=4)
        + 0.01 * np.eye(12, k=-4)
    )
    tree = tree_of(csr_array(links), np.arange(24.0).reshape(12, 2), np.ones(12))
    for penalty in (-1.0, -0.5, -0.1, -0.02, -1e-3, -1e-6):
        level = tree.best_level(penalty)
        values = tree.cuts + penalty * np.arange(1, 13)
        assert values[level - 1] == values.min()
    assert tree.best_level(-0.1) == 3
    assert tree.best_level(-1e-6) == 1


def test_light_nodes_without_links_go_with_the_nearest_linked_one_and_heavy_ones_stay_alone():
    links = np.zeros((5, 5))
    links[0, 1] = links[1, 0] = 1.0
    centers, weights = (
        np.array([[0.0], [1.0], [1.2], [5.0], [0.1]]),
        np.array([5.0, 5.0, 1.0, 9.0, 1.0]),
    )
    hosts = hosts_of(links.sum(axis=1), centers, weights)
    assert hosts.tolist() == [0, 1, 1, 3, 0]
    tree = tree_of(csr_array(links), centers, weights)
    assert tree.cuts.tolist() == [0.0, 0.0, 2.0]
    groups = groups_at(tree.merges, 2, csr_array(links), centers, weights)
    assert groups.tolist() == [0, 0, 0, 1, 0]


def test_groups_without_links_between_them_merge_by_their_nearest_centers():
    pair = np.array([[0.0, 1.0], [1.0, 0.0]])
    links = np.kron(np.eye(3), pair)
    centers = np.array([[0.0], [1.0], [9.0], [10.0], [3.0], [4.0]])
    tree = tree_of(csr_array(links), centers, np.ones(6))
    assert level_groups(tree.merges, 3).tolist() == [0, 0, 1, 1, 2, 2]
    assert level_groups(tree.merges, 2).tolist() == [0, 0, 1, 1, 0, 0]
    assert tree.merges[-2:, 2].tolist() == [1.0, 1.0]


def test_nothing_linked_leaves_all_nodes_alone():
    tree = tree_of(csr_array((3, 3)), np.arange(3.0)[:, np.newaxis], np.array([1.0, 2.0, 3.0]))
    assert tree.cuts.tolist() == [0.0, 0.0, 0.0]
    assert tree.best_level(-0.5) == 3
    assert tree_of(csr_array((1, 1)), np.zeros((1, 2)), np.ones(1)).merges.shape == (0, 4)
