"""CSR rows: read, checked, made dense a block at a time, or left as they are."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csc_array, csr_array
from strategies import seeds, tables, trace, weights_of

from dask_dpmeans.blocks import block_height
from dask_dpmeans.errors import InputError
from dask_dpmeans.sources import as_source

BLOCK_ROWS = 16


class Together:
    """A reduction that keeps the CSR rows of all blocks, and their weights and groups."""

    def chunk(self, block):
        assert isinstance(block.rows, csr_array)
        assert block.rows.dtype == np.float64
        assert block.rows.has_canonical_format
        return [(block.rows.copy(), block.weights, block.groups)]

    def combine(self, left, right):
        return left + right


def table_of(source):
    """The rows that kernels see, dense."""
    return np.concatenate([rows.toarray() for rows, _, _ in source.fold(Together())])


@st.composite
def sparse_tables(draw, rows=(1, 60), columns=(1, 5), dtypes=(np.float32, np.float64)):
    """Tables that are mostly 0, with empty rows and columns."""
    values = draw(tables(rows, columns, kinds=("clouds", "offset"), dtypes=dtypes))
    values[np.random.default_rng(draw(seeds)).random(values.shape) < draw(st.sampled_from([0.3, 0.8, 1.0]))] = 0
    return values


# ---------------------------------------------------------------- rows that stay CSR


@given(sparse_tables(), st.data())
def test_sparse_rows_are_the_rows_given(rows, data):
    weights, groups = data.draw(weights_of(len(rows))), np.arange(len(rows))
    source = as_source(csr_array(rows), weights, groups=groups, sparse=True, threads=2, block_rows=BLOCK_ROWS)
    parts = source.fold(Together())
    np.testing.assert_array_equal(table_of(source), rows)
    assert np.concatenate([beside for _, _, beside in parts]).tolist() == groups.tolist()
    assert weights is None or np.concatenate([each for _, each, _ in parts]).tolist() == weights.tolist()
    assert source.n_features == rows.shape[1]


@given(sparse_tables(), st.data())
def test_the_summary_of_sparse_rows_is_of_their_sums(rows, data):
    weights = data.draw(weights_of(len(rows)))
    summary = as_source(csr_array(rows), weights, sparse=True, block_rows=BLOCK_ROWS).summary
    each, values = np.ones(len(rows)) if weights is None else weights, rows.astype(np.float64)
    figures = np.stack([values.sum(axis=1), values @ np.arange(1.0, rows.shape[1] + 1)], axis=1)
    np.testing.assert_allclose(summary.sums, each @ figures, atol=1e-9)
    np.testing.assert_allclose(summary.lowest, figures.min(axis=0), atol=1e-9)
    np.testing.assert_allclose(summary.highest, figures.max(axis=0), atol=1e-9)
    deviation = np.sqrt(np.average((figures - np.average(figures, axis=0, weights=each)) ** 2, axis=0, weights=each))
    np.testing.assert_allclose(summary.deviation, deviation, atol=1e-6 * max(1, np.abs(figures).max()))


def test_duplicates_of_sparse_rows_are_summed_and_what_was_given_stays_as_it_is():
    given_rows = csr_array((np.array([1.0, 2.0, 4.0, 8.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), shape=(2, 3))
    source = as_source(given_rows, sparse=True)
    assert table_of(source).tolist() == [[2.0, 0.0, 5.0], [0.0, 8.0, 0.0]]
    assert given_rows.indices.tolist() == [2, 0, 2, 1]
    assert given_rows.data.tolist() == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize(("n", "values"), [(100, 0), (100, 100), (1000, 40_001), (1, 300_000)])
def test_the_height_of_sparse_blocks_follows_from_the_values_of_a_row(n, values):
    ends = np.linspace(0, values, n + 1).astype(np.int64)
    columns = np.arange(values) - np.repeat(ends[:-1], np.diff(ends))
    rows = csr_array((np.ones(values), columns, ends), shape=(n, 10**9))
    assert as_source(rows, sparse=True).plan.block_rows == block_height(max(1, -(-values // n)))


def test_a_graph_of_a_million_nodes_takes_no_more_memory_than_its_edges():
    n = 10**6
    ends = np.arange(0, 2 * n + 1, 2, dtype=np.int32)
    rows = csr_array((np.ones(2 * n, np.float32), np.arange(2 * n, dtype=np.int32) % n, ends), shape=(n, n))
    as_source(np.eye(3))  # what is loaded once
    tracemalloc.start()
    source = as_source(rows, sparse=True, threads=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert source.summary.sums[0] == 2 * n
    assert peak < 8 * 2**20  # a copy of the rows would take 20 MB, one number a column and block 488 MB


@pytest.mark.parametrize("options", [{"columns": [0]}, {"scale": "std"}, {"centers": np.zeros((1, 2))}])
def test_what_cannot_go_with_sparse_rows_is_refused(options):
    with pytest.raises(InputError, match=r"sparse=True leaves rows as they are: columns, scale, features and centers"):
        as_source(csr_array(np.eye(2)), sparse=True, **options)


def test_dense_rows_are_no_sparse_rows():
    with pytest.raises(InputError, match=r"sparse=True is for CSR rows, got ndarray: pass a scipy\.sparse array"):
        as_source(np.eye(2), sparse=True)


def test_sums_of_sparse_rows_that_overflow_are_refused():
    with pytest.raises(InputError, match=r"sums of the values of rows overflow float64: divide the data"):
        as_source(csr_array(np.full((2, 2), 1e308)), sparse=True)


# ---------------------------------------------------------------- what is refused


@given(sparse_tables(), st.sampled_from([np.nan, np.inf, -np.inf]), st.booleans(), st.data())
def test_the_first_number_that_is_not_finite_is_named(rows, value, sparse, data):
    places = data.draw(
        st.lists(st.tuples(*(st.integers(0, size - 1) for size in rows.shape)), min_size=1, max_size=3, unique=True)
    )
    for place in places:
        rows[place] = value
    row, column = min(places)
    with pytest.raises(InputError, match=rf"\({value}\) at row {row}, column {column}: remove or replace such rows"):
        as_source(csr_array(rows), sparse=sparse, block_rows=BLOCK_ROWS)


@pytest.mark.parametrize("sparse", [False, True])
def test_integers_that_float64_cannot_tell_apart_are_refused(sparse):
    rows = csr_array(np.array([[0, 0], [0, 2**53]]))
    with pytest.raises(InputError, match=r"the integer 9007199254740992 at row 1, column 1: beyond 2\*\*53"):
        as_source(rows, sparse=sparse)


def spoiled(**parts):
    """A CSR array in whose parts something is wrong."""
    rows = csr_array(np.eye(4, 3))
    for name, part in parts.items():
        setattr(rows, name, np.array(part))
    return rows


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"indices": [0, 3, 2]}, r"data/indices holds 3 in row 1, where columns are 0 to 2"),
        ({"indices": [0, 1, -1]}, r"data/indices holds -1 in row 2, where columns are 0 to 2"),
        ({"indptr": [0, 2, 1, 3, 3]}, r"data/indptr says that the values of row 1 are those from 2 to 1: its numbers"),
        ({"indptr": [-1, 1, 2, 3, 3]}, r"data is no valid csr_array: index pointer should start with 0"),
        ({"indptr": [0, 1, 2, 3, 9]}, r"data is no valid csr_array: "),
        ({"indptr": [0, 1, 3]}, r"data is no valid csr_array: "),
        ({"indices": [0, 1]}, r"data is no valid csr_array: "),
        ({"data": [1.0]}, r"data is no valid csr_array: "),
    ],
)
def test_indices_that_cannot_be_are_named(parts, message):
    with pytest.raises(InputError, match=message):
        as_source(spoiled(**parts))


def test_a_broken_csc_array_is_refused_before_it_is_converted():
    rows = csc_array(np.eye(3))
    rows.indices = np.array([0, 1, 10**6], np.int32)
    with pytest.raises(InputError, match=r"data is no valid csc_array: "):
        as_source(rows)


def test_rows_of_which_no_block_fits_are_refused_with_the_numbers():
    rows = csr_array((1000, 10**6))
    assert as_source(rows[:, :100], threads=1, memory_limit=10**9).n_features == 100
    message = (
        r"made dense in blocks of 256 rows: with 1,000,000 columns one takes 6,144,000,000 bytes, more than the "
        r"500,000,000 that a thread has; choose columns, give more memory"
    )
    with pytest.raises(InputError, match=message):
        as_source(rows, threads=2, memory_limit=10**9)
    assert as_source(rows, columns=[1, 5], threads=2, memory_limit=10**9).n_features == 2


# ---------------------------------------------------------------- fits


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (70, 1), (70, 3)])
def test_a_table_of_zeros_is_one_cluster(shape):
    source, dense = (as_source(rows, block_rows=BLOCK_ROWS) for rows in (csr_array(shape), np.zeros(shape)))
    assert trace(source, 1.0) == trace(dense, 1.0)


def test_no_more_than_a_few_blocks_are_dense_at_once():
    n, d, each = 30_000, 20_000, 10
    rng = np.random.default_rng(0)
    values, columns = rng.standard_normal(n * each).astype(np.float32), rng.integers(0, d, n * each, np.int32)
    rows = csr_array((values, columns, np.arange(0, n * each + 1, each)), shape=(n, d))
    as_source(np.eye(3))  # what is loaded once
    tracemalloc.start()
    source = as_source(rows, threads=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    block = source.plan.block_rows * d * 8
    assert block == 40_960_000
    assert source.plan.shard_blocks == 8
    assert peak < 4 * block
