"""Clusterings of rows in memory with 1, 2, ... clusters, each found from its neighbors.

A step up halves the cluster that gains the most, a step down merges the pair that costs the least,
and Lloyd's steps over all rows follow.  For each number of clusters the lowest error is kept, and a
step starts from there again only after it has been lowered.  There are no random numbers.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.center_clusters import Clusters, CompiledClusters, Step, path_work


@dataclass(frozen=True)
class CenterPath:
    """The best clusterings found with 1, 2, ..., K clusters, or some of these numbers, none of them empty."""

    inertias: Float64Array
    """(m,), squared errors of the rows at their nearest centers; each is lower than the one before.

    The error of a cluster is summed in row order, and `math.fsum` adds the clusters."""
    centers: tuple[Float64Array, ...]
    """m arrays (k, d): averages of their rows, unless the last of Lloyd's steps moved rows."""

    @property
    def largest(self) -> int:
        """The greatest number of clusters."""
        return len(self.centers[-1])

    def best(self, penalty: float) -> Float64Array:
        """Return the centers, (k, d), that cost least at a penalty, the fewest among equals."""
        costs = self.inertias + penalty * np.array([len(each) for each in self.centers])
        return self.centers[int(costs.argmin())]


def center_path(
    rows: Float64Array,
    weights: Float64Array,
    most: int,
    spherical: bool = False,
    turns: int = 6,
    stride: int = 0,
) -> CenterPath:
    """Return clusterings from splits up, then merges down and splits up while an error falls.

    Parameters
    ----------
    rows : (n, d), C-contiguous; of unit length if `spherical`
    weights : (n,), > 0
    most : most clusters; there are fewer if fewer rows differ
    spherical : whether the center of a cluster is the direction of the sum of its rows
    turns : most ways down and up after the first way up; 0 for splits alone
    stride : if not 0, one cluster in so many is halved at once, and there are splits alone
    """
    problem = rows, weights, min(most, len(rows)), spherical
    compiled = None
    if numba_support.AVAILABLE:
        compiled = CompiledClusters(*problem, path_work(rows.shape, problem[2], turns, stride))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # as in compiled loops
        search = _Search(Clusters(*problem), compiled)
        if stride:
            search.leap_up(stride)
            return search.path()
        search.go_up()
        fell = True
        for turn in range(turns):
            before, fell = fell, search.go_up() if turn % 2 else search.go_down()
            if not (before or fell):
                break
        if len(search.path().centers) < len(search.best):  # a way down passed below what was above
            search.go_up()
    return search.path()


@dataclass
class _Best:
    """The best clustering found with some number of clusters."""

    centers: Float64Array
    """(k, d)."""
    inertia: float
    halved: list[int] = field(default_factory=list)
    """Clusters whose steps up are done."""
    unsplittable: bool = False
    """Whether no other cluster gains by a step up."""
    merged: bool = False
    """Whether a step down from here is done."""


class _Search:
    """The best clusterings so far, and the clusters that steps change."""

    def __init__(self, clusters: Clusters, compiled: CompiledClusters | None = None) -> None:
        self.clusters, self.compiled = clusters, compiled
        """The compiled ones take over once the others have worked as long as compiling takes."""
        self.best: dict[int, _Best] = {}
        self.present = 0
        """Number of clusters whose best clustering the clusters are; 0 for none."""
        self.ahead: list[Step] = []
        """Steps up that were taken already, the next one last."""
        clusters.start()
        self._keep(clusters.step(1))

    def go_up(self) -> bool:
        """Take the step up from each that is new, and return whether an error fell."""
        k, fell = 1, False
        while k in self.best and k < self.clusters.most:
            fell |= self._split(k)
            k += 1
        return fell

    def leap_up(self, stride: int) -> None:
        """Halve one in so many clusters at once, until there are no more."""
        k, after = 0, 1
        while k < after < self.clusters.most:
            k = after
            self._restore(k)
            step = self.clusters.split(k, min(max(1, k // stride), self.clusters.most - k))
            self._keep(step)
            after = step.k

    def go_down(self) -> bool:
        """Take the step down from each that is new, and return whether an error fell."""
        fell = False
        for k in range(len(self.best), 2, -1):
            if not self.best[k].merged:
                self._restore(k)
                self.best[k].merged = True
                fell |= self._keep(self.clusters.shrink(k))
        return fell

    def path(self) -> CenterPath:
        """Return the clusterings up to the first that is no better than the one before."""
        found = list[_Best]()
        for k in sorted(self.best):
            if found and not self.best[k].inertia < found[-1].inertia:
                break
            found.append(self.best[k])
        inertias = np.array([each.inertia for each in found])
        return CenterPath(inertias, tuple(each.centers for each in found))

    def _split(self, k: int) -> bool:
        """Halve clusters of the best clustering until one has led to more."""
        fell = False
        while True:
            best = self.best[k]
            new = k + 1 not in self.best
            if best.unsplittable or (best.halved and not new):
                return fell
            if not self.ahead:
                self._restore(k)
                self.clusters.gains[best.halved] = 0.0
                self.ahead = self.clusters.grow(k, several=new)[::-1]
            self.present, step = 0, self.ahead.pop()
            if step.halved < 0:
                best.unsplittable = True
            else:
                best.halved.append(step.halved)
                fell |= self._keep(step)

    def _restore(self, k: int) -> None:
        """Make the clusters the best clustering of k clusters, if they are not; compiled ones if these pay."""
        if self.present != k:
            self.clusters.centers[:k] = self.best[k].centers
            self.clusters.restore(k)
        self.present = 0
        if self.compiled is not None and self.compiled.pay(self.clusters.handled):
            self.compiled.take_over(self.clusters, k)
            self.clusters, self.compiled = self.compiled, None
        self.clusters.handled = 0

    def _keep(self, step: Step) -> bool:
        """Keep clusters unless better ones are known, and return whether the error fell."""
        k, inertia = step.k, math.fsum(step.errors.tolist())
        known = self.best.get(k)
        if known is not None and not inertia <= known.inertia:
            return False
        self.present = k
        centers = step.centers.copy()
        if known is not None and inertia == known.inertia:  # other numbers; steps done stay done
            known.centers = centers
            return False
        self.best[k] = _Best(centers, inertia)
        return True
