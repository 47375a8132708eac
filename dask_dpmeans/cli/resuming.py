"""Messages about how a stopped command can continue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from dask_dpmeans import errors, storage
from dask_dpmeans.cli.group import StoppedError, WrongUseError, is_forbidden, is_full, way_in


def check_resume_or_force(resume: bool, force: bool) -> None:
    """Refuse --resume together with --force."""
    if resume and force:
        raise click.UsageError(
            "--resume goes on with what is there, --force removes it: give one of them"
        )


@contextmanager
def resumable(
    run: storage.Location | None, again: str = "the same command with --resume"
) -> Iterator[None]:
    """Raise `StoppedError` with advice if the command inside is stopped.

    Loss of the cluster or of the disk counts as well.

    `again` describes the command that continues.  Without an output, errors pass unchanged.
    """
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if run is None or not _can_continue(error, run):
            raise
        why = str(error) or "stopped"
        if is_forbidden(error):
            raise WrongUseError(
                errors.redact(f"{why}: {way_in(error)}; {_advice(run, again)}")
            ) from None
        if is_full(error):
            why = f"{error.strerror}: make room"
        raise StoppedError(errors.redact(f"{why}; {_advice(run, again)}")) from None


@contextmanager
def printing(run: storage.Location | None) -> Iterator[None]:
    """Say that an output, if there is one, is finished if the disk has no room for what is printed inside."""
    try:
        yield
    except OSError as error:
        if run is None or not is_full(error):
            raise
        raise click.ClickException(
            errors.redact(f"{error.strerror}: make room; {run.url} is finished")
        ) from error


def _can_continue(error: BaseException, run: storage.Location) -> bool:
    """Return whether the same command may succeed later."""
    if not errors.of_store(error):  # `of_store` includes a full disk
        return isinstance(
            error, KeyboardInterrupt | errors.ClusterLostError | errors.NoWorkersError
        )
    store, closed = storage.RunStore.at(run), is_forbidden(error)
    try:
        return store.begun() and not (closed and store.finished())
    except OSError:  # the store still does not respond; --resume also begins a new run
        return not closed


def _advice(run: storage.Location, again: str) -> str:
    """Return what the same command does next."""
    store = storage.RunStore.at(run)
    try:
        if store.finished():
            return f"{run.url} is finished"
        if not store.begun():
            return "nothing was written: the same command begins anew"
        if store.steps.committed():
            return f"{again} goes on from the last step of {run.url}"
        if store.steps.has_checkpoints():
            return f"{again} goes on with the search that is kept in {run.url}"
    except (OSError, errors.CorruptStoreError, errors.InputError):
        return f"{again} goes on with {run.url}"
    return f"no step was committed yet: {again} begins {run.url} anew"
