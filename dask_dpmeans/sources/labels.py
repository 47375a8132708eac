"""Two labelings of the same rows, side by side."""

from typing import Any

import numpy as np

from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.lazy_modules import da
from dask_dpmeans.sources.opening import Opener, lazy_array
from dask_dpmeans.sources.row_array import RowArray


def label_pairs(labels_true: object, labels_pred: object) -> Any:
    """Return two labelings of the same rows as columns, (n, 2) int64.

    The answer is a NumPy array if both are in this process's memory, and a Dask array otherwise.
    """
    opened = [_open(labels_true, "labels_true"), _open(labels_pred, "labels_pred")]
    n_first, n_second = (labels.shape[0] for labels in opened)
    if n_first != n_second:
        counts = f"{n_first:,} and {n_second:,}"
        raise InputError(
            f"labels_true and labels_pred must be labels of the same rows, got {counts} of them"
        )
    if all(isinstance(labels, np.ndarray) for labels in opened):
        return np.column_stack([labels[:].astype(np.int64) for labels in opened])
    columns = [lazy_array(labels).astype(np.int64)[:, np.newaxis] for labels in opened]
    second_column = columns[1].rechunk((columns[0].chunks[0], 1))
    return da.concatenate([columns[0], second_column], axis=1).rechunk({1: 2})


def _open(labels: object, name: str) -> RowArray:
    if labels is None:
        raise InputError(f"{name} is None: pass an array of integers, or its path")
    opened = Opener(name, 1).open(labels)
    if opened.dtype.kind not in "biu":
        way = f"number them, for example with np.unique({name}, return_inverse=True)[1]"
        raise InputError(f"{name} must be integers, got {opened.dtype}: {way}")
    return opened
