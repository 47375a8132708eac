"""Several data sets, as a list of tables, as one table with groups."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from dask_dpmeans import sources
from dask_dpmeans.errors import InputError

if TYPE_CHECKING:
    from dask_dpmeans.sources import Accepting, Categories, Names

NOTHING: "Accepting" = {}


class DataSets(NamedTuple):
    """The rows of all data sets."""

    rows: Any
    groups: Any
    """The data set of each row, (n,), as given; None for one data set."""
    names: "Names | None" = None
    """Names of the columns that the tables of a list share."""
    categories: "Categories | None" = None
    """Categories of columns of codes, if the tables of a list have columns of categories."""


def data_sets(
    X: object, groups: object, accepts: "Accepting" = NOTHING, known: "Categories | None" = None
) -> DataSets:
    """Return the rows of a list of tables as one table, with groups, column names and categories.

    Anything else than a list of tables is returned as given.  `known` are the categories of a fit.
    """
    if isinstance(X, list | tuple):
        sources.refuse_lazy(X, "X", apart=groups is None)
    if not isinstance(X, list | tuple) or not X or any(_dimensions(item) != 2 for item in X):
        return DataSets(X, groups)
    if groups is not None:
        raise InputError("X is a list of data sets, which says what groups says: leave groups out")
    names = _shared_names(X)
    items = [sources.unwrap(item, "X") for item in X]
    missing, categories = accepts.get("missing", False), None
    if accepts.get("categories"):
        wanted = sources.CategoricalColumns(accepts.get("categorical", ()), known, missing)
        items, categories = _with_common_codes(items, wanted)
    tables = [_table(item, missing=missing) for item in items]
    widths = sorted({int(table.shape[1]) for table in tables})
    if len(widths) > 1:
        raise InputError(f"the data sets of X must have the same columns, got {widths}")
    rows, heights = sources.concatenate_tables(tables)
    return DataSets(rows, np.repeat(np.arange(len(tables)), heights), names, categories)


def _with_common_codes(
    tables: list[Any], wanted: "sources.CategoricalColumns"
) -> "tuple[list[Any], Categories]":
    """Return tables with the same codes for categories, and the categories of all tables."""
    if wanted.known is None:
        found: dict[int, tuple[sources.Category, ...]] = {}
        for table in tables:
            for column, own in _read(table, wanted)[1].items():
                found[column] = tuple(dict.fromkeys([*found.get(column, ()), *own]))
        wanted = sources.CategoricalColumns(wanted.named, found, wanted.missing)
    return [_read(table, wanted)[0] for table in tables], wanted.known or {}


def _read(
    table: Any, wanted: "sources.CategoricalColumns | None" = None
) -> "tuple[Any, Categories]":
    """Return the rows of a data frame, and the categories of its columns; others as they are."""
    frame = sources.frame_of(table, "X")
    return (table, {}) if frame is None else frame.read("X", wanted)


def _shared_names(tables: Sequence[object]) -> "Names | None":
    """Return the names of the columns, which all tables must share."""
    first, *others = [sources.names_of(sources.frame_of(each, "X") or each) for each in tables]
    for number, names in enumerate(others, 1):
        if names != first:
            got = f"{_shown_names(first)} in set 0 and {_shown_names(names)} in set {number}"
            wanted = "the same columns in one order"
            raise InputError(f"the data sets of X must have {wanted}, got {got}")
    return first


def _shown_names(names: "Names | None") -> str:
    if names is None:
        return "no names"
    return str(list(names))


def _table(item: Any, *, missing: bool) -> Any:
    """Return one data set of a list."""
    item, _ = _read(item)
    if missing:
        item = sources.with_nan(item, "X")
    if sources.is_lazy(item):
        return item
    if isinstance(item, np.ma.MaskedArray):
        advice = "fill or drop the masked entries first, as .filled(0) does"
        raise InputError(f"a data set of X is a masked array: {advice}")
    if issparse(item):
        return sources.opened_rows(item)
    return np.asarray(item)


def _dimensions(item: npt.ArrayLike) -> int:
    """Return the dimensions of a table or a list of rows; 0 if rows differ in length."""
    try:
        return int(getattr(item, "ndim", None) or np.ndim(item))
    except ValueError:
        return 0
