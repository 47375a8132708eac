import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TAME, contents, grid_problems, seeds, spread, states_of, tables, weights_of

from dask_dpmeans import reference
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate, last_state
from dask_dpmeans.errors import InputError, TooManyClustersError
from dask_dpmeans.kernels.assign import NearestLabels
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans.batch import (
    CENTER_NUMBERS,
    Method,
    State,
    check_number,
    check_room,
)
from dask_dpmeans.sources import as_source

FEWER = settings(max_examples=25)


def labels_of(source, state):
    parts = {}
    source.map(
        NearestLabels(Centers(state.centers)),
        lambda start, answers: parts.update({start: answers[0]}),
    )
    return np.concatenate([parts[start] for start in sorted(parts)]).tolist()


def step_of(centers=((0.0,),), means=((0.0,),), objective=1.0, opened=()):
    """A state of which only these matter."""
    return State(
        step=1,
        centers=np.array(centers),
        means=np.array(means),
        weights=np.ones(1),
        inertias=np.ones(1),
        objective=objective,
        opened=np.array(opened, np.int64),
        rows_read=0,
    )


@FEWER
@given(grid_problems(), seeds)
def test_each_step_is_a_serial_sweep_of_algorithm_1(problem, seed):
    """Births, centers, means and labels to the bit, for any blocks, shards and threads."""
    source = as_source(
        problem.rows, problem.weights, threads=problem.threads, block_rows=problem.block_rows
    )
    rows, each, method = problem.rows.tolist(), problem.each, Method(problem.penalty, tol=0.0)
    before = method.init(source)
    assert before.means.tolist() == [reference.mean_of(rows, each)]
    for after in states_of(source, method)[:-1]:
        rest = np.random.default_rng(seed).permutation(
            np.setdiff1d(np.arange(len(rows)), after.opened)
        )
        serial = reference.sweep(
            rows, problem.penalty, before.means.tolist(), [*after.opened, *rest.tolist()], each
        )
        weighty = {label for label, weight in zip(serial.labels, each, strict=True) if weight > 0}
        numbers = sorted(weighty)
        assert after.opened.tolist() == serial.opened
        assert after.centers.tolist() == [serial.centers[number] for number in numbers]
        assert after.means.tolist() == serial.means
        assert after.deaths == len(serial.centers) - len(numbers)
        assert after.objective == pytest.approx(
            reference.objective(rows, problem.penalty, serial, each), rel=1e-12
        )
        assert [
            numbers[label]
            for label, weight in zip(labels_of(source, after), each, strict=True)
            if weight > 0
        ] == [label for label, weight in zip(serial.labels, each, strict=True) if weight > 0]
        before = after


@st.composite
def fits(draw):
    """Any rows and weights, as a source and a method."""
    rows = draw(tables(kinds=(*TAME, "huge", "tiny", "uneven")))
    weights = draw(weights_of(len(rows), (0.0, 1e-3, 0.3, 1.0, 7.7)))
    source = as_source(rows, weights, threads=1, block_rows=2 ** draw(st.integers(0, 4)))
    penalty = draw(st.sampled_from([0.003, 0.03, 0.3, 3.0])) * spread(rows)
    return rows, weights, source, Method(penalty, tol=draw(st.sampled_from([0.0, 1e-4])))


@FEWER
@given(fits())
def test_the_objective_falls_at_each_step_until_the_last(fit):
    _, _, source, method = fit
    objectives = [math.inf, *(state.objective for state in states_of(source, method))]
    assert all(after < before for before, after in pairwise(objectives[:-1]))
    assert objectives[-1] <= objectives[-2]


@FEWER
@given(fits())
def test_what_a_state_holds_is_what_its_centers_give(fit):
    rows, weights, source, method = fit
    each = np.ones(len(rows)) if weights is None else weights
    for state in states_of(source, method):
        near = [reference.nearest_center(row, state.centers.tolist()) for row in rows.tolist()]
        inertias, sums = [[] for _ in state.centers], [0.0 for _ in state.centers]
        for (label, squared), weight in zip(near, each, strict=True):
            inertias[label].append(weight * squared)
            sums[label] += weight
        assert state.inertias.tolist() == pytest.approx(
            [math.fsum(errors) for errors in inertias], rel=1e-12, abs=0
        )
        assert state.weights.tolist() == pytest.approx(sums, rel=1e-14)
        assert state.objective == math.fsum(state.inertias) + method.penalty * len(state.centers)
        assert min(sums) > 0


@FEWER
@given(fits())
def test_every_row_of_weight_one_lies_within_the_radius_and_lighter_ones_as_they_can_pay(fit):
    rows, weights, source, method = fit
    each = np.ones(len(rows)) if weights is None else weights
    for state in states_of(source, method):
        near = [reference.nearest_center(row, state.centers.tolist())[1] for row in rows.tolist()]
        assert all(
            min(1.0, weight) * squared <= method.penalty
            for squared, weight in zip(near, each, strict=True)
        )


@FEWER
@given(grid_problems(most=16, among=(0.0, 1.0, 2.0, 3.0)), st.integers(1, 4))
def test_integer_weights_are_repeated_rows(problem, steps):
    times = np.array(problem.each, int)
    weighted = as_source(problem.rows, problem.weights, threads=1, block_rows=64)
    repeated = as_source(np.repeat(problem.rows, times, axis=0), threads=1, block_rows=64)
    origin = np.repeat(np.arange(len(times)), times)
    method = Method(problem.penalty)
    one, other = method.init(weighted), method.init(repeated)
    for _ in range(steps):
        one, other = method.step(weighted, one), method.step(repeated, other)
        assert one.centers.tolist() == other.centers.tolist()
        assert one.means.tolist() == other.means.tolist()
        assert one.weights.tolist() == other.weights.tolist()
        assert one.objective == pytest.approx(other.objective, rel=1e-12)
        assert one.opened.tolist() == origin[other.opened].tolist()


@FEWER
@given(grid_problems())
def test_tol_0_ends_when_the_means_repeat_or_nothing_is_gained(problem):
    source = as_source(problem.rows, problem.weights, threads=1, block_rows=problem.block_rows)
    method = Method(problem.penalty, tol=0.0)
    *earlier, last = iterate(source, method)
    assert last.converged
    again = method.step(source, last.state)
    assert (
        np.array_equal(last.state.means, last.state.centers)
        or not again.objective < last.state.objective
    )
    assert not any(np.array_equal(step.state.means, step.state.centers) for step in earlier)


@FEWER
@given(tables(rows=(30, 80), kinds=TAME), st.sampled_from([1e-4, 0.01, 0.2]))
def test_tol_ends_at_the_first_sweep_that_opens_nothing_and_gains_less(rows, tol):
    source, penalty = as_source(rows, threads=1, block_rows=8), 0.1 * spread(rows)
    exact = states_of(source, Method(penalty, tol=0.0))
    small = [
        not after.opened.size and before.objective - after.objective < tol * after.objective
        for before, after in pairwise(exact)
    ]
    ended = states_of(source, Method(penalty, tol=tol))
    wanted = exact[: small.index(True) + 2] if True in small else exact
    assert [state.objective for state in ended] == [state.objective for state in wanted]


@pytest.mark.parametrize(
    ("before", "after", "tol", "end"),
    [
        (step_of(objective=10.2), step_of(means=((1.0,),), objective=10.0), 0.03, True),
        (step_of(objective=10.2), step_of(means=((1.0,),), objective=10.0), 0.01, False),
        (step_of(objective=12.5), step_of(means=((1.0,),), objective=10.0), 0.25, False),
        (
            step_of(objective=10.2),
            step_of(means=((1.0,),), objective=10.0, opened=(5,)),
            0.03,
            False,
        ),
        (step_of(objective=10.2), step_of(objective=10.0), 0.0, True),
        (step_of(objective=10.2), step_of(means=((5e-324,),), objective=10.0), 0.0, False),
        (step_of(objective=math.inf), step_of(means=((1.0,),), objective=10.0), 0.9, False),
    ],
)
def test_done_needs_a_small_gain_without_births_or_means_that_repeat(before, after, tol, end):
    assert Method(1.0, tol=tol).done(before, after) is end


@FEWER
@given(tables(rows=(2, 60), kinds=TAME), st.integers(1, 4))
def test_max_iter_cuts_the_fit_short_and_says_so(rows, most):
    source, penalty = as_source(rows, threads=1, block_rows=8), 0.1 * spread(rows)
    whole = list(iterate(source, Method(penalty)))
    cut = list(iterate(source, Method(penalty, max_iter=most)))
    assert [contents(step.state) for step in cut] == [contents(step.state) for step in whole[:most]]
    assert cut[-1].converged is (len(whole) <= most)


def test_more_clusters_than_max_clusters_are_an_error_after_the_steps_that_stand():
    source = as_source(np.array([[0.0], [10.0], [20.0], [30.0]]), block_rows=4)
    assert (
        states_of(source, Method(4.0, max_clusters=4))[0].deaths == 1
    )  # the first mean does not count
    with pytest.raises(
        TooManyClustersError,
        match=r"^penalty=4 makes at least 4 clusters, more than max_clusters=3: give a higher penalty",
    ):
        states_of(source, Method(4.0, max_clusters=3))


def test_the_limit_in_an_error_is_a_number_that_can_be_given():
    """A command tells it as its option, --max-clusters 2000; 2,000 would be no number."""
    error = "makes at least 2,001 clusters, more than max_clusters=2000: give"
    with pytest.raises(TooManyClustersError, match=error):
        check_number(2001, 2000, 1.0)


def test_clusters_that_were_there_count_against_max_clusters_where_they_live():
    rows = np.array([[0.0], [10.0], [20.0]])
    with pytest.raises(
        TooManyClustersError, match=r"makes at least 3 clusters, more than max_clusters=2"
    ):
        states_of(as_source(rows), Method(4.0, centers=rows, max_clusters=2))


@FEWER
@given(grid_problems())
def test_given_centers_are_where_the_first_sweep_starts(problem):
    source = as_source(problem.rows, problem.weights, threads=1, block_rows=problem.block_rows)
    centers = np.array([[0.5] * problem.rows.shape[1], [-3.0] * problem.rows.shape[1]])
    after = states_of(source, Method(problem.penalty, centers=centers, max_iter=1))[0]
    rest = [number for number in range(len(problem.rows)) if number not in after.opened]
    order = [*after.opened.tolist(), *rest]
    serial = reference.sweep(
        problem.rows.tolist(), problem.penalty, centers.tolist(), order, problem.each
    )
    assert after.means.tolist() == serial.means


def test_clusters_of_rows_without_weight_die_and_those_after_them_move_up():
    source = as_source(np.array([[0.0], [9.0], [20.0]]), [0.0, 1.0, 2.0], block_rows=4)
    after = states_of(
        source, Method(1.0, centers=np.array([[0.0], [9.0], [20.0], [90.0]]), max_iter=1)
    )[0]
    assert (after.centers.tolist(), after.weights.tolist(), after.deaths) == (
        [[9.0], [20.0]],
        [1.0, 2.0],
        2,
    )


def test_given_centers_are_in_the_units_of_the_input():
    rows, centers = np.array([[0.0, 8.0], [4.0, 8.0]]), np.array([[4.0, 8.0], [0.0, 8.0]])
    source = as_source(rows, scale=np.array([2.0, 8.0]))
    assert Method(1.0, centers=centers).init(source).means.tolist() == [[2.0, 1.0], [0.0, 1.0]]


def test_given_centers_of_another_width_are_refused():
    with pytest.raises(InputError, match=r"the first centers have 1 column, the data has 3"):
        Method(1.0, centers=np.zeros((1, 1))).init(as_source(np.ones((4, 3))))


@FEWER
@given(fits())
def test_rows_read_are_the_survey_and_whole_passes_one_for_a_sweep_without_births(fit):
    rows, _, source, method = fit
    states = [method.init(source), *states_of(source, method)]
    assert states[0].rows_read == len(rows)
    for before, after in pairwise(states):
        passes = (after.rows_read - before.rows_read) / len(rows)
        assert passes in range(1, 1000)
        tried = after.step == before.step
        assert passes == (2 if before.step == 0 else 1) or after.opened.size or tried


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": 0.0}, r"penalty must be a finite number > 0, got 0.0"),
        ({"penalty": -1.0}, r"penalty must be a finite number > 0, got -1.0"),
        ({"penalty": math.nan}, r"penalty must be a finite number > 0, got nan"),
        ({"penalty": math.inf}, r"penalty must be a finite number > 0, got inf"),
        ({"penalty": 1.0, "max_iter": 0}, r"max_iter must be an integer >= 1, got 0"),
        ({"penalty": 1.0, "tol": -1e-9}, r"tol must be a finite number >= 0, got -1e-09"),
        ({"penalty": 1.0, "tol": math.nan}, r"tol must be a finite number >= 0, got nan"),
        (
            {"penalty": 1.0, "max_clusters": 0},
            r"max_clusters must be an integer >= 1 or None, got 0",
        ),
        (
            {"penalty": 1.0, "centers": np.zeros(2)},
            r"the first centers must be finite numbers of shape \(k, d\)",
        ),
        ({"penalty": 1.0, "centers": np.zeros((0, 2))}, r"the first centers must be .*k >= 1"),
        (
            {"penalty": 1.0, "centers": np.array([[np.nan]])},
            r"the first centers must be .*got array\(\[\[nan\]\]\)",
        ),
    ],
)
def test_parameters_out_of_range_are_named(parameters, message):
    with pytest.raises(InputError, match=message):
        Method(**parameters)


def test_more_clusters_than_fit_a_worker_are_refused_by_their_number_and_the_penalty():
    rows = np.arange(500.0).reshape(-1, 1) * np.ones(8)
    a_column, a_cluster = CENTER_NUMBERS
    all_of_them = 8 * 501 * (a_column * 8 + a_cluster)  # and the mean of all rows
    enough = InMemoryRows(rows, None, worker_room=all_of_them)
    assert len(last_state(enough, Method(0.25)).centers) == 500
    told = "penalty=0.25 leads to at least 501 centers: in 8 columns they take 0 MB of a worker or more"
    with pytest.raises(InputError, match=told):
        last_state(InMemoryRows(rows, None, worker_room=all_of_them - 1), Method(0.25))


def test_a_million_clusters_in_16_columns_fit_a_worker_of_2_gb():
    check_room(CENTER_NUMBERS, (10**6, 16), 1.2e9, LinearPrice(1.0))
    told = (
        "penalty=1 leads to at least 1,000,000 centers: in 64 columns they take 2,048 MB of a worker or more, and "
        "it has 1,200 MB beside the rows. Give a higher penalty, fewer columns, or workers with more memory"
    )
    with pytest.raises(InputError, match=told):
        check_room(CENTER_NUMBERS, (10**6, 64), 1.2e9, LinearPrice(1.0))
