import math
from itertools import pairwise
from unittest import mock

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chunkings, contents, groupings, labels_of, spread, tables, weights_of

from dask_dpmeans import reference
from dask_dpmeans.algorithms import hdp, hdp_search
from dask_dpmeans.algorithms.hdp import sweep
from dask_dpmeans.algorithms.hdp_search import Findings, Method, Trading, deleted, divided, merged, planned, trials
from dask_dpmeans.loop import iterate
from dask_dpmeans.sources import as_source

FEWER = settings(max_examples=8)


@st.composite
def fits(draw):
    """Rows, weights and groups, as a source and a method."""
    rows = draw(tables(rows=(5, 60), kinds=("grid", "clouds", "offset")))
    weights = draw(weights_of(len(rows), (0.0, 0.3, 1.0, 7.7)))
    groups = draw(groupings(len(rows)))
    source = as_source(rows, weights, groups=groups, threads=1, block_rows=2 ** draw(st.integers(0, 5)))
    price = draw(st.sampled_from([0.03, 0.3, 3.0])) * spread(rows)
    method = Method(
        price * draw(st.sampled_from([0.1, 1.0])), price, tol=draw(st.sampled_from([0.0, 1e-3])), max_iter=40
    )
    return rows, weights, groups, source, method


def states_of(source, method):
    return [step.state for step in iterate(source, method)]


@FEWER
@given(fits())
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
        wanted = reference.hdp_objective(rows.tolist(), groups.tolist(), *prices, found, each.tolist())
        assert state.objective == pytest.approx(wanted, rel=1e-9)


@FEWER
@given(fits())
def test_moves_gain_what_they_promise(fit):
    """The next pass, at the centers and uses planned, is lower by at least the sum of what moves are to gain."""
    _, _, _, source, method = fit
    before = method.init(source)
    for _ in range(6):
        found = Findings(sweep(method, source, before, Trading), method.prices)
        plan = planned(found)
        after = method._after(found, plan, before)
        again = sweep(method, source, after, Trading)
        reached = method.objective(again.moments, len(again.centers))
        assert plan.gain >= 0
        assert after.objective - reached >= plan.gain - 1e-9 * max(after.objective, method.global_penalty)
        before = after


@FEWER
@given(fits())
def test_gains_of_single_moves_are_those_of_the_partition(fit):
    """A merge or a split changes eq. 2 of the partition, about its means, by what it is said to gain."""
    _, _, _, source, method = fit
    before = method.init(source)
    for _ in range(3):
        found = Findings(sweep(method, source, before, Trading), method.prices)
        swept, prices = found.swept, method.prices

        def cost(tied, swept=swept, prices=prices):
            """Of the uses' moments alone: their own squared errors about their means cancel."""
            pairs, total = set(), 0.0
            for center in set(tied.tolist()):
                which = tied == center
                weights, means = swept.moments.weights[which], swept.moments.means[which]
                mean = weights @ means / weights.sum()
                total += float(weights @ ((means - mean) ** 2).sum(axis=1)) + prices.opening
                pairs |= {(group, center) for group in swept.groups[which].tolist()}
            return total + prices.local * len(pairs)

        now, scale = cost(swept.centers_of), 1e-9 * (spread(swept.moments.means) + prices.both) * len(swept.groups)
        for center in range(found.g):
            partner, gain = int(found.merges[0][center]), found.merges[1][center]
            if np.isfinite(gain):
                assert partner < center
                others = [now - cost(merged(found, center, other)) for other in range(center)]
                assert gain == pytest.approx(max(others), abs=scale)
                assert now - cost(merged(found, center, partner)) == pytest.approx(gain, abs=scale)
            if np.isfinite(found.halves[1][center]):
                halved = divided(found, center, found.g)
                assert now - cost(halved) == pytest.approx(found.halves[1][center], abs=scale)
                assert {center, found.g} <= set(halved.tolist())
            if np.isfinite(found.deletes[center]):
                gone, others = deleted(found, center), swept.centers_of != center
                assert center not in gone
                assert (gone[others] == swept.centers_of[others]).all()
        before = method._after(found, planned(found), before)


@FEWER
@given(fits(), st.data())
def test_the_same_bytes_for_any_chunks_and_threads(fit, data):
    rows, weights, groups, source, method = fit
    chunks = data.draw(chunkings(len(rows), empty=False))
    lazy = [
        None if array is None else da.from_array(array, chunks=(chunks, -1)[: array.ndim])
        for array in (rows, weights, groups)
    ]
    block_rows = source.plan.block_rows
    others = [
        as_source(rows, weights, groups=groups, threads=2, memory_limit=2000, block_rows=block_rows),
        as_source(lazy[0], lazy[1], groups=lazy[2], threads=2, block_rows=block_rows),
    ]
    with mock.patch.multiple(hdp_search, CLOSINGS=4, SPLITS=4):  # most of the time goes into trials that fail
        wanted = [contents(state) for state in states_of(source, method)]
        for other in others:
            assert [contents(state) for state in states_of(other, method)] == wanted


@FEWER
@given(fits())
def test_a_search_goes_on_from_any_step_to_the_same_end(fit):
    *_, source, method = fit
    with mock.patch.multiple(hdp_search, CLOSINGS=4, SPLITS=4):
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
    *_, plain = states_of(source, hdp.Method(0.08, 0.2))
    *_, searched = states_of(source, Method(0.08, 0.2))
    planted = np.array([rows[truth == p].mean(axis=0) for p in range(15)])
    inertia = ((rows - planted[truth]) ** 2).sum()
    assert searched.objective < 0.95 * plain.objective
    assert searched.objective < inertia + 0.08 * 250 + 0.2 * 15


def test_rows_beyond_the_limit_see_no_trials(monkeypatch):
    rng = np.random.default_rng(0)
    source = as_source(rng.normal(size=(200, 2)), groups=rng.integers(0, 9, 200))
    with_trials = states_of(source, Method(0.5, 2.0))
    assert any(state.moves[3:].any() for state in with_trials)
    monkeypatch.setattr(hdp_search, "TRIAL_ROWS", 199)
    without = states_of(source, Method(0.5, 2.0))
    assert not any(state.moves[3:].any() for state in without)
    assert with_trials[-1].objective <= without[-1].objective


@FEWER
@given(fits())
def test_trials_begin_with_whole_uses(fit):
    *_, source, method = fit
    found = Findings(sweep(method, source, method.init(source), Trading), method.prices)
    for kind, tied in trials(found):
        changed = tied()
        assert kind in (3, 4)
        assert (changed != found.swept.centers_of).any()
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
