import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import rows_and_centers, spread, weights_of

from dask_dpmeans import reference
from dask_dpmeans.kernels import assign as assigning
from dask_dpmeans.kernels.assign import NearestLabels, Predictions, assign, merge_scans, scan
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.distance import Centers


@st.composite
def blocks(draw):
    """A block, centers and a penalty."""
    rows, centers = draw(rows_and_centers())
    weights = draw(weights_of(len(rows)))
    return (
        Block(1000, rows, weights),
        centers,
        draw(st.sampled_from([0.01, 0.1, 1.0])) * spread(rows),
    )


def brute_force(block, centers, penalty):
    """Labels, squared distances, and numbers of the rows that the serial rule opens next to the centers."""
    near = [reference.nearest_center(row, centers.tolist()) for row in block.rows.tolist()]
    each = np.ones(len(near)) if block.weights is None else block.weights
    objecting = [
        place
        for place, (_, squared) in enumerate(near)
        if min(1.0, each[place]) * squared > penalty
    ]
    opened = reference.sweep(
        block.rows.tolist(), penalty, block.rows[objecting[:1]].tolist(), objecting[1:], each
    )
    labels, squared = zip(*near, strict=True)
    return (
        list(labels),
        list(squared),
        [block.start + place for place in objecting[:1] + opened.opened],
    )


@given(blocks())
def test_a_scan_assigns_by_definition_and_proposes_the_cover_of_what_objects(drawn):
    block, centers, penalty = drawn
    labels, squared, opened = brute_force(block, centers, penalty)
    found_labels, found_squared = assign(block, Centers(centers))
    assert (found_labels.tolist(), found_squared.tolist()) == (labels, squared)
    proposals = scan(block, Centers(centers), penalty).proposals
    assert proposals.numbers.tolist() == opened
    assert np.array_equal(proposals.rows, block.rows[proposals.numbers - block.start])
    assert proposals.rows.dtype == np.float64
    assert np.array_equal(
        proposals.weights,
        np.ones(len(opened))
        if block.weights is None
        else block.weights[proposals.numbers - block.start],
    )


@given(blocks())
def test_the_moments_of_a_scan_are_those_of_the_rows_as_given_in_row_order(drawn):
    block, centers, penalty = drawn
    labels, squared, _ = brute_force(block, centers, penalty)
    each = np.ones(len(labels)) if block.weights is None else block.weights
    sums, inertias = np.zeros(centers.shape), np.zeros(len(centers))
    for label, row, weight, error in zip(
        labels, block.rows.astype(np.float64), each, squared, strict=True
    ):
        sums[label] += weight * row
        inertias[label] += weight * error
    moments = scan(block, Centers(centers), penalty).moments
    assert moments.counts.tolist() == np.bincount(labels, minlength=len(centers)).tolist()
    assert moments.sums.tobytes() == sums.tobytes()
    assert moments.inertias.tobytes() == inertias.tobytes()


@given(blocks(), st.integers(1, 40))
def test_merged_scans_add_their_moments_and_merge_their_covers(drawn, cut):
    block, centers, penalty = drawn
    cut = min(cut, len(block.rows) - 1)
    left, right = (
        scan(Block(start, block.rows[part], None), Centers(centers), penalty)
        for start, part in ((0, np.s_[:cut]), (cut, np.s_[cut:]))
    )
    merged = merge_scans(left, right, penalty)
    assert merged.moments.counts.sum() == len(block.rows)
    assert merged.moments.sums.tobytes() == (left.moments.sums + right.moments.sums).tobytes()
    assert (
        merged.proposals.numbers[: len(left.proposals)].tolist() == left.proposals.numbers.tolist()
    )
    assert set(merged.proposals.numbers[len(left.proposals) :]) <= set(right.proposals.numbers)
    assert (np.diff(merged.proposals.numbers) > 0).all()


@given(blocks())
def test_row_aligned_answers_are_those_of_the_scan(drawn):
    block, centers, penalty = drawn
    labels, squared, _ = brute_force(block, centers, penalty)
    (alone,) = NearestLabels(Centers(centers))(block)
    found = Predictions(Centers(centers), penalty)(block)
    assert alone.tolist() == labels
    assert [values.tolist() for values in found] == [
        labels,
        squared,
        [error > penalty for error in squared],
    ]
    assert [values.dtype for values in (alone, *found)] == [
        np.int32,
        np.int32,
        np.float64,
        np.bool_,
    ]


def test_a_row_at_exactly_the_penalty_is_not_beyond():
    block = Block(0, np.array([[2.0], [np.nextafter(2.0, 3.0)]]), None)
    assert Predictions(Centers(np.zeros((1, 1))), 4.0)(block)[2].tolist() == [False, True]


@given(blocks(), st.integers(0, 60), st.sampled_from([math.inf, 0.1]), st.booleans())
def test_answers_of_the_clusters_with_rows_alone_are_those_of_all(drawn, cut, most, mixed):
    block, values, penalty = drawn
    centers = Centers(values, most=most * spread(block.rows) if math.isfinite(most) else most)
    parts = [slice(None, cut), slice(cut, None)] if 0 < cut < len(block.rows) else [slice(None)]

    def answer(*fewest):
        found = None
        for part, least in zip(parts, fewest, strict=False):
            weights = None if block.weights is None else block.weights[part]
            some = replace(block, rows=block.rows[part], weights=weights)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(assigning, "LEAST_SPARSE", least)
                patch.setattr(assigning, "FEW_ROWS", math.inf)
                one = scan(some, centers, penalty)
            assert (one.clusters is None) == (least > 0)
            found = one if found is None else merge_scans(found, one, penalty)
        return found.of_all(len(centers))

    sparse, dense = answer(0, 10**6 if mixed else 0), answer(10**6, 10**6)
    assert sparse.clusters is None
    assert sparse.outliers == dense.outliers
    assert sparse.reaches.tobytes() == dense.reaches.tobytes()
    for one, other in zip(sparse.moments.parts, dense.moments.parts, strict=True):
        assert one.tobytes() == other.tobytes()
