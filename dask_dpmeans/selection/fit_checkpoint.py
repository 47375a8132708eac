"""The store in which finished trial fits are saved while others run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dask_dpmeans.api.resuming import check_resumable
from dask_dpmeans.errors import InputError
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.lock import Lock
from dask_dpmeans.storage.manifest import Manifest
from dask_dpmeans.storage.output import Output, remove, with_article

FIGURES = ("penalty", "n_clusters", "inertia", "objective")
ENDS = ("interval_clusters", "interval_low", "interval_high")
PATH_ARRAYS = (*FIGURES, "stability", "cluster_centers", *ENDS)
"""Arrays of a stored path over penalties, over intervals, and all of them."""


@dataclass(frozen=True)
class FitCheckpoint:
    """A store for finished fits, and its lock, which this job has acquired."""

    store: Output
    lock: Lock
    resume: bool
    """Whether to continue with the fits in the store."""

    def begin(self, request: Manifest) -> None:
        """Continue with the stored fits if `resume` is set and the manifests match.

        Otherwise start an empty store.
        """
        if self.resume and self.store.begun() and self.store.steps.has_checkpoints():
            check_resumable(self.store, request)
            return
        self.lock.check()
        self.remove_fits()
        self.store.begin(request.as_json())

    def remove_fits(self) -> None:
        """Remove the fits, and a path that is there."""
        remove(self.store, PATH_ARRAYS)


@contextmanager
def locked_checkpoint(
    place: AnyPlace | None,
    kind: str,
    inputs: Sequence[object],
    *,
    resume: bool,
    force: bool | None = None,
) -> Iterator[FitCheckpoint | None]:
    """Hold the lock of a checkpoint, or yield None without one.

    With `force` any output of this kind is replaced, by default an unfinished one, with False none.
    """
    if place is None:
        yield None
        return
    store = Output.at(place, name="checkpoint")
    with store.locked(kind, inputs, force=force is not False, resume=resume) as lock:
        if store.finished() and not force:
            raise InputError(
                f"{store.path} holds {with_article(kind)}: force=True removes it first, read_path reads it"
            )
        yield FitCheckpoint(store, lock, resume)
