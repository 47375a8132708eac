"""Whoever watches a pass is told what runs and how much is done, and changes nothing."""

import threading

import dask.array as da
import numpy as np
import pytest
from strategies import Nested, table, trace

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import last_state
from dask_dpmeans.engine.occ import round_of
from dask_dpmeans.engine.plan import Plan
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans import search, short_searches, starts
from dask_dpmeans.methods.dpmeans.batch import Openings
from dask_dpmeans.selection.penalty import farthest_first, penalty_for, penalty_path
from dask_dpmeans.sources import as_source, layout
from dask_dpmeans.sources.executors.dask_tasks import DaskTasks
from dask_dpmeans.sources.executors.threads import Threads
from dask_dpmeans.sources.jobs import CarryJob, FoldJob, Known, MapJob
from dask_dpmeans.sources.progress import EVERY, Count
from dask_dpmeans.sources.shards import Prepare, Shard, StoredShard

ROWS = np.arange(600.0).reshape(-1, 1)
FLOAT64 = Prepare(np.dtype(np.float64))
PLAN = Plan(599, 2, 4)
EXECUTORS = {
    "1 thread": lambda on_pass: Threads(1, on_pass),
    "2 threads": lambda on_pass: Threads(2, on_pass),
    "Dask": lambda on_pass: DaskTasks(None, 2, on_pass=on_pass),
}
executors = pytest.mark.parametrize("made", EXECUTORS.values(), ids=EXECUTORS)


@pytest.fixture
def often(monkeypatch):
    """Tell at every opportunity."""
    monkeypatch.setattr("dask_dpmeans.sources.progress.EVERY", 0.0)


class Notes(list):
    """What was told, in order, and by which threads."""

    def __init__(self):
        super().__init__()
        self.threads = set()

    def __call__(self, found):
        self.append(found)
        self.threads.add(threading.get_ident())


def pieces_of(executor, shards=None):
    wrapped = executor.wrap(shards or [Shard(a, ROWS[a:b], None) for a, b in PLAN.shard_bounds()])
    return [(wrapped[shard], which) for shard, which in PLAN.pieces(range(PLAN.n_blocks))]


def fold(executor, shards=None):
    return executor.fold(FoldJob(Nested(), FLOAT64, 2), pieces_of(executor, shards), "scan")


def each(executor):
    job = MapJob(lambda block: (block.rows[:, 0],), lambda *_: None, FLOAT64, 2, 2)
    executor.map(job, pieces_of(executor), "label")


def carry(executor):
    executor.carry(
        CarryJob(lambda state, block: state + len(block.rows), FLOAT64, 2),
        0,
        pieces_of(executor),
        "stream",
    )


PASSES = {"scan": fold, "label": each, "stream": carry}


@executors
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_told_from_its_beginning_to_its_end_in_rows(often, made, name):
    notes = Notes()
    PASSES[name](made(notes))
    assert {(told.name, told.unit, told.total) for told in notes} == {(name, "rows", 599)}
    done = [told.done for told in notes]
    assert done == sorted(done)
    assert done[0] == 0
    assert done[-1] == 599
    assert notes[-1].over
    assert [told.seconds for told in notes] == sorted(told.seconds for told in notes)


@executors
def test_a_pass_is_told_while_it_runs(often, made):
    under_way = threading.Event()

    def watch(found):
        if 0 < found.done < 599:
            under_way.set()

    class Last(Nested):
        def chunk(self, block):
            assert block.start < 598 or under_way.wait(60)
            return super().chunk(block)

    executor = made(watch)
    executor.fold(FoldJob(Last(), FLOAT64, 2), pieces_of(executor), "scan")
    assert under_way.is_set()


@executors
def test_only_the_thread_that_waits_tells(often, made):
    notes = Notes()
    fold(made(notes))
    assert notes.threads == {threading.get_ident()}


@executors
def test_a_pass_that_is_watched_answers_as_any(made):
    assert fold(made(lambda found: None)) == fold(made(None))


@executors
def test_rows_that_need_not_be_read_are_not_counted(made):
    class Restoring(FoldJob):
        def __call__(self, shard, blocks):
            return shard.kept if isinstance(shard, Known) else super().__call__(shard, blocks)

    notes = Notes()
    executor = made(notes)
    shards = [Shard(a, ROWS[a:b], None) if a else Known("(0)") for a, b in PLAN.shard_bounds()]
    executor.fold(Restoring(Nested(), FLOAT64, 2), pieces_of(executor, shards), "scan")
    assert notes[-1].total == notes[-1].done == 599 - 8


def test_loading_is_told():
    notes = Notes()
    Threads(2, notes).load([StoredShard(0, 5, ROWS, None), StoredShard(5, 9, ROWS, None)])
    assert (notes[-1].name, notes[-1].done, notes[-1].total) == ("load", 9, 9)


class Refusing(Notes):
    """Fails in the middle of a pass."""

    def __call__(self, found):
        super().__call__(found)
        if found.done:
            raise ZeroDivisionError("of who watches")


@executors
def test_an_error_of_who_watches_ends_the_pass_and_no_other(often, made):
    executor = made(Refusing())
    with pytest.raises(ZeroDivisionError, match="of who watches"):
        fold(executor)
    assert fold(made(None)) == fold(made(Notes()))


def test_a_watcher_is_told_no_more_often_than_it_can_follow():
    notes = Notes()
    with Count(notes, "scan", [1] * 1000) as count:
        for number in range(1000):
            count.say(number)
            count.last_call = count.began + 10 * EVERY  # as if it had just been told
    assert len(notes) == 2


def test_a_piece_that_runs_again_counts_once():
    notes = Notes()
    with Count(notes, "scan", [3, 4, 5]) as count:
        for number in (0, 0, 1):
            count.hear((0.0, {"token": count.token, "number": number, "fit": None}))
        count.hear((0.0, {"token": "of another pass", "number": 2, "fit": None}))
    assert notes[-1].done == 7


def test_fits_that_another_worker_makes_again_are_not_more_than_all():
    notes, fit = Notes(), {"penalty": 1.0, "n_clusters": 1}
    with Count(notes, "path", [2], "fits") as count:
        for _ in range(3):
            count.say(0, fit)
    assert (notes[-1].done, notes[-1].total) == (2, 2)


def test_every_pass_of_a_fit_is_told_and_its_steps_stay_the_same():
    rows, notes = table("clouds", (1200, 2), np.float32, 0), Notes()
    expected = trace(as_source(rows, threads=2, block_rows=64), penalty=6.0, max_iter=3)
    assert (
        trace(as_source(rows, threads=2, block_rows=64, on_pass=notes), penalty=6.0, max_iter=3)
        == expected
    )
    assert [told.name for told in notes][:2] == ["survey"] * 2
    assert {told.name for told in notes} >= {"survey", "scan"}


@pytest.mark.parametrize("cells", [False, True])
def test_short_searches_are_told_while_they_run(monkeypatch, cells):
    if cells:
        monkeypatch.setattr(short_searches, "SHORT_BELOW", 100)
        monkeypatch.setattr(short_searches, "CELLS", 50)
    rows, method = table("clouds", (1200, 2), np.float64, 0), search.Method(6.0, seed=0)
    expected, notes, running = last_state(as_source(rows), method), Notes(), []
    for module, name in ((starts, "lowest_centers"), (search, "exchange_and_kick")):
        monkeypatch.setattr(module, name, noting(getattr(module, name), running, notes))
    found = last_state(as_source(rows, on_pass=notes), method)
    assert running[0] == ("search", 0, 1, "jobs")
    assert set(running[1:]) <= {("search", 1, 1, "jobs"), ("exchange", 0, 1, "jobs")}
    assert ("exchange", 0, 1, "jobs") in running
    assert {each.name for each in notes if each.unit == "jobs"} == {"search", "exchange"}
    assert found.centers.tobytes() == expected.centers.tobytes()


@executors
def test_a_search_as_a_job_tells_how_many_clusters_there_are_while_it_runs(often, made):
    rows, method = InMemoryRows(table("clouds", (400, 2), np.float64, 0), None), search.Method(6.0)
    job, notes = starts.Restart(method.without_limits(), tries=0), Notes()
    steps = [fit["n_clusters"] for fit in job.each(rows)]
    assert len(steps) > 1
    [end] = made(notes).run([job], rows, "search")
    assert end.centers.tobytes() == job(rows).centers.tobytes()
    assert {(each.name, each.total, each.unit) for each in notes} == {("search", 1, "jobs")}
    running = [each.last["n_clusters"] for each in notes if each.last and not each.over]
    assert running or isinstance(made(None), DaskTasks)  # Dask's threads tell of ended tasks alone
    assert set(running) <= set(steps)
    assert notes[-1].over
    assert notes[-1].last == {"n_clusters": len(end.centers)}


def noting(function, running, notes):
    """The function, which adds what was told last when it is called."""

    def call(*arguments, **options):
        last = notes[-1]
        running.append((last.name, last.done, last.total, last.unit))
        return function(*arguments, **options)

    return call


def test_of_rows_read_in_each_pass_only_those_that_are_read_count(monkeypatch):
    monkeypatch.setattr(layout, "RESIDENT_SHARE", 0.0)
    notes = Notes()
    rows = table("clouds", (1200, 2), np.float32, 0)
    source = as_source(da.from_array(rows, chunks=100), threads=2, block_rows=64, on_pass=notes)
    assert not source.resident
    totals = []
    for centers in (rows[:3], rows[:3], rows[:4]):
        source.fold(
            round_of(Openings(LinearPrice(1e9), None), Centers(centers.astype(np.float64))),
            name="scan",
        )
        totals.append(notes[-1].total)
    assert totals == [1200, 0, 1200]


X = np.array([[0.0], [1.0], [8.0], [9.0], [20.0], [21.0]])


@pytest.mark.filterwarnings(
    "ignore:at penalties up to .* fewer than 32 rows a cluster"
)  # of six rows
@pytest.mark.parametrize(
    ("search", "full", "n_fits"), [(True, False, 7), (False, False, 4), (False, True, 4)]
)
def test_a_path_tells_which_penalty_was_fitted(often, search, full, n_fits):
    notes = Notes()
    options = {"search": search, "full": full, "random_state": 0, "summary_rows": 2}
    found = penalty_path(X, np.geomspace(0.1, 500, 4), **options, on_pass=notes)
    np.testing.assert_array_equal(
        found.n_clusters, penalty_path(X, np.geomspace(0.1, 500, 4), **options).n_clusters
    )
    fits = [told for told in notes if told.name == "path" and told.last]
    assert {told.unit for told in fits} == {"fits"}
    assert fits[-1].over
    assert fits[-1].total == n_fits
    if not search:
        last = {told.last["penalty"]: told.last["n_clusters"] for told in fits}
        assert list(last) == found.penalties.tolist()
        assert list(last.values()) == found.n_clusters.tolist()


def test_halvings_are_fits_of_the_path_too():
    notes = Notes()
    penalty_path(X, [1.0, 10.0], search=True, halvings=2, random_state=0, on_pass=notes)
    assert notes[-1].done == notes[-1].total == 3 * (1 + 2 * 2)


@pytest.mark.parametrize("search", [False, True])
def test_an_aim_tells_what_was_tried_and_in_the_end_how_much_it_was(often, search):
    notes = Notes()
    found = penalty_for(X, 3, search=search, random_state=0, on_pass=notes)
    told = [each for each in notes if each.name == "aim"]
    assert told[0].total is None
    assert told[-1].over
    assert {each.last["penalty"] for each in told if each.last} == {
        penalty for penalty, _ in found.tried
    }


def test_the_traversal_tells_its_passes():
    notes = Notes()
    farthest_first(X, 3, on_pass=notes)
    assert [told.name for told in notes if told.over] == ["survey", "farthest"]
