import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import DYADIC, seeds, spread, tables

from dask_dpmeans.kernels.births import (
    Proposals,
    keep_objecting,
    keep_openers,
    merge_openers,
    objects,
)
from dask_dpmeans.reference import squared_distance


@st.composite
def proposals(draw, rows=(0, 40)):
    """Weighted rows with numbers of their own, and a penalty."""
    values = draw(tables(rows, kinds=("grid", "clouds", "outliers", "uneven"))).astype(np.float64)
    rng = np.random.default_rng(draw(seeds))
    weights = rng.choice([*DYADIC, 0.7, 3.0], len(values))
    factor = draw(st.sampled_from([0.03, 0.3, 1.0, 3.0]))
    penalty = factor * spread(values) if len(values) else 1.0
    return Proposals(10 + 3 * np.arange(len(values)), values, weights), penalty


def one_by_one(found, penalty, kept=()):
    """Numbers of the rows that open clusters, next to rows that are there already."""
    present, opened = [row.tolist() for row in kept], []
    for number, row, weight in zip(found.numbers, found.rows.tolist(), found.weights, strict=True):
        if all(min(1.0, weight) * squared_distance(row, center) > penalty for center in present):
            present.append(row)
            opened.append(int(number))
    return opened


def consistent(part, whole):
    """Whether rows and weights still stand with their numbers."""
    where = np.searchsorted(whole.numbers, part.numbers)
    return np.array_equal(part.rows, whole.rows[where]) and np.array_equal(
        part.weights, whole.weights[where]
    )


@given(proposals())
def test_the_openers_are_those_of_the_serial_rule(drawn):
    found, penalty = drawn
    openers = keep_openers(found, penalty)
    assert openers.numbers.tolist() == one_by_one(found, penalty)
    assert consistent(openers, found)


@settings(max_examples=15)
@given(proposals(rows=(257, 700)))
def test_batches_do_not_show_in_the_openers(drawn):
    found, penalty = drawn
    assert keep_openers(found, penalty).numbers.tolist() == one_by_one(found, penalty)


@given(proposals(), st.integers(0, 40))
def test_merged_openers_are_the_left_ones_and_what_objects_to_them(drawn, cut):
    found, penalty = drawn
    left, right = (
        keep_openers(found.take(np.arange(len(found))[part]), penalty)
        for part in (np.s_[:cut], np.s_[cut:])
    )
    merged = merge_openers(left, right, penalty)
    alone = [
        place
        for place in range(len(right))
        if one_by_one(right.take(np.array([place])), penalty, left.rows)
    ]
    assert merged.numbers.tolist() == [*left.numbers, *right.numbers[alone]]
    assert consistent(merged, found)


@given(proposals(), st.integers(0, 40))
def test_merged_openers_object_to_all_before_them(drawn, cut):
    found, penalty = drawn
    left, right = (
        keep_openers(found.take(np.arange(len(found))[part]), penalty)
        for part in (np.s_[:cut], np.s_[cut:])
    )
    merged = merge_openers(left, right, penalty)
    assert one_by_one(merged, penalty) == merged.numbers.tolist()


def test_a_row_at_exactly_the_penalty_does_not_object():
    squared = np.array([4.0, np.nextafter(4.0, 5.0)])
    assert objects(squared, None, 4.0).tolist() == [False, True]


def test_a_weight_above_one_does_not_add_to_the_objection_and_one_below_takes_from_it():
    squared, weights = np.array([4.0, 9.0, 9.0, 1e300]), np.array([100.0, 0.5, 0.25, 0.0])
    assert objects(squared, weights, 4.0).tolist() == [False, True, False, False]


def test_without_centers_every_proposal_stands():
    found = Proposals(np.array([5]), np.array([[1.0]]), np.array([0.5]))
    assert keep_objecting(found, np.empty((0, 1)), 10.0).numbers.tolist() == [5]
