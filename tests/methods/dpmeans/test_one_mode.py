"""Clouds of independent columns with one mode each, and what they say of skewed rows and of clusters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans.methods.dpmeans import clouds
from dask_dpmeans.methods.dpmeans.chooser import choose
from dask_dpmeans.methods.dpmeans.clouds import OneMode, OneModeClouds
from dask_dpmeans.sources import as_source


def skewed(kind: str, n: int, d: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.exponential(size=(n, d)) if kind == "exponential" else rng.normal(size=(n, d))
    return np.exp(rows) if kind == "lognormal" else rows


@given(seeds, st.integers(1, 60), st.booleans())
def test_a_density_rises_up_to_the_mode_and_falls_after(seed: int, n: int, rounded: bool) -> None:
    rng = np.random.default_rng(seed)
    column = rng.normal(size=n) ** 3 + 5 * rng.integers(0, 3, n)
    if rounded:
        column = np.round(column)
    found = OneMode.of(column, rng.choice([1.0, 2.5], n))
    assert found.values.tolist() == np.unique(column).tolist()
    if len(found.values) > 1:
        assert found.shares[0] == 0.0
        assert found.shares[-1] == pytest.approx(1.0)
        density = np.diff(found.shares) / np.diff(found.values)
        top = int(density.argmax())
        assert (np.diff(density[: top + 1]) >= -1e-9 * density[top]).all()
        assert (np.diff(density[top:]) <= 1e-9 * density[top]).all()


def test_a_column_with_one_mode_is_near_and_one_with_two_is_far() -> None:
    rng = np.random.default_rng(0)
    for column in (rng.exponential(size=900), rng.normal(size=900), rng.random(900)):
        assert OneMode.of(column, np.ones(900)).distance < clouds.NEAR / 30
        assert OneMode.of(-column, np.ones(900)).distance < clouds.NEAR / 30
    two = rng.normal(size=900) + 6.0 * (np.arange(900) < 450)
    assert OneMode.of(two, np.ones(900)).distance > 2 * clouds.NEAR / 30


def test_values_that_hardly_differ_are_no_warning() -> None:
    """A density of them is greater than any number: the column counts as one with other modes."""
    column = np.append(np.linspace(0.0, 1.0, 50), [3e-318, 1e-315])
    assert OneModeClouds.of(column[:, np.newaxis], np.ones(52), 52) is None


def test_the_columns_of_a_cloud_are_independent_and_as_skewed() -> None:
    rows = skewed("exponential", 2000, 1, 0) * np.array([1.0, 3.0])
    clouds = OneModeClouds.of(rows, np.ones(2000), 2000)
    assert clouds is not None
    cloud = clouds.draw(4000, np.random.default_rng(1))
    assert abs(np.corrcoef(cloud.T)[0, 1]) < 0.06
    assert np.quantile(cloud, [0.1, 0.5, 0.9], axis=0) == pytest.approx(
        np.quantile(rows, [0.1, 0.5, 0.9], axis=0), rel=0.15
    )


@pytest.mark.parametrize(
    ("kind", "n", "d"), [("exponential", 1000, 5), ("lognormal", 300, 3), ("lognormal", 300, 5)]
)
def test_skewed_columns_are_one_cluster(
    kind: str, n: int, d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [choose(as_source(skewed(kind, n, d, seed)), 0).choice for seed in (1, 2)]
    assert [each.n_clusters for each in found] == [1, 1]
    assert "columns as skewed" in found[0].reason
    monkeypatch.setattr(clouds, "NEAR", 0.0)
    before = [choose(as_source(skewed(kind, n, d, seed)), 0).choice for seed in (1, 2)]
    assert max(each.n_clusters for each in before) > 1


@pytest.mark.parametrize("kind", ["oblique", "grid", "dense"])
def test_clusters_stay(kind: str) -> None:
    """Apart across all columns, so that each has one mode; in columns that are independent; in a corner."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(1200, 16))
    if kind == "oblique":
        rows += 8.0 / 4 * (np.arange(1200) % 2)[:, np.newaxis]
        k = 2
    elif kind == "grid":
        rows = rows[:, :2] + 8.0 * rng.integers(0, 3, (1200, 2))
        k = 9
    else:
        rows = 0.05 * rows[:, :3]
        rows[:400] += np.array([3.0, 0.0, 0.0])
        rows[400:500] += np.array([0.0, 2.0, 2.0])
        k = 3
    assert choose(as_source(rows), 0).choice.n_clusters == k
