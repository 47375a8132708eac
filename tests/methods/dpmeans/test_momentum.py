"""Momentum of a search: centers go beyond the means, and back to these if that is not lower."""

from dataclasses import replace

import numpy as np
import pytest
from strategies import by_definition

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.kernels.divergence import SQUARED
from dask_dpmeans.kernels.metrics import Cosine
from dask_dpmeans.methods.dpmeans import momentum, search
from dask_dpmeans.methods.dpmeans.moves import Placement, no_moves
from dask_dpmeans.methods.dpmeans.search import Method
from dask_dpmeans.methods.dpmeans.search_state import NO_CENTERS
from dask_dpmeans.methods.dpmeans.starts import Restart

MEANS, BEFORE = np.array([[1.0, 2.0], [5.0, 5.0]]), np.array([[0.0, 2.0], [5.0, 7.0]])


def test_centers_go_on_as_the_means_came_and_stay_where_these_stand():
    places = Placement(MEANS, np.zeros((2, 2, 2)))
    gone = momentum.beyond(places, BEFORE).centers
    np.testing.assert_allclose(gone, MEANS + momentum.MOMENTUM * (MEANS - BEFORE))
    assert momentum.beyond(places, MEANS).centers.tobytes() == MEANS.tobytes()


def test_centers_without_a_step_or_of_another_number_stay():
    places = Placement(MEANS, np.zeros((2, 2, 2)))
    for earlier in (None, NO_CENTERS, BEFORE[:1]):
        assert momentum.beyond(places, earlier) is places


def test_only_centers_of_many_rows_that_may_be_anywhere_have_momentum():
    many = momentum.LEAST_ROWS
    assert momentum.has_momentum(SQUARED, many)
    assert not momentum.has_momentum(SQUARED, many - 1)
    assert not momentum.has_momentum(Cosine(), many)


@pytest.mark.parametrize("share", [momentum.MOMENTUM, 1e6])
def test_passes_that_go_too_far_are_taken_again_at_the_means(monkeypatch, share):
    monkeypatch.setattr(momentum, "MOMENTUM", share)
    rows, penalty = np.random.default_rng(0).normal(size=(momentum.LEAST_ROWS, 2)), 40.0
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
    for share in (momentum.MOMENTUM, 0.0):
        monkeypatch.setattr(momentum, "MOMENTUM", share)
        monkeypatch.setattr(search, "profitable_moves", no_moves)
        places = Placement(rows[:20], method.children_of(rows[:20], np.random.default_rng(0)))
        passes.append(method.settle(source, places, np.inf, np.random.default_rng(0))[1])
    assert passes[0] < 0.8 * passes[1] <= 0.8 * search.MOST_PASSES


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
