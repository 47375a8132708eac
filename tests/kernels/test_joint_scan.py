"""Scans by one loop: the same bytes as loops of their own."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import DTYPES

from dask_dpmeans.kernels import assign, joint_scan, numba_support
from dask_dpmeans.kernels.assign import Scan, scan
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import SQUARED
from dask_dpmeans.kernels.joint_scan import GIVEN_UP, MOST_CENTERS, scan_at_once


@st.composite
def scans(draw):
    """A block of some tiles, its centers and a penalty; many rows are nearly as near to two centers."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d, k = draw(st.integers(2, 700)), draw(st.integers(1, 20)), draw(st.integers(2, 9))
    dtype = draw(st.sampled_from(DTYPES))
    scale = 10.0 ** draw(st.integers(-18, 17 if dtype == np.float32 else 140))
    rows = random.standard_normal((n, d)) + draw(st.sampled_from([0.0, 1.0, 30.0, 1e4]))
    if draw(st.booleans()):
        rows = np.round(rows)
    chosen = random.choice(n, min(k, n), replace=draw(st.booleans()))
    between = random.random(n) < draw(st.sampled_from([0.0, 0.1, 1.0]))
    pairs = rows[random.choice(chosen, (2, n))]
    middles = pairs.mean(axis=0) + 1e-7 * random.standard_normal((n, d)) * (pairs[0] - pairs[1])
    rows[between] = middles[between]
    centers = (scale * rows[chosen]).astype(dtype).astype(np.float64)
    rows = (scale * rows).astype(dtype)
    weights = draw(st.sampled_from([None, random.uniform(0, 2, n), np.ones(n)]))
    return Block(0, rows, weights), centers, draw(st.sampled_from([0.0, 1.0, 1e9])) * scale**2


def bytes_of(answer: Scan):
    proposals = answer.proposals
    parts = *answer.moments.parts, answer.reaches, proposals.numbers, proposals.rows
    return [part.tobytes() for part in parts]


def scan_apart(block, centers, penalty):
    """A scan by loops of their own."""
    with mock.patch.object(assign, "scan_at_once", return_value=None):
        return scan(block, Centers(centers), penalty)


@given(scans())
def test_one_loop_gives_the_bytes_of_loops_of_their_own(drawn):
    block, centers, penalty = drawn
    found = scan(block, Centers(centers), penalty)
    assert bytes_of(found) == bytes_of(scan_apart(block, centers, penalty))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [2, 4, 5, 40])
@pytest.mark.parametrize("place", [0.0, 1e3])
def test_rows_that_cannot_be_in_doubt_are_scanned_at_once(dtype, d, place):
    random = np.random.default_rng(0)
    centers = place + 10 * np.arange(6.0)[:, np.newaxis] * np.ones(d)
    rows = centers[random.integers(6, size=1_000)] + random.uniform(-1, 1, (1_000, d))
    block, ready = Block(0, rows.astype(dtype), None), Centers(centers)
    assert (scan_at_once(block, ready) is not None) == numba_support.AVAILABLE
    assert bytes_of(scan(block, ready, 1.0)) == bytes_of(scan_apart(block, centers, 1.0))


@pytest.mark.parametrize("d", [3, 7])
def test_rows_too_large_for_float32_are_decided_by_definition(d):
    centers, rows = np.ones((2, d)), np.ones((300, d))
    centers[1] = -1.0
    rows[7] = -1e39  # as far from the one as from the other, in float64
    block = Block(0, rows, None)
    with np.errstate(over="ignore"):
        found = scan(block, Centers(centers), 1.0)
        assert bytes_of(found) == bytes_of(scan_apart(block, centers, 1.0))
    assert found.moments.counts.tolist() == [300, 0]


@pytest.mark.parametrize("d", [3, 7])
def test_a_scan_that_leaves_many_rows_in_doubt_is_given_up_for_these_centers(d):
    centers, rows = np.zeros((2, d)), np.zeros((2_000, d), np.float32)
    centers[1, 0] = 1.0
    rows[::4, 0] = 0.5
    ready = Centers(centers)
    assert scan_at_once(Block(0, rows, None), ready) is None
    assert (GIVEN_UP in vars(ready)) == numba_support.AVAILABLE
    with mock.patch.object(joint_scan, "_succeeds", side_effect=AssertionError("tried again")):
        assert scan_at_once(Block(0, rows, None), ready) is None
    few = rows[: len(rows) // 8]  # that many may be in doubt
    assert (scan_at_once(Block(0, few, None), Centers(centers)) is None) != numba_support.AVAILABLE


def test_other_scans_have_loops_of_their_own():
    rows = np.random.default_rng(0).standard_normal((600, 6)).astype(np.float32)
    few, many = rows[:3].astype(np.float64), rows[: MOST_CENTERS + 1].astype(np.float64)
    block = Block(0, rows, None)
    for centers in (Centers(few, SQUARED), Centers(few, most=2.0), Centers(many), Centers(few[:1])):
        assert scan_at_once(block, centers) is None
    assert scan_at_once(Block(0, rows[:2], None), Centers(few)) is None
