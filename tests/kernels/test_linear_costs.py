"""Costs that are linear in the row: ranking by a product never changes what the definition says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.bregman import COLUMN_DIVERGENCES
from dask_dpmeans.kernels.distance import Centers, costs, nearest, nearest_squared, nearest_two
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.encoded import EncodedDivergence
from dask_dpmeans.kernels.encoding import Encoding, Layout
from dask_dpmeans.kernels.linear_costs import Linear
from dask_dpmeans.kernels.ranking import Ranking

NUMBERS = {
    "squared": lambda rng, shape: rng.normal(size=shape),
    "poisson": lambda rng, shape: rng.poisson(3.0, shape).astype(float),
    "multinomial": lambda rng, shape: 1.0 + rng.poisson(3.0, shape),
    "bernoulli": lambda rng, shape: rng.random(shape),
    "itakura-saito": lambda rng, shape: rng.gamma(2.0, 3.0, shape),
}


def encoded(name, seed, missing, d=3, n=400, k=7, size=1.0):
    """Encoded rows and centers: averages of rows, some of them nearly or quite equal."""
    rng = np.random.default_rng(seed)
    rows = NUMBERS[name](rng, (n, d)) * size
    if missing != "error":
        holes = rng.random(rows.shape) < 0.3
        holes[:, 0] = holes[0] = False
        rows[holes] = np.nan
    layout = Layout((name,) * d, (0,) * d)
    values, present = layout.expand(rows)
    means = np.nansum(values, axis=0) / present.sum(axis=0)
    encoding = Encoding.of(layout, means, rng.uniform(0.5, 2.0, d), 0.1, missing)
    found = encoding(rows, Scratch()).copy()
    centers = np.stack([found[rng.integers(n, size=5)].mean(axis=0) for _ in range(k)])
    centers[1] = centers[0]
    centers[2] = np.nextafter(centers[3], np.inf)
    return found, Centers(centers, EncodedDivergence(encoding))


def by_definition(rows, centers):
    """Costs from the formula, one number after the other, without the last column and with it."""
    coefficients, constants = centers.linear
    sums = np.repeat(constants[np.newaxis], len(rows), axis=0)
    for column in range(rows.shape[1] - 1):
        sums = sums + rows[:, column, np.newaxis] * coefficients[:, column]
    return sums, np.maximum(sums + rows[:, -1:] * coefficients[:, -1], 0.0)


cases = st.tuples(
    st.sampled_from(sorted(NUMBERS)),
    st.integers(0, 2**16),
    st.sampled_from(["error", "observed", "unscaled"]),
    st.sampled_from([1, 3, 20]),
    st.sampled_from([6, 400]),
)


@settings(deadline=None, max_examples=40)
@given(cases)
def test_the_nearest_centers_are_those_of_the_definition(way, case):
    name, seed, missing, d, n = case
    rows, centers = encoded(name, seed, missing, d, n)
    sums, wanted = by_definition(rows, centers)
    order = sums.argsort(axis=1, kind="stable")
    labels, found = nearest_squared(rows, centers)
    assert labels.tolist() == nearest(rows, centers).tolist() == order[:, 0].tolist()
    np.testing.assert_array_equal(found, wanted[np.arange(n), labels])
    np.testing.assert_array_equal(np.stack(nearest_two(rows, centers)), order[:, :2].T)
    np.testing.assert_array_equal(
        costs(rows, centers, order[:, 2]), wanted[np.arange(n), order[:, 2]]
    )


@pytest.mark.skipif(not numba_support.AVAILABLE, reason="compares Numba with NumPy")
@pytest.mark.parametrize("name", sorted(NUMBERS))
@pytest.mark.parametrize("missing", ["error", "observed"])
def test_numpy_gives_the_same_bytes_as_compiled_loops(way, name, missing, monkeypatch):
    rows, centers = encoded(name, 1, missing, d=20, n=1000, k=40)
    compiled = [*nearest_squared(rows, centers), *nearest_two(rows, centers)]
    monkeypatch.setattr(numba_support, "AVAILABLE", False)
    plain = [*nearest_squared(rows, centers), *nearest_two(rows, centers)]
    for one, other in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_the_size_of_the_numbers_changes_no_label(way, size):
    for name in ("squared", "poisson", "itakura-saito"):
        rows, centers = encoded(name, 2, "error", size=size)
        sums, _ = by_definition(rows, centers)
        assert nearest(rows, centers).tolist() == sums.argmin(axis=1).tolist()


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_the_linear_form_is_the_divergence_of_the_numbers(name):
    rows, centers = encoded(name, 3, "error")
    divergence = centers.divergence
    kind, weights = COLUMN_DIVERGENCES[name], divergence.encoding.weights
    values, middles = divergence.encoding.values(rows), divergence.encoding.values(centers.values)
    for center in range(len(centers)):
        wanted = (
            weights * kind.between(values, np.broadcast_to(middles[center], values.shape))
        ).sum(axis=1)
        found = costs(rows, centers, np.full(len(rows), center))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("missing", ["error", "observed"])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_bound_covers_the_rounding_of_scores(size, missing):
    rows, centers = encoded("squared", 4, missing, d=64, k=20, size=size)
    scores, doubt, exact = rounded_scores(rows, centers)
    assert (np.ptp((scores - exact).astype(np.float64), axis=1) <= doubt).all()


@pytest.mark.parametrize("missing", ["error", "observed"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 8.0, 1e3])
def test_few_rows_are_in_doubt_whatever_the_unit_of_the_data_is(size, missing):
    rows, centers = encoded("squared", 4, missing, d=64, k=20, size=size)
    scores, doubt, _ = rounded_scores(rows, centers)
    best = np.sort(scores, axis=1)
    assert np.mean(best[:, -1] - best[:, -2] <= doubt) < 0.01


@pytest.mark.parametrize("missing", ["error", "observed"])
@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_two_clusters_that_merge_cost_what_the_general_form_says_to_the_bit(name, missing):
    for d in (1, 9):
        rows, centers = encoded(name, d, missing, d, 60)
        rng = np.random.default_rng(d)
        means, masses = rows[rng.integers(60, size=(40, 2))], rng.choice([0.0, 0.3, 5.0], (40, 2))
        masses[:, 0] += 0.1
        rises = centers.divergence.rises(masses, means)
        np.testing.assert_array_equal(rises, Divergence.rises(centers.divergence, masses, means))


def rounded_scores(rows, centers):
    """Scores in float32 at centers that are not nearly equal, their bounds, and scores without error."""
    linear = Linear(*(part[4:] for part in centers.linear))
    ranking = Ranking.of_linear(linear, np.float32)
    shifted = rows.astype(np.float32) * ranking.scale
    scores = np.column_stack([shifted, np.ones(len(rows), np.float32)]) @ ranking.matrix
    exact = rows[:, :-1].astype(np.longdouble) @ linear.coefficients[:, :-1].T + linear.constants
    return scores, ranking.doubt(shifted), -exact
