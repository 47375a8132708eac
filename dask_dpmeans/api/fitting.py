"""Fits from stores to stores, and their dry runs."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from dask_dpmeans import sources
from dask_dpmeans.api import cost, job
from dask_dpmeans.api.cost import Estimate
from dask_dpmeans.api.job import JobMethod, Listeners
from dask_dpmeans.api.loading import load
from dask_dpmeans.engine.history import Record
from dask_dpmeans.engine.loop import Progress
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import ClustersMixin
from dask_dpmeans.estimators.dpmeans import DPMeans
from dask_dpmeans.registry import sample_clusters_of, spec_of
from dask_dpmeans.storage.location import AnyPlace, Location, check_options

AnyModel = TypeVar("AnyModel", bound=ClustersMixin)


class FitOptions(sources.Reading, total=False):
    """More options of `fit`."""

    samples: str | Sequence[str] | None
    features: str | Sequence[str] | None
    variables: str | Sequence[str] | None
    on_step: Callable[[int, Record, int], None]
    on_progress: Callable[[Progress[Any]], None]


def fit(
    data: Any,
    run: AnyPlace,
    method: AnyModel,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    resume: bool = False,
    force: bool = False,
    **options: Unpack[FitOptions],
) -> AnyModel:
    """Fit from a store to a store, and open the result.

    Parameters
    ----------
    data : path, URL or array
        A Zarr array, a Zarr group of CSR rows, a ``.npy`` or ``.npz`` file, or any X of
        `DPMeans.fit`.
    run : path or URL of the run store to write
    method : estimator
        Its parameters are used; its callbacks are not called.
    groups : like `data`, (n,), optional
        Number of each row's data set, for `HDPMeans`.
    sample_weight : like `data`, (n,), optional
        These may be names of columns of `data`, if it is a table, which are then no features.  The
        weights of a cube may be "latitude", the cosine of the latitude.
    resume : bool
        Go on with the run that is there from its last committed step.
    force : bool
        Remove the run that is there; nothing but a run of this package is ever removed.
    **options
        samples, features (names of dimensions of a cube at the path `data`, a Zarr group or NetCDF
        file that xarray opens; one of them may be left out for all other dimensions), variables
        (names of its variables), columns (sequence of int or of names), scale ("std"), client
        (distributed.Client), worker_timeout (seconds to wait for a worker if the cluster has none),
        threads, memory_limit (bytes of this
        process), storage_options (options of fsspec for URLs: endpoints, credentials), on_step
        (called after each step with its number, its `dask_dpmeans.engine.history.Record` and the
        number of rows), on_progress (called after each step with the state and all records, a
        `dask_dpmeans.engine.loop.Progress`), on_pass (called while a pass runs, up to four times a
        second, with a `dask_dpmeans.sources.Pass`)

    Returns
    -------
    The fitted estimator, as `load` returns it.
    """
    write_run(
        data,
        run,
        method,
        groups=groups,
        sample_weight=sample_weight,
        resume=resume,
        force=force,
        **options,
    )
    # The loaded model has the class of `method`.
    fitted: AnyModel = load(Location.at(run, options.get("storage_options")))
    return fitted


def write_run(
    data: Any,
    run: AnyPlace,
    method: Any,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    resume: bool = False,
    force: bool = False,
    **options: Unpack[FitOptions],
) -> None:
    """Fit and write a run without loading it; parameters as for `fit`."""
    sources.check_option_names("fit", options, FitOptions)
    spec = spec_of(method)
    data = _cube_of(data, options)
    spec.check_arguments({"groups": groups, "sample_weight": sample_weight, **options})
    places = data, run, groups, sample_weight, *method._paths()
    check_options(options.get("storage_options"), *places)
    fitted = JobMethod.of(method)
    read = data if isinstance(data, sources.CubePath) else spec.read(data)
    arrays, columns = sources.named_inputs(
        sources.InputArrays(read, sample_weight, groups),
        options.get("columns"),
        options.get("storage_options"),
    )
    listeners: dict[str, Any] = {
        name: options[name] for name in ("on_step", "on_progress") if name in options
    }
    job.fit(
        arrays,
        run,
        fitted,
        Listeners(**listeners),
        resume=resume,
        force=force,
        columns=sources.Columns.of({**options, "columns": columns}),
        compute=sources.Compute.of(options),
    )


def dry_run(
    data: Any,
    run: AnyPlace,
    method: DPMeans,
    *,
    sample_weight: Any = None,
    resume: bool = False,
    force: bool = False,
    **options: Unpack[sources.Reading],
) -> Estimate:
    """Estimate the work and the time of a pass of `fit` with the same arguments; write nothing.

    Arguments that `fit` refuses are refused, as far as the metadata and the first rows tell.  At
    most 8 blocks of the first shard are read and scanned, with the clusters that they open.  An
    existing run is noted, not refused.

    Parameters
    ----------
    data : as `fit` takes it, but no Dask array or DataFrame
    run, method, sample_weight, resume, force, **options : as `fit` takes them, without `on_step`

    Returns
    -------
    Estimate
    """
    sources.check_option_names("dry_run", options, sources.Reading)
    cluster = sample_clusters_of(method)
    if cluster is None:
        raise InputError(
            f"method: a dry run tells what DPMeans costs, not what {type(method).__name__} costs"
        )
    if method._feature_map() is not None:
        raise InputError(
            "a dry run tells what squared errors of complete rows cost: leave out divergence and "
            "missing, or fit a part of the rows"
        )
    return cost.dry_run(
        sources.InputArrays(data, sample_weight),
        run,
        JobMethod.of(method),
        cluster,
        resume=resume,
        force=force,
        columns=sources.Columns.of(options),
        compute=sources.Compute.of(options),
    )


def _cube_of(data: Any, options: Mapping[str, Any]) -> Any:
    """Return the path of a cube with the names that make rows of it; other data as they are."""
    named = {name: options.get(name) for name in ("samples", "features", "variables")}
    if all(each is None for each in named.values()):
        return data
    if not isinstance(data, str | os.PathLike):
        raise InputError(
            "samples, features and variables are for the path of a cube, and data is a "
            f"{type(data).__name__}: leave them out, or give the path of a cube; a cube of xarray in "
            "memory is clustered by DPMeans().fit(cube, samples=('lat', 'lon'))"
        )
    return sources.CubePath(os.fspath(data), **named)
