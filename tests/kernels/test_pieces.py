import math

import numpy as np
import pytest
from hypothesis import given, settings
from optimum import lowest
from strategies import seeds

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.pieces import (
    PieceProblem,
    best_halves,
    descend,
    merge_gains,
    merge_two,
    move_gains,
    relabel,
    search_partitions,
)
from dask_dpmeans.kernels.pieces_compiled import MOST_PIECES, exact_sum, pairwise_sum


def problem_of(seed, most=8):
    """Pieces of a graph, or of rows in the space of a linear kernel, of some weights, far from the origin or not."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, most + 1))
    if rng.random() < 0.5:
        rows, masses = (
            rng.normal(size=(m, 2)) + rng.choice([0.0, 30.0]),
            rng.choice([0.3, 1.0, 2.0], m),
        )
        links = (masses[:, np.newaxis] * rows) @ (masses[:, np.newaxis] * rows).T
        return PieceProblem.of(links, masses, float(rng.choice([0.05, 0.3, 1.0, 3.0])))
    half = np.triu(rng.integers(0, 5, (m, m)) * (rng.random((m, m)) < rng.choice([0.3, 0.9])))
    links = (half + np.triu(half, 1).T).astype(float)
    return PieceProblem.of(links, links.sum(axis=1) + 0.5, float(rng.random()))


def labels_for(pieces, seed):
    m = len(pieces.masses)
    return relabel(np.random.default_rng(seed).integers(0, m, m))


def test_nearly_every_search_of_few_pieces_ends_at_the_lowest_of_all_partitions():
    missed = 0
    for seed in range(150):
        pieces = problem_of(seed)
        found = search_partitions(pieces, labels_for(pieces, seed), np.random.default_rng(seed))
        missed += (
            pieces.objective(found)
            > lowest(pieces.links, pieces.masses, pieces.price) + 1e-9 + pieces.least
        )
    assert missed <= 1


@given(seeds, seeds)
def test_what_a_move_gains_is_what_the_objective_falls_by(seed, other):
    pieces = problem_of(seed)
    labels = labels_for(pieces, other)
    sums = pieces.sums(labels)
    gains = move_gains(
        sums, labels, pieces.own, pieces.masses, pieces.totals(sums, labels), pieces.price
    )
    before = pieces.objective(labels)
    for piece, target in np.argwhere(np.isfinite(gains)):
        after = labels.copy()
        after[piece] = target
        fell = before - pieces.objective(relabel(after))
        assert gains[piece, target] == pytest.approx(fell, abs=1e-9 * (1 + abs(before)))


@settings(max_examples=40)
@given(seeds, seeds)
def test_in_the_end_neither_a_move_nor_a_merge_gains(seed, other):
    pieces = problem_of(seed, most=20)
    start = labels_for(pieces, other)
    labels = descend(pieces, start)
    value = pieces.objective(labels)
    assert value <= pieces.objective(start)
    least = value - 2 * pieces.least
    for piece in range(len(labels)):
        for target in range(labels.max() + 2):
            moved = labels.copy()
            moved[piece] = target
            assert pieces.objective(relabel(moved)) >= least
    for second in range(1, labels.max() + 1):
        for first in range(second):
            assert pieces.objective(merge_two(labels, first, second)) >= least


@given(seeds, seeds)
def test_the_origin_changes_the_gain_of_nothing(seed, other):
    pieces = problem_of(seed)
    shifted, one = pieces.centered(), np.zeros(len(pieces.masses), np.intp)
    labels = labels_for(pieces, other)
    gain = pieces.objective(one) - pieces.objective(labels)
    assert shifted.objective(one) - shifted.objective(labels) == pytest.approx(
        gain, abs=1e-8 + 4 * pieces.least
    )
    assert shifted.least == pieces.least


@pytest.mark.parametrize("most", [12, MOST_PIECES])
@settings(max_examples=8)
@given(seeds, seeds)
def test_a_search_gives_the_same_bytes_with_compiled_loops_and_without(most, seed, other):
    found = []
    for available in (numba_support.AVAILABLE, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numba_support, "AVAILABLE", available)
            pieces = problem_of(seed, most)
            start, random = labels_for(pieces, other), np.random.default_rng(other)
            everything = np.arange(len(start))
            halves = best_halves(pieces, everything, everything[:1])
            ends = search_partitions(pieces, start, random), descend(pieces, start)
            sums = merge_gains(pieces, start), np.array([halves.gain, pieces.objective(start)])
            found.append([each.tobytes() for each in (*ends, *sums, halves.second)])
    assert found[0] == found[1]


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9, 16, 61, MOST_PIECES])
def test_compiled_sums_round_as_those_of_numpy_and_python(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        values = rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)
        ties = rng.integers(-3, 4, n) * 2.0 ** rng.integers(-60, 60, n)
        for each in (values, ties):
            assert pairwise_sum(each, n) == each.sum()
            assert exact_sum(each, n) == math.fsum(each)


def test_more_pieces_than_the_compiled_loops_take_are_searched_too():
    pieces = PieceProblem.of(np.eye(MOST_PIECES + 2), np.ones(MOST_PIECES + 2), 2.0)
    assert pieces.compiled is None
    one = descend(pieces, np.arange(MOST_PIECES + 2))
    assert pieces.objective(one) == 2.0 - 1.0


def test_what_is_lowest_already_stays_to_the_number():
    pieces = PieceProblem.of(np.kron(np.eye(3), np.ones((2, 2))), np.full(6, 2.0), 0.5)
    labels = np.array([2, 2, 0, 0, 1, 1])
    np.testing.assert_array_equal(
        search_partitions(pieces, labels, np.random.default_rng(0)), labels
    )


def test_gains_within_the_rounding_of_large_sums_are_none():
    rows = np.full((5, 1), 1e8) + np.array([[0.0], [0.0], [1e-9], [0.0], [1e-9]])
    pieces = PieceProblem.of(rows @ rows.T, np.ones(5), 1e-9)
    assert pieces.least > 1.0
    one = np.zeros(5, np.intp)
    np.testing.assert_array_equal(
        search_partitions(pieces.centered(), one, np.random.default_rng(0)), one
    )


def test_pieces_of_all_weights_are_searched_without_a_word():
    rng = np.random.default_rng(0)
    masses = rng.choice([1e-12, 1.0, 1e6], 40)
    rows = masses[:, np.newaxis] * rng.normal(size=(40, 2))
    pieces = PieceProblem.of(rows @ rows.T, masses, 3.0)
    one = np.zeros(40, np.intp)
    assert pieces.objective(search_partitions(pieces, one, rng)) < pieces.objective(one)
