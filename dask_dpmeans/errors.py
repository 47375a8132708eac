"""What can go wrong that is not a mistake of ours.  No message tells the credentials in a URL."""

import re

USER, QUERY = re.compile(r"(?<=://)[^/\s]+@"), re.compile(r"(\b\w+://[^\s?'\"]+)\?[^\s'\"]+")
"""Who a URL asks as, with what password; and what it may be signed with."""


def redacted(text: str) -> str:
    """A text without the credentials of the URLs in it.

    >>> redacted("no array at https://me:secret@host/rows?token=abc 'and so on'")
    "no array at https://***@host/rows?*** 'and so on'"
    """
    return QUERY.sub(r"\1?***", USER.sub("***@", text))


STORES = ("aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google")
"""Packages that ask object stores; their errors are no `OSError`."""


def of_store(error: BaseException) -> bool:
    """Whether a store or a disk failed to answer, or refused to, so that a later try may succeed."""
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in STORES


class _RedactedError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(redacted(message))


class InputError(_RedactedError, ValueError):
    """Data, parameters or paths that cannot be used."""


class InputTypeError(InputError, TypeError):
    """Data of a type that cannot be used; scikit-learn raises a `TypeError` there."""


class TooManyClustersError(_RedactedError, RuntimeError):
    """The penalty opens more clusters than `max_clusters`.  The steps committed so far stand."""


class CorruptStoreError(_RedactedError, RuntimeError):
    """What a store holds is not what was written."""


class NoWorkersError(_RedactedError, RuntimeError):
    """No worker came within the time limit."""


class VersionsDifferError(_RedactedError, RuntimeError):
    """Scheduler, workers and this process do not run the same versions."""


class ClusterLostError(_RedactedError, RuntimeError):
    """The scheduler or all workers are gone, or a task ended each worker that took it.  Committed steps stand."""


class LockLostError(_RedactedError, RuntimeError):
    """Another job has taken the output that this one was writing.  Its committed steps stand."""


class AbandonedError(RuntimeError):
    """Nobody waits for what a thread works on: who did was stopped."""


NOT_CONVERGED = "the fit stopped at max_iter={} before it converged: raise max_iter, or tol"
