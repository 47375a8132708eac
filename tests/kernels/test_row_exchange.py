import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import DYADIC, seeds, spread, tables

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels import row_exchange as kernel
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.divergence import SQUARED
from dask_dpmeans.kernels.features import UnitRows
from dask_dpmeans.kernels.metrics import METRICS
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.kernels.row_exchange import exchange

MOST = 60
DIVERGENCES = {False: SQUARED, True: METRICS["cosine"]}


def cost(rows, weights, labels, penalty, spherical):
    """The objective of a partition: about the means, or the directions of the sums."""
    parts = []
    for label in np.unique(labels):
        mine, each = rows[labels == label], weights[labels == label]
        if spherical:
            parts.append(2 * (each.sum() - np.linalg.norm(each @ mine)))
        else:
            parts.append(float(each @ ((mine - each @ mine / each.sum()) ** 2).sum(axis=1)))
    return math.fsum(parts) + penalty * len(parts)


@st.composite
def partitions(draw, most=30, columns=4):
    """Rows, weights, labels at first, a penalty, and whether rows are directions."""
    rows = draw(tables((1, most), (1, columns), ("grid", "clouds"))).astype(np.float64)
    spherical = draw(st.booleans())
    if spherical:
        rows[~rows.any(axis=1)] = 1.0
        rows = UnitRows()(rows, Scratch()).copy()
    rng = np.random.default_rng(draw(seeds))
    weights = rng.choice(DYADIC[1:], len(rows))
    labels = rng.integers(0, rng.integers(1, len(rows) + 1), len(rows))
    penalty = draw(st.sampled_from([0.03, 0.3, 1.0, 3.0])) * (1.0 if spherical else spread(rows))
    return rows, weights, labels.astype(np.int64), penalty, spherical


@given(partitions())
def test_rows_move_to_a_lower_objective_that_no_move_of_one_row_lowers(drawn):
    rows, weights, labels, penalty, spherical = drawn
    before = labels.copy()
    found = exchange(rows, weights, labels, LinearPrice(penalty), MOST, DIVERGENCES[spherical])
    least = cost(rows, weights, found.labels, penalty, spherical)
    assert labels.tolist() == before.tolist()
    assert found.objective == pytest.approx(least, rel=1e-9, abs=1e-9 * penalty)
    assert least <= cost(rows, weights, before, penalty, spherical) * (1 + 1e-12)
    assert found.passes < MOST
    for row in range(len(rows)):
        for label in {*found.labels.tolist(), int(found.labels.max()) + 1}:
            other = found.labels.copy()
            other[row] = label
            assert cost(rows, weights, other, penalty, spherical) >= least - 1e-7 * penalty


@settings(max_examples=80)
@given(partitions(most=90, columns=10), st.sampled_from([math.inf, 0.5, 0.05]))
def test_compiled_loops_and_numpy_move_the_same_rows_to_the_bit(drawn, outliers):
    rows, weights, labels, penalty, spherical = drawn
    if outliers < math.inf:
        labels[1::3] = -1
    given = LinearPrice(penalty), MOST, DIVERGENCES[spherical], outliers * penalty
    found = exchange(rows, weights, labels, *given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        other = exchange(rows, weights, labels, *given)
    assert found.labels.tolist() == other.labels.tolist()
    assert (found.objective, found.passes) == (other.objective, other.passes)


def test_rows_that_stay_are_looked_at_together_without_numba(monkeypatch):
    """Once for each move, and some for each pass; never once for each row."""
    looks, best_moves = [], kernel._best_moves
    monkeypatch.setattr(numba_support, "AVAILABLE", False)
    monkeypatch.setattr(
        kernel,
        "_best_moves",
        lambda rows, *rest: looks.append(len(rows)) or best_moves(rows, *rest),
    )
    rows = np.repeat(np.eye(4), 1000, axis=0)
    found = exchange(
        rows, np.ones(4000), np.repeat(np.arange(4), 1000), LinearPrice(1.0), MOST, SQUARED
    )
    assert found.passes == 1
    assert sum(looks) == 4000
    assert len(looks) <= 10


def test_passes_are_no_more_than_asked():
    rows = np.random.default_rng(0).normal(size=(200, 2))
    found = exchange(rows, np.ones(200), np.arange(200) % 20, LinearPrice(1.0), 1, SQUARED)
    assert found.passes == 1
    assert found.objective == pytest.approx(cost(rows, np.ones(200), found.labels, 1.0, False))


def test_a_row_that_outweighs_its_cluster_stays_and_the_others_may_leave():
    rows, weights = np.array([[0.0], [1.0]]), np.array([1e12, 1.0])
    found = exchange(rows, weights, np.zeros(2, np.int64), LinearPrice(0.5), MOST, SQUARED)
    assert found.labels[0] == 0
    assert found.objective == 1.0


def test_directions_that_cancel_part():
    rows = np.array([[1.0, 0.0], [-1.0, 0.0]])
    found = exchange(
        rows, np.ones(2), np.zeros(2, np.int64), LinearPrice(1.0), MOST, METRICS["cosine"]
    )
    assert found.labels[0] != found.labels[1]
    assert found.objective == 2.0
