import math

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import grid_problems, spread, tables

from dask_dpmeans import reference
from dask_dpmeans.errors import InputError, TooManyClustersError
from dask_dpmeans.methods.streaming import Online as Method
from dask_dpmeans.methods.streaming import State
from dask_dpmeans.sources import as_source

FEWER = settings(max_examples=30)


def fitted(source, method):
    return source.carry(method.take, method.init(source.n_features))


@FEWER
@given(grid_problems())
def test_a_source_is_taken_as_algorithm_2_takes_its_rows(problem):
    source = as_source(problem.rows, threads=problem.threads, block_rows=problem.block_rows)
    state = fitted(source, Method(problem.penalty))
    wanted = reference.online_dp_means(problem.rows.tolist(), problem.penalty)
    assert (state.centers.tolist(), state.weights.tolist()) == (wanted.centers, wanted.weights)


@FEWER
@given(tables(rows=(1, 80), kinds=("clouds", "offset", "outliers", "huge", "tiny", "uneven")))
def test_blocks_leave_no_trace(rows):
    method = Method(0.2 * spread(rows))
    states = [
        fitted(as_source(rows, threads=1, block_rows=height), method) for height in (1, 8, 128)
    ]
    assert len({(state.centers.tobytes(), state.weights.tobytes()) for state in states}) == 1


@FEWER
@given(tables(rows=(1, 80), columns=(1, 1), kinds=("grid", "clouds")))
def test_in_the_easy_case_all_rows_make_one_cluster_at_their_mean(rows):
    """Lemma 1 of the paper."""
    state = fitted(as_source(rows), Method(float(np.ptp(rows.astype(np.float64))) ** 2 + 1.0))
    assert state.weights.tolist() == [len(rows)]
    assert state.centers[0] == pytest.approx(rows.astype(np.float64).mean(axis=0), abs=1e-9)


def test_the_answer_is_the_state():
    method = Method(1.0)
    state = State(np.ones((2, 3)), np.ones(2))
    assert method.clusters(state) is state


@pytest.mark.parametrize("block_rows", [1, 2, 4])
def test_more_clusters_than_max_clusters_are_an_error_wherever_the_blocks_end(block_rows):
    source = as_source(np.array([[0.0], [10.0], [10.0], [20.0]]), threads=1, block_rows=block_rows)
    assert len(fitted(source, Method(4.0, max_clusters=3)).centers) == 3
    with pytest.raises(
        TooManyClustersError,
        match=r"^penalty=4 makes at least 3 clusters, more than max_clusters=2: give a higher penalty",
    ):
        fitted(source, Method(4.0, max_clusters=2))


def test_a_mean_that_overflows_is_an_error():
    method = Method(1.0)
    state = State(np.array([[1e300]]), np.array([1e9]))
    with pytest.raises(
        InputError,
        match="weight times center overflows float64: divide the data by a constant first",
    ):
        as_source(np.array([[1e300]])).carry(method.take, state)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": 0.0}, r"penalty must be a finite number > 0, got 0.0"),
        ({"penalty": math.nan}, r"penalty must be a finite number > 0, got nan"),
        ({"penalty": "8"}, r"penalty must be a finite number > 0, got '8'"),
        (
            {"penalty": 1.0, "max_clusters": 0},
            r"max_clusters must be an integer >= 1 or None, got 0",
        ),
    ],
)
def test_parameters_out_of_range_are_named(parameters, message):
    with pytest.raises(InputError, match=message):
        Method(**parameters)
