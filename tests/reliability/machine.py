"""The run store against a model in memory: whatever is done in whatever order, it says what the model says."""

import random
import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from damage import damage
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nst
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from writes import faulty

from dask_dpmeans import DPMeans
from dask_dpmeans.api.loading import run_array_names
from dask_dpmeans.engine.history import Record
from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.estimators.spec import CENTERS
from dask_dpmeans.methods.dpmeans.batch import Method, State
from dask_dpmeans.storage.lock import NAME
from dask_dpmeans.storage.manifest import (
    EstimatorDescription,
    InputDescription,
    Manifest,
    ResultManifest,
)
from dask_dpmeans.storage.output import NewArrays, remove
from dask_dpmeans.storage.run_store import RunStore
from dask_dpmeans.storage.writer import Writer

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def states(draw, step):
    k, d = draw(st.integers(1, 3)), 2
    return State(
        step=step,
        centers=draw(nst.arrays(np.float64, (k, d), elements=NUMBERS)),
        means=draw(nst.arrays(np.float64, (k, d), elements=NUMBERS)),
        weights=draw(nst.arrays(np.float64, k, elements=st.floats(0, 1e9))),
        inertias=draw(nst.arrays(np.float64, k, elements=st.floats(0, 1e9))),
        objective=draw(NUMBERS),
        opened=draw(nst.arrays(np.int64, st.integers(0, 3), elements=st.integers(0, 2**53))),
        deaths=draw(st.integers(0, 5)),
        rows_read=draw(st.integers(0, 2**53)),
    )


def bytes_of(state):
    return {name: np.asarray(value).tobytes() for name, value in vars(state).items()}


REQUEST = Manifest(
    kind="run",
    method="dpmeans",
    parameters=vars(Method(1.0, tol=0.0, max_iter=9)),
    random_state=0,
    input=InputDescription(
        (10, 2), "<f8", None, scaled=False, weighted=False, block_rows=64, fingerprint="x"
    ),
    column_names=None,
    checksummed=True,
    versions={},
    estimator=EstimatorDescription("DPMeans", DPMeans(1.0, tol=0.0, max_iter=9).get_params()),
    sources={"data": None, "groups": None, "sample_weight": None},
)


class Store(RuleBasedStateMachine):
    """What `fit` may do to a store, what may befall it meanwhile, and what is read of it after each."""

    @initialize()
    def start(self):
        self.folder = Path(tempfile.mkdtemp())
        self.run = self.folder / "run.zarr"
        self.store = RunStore.at(self.run)
        self.manifest = self.state = self.result = None
        self.history: list[Record] = []
        self.begun = self.number = 0

    def teardown(self):
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def next_step(self, data):
        state = data.draw(states(len(self.history) + 1))
        return state, [*self.history, Record.of(state, 10, data.draw(st.floats(0, 9)))]

    @precondition(lambda self: self.manifest is None)
    @rule(fails_at=st.none() | st.integers(1, 2))
    def begin(self, fails_at):
        self.begun += 1
        there = replace(REQUEST, random_state=self.begun)
        with faulty(self.run, number=fails_at or 0) as faults, suppress(OSError):
            self.store.begin(there.as_json())
        if fails_at is None or faults.writes < fails_at:
            self.manifest, self.state, self.history = there, None, []

    @precondition(lambda self: self.manifest is not None and self.result is None)
    @rule(data=st.data())
    def commit(self, data):
        state, history = self.next_step(data)
        self.store.steps.commit(state, history, False)
        self.state, self.history = state, history

    @precondition(lambda self: self.manifest is not None and self.result is None)
    @rule(data=st.data(), fails_at=st.integers(1, 8))
    def die_in_a_commit(self, data, fails_at):
        """Each write of a commit may be the last; only after all of them the step stands."""
        state, history = self.next_step(data)
        with faulty(self.run, number=fails_at) as faults, suppress(OSError):
            self.store.steps.commit(state, history, False)
        if faults.writes < fails_at:
            self.state, self.history = state, history

    def write_result(self, labels):
        arrays = {
            "cluster_centers": (self.state.centers, ("cluster", "feature")),
            "cluster_weights": (self.state.weights, ("cluster",)),
            "cluster_inertias": (self.state.inertias, ("cluster",)),
        }
        new = NewArrays(self.store)
        rows = new.create_rows("labels", (len(labels),), 4, np.int32)
        new.write_digests({"labels": rows}, [Writer((rows,))(0, (labels,))])
        read = replace(REQUEST.input, shape=(len(labels), 2))
        manifest = ResultManifest(
            **vars(replace(REQUEST, input=read)), converged=True, n_passes=1.0
        )
        self.store.finish(new, arrays, self.history, manifest)

    @precondition(lambda self: self.state is not None and self.result is None)
    @rule(labels=nst.arrays(np.int32, st.integers(1, 9), elements=st.integers(0, 2)))
    def finish(self, labels):
        self.write_result(labels)
        self.result = (self.state, self.history, labels)

    @precondition(lambda self: self.state is not None and self.result is None)
    @rule(fails_at=st.integers(1, 60))
    def die_while_finishing(self, fails_at):
        """A result whose root was written is whole; the index of its arrays, which comes last, is a convenience."""
        labels = np.zeros(5, np.int32)
        root_written = False
        with faulty(self.run, number=fails_at) as faults, suppress(OSError):
            self.write_result(labels)
        root_written = self.store.finished()
        assert root_written or faults.writes >= fails_at
        if root_written:
            self.result = (self.state, self.history, labels)

    @precondition(lambda self: self.result is not None)
    @rule()
    def reopen(self):
        self.store.unfinish()
        self.result = None

    @rule()
    def remove(self):
        remove(self.store, run_array_names())
        if self.manifest is not None:
            self.manifest = self.state = self.result = None
            self.history = []

    @precondition(lambda self: self.manifest is not None)
    @rule(name=st.sampled_from(["steps", "."]))
    def leave_half_a_file(self, name):
        """As a job does that is killed while Zarr writes."""
        self.number += 1
        (self.run / name / f"zarr.json.{self.number:032x}.partial").write_text("{")

    @precondition(lambda self: self.manifest is not None)
    @rule(seed=st.integers(0, 2**32))
    def damaged(self, seed):
        """A copy with a damaged file says the same, or that it is damaged; the damage is gone thereafter."""
        shutil.copytree(self.run, self.folder / "whole")
        if any(file.is_file() and ".partial" not in file.name for file in self.run.rglob("*")):
            damage(self.run, random.Random(seed))
        with suppress(CorruptStoreError, InputError):
            # A damaged file that says what a run is makes it none, which is no other answer.  Nor is the step before,
            # where the one that says that the last is committed is lost: a fit goes on from there to the same end.
            if (
                self.state is not None
                and self.store.begun()
                and self.store.steps.committed() == len(self.history)
            ):
                self.check_state()
        with suppress(CorruptStoreError, InputError):
            if self.result is not None:
                self.check_result()
        shutil.rmtree(self.run)
        shutil.move(self.folder / "whole", self.run)

    def check_state(self):
        state, history, converged = self.store.steps.restore(State)
        assert bytes_of(state) == bytes_of(self.state)
        assert (history, converged) == (self.history, False)

    def check_result(self):
        state, history, labels = self.result
        found = self.store.result(lambda manifest: CENTERS)
        assert found.arrays["cluster_centers"].tobytes() == state.centers.tobytes()
        assert found.arrays["cluster_weights"].tobytes() == state.weights.tobytes()
        assert found.arrays["cluster_inertias"].tobytes() == state.inertias.tobytes()
        assert found.history == history
        np.testing.assert_array_equal(found.open_rows("labels")[:], labels)

    @invariant()
    def says_what_the_model_says(self):
        if not hasattr(self, "store"):
            return
        assert self.store.begun() == (self.manifest is not None)
        assert self.store.finished() == (self.result is not None)
        assert self.store.steps.committed() == len(self.history)
        assert self.store.kind() == (None if self.manifest is None else "run")
        if self.manifest is not None:
            assert self.store.request() == self.manifest
        if self.state is not None:
            self.check_state()
        if self.result is not None:
            self.check_result()
        kept = [folder for folder in self.run.glob("steps/*") if folder.is_dir()]
        assert len(kept) <= 3  # this step, the one before, and one that died
        assert not (self.run / NAME).exists()


def try_orders(orders: int, steps: int = 15) -> None:
    """Draw so many orders of that many steps; the shortest that goes wrong is raised."""
    asked = settings(
        max_examples=orders,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Store, settings=asked)


@click.command(help=__doc__)
@click.option("--orders", default=500, show_default=True, help="Orders of steps to draw.")
@click.option("--steps", default=20, show_default=True, help="Steps of each, the most.")
def main(orders: int, steps: int) -> None:
    """Say how many were tried; a wrong one ends it."""
    try_orders(orders, steps)
    click.echo(f"{orders} orders of up to {steps} steps, 0 wrong")


if __name__ == "__main__":
    main()
