"""The store in which finished trial fits are saved while others run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dask_dpmeans.api.job import check_resumable
from dask_dpmeans.errors import InputError
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.lock import Lock, only_job
from dask_dpmeans.storage.run_store import RunStore, with_article


@dataclass(frozen=True)
class FitCheckpoint:
    """A store for finished fits, and its lock, which this job has acquired."""

    store: RunStore
    lock: Lock
    resume: bool
    """Whether to continue with the fits in the store."""

    def begin(self, manifest: dict[str, Any]) -> None:
        """Continue with the fits in the store if `resume` is set and the manifests match, else
        start an empty store."""
        if self.resume and self.store.begun() and self.store.keeps_searches():
            check_resumable(self.store, manifest)
            return
        self.lock.check()
        self.store.remove()
        self.store.begin(manifest)


@contextmanager
def locked_checkpoint(
    place: AnyPlace | None,
    kind: str,
    inputs: Sequence[object],
    *,
    resume: bool,
    force: bool = False,
) -> Iterator[FitCheckpoint | None]:
    """Hold the lock of a checkpoint, or yield None without one.

    Raises
    ------
    InputError
        The store is finished and `force` is not set, or it holds something else.
    """
    if place is None:
        yield None
        return
    store = RunStore.at(place, name="checkpoint")
    store.check_target(kind, inputs, force=True, resume=resume)
    with only_job(store.location) as lock:
        store.check_target(kind, inputs, force=True, resume=resume)  # another job may have finished meanwhile
        if store.finished() and not force:
            raise InputError(f"{store.path} holds {with_article(kind)}: --force removes it first, read_path reads it")
        yield FitCheckpoint(store, lock, resume)
