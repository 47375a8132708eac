"""Options of the commands, each defined once."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

import click

from dask_dpmeans import sources, storage
from dask_dpmeans.cli import choices
from dask_dpmeans.cli.absent import DATA_ARGUMENT
from dask_dpmeans.cli.group import CommandWithHeadings

Decorator = Callable[[Any], Any]
Command = TypeVar("Command")

NUMBERS = re.compile(r"\s*[-\d][-\d\s]*$")
"""A column number, or a range of them, right or wrong."""
MOST_COLUMNS = 10**6
"""Column numbers must be less than this, so that a typing error does not fill the memory."""

LEAST_MEMORY = 10**6
"""Bytes of the smallest memory that is taken: less is a number without its unit."""


def _columns(_: click.Context, __: click.Parameter, text: str | None) -> list[Any] | None:
    """Return the column numbers of a text such as 0,2-5, or the names of one such as age,income."""
    if text is None:
        return None
    named: list[str] = next(csv.reader([text]), [])
    if named and all(named) and any(not NUMBERS.match(name) for name in named):
        return named
    columns: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) < MOST_COLUMNS):
            raise click.BadParameter(
                f"{text!r} is not a list of columns below {MOST_COLUMNS:,} such as 0,2-5, "
                "or of names such as age,income"
            )
        columns.extend(range(int(first), int(last) + 1))
    twice = [column for column, count in Counter(columns).items() if count > 1]
    if twice:
        raise click.BadParameter(f"{text!r} has column {twice[0]} more than once: name each once")
    return columns


def _names(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """Return the names of a text such as lat,lon; names with commas or spaces around are in quotes."""
    if text is None:
        return None
    names = next(csv.reader([text], skipinitialspace=True), ())
    return tuple(name if f'"{name}"' in text else name.strip() for name in names)


def penalties_of(_: click.Context, __: click.Parameter, text: str | None) -> list[float] | None:
    """Return the penalties of a text such as 1,2,4."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of penalties such as 1,2,4") from error


def _bytes(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """Return the bytes of a text such as 4GB."""
    if text is None:
        return None
    try:
        size = sources.parse_bytes(text)
    except (OverflowError, ValueError) as error:
        raise click.BadParameter(f"{text!r} is not a size such as 4GB") from error
    if size < 1:
        raise click.BadParameter(f"{text!r} is no memory at all: give a size such as 4GB")
    if size < LEAST_MEMORY:
        raise click.BadParameter(
            f"{text!r} means {size:,} bytes, in which nothing can run: give more, with its unit, such as 4GB"
        )
    return size


def _storage_options(
    _: click.Context, __: click.Parameter, texts: tuple[str, ...]
) -> dict[str, Any]:
    """Return the options of texts such as anon=true."""
    options = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise click.BadParameter(f"{text!r} is not an option such as anon=true")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options


def _seconds(_: click.Context, __: click.Parameter, number: float) -> float:
    """Return a finite number of seconds > 0."""
    if not 0 < number < math.inf:
        raise click.BadParameter(f"{number} is not a finite number of seconds > 0")
    return number


def with_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, in this order."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def flag(*names: str, help: str) -> Decorator:
    """Return an option without a value."""
    return click.option(*names, is_flag=True, help=help)


def number(
    name: str, default: float, help: str, kind: click.ParamType[Any] | None = None
) -> Decorator:
    """Return an option for a number, by default of the type of its default."""
    return click.option(name, default=default, show_default=True, type=kind, help=help)


def choice(name: str, among: Iterable[str], default: str, help: str) -> Decorator:
    """Return an option for one of some names."""
    kind = click.Choice(list(among))
    return click.option(name, type=kind, default=default, show_default=True, help=help)


DATA = (
    "DATA is the path or URL of a Zarr array (store.zarr/group/array), or of a Parquet, Arrow or CSV table with the "
    "columns to use (table.parquet#age,income), or a .npy file. Sparse rows are a Zarr group in the layout of anndata "
    "(data, indices, indptr), or a .npz file of scipy."
)
"""Text below the help of each command that reads rows."""
ARRAY = (
    "a one-dimensional Zarr array, .npy file or column of a table, or the name of a column of DATA"
)
STORAGE = click.option(
    "--storage-option",
    "storage_options",
    multiple=True,
    callback=_storage_options,
    metavar="KEY=VALUE",
    help="Option of fsspec for URLs, such as anon=true. VALUE may be JSON. Other users of this "
    "machine can see it: keep secrets in the environment.",
)


def with_storage(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of object stores to a command; they are wrong use if no argument is a URL."""

    @wraps(command)
    def checked(**given: Any) -> Any:
        several = [each for value in given.values() if isinstance(value, tuple) for each in value]
        storage.check_options(given["storage_options"], *given.values(), *several)
        return command(**given)

    return STORAGE(checked)


COMPUTE_OPTIONS = (
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on the Dask cluster of this scheduler. The default is the scheduler in the configuration of Dask "
        "(DASK_SCHEDULER_ADDRESS), if there is one and no option asks for this machine.",
    ),
    click.option(
        "--scheduler-file",
        metavar="FILE",
        help="Run on the cluster whose scheduler wrote this file.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(1),
        help="Run in this many processes of this machine. The default is threads, or processes if a short trial shows "
        "that threads wait for each other when they read DATA.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(1),
        help="Threads of this process, or of each of the --workers.",
    ),
    click.option(
        "--memory-limit",
        callback=_bytes,
        help="Memory of each of the --workers, or of this process, such as 4GB.",
    ),
    click.option(
        "--worker-timeout",
        default=60.0,
        callback=_seconds,
        show_default=True,
        help="Seconds to wait for the scheduler, and for a worker whenever there is none.",
    ),
    click.option(
        "--tls-ca-file",
        metavar="FILE",
        help="Certificate authority of the --scheduler, in PEM format.",
    ),
    click.option("--tls-cert", metavar="FILE", help="Certificate to show to the --scheduler."),
    click.option("--tls-key", metavar="FILE", help="Private key of this certificate."),
    with_storage,
)
"""Options for the threads, processes or cluster that do the work."""
FILL_MISSING = flag(
    "--fill-missing",
    help="Read chunks that are missing in the store as the fill value, as Zarr does.",
)
GROUPS = f"Number of the data set of each row, integers from 0: {ARRAY}."
KEEP = click.option(
    "--keep",
    callback=_names,
    metavar="NAME,...",
    help="Columns of the table DATA to write beside the labels, if OUT ends with .parquet.",
)
FORCE = flag("--force", help="First remove the output that is there, if dask-dpmeans wrote it.")
JSON = click.option(
    "--json", "as_json", is_flag=True, help="Write JSON for programs to standard output."
)
SEED = click.option(
    "--seed", type=click.IntRange(0), help="Random seed. By default, one is drawn and stored."
)
FULL = flag("--full", help="Fit all rows. By default, a summary is fitted if there are many rows.")
MAX_CLUSTERS = click.option(
    "--max-clusters", type=int, help="Stop with an error if there are more clusters."
)


def with_cube(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that make rows of a cube to a command; with one of them, DATA is a cube."""

    @wraps(command)
    def named(**given: Any) -> Any:
        names = {name: given.pop(name) for name in ("samples", "features", "variables")}
        if any(each is not None for each in names.values()):
            given["data"] = sources.CubePath(given["data"], **names)
        return command(**given)

    decorate = with_options(
        click.option(
            "--samples",
            callback=_names,
            metavar="NAME,...",
            help="Dimensions of the samples of a cube, such as lat,lon. DATA is a Zarr group or a NetCDF file, "
            "which xarray opens, or a level of an OME-Zarr image.",
        ),
        click.option(
            "--features",
            callback=_names,
            metavar="NAME,...",
            help="Dimensions of the features of a cube, such as time. The default is all others; variable names "
            "several variables.",
        ),
        click.option(
            "--variables",
            callback=_names,
            metavar="NAME,...",
            help="Variables of a cube. The default is all that have these dimensions.",
        ),
    )
    decorated: Callable[..., Any] = decorate(named)
    return decorated


READING_OPTIONS = (
    with_cube,
    click.option(
        "--weights",
        metavar="ARRAY",
        help=f"Weights of the rows: {ARRAY}; latitude for the cosine of the latitude of a cube.",
    ),
    click.option(
        "--columns",
        callback=_columns,
        help="Columns to use, such as 0,2-5, or names of columns of a table.",
    ),
    choice(
        "--scale", ["none", "std"], "none", "std divides each column by its standard deviation."
    ),
    SEED,
    FILL_MISSING,
    *COMPUTE_OPTIONS,
)
"""Options of each command that clusters the rows of a table."""
LIVE = click.option(
    "--live",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Show a page of the fit, while it runs, at this port of this machine; 0 for any free port.",
)
STOPPING_OPTIONS = (
    number("--max-iter", 300, "Largest number of sweeps or steps."),
    number("--tol", 1e-4, "Stop when the objective falls by less than this share."),
    MAX_CLUSTERS,
    flag("--resume", help="Continue with the run that is there, if there is one."),
    FORCE,
    LIVE,
    JSON,
)
"""Options for the end of a fit, and for its output."""
FIT_OPTIONS = (*READING_OPTIONS, *STOPPING_OPTIONS)
"""Options of each command that fits the rows of a table."""


def fit_command_named(
    name: str, *options: Decorator, last: tuple[Decorator, ...] = FIT_OPTIONS
) -> Decorator:
    """Return a decorator that makes the command ``name DATA RUN``.

    The options of the command itself come before the shared ones.
    """
    data_and_run = DATA_ARGUMENT, click.argument("run")
    epilog = DATA if last is FIT_OPTIONS else None
    return with_options(
        click.command(name, CommandWithHeadings, epilog=epilog), *data_and_run, *options, *last
    )


def _divergence(_: click.Context, __: click.Parameter, text: str) -> str | dict[str, str]:
    """Return the name of a divergence, or the names by column of a text such as age=squared."""
    if "=" not in text:
        return text
    found: dict[str, str] = {}
    for part in text.split(","):
        column, equals, name = (each.strip() for each in part.rpartition("="))
        if not (column and equals and name):
            raise click.BadParameter(
                f"{part!r} is not a column and its divergence, such as color=categorical"
            )
        if column in found:
            raise click.BadParameter(f"{text!r} names the column {column!r} twice")
        found[column] = name
    return found


def _penalty(_: click.Context, __: click.Parameter, text: str) -> float | str:
    """Return the penalty of a text: a number, or "auto"."""
    if text == choices.AUTO:
        return text
    try:
        return float(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a number or {choices.AUTO}") from error


def number_or_auto(name: str, help: str, *, required: bool = False) -> Decorator:
    """Return an option for a penalty that may be "auto", which is the default."""
    settings: dict[str, Any] = {"default": choices.AUTO, "show_default": True}
    if required:
        settings = {"required": True}
    return click.option(name, callback=_penalty, metavar="NUMBER|auto", help=help, **settings)


SEARCH = flag("--search", help="Read penalties as prices, and search for the lowest objective.")
COSINE = (
    "cosine compares directions: after --scale, rows are brought to unit length, and squared distances are "
    "2 (1 - cosine)."
)
METRIC = choice(
    "--metric",
    choices.METRICS,
    "euclidean",
    f"{COSINE} haversine takes latitude and longitude in degrees: a penalty as a radius is in kilometers, as a "
    "price in square kilometers.",
)
LINKAGE_METRIC = choice("--metric", choices.LINKAGE_METRICS, "euclidean", COSINE)
DIVERGENCE = click.option(
    "--divergence",
    default=choices.PLAIN,
    show_default=True,
    callback=_divergence,
    metavar="NAME|COLUMN=NAME,...",
    help=f"What a row costs at a center, in all columns or in those that are named: {', '.join(choices.DIVERGENCES)}; "
    f"{choices.MIXED} is categorical for columns of categories and squared for others.",
)
MISSING_VALUES = choice(
    "--missing",
    choices.MISSING,
    "error",
    "observed takes rows with missing values, and scales their costs up to all columns; unscaled does not scale.",
)
DISCOUNT = number(
    "--discount",
    0.0,
    "Fall of the price, for clusters of power-law sizes: cluster j costs --penalty less discount x log(j), and at "
    "least a tenth of it.",
)
OUTLIER_PENALTY = click.option(
    "--outlier-penalty",
    type=float,
    help="Price of an outlier, with --search: a row that costs more at every center has label -1.",
)
COSTS = METRIC, DIVERGENCE, MISSING_VALUES, DISCOUNT, OUTLIER_PENALTY
"""Options for what rows, clusters and outliers cost."""
