"""Two labelings of the same rows, side by side."""

from typing import Any

import dask.array as da
import numpy as np

from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.opening import lazy_array, opened_input


def label_pairs(first: Any, second: Any, names: tuple[str, str]) -> Any:
    """(n, 2) int64, the labels that two labelings give to each row; lazy unless both are in this process's memory."""
    opened = [_opened(labels, name) for labels, name in zip((first, second), names, strict=True)]
    if opened[0].shape != opened[1].shape:
        counts = f"{opened[0].shape[0]:,} and {opened[1].shape[0]:,}"
        raise InputError(f"{names[0]} and {names[1]} must be labels of the same rows, got {counts} of them")
    if all(isinstance(labels, np.ndarray) for labels in opened):
        return np.column_stack([labels.astype(np.int64) for labels in opened])
    columns = [lazy_array(labels).astype(np.int64)[:, np.newaxis] for labels in opened]
    return da.concatenate([columns[0], columns[1].rechunk((columns[0].chunks[0], 1))], axis=1).rechunk({1: 2})


def _opened(labels: Any, name: str) -> Any:
    if labels is None:
        raise InputError(f"{name} is None: pass an array of integers, or the path of one")
    opened = opened_input(labels, name, 1, False)
    if opened.dtype.kind not in "biu":
        raise InputError(
            f"{name} must be integers, got {opened.dtype}: number them, as np.unique({name}, return_inverse=True) does"
        )
    return opened
