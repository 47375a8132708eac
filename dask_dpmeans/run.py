"""The job around the loop: from rows to a run store."""

import hashlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import version
from numbers import Integral, Real
from typing import Any, Unpack

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dask_dpmeans import checks
from dask_dpmeans.algorithms import gibbs
from dask_dpmeans.algorithms.kernel_search import EXACT
from dask_dpmeans.algorithms.spectral import Spectrum
from dask_dpmeans.approximation import Approximation
from dask_dpmeans.arrays import Writer
from dask_dpmeans.blocks import Kernel, Source
from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.kernels.block import Features, Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.features import Projection
from dask_dpmeans.kernels.implicit import ImplicitPredictions
from dask_dpmeans.kernels.scan import Predictions
from dask_dpmeans.kernels.sharing import GroupPredictions, Prices, Sharing
from dask_dpmeans.kernels.survey import Summary
from dask_dpmeans.location import AnyPlace, check_options, shown_path
from dask_dpmeans.lock import Lock, only_job
from dask_dpmeans.loop import Algorithm, Sampler, iterate
from dask_dpmeans.manifest import FORMAT, as_written
from dask_dpmeans.recipe import Arrays, Learned, Recipe
from dask_dpmeans.sources import (
    Layout,
    Names,
    Opening,
    RowSource,
    as_source,
    check_centers,
    check_names,
    check_option_names,
)
from dask_dpmeans.store import Draft, Record, Result, RunStore, new_group
from dask_dpmeans.synth import PART_ROWS, Synthetic

PREDICTED = {"label": np.int32, "squared_distance": np.float64, "beyond": np.bool_}
"""Arrays over the rows that `predict` writes."""
NOT_CONVERGED = "the fit stopped at max_iter={} before it converged: raise max_iter, or tol"


@dataclass(frozen=True)
class Predicted:
    """What `predict` came to."""

    n_rows: int
    beyond: int
    """Rows beyond every radius."""


def fit(
    data: Any,
    run: AnyPlace,
    method: Algorithm[Any],
    *,
    seed: int | None,
    groups: Any = None,
    sample_weight: Any = None,
    recipe: Recipe | None = None,
    center_names: Names | None = None,
    resume: bool = False,
    force: bool = False,
    on_step: Callable[[int, Record, int], None] = lambda number, record, n_rows: None,
    storage_options: Mapping[str, Any] | None = None,
    **where: Any,
) -> None:
    """Fit, and write each step and the result to a run store.

    Parameters
    ----------
    data, groups, sample_weight : what `as_source` takes
    run : path or URL of the store
    method : parameters and steps
    seed : stored with the run; None to draw one, or to take that of the run that is gone on with
    recipe : what the method is to see in place of the rows
    center_names : what the columns of the method's first centers are called, where that is known
    resume : go on with the run that is there from its last committed step, where there is one; a finished run stays as
        it is, unless it stopped at a lower `max_iter`
    force : remove the run that is there; nothing but a run of ours is ever removed
    on_step : called with the number and record of each committed step, and the number of rows
    storage_options : what fsspec takes for the URLs among these
    **where : columns, scale, client, worker_timeout, threads, memory_limit, on_pass, as `as_source` takes them

    Raises
    ------
    InputError
        Data, parameters or paths that cannot be used, or another job at work on the run; nothing was written.
    LockLostError
        Another job has taken the run, as this one stood still for too long.
    """
    if not callable(on_step):
        raise InputError(f"on_step must be a function, got {checks.shown(on_step)}")
    store = RunStore.at(run, storage_options)
    if recipe is not None:
        recipe.check_weights(sample_weight)
    inputs = [data, groups, sample_weight]
    store.check_target("run", inputs, force=force, resume=resume)
    with only_job(store.location) as lock:
        store.check_target("run", inputs, force=force, resume=resume)  # another may have ended just now
        where = where | {"storage_options": storage_options}
        source = as_source(data, sample_weight, groups=groups, features=method.features, sparse=method.sparse, **where)
        check_centers(center_names, source.column_names, source.prepare.columns)
        seed = seed_for(store, seed, resume)
        method = method.seeded(seed)
        manifest = asked(method, seed, source, scaled=source.scale is not None, weighted=sample_weight is not None)
        manifest["parameters"] |= {} if recipe is None else _described(recipe.parameters)
        manifest["input"]["fingerprint"] = fingerprint(source.summary)
        manifest["input"]["n_groups"] = source.summary.n_groups
        manifest["sources"] = sources_of(data, groups, sample_weight)
        if resume:
            check_resumable(store, manifest)  # before the work
            manifest["column_names"] = _resumed_names(store, source.column_names)
            if _stands(store, method):
                return
        learned = Learned(source) if recipe is None else recipe.learn(source, seed)
        converged = _fit(store, lock, manifest, learned, _scale_of(source, learned), method, resume, on_step)
    if not (converged or isinstance(method, Sampler)):
        warnings.warn(NOT_CONVERGED.format(method.max_iter), ConvergenceWarning, stacklevel=3)


def _fit(
    store: RunStore,
    lock: Lock,
    manifest: dict[str, Any],
    learned: Learned,
    scale: Arrays,
    method: Algorithm[Any],
    resume: bool,
    on_step: Callable[[int, Record, int], None],
) -> bool:
    """Whether the fit has converged, once its result stands."""
    source = learned.source
    state, history, converged = _begin(store, manifest, source, method, resume)
    if store.finished():
        store.reopen()
    name = store.name()
    lock.check()  # so that it is the name of this job's run
    kept = replace(source, shelf=store.shelf(lock.holder)) if state is None else source
    for step in () if converged else iterate(kept, method, state):
        state, converged = step.state, step.converged
        record = Record.of(state, source.plan.n_rows, step.seconds)
        lock.check()
        if len(history) < state.step:
            history.append(record)
            store.commit(state, history, converged, lock.owner, name)
            on_step(state.step, record, source.plan.n_rows)
        else:
            history[-1] = replace(history[-1], passes=record.passes)
    draft, plan = Draft(store), source.plan
    labels = draft.create_rows("labels", (plan.n_rows,), plan.chunk_rows, np.int32)
    draft.keep({"labels": labels}, source.map(method.labels(source, state), Writer((labels,)), "label"))
    if learned.rows is not None:
        _write_embedding(draft, learned.rows, plan.chunk_rows)
    lock.check()
    passes = history[-1].passes + 1 + learned.passes
    manifest = manifest | {"converged": converged, "n_passes": passes, **learned.figures}
    store.finish(draft, {**method.result(source, state), **scale, **learned.arrays}, history, manifest)
    return converged


def _scale_of(source: RowSource, learned: Learned) -> Arrays:
    """What columns were divided by, if anything; of features there may be another number."""
    same = learned.source.prepare.features is None and learned.rows is None
    return {} if source.scale is None else {"feature_scale": (source.scale, ("feature" if same else "column",))}


def predict(
    run: AnyPlace,
    data: Any,
    out: AnyPlace,
    *,
    groups: Any = None,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **where: Unpack[Opening],
) -> Predicted:
    """Label the rows of `data` with the clusters of a run.

    Writes a Zarr group at `out` with arrays over the rows: ``label`` (int32), ``squared_distance`` (float64, in squared
    units of the fit) and ``beyond`` (bool: farther than the square root of the penalty from every center; of several
    data sets, whether a center of its own would cost a row less).

    Parameters
    ----------
    run : path or URL of a finished run
    data : what `as_source` takes, with the columns that the run was fitted on
    out : path or URL of a new group
    groups : numbers of the rows' data sets, where the run is of several
    force : remove the predictions or the run of ours that are there
    storage_options : what fsspec takes for the URLs among these
    **where : client, worker_timeout, threads, memory_limit, on_pass, as `as_source` takes them

    Returns
    -------
    Predicted
    """
    check_option_names("predict", where, Opening)
    check_options(storage_options, run, data, out, groups)
    result = RunStore.at(run, storage_options).result()
    target = RunStore.at(out, storage_options)
    target.check_target("predictions", [run, data, groups], force=force)
    if result.shared != (groups is not None):
        raise InputError(
            "the run is of several data sets: give the groups of the rows, --groups"
            if result.shared
            else "the run is of one data set: it has no use for groups"
        )
    with as_written(result.store.location):
        kernel, features = predictions(result), features_of(result)
    fitted = result.manifest["input"]
    source = as_source(
        data,
        groups=groups,
        columns=fitted["columns"],
        scale=result.arrays.get("feature_scale"),
        features=features,
        centers=result.arrays.get("cluster_centers"),
        stored_columns=fitted["shape"][1],
        column_names=result.manifest.get("column_names") or (),
        storage_options=storage_options,
        **where,
    )
    said = {"run": result.store.shown, "versions": versions()}
    n, chunk_rows = source.plan.n_rows, source.plan.chunk_rows
    with new_group(target.location, "predictions", said, force=force, inputs=[run, data, groups]) as draft:
        arrays = {name: draft.create_rows(name, (n,), chunk_rows, dtype) for name, dtype in PREDICTED.items()}
        draft.keep(arrays, source.map(kernel, Writer(tuple(arrays.values())), "predict"))
    beyond = arrays["beyond"]
    return Predicted(n, sum(int(np.count_nonzero(beyond[a : a + chunk_rows])) for a in range(0, n, chunk_rows)))


def predictions(result: Result) -> Kernel:
    """The kernel of a map that predicts with the clusters of a run."""
    asked = result.manifest["parameters"]
    if "spectrum" in asked and "projection" not in result.arrays:
        raise InputError(
            "the clusters of the run are of the rows that were fitted, whose labels are in it: for new rows fit with "
            "affinity linear or rbf"
        )
    if "normalized" in asked:
        raise InputError("the clusters of the run are of the nodes of its graph, whose labels are in it")
    if result.manifest["method"] == gibbs.Method.name:
        raise InputError("the clusters of the run are a draw given its own rows, whose labels are in it")
    if result.manifest["method"] in EXACT:
        method = EXACT[result.manifest["method"]](**asked)
        if method.precomputed:
            raise InputError(
                "the run is of a precomputed kernel: similarities to its rows do not tell distances, and labels alone "
                "come from load(run).predict(K)"
            )
        return ImplicitPredictions(method.restored(result.arrays), method.penalty)
    centers = result.arrays["cluster_centers"]
    if not result.shared:
        return Predictions(Centers(centers), asked["penalty"])
    uses = result.arrays["local_groups"], result.arrays["local_centers"]
    sharing = Sharing.of(centers, *uses, result.manifest["input"]["n_groups"])
    return GroupPredictions(sharing, Prices(asked["local_penalty"], asked["global_penalty"]))


def features_of(result: Result) -> Features | None:
    """What a run made of the rows, where it did."""
    asked = result.manifest["parameters"]
    if "spectrum" in asked:
        return projection(result)
    if "approximation" not in asked:
        return result.features
    names = [field.name for field in fields(Approximation)]
    return Approximation(**{name: asked[name] for name in names}).restored(result.arrays)


def projection(result: Result) -> Projection | None:
    """What a run's centers are centers of, if it is of eigenvectors that rows can be projected on."""
    if "projection" not in result.arrays:
        return None
    fitted, arrays = result.manifest["input"], result.arrays
    columns = fitted["shape"][1] if fitted["columns"] is None else len(fitted["columns"])
    asked = Spectrum(**result.manifest["parameters"]["spectrum"])
    axes = asked.axes(arrays["projection"], arrays.get("landmarks"), columns)
    return Projection.of(axes, arrays["eigenvalues"])


def write_synthetic(
    data: Synthetic, out: AnyPlace, *, force: bool = False, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Write synthetic rows, (row, feature), and their true labels, (row,), as a Zarr group: ``rows`` and ``truth``."""
    check_options(storage_options, out)
    store = RunStore.at(out, storage_options)
    store.check_target("synthetic data", [], force=force)  # before a folder is made
    shape = (data.n_rows, data.n_features)
    with new_group(store.location, "synthetic data", {"data": asdict(data)}, force=force) as draft:
        rows = draft.create_rows("rows", shape, PART_ROWS, np.float32, ("row", "feature"))
        truth = draft.create_rows("truth", shape[:1], PART_ROWS, np.int32)
        write_part = Writer((rows, truth))
        said = [write_part(start, (part, labels)) for start, part, labels in data.parts()]
        draft.keep({"rows": rows, "truth": truth}, said)


def seed_for(store: RunStore, seed: int | None, resume: bool) -> int:
    """The seed given, that of the run to go on with, or one drawn."""
    if not (resume and store.begun()):
        return int(np.random.default_rng().integers(2**31)) if seed is None else seed
    begun = int(store.manifest()["random_state"])
    if seed not in (None, begun):
        raise InputError(f"{store.path} was begun with seed {begun}, not {seed}: leave the seed out to go on with it")
    return begun


def _begin(
    store: RunStore, manifest: dict[str, Any], source: Source, method: Algorithm[Any], resume: bool
) -> tuple[Any, list[Record], bool]:
    """The state to go on from, None for the method's start; the history up to it; whether it is the end."""
    if resume and store.begun():
        store.discard()
        if not store.committed():
            return None, [], False
        state, history, converged = store.restore(method.state)
        _check_unchanged(store, source, method, state)
        return state, history, converged
    method.init(source)
    store.remove()
    store.begin(manifest)
    return None, [], False


def _stands(store: RunStore, method: Algorithm[Any]) -> bool:
    """Whether a result stands that no further step can follow."""
    if not (store.finished() and store.begun()):
        return False
    _, history, converged = store.restore(method.state)
    return converged or len(history) >= method.max_iter


def _check_unchanged(store: RunStore, source: Source, method: Algorithm[Any], state: Any) -> None:
    """Refuse rows on which the committed centers give another objective than the one committed, in any bit."""
    objective = method.score(source, state)
    if objective != state.objective:
        raise InputError(
            f"the last step of {store.path} has the objective {state.objective!r}, but on these rows its centers give "
            f"{objective!r}: the input has changed, or this is another type of CPU; use --force to start anew"
        )


def check_resumable(store: RunStore, here: dict[str, Any]) -> None:
    """Refuse to go on with a run of other data or other parameters, as far as `here` says; limits may change."""
    if store.finished() and not (store.begun() or store.idle()):
        raise CorruptStoreError(f"{store.path} is a run whose steps are missing: --force removes it and starts anew")
    if not store.begun():
        return
    there = store.manifest()
    for key in ("method", "parameters", "input"):
        before, now = ({"": run[key]} if key == "method" else run[key] for run in (there, here))
        changed = [name for name in now if name not in ("max_iter", "max_clusters") and before.get(name) != now[name]]
        if changed:
            names = ", ".join(f"{name} {before.get(name)}, not {now[name]}" for name in changed)
            other = "other parameters" if key == "parameters" else f"another {key}"
            raise InputError(f"{store.path} was begun with {other}: {names}; use --force to start anew")


def _resumed_names(store: RunStore, here: Names | None) -> list[str] | None:
    """What the columns are called of a run that is gone on with, as it was begun, where that is known."""
    there = store.manifest().get("column_names") if store.begun() else None
    if there is not None:
        check_names(here, there, "the run")
        return list(there)
    return None if here is None else list(here)


def asked(
    method: Algorithm[Any], seed: int, source: RowSource | Layout, *, scaled: bool, weighted: bool
) -> dict[str, Any]:
    """What a run is asked, as JSON holds it; the fingerprint of its rows is known once they were read."""
    columns = source.prepare.columns
    return {
        "format": FORMAT,
        "kind": "run",
        "method": method.name,
        "parameters": {key: _described(value) for key, value in vars(method).items()},
        "random_state": seed,
        "input": {
            "shape": [source.plan.n_rows, source.stored_columns],
            "dtype": source.stored_dtype.str,
            "columns": None if columns is None else list(columns),
            "scaled": scaled,
            "weighted": weighted,
            "block_rows": source.plan.block_rows,
        },
        "column_names": None if source.column_names is None else list(source.column_names),
        "checksummed": source.checksummed,
        "versions": versions(),
    }


def sources_of(data: Any, groups: Any, sample_weight: Any) -> dict[str, str | None]:
    """Where the input is, without credentials; None for what is in memory, or not there at all."""
    return {"data": shown_path(data), "groups": shown_path(groups), "sample_weight": shown_path(sample_weight)}


def fingerprint(summary: Summary) -> str:
    """A digest of what the first pass found, by which other rows are told.

    Of a column that holds both zeros either may be the least value, as the order of comparisons has it: both are +0.
    """
    figures = [summary.sums, summary.squares, summary.lowest, summary.highest]
    figures += [np.array([summary.weight, summary.n_groups]), np.array([summary.groups_sum], np.uint64)]
    return hashlib.sha256(b"".join((figure + 0).tobytes() for figure in figures)).hexdigest()


def _described(value: Any) -> Any:
    """A parameter as JSON holds it."""
    if callable(value):
        raise InputError(
            f"the kernel {value!r} is a function, which a run cannot keep: name a kernel, or store the matrix of its "
            "values and use kernel='precomputed'"
        )
    if isinstance(value, np.ndarray):
        return f"sha256:{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, dict):
        return {key: _described(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_described(each) for each in value]
    if isinstance(value, Real) and not isinstance(value, int | float):
        return int(value) if isinstance(value, Integral) else float(value)
    return value


def versions() -> dict[str, str]:
    """What of an output's making is kept: our version, and those that its bytes hang on."""
    return {name: version(name) for name in ("dask-dpmeans", "dask", "numpy", "zarr")}


def _write_embedding(draft: Draft, rows: Float64Array, chunk_rows: int) -> None:
    """Write the rows of the embedding, which nothing else makes."""
    kept = draft.create_rows("embedding", rows.shape, chunk_rows, rows.dtype, ("row", "component"))
    draft.keep({"embedding": kept}, [Writer((kept,))(0, (rows,))])
