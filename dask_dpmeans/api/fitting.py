"""scikit-learn's face of DP-means, and the way from stores to stores: thin, no logic of its own."""

from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from dask_dpmeans.api import cost, job
from dask_dpmeans.api.cost import Estimate
from dask_dpmeans.api.description import described_estimator
from dask_dpmeans.api.loading import load
from dask_dpmeans.engine.history import Record
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import ClustersMixin, seed_of
from dask_dpmeans.estimators.dpmeans import DPMeans, center_names
from dask_dpmeans.registry import spec_of
from dask_dpmeans.sources import Columns, Compute, Reading, check_option_names
from dask_dpmeans.storage.location import AnyPlace, Location, check_options

AnyModel = TypeVar("AnyModel", bound=ClustersMixin)


class FitOptions(Reading, total=False):
    """What else `fit` may be told."""

    on_step: Callable[[int, Record, int], None]


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
    data : path or URL of a Zarr array, of a Zarr group of CSR rows, or of a ``.npy`` or ``.npz`` file
        Or anything that `DPMeans.fit` takes.
    run : path of the run store to write
    method : an estimator, its parameters; callbacks that it was given are not called
    groups : like `data`, one-dimensional: the number of each row's data set, for `HDPMeans`
    sample_weight : like `data`, one-dimensional, optional
    resume : go on with the run that is there from its last committed step
    force : remove the run that is there; nothing but a run of ours is ever removed
    **options : columns (sequence of int), scale ("std"), client (distributed.Client), worker_timeout (seconds
        to wait where the cluster has no worker), threads, memory_limit (bytes of this process), storage_options (what
        fsspec takes for URLs: endpoints, credentials), on_step (called each step with its number, its
        `dask_dpmeans.engine.history.Record` and the number of rows), on_pass (called while a pass runs, up to four
        times a second, with a `dask_dpmeans.sources.Pass`)

    Returns
    -------
    A fitted estimator, as `load` gives it.
    """
    check_option_names("fit", options, FitOptions)
    spec = spec_of(method)
    spec.check_arguments({"groups": groups, "sample_weight": sample_weight, **options})
    check_options(options.get("storage_options"), data, run, groups, sample_weight, getattr(method, "init", None))
    algorithm = method.method()
    job.fit(
        spec.read(data),
        run,
        algorithm,
        estimator=described_estimator(method, spec.parameters(method, algorithm)),
        seed=None if method.random_state is None else seed_of(method.random_state),
        groups=groups,
        sample_weight=sample_weight,
        recipe=method._recipe(),
        center_names=center_names(method.init) if isinstance(method, DPMeans) else None,
        resume=resume,
        force=force,
        columns=Columns.of(options),
        compute=Compute.of(options),
        on_step=options.get("on_step", lambda number, record, n_rows: None),
    )
    fitted: AnyModel = load(Location.at(run, options.get("storage_options")))  # of the class of `method`
    return fitted


def dry_run(
    data: Any,
    run: AnyPlace,
    method: DPMeans,
    *,
    sample_weight: Any = None,
    resume: bool = False,
    force: bool = False,
    **options: Unpack[Reading],
) -> Estimate:
    """What `fit` would work on with the same arguments, and what a pass would cost; nothing is written.

    It refuses what `fit` refuses, as far as the metadata and the first rows tell: at most 8 blocks of the first shard
    are read and scanned, with the clusters that they open.  An existing run is not refused, but noted.

    Parameters
    ----------
    data : as `fit` takes it, but no Dask array or DataFrame
    run, method, sample_weight, resume, force, **options : as `fit` takes them, `on_step` excepted

    Returns
    -------
    Estimate
    """
    check_option_names("dry_run", options, Reading)
    if not isinstance(method, DPMeans):
        raise InputError(f"method: a dry run tells what DPMeans costs, it cannot tell that of {type(method).__name__}")
    return cost.dry_run(
        data,
        run,
        method.method(),
        seed=None if method.random_state is None else seed_of(method.random_state),
        sample_weight=sample_weight,
        center_names=center_names(method.init),
        resume=resume,
        force=force,
        columns=Columns.of(options),
        compute=Compute.of(options),
    )
