import math
from itertools import pairwise
from unittest import mock

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optimum import labelings
from strategies import (
    chunkings,
    contents,
    groupings,
    labels_of,
    seeds,
    spread,
    states_of,
    tables,
    weights_of,
)

from dask_dpmeans import HDPMeans, reference
from dask_dpmeans.engine.history import MoveCounts
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.errors import TooManyClustersError
from dask_dpmeans.methods.dpmeans import row_exchange, search, short_searches
from dask_dpmeans.methods.hdp import batch, moves
from dask_dpmeans.methods.hdp import search as hdp_search
from dask_dpmeans.methods.hdp.moves import plan_moves, ties_after, ties_after_merge, trial_moves
from dask_dpmeans.methods.hdp.search import Method
from dask_dpmeans.methods.hdp.state import Move
from dask_dpmeans.sources import as_source

FEWER = settings(max_examples=8)


@st.composite
def fits(draw, most=60):
    """Rows, at most so many, weights and groups, as a source and a method."""
    rows = draw(tables(rows=(5, most), kinds=("grid", "clouds", "offset")))
    weights = draw(weights_of(len(rows), (0.0, 0.3, 1.0, 7.7)))
    groups = draw(groupings(len(rows)))
    source = as_source(
        rows, weights, groups=groups, threads=1, block_rows=2 ** draw(st.integers(0, 5))
    )
    price = draw(st.sampled_from([0.03, 0.3, 3.0])) * spread(rows)
    method = Method(
        price * draw(st.sampled_from([0.1, 1.0])),
        price,
        tol=draw(st.sampled_from([0.0, 1e-3])),
        max_iter=40,
    )
    return rows, weights, groups, source, method


@FEWER
@given(fits(most=32))  # whole searches
def test_the_objective_falls_and_belongs_to_the_labels(fit):
    rows, weights, groups, source, method = fit
    each = np.ones(len(rows)) if weights is None else weights
    states = states_of(source, method)
    objectives = [math.inf, *(state.objective for state in states)]
    assert all(after < before for before, after in pairwise(objectives[:-1]))
    assert objectives[-1] <= objectives[-2]
    for state in states:
        labels = labels_of(source, method, state)
        found = reference.Shared(labels, state.centers.tolist(), set(), [])
        prices = method.local_penalty, method.global_penalty
        wanted = reference.hdp_objective(
            rows.tolist(), groups.tolist(), *prices, found, each.tolist()
        )
        assert state.objective == pytest.approx(wanted, rel=1e-9)


@FEWER
@given(fits())
def test_moves_gain_what_they_promise(fit):
    """The next pass, at the centers and uses planned, is lower by at least the sum of what moves are to gain."""
    _, _, _, source, method = fit
    before = method.init(source)
    for _ in range(6):
        found = method.statistics(source, before)
        plan = plan_moves(found)
        after = method.state_after(found, plan, before)
        again = method.statistics(source, after).sweep
        reached = method.objective(again.moments, len(again.centers))
        assert plan.gain >= 0
        assert after.objective - reached >= plan.gain - 1e-9 * max(
            after.objective, method.global_penalty
        )
        before = after


def test_a_use_is_not_given_up_for_one_that_has_lost_its_rows():
    """One merge and one delete of the second pass promised a gain of 10 and gained 0.2."""
    rows = [[1, -2, -3], [2, 1, 1], [-1, 4, -2], [1, 1, 0], [2, 4, -2], [-3, -3, -1], [2, -3, 0]]
    rows += [[-1, 0, -4], [-1, 4, -4], [1, -2, 2], [1, 2, 1], [2, 4, -4], [1, 4, -3], [-2, 4, 1]]
    rows += [[1, 2, -3], [2, 4, -3]]
    groups = np.array([1, 1, 2, 0, 1, 2, 2, 0, 1, 1, 0, 1, 0, 2, 2, 1])
    source = as_source(np.array(rows, np.float64), groups=groups, threads=1)
    method = Method(7.0, 7.0, tol=0.0)
    before, shrunk = method.init(source), 0
    for _ in range(4):
        found = method.statistics(source, before)
        shrunk += len(found.sweep.shrunk)
        plan = plan_moves(found)
        after = method.state_after(found, plan, before)
        again = method.statistics(source, after).sweep
        reached = method.objective(again.moments, len(again.centers))
        assert after.objective - reached >= plan.gain - 1e-9 * after.objective
        before = after
    assert shrunk


@FEWER
@given(fits())
def test_gains_of_single_moves_are_those_of_the_partition(fit):
    """A merge or a split changes eq. 2 of the partition, about its means, by what it is said to gain."""
    _, _, _, source, method = fit
    before = method.init(source)
    for _ in range(3):
        found = method.statistics(source, before)
        swept, prices = found.sweep, method.prices

        def cost(tied, found=found, prices=prices):
            """Of the moments of halves of uses alone: their own squared errors about their means cancel."""
            pairs, total = set(), 0.0
            for center in set(tied[found.halves.weights > 0].tolist()):
                which = (tied == center) & (found.halves.weights > 0)
                weights, means = found.halves.weights[which], found.half_means[which]
                mean = weights @ means / weights.sum()
                total += float(weights @ ((means - mean) ** 2).sum(axis=1)) + prices.opening
                pairs |= {(group, center) for group in found.groups[which.any(axis=1)].tolist()}
            return total + prices.local * len(pairs)

        now, scale = cost(found.tied), 1e-9 * (spread(swept.moments.means) + prices.both) * found.m
        for center in range(found.g):
            partner, gain = int(found.merges.partners[center]), found.merges.gains[center]
            if np.isfinite(gain):
                assert partner < center
                others = [
                    now - cost(ties_after_merge(found, center, other)) for other in range(center)
                ]
                assert gain == pytest.approx(max(others), abs=scale)
                assert now - cost(ties_after_merge(found, center, partner)) == pytest.approx(
                    gain, abs=scale
                )
            if np.isfinite(found.splits.gains[center]):
                halved = ties_after(found, Move.SPLIT, center, found.g)
                assert now - cost(halved) == pytest.approx(found.splits.gains[center], abs=scale)
                assert {center, found.g} <= set(halved[found.halves.weights > 0].tolist())
            if np.isfinite(found.deletes[center]):
                gone, others = ties_after(found, Move.DELETE, center, found.g), found.tied != center
                assert center not in gone
                assert (gone[others] == found.tied[others]).all()
        before = method.state_after(found, plan_moves(found), before)


@FEWER
@given(fits(most=32), st.data())  # whole searches
def test_the_same_bytes_for_any_chunks_and_threads(fit, data):
    rows, weights, groups, source, method = fit
    chunks = data.draw(chunkings(len(rows), empty=False))
    lazy = [
        None if array is None else da.from_array(array, chunks=(chunks, -1)[: array.ndim])
        for array in (rows, weights, groups)
    ]
    block_rows = source.plan.block_rows
    others = [
        as_source(
            rows, weights, groups=groups, threads=2, memory_limit=2000, block_rows=block_rows
        ),
        as_source(lazy[0], lazy[1], groups=lazy[2], threads=2, block_rows=block_rows),
    ]
    with mock.patch.multiple(
        moves, MAX_CLOSINGS=4, MAX_SPLITS=4
    ):  # most of the time goes into trials that fail
        wanted = [contents(state) for state in states_of(source, method)]
        for other in others:
            assert [contents(state) for state in states_of(other, method)] == wanted


@FEWER
@given(fits(most=32))  # whole searches
def test_a_search_goes_on_from_any_step_to_the_same_end(fit):
    *_, source, method = fit
    with mock.patch.multiple(moves, MAX_CLOSINGS=4, MAX_SPLITS=4):
        steps = list(iterate(source, method))
        middle = steps[len(steps) // 2]
        rest = list(iterate(source, method, middle.state))
    if not middle.converged:
        assert [contents(step.state) for step in rest] == [
            contents(step.state) for step in steps[len(steps) // 2 + 1 :]
        ]


@pytest.mark.parametrize("seed", range(3))
def test_it_ends_far_below_algorithm_2(seed):
    rng = np.random.default_rng(seed)
    means = rng.uniform(0, 1, (15, 2))
    truth = np.concatenate([np.repeat(rng.choice(15, 5, replace=False), 5) for _ in range(50)])
    rows, groups = means[truth] + rng.normal(0, 0.1, (1250, 2)), np.repeat(np.arange(50), 25)
    source = as_source(rows, groups=groups)
    *_, plain = states_of(source, batch.Method(0.08, 0.2))
    *_, searched = states_of(source, Method(0.08, 0.2))
    planted = np.array([rows[truth == p].mean(axis=0) for p in range(15)])
    inertia = ((rows - planted[truth]) ** 2).sum()
    assert searched.objective < 0.95 * plain.objective
    assert searched.objective < inertia + 0.08 * 250 + 0.2 * 15


def test_rows_beyond_the_limit_see_no_trials(monkeypatch):
    monkeypatch.setattr(
        hdp_search, "EXCHANGE_ROWS", 0
    )  # so that a search without trials ends where these begin
    rng = np.random.default_rng(3)
    source = as_source(rng.normal(size=(200, 2)), groups=rng.integers(0, 9, 200))
    with_trials = states_of(source, Method(0.5, 2.0))
    assert any(np.array(state.moves)[3:].any() for state in with_trials)
    monkeypatch.setattr(hdp_search, "TRIAL_ROWS", 199)
    without = states_of(source, Method(0.5, 2.0))
    assert not any(np.array(state.moves)[3:].any() for state in without)
    assert with_trials[-1].objective <= without[-1].objective


@FEWER
@given(fits())
def test_trials_change_what_halves_of_uses_are_tied_to(fit):
    *_, source, method = fit
    found = method.statistics(source, method.init(source))
    for trial in trial_moves(found, -math.inf):
        changed = ties_after(found, trial.move, trial.center, found.g)
        assert trial.counted_as in (MoveCounts(openings=1), MoveCounts(closings=1))
        assert (changed != found.tied)[found.halves.weights > 0].any()
        assert changed.max() <= found.g


@pytest.mark.parametrize("seed", [5113, 5126, 6289])
def test_a_pass_with_deletes_and_splits_does_not_lose(seed, monkeypatch):
    """Where a set gives a use up all its centers stay; so none of these may be split or merged in the same pass."""
    monkeypatch.setattr(hdp_search, "TRIAL_ROWS", 0)
    rng = np.random.default_rng(seed)
    n, d, n_groups = int(rng.integers(20, 300)), int(rng.integers(1, 3)), int(rng.integers(2, 12))
    centers = rng.uniform(0, 1, (15, d)) * 20
    rows = centers[rng.integers(0, 15, n)] + rng.normal(size=(n, d)) * rng.choice([0.3, 1, 2])
    groups = rng.integers(0, n_groups, n)
    weights = rng.choice([0.05, 1, 5.0], n) if rng.random() < 0.5 else None
    prices = float(np.exp(rng.normal()) * 4), float(np.exp(rng.normal()) * 6)
    source, method = as_source(rows, weights, groups=groups, threads=1), Method(*prices, tol=0.0)
    before = method.init(source)
    for _ in range(40):
        after = method.step(source, before)
        assert after.objective <= before.objective * (1 + 1e-12)
        if method.done(before, after):
            break
        before = after


def optimum(rows, weights, groups, local_penalty, global_penalty):
    """The least of eq. 2 over all partitions: each set uses the clusters that its rows of weight are in."""
    rows, groups = rows[weights > 0], groups[weights > 0]
    weights, labels = weights[weights > 0], labelings(int((weights > 0).sum()))
    costs = np.zeros(len(labels))
    for cluster in range(len(rows)):
        members = labels == cluster
        mass = members @ weights
        means = (members * weights) @ rows / np.where(mass > 0, mass, 1.0)[:, np.newaxis]
        squared = ((rows - means[:, np.newaxis]) ** 2).sum(axis=2)
        costs += (members * weights * squared).sum(axis=1) + global_penalty * members.any(axis=1)
        for group in set(groups.tolist()):
            costs += local_penalty * members[:, groups == group].any(axis=1)
    return costs.min()


def tiny_fit(seed):
    """Up to 7 rows of up to three sets: grids, clouds, and rows far from the origin; weights, and any penalties."""
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, 8)), int(rng.choice([1, 1, 2, 2, 5]))
    rows = [
        rng.integers(0, 6, shape).astype(float),
        rng.random(shape),
        3 * rng.integers(0, 3, shape) + rng.normal(size=shape) / 2,
        1e3 + rng.normal(size=shape),
    ][rng.integers(4)]
    groups, weights = rng.integers(0, rng.integers(1, 4), len(rows)), np.ones(len(rows))
    if rng.random() < 0.3:
        weights = rng.choice([0.0, 0.3, 1.0, 7.7], len(rows))
        weights[rng.integers(len(rows))] = 1.0
    scale = float(weights @ ((rows - weights @ rows / weights.sum()) ** 2).sum(axis=1)) or 1.0
    penalties = scale * np.exp(rng.uniform(np.log(0.003), np.log(0.6), 2))
    return rows, weights, groups, *penalties.tolist()


def end_of(method, rows, weights, groups):
    """Eq. 2 where a method ends."""
    return states_of(as_source(rows, weights, groups=groups, threads=1), method)[-1].objective


def test_it_ends_at_the_lowest_of_all_partitions():
    """Nearly always, and never far above it or above Algorithm 2."""
    ratios = []
    for seed in range(100):
        rows, weights, groups, *penalties = tiny_fit(seed)
        found = end_of(Method(*penalties), rows, weights, groups)
        assert found <= end_of(batch.Method(*penalties), rows, weights, groups)
        ratios.append(found / optimum(rows, weights, groups, *penalties))
    assert min(ratios) > 1 - 1e-9
    assert max(ratios) < 1.1
    assert np.mean(np.array(ratios) < 1 + 1e-9) >= 0.97


@settings(max_examples=20)
@given(seeds, st.integers(1, 4), st.sampled_from([0.0, 1e-4, 0.1]))
def test_it_is_never_above_algorithm_2_nor_one_set_above_its_own_search(seed, n_groups, tol):
    rng = np.random.default_rng(seed)
    rows = 3.0 * rng.integers(0, 4, (int(rng.integers(8, 120)), 2))
    rows += rng.normal(size=rows.shape)
    groups, weights = rng.integers(0, n_groups, len(rows)), None
    if rng.random() < 0.3:
        weights = rng.choice([0.0, 0.3, 1.0, 7.7], len(rows))
        weights[0] = 1.0
    penalties = np.exp(rng.uniform(-2, 4, 2)).tolist()
    found = end_of(Method(*penalties, tol=tol, seed=seed), rows, weights, groups)
    assert found <= end_of(batch.Method(*penalties, tol=tol), rows, weights, groups)
    if n_groups == 1:
        alone = search.Method(sum(penalties), tol=tol, seed=seed)
        assert found <= end_of(alone, rows, weights, groups) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("rows", "copies", "penalties", "most"),
    [
        (np.repeat([[0.0], [2.0]], 3, axis=0), 1, (1.0, 1.0), 4.0),
        (np.repeat([[0.0], [2.0]], 3, axis=0), 2, (1.0, 1.0), 6.0),
        (np.tile([[-1.0, 0.0], [1.0, 0.0]], (1000, 1)), 1, (50.0, 50.0), 200.0),
        (np.tile([[-1.0, 0.0], [1.0, 0.0]], (1000, 1)), 3, (50.0, 50.0), 400.0),
    ],
)
def test_clusters_that_all_sets_use_are_found(rows, copies, penalties, most):
    """Only a split of a center by its rows leads there: its uses have equal means."""
    groups = np.repeat(np.arange(copies), len(rows))
    assert end_of(Method(*penalties), np.tile(rows, (copies, 1)), None, groups) == pytest.approx(
        most
    )


@pytest.mark.parametrize(("n_groups", "used"), [(1, 5), (2, 5), (5, 5), (20, 5), (10, 12)])
def test_gaussians_that_sets_share_are_found(n_groups, used):
    rng = np.random.default_rng(n_groups)
    means = rng.normal(0, 5, (12, 4))
    truth = np.concatenate(
        [rng.choice(12, used, replace=False)[rng.integers(0, used, 200)] for _ in range(n_groups)]
    )
    rows, groups = (
        means[truth] + rng.normal(0, 0.5, (len(truth), 4)),
        np.repeat(np.arange(n_groups), 200),
    )
    _, numbers = np.unique(truth, return_inverse=True)
    centers = [rows[numbers == p].mean(axis=0).tolist() for p in range(numbers.max() + 1)]
    found = reference.Shared(numbers.tolist(), centers, set(), [])
    planted = reference.hdp_objective(
        rows.tolist(), groups.tolist(), 20.0, 200.0, found, [1.0] * len(rows)
    )
    assert end_of(Method(20.0, 200.0), rows, None, groups) <= 1.001 * planted


def test_starts_and_splits_without_hope_cost_few_passes():
    """94 passes; 184 where every start went on for twelve passes and every split was tried."""
    rng = np.random.default_rng(0)
    means = rng.normal(0, 5, (30, 4))
    sets = [means[rng.integers(30, size=2500)] + rng.normal(0, 0.5, (2500, 4)) for _ in range(20)]
    model = HDPMeans(100.0, 1000.0, search=True, random_state=0).fit(sets)
    assert model.n_clusters_ == 30
    assert model.n_passes_ <= 100


def test_searches_of_all_rows_as_one_set_take_no_kicks_where_there_are_several_sets(monkeypatch):
    kicks = []
    monkeypatch.setattr(
        row_exchange, "kick", lambda apart, labels, *_, **__: kicks.append(len(labels)) or labels
    )
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 2))
    monkeypatch.setattr(short_searches, "SHORT_BELOW", 0)
    monkeypatch.setattr(search, "NARROW", 0)
    HDPMeans(0.5, 2.0, search=True, random_state=0).fit([rows[:50], rows[50:]])
    assert not kicks
    HDPMeans(0.5, 2.0, search=True, random_state=0).fit([rows])
    assert kicks


@pytest.mark.parametrize(("limit", "exchanges"), [(0, False), (2**20, True)])
def test_exchanges_are_left_out_where_there_are_too_many_differences(monkeypatch, limit, exchanges):
    seen = []
    monkeypatch.setattr(hdp_search, "EXCHANGE_WORK", limit)
    monkeypatch.setattr(
        hdp_search, "exchange_rows", lambda members, labels: seen.append(len(labels)) or labels
    )
    rng = np.random.default_rng(0)
    states_of(as_source(rng.normal(size=(60, 2)), groups=rng.integers(0, 3, 60)), Method(0.5, 2.0))
    assert bool(seen) == exchanges


def test_what_is_tried_may_make_too_many_clusters():
    rows, groups = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 4
    source = as_source(rows, groups=groups)
    most = max(len(state.centers) for state in states_of(source, batch.Method(0.5, 1.0)))
    *_, free = states_of(source, Method(0.5, 1.0))
    *_, limited = states_of(source, Method(0.5, 1.0, max_clusters=most))
    assert len(free.centers) < most
    assert limited.objective == free.objective
    with pytest.raises(TooManyClustersError, match="max_clusters=3"):
        states_of(source, Method(0.5, 1.0, max_clusters=3))
