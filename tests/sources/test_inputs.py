import os
from pathlib import Path
from unittest import mock

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Nested, chunkings, contents, seeds, spread, table, tables, trace, weights_of
from zarr.storage import LocalStore, MemoryStore

from dask_dpmeans.engine.plan import doublings, merge_tree
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.column_statistics import Summary
from dask_dpmeans.kernels.features import UnitRows
from dask_dpmeans.sources import as_source, inputs, layout, shards
from dask_dpmeans.sources.executors.dask_tasks import DaskTasks
from dask_dpmeans.sources.executors.threads import Threads
from dask_dpmeans.sources.formats import csr
from dask_dpmeans.sources.shards import Shard, StoredShard

WHOLE = {"write_empty_chunks": True}
BLOCK_ROWS = 16

# ---------------------------------------------------------------- the same rows, in every form


def stored(array, draw, path, chunk_rows=None, **options):
    """A Zarr array of these values, in drawn chunks."""
    sizes = [draw(st.integers(1, size)) for size in array.shape]
    chunks = (chunk_rows or sizes[0], *sizes[1:])
    made = zarr.create_array(
        path, shape=array.shape, chunks=chunks, dtype=array.dtype, config=WHOLE, **options
    )
    made[:] = array
    return made


def as_npy(array, draw, path):
    np.save(f"{path}.npy", array)
    return f"{path}.npy"


def as_memmap(array, draw, path):
    return np.load(as_npy(array, draw, path), mmap_mode="r")


def as_zarr(array, draw, path):
    return stored(array, draw, f"{path}.zarr")


def as_zarr_path(array, draw, path):
    stored(array, draw, f"{path}.zarr")
    return Path(f"{path}.zarr")


def as_sharded_zarr(array, draw, path):
    shape = [draw(st.integers(1, size)) for size in array.shape]
    made = zarr.create_array(
        f"{path}.zarr",
        shape=array.shape,
        chunks=shape,
        shards=[2 * size for size in shape],
        dtype=array.dtype,
        config=WHOLE,
    )
    made[:] = array
    return made


def as_zarr_in_memory(array, draw, path):
    return stored(array, draw, MemoryStore())


def as_dask(array, draw, path):
    return da.from_array(array, chunks=tuple(draw(chunkings(size)) for size in array.shape))


def with_others(array, draw):
    """The values among others, and where they are."""
    others = draw(st.integers(0, 20))
    among = np.sort(
        np.random.default_rng(draw(seeds)).permutation(len(array) + others)[: len(array)]
    )
    mixed = np.full((len(array) + others, *array.shape[1:]), 7, array.dtype)
    mixed[among] = array
    mask = np.zeros(len(mixed), bool)
    mask[among] = True
    return mixed, mask


def as_dask_of_memmap(array, draw, path):
    return as_dask(as_memmap(array, draw, path), draw, path)


def as_dask_of_unknown_lengths(array, draw, path):
    mixed, mask = with_others(array, draw)
    rows = draw(chunkings(len(mixed), empty=False))
    return da.from_array(mixed, chunks=(rows, *array.shape[1:]))[
        da.from_array(mask, chunks=(rows,))
    ]


def as_dask_frame(array, draw, path):
    mixed, mask = with_others(array, draw)
    frame = pd.DataFrame(mixed if array.ndim == 2 else mixed[:, np.newaxis])
    found = dd.from_pandas(frame.assign(keep=mask), npartitions=draw(st.integers(1, 5)))
    kept = found[found.keep].drop(columns="keep")
    return kept if array.ndim == 2 else kept[0]


def unaligned(array, draw, path):
    """At an odd address, where NumPy adds numbers up in another order."""
    memory = np.empty(array.nbytes + 1, np.uint8)
    moved = memory[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


FORMS = {
    "unaligned": unaligned,
    "strided": lambda array, draw, path: np.repeat(array, 3, axis=0)[::3],
    "Fortran": lambda array, draw, path: np.asfortranarray(array),
    "pandas": lambda array, draw, path: (
        pd.DataFrame(array) if array.ndim == 2 else pd.Series(array)
    ),
    "npy": as_npy,
    "memmap": as_memmap,
    "zarr": as_zarr,
    "zarr path": as_zarr_path,
    "zarr with shards": as_sharded_zarr,
    "zarr in memory": as_zarr_in_memory,
    "dask": as_dask,
    "dask of a memmap": as_dask_of_memmap,
    "dask of unknown lengths": as_dask_of_unknown_lengths,
    "dask frame": as_dask_frame,
}


def as_shuffled_csr(array, draw, path):
    """Columns in any order, some values in two parts that sum to them exactly, and zeros among them."""
    rng, found = np.random.default_rng(draw(seeds)), scipy.sparse.csr_array(array)
    numbers = np.repeat(np.arange(len(array)), np.diff(found.indptr))
    halved = rng.random(found.nnz) < 0.3
    values = np.concatenate(
        [np.where(halved, found.data / 2, found.data), found.data[halved] / 2, np.zeros(3)]
    )
    columns = np.concatenate(
        [found.indices, found.indices[halved], rng.integers(0, array.shape[1], 3)]
    )
    which = np.concatenate([numbers, numbers[halved], rng.integers(0, len(array), 3)])
    order = rng.permutation(len(values))
    order = order[np.argsort(which[order], kind="stable")]
    ends = np.searchsorted(which[order], np.arange(len(array) + 1))
    return scipy.sparse.csr_array(
        (values[order].astype(array.dtype), columns[order], ends), array.shape
    )


def as_dask_of_csr(array, draw, path):
    sliced = (
        ["coo"] if hasattr(scipy.sparse.coo_array, "__getitem__") else []
    )  # as Dask does; SciPy's newer can be
    kind = SPARSE[draw(st.sampled_from(["csr", "csc", "csr matrix", *sliced]))]
    return as_dask(array, draw, path).map_blocks(kind, meta=kind((0, 0), dtype=array.dtype))


def as_dask_of_csr_of_unknown_lengths(array, draw, path):
    return as_dask_of_unknown_lengths(array, draw, path).map_blocks(
        scipy.sparse.csr_array, dtype=array.dtype
    )


def as_csr_group(array, draw, path):
    """In the layout of anndata, its three arrays in drawn chunks."""
    found = draw(st.sampled_from([as_shuffled_csr, lambda *given: scipy.sparse.csr_array(array)]))(
        array, draw, path
    )
    store = f"{path}.zarr" if path else MemoryStore()
    group = zarr.create_group(
        store, attributes={"encoding-type": "csr_matrix", "shape": list(array.shape)}
    )
    for name, dtype in (
        ("data", array.dtype),
        ("indices", "<i4"),
        ("indptr", draw(st.sampled_from(["<i4", "<i8"]))),
    ):
        values = getattr(found, name)
        chunk = draw(st.integers(1, max(1, len(values))))
        made = group.create_array(
            name, shape=values.shape, chunks=(chunk,), dtype=dtype, config=WHOLE
        )
        made[:] = values
    return group


def as_csr_group_path(array, draw, path):
    as_csr_group(array, draw, path)
    return f"{path}.zarr"


def as_csr_group_in_memory(array, draw, path):
    return as_csr_group(array, draw, None)


def as_npz(array, draw, path):
    kind = SPARSE[draw(st.sampled_from(["csr", "csc", "coo", "bsr", "dia", "csr matrix"]))]
    scipy.sparse.save_npz(f"{path}.npz", kind(array), compressed=draw(st.booleans()))
    return f"{path}.npz"


SPARSE = {
    **{
        name: getattr(scipy.sparse, f"{name}_array")
        for name in ("csr", "csc", "coo", "dok", "lil", "bsr", "dia")
    },
    "csr matrix": scipy.sparse.csr_matrix,
}
ROW_FORMS = FORMS | {
    **{name: lambda array, draw, path, kind=kind: kind(array) for name, kind in SPARSE.items()},
    "shuffled csr": as_shuffled_csr,
    "npz": as_npz,
    "csr group": as_csr_group,
    "csr group path": as_csr_group_path,
    "csr group in memory": as_csr_group_in_memory,
    "dask of csr": as_dask_of_csr,
    "dask of csr of unknown lengths": as_dask_of_csr_of_unknown_lengths,
}
"""Those of two dimensions."""


@st.composite
def weighted_tables(draw, rows=(1, 60), dtypes=(np.float32, np.float64)):
    """Rows whose sums depend on their order, some with zeros, and weights."""
    values = draw(tables(rows, (1, 3), kinds=("clouds", "offset"), dtypes=dtypes))
    values[
        np.random.default_rng(draw(seeds)).random(values.shape)
        < draw(st.sampled_from([0.0, 0.5, 1.0]))
    ] = 0
    return values, draw(weights_of(len(values), (0.0, 0.3, 1.0, 2.7)))


def seen(source):
    """The bytes that kernels see, and those of the summary: all that a fit depends on."""
    return source.fold(Nested()), contents(source.summary)


def answers(source, penalty):
    """The bytes that kernels see over the runs of the tree, and those of a fit."""
    runs = doublings(source.plan.n_blocks)
    return (
        seen(source),
        [source.fold(Nested(), run) for run in runs],
        trace(source, penalty, max_iter=2),
    )


def from_memory(rows, weights, **options):
    return as_source(rows, weights, threads=1, block_rows=BLOCK_ROWS, **options)


@pytest.mark.parametrize("form", ROW_FORMS)
@settings(max_examples=8)
@given(drawn=weighted_tables(), data=st.data())
def test_every_form_of_the_input_gives_the_same_bytes(form, drawn, data, tmp_path_factory):
    rows, weights = drawn
    folder = tmp_path_factory.mktemp("form")
    given_rows = ROW_FORMS[form](rows, data.draw, folder / "rows")
    weight_form = data.draw(st.sampled_from(sorted(FORMS)))
    given_weights = (
        None if weights is None else FORMS[weight_form](weights, data.draw, folder / "weights")
    )
    source = as_source(
        given_rows, given_weights, threads=data.draw(st.integers(1, 2)), block_rows=BLOCK_ROWS
    )
    penalty = 0.1 * spread(rows)
    assert answers(source, penalty) == answers(from_memory(rows, weights), penalty)


@pytest.mark.parametrize("beside", FORMS)
@pytest.mark.parametrize("form", ["npy", "memmap", "zarr path", "dask"])
@settings(max_examples=2)
@given(data=st.data())
def test_weights_and_groups_of_every_form_go_with_their_rows(form, beside, data, tmp_path_factory):
    n, folder = 5 * BLOCK_ROWS + 3, tmp_path_factory.mktemp("beside")
    rows, numbers = np.arange(2.0 * n).reshape(n, 2), np.arange(n)
    given_rows = FORMS[form](rows, data.draw, folder / "rows")
    weights = FORMS[beside](numbers + 1.0, data.draw, folder / "weights")
    groups = FORMS[beside](numbers, data.draw, folder / "groups")
    source = as_source(given_rows, weights, groups=groups, threads=2, block_rows=BLOCK_ROWS)
    assert source.plan.n_shards > 1
    assert source.fold(Nested()) == from_memory(rows, numbers + 1.0, groups=numbers).fold(Nested())


@pytest.mark.parametrize("form", ["zarr", "zarr path"])
@settings(max_examples=15)
@given(drawn=weighted_tables(rows=(8, 80)), data=st.data())
def test_rows_that_are_read_again_each_pass_give_the_same_bytes(
    form, drawn, data, tmp_path_factory
):
    rows, weights = drawn
    path = f"{tmp_path_factory.mktemp('stream')}/rows.zarr"
    opened = stored(rows, data.draw, path, chunk_rows=data.draw(st.integers(1, len(rows) // 4)))
    penalty, piece = 0.1 * spread(rows), data.draw(st.integers(1, 2 * rows.nbytes))
    with mock.patch.object(shards, "PIECE_BYTES", piece):
        source = as_source(
            opened if form == "zarr" else path,
            weights,
            threads=data.draw(st.integers(1, 2)),
            block_rows=BLOCK_ROWS,
            memory_limit=int(2.4 * rows.nbytes),
        )
        assert all(isinstance(shard, StoredShard) for shard in source.shards)
        assert answers(source, penalty) == answers(from_memory(rows, weights), penalty)


@pytest.mark.parametrize("form", ["csr group", "csr group path"])
@settings(max_examples=15)
@given(drawn=weighted_tables(rows=(8, 80)), data=st.data())
def test_csr_rows_that_are_read_again_each_pass_give_the_same_bytes(
    form, drawn, data, tmp_path_factory
):
    rows, weights = drawn
    given_rows = ROW_FORMS[form](rows, data.draw, tmp_path_factory.mktemp("stream") / "rows")
    penalty, piece = 0.1 * spread(rows), data.draw(st.integers(1, 2 * rows.nbytes))
    with (
        mock.patch.object(shards, "PIECE_BYTES", piece),
        mock.patch.object(csr, "PART_BYTES", data.draw(st.integers(1, 100))),
        mock.patch.object(layout, "RESIDENT_SHARE", 0),
    ):
        source = as_source(
            given_rows, weights, threads=data.draw(st.integers(1, 2)), block_rows=BLOCK_ROWS
        )
        assert all(isinstance(shard, StoredShard) for shard in source.shards)
        assert answers(source, penalty) == answers(from_memory(rows, weights), penalty)


def test_rows_that_fit_in_memory_are_read_once(tmp_path):
    stored(table("clouds", (80, 2), np.float32, 0), lambda _: 1, tmp_path / "rows.zarr")
    source = as_source(tmp_path / "rows.zarr", threads=2, block_rows=BLOCK_ROWS)
    assert all(isinstance(shard, Shard) for shard in source.shards)


@pytest.mark.parametrize(
    ("memory_limit", "parts"), [(None, [range(4, 6), range(6, 8)]), (1200, [range(4, 8)])]
)
def test_threads_share_a_shard_that_is_in_memory_and_none_that_is_read(
    tmp_path, monkeypatch, memory_limit, parts
):
    rows, folded, seen = np.arange(64.0).reshape(-1, 1), Threads.fold, []

    def noted(executor, job, pieces, name):
        seen.append([blocks for _, blocks in pieces])
        return folded(executor, job, pieces, name)

    opened = stored(rows, lambda _: 1, tmp_path / "rows.zarr", chunk_rows=16)
    source = as_source(opened, threads=2, block_rows=1, memory_limit=memory_limit)
    assert source.plan.shard_blocks > 8
    monkeypatch.setattr(Threads, "fold", noted)
    found = source.fold(Nested(), range(4, 8))
    assert seen == [parts]
    assert found == merge_tree(
        [source.fold(Nested(), range(block, block + 1)) for block in range(4, 8)], Nested().combine
    )


@pytest.mark.parametrize("scheduler", ["processes", "multiprocessing"])
def test_new_processes_for_each_pass_are_warned_of_unless_they_are_kept(scheduler, monkeypatch):
    rows = np.arange(40.0).reshape(20, 2)
    lazy = da.from_array(rows, chunks=5)
    monkeypatch.setitem(dask.base.named_schedulers, scheduler, dask.get)  # starts none here
    with dask.config.set(scheduler=scheduler):
        with pytest.warns(UserWarning, match=r"new processes for each pass .*: leave it out"):
            anew = as_source(lazy)
        with dask.config.set(pool=object()):
            kept = as_source(lazy)
    with dask.config.set(scheduler="threads"):
        assert as_source(lazy).plan.n_rows == anew.plan.n_rows == kept.plan.n_rows == 20


@settings(max_examples=10)
@given(weighted_tables(rows=(40, 80)), st.data())
def test_a_dask_array_that_does_not_fit_gives_the_same_bytes_after_a_warning(drawn, data):
    rows, weights = drawn
    lazy, penalty = (
        as_dask(rows, data.draw, None).map_blocks(np.copy).map_blocks(np.copy),
        0.1 * spread(rows),
    )
    with pytest.warns(
        UserWarning, match=r"each pass computes it anew\. Call persist\(\) on it if it fits"
    ):
        source = as_source(
            lazy, weights, threads=1, block_rows=BLOCK_ROWS, memory_limit=2 * rows.nbytes
        )
    assert answers(source, penalty) == answers(from_memory(rows, weights), penalty)


def test_a_dask_array_that_only_reads_or_holds_its_chunks_is_not_warned_about():
    rows = da.from_array(np.ones((60, 2)), chunks=(7, 2))
    for cheap in (rows, rows.map_blocks(np.copy).persist()):
        assert (
            as_source(cheap, threads=1, memory_limit=100, block_rows=BLOCK_ROWS).summary.weight
            == 60
        )


def test_work_on_dask_arrays_goes_to_dask_and_other_work_to_threads(tmp_path):
    rows = np.ones((4, 1))
    assert as_source(da.from_array(rows), threads=2).executor == DaskTasks(None, 2)
    assert as_source(rows, da.from_array(rows[:, 0]), threads=2).executor == DaskTasks(None, 2)
    assert as_source(as_zarr(rows, lambda _: 1, tmp_path / "a"), threads=2).executor == Threads(2)
    assert as_source(rows, threads=2).executor == Threads(2)


def test_a_relative_path_stays_good_when_the_process_moves(tmp_path, monkeypatch):
    rows = table("clouds", (64, 2), np.float64, 0)
    stored(rows, lambda _: 1, tmp_path / "rows.zarr")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    given_rows = ["rows.zarr", zarr.open_array(LocalStore("rows.zarr"), mode="r")]
    sources = [
        as_source(each, threads=1, block_rows=BLOCK_ROWS, memory_limit=2 * rows.nbytes)
        for each in given_rows
    ]
    monkeypatch.chdir("elsewhere")
    expected = from_memory(rows, None).fold(Nested())
    assert [source.fold(Nested()) for source in sources] == [expected, expected]


# ---------------------------------------------------------------- dtypes

WORKING = {
    **dict.fromkeys(["?", "i1", "u1", "<i2", ">i2", "u2", "<f2", ">f2", "<f4", ">f4"], np.float32),
    **dict.fromkeys(["<i4", ">i4", "u4", "<i8", ">i8", "u8", "<f8", ">f8"], np.float64),
}


@pytest.mark.parametrize("dtype", WORKING)
@pytest.mark.parametrize("form", ["strided", "zarr", "dask"])
def test_numbers_of_every_type_are_worked_on_as_the_smallest_float_that_holds_them(
    form, dtype, tmp_path
):
    rows = np.random.default_rng(0).integers(0, 100, (70, 2)).astype(dtype)
    converted = rows.astype(WORKING[dtype])
    found = as_source(
        FORMS[form](rows, lambda _: 3, tmp_path / "a"), threads=2, block_rows=BLOCK_ROWS
    )
    assert seen(found) == seen(from_memory(converted, None))
    assert found.layout.stored_dtype.newbyteorder("=") == rows.dtype.newbyteorder("=")


@pytest.mark.parametrize("data", [[[1, 2], [3, 4]], np.array([[1, 2], [3, 4]], object)])
def test_lists_and_objects_that_are_numbers_are_taken(data):
    assert from_memory(data, [1, 2]).fold(Nested()) == from_memory(
        np.array(data, float), [1.0, 2.0]
    ).fold(Nested())


# ---------------------------------------------------------------- columns and scale


@pytest.mark.parametrize("form", ["strided", "npy", "zarr", "dask", "shuffled csr", "csr group"])
@settings(max_examples=5)
@given(drawn=weighted_tables(), data=st.data())
def test_chosen_columns_are_the_table_of_these_columns(form, drawn, data, tmp_path_factory):
    rows, weights = drawn
    columns = data.draw(st.lists(st.integers(0, rows.shape[1] - 1), min_size=1, max_size=3))
    given_rows = ROW_FORMS[form](rows, data.draw, tmp_path_factory.mktemp("columns") / "a")
    found = as_source(given_rows, weights, columns=columns, threads=2, block_rows=BLOCK_ROWS)
    assert seen(found) == seen(from_memory(rows[:, columns], weights))
    assert found.n_features == len(columns)


@settings(max_examples=20)
@given(weighted_tables())
def test_a_scale_divides_each_column(drawn):
    rows, weights = drawn
    scale = np.array([4.0, 0.5, 2.0**-20])[: rows.shape[1]]
    divided = (rows / scale).astype(rows.dtype)
    found = from_memory(rows, weights, scale=scale)
    assert seen(found) == seen(from_memory(divided, weights))


@pytest.mark.parametrize("form", ["strided", "zarr", "dask", "shuffled csr", "csr group"])
@settings(max_examples=5)
@given(drawn=weighted_tables(rows=(2, 60)), data=st.data())
def test_the_standard_deviation_is_by_weight_and_the_same_for_every_form(
    form, drawn, data, tmp_path_factory
):
    rows, weights = drawn
    given_rows = ROW_FORMS[form](rows, data.draw, tmp_path_factory.mktemp("scale") / "a")
    found = as_source(given_rows, weights, scale="std", threads=2, block_rows=BLOCK_ROWS)
    each = np.ones(len(rows)) if weights is None else weights
    values = rows.astype(np.float64)
    mean = np.average(values, axis=0, weights=each)
    deviation = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=each))
    divisor = np.where(deviation > 0, deviation, 1.0)
    assert found.prepare.scale.tolist() == pytest.approx(divisor.tolist(), rel=1e-9)
    assert seen(found) == seen(from_memory(rows, weights, scale="std"))


@pytest.mark.parametrize("form", ["strided", "zarr", "dask", "shuffled csr"])
@pytest.mark.parametrize("scale", [None, "std"])
@settings(max_examples=5)
@given(drawn=weighted_tables(rows=(8, 60)), data=st.data())
def test_kernels_see_the_features_of_the_rows_that_were_chosen_and_scaled(
    form, scale, drawn, data, tmp_path_factory
):
    rows, weights = np.abs(drawn[0]) + np.float32(1), drawn[1]
    columns = data.draw(st.lists(st.sampled_from(range(rows.shape[1])), min_size=1))
    given_rows = ROW_FORMS[form](rows, data.draw, tmp_path_factory.mktemp("features") / "rows")
    options = {"columns": columns, "scale": scale, "block_rows": BLOCK_ROWS}
    plain = as_source(np.ascontiguousarray(rows), weights, **options)
    seen_rows = plain.prepare(rows, Scratch())
    source = as_source(given_rows, weights, features=UnitRows(), **options)
    assert seen(source) == seen(from_memory(UnitRows()(seen_rows, Scratch()), weights))


def test_a_row_without_features_is_named_and_so_is_what_is_wrong_before():
    rows = np.ones((300, 2))
    rows[280] = 0
    with pytest.raises(
        InputError,
        match=r"data is 0 in every column at row 280 \(chunk 2, its row 80\): such a row has no",
    ):
        as_source(da.from_array(rows, chunks=100), features=UnitRows())
    rows[290, 1] = np.inf
    with pytest.raises(InputError, match=r"infinity .* row 290, column 1"):
        as_source(rows, features=UnitRows(), scale="std")


@pytest.mark.parametrize("missing", [False, True])
def test_a_column_whose_deviation_underflows_is_not_left_unscaled(missing):
    rows = np.random.default_rng(0).normal(size=(30, 2))
    message = r'scale="std": the squares of column 1 underflow .* differ by \S+e-170 at most'
    with pytest.raises(InputError, match=message):
        as_source(rows * [1.0, 1e-170], scale="std", missing=missing)
    for column in (np.full(30, 1e-170), 1e17 + np.arange(30) % 2 * 16, rows[:, 1] * 1e-140):
        found = as_source(np.column_stack([rows[:, 0], column]), scale="std", missing=missing)
        assert np.isfinite(found.scale).all()


def test_a_scale_whose_square_underflows_is_refused():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(InputError, match=r"scale is 1e-170 for column 1, and the square of this"):
        as_source(rows * [1.0, 1e-170], scale=[1.0, 1e-170])
    found = as_source(rows * [1.0, 1e-150], scale=[1.0, 1e-150])
    assert found.summary.squares == pytest.approx(((rows - rows.mean(axis=0)) ** 2).sum(axis=0))


def test_a_column_that_does_not_vary_is_not_scaled():
    rows = np.array([[1.0, 0.1], [3.0, 0.1]] * 20)
    assert from_memory(rows, None, scale="std").prepare.scale.tolist() == [1.0, 1.0]


def test_the_summary_is_of_the_rows_that_kernels_see():
    summary = from_memory(
        np.array([[1.0, 4.0], [9.0, 8.0]]), [1.0, 3.0], columns=[1], scale=np.array([2.0])
    ).summary
    assert isinstance(summary, Summary)
    assert (summary.weight, summary.mean.tolist()) == (4.0, [3.5])


# ---------------------------------------------------------------- what is refused


@st.composite
def spoiled(draw):
    """A table with some bad numbers, the first of them, and chunks."""
    rows = draw(tables((1, 60), (1, 3), kinds=("clouds",)))
    places = draw(
        st.lists(
            st.tuples(*(st.integers(0, size - 1) for size in rows.shape)), min_size=1, max_size=4
        )
    )
    for place in places:
        rows[place] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    return rows, min(places)


def found_at(rows, place):
    value = float(rows[place])
    return (
        rf"data contains {'NaN' if np.isnan(value) else 'infinity'} \({value}\) at row {place[0]}"
    )


@settings(max_examples=30)
@given(spoiled())
def test_the_first_number_that_is_not_finite_is_named(drawn):
    rows, place = drawn
    with pytest.raises(
        InputError,
        match=rf"{found_at(rows, place)}, column {place[1]}: remove or replace such rows",
    ):
        from_memory(rows, None)


@settings(max_examples=15)
@given(spoiled(), st.data())
def test_the_chunk_of_a_dask_array_is_named(drawn, data):
    rows, place = drawn
    lazy = as_dask(rows, data.draw, None)
    chunk, within = next(
        (number, place[0] - stop + size)
        for number, (size, stop) in enumerate(
            zip(lazy.chunks[0], np.cumsum(lazy.chunks[0]), strict=True)
        )
        if place[0] < stop
    )
    message = rf"{found_at(rows, place)} \(chunk {chunk}, its row {within}\), column {place[1]}: "
    with pytest.raises(InputError, match=message):
        as_source(lazy, threads=2, block_rows=BLOCK_ROWS)


@settings(max_examples=15)
@given(spoiled(), st.data())
def test_the_chunk_of_a_zarr_array_is_named(drawn, data):
    rows, place = drawn
    opened = stored(rows, data.draw, MemoryStore())
    chunk, within = divmod(place[0], opened.chunks[0])
    message = rf"{found_at(rows, place)} \(chunk {chunk}, its row {within}\), column {place[1]}: "
    with pytest.raises(InputError, match=message):
        as_source(opened, threads=2, block_rows=BLOCK_ROWS)


def test_a_bad_number_is_named_by_its_column_in_the_input():
    rows = np.array([[np.nan, 0.0, np.inf]])
    assert from_memory(rows, None, columns=[1]).n_features == 1
    with pytest.raises(InputError, match=r"infinity \(inf\) at row 0, column 2"):
        from_memory(rows, None, columns=[1, 2])


def test_a_bad_number_in_a_row_without_weight_is_refused_too():
    with pytest.raises(InputError, match=r"NaN \(nan\) at row 1"):
        from_memory(np.array([[1.0], [np.nan]]), [1.0, 0.0])


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**53 + 1, 2**63 - 1])
def test_integers_that_float64_cannot_tell_apart_are_refused(value):
    rows = np.array([[2**53 - 1], [1 - 2**53], [value]], np.int64)
    assert from_memory(rows[:2], None).n_features == 1
    with pytest.raises(
        InputError, match=rf"an integer near {float(value):.0f} at row 2, column 0: beyond 2\*\*53"
    ):
        from_memory(rows, None)


def test_large_floats_are_no_integers():
    assert from_memory(np.array([[2.0**60]]), None).n_features == 1


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, -5e-324])
@settings(max_examples=10)
@given(at=st.integers(0, 59), n_rows=st.just(60))
def test_weights_that_are_none_are_named(value, at, n_rows):
    weights = np.ones(n_rows)
    weights[at:] = value
    with pytest.raises(
        InputError, match=rf"sample_weight is {value} at row {at}: weights must be finite and >= 0"
    ):
        from_memory(np.ones((n_rows, 1)), weights)


FEW = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(3), r"every sample_weight is zero: at least one row needs a weight > 0"),
        (
            np.full(3, 1e308),
            r"the sum of sample_weight overflows float64: divide the weights by a constant first",
        ),
        (np.ones(2), r"sample_weight must hold one weight a row: 3 rows, but 2 weights"),
        (np.ones(1), r"sample_weight must hold one weight a row: 3 rows, but 1 weight$"),
        (np.ones((3, 1)), r"sample_weight must have 1 dimension, got shape \(3, 1\)"),
        (np.ones(3, complex), r"sample_weight has dtype complex128"),
        (["a", "b", "c"], r"sample_weight has dtype <U1"),
        (np.ma.masked_less(np.arange(3.0), 1), r"sample_weight is a masked array"),
        (
            scipy.sparse.coo_array(np.ones(3)),
            r"sample_weight is sparse \(coo_array\): pass a dense array, as sample_weight",
        ),
        (
            da.ma.masked_equal(da.ones(3), 1),
            r"MaskedArray: fill or drop .*, as dask\.array\.ma\.filled\(sample_weight, 0\) does$",
        ),
    ],
)
@pytest.mark.parametrize("block_rows", [1, 16])
def test_weights_that_cannot_be_used_are_named(weights, message, block_rows):
    with pytest.raises(InputError, match=message):
        as_source(FEW, weights, block_rows=block_rows)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            FEW[0],
            r"data must have 2 dimensions, got shape \(2,\): n rows of one .* have the shape \(n, 1\)",
        ),
        (FEW[np.newaxis], r"data must have 2 dimensions, got shape \(1, 3, 2\)"),
        (FEW[:0], r"0 sample\(s\) \(shape=\(0, 2\)\) while a minimum of 1 is required"),
        (FEW[:, :0], r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        (da.from_array(FEW)[da.from_array(FEW[:, 0] > 9)], r"0 sample\(s\) \(shape=\(0, 2\)\)"),
        (FEW.astype(complex), r"dtype complex128.*Complex data not supported"),
        (da.from_array(FEW.astype(complex)), r"dtype complex128.*Complex data not supported"),
        (FEW.astype(str), r"data has dtype <U32, which is not a real number"),
        (FEW.astype("M8[s]"), r"data has dtype datetime64\[s\], which is not a real number"),
        (
            FEW.astype(np.longdouble),
            r"which is not a real number of up to 64 bits: convert it to float32 or float64",
        ),
        (np.array([[1, "x"]], object), r"data is not an array of numbers: .*'x'"),
        (np.array([[1, None]], object), r"data contains NaN \(nan\) at row 0, column 1"),
        (
            da.from_array(FEW.astype(object), chunks=3),
            r"data has dtype object, .*: if every value is a number",
        ),
        (scipy.sparse.coo_array(FEW[0]), r"data must have 2 dimensions, got shape \(2,\)"),
        (
            scipy.sparse.csr_array(FEW.astype(complex)),
            r"dtype complex128.*Complex data not supported",
        ),
        (scipy.sparse.csr_array((0, 2)), r"0 sample\(s\) \(shape=\(0, 2\)\)"),
        (
            np.ma.array(FEW, mask=np.eye(*FEW.shape)),
            r"data is a masked array: fill or drop the masked entries first",
        ),
        (
            da.from_array(FEW, chunks=(2, 2)).map_blocks(scipy.sparse.csr_array, meta=FEW[:0]),
            r"a Dask array of csr_array, but its meta says that its chunks are dense: pass data\.map_blocks\(",
        ),
        (
            da.from_array(FEW, chunks=(2, 2)).map_blocks(
                np.copy, meta=scipy.sparse.csr_array((0, 0))
            ),
            r"a Dask array of ndarray, but its meta says that its chunks are sparse",
        ),
        (
            da.ma.masked_equal(da.from_array(FEW), 1),
            r"MaskedArray: fill or drop .*, as dask\.array\.ma\.filled\(data, 0\) does$",
        ),
        (
            np.array([[1e200], [-1e200]]),
            r"squared distances overflow float64: column 0 reaches from -1e\+200 to 1e\+200",
        ),
        (
            np.array([[0, 1e155], [0, 0]]),
            r"overflow float64: column 1 reaches from 0 to 1e\+155; divide the data",
        ),
        (
            np.full((3, 1), 1e308),
            r"squared distances overflow float64: column 0 reaches from 1e\+308 to 1e\+308",
        ),
    ],
)
@pytest.mark.parametrize("block_rows", [1, 16])
def test_data_that_cannot_be_used_is_named(data, message, block_rows):
    with pytest.raises(InputError, match=message):
        as_source(data, threads=1, block_rows=block_rows)


def test_a_weight_may_make_squared_distances_overflow():
    rows = np.array([[0.0, 1e150], [0.0, 0.0]])
    assert from_memory(rows, [1.0, 1.0]).n_features == 2
    with pytest.raises(InputError, match=r"overflow float64: column 1 reaches from 0 to 1e\+150"):
        from_memory(rows, [1.0, 1e9])


@pytest.mark.parametrize(("columns", "shown"), [([2], "[2]"), ([0, -1], "[0, -1]"), ([], "[]")])
def test_columns_that_are_not_there_are_refused(columns, shown):
    with pytest.raises(
        InputError,
        match=rf"columns must name some of the 2 columns 0 to 1, got {shown[:-1]}\]".replace(
            "[", r"\["
        ),
    ):
        from_memory(FEW, None, columns=columns)


# ---------------------------------------------------------------- paths and stores


def test_a_group_is_refused_with_the_paths_of_its_arrays(tmp_path):
    group = zarr.open_group(tmp_path / "many.zarr", mode="w")
    for name in ("b", "a"):
        group.create_array(name, shape=(3, 2), dtype="f8")
    with pytest.raises(
        InputError, match=r"is a Zarr group, not an array: .*many\.zarr/a, .*many\.zarr/b$"
    ):
        as_source(tmp_path / "many.zarr")
    with pytest.raises(
        InputError, match=r"is a Zarr group, not an array: .*: data\['a'\], data\['b'\]$"
    ):
        as_source(group)
    assert as_source(tmp_path / "many.zarr" / "a", fill_missing=True).n_features == 2


def test_an_empty_group_is_refused(tmp_path):
    zarr.open_group(tmp_path / "none.zarr", mode="w")
    with pytest.raises(InputError, match=r"is a Zarr group, not an array: .*it holds no arrays"):
        as_source(tmp_path / "none.zarr")


@pytest.mark.parametrize("name", ["rows", "sample_weight"])
def test_a_missing_store_is_named(tmp_path, name):
    data = {"rows": FEW, "sample_weight": None} | {name: os.fspath(tmp_path / "nothing.zarr")}
    shown = "data" if name == "rows" else name
    with pytest.raises(InputError, match=rf"^{shown}: there is no Zarr array at .*nothing\.zarr: "):
        as_source(data["rows"], data["sample_weight"])


def test_a_folder_and_a_file_that_are_no_zarr_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("no numbers")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(InputError, match=r"^data: there is no Zarr array at "):
            as_source(path)


def test_a_npy_file_that_is_missing_broken_or_of_objects_is_refused(tmp_path):
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY\x01")
    np.save(tmp_path / "objects.npy", np.array([[None]]), allow_pickle=True)
    with pytest.raises(InputError, match=r"^data: .*missing\.npy does not exist$"):
        as_source(tmp_path / "missing.npy")
    with pytest.raises(InputError, match=r"^data: .*broken\.npy cannot be read as a \.npy file: "):
        as_source(tmp_path / "broken.npy")
    with pytest.raises(
        InputError, match=r"^data: .*objects\.npy holds Python objects, no numbers: "
    ):
        as_source(tmp_path / "objects.npy")


def test_stored_strings_are_refused(tmp_path):
    made = zarr.create_array(tmp_path / "words.zarr", shape=(3, 2), chunks=(2, 2), dtype=str)
    with pytest.raises(
        InputError, match=r"data has dtype StringDType\(\), which is not a real number"
    ):
        as_source(made)


@pytest.mark.parametrize("shard_rows", [None, 80])
def test_chunks_that_no_worker_could_hold_are_refused_before_any_is_read(tmp_path, shard_rows):
    shards_of = None if shard_rows is None else (shard_rows, 2)
    made = zarr.create_array(
        tmp_path / "coarse.zarr", shape=(100, 2), chunks=(40, 2), shards=shards_of, dtype="f8"
    )
    assert as_source(made, threads=1, memory_limit=2560, fill_missing=True).n_features == 2
    message = r"chunks of 40 rows, 640 bytes across its columns: more than 640, a quarter of the 2,559 bytes"
    with (
        mock.patch.object(inputs, "shards_of", side_effect=AssertionError("rows were read")),
        pytest.raises(InputError, match=message),
    ):
        as_source(made, threads=1, memory_limit=2559)


def test_a_client_cannot_be_given_with_what_it_cannot_use():
    client = mock.Mock(spec=Client)
    with pytest.raises(
        InputError,
        match="data is in this process's memory, where the client's workers cannot reach it",
    ):
        as_source(np.ones((3, 1)), client=client)
    for option in ({"threads": 1}, {"memory_limit": 100}):
        with pytest.raises(InputError, match="threads and memory_limit are for this process"):
            as_source(da.ones((3, 1)), client=client, **option)


def test_a_dask_array_that_holds_fewer_rows_than_it_declares_is_refused():
    lying = da.from_array(np.ones((12, 2)), chunks=(4, 2)).map_blocks(
        lambda rows: rows[:2], dtype=float
    )
    with pytest.raises(
        InputError, match=r"the chunks of data hold 6 rows, but 12 are declared, from row 0"
    ):
        as_source(lying)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ("foo", "scale must be \"std\" or one number > 0 a column, got 'foo'"),
        ([0.0, 1.0], "one finite number > 0 a column"),
        ([np.nan, 1.0], "one finite number > 0 a column"),
        ([-1.0, 1.0], "one finite number > 0 a column"),
        (np.ones(3), "one finite number > 0 a column"),
    ],
)
def test_a_scale_that_cannot_divide_is_refused(scale, message):
    with pytest.raises(InputError, match=message):
        as_source(np.array([[1.0, 2.0], [3.0, 5.0]]), scale=scale)


def test_a_column_that_is_constant_where_there_is_weight_is_not_divided():
    rows, weights = np.array([[0.1, 1.0]] * 10 + [[5.0, 2.0]]), np.array([0.3] * 10 + [0.0])
    assert as_source(rows, weights, scale="std").scale.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": None}, "data is None"),
        (
            {"data": [[1, 2], [3]]},
            "data has rows of different lengths: row 0 has 2 values, row 1 has 1",
        ),
        ({"data": [[1.0]], "threads": 0}, "threads must be an integer >= 1 or None, got 0"),
        (
            {"data": [[1.0]], "columns": [0.5]},
            r"columns must name some of the 1 columns 0 to 0, got \[0.5\]",
        ),
    ],
)
def test_arguments_that_cannot_be_used_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        as_source(**arguments)


def test_columns_may_be_an_array():
    assert as_source(np.ones((2, 3)), columns=np.array([2, 0])).prepare.columns == (2, 0)


def test_a_dask_array_of_unknown_chunks_is_left_as_it_was():
    lazy = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0]}), npartitions=1).to_dask_array()
    as_source(lazy)
    assert np.isnan(lazy.shape[0])
