"""The serial opening rule in the space of a kernel function."""

import numpy as np

from dask_dpmeans.kernels.births import Proposals, objects
from dask_dpmeans.kernels.block import BoolArray, Float64Array
from dask_dpmeans.kernels.kernel_centers import scores_of_openers
from dask_dpmeans.kernels.kernel_functions import GRAM_ROWS, Gram


def keep_openers(
    gram: Gram, norms: Float64Array, proposals: Proposals, penalty: float
) -> Proposals:
    """Return the proposals that open clusters if the rule takes them in order.

    There are no centers before.  `norms`, (n,), are the similarities of all fitted rows with
    themselves, here and below.
    """
    kept: list[int] = []
    left = np.arange(len(proposals))
    while left.size:
        first, left = left[:1], left[1:]
        kept.extend(first.tolist())
        left = left[_object(gram, norms, proposals.take(left), proposals.take(first), penalty)]
    return proposals.take(np.array(kept, np.intp))


def merge_openers(
    gram: Gram, norms: Float64Array, left: Proposals, right: Proposals, penalty: float
) -> Proposals:
    """Merge two runs: all of `left`, and the rows of `right` that object to it.

    `norms` are (n,).
    """
    if not (len(left) and len(right)):
        return left.then(right)
    return left.then(right.take(_object(gram, norms, right, left, penalty)))


def _object(
    gram: Gram, norms: Float64Array, proposals: Proposals, centers: Proposals, penalty: float
) -> BoolArray:
    """Return whether each proposal objects to all centers, which are opened rows."""
    least = np.empty(len(proposals))
    for start in range(0, len(proposals), GRAM_ROWS):
        part = slice(start, start + GRAM_ROWS)
        rows, numbers = proposals.rows[part], centers.numbers
        scores = scores_of_openers(gram, rows, numbers, norms[numbers])
        least[part] = scores.min(axis=0)
    return objects(norms[proposals.numbers] + least, proposals.weights, penalty)
