"""Options of public functions, and the values that the package makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Features, Float64Array
from dask_dpmeans.kernels.column_statistics import MOST_GROUPS
from dask_dpmeans.sources.categories import CategoricalColumns, Categories
from dask_dpmeans.sources.lazy_modules import distributed
from dask_dpmeans.sources.progress import OnPass
from dask_dpmeans.sources.resources import WORKER_TIMEOUT

if TYPE_CHECKING:
    from distributed import Client


class Where(TypedDict, total=False):
    """Options for the threads or the cluster that do the work."""

    client: "Client | None"
    threads: int | None
    memory_limit: int | None
    worker_timeout: float
    on_pass: OnPass | None


class Opening(Where, total=False):
    """These options, and how a store is read."""

    fill_missing: bool


class Stored(Opening, total=False):
    """These options, and the options of fsspec for URLs."""

    storage_options: Mapping[str, Any] | None


class Reading(Stored, total=False):
    """These options, and the choice and scale of the columns."""

    columns: Sequence[int] | None
    scale: Literal["std"] | Float64Array | None


class Accepting(TypedDict, total=False):
    """Options for the rows that an estimator accepts, and others refuse."""

    missing: bool
    csr: bool
    categories: bool
    categorical: Sequence[str | int] | Literal["all"]
    known_categories: Categories | None


class SourceOptions(Reading, Accepting, total=False):
    """All options of `as_source`."""

    column_names: Sequence[str] | None
    known_names: Sequence[str] | None
    block_rows: int | None
    features: Features | None
    sparse: bool
    centers: Float64Array | None
    stored_columns: int | None


SMALL_BLOCKS = "block_rows"
"""Undocumented option of public functions: smaller blocks, for small data of many blocks."""


def check_option_names(function: str, given: Mapping[str, object], known: type) -> None:
    """Raise `TypeError`, as Python does, if a function is given options that it does not know."""
    for name in given:
        if name not in known.__annotations__ and name != SMALL_BLOCKS:
            near = get_close_matches(name, known.__annotations__, 1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


@dataclass(frozen=True)
class FromOptions:
    """A value that is made of options."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return the value of the options in a dictionary; others are ignored."""
        known = cls.__dataclass_fields__
        return cls(**{name: options[name] for name in known if name in options})


@dataclass(frozen=True)
class Compute(FromOptions):
    """Threads or cluster that do the work, and the observer of its progress."""

    client: "Client | None" = None
    """The cluster; None for the current client, or for this process if `threads` or `memory_limit`
    is given or the data is in its memory."""
    threads: int | None = None
    """Threads of this process; None for all that it may use."""
    memory_limit: int | None = None
    """Bytes that this process may use."""
    worker_timeout: float = WORKER_TIMEOUT
    """Seconds to wait for a worker whenever the cluster has none."""
    on_pass: OnPass | None = field(default=None, compare=False)
    """Called at the beginning and end of each pass, and up to four times a second in between."""

    @property
    def local(self) -> bool:
        """Whether threads or memory of this process are given."""
        return self.threads is not None or self.memory_limit is not None

    def checked(self) -> Self:
        """Return the same value with Python's integers, whose products do not overflow."""
        if not (self.client is None or isinstance(self.client, distributed.Client)):
            shown = checks.describe_value(self.client)
            raise InputError(
                f"client must be a distributed.Client or None, got {shown}: distributed.Client makes one of the "
                "address of a scheduler, or of a cluster"
            )
        checks.number("worker_timeout", self.worker_timeout)
        if not (self.on_pass is None or callable(self.on_pass)):
            shown = checks.describe_value(self.on_pass)
            raise InputError(f"on_pass must be a function or None, got {shown}")
        threads = checks.integer_or_none("threads", self.threads)
        memory_limit = checks.integer_or_none("memory_limit", self.memory_limit)
        return replace(self, threads=threads, memory_limit=memory_limit)


@dataclass(frozen=True)
class Columns(FromOptions):
    """Columns that are used of the input, and how they are read."""

    columns: Sequence[int] | None = None
    """Numbers of the columns, in order; None for all."""
    scale: Float64Array | str | None = None
    """"std", or (d,) divisors; None to leave the columns as they are."""
    column_names: Sequence[str] | None = None
    """Names of the columns in the fit; empty if they had none, None if they are not compared."""
    known_names: Sequence[str] | None = None
    """Names of the columns of rows that come without theirs."""
    fill_missing: bool = False
    """Whether a chunk that is not in a Zarr store holds the fill value; else it may have been lost,
    and is an error."""
    storage_options: Mapping[str, Any] | None = None
    """Options of fsspec for URLs."""
    block_rows: int | None = None
    """Rows of a block, a power of two, for tests: blocks are part of the answer."""


@dataclass(frozen=True)
class Requirements(FromOptions):
    """Form in which a method or a fitted model needs the rows."""

    features: Features | None = None
    """Map of each prepared row; kernels see its answer only."""
    sparse: bool = False
    """Whether kernels see CSR rows as they are: ``Block.rows`` is then a ``csr_array`` of float64,
    and the summary has two numbers a row, as in `SparseStatistics`."""
    centers: Float64Array | None = None
    """(k, d), centers whose squared distances to the rows must not overflow."""
    stored_columns: int | None = None
    """Columns that the input must have."""
    missing: bool = False
    """Whether NaN, nulls and masked entries are missing values; else they are errors."""
    csr: bool = False
    """Whether CSR rows stay so for kernels that take them, if there are no features yet."""
    categories: bool = False
    """Whether columns of categories are read, as codes; else they are errors."""
    categorical: Sequence[str | int] | Literal["all"] = ()
    """Columns of any type that are then categories, by name or number."""
    known_categories: Categories | None = None
    """Categories of the fit, by column, whose codes are taken."""

    @property
    def categorical_columns(self) -> CategoricalColumns | None:
        """How columns of categories are read; None if they are not."""
        if not self.categories:
            return None
        return CategoricalColumns(self.categorical, self.known_categories, self.missing)


@dataclass(frozen=True)
class InputArrays:
    """Input as a user gives it."""

    data: Any
    """(n, d) rows."""
    sample_weight: Any = None
    """(n,) weights >= 0, or None."""
    groups: Any = None
    """(n,) integers, the data set of each row, or None."""
    groups_name: str = "groups"
    """Name of the argument that `groups` come from: "groups", or "labels", which may be negative."""

    @property
    def least_group(self) -> int:
        """The least number of a group."""
        return 1 - MOST_GROUPS if self.groups_name == "labels" else 0
