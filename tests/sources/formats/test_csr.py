"""CSR rows: read, checked, made dense a block at a time, or left as they are."""

from unittest import mock

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from memory import peak_memory
from scipy.sparse import coo_array, csc_array, csr_array, save_npz
from strategies import Nested, chunkings, contents, seeds, tables, trace, weights_of
from zarr.codecs import Crc32cCodec
from zarr.storage import MemoryStore

from dask_dpmeans.engine.plan import block_height
from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.sources import as_source, layout
from dask_dpmeans.sources.formats import csr_files
from dask_dpmeans.sources.formats.csr import PARTS

BLOCK_ROWS = 16
WHOLE = {"write_empty_chunks": True}


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
    values[
        np.random.default_rng(draw(seeds)).random(values.shape)
        < draw(st.sampled_from([0.3, 0.8, 1.0]))
    ] = 0
    return values


# ---------------------------------------------------------------- rows that stay CSR


@given(sparse_tables(), st.data())
def test_sparse_rows_are_the_rows_given(rows, data):
    weights, groups = data.draw(weights_of(len(rows))), np.arange(len(rows))
    source = as_source(
        csr_array(rows), weights, groups=groups, sparse=True, threads=2, block_rows=BLOCK_ROWS
    )
    parts = source.fold(Together())
    np.testing.assert_array_equal(table_of(source), rows)
    assert np.concatenate([beside for _, _, beside in parts]).tolist() == groups.tolist()
    assert (
        weights is None
        or np.concatenate([each for _, each, _ in parts]).tolist() == weights.tolist()
    )
    assert source.n_features == rows.shape[1]


@settings(max_examples=25)
@given(sparse_tables(), st.data())
def test_sparse_rows_of_every_form_are_the_same(rows, data):
    weights, chunk = data.draw(weights_of(len(rows))), data.draw(st.integers(1, 70))
    columns = data.draw(chunkings(rows.shape[1], empty=False))
    given_rows = [
        write_group(MemoryStore(), rows, chunk=chunk),
        da.from_array(rows, chunks=(chunk, columns))
        .map_blocks(csr_array, meta=csr_array(rows[:0]))
        .persist(),
    ]
    options = {"sparse": True, "threads": data.draw(st.integers(1, 2)), "block_rows": BLOCK_ROWS}
    expected = as_source(csr_array(rows), weights, **options)
    for each in given_rows:
        with mock.patch.object(layout, "RESIDENT_SHARE", data.draw(st.sampled_from([0.0, 0.4]))):
            found = as_source(each, weights, **options)
        assert found.plan.block_rows == expected.plan.block_rows
        assert contents(found.summary) == contents(expected.summary)
        parts = zip(found.fold(Together()), expected.fold(Together()), strict=True)
        for (left, _, _), (right, _, _) in parts:
            assert [getattr(left, name).tolist() for name in PARTS] == [
                getattr(right, name).tolist() for name in PARTS
            ]


@given(sparse_tables(), st.data())
def test_the_summary_of_sparse_rows_is_of_their_sums(rows, data):
    weights = data.draw(weights_of(len(rows)))
    summary = as_source(csr_array(rows), weights, sparse=True, block_rows=BLOCK_ROWS).summary
    each, values = np.ones(len(rows)) if weights is None else weights, rows.astype(np.float64)
    figures = np.stack([values.sum(axis=1), values @ np.arange(1.0, rows.shape[1] + 1)], axis=1)
    np.testing.assert_allclose(summary.sums, each @ figures, atol=1e-9)
    np.testing.assert_allclose(summary.lowest, figures.min(axis=0), atol=1e-9)
    np.testing.assert_allclose(summary.highest, figures.max(axis=0), atol=1e-9)
    deviation = np.sqrt(
        np.average((figures - np.average(figures, axis=0, weights=each)) ** 2, axis=0, weights=each)
    )
    np.testing.assert_allclose(
        summary.deviation, deviation, atol=1e-6 * max(1, np.abs(figures).max())
    )


def test_duplicates_of_sparse_rows_are_summed_and_what_was_given_stays_as_it_is():
    given_rows = csr_array(
        (np.array([1.0, 2.0, 4.0, 8.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
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
    rows = csr_array(
        (np.ones(2 * n, np.float32), np.arange(2 * n, dtype=np.int32) % n, ends), shape=(n, n)
    )

    def survey():
        assert as_source(rows, sparse=True, threads=1).summary.sums[0] == 2 * n

    peak_memory(lambda: as_source(np.eye(3), threads=1))  # what is loaded once
    assert (
        peak_memory(survey) < 8 * 2**20
    )  # a copy of the rows would take 20 MB, one number a column and block 488 MB


@pytest.mark.parametrize(
    "options", [{"columns": [0]}, {"scale": "std"}, {"centers": np.zeros((1, 2))}]
)
def test_what_cannot_go_with_sparse_rows_is_refused(options):
    with pytest.raises(
        InputError,
        match=r"sparse=True leaves rows as they are: columns, scale, features, centers and missing",
    ):
        as_source(csr_array(np.eye(2)), sparse=True, **options)


def test_dense_rows_are_no_sparse_rows():
    with pytest.raises(
        InputError,
        match=r"data must be sparse, got a dense array of .*: pass a scipy\.sparse array",
    ):
        as_source(np.eye(2), sparse=True)


def test_sums_of_sparse_rows_that_overflow_are_refused():
    with pytest.raises(
        InputError, match=r"sums of the values of rows overflow float64: divide the data"
    ):
        as_source(csr_array(np.full((2, 2), 1e308)), sparse=True)


# ---------------------------------------------------------------- what is refused


@given(sparse_tables(), st.sampled_from([np.nan, np.inf, -np.inf]), st.booleans(), st.data())
def test_the_first_number_that_is_not_finite_is_named(rows, value, sparse, data):
    places = data.draw(
        st.lists(
            st.tuples(*(st.integers(0, size - 1) for size in rows.shape)),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    for place in places:
        rows[place] = value
    row, column = min(places)
    advice = "the weight of a link must be" if sparse else "remove or replace such rows"
    with pytest.raises(InputError, match=rf"\({value}\) at row {row}, column {column}: {advice}"):
        as_source(csr_array(rows), sparse=sparse, block_rows=BLOCK_ROWS)


@pytest.mark.parametrize("sparse", [False, True])
def test_integers_that_float64_cannot_tell_apart_are_refused(sparse):
    rows = csr_array(np.array([[0, 0], [0, 2**53]]))
    with pytest.raises(
        InputError, match=r"an integer near 9007199254740992 at row 1, column 1: beyond 2\*\*53"
    ):
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
        ({"indices": [0, 3, 2]}, r"data/indices holds 3 in row 1, but the columns are 0 to 2"),
        ({"indices": [0, 1, -1]}, r"data/indices holds -1 in row 2, but the columns are 0 to 2"),
        (
            {"indptr": [0, 2, 1, 3, 3]},
            r"data/indptr says that row 1 has the values from 2 to 1: its numbers",
        ),
        (
            {"indptr": [-1, 1, 2, 3, 3]},
            r"data is no valid csr_array: index pointer should start with 0",
        ),
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


@pytest.mark.parametrize("index", [-1, 3])
def test_a_broken_coo_array_is_refused_before_it_is_converted(index):
    rows = coo_array(np.eye(3))
    for indices in (rows.row, rows.col):
        kept, indices[2] = indices[2], index
        with pytest.raises(
            InputError, match=r"data is no valid coo_array: indices must be >= 0 and < 3"
        ):
            as_source(rows)
        indices[2] = kept


def test_rows_of_which_no_block_fits_are_refused_with_the_numbers():
    rows = csr_array((1000, 10**6))
    assert as_source(rows[:, :100], threads=1, memory_limit=10**9).n_features == 100
    message = (
        r"made dense in blocks of 256 rows: with 1,000,000 columns a block takes 6,144,000,000 bytes, more than the "
        r"500,000,000 that a thread has; choose columns, give more memory"
    )
    with pytest.raises(InputError, match=message):
        as_source(rows, threads=2, memory_limit=10**9)
    assert as_source(rows, columns=[1, 5], threads=2, memory_limit=10**9).n_features == 2


# ---------------------------------------------------------------- groups of a Zarr store

ROWS = np.where(
    np.random.default_rng(0).random((640, 5)) < 0.4,
    np.random.default_rng(1).standard_normal((640, 5)),
    0,
)


def write_group(path, rows=ROWS, **changes):
    """CSR rows in the layout of anndata, in many chunks, some parts changed."""
    found, chunk = csr_array(rows), changes.pop("chunk", 64)
    parts = {name: changes.pop(name, getattr(found, name)) for name in PARTS}
    attributes = {
        "encoding-type": "csr_matrix",
        "encoding-version": "0.1.0",
        "shape": list(rows.shape),
    } | changes
    group = zarr.create_group(
        path, attributes={key: value for key, value in attributes.items() if value is not None}
    )
    for name, values in parts.items():
        if values is not None:
            made = group.create_array(
                name,
                shape=values.shape,
                chunks=(chunk,) * values.ndim,
                dtype=values.dtype,
                config=WHOLE,
            )
            made[:] = values
    return group


def read_in_parts(data, **options):
    """Rows that are read again in each pass."""
    return as_source(data, threads=2, memory_limit=20_000, block_rows=BLOCK_ROWS, **options)


def changed(name, place, value):
    values = getattr(csr_array(ROWS), name).copy()
    values[place] = value
    return {name: values}


INDPTR = csr_array(ROWS).indptr
N_VALUES = int(INDPTR[-1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            changed("indices", 500, 5),
            r"rows\.zarr/indices holds 5 in row \d+, but the columns are 0 to 4",
        ),
        (
            changed("indices", 500, -1),
            r"rows\.zarr/indices holds -1 in row \d+, but the columns are 0 to 4",
        ),
        (
            changed("indptr", 300, 10**6),
            r"rows\.zarr/indptr says that row 300 has the values from 1,000,000",
        ),
        (changed("indptr", 0, 1), r"rows\.zarr/indptr begins with 1: it must begin with 0"),
        (changed("indptr", 0, -1), r"indptr says that row 0 has the values from -1 to"),
        (
            changed("indptr", 640, N_VALUES - 1),
            r"indptr holds 1,\d+ at the end of row 639, but data and indices hold 1,",
        ),
        (
            changed("indptr", slice(600, None), 10**6),
            r"indptr holds 1,000,000 at the end of row 6\d\d, but data and",
        ),
        (
            changed("data", 700, np.nan),
            r"data contains NaN \(nan\) at row \d+, column \d: (remove or replace|the weight of a link)",
        ),
        ({"data": np.ones(7)}, r"1,\d+ in indices, and 7 in data, which must be as many"),
        ({"indptr": INDPTR[:-1]}, r"the shape \(640, 5\), 640 numbers in indptr where 641 belong"),
        ({"indptr": INDPTR + 0.0}, r"rows\.zarr/indptr must hold integers, got float64"),
        ({"data": np.ones((5, 2))}, r"rows\.zarr/data must be an array of one dimension"),
        (
            {"data": np.ones(N_VALUES, complex)},
            r"data has dtype complex128.*Complex data not supported",
        ),
        ({"data": None}, r"there is no Zarr array at .*rows\.zarr/data"),
        (
            {"shape": None},
            r"the attribute shape of .*rows\.zarr must tell rows and columns, got None",
        ),
        ({"shape": [640, 5, 1]}, r"must tell rows and columns, got \[640, 5, 1\]"),
        ({"shape": [640, True]}, r"must tell rows and columns, got \[640, True\]"),
        ({"shape": [640, -5]}, r"must tell rows and columns, got \[640, -5\]"),
        ({"shape": [0, 5], "indptr": INDPTR[:1]}, r"0 sample\(s\) \(shape=\(0, 5\)\)"),
        (
            {"encoding-type": "csc_matrix"},
            r"rows\.zarr is a csc_matrix, which is stored column by column: write it as a",
        ),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("form", ["path", "group"])
def test_a_group_that_cannot_be_read_is_named(tmp_path, changes, message, sparse, form):
    group = write_group(tmp_path / "rows.zarr", **changes)
    with pytest.raises(InputError, match=message):
        read_in_parts(tmp_path / "rows.zarr" if form == "path" else group, sparse=sparse)


def test_a_group_around_csr_rows_is_refused_with_their_path(tmp_path):
    zarr.create_group(tmp_path / "cells.zarr").create_group("obs")
    write_group(tmp_path / "cells.zarr" / "X")
    with pytest.raises(
        InputError, match=r"is a Zarr group, not an array: give one of its arrays: .*cells\.zarr/X$"
    ):
        as_source(tmp_path / "cells.zarr")
    assert as_source(tmp_path / "cells.zarr" / "X").n_features == 5


def test_a_group_cannot_be_weights(tmp_path):
    write_group(tmp_path / "rows.zarr")
    with pytest.raises(
        InputError, match=r"sample_weight: .*rows\.zarr is a Zarr group, not an array"
    ):
        as_source(ROWS, tmp_path / "rows.zarr")


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
@pytest.mark.parametrize("damage", ["missing", "cut", "longer"])
def test_a_damaged_chunk_of_a_group_is_an_error_that_names_it(tmp_path, part, damage):
    write_group(tmp_path / "rows.zarr")
    read_in_parts(tmp_path / "rows.zarr")
    chunk = tmp_path / "rows.zarr" / part / "c" / "3"
    whole = chunk.read_bytes()
    if damage == "missing":
        chunk.unlink()
    else:
        chunk.write_bytes(
            whole[:-9] if damage == "cut" else whole + bytes(2 * len(whole) + 5 * 2**16)
        )
    with pytest.raises(CorruptStoreError, match=r"rows\.zarr"):
        read_in_parts(tmp_path / "rows.zarr")


@given(data=st.data())
def test_a_group_of_any_numbers_is_refused_or_read(tmp_path_factory, data):
    """Whatever its three arrays hold: no crash, and no rows other than what scipy makes of valid ones."""
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    numbers = st.integers(-2, 8) | st.sampled_from([2**31, 2**63 - 1, -(2**63)])
    indptr = np.array(data.draw(st.lists(numbers, min_size=n + 1, max_size=n + 1)), np.int64)
    indptr = np.sort(np.abs(np.clip(indptr, -9, 9))) if data.draw(st.booleans()) else indptr
    count = (
        max(0, min(int(indptr[-1]), 9))
        if data.draw(st.booleans())
        else data.draw(st.integers(0, 9))
    )
    indices = np.array(
        data.draw(st.lists(st.integers(0, d - 1) | numbers, min_size=count, max_size=count)),
        np.int64,
    )
    path = tmp_path_factory.mktemp("fuzzed") / "rows.zarr"
    write_group(
        path, np.zeros((n, d)), data=np.arange(1.0, count + 1), indices=indices, indptr=indptr
    )
    valid = indptr[0] == 0 and (np.diff(indptr) >= 0).all() and indptr[-1] == count
    if not (valid and ((indices >= 0) & (indices < d)).all()):
        with pytest.raises(InputError, match=r"rows\.zarr/ind(ptr|ices) "):
            as_source(path, sparse=True)
        return
    expected = csr_array((np.arange(1.0, count + 1), indices, indptr), shape=(n, d)).toarray()
    np.testing.assert_array_equal(table_of(as_source(path, sparse=True)), expected)


@pytest.mark.parametrize("dtype", ["<f2", ">f4", ">f8", "<i8", "|u1", "|b1"])
@pytest.mark.parametrize("index", ["<i4", ">i8", "<u8"])
def test_values_and_indices_of_every_type_are_read(tmp_path, dtype, index):
    rows = np.random.default_rng(0).integers(0, 2, (70, 3)).astype(dtype)
    found = csr_array(rows.astype(np.float64))
    parts = {"data": found.data.astype(dtype), "indices": found.indices.astype(index)}
    write_group(
        tmp_path / "rows.zarr", rows.astype(np.float64), **parts, indptr=found.indptr.astype(index)
    )
    dense, sparse = (
        as_source(each, block_rows=BLOCK_ROWS) for each in (rows, tmp_path / "rows.zarr")
    )
    assert sparse.fold(Nested()) == dense.fold(Nested())


def test_a_flipped_bit_would_be_seen_only_where_all_three_arrays_have_checksums(tmp_path):
    group = write_group(tmp_path / "rows.zarr")
    assert not as_source(group).layout.checksummed
    for number, name in enumerate(("data", "indices", "indptr")):
        values = group[name][:]
        group.create_array(name, data=values, compressors=Crc32cCodec(), overwrite=True)
        assert as_source(group).layout.checksummed == (number == 2)


def test_chunks_of_a_group_that_no_worker_could_hold_are_refused(tmp_path):
    group = write_group(tmp_path / "rows.zarr")
    group.create_array("indices", data=group["indices"][:], chunks=(1000,), overwrite=True)
    message = (
        r"data: .*rows\.zarr/indices is stored in chunks of 1,000 numbers, 4,000 bytes: "
        "more than 2,500, a quarter"
    )
    with pytest.raises(InputError, match=message):
        as_source(group, threads=1, memory_limit=10_000, block_rows=BLOCK_ROWS)


def test_a_npz_file_that_is_missing_broken_or_of_something_else_is_refused(tmp_path):
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04")
    np.savez(tmp_path / "objects.npz", format=np.array([None]), allow_pickle=True)
    for name in ("missing", "broken", "objects"):
        with pytest.raises(
            InputError, match=rf"^data: .*{name}\.npz cannot be read as a \.npz file of scipy"
        ):
            as_source(tmp_path / f"{name}.npz")


def test_a_npz_file_of_dense_arrays_is_refused_with_the_line_that_converts_it(tmp_path):
    np.savez(tmp_path / "dense.npz", X=np.eye(2), y=np.ones(2))
    message = (
        r"holds no sparse rows but the arrays X, y: write one .* numpy\.load\(.*\)\['X'\]\) does"
    )
    with pytest.raises(InputError, match=message):
        as_source(tmp_path / "dense.npz")
    np.savez(tmp_path / "empty.npz")
    with pytest.raises(InputError, match=r"empty\.npz holds no arrays$"):
        as_source(tmp_path / "empty.npz")


def test_a_npz_file_that_unpacks_to_more_than_the_memory_is_not_read(tmp_path, monkeypatch):
    save_npz(tmp_path / "rows.npz", csr_array(ROWS))
    monkeypatch.setattr(csr_files, "own_resources", lambda *_: mock.Mock(memory=1000))
    with pytest.raises(
        InputError,
        match=r"rows\.npz holds \d\d,\d\d\d bytes, and is read .*, which has 1,000: write it",
    ):
        as_source(tmp_path / "rows.npz")


# ---------------------------------------------------------------- fits


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (70, 1), (70, 3)])
def test_a_table_of_zeros_is_one_cluster(shape):
    source, dense = (
        as_source(rows, block_rows=BLOCK_ROWS) for rows in (csr_array(shape), np.zeros(shape))
    )
    assert trace(source, 1.0) == trace(dense, 1.0)


def test_no_more_than_a_few_blocks_are_dense_at_once():
    n, d, each = 30_000, 20_000, 10
    rng = np.random.default_rng(0)
    values, columns = (
        rng.standard_normal(n * each).astype(np.float32),
        rng.integers(0, d, n * each, np.int32),
    )
    rows = csr_array((values, columns, np.arange(0, n * each + 1, each)), shape=(n, d))
    block = 40_960_000

    def survey():
        plan = as_source(rows, threads=1).plan
        assert plan.block_rows * d * 8 == block
        assert plan.shard_blocks == 8

    peak_memory(lambda: as_source(np.eye(3), threads=1))  # what is loaded once
    assert peak_memory(survey) < 4 * block
