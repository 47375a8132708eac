"""Options, each defined once."""

import json
import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from dask_dpmeans.kernels.divergence import METRICS
from dask_dpmeans.sources import parse_bytes
from dask_dpmeans.storage.location import check_options

MOST_COLUMNS = 10**6
"""Column numbers that --columns takes, so that a slip of the hand does not fill the memory."""


def _columns(_: click.Context, __: click.Parameter, text: str | None) -> list[int] | None:
    """Column numbers of a text such as 0,2-5."""
    if text is None:
        return None
    columns: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) < MOST_COLUMNS):
            raise click.BadParameter(
                f"{text!r} is not a list of columns below {MOST_COLUMNS:,} such as 0,2-5; names go with the path of a "
                "Parquet table, as table.parquet#age,income"
            )
        columns.extend(range(int(first), int(last) + 1))
    return columns


def penalties_of(_: click.Context, __: click.Parameter, text: str | None) -> list[float] | None:
    """Penalties of a text such as 1,2,4."""
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of penalties such as 1,2,4") from error


def _bytes(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """Bytes of a text such as 4GB."""
    try:
        size = None if text is None else int(parse_bytes(text))
    except (OverflowError, ValueError) as error:
        raise click.BadParameter(f"{text!r} is not a size such as 4GB") from error
    if size is not None and size < 1:
        raise click.BadParameter(f"{text!r} is no memory at all")
    return size


def _storage_options(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """Options of texts such as anon=true."""
    options = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise click.BadParameter(f"{text!r} is no option such as anon=true")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options


def _seconds(_: click.Context, __: click.Parameter, number: float) -> float:
    """Seconds, of which there must be some and an end."""
    if not 0 < number < math.inf:
        raise click.BadParameter(f"{number} is not a finite number of seconds > 0")
    return number


DATA = (
    "DATA is the path or URL of a Zarr array (store.zarr/group/array) or of a Parquet table, with the columns to use "
    "(table.parquet#age,income), or a .npy file; or, sparse, of a Zarr group in the layout of anndata (data, indices, "
    "indptr), or a .npz file of scipy."
)
"""Below the help of each command that reads rows."""
STORAGE = click.option(
    "--storage-option",
    "storage_options",
    multiple=True,
    callback=_storage_options,
    metavar="KEY=VALUE",
    help="What fsspec takes for the URLs here, such as anon=true; the VALUE is read as JSON where it is some. Other "
    "users of this machine can see it: keep secrets in the environment.",
)


def with_storage(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with options of object stores, which are wrong use where nothing is at a URL."""

    @wraps(command)
    def checked(**given: Any) -> Any:
        check_options(given["storage_options"], *given.values())
        return command(**given)

    return STORAGE(checked)


WHERE = (
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Work on the Dask cluster of this scheduler; where nothing else is said, of the one that Dask's "
        "configuration names, as DASK_SCHEDULER_ADDRESS does.",
    ),
    click.option("--scheduler-file", metavar="FILE", help="The same, of the scheduler that wrote this file."),
    click.option(
        "--workers",
        type=click.IntRange(1),
        help="Work in this many processes of this machine. By default threads, "
        "and processes where a short trial finds that threads wait for one another as they read DATA.",
    ),
    click.option("--threads", type=click.IntRange(1), help="Threads of this process, or of each of the --workers."),
    click.option(
        "--memory-limit", callback=_bytes, help="Memory of each of the --workers, or in all without that option: 4GB."
    ),
    click.option(
        "--worker-timeout",
        default=60.0,
        callback=_seconds,
        show_default=True,
        help="Seconds to wait for the scheduler, and for a worker each time that there is none.",
    ),
    click.option("--tls-ca-file", metavar="FILE", help="Authority that certifies the --scheduler, in PEM format."),
    click.option("--tls-cert", metavar="FILE", help="Certificate that the --scheduler is shown."),
    click.option("--tls-key", metavar="FILE", help="Private key of that certificate."),
    with_storage,
)
FILL = click.option(
    "--fill-missing", is_flag=True, help="Read chunks that are not in the store as its fill value, as Zarr does."
)
GROUPS = "Number of the data set of each row, integers: a one-dimensional Zarr array, .npy file or Parquet column."
FORCE = click.option("--force", is_flag=True, help="Remove what is there first, if it was written by dask-dpmeans.")
JSON = click.option("--json", "as_json", is_flag=True, help="JSON for programs, to standard output.")
SEED = click.option("--seed", type=click.IntRange(0), help="Random seed; one is drawn and stored by default.")
SEARCH = click.option("--search", is_flag=True, help="Take penalties as prices and search for the lowest objective.")
METRIC = click.option(
    "--metric",
    type=click.Choice(list(METRICS)),
    default="euclidean",
    show_default=True,
    help="cosine compares directions: rows are brought to unit length, after --scale, and squared distances are "
    "2 (1 - cosine).",
)
SCALES = click.Choice(["none", "std"])
FULL = click.option("--full", is_flag=True, help="Fit all rows, not only a summary where there are many.")
READING = (
    click.option(
        "--weights",
        metavar="ARRAY",
        help="Weights of the rows: a one-dimensional Zarr array, .npy file or Parquet column.",
    ),
    click.option("--columns", callback=_columns, help="Columns to use, such as 0,2-5."),
    click.option(
        "--scale", type=SCALES, default="none", show_default=True, help="Divide each column by its standard deviation."
    ),
    SEED,
    FILL,
    *WHERE,
)
"""Of every command that reads rows to cluster them."""
ENDS = (
    click.option("--max-iter", default=300, show_default=True, help="The most sweeps or steps."),
    click.option("--tol", default=1e-4, show_default=True, help="Converged when J falls by less than this share."),
    click.option("--max-clusters", type=int, help="Stop with an error where there are more."),
    click.option("--resume", is_flag=True, help="Go on with the run that is there."),
    FORCE,
    JSON,
)
"""How a fit ends, and what becomes of it."""
HOW = (*READING, *ENDS)
"""Of every command that fits."""


def with_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
