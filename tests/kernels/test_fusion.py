import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.kernels.block import Block, Scratch
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.fusion import BOTH, FIRST, NEITHER, SECOND, WEIGHT, PairCosts


def lowest_two(rows, centers, most):
    """The nearest center of each row, and the two lowest costs; of one center, the same twice."""
    squared = ((rows[:, np.newaxis] - centers) ** 2).sum(axis=2)
    ordered = np.minimum(np.sort(squared, axis=1), most)
    return squared.argmin(axis=1), ordered[:, 0], ordered[:, min(1, len(centers) - 1)]


@given(seeds, st.integers(1, 60), st.sampled_from([np.inf, 30.0]), st.booleans(), st.booleans())
def test_the_sums_are_of_what_rows_cost_at_their_nearest_centers(seed, n, most, weighted, single):
    random = np.random.default_rng(seed)
    rows = random.integers(-6, 7, (n, 2)).astype(np.float32 if single else np.float64)
    weights = random.integers(0, 4, n).astype(float) if weighted else None
    k, others = random.integers(1, 7, 2)
    first, second = random.integers(-6, 7, (k, 2)) * 1.0, random.integers(-6, 7, (others, 2)) * 1.0
    pairs = PairCosts(Centers(first, None, most), Centers(second, None, most))
    sums = pairs.chunk(Block(0, rows, weights, Scratch()))
    if n > 1:  # in two blocks
        cut, each = n // 2, (lambda part: None if weights is None else weights[part])
        parts = slice(None, cut), slice(cut, None)
        blocks = (Block(0, rows[part].copy(), each(part), Scratch()) for part in parts)
        both = pairs.combine(*map(pairs.chunk, blocks))
        assert np.array_equal(both.keys, sums.keys)
        assert np.array_equal(both.values, sums.values)  # of whole numbers, so exact
    heavy = np.ones(n) if weights is None else weights
    one, near, far = lowest_two(rows.astype(float), first, most)
    two, other_near, other_far = lowest_two(rows.astype(float), second, most)
    table = np.zeros((k, others, 5))
    for i in range(n):
        higher, lower = max(near[i], other_near[i]), min(near[i], other_near[i])
        neither = max(higher, min(far[i], other_far[i]))
        costs = dict(
            zip(
                (WEIGHT, FIRST, SECOND, BOTH, NEITHER),
                (1.0, near[i], other_near[i], lower, neither),
                strict=True,
            )
        )
        for column, cost in costs.items():
            table[one[i], two[i], column] += heavy[i] * cost
    found = np.zeros_like(table)
    found.reshape(-1, 5)[sums.keys] = sums.values
    assert np.array_equal(found, table)


def test_the_sums_do_not_depend_on_the_blocks_of_a_source():
    random = np.random.default_rng(0)
    rows, centers = random.integers(-9, 10, (70_000, 3)) * 1.0, random.integers(-9, 10, (2, 12, 3))
    pairs = PairCosts(Centers(centers[0] * 1.0), Centers(centers[1] * 1.0))
    whole = pairs.chunk(Block(0, rows, None, Scratch()))
    folded = InMemoryRows(rows, None).fold(pairs)
    assert np.array_equal(folded.keys, whole.keys)
    assert np.array_equal(folded.values, whole.values)
