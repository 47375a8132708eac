from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import chunkings, contents, seeds, tables, weights_of

from dask_dpmeans.kernels import column_statistics as kernel
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.column_statistics import ColumnStatistics, Flaw


def survey(rows, weights, sizes, limit=np.inf, missing=False):
    """The summary of rows cut into blocks of these sizes, merged from the left."""
    reduction, start, merged = ColumnStatistics(limit, missing=missing), 0, None
    for size in sizes:
        part = slice(start, start + size)
        summary = reduction.chunk(
            Block(start, rows[part], None if weights is None else weights[part])
        )
        merged = summary if merged is None else reduction.combine(merged, summary)
        start += size
    return merged


@st.composite
def surveyed(draw, kinds=("grid", "clouds", "offset", "outliers")):
    rows = draw(tables(kinds=kinds))
    return rows, draw(weights_of(len(rows))), draw(chunkings(len(rows), empty=False))


@given(surveyed())
def test_the_statistics_are_those_of_all_rows_for_any_blocks(drawn):
    rows, weights, sizes = drawn
    summary = survey(rows, weights, sizes)
    each = np.ones(len(rows)) if weights is None else weights
    exact = rows.astype(np.longdouble)
    mean = (each[:, np.newaxis] * exact).sum(axis=0) / each.sum()
    deviation = np.sqrt((each[:, np.newaxis] * (exact - mean) ** 2).sum(axis=0) / each.sum())
    reach = np.abs(exact).max()
    assert (summary.flaw, summary.weight) == (None, each.sum())
    assert np.array_equal(summary.lowest, rows.min(axis=0))
    assert np.array_equal(summary.highest, rows.max(axis=0))
    np.testing.assert_allclose(summary.mean, mean.astype(float), rtol=0, atol=1e-14 * float(reach))
    np.testing.assert_allclose(
        summary.deviation, deviation.astype(float), rtol=1e-9, atol=1e-14 * float(reach)
    )


@given(surveyed(kinds=("grid",)))
def test_blocks_do_not_show_in_exact_sums(drawn):
    rows, weights, sizes = drawn
    assert (
        survey(rows, weights, sizes).sums.tolist()
        == survey(rows, weights, [len(rows)]).sums.tolist()
    )


@st.composite
def flawed(draw):
    """A table with some bad values and weights, and the first of them."""
    rows, weights, sizes = draw(surveyed())
    places = st.tuples(st.integers(0, len(rows) - 1), st.integers(0, rows.shape[1] - 1))
    bad = draw(st.lists(places, max_size=3))
    for row, column in bad:
        rows[row, column] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    flaws = [Flaw(row, column, float(rows[row, column])) for row, column in bad]
    if weights is not None:
        for row in draw(st.sets(st.integers(0, len(rows) - 1), max_size=2)):
            weights[row] = draw(st.sampled_from([np.nan, np.inf, -1.0, -5e-324]))
            flaws.append(Flaw(row, -1, float(weights[row])))
    return rows, weights, sizes, min(flaws, key=lambda flaw: flaw[:2], default=None)


@given(flawed())
def test_the_first_flaw_in_row_order_is_found(drawn):
    rows, weights, sizes, expected = drawn
    assert repr(survey(rows, weights, sizes).flaw) == repr(expected)


@pytest.mark.parametrize("value", [8.0, -8.0])
def test_values_must_lie_strictly_within_the_limit(value):
    rows = np.array([[np.nextafter(value, 0)], [value]])
    assert survey(rows, None, [1, 1], limit=8.0).flaw == Flaw(1, 0, value)
    assert survey(rows[:1], None, [1], limit=8.0).flaw is None


@st.composite
def with_holes(draw):
    """A table with missing values anywhere, some columns and rows of them alone."""
    rows, weights, sizes = draw(surveyed())
    rng = np.random.default_rng(draw(seeds))
    rows[rng.random(rows.shape) < draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))] = np.nan
    rows[:, rng.random(rows.shape[1]) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    rows[rng.random(len(rows)) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    return rows, weights, sizes


@given(with_holes())
def test_the_statistics_of_a_column_are_those_of_its_observed_values(drawn):
    rows, weights, sizes = drawn
    summary = survey(rows, weights, sizes, missing=True)
    each = np.ones(len(rows)) if weights is None else weights
    assert (summary.flaw, summary.weight) == (None, each.sum())
    assert summary.empty_rows == np.isnan(rows).all(axis=1).sum()
    for column, values in enumerate(rows.T.astype(np.longdouble)):
        there = ~np.isnan(values)
        heavy = each[there].astype(np.longdouble)
        values = values[there]
        mean = (heavy * values).sum() / heavy.sum() if heavy.sum() else 0.0
        squares = (heavy * (values - mean) ** 2).sum()
        deviation = np.sqrt(squares / heavy.sum()) if heavy.sum() else 0.0
        reach = float(np.abs(values).max(initial=0))
        assert summary.observed[column] == heavy.sum()
        assert summary.lowest[column] == values.min(initial=np.inf)
        assert summary.highest[column] == values.max(initial=-np.inf)
        assert abs(summary.mean[column] - mean) <= 1e-14 * reach
        assert summary.deviation[column] == pytest.approx(
            float(deviation), rel=1e-9, abs=1e-14 * reach
        )
        assert abs(summary.sums[column] - (heavy * values).sum()) <= 1e-13 * reach * each.sum()


@given(surveyed())
def test_complete_rows_have_the_same_statistics_where_values_may_be_missing(drawn):
    rows, weights, sizes = drawn
    plain, holed = survey(rows, weights, sizes), survey(rows, weights, sizes, missing=True)
    assert contents(replace(holed, observed_weights=None)) == contents(plain)
    assert holed.observed.tolist() == plain.observed.tolist()
    assert holed.mean.tobytes() == plain.mean.tobytes()
    assert holed.deviation.tobytes() == plain.deviation.tobytes()


@given(with_holes(), st.data())
def test_infinity_is_a_flaw_where_values_may_be_missing(drawn, data):
    rows, weights, sizes = drawn
    row = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.integers(0, rows.shape[1] - 1))
    rows[row, column] = data.draw(st.sampled_from([np.inf, -np.inf]))
    found = survey(rows, weights, sizes, missing=True).flaw
    assert found == Flaw(row, column, float(rows[row, column]))


@pytest.mark.parametrize(
    ("rows", "weights", "underflows"),
    [
        ([[0.0], [1e-160]], None, True),
        ([[1e-160, 5.0], [3e-160, 5.0]], None, True),
        ([[1e-160], [1e-160]], None, False),
        ([[0.0, 0.0], [0.0, 0.0]], None, False),
        ([[0.0, 1.0], [1e-160, 2.0]], None, False),
        ([[0.0], [1e-140]], None, False),
        ([[0.0], [1e-140]], [1e-25, 1e-25], True),
        ([[0.0], [1e-160]], [1e30, 1e30], True),
        ([[np.nan, 1.0], [np.nan, 1.0]], None, False),
    ],
)
def test_squares_underflow_where_rows_differ_by_too_little_in_every_column(
    rows, weights, underflows
):
    weights = None if weights is None else np.array(weights)
    assert survey(np.array(rows), weights, [1, 1], missing=True).underflowing == underflows


def test_an_empty_column_overflows_nothing_and_has_the_mean_0():
    rows = np.array([[np.nan, 1.0], [np.nan, 3.0]])
    summary = survey(rows, None, [1, 1], missing=True)
    assert summary.overflowing() is None
    assert (summary.mean.tolist(), summary.deviation.tolist()) == ([0.0, 2.0], [0.0, 1.0])


@dataclass(frozen=True)
class Observed:
    """Features: the observed masks of a row, twice."""

    def __call__(self, rows, scratch):
        return np.tile(~np.isnan(rows), 2).astype(rows.dtype)


def test_features_of_rows_with_missing_values_are_complete():
    rows = np.array([[np.nan, 1.0], [np.nan, np.nan], [2.0, 3.0]])
    reduction = ColumnStatistics(np.inf, Observed(), missing=True)
    summary = reduction.combine(
        reduction.chunk(Block(0, rows[:2], None)), reduction.chunk(Block(2, rows[2:], None))
    )
    assert summary.sums.tolist() == [1.0, 2.0, 1.0, 2.0]
    assert (summary.observed_weights, summary.empty_rows) == (None, 1)


def test_a_flaw_of_the_rows_is_told_beside_features_of_another_width():
    rows = np.array([[1.0, 1.0], [np.inf, 0.0]])
    reduction = ColumnStatistics(np.inf, Observed())
    first, second = (
        reduction.chunk(Block(start, rows[start : start + 1], None)) for start in (0, 1)
    )
    assert reduction.combine(first, second).flaw == Flaw(1, 0, np.inf)
    assert reduction.combine(second, first).flaw == Flaw(1, 0, np.inf)


@given(st.floats(-1e9, 1e9), surveyed())
def test_equal_values_have_no_deviation_whatever_their_sum_is_rounded_to(value, drawn):
    rows, weights, sizes = drawn
    rows[:] = value
    summary = survey(rows, weights, sizes)
    assert summary.mean.tolist() == rows[0].tolist()
    assert summary.deviation.tolist() == [0.0] * rows.shape[1]


def test_blocks_without_weight_change_nothing():
    rows, weights = np.array([[1.0], [5.0], [100.0]]), np.array([1.0, 1.0, 0.0])
    summary = survey(rows, weights, [2, 1])
    assert (summary.mean.tolist(), summary.deviation.tolist()) == ([3.0], [2.0])


def test_sums_that_overflow_are_infinite_without_a_warning():
    rows = np.full((2, 1), 1e308)
    assert np.isinf(survey(rows, None, [1, 1]).sums).all()


@given(st.integers(1, 40), st.integers(1, 12), st.sampled_from([1, 3, 1024]), seeds)
def test_ranges_are_those_of_each_column(n, d, together, seed):
    rows = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "TOGETHER", together)
            lowest, highest = kernel.column_ranges(rows)
        np.testing.assert_array_equal(lowest, rows.min(axis=0))
        np.testing.assert_array_equal(highest, rows.max(axis=0))
        assert lowest.dtype == highest.dtype == np.float32
        rows[seed % n, seed % d] = np.nan
