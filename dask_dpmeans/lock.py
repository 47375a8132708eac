"""One job at a time on an output: a lock in it, which a job that was killed does not hold for long.

On this machine's file systems the kernel holds the lock and lets go of it with the process.  Elsewhere, and on file
systems and object stores that have no such locks, the holder writes a new number every few seconds: who wants the lock
watches that for a while, and takes it where nothing changes.  No clocks are compared.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from dask_dpmeans.errors import InputError, LockLostError
from dask_dpmeans.location import AnyPlace, Location

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

NAME = "lock"
"""What a lock is called."""
BEAT = 2.0
"""Seconds between two signs of life."""
LEASE = 20.0
"""Seconds without any after which a lock is taken that another machine held."""


@contextmanager
def only_job(place: AnyPlace) -> Iterator["Lock"]:
    """Hold the lock of the output at a place.

    Raises
    ------
    InputError
        Where another job holds it.
    """
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
    """Who holds the lock at a place, as tasks elsewhere are told."""

    location: Location
    owner: str

    def check(self) -> None:
        """Raise `LockLostError` where the lock is another's now, or nobody's."""
        there = read_sign(self.location) or {}
        if there.get("owner") != self.owner:
            raise LockLostError(
                f"another job has taken {self.location.url}: {_named(there)}; this one stood still for too long"
            )


@dataclass
class Lock:
    """A lock at a place, and who holds it."""

    location: Location
    owner: str = field(default_factory=lambda: uuid4().hex)
    """What tells this job's signs of life from those of others."""
    beats: int = 0
    descriptor: int | None = None
    """Of the file, where the kernel holds the lock."""
    ended: Event = field(default_factory=Event)
    beating: Thread | None = None

    def take(self) -> None:
        """Take the lock, or raise `InputError`."""
        there = self._read()
        held = False if self.location.remote else self._take_of_kernel()
        try:
            there = self._read() if held else there
            if there is not None and not (held and not there) and not self._is_dead(there, held):
                self._watch(there)
            if there is None and not held:
                self._create()
            else:
                self._beat()
            if not held:
                sleep(BEAT / 4)  # another may have begun at the same moment; the last to write has it
            self.check()
        except BaseException:
            self.release()
            raise
        self.beating = Thread(target=self._keep_beating, name="dpmeans-lock", daemon=True)
        self.beating.start()

    def check(self) -> None:
        """Raise `LockLostError` where another job has taken the lock: this one stood still for too long."""
        self.holder.check()

    @property
    def holder(self) -> Holder:
        """Who holds it."""
        return Holder(self.location, self.owner)

    def release(self) -> None:
        """Let go of the lock, if it is still held."""
        self.ended.set()
        if self.beating is not None:
            self.beating.join()
        with suppress(Exception):  # what the job has come to counts
            nobody = self.owner if self.descriptor is not None else None
            if (self._read() or {}).get("owner", nobody) == self.owner:
                fs, where = self.location.files()
                fs.rm_file(where)
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def _take_of_kernel(self) -> bool:
        """Whether the kernel's lock is held now; False where the file system has none."""
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
                self._refuse(self._read() or {})
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
        """Whether the holder was a process of this machine that is no more, as the kernel says."""
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
        """Wait until the holder has shown no sign of life for a while."""
        end = monotonic() + LEASE
        while monotonic() < end:
            sleep(BEAT / 4)
            now = self._read()
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
            with suppress(Exception):  # the next sign may come through
                if (self._read() or {}).get("owner") != self.owner:
                    return
                self._beat()

    def _create(self) -> None:
        """Show the first sign of life where there is no lock; of two who try one succeeds."""
        try:
            self.location.create(self._sign())
        except FileExistsError:
            there = self._read() or {}
            if there.get("owner") != self.owner:  # or else it was written, but the answer was lost
                self._refuse(there)

    def _beat(self) -> None:
        text = self._sign()
        if self.descriptor is not None:
            os.pwrite(self.descriptor, text.ljust(1024), 0)
        elif self.location.remote:
            fs, where = self.location.files()
            fs.pipe_file(where, text)
        else:  # whoever reads meanwhile sees the sign before or this one, never half of one
            written = Path(f"{self.location.url}.{uuid4().hex}.partial")
            written.write_bytes(text)
            written.replace(self.location.url)

    def _sign(self) -> bytes:
        """The next sign of life."""
        self.beats += 1
        word = {"owner": self.owner, "host": socket.gethostname(), "process": os.getpid(), "beats": self.beats}
        return json.dumps(word).encode()

    def _read(self) -> dict[str, Any] | None:
        return read_sign(self.location)


def read_sign(location: Location) -> dict[str, Any] | None:
    """What the holder of the lock at a place wrote last, {} where that is half written, None where there is no lock."""
    fs, where = location.files()
    fs.invalidate_cache()
    try:
        word = json.loads(fs.cat_file(where))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return word if isinstance(word, dict) else {}


def _named(holder: dict[str, Any]) -> str:
    return f"process {holder.get('process', '?')} on {holder.get('host', '?')}"
