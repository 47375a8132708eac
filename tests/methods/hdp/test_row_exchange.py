import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans.kernels.hdp import HDPPrices
from dask_dpmeans.methods.hdp.row_exchange import Members, exchange_rows


@st.composite
def problems(draw):
    """Members of up to three sets, and labels without gaps."""
    rng, n = np.random.default_rng(draw(seeds)), draw(st.integers(1, 12))
    rows = (
        rng.integers(-3, 4, (n, 2)).astype(float)
        if draw(st.booleans())
        else rng.normal(size=(n, 2))
    )
    weights = rng.choice([0.3, 1.0, 4.0], n) if draw(st.booleans()) else np.ones(n)
    sets = np.unique(rng.integers(0, 3, n), return_inverse=True)[1]
    labels = np.unique(rng.integers(0, 4, n), return_inverse=True)[1]
    return Members(rows, weights, sets, HDPPrices(*np.exp(rng.normal(size=2)).tolist())), labels


def cost(members, labels):
    """Eq. 2, cluster by cluster."""
    total = 0.0
    for label in set(labels.tolist()):
        rows, weights = members.rows[labels == label], members.weights[labels == label]
        total += (
            float(weights @ ((rows - weights @ rows / weights.sum()) ** 2).sum(axis=1))
            + members.prices.opening
        )
    return total + members.prices.local * len(
        set(zip(members.sets.tolist(), labels.tolist(), strict=True))
    )


@given(problems())
def test_changes_are_those_of_the_objective(problem):
    members, labels = problem
    assert members.objective(labels) == pytest.approx(cost(members, labels))
    changes = members.changes(labels)
    for (row, to), change in np.ndenumerate(changes):
        moved = labels.copy()
        moved[row] = to
        if not np.isfinite(change):  # nothing would change
            assert cost(members, moved) == pytest.approx(cost(members, labels))
        else:
            assert change == pytest.approx(cost(members, moved) - cost(members, labels), abs=1e-9)


@given(problems())
def test_no_exchange_of_one_row_is_lower_in_the_end(problem):
    members, labels = problem
    found = exchange_rows(members, labels)
    assert sorted(set(found.tolist())) == list(range(found.max() + 1))
    assert cost(members, found) <= cost(members, labels) * (1 + 1e-12)
    assert members.changes(found).min() >= -1e-8 * cost(members, found)


def test_two_rows_move_that_gain_nothing_alone():
    """The first must go up: a cluster of one row costs more than the row saves."""
    rows = np.array([[0.0], [0.0], [0.0], [2.0], [2.0]])
    members = Members(rows, np.ones(5), np.zeros(5, int), HDPPrices(2.0, 2.0))
    assert members.changes(np.zeros(5, int)).min() > 0
    assert exchange_rows(members, np.zeros(5, int)).tolist() == [0, 0, 0, 1, 1]


def test_changes_take_no_array_of_rows_times_centers_times_columns():
    rng = np.random.default_rng(0)
    members = Members(
        rng.normal(size=(500, 200)), np.ones(500), np.zeros(500, np.int64), HDPPrices(1.0, 1.0)
    )
    tracemalloc.start()
    members.changes(np.arange(500) % 100)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 500 * 100 * 200 * 8 / 4
