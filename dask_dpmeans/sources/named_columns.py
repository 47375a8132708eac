"""Columns of a table by name: weights and groups, the columns to use, and columns that are kept.

Kept columns go beside the labels of the rows, as parts of Arrow tables.
"""

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from io import StringIO
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.formats import tables
from dask_dpmeans.sources.frames import Frame, frame_of, is_dask_frame
from dask_dpmeans.sources.lazy_modules import pyarrow
from dask_dpmeans.sources.opening import OpenedPath, is_path
from dask_dpmeans.sources.options import InputArrays
from dask_dpmeans.storage.location import Location

PART_ROWS = 2**17
"""Rows of a part of kept columns."""


@dataclass(frozen=True)
class StoredTable:
    """A table in files; its columns have the same functions as the columns of a `Frame`."""

    path: str
    """Path or URL without names of columns."""
    named: tuple[str, ...] | None
    """Columns that the path names too; None for all."""
    place: Location

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tables.table_names(self.place, "data")

    @property
    def chosen_labels(self) -> tuple[str, ...]:
        """Names of the columns that are read."""
        return self.labels if self.named is None else self.named

    @property
    def lists(self) -> set[str]:
        """Names of the columns of lists, each of which becomes several columns."""
        return tables.list_columns(self.place, "data")

    def column(self, name: str) -> str:
        """Return the path of one column."""
        return f"{self.path}#{joined_names([name])}"

    def select(self, names: Sequence[str]) -> str:
        """Return the path of some columns, in this order."""
        kept = [each for each in names if self.named is None or each in self.named]
        return f"{self.path}#{joined_names(kept)}"


def joined_names(names: Sequence[str]) -> str:
    """Return names of columns for a path; those with commas are in quotes.

    >>> joined_names(["age", "income, gross"])
    'age,"income, gross"'
    """
    written = StringIO()
    csv.writer(written, lineterminator="").writerow(names)
    return written.getvalue()


def table_of(data: Any, storage_options: Mapping[str, Any] | None) -> StoredTable | Frame | None:
    """Return a table with names of columns, in files or in a data frame; None for other data."""
    if not isinstance(data, str | os.PathLike):
        return frame_of(data, "data")
    table = tables.table_path(os.fspath(data))
    return None if table is None else StoredTable(*table, Location.at(table[0], storage_options))


def named_inputs(
    arrays: InputArrays,
    columns: Sequence[Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[InputArrays, Sequence[int] | None]:
    """Return inputs without names of columns, and the numbers of the columns to use.

    Weights and groups that name a column of the data are that column, which leaves the features.
    Numbers in `columns` count the columns of the data as given.  If `columns` are names, or numbers
    beside such weights or groups, the data are narrowed to these, and all that are left are used.
    """
    columns = _listed(columns)
    beside = {"sample_weight": arrays.sample_weight, arrays.groups_name: arrays.groups}
    texts = {name: each for name, each in beside.items() if isinstance(each, str)}
    chosen = _names_in(columns)
    if not texts and chosen is None:
        return arrays, columns
    table = table_of(arrays.data, storage_options)
    if table is None:
        if chosen is not None:
            raise InputError(
                f"columns are named, {shown_names(chosen)}, but data has no names: give their numbers"
            )
        return arrays, columns
    labels = table.labels
    taken = {name: text for name, text in texts.items() if _is_column(name, text, labels)}
    if chosen is not None:
        for name in chosen:
            check_column("columns", name, labels)
    if not taken and chosen is None:
        return arrays, columns
    if chosen is None and columns is not None:
        own = table.chosen_labels
        _refuse_lists(table.lists & {*own}, list(taken.values()))
        chosen = [own[number] for number in checked_columns(columns, len(own))]
    _check_different(chosen or ())
    left = [each for each in chosen or labels if each not in taken.values()]
    if not left:
        raise InputError(
            f"no columns are left as features beside {shown_names(list(taken.values()))}"
        )
    found = {name: table.column(text) for name, text in taken.items()}
    narrowed = replace(
        arrays,
        data=table.select(left),
        sample_weight=found.get("sample_weight", arrays.sample_weight),
        groups=found.get(arrays.groups_name, arrays.groups),
    )
    return narrowed, None if chosen is not None else columns


def named_rows(X: Any, sample_weight: Any = None, groups: Any = None) -> tuple[Any, Any, Any]:
    """Return the rows, weights and groups of an estimator; names are columns of a data frame X."""
    if not any(isinstance(each, str) for each in (sample_weight, groups)):
        return X, sample_weight, groups
    if isinstance(X, str | os.PathLike):
        return X, sample_weight, groups
    found, _ = named_inputs(InputArrays(X, sample_weight, groups))
    return found.data, found.sample_weight, found.groups


def _refuse_lists(lists: set[Any], beside: list[str]) -> None:
    """Refuse numbers of columns of a table with lists, each of which is several columns."""
    if lists:
        raise InputError(
            f"the columns {shown_names(sorted(lists, key=str))} hold lists, so that numbers of columns "
            f"beside {shown_names(beside)} are in doubt: give columns by name"
        )


def _check_different(names: Sequence[Any]) -> None:
    """Refuse a column that is chosen more than once."""
    seen = set[Any]()
    for name in names:
        if name in seen:
            raise InputError(f"columns has {name!r} more than once: name each column once")
        seen.add(name)


def _listed(columns: Any) -> Sequence[Any] | None:
    """Return chosen columns as a list; raise `InputError` for a text, a slice or a number."""
    if columns is None:
        return None
    if hasattr(columns, "tolist"):  # of NumPy, or an index of pandas
        columns = columns.tolist()
    if isinstance(columns, str | bytes) or not isinstance(columns, Sequence):
        raise InputError(
            "columns must be a list of names or of numbers, such as ['age', 'income'] or [0, 2], got "
            f"{checks.describe_value(columns)}"
        )
    return columns


def _names_in(columns: Sequence[Any] | None) -> list[str] | None:
    """Return the names of columns; None if they are numbers."""
    if not isinstance(columns, list | tuple) or not columns:
        return None
    if not all(isinstance(each, str) for each in columns):
        return None
    return list(columns)


def checked_columns(columns: Sequence[int], d: int) -> tuple[int, ...]:
    """Return the numbers of columns, among d; raise `InputError` for anything else."""
    given = columns.tolist() if isinstance(columns, np.ndarray) else columns
    numbers: list[object] = []
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        numbers = [each.item() if isinstance(each, np.generic) else each for each in given]
    chosen = tuple(each for each in numbers if type(each) is int and 0 <= each < d)
    if not chosen or len(chosen) < len(numbers):
        named = f"some of the {d} columns 0 to {d - 1}"
        raise InputError(f"columns must name {named}, got {checks.describe_value(columns)}")
    return chosen


def _is_column(argument: str, text: str, labels: Sequence[Any]) -> bool:
    """Return whether a text names a column; names that are not there are refused."""
    if text in labels:
        return True
    if is_path(text):
        return False
    check_column(argument, text, labels)
    return True


def check_column(argument: str, name: str, labels: Sequence[Any]) -> None:
    """Refuse the name of a column that is not there."""
    if name not in labels:
        raise InputError(
            f"{argument}: there is no column {name!r} in data, which has {shown_names(labels)}"
        )


def shown_names(names: Sequence[Any]) -> str:
    """Return names for an error."""
    return ", ".join(map(repr, names))


@dataclass(frozen=True)
class KeptColumns:
    """Some columns of a table in memory, of Dask or in files, read part by part."""

    schema: Any
    """Schema of Arrow of these columns."""
    rest: Iterator[Any]
    """All rows, in order, as tables of Arrow of any height."""

    def parts(self) -> Iterator[Any]:
        """Yield all rows, in order, as tables of `PART_ROWS` rows, the last one of fewer."""
        held = self.schema.empty_table()
        for table in self.rest:
            held = pyarrow.concat_tables([held, _cast(table, self.schema)])
            while held.num_rows >= PART_ROWS:
                yield held.slice(0, PART_ROWS)
                held = held.slice(PART_ROWS)
        if held.num_rows:
            yield held


def kept_columns(
    data: Any, keep: Sequence[str], storage_options: Mapping[str, Any] | None = None
) -> KeptColumns:
    """Return the columns `keep` of a table; refuse names that are not there, and other data."""
    table = table_of(data, storage_options)
    if table is None:
        raise InputError(
            f"keep names columns, {shown_names(keep)}, but data is no table with columns: leave "
            "keep out, or give a table in files or a data frame"
        )
    labels: Sequence[Any] = table.labels
    if isinstance(table, StoredTable):
        labels = tables.table_names(table.place, "data", index=True)
    for name in keep:
        check_column("keep", name, labels)
    if isinstance(table, StoredTable):
        return KeptColumns(*tables.stored_columns(table.place, tuple(keep), "data"))
    read = partial(_arrow, keep=keep)
    if not is_dask_frame(table.native):
        found = read(table.native)
        return KeptColumns(found.schema, iter([found]))
    parts = table.native[list(keep)].partitions
    first = next((each for each in map(_computed, parts) if len(each)), parts[0].compute())
    return KeptColumns(read(first).schema, map(read, map(_computed, parts)))


def feature_columns(
    data: Any,
    names: Sequence[str] | None,
    keep: Sequence[str],
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Return a table with the columns that a run was fitted on, `names`.

    If the run knows no names, these are all columns but those that are kept.
    """
    if isinstance(data, OpenedPath) or (names is None and not keep):
        return data
    table = table_of(data, storage_options)
    if table is None or (isinstance(table, StoredTable) and table.named is not None):
        return data  # in a path that names columns these are the features
    labels = table.labels
    wanted = [each for each in labels if each not in keep]
    if names is not None:
        lists = [each if each in labels else each.rpartition("_")[0] for each in names]
        wanted = list(dict.fromkeys(lists))  # "emb" for emb_0, emb_1, ...
    if not wanted or not set(wanted) <= set(labels):
        return data  # the check of names tells what is missing
    return table.select(wanted)


def _computed(partition: Any) -> Any:
    return partition.compute()


def _arrow(native: Any, keep: Sequence[str]) -> Any:
    """Return columns of a data frame in memory as a table of Arrow."""
    table = nw.from_native(native, eager_only=True).select(*keep).to_arrow()
    return table.select(list(keep)).replace_schema_metadata(None)


def _cast(table: Any, schema: Any) -> Any:
    """Return a table with the types of the first part."""
    try:
        return table.select(schema.names).cast(schema)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, KeyError, ValueError) as error:
        raise InputError(
            f"keep: a part of data has other columns or types than the first: {error}"
        ) from error
