"""Costs of rows if some centers of two searches are kept: the data of a fusion.

Each row has its nearest center of the first search and its nearest of the second.  If both are kept,
it costs the lower of two costs; if one is, the cost there; if neither is, about the lower cost at
its second nearest centers, but at least the higher of the two, which a minimum cut needs.  Outliers
count at their nearest centers, too.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dask_dpmeans.kernels.answers import SummedAnswers
from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers, costs
from dask_dpmeans.kernels.keyed_sums import KeyedSums, rank_numbers
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.move_statistics import two_nearest

PairSums = KeyedSums[Float64Array]
"""By l * first + second, of k and l centers: sums, (m, 5), over the rows of `WEIGHT` to `NEITHER`."""
WEIGHT, FIRST, SECOND, BOTH, NEITHER = range(5)
"""Columns of the sums: the weight, and what the rows cost if these centers are kept."""


@dataclass(frozen=True)
class PairCosts(SummedAnswers):
    """The reduction to `PairSums`."""

    takes_csr: ClassVar[bool] = True
    first: Centers
    """(k, d)."""
    second: Centers
    """(l, d)."""

    def chunk(self, block: Block) -> PairSums:
        """Return the sums of one block."""
        one, near, far = _two_costs(block, self.first)
        two, other_near, other_far = _two_costs(block, self.second)
        dearer = np.maximum(near, other_near)
        neither = np.maximum(dearer, np.minimum(far, other_far))
        weights = block.row_weights()
        keys, ranks = rank_numbers(one.astype(np.int64) * len(self.second) + two)
        each = (np.ones(len(one)), near, other_near, np.minimum(near, other_near), neither)
        sums = [total(ranks, weights * values, len(keys)) for values in each]
        return PairSums(keys, np.stack(sums, axis=1))


def _two_costs(block: Block, centers: Centers) -> tuple[IndexArray, Float64Array, Float64Array]:
    """Return the nearest centers, (height,), and what rows cost there and at the second nearest ones."""
    labels, seconds = two_nearest(block, centers)
    found = (costs(block.rows, centers, each, block.scratch) for each in (labels, seconds))
    near, far = (np.minimum(each, centers.most) for each in found)
    return labels, near, far
