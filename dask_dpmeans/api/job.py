"""Fits as jobs: from rows to a run store."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dask_dpmeans import checks
from dask_dpmeans.api.description import fingerprint, request_of, sources_of
from dask_dpmeans.api.grid_arrays import describe_grid, write_grid
from dask_dpmeans.api.loading import run_array_names
from dask_dpmeans.api.resuming import is_complete, resumed_request, seed_for, starting_point
from dask_dpmeans.engine.history import Record
from dask_dpmeans.engine.loop import Algorithm, NamedArrays, Progress, drive
from dask_dpmeans.errors import NOT_CONVERGED, InputError
from dask_dpmeans.estimators.transform import FeatureMap, MappedRows
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans.choice import AUTO, Auto, Choice, ChosenFit
from dask_dpmeans.sources import (
    Accepting,
    Columns,
    Compute,
    InputArrays,
    Names,
    Requirements,
    RowSource,
    check_centers,
    open_source,
)
from dask_dpmeans.storage.array_spec import FEATURE_NAMES
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.lock import Lock, only_job
from dask_dpmeans.storage.manifest import EstimatorDescription, Manifest, ResultManifest
from dask_dpmeans.storage.output import NewArrays
from dask_dpmeans.storage.run_store import RunStore
from dask_dpmeans.storage.writer import Writer


def fit(
    arrays: InputArrays,
    run: AnyPlace,
    method: Algorithm[Any],
    *,
    estimator: EstimatorDescription,
    seed: int | None,
    feature_map: FeatureMap | None,
    auto: Auto | None,
    center_names: Names | None,
    accepts: Accepting,
    resume: bool,
    force: bool,
    on_step: Callable[[int, Record, int], None],
    on_progress: Callable[[Progress[Any]], None],
    columns: Columns,
    compute: Compute,
) -> None:
    """Fit, and write each step and the result to a run store.

    Parameters
    ----------
    arrays : the input
    run : path or URL of the store
    method : parameters and steps
    estimator : name and parameters of the estimator, as `describe_estimator` gives them
    seed : stored with the run; None to draw one, or to take the seed of the resumed run
    feature_map : map from rows to the features that the method sees
    auto : the choice of penalties from those features; None if they are numbers
    center_names : names of the columns of the method's first centers, if known
    accepts : which rows the estimator accepts that others refuse
    resume : continue an existing run from its last committed step; a finished run stays as it is,
        unless it stopped at a lower `max_iter`
    force : remove an existing run; nothing but a run of this package is ever removed
    on_step : called with the number and record of each committed step, and the number of rows
    on_progress : called with the state and the history after each committed step
    columns : the columns that are used, and how the input is read
    compute : the threads or the cluster that do the work

    Raises
    ------
    InputError
        Data, parameters or paths cannot be used, or another job works on the run; nothing was
        written.
    LockLostError
        Another job has taken the run, because this one stood still for too long.
    """
    told = Listeners(on_step, on_progress)
    store = RunStore.at(run, columns.storage_options)
    if feature_map is not None:
        feature_map.check_weights(arrays.sample_weight)
    with _only_fit(store, arrays, force=force, resume=resume) as lock:
        needs = Requirements(method.features, method.sparse, **accepts)
        source = open_source(arrays, columns, needs, compute)
        check_centers(center_names, source.column_names, source.prepare.columns)
        seed = seed_for(store, seed, resume)
        method = method.seeded(seed)
        request = _request(method, seed, source, arrays, estimator, feature_map)
        if auto is not None:
            request = _auto_request(request, store, resume, auto.penalties)
        if resume:
            request = resumed_request(store, request)  # before the work
            if is_complete(store, method):
                return
        learned = MappedRows(source) if feature_map is None else feature_map.fit(source, seed)
        scale, method = _scale_of(source, learned), learned.method(method)
        chosen = None if auto is None else learned.auto(auto).choose(learned.source, seed)
        if chosen is not None:
            request, method = _chosen_request(request, chosen), chosen.method
            if chosen.choice.unclear:
                warnings.warn(chosen.choice.reason, stacklevel=4)
        ready = ReadyFit(store, lock, request, learned, scale, method, chosen)
        converged = _fit(ready, resume, told)
    if not (converged or method.draws):
        warnings.warn(NOT_CONVERGED.format(method.max_iter), ConvergenceWarning, stacklevel=4)


@contextmanager
def _only_fit(store: RunStore, arrays: InputArrays, *, force: bool, resume: bool) -> Iterator[Lock]:
    """Hold the lock of a store that a fit of the input may write."""
    inputs = [arrays.data, arrays.groups, arrays.sample_weight]
    store.check_target("run", inputs, force=force, resume=resume)
    with only_job(store.location) as lock:
        # Again: another job may have finished meanwhile.
        store.check_target("run", inputs, force=force, resume=resume)
        yield lock


def _request(
    method: Algorithm[Any],
    seed: int,
    source: RowSource,
    arrays: InputArrays,
    estimator: EstimatorDescription,
    feature_map: FeatureMap | None,
) -> Manifest:
    """Return the request of a run."""
    weight, summary = arrays.sample_weight, source.summary
    scaled, weighted = source.scale is not None, weight is not None
    request = request_of(
        method, seed, source, scaled=scaled, weighted=weighted, feature_map=feature_map
    )
    grid = None if source.cube is None else describe_grid(source.cube, run_array_names())
    digest, found = fingerprint(summary), sources_of(arrays.data, arrays.groups, weight)
    read = replace(request.input, fingerprint=digest, n_groups=summary.n_groups)
    return replace(request, estimator=estimator, input=read, sources=found, grid=grid)


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
            "input has changed, or this is another type of CPU; use --force to start anew"
        )
    return _with_choice(request, chosen.choice)


def _with_choice(request: Manifest, choice: Choice) -> Manifest:
    """Return the request with a choice and its penalties."""
    penalties = {**request.parameters, **choice.penalties}
    return replace(request, choice=choice.as_json(), parameters=penalties)


@dataclass(frozen=True)
class Listeners:
    """Functions that are called after each committed step."""

    on_step: Callable[[int, Record, int], None]
    on_progress: Callable[[Progress[Any]], None]

    def __post_init__(self) -> None:
        for name, given in vars(self).items():
            if not callable(given):
                raise InputError(f"{name} must be a function, got {checks.describe_value(given)}")


@dataclass(frozen=True)
class Commits:
    """The observer of a fit that commits its steps to a run store."""

    store: RunStore
    lock: Lock
    run: str
    """Name of the run that the job began or goes on with."""
    n_rows: int
    told: Listeners
    finished: bool
    """Whether the run was finished when the job began: it stays so until there is a new step."""

    def begin_step(self) -> None:
        """Nothing: a step is written when it has ended."""

    def end_step(self, progress: Progress[Any]) -> bool:
        """Commit a new state, and never ask to stop."""
        self.lock.check()
        if progress.committed:
            state, history = progress.state, progress.history
            self.unfinish()
            self.store.steps.commit(state, history, progress.converged, self.lock.owner, self.run)
            self.told.on_step(state.step, history[-1], self.n_rows)
            self.told.on_progress(progress)
        return False

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


def _fit(ready: ReadyFit, resume: bool, told: Listeners) -> bool:
    """Take the steps and write the result; return whether the fit has converged."""
    store, lock, request, method = ready.store, ready.lock, ready.request, ready.method
    source, chosen = ready.learned.source, ready.chosen
    start = starting_point(store, request, source, method, resume)
    name, n = store.steps.run_name(), source.plan.n_rows
    commits = Commits(store, lock, name, n, told, finished=store.finished())
    lock.check()  # so that it is the name of this job's run
    rows = replace(source, checkpoints=store.steps.checkpoints(lock.holder))
    end = drive(rows, method, [commits], start)
    choice = None if chosen is None else chosen.choice_after(end.state)
    if choice is not None:
        ready = replace(ready, request=_with_choice(request, choice))
    commits.unfinish()
    _write_result(ready, end)
    found_k = end.history[-1].n_clusters
    if end.converged and choice is not None and choice.unlike(found_k):
        warnings.warn(choice.differs(found_k), stacklevel=5)
    return end.converged


def _write_result(ready: ReadyFit, end: Progress[Any]) -> None:
    """Label the rows by the last state, and finish the run."""
    method, request, learned, chosen = ready.method, ready.request, ready.learned, ready.chosen
    source, state = learned.source, end.state
    new, plan = NewArrays(ready.store), source.plan
    labels = new.create_rows("labels", (plan.n_rows,), plan.chunk_rows, np.int32)
    new.write_digests(
        {"labels": labels}, source.map(method.labels(source, state), Writer((labels,)), "label")
    )
    if source.cube is not None:
        write_grid(new, source, source.cube, labels)
    if learned.rows is not None:
        _write_embedding(new, learned.rows, plan.chunk_rows)
    ready.lock.check()
    passes = end.history[-1].passes + 1 + learned.passes
    if chosen is not None:
        passes += chosen.passes
    stability = _stability_of(chosen, source, state)
    manifest = ResultManifest(
        **vars(request), converged=end.converged, n_passes=passes, figures=learned.figures
    )
    found = {**method.result(source, state), **stability, **ready.scale, **learned.arrays}
    if not request.learned_features or learned.divergence is not None:
        _write_names(new, source, found)
    ready.store.finish(new, found, end.history, manifest)


def _stability_of(chosen: ChosenFit | None, source: RowSource, state: Any) -> NamedArrays:
    """Return the stability of the clusters, (k,), as an array of a run; empty if not measured."""
    found = None if chosen is None else chosen.cluster_stability(source, state)
    return {} if found is None else {"cluster_stability": (found, ("cluster",))}


def _write_names(new: NewArrays, source: RowSource, found: NamedArrays) -> None:
    """Write the names of the columns, if the arrays of a result have these columns."""
    names = source.used_names
    widths = {
        values.shape[dims.index("feature")] for values, dims in found.values() if "feature" in dims
    }
    if names is not None and widths == {len(names)}:
        new.write(FEATURE_NAMES, np.array(names, np.dtypes.StringDType()), ("feature",))


def _scale_of(source: RowSource, learned: MappedRows) -> NamedArrays:
    """Return the divisors of the columns, (d,), as an array of a run; empty without a scale.

    With a feature map there may be another number of features than columns.
    """
    if source.scale is None:
        return {}
    same = learned.source.prepare.features is None and learned.rows is None
    return {"feature_scale": (source.scale, ("feature" if same else "column",))}


def _write_embedding(new: NewArrays, rows: Float64Array, chunk_rows: int) -> None:
    """Write the rows of the embedding, which nothing else makes."""
    kept = new.create_rows("embedding", rows.shape, chunk_rows, rows.dtype, ("row", "component"))
    new.write_digests({"embedding": kept}, [Writer((kept,))(0, (rows,))])
