"""Costs, merges and moves of single rows from averages of encoded rows are what recomputing row by row gives."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_cases import CASES
from strategies import seeds

from dask_dpmeans.kernels.answers import GatheredRows
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.distance import Centers, costs, nearest_squared, nearest_two
from dask_dpmeans.kernels.divergence import SquaredEuclidean
from dask_dpmeans.kernels.encoded import EncodedDivergence
from dask_dpmeans.kernels.encoding import Encoding, Layout
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans import row_exchange
from dask_dpmeans.methods.dpmeans.row_exchange import costs_with, exchange_and_kick

ENCODED = {
    case.name: case
    for case in CASES
    if case.divergence != "cosine" and case.parameters and not case.outliers and not case.discount
}
"""Kinds of tables whose rows are encoded."""


class Encoded:
    """Rows of a case, encoded by what the reference has learned of them, in clusters drawn at random."""

    def __init__(self, name, seed, n=24, k=4):
        case = ENCODED[name]
        self.rows = rows = case.instance(seed, n).rows
        names = case.kinds if isinstance(case.kinds, tuple) else (case.kinds,) * rows.X.shape[1]
        means = np.nan_to_num(np.concatenate([block.everywhere for block in rows.blocks]))
        numbers = [block.values.shape[1] * (block.kind == "categorical") for block in rows.blocks]
        scales = [block.scale for block in rows.blocks]
        if case.divergence == "multinomial":
            numbers, scales = [0] * len(names), [1.0] * len(names)
        layout = Layout(tuple(names), tuple(numbers))
        encoding = Encoding.of(layout, means, np.array(scales), 0.1, case.missing)
        self.divergence = EncodedDivergence(encoding)
        self.values = encoding(rows.X, Scratch())[:n].copy()
        seen = np.flatnonzero(rows.factors > 0)
        labels = np.full(n, -1)
        labels[seen] = np.random.default_rng(seed).permutation(np.arange(len(seen)) % k)
        self.clusters = [np.flatnonzero(labels == c) for c in range(k)]
        self.seen, self.weights = seen, rows.weights

    def averages(self, clusters):
        """Averages of encoded rows, (k, n_features)."""
        pairs = [(self.weights[each], self.values[each]) for each in clusters]
        return np.stack([weights @ values / weights.sum() for weights, values in pairs])

    def masses(self, clusters):
        return np.array([self.weights[each].sum() for each in clusters])

    def centers(self):
        return [self.rows.center(each) for each in self.clusters]

    def rise(self, first, second):
        """The rise of the cost if two clusters become one, recomputed."""
        inertia = self.rows.inertia
        return inertia([*first, *second]) - inertia(first) - inertia(second)


names = st.sampled_from(sorted(ENCODED))


@given(names, seeds)
def test_rows_are_as_far_apart_as_a_cluster_of_both_costs(name, seed):
    case = Encoded(name, seed)
    rows = replace(case.rows, weights=np.ones(case.rows.n))
    row = case.seen[seed % len(case.seen)]
    found = costs_with(row, case.values, case.divergence)
    wanted = [rows.inertia([row, other]) for other in case.seen]
    np.testing.assert_allclose(found[case.seen], wanted, rtol=1e-9, atol=1e-12)


@given(names, seeds)
def test_costs_of_encoded_rows_are_those_of_the_rows(name, seed):
    case = Encoded(name, seed)
    averages = case.averages(case.clusters)
    wanted = case.rows.costs(case.centers())
    found = case.divergence.costs_to_all(case.values, averages)
    np.testing.assert_allclose(found[case.seen], wanted[case.seen], rtol=1e-9, atol=1e-12)
    labels = np.arange(case.rows.n) % len(averages)
    of_labels = costs(case.values, Centers(averages, case.divergence), labels)
    at_labels = wanted[np.arange(case.rows.n), labels]
    np.testing.assert_allclose(of_labels, at_labels, rtol=1e-9, atol=1e-12)


@given(names, seeds)
def test_the_cheapest_centers_of_encoded_rows_are_those_of_the_rows(name, seed):
    case = Encoded(name, seed)
    centers = Centers(case.averages(case.clusters), case.divergence)
    wanted = case.rows.costs(case.centers())
    order = np.sort(wanted, axis=1)
    first, second = nearest_two(case.values, centers)
    labels, least = nearest_squared(case.values, centers)
    every = np.arange(case.rows.n)
    np.testing.assert_allclose(wanted[every, first], order[:, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(wanted[every, second], order[:, 1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(least, order[:, 0], rtol=1e-9, atol=1e-12)
    assert labels.tolist() == first.tolist()
    assert (first != second).all()


@given(names, seeds)
def test_what_a_merge_costs_is_what_recomputing_gives(name, seed):
    case = Encoded(name, seed)
    averages, masses = case.averages(case.clusters), case.masses(case.clusters)
    pairs = [(0, 1), (1, 2), (3, 0)]
    found = case.divergence.rises(
        np.array([masses[list(pair)] for pair in pairs]),
        np.array([averages[list(pair)] for pair in pairs]),
    )
    wanted = [case.rise(case.clusters[a], case.clusters[b]) for a, b in pairs]
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@given(names, seeds)
def test_what_moves_of_one_row_cost_is_what_recomputing_gives(name, seed):
    case = Encoded(name, seed)
    moved = [int(each[0]) for each in case.clusters]
    rest = [each[1:] for each in case.clusters]
    one, values = case.weights[moved], case.values[moved]
    found = case.divergence.joining(values, one, case.masses(rest), case.averages(rest))
    wanted = [[case.rise([row], each) for each in rest] for row in moved]
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    whole = case.masses(case.clusters), case.averages(case.clusters)
    falls = case.divergence.leaving(values, one, *whole)
    np.testing.assert_allclose(falls, np.diag(wanted), rtol=1e-7, atol=1e-9)


@given(names, seeds)
def test_a_merge_is_found_wherever_one_gains(name, seed):
    case = Encoded(name, seed)
    masses, averages = case.masses(case.clusters), case.averages(case.clusters)
    rises = np.array(
        [[case.rise(a, b) if a is not b else np.inf for b in case.clusters] for a in case.clusters]
    )
    for saved in np.quantile(rises[np.isfinite(rises)], [0.2, 0.6]).tolist():
        best = case.divergence.partners(masses, averages, saved)
        gains = saved - rises[np.arange(len(best)), best]
        assert (gains.max() > -1e-9) == (saved - rises.min() > -1e-9)


@given(names, seeds)
def test_no_center_of_encoded_rows_is_better_than_their_average(name, seed):
    case = Encoded(name, seed)
    averages = case.averages(case.clusters)
    totals = np.array(
        [
            case.weights[each] @ case.divergence.costs_to_all(case.values[each], averages)
            for each in case.clusters
        ]
    )
    assert (np.diag(totals)[:, np.newaxis] <= totals * (1 + 1e-9) + 1e-9).all()


@pytest.mark.parametrize("name", sorted(ENCODED))
def test_centers_are_shown_in_units_of_the_input_and_are_taken_back(name):
    case = Encoded(name, 3)
    averages = case.averages(case.clusters)
    shown = case.divergence.shown(averages)
    again = case.divergence.given(shown)
    if name == "multinomial missing":  # shares of what each row has do not add up to 1
        shares = shown / shown.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(case.divergence.shown(again), shares, rtol=1e-9, atol=1e-12)
        return
    np.testing.assert_allclose(case.divergence.shown(again), shown, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        case.divergence.costs_to_all(case.values, again),
        case.divergence.costs_to_all(case.values, averages),
        rtol=1e-9,
        atol=1e-9,
    )
    if name in ("poisson", "bernoulli", "itakura-saito"):
        plain = [
            np.average(case.rows.X[each], axis=0, weights=case.weights[each])
            for each in case.clusters
        ]
        np.testing.assert_allclose(shown, plain, rtol=1e-9, atol=1e-12)


def test_rows_with_nothing_observed_have_no_label_among_encoded_rows():
    case = Encoded("squared missing", 0, n=60)
    unlabeled = case.divergence.unlabeled(case.values)
    assert unlabeled.any()
    assert unlabeled.tolist() == (case.rows.factors == 0).tolist()
    assert Encoded("poisson", 0).divergence.unlabeled(Encoded("poisson", 0).values) is None


WHOLE = [name for name in sorted(ENCODED) if ENCODED[name].missing == "error"]
"""Kinds without missing values, which are not equal to each other."""


@pytest.mark.parametrize("name", WHOLE)
@given(seed=seeds)
def test_rows_that_are_equal_move_together(name, seed) -> None:
    case = Encoded(name, seed)
    few = case.seen[:6]
    numbers = np.random.default_rng(seed).integers(len(few), size=20)
    rows, weights = case.values[few][numbers], case.weights[few][numbers]
    firsts = [
        place for place, row in enumerate(rows) if not (rows[:place] == row).all(axis=1).any()
    ]
    different = rows[firsts]
    summed = np.array([weights[(rows == row).all(axis=1)].sum() for row in different])
    costs = LinearPrice(0.3), case.divergence, np.inf
    ends = []
    for each, weight in ((rows, weights), (different, summed)):
        gathered = GatheredRows(each, weight, np.zeros(len(each), np.int64))
        ends.append(exchange_and_kick(gathered, rows[:2], costs, np.random.default_rng(0), kicks=8))
    np.testing.assert_allclose(*ends, rtol=1e-12)


def test_kicks_that_lead_to_the_same_clusters_are_followed_once(monkeypatch):
    """Six rows have few clusterings: what follows a kick is what followed the same one before."""
    rows, weights = np.random.default_rng(0).normal(size=(6, 2)), np.ones(6)
    gathered = GatheredRows(rows, weights, np.zeros(6, np.int64))
    rule, starts = (LinearPrice(0.3), SquaredEuclidean(), np.inf), []
    real = row_exchange.exchange
    monkeypatch.setattr(
        row_exchange, "exchange", lambda *given: starts.append(given[2].tobytes()) or real(*given)
    )
    found = exchange_and_kick(gathered, rows[:2], rule, np.random.default_rng(0), kicks=500)
    assert len(starts) == len(set(starts)) < 250
    labels = nearest_squared(rows, Centers(found))[0]
    assert len(set(labels.tolist())) == len(found)
