"""Balls that cross the clusters of a cut are no clusters; pieces of clusters, or several, are another level."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score

from dask_dpmeans import LinkageDPMeans
from dask_dpmeans.methods.linkage.crossing import CROSSED, MicroTree
from dask_dpmeans.methods.linkage.tree import tree_of


def grid_of(across: int, links: float, n: int = 4) -> MicroTree:
    """Return rows of n micro-clusters with links of 1 along them, and to the next rows as given.

    `across` micro-clusters of each of the n rows are far from the others of their row.
    """
    places = np.array([(float(x), 5.0 * y) for y in range(n) for x in range(n)])
    places[:, 0] += np.where(places[:, 0] >= n - across, 1000.0, 0.0)
    graph = np.zeros((n * n, n * n))
    for one in range(n * n):
        if (one + 1) % n:
            graph[one, one + 1] = graph[one + 1, one] = 1.0
        if one + n < n * n:
            graph[one, one + n] = graph[one + n, one] = links
    matrix, weights = csr_array(graph), np.ones(n * n)
    return MicroTree(places, weights, matrix, tree_of(matrix, places, weights))


@pytest.mark.parametrize("across", [1, 2])
def test_balls_across_the_groups_cross_them(across: int) -> None:
    """The groups are the four rows, and each of the two balls holds a part of all rows."""
    assert across / 4 > CROSSED
    micro = grid_of(across, links=0.01)
    assert micro.crossed_by(np.array([[1.0, 7.5], [1003.0, 7.5]]), 4)
    assert not micro.crossed_by(np.array([[500.0, 7.5]]), 4)
    assert not micro.crossed_by(np.array([[1.0, 7.5], [1003.0, 7.5]]), 1)


@settings(deadline=None)
@given(st.permutations(range(4)))
def test_pieces_of_the_groups_and_balls_of_several_do_not_cross(order: list[int]) -> None:
    micro = grid_of(2, links=0.01)
    pieces = np.array([(x, 5.0 * y) for y in order for x in (0.5, 1002.5)])
    assert not micro.crossed_by(pieces, 4)
    several = np.array([[500.0, 2.5], [500.0, 12.5]])
    assert not micro.crossed_by(several, 4)
    assert not micro.crossed_by(several, 17)  # more than there are micro-clusters


def arms_of_a_spiral(n: int, seed: int) -> tuple[Any, Any]:
    """Return rows of three arms, and the arm of each."""
    rng = np.random.default_rng(seed)
    along, arm = np.sqrt(rng.uniform(0.05, 1, n)) * 2.2 * np.pi, rng.integers(3, size=n)
    angles = along + 2 * np.pi * arm / 3
    rows = np.column_stack([along * np.cos(angles), along * np.sin(angles)]) / 7
    return rows + 0.02 * rng.standard_normal((n, 2)), arm


@pytest.mark.parametrize("told", [None, 3])
def test_arms_of_a_spiral_are_clusters_and_sectors_are_not(told: int | None) -> None:
    """Sectors score more: adjusted Rand index .06 for 20,000 rows, though no row is between the arms."""
    rows, arms = arms_of_a_spiral(20_000, 0)
    model = LinkageDPMeans(n_clusters=told, random_state=0).fit(rows)
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(arms, model.labels_) > 0.99
    if told is None:
        assert "or they cross its clusters" in model.choice_.reason
