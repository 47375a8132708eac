import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import DTYPES, Nested, contents, seeds, tables, trace, weights_of

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.sources import as_source

WIDE = 2048
"""Columns at which a block has 256 rows."""


def wide(n, dtype, seed):
    """Few numbers to draw, many columns: blocks of as few rows as there are."""
    rows = np.zeros((n, WIDE), dtype)
    rows[:, :3] = np.random.default_rng(seed).normal(size=(n, 3))
    return rows


@settings(max_examples=10)
@given(st.integers(1, 900), st.sampled_from(DTYPES), st.booleans(), seeds)
def test_held_rows_are_cut_and_merged_as_those_of_any_source(n, dtype, weighted, seed):
    rows = wide(n, dtype, seed)
    weights = np.random.default_rng(seed).choice([0.0, 0.5, 1.0], n) + 0.5 if weighted else None
    held, source = InMemoryRows(rows, weights), as_source(rows, weights, threads=1)
    assert (held.plan.n_rows, held.plan.block_rows) == (source.plan.n_rows, source.plan.block_rows)
    assert held.plan.n_shards == 1
    assert held.fold(Nested()) == source.fold(Nested())
    for blocks in (range(1), range(held.plan.n_blocks // 2, held.plan.n_blocks)):
        assert held.fold(Nested(), blocks) == source.fold(Nested(), blocks)


@given(tables(), st.data())
def test_their_summary_is_that_of_any_source(rows, data):
    weights = data.draw(weights_of(len(rows)))
    found, expected = (
        InMemoryRows(rows, weights).summary,
        as_source(rows, weights, threads=1).summary,
    )
    assert contents(found) == contents(expected)


def test_a_map_hands_on_every_row_once_in_order():
    rows = wide(600, np.float32, 0)
    handed = []
    InMemoryRows(rows, None).map(
        lambda block: (block.rows[:, :3].copy(),), lambda *part: handed.append(part)
    )
    assert [start for start, _ in handed] == [0, 256, 512]
    assert np.concatenate([answers[0] for _, answers in handed]).tobytes() == rows[:, :3].tobytes()


def test_a_kernel_sees_its_rows_weights_and_place():
    weights = np.arange(600.0)
    seen = []

    class Seen(Nested):
        def chunk(self, block: Block) -> str:
            seen.append((block.start, block.weights.tolist()))
            return ""

    InMemoryRows(wide(600, np.float64, 0), weights).fold(Seen())
    assert seen == [(start, weights[start : start + 256].tolist()) for start in (0, 256, 512)]


def test_jobs_run_one_after_the_other_in_order():
    ran = []
    jobs = [lambda power, number=number: ran.append(number) or number**power for number in range(4)]
    assert InMemoryRows(np.zeros((1, 1)), None).run(jobs, 2) == [0, 1, 4, 9]
    assert ran == [0, 1, 2, 3]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_of_held_rows_gives_the_bytes_of_any_source(weighted):
    rows = np.random.default_rng(0).normal(size=(500, 2)) * 5
    weights = np.random.default_rng(1).choice([0.0, 0.3, 1.0], 500) if weighted else None
    assert trace(InMemoryRows(rows, weights), 4.0) == trace(
        as_source(rows, weights, threads=1), 4.0
    )
