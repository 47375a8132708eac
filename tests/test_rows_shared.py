"""Data sets that share clusters of counts, shares, categories and holes are what the slow reference says.

`DPMEANS_INSTANCES=100 python -m pytest tests/test_rows_shared.py -k best_partition` takes 100 instances of each
kind instead of 4.
"""

import math
import os
from functools import cache
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows_cases import NAMED
from rows_reference import OUTLIER, subsets_with_lowest
from strategies import contents, labels_of, seeds

from dask_dpmeans import HDPMeans
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.estimators.divergence_map import SMOOTHING, divergence_map
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.hdp import HDPPrices
from dask_dpmeans.methods.hdp import batch, search
from dask_dpmeans.methods.hdp.moves import plan_moves
from dask_dpmeans.methods.hdp.row_exchange import Members
from dask_dpmeans.sources import as_source

SEEDS = range(int(os.environ.get("DPMEANS_INSTANCES", "4")))
KINDS = sorted(
    case.name
    for case in NAMED.values()
    if case.parameters and case.divergence != "cosine" and not (case.outliers or case.discount)
)
"""Kinds of tables that are encoded, without outliers, discounts and metrics, which the HDP does not have."""
TIED = "categorical missing"
"""A kind of which many rows cost equally much at two centers, to rounding, so that either is right."""
kinds = st.sampled_from(KINDS)


class Shared:
    """A table of the slow reference, of several data sets, at two prices."""

    def __init__(self, name, seed, n, n_sets=3):
        instance = NAMED[name].instance(seed, n)
        rng = np.random.default_rng(seed)
        self.rows, self.parameters = instance.rows, NAMED[name].parameters
        self.sets = rng.integers(0, n_sets, n)
        price = instance.price.penalty
        self.local, self.opening = price * rng.choice([0.1, 0.3, 1.0]), price

    def model(self, **parameters):
        given = {"local_penalty": self.local, "global_penalty": self.opening, "random_state": 0}
        return HDPMeans(**given | self.parameters | parameters)

    def fit(self, **parameters):
        weights = self.rows.weights
        return self.model(**parameters).fit(self.rows.X, groups=self.sets, sample_weight=weights)

    def cost(self, members):
        """What a global cluster of these rows costs, with the local clusters that are tied to it."""
        there = [r for r in members if self.rows.factors[r] > 0]
        n_sets = len({int(self.sets[r]) for r in there})
        return self.rows.inertia(members) + self.local * n_sets + self.opening

    def objective(self, labels):
        labels = np.asarray(labels)
        numbers = set(labels[labels != OUTLIER].tolist())
        return math.fsum(self.cost(np.flatnonzero(labels == c)) for c in numbers)

    def optimum(self):
        """The least objective of all partitions.

        Local clusters of one set in one global cluster are one, which costs less; so each partition has one
        grouping.
        """
        there = [r for r in range(self.rows.n) if self.rows.factors[r] > 0]
        least = [0.0]
        costs = [0.0]
        for whole in range(1, 2 ** len(there)):
            costs.append(self.cost([r for i, r in enumerate(there) if whole >> i & 1]))
            parts = subsets_with_lowest(whole)
            least.append(min(costs[part] + least[whole ^ part] for part in parts))
        return least[-1]

    def sweep(self, centers, uses, order):
        """Step 4 of Algorithm 2, row by row: labels, centers, uses, and the rows that opened something."""
        centers, uses, labels, opened = list(centers), set(uses), {}, []
        for row in order:
            weight, own = self.rows.weights[row], int(self.sets[row])
            if not (weight > 0 and self.rows.factors[row] > 0):
                continue
            costs = [self.rows.cost(row, center) for center in centers]
            used = [(cost, c) for c, cost in enumerate(costs) if (own, c) in uses]
            unused = [(cost + self.local / min(1, weight), c) for c, cost in enumerate(costs)]
            cost, label = min(used, default=(math.inf, -1))
            if min(unused)[0] < cost:
                cost, label = min(unused)
            if cost > (self.local + self.opening) / min(1, weight):
                label = len(centers)
                centers.append(self.rows.row(row))
            if (own, label) not in uses:
                opened.append(row)
            uses.add((own, label))
            labels[row] = label
        return labels, centers, opened

    def mapped(self, block_rows=None):
        """The rows as methods see them."""
        given = {"divergence": "squared", "missing": "error"} | self.parameters
        learned = divergence_map(given["divergence"], given["missing"], SMOOTHING, None)
        source = as_source(
            self.rows.X,
            self.rows.weights,
            groups=self.sets,
            missing=given["missing"] != "error",
            threads=1,
            block_rows=block_rows,
        )
        return learned.fit(source, 0)


@pytest.mark.parametrize("name", [name for name in KINDS if name != TIED])
@pytest.mark.parametrize("seed", range(2))
def test_each_sweep_is_algorithm_2_row_by_row(name, seed):
    """Openings, labels and the objective, in witness order: the opened rows, then the rest."""
    shared = Shared(name, seed, 30)
    rows, mapped = shared.rows, shared.mapped(block_rows=8)
    mean = rows.inertia(range(30)) / rows.weights.sum()
    method = mapped.method(batch.Method(0.2 * mean, 0.5 * mean, tol=0.0))
    shared.local, shared.opening = method.local_penalty, method.global_penalty
    centers = [rows.center(range(30))]
    uses = {(int(own), 0) for own in np.unique(shared.sets)}
    n_opened = 0
    for step in list(iterate(mapped.source, method))[:-1]:
        state = step.state
        rest = np.setdiff1d(np.arange(30), state.opened).tolist()
        labels, at, opened = shared.sweep(centers, uses, [*state.opened.tolist(), *rest])
        assert state.opened.tolist() == opened
        n_opened += len(opened)
        alive = sorted(set(labels.values()))
        found = labels_of(mapped.source, method, state)
        assert {row: found[row] for row in labels} == {
            row: alive.index(label) for row, label in labels.items()
        }
        assert all(found[row] == OUTLIER for row in range(30) if rows.factors[row] == 0)
        costs = [rows.weights[row] * rows.cost(row, at[label]) for row, label in labels.items()]
        pairs = {(int(shared.sets[row]), alive.index(label)) for row, label in labels.items()}
        wanted = math.fsum(costs) + shared.local * len(pairs) + shared.opening * len(alive)
        assert state.objective == pytest.approx(wanted, rel=1e-9)
        tied = {
            pair: int(goes) for pair, goes in zip(sorted(pairs), state.next.centers, strict=True)
        }
        numbers = {row: tied[int(shared.sets[row]), found[row]] for row in labels}
        centers = [
            rows.center([row for row in labels if numbers[row] == number])
            for number in range(max(numbers.values()) + 1)
        ]
        uses = {(int(shared.sets[row]), number) for row, number in numbers.items()}
    assert n_opened


@cache
def searched(name, seed):
    shared = Shared(name, seed, 7)
    return shared, shared.fit(search=True)


@pytest.mark.timeout(20 * len(SEEDS))
@pytest.mark.parametrize("name", KINDS)
def test_the_search_finds_the_best_partition_of_few_rows_and_says_what_it_costs(name):
    ratios = []
    for seed in SEEDS:
        shared, model = searched(name, seed)
        labels = np.asarray(model.labels_)
        assert model.objective_ == pytest.approx(shared.objective(labels), rel=1e-9)
        assert ((labels == OUTLIER) == (shared.rows.factors == 0)).all()
        assert all(after.objective < before.objective for before, after in pairwise(model.history_))
        assert model.objective_ <= shared.fit().objective_
        predicted = model.predict(shared.rows.X, groups=shared.sets)
        assert predicted.tolist() == labels.tolist()
        ratios.append(model.objective_ / shared.optimum())
    assert min(ratios) >= 1 - 1e-9
    assert max(ratios) <= 1.03
    assert np.mean(np.array(ratios) <= 1 + 1e-9) >= 0.97


@settings(max_examples=15)
@given(kinds, seeds)
def test_moves_gain_what_they_promise_and_merges_what_recomputing_gives(name, seed):
    shared = Shared(name, seed, 40)
    mapped = shared.mapped()
    method = mapped.method(search.Method(shared.local / 3, shared.opening / 3, tol=0.0))
    shared.local, shared.opening = method.local_penalty, method.global_penalty
    before = method.init(mapped.source)
    for _ in range(4):
        found = method.statistics(mapped.source, before)
        plan = plan_moves(found)
        after = method.state_after(found, plan, before)
        labels = np.array(labels_of(mapped.source, method, after))
        for center, (partner, gain) in enumerate(zip(*found.merges, strict=True)):
            if np.isfinite(gain):
                merged = np.where(labels == center, partner, labels)
                wanted = shared.objective(labels) - shared.objective(merged)
                assert gain == pytest.approx(wanted, abs=1e-8 * after.objective)
        again = method.statistics(mapped.source, after).sweep
        reached = method.objective(again.moments, len(again.centers))
        assert after.objective - reached >= plan.gain - 1e-9 * after.objective
        before = after


@settings(max_examples=15)
@given(kinds, seeds)
def test_changes_of_single_rows_are_those_of_the_objective(name, seed):
    shared = Shared(name, seed, 9)
    divergence = shared.mapped().divergence
    seen = np.flatnonzero(shared.rows.factors > 0)
    rng = np.random.default_rng(seed)
    labels = np.unique(rng.integers(0, 4, len(seen)), return_inverse=True)[1]
    sets = np.unique(shared.sets[seen], return_inverse=True)[1]
    values = divergence.encoding(shared.rows.X, Scratch())[seen].copy()
    prices = HDPPrices(shared.local, shared.opening)
    members = Members(values, shared.rows.weights[seen], sets, prices, divergence)

    def objective(of_seen):
        whole = np.full(shared.rows.n, OUTLIER)
        whole[seen] = of_seen
        return shared.objective(whole)

    now = objective(labels)
    assert members.objective(labels) == pytest.approx(now)
    for (row, to), change in np.ndenumerate(members.changes(labels)):
        if np.isfinite(change):
            moved = labels.copy()
            moved[row] = to
            assert change == pytest.approx(objective(moved) - now, abs=1e-8 * now)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("searching", [False, True])
def test_chunks_and_threads_do_not_show_in_any_byte(name, searching):
    shared = Shared(name, 5, 60)
    X, weights = shared.rows.X, shared.rows.weights
    model = shared.model(search=searching)
    wanted = figures(model.fit(X, groups=shared.sets, sample_weight=weights))
    for chunks in (7, 60):
        lazy = da.from_array(X, chunks=(chunks, -1))
        found = model.fit(lazy, groups=da.from_array(shared.sets, chunks=11), sample_weight=weights)
        assert isinstance(found.labels_, da.Array)
        assert figures(found) == wanted


def figures(model):
    """The bytes of a fit."""
    arrays = model.cluster_centers_, model.local_clusters_.toarray(), np.asarray(model.labels_)
    return [model.objective_.hex(), *(array.tobytes() for array in arrays)]


@pytest.mark.parametrize("name", ["poisson", "mixed", "categorical missing"])
def test_compiled_loops_do_as_their_twins(name, monkeypatch):
    mapped = Shared(name, 2, 50).mapped(block_rows=16)
    method = mapped.method(search.Method(2.0, 5.0, max_iter=3))
    compiled = [contents(step.state) for step in iterate(mapped.source, method)]
    monkeypatch.setattr("dask_dpmeans.kernels.numba_support.AVAILABLE", False)
    assert [contents(step.state) for step in iterate(mapped.source, method)] == compiled
