import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import SquaredEuclidean
from dask_dpmeans.kernels.short_search import SWAP_TRIES
from dask_dpmeans.methods.dpmeans.crossover import draw_centers, swap_center

coordinates = st.integers(-5, 5)
sets_of_centers = st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=12).map(
    lambda drawn: np.array(drawn, np.float64)
)


def pairs_of(first, second):
    """Centers that are each other's nearest, the lowest numbers among equals."""
    squared = ((first[:, np.newaxis] - second) ** 2).sum(axis=2)
    return [
        (a, int(b)) for a, b in enumerate(squared.argmin(axis=1)) if squared[:, b].argmin() == a
    ]


@given(sets_of_centers, sets_of_centers, seeds)
def test_of_a_pair_one_is_drawn_and_of_all_at_least_one(first, second, seed):
    places, others = draw_centers(first, second, np.random.default_rng(seed))
    assert len(places) + len(others) >= 1
    assert set(places) <= set(range(len(first)))
    assert set(others) <= set(range(len(second)))
    pairs = pairs_of(first, second)
    taken = [(a in places) + (b in others) for a, b in pairs]
    assert taken == [1] * len(pairs)


def test_every_center_is_drawn_about_half_of_the_times():
    random = np.random.default_rng(0)
    first, second = random.uniform(0, 10, (9, 3)), random.uniform(0, 10, (6, 3))
    times = [np.zeros(9), np.zeros(6)]
    for seed in range(2000):
        for counts, drawn in zip(
            times, draw_centers(first, second, np.random.default_rng(seed)), strict=True
        ):
            counts[drawn] += 1
    assert all(
        900 < count < 1100 for counts in times for count in counts
    )  # within 4.5 standard deviations


def costs_of(rows, centers, most):
    squared = ((rows[:, np.newaxis] - centers) ** 2).sum(axis=2)
    return np.minimum(squared.min(axis=1), most)


@given(sets_of_centers, sets_of_centers, st.sampled_from([np.inf, 4.0]), seeds)
def test_a_swap_takes_the_cheapest_of_drawn_centers_and_opens_at_the_best_of_drawn_rows(
    rows, centers, most, seed
):
    weights = np.random.default_rng(seed).choice([0.0, 1.0, 2.0], len(rows))
    memory, given_centers = InMemoryRows(rows, weights), Centers(centers, None, most)
    swapped = swap_center(memory, given_centers, SquaredEuclidean(), np.random.default_rng(seed))
    if len(centers) == 1:
        np.testing.assert_array_equal(swapped, centers)
        return
    random = np.random.default_rng(seed)  # the same draws, in the same order
    tries = random.integers(1, SWAP_TRIES, endpoint=True)
    drawn = random.integers(len(centers), size=tries)
    left = [costs_of(rows, np.delete(centers, c, axis=0), most) @ weights for c in drawn]
    kept = np.delete(centers, drawn[np.argmin(left)], axis=0)
    np.testing.assert_array_equal(swapped[: len(kept)], kept)
    chances = np.cumsum(costs_of(rows, kept, most) * weights)
    if not chances[-1] > 0:
        assert len(swapped) == len(kept)
        return
    places = np.searchsorted(chances, random.random(tries) * chances[-1], "right")
    after = [costs_of(rows, np.append(kept, rows[[p]], axis=0), most) @ weights for p in places]
    np.testing.assert_array_equal(swapped[len(kept) :], rows[places[[np.argmin(after)]]])
