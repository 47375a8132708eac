"""Fits of rows in memory that were stopped go on from where they were, to the same bytes."""

import contextlib
import math
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from dask_dpmeans.engine import checkpoints
from dask_dpmeans.engine.checkpoints import Checkpoint, digest, state_of, values_of
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate, last_state
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.encoded import EncodedDivergence
from dask_dpmeans.kernels.encoding import Encoding, Layout
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.methods.dpmeans.crossover import Crossovers, Schedule
from dask_dpmeans.methods.dpmeans.path import Prices, Radii
from dask_dpmeans.methods.dpmeans.population import Population
from dask_dpmeans.methods.dpmeans.starts import NO_LIMIT, Restart
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.step_log import CheckpointFiles

ROWS = np.random.default_rng(0).normal(size=(400, 2))
SPARSE_ROWS = arrays(np.float64, (3, 2), elements=st.sampled_from([0.0, 1.0, 2.0]))
METHOD = search.Method(3.0, coreset_rows=0, max_iter=NO_LIMIT)


class Memory(dict):
    """A store in memory."""

    load = dict.get
    save = dict.__setitem__


class Stopping:
    """A check that stops the work like Ctrl-C when it is asked for the n-th time."""

    def __init__(self, number):
        self.left = number

    def __call__(self):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def bytes_of(answer):
    if isinstance(answer, list):
        return [bytes_of(each) for each in answer]
    state = answer.end if hasattr(answer, "end") and answer.end is not None else answer
    values = {each.name: getattr(state, each.name) for each in fields(state) if each.name != "end"}
    return [  # fields of states within the state, one by one
        bytes_of(value) if is_dataclass(value) else np.asarray(value).tobytes()
        for value in values.values()
    ]


def crossovers():
    rows = InMemoryRows(ROWS, None)
    return Crossovers(METHOD, [Restart(METHOD.seeded(seed), 1)(rows) for seed in (1, 2)])


def with_swaps(job=Crossovers, **given):
    return job(METHOD, crossovers().ends, Schedule(members=3, failures=4, children=6), **given)


def test_crossovers_end_after_so_many_children_or_failures():
    job = with_swaps(sample=InMemoryRows(ROWS[::3].copy(), None))
    rows, calls, child = InMemoryRows(ROWS, None), [], Crossovers.child
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Crossovers, "child", lambda *how: calls.append(how) or child(*how))
        for schedule in (Schedule(3, 99, 6), Schedule(3, 99, 2), Schedule(3, 1, 99)):
            calls.clear()
            replace(job, schedule=schedule)(rows)
            if schedule.children < 99:
                assert len(calls) == schedule.children
            else:
                assert 1 <= len(calls) < 99


JOBS = {
    "crossovers with swaps": with_swaps(sample=InMemoryRows(ROWS[::3].copy(), None)),
    "population": with_swaps(Population),
    "restart": Restart(METHOD, tries=1),
    "crossovers": crossovers(),
    "prices": Prices(METHOD, (1.0, 8.0, 60.0), optimism=2.0),
    "radii": Radii(batch.Method(1.0), (1.0, 4.0, 9.0)),
}


@pytest.mark.parametrize("name", JOBS)
@settings(max_examples=15, deadline=None)
@given(stops=st.lists(st.integers(1, 60), max_size=4))
def test_a_fit_that_was_stopped_wherever_goes_on_to_the_same_bytes(name, stops):
    store = Memory()
    for number in stops:
        with contextlib.suppress(KeyboardInterrupt):
            JOBS[name](InMemoryRows(ROWS, None, check=Stopping(number), checkpoints=store))
    assert bytes_of(JOBS[name](InMemoryRows(ROWS, None, checkpoints=store))) == bytes_of(
        JOBS[name](InMemoryRows(ROWS, None))
    )


@pytest.mark.parametrize("name", JOBS)
def test_what_has_ended_is_not_done_again_and_what_was_begun_is_not_begun_anew(name, monkeypatch):
    monkeypatch.setattr(checkpoints, "SAVE_EVERY", 0.0)
    whole, rest, again = (Stopping(10**9) for _ in range(3))
    JOBS[name](InMemoryRows(ROWS, None, check=whole))
    passes, store = 10**9 - whole.left, Memory()
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        JOBS[name](InMemoryRows(ROWS, None, check=Stopping(passes - 1), checkpoints=store))
    JOBS[name](InMemoryRows(ROWS, None, check=rest, checkpoints=store))
    assert 10**9 - rest.left < passes
    JOBS[name](InMemoryRows(ROWS, None, check=again, checkpoints=store))
    assert 10**9 - again.left <= len(JOBS[name].penalties if name == "radii" else [1]) + 1


def test_a_fit_that_is_stopped_after_its_last_step_is_at_its_end(monkeypatch):
    method, store, whole = batch.Method(1.0), Memory(), Memory()
    wanted = last_state(InMemoryRows(ROWS, None), method)
    last_state(InMemoryRows(ROWS, None, checkpoints=whole), method)
    monkeypatch.setattr(checkpoints, "SAVE_EVERY", math.inf)
    steps = iterate(InMemoryRows(ROWS, None), method)
    monkeypatch.setattr("dask_dpmeans.engine.loop.iterate", lambda *_: interrupted_after(steps))
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        last_state(InMemoryRows(ROWS, None, checkpoints=store), method)
    monkeypatch.undo()
    assert store.keys() == whole.keys()
    assert bytes_of(last_state(InMemoryRows(ROWS, None, checkpoints=store), method)) == bytes_of(
        wanted
    )


def interrupted_after(steps):
    yield from steps
    raise KeyboardInterrupt


@given(
    seed=st.integers(0, 3),
    penalty=st.sampled_from([1.0, 2.0]),
    weights=st.sampled_from([None, 1.0, 2.0]),
)
@settings(max_examples=20, deadline=None)
def test_a_checkpoint_serves_the_very_same_fit_alone(seed, penalty, weights):
    store = Memory()
    Restart(METHOD, 1)(InMemoryRows(ROWS, None, checkpoints=store))
    given_weights = None if weights is None else np.full(len(ROWS), weights)
    other = Restart(replace(METHOD, penalty=penalty, seed=seed), 1)
    found = other(InMemoryRows(ROWS[::-1].copy(), given_weights, checkpoints=store))
    assert bytes_of(found) == bytes_of(other(InMemoryRows(ROWS[::-1].copy(), given_weights)))


@settings(deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans())
def test_damage_to_what_is_kept_changes_nothing(place, bit, cut):
    store = Memory()
    Checkpoint(store, "a").update({"x": np.arange(9.0)}, over=True)
    damaged = bytearray(store["a"])
    if cut:
        damaged = damaged[: int(place * len(damaged))]
    else:
        damaged[int(place * len(damaged))] ^= 1 << bit
    store["a"] = bytes(damaged)
    assert Checkpoint(store, "a").restore(dict) is None


@dataclass(frozen=True)
class Before:
    """A state of an earlier version."""

    step: int


@dataclass(frozen=True)
class After(Before):
    """The same state with a field more."""

    n_moves: int


def test_what_lacks_a_field_counts_for_nothing():
    rows, store = InMemoryRows(ROWS, None, checkpoints=Memory()), Memory()
    later = type("Before", (After,), {})
    names = {Checkpoint.of(rows, kind, METHOD).name for kind in (Before, After, later)}
    assert len(names) == 3
    Checkpoint(store, "a").update(values_of(Before(3)), over=True)
    assert Checkpoint(store, "a").restore(lambda values: state_of(Before, values)) == Before(3)
    assert Checkpoint(store, "a").restore(lambda values: state_of(After, values)) is None


@pytest.mark.parametrize("name", JOBS)
def test_fits_of_which_a_field_is_missing_begin_anew(name):
    class Lacking(Memory):
        """What was kept, without the centers of each state."""

        def load(self, name):
            content = self.get(name)
            if content is None:
                return None
            values = checkpoints._unpack(content)
            return checkpoints._pack(
                {key: value for key, value in values.items() if not key.endswith("centers")}
            )

    store, wanted = Lacking(), bytes_of(JOBS[name](InMemoryRows(ROWS, None)))
    for _ in range(2):
        assert bytes_of(JOBS[name](InMemoryRows(ROWS, None, checkpoints=store))) == wanted


def test_files_keep_what_they_are_told_on_disks_and_in_object_stores(tmp_path):
    for place in (Location.at(tmp_path / "a" / "b"), Location.at("memory://checkpoints/b")):
        store = CheckpointFiles(place)
        assert store.load("x") is None
        for content in (b"one", b"another"):
            store.save("x", content)
            assert store.load("x") == content
        assert place.names() == ["x"]


def test_a_digest_tells_values_types_and_shapes_apart():
    parts = [
        0,
        0.0,
        -0.0,
        False,
        None,
        "0",
        (),
        (0,),
        ((0,),),
        (0, 0),
        math.inf,
        METHOD,
        replace(METHOD, tol=0.5),
    ]
    arrays = [
        np.zeros(2),
        np.zeros((2, 1)),
        np.zeros(2, np.float32),
        np.zeros((1, 2)),
        -np.zeros(2),
    ]
    found = [digest(part) for part in [*parts, *arrays]]
    assert len(set(found)) == len(found)
    assert digest(1, 2) != digest(12) != digest((1, 2))


@given(rows=SPARSE_ROWS, other=SPARSE_ROWS)
@settings(deadline=None)
def test_a_digest_of_sparse_rows_tells_all_their_numbers_and_places(rows, other):
    first, second = csr_array(rows), csr_array(other)
    same = np.array_equal(rows, other)
    assert (digest(first) == digest(second)) == same
    wide = csr_array(first, copy=True)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    unsorted = csr_array(first, copy=True)
    for start, stop in pairwise(first.indptr):
        unsorted.data[start:stop] = first.data[start:stop][::-1]
        unsorted.indices[start:stop] = first.indices[start:stop][::-1]
    assert digest(first) == digest(wide) == digest(unsorted)
    assert digest(first) != digest(rows)


def test_a_fit_of_sparse_rows_goes_on_from_no_other_rows_with_as_many_numbers():
    rows = np.random.default_rng(0).poisson(2.0, (60, 3)) + 1.0
    layout = Layout(("poisson",) * 3, (0,) * 3)
    encoding = Encoding.of(layout, rows.mean(axis=0), np.ones(3), 0.1, "error", takes_csr=True)
    method, store = batch.Method(3.0, learned=EncodedDivergence(encoding)), Memory()
    for counts in (rows, rows[:, ::-1] * 2):
        sparse = encoding(csr_array(counts), Scratch())
        wanted = last_state(InMemoryRows(sparse, None), method)
        found = last_state(InMemoryRows(sparse, None, checkpoints=store), method)
        assert bytes_of(found) == bytes_of(wanted)


def test_what_has_no_digest_is_refused():
    with pytest.raises(TypeError, match="no digest of a set is known"):
        digest({1})
