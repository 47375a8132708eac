"""Clusters: which one to work on, what it has, and how to start one."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

import dask
from distributed import Client, LocalCluster, Security, WorkerPlugin, default_client
from distributed.comm.addressing import get_address_host_port, parse_address
from distributed.comm.core import connect as open_comm
from distributed.system import MEMORY_LIMIT

from dask_dpmeans.errors import ClusterLostError, InputError, NoWorkersError, VersionsDifferError

WORKER_TIMEOUT = 60.0
"""Seconds to wait for a worker where there is none."""
PACKAGES = ("dask-dpmeans", "dask", "distributed", "numpy", "zarr")
"""What scheduler, workers and this process must have in the same version, beside Python."""


@dataclass(frozen=True)
class Resources:
    """What there is to work with."""

    threads: int
    """Of all workers."""
    memory: int
    """Bytes, of all workers."""
    worker_memory: int
    """Bytes, of the smallest worker."""
    thread_memory: int
    """Bytes, the smallest share of a thread."""


class DeafToCtrlC(WorkerPlugin):
    """Leaves Ctrl-C, which a terminal sends to all processes of a command, to the one that started the workers.

    Else each of them would end with a traceback of its own.
    """

    def setup(self, worker: Any) -> None:
        """In the worker's process, where its event loop has the main thread."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def current_client() -> Client | None:
    """The client that the user has opened, if any."""
    try:
        return default_client()
    except ValueError:
        return None


def own_resources(threads: int | None, memory_limit: int | None) -> Resources:
    """What this process may use."""
    count = own_threads() if threads is None else threads
    memory = MEMORY_LIMIT if memory_limit is None else memory_limit
    return Resources(count, memory, memory, memory // count)


def cluster_resources(client: Client, timeout: float = WORKER_TIMEOUT) -> Resources:
    """What the workers have, once there is one."""
    wait_for_worker(client, timeout)
    check_versions(client)
    while not (workers := workers_of(client)):  # the last one may have left since
        wait_for_worker(client, timeout)
    sizes = [(worker["nthreads"], worker["memory_limit"] or MEMORY_LIMIT) for worker in workers.values()]
    return Resources(
        threads=sum(threads for threads, _ in sizes),
        memory=sum(memory for _, memory in sizes),
        worker_memory=min(memory for _, memory in sizes),
        thread_memory=min(memory // threads for threads, memory in sizes),
    )


def workers_of(client: Client) -> dict[str, Any]:
    """What the scheduler tells of its workers, by address; nothing where it does not answer.

    The scheduler itself is asked: `Client.scheduler_info` returns what the client keeps, and its own refreshing in the
    background, which asks for no workers, may come between its question and its answer.
    """
    found: dict[str, Any] = {}
    if client.scheduler is not None:
        with suppress(OSError):
            found = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return found


def wait_for_worker(client: Client, timeout: float = WORKER_TIMEOUT) -> None:
    """Wait until there is a worker.

    Raises
    ------
    NoWorkersError
        After `timeout` seconds without any.
    """
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError as error:
        address = client.scheduler.address if client.scheduler else "?"
        raise NoWorkersError(
            f"the scheduler at {address} has had no worker for {timeout:g} s: start some with `dask worker {address}`"
        ) from error


def check_versions(client: Client) -> None:
    """Refuse a cluster whose scheduler or workers do not run what runs here.

    Raises
    ------
    VersionsDifferError
        Where one has another version, or lacks a package.
    """
    found: Any = client.get_versions(packages=PACKAGES)
    here, others = _versions(found["client"]), {"the scheduler": found["scheduler"]}
    others |= {f"worker {address}": info for address, info in found["workers"].items()}
    differing = [f"{name} has {other}" for name, info in others.items() if (other := _difference(here, info))]
    if differing:
        more = f", and {len(differing) - 3:,} more differ" if len(differing) > 3 else ""
        raise VersionsDifferError(
            f"the cluster does not run what this process runs: {'; '.join(differing[:3])}{more}. Start scheduler, "
            "workers and job from one environment, or one image"
        )


def _versions(info: dict[str, Any]) -> dict[str, str | None]:
    """The packages that must be the same, as Dask tells of them; of Python the minor version."""
    packages = info["packages"]
    return {"python": ".".join(packages["python"].split(".")[:2]), **{name: packages[name] for name in PACKAGES}}


def _difference(here: dict[str, str | None], info: dict[str, Any]) -> str:
    """What another has in another version than this process."""
    there = _versions(info)
    pairs = [(name, there[name], here[name]) for name in here if there[name] != here[name]]
    return ", ".join(f"{name} {other}, not {ours}" if other else f"no {name}" for name, other, ours in pairs)


def scheduler_address() -> str | None:
    """The scheduler that Dask's configuration names, as the environment variable DASK_SCHEDULER_ADDRESS does."""
    address: str | None = dask.config.get("scheduler-address", None)
    return address


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
    """A client of a scheduler, or of worker processes on this machine, or None for plain threads.

    The scheduler is at an address, or in a file that it wrote, or will write soon.  `tls` names files in PEM format: of
    the authority, the certificate and its key; None for what Dask's own configuration says.
    """
    if scheduler is not None or scheduler_file is not None:
        with _client(scheduler, scheduler_file, timeout, _security(tls)) as client, while_it_answers(client):
            wait_for_worker(client, timeout)
            yield client
    elif workers is not None:
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=threads or max(1, own_threads() // workers),
            memory_limit="auto" if memory_limit is None else memory_limit,
            dashboard_address=None,
            # None alone still takes port 8787, and warns where another cluster has it.
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        )
        try:
            with Client(cluster, set_as_default=False) as client:
                client.register_plugin(DeafToCtrlC())
                yield client
        finally:
            with suppress(KeyError):  # Dask's, of a worker that was killed
                cluster.close()
    else:
        yield None


def _client(scheduler: str | None, scheduler_file: str | None, timeout: float, security: Security | None) -> Client:
    """A client of a scheduler.

    Raises
    ------
    InputError
        No client can use the address, or the certificates.
    NoWorkersError
        No scheduler answers in time: it may come yet.
    """
    address = str(scheduler if scheduler_file is None else _address_in(scheduler_file, timeout))
    named = f"{scheduler or scheduler_file} within {timeout:g} s"
    try:
        arguments = _check_address(address, security)
        asyncio.run(_look(address, timeout, arguments))
        return Client(address, timeout=timeout, set_as_default=False, security=security)
    except TimeoutError as error:  # of what takes the connection, and says nothing
        raise NoWorkersError(f"no scheduler answers at {named}") from error
    except OSError as error:
        raise NoWorkersError(f"no scheduler answers at {named}: {error}") from error
    except (ValueError, RuntimeError, TypeError) as error:  # the last two: of TLS
        raise InputError(f"no scheduler can be reached at {scheduler or scheduler_file}: {error}") from error


async def _look(address: str, timeout: float, arguments: dict[str, Any]) -> None:
    """See that a scheduler is at an address: a client waits without end for what takes a connection and is none.

    Raises
    ------
    OSError
        Nothing answers in time, or what answers is no scheduler: a port may be wrong.
    """
    try:
        async with asyncio.timeout(2 * timeout):  # as `open_comm` takes up to `timeout` to connect
            comm = await open_comm(address, timeout=timeout, **arguments)
            await comm.write({"op": "identity", "reply": True})
            said = await comm.read()
            comm.abort()
    except (OSError, RuntimeError, TypeError):
        raise
    except Exception as error:  # whatever comes of bytes that are no message of Dask
        raise OSError(f"what answers there is not Dask: {error}") from error
    if not (isinstance(said, dict) and "workers" in said):
        raise OSError("what answers there is no scheduler")


@contextmanager
def while_it_answers(client: Client) -> Iterator[None]:
    """Turn whatever Dask raises once a client has lost its scheduler into one error that says so.

    Raises
    ------
    ClusterLostError
        In place of such errors.
    """
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
    """What a connection to an address takes; refused is what no client can use: one that fails as it is made ends the
    process with a traceback of its own.
    """
    get_address_host_port(address)
    arguments: dict[str, Any] = (security or Security()).get_connection_args("client")
    if parse_address(address)[0] == "tls" and arguments["ssl_context"] is None:
        raise ValueError("tls:// needs certificates, and none are given: --tls-ca-file, --tls-cert, --tls-key")
    return arguments


def _address_in(path: str, timeout: float) -> str:
    """The address in the file of a scheduler, once that is there and whole.

    Raises
    ------
    InputError
        It is there in time, and holds none.
    NoWorkersError
        It is not there in time.
    """
    end = monotonic() + timeout
    while True:
        try:
            with open(path, encoding="utf-8") as file:
                return str(json.load(file)["address"])
        except OSError as problem:
            error: Exception = NoWorkersError(
                f"no scheduler answers at {path} within {timeout:g} s: {problem.strerror}"
            )
        except (LookupError, TypeError, ValueError):  # it may be half written
            error = InputError(f"no scheduler can be reached at {path}: the file holds no address of a scheduler")
        if monotonic() > end:
            raise error
        sleep(min(0.1, timeout))


def _security(tls: tuple[str, str, str] | None) -> Security | None:
    """What a client shows, and asks for; None for what Dask's own configuration says."""
    if tls is None:
        return None
    for path in tls:
        if not os.path.isfile(path):
            raise InputError(f"there is no file {path}")
    authority, certificate, key = tls
    return Security(tls_ca_file=authority, tls_client_cert=certificate, tls_client_key=key, require_encryption=True)


def own_threads() -> int:
    """Threads that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
