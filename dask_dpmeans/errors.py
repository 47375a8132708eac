"""Errors of this package, and its warnings.  Errors never contain the credentials of a URL."""

import inspect
import re
import warnings
from socket import gethostname

USER, QUERY = re.compile(r"(?<=://)[^/\s]+@"), re.compile(r"(\b\w+://[^\s?'\"]+)\?[^\s'\"]+")
"""User and password in a URL, and its query, which may contain a signature."""


def redact(text: str) -> str:
    """Return a text without the credentials of the URLs in it.

    >>> redact("no array at https://me:secret@host/rows?token=abc 'and so on'")
    "no array at https://***@host/rows?*** 'and so on'"
    """
    return QUERY.sub(r"\1?***", USER.sub("***@", text))


STORES = ("aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google")
"""Client packages of object stores; their errors are not `OSError`."""

NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError")
"""Errors of these packages if there are no credentials; a later try has none either."""
NO_CONNECTION = (
    "ClientConnectorError",
    "ClientConnectorDNSError",
    "ConnectionRefusedError",
    "EndpointConnectionError",
)
"""Errors of these packages, or of Python, if nothing listens at an address, or no host has its name."""
CREDENTIALS = (
    "give the credentials of the store in the environment, of each worker too, as AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY for S3; public data needs the storage option anon=true"
)
"""What to do if credentials are missing."""
SHARED = "input and outputs must be on storage that every worker reaches, a shared file system or an object store"
"""What to do if a worker does not find what another process wrote."""


def of_store(error: BaseException | None) -> bool:
    """Return whether a store or a disk did not respond or refused; a later try may succeed."""
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in STORES


def lacks_connection(error: BaseException | None) -> bool:
    """Return whether nothing listens at the address of a store."""
    return of_store(error) and type(error).__name__ in NO_CONNECTION


def lacks_credentials(error: BaseException | None) -> bool:
    """Return whether the client of an object store found no credentials, so that retries fail too."""
    return of_store(error) and type(error).__name__ in NO_CREDENTIALS


def reason_of(error: BaseException) -> str:
    """Return the message of an error, or its type if it has none, and what credentials it needs."""
    reason = str(error) or type(error).__name__
    if lacks_credentials(error):
        reason += f": {CREDENTIALS}"
    return reason


class _RedactedError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(redact(message))


class InputError(_RedactedError, ValueError):
    """Data, parameters or paths that cannot be used."""


def unseen(path: object) -> InputError:
    """Return the error for a path on a disk that a worker does not find."""
    return InputError(f"{path} is not there on {gethostname()}, which reads it: {SHARED}")


class InputTypeError(InputError, TypeError):
    """Data of a type that cannot be used; scikit-learn raises `TypeError` for it."""


class TooManyClustersError(_RedactedError, RuntimeError):
    """The penalty opens more clusters than `max_clusters`.  The steps committed so far are kept."""


class CorruptStoreError(_RedactedError, RuntimeError):
    """A store does not hold the data that was written."""


class NoWorkersError(_RedactedError, RuntimeError):
    """No worker came within the time limit."""


class VersionsDifferError(_RedactedError, RuntimeError):
    """The scheduler, the workers and this process run different versions."""


class ClusterLostError(_RedactedError, RuntimeError):
    """The scheduler or all workers are gone, or a task ended every worker that ran it.

    Committed steps are kept.
    """


class LockLostError(_RedactedError, RuntimeError):
    """Another job took the output that this job was writing.

    The committed steps of this job are kept.
    """


class AbandonedError(RuntimeError):
    """The caller that waited for this thread was stopped, so nobody needs the result."""


NOT_CONVERGED = "the fit stopped at max_iter={} before it converged: raise max_iter, or tol"

INNER = ("dask_dpmeans", "sklearn", "joblib", "dask", "contextlib")
"""Packages whose lines a warning does not name: the user calls this package through them."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the line of the user that called this package, directly or through `INNER`."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in INNER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
