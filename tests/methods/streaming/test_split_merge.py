import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import grid_problems, seeds, spread, tables

from dask_dpmeans import reference
from dask_dpmeans.errors import InputError, TooManyClustersError
from dask_dpmeans.methods.streaming import SplitMerge as Method
from dask_dpmeans.methods.streaming import merge_clusters
from dask_dpmeans.sources import as_source

FEWER = settings(max_examples=30)


def fitted(source, method):
    return source.carry(method.take, method.init(source.n_features))


@FEWER
@given(grid_problems())
def test_a_source_is_taken_as_algorithm_3_takes_its_rows(problem):
    source = as_source(problem.rows, threads=problem.threads, block_rows=problem.block_rows)
    method = Method(problem.penalty, merge=False)
    state = fitted(source, method)
    wanted = reference.split_dp_means(problem.rows.tolist(), problem.penalty)
    assert [
        reference.Box(*(each.tolist() for each in box)) for box in zip(*state.boxes, strict=True)
    ] == wanted
    assert method.clusters(state).centers.tolist() == [box.center for box in wanted]
    assert method.clusters(state).weights.tolist() == [box.weight for box in wanted]


@FEWER
@given(tables(rows=(1, 80), kinds=("clouds", "offset", "outliers", "huge", "tiny", "uneven")))
def test_blocks_leave_no_trace(rows):
    method = Method(0.2 * spread(rows))
    states = [
        fitted(as_source(rows, threads=1, block_rows=height), method) for height in (1, 8, 128)
    ]
    assert len({b"".join(each.tobytes() for each in state.boxes) for state in states}) == 1


@FEWER
@given(st.integers(1, 80), st.integers(1, 3), st.sampled_from([0.1, 1.0, 5.0]), seeds)
def test_a_fit_is_algorithm_3_and_then_algorithm_4(n, d, penalty, seed):
    rows, method = np.random.default_rng(seed).normal(size=(n, d)), Method(penalty)
    found = method.clusters(fitted(as_source(rows), method))
    boxes = reference.split_dp_means(rows.tolist(), penalty)
    wanted = reference.merge_dp_means(
        [box.center for box in boxes], [box.weight for box in boxes], penalty
    )
    np.testing.assert_allclose(found.centers, wanted.centers, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.weights, wanted.weights, rtol=1e-12)


def test_clusters_without_weight_are_left_out_of_the_merge():
    found = merge_clusters(
        np.array([[5.0], [0.0], [9.0], [0.5]]), np.array([0.0, 1.0, 2.0, 3.0]), 1.0
    )
    assert (found.centers.tolist(), found.weights.tolist()) == ([[0.375], [9.0]], [4.0, 2.0])


def test_a_merge_keeps_the_weight_and_the_mean_of_all():
    rng = np.random.default_rng(1)
    centers, weights = rng.normal(size=(300, 2)), rng.uniform(0.1, 3.0, 300)
    found = merge_clusters(centers, weights, 20.0)
    assert 1 < len(found.centers) < 100
    assert found.weights.sum() == pytest.approx(weights.sum())
    np.testing.assert_allclose(found.weights @ found.centers, weights @ centers, atol=1e-10)


def test_many_close_rows_deserve_more_clusters_than_few():
    """Figure 2 of the paper, where a threshold alone sees no difference."""
    pair = np.array([[-1.0, 0.0], [1.0, 0.0]])
    few, many = (
        fitted(as_source(np.tile(pair, (times, 1))), Method(100.0)) for times in (10, 1000)
    )
    assert len(Method(100.0).clusters(few).centers) == 1
    assert Method(100.0).clusters(many).centers == pytest.approx(pair, abs=0.3)


def test_more_clusters_than_max_clusters_are_an_error_whether_opened_or_split_off():
    apart, close = np.array([[0.0], [10.0], [20.0]]), np.tile([[-1.0], [1.0]], (40, 1))
    for rows in (apart, close):
        assert len(fitted(as_source(rows), Method(4.0, max_clusters=50)).boxes.centers) >= 2
        with pytest.raises(
            TooManyClustersError, match=r"^penalty=4 makes at least 2 clusters, more than"
        ):
            fitted(as_source(rows), Method(4.0, max_clusters=1))


def test_parameters_out_of_range_are_named():
    with pytest.raises(InputError, match=r"penalty must be a finite number > 0, got -1.0"):
        Method(-1.0)
    with pytest.raises(InputError, match=r"max_clusters must be an integer >= 1 or None, got 2.5"):
        Method(1.0, max_clusters=2.5)
    with pytest.raises(InputError, match=r"merge must be True or False, got 'no'"):
        Method(1.0, merge="no")
