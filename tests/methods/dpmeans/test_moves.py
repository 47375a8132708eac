"""Every gain that a move claims, against the objective of the partition that it leaves."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import TAME, by_definition, seeds, spread, tables, weights_of

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import SQUARED
from dask_dpmeans.kernels.metrics import Cosine
from dask_dpmeans.kernels.move_statistics import MoveScan
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans import moves as moving
from dask_dpmeans.methods.dpmeans import search_passes
from dask_dpmeans.methods.dpmeans.moves import (
    ROUNDING,
    Findings,
    Moves,
    Placement,
    apply_moves,
    around,
    deletions,
    gains_of,
    merge_rises,
    merges,
    no_moves,
    profitable_moves,
)
from dask_dpmeans.methods.dpmeans.search import Method
from dask_dpmeans.methods.dpmeans.search_state import NO_CENTERS
from dask_dpmeans.methods.dpmeans.starts import Restart

WEIGHTS = (0.0, 1e-3, 0.3, 1.0, 7.7)
MORE = settings(max_examples=150)


class Problem:
    """Rows, their weights, a probe of them, and what it should know."""

    def __init__(self, rows, weights, centers, children, penalty):
        self.rows = rows.astype(np.float64)
        self.each = np.ones(len(rows)) if weights is None else weights
        self.penalty = penalty
        self.source = InMemoryRows(rows, weights)
        self.found = self.probe(centers, children)
        self.labels, self.seconds = self.two_nearest(centers)
        self.scale = 1e-9 * (penalty + float((self.each * (self.rows**2).sum(axis=1)).sum()))
        """Far more than the rounding of sums of squares, far less than a penalty or a distance."""

    def probe(self, centers, children):
        probing = MoveScan(Centers(centers), children, math.inf)
        return Findings(centers, children, self.source.fold(probing), LinearPrice(self.penalty))

    def two_nearest(self, centers):
        """(n,) and (n,); the same center where there is one."""
        squared = ((self.rows[:, np.newaxis] - centers) ** 2).sum(axis=2)
        labels = squared.argmin(axis=1)
        if len(centers) > 1:
            squared[np.arange(len(labels)), labels] = np.inf
        return labels, squared.argmin(axis=1)

    def sides(self):
        """(n,), the child of its center that each row is nearest to."""
        children = self.found.children[self.labels]
        return ((self.rows[:, np.newaxis] - children) ** 2).sum(axis=2).argmin(axis=1)

    def means(self, labels):
        """The means of a partition, by label, where there is weight."""
        return {
            label: np.average(
                self.rows[labels == label], axis=0, weights=self.each[labels == label]
            )
            for label in np.unique(labels)
            if self.each[labels == label].sum() > 0
        }

    def objective(self, labels):
        """Of a partition, about its means; clusters without weight cost nothing."""
        means = self.means(labels)
        errors = (
            weight * ((row - means[label]) ** 2).sum()
            for row, weight, label in zip(self.rows, self.each, labels, strict=True)
            if weight > 0
        )
        return math.fsum(errors) + self.penalty * len(means)

    def after(self, moves):
        """The partition that moves leave: rows of a deleted cluster go to their second nearest."""
        labels = np.where(moves.deleted[self.labels], self.seconds, self.labels)
        for first, second in moves.merged:
            labels = np.where(labels == second, first, labels)
        return np.where(moves.split[self.labels], labels + self.found.k * self.sides(), labels)


@st.composite
def problems(draw, kinds=TAME, most=8):
    """Any rows, weights, centers and children near the rows; some centers get no row, some halves none."""
    rows = draw(tables(rows=(1, 60), columns=(1, 3), kinds=kinds))
    weights = draw(weights_of(len(rows), WEIGHTS))
    rng = np.random.default_rng(draw(seeds))
    k = draw(st.integers(1, most))
    width = draw(st.sampled_from([0.0, 0.1, 1.0])) * rows.astype(np.float64).std()
    chosen = rows[rng.integers(len(rows), size=(k, 3))].astype(np.float64)
    chosen = chosen + width * rng.normal(size=chosen.shape)
    penalty = draw(st.sampled_from([0.003, 0.03, 0.3, 3.0, 30.0])) * spread(rows)
    return Problem(rows, weights, chosen[:, 0], chosen[:, 1:], penalty)


def only(found, **moves):
    """These moves and no others; not even clusters without weight leave."""
    k = found.k
    nothing = {
        "deleted": np.zeros(k, np.bool_),
        "merged": np.empty((0, 2), np.intp),
        "split": np.zeros(k, np.bool_),
    }
    return Moves(**(nothing | moves))


def one(k, number):
    return np.arange(k) == number


@given(problems())
def test_findings_are_those_of_the_partition(problem):
    found, means = problem.found, problem.means(problem.labels)
    for cluster in range(found.k):
        members = problem.labels == cluster
        weight = problem.each[members].sum()
        assert math.isclose(found.weights[cluster], weight, rel_tol=1e-12)
        expected = means.get(cluster, found.centers[cluster])
        np.testing.assert_allclose(
            found.means[cluster], expected, rtol=1e-9, atol=1e-9 * np.abs(problem.rows).max()
        )
        shift = weight * ((expected - found.centers[cluster]) ** 2).sum()
        assert math.isclose(found.shifts[cluster], shift, rel_tol=1e-6, abs_tol=problem.scale)
        error = problem.each[members] @ ((problem.rows[members] - expected) ** 2).sum(axis=1)
        assert math.isclose(
            weight * found.radii[cluster] ** 2, error, rel_tol=1e-6, abs_tol=problem.scale
        )
    squared = ((problem.rows - found.centers[problem.labels]) ** 2).sum(axis=1)
    assert math.isclose(found.inertia, problem.each @ squared, rel_tol=1e-12)
    assert found.objective == found.inertia + problem.penalty * len(means)


@given(problems())
def test_the_gain_of_a_merge_is_what_the_objective_of_the_partition_falls_by(problem):
    found, before = problem.found, problem.objective(problem.labels)
    alive = np.flatnonzero(found.weights > 0)
    pairs = np.array(list(combinations(alive, 2)), np.intp).reshape(-1, 2)
    for pair, gain in zip(pairs, problem.penalty - merge_rises(found, pairs), strict=True):
        fell = before - problem.objective(problem.after(only(found, merged=pair[np.newaxis])))
        assert math.isclose(gain, fell, rel_tol=1e-9, abs_tol=problem.scale)


@given(problems())
def test_the_gain_of_a_split_is_what_the_objective_of_the_partition_falls_by(problem):
    found, before = problem.found, problem.objective(problem.labels)
    for cluster in range(found.k):
        fell = before - problem.objective(problem.after(only(found, split=one(found.k, cluster))))
        if found.half_weights[cluster].min() > 0:
            assert math.isclose(
                found.savings[cluster] - problem.penalty, fell, rel_tol=1e-9, abs_tol=problem.scale
            )
        else:
            assert found.savings[cluster] == 0.0


@MORE
@given(problems())
def test_a_delete_never_claims_more_than_the_objective_of_the_partition_falls_by(problem):
    """Where all that receive its rows have weight: `deletions` leaves the others alone."""
    found, before = problem.found, problem.objective(problem.labels)
    for cluster in np.flatnonzero(found.weights > 0) if found.k > 1 else ():
        if (found.weights[problem.seconds[problem.labels == cluster]] <= 0).any():
            continue
        fell = before - problem.objective(problem.after(only(found, deleted=one(found.k, cluster))))
        assert problem.penalty - found.deletion_losses[cluster] <= fell + problem.scale


@given(problems())
def test_the_claim_of_a_delete_is_exact_where_centers_are_means_that_receive_nothing(problem):
    """Then all that is lost are the transfers."""
    centers = problem.found.means
    again = problem.probe(centers, problem.found.children)
    labels, seconds = problem.two_nearest(centers)
    squared = (((problem.rows - centers[each]) ** 2).sum(axis=1) for each in (labels, seconds))
    nearer, farther = squared
    for cluster in range(again.k):
        members = labels == cluster
        loss = problem.each[members] @ (farther - nearer)[members]
        assert math.isclose(
            again.transfer_losses[cluster], loss, rel_tol=1e-9, abs_tol=problem.scale
        )
        receivers = np.unique(seconds[members])
        bound = loss + again.shifts[cluster] + again.shifts[receivers].sum()
        assert math.isclose(
            again.deletion_losses[cluster], bound, rel_tol=1e-9, abs_tol=problem.scale
        )


@MORE
@given(problems())
def test_all_moves_of_a_step_gain_what_they_claim_together(problem):
    found = problem.found
    moves = profitable_moves(found)
    fell = problem.objective(problem.labels) - problem.objective(problem.after(moves))
    assert gains_of(found, moves).sum() <= fell + problem.scale


@MORE
@given(problems())
def test_they_still_do_when_rows_go_to_the_nearest_of_the_new_means(problem):
    found = problem.found
    moves = profitable_moves(found)
    centers = np.stack(list(problem.means(problem.after(moves)).values()))
    again = problem.probe(centers, np.repeat(centers[:, np.newaxis], 2, axis=1))
    fell = problem.objective(problem.labels) - again.objective
    assert gains_of(found, moves).sum() <= fell + problem.scale


@MORE
@given(problems())
def test_merges_and_splits_gain_what_they_claim_in_the_very_next_pass(problem):
    found = problem.found
    moves = profitable_moves(found)
    assume(not (moves.deleted & (found.weights > 0)).any())
    again = problem.probe(*apply_moves(found, moves, np.random.default_rng(0))[:2])
    fell = problem.objective(problem.labels) - again.objective
    assert gains_of(found, moves).sum() <= fell + problem.scale


def crowd(k, seed):
    """Centers that overlap, so that moves want the same clusters."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(400, 2)) * rng.choice([0.1, 3.0], (400, 1))
    centers = rows[rng.integers(400, size=k)]
    children = centers[:, np.newaxis] + rng.normal(size=(k, 2, 2))
    return Problem(rows, None, centers, children, float(rng.choice([1.0, 10.0, 60.0])))


@settings(max_examples=40)
@given(problems() | st.builds(crowd, st.integers(5, 60), seeds))
def test_moves_of_a_step_do_not_touch_but_that_deletes_share_receivers(problem):
    found = problem.found
    moves = profitable_moves(found)
    dead = found.weights <= 0
    gone = set(np.flatnonzero(moves.deleted & ~dead))
    receivers = {
        problem.seconds[row] for row in range(len(problem.rows)) if problem.labels[row] in gone
    }
    merged, split = moves.merged.reshape(-1).tolist(), set(np.flatnonzero(moves.split))
    assert len(set(merged)) == len(merged)
    groups = [gone, receivers, set(merged), split, set(np.flatnonzero(dead))]
    assert all(not one & other for one, other in combinations(groups, 2))
    assert moves.deleted[dead].all()
    assert (moves.merged[:, 0] < moves.merged[:, 1]).all()


@settings(max_examples=40)
@given(problems() | st.builds(crowd, st.integers(5, 60), seeds))
def test_every_move_of_a_step_gains_more_than_rounding(problem):
    found, least = problem.found, 1e-10 * problem.penalty
    moves = profitable_moves(found)
    assert (problem.penalty - merge_rises(found, moves.merged) > least).all()
    assert (found.savings[moves.split] - problem.penalty > least).all()
    assert (
        problem.penalty - found.deletion_losses[moves.deleted & (found.weights > 0)] > least
    ).all()


def test_deletes_that_share_a_receiver_are_made_together():
    """0.1 and 0.3 would both go to 0, which then stays; 50 is too far to go anywhere, and is split."""
    rows = np.array([[0.0], [0.0], [0.1], [-0.1], [48.0], [52.0]])
    centers = np.array([[0.0], [0.1], [-0.1], [50.0]])
    children = np.stack([centers - 2.0, centers + 2.0], axis=1)
    moves = profitable_moves(Problem(rows, None, centers, children, 4.0).found)
    assert moves.deleted.tolist() == [False, True, True, False]
    assert moves.split.tolist() == [False, False, False, True]
    assert moves.merged.tolist() == []


@given(problems() | st.builds(crowd, st.integers(5, 60), seeds), st.data())
def test_a_merge_is_found_wherever_one_pays(problem, data):
    found, least = problem.found, ROUNDING * problem.penalty
    alive = np.flatnonzero(found.weights > 0)
    assume(len(alive) > 1)
    busy = found.weights <= 0
    busy[alive] = data.draw(
        st.lists(st.sampled_from([False, False, True]), min_size=len(alive), max_size=len(alive))
    )
    pairs = np.array(list(combinations(np.flatnonzero(~busy), 2)), np.intp).reshape(-1, 2)
    merged, gains = (
        merges(found, busy, least, found.alive),
        problem.penalty - merge_rises(found, pairs),
    )
    assert not busy[merged].any()
    assert len(merged) or not (gains > least + problem.scale).any()
    assert (gains > least - problem.scale).any() or not len(merged)


def test_two_light_clusters_merge_though_each_has_a_heavy_one_nearer():
    """0 and 2 merge for 4 / 2; each would go to the heavy one at 1.5 for 2.25 * 100 / 101."""
    rows, weights = np.array([[-1.5], [0.0], [2.0], [3.5]]), np.array([100.0, 1.0, 1.0, 100.0])
    found = Problem(rows, weights, rows, np.stack([rows, rows + 1], axis=1), 2.1).found
    assert merges(found, np.zeros(4, np.bool_), 0.0, found.alive).tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("penalty", "weight"), [(1e300, 1e-10), (1e305, 1.0), (0.3, 1e-310), (1e-300, 1e300)]
)
def test_extreme_penalties_and_weights_leave_merges_finite(penalty, weight):
    rows = np.random.default_rng(0).normal(size=(40, 2))
    weights = weight * np.random.default_rng(1).choice([1.0, 1e-7, 3.0], 40)
    centers = rows[:12].copy()
    with np.errstate(over="raise", invalid="raise"):
        found = Problem(
            rows, weights, centers, np.stack([centers, centers + 1], axis=1), penalty
        ).found
        merged = merges(found, found.weights <= 0, 0.0, found.alive)
    assert bool(len(merged)) == (penalty > weight)


def test_clusters_that_merge_are_not_split_too():
    rows = np.array([[-10.0, 0.0], [10.0, 0.0], [-10.0, 3.0], [10.0, 3.0]])
    found = Problem(
        rows, None, np.array([[0.0, 0.0], [0.0, 3.0]]), rows.reshape(2, 2, 2), 15.0
    ).found
    moves = profitable_moves(found)
    assert (found.savings > 15.0).all()
    assert (moves.merged.tolist(), moves.split.tolist(), moves.deleted.tolist()) == (
        [[0, 1]],
        [False] * 2,
        [False] * 2,
    )


@given(problems(), seeds, st.integers(0, 8))
def test_deletions_take_the_cheapest_up_to_a_number_and_leave_their_receivers_and_one(
    problem, seed, most
):
    found = problem.found
    losses = np.random.default_rng(seed).random(found.k)
    deleted, receiving = deletions(found, losses, problem.penalty - 0.7, most)
    expected, kept, dead = set(), set(), set(np.flatnonzero(found.weights <= 0))
    for cluster in np.argsort(losses).tolist():
        to = {problem.seconds[row] for row in np.flatnonzero(problem.labels == cluster)}
        if losses[cluster] >= 0.7 or len(expected) == min(most, found.k - len(dead) - 1):
            break
        if cluster not in kept | dead and not to & (expected | dead):
            expected.add(cluster)
            kept |= to
    assert set(np.flatnonzero(deleted)) == expected
    assert set(np.flatnonzero(receiving)) == kept


@given(problems())
def test_one_cluster_with_weight_always_stays(problem):
    found = problem.found
    for least in (0.0, -math.inf):
        deleted, _ = deletions(found, np.zeros(found.k), least, found.k)
        assert (found.weights[~deleted] > 0).any()
    centers, *_ = apply_moves(found, profitable_moves(found), np.random.default_rng(0))
    assert len(centers) >= 1


@given(problems(), seeds)
def test_clusters_keep_their_order_under_moves_and_second_halves_come_last(problem, seed):
    found, rng = problem.found, np.random.default_rng(seed)
    kinds = rng.integers(4, size=found.k)
    kinds[found.weights <= 0] = 0
    givers, takers = found.receivers
    receiving = np.unique(takers[(kinds[givers] == 0) & (found.weights[givers] > 0)])
    receiving = receiving[kinds[receiving] > 0]
    kinds[receiving] = 1
    alive = np.flatnonzero(kinds == 2)
    merged = np.sort(rng.permutation(alive)[: len(alive) // 2 * 2].reshape(-1, 2), axis=1)
    split = (kinds == 3) & (found.half_weights.min(axis=1) > 0)
    moves = Moves(kinds == 0, merged, split)
    assume(not moves.deleted.all())
    centers, children, _ = apply_moves(found, moves, rng)
    partition = np.where(
        split[problem.labels], problem.labels + found.k * problem.sides(), problem.labels
    )
    for first, second in merged:
        partition = np.where(partition == second, first, partition)
    means = problem.means(partition)
    means.update({number: found.centers[number] for number in receiving.tolist()})
    numbers = [number for number in range(found.k) if kinds[number] and number not in merged[:, 1]]
    numbers += [number + found.k for number in np.flatnonzero(split)]
    expected = np.stack([means[number] for number in numbers])
    np.testing.assert_allclose(centers, expected, rtol=1e-9, atol=1e-9 * np.abs(problem.rows).max())
    assert children.shape == (len(centers), 2, centers.shape[1])
    for first, second in merged:
        np.testing.assert_array_equal(children[numbers.index(first)], found.means[[first, second]])


@given(problems(kinds=(*TAME, "huge", "tiny")), seeds)
def test_centers_and_children_stay_finite(problem, seed):
    """Be it that halves or clusters have no weight, or that all rows are one."""
    for moves in (no_moves(problem.found), profitable_moves(problem.found)):
        for values in apply_moves(problem.found, moves, np.random.default_rng(seed))[:2]:
            assert np.isfinite(values).all()


@given(problems())
def test_clusters_without_weight_leave_and_nothing_else_does_where_no_move_is_made(problem):
    found = problem.found
    moves = no_moves(found)
    assert moves.deleted.tolist() == [
        problem.each[problem.labels == each].sum() == 0 for each in range(found.k)
    ]
    centers, *_ = apply_moves(found, moves, np.random.default_rng(0))
    assert centers.tolist() == found.means[found.weights > 0].tolist()
    assert gains_of(found, moves).tolist() == [0.0, 0.0, 0.0]


def test_halves_with_weight_keep_their_means_and_others_start_anew_on_both_sides_of_the_mean():
    rows = np.array([[0.0], [2.0], [9.0], [11.0]])
    children = np.array([[[0.0], [3.0]], [[10.0], [90.0]]])
    found = Problem(rows, None, np.array([[1.0], [10.0]]), children, 100.0).found
    _, after, _ = apply_moves(found, no_moves(found), np.random.default_rng(0))
    assert after[0].tolist() == [[0.0], [2.0]]
    assert sorted(after[1].ravel().tolist()) == [9.0, 11.0]


@given(st.integers(1, 5), st.integers(1, 4), seeds)
def test_children_lie_on_either_side_of_a_center_at_its_radius(k, d, seed):
    rng = np.random.default_rng(seed)
    centers, radii = rng.normal(size=(k, d)), rng.choice([0.0, 0.5, 3.0], k)
    children = around(centers, radii, rng)
    np.testing.assert_allclose(children.mean(axis=1), centers, atol=1e-14)
    for side in (0, 1):
        distances = np.sqrt(((children[:, side] - centers) ** 2).sum(axis=1))
        np.testing.assert_allclose(distances, radii, rtol=1e-12, atol=1e-15)


MEANS, BEFORE = np.array([[1.0, 2.0], [5.0, 5.0]]), np.array([[0.0, 2.0], [5.0, 7.0]])


def test_centers_go_on_as_the_means_came_and_stay_where_these_stand():
    places = Placement(MEANS, np.zeros((2, 2, 2)))
    gone = moving.beyond(places, BEFORE).centers
    np.testing.assert_allclose(gone, MEANS + moving.MOMENTUM * (MEANS - BEFORE))
    assert moving.beyond(places, MEANS).centers.tobytes() == MEANS.tobytes()


def test_centers_without_a_step_or_of_another_number_stay():
    places = Placement(MEANS, np.zeros((2, 2, 2)))
    for earlier in (None, NO_CENTERS, BEFORE[:1]):
        assert moving.beyond(places, earlier) is places


def test_only_centers_of_many_rows_that_may_be_anywhere_have_momentum():
    many = moving.LEAST_ROWS
    assert moving.has_momentum(SQUARED, many)
    assert not moving.has_momentum(SQUARED, many - 1)
    assert not moving.has_momentum(Cosine(), many)


@pytest.mark.parametrize("share", [moving.MOMENTUM, 1e6])
def test_passes_that_go_too_far_are_taken_again_at_the_means(monkeypatch, share):
    monkeypatch.setattr(moving, "MOMENTUM", share)
    rows, penalty = np.random.default_rng(0).normal(size=(moving.LEAST_ROWS, 2)), 40.0
    for seed in range(3):
        method = Method(penalty, seed=seed, tol=1e-9)
        end = Restart(method, tries=0)(InMemoryRows(rows, None))
        squared = by_definition(rows, end.centers)
        labels = squared.argmin(axis=1)
        means = np.array([rows[labels == each].mean(axis=0) for each in range(len(end.centers))])
        lower = by_definition(rows, means).min(axis=1).sum() + penalty * len(means)
        assert end.objective - lower <= 1e-8 * end.objective


def test_means_settle_in_fewer_passes(monkeypatch):
    rows, passes = np.random.default_rng(1).normal(size=(6000, 4)), []
    source, method = InMemoryRows(rows, None), Method(1e-300, tol=1e-5)
    for share in (moving.MOMENTUM, 0.0):
        monkeypatch.setattr(moving, "MOMENTUM", share)
        monkeypatch.setattr(search_passes, "profitable_moves", no_moves)
        places = Placement(rows[:20], method.children_of(rows[:20], np.random.default_rng(0)))
        passes.append(method.settle(source, places, np.inf, np.random.default_rng(0))[1])
    assert passes[0] < 0.8 * passes[1] <= 0.8 * search_passes.MOST_PASSES


def test_a_search_goes_on_from_each_state_to_the_same_bytes():
    rows = np.random.default_rng(2).normal(size=(9000, 4))
    source, method = InMemoryRows(rows, None), Method(300.0, seed=0, effort="quick")
    states = [step.state for step in iterate(source, method)]
    some = [state for state in states if len(state.earlier)]
    assert len(some) > 2
    for state in some[:: len(some) // 2]:
        *_, end = iterate(source, method, state)
        assert end.state.centers.tobytes() == states[-1].centers.tobytes()


def test_a_pass_without_a_step_behind_it_is_taken_once():
    rows = np.random.default_rng(2).normal(size=(5000, 2))
    source, method = InMemoryRows(rows, None), Method(300.0, seed=0, effort="quick")
    *_, end = (step.state for step in iterate(source, method))
    assert len(end.centers) > 1
    for earlier, passes in ((end.centers[:1], 1), (end.next_centers - 1.0, 2)):
        after, _ = method._pass(source, replace(end, earlier=earlier))
        assert not after.objective < end.objective
        assert after.passes == end.passes + passes


@pytest.mark.parametrize(("price", "anew"), [(50.0, False), (200.0, True), (500.0, False)])
def test_a_half_of_one_row_that_does_not_gain_is_drawn_anew_where_other_halves_would(price, anew):
    """All others of 600 normal rows in 100 columns are nearer to their own mean: it would stay a half."""
    rows = np.random.default_rng(0).standard_normal((600, 100))
    middle = rows.mean(axis=0)[np.newaxis]
    probed = Problem(rows, None, middle, np.stack([rows[0], rows[1:].mean(axis=0)])[None], price)
    probed = Problem(rows, None, middle, probed.found.half_means, price)
    found = probed.found
    assert found.half_weights.tolist() == [[1, 599]]
    assert found.half_means.tolist() == found.children.tolist()
    assert 50 < found.savings[0] < 200 < found.probe.inertias[0] * moving.MIDDLE_CUT / 100 < 500
    children = moving.next_children(found, np.random.default_rng(1))
    if anew:
        assert probed.probe(middle, children).savings[0] > price
    else:
        assert children.tolist() == found.children.tolist()
