"""Clusters: the one to work on, its resources, and how to connect to it or start it."""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import resource_tracker
from threading import enumerate as enumerate_threads
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from distributed import Client, LocalCluster, Security, Status, WorkerPlugin
from distributed.comm.addressing import get_address_host_port, parse_address
from distributed.comm.core import connect as open_comm

from dask_dpmeans.errors import ClusterLostError, InputError, NoWorkersError, VersionsDifferError
from dask_dpmeans.sources.resources import (
    WORKER_BYTES,
    WORKER_TIMEOUT,
    Resources,
    memory_of_process,
    own_threads,
)

PACKAGES = ("dask-dpmeans", "dask", "distributed", "numpy", "zarr")
"""Packages whose versions must agree in the scheduler, the workers and this process."""
LEAST_WORKER_BYTES = 140 * 10**6
"""Least memory of a worker: with 120 MB, Dask paused it until the end; with this, it clustered 20,000 rows."""
OWN_CLUSTER = "dask-dpmeans"
"""Name of the cluster that a command starts for itself."""
LOOP_THREAD = "IO loop"
"""Name of the thread of a client's event loop, if Dask started it."""
LOOP_TIMEOUT = 5.0
"""Seconds to wait for the loop of a client where no thread has this name: a fork has none."""
QUIET = {
    "asyncio": "Unclosed ",
    "distributed.worker": "Failed to communicate with scheduler during heartbeat",
    "distributed.worker.state_machine": "Async instruction for ",
}
"""Beginnings of messages of workers, by the name of the logger, that tell nothing at the end."""


class QuietEnd(WorkerPlugin):
    """Worker plugin that keeps Dask quiet about a command that ends while its workers work.

    Dask warns of each task that is cancelled, and of a scheduler that the last message of a worker
    did not reach.  The client of an object store tells of connections that end with the process.
    """

    def setup(self, worker: object) -> None:
        """Let the loggers leave these messages out."""
        for name, beginning in QUIET.items():
            logging.getLogger(name).addFilter(partial(_is_other, beginning))


def _is_other(beginning: str, record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(beginning)


def cluster_resources(client: Client, timeout: float = WORKER_TIMEOUT) -> Resources:
    """Wait for a worker, and return the resources of all workers.

    Raises
    ------
    InputError
        This is the event loop of the client, which cannot answer while this function waits; or the
        client is closed.
    """
    if client.status == "closed":
        raise InputError("the Dask client is closed: give another one, as Client(address) makes")
    if client.asynchronous:
        raise InputError(
            "the Dask client is asynchronous, and this call would keep its event loop from answering: "
            "make the call in a thread, as await asyncio.to_thread(model.fit, X) does"
        )
    _check_loop(client, timeout)
    wait_for_worker(client, timeout)
    check_versions(client)
    while not (workers := workers_of(client)):  # the last one may have left since
        wait_for_worker(client, timeout)
    own = memory_of_process()
    sizes = [(each["nthreads"], each["memory_limit"] or own) for each in workers.values()]
    return Resources(
        threads=sum(threads for threads, _ in sizes),
        memory=sum(memory for _, memory in sizes),
        worker_memory=min(memory for _, memory in sizes),
        thread_memory=min(memory // threads for threads, memory in sizes),
        processes=True,
    )


def _check_loop(client: Client, timeout: float) -> None:
    """Raise `InputError` if the event loop of a client has ended, which would keep each call waiting."""
    if all(each.name != LOOP_THREAD for each in enumerate_threads()):
        timeout = min(timeout, LOOP_TIMEOUT)
    try:
        client.sync(asyncio.sleep, 0, callback_timeout=timeout)
    except TimeoutError as error:
        raise InputError(
            f"the event loop of the Dask client has not answered for {timeout:g} s: a client does not work in a "
            "forked process; start processes by multiprocessing.get_context('spawn'), and make a Client in each"
        ) from error


def workers_of(client: Client) -> dict[str, Any]:
    """Return the scheduler's entries of its workers, by address; none if it does not answer.

    `Client.scheduler_info` returns a copy that the client refreshes in the background, without its
    workers, so the scheduler itself is asked.
    """
    found: dict[str, Any] = {}
    if client.scheduler is not None:
        with suppress(OSError):
            found = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return found


def wait_for_worker(client: Client, timeout: float = WORKER_TIMEOUT) -> None:
    """Wait until there is a worker; raise `NoWorkersError` after `timeout` seconds.

    An adaptive cluster without workers starts one only if a task waits for it.
    """
    waiting = None
    try:
        if not client.nthreads():
            waiting = client.submit(bool, key=f"dpmeans-worker-{uuid4().hex}")
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError as error:
        address = client.scheduler.address if client.scheduler else "?"
        way = way_to_start(client) or f"`dask worker {address}`"
        raise NoWorkersError(
            f"the scheduler at {address} has had no worker for {timeout:g} s: start some with {way}"
        ) from error
    finally:
        if waiting is not None:
            waiting.release()


def way_to_start(client: Client) -> str | None:
    """Return what starts workers for a client; None if the user of a command cannot."""
    if client.cluster is None:
        return None if client.scheduler is None else f"`dask worker {client.scheduler.address}`"
    name = getattr(client.cluster, "name", None)
    if name == OWN_CLUSTER or not hasattr(client.cluster, "scale"):
        return None
    return f"`client.cluster.scale(2)` of this {type(client.cluster).__name__}"


def check_versions(client: Client) -> None:
    """Refuse a scheduler or workers that lack a package, or have another version than here."""
    found: Any = client.get_versions(packages=PACKAGES)
    here, others = _versions(found["client"]), {"the scheduler": found["scheduler"]}
    others |= {f"worker {address}": info for address, info in found["workers"].items()}
    differences = {name: _difference(here, info) for name, info in others.items()}
    differing = [f"{name} has {other}" for name, other in differences.items() if other]
    if differing:
        more = f", and {len(differing) - 3:,} more differ" if len(differing) > 3 else ""
        raise VersionsDifferError(
            f"the cluster does not run what this process runs: {'; '.join(differing[:3])}{more}. "
            "Start scheduler, workers and job from one environment, or one image"
        )


def _versions(info: dict[str, Any]) -> dict[str, str | None]:
    """Return the versions to compare, from Dask's report; Python by its minor version."""
    packages = info["packages"]
    python = ".".join(packages["python"].split(".")[:2])
    return {"python": python, **{name: packages[name] for name in PACKAGES}}


def _difference(here: dict[str, str | None], info: dict[str, Any]) -> str:
    """Return the packages that differ from this process, as text."""
    there = _versions(info)
    differing = [name for name in here if there[name] != here[name]]
    present = {name: f"{name} {there[name]}, not {here[name]}" for name in differing if there[name]}
    return ", ".join(present.get(name, f"no {name}") for name in differing)


@contextmanager
def connect(
    scheduler: str | None,
    workers: int | None,
    threads: int | None,
    memory_limit: str | int | None,
    timeout: float,
    tls: tuple[str, str, str] | None = None,
    scheduler_file: str | None = None,
) -> Iterator[Client | None]:
    """Connect to a scheduler, or start worker processes here; yield a client, or None for threads.

    The scheduler is at an address, or in a file that it wrote or will write soon.  `tls` names PEM
    files: the authority, the certificate and its key; None for Dask's own configuration.
    """
    if scheduler is not None or scheduler_file is not None:
        client = _client(scheduler, scheduler_file, timeout, _security(tls))
        with client, report_lost_scheduler(client):
            wait_for_worker(client, timeout)
            yield client
    elif workers is not None:
        _check_memory(memory_limit)
        cluster = _start_cluster(
            name=OWN_CLUSTER,
            n_workers=workers,
            threads_per_worker=threads or max(1, own_threads() // workers),
            memory_limit="auto" if memory_limit is None else memory_limit,
            dashboard_address=None,
            # None alone still takes port 8787, and warns where another cluster has it.
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        )
        try:
            with Client(cluster, set_as_default=False) as client:
                client.register_plugin(QuietEnd())
                yield client
        finally:
            close_cluster(cluster)
    else:
        yield None


def _check_memory(memory_limit: str | int | None) -> None:
    """Refuse memory for each worker in which none can work; Dask would restart workers again and again."""
    if isinstance(memory_limit, int) and 0 < memory_limit < LEAST_WORKER_BYTES:
        raise InputError(
            f"a memory limit of {memory_limit / 1e6:g} MB is for each worker, and none works with less than "
            f"{LEAST_WORKER_BYTES / 1e6:g} MB: give at least {WORKER_BYTES / 1e6:g} MB and what rows need, or leave "
            "the limit out"
        )


def _start_cluster(**options: Any) -> LocalCluster:
    """Return a cluster of processes that do not get Ctrl-C, from their start on.

    A terminal sends it to all processes of a command; each worker would end with a traceback.
    Ctrl-C in this process waits until the workers can be closed.
    """
    with ThreadPoolExecutor(1, initializer=_block_ctrl_c) as starter:
        starting = starter.submit(LocalCluster, **options)
        try:
            return starting.result()
        except BaseException:
            starting.add_done_callback(_close_started)
            raise


def _block_ctrl_c() -> None:
    """Block Ctrl-C in this thread, and in the threads and processes that it starts."""
    if sys.platform != "win32":
        resource_tracker.ensure_running()  # first: its start would end the block
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _close_started(starting: "Future[LocalCluster]") -> None:
    """Close a cluster that has been started, if it could be."""
    if starting.exception() is None:
        close_cluster(starting.result())


def close_cluster(cluster: LocalCluster) -> None:
    """Close a cluster, its scheduler and its workers.

    After a worker was killed as it came, Dask raises `KeyError` when all of them are closed, and
    would warn later of an unclosed cluster.
    """
    try:
        cluster.close()
    except KeyError:
        cluster.status = Status.closed


def _client(
    scheduler: str | None, scheduler_file: str | None, timeout: float, security: Security | None
) -> Client:
    """Return a client of a scheduler; `NoWorkersError` says that it may still start."""
    address = str(scheduler if scheduler_file is None else _address_in(scheduler_file, timeout))
    given = scheduler or scheduler_file
    named = f"{given} within {timeout:g} s"
    try:
        arguments = _check_address(address, security)
        asyncio.run(_look(address, timeout, arguments))
        return Client(address, timeout=timeout, set_as_default=False, security=security)
    except TimeoutError as error:  # something takes the connection and does not answer
        raise NoWorkersError(f"no scheduler answers at {named}") from error
    except OSError as error:
        raise NoWorkersError(f"no scheduler answers at {named}: {error}") from error
    except (ValueError, RuntimeError, TypeError) as error:  # the last two are raised by TLS
        raise InputError(f"no scheduler can be reached at {given}: {error}") from error


async def _look(address: str, timeout: float, arguments: dict[str, Any]) -> None:
    """Raise `OSError` unless a scheduler is at an address: a client would wait for it forever."""
    try:
        async with asyncio.timeout(2 * timeout):  # as `open_comm` takes up to `timeout` to connect
            comm = await open_comm(address, timeout=timeout, **arguments)
            await comm.write({"op": "identity", "reply": True})
            answer = await comm.read()
            comm.abort()
    except (OSError, RuntimeError, TypeError):
        raise
    except Exception as error:  # from bytes that are not a message of Dask
        raise OSError(f"what answers there is not Dask: {error}") from error
    if not (isinstance(answer, dict) and "workers" in answer):
        raise OSError("what answers there is no scheduler")


@contextmanager
def report_lost_scheduler(client: Client) -> Iterator[None]:
    """Raise `ClusterLostError` for any error of Dask after a client has lost its scheduler."""
    try:
        yield
    except (ClusterLostError, NoWorkersError, InputError):
        raise
    except Exception as error:
        if client.scheduler is not None and client.status == "running":
            raise
        why = str(error) or type(error).__name__
        raise ClusterLostError(f"the scheduler was lost: {why}") from error


def _check_address(address: str, security: Security | None) -> dict[str, Any]:
    """Return the arguments of a connection; raise for an address that no client can use.

    A client that fails as it is made would end the process with a traceback.
    """
    get_address_host_port(address)
    arguments: dict[str, Any] = (security or Security()).get_connection_args("client")
    if parse_address(address)[0] == "tls" and arguments["ssl_context"] is None:
        raise ValueError("tls:// needs certificates: give --tls-ca-file, --tls-cert and --tls-key")
    return arguments


def _address_in(path: str, timeout: float) -> str:
    """Wait for the file of a scheduler, and return the address in it."""
    end = monotonic() + timeout
    while True:
        try:
            with open(path, encoding="utf-8") as file:
                return str(json.load(file)["address"])
        except OSError as problem:
            late = f"no scheduler answers at {path} within {timeout:g} s"
            error: Exception = NoWorkersError(f"{late}: {problem.strerror}")
        except (LookupError, TypeError, ValueError):  # it may be half written
            unreachable = f"no scheduler can be reached at {path}"
            error = InputError(f"{unreachable}: the file holds no address of a scheduler")
        if monotonic() > end:
            raise error
        sleep(min(0.1, timeout))


def _security(tls: tuple[str, str, str] | None) -> Security | None:
    """Return the certificates of a client; None for Dask's own configuration."""
    if tls is None:
        return None
    for path in tls:
        if not os.path.isfile(path):
            raise InputError(f"there is no file {path}")
    authority, certificate, key = tls
    return Security(
        tls_ca_file=authority,
        tls_client_cert=certificate,
        tls_client_key=key,
        require_encryption=True,
    )
