"""The penalty at which fits give about a wanted number of clusters."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dask_dpmeans.engine.plan import Source
from dask_dpmeans.methods.dpmeans.farthest_first import traverse
from dask_dpmeans.methods.dpmeans.path import (
    FitJob,
    Fitting,
    Prices,
    Radii,
    Solution,
    best,
    envelope,
    exchange,
    fit_figures,
    hull,
)

STRIDE = 4.0
"""Factor from one price to the next until the wanted number lies between two."""
LEAST_SHARE = 2.0**-60
"""Least price, as a share of the squared error about the mean."""
LEAST_GAIN = 1e-9
"""Least gain of other clusters between two numbers, as a share of the objective."""
CLOSEST = 1.001
"""Least ratio of two penalties that are tried as radii."""


@dataclass(frozen=True)
class Aimed:
    """A penalty for a number of clusters, and what else was tried."""

    penalty: float
    solution: Solution
    """Clusters of the fit at that penalty."""
    tried: tuple[tuple[float, int], ...]
    """Penalties, rising, and the clusters of each."""


@dataclass(frozen=True)
class PriceFor(FitJob[Source, Aimed]):
    """Bisection between numbers of clusters, as a job.

    Between two neighbors on the hull of what is known a search goes on at the one penalty at which
    both cost the same: whatever lies below their edge is found there, and where nothing is no price
    gives a number between them.
    """

    fits: Prices
    wanted: int

    def each(self, rows: Source) -> Fitting[Aimed]:
        """Return the middle of the interval of the number nearest to the wanted one."""
        found, tried = yield from self._bracket(rows)
        certain: set[tuple[int, int]] = set()
        while edges := self._edges(found, certain):
            for fewer, more in edges:
                cut = exchange(fewer, more)
                tried.append(cut)
                new = []
                for start in (fewer, more):
                    new.append(self.fits.at(rows, cut, start))
                    yield fit_figures(cut, new[-1])
                if best(new, cut).objective(cut) < (1 - LEAST_GAIN) * fewer.objective(cut):
                    found += new
                else:
                    certain.add((fewer.k, more.k))
        near = min(hull(found), key=lambda each: (abs(each.k - self.wanted), each.k))
        _, low, high = next(each for each in envelope(found) if each.n_clusters == near.k)
        low = low or high / 2
        if not math.isfinite(high):
            high = 2 * low
        penalty = math.sqrt(low) * math.sqrt(high)
        return Aimed(penalty, near, tuple((each, best(found, each).k) for each in sorted(tried)))

    def _bracket(self, rows: Source) -> Fitting[tuple[list[Solution], list[float]]]:
        """Return solutions on either side of the wanted number, if possible, and the penalties."""
        total = self.fits.cost_at_mean(rows)
        found, tried = [self.fits.at(rows, total, None)], [total]
        yield fit_figures(total, found[-1])
        while True:
            if min(each.k for each in found) > self.wanted:
                tried.append(STRIDE * max(tried))
            elif max(each.k for each in found) <= self.wanted and min(tried) > LEAST_SHARE * total:
                tried.append(min(tried) / STRIDE)
            else:
                return found, tried
            found.append(self.fits.at(rows, tried[-1], best(found, tried[-1])))
            yield fit_figures(tried[-1], found[-1])

    def _edges(
        self, found: list[Solution], certain: set[tuple[int, int]]
    ) -> list[tuple[Solution, Solution]]:
        """Return the edges of the hull that contain the wanted number and are not certain."""
        edges = pairwise(hull(found))
        around = [pair for pair in edges if pair[0].k <= self.wanted <= pair[1].k]
        return [pair for pair in around if (pair[0].k, pair[1].k) not in certain]


@dataclass(frozen=True)
class RadiusFor(FitJob[Source, Aimed]):
    """Bisection of the logarithm of the penalty, as a job, from a farthest-first traversal."""

    fits: Radii
    wanted: int
    first: tuple[float, ...]
    """The mean of all rows, (d,)."""

    def each(self, rows: Source) -> Fitting[Aimed]:
        """Return the highest penalty with the number of clusters nearest to the wanted one."""
        divergence = self.fits.method.divergence
        highest = divergence.farthest
        first = np.array([self.first])
        traversal = traverse(rows, first, self.wanted, divergence.general)
        penalty = min(highest, float(traversal.squared[-1]))
        tried: dict[float, Solution] = {}
        low, high = 0.0, math.inf
        while high > CLOSEST * low:
            tried[penalty] = self.fits.at(rows, penalty)
            yield fit_figures(penalty, tried[penalty])
            k = tried[penalty].k
            if k == self.wanted:
                break
            if k > self.wanted:
                low = penalty
            else:
                high = penalty
            if high == math.inf:
                penalty = min(highest, 2 * penalty)
            elif low:
                penalty = math.sqrt(low) * math.sqrt(high)
            else:
                penalty /= 2
        nearest = min(tried, key=lambda each: (abs(tried[each].k - self.wanted), -each))
        numbers = tuple((each, tried[each].k) for each in sorted(tried))
        return Aimed(nearest, tried[nearest], numbers)
