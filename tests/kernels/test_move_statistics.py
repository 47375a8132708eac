import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import TAME, rows_and_centers, seeds, spread, tables, weights_of

from dask_dpmeans import reference
from dask_dpmeans.engine.plan import merge_tree
from dask_dpmeans.kernels.assign import scan
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.move_statistics import MoveScan, Transfers, two_nearest

START = 1000


@st.composite
def probes(draw):
    """Rows with ties, their weights, and a probe: children may be rows, each other, or anywhere."""
    rows, centers = draw(rows_and_centers())
    rng = np.random.default_rng(draw(seeds))
    children = np.repeat(centers[:, np.newaxis], 2, axis=1)
    elsewhere = rows[rng.integers(len(rows), size=children.shape[:2])].astype(np.float64)
    children = np.where(rng.random((*children.shape[:2], 1)) < 0.8, elsewhere, children)
    penalty = draw(st.sampled_from([0.01, 0.1, 1.0, math.inf])) * spread(rows)
    return rows, draw(weights_of(len(rows))), MoveScan(Centers(centers), children, penalty)


@st.composite
def pieces(draw, kinds):
    """Rows, weights, a probe of them, and where the rows are cut into blocks."""
    rows = draw(tables(rows=(2, 60), columns=(1, 3), kinds=kinds))
    rng = np.random.default_rng(draw(seeds))
    k = draw(st.integers(1, 5))
    centers, first, second = (
        rows[rng.integers(len(rows), size=k)].astype(np.float64) for _ in range(3)
    )
    cuts = sorted(draw(st.sets(st.integers(1, len(rows) - 1), max_size=6)))
    penalty = draw(st.sampled_from([0.1, 1.0])) * spread(rows)
    probing = MoveScan(Centers(centers), np.stack([first, second], axis=1), penalty)
    return rows, draw(weights_of(len(rows))), probing, [0, *cuts, len(rows)]


def part(rows, weights, start, stop):
    return Block(start, rows[start:stop], None if weights is None else weights[start:stop])


def second_nearest(row, centers, nearest):
    """The lowest number among the nearest of the other centers; the center itself where there is no other."""
    others = [number for number in range(len(centers)) if number != nearest]
    return min(
        others, key=lambda number: reference.squared_distance(row, centers[number]), default=nearest
    )


def brute_force(rows, weights, probing):
    """Counts, weights, sums and inertias of the halves, inertias of the clusters, and transfers, row after row."""
    centers, (k, _, d) = probing.centers.values.tolist(), probing.children.shape
    counts, totals, errors = [0] * (2 * k), [0.0] * (2 * k), [0.0] * (2 * k)
    sums, inertias, losses = [[0.0] * d for _ in range(2 * k)], [0.0] * k, {}
    for row, weight in zip(
        rows.tolist(), [1.0] * len(rows) if weights is None else weights.tolist(), strict=True
    ):
        cluster, squared = reference.nearest_center(row, centers)
        side, to_child = reference.nearest_center(row, probing.children[cluster].tolist())
        second = second_nearest(row, centers, cluster)
        half = 2 * cluster + side
        counts[half] += 1
        totals[half] += weight
        errors[half] += weight * to_child
        inertias[cluster] += weight * squared
        loss = weight * (reference.squared_distance(row, centers[second]) - squared)
        losses[cluster * k + second] = losses.get(cluster * k + second, 0.0) + loss
        for column, value in enumerate(row):
            sums[half][column] += weight * value
    return (
        counts,
        totals,
        sums,
        errors,
        inertias,
        sorted(losses),
        [losses[pair] for pair in sorted(losses)],
    )


def lists(probe):
    halves, transfers = probe.halves, probe.transfers
    values = halves.counts, halves.weights, halves.sums, halves.inertias, probe.inertias
    return *(each.tolist() for each in values), transfers.pairs.tolist(), transfers.losses.tolist()


@given(probes())
def test_a_probe_is_what_its_definition_gives_row_after_row(drawn):
    rows, weights, probing = drawn
    assert lists(probing.chunk(Block(START, rows, weights))) == brute_force(*drawn)


@given(probes())
def test_a_probe_proposes_what_a_scan_does(drawn):
    rows, weights, probing = drawn
    block = Block(START, rows, weights)
    found, expected = (
        probing.chunk(block).proposals,
        scan(block, probing.centers, probing.penalty).proposals,
    )
    assert (found.numbers.tolist(), found.rows.tolist()) == (
        expected.numbers.tolist(),
        expected.rows.tolist(),
    )
    assert found.weights.tolist() == expected.weights.tolist()
    assert probing.penalty < math.inf or not len(found)


@given(probes())
def test_the_halves_of_a_cluster_are_the_cluster(drawn):
    rows, weights, probing = drawn
    block = Block(START, rows, weights)
    probe, moments = probing.chunk(block), scan(block, probing.centers, math.inf).moments
    assert probe.halves.counts.reshape(-1, 2).sum(axis=1).tolist() == moments.counts.tolist()
    assert probe.halves.weights.reshape(-1, 2).sum(axis=1).tolist() == moments.weights.tolist()
    assert probe.inertias.tobytes() == moments.inertias.tobytes()


@given(tables(rows=(1, 30)))
def test_one_center_is_its_own_second_and_its_rows_lose_nothing(rows):
    center = rows[:1].astype(np.float64)
    labels, seconds = two_nearest(Block(0, rows, None), Centers(center))
    transfers = (
        MoveScan(Centers(center), np.stack([center, center], axis=1), 1.0)
        .chunk(Block(0, rows, None))
        .transfers
    )
    assert labels.tolist() == seconds.tolist() == [0] * len(rows)
    assert (transfers.pairs.tolist(), transfers.losses.tolist()) == ([0], [0.0])


def test_rows_as_near_to_both_children_belong_to_the_first():
    probing = MoveScan(Centers(np.zeros((1, 1))), np.array([[[2.0], [-2.0]]]), math.inf)
    halves = probing.chunk(
        Block(0, np.array([[0.0], [-1.0], [3.0]]), np.array([1.0, 2.0, 4.0]))
    ).halves
    assert (halves.weights.tolist(), halves.sums.tolist()) == ([5.0, 2.0], [[12.0], [-2.0]])
    assert halves.inertias.tolist() == [4.0 + 4.0, 2.0]


@pytest.mark.parametrize("height", [3, 300])
def test_transfers_of_many_and_of_few_rows_have_one_form(height):
    """Few clusters for the rows are counted densely, many by sorting; pairs without rows are in neither."""
    centers = 10.0 * np.arange(8)[:, np.newaxis]
    rows = np.tile([[1.0], [69.0], [31.0]], (height // 3, 1))
    probing = MoveScan(Centers(centers), np.stack([centers, centers], axis=1), math.inf)
    transfers = probing.chunk(Block(0, rows, None)).transfers
    assert transfers.pairs.tolist() == [0 * 8 + 1, 3 * 8 + 4, 7 * 8 + 6]
    assert transfers.losses.tolist() == [80.0 * (height // 3)] * 3
    assert (transfers.pairs.dtype, transfers.losses.dtype) == (np.int64, np.float64)


def test_transfers_add_pair_by_pair():
    one = Transfers(np.array([1, 5, 6]), np.array([1.0, 2.0, 4.0]))
    other = Transfers(np.array([0, 5]), np.array([8.0, 16.0]))
    nothing = Transfers(np.empty(0, np.int64), np.empty(0))
    for both in (one + other, other + one, one + nothing + other):
        assert (both.pairs.tolist(), both.losses.tolist()) == ([0, 1, 5, 6], [8.0, 1.0, 18.0, 4.0])


@given(seeds, st.sampled_from([10, 100, 10**6]))
def test_transfers_add_as_numbers_do_among_few_pairs_and_among_many(seed, pairs):
    rng = np.random.default_rng(seed)
    parts = [
        {int(pair): float(rng.integers(100)) for pair in rng.integers(pairs, size=rng.integers(9))}
        for _ in range(2)
    ]
    one, other = (
        Transfers(np.array(sorted(part), np.int64), np.array([part[pair] for pair in sorted(part)]))
        for part in parts
    )
    expected = {
        pair: sum(part.get(pair, 0.0) for part in parts) for pair in {**parts[0], **parts[1]}
    }
    both = one + other
    assert dict(zip(both.pairs.tolist(), both.losses.tolist(), strict=True)) == expected
    assert both.pairs.tolist() == sorted(expected)


@given(pieces(("grid",)))
def test_on_an_integer_grid_cuts_into_blocks_do_not_show_in_sums(drawn):
    rows, weights, probing, bounds = drawn
    parts = [probing.chunk(part(rows, weights, *each)) for each in pairwise(bounds)]
    assert lists(merge_tree(parts, probing.combine)) == brute_force(rows, weights, probing)


@given(pieces(TAME))
def test_elsewhere_they_show_in_the_rounding_of_sums_alone(drawn):
    rows, weights, probing, bounds = drawn
    parts = [probing.chunk(part(rows, weights, *each)) for each in pairwise(bounds)]
    merged = merge_tree(parts, probing.combine)
    counts, totals, sums, errors, inertias, pairs, losses = brute_force(rows, weights, probing)
    assert merged.halves.counts.tolist() == counts
    assert merged.transfers.pairs.tolist() == pairs
    for found, expected in (
        (merged.halves.weights, totals),
        (merged.halves.inertias, errors),
        (merged.inertias, inertias),
        (merged.transfers.losses, losses),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    np.testing.assert_allclose(
        merged.halves.sums, sums, rtol=1e-12, atol=1e-12 * np.abs(rows).max()
    )


@given(pieces(TAME))
def test_proposals_of_neighbors_object_to_the_centers_and_to_all_before_them(drawn):
    rows, _, probing, bounds = drawn
    parts = [probing.chunk(part(rows, None, *each)) for each in pairwise(bounds)]
    numbers = merge_tree(parts, probing.combine).proposals.numbers.tolist()
    centers = probing.centers.values.tolist()
    objecting = [
        number
        for number, row in enumerate(rows.tolist())
        if reference.nearest_center(row, centers)[1] > probing.penalty
    ]
    assert numbers[:1] == objecting[:1]
    assert numbers == sorted(numbers)
    for number in numbers:
        row = rows[number].tolist()
        assert reference.nearest_center(row, centers)[1] > probing.penalty
        centers.append(row)
