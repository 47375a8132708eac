"""Data frames of every library that narwhals knows, and of Dask, as columns of numbers.

A column of lists of one length is an embedding: ``emb`` becomes ``emb_0``, ``emb_1``, and so on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.categories import (
    CategoricalColumns,
    Categories,
    Category,
    coded_column,
    plain_category,
)
from dask_dpmeans.sources.lazy_modules import dask
from dask_dpmeans.sources.missing_values import filled, numbers_of_objects
from dask_dpmeans.sources.names import column_labels, names_of
from dask_dpmeans.sources.refusals import no_numbers
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.sources.safety.value_checks import refuse_inexact

NO_FRAMES = (np.ndarray, str, PathLike)
"""Types of which narwhals is not asked, which looks at each of its libraries."""
CATEGORIES = (nw.Categorical, nw.Enum)
"""Types of columns of categories."""
LISTS = (nw.Array, nw.List)
"""Types of columns of lists."""
SEQUENCES = (list, tuple, np.ndarray)
"""Types of the values of columns of lists."""
FLOATS = ({nw.Float64()}, {nw.Float32()})
"""Types of columns that are all of one type, and need no conversion."""


@dataclass(frozen=True)
class Frame:
    """A data frame in memory or of Dask, whose columns become columns of numbers."""

    native: Any
    labels: tuple[Any, ...]
    """Label of each column."""
    widths: tuple[int | None, ...]
    """Length of the lists in each column; None for a column of other values."""
    part: str = ""
    """What is said after the name of a column in errors about values; empty for all rows."""

    @property
    def column_names(self) -> tuple[Any, ...]:
        """Label of each column of numbers."""
        return names_of_numbers(self.labels, self.widths)

    @property
    def chosen_labels(self) -> tuple[Any, ...]:
        """Label of each column, as of a table in files whose path names none."""
        return self.labels

    @property
    def lists(self) -> set[Any]:
        """Labels of the columns that may hold lists, each of which becomes several columns."""
        if is_dask_frame(self.native):  # whose objects are not looked at
            kinds = self.native.dtypes.items()
            return {label for label, kind in kinds if str(kind).startswith(("object", "list"))}
        pairs = zip(self.labels, self.widths, strict=True)
        return {label for label, width in pairs if width is not None}

    def column(self, label: Any) -> Any:
        """Return one column: an array, (n,), or a series of Dask."""
        if is_dask_frame(self.native):
            return self.native[label]
        return nw.from_native(self.native, eager_only=True)[label].to_numpy()

    def select(self, labels: Sequence[Any]) -> Any:
        """Return a data frame with some of the columns, in this order."""
        if is_dask_frame(self.native):
            return self.native[list(labels)]
        return nw.from_native(self.native, eager_only=True).select(*labels).to_native()

    def read(
        self, name: str, wanted: CategoricalColumns | None = None, used: Sequence[int] | None = None
    ) -> tuple[Any, Categories]:
        """Return the rows, (n, d), and the categories of columns of codes.

        Rows are a NumPy array, or a Dask array with chunks of unknown sizes.  Nulls become NaN.

        Parameters
        ----------
        name : name of the argument, for errors
        wanted : the columns of categories; None to refuse them
        used : numbers of the columns that are used, None for all; others may hold anything, for
            which 0 stands
        """
        if is_dask_frame(self.native):
            return self._read_dask(name, wanted, used)
        frame = _open_frame(self.native)
        coding = wanted is not None and (wanted.named or wanted.known)
        if set(frame.schema.values()) in FLOATS and not coding:
            return frame.to_numpy(), {}
        columns: list[Raw] = []
        found: dict[int, tuple[Category, ...]] = dict((wanted and wanted.known) or {})
        refused = {}
        for series, label, width in zip(
            frame.iter_columns(), self.labels, self.widths, strict=True
        ):
            number, values = len(columns), None
            if width is not None:
                columns.extend(_embedding(series, label, width, name).T)
                continue
            if wanted is not None and _is_coded(series, number, label, wanted, name):
                values, categories = coded_column(series.to_native(), number, label, wanted)
                found[number] = categories
            else:
                values = _numbers(series, name, f"{label!r}{self.part}")
            if values is None and used is not None and number not in used:
                values = np.zeros(len(series), bool)
            elif values is None:
                refused[label] = _type_name(series)
                values = np.empty(0)
            columns.append(values)
        if refused:
            raise self._refusal(refused, name)
        if not columns:
            return np.empty((len(frame), 0)), {}
        return np.column_stack(columns), found

    def _read_dask(
        self, name: str, wanted: CategoricalColumns | None, used: Sequence[int] | None
    ) -> tuple[Any, Categories]:
        """Return the rows of a data frame of Dask as an array of Dask, and the categories of its columns."""
        table, kinds = self.native, list(self.native.dtypes)
        known = self._known_categories(name, wanted)
        if not known and len(set(kinds)) == 1 and _is_plain(kinds[0]):
            return array_of_partitions(table), {}
        if wanted is not None:
            wanted = replace(wanted, known=known)
        empty, _ = replace(self, native=table.partitions[0]._meta).read(name, wanted, used)
        dtype = empty.dtype
        if not all(_is_plain(kind) or str(kind) == "category" for kind in kinds):
            dtype = np.result_type(dtype, np.float64)  # columns may have nulls
        meta = [(number, dtype) for number in range(empty.shape[1])]
        rows = table.map_partitions(_read_partition, self, name, wanted, used, dtype, meta=meta)
        return array_of_partitions(rows), known

    def _known_categories(self, name: str, wanted: CategoricalColumns | None) -> Categories:
        """Return the categories of a data frame of Dask; those that would have to be read are refused."""
        table = self.native
        if wanted is None:
            return {}
        found = dict(wanted.known or {})
        number = 0
        for label, width, kind in zip(self.labels, self.widths, table.dtypes, strict=True):
            stated = str(kind) == "category"
            text = getattr(kind, "kind", "O") not in "biuf" and width is None
            if number in found:
                pass
            elif stated and table[label].cat.known:
                found[number] = tuple(map(plain_category, kind.categories.tolist()))
            elif stated or (text and wanted.takes(number, label)):
                raise InputError(
                    f"{name}: the categories of column {label!r} are not known before all of it is "
                    f"read: pass {name}.categorize([{label!r}]), which reads it once"
                )
            number += 1 if width is None else width
        return found

    def _refusal(self, refused: Mapping[Any, str], name: str) -> InputError:
        """Return the error for columns that are no numbers, with their types."""
        numbers = [label for label in self.labels if label not in refused]
        arrow = hasattr(type(self.native), "column_names")
        way = f"{name}.select({numbers})" if arrow else f"{name}[{numbers}]"
        return no_numbers(refused, numbers, name, way)


def frame_of(data: Any, name: str) -> Frame | None:
    """Return a data frame of any library; None for data of another kind."""
    if isinstance(data, Frame):
        return data
    if isinstance(data, NO_FRAMES):
        return None
    if is_dask_frame(data):
        kinds = zip(data.columns, data.dtypes, strict=True)
        widths = [_dask_width(data, label, kind) for label, kind in kinds]
        return Frame(data, column_labels(data), tuple(widths))
    if not nw.dependencies.is_into_dataframe(data):
        return None
    names_of(data)  # refuses two columns of one name
    widths = [_width(series) for series in _open_frame(data).iter_columns()]
    return Frame(data, column_labels(data), tuple(widths))


def is_dask_frame(data: Any) -> bool:
    """Return whether data are a data frame of Dask."""
    return hasattr(data, "to_dask_array") and data.ndim == 2


def array_of_partitions(table: Any) -> Any:
    """Return a data frame or series of Dask as an array of Dask with a chunk for each partition.

    Dask reads small files of a table together if only some columns are needed.  Labels would then
    have fewer chunks than the table has partitions, and could not become a column of it.
    """
    with dask.config.set({"optimization.tune.active": False}):
        return table.to_dask_array()


def array_of_series(series: Any, name: str) -> Any:
    """Return a series of Dask as an array of Dask, (n,): nullable numbers become plain ones.

    Integers without nulls stay integers, unless they are weights, whose nulls become NaN: the check
    of all rows then names the row.
    """
    kind = series.dtype
    if isinstance(kind, np.dtype) or getattr(kind, "kind", "O") not in "biuf":
        return array_of_partitions(series)
    whole = kind.kind != "f" and name != "sample_weight"
    dtype = np.dtype(np.int64 if whole else np.float64)
    numbers = series.map_partitions(_read_series, name, dtype, meta=(series.name, dtype))
    return array_of_partitions(numbers)


def refuse_query(data: Any, name: str) -> None:
    """Raise `InputError` for a query of Polars, DuckDB, Ibis or Spark that has not run."""
    if isinstance(data, NO_FRAMES) or hasattr(data, "to_dask_array"):
        return
    if nw.dependencies.is_into_dataframe(data):
        return
    if hasattr(data, "to_table") and type(data).__module__.startswith("pyarrow"):
        raise InputError(
            f"{name} is a {type(data).__name__} of PyArrow, which is not read yet: pass "
            f"{name}.to_table(), or give the path of its files to dask_dpmeans.fit"
        )
    if isinstance(nw.from_native(data, pass_through=True), nw.LazyFrame):
        kind = type(data).__name__
        way = f"{name}.collect()"
        if not hasattr(type(data), "collect") or kind != "LazyFrame":
            way = f"narwhals.from_native({name}).collect().to_native()"
        raise InputError(f"{name} is a {kind}, a query that has not run yet: pass {way}")


def names_of_numbers(labels: Sequence[Any], widths: Sequence[int | None]) -> tuple[Any, ...]:
    """Return the names of the columns of numbers that columns become; lists have a width.

    >>> names_of_numbers(["age", "emb"], [None, 2])
    ('age', 'emb_0', 'emb_1')
    """
    found: list[Any] = []
    for label, width in zip(labels, widths, strict=True):
        found += [label] if width is None else [f"{label}_{number}" for number in range(width)]
    return tuple(found)


def _open_frame(native: Any) -> Any:
    """Return a data frame of narwhals; labels that are no texts are replaced by numbers."""
    if hasattr(native, "set_axis") and not all(isinstance(each, str) for each in native.columns):
        native = native.set_axis([str(each) for each in range(native.shape[1])], axis=1)
    return nw.from_native(native, eager_only=True)


def _is_coded(series: Any, number: int, label: Any, wanted: CategoricalColumns, name: str) -> bool:
    """Return whether a column is read as categories: numbers that are named are codes already."""
    if wanted.known is not None and number in wanted.known:
        return True
    if isinstance(series.dtype, CATEGORIES):
        return True
    return wanted.takes(number, label) and _numbers(series, name, repr(label)) is None


def _numbers(series: Any, name: str, label: str = "") -> Raw | None:
    """Return the numbers of a column, (n,), NaN for nulls; None if it holds others.

    `name` and `label` name the argument and the column in errors.
    """
    kind = series.dtype
    if isinstance(kind, nw.Decimal | nw.Int128 | nw.UInt128):
        return series.cast(nw.Float64).to_numpy()
    if kind.is_integer() or kind == nw.Boolean:
        empty = series.is_null().to_numpy()
        values = series.fill_null(False if kind == nw.Boolean else 0).to_numpy()
        values = np.asarray(values, bool if kind == nw.Boolean else None)
        refuse_inexact(values, name, label)
        if not empty.any():
            return values
        return filled(np.ma.masked_array(values, empty), name)
    if kind.is_numeric():
        return series.to_numpy()
    if kind not in (nw.Object, nw.Unknown):
        return None
    values = np.asarray(series.to_native())
    if values.dtype == object:
        refuse_inexact(values, name, label)
        try:
            values = numbers_of_objects(values)
        except (OverflowError, TypeError, ValueError):
            return None
    return values if values.dtype.kind in "biuf" else None


def _type_name(series: Any) -> str:
    """Return the type of a column, for an error."""
    kind = series.dtype
    if len(series) and series.is_null().all():
        return "no value"
    if kind == nw.Unknown:
        return str(getattr(series.to_native(), "dtype", kind))
    return str(kind).partition("(")[0]


def _width(series: Any) -> int | None:
    """Return the length of the lists of a column; None for other values."""
    kind = series.dtype
    if not (isinstance(kind, LISTS) or kind == nw.Object):
        return None
    if isinstance(kind, nw.Array):
        return int(np.prod(kind.shape))
    values = series.drop_nulls().head(1).to_numpy()
    if len(values) and isinstance(values[0], SEQUENCES):
        return np.size(values[0])
    return None


def _dask_width(table: Any, label: Any, kind: Any) -> int | None:
    """Return the length of the lists of a column of a data frame of Dask; None for other values."""
    if not str(kind).startswith(("list", "fixed_size_list", "large_list")):
        return None
    return _width(nw.from_native(table[label].head(1, npartitions=-1), series_only=True))


def _embedding(series: Any, label: Any, width: int, name: str) -> Raw:
    """Return the numbers of a column of lists, (n, width); NaN for nulls."""
    values = series.to_numpy()
    if values.dtype != object:
        return values.reshape(len(values), -1)
    return list_rows(values, width, f"{name}: column {label!r}")


def list_rows(values: Raw, width: int, name: str) -> Raw:
    """Return lists of one length, (n,) objects, as rows, (n, width); NaN for nulls."""
    nothing = np.full(width, np.nan)
    rows = [np.ravel(each) if isinstance(each, SEQUENCES) else nothing for each in values]
    lengths = np.array([len(each) for each in rows])
    if (lengths != width).any():
        row = int(np.argmax(lengths != width))
        raise InputError(
            f"{name} holds lists of {width:,} numbers, and at row {row:,} of {lengths[row]:,}: "
            "embeddings have one length; remove such rows"
        )
    try:
        stacked = np.concatenate(rows) if rows else np.empty(0)
        if stacked.dtype.kind not in "biuf":
            stacked = stacked.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} holds lists of others than numbers: {error}") from error
    return stacked.reshape(-1, width)


def _is_plain(kind: Any) -> bool:
    """Return whether a column of a data frame of Dask is one of NumPy's numbers."""
    return isinstance(kind, np.dtype) and kind.kind in "biuf"


def _read_partition(
    part: Any,
    frame: Frame,
    name: str,
    wanted: CategoricalColumns | None,
    used: Sequence[int] | None,
    dtype: np.dtype[Any],
) -> Any:
    """Return a partition of a data frame of Dask as a data frame of numbers."""
    values, _ = replace(frame, native=part, part=" of a partition").read(name, wanted, used)
    return type(part)(values.astype(dtype), index=part.index)


def _read_series(part: Any, name: str, dtype: np.dtype[Any]) -> Any:
    """Return a partition of a series of nullable numbers as a series of NumPy's."""
    empty = part.isna().to_numpy()
    if dtype.kind == "i" and empty.any():
        raise InputError(
            f"{name} has no value at row {int(np.argmax(empty)):,} of a partition: fill missing values "
            "first"
        )
    values = _numbers(nw.from_native(part, series_only=True), name)
    return type(part)(np.asarray(values, dtype), index=part.index, name=part.name)
