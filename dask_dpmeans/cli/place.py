"""Where a command works, and how it is stopped."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypedDict, Unpack

import click

from dask_dpmeans.cli.group import StoppedError
from dask_dpmeans.errors import ClusterLostError, CorruptStoreError, InputError, NoWorkersError, of_store, redacted
from dask_dpmeans.sources import (
    Columns,
    Compute,
    InputArrays,
    OpenedPath,
    Requirements,
    connect,
    lay_out,
    own_threads,
    scheduler_address,
    why_processes,
)
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.run_store import RunStore


class PlaceOptions(TypedDict):
    """Command line options that choose where to work."""

    scheduler: str | None
    scheduler_file: str | None
    workers: int | None
    threads: int | None
    memory_limit: int | None
    worker_timeout: float
    tls_ca_file: str | None
    tls_cert: str | None
    tls_key: str | None
    storage_options: dict[str, Any]


@contextmanager
def placed(
    data: str,
    fill_missing: bool,
    sparse: bool,
    scheduler: str | None,
    scheduler_file: str | None,
    workers: int | None,
    threads: int | None,
    memory_limit: int | None,
    worker_timeout: float,
    tls_ca_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    storage_options: dict[str, Any],
) -> Iterator[tuple[str | OpenedPath, dict[str, Any]]]:
    """The rows, and where to work, as `as_source` takes them.

    By default that is on worker processes if threads read `data` poorly; the rows are open then.
    """
    ours, cluster = workers or threads or memory_limit, scheduler or scheduler_file
    if cluster and ours:
        raise click.UsageError(
            "--scheduler names a cluster that is there: --workers, --threads and --memory-limit cannot change it"
        )
    if scheduler and scheduler_file:
        raise click.UsageError("--scheduler and --scheduler-file both name a scheduler: give one of them")
    if not (cluster or ours):
        cluster = scheduler = scheduler_address()
    tls = (tls_ca_file, tls_cert, tls_key) if tls_ca_file and tls_cert and tls_key else None
    if (tls_ca_file or tls_cert or tls_key) and not (tls and cluster):
        raise click.UsageError("--tls-ca-file, --tls-cert and --tls-key go together, with a --scheduler")
    stored: dict[str, Any] = {"fill_missing": fill_missing, "storage_options": storage_options}
    rows: str | OpenedPath = data
    if not cluster and workers is None and threads is None:
        threads = own_threads()
        own = Compute(threads=threads, memory_limit=memory_limit)
        layout, _ = lay_out(InputArrays(data), Columns(**stored), Requirements(sparse=sparse), own)
        rows = OpenedPath(data, layout.rows)
        why = why_processes(layout)
        if why is not None:
            click.echo(f"{why}; working in {threads} processes, --threads {threads} keeps to threads", err=True)
            workers, threads, memory_limit = threads, 1, layout.resources.thread_memory
    with connect(scheduler, workers, threads, memory_limit, worker_timeout, tls, scheduler_file) as client:
        if client is None:
            yield rows, {"threads": threads, "memory_limit": memory_limit, **stored}
        else:
            yield rows, {"client": client, "worker_timeout": worker_timeout, **stored}


@contextmanager
def reading(
    data: str,
    weights: str | None,
    columns: list[int] | None,
    scale: str,
    metric: str,
    fill_missing: bool,
    **where: Unpack[PlaceOptions],
) -> Iterator[dict[str, Any]]:
    """Rows, and where to work on them, as what chooses penalties takes them."""
    with placed(data, fill_missing, False, **where) as (rows, place):
        yield {
            "X": rows,
            "sample_weight": weights,
            "metric": metric,
            "columns": columns,
            "scale": None if scale == "none" else scale,
            **place,
        }


@contextmanager
def resumable(run: Location | None, again: str = "the same command with --resume") -> Iterator[None]:
    """Say how what was stopped, or lost its cluster or its disk, goes on, where it has an output."""
    if run is None:
        yield
        return
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if not _can_go_on(error, run):
            raise
        raise StoppedError(redacted(f"{str(error) or 'stopped'}; {_way_on(run, again)}")) from None


def _can_go_on(error: BaseException, run: Location) -> bool:
    """Whether the same command may go on with a run once what stopped it is mended."""
    if not of_store(error):  # such as a full disk
        return isinstance(error, KeyboardInterrupt | ClusterLostError | NoWorkersError)
    try:
        return RunStore.at(run).begun()
    except OSError:  # the store still does not answer; what was not begun --resume begins
        return True


def _way_on(run: Location, again: str) -> str:
    """What the same command does with what is there; `again` is how it is given."""
    store = RunStore.at(run)
    try:
        if store.finished():
            return f"{run.url} is whole"
        if not store.begun():
            return "nothing was written: the same command begins anew"
        if store.committed():
            return f"{again} goes on from the last step of {run.url}"
        if store.keeps_searches():
            return f"{again} goes on with the search that is kept in {run.url}"
    except (OSError, CorruptStoreError, InputError):
        return f"{again} goes on with {run.url}"
    return f"no step was committed yet: {again} begins {run.url} anew"
