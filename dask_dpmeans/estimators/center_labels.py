"""Names of the columns of centers, and their values as text, with shares of categories."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.encoding import Layout

MOST_SHARES = 3
"""Categories of a column that a text names, at most; the greatest shares first."""
LEAST_SHARE = 0.005
"""Least share that a text names: less would be 0 %."""

Values = Mapping[int, Sequence[object]]
"""Categories of columns, by the number of the column among those that are used."""


def center_labels(layout: Layout, names: Sequence[str], categories: Values) -> list[str]:
    """Return a label for each column of the centers, (D,), such as "age" or "color=red".

    `names` are of the columns that were used, (d,).  Without known categories, their codes are shown.

    >>> center_labels(Layout(("squared", "categorical"), (0, 2)), ["age", "color"], {1: ["red", "blue"]})
    ['age', 'color=red', 'color=blue']
    """
    labels: list[str] = []
    for column, (name, m) in enumerate(zip(names, layout.categories, strict=True)):
        values = categories.get(column, range(m))
        labels += [f"{name}={value}" for value in values] if m else [name]
    return labels


def center_texts(
    center: Float64Array, layout: Layout, names: Sequence[str], categories: Values
) -> list[str]:
    """Return the values of one center, (D,), as text for each column of the input.

    >>> import numpy as np
    >>> layout = Layout(("squared", "categorical"), (0, 2))
    >>> center_texts(np.array([31.5, 0.8, 0.2]), layout, ["age", "color"], {1: ["red", "blue"]})
    ['age: 31.5', 'color: red 80 %, blue 20 %']
    """
    values = _value_texts(center, layout, categories)
    return [f"{name}: {value}" for name, value in zip(names, values, strict=True)]


def column_names(model: Any, columns: Iterable[int]) -> list[str]:
    """Return the names of columns of the rows, or their numbers if they have none."""
    given = getattr(model, "feature_names_in_", None)
    return [f"column {column}" if given is None else str(given[column]) for column in columns]


def used_columns(model: Any) -> tuple[list[str], Values]:
    """Return the names of the columns that a fit used, and the categories that are known."""
    columns = model.feature_columns_ or range(model.n_features_in_)
    categories = model.categories_ or {}
    used = {
        number: categories[column] for number, column in enumerate(columns) if column in categories
    }
    return column_names(model, columns), used


def model_labels(model: Any) -> list[str]:
    """Return the labels of the columns of the centers of a fit with divergences of columns."""
    return center_labels(model.features_.layout, *used_columns(model))


def model_texts(model: Any, cluster: int) -> list[str]:
    """Return the center of a cluster of such a fit as `center_texts`."""
    center = model.cluster_centers_[cluster]
    return center_texts(center, model.features_.layout, *used_columns(model))


def model_columns(model: Any, clusters: Iterable[int]) -> list[tuple[str, list[str]]]:
    """Return the columns of centers of clusters of such a fit as text, with their names."""
    names, categories = used_columns(model)
    lines = [
        _value_texts(model.cluster_centers_[each], model.features_.layout, categories)
        for each in clusters
    ]
    columns = map(list, zip(*lines, strict=True))
    return list(zip(names, columns, strict=True))


def most_frequent(shares: Float64Array) -> list[int]:
    """Return the codes of the categories, of shares (m,), that a text names; the greatest first.

    >>> import numpy as np
    >>> most_frequent(np.array([0.2, 0.7, 0.1, 0.0]))
    [1, 0, 2]
    """
    codes: list[int] = np.argsort(-shares, kind="stable")[:MOST_SHARES].tolist()
    return [code for code in codes if shares[code] >= LEAST_SHARE]


def _value_texts(center: Float64Array, layout: Layout, categories: Values) -> list[str]:
    """Return the values of one center, (D,), as text for each column of the input."""
    texts = []
    for column, m in enumerate(layout.categories):
        first = int(layout.starts[column])
        if not m:
            texts.append(f"{center[first]:.6g}")
            continue
        values = categories.get(column, range(m))
        shares = center[first : first + m]
        parts = [
            f"{values[code]} {shares[code]:.0%}".replace("%", " %")
            for code in most_frequent(shares)
        ]
        texts.append(", ".join(parts) or "none")
    return texts
