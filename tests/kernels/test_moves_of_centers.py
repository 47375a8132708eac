"""How centers have moved, and what is left of the bounds, against all distances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans.kernels import hamerly_bounds, numba_support
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.hamerly_bounds import HamerlyBounds, _moves


def two_passes(k, fresh, moving, d, seed):
    """Centers before, (k, d), and after, with some that moved, by very different steps, and new ones."""
    rng = np.random.default_rng(seed)
    before = np.round(rng.normal(size=(k, d)), 1)
    steps = rng.permutation(np.arange(k) < moving) * 10.0 ** rng.integers(-6, 1, size=k)
    after = before + steps[:, np.newaxis] * rng.normal(size=(k, d))
    return before, np.concatenate([after, rng.normal(size=(fresh, d))])


numbers = st.integers(1, 30), st.integers(0, 3), st.integers(0, 30), st.integers(1, 4), seeds


@given(*numbers, st.sampled_from([1, 10, 2**18]))
def test_moves_are_those_of_all_distances_with_compiled_loops_and_without(
    k, fresh, moving, d, seed, table
):
    before, after = two_passes(k, fresh, moving, d, seed)
    found = []
    for available in {numba_support.AVAILABLE, False}:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numba_support, "AVAILABLE", available)
            patch.setattr(hamerly_bounds, "TABLE", table)
            found.append(_moves(before, after))
    for moves in found[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found[0], moves, strict=True))
    moves, moved = found[0], np.full(len(after), np.inf)
    moved[:k] = np.linalg.norm(after[:k] - before, axis=1)
    assert moves.order.tolist() == sorted(np.flatnonzero(moved), key=lambda j: (-moved[j], j))
    apart = np.linalg.norm(after[:, np.newaxis] - after, axis=2)
    for group, count in enumerate(moves.counts):
        some, others = moves.order[:count], np.setdiff1d(np.arange(len(after)), moves.order[:count])
        assert moved[others].max(initial=0.0) <= moves.steps[group]
        for center in range(len(after)):
            ranked = sorted(some[some != center], key=lambda j: apart[center, j])
            nearest = [apart[center, j] for j in ranked[:2]]
            bounds = moves.clearances[: len(nearest), center, group]
            assert bounds == pytest.approx(nearest, rel=1e-6, abs=1e-12)
            if len(nearest):
                first = moves.nearest[center, group]
                assert apart[center, first] == pytest.approx(nearest[0], abs=1e-12)
                assert first in some


@given(*numbers, st.sampled_from([np.float32, np.float64]))
def test_bounds_that_are_kept_are_below_the_distances_to_all_centers_but_two(
    k, fresh, moving, d, seed, dtype
):
    rows = np.random.default_rng(seed + 1).normal(size=(60, d)).astype(dtype)
    remembered = HamerlyBounds()
    before, after = two_passes(k + 2, fresh, moving, d, seed)
    for centers in (before, after, after, after[:-1] if fresh else after):
        remembered.assign(rows, Centers(centers), Scratch())
        if remembered.bounds is None:
            continue
        labels, seconds, far, lower = remembered.bounds
        exact = rows.astype(np.float64)
        distances = np.linalg.norm(exact[:, np.newaxis] - centers, axis=2)
        places = np.arange(len(rows))
        assert (far <= distances[places, seconds] * (1 + 1e-12)).all()
        distances[places, labels] = distances[places, seconds] = np.inf
        assert (lower <= distances.min(axis=1) * (1 + 1e-12)).all()
