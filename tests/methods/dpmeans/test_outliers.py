"""A price for outliers: what moves claim, and the lowest objective of few rows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import DYADIC, TAME, seeds, spread, states_of, tables, weights_of

from dask_dpmeans import InputError
from dask_dpmeans.engine.checkpoints import state_of, values_of
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import SQUARED
from dask_dpmeans.kernels.move_statistics import MoveScan
from dask_dpmeans.kernels.outliers import Candidates
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.kernels.row_exchange import exchange
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.methods.dpmeans.moves import (
    Findings,
    Placement,
    apply_moves,
    gains_of,
    profitable_moves,
)


class Problem:
    """Rows and a pass of them in which some are outliers."""

    def __init__(self, rows, weights, places, penalty, most):
        self.rows, self.penalty, self.most = rows, penalty, most
        self.source = InMemoryRows(rows, weights)
        self.found = self.probe(places)
        weights = np.ones(len(rows)) if weights is None else weights
        squares = (rows.astype(np.float64) ** 2).sum(axis=1)
        self.scale = 1e-9 * (penalty + float(weights @ squares))

    def probe(self, places):
        probing = MoveScan(
            Centers(places.centers, most=self.most), places.children, math.inf, places.candidates
        )
        probe, price = self.source.fold(probing), LinearPrice(self.penalty)
        given = places.centers, places.children, probe, price, SQUARED, places.candidates
        return Findings(*given, self.most)


@st.composite
def problems(draw):
    """Rows, some of them outliers, centers, children and candidates that are near rows."""
    rows = draw(tables(rows=(2, 60), columns=(1, 3), kinds=TAME))
    weights = draw(weights_of(len(rows), (0.0, 0.3, 1.0, 7.7)))
    rng = np.random.default_rng(draw(seeds))
    width = draw(st.sampled_from([0.0, 0.1, 1.0])) * rows.astype(np.float64).std()
    k, m = draw(st.integers(1, 6)), draw(st.integers(0, 4))
    points = rows[rng.integers(len(rows), size=3 * k + m)].astype(np.float64)
    points = points + width * rng.normal(size=points.shape)
    centers, children = points[:k], points[k : 3 * k].reshape(k, 2, -1)
    penalty = draw(st.sampled_from([0.003, 0.03, 0.3, 3.0])) * spread(rows)
    most = draw(st.sampled_from([0.01, 0.1, 1.0])) * spread(rows)
    places = Placement(centers, children, Candidates(points[3 * k :], draw(seeds)))
    return Problem(rows, weights, places, penalty, most)


@settings(max_examples=300)
@given(problems())
def test_moves_gain_no_less_than_they_claim(problem):
    found = problem.found
    moves = profitable_moves(found)
    after = problem.probe(apply_moves(found, moves, np.random.default_rng(0)))
    if found.alive and after.alive:
        before = found.objective - found.shifts.sum()
        assert after.objective <= before - gains_of(found, moves).sum() + problem.scale


@given(problems())
def test_an_opening_among_outliers_gains_what_their_partition_does(problem):
    found, most = problem.found, problem.most
    among, points = found.among_outliers, found.candidates.points
    rows = problem.rows.astype(np.float64)
    each = np.ones(len(rows)) if problem.source.weights is None else problem.source.weights
    squared = ((rows[:, np.newaxis] - found.centers) ** 2).sum(axis=2)
    to_points = ((rows[:, np.newaxis] - points) ** 2).sum(axis=2)
    for number in range(len(points)):
        mine = (squared.min(axis=1) > most) & (to_points[:, number] <= most)
        mine &= to_points.argmin(axis=1) == number
        if each[mine].sum() > 0:
            mean = np.average(rows[mine], axis=0, weights=each[mine])
            errors = ((rows[mine] - mean) ** 2).sum(axis=1)
            saved = each[mine] @ (most - errors)
            assert math.isclose(among.savings[number], saved, rel_tol=1e-9, abs_tol=problem.scale)


def cost(rows, weights, labels, penalty, most):
    """The objective of a partition with outliers, of label -1."""
    parts = [most * weights[labels < 0].sum()]
    for label in np.unique(labels[labels >= 0]):
        mine, each = rows[labels == label], weights[labels == label]
        center = each @ mine / each.sum()
        parts.append(float(each @ ((mine - center) ** 2).sum(axis=1)) + penalty)
    return math.fsum(parts)


@st.composite
def partitions(draw):
    """Rows, weights, labels at first, a penalty and a price of outliers."""
    rows = draw(tables((1, 24), (1, 3), ("grid", "clouds"))).astype(np.float64)
    rng = np.random.default_rng(draw(seeds))
    labels = rng.integers(-1, rng.integers(1, len(rows) + 1), len(rows))
    labels[0] = 0
    penalty, most = (draw(st.sampled_from([0.03, 0.3, 1.0, 3.0])) * spread(rows) for _ in "ab")
    return rows, rng.choice(DYADIC[1:], len(rows)), labels.astype(np.int64), penalty, most


@given(partitions())
def test_rows_move_to_the_outliers_and_back_until_no_move_of_one_row_or_cluster_gains(drawn):
    rows, weights, labels, penalty, most = drawn
    found = exchange(rows, weights, labels, LinearPrice(penalty), 60, SQUARED, most)
    least = cost(rows, weights, found.labels, penalty, most)
    assert found.objective == pytest.approx(least, rel=1e-9, abs=1e-9 * penalty)
    assert least <= cost(rows, weights, labels, penalty, most) * (1 + 1e-12)
    assert (found.labels >= 0).any()
    for row in range(len(rows)):
        for label in {-1, *found.labels.tolist(), int(found.labels.max()) + 1}:
            other = found.labels.copy()
            other[row] = label
            if (other >= 0).any():
                assert cost(rows, weights, other, penalty, most) >= least - 1e-7 * penalty
    for label in found.labels:
        other = np.where(found.labels == label, -1, found.labels)
        if (other >= 0).any():
            assert cost(rows, weights, other, penalty, most) >= least - 1e-7 * penalty


@given(partitions())
def test_compiled_loops_and_numpy_move_the_same_rows_among_outliers(drawn):
    rows, weights, labels, penalty, most = drawn
    given_rows = rows, weights, labels, LinearPrice(penalty), 60, SQUARED, most
    found = exchange(*given_rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        other = exchange(*given_rows)
    assert found.labels.tolist() == other.labels.tolist()
    assert (found.objective, found.passes) == (other.objective, other.passes)


def lowest(rows, weights, penalty, most):
    """The least objective of all partitions with a set of outliers and at least one cluster."""
    heavy = weights > 0
    rows, weights = rows[heavy].astype(np.float64), weights[heavy]
    rows = rows - np.average(rows, axis=0, weights=weights)
    sets = 1 << len(rows)
    inside = (np.arange(sets)[:, np.newaxis] >> np.arange(len(rows)) & 1).astype(float)
    totals, sums = inside @ weights, inside @ (weights[:, np.newaxis] * rows)
    squares = inside @ (weights * (rows**2).sum(axis=1))
    errors = squares - (sums**2).sum(axis=1) / np.where(totals > 0, totals, 1.0)
    costs, alone = (np.maximum(errors, 0.0) + penalty).tolist(), (totals * most).tolist()
    least = [0.0] * sets
    for whole in range(1, sets):
        first = whole & -whole
        rest = part = whole ^ first
        least[whole] = least[rest] + alone[first]
        while True:
            least[whole] = min(least[whole], costs[first | part] + least[rest ^ part])
            if not part:
                break
            part = (part - 1) & rest
    return min(costs[some] + least[sets - 1 ^ some] for some in range(1, sets))


def drawn_problem(number):
    """Rows, weights, a penalty and a price of outliers."""
    rng = np.random.default_rng([number, 77])
    n, d, kind = rng.integers(4, 9), rng.integers(1, 4), number % 5
    rows = rng.normal(size=(n, d))
    if kind == 1:
        rows = rng.standard_cauchy((n, d))
    elif kind == 2:
        rows = rng.integers(1, 5, (n, d)).astype(float)
    elif kind == 3:
        rows = rng.normal(size=(3, d))[rng.integers(3, size=n)] + 0.2 * rows
    elif kind == 4:
        rows = rows[:, :1] * rng.normal(size=(1, d))
    weights = rng.uniform(0.1, 3.0, n) if rng.random() < 0.5 else np.ones(n)
    penalty = 10 ** rng.uniform(-2.5, 0.0) * spread(rows) * weights.sum()
    if number % 2:
        return rows, weights, penalty, 10 ** rng.uniform(-2.0, 0.5) * penalty / weights.max()
    return rows, weights, penalty, 10 ** rng.uniform(-2.0, 0.3) * spread(rows)


def test_searches_with_outliers_reach_the_optimum_of_few_rows():
    """Of 400 others, drawn alike with up to 9 rows, all but one did, at 1.0003 of it."""
    ratios, some = [], 0
    for number in range(90):
        rows, weights, penalty, most = drawn_problem(number)
        states = states_of(
            InMemoryRows(rows, weights), search.Method(penalty, seed=1, outlier_penalty=most)
        )
        some += states[-1].outlier_weight > 0
        ratios.append(states[-1].objective / lowest(rows, weights, penalty, most))
    assert some > 40
    assert min(ratios) >= 1 - 1e-9
    assert np.mean(np.array(ratios) <= 1 + 1e-9) >= 0.97
    assert max(ratios) <= 1.03


def noisy(seed, n=600):
    rng = np.random.default_rng(seed)
    middles = 10 * rng.normal(size=(6, 2))
    rows = middles[rng.integers(6, size=n)] + rng.normal(size=(n, 2))
    return np.concatenate([rows, rng.uniform(-30, 30, (n // 10, 2))])


@pytest.mark.parametrize("exchanged", [0, search.EXCHANGES_BELOW])
@pytest.mark.parametrize("seed", range(4))
def test_the_objective_never_rises_and_is_that_of_the_centers(seed, exchanged, monkeypatch):
    monkeypatch.setattr(search, "EXCHANGES_BELOW", exchanged)
    source = InMemoryRows(noisy(seed), None)
    method = search.Method(300.0, seed=seed, outlier_penalty=12.0)
    states = states_of(source, method)
    objectives = [state.objective for state in states]
    assert objectives == sorted(objectives, reverse=True)
    for state in states:
        assert method.score(source, state) == pytest.approx(state.objective, rel=1e-12)
    assert 5 <= len(states[-1].centers) <= 6
    assert 40 <= states[-1].outlier_weight <= 70


def test_a_stopped_search_goes_on_to_the_same_bytes():
    source = InMemoryRows(noisy(1), None)
    method = search.Method(300.0, seed=5, outlier_penalty=12.0)
    states = states_of(source, method)
    for state in (states[0], states[len(states) // 2]):
        saved = state_of(search.State, values_of(state))
        *_, end = iterate(source, method, saved)
        assert end.state.centers.tobytes() == states[-1].centers.tobytes()
        assert end.state.objective == states[-1].objective


@pytest.mark.parametrize("share", [1e-12, 1e-3])
def test_a_cluster_stays_where_every_row_is_far_from_the_first_center(share):
    rows = np.array([[0.0, 0.0], [0.0, 100.0], [100.0, 0.0], [100.0, 100.0]])
    method = search.Method(1000.0, outlier_penalty=1e4 * share, centers=np.full((1, 2), 50.0))
    end = states_of(InMemoryRows(rows, None), method)[-1]
    assert (len(end.centers), end.outlier_weight) == (1, 3.0)


def test_outliers_need_a_search():
    with pytest.raises(
        InputError, match=r"outlier_penalty and outlier_share need search=True: .* is a radius"
    ):
        batch.Method(4.0, outlier_penalty=1.0)


def test_a_cluster_among_outliers_is_found():
    """50 rows far from the first centers, which no split can reach."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(100, 2)), 100 + rng.normal(size=(50, 2))])
    method = search.Method(100.0, outlier_penalty=20.0, centers=np.zeros((1, 2)))
    end = states_of(InMemoryRows(rows, None), method)[-1]
    assert (len(end.centers), end.outlier_weight) == (2, 0.0)
