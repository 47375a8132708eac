"""Names of the columns of centers, and their values as text, with shares of categories."""

from collections.abc import Mapping, Sequence

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
    texts = []
    for column, (name, m) in enumerate(zip(names, layout.categories, strict=True)):
        first = int(layout.starts[column])
        if not m:
            texts.append(f"{name}: {center[first]:.6g}")
            continue
        values = categories.get(column, range(m))
        shares = sorted(zip(-center[first : first + m], range(m), strict=True))[:MOST_SHARES]
        told = [
            f"{values[code]} {-share:.0%}".replace("%", " %")
            for share, code in shares
            if -share >= LEAST_SHARE
        ]
        texts.append(f"{name}: {', '.join(told) or 'none'}")
    return texts
