import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_dpmeans.engine.plan import (
    ENOUGH_SHARDS,
    FEW_SHARDS,
    LABEL_CHUNK_BLOCKS,
    LABEL_CHUNKS,
    LEAST_BLOCK_ROWS,
    MOST_BLOCK_ROWS,
    Plan,
    block_height,
    doublings,
    label_chunk,
    merge_tree,
    shard_blocks,
)

powers = st.integers(0, 5).map(lambda exponent: 2**exponent)
counts = st.integers(1, 150)


def names(blocks):
    return [f"<{block}>" for block in blocks]


def pair(left, right):
    return f"({left}{right})"


def tree(items):
    """The fixed tree, by its definition: the greatest power of two of items below the whole goes left."""
    if len(items) == 1:
        return items[0]
    half = 1
    while 2 * half < len(items):
        half *= 2
    return pair(tree(items[:half]), tree(items[half:]))


@given(counts)
def test_answers_meet_in_the_fixed_tree(count):
    assert merge_tree(names(range(count)), pair) == tree(names(range(count)))


@given(counts, powers, powers)
def test_grouping_into_aligned_powers_of_two_is_the_same_tree(count, small, large):
    items = names(range(count))
    for size in (small, large):
        items = [
            merge_tree(items[start : start + size], pair) for start in range(0, len(items), size)
        ]
    assert merge_tree(items, pair) == tree(names(range(count)))


@given(counts)
def test_doublings_are_subtrees_that_cover_each_block_once_in_order(count):
    runs = list(doublings(count))
    assert [block for run in runs for block in run] == list(range(count))
    assert all(tree(names(run)) in tree(names(range(count))) for run in runs)
    assert all(len(run) <= max(1, run.start) for run in runs)


@st.composite
def plans(draw):
    return Plan(draw(st.integers(1, 2000)), draw(powers), draw(powers))


@given(plans(), st.integers(1, 9), st.data())
def test_pieces_name_each_block_of_a_run_once_in_order(plan, wanted, data):
    start = data.draw(st.integers(0, plan.n_blocks - 1))
    run = range(start, data.draw(st.integers(start + 1, plan.n_blocks)))
    pieces = plan.pieces(run, wanted)
    assert [
        shard * plan.shard_blocks + block for shard, blocks in pieces for block in blocks
    ] == list(run)
    assert all(
        0 <= shard < plan.n_shards and blocks.stop <= plan.shard_blocks for shard, blocks in pieces
    )


@given(plans(), st.integers(1, 9))
def test_pieces_are_as_many_as_wanted_where_there_are_so_many_blocks_and_else_whole_shards(
    plan, wanted
):
    for run in (range(plan.n_blocks), *doublings(plan.n_blocks)):
        pieces, shards = plan.pieces(run, wanted), plan.pieces(run)
        assert len(pieces) >= min(wanted, len(run))
        assert len({shard for shard, _ in shards}) == len(shards)
        if len(shards) >= wanted:
            assert pieces == shards


@given(plans(), st.integers(1, 9))
def test_pieces_of_a_doubling_merge_to_its_subtree(plan, wanted):
    for run in doublings(plan.n_blocks):
        parts = [
            merge_tree(
                names(
                    range(
                        shard * plan.shard_blocks + each.start,
                        shard * plan.shard_blocks + each.stop,
                    )
                ),
                pair,
            )
            for shard, each in plan.pieces(run, wanted)
        ]
        assert merge_tree(parts, pair) == tree(names(run))


@given(plans())
def test_shards_hold_every_row_once_and_end_where_blocks_end(plan):
    bounds = plan.shard_bounds()
    assert [row for start, stop in bounds for row in range(start, stop)] == list(range(plan.n_rows))
    assert all(stop % plan.block_rows == 0 for _, stop in bounds[:-1])
    assert len(bounds) == plan.n_shards
    assert all(stop - start == plan.shard_rows for start, stop in bounds[:-1])


@given(plans(), st.data())
def test_the_rows_of_a_run_are_counted_to_the_last(plan, data):
    start = data.draw(st.integers(0, plan.n_blocks - 1))
    run = range(start, data.draw(st.integers(start, plan.n_blocks)))
    assert plan.rows_of(run) == sum(row // plan.block_rows in run for row in range(plan.n_rows))


rows_in_all = st.integers(1, 2**40)
heights = st.integers(8, 15).map(lambda exponent: 2**exponent)


@given(rows_in_all, heights)
def test_a_label_chunk_is_whole_blocks_and_there_are_few(n_rows, block_rows):
    rows = label_chunk(n_rows, block_rows)
    assert Plan(n_rows, block_rows, 1).chunk_rows == rows
    assert rows % block_rows == 0
    assert rows <= LABEL_CHUNK_BLOCKS * block_rows
    assert rows == LABEL_CHUNK_BLOCKS * block_rows or n_rows / rows < 2 * LABEL_CHUNKS


@given(rows_in_all, heights, st.integers(1, 1000), rows_in_all, st.integers(1, 2**30))
def test_shards_are_as_high_as_stored_chunks(n_rows, block_rows, threads, most, stored):
    rows = shard_blocks(n_rows, block_rows, threads, most, stored) * block_rows
    assert 2 * rows > stored
    assert rows % label_chunk(n_rows, block_rows) == 0
    assert rows == max(
        shard_blocks(n_rows, block_rows, threads, most) * block_rows, rows if rows <= stored else 0
    )


@given(rows_in_all, heights, st.integers(1, 1000), st.integers(1, 2**30))
def test_shards_of_many_threads_are_worth_a_task(n_rows, block_rows, threads, heavy):
    rows = shard_blocks(n_rows, block_rows, threads, n_rows, 1, heavy) * block_rows
    without = shard_blocks(n_rows, block_rows, threads, n_rows) * block_rows
    assert rows >= without
    if rows > without:  # no higher than it takes
        assert n_rows / without > FEW_SHARDS
        assert rows <= max(heavy, n_rows / FEW_SHARDS)
    assert 2 * rows > min(heavy, n_rows / (FEW_SHARDS + 1))


@given(rows_in_all, heights, st.integers(1, 1000), rows_in_all)
def test_shards_are_whole_label_chunks_that_fit_their_memory_and_feed_the_threads(
    n_rows, block_rows, threads, most
):
    blocks = shard_blocks(n_rows, block_rows, threads, most)
    rows, chunk = blocks * block_rows, label_chunk(n_rows, block_rows)
    assert blocks & (blocks - 1) == 0
    assert rows % chunk == 0
    assert rows == chunk or rows <= most
    wanted = max(threads, min(8 * threads, ENOUGH_SHARDS))
    assert rows == chunk or n_rows / rows >= wanted
    assert 2 * rows > most or n_rows < 2 * rows * (wanted + 1)
    assert rows >= chunk


@given(st.integers(1, 10**7))
def test_block_heights_are_powers_of_two_within_their_limits(n_features):
    height = block_height(n_features)
    assert height & (height - 1) == 0
    assert LEAST_BLOCK_ROWS <= height <= MOST_BLOCK_ROWS


@pytest.mark.parametrize(
    ("n_features", "height"),
    [(8, 16384), (64, 8192), (65, 4096), (128, 4096), (1024, 512), (10**6, 256)],
)
def test_block_heights_are_part_of_the_answer_and_stay(n_features, height):
    assert block_height(n_features) == height
