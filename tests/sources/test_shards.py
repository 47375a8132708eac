import weakref
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory import peak_memory
from strategies import Nested, table, tables, weights_of

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block, Scratch
from dask_dpmeans.sources import shards
from dask_dpmeans.sources.jobs import CarryJob, FoldJob, MapJob
from dask_dpmeans.sources.opening import NpyFile
from dask_dpmeans.sources.shards import Prepare, Shard, StoredShard, piece_rows


class Stored:
    """A store that notes what is read."""

    def __init__(self, values, chunk_rows):
        self.values, self.chunks, self.reads = values, (chunk_rows, values.shape[1]), []
        self.dtype, self.shape = values.dtype, values.shape

    def __getitem__(self, rows):
        self.reads.append((rows.start, rows.stop))
        return self.values[rows]


@st.composite
def stored(draw):
    """A shard of a store, the bytes to read at a time, and a run of its blocks."""
    rows = draw(tables((20, 40), kinds=("grid", "clouds")))
    weights = draw(weights_of(len(rows)))
    block_rows = 2 ** draw(st.integers(0, 3))
    start, stop = draw(st.integers(0, 7)), len(rows) - draw(st.integers(0, 7))
    n_blocks = -(-(stop - start) // block_rows)
    first = draw(st.integers(0, n_blocks - 1))
    which = draw(
        st.sampled_from([range(n_blocks), range(first, draw(st.integers(first + 1, n_blocks)))])
    )
    data = Stored(rows, draw(st.integers(1, 6)))
    piece = draw(st.integers(1, 16)) * rows[0].nbytes
    each = weights
    if weights is not None:
        stored_weights = mock.MagicMock(__getitem__=lambda _, part: weights[part])
        each = draw(st.sampled_from([weights[start:stop], stored_weights]))
    in_memory = Shard(start, rows[start:stop], None if weights is None else weights[start:stop])
    return StoredShard(start, stop, data, each), in_memory, piece, block_rows, which


def seen(shard, block_rows, which, dtype=np.float64):
    return [
        Nested().chunk(block) for block in shard.blocks(Prepare(np.dtype(dtype)), block_rows, which)
    ]


@given(stored())
def test_blocks_read_in_pieces_are_those_in_memory(drawn):
    shard, in_memory, piece, block_rows, which = drawn
    with mock.patch.object(shards, "PIECE_BYTES", piece):
        found = seen(shard, block_rows, which)
    assert found == seen(in_memory, block_rows, which)
    assert len(found) == len(which)


@given(stored())
def test_a_loaded_shard_holds_the_rows_that_are_stored(drawn):
    shard, in_memory, piece, block_rows, which = drawn
    with mock.patch.object(shards, "PIECE_BYTES", piece):
        loaded = shard.load()
    assert isinstance(loaded, Shard)
    assert (loaded.start, loaded.rows.dtype) == (in_memory.start, in_memory.rows.dtype)
    assert seen(loaded, block_rows, which) == seen(in_memory, block_rows, which)


@given(stored())
def test_pieces_end_where_chunks_end_and_no_chunk_is_read_twice(drawn):
    shard, _, piece, block_rows, which = drawn
    with mock.patch.object(shards, "PIECE_BYTES", piece):
        seen(shard, block_rows, which)
    first = shard.start + which.start * block_rows
    last = min(shard.start + which.stop * block_rows, shard.stop)
    starts, stops = zip(*shard.data.reads, strict=True)
    assert (starts[0], stops[-1], starts[1:]) == (first, last, stops[:-1])
    assert all(stop % shard.data.chunks[0] == 0 for stop in stops[:-1])


@given(stored())
def test_a_piece_is_no_larger_than_asked_or_one_chunk_and_one_is_read_ahead(drawn):
    shard, _, piece, block_rows, which = drawn
    with mock.patch.object(shards, "PIECE_BYTES", piece):
        blocks = shard.blocks(Prepare(np.dtype(np.float64)), block_rows, which)
        next(blocks)
        early = list(shard.data.reads)
        list(blocks)
    row_bytes = shard.data.values[0].nbytes
    assert all(
        (stop - start) * row_bytes <= max(piece, shard.data.chunks[0] * row_bytes)
        for start, stop in shard.data.reads
    )
    needed = min(shard.start + (which.start + 1) * block_rows, shard.stop)
    assert sum(start >= needed for start, _ in early) <= 1


class Watched(Stored):
    """A store that notes how many rows of earlier pieces are alive when one is read."""

    def __init__(self, stored):
        super().__init__(stored.values, stored.chunks[0])
        self.pieces, self.alive = [], []

    def __getitem__(self, rows):
        self.alive.append(sum(len(each()) for each in self.pieces if each() is not None))
        found = super().__getitem__(rows).copy()
        self.pieces.append(weakref.ref(found))
        return found


@given(stored(), st.booleans(), st.sampled_from(["fold", "map", "carry"]))
def test_no_more_pieces_are_in_memory_than_are_worked_on(drawn, ahead, kind):
    """One is worked on as the next is read ahead; rows of a block that is not whole wait."""
    shard, _, piece, block_rows, which = drawn
    watched = Watched(shard.data)
    read = replace(shard, data=watched, ahead=ahead)
    prepare = Prepare(np.dtype(np.float64))
    with mock.patch.object(shards, "PIECE_BYTES", piece):
        most = max(stop - start for start, stop in shard._bounds(shard.start, shard.stop))
        if kind == "fold":
            FoldJob(Nested(), prepare, block_rows)(read, which)
        elif kind == "map":
            sink = mock.Mock(return_value=None)
            MapJob(lambda block: (block.rows[:, 0].copy(),), sink, prepare, block_rows, block_rows)(
                read, which
            )
        else:
            CarryJob(lambda state, block: state + len(block.rows), prepare, block_rows)(
                read, which, 0
            )
    assert all(alive < block_rows + ahead * most for alive in watched.alive)


@pytest.mark.parametrize(
    ("grid", "rows"),
    [
        ({"chunks": (5, 2)}, 5),
        ({"chunks": (5, 2), "shards": (20, 4)}, 20),
        ({"chunks": (5, 2), "shards": (10**9, 4)}, 5),
        ({"chunks": (10**9, 2)}, 10**9),
        ({}, 1),
    ],
)
def test_pieces_are_whole_shards_where_these_are_small_or_whole_chunks(grid, rows):
    data = mock.Mock(
        spec=["dtype", "shape", *grid], dtype=np.dtype(np.float32), shape=(10**9, 4), **grid
    )
    assert piece_rows(data) == rows


@given(
    tables(columns=(3, 3), kinds=("clouds",)), st.lists(st.integers(0, 2), min_size=1, max_size=4)
)
def test_columns_are_chosen_in_the_order_given(rows, columns):
    prepared = Prepare(rows.dtype, tuple(columns))(rows, Scratch())
    assert prepared.tobytes() == np.stack([rows[:, column] for column in columns], axis=1).tobytes()
    assert prepared.flags.c_contiguous


def test_rows_are_divided_in_float64_and_rounded_once():
    rows, scale = table("clouds", (500, 1), np.float32, 0), np.array([0.1])
    assert (
        Prepare(np.dtype(np.float32), None, scale)(rows, Scratch()).tolist()
        == (rows.astype(float) / scale).astype("f4").tolist()
    )
    whole = np.array([[2**24 + 1]], np.int64)
    assert Prepare(np.dtype(np.float64), None, np.array([2.0]))(whole, Scratch()).tolist() == [
        [2**23 + 0.5]
    ]


def test_columns_and_scale_go_together():
    rows = np.array([[1, 20, 300]], np.int16)
    assert Prepare(np.dtype(np.float32), (2, 0), np.array([100.0, 2.0]))(
        rows, Scratch()
    ).tolist() == [[3.0, 0.5]]


def test_rows_that_need_nothing_are_not_copied():
    rows = np.ones((4, 2), np.float32)
    assert np.shares_memory(Prepare(np.dtype(np.float32))(rows, Scratch()), rows)


def unaligned(values):
    """The same values at an odd address."""
    memory = np.empty(values.nbytes + 1, np.uint8)
    moved = memory[1:].view(values.dtype).reshape(values.shape)
    moved[...] = values
    return moved


def test_kernels_see_aligned_rows_and_weights():
    shard = Shard(0, unaligned(np.arange(12.0).reshape(6, 2)), unaligned(np.arange(6.0)))
    blocks = shard.blocks(Prepare(np.dtype(np.float64)), 4, range(2))
    for block, (start, stop) in zip(blocks, [(0, 4), (4, 6)], strict=True):
        assert block.rows.flags.aligned
        assert block.weights.flags.aligned
        assert block.rows.ravel().tolist() == list(range(2 * start, 2 * stop))
        assert block.weights.tolist() == list(range(start, stop))


@pytest.mark.parametrize("stored_dtype", ["i1", "<f2", ">f4", ">f8", "?"])
def test_kernels_see_contiguous_native_floats(stored_dtype):
    rows = np.asfortranarray(np.array([[0, 1], [1, 0], [1, 1]]).astype(stored_dtype))
    block = next(
        Shard(0, rows, np.ones(3, ">f4")).blocks(Prepare(np.dtype(np.float32)), 2, range(1, 2))
    )
    assert block.rows.flags.c_contiguous
    assert (block.start, block.rows.dtype, block.rows.tolist()) == (2, np.dtype("=f4"), [[1, 1]])
    assert block.weights.dtype == np.dtype("=f8")


def test_a_fold_job_merges_its_blocks_as_their_subtree():
    shard = Shard(20, np.arange(10.0).reshape(5, 2), None)
    one, two, three = (
        Nested().chunk(Block(20 + start, shard.rows[start : start + 2], None))
        for start in range(0, 5, 2)
    )
    job = FoldJob(Nested(), Prepare(np.dtype(np.float64)), 2)
    assert job(shard, range(3)) == f"(({one}{two}){three})"
    assert job(shard, range(1, 3)) == f"({two}{three})"
    assert job.merge(["a", "b", "c"]) == "((ab)c)"


def test_a_map_hands_on_whole_label_chunks_in_order():
    handed = []
    job = MapJob(
        lambda block: (block.rows[:, 0].copy(), block.start + np.arange(len(block.rows))),
        lambda start, answers: handed.append((start, [answer.tolist() for answer in answers])),
        Prepare(np.dtype(np.float64)),
        block_rows=2,
        chunk_rows=4,
    )
    rows = np.arange(40.0, 50.0).reshape(10, 1)
    job(Shard(40, rows[:9], None), range(5))
    starts = [start for start, _ in handed]
    assert starts == [40, 44, 48]
    assert [numbers for _, (_, numbers) in handed] == [[40, 41, 42, 43], [44, 45, 46, 47], [48]]
    assert all(values == numbers for _, (values, numbers) in handed)


def _sum_blocks(shard, block_rows):
    which, prepare = range(len(shard.rows) // block_rows), Prepare(np.dtype(np.float32))
    return sum(float(block.rows.sum()) for block in shard.blocks(prepare, block_rows, which))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16])
def test_small_numbers_are_widened_a_block_at_a_time(dtype):
    shard, block_rows = Shard(0, np.ones((2**18, 4), dtype), None), 2**12
    assert _sum_blocks(shard, block_rows) == 2**20
    block_bytes = 4 * 4 * block_rows
    assert peak_memory(_sum_blocks, shard, block_rows) < 2**19 + 4 * block_bytes


def test_a_file_that_a_worker_does_not_find_is_an_error_that_says_so(tmp_path):
    file = NpyFile(str(tmp_path / "rows.npy"), (8, 2), np.dtype(np.float64))
    with pytest.raises(InputError, match=r"rows.npy is not there on .* storage that every worker"):
        StoredShard(0, 8, file, None).read(0, 8)
