"""Fits as jobs: from rows to a run store."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dask_dpmeans import checks, sources
from dask_dpmeans.api.description import describe_estimator, fingerprint, request_of, sources_of
from dask_dpmeans.api.grid_arrays import describe_grid, write_grid
from dask_dpmeans.api.loading import run_array_names
from dask_dpmeans.api.resuming import is_complete, resumed_request, seed_for, starting_point
from dask_dpmeans.engine.checkpoints import SAVE_EVERY
from dask_dpmeans.engine.history import Record
from dask_dpmeans.engine.loop import Algorithm, NamedArrays, Progress, drive
from dask_dpmeans.errors import NOT_CONVERGED, InputError, warn
from dask_dpmeans.estimators.base import ClustersMixin, seed_of
from dask_dpmeans.estimators.transform import FeatureMap, MappedRows
from dask_dpmeans.methods.dpmeans.choice import AUTO, Auto, Choice, ChosenFit
from dask_dpmeans.registry import spec_of
from dask_dpmeans.storage.array_spec import FEATURE_NAMES
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.lock import Lock
from dask_dpmeans.storage.manifest import EstimatorDescription, Manifest, ResultManifest
from dask_dpmeans.storage.output import NewArrays
from dask_dpmeans.storage.run_store import RunStore
from dask_dpmeans.storage.writer import Writer

COMMIT_SECONDS = 0.5
"""Seconds since the last commit after which a step is committed to a remote store.

A job that is killed loses no more there, besides the step that it was at.  A commit takes several requests to an
object store, one after another.  On a local disk it takes 2 ms: there each step is committed."""
STEPS_KEPT = ". The steps are kept: the fit goes on with resume"
"""The end of an error about labels that a task wrote to another place."""


@dataclass(frozen=True)
class JobMethod:
    """An estimator as a job needs it."""

    algorithm: Algorithm[Any]
    """Parameters and steps."""
    estimator: EstimatorDescription
    """Name and parameters of the estimator."""
    seed: int | None
    """Stored with the run; None to draw one, or to take the seed of the resumed run."""
    feature_map: FeatureMap | None
    """Map from rows to the features that the algorithm sees."""
    auto: Auto | None
    """The choice of penalties from those features; None if they are numbers."""
    center_names: sources.Names | None
    """Names of the columns of the first centers, if known."""
    accepts: sources.Accepting
    """Which rows the estimator accepts that others refuse."""

    @classmethod
    def of(cls, model: ClustersMixin) -> Self:
        """Return an estimator as a job needs it; parameters that cannot be used are refused."""
        algorithm, given = model.method(), model.get_params(deep=False)["random_state"]
        return cls(
            algorithm,
            describe_estimator(model, spec_of(model).parameters(model, algorithm)),
            None if given is None else seed_of(given),
            model._feature_map(),
            model._auto(),
            model._center_names(),
            model._accepts(),
        )


@dataclass(frozen=True)
class Listeners:
    """Functions that are told of each committed step."""

    on_step: Callable[[int, Record, int], None] = lambda number, record, n_rows: None
    """Called with the number and record of the step, and the number of rows."""
    on_progress: Callable[[Progress[Any]], None] = lambda progress: None
    """Called with the state and the history after the step."""

    def __post_init__(self) -> None:
        for name, given in vars(self).items():
            if not callable(given):
                raise InputError(f"{name} must be a function, got {checks.describe_value(given)}")


def fit(
    arrays: sources.InputArrays,
    run: AnyPlace,
    method: JobMethod,
    listeners: Listeners,
    *,
    resume: bool,
    force: bool,
    columns: sources.Columns,
    compute: sources.Compute,
) -> None:
    """Fit, and write each step and the result to a run store.

    With `resume` a finished run stays as it is, unless it stopped at a lower `max_iter`.  With
    `force` nothing but a run of this package is ever removed.

    Raises
    ------
    InputError
        Data, parameters or paths cannot be used, or another job works on the run; nothing was
        written.
    LockLostError
        Another job has taken the run, because this one stood still for too long.
    """
    store, algorithm = RunStore.at(run, columns.storage_options), method.algorithm
    if method.feature_map is not None:
        method.feature_map.check_weights(arrays.sample_weight)
    inputs = [arrays.data, arrays.groups, arrays.sample_weight]
    with _locked(store, inputs, force=force, resume=resume) as lock:
        needs = sources.Requirements(algorithm.features, algorithm.sparse, **method.accepts)
        source = sources.open_source(arrays, columns, needs, compute)
        sources.check_centers(
            method.center_names, source.layout.column_names, source.prepare.columns
        )
        ready = _prepare(store, lock, arrays, source, method, resume)
        if ready is None:
            return
        converged = _fit(ready, resume, listeners)
    if not (converged or algorithm.draws):
        warn(NOT_CONVERGED.format(algorithm.max_iter), ConvergenceWarning)


@contextmanager
def _locked(
    store: RunStore, inputs: Sequence[Any], *, force: bool, resume: bool
) -> Iterator[Lock | None]:
    """Hold the lock of a run; None for a finished run that is resumed where nothing can be written."""
    if resume and store.finished() and not store.location.writable:
        store.check_target("run", inputs, force=force, resume=resume)
        yield None
        return
    with store.locked("run", inputs, force=force, resume=resume) as lock:
        yield lock


def _prepare(
    store: RunStore,
    lock: Lock | None,
    arrays: sources.InputArrays,
    source: sources.RowSource,
    method: JobMethod,
    resume: bool,
) -> "ReadyFit | None":
    """Return the fit with its features and penalties; None if the run is complete already."""
    auto, feature_map, seed = method.auto, method.feature_map, seed_for(store, method.seed, resume)
    algorithm = method.algorithm.seeded(seed)
    request = _request(algorithm, seed, source, arrays, method)
    if auto is not None:
        request = _auto_request(request, store, resume, auto.penalties)
    if resume:
        request = resumed_request(store, request)  # before the work
        if is_complete(store, algorithm):
            return None
    if lock is None:
        raise InputError(
            f"{store.path} cannot be written, and the run has not converged: copy it to a place that can be written"
        )
    learned = MappedRows(source) if feature_map is None else feature_map.fit(source, seed)
    scale, algorithm = _scale_of(source, learned), learned.method(algorithm)
    chosen = None if auto is None else learned.auto(auto).choose(learned.source, seed)
    if chosen is not None:
        request, algorithm = _chosen_request(request, chosen), chosen.method
        if chosen.choice.unclear:
            warn(chosen.choice.reason)
    return ReadyFit(store, lock, request, learned, scale, algorithm, chosen)


def _request(
    algorithm: Algorithm[Any],
    seed: int,
    source: sources.RowSource,
    arrays: sources.InputArrays,
    method: JobMethod,
) -> Manifest:
    weight, summary = arrays.sample_weight, source.summary
    scaled, weighted = source.scale is not None, weight is not None
    flags: dict[str, Any] = {"scaled": scaled, "weighted": weighted}
    request = request_of(algorithm, seed, source, feature_map=method.feature_map, **flags)
    grid = None if source.cube is None else describe_grid(source.cube, run_array_names())
    digest, found = fingerprint(summary), sources_of(arrays.data, arrays.groups, weight)
    read = replace(request.input, fingerprint=digest, n_groups=summary.n_groups)
    return replace(request, estimator=method.estimator, input=read, sources=found, grid=grid)


def _auto_request(
    request: Manifest, store: RunStore, resume: bool, names: tuple[str, ...]
) -> Manifest:
    """Return the request before the choice of penalties: with the choice of a resumed run."""
    choice, penalties = None, dict.fromkeys(_names_to_choose(request, names), AUTO)
    if resume and store.begun():
        before = store.request()
        choice = before.choice
        if choice is not None:
            both = [name for name in _names_to_choose(before, names) if name in penalties]
            penalties |= {name: before.parameters[name] for name in both}
    return replace(request, choice=choice, parameters={**request.parameters, **penalties})


def _names_to_choose(request: Manifest, names: tuple[str, ...]) -> list[str]:
    """Return the names of the penalties that are not given as numbers."""
    return [name for name in names if request.estimator.parameters.get(name, AUTO) == AUTO]


def _chosen_request(request: Manifest, chosen: ChosenFit) -> Manifest:
    """Return the request with the choice of penalties; a resumed run had the same."""
    penalties = chosen.choice.penalties
    if request.choice not in (None, chosen.choice.as_json()):
        before = " and ".join(repr(request.parameters[name]) for name in penalties)
        now = " and ".join(map(repr, penalties.values()))
        raise InputError(
            f"the run was begun with the penalty {before}, but these rows give {now}: the "
            "input has changed, or this is another type of CPU; force=True starts anew"
        )
    return _with_choice(request, chosen.choice)


def _with_choice(request: Manifest, choice: Choice) -> Manifest:
    penalties = {**request.parameters, **choice.penalties}
    return replace(request, choice=choice.as_json(), parameters=penalties)


@dataclass
class Commits:
    """The observer of a fit that commits its steps to a run store.

    To a remote store steps that end within `COMMIT_SECONDS` are committed together.
    """

    store: RunStore
    lock: Lock
    run: str
    """Name of the run that the job began or goes on with."""
    n_rows: int
    listeners: Listeners
    finished: bool
    """Whether the run was finished when the job began: it stays so until there is a new step."""
    since: float
    """Time of the last commit, or of the start."""
    pending: Progress[Any] | None = None
    """The last step, if it is not committed yet."""

    def begin_step(self) -> None:
        """Nothing: a step is written when it has ended."""

    def end_step(self, progress: Progress[Any]) -> bool:
        """Commit a new state, unless the last commit was just now, and never ask to stop."""
        self.lock.check()
        if progress.committed:
            self.pending = progress
        wait = COMMIT_SECONDS if self.store.location.remote else 0.0
        if progress.converged or perf_counter() - self.since >= wait:
            self.commit()
        if progress.committed:
            state, history = progress.state, progress.history
            self.listeners.on_step(state.step, history[-1], self.n_rows)
            self.listeners.on_progress(progress)
        return False

    def commit(self) -> None:
        """Commit the last step, if it is not committed yet.

        Checkpoints stay in a remote store after a short step: a job that was killed may have left them in
        the step after it, and this job repeats the short step first.
        """
        progress, self.pending = self.pending, None
        if progress is not None:
            self.lock.check()
            self.unfinish()
            self.store.steps.commit(
                progress.state,
                progress.history,
                progress.converged,
                self.lock.owner,
                self.run,
                keep_checkpoints=self.store.location.remote
                and progress.history[-1].seconds < SAVE_EVERY,
            )
        self.since = perf_counter()

    @contextmanager
    def to_the_last(self) -> Iterator[None]:
        """Commit the last step when the fit ends or is stopped inside."""
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the reason of the stop counts
                self.commit()
            raise
        self.commit()

    def unfinish(self) -> None:
        """Make a finished run an unfinished one, before anything of it is written."""
        if self.finished and self.store.finished():
            self.lock.check()  # another job may have finished it meanwhile
            self.store.unfinish()


@dataclass(frozen=True)
class ReadyFit:
    """A fit before its first step, with the lock of its store."""

    store: RunStore
    lock: Lock
    request: Manifest
    learned: MappedRows
    """The rows as the method sees them."""
    scale: NamedArrays
    """Divisors of the columns, as an array of the run; empty without a scale."""
    method: Algorithm[Any]
    chosen: ChosenFit | None
    """The choice of the penalties; None if they were given."""


def _fit(ready: ReadyFit, resume: bool, listeners: Listeners) -> bool:
    """Take the steps and write the result; return whether the fit has converged."""
    store, lock, request, method = ready.store, ready.lock, ready.request, ready.method
    source, chosen = ready.learned.source, ready.chosen
    start = starting_point(store, request, source, method, resume)
    name, n = store.steps.run_name(), source.plan.n_rows
    commits = Commits(store, lock, name, n, listeners, store.finished(), perf_counter())
    lock.check()  # so that it is the name of this job's run
    rows = replace(source, checkpoints=store.steps.checkpoints(lock.holder))
    with commits.to_the_last():
        end = drive(rows, method, [commits], start)
    choice = None if chosen is None else chosen.choice_after(end.state)
    if choice is not None:
        ready = replace(ready, request=_with_choice(request, choice))
    commits.unfinish()
    _write_result(ready, end)
    found_k = end.history[-1].n_clusters
    if end.converged and choice is not None and choice.unlike(found_k):
        warn(choice.differs(found_k))
    return end.converged


def _write_result(ready: ReadyFit, end: Progress[Any]) -> None:
    """Label the rows by the last state, and finish the run."""
    method, request, learned, chosen = ready.method, ready.request, ready.learned, ready.chosen
    source, state = learned.source, end.state
    plan = source.plan
    new = NewArrays(ready.store, check=ready.lock.check, kept=STEPS_KEPT)
    labels = new.create_rows("labels", (plan.n_rows,), plan.chunk_rows, np.int32)
    new.write_digests(
        {"labels": labels}, source.map(method.labels(source, state), Writer((labels,)), "label")
    )
    if source.cube is not None:
        write_grid(new, source, source.cube, labels)
    if learned.rows is not None:
        shape, dims = learned.rows.shape, ("row", "component")
        kept = new.create_rows("embedding", shape, plan.chunk_rows, learned.rows.dtype, dims)
        new.write_digests({"embedding": kept}, [Writer((kept,))(0, (learned.rows,))])
    ready.lock.check()
    passes = end.history[-1].passes + 1 + learned.passes
    stability = None
    if chosen is not None:
        passes += chosen.passes
        stability = chosen.cluster_stability(source, state)
    manifest = ResultManifest(
        **vars(request), converged=end.converged, n_passes=passes, figures=learned.figures
    )
    found = {**method.result(source, state), **ready.scale, **learned.arrays}
    if stability is not None:
        found["cluster_stability"] = stability, ("cluster",)
    if not request.learned_features or learned.divergence is not None:
        _write_names(new, source, found)
    ready.store.finish(new, found, end.history, manifest)


def _write_names(new: NewArrays, source: sources.RowSource, found: NamedArrays) -> None:
    """Write the names of the columns, if the arrays of a result have these columns."""
    names = source.used_names
    widths = {
        values.shape[dims.index("feature")] for values, dims in found.values() if "feature" in dims
    }
    if names is not None and widths == {len(names)}:
        new.write(FEATURE_NAMES, np.array(names, np.dtypes.StringDType()), ("feature",))


def _scale_of(source: sources.RowSource, learned: MappedRows) -> NamedArrays:
    """Return the divisors of the columns, (d,), as an array of a run; empty without a scale.

    With a feature map there may be another number of features than columns.
    """
    if source.scale is None:
        return {}
    same = learned.source.prepare.features is None and learned.rows is None
    return {"feature_scale": (source.scale, ("feature" if same else "column",))}
