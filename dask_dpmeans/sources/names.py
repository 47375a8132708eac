"""Names of the columns of a table, compared by scikit-learn's rule."""

from collections.abc import Sequence
from typing import Any

from dask_dpmeans.checks import MOST_LISTED, list_some
from dask_dpmeans.errors import InputError, warn

Names = tuple[str, ...]


def names_of(data: Any) -> Names | None:
    """Return the names of the columns of a table; None if it has none, or if they are not text.

    Tables are data frames of any kind, tables of Arrow, Parquet rows, and xarray arrays whose
    second dimension has coordinates.  As in scikit-learn, a mixture of text and other names is a
    `TypeError`.
    """
    names = column_labels(data)
    kinds = sorted({type(name).__qualname__ for name in names})
    if "str" in kinds and len(kinds) > 1:
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your input "
            f"has {kinds} as feature name / column name types: convert them all to strings, for "
            "example with X.columns = X.columns.astype(str)"
        )
    if kinds == ["str"] and len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        repeated = ", ".join(map(repr, twice[:MOST_LISTED]))
        raise InputError(f"more than one column is called {repeated}: rename these")
    if kinds == ["str"]:
        return names
    return None


def column_labels(data: Any) -> tuple[Any, ...]:
    """Return the column labels of a table, of any type."""
    kind = type(data)  # the attributes of the class: a column may have one of these names
    if hasattr(kind, "column_names"):  # Arrow, whose `columns` are the values, and Parquet rows
        return tuple(data.column_names)
    if hasattr(kind, "dims") and hasattr(kind, "coords"):
        if len(data.dims) != 2 or data.dims[1] not in data.coords:
            return ()
        return tuple(data.coords[data.dims[1]].values.tolist())
    if hasattr(kind, "columns"):
        return tuple(data.columns)
    return ()


def used_names(names: Sequence[str] | None, columns: Sequence[int] | None) -> Names | None:
    """Return the names of some columns, or of all for None."""
    if names is None:
        return None
    return tuple(str(names[column]) for column in columns or range(len(names)))


def check_names(names: Sequence[str] | None, fitted: Sequence[str] | None, model: str) -> None:
    """Refuse columns with other names than in the fit; warn if only one of the two has names."""
    if names is None and fitted is not None:
        warn(f"X does not have valid feature names, but {model} was fitted with feature names")
    if names is not None and fitted is None:
        warn(f"X has feature names, but {model} was fitted without feature names")
    if names is None or fitted is None or list(names) == list(fitted):
        return
    unseen, missing = sorted(set(names) - set(fitted)), sorted(set(fitted) - set(names))
    lines = ["The feature names should match those that were passed during fit."]
    lines += _listed("Feature names unseen at fit time:", unseen)
    lines += _listed("Feature names seen at fit time, yet now missing:", missing)
    if not (unseen or missing):
        lines.append("Feature names must be in the same order as they were in fit.")
    raise InputError("\n".join([*lines, ""]))


def check_centers(
    names: Sequence[str] | None, rows: Sequence[str] | None, columns: Sequence[int] | None
) -> None:
    """Raise `InputError` if first centers have other columns than the rows, by their names."""
    if names is None or rows is None:
        return
    used = list(rows) if columns is None else [rows[column] for column in columns]
    if list(names) != used:
        of_centers, of_rows = list_some(map(repr, names)), list_some(map(repr, used))
        raise InputError(
            f"init holds centers of the columns {of_centers}, the rows are of {of_rows}: give the "
            "columns of both in one order"
        )


def _listed(title: str, names: list[str]) -> list[str]:
    if not names:
        return []
    more = ["- ..."] * (len(names) > MOST_LISTED)
    return [title, *(f"- {name}" for name in names[:MOST_LISTED]), *more]
