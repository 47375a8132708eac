"""Columns of a table by name: the weights and groups of its rows, and the columns to use."""

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.formats.tables import list_columns, table_names, table_path
from dask_dpmeans.sources.frames import LISTS, Frame, frame_of, is_dask_frame
from dask_dpmeans.sources.options import InputArrays
from dask_dpmeans.storage.location import Location

PATH_MARKS = "/\\.#"
"""Characters that tell the path of an array from the name of a column that is not there."""


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
    labels = _labels(arrays.data, storage_options)
    if labels is None:
        if chosen is not None:
            raise InputError(
                f"columns are named, {shown_names(chosen)}, but data has no names: give their numbers"
            )
        return arrays, columns
    taken = {name: text for name, text in texts.items() if _is_column(name, text, labels)}
    if chosen is not None:
        for name in chosen:
            check_column("columns", name, labels)
    if not taken and chosen is None:
        return arrays, columns
    if chosen is None and columns is not None:
        own = _own_names(arrays.data, labels)
        several = _columns_of_lists(arrays.data, storage_options) & {*own}
        _refuse_lists(several, list(taken.values()))
        chosen = [own[number] for number in checked_columns(columns, len(own))]
    _check_different(chosen or ())
    left = [each for each in chosen or labels if each not in taken.values()]
    if not left:
        raise InputError(
            f"no columns are left as features beside {shown_names(list(taken.values()))}"
        )
    found = {name: _column(arrays.data, text) for name, text in taken.items()}
    narrowed = replace(
        arrays,
        data=named_part(arrays.data, left),
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


def joined_names(names: Sequence[str]) -> str:
    """Return names of columns for a path; those with commas are in quotes.

    >>> joined_names(["age", "income, gross"])
    'age,"income, gross"'
    """
    written = StringIO()
    csv.writer(written, lineterminator="").writerow(names)
    return written.getvalue()


def _refuse_lists(lists: set[Any], beside: list[str]) -> None:
    """Refuse numbers of columns of a table with lists, each of which is several columns."""
    if lists:
        raise InputError(
            f"the columns {shown_names(sorted(lists, key=str))} hold lists, so that numbers of columns "
            f"beside {shown_names(beside)} are in doubt: give columns by name"
        )


def _check_different(names: Sequence[Any]) -> None:
    """Refuse a column that is chosen more than once."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(f"columns has {name!r} more than once: name each column once")


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


def _columns_of_lists(data: Any, storage_options: Mapping[str, Any] | None) -> set[Any]:
    """Return the names of the columns of a table that may hold lists, each of them several columns."""
    if isinstance(data, str | os.PathLike):
        table = table_path(os.fspath(data))
        return list_columns(Location.at((table or [data])[0], storage_options), "data")
    native = data.native if isinstance(data, Frame) else data
    if is_dask_frame(native):
        kinds = native.dtypes.items()
        return {name for name, kind in kinds if str(kind).startswith(("object", "list"))}
    kinds = nw.from_native(native, eager_only=True).schema
    return {name for name, kind in kinds.items() if isinstance(kind, (*LISTS, nw.Object))}


def _own_names(data: Any, labels: list[Any]) -> list[Any]:
    """Return the names of the columns of data in order: a path may name some of a table's."""
    table = table_path(os.fspath(data)) if isinstance(data, str | os.PathLike) else None
    return labels if table is None or table[1] is None else list(table[1])


def _labels(data: Any, storage_options: Mapping[str, Any] | None) -> list[Any] | None:
    """Return the names of the columns of a table; None for data of another kind."""
    if isinstance(data, Location):
        return None
    if isinstance(data, str | os.PathLike):
        table = table_path(os.fspath(data))
        if table is None:
            return None
        stored = table_names(Location.at(table[0], storage_options), "data")
        return list(stored)
    frame = frame_of(data, "data")
    return None if frame is None else list(frame.labels)


def _is_column(argument: str, text: str, labels: Sequence[Any]) -> bool:
    """Return whether a text names a column; names that are not there are refused."""
    if text in labels:
        return True
    if any(mark in text for mark in PATH_MARKS):
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


def _column(data: Any, name: str) -> Any:
    """Return one column of a table: a path with its name, an array, or a series of Dask."""
    if isinstance(data, str | os.PathLike):
        table = table_path(os.fspath(data))
        return f"{table[0] if table else data}#{joined_names([name])}"
    native = data.native if isinstance(data, Frame) else data
    if is_dask_frame(native):
        return native[name]
    return nw.from_native(native, eager_only=True)[name].to_numpy()


def named_part(data: Any, names: Sequence[str]) -> Any:
    """Return a table with some of its columns, in this order."""
    if isinstance(data, str | os.PathLike):
        table = table_path(os.fspath(data))
        path, named = table or (os.fspath(data), None)
        kept = [each for each in names if named is None or each in named]
        return f"{path}#{joined_names(kept)}"
    native = data.native if isinstance(data, Frame) else data
    if is_dask_frame(native):
        return native[list(names)]
    return nw.from_native(native, eager_only=True).select(*names).to_native()
