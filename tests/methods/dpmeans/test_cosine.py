"""DP-means of directions: the metric alone, then the sweep and the search in it."""

import math
from dataclasses import replace
from itertools import combinations, pairwise, product

import dask.array as da
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import DTYPES, DYADIC, chunkings, contents, labels_of, seeds, states_of, weights_of

from dask_dpmeans import DPMeans, InputError, reference
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.features import UnitRows
from dask_dpmeans.kernels.metrics import METRICS
from dask_dpmeans.kernels.move_statistics import MoveScan
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans import batch, search, trials
from dask_dpmeans.methods.dpmeans.moves import (
    ROUNDING,
    Findings,
    Moves,
    apply_moves,
    around,
    gains_of,
    merge_rises,
    merges,
    no_moves,
    profitable_moves,
)
from dask_dpmeans.sources import as_source

COSINE = METRICS["cosine"]
FEWER, MORE = settings(max_examples=20), settings(max_examples=120)
EXACT = np.array([*np.eye(4), *-np.eye(4), *product([0.5, -0.5], repeat=4)])
"""The 24 directions of four columns whose lengths, squared distances and sums are exact."""


def unit(rows):
    return UnitRows()(rows, Scratch()).copy()


def of(rows, weights=None, threads=1, block_rows=8):
    return as_source(rows, weights, features=UnitRows(), threads=threads, block_rows=block_rows)


def direction(total):
    """Of a sum; any other where it is 0."""
    length = np.linalg.norm(total)
    return total / length if length > 1e-10 else np.eye(1, len(total))[0]


@st.composite
def tables_of_directions(draw, most=40):
    """Rows of any length, with directions that repeat, are opposite or at right angles; or in clouds."""
    rng, n = np.random.default_rng(draw(seeds)), draw(st.integers(1, most))
    if draw(st.booleans()):
        rows = EXACT[rng.integers(len(EXACT), size=n)] * 2.0 ** rng.integers(-3, 4, (n, 1))
    else:
        d = draw(st.integers(1, 5))
        middles = rng.normal(size=(3, d))
        rows = (middles[rng.integers(3, size=n)] + 0.3 * rng.normal(size=(n, d))) * rng.lognormal(
            size=(n, 1)
        )
    return rows.astype(draw(st.sampled_from(DTYPES)))


# The metric


def test_the_mean_of_directions_is_the_direction_of_their_average_and_its_mass_the_length_of_their_sum():
    averages, weights = np.array([[0.3, 0.4], [0.0, -0.25]]), np.array([10.0, 2.0])
    assert COSINE.means(averages, np.zeros((2, 2))).tolist() == [[0.6, 0.8], [0.0, -1.0]]
    assert COSINE.masses(averages, weights).tolist() == [5.0, 0.5]


@pytest.mark.parametrize("left", [0.0, 1e-16, 1e-13])
def test_rows_that_cancel_leave_their_center_where_it_was(left):
    averages, before = np.array([[left, 0.0], [0.0, 0.5]]), np.array([[0.6, 0.8], [1.0, 0.0]])
    assert COSINE.means(averages, before).tolist() == [[0.6, 0.8], [0.0, 1.0]]
    assert COSINE.masses(averages, np.ones(2)).tolist() == [0.0, 0.5]


def test_where_all_rows_cancel_the_first_center_is_the_first_axis():
    source = of(np.array([[0.0, 3.0], [0.0, -2.0]]))
    assert batch.Method(1.0, metric="cosine").init(source).means.tolist() == [[1.0, 0.0]]
    assert (
        DPMeans(3.0, metric="cosine", search=True).fit([[0.0, 3.0], [0.0, -2.0]]).objective_
        == 2 * 3.0
    )
    assert (
        DPMeans(5.0, metric="cosine", search=True).fit([[0.0, 3.0], [0.0, -2.0]]).objective_
        == 2 * 2.0 + 5.0
    )


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("seed", range(20))
def test_away_from_its_mean_a_cluster_costs_its_mass_times_the_squared_distance_more(name, seed):
    metric, rng = METRICS[name], np.random.default_rng(seed)
    rows, weights = metric.length * unit(rng.normal(size=(9, 3))), rng.uniform(0.1, 5, 9)
    center = metric.length * unit(rng.normal(size=(1, 3)))
    average = np.average(rows, axis=0, weights=weights)[np.newaxis]
    mean, mass = (
        metric.means(average, center),
        metric.masses(average, weights.sum(keepdims=True))[0],
    )
    costs = [weights @ ((rows - each) ** 2).sum(axis=1) for each in (center, mean)]
    assert costs[0] - costs[1] == pytest.approx(mass * ((center - mean) ** 2).sum(), rel=1e-9)
    assert costs[0] > costs[1]


def test_given_centers_are_brought_to_unit_length_in_the_units_of_the_fit():
    source = as_source(
        np.array([[4.0, 8.0], [1.0, 1.0]]), scale=np.array([2.0, 4.0]), features=UnitRows()
    )
    first = batch.Method(1.0, centers=np.array([[12.0, 32.0], [-9.0, 0.0]]), metric="cosine").init(
        source
    )
    np.testing.assert_allclose(first.means, [[0.6, 0.8], [-1.0, 0.0]], rtol=1e-15)


@pytest.mark.parametrize("method", [batch.Method, search.Method])
def test_a_given_center_without_a_direction_is_named(method):
    centers = np.array([[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(
        InputError, match="center 1 of the first centers is 0 in every column and has no direction"
    ):
        method(1.0, centers=centers, metric="cosine").init(of(np.eye(2)))


@pytest.mark.parametrize("metric", ["manhattan", "", None, 3, []])
def test_other_metrics_are_refused(metric):
    with pytest.raises(
        InputError, match=r"metric must be one of 'euclidean', 'cosine', 'haversine', got "
    ):
        batch.Method(1.0, metric=metric)


def test_a_radius_beyond_the_farthest_direction_is_refused_and_a_price_is_not():
    with pytest.raises(
        InputError,
        match=r"penalty must be <= 4 where metric='cosine', got 4.5: .* search=True takes",
    ):
        batch.Method(4.5, metric="cosine")
    assert batch.Method(4.0, metric="cosine").penalty == 4.0
    assert search.Method(4.5, metric="cosine").penalty == 4.5


# The sweep


@st.composite
def exact_problems(draw):
    """Exact directions of any length, weights whose sums are exact, penalties that some distances equal."""
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(seeds))
    rows = (EXACT[rng.integers(len(EXACT), size=n)] * 2.0 ** rng.integers(-9, 9, (n, 1))).astype(
        draw(st.sampled_from(DTYPES))
    )
    weights = draw(weights_of(n, DYADIC))
    source = of(rows, weights, draw(st.integers(1, 2)), 2 ** draw(st.integers(0, 3)))
    method = batch.Method(
        draw(st.sampled_from([0.25, 0.5, 1.0, 1.5, 2.0, 3.0])), tol=0.0, metric="cosine"
    )
    return unit(rows), [1.0] * n if weights is None else weights.tolist(), source, method


@FEWER
@given(exact_problems(), seeds)
def test_each_step_is_a_serial_sweep_of_spherical_algorithm_1(problem, seed):
    """Births, centers, directions of sums and labels to the bit, for any blocks, shards and threads."""
    rows, each, source, method = problem[0].astype(float).tolist(), *problem[1:]
    before = method.init(source)
    axis = [1.0, 0.0, 0.0, 0.0]
    assert before.means.tolist() == [reference.direction(reference.mean_of(rows, each), axis)]
    for after in states_of(source, method)[:-1]:
        rest = np.random.default_rng(seed).permutation(
            np.setdiff1d(np.arange(len(rows)), after.opened)
        )
        order = [*after.opened, *rest.tolist()]
        serial = reference.spherical_sweep(rows, method.penalty, before.means.tolist(), order, each)
        numbers = sorted(
            {label for label, weight in zip(serial.labels, each, strict=True) if weight > 0}
        )
        assert after.opened.tolist() == serial.opened
        assert after.centers.tolist() == [serial.centers[number] for number in numbers]
        assert after.means.tolist() == serial.means
        assert after.objective == pytest.approx(
            reference.objective(rows, method.penalty, serial, each), rel=1e-12
        )
        found = labels_of(source, method, after)
        assert [
            numbers[label] for label, weight in zip(found, each, strict=True) if weight > 0
        ] == [label for label, weight in zip(serial.labels, each, strict=True) if weight > 0]
        before = after


@st.composite
def fits(draw, searching):
    """Rows of any directions and lengths, weights, and a method; the search is not told of radii alone."""
    rows = draw(tables_of_directions())
    weights = draw(weights_of(len(rows), (0.0, 1e-3, 0.3, 1.0, 7.7)))
    tol = draw(st.sampled_from([0.0, 1e-4]))
    penalty = draw(st.sampled_from([0.01, 0.1, 0.5, 1.0, 2.0, 4.0]))
    if searching:
        return rows, weights, search.Method(penalty * 3, tol=tol, seed=draw(seeds), metric="cosine")
    return rows, weights, batch.Method(penalty, tol=tol, metric="cosine")


def check_fit(rows, weights, method):
    """All that holds for a fit of either kind."""
    *steps, last = iterate(of(rows, weights), method)
    states, searching = (
        [step.state for step in steps] or [last.state],
        isinstance(method, search.Method),
    )
    assert last.converged
    assert all(after.objective < before.objective for before, after in pairwise(states))
    each = np.ones(len(rows)) if weights is None else weights
    for state in states:
        lengths = np.sqrt((state.centers**2).sum(axis=1))
        # A row that a sweep opens a cluster at is its center as it is.
        np.testing.assert_allclose(
            lengths, 1.0, rtol=1e-14 if searching else 4 * float(np.finfo(rows.dtype).eps)
        )
        cosines = unit(rows.astype(np.float64)) @ state.centers.T
        expected = each @ (2 - 2 * cosines.max(axis=1))
        rounding = 64 * float(np.finfo(rows.dtype).eps) * each.sum()
        assert math.fsum(state.inertias) == pytest.approx(expected, abs=rounding)
        assert state.objective == math.fsum(state.inertias) + method.penalty * len(state.centers)
    beyond = np.minimum(1.0, each) * (
        2 - 2 * (unit(rows.astype(np.float64)) @ last.state.centers.T).max(axis=1)
    )
    assert beyond.max() <= method.penalty + 64 * float(np.finfo(rows.dtype).eps)


@FEWER
@given(fits(False))
def test_a_fit_falls_at_each_step_to_centers_that_no_row_is_beyond_the_angle_of(fit):
    check_fit(*fit)


@FEWER
@given(fits(True))
def test_a_search_falls_at_each_step_to_centers_that_no_row_is_beyond_the_angle_of(fit):
    check_fit(*fit)


@settings(max_examples=6)
@given(st.data(), st.booleans())
def test_chunks_threads_and_lengths_by_powers_of_two_do_not_show_in_any_byte(data, searching):
    rows, weights, method = data.draw(fits(searching))
    expected = [contents(state) for state in states_of(of(rows, weights), method)]
    lengths = 2.0 ** np.random.default_rng(data.draw(seeds)).integers(-20, 20, (len(rows), 1))
    stretched = (rows * lengths).astype(rows.dtype)
    for source in (
        of(stretched, weights, threads=2),
        of(
            da.from_array(stretched, chunks=(data.draw(chunkings(len(rows))), rows.shape[1])),
            weights,
            threads=None,
        ),
    ):
        assert [contents(state) for state in states_of(source, method)] == expected


# The moves


class Sphere:
    """Unit rows, their weights, a probe of them, and what it should know."""

    def __init__(self, rows, weights, centers, children, penalty):
        self.rows = unit(rows).astype(np.float64)
        self.each = np.ones(len(rows)) if weights is None else weights
        self.penalty = penalty
        self.source = InMemoryRows(unit(rows), weights)
        self.found = self.probe(centers, children)
        squared = ((self.rows[:, np.newaxis] - centers) ** 2).sum(axis=2)
        self.labels = squared.argmin(axis=1)
        if len(centers) > 1:
            squared[np.arange(len(rows)), self.labels] = np.inf
        self.seconds = squared.argmin(axis=1)
        self.rounding = 1e-9 * (penalty + float(self.each.sum()))

    def probe(self, centers, children):
        answer = self.source.fold(MoveScan(Centers(centers), children, math.inf))
        return Findings(centers, children, answer, LinearPrice(self.penalty), COSINE)

    def objective(self, labels):
        """Of a partition about its best centers; clusters without weight cost nothing."""
        total, alive = 0.0, 0
        for label in np.unique(labels):
            rows, each = self.rows[labels == label], self.each[labels == label]
            total += each @ ((rows - direction(each @ rows)) ** 2).sum(axis=1)
            alive += each.sum() > 0
        return total + self.penalty * alive

    def after(self, moves):
        """The partition that moves leave: rows of a deleted cluster go to their second nearest."""
        labels = np.where(moves.deleted[self.labels], self.seconds, self.labels)
        for first, second in moves.merged:
            labels = np.where(labels == second, first, labels)
        children = self.found.children[self.labels]
        sides = ((self.rows[:, np.newaxis] - children) ** 2).sum(axis=2).argmin(axis=1)
        return np.where(moves.split[self.labels], labels + self.found.k * sides, labels)

    def fell(self, **moves):
        """What the objective of the partition falls by with these moves and no others."""
        nothing = replace(no_moves(self.found), deleted=np.zeros(self.found.k, np.bool_))
        return self.objective(self.labels) - self.objective(self.after(replace(nothing, **moves)))


@st.composite
def spheres(draw):
    """Centers are directions near those of the rows; children of any length."""
    rows = draw(tables_of_directions(60))
    weights = draw(weights_of(len(rows), (0.0, 1e-3, 0.3, 1.0, 7.7)))
    rng = np.random.default_rng(draw(seeds))
    k, d = draw(st.integers(1, 8)), rows.shape[1]
    width = draw(st.sampled_from([0.0, 0.1, 1.0]))
    near = unit(rows.astype(np.float64))[rng.integers(len(rows), size=k)]
    near = unit(near + width * rng.normal(size=(k, d)) + 1e-9)
    children = near[:, np.newaxis] + 0.3 * rng.normal(size=(k, 2, d))
    return Sphere(rows, weights, near, children, draw(st.sampled_from([0.03, 0.3, 1.0, 3.0, 30.0])))


def pairs_among(clusters):
    return np.array(list(combinations(clusters, 2)), np.intp).reshape(-1, 2)


@MORE
@given(spheres())
def test_the_gain_of_a_merge_or_a_split_is_what_the_objective_of_the_partition_falls_by(sphere):
    found = sphere.found
    pairs = pairs_among(np.flatnonzero(found.weights > 0))
    for pair, gain in zip(pairs, sphere.penalty - merge_rises(found, pairs), strict=True):
        assert math.isclose(
            gain, sphere.fell(merged=pair[np.newaxis]), rel_tol=1e-9, abs_tol=sphere.rounding
        )
    for cluster in np.flatnonzero(found.half_weights.min(axis=1) > 0):
        fell = sphere.fell(split=np.arange(found.k) == cluster)
        assert math.isclose(
            found.savings[cluster] - sphere.penalty, fell, rel_tol=1e-9, abs_tol=sphere.rounding
        )


@MORE
@given(spheres())
def test_a_delete_never_claims_more_than_the_objective_of_the_partition_falls_by(sphere):
    found = sphere.found
    for cluster in np.flatnonzero(found.weights > 0) if found.k > 1 else ():
        if (found.weights[sphere.seconds[sphere.labels == cluster]] > 0).all():
            fell = sphere.fell(deleted=np.arange(found.k) == cluster)
            assert sphere.penalty - found.deletion_losses[cluster] <= fell + sphere.rounding


@MORE
@given(spheres())
def test_what_the_means_gain_is_the_excess_over_the_objective_of_the_partition(sphere):
    excess = sphere.found.objective - sphere.objective(sphere.labels)
    assert math.isclose(
        float(sphere.found.shifts.sum()), excess, rel_tol=1e-9, abs_tol=sphere.rounding
    )


@MORE
@given(spheres())
def test_moves_of_a_step_gain_what_they_claim_together_also_once_rows_go_to_the_nearest(sphere):
    found = sphere.found
    moves = profitable_moves(found)
    before, partition = sphere.objective(sphere.labels), sphere.after(moves)
    assert gains_of(found, moves).sum() <= before - sphere.objective(partition) + sphere.rounding
    alive = [label for label in np.unique(partition) if sphere.each[partition == label].sum() > 0]
    best = np.stack(
        [
            direction(sphere.each @ (sphere.rows * (partition == label)[:, np.newaxis]))
            for label in alive
        ]
    )
    again = sphere.probe(best, np.stack([best, best], axis=1))
    assert gains_of(found, moves).sum() <= before - again.objective + sphere.rounding


@MORE
@given(spheres(), seeds)
def test_a_merge_is_found_wherever_one_pays(sphere, seed):
    found, least = sphere.found, ROUNDING * sphere.penalty
    busy = (found.weights <= 0) | (np.random.default_rng(seed).random(found.k) < 0.2)
    pairs = pairs_among(np.flatnonzero(~busy))
    assume(len(pairs))
    merged, gains = (
        merges(found, busy, least, found.alive),
        sphere.penalty - merge_rises(found, pairs),
    )
    assert not busy[merged].any()
    assert len(merged) or not (gains > least + sphere.rounding).any()
    assert (gains > least - sphere.rounding).any() or not len(merged)


@pytest.mark.parametrize("penalty", [0.3, 1.0, 1.9])
@pytest.mark.parametrize("seed", range(5))
def test_the_best_partner_of_each_cluster_is_the_one_whose_merge_gains_if_any_does(penalty, seed):
    """Of clusters of masses from 0.1 to 3, none so light that any merge pays."""
    rng = np.random.default_rng(seed)
    means, masses = unit(rng.normal(size=(40, 3))), rng.uniform(penalty / 3.9, 3.0, 40)
    best = COSINE.partners(masses, means, penalty)
    pays = np.zeros((40, 40), np.bool_)
    for a, b in product(range(40), repeat=2):
        pair = np.array([[a, b]])
        pays[a, b] = a != b and COSINE.rises(masses[pair], means[pair])[0] < penalty
    assert pays.any(axis=1).tolist() == pays[np.arange(40), best].tolist()
    assert pays.any()


@MORE
@given(spheres(), seeds)
def test_centers_stay_of_unit_length_under_moves(sphere, seed):
    found, rng = sphere.found, np.random.default_rng(seed)
    for moves in (no_moves(found), profitable_moves(found)):
        centers, children, _ = apply_moves(found, moves, rng)
        np.testing.assert_allclose(np.sqrt((centers**2).sum(axis=1)), 1.0, rtol=1e-14)
        assert np.isfinite(children).all()


@pytest.mark.parametrize("seed", range(20))
def test_children_have_rows_on_both_sides_wherever_the_rows_of_a_cluster_differ(seed):
    """A random direction leaves all three rows on one side of their mean in half of the draws."""
    rows, mean = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), np.array([[0.0, 1.0]])
    children = around(mean, np.ones(1), np.random.default_rng(seed), COSINE)
    np.testing.assert_allclose(np.sqrt(((children - mean) ** 2).sum(axis=2)), 1.0)
    assert (Sphere(rows, None, mean, children, 1.0).found.half_weights > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_in_one_column_a_search_finds_both_directions(seed):
    rows = np.random.default_rng(seed).permutation([[-2.0], [3.0]] * 10)
    model = DPMeans(5.0, metric="cosine", search=True, random_state=seed).fit(rows)
    assert (sorted(model.cluster_centers_.tolist()), model.objective_) == ([[-1.0], [1.0]], 10.0)


def test_opposite_clusters_that_merge_keep_a_center_and_gain_what_is_left_of_the_price():
    rows = np.array([[1.0, 0.0], [-1.0, 0.0]])
    found = Sphere(rows, None, rows, np.stack([rows, rows], axis=1), 5.0).found
    assert (5.0 - merge_rises(found, np.array([[0, 1]]))).tolist() == [1.0]
    moves = Moves(np.zeros(2, np.bool_), np.array([[0, 1]]), np.zeros(2, np.bool_))
    assert apply_moves(found, moves, np.random.default_rng(0))[0].tolist() == [[1.0, 0.0]]


# The search


def planted(seed, n=600, d=16, k=12, noise=0.1):
    """Directions around k random ones, of lengths that say nothing, and which they are around."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    rows = unit(rng.normal(size=(k, d)))[truth] + noise * rng.normal(size=(n, d))
    return (rows * rng.lognormal(size=(n, 1))).astype(np.float32), truth


def partition_objective(rows, labels, penalty):
    parts = [unit(rows.astype(np.float64))[labels == label] for label in np.unique(labels)]
    return sum(
        2 * len(part) - 2 * np.linalg.norm(part.sum(axis=0)) for part in parts
    ) + penalty * len(parts)


@pytest.mark.parametrize("seed", range(3))
def test_the_search_finds_planted_directions_whatever_the_lengths(seed):
    rows, truth = planted(seed)
    model = DPMeans(10.0, metric="cosine", search=True, tol=0.0, random_state=seed).fit(rows)
    assert (
        len(set(zip(truth.tolist(), model.labels_.tolist(), strict=True)))
        == model.n_clusters_
        == 12
    )
    assert model.objective_ == pytest.approx(partition_objective(rows, truth, 10.0), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_search_ends_no_higher_than_births_alone(seed):
    rows, _ = planted(seed, noise=0.4)
    births = DPMeans(1.2, metric="cosine").fit(rows)
    found = DPMeans(1.2, metric="cosine", search=True, random_state=seed).fit(rows)
    assert found.objective_ < births.objective_


def test_a_search_opens_clusters_at_the_directions_of_rows_in_full_precision():
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(300, 3)) * 0.2 + [3.0, 0.0, 0.0]).astype(np.float32)
    rows[7] = -0.3, 0.1, 0.7
    source, method = of(rows), search.Method(1.2, metric="cosine")
    start = replace(
        method.init(source), share=len(trials.SHARES)
    )  # without trials, which would find it
    opening = next(step.state for step in iterate(source, method, start) if len(step.state.opened))
    assert opening.opened.tolist() == [7]
    np.testing.assert_allclose(
        opening.centers[-1], rows[7] / np.linalg.norm(rows[7].astype(float)), rtol=1e-6
    )
    assert np.sqrt((opening.centers**2).sum(axis=1)) == pytest.approx(1.0, rel=1e-14)


def test_a_search_of_a_coreset_ends_at_unit_centers_near_that_of_all_rows():
    rows, truth = planted(0, n=6000)
    source = of(rows, block_rows=1024)
    small = states_of(source, search.Method(50.0, coreset_rows=1000, metric="cosine"))[-1]
    np.testing.assert_allclose(np.sqrt((small.centers**2).sum(axis=1)), 1.0, rtol=1e-14)
    assert small.objective == pytest.approx(partition_objective(rows, truth, 50.0), rel=1e-4)


@pytest.mark.parametrize("factor", [1e-170, 1e160])
def test_weights_and_the_penalty_of_directions_may_be_in_any_unit(factor):
    rows, _ = planted(0, noise=0.4)
    plain = DPMeans(3.0, metric="cosine", search=True, random_state=0).fit(rows)
    weights = np.full(len(rows), factor)
    scaled = DPMeans(3.0 * factor, metric="cosine", search=True, random_state=0).fit(
        rows, sample_weight=weights
    )
    assert scaled.objective_ / factor == pytest.approx(plain.objective_, rel=0.03)
    assert scaled.n_clusters_ > 12


def test_at_the_farthest_radius_given_centers_are_those_of_spherical_k_means():
    rows, truth = planted(1, noise=0.3)
    centers = unit(rows.astype(np.float64))[
        [int(np.flatnonzero(truth == label)[0]) for label in range(12)]
    ]
    model = DPMeans(4.0, metric="cosine", init=centers * 7, tol=0.0).fit(rows)
    values = unit(rows).astype(np.float64)
    for _ in range(model.n_iter_ - 1):
        labels = (values @ centers.T).argmax(axis=1)
        centers = np.stack([direction(values[labels == label].sum(axis=0)) for label in range(12)])
    np.testing.assert_allclose(model.cluster_centers_, centers, atol=1e-12)
