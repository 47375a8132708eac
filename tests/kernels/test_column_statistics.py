import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import chunkings, seeds, tables, weights_of

from dask_dpmeans.kernels import column_statistics as kernel
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.column_statistics import ColumnStatistics, Flaw


def survey(rows, weights, sizes, limit=np.inf):
    """The summary of rows cut into blocks of these sizes, merged from the left."""
    reduction, start, merged = ColumnStatistics(limit), 0, None
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
