"""Noise among micro-clusters, against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans.methods.linkage.noise import labels_of


def drawn(seed, k, n_groups):
    """Centers, weights and squared errors of k micro-clusters, and their groups."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.arange(k) % n_groups)
    weights = np.ceil(rng.exponential(10, k))
    return groups, (rng.normal(size=(k, 2)), weights, weights * rng.exponential(0.1, k))


def slow_labels(groups, centers, weights, inertias, share):
    """The rule, one micro-cluster at a time, with rows counted one by one."""
    densities = []
    for number, center in enumerate(centers):
        others = np.delete(centers, number, axis=0)
        nearest = min(((center - other) ** 2).sum() for other in others)
        densities.append(weights[number] / max(inertias[number] / weights[number], nearest / 12))
    labels = []
    for number, group in enumerate(groups):
        rows = sorted(
            density
            for density, own, weight in zip(densities, groups, weights, strict=True)
            if own == group
            for _ in range(int(weight))
        )
        median = rows[(len(rows) - 1) // 2]
        labels.append(-1 if densities[number] < share * median else group)
    return labels


@given(seeds, st.integers(2, 30), st.integers(1, 5), st.sampled_from([0.05, 0.2, 0.9]))
def test_labels_are_those_of_the_rule_in_plain_loops(seed, k, n_groups, share):
    groups, figures = drawn(seed, k, min(k, n_groups))
    assert labels_of(groups, *figures, share).tolist() == slow_labels(groups, *figures, share)


@given(seeds, st.integers(2, 30), st.integers(1, 5), st.floats(1e-6, 1, exclude_max=True))
def test_no_cluster_is_all_noise_and_units_do_not_matter(seed, k, n_groups, share):
    groups, (centers, weights, inertias) = drawn(seed, k, min(k, n_groups))
    labels = labels_of(groups, centers, weights, inertias, share)
    assert set(groups) == set(labels) - {-1}
    assert ((labels == groups) | (labels == -1)).all()
    other = labels_of(groups, centers * 8, weights * 4, inertias * 256, share)
    assert other.tolist() == labels.tolist()


def test_a_single_row_far_away_is_noise_and_one_that_is_close_is_not():
    centers = np.array([[0.0, 0], [1, 0], [2, 0], [9, 0], [2.2, 0]])
    figures = np.array([50.0, 50, 50, 1, 1]), np.array([5.0, 5, 5, 0, 0])
    assert labels_of(np.zeros(5, np.int64), centers, *figures, 0.2).tolist() == [0, 0, 0, -1, 0]


@pytest.mark.parametrize("share", [None, 0.9])
def test_without_a_share_and_in_one_micro_cluster_there_is_no_noise(share):
    groups, figures = drawn(0, 1 if share else 9, 1)
    assert labels_of(groups, *figures, share) is groups
