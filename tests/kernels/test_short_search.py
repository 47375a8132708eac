"""Short searches: the objective is that of the partition, and NumPy gives the bytes of compiled loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TAME, seeds, spread, tables

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.short_search import FewRows


@st.composite
def problems(draw):
    rows = draw(tables(rows=(1, 40), columns=(1, 4), kinds=TAME))
    random = np.random.default_rng(draw(seeds))
    weights = np.ones(len(rows))
    if draw(st.booleans()):
        weights = random.integers(1, 5, len(rows)) / 4
    penalty = draw(st.floats(0.01, 3.0)) * max(spread(rows), 1e-9)
    return FewRows(np.ascontiguousarray(rows, np.float64), weights, penalty, 60), random


def ends(few, draws, crossing):
    one, two = (few.settle(few.start(each)) for each in draws)
    enough = one.centers.shape[1] + two.centers.shape[1] + 2
    return one, two, few.settle(few.cross(one, two, crossing[:enough]))


def drawn(few, random):
    n = len(few.rows)
    return random.random((2, n + 1, 3)), random.random(2 * n + 2)


@settings(max_examples=60)
@given(problem=problems())
def test_numpy_gives_the_bytes_of_compiled_loops(problem):
    few, random = problem
    draws = drawn(few, random)
    compiled = ends(few, *draws)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        plain = ends(few, *draws)
    for one, other in zip(compiled, plain, strict=True):
        assert one.centers.tobytes() == other.centers.tobytes()
        assert (one.objective, one.passes) == (other.objective, other.passes)


@settings(max_examples=60)
@given(problem=problems())
def test_the_objective_is_what_the_means_cost_with_the_price_of_the_clusters(problem):
    few, random = problem
    for end in ends(few, *drawn(few, random)):
        differences = few.rows[:, :, np.newaxis] - end.centers
        nearest = np.square(differences).sum(axis=1).min(axis=1)
        k = end.centers.shape[1]
        assert 1 <= k <= len(few.rows)
        exact = float(few.weights @ nearest) + few.penalty * k
        assert end.objective == pytest.approx(exact, rel=1e-9, abs=1e-9 * few.penalty)


@settings(max_examples=40)
@given(problem=problems())
def test_no_merge_of_two_clusters_lowers_the_objective(problem):
    few, random = problem
    for end in ends(few, *drawn(few, random)):
        labels = np.square(few.rows[:, :, np.newaxis] - end.centers).sum(axis=1).argmin(axis=1)
        masses = np.bincount(labels, few.weights, end.centers.shape[1])
        for a in range(len(masses)):
            for b in range(a):
                squared = float(np.square(end.centers[:, a] - end.centers[:, b]).sum())
                rise = masses[a] * masses[b] / max(masses[a] + masses[b], 1e-300) * squared
                assert min(masses[a], masses[b]) == 0 or rise >= few.penalty * (1 - 1e-6)
