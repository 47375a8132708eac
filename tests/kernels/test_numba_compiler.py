import gc
import logging
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import event
from scipy.sparse import csr_array
from sklearn.base import clone

from dask_dpmeans import (
    DPMeans,
    GibbsMixture,
    GraphCutDPMeans,
    HDPMeans,
    OnlineDPMeans,
    SplitMergeDPMeans,
)
from dask_dpmeans.kernels import (
    center_clusters,
    center_clusters_compiled,
    halves_compiled,
    numba_compiler,
    numba_support,
    short_search,
)
from dask_dpmeans.kernels.answers import GatheredRows
from dask_dpmeans.kernels.center_clusters import CompiledClusters
from dask_dpmeans.kernels.numba_compiler import KEPT, MESSAGE, NOT_KEPT, Teller
from dask_dpmeans.kernels.numba_support import (
    CALL,
    UNIT,
    CompiledLoop,
    CompiledPart,
    PastWork,
    pays,
    seconds_of,
)
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.kernels.short_search_compiled import cross_compiled, settle_compiled
from dask_dpmeans.methods.dpmeans.short_searches import lowest_centers

FIT = """
import numpy as np
from scipy.sparse import csr_array
from dask_dpmeans import (
    DPMeans, GibbsMixture, GraphCutDPMeans, HDPMeans, OnlineDPMeans, SplitMergeDPMeans)
rows = np.random.default_rng(0).normal(size=(150, 4)) + np.repeat([0, 9, 18], 50)[:, np.newaxis]
for model in (
    DPMeans(random_state=0), DPMeans(60.0), DPMeans(60.0, search=True, random_state=0),
    GibbsMixture(9.0, max_iter=9, random_state=0), OnlineDPMeans(60.0), SplitMergeDPMeans(60.0)):
    model.fit(rows)
for search in (False, True):
    model = HDPMeans(60.0, 60.0, search=search, random_state=0)
    model.fit(rows, groups=np.arange(150) % 3)
graph = csr_array(((rows[:, np.newaxis] - rows) ** 2).sum(axis=2) < 9.0).astype(np.float64)
for init in ("coarsen", "mean"):
    GraphCutDPMeans(-0.2, init=init, random_state=0).fit(graph)
"""
COMPILE = """
import numpy as np
from dask_dpmeans.kernels import numba_compiler, numba_support
from dask_dpmeans.kernels.moments import greatest
numba_compiler.PATIENCE = numba_support.LEAST_WORK = 0
for dtype in (np.int32, np.int64):
    assert greatest(np.array([0, 1, 0], dtype), np.array([1.0, 2.0, 3.0]), 2).tolist() == [3.0, 2.0]
"""


@pytest.fixture(autouse=True, scope="module")
def loops():
    """These tests are about Numba alone."""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a script in a new process with a cache of its own, and return what it writes to stderr."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def run_script(script):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run_script


def test_a_first_fit_of_few_rows_compiles_nothing_and_says_nothing(run, tmp_path):
    assert run(FIT) == ""
    assert list(tmp_path.rglob("*.nbi")) == []


def test_numba_is_loaded_for_its_cache_once_loops_together_have_some_work(run):
    run(COMPILE)
    script = """
import sys
import numpy as np
from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.moments import greatest_compiled, greatest
given = np.array([0, 1, 0], np.int32), np.array([1.0, 2.0, 3.0]), 2
other = numba_support.CompiledLoop(lambda values: values)
numba_support.LOADING = 4 * numba_support.CALL
numba_support.pays(other, (1.0,), 0)
numba_support.add_work(other, (1.0,), numba_support.CALL)
for loaded in (False, True):  # with the work of a third call, and of a fourth
    greatest(*given)
    assert ("numba" in sys.modules, len(greatest_compiled.ready)) == (loaded, loaded)
"""
    assert run(script) == ""


def test_numba_is_loaded_for_its_cache_at_once_if_so_much_work_is_ahead(run):
    run(COMPILE)
    script = """
import sys
import numpy as np
from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.moments import greatest_compiled
given = np.array([0, 1, 0], np.int32), np.array([1.0, 2.0, 3.0]), np.zeros(2)
numba_support.LOADING = least = 9 * numba_support.CALL
for ahead in (least - 1, least):
    pays = numba_support.pays(greatest_compiled, given, 0, ahead=ahead)
    assert ("numba" in sys.modules, pays) == (ahead == least,) * 2
"""
    assert run(script) == ""


def test_the_user_is_told_once_that_loops_are_compiled_and_not_when_they_are_loaded(run):
    assert run(COMPILE) == f"{MESSAGE}{KEPT}\n"
    assert run(COMPILE) == ""


def test_the_user_is_told_that_compiled_loops_are_not_kept_if_there_is_no_folder_for_them(run):
    no_folder = f"""
import numba.core.dispatcher
def enable(*_):
    raise RuntimeError("no locator available")
numba.core.dispatcher.Dispatcher.enable_caching = enable
{COMPILE}
"""
    assert run(no_folder) == f"{MESSAGE}{NOT_KEPT}\n"


def test_loops_in_the_cache_are_used_however_little_work_there_is(run):
    run(COMPILE)
    small = COMPILE.replace("numba_support.LEAST_WORK = 0", "0")
    spy = "from dask_dpmeans.kernels import moments; assert moments.greatest_compiled.ready"
    run(f"{small}\n{spy}")


@given(st.lists(st.tuples(st.sampled_from("fd"), st.integers(0, 40)), max_size=12))
def test_a_loop_is_called_from_when_its_twin_has_worked_long_enough_for_such_arguments(calls):
    def double(values):
        return 2.0 * values

    loop, done = CompiledLoop(double), {"f": 0, "d": 0}
    least = seconds_of(loop) * (50 + CALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "LEAST_WORK", 50 + CALL)
        patch.setattr(numba_compiler, "load_compiled", lambda *_: False)
        for dtype, work in calls:
            done[dtype] += work + CALL
            arguments = (np.ones(3, dtype),)
            assert pays(loop, arguments, work) == (done[dtype] >= least)
        patch.setattr(numba_support, "AVAILABLE", False)
        assert not pays(loop, (np.ones(3),), 10**9)
    assert not pays(double, (np.ones(3),), 10**9)


@given(st.integers(0, 2 * CALL), st.integers(0, 6 * CALL))
def test_a_loop_is_called_at_once_if_so_much_work_is_ahead_which_counts_once(work, ahead):
    def double(values):
        return 2.0 * values

    loop = CompiledLoop(double)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "LEAST_WORK", 4 * CALL / seconds_of(loop))
        patch.setattr(numba_compiler, "load_compiled", lambda *_: False)
        for done in (work + CALL, 2 * (work + CALL)):
            pay = pays(loop, (np.ones(3),), work, ahead=ahead)
            assert pay == (max(done, ahead) >= 4 * CALL)


@pytest.mark.parametrize(("before", "calls"), [(0, 4), (1, 3), (2, 2), (3, 1)])
def test_a_loop_waits_less_if_earlier_processes_waited(monkeypatch, tmp_path, before, calls):
    """Compiling takes as long as four calls; past ones count, up to ten of the present ones each."""

    def double(values):
        return 2.0 * values

    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(numba_compiler, "load_compiled", lambda *_: False)
    monkeypatch.setattr(numba_support, "PastWork", PastWork)
    monkeypatch.setattr(numba_support, "LEAST_WORK", 3.9 * UNIT / seconds_of(CompiledLoop(double)))

    def process(values):
        return pays(CompiledLoop(double), (values,), UNIT - CALL)

    assert not any(process(np.ones(3)) for _ in range(before))
    assert len(list(tmp_path.rglob("*.work"))) == (before > 0)
    loop, other = CompiledLoop(double), CompiledLoop(double)
    waited = [pays(loop, (np.ones(3),), UNIT - CALL) for _ in range(4)]
    assert waited.index(True) + 1 == calls
    assert [pays(other, (np.ones((3, 3)),), UNIT - CALL) for _ in range(4)].index(True) == 3


def test_the_path_waits_for_the_time_to_compile_all_of_its_loops(monkeypatch):
    told = []
    monkeypatch.setattr(center_clusters, "pays", lambda loop, *_, **__: told.append((loop,)))
    CompiledClusters(np.eye(4), np.ones(4), 3, False).pay(0)
    parts = set().union(*(loop.parts for loop in told[0]))
    modules = (vars(center_clusters_compiled), vars(halves_compiled))
    loops = [each for names in modules for each in names.values() if isinstance(each, CompiledLoop)]
    assert parts == {loop.function for loop in loops}


def test_numba_keeps_no_file_of_parts(run, tmp_path):
    run("""
import numpy as np
from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.center_path import center_path
numba_support.LEAST_WORK = 0
center_path(np.arange(20.0).reshape(10, 2) ** 2, np.ones(10), 4, False, 1)
""")
    kept = {file.name.split(".")[1].split("-")[0] for file in tmp_path.rglob("*.nbc")}
    assert "walk" in kept
    names = vars(center_clusters_compiled) | vars(halves_compiled)
    assert not [name for name in kept if isinstance(names.get(name), CompiledPart)]


def test_a_loop_is_compiled_anew_if_the_text_of_a_part_in_another_file_changes(run, tmp_path):
    support = "from dask_dpmeans.kernels import numba_support"
    loop = (
        "from a_part import part\n@numba_support.compile_loop\ndef loop(x):\n    return part(x)\n"
    )
    (tmp_path / "a_loop.py").write_text(f"{support}\n{loop}")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom a_loop import loop\n"
    for number in (1, 2, 2):
        part = f"@numba_support.compile_part\ndef part(x):\n    return x + {number}\n"
        part += (
            "#" * number
        )  # Python keeps bytecode of files of one size that change within a second
        (tmp_path / "a_part.py").write_text(f"{support}\n{part}")
        assert run(f"{script}print(loop(0), file=sys.stderr)") == f"{number}\n"
    assert len(list(tmp_path.rglob("a_loop.loop-*.nbc"))) == 2


@CompiledLoop
def half(x):
    return x / 2


@CompiledLoop
def quarter(x):
    return half(half(x))


@CompiledLoop
def eighth(x):
    return quarter(half(x))


def test_seconds_of_compiling_are_those_of_a_loop_and_all_that_it_calls_once_each():
    lengths = (len(loop.function.__code__.co_code) for loop in (half, quarter, eighth))
    assert seconds_of(eighth) == pytest.approx(numba_support.COMPILING * sum(lengths))
    assert seconds_of(eighth, quarter) == seconds_of(eighth)


def test_a_loop_waits_for_the_time_to_compile_those_that_are_called_with_it():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "LEAST_WORK", 10**9)
        patch.setattr(numba_compiler, "load_compiled", lambda *_: False)
        loop, work = CompiledLoop(lambda x: x), int(10**9 * seconds_of(eighth))
        assert not pays(loop, (1.0,), work, others=(eighth,))
        assert pays(loop, (1,), work)


@pytest.mark.parametrize(
    ("n", "penalty", "compiled"), [(200, 0.5, 0), (5000, 0.6, 2), (600, 1e-6, 0)]
)
def test_short_searches_are_compiled_at_once_if_they_are_long(monkeypatch, n, penalty, compiled):
    """The first search has fewer cells; of more clusters than short searches take, it is the end."""
    loops, searched = (settle_compiled, cross_compiled), []
    for loop, name in product(loops, ("ready", "work", "past")):
        monkeypatch.setattr(loop, name, type(getattr(loop, name))())
    monkeypatch.setattr(numba_support, "LEAST_WORK", 2**28)
    monkeypatch.setattr(numba_compiler, "load_compiled", lambda *_: False)
    for name in ("move_rows", "_nearest_two"):
        whole = getattr(short_search, name)
        monkeypatch.setattr(
            short_search, name, partial(lambda f, x, *y: searched.append(len(x)) or f(x, *y), whole)
        )
    rows, random = np.random.default_rng(0).uniform(size=(n, 4)), np.random.default_rng(0)
    gathered = GatheredRows(rows, np.ones(n), np.zeros(n, np.int64))
    lowest_centers(gathered, LinearPrice(penalty), random, quick=False)
    assert sum(len(loop.ready) for loop in loops) == compiled
    assert (n in searched) == (not compiled)


def test_short_searches_without_numba_count_the_passes_that_they_took(monkeypatch):
    """Rows of clear clusters take two, however many clusters there are."""
    for name in ("ready", "work", "past"):
        monkeypatch.setattr(settle_compiled, name, type(getattr(settle_compiled, name))())
    monkeypatch.setattr(numba_support, "LEAST_WORK", 2**30)
    monkeypatch.setattr(numba_compiler, "load_compiled", lambda *_: False)
    rows = np.random.default_rng(0).normal(size=(60, 2))
    few, passes = short_search.FewRows(rows, np.ones(60), 9.0, 60), 0
    for k in (1, 7, 20):
        passes += few.settle(np.arange(60) % k).passes
    assert list(settle_compiled.work.values()) == [3 * CALL + passes * 60 * short_search.PASS]


def test_loops_of_short_searches_are_compiled_for_one_kind_of_arguments(run):
    script = """
import numpy as np
from dask_dpmeans.kernels import numba_support, row_exchange_compiled, short_search_compiled
from dask_dpmeans.kernels.short_search import FewRows
numba_support.LEAST_WORK = 0
few = FewRows(np.random.default_rng(0).normal(size=(60, 2)), np.ones(60), 9.0, 60)
end = few.settle(np.arange(60) % 7)
few.child(end, end, np.linspace(0.1, 0.9, 2 * end.centers.shape[1] + 4))
kinds = {
    loop.__name__: len(loop.known.signatures)
    for module in (short_search_compiled, row_exchange_compiled)
    for loop in vars(module).values()
    if isinstance(loop, numba_support.CompiledLoop) and loop.known is not None
}
assert len(kinds) > 20 and set(kinds.values()) == {1}, kinds
"""
    run(script)


def say(teller, module, clock, *steps):
    """Give events of a function of a module to the teller, each as many seconds after the last."""
    data = {"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))}
    for seconds, status in steps:
        clock[0] += seconds
        teller.notify(event.Event("numba:compile", status, data))


def test_compiling_is_told_after_a_second_of_loops_of_this_package(monkeypatch, caplog):
    clock, teller = [0.0], Teller()
    monkeypatch.setattr(numba_compiler.time, "perf_counter", lambda: clock[0])
    start, end = event.EventStatus.START, event.EventStatus.END
    ours, numbas = "dask_dpmeans.kernels.moments", "numba.np.arrayobj"
    with caplog.at_level(logging.WARNING):
        say(teller, numbas, clock, (0.0, start), (9.0, end), (0.0, start), (9.0, end))
        say(teller, "other", clock, (0.0, start), (9.0, end))
        say(teller, ours, clock, (0.0, start), (0.6, end), (5.0, start), (0.3, start), (0.0, end))
        assert caplog.messages == []
        say(teller, numbas, clock, (0.2, start), (0.0, end))
        assert caplog.messages == [MESSAGE + KEPT]
        say(teller, ours, clock, (0.0, end), (0.0, start), (9.0, start))
    assert caplog.messages == [MESSAGE + KEPT]


def test_arrays_for_which_numba_compiles_anew_wait_for_themselves():
    def double(values):
        return 2.0 * values

    square = np.ones((3, 3))
    locked = np.ones((3, 3))
    locked.flags.writeable = False
    kinds = [square, square.T[:2].T, square[:, :2], square[::2], square[0], locked, square > 0]
    types = {numba.typeof(each) for each in kinds}
    loop = CompiledLoop(double)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "LEAST_WORK", 2**30)
        patch.setattr(numba_compiler, "load_compiled", lambda *_: False)
        for each in kinds:
            assert not pays(loop, (each,), 1)
    assert len(loop.work) == len(types)


def test_threads_that_call_a_loop_together_make_one_function_of_numba(monkeypatch):
    def distance(number: int) -> int:
        return abs(number)

    made, together = [], threading.Barrier(4)

    def compile_slowly(function, options):
        time.sleep(0.05)
        made.append(function)
        return function

    def call(_):
        together.wait()
        return loop(3)

    monkeypatch.setattr(numba_compiler, "compile_function", compile_slowly)
    loop = CompiledLoop(distance)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(call, range(4))) == [3] * 4
    assert made == [distance]


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**16), thresholds=st.lists(st.integers(16, 26), min_size=1, max_size=2))
def test_loops_that_are_compiled_in_the_middle_of_a_fit_change_no_bit(seed, thresholds):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    rows = rng.normal(size=(int(rng.integers(80, 300)), d))
    rows = np.round(rows + 4 * rng.integers(0, 4, (len(rows), 1)), int(rng.integers(1, 9)))
    places = np.arange(len(rows)) % 3
    graph = csr_array(np.exp(-((rows[:, np.newaxis] - rows) ** 2).sum(axis=2) / d).round(3))
    models = [
        DPMeans(5.0 * d),
        DPMeans(5.0 * d, search=True, random_state=seed),
        DPMeans(5.0 * d, search=True, outlier_penalty=3.0 * d, random_state=seed),
        GibbsMixture(2.0 * d, max_iter=5, random_state=seed),
        OnlineDPMeans(5.0 * d),
        SplitMergeDPMeans(5.0 * d),
    ]
    graph_models = [
        GraphCutDPMeans(-0.3, init=init, cut=cut, random_state=seed)
        for init, cut in (("coarsen", "normalized"), ("mean", "ratio"))
    ]
    shared = [HDPMeans(5.0 * d, 9.0 * d, search=each, random_state=seed) for each in (False, True)]

    def fitted(least):
        for loop in gc.get_objects():
            if type(loop) is CompiledLoop:
                loop.ready.clear()
                loop.work.clear()
                loop.past.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numba_support, "LEAST_WORK", least)
            patch.setattr(numba_compiler, "load_compiled", lambda *_: False)
            found = [clone(model).fit(rows) for model in models]
            found += [clone(model).fit(rows, groups=places) for model in shared]
            found += [clone(model).fit(graph) for model in graph_models]
        return [(each.objective_, each.labels_.tobytes()) for each in found]

    expected = fitted(2**60)
    assert all(fitted(2**power) == expected for power in thresholds)
