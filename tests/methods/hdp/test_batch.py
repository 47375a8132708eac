import math
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import (
    TAME,
    chunkings,
    contents,
    grid_problems,
    groupings,
    labels_of,
    seeds,
    spread,
    states_of,
    tables,
    weights_of,
)

from dask_dpmeans import reference
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.errors import InputError, TooManyClustersError
from dask_dpmeans.methods.hdp.batch import Method
from dask_dpmeans.sources import as_source

FEWER = settings(max_examples=40)


@st.composite
def grid_fits(draw):
    problem = draw(grid_problems())
    groups = draw(groupings(len(problem.rows)))
    share = draw(st.sampled_from([0.25, 0.5, 1.0]))
    return problem, groups, Method(problem.penalty * share, problem.penalty, tol=0.0)


def serial_points(rows, sets, each, method, before, after, seed):
    """Step 4 of the reference from the state before, in witness order: the opened rows, then the rest in any order."""
    uses = set(zip(before.next.groups.tolist(), before.next.centers.tolist(), strict=True))
    start = reference.Shared([0] * len(rows), before.means.tolist(), uses, [])
    rest = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(len(rows)), after.opened))
    order = [*after.opened, *rest.tolist()]
    return reference.hdp_points(
        rows, sets, method.local_penalty, method.global_penalty, start, order, each
    )


@FEWER
@given(grid_fits(), seeds)
def test_each_sweep_is_algorithm_2_in_witness_order(fit, seed):
    """Openings, centers, uses and labels to the bit, for any blocks, shards and threads; and the means that follow."""
    problem, groups, method = fit
    source = as_source(
        problem.rows,
        problem.weights,
        groups=groups,
        threads=problem.threads,
        block_rows=problem.block_rows,
    )
    rows, each, sets = problem.rows.tolist(), problem.each, groups.tolist()
    weighty = [i for i, weight in enumerate(each) if weight > 0]
    before = method.init(source)
    for after in states_of(source, method)[:-1]:
        serial = serial_points(rows, sets, each, method, before, after, seed)
        alive = sorted({serial.labels[i] for i in weighty})
        assert after.opened.tolist() == serial.opened
        assert after.centers.tolist() == [serial.centers[p] for p in alive]
        assert after.deaths == len(serial.centers) - len(alive) + max(
            0, len(before.centers) - len(before.means)
        )
        assert len(before.centers) + after.births - after.deaths == len(after.centers)
        found = {i: alive.index(serial.labels[i]) for i in weighty}
        pairs = list(zip(after.local.groups.tolist(), after.local.centers.tolist(), strict=True))
        assert pairs == sorted({(sets[i], p) for i, p in found.items()})
        labels = labels_of(source, method, after)
        assert {i: labels[i] for i in weighty} == found
        prices = method.local_penalty, method.global_penalty
        assert after.objective == pytest.approx(
            reference.hdp_objective(rows, sets, *prices, serial, each), rel=1e-12
        )
        goes = dict(zip(pairs, after.next.centers.tolist(), strict=True))
        for p, mean in enumerate(after.means.tolist()):
            members = [i for i, q in found.items() if goes[sets[i], q] == p]
            assert mean == reference.mean_of([rows[i] for i in members], [each[i] for i in members])
        before = after


@st.composite
def fits(draw, kinds=TAME):
    """Any rows, weights and groups, as a source and a method."""
    rows = draw(tables(kinds=kinds))
    weights = draw(weights_of(len(rows), (0.0, 1e-3, 0.3, 1.0, 7.7)))
    groups = draw(groupings(len(rows)))
    source = as_source(
        rows, weights, groups=groups, threads=1, block_rows=2 ** draw(st.integers(0, 4))
    )
    price = draw(st.sampled_from([0.003, 0.03, 0.3, 3.0])) * spread(rows)
    method = Method(
        price * draw(st.sampled_from([0.1, 1.0])), price, tol=draw(st.sampled_from([0.0, 1e-4]))
    )
    return rows, weights, groups, source, method


@FEWER
@given(fits(kinds=("clouds",)), seeds)
def test_local_clusters_go_where_algorithm_2_sends_them(fit, seed):
    """Steps 5 and 6; without exact ties, which rounding may decide."""
    rows, weights, groups, source, method = fit
    rows, sets, each = (
        rows.tolist(),
        groups.tolist(),
        [1.0] * len(rows) if weights is None else weights.tolist(),
    )
    before = method.init(source)
    for after in states_of(source, method)[:-1]:
        serial = serial_points(rows, sets, each, method, before, after, seed)
        tied = reference.hdp_local_clusters(rows, sets, method.global_penalty, serial, each)
        wanted = reference.hdp_means(rows, sets, tied, each)
        np.testing.assert_allclose(after.means, wanted.centers, rtol=1e-9, atol=1e-9)
        found = set(zip(after.next.groups.tolist(), after.next.centers.tolist(), strict=True))
        assert found == {(sets[i], p) for i, p in enumerate(wanted.labels) if each[i] > 0}
        assert (after.associations > 0) == (
            len(set(zip(sets, tied.labels, strict=True)))
            != len(set(zip(sets, serial.labels, strict=True)))
            or [t for t, w in zip(tied.labels, each, strict=True) if w > 0]
            != [t for t, w in zip(serial.labels, each, strict=True) if w > 0]
        )
        before = after


@FEWER
@given(fits())
def test_the_objective_falls_at_each_step_until_the_last(fit):
    *_, source, method = fit
    objectives = [math.inf, *(state.objective for state in states_of(source, method))]
    assert all(after < before for before, after in pairwise(objectives[:-1]))
    assert objectives[-1] <= objectives[-2]


@FEWER
@given(fits())
def test_what_a_state_holds_is_what_its_labels_give(fit):
    rows, weights, groups, source, method = fit
    each = np.ones(len(rows)) if weights is None else weights
    for state in states_of(source, method):
        labels = np.array(labels_of(source, method, state))
        squared = np.array(
            [
                reference.squared_distance(x, state.centers[p])
                for x, p in zip(rows, labels, strict=True)
            ]
        )
        g = len(state.centers)
        np.testing.assert_allclose(state.weights, np.bincount(labels, each, g), rtol=1e-12)
        np.testing.assert_allclose(
            state.inertias, np.bincount(labels, each * squared, g), rtol=1e-9
        )
        pairs = sorted(
            {
                (group, p)
                for group, p, w in zip(groups.tolist(), labels.tolist(), each, strict=True)
                if w > 0
            }
        )
        assert (
            list(zip(state.local.groups.tolist(), state.local.centers.tolist(), strict=True))
            == pairs
        )
        for group, p, weight in zip(
            state.local.groups, state.local.centers, state.local.weights, strict=True
        ):
            assert weight == pytest.approx(each[(groups == group) & (labels == p)].sum())
        assert state.objective == pytest.approx(
            float(each @ squared) + method.local_penalty * len(pairs) + method.global_penalty * g,
            rel=1e-9,
        )
        assert state.objective == method.score(source, state)


@FEWER
@given(fits(), st.data())
def test_the_same_bytes_for_any_chunks_and_threads(fit, data):
    rows, weights, groups, source, method = fit
    chunks = data.draw(chunkings(len(rows), empty=False))
    lazy = [
        None if array is None else da.from_array(array, chunks=(chunks, -1)[: array.ndim])
        for array in (rows, weights, groups)
    ]
    block_rows = source.plan.block_rows
    others = [
        as_source(
            rows, weights, groups=groups, threads=2, memory_limit=2000, block_rows=block_rows
        ),
        as_source(lazy[0], lazy[1], groups=lazy[2], threads=2, block_rows=block_rows),
    ]
    wanted = [contents(state) for state in states_of(source, method)]
    for other in others:
        assert [contents(state) for state in states_of(other, method)] == wanted


@FEWER
@given(grid_problems(most=16, among=(0.0, 1.0, 2.0, 3.0)), st.data())
def test_integer_weights_are_repeated_rows(problem, data):
    times = np.array(problem.each, int)
    groups = data.draw(groupings(len(times)))
    weighted = as_source(problem.rows, problem.weights, groups=groups, threads=1, block_rows=64)
    many = np.repeat(problem.rows, times, axis=0), np.repeat(groups, times)
    repeated = as_source(many[0], groups=many[1], threads=1, block_rows=64)
    method = Method(problem.penalty / 2, problem.penalty)
    one, other = method.init(weighted), method.init(repeated)
    for _ in range(3):
        one, other = method.step(weighted, one), method.step(repeated, other)
        assert one.centers.tolist() == other.centers.tolist()
        if len(one.local.groups) < len(other.local.groups):
            return  # a center was opened between two copies of a row, and the later one took it
        assert one.means.tolist() == other.means.tolist()
        assert one.local.groups.tolist() == other.local.groups.tolist()
        assert one.objective == pytest.approx(other.objective, rel=1e-12)


def test_a_center_that_opens_between_two_copies_of_a_row_is_taken_by_the_later_one():
    """Of 15 data sets of one row, weights and copies part in the first sweep, and meet in the second."""
    first = [-7, -7, 2, 4, 3, 6, 4, -5, 5, -2, -4, -2, -8, -7, -4]
    second = [-4, -3, -7, 3, 0, -3, 8, 6, -3, -6, -6, 5, 8, -4, -7]
    rows = np.array([first, second], np.float32).T
    times = np.array([3, 0, 2, 2, 3, 1, 2, 1, 2, 0, 2, 3, 3, 3, 1])
    groups = np.array([2, 11, 3, 10, 0, 4, 7, 5, 14, 12, 6, 9, 13, 8, 1])
    weighted = as_source(rows, times.astype(float), groups=groups, threads=1)
    repeated = as_source(np.repeat(rows, times, axis=0), groups=np.repeat(groups, times), threads=1)
    method = Method(8.0, 16.0)
    one, other = (method.step(each, method.init(each)) for each in (weighted, repeated))
    assert np.flatnonzero(other.local.groups == 6).size == 2
    assert np.flatnonzero(one.local.groups == 6).size == 1
    assert other.objective < one.objective
    one, other = method.step(weighted, one), method.step(repeated, other)
    assert one.centers.tolist() == other.centers.tolist()
    assert one.local.groups.tolist() == other.local.groups.tolist()
    assert one.objective == other.objective


@FEWER
@given(tables(kinds=TAME))
def test_with_one_data_set_and_free_uses_it_is_dp_means(rows):
    """Algorithm 2 becomes Algorithm 1 as the local penalty goes to 0, but for step 5."""
    price = 0.3 * spread(rows)
    source = as_source(rows, groups=np.zeros(len(rows), np.int64), threads=1)
    swept = next(iter(iterate(source, Method(1e-300, price)))).state
    order = [*swept.opened, *np.setdiff1d(np.arange(len(rows)), swept.opened).tolist()]
    mean = reference.mean_of(rows.tolist(), [1.0] * len(rows))
    serial = reference.sweep(rows.tolist(), price, [mean], order, [1.0] * len(rows))
    assert swept.opened.tolist() == serial.opened
    assert swept.centers.tolist() == [serial.centers[p] for p in sorted(set(serial.labels))]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([0, 1], r"groups must hold one number a row: 3 rows, but 2 numbers"),
        ([0, -1, 0], r"groups holds -1 at row 1: groups must be from 0"),
        (
            [0, 1, 2**24],
            r"groups holds 16777216 at row 2: groups must be from 0 to below 16,777,216; number them",
        ),
        (
            [0.0, np.nan, 1.0],
            r"groups must be integers from 0 on, got float64: fill missing values, then number the groups",
        ),
        ([0, None, 1], r"groups must be integers|groups is no array of numbers"),
        ([[0], [1], [2]], r"groups must have 1 dimension, got shape \(3, 1\)"),
        (
            ["a", "b", "c"],
            r"groups must be integers from 0 on, got <U1: number the groups, for exam",
        ),
    ],
)
def test_groups_that_are_none_are_refused(groups, message):
    with pytest.raises(InputError, match=message):
        as_source(np.zeros((3, 2)), groups=groups)


def test_rows_without_groups_are_refused():
    with pytest.raises(InputError, match="the rows come without groups"):
        Method(1.0, 1.0).init(as_source(np.zeros((3, 2))))


@pytest.mark.parametrize("name", ["local_penalty", "global_penalty"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "1", None])
def test_penalties_that_are_none_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name} must be a finite number > 0, got {value!r}"):
        Method(**({"local_penalty": 1.0, "global_penalty": 1.0} | {name: value}))


def test_too_many_clusters_are_an_error():
    rows = np.arange(20.0)[:, np.newaxis]
    source = as_source(rows, groups=np.zeros(20, np.int64))
    with pytest.raises(TooManyClustersError, match="max_clusters=3"):
        list(iterate(source, Method(0.1, 0.1, max_clusters=3)))
