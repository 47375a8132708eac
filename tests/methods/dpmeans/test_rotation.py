"""Summaries of fewer rows than columns, in as many columns as rows."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from dask_dpmeans import DPMeans
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.errors import InputError
from dask_dpmeans.methods.dpmeans import summary
from dask_dpmeans.methods.dpmeans.chooser import choose
from dask_dpmeans.methods.dpmeans.rotation import RotationJob, rotate
from dask_dpmeans.methods.dpmeans.summary import check_room, choice_bytes
from dask_dpmeans.sources import as_source


def balls(n: int, d: int, k: int = 3, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    return rng.normal(size=(k, d))[labels] * 2 + rng.normal(size=(n, d)), labels


@given(
    n=st.integers(1, 12),
    wider=st.integers(0, 30),
    offset=st.sampled_from([0.0, 1e6]),
    size=st.sampled_from([1e-140, 1.0, 1e140]),
    spherical=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_distances_stay_and_centers_come_back(n, wider, offset, size, spherical, seed):
    rng = np.random.default_rng(seed)
    d = n + 1 + wider
    rows = size * (rng.normal(size=(n, d)) + offset)
    rows = rows[rng.integers(0, n, n)]
    weights = rng.uniform(1, 2, n)
    found = RotationJob(spherical)(InMemoryRows(rows, weights))
    assert found.rows.rows.shape[1] <= n
    exact = 1e-13 * size * (1 + offset) * np.sqrt(d)
    np.testing.assert_allclose(
        cdist(found.rows.rows, found.rows.rows), cdist(rows, rows), atol=exact
    )
    np.testing.assert_allclose(found.lift(found.rows.rows), rows, atol=exact)
    if spherical:
        norms = np.linalg.norm(found.rows.rows, axis=1)
        np.testing.assert_allclose(norms, np.linalg.norm(rows, axis=1), rtol=1e-13)
    assert found.rows.weights is weights
    order = rng.permutation(n)
    again = RotationJob(spherical)(InMemoryRows(rows[order], weights[order]))
    np.testing.assert_array_equal(again.rows.rows, found.rows.rows[order])


@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_equal_rows_stay_equal_and_others_do_not(n, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2, (n, 2)).repeat(10, axis=1).astype(float)
    found = RotationJob(False)(InMemoryRows(rows, None)).rows.rows
    equal = (rows[:, np.newaxis] == rows).all(axis=2)
    np.testing.assert_array_equal((found[:, np.newaxis] == found).all(axis=2), equal)


def test_rows_far_from_the_origin_lose_nothing():
    rows = balls(20, 400)[0]
    exact = cdist(rows, rows)
    found = RotationJob(False)(InMemoryRows(rows + 2.0**20, None)).rows.rows
    np.testing.assert_allclose(cdist(found, found), exact, rtol=1e-8)
    assert np.abs(found).max() < 1e3


@pytest.mark.parametrize(("n", "d", "m"), [(40, 49, 49), (40, 50, 40)])
def test_only_wide_rows_are_rotated(n, d, m):
    rows = InMemoryRows(balls(n, d)[0], None)
    found = rotate(as_source(rows.rows), rows, False)
    assert found.rows.rows.shape == (n, m)
    assert (found.rows is rows) == (m == d)
    centers = np.ones((2, m))
    assert (found.lift(centers) is centers) == (m == d)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_choice_is_that_of_the_rows_as_they_are(metric, monkeypatch):
    rows, _ = balls(60, 200)
    found = DPMeans(metric=metric, random_state=0).fit(rows)
    monkeypatch.setattr(summary, "WIDE", np.inf)
    wanted = DPMeans(metric=metric, random_state=0).fit(rows)
    np.testing.assert_array_equal(found.labels_, wanted.labels_)
    assert found.n_clusters_ == 3
    assert found.penalty_ == pytest.approx(wanted.penalty_, rel=1e-9)
    np.testing.assert_allclose(found.cluster_stability_, wanted.cluster_stability_, rtol=1e-9)
    assert [each.n_clusters for each in found.choice_.alternatives] == [
        each.n_clusters for each in wanted.choice_.alternatives
    ]


def test_centers_of_a_choice_are_among_the_rows():
    rows, labels = balls(60, 200)
    means = np.array([rows[labels == each].mean(axis=0) for each in range(3)])
    found = choose(as_source(rows), 0)
    assert found.choice.n_clusters == 3
    apart = cdist(found.centers[0], means)
    np.testing.assert_allclose(apart.min(axis=0), 0, atol=1e-12)
    for half in found.halves:
        assert half.shape == means.shape
        assert sorted(cdist(half, means).argmin(axis=0)) == [0, 1, 2]


def test_a_choice_of_few_rows_of_many_columns_needs_their_copies_alone():
    copies = 8 * 200 * 10**6
    assert 3 * copies < choice_bytes(200, 10**6) < 8 * copies
    source = SimpleNamespace(
        plan=SimpleNamespace(n_rows=200), summary=SimpleNamespace(sums=np.zeros(10**6)), room=2**33
    )
    check_room(source)
    source.summary.sums = np.zeros(10**7)
    with pytest.raises(InputError, match="200 dense rows of 10,000,000 columns"):
        check_room(source)
