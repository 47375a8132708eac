"""Which center a row goes to where data sets share them, and what opens: against loops over rows and centers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import rows_and_centers, seeds, spread, weights_of

from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.hdp import (
    HDPPrices,
    NearestUses,
    Sharing,
    choose,
    find_uses,
    open_in_order,
    requests_of,
)
from dask_dpmeans.kernels.hdp_search import find_changes, half_moments
from dask_dpmeans.kernels.keyed_sums import Farthest, use_moments

TINY = float(np.finfo(np.float64).tiny)
START = 1000


@st.composite
def problems(draw):
    """A block, centers, who uses which, openers and prices; some sets use none, some rows belong to unknown sets."""
    rows, centers = draw(rows_and_centers(most=20))
    rng, n, n_groups = np.random.default_rng(draw(seeds)), len(rows), draw(st.integers(0, 4))
    weights = draw(weights_of(n, (0.0, 1e-3, 0.3, 1.0, 4.0)))
    used = rng.random((n_groups, len(centers))) < draw(st.sampled_from([0.2, 0.9]))
    groups = rng.integers(0, n_groups + 1, n)
    pairs = np.argwhere(used)[rng.permutation(int(used.sum()))]
    among = (
        np.flatnonzero((groups < n_groups) & used[np.minimum(groups, n_groups - 1)].any(axis=1))
        if n_groups
        else []
    )
    openers = rng.permutation(among)[: draw(st.integers(0, 2))].astype(int)
    kept = np.array([rng.choice(np.flatnonzero(used[groups[row]])) for row in openers], np.int64)
    sharing = Sharing.of(centers, *pairs.T.astype(np.int64), n_groups, openers + START, kept)
    shares = (draw(st.sampled_from([0.003, 0.1, 1.0])) for _ in range(2))
    prices = HDPPrices(*(max(share * spread(rows), TINY) for share in shares))
    block = Block(START, rows, weights, groups=groups)
    return (
        block,
        sharing,
        prices,
        [set(np.flatnonzero(row).tolist()) for row in used],
        dict(zip(openers, kept, strict=True)),
    )


def squared_of(block, sharing):
    """(height, g), the definition."""
    squared = np.zeros((len(block.rows), len(sharing.centers)))
    for column in range(block.rows.shape[1]):
        squared += (
            block.rows[:, column, np.newaxis].astype(float) - sharing.centers.values[:, column]
        ) ** 2
    return squared.tolist()


@given(problems())
def test_rows_go_where_loops_over_all_centers_send_them(problem):
    block, sharing, prices, used, openers = problem
    chosen = choose(block, sharing, prices)
    squared = squared_of(block, sharing)
    for i, group in enumerate(block.groups.tolist()):
        known = sorted(used[group]) if group < len(used) else []
        weight = 1.0 if block.weights is None else float(block.weights[i])
        share = min(1.0, weight)
        near = min(range(len(squared[i])), key=lambda p: (squared[i][p], p))
        label = (
            openers[i]
            if i in openers
            else min(known, key=lambda p: (squared[i][p], p), default=near)
        )
        assert chosen.labels[i] == label
        assert chosen.squared[i] == squared[i][label]
        assert chosen.nearest[i] == near
        own = int(chosen.uses[i])
        assert (own >= 0) == bool(known)
        assert own < 0 or (sharing.groups[own], sharing.used[own]) == (group, label)
        best_used = squared[i][label] if known else math.inf
        others = [squared[i][p] for p in range(len(squared[i])) if p not in known]
        unused = min(others, default=math.inf) + prices.local / share if share else math.inf
        objects = share > 0 and (unused < best_used or min(best_used, unused) > prices.both / share)
        assert chosen.objecting[i] == (objects and i not in openers)


@given(problems())
def test_requests_open_what_loops_open(problem):
    """Each in turn sees what those before it opened."""
    block, sharing, prices, used, _ = problem
    requests = requests_of(block, choose(block, sharing, prices))
    kinds, targets = open_in_order(requests, sharing.centers, prices)
    centers = sharing.centers.values.tolist()
    uses = {(group, p) for group, those in enumerate(used) for p in those}
    for row, group, weight, kind, target in zip(
        requests.rows.tolist(),
        requests.groups.tolist(),
        requests.weights.tolist(),
        kinds,
        targets,
        strict=True,
    ):
        costs = []
        for p, center in enumerate(centers):
            squared = 0.0
            for a, b in zip(row, center, strict=True):
                squared += (a - b) * (a - b)
            unused = (group, p) not in uses
            costs.append((squared + prices.local / min(1.0, weight) * unused, unused, squared, p))
        cost, unused, _, p = min(costs)
        if cost > prices.both / min(1.0, weight):
            wanted = 2, len(centers)
            centers.append(row)
        else:
            wanted = int(unused), p
        if wanted[0]:
            uses.add((group, wanted[1]))
            assert (kind, target) == wanted
        else:
            assert kind == 0
    wider = replace(
        sharing, starts=np.append(sharing.starts, sharing.starts[-1])
    )  # the unknown set is known now
    opened = wider.with_openings(requests.take(kinds > 0), kinds[kinds > 0], targets[kinds > 0])
    assert opened.centers.values.tolist() == centers
    assert set(zip(opened.groups.tolist(), opened.used.tolist(), strict=True)) <= uses


@given(problems())
def test_losses_and_savings_are_sums_over_rows(problem):
    block, sharing, prices, used, _ = problem
    chosen = choose(block, sharing, prices)
    losses, savings = find_changes(block, chosen, sharing)
    squared, k = squared_of(block, sharing), len(sharing.centers)
    wanted_losses, wanted_savings = {}, {}
    for i, group in enumerate(block.groups.tolist()):
        use, weight = int(chosen.uses[i]), 1.0 if block.weights is None else float(block.weights[i])
        if use < 0:
            continue
        label, own = int(chosen.labels[i]), float(chosen.squared[i])
        second = min((squared[i][p] for p in used[group] if p != label), default=math.inf)
        wanted_losses[use] = wanted_losses.get(use, 0.0) + (
            weight * (second - own) if weight else 0.0
        )
        for p in set(range(k)) - used[group]:
            if weight * (own - squared[i][p]) > 0:
                key = group * k + p
                wanted_savings[key] = wanted_savings.get(key, 0.0) + weight * (own - squared[i][p])
    assert dict(zip(losses.keys.tolist(), losses.values.tolist(), strict=True)) == wanted_losses
    assert dict(zip(savings.keys.tolist(), savings.values.tolist(), strict=True)) == wanted_savings
    assert (np.diff(losses.keys) > 0).all()
    assert (np.diff(savings.keys) > 0).all()


@given(problems(), seeds)
def test_halves_are_those_of_the_children(problem, seed):
    """Of centers without children all rows are in the first half."""
    block, sharing, prices, _, _ = problem
    chosen, rng = choose(block, sharing, prices), np.random.default_rng(seed)
    known = int(rng.integers(1, len(sharing.centers) + 1))
    children = sharing.centers.values[:known, np.newaxis] + rng.normal(
        size=(known, 2, block.rows.shape[1])
    )
    found = half_moments(block, chosen, children)
    weights = np.ones(len(block.rows)) if block.weights is None else block.weights
    wanted = {}
    for row, weight, label, use in zip(
        block.rows.astype(float), weights, chosen.labels, chosen.uses, strict=True
    ):
        side = 0
        if label < known:
            first, second = (
                sum((a - b) ** 2 for a, b in zip(row, child, strict=True))
                for child in children[label]
            )
            side = int(second < first)
        if use >= 0:
            wanted[2 * int(use) + side] = wanted.get(2 * int(use) + side, 0.0) + weight
    assert found.keys.tolist() == sorted(wanted)
    assert found.values.weights.tolist() == [wanted[use] for use in sorted(wanted)]


@given(problems(), st.data())
def test_nearest_uses_are_pairs_of_sets_and_nearest_centers(problem, data):
    block, sharing, _, _, _ = problem
    uses, cut, k = (
        NearestUses(sharing.centers),
        data.draw(st.integers(0, len(block.rows))),
        len(sharing.centers),
    )
    parts = []
    for part in (slice(0, cut), slice(cut, None)):
        weights = None if block.weights is None else block.weights[part]
        parts.append(uses.chunk(Block(0, block.rows[part], weights, groups=block.groups[part])))
    heavy = np.ones(len(block.rows), bool) if block.weights is None else block.weights > 0
    nearest = [int(np.argmin(row)) for row in squared_of(block, sharing)]
    pairs = {
        int(group) * k + near
        for group, near, there in zip(block.groups, nearest, heavy, strict=True)
        if there
    }
    assert uses.combine(*parts).tolist() == sorted(pairs)


@given(problems(), st.data())
def test_moments_of_uses_are_the_same_wherever_a_block_is_cut(problem, data):
    block, sharing, prices, _, _ = problem
    chosen = choose(block, sharing, prices)
    weights = np.ones(len(block.rows)) if block.weights is None else block.weights
    cut = data.draw(st.integers(0, len(block.rows)))
    parts = []
    for part in (slice(0, cut), slice(cut, None)):
        some = Block(0, block.rows[part], None if block.weights is None else block.weights[part])
        parts.append(use_moments(some, chosen.uses[part], chosen.squared[part]))
    whole = parts[0] + parts[1]
    assert whole.keys.tolist() == sorted(set(chosen.uses.tolist()) - {-1})
    for place, use in enumerate(whole.keys):
        which = chosen.uses == use
        assert whole.values.counts[place] == which.sum()
        assert whole.values.weights[place] == pytest.approx(weights[which].sum())
        np.testing.assert_allclose(
            whole.values.sums[place], weights[which] @ block.rows[which].astype(float), rtol=1e-6
        )
        assert whole.values.inertias[place] == pytest.approx(weights[which] @ chosen.squared[which])


@given(problems())
def test_a_use_that_is_not_there_is_not_found(problem):
    _, sharing, _, used, _ = problem
    for group, those in enumerate(used):
        for p in range(len(sharing.centers)):
            (place,) = find_uses(sharing, np.array([group]), np.array([p]))
            assert (place >= 0) == (p in those)
            assert place < 0 or (sharing.groups[place], sharing.used[place]) == (group, p)


@given(problems())
def test_the_farthest_row_is_the_first_of_its_set(problem):
    block, sharing, *_ = problem
    found = Farthest((sharing.centers.values[:1],)).chunk(block)
    squared = np.array(squared_of(block, sharing))[:, 0]
    weights = np.ones(len(squared)) if block.weights is None else block.weights
    for place, group in enumerate(found.groups):
        which = np.flatnonzero((block.groups == group) & (weights > 0))
        first = which[squared[which].argmax()]
        assert found.squared[place] == squared[first]
        assert found.rows[place].tolist() == block.rows[first].astype(float).tolist()
        assert found.totals[place] == pytest.approx(weights[which] @ squared[which])
