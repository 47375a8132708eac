"""Any multipliers whatever give a bound that no partition is below."""

from fractions import Fraction

import numpy as np
from exact_optimum import exact_optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans.kernels.lower_bound.relaxation import Point, Problem, advance
from dask_dpmeans.kernels.lower_bound.relaxation_proof import bound_of, proved_bound
from dask_dpmeans.kernels.lower_bound.triangle_cuts import Cuts, most_violated, no_cuts


def drawn(seed, n_columns=2):
    """Rows on a grid, weights, whose problem is exact up to the rounding that the proof allows for, and a generator."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 9, (rng.integers(2, 7), n_columns)).astype(float)
    weights = rng.choice([0.25, 1.0, 3.0], len(rows))
    squared = ((rows[:, np.newaxis] - rows) ** 2).sum(axis=2)
    penalty = 2.0 ** rng.integers(-2, 7)
    return rows, weights, penalty, squared / penalty, rng


def every_triple(n):
    i, j, k = np.indices((n, n, n)).reshape(3, -1)
    return np.column_stack([i, j, k])[(i != j) & (i != k) & (j <= k)]


@given(seed=seeds, size=st.sampled_from([1e-3, 1.0, 1e3]))
def test_any_multipliers_give_a_bound(seed, size):
    rows, weights, penalty, squared, rng = drawn(seed)
    n = len(rows)
    problem = Problem.of(0.5 * np.outer(weights, weights) * squared, weights)
    cuts = Cuts.of(every_triple(n), problem.roots)
    prices = size * rng.exponential(size=len(cuts.triples)) * (rng.random(len(cuts.triples)) < 0.2)
    against = size * rng.exponential(size=(n, n)) * (rng.random((n, n)) < 0.3)
    against = against + against.T
    pull = cuts.pull(prices), cuts.size_of_pull(prices), len(prices)
    bound = bound_of(problem, pull, against, rng.normal(size=n) * rng.choice([0.1, 1.0]))
    assert Fraction(bound) * Fraction(penalty) <= exact_optimum(rows, weights, penalty)


@settings(max_examples=25)
@given(seed=seeds, steps=st.sampled_from([1, 10, 100, 400]))
def test_each_point_of_the_solver_gives_a_bound(seed, steps):
    rows, weights, penalty, squared, _ = drawn(seed)
    problem = Problem.of(0.5 * np.outer(weights, weights) * squared, weights)
    cuts = Cuts.of(every_triple(len(rows)), problem.roots)
    start = Point.first(len(rows))
    point = advance(
        problem,
        cuts,
        Point(start.shared, start.multipliers, np.zeros(len(cuts.triples)), 1.0),
        steps,
    )
    bound = proved_bound(problem, cuts, point)
    assert Fraction(bound) * Fraction(penalty) <= exact_optimum(rows, weights, penalty)


@given(seed=seeds)
def test_no_partition_violates_a_triangle(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    weights, labels = rng.choice([0.25, 1.0, 3.0], n), rng.integers(3, size=n)
    masses = np.bincount(labels, weights)[labels]
    roots = np.sqrt(weights)
    shared = np.outer(roots, roots) * (labels[:, np.newaxis] == labels) / masses
    assert len(most_violated(shared, roots, 100)) == 0
    assert (Cuts.of(every_triple(n), roots).matrix @ shared.ravel() <= 1e-12).all()


def test_a_chain_that_violates_a_triangle_is_found():
    """Row 1 is with both others, which are not with each other."""
    shared = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.5], [0.0, 0.5, 0.5]])
    assert most_violated(shared, np.ones(3), 10).tolist() == [[1, 0, 2]]


def test_costs_above_the_cap_change_nothing():
    """The third row is apart: at twice the cost above which none has an effect, the highest that counts."""
    links = np.array([[0.0, 0.1, 1.0], [0.1, 0.0, 1.0], [1.0, 1.0, 0.0]])
    bounds = []
    for factor in (2.0, 1e9):
        problem = Problem.of(links * np.where(links == 1.0, factor, 1.0), np.ones(3))
        bounds.append(
            proved_bound(
                problem,
                no_cuts(problem.roots),
                advance(problem, no_cuts(problem.roots), Point.first(3), 500),
            )
        )
    assert bounds[0] == bounds[1]
    assert 2.1 - 1e-9 <= bounds[0] <= 2.1
