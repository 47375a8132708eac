"""Clusters that are groups of centers: labels and distances of rows."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers, nearest


@dataclass(frozen=True)
class NearestGroups:
    """The kernel of a map: the group of the nearest center of each row."""

    centers: Centers
    """(k, d)."""
    groups: Int64Array
    """(k,), -1 for centers whose rows are noise."""

    def __call__(self, block: Block) -> tuple[npt.NDArray[np.int32]]:
        """Return groups, (height,) int32."""
        found = self.groups[nearest(block.rows, self.centers, block.scratch)]
        return (found.astype(np.int32),)


@dataclass(frozen=True)
class GroupedPredictions:
    """The kernel of a map: group, cost at the nearest center, and whether the penalty is less."""

    centers: Centers
    """(k, d)."""
    groups: Int64Array
    """(k,), -1 for centers whose rows are noise."""
    penalty: float

    def __call__(self, block: Block) -> tuple[npt.NDArray[np.int32], Float64Array, BoolArray]:
        """Return groups, int32, costs, and whether costs exceed the penalty, (height,) each."""
        labels, squared = assign(block, self.centers)
        return self.groups[labels].astype(np.int32), squared, squared > self.penalty


@dataclass(frozen=True)
class GroupDistances:
    """The kernel of a map: the distance of each row to the nearest center of each group."""

    centers: Float64Array
    """(k, d)."""
    groups: Int64Array
    """(k,), none empty."""

    def __call__(self, block: Block) -> tuple[Float64Array]:
        """Return Euclidean distances, (height, groups)."""
        order = np.argsort(self.groups, kind="stable")
        starts = np.flatnonzero(np.diff(self.groups[order], prepend=-1))
        distances = cdist(block.rows, self.centers[order])
        return (np.minimum.reduceat(distances, starts, axis=1),)
