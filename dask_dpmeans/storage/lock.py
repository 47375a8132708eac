"""Locks on outputs: one job at a time, and a killed job does not keep its lock for long.

On local file systems the kernel holds the lock and releases it with the process.  File systems and
object stores without such locks have heartbeats: the holder writes a new number every few seconds.
Another job watches the number for a while, and takes the lock if it does not change.  No clocks are
compared.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from dask_dpmeans.errors import InputError, LockLostError
from dask_dpmeans.storage.location import AnyPlace, Location

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

NAME = "lock"
"""The file of a lock."""
BEAT = 2.0
"""Seconds between two heartbeats."""
LEASE = 20.0
"""Seconds without a heartbeat after which the lock of another machine is taken."""


@contextmanager
def only_job(place: AnyPlace) -> Iterator["Lock"]:
    """Hold the lock of the output at a place, or raise `InputError` if another job holds it."""
    output = Location.at(place)
    made = not output.remote and not os.path.isdir(output.url)
    if made:
        os.makedirs(output.url, exist_ok=True)
    lock = Lock(output / NAME)
    try:
        lock.take()
        try:
            yield lock
        finally:
            lock.release()
    finally:
        if made:  # and nothing was written
            output.remove_empty()


@dataclass(frozen=True)
class Holder:
    """The holder of a lock, as a value for tasks on other machines."""

    location: Location
    owner: str

    def check(self) -> None:
        """Raise `LockLostError` if another job has the lock now, or if it was removed."""
        there = read_sign(self.location)
        if there is None:
            output = self.location.shown.removesuffix(f"/{NAME}")
            raise LockLostError(
                f"{output}, or the file {NAME!r} in it, was removed while this job was writing there: start "
                "the job again"
            )
        if there.get("owner") != self.owner:
            raise LockLostError(
                f"another job has taken {self.location.shown}: {_named(there)}; this one stood still for too long"
            )


@dataclass
class Lock:
    """A lock that this job takes, keeps by heartbeats and releases."""

    location: Location
    owner: str = field(default_factory=lambda: uuid4().hex)
    """Identity of this job in its heartbeats."""
    beats: int = 0
    descriptor: int | None = None
    """Descriptor of the file if the kernel holds the lock."""
    ended: Event = field(default_factory=Event)
    beating: Thread | None = None

    def take(self) -> None:
        """Take the lock, or raise `InputError`."""
        there = read_sign(self.location)
        held = not self.location.remote and self._take_of_kernel()
        try:
            if held:
                there = read_sign(self.location)
            if there is not None and not (held and not there) and not self._is_dead(there, held):
                self._watch(there)
            if there is None and not held:
                self._create()
            else:
                self._beat()
            if not held:
                # Another job may have begun at the same moment; the last to write has the lock.
                sleep(BEAT / 4)
            self.check()
        except BaseException:
            self.release()
            raise
        self.beating = Thread(target=self._keep_beating, name="dpmeans-lock", daemon=True)
        self.beating.start()

    def check(self) -> None:
        """Raise `LockLostError` if another job took the lock while this one stood still."""
        self.holder.check()

    @property
    def holder(self) -> Holder:
        """This job as the holder."""
        return Holder(self.location, self.owner)

    def release(self) -> None:
        """Release the lock, if this job still holds it."""
        self.ended.set()
        if self.beating is not None:
            self.beating.join()
        with suppress(Exception):  # the outcome of the job counts
            nobody = self.owner if self.descriptor is not None else None
            if (read_sign(self.location) or {}).get("owner", nobody) == self.owner:
                fs, where = self.location.files()
                fs.rm_file(where)
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def _take_of_kernel(self) -> bool:
        """Take the kernel's lock; return False if the file system has none."""
        path = self.location.url
        while True:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            except FileNotFoundError:  # the folder was removed in between
                continue
            try:
                if fcntl is None:
                    raise OSError
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                self._refuse(read_sign(self.location) or {})
            except OSError:
                if not os.fstat(descriptor).st_size:  # it was made just now
                    os.unlink(path)
                os.close(descriptor)
                return False
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    self.descriptor = descriptor
                    return True
            os.close(descriptor)  # it was removed in between

    def _is_dead(self, holder: dict[str, Any], held: bool) -> bool:
        """Return whether the holder was a process of this machine that has ended."""
        if holder.get("host") != socket.gethostname() or os.name == "nt":
            return False
        try:
            os.kill(int(holder["process"]), 0)
        except (ProcessLookupError, KeyError, ValueError, TypeError, OverflowError):
            return True
        except PermissionError:
            pass
        return held

    def _watch(self, there: dict[str, Any]) -> None:
        """Wait until the holder shows no heartbeat for `LEASE` seconds; refuse if it shows one."""
        end = monotonic() + LEASE
        while monotonic() < end:
            sleep(BEAT / 4)
            now = read_sign(self.location)
            if now is None:
                return
            if now != there:
                self._refuse(now)

    def _refuse(self, holder: dict[str, Any]) -> None:
        output = self.location.url.removesuffix(f"/{NAME}")
        raise InputError(
            f"{output} is being written by another job, {_named(holder)}: wait until it ends, or give another output"
        )

    def _keep_beating(self) -> None:
        while not self.ended.wait(BEAT):
            with suppress(Exception):  # the next heartbeat may succeed
                if (read_sign(self.location) or {}).get("owner") != self.owner:
                    return
                self._beat()

    def _create(self) -> None:
        """Write the first heartbeat of a new lock; of two jobs that try, one succeeds."""
        try:
            self.location.create(self._sign())
        except FileExistsError:
            there = read_sign(self.location) or {}
            if there.get("owner") != self.owner:  # or else it was written, but the answer was lost
                self._refuse(there)

    def _beat(self) -> None:
        text = self._sign()
        if self.descriptor is not None:
            os.pwrite(self.descriptor, text.ljust(1024), 0)
        else:
            self.location.write(text)

    def _sign(self) -> bytes:
        """Return the next heartbeat."""
        self.beats += 1
        host, process = socket.gethostname(), os.getpid()
        sign = {"owner": self.owner, "host": host, "process": process, "beats": self.beats}
        return json.dumps(sign).encode()


def read_sign(location: Location) -> dict[str, Any] | None:
    """Return the last heartbeat of the holder: {} if written in part, None without a lock."""
    try:
        sign = json.loads(location.read())
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    if isinstance(sign, dict):
        return sign
    return {}


def _named(holder: dict[str, Any]) -> str:
    return f"process {holder.get('process', '?')} on {holder.get('host', '?')}"
