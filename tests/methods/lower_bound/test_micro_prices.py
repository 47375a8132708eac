"""Bounds by prices of micro-clusters are never above the optimum, and near it with few rows in each.

`DPMEANS_INSTANCES=10000 python -m pytest tests/methods/dpmeans/test_micro_prices.py -k never` takes 10,000
instances instead of 60.
"""

import os
from fractions import Fraction

import numpy as np
import pytest
from exact_optimum import exact_optimum, instance

from dask_dpmeans import DPMeans
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.methods.lower_bound import micro_prices, row_prices
from dask_dpmeans.methods.lower_bound.micro_prices import fitted_micro

INSTANCES = int(os.environ.get("DPMEANS_INSTANCES", "60"))


def drawn(seed):
    """Return rows in up to four columns, some in float32, weights, a penalty, and centers near and far."""
    rows, weights, penalty = instance(seed)
    rows, rng = rows[:, :4], np.random.default_rng([seed, 1])
    if rng.random() < 0.3:
        with np.errstate(over="ignore"):
            short = rows.astype(np.float32)
        rows = short if np.isfinite(short).all() else rows
    centers = rows[rng.permutation(len(rows))[: rng.integers(1, len(rows) + 1)]].astype(np.float64)
    if rng.random() < 0.2:
        centers = centers + rng.choice([1e-3, 1.0, 1e3]) * np.ptp(
            rows.astype(np.float64)
        ) * rng.normal(size=centers.shape)
    return rows, weights, penalty, centers, int(rng.choice([1, 4, 16, 1000]))


@pytest.mark.timeout(120 + 2 * INSTANCES)
def test_the_bound_is_never_above_the_optimum(monkeypatch):
    monkeypatch.setattr(row_prices, "MOST_PAIRS", 2**13)
    gaps = []
    for seed in range(INSTANCES):
        rows, weights, penalty, centers, most = drawn(seed)
        if not weights.any():
            continue
        monkeypatch.setattr(micro_prices, "MICRO_CLUSTERS", most)
        exact = exact_optimum(rows.astype(np.float64), weights, penalty)
        source = InMemoryRows(np.ascontiguousarray(rows), weights)
        fitted = fitted_micro(source, centers, penalty)
        found = fitted.prices(fitted.centers, source)
        assert Fraction(found.value) <= exact, seed
        assert fitted.objective >= float(exact) * (1 - 1e-9), seed
        if most == 1000:
            gaps.append(1 - max(found.value, penalty) / float(exact))
    assert np.median(gaps) < 1e-3


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_the_bound_is_near_with_few_rows_in_a_micro_cluster(columns, offset):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, columns)) + 12 * rng.integers(0, 3, (300, 1)) + offset
    model = DPMeans(200.0 * columns, search=True, random_state=0, tol=0.0).fit(rows)
    source = InMemoryRows(rows, None)
    fitted = fitted_micro(source, model.cluster_centers_, 200.0 * columns)
    found = fitted.prices(fitted.centers, source)
    assert fitted.objective == pytest.approx(model.objective_, rel=1e-9)
    assert 0 <= 1 - found.value / model.objective_ < 1e-3
    gaps = np.array(fitted.cluster_gaps(found.paid))
    assert gaps.sum() == pytest.approx(fitted.objective - found.value, abs=1e-5 * found.value)


def test_rows_of_next_to_no_weight_count_for_nothing():
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(40, 2)), np.ones(40)
    weights[:20] = 1e-120
    heavy = InMemoryRows(rows[20:], weights[20:])
    fitted = fitted_micro(InMemoryRows(rows, weights), rows[[20, 30]], 5.0)
    alone = fitted_micro(heavy, rows[[20, 30]], 5.0)
    assert fitted.objective == pytest.approx(alone.objective, rel=1e-12)
    assert len(fitted.micro.rows) == len(alone.micro.rows) <= 20


def test_squared_distances_that_are_not_finite_have_no_bound():
    rows = np.array([[1e300, 0.0], [-1e300, 1.0], [0.0, 0.0]])
    assert fitted_micro(InMemoryRows(rows, np.full(3, 1e10)), rows[:1], 1e-300) is None
    rows[0] = 1.7e308
    assert fitted_micro(InMemoryRows(rows, None), -rows[:1], 1.0) is None
