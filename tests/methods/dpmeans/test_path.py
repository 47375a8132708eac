"""The envelope of what is known at each penalty, runs of numbers, and searches along a path."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.methods.dpmeans import batch, search, starts
from dask_dpmeans.methods.dpmeans.batch import inertia_of
from dask_dpmeans.methods.dpmeans.bisection import PriceFor, RadiusFor
from dask_dpmeans.methods.dpmeans.path import (
    Halving,
    Interval,
    Prices,
    Radii,
    Solution,
    best,
    envelope,
    hull,
    longest,
    runs,
)
from dask_dpmeans.methods.dpmeans.search_state import TRIES

solutions = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 60)), min_size=1, max_size=12)


def solved(pairs):
    return [Solution(np.zeros((k, 1)), float(inertia)) for k, inertia in pairs]


@given(solutions, st.floats(1e-3, 1e3))
def test_the_envelope_says_which_number_is_best(pairs, penalty):
    found = solved(pairs)
    least = min(inertia + penalty * k for k, inertia in pairs)
    intervals = envelope(found)
    standing = {each.n_clusters for each in intervals if each.low <= penalty <= each.high}
    assert any(
        k in standing and inertia + penalty * k == pytest.approx(least, rel=1e-12)
        for k, inertia in pairs
    )
    assert best(found, penalty).objective(penalty) == least


@given(solutions)
def test_intervals_tile_the_penalties_and_numbers_fall(pairs):
    intervals = envelope(solved(pairs))
    numbers = [each.n_clusters for each in intervals]
    assert numbers == sorted(set(numbers), reverse=True)
    assert intervals[0].low == 0
    assert intervals[-1].high == math.inf
    assert [each.low for each in intervals[1:]] == [each.high for each in intervals[:-1]]
    clipped = envelope(solved(pairs), 2.0, 9.0)
    assert (clipped[0].low, clipped[-1].high) == (2.0, 9.0)


def test_the_hull_of_known_points():
    found = hull(solved([(1, 10), (2, 8), (3, 5.9), (4, 1), (5, 1), (4, 3), (6, 0.5)]))
    assert [(each.k, each.inertia) for each in found] == [(1, 10.0), (4, 1.0), (6, 0.5)]


def test_runs_end_between_penalties():
    assert runs([1.0, 4.0, 16.0, 64.0], [5, 3, 3, 1]) == [
        Interval(5, 1, 2),
        Interval(3, 2, 32),
        Interval(1, 32, 64),
    ]
    assert runs([1.0, 4.0, 16.0], [2, 3, 2]) == [
        Interval(2, 1, 2),
        Interval(3, 2, 8),
        Interval(2, 8, 16),
    ]
    assert runs([7.0], [2]) == [Interval(2, 7, 7)]


def test_the_longest_interval_is_between_one_and_the_most():
    intervals = [
        Interval(9, 1, 1e6),
        Interval(4, 1e6, 3e6),
        Interval(2, 3e6, 4e6),
        Interval(1, 4e6, 1e9),
    ]
    assert longest(intervals) == intervals[1]
    assert longest(intervals[:1]) is None
    assert longest([]) is None


def clouds(n=240, k=4, seed=0):
    rng = np.random.default_rng(seed)
    rows = 9.0 * rng.normal(size=(k, 2))[rng.integers(0, k, n)] + rng.normal(size=(n, 2))
    return InMemoryRows(rows, None)


def prices(low, high, number, **parameters):
    return Prices(
        search.Method(1.0, seed=3), tuple(np.geomspace(low, high, number).tolist()), **parameters
    )


@settings(max_examples=8)
@given(seeds, st.integers(1, 4))
def test_each_search_ends_no_higher_than_what_it_starts_from(seed, k):
    rows = clouds(80, k, seed)
    fits = prices(1.0, 4000.0, 6)
    found = fits(rows)
    down, up = fits.penalties[::-1], fits.penalties[1:]
    for place, penalty in enumerate([*down, *up]):
        before = [*down, *up][place - 1]
        if place:
            start = best(found[:place], before)
            assert found[place].objective(penalty) <= start.objective(penalty)
    for each in found:
        assert each.inertia == inertia_of(rows, each.centers)
    assert fits(rows)[0].centers.tobytes() == found[0].centers.tobytes()


def test_a_path_is_nearly_as_low_as_searches_from_the_mean():
    rows = clouds()
    fits = prices(5.0, 2000.0, 8)
    found = fits(rows)
    on_path = [best(found, penalty).objective(penalty) for penalty in fits.penalties]
    alone = [
        starts.Restart(search.Method(penalty, coreset_rows=0), TRIES)(rows).objective
        for penalty in fits.penalties
    ]
    assert sum(on_path) <= 1.001 * sum(alone)
    assert all(one <= 1.02 * other for one, other in zip(on_path, alone, strict=True))


def test_radii_are_fits_from_the_mean():
    rows = clouds()
    fits = Radii(batch.Method(1.0), (2.0, 30.0, 1e6))
    for penalty, found in zip(fits.penalties, fits(rows), strict=True):
        *_, end = iterate(rows, batch.Method(penalty))
        assert found.centers.tobytes() == end.state.centers.tobytes()
        assert found.objective(penalty) == end.state.objective


def test_halves_agree_on_clusters_that_are_there():
    rows = clouds(seed=5)
    fits = prices(5.0, 600.0, 3)
    indices = Halving(fits, 0, 0, 2.0)(rows)
    assert indices[-1] > 0.98
    assert indices[0] < 0.8
    assert Halving(fits, 0, 0, 2.0)(rows).tobytes() == indices.tobytes()
    assert Halving(fits, 0, 1, 2.0)(rows).tobytes() != indices.tobytes()


@pytest.mark.parametrize("wanted", [1, 2, 4, 7])
def test_a_price_is_found_at_the_middle_of_its_interval(wanted):
    rows = clouds()
    fits = prices(1.0, 2.0, 2)
    found = PriceFor(fits, wanted)(rows)
    assert found.solution.k == wanted
    again = starts.Restart(search.Method(found.penalty, coreset_rows=0), 3)(rows)
    assert len(again.centers) == wanted
    assert found.tried == tuple(sorted(found.tried))
    numbers = [k for _, k in found.tried]
    assert numbers == sorted(numbers, reverse=True)


SQUARE = InMemoryRows(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), None)


@pytest.mark.parametrize(("wanted", "reached"), [(1, 1), (2, 1), (3, 4), (4, 4)])
def test_a_radius_jumps_over_what_symmetry_leaves_out(wanted, reached):
    """Below .5, the squared distance of the corners from their mean, all four open clusters."""
    found = RadiusFor(Radii(batch.Method(1.0), ()), wanted, (0.5, 0.5))(SQUARE)
    assert found.solution.k == reached
    assert {k for _, k in found.tried} <= {1, 4}
    assert Radii(batch.Method(1.0), ()).at(SQUARE, found.penalty).k == reached


def test_a_price_jumps_over_what_no_price_gives():
    """2, 3 and 4 clusters of a square cost the same at .5."""
    found = PriceFor(prices(1.0, 2.0, 2), 3)(SQUARE)
    assert found.solution.k == 2
    assert found.penalty == pytest.approx(math.sqrt(0.5 * 1.0), rel=1e-9)
