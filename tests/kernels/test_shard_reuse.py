import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import rows_and_centers, seeds, weights_of

from dask_dpmeans.kernels import assign
from dask_dpmeans.kernels.assign import scan
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.shard_reuse import ShardAnswer, reusable_answers


def contents(scanned, k):
    scanned = scanned.of_all(k)
    arrays = {**vars(scanned.moments), **vars(scanned.proposals), "reaches": scanned.reaches}
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


@st.composite
def changed(draw, centers):
    """Centers after some have moved, a little or far, died, opened, become like another or changed places."""
    rng = np.random.default_rng(draw(seeds))
    k = len(centers)
    after = centers.copy()
    moved = rng.random(k) < draw(st.sampled_from([0.0, 0.2, 0.5]))
    steps = draw(st.sampled_from([1e-12, 0.1, 3.0])) * (centers[rng.permutation(k)] - centers)
    after[moved] += steps[moved]
    opened = centers[rng.integers(k, size=draw(st.integers(0, 2)))] * draw(
        st.sampled_from([1.0, 1.5, 8.0])
    )
    after = np.concatenate([after[rng.random(k) > draw(st.sampled_from([0.0, 0.2]))], opened])
    if draw(st.sampled_from([False, False, False, True])):
        after = after[rng.permutation(len(after))]
    return after if len(after) else centers[:1]


@pytest.mark.parametrize("sparse", [True, False])
@given(st.data())
def test_reused_answers_are_the_answers_of_a_scan(sparse, data):
    rows, centers = data.draw(rows_and_centers(rows=(1, 12)))
    after = data.draw(changed(centers))
    block = Block(3, rows, data.draw(weights_of(len(rows))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assign, "LEAST_SPARSE", 0 if sparse else 10**6)
        patch.setattr(assign, "FEW_ROWS", np.inf)
        kept = ShardAnswer.of(scan(block, Centers(centers), np.inf), 2**14)
    for each in reusable_answers(centers, after, {7: kept}).values():
        k, again = len(after), scan(block, Centers(after), np.inf)
        assert contents(each.to_scan(k), k) == contents(again, k)


def kept_of_line():
    """Rows between 0 and 1, whose center is the second, at 0."""
    rows = np.array([[0.0], [0.25], [1.0]])
    return ShardAnswer.of(
        scan(Block(0, rows, None), Centers(np.array([[-9.0], [0.0], [50.0]])), 4.0), 2**14
    )


@pytest.mark.parametrize(
    ("after", "numbers"),
    [
        ([-9.0, 0.0, 50.0], [1]),
        ([-9.0, 0.0, 49.0], [1]),
        ([-9.0, 0.0, 50.0, 2.01], [1]),
        (
            [-9.0, 0.0, 50.0, 2.0],
            None,
        ),  # as far from the row at 1 as its own: only what is farther is ruled out
        ([-9.0, 0.0, -1.5], None),
        ([0.0, 50.0], [0]),
        ([0.0, -9.0, 50.0], None),
        ([-9.0, 1e-9, 50.0], None),
        ([-9.0, 50.0], None),
        ([-9.0, 0.0, 0.0, 50.0], None),
    ],
)
def test_an_answer_stands_where_no_center_that_is_new_can_have_come_nearer(after, numbers):
    stands = reusable_answers(
        np.array([[-9.0], [0.0], [50.0]]), np.array([after]).T, {7: kept_of_line()}
    )
    assert {shard: each.clusters.tolist() for shard, each in stands.items()} == (
        {} if numbers is None else {7: numbers}
    )


def test_nothing_is_kept_of_rows_that_object_or_lie_in_many_clusters():
    rows = np.arange(6.0)[:, np.newaxis]
    block, centers = Block(0, rows, None), Centers(rows[::2])
    size = 3 * 8 * 6
    assert ShardAnswer.of(scan(block, centers, 0.5), size) is None
    assert ShardAnswer.of(scan(block, centers, 1.0), size).clusters.tolist() == [0, 1, 2]
    assert ShardAnswer.of(scan(block, centers, 1.0), size - 1) is None


def test_squares_that_underflow_prove_nothing():
    rows, before, after = (
        np.array([values]).T for values in ([1.4e-162], [9.0, 0.0], [2e-162, 0.0])
    )
    block = Block(0, rows, None)
    kept = ShardAnswer.of(scan(block, Centers(before), 1.0), 2**14)
    assert kept.clusters.tolist() == [1]
    assert np.flatnonzero(scan(block, Centers(after), 1.0).moments.counts).tolist() == [0]
    assert reusable_answers(before, after, {7: kept}) == {}
