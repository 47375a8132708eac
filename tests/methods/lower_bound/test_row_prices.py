"""Bounds by prices of rows are never above the optimum, and near it where clusters can be told apart.

`DPMEANS_INSTANCES=10000 python -m pytest tests/methods/dpmeans/test_row_prices.py -k never` takes 10,000
instances instead of 60.
"""

import os
import tracemalloc
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pytest
from exact_optimum import exact_optimum, instance
from optimum import lowest_objective

from dask_dpmeans import DPMeans
from dask_dpmeans.engine import checkpoints
from dask_dpmeans.engine.checkpoints import Checkpoint
from dask_dpmeans.kernels.lower_bound.main_axes import MainAxes
from dask_dpmeans.methods.lower_bound import row_prices
from dask_dpmeans.methods.lower_bound.row_prices import (
    Proof,
    best_prices,
    first_pricing,
    prices_bound,
    split_cells,
)

INSTANCES = int(os.environ.get("DPMEANS_INSTANCES", "60"))
ROUNDING = 1e-13
"""Of the oracle, over the optimum."""


@pytest.mark.timeout(60 + INSTANCES)
def test_the_bound_is_never_above_the_optimum():
    gaps = []
    for seed in range(INSTANCES):
        rows, weights, penalty = instance(seed)
        rng = np.random.default_rng(seed)
        exact = exact_optimum(rows, weights, penalty)
        optimum = float(exact)
        centers = rows[rng.permutation(len(rows))[: rng.integers(1, len(rows) + 1)]]
        upper = optimum * rng.choice([1.0, 1.5])
        heavy = weights > 0
        if not heavy.any():
            continue
        found = prices_bound(rows[heavy], weights[heavy], penalty, upper, centers)
        assert penalty <= found.value, seed
        assert Fraction(found.value) <= exact, seed
        if found.paid is not None:
            assert found.paid.sum() == pytest.approx(found.value, rel=1e-6), seed
        gaps.append(1 - found.value / optimum)
    assert np.median(gaps) < 1e-4


def test_units_that_are_no_numbers_prove_the_penalty():
    """Weights and a penalty near the least number: the unit of objectives is none any more."""
    rows, weights = blobs(20, 2, 2), np.full(20, 1e-320)
    assert prices_bound(rows, weights, 2e-319, 1e-318, rows[:2]).value == 2e-319


def blobs(n, columns, k, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, columns)) + 12 * rng.integers(0, k, (n, 1)) * (
        np.arange(columns) < 1
    )


@pytest.mark.parametrize(("columns", "most"), [(1, 1e-6), (2, 1e-6), (4, 1e-6), (9, 0.35)])
def test_the_bound_is_near_the_objective_of_clusters_that_lie_apart(columns, most):
    rows = blobs(120, columns, 3)
    model = DPMeans(150.0 * columns, search=True, random_state=0, tol=0.0).fit(rows)
    bound = prices_bound(
        rows, np.ones(120), 150.0 * columns, model.objective_, model.cluster_centers_
    ).value
    assert 0 <= 1 - bound / model.objective_ < most


def test_cells_of_many_rows_and_merged_rows_cost_little(monkeypatch):
    monkeypatch.setattr(row_prices, "CELLS", 40)
    monkeypatch.setattr(row_prices, "SUMMARY", 300)
    rows = blobs(1000, 2, 4)
    model = DPMeans(900.0, search=True, random_state=0, tol=0.0).fit(rows)
    bound = prices_bound(rows, np.ones(1000), 900.0, model.objective_, model.cluster_centers_).value
    assert 0 <= 1 - bound / model.objective_ < 0.01


def test_more_weight_is_as_more_rows():
    rows, counts = blobs(40, 2, 2), np.random.default_rng(1).integers(1, 5, 40)
    model = DPMeans(60.0, search=True, random_state=0, tol=0.0).fit(rows, sample_weight=counts)
    centers, upper = model.cluster_centers_, model.objective_
    weighted = prices_bound(rows, counts.astype(float), 60.0, upper, centers).value
    many = np.repeat(rows, counts, axis=0)
    repeated = prices_bound(many, np.ones(len(many)), 60.0, upper, centers).value
    assert weighted == pytest.approx(repeated, rel=1e-5)
    assert weighted == pytest.approx(upper, rel=1e-5)


def test_a_bound_that_ends_at_its_limit_of_work_is_still_one(monkeypatch):
    monkeypatch.setattr(row_prices, "MOST_PAIRS", 10)
    rows = blobs(200, 2, 3)
    model = DPMeans(300.0, search=True, random_state=0, tol=0.0).fit(rows)
    bound = prices_bound(rows, np.ones(200), 300.0, model.objective_, model.cluster_centers_).value
    assert 300.0 <= bound < 0.9 * model.objective_


@dataclass
class Kept:
    """A store of checkpoints that is killed as it saves for the last time."""

    saves: float
    contents: dict[str, bytes] = field(default_factory=dict)

    def load(self, name):
        return self.contents.get(name)

    def save(self, name, content):
        self.contents[name] = content
        self.saves -= 1
        if self.saves == 0:
            raise SystemExit


def test_a_search_for_prices_that_is_killed_anywhere_goes_on_to_the_same_bytes(monkeypatch):
    monkeypatch.setattr(checkpoints, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(row_prices, "CELLS", 20)
    monkeypatch.setattr(row_prices, "CELLS_PER_CLUSTER", 4)
    rows, steps = blobs(80, 2, 4), []
    pricing = first_pricing(rows, np.ones(80), 20.0, np.array([[12.0 * i, 0.0] for i in range(4)]))
    following = Proof.next
    monkeypatch.setattr(Proof, "next", lambda proof: steps.append(proof) or following(proof))
    expected = best_prices(pricing, 240.0, Checkpoint(None, ""))
    total = len(steps)
    assert total > 10
    for saves in range(1, total + 1):
        steps.clear()
        kept = Kept(saves)
        with pytest.raises(SystemExit):
            best_prices(pricing, 240.0, Checkpoint(kept, "prices"))
        found = best_prices(pricing, 240.0, Checkpoint(kept, "prices"))
        assert len(steps) == total
        assert found.value == expected.value
        assert found.paid.tobytes() == expected.paid.tobytes()


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_main_axes_lose_what_the_other_axes_cost(offset):
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = rng.normal(size=(8, 6)) * [9.0, 5.0, 2.0, 1.0, 0.5, 0.1] + offset
        weights, penalty = rng.choice([1.0, 2.0], 8), rng.uniform(5, 200)
        optimum, k = lowest_objective(rows, weights, penalty), int(rng.integers(1, 8))
        axes = MainAxes.of(rows, weights, penalty, k, most=3)
        projected = lowest_objective(axes.rows, axes.weights, axes.penalty)
        assert 0 < axes.bound(projected, optimum) <= optimum * (1 + ROUNDING)
        whole = MainAxes.of(rows, weights, penalty, k, most=6)
        same = lowest_objective(whole.rows, whole.weights, whole.penalty)
        assert whole.bound(same, optimum) == pytest.approx(optimum, rel=1e-8)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_more_columns_than_rows_have_the_main_axes_of_the_rows(offset):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(12, 12)) * np.linspace(9, 0.1, 12) + offset
    weights = rng.choice([1.0, 2.0], 12)
    wide = np.column_stack([rows, np.full((12, 3000), offset)])
    expected = MainAxes.of(rows, weights, 90.0, 3, most=4)
    tracemalloc.start()
    found = MainAxes.of(wide, weights, 90.0, 3, most=4)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20 * wide.nbytes  # no (d, d) array
    assert (found.rest, found.penalty) == pytest.approx((expected.rest, expected.penalty), rel=1e-6)
    assert expected.rest > 0
    assert np.abs(found.rows) == pytest.approx(np.abs(expected.rows), abs=1e-9)
    assert found.stretch < 1 + 1e-8


def test_cells_hold_rows_of_one_label_and_no_more_than_asked_for():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(500, 3)), rng.integers(0, 7, 500)
    cells = split_cells(rows, labels, 10.0)
    assert np.bincount(cells).max() <= 10
    assert len(np.unique(cells)) == cells.max() + 1
    assert all(len(set(labels[cells == cell])) == 1 for cell in range(cells.max() + 1))


def test_every_center_and_every_point_that_rows_would_open_is_a_column():
    centers = 9.0 * np.stack(np.divmod(np.arange(144), 12), axis=1)
    rows = np.concatenate([centers + 0.1, centers - 0.1])
    pricing = first_pricing(rows, np.ones(288), 1.0, centers)
    assert len(pricing.program.limits) == 144
    open_to_all = replace(pricing, offsets=pricing.offsets + 1)
    found = open_to_all.with_opened(centers)
    assert len(found.program.limits) == 144 + 144


def test_prices_are_not_sought_only_where_they_cannot_prove_more(monkeypatch):
    """Six columns, whose bound is at most the objective of the four main axes, and of the others."""
    sought = []
    monkeypatch.setattr(
        row_prices, "best_prices", lambda *given: sought.append(1) or best_prices(*given)
    )
    rows, ones = blobs(200, 6, 4), np.ones(200)
    model = DPMeans(300.0, search=True, random_state=0).fit(rows)
    given = rows, ones, 300.0, model.objective_, model.cluster_centers_
    bound = prices_bound(*given).value
    assert 300.0 < bound < model.objective_
    assert prices_bound(*given, 0.99 * bound).value == bound
    assert len(sought) == 2
    assert prices_bound(*given, 1.01 * bound).value in {300.0, bound}
    assert prices_bound(*given, model.objective_).value == 300.0
    assert len(sought) <= 3
