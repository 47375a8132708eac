"""The threads, processes or cluster on which a command runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Timer
from typing import Any, TypeAlias, TypedDict, Unpack

import click

import dask_dpmeans
from dask_dpmeans import sources
from dask_dpmeans.errors import redact

SILENT = 3.0
"""Seconds without a scheduler and a worker after which a line says that a command waits for them."""
AnyRows: TypeAlias = "str | sources.CubePath | sources.OpenedPath"
"""Path of rows, or of a cube with its names, or rows that are open already."""


class ComputeOptions(TypedDict):
    """Command line options that choose where a command runs."""

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
def open_rows(
    data: str | sources.CubePath,
    fill_missing: bool,
    sparse: bool,
    accepts: sources.Accepting,
    columns: Sequence[int] | None = None,
    count: bool = True,
    **compute: Unpack[ComputeOptions],
) -> Iterator[tuple[AnyRows, dict[str, Any]]]:
    """Yield the rows and the compute options of `as_source`.

    Without options, worker processes are used if threads would read `data` slowly.  The rows are
    then already open; rows of a cube are counted, unless `count` is false.
    """
    scheduler, file = _scheduler(compute)
    tls = _tls(compute, is_remote=bool(scheduler or file))
    workers, threads = compute["workers"], compute["threads"]
    memory_limit, timeout = compute["memory_limit"], compute["worker_timeout"]
    stored = sources.Stored(fill_missing=fill_missing, storage_options=compute["storage_options"])
    rows: AnyRows = data
    if not (scheduler or file) and workers is None and threads is None:
        threads = sources.own_threads()
        given = sources.Compute(threads=threads, memory_limit=memory_limit)
        needs = sources.Requirements(sparse=sparse, **accepts)
        chosen = sources.Columns.of({**stored, "columns": columns})
        layout, _ = sources.lay_out(sources.InputArrays(data), chosen, needs, given, count=count)
        rows = sources.OpenedPath(os.fspath(data), layout.rows)
        reason = sources.why_processes(layout)
        if reason is not None:
            keep = f"working in {threads} processes, --threads {threads} keeps to threads"
            click.echo(f"{reason}; {keep}", err=True)
            workers, threads, memory_limit = threads, 1, layout.resources.thread_memory
    with connect(scheduler, workers, threads, memory_limit, timeout, tls, file) as client:
        if client is None:
            yield rows, {"threads": threads, "memory_limit": memory_limit, **stored}
        else:
            yield rows, {"client": client, "worker_timeout": timeout, **stored}


@contextmanager
def connect(
    scheduler: str | None,
    workers: int | None,
    threads: int | None,
    memory_limit: int | None,
    timeout: float,
    tls: tuple[str, str, str] | None,
    file: str | None,
) -> Iterator[Any]:
    """Connect to a scheduler, or start workers; for threads there is no client, nor is Dask loaded.

    If no scheduler or no worker answers soon, a line says that the command waits.
    """
    if scheduler is None and workers is None and file is None:
        yield None
        return
    with ExitStack() as stack:
        where = redact(str(scheduler or file))
        said = f"waiting for a scheduler at {where} and for a worker, up to {timeout:g} s each"
        line = Timer(SILENT, click.echo, [said], {"err": True})
        line.daemon = True
        if scheduler or file:
            line.start()
        try:
            client = stack.enter_context(
                sources.connect(scheduler, workers, threads, memory_limit, timeout, tls, file)
            )
        finally:
            line.cancel()
        yield client


def _scheduler(compute: ComputeOptions) -> tuple[str | None, str | None]:
    """Return the scheduler, or the file with its address, if the work is for a running cluster."""
    scheduler, file = compute["scheduler"], compute["scheduler_file"]
    for option, value in (("--scheduler", scheduler), ("--scheduler-file", file)):
        if value == "":
            raise click.UsageError(f"{option} is empty: give a scheduler, or leave {option} out")
    own = compute["workers"] or compute["threads"] or compute["memory_limit"]
    if own and (scheduler or file):
        raise click.UsageError(
            "--scheduler names a running cluster: --workers, --threads and --memory-limit cannot change it"
        )
    if scheduler and file:
        raise click.UsageError(
            "--scheduler and --scheduler-file both name a scheduler: give one of them"
        )
    if not (own or scheduler or file):
        scheduler = sources.scheduler_address()
    return scheduler, file


def _tls(compute: ComputeOptions, *, is_remote: bool) -> tuple[str, str, str] | None:
    """Return the files for TLS, which are given all together or not at all."""
    files = compute["tls_ca_file"], compute["tls_cert"], compute["tls_key"]
    ca_file, cert, key = files
    if not any(files):
        return None
    if not (ca_file and cert and key and is_remote):
        raise click.UsageError(
            "--tls-ca-file, --tls-cert and --tls-key go together, with a --scheduler"
        )
    return ca_file, cert, key


@contextmanager
def open_inputs(
    data: str | sources.CubePath,
    weights: str | None,
    columns: Sequence[Any] | None,
    scale: str,
    metric: str,
    divergence: str | dict[str, str],
    missing: str,
    fill_missing: bool,
    **compute: Unpack[ComputeOptions],
) -> Iterator[dict[str, Any]]:
    """Yield the arguments for rows, columns and compute of the functions that choose penalties."""
    accepts = dask_dpmeans.DPMeans(divergence=divergence, missing=missing)._accepts()
    arrays, columns = sources.named_inputs(
        sources.InputArrays(data, weights), columns, compute["storage_options"]
    )
    with open_rows(arrays.data, fill_missing, False, accepts, columns, **compute) as (rows, work):
        yield {
            "X": rows,
            "sample_weight": arrays.sample_weight,
            "metric": metric,
            "divergence": divergence,
            "missing": missing,
            "columns": columns,
            "scale": None if scale == "none" else scale,
            **work,
        }
