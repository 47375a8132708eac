import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import grid_problems

from dask_dpmeans import reference
from dask_dpmeans.engine.occ import settle
from dask_dpmeans.kernels.distance import Centers, nearest
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans.batch import Openings
from dask_dpmeans.sources import as_source

FEWER = settings(max_examples=30)


@st.composite
def sweeps(draw):
    """A problem, and centers to start from: some rows of it, or their mean."""
    problem = draw(grid_problems())
    values = problem.rows.astype(np.float64)
    chosen = draw(st.lists(st.integers(0, len(values) - 1), max_size=4))
    return problem, values[chosen] if chosen else values.mean(axis=0, keepdims=True)


def source_of(problem):
    return as_source(
        problem.rows, problem.weights, threads=problem.threads, block_rows=problem.block_rows
    )


class Passes:
    """A source that notes which blocks are folded."""

    def __init__(self, source):
        self.source, self.plan, self.seen = source, source.plan, []

    def fold(self, reduction, blocks, name):
        self.seen.append(blocks)
        return self.source.fold(reduction, blocks, name)


@FEWER
@given(sweeps(), st.booleans(), st.randoms(use_true_random=False))
def test_settling_is_one_serial_sweep_in_witness_order(drawn, gradually, random):
    problem, centers = drawn
    rule = Openings(LinearPrice(problem.penalty))
    settled = settle(source_of(problem), rule, Centers(centers), gradually=gradually)
    rest = sorted(
        set(range(len(problem.rows))) - set(settled.opened.tolist()),
        key=lambda number: random.random(),
    )
    order = [*settled.opened.tolist(), *rest]
    serial = reference.sweep(
        problem.rows.tolist(), problem.penalty, centers.tolist(), order, problem.each
    )
    moments = settled.answer.moments
    assert settled.opened.tolist() == serial.opened
    assert settled.state.values.tolist() == serial.centers
    assert nearest(problem.rows, settled.state).tolist() == serial.labels
    assert (
        moments.counts.tolist()
        == np.bincount(serial.labels, minlength=len(serial.centers)).tolist()
    )
    assert moments.keep(moments.weights > 0).means.tolist() == serial.means


@FEWER
@given(sweeps())
def test_the_last_pass_is_over_all_rows_and_none_objects(drawn):
    problem, centers = drawn
    settled = settle(
        source_of(problem), Openings(LinearPrice(problem.penalty), None), Centers(centers)
    )
    rows = problem.rows.tolist()
    near = [reference.nearest_center(row, settled.state.values.tolist())[1] for row in rows]
    objections = [
        min(1.0, weight) * squared for weight, squared in zip(problem.each, near, strict=True)
    ]
    assert max(objections) <= problem.penalty
    assert len(settled.answer.proposals) == 0
    assert settled.answer.moments.counts.sum() == len(rows)


@FEWER
@given(sweeps(), st.booleans())
def test_every_row_read_is_counted_and_a_gradual_start_reads_each_block_once(drawn, gradually):
    problem, centers = drawn
    passes = Passes(source_of(problem))
    settled = settle(
        passes, Openings(LinearPrice(problem.penalty), None), Centers(centers), gradually=gradually
    )
    everything = range(passes.plan.n_blocks)
    start = len(passes.seen)
    while start and passes.seen[start - 1] == everything:
        start -= 1
    early = [block for blocks in passes.seen[:start] for block in blocks]
    assert early == list(everything if gradually and passes.plan.n_blocks > 1 else [])
    assert settled.rows_read == sum(map(passes.plan.rows_of, passes.seen))


def test_a_row_covered_by_one_that_does_not_open_opens_later_and_stands_later_in_the_order():
    """Radius 4: in its block 3 covers 6, then 0 covers 3, so that 6 opens after 50."""
    source = as_source(np.array([[0.0], [0.0], [3.0], [6.0], [50.0], [50.0]]), block_rows=2)
    settled = settle(source, Openings(LinearPrice(16.0), None), Centers(np.array([[1000.0]])))
    assert settled.opened.tolist() == [0, 4, 3]
    assert settled.state.values.tolist() == [[1000.0], [0.0], [50.0], [6.0]]
    assert settled.rows_read == 3 * 6


def test_a_sweep_without_births_is_one_pass():
    source = as_source(np.array([[0.0], [1.0], [2.0]]), block_rows=1)
    settled = settle(source, Openings(LinearPrice(4.0), None), Centers(np.array([[1.0]])))
    assert (settled.rows_read, settled.opened.tolist()) == (3, [])


def test_a_gradual_start_keeps_what_climbs_the_tree_small():
    """Rows of one place, far from the only center: at once, each block proposes one; gradually, the first alone."""
    proposed = []

    class Counted(Openings):
        def validate(self, state, answer):
            proposed.append(answer.moments.counts.sum())
            return super().validate(state, answer)

    source = as_source(np.full((8, 1), 9.0), block_rows=1)
    settle(source, Counted(LinearPrice(4.0)), Centers(np.zeros((1, 1))), gradually=True)
    assert proposed == [1, 1, 2, 4, 8]
