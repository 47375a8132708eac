"""The stability of clusters, computed again from sets of rows, and on clusters that overlap or not."""

import re
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import foldnorm, norm
from strategies import seeds

from dask_dpmeans import DPMeans
from dask_dpmeans.kernels.assign import NearestLabels
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.methods.dpmeans.stability import (
    MOST_NAMED,
    TRUSTED,
    cluster_stability,
    unstable_clusters,
)
from dask_dpmeans.sources import as_source

Rows = np.ndarray[Any, np.dtype[np.float64]]


def stability(source: Any, centers: Rows, halves: Any) -> Rows:
    """The stability of clusters of nearest centers."""
    labels = NearestLabels(Centers(centers))
    return cluster_stability(source, labels, centers, tuple(map(Centers, halves)))


def nearest(rows: Rows, centers: Rows) -> Any:
    return ((rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)


def brute_agreement(rows: Rows, weights: Rows, centers: Rows, halves: Any) -> Rows:
    """The mean of the greatest Jaccard index of each cluster, from sets of rows."""
    mine, found = nearest(rows, centers), np.zeros((len(halves), len(centers)))
    for number, half in enumerate(halves):
        theirs = nearest(rows, half)
        for c in range(len(centers)):
            for other in range(len(half)):
                both = weights[(mine == c) & (theirs == other)].sum()
                either = weights[(mine == c) | (theirs == other)].sum()
                found[number, c] = max(found[number, c], both / either if either else 0.0)
    return found.mean(axis=0)


def brute_wrong(rows: Rows, weights: Rows, center: Rows, other: Rows) -> float:
    """The share of a component that is nearer to another center, from its rows on the line there."""
    line = (other - center) / np.linalg.norm(other - center)
    square = (weights * ((rows - center) @ line) ** 2).sum()
    if square == 0:
        return 0.0
    half = np.linalg.norm(other - center) / 2 / np.sqrt(square / weights.sum())

    def differs(h: float) -> float:
        return float(foldnorm(h).mean() / foldnorm(h).std() - half)

    if differs(0.0) >= 0:
        return 0.5
    return float(norm.sf(min(9.0, brentq(differs, 0.0, half + 1.0))))


def brute_component(rows: Rows, weights: Rows, centers: Rows) -> Rows:
    """The Jaccard index of each cluster and its normal component, cluster by cluster."""
    mine, k = nearest(rows, centers), len(centers)
    sizes, found = np.bincount(mine, weights, minlength=k), np.zeros(k)
    for c in range(k):
        lost = gained = 0.0
        for other in set(range(k)) - {c}:
            for one, two in ((c, other), (other, c)):
                some = mine == one
                wrong = brute_wrong(rows[some], weights[some], centers[one], centers[two])
                lost, gained = (
                    (lost + wrong, gained) if one == c else (lost, gained + wrong * sizes[one])
                )
        both, either = sizes[c] * max(0.0, 1 - lost), sizes[c] + gained
        found[c] = both / either if either else 0.0
    return found


@settings(max_examples=15, deadline=None)
@given(seed=seeds, chunk=st.integers(1, 70))
def test_the_stability_is_the_product_of_two_jaccard_indices(seed: int, chunk: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, 2)) + 3 * rng.integers(3, size=(60, 1))
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], 60)
    centers = rng.normal(size=(rng.integers(1, 6), 2)) * 3
    halves = tuple(rng.normal(size=(k, 2)) for k in rng.integers(1, 6, 4))
    lazy = as_source(da.from_array(rows, chunks=(chunk, 1)), weights, block_rows=16)
    found = stability(lazy, centers, halves)
    wanted = brute_agreement(rows, weights, centers, halves)
    wanted = wanted * brute_component(rows, weights, centers)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-12)
    whole = stability(as_source(rows, weights, block_rows=16), centers, halves)
    assert found.tobytes() == whole.tobytes()


@pytest.mark.parametrize("d", [2, 32])
def test_separate_clusters_of_twenty_rows_are_stable(d: int) -> None:
    rng = np.random.default_rng(0)
    means = 20.0 * np.eye(d)[[0, 1]]
    rows = np.repeat([*means, *-means], 20, axis=0) + rng.normal(size=(80, d))
    model = DPMeans(random_state=0).fit(rows)
    assert model.n_clusters_ == 4
    assert model.cluster_stability_.min() >= 0.95


@given(stability=st.lists(st.floats(-0.2, 1.0), min_size=1, max_size=30))
def test_clusters_that_are_not_stable_are_counted_and_named_from_the_lowest(stability):
    low = [number for number, each in enumerate(stability) if each < TRUSTED]
    told = unstable_clusters(np.array(stability))
    assert bool(told) == bool(low)
    if low:
        assert told.startswith(f"{len(low)} of {len(stability)} cluster")
        named = [int(each) for each in re.findall(r"(\d+) \(", told.partition(": ")[2])]
        wanted = sorted(low, key=lambda number: (stability[number], number))
        assert named == wanted[: len(named)]
        assert len(named) == min(len(low), MOST_NAMED)
        assert ("more" in told) == (len(low) > MOST_NAMED)
