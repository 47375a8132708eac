"""Greedy merges of the clusters of a graph."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from strategies import cut_cost, graphs, seeds

from dask_dpmeans.kernels.merge_path import merge_path


def best_merges(kept, masses, alone):
    """The merges, by trial of all pairs of linked clusters; the first of those that gain the same."""
    kept, masses, merges = kept.copy(), masses.copy(), []
    while True:
        tried = {}
        for i, j in zip(*np.nonzero(np.triu(kept, 1)), strict=True):
            apart = kept[i, i] / masses[i] + kept[j, j] / masses[j]
            together = (kept[i, i] + kept[j, j] + 2 * kept[i, j]) / (masses[i] + masses[j])
            tried[i, j] = alone - (apart - together)
        if not tried:
            return merges
        i, j = max(tried, key=lambda pair: tried[pair])
        merges.append((i, j, tried[i, j]))
        kept[i] += kept[j]
        kept[:, i] += kept[:, j]
        kept[j] = kept[:, j] = 0
        masses[i] += masses[j]


def linked(graph):
    """The nodes with links: (n, n) links and (n,) degrees."""
    some = graph.sum(axis=1) > 0
    return graph[np.ix_(some, some)], graph.sum(axis=1)[some]


@given(graphs(), st.booleans(), seeds)
def test_each_merge_is_the_first_of_the_best(graph, normalized, seed):
    """Sums of sixteenths are exact."""
    graph, masses = linked(graph)
    masses = masses + np.random.default_rng(seed).integers(0, 3, len(masses)) / 16
    alone = 1.0 if normalized else 0.0
    found = merge_path(csr_array(graph), masses, alone)
    wanted = best_merges(graph, masses, alone)
    assert found.gains == pytest.approx([gain for *_, gain in wanted], abs=1e-12)
    for (i, j), (one, other, _) in zip(found.pairs.tolist(), wanted, strict=True):
        assert (i, j) == (one, other)


@given(graphs())
def test_gains_are_the_exact_changes_of_the_normalized_cut(graph):
    graph, masses = linked(graph)
    n = len(masses)
    found = merge_path(csr_array(graph), masses)
    cuts = [
        cut_cost(graph, found.labels(n, count), 0.0, True) for count in range(len(found.gains) + 1)
    ]
    assert -np.diff(cuts) == pytest.approx(found.gains)
    assert n - len(found.gains) == (connected_components(csr_array(graph))[0] if n else 0)


@given(graphs())
def test_labels_are_those_of_the_merges_in_order(graph):
    graph, masses = linked(graph)
    n = len(masses)
    found, clusters = merge_path(csr_array(graph), masses), [{node} for node in range(n)]
    for count, (i, j) in enumerate([*found.pairs.tolist(), (0, 0)]):
        labels = found.labels(n, count)
        members = sorted((sorted(each) for each in clusters if each), key=min)
        assert [np.flatnonzero(labels == number).tolist() for number in range(n - count)] == members
        if count < len(found.gains):
            assert i < j
            assert min(clusters[i]) == i
            assert min(clusters[j]) == j
            clusters[i], clusters[j] = clusters[i] | clusters[j], set()


def test_the_arrays_that_are_given_stay():
    graph, masses = csr_array(np.ones((4, 4))), np.full(4, 4.0)
    merge_path(graph, masses)
    assert graph.toarray().tolist() == np.ones((4, 4)).tolist()
    assert masses.tolist() == [4.0] * 4


def test_clusters_without_links_take_no_memory_and_stay_as_they_are():
    """Of (k, k) numbers, 10**5 clusters would take 160 GB."""
    k = 10**5
    pair = csr_array(([2.0, 1.0, 1.0], ([7, 7, 90_000], [7, 90_000, 7])), shape=(k, k))
    found = merge_path(pair, np.full(k, 4.0))
    assert found.pairs.tolist() == [[7, 90_000]]
    assert found.gains.tolist() == [1.0 - (2 / 4 - 4 / 8)]
    labels = found.labels(k, 1)
    assert labels[90_000] == labels[7]
    assert len(set(labels.tolist())) == k - 1
