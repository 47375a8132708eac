import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans.methods.dpmeans.crossover import draw_centers

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
