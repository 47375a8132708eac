"""Columns of a table that go beside the labels of its rows, as parts of Arrow tables."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import narwhals.stable.v2 as nw

from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.formats.tables import stored_columns, table_names, table_path
from dask_dpmeans.sources.frames import frame_of, is_dask_frame
from dask_dpmeans.sources.lazy_modules import pyarrow
from dask_dpmeans.sources.named_columns import check_column, named_part, shown_names
from dask_dpmeans.sources.opening import OpenedPath
from dask_dpmeans.storage.location import Location

PART_ROWS = 2**17
"""Rows of a part."""


@dataclass(frozen=True)
class KeptColumns:
    """Some columns of a table in memory, of Dask or in files, read part by part."""

    schema: Any
    """Schema of Arrow of these columns."""
    tables: Iterator[Any]
    """All rows, in order, as tables of Arrow of any height."""

    def parts(self) -> Iterator[Any]:
        """Yield all rows, in order, as tables of `PART_ROWS` rows, the last one of fewer."""
        held = self.schema.empty_table()
        for table in self.tables:
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
    place = _table_place(data, storage_options)
    if place is not None:
        labels = table_names(place, "data", index=True)
        for name in keep:
            check_column("keep", name, labels)
        schema, tables = stored_columns(place, tuple(keep), "data")
        return KeptColumns(schema, tables)
    frame = None if isinstance(data, str | os.PathLike) else frame_of(data, "data")
    if frame is None:
        raise InputError(
            f"keep names columns, {shown_names(keep)}, but data is no table with columns: leave "
            "keep out, or give a table in files or a data frame"
        )
    for name in keep:
        check_column("keep", name, frame.labels)
    read = partial(_arrow, keep=keep)
    if not is_dask_frame(frame.native):
        table = read(frame.native)
        return KeptColumns(table.schema, iter([table]))
    parts = frame.native[list(keep)].partitions
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
    place = _table_place(data, storage_options)
    labels: Sequence[Any] = ()
    if place is not None:
        named = table_path(os.fspath(data))
        if named is not None and named[1] is not None:
            return data  # these are the features
        labels = table_names(place, "data")
    elif not isinstance(data, str | os.PathLike):
        frame = frame_of(data, "data")
        labels = () if frame is None else frame.labels
    wanted = [each for each in labels if each not in keep]
    if names is not None:
        lists = [each if each in labels else each.rpartition("_")[0] for each in names]
        wanted = list(dict.fromkeys(lists))  # "emb" for emb_0, emb_1, ...
    if not wanted or not set(wanted) <= set(labels):
        return data  # the check of names tells what is missing
    return named_part(data, wanted)


def _table_place(data: Any, storage_options: Mapping[str, Any] | None) -> Location | None:
    """Return the location of a table in files, without the columns that its path names."""
    if not isinstance(data, str | os.PathLike):
        return None
    table = table_path(os.fspath(data))
    return None if table is None else Location.at(table[0], storage_options)


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
