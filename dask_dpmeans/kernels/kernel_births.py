"""The serial opening rule in the space of a kernel function."""

import numpy as np

from dask_dpmeans.kernels.births import Proposals, objects, open_one_by_one
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.kernel_centers import scores_of_openers
from dask_dpmeans.kernels.kernel_functions import GRAM_ROWS, Gram


def keep_kernel_openers(
    gram: Gram, norms: Float64Array, proposals: Proposals, penalty: float
) -> Proposals:
    """Return the proposals that open clusters if the rule takes them in order.

    There are no centers before.  `norms`, (n,), are the similarities of all fitted rows with
    themselves, here and below.
    """
    return open_one_by_one(
        proposals, lambda others, opener: _keep_objecting(gram, norms, others, opener, penalty)
    )


def merge_kernel_openers(
    gram: Gram, norms: Float64Array, left: Proposals, right: Proposals, penalty: float
) -> Proposals:
    """Merge two runs: all of `left`, and the rows of `right` that object to it.

    `norms` are (n,).
    """
    if not (len(left) and len(right)):
        return left.then(right)
    return left.then(_keep_objecting(gram, norms, right, left, penalty))


def _keep_objecting(
    gram: Gram, norms: Float64Array, proposals: Proposals, centers: Proposals, penalty: float
) -> Proposals:
    """Return the proposals that object to all centers, which are opened rows."""
    least = np.empty(len(proposals))
    for start in range(0, len(proposals), GRAM_ROWS):
        part = slice(start, start + GRAM_ROWS)
        rows, numbers = proposals.rows[part], centers.numbers
        scores = scores_of_openers(gram, rows, numbers, norms[numbers])
        least[part] = scores.min(axis=0)
    squared = norms[proposals.numbers] + least
    return proposals.take(objects(squared, proposals.weights, penalty))
