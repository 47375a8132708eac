"""Outliers of a pass, beside the same figures row after row."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import rows_and_centers, seeds, spread, weights_of

from dask_dpmeans import reference
from dask_dpmeans.engine.plan import merge_tree
from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.assign import NearestLabels, Predictions, scan
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import SQUARED
from dask_dpmeans.kernels.move_statistics import MoveScan
from dask_dpmeans.kernels.outliers import DRAWN_OUTLIERS, Candidates, draw_outliers

START = 1000


@st.composite
def problems(draw):
    """A block, and a pass in which some rows are outliers."""
    rows, centers = draw(rows_and_centers())
    weights = draw(weights_of(len(rows)))
    rng = np.random.default_rng(draw(seeds))
    children = np.stack([centers, rows[rng.integers(len(rows), size=len(centers))]], axis=1)
    most = draw(st.sampled_from([0.0, 0.01, 0.1, 1.0])) * spread(rows)
    points = rows[rng.integers(len(rows), size=draw(st.integers(0, 4)))].astype(np.float64)
    candidates = Candidates(points, draw(st.integers(0, 2**63 - 1)))
    taken = Centers(centers, most=most)
    probing = MoveScan(taken, children.astype(np.float64), math.inf, candidates)
    return Block(START, rows, weights), probing


def near(row, centers):
    """Costs of a row at centers, by definition."""
    return [reference.squared_distance(row, center) for center in centers.tolist()]


@given(problems())
def test_rows_that_cost_more_are_outliers_of_no_cluster(drawn):
    block, probing = drawn
    centers, most = probing.centers, probing.centers.most
    weights = block.row_weights().tolist()
    labels = [
        -1 if min(c) > most else c.index(min(c))
        for c in (near(r, centers.values) for r in block.rows.tolist())
    ]
    assert NearestLabels(centers)(block)[0].tolist() == labels
    assert Predictions(centers, 1.0)(block)[0].tolist() == labels
    outside = [w for w, label in zip(weights, labels, strict=True) if label < 0]
    found, probe = scan(block, centers, math.inf), probing.chunk(block)
    assert found.outliers == pytest.approx(sum(outside), rel=1e-12)
    assert probe.outliers.weight == pytest.approx(sum(outside), rel=1e-12)
    counts = [labels.count(cluster) for cluster in range(len(centers))]
    assert found.moments.counts.tolist() == counts
    assert probe.halves.counts.reshape(-1, 2).sum(axis=1).tolist() == counts
    errors = [0.0] * len(centers)
    for row, weight, label in zip(block.rows.tolist(), weights, labels, strict=True):
        if label >= 0:
            errors[label] += weight * min(near(row, centers.values))
    assert found.moments.inertias.tolist() == errors
    assert probe.inertias.tolist() == errors
    assert (found.reaches <= most).all()


@given(problems())
def test_rows_leave_a_deleted_cluster_for_the_next_center_or_become_outliers(drawn):
    block, probing = drawn
    centers, most = probing.centers, probing.centers.most
    k = len(centers)
    losses, departures = {}, [0.0] * k
    for row, weight in zip(block.rows.tolist(), block.row_weights().tolist(), strict=True):
        costs = near(row, centers.values)
        own = costs.index(min(costs))
        others = [number for number in range(k) if number != own]
        second = min(others, key=costs.__getitem__, default=own)
        if costs[own] > most:
            continue
        if costs[second] > most:
            departures[own] += weight * (most - costs[own])
            continue
        pair = own * k + second
        losses[pair] = losses.get(pair, 0.0) + weight * (costs[second] - costs[own])
    found = probing.chunk(block)
    assert found.outliers.departures.tolist() == departures
    assert found.transfers.pairs.tolist() == sorted(losses)
    assert found.transfers.losses.tolist() == [losses[pair] for pair in sorted(losses)]


@given(problems())
def test_candidates_have_the_outliers_that_are_no_outliers_of_theirs(drawn):
    block, probing = drawn
    points, most = probing.candidates.points, probing.centers.most
    counts, errors = [0] * len(points), [0.0] * len(points)
    for row, weight in zip(block.rows.tolist(), block.row_weights().tolist(), strict=True):
        if min(near(row, probing.centers.values)) <= most or not len(points):
            continue
        costs = near(row, points)
        if min(costs) <= most:
            counts[costs.index(min(costs))] += 1
            errors[costs.index(min(costs))] += weight * min(costs)
    moments = probing.chunk(block).outliers.moments
    assert (moments.counts.tolist(), moments.inertias.tolist()) == (counts, errors)


@given(problems(), st.sets(st.integers(1, 39), max_size=5))
def test_the_draw_of_a_row_hangs_on_its_number_alone(drawn, cuts):
    block, probing = drawn
    n = len(block.rows)
    bounds = [0, *sorted(cut for cut in cuts if cut < n), n]
    parts = []
    for start, stop in pairwise(bounds):
        weights = None if block.weights is None else block.weights[start:stop]
        parts.append(probing.chunk(Block(START + start, block.rows[start:stop], weights)))
    merged, whole = merge_tree(parts, probing.combine).outliers, probing.chunk(block).outliers
    assert merged.drawn.numbers.tolist() == whole.drawn.numbers.tolist()
    assert merged.drawn.keys.tobytes() == whole.drawn.keys.tobytes()
    assert merged.drawn.rows.tolist() == whole.drawn.rows.tolist()
    assert len(whole.drawn) <= DRAWN_OUTLIERS
    assert (np.diff(whole.drawn.keys) >= 0).all()


@given(problems())
def test_compiled_loops_and_numpy_find_the_same_outliers_to_the_bit(drawn):
    block, probing = drawn
    found = probing.chunk(block).outliers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        other = probing.chunk(block).outliers
    assert found.weight == other.weight
    assert found.departures.tobytes() == other.departures.tobytes()
    assert found.moments.sums.tobytes() == other.moments.sums.tobytes()
    assert found.moments.inertias.tobytes() == other.moments.inertias.tobytes()
    assert found.drawn.numbers.tolist() == other.drawn.numbers.tolist()
    assert found.drawn.keys.tobytes() == other.drawn.keys.tobytes()


def test_heavy_outliers_are_drawn_more_often_and_weightless_ones_never():
    numbers, rows = np.arange(4000), np.zeros((4000, 1))
    weights = np.repeat([0.0, 1.0, 1.0, 8.0], 1000)
    drawn = [draw_outliers(numbers, rows, weights, seed).numbers // 1000 for seed in range(20)]
    counts = np.bincount(np.concatenate(drawn), minlength=4)
    assert counts[0] == 0
    assert counts.sum() == 20 * DRAWN_OUTLIERS
    assert counts[3] > 3 * (counts[1] + counts[2])


@given(problems())
def test_another_divergence_has_the_same_outliers(drawn):
    """The general form of a divergence, of the squared distance."""
    block, probing = drawn
    general = Centers(probing.centers.values, SQUARED, probing.centers.most)
    found = MoveScan(general, probing.children, math.inf, probing.candidates).chunk(block)
    expected = probing.chunk(block)
    assert found.outliers.weight == expected.outliers.weight
    assert found.outliers.departures.tolist() == expected.outliers.departures.tolist()
    assert found.outliers.drawn.numbers.tolist() == expected.outliers.drawn.numbers.tolist()
    assert found.transfers.pairs.tolist() == expected.transfers.pairs.tolist()
