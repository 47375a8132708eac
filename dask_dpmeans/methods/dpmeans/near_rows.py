"""Many small clusters, of which a summary has too few rows: a look at the nearest rows of some rows.

In rows of dimension D the m-th nearest row is 4**(1 / D) times nearer than the 4 m-th.  If rows lie in
separate clusters of about m rows, it is far nearer, and only there: at smaller and at greater numbers
the distances grow slowly.  So a sample of all rows says whether there are such clusters, and where
their rows end.  Algorithm 1 with this radius finds them, and some that lie together can choose a
penalty as if they were all rows.
"""

from dataclasses import dataclass, replace

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import BoolArray, Float64Array
from dask_dpmeans.kernels.distance import Centers, nearest
from dask_dpmeans.kernels.halves import squared_norms
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.methods.dpmeans.coreset import Uniform
from dask_dpmeans.methods.dpmeans.path import Radii
from dask_dpmeans.methods.dpmeans.starts import Restart
from dask_dpmeans.methods.dpmeans.summary import ChoiceParameters, summary_rows

SAMPLE_ROWS, SAMPLE_NUMBERS = 2**17, 2**21
"""Most rows of the sample, and most numbers in them."""
LARGER = 2
"""The sample has at least this many times the rows of a summary, or there is no look."""
PROBES, FIRST_PROBES = 64, 16
"""Rows whose nearest rows are looked at, and how many of them are first."""
RANKS = np.unique(np.rint(2.0 ** np.arange(1, 12.01, 0.5)).astype(np.int64))
"""Numbers of nearest rows at which distances are compared: 2 to 4,096, by factors of the root of 2."""
WINDOW = 4
"""Ranks apart of two numbers of which one is four times the other."""
JUMP, MOST, MANY = 1.6, 0.5, 0.25
"""The logarithm of a distance jumps if it grows so many times as fast as before and after.  Rows are in
small clusters if it jumps for more than the second share of the probes; the others are not looked
at unless it does for the third share of the first."""
FLAT = 1e-9
"""Growth of the logarithm of a distance up to which it does not grow: rows of categories and of integers
have many equal distances, and squares of small differences underflow."""
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class SmallClusters:
    """Separate clusters of few rows each, and a part of the rows that has all rows of some."""

    centers: Float64Array
    """(k, d), of all clusters."""
    radius: float
    """Rows of one cluster are nearer than this, and rows of others are not."""
    part: BoolArray
    """(n,), rows of some clusters that lie together, about as many as a summary has."""


def larger_sample(source: Source, seed: int) -> tuple[InMemoryRows | None, int]:
    """Return rows drawn with one probability, None if they are too few for a look, and the passes."""
    n, d = source.plan.n_rows, len(source.summary.sums)
    size = min(SAMPLE_ROWS, SAMPLE_NUMBERS // d)
    if min(n, size) < LARGER * max(summary_rows(n, d), int(RANKS[-1])):
        return None, 0
    # weights that one row stands for are never whole numbers, as if rows were counted
    drawn = source.fold(Uniform(min(1.0, size / (n + 0.5)), seed), name="sample")
    return (drawn.in_memory(None) if len(drawn.rows) > LARGER * RANKS[-1] else None), 1


@dataclass(frozen=True)
class SmallClustersJob:
    """A look for small clusters in a sample of the rows, as a job."""

    parameters: ChoiceParameters
    part_rows: int
    """Most rows of a part."""

    def __call__(self, rows: InMemoryRows) -> SmallClusters | None:
        """Return the clusters; None if most rows are not in small clusters, or the first has too many."""
        values = self.parameters.summary(rows).rows
        found = self._radius(values)
        if found is None:
            return None
        radius, first = found
        cells = Radii(batch.Method(penalty=radius**2), ()).at(
            InMemoryRows(rows.rows, None), radius**2
        )
        labels = nearest(rows.rows, Centers(cells.centers))
        order = np.argsort(squared_norms(cells.centers - first), kind="stable")
        sizes = np.bincount(labels, minlength=len(order))[order]
        count = int(np.searchsorted(sizes.cumsum(), self.part_rows, side="right"))
        if not count:
            return None
        some = np.zeros(len(order), np.bool_)
        some[order[:count]] = True
        return SmallClusters(cells.centers, radius, some[labels])

    def _radius(self, values: Float64Array) -> tuple[float, Float64Array] | None:
        """Return where clusters end, and a row, (d,), of one, given different rows, (n, d)."""
        if len(values) <= LARGER * RANKS[-1]:
            return None
        random = stream(self.parameters.seed, Stream.NEAR_ROWS, 0)
        probes = random.permutation(len(values))[:PROBES]
        columns = np.ascontiguousarray(values.T)
        jumps = [_jump(columns, row) for row in probes[:FIRST_PROBES].tolist()]
        if np.mean([size >= JUMP for size, _ in jumps]) < MANY:
            return None
        jumps += [_jump(columns, row) for row in probes[FIRST_PROBES:].tolist()]
        places = [place for place, (size, _) in enumerate(jumps) if size >= JUMP]
        if len(places) <= MOST * len(jumps):
            return None
        radius = float(np.median([jumps[place][1] for place in places]))
        return radius, values[probes[places[0]]]


def _jump(columns: Float64Array, row: int) -> tuple[float, float]:
    """Return the greatest jump of the distances of a row to others, (d, n), and the radius there."""
    squared = np.zeros(columns.shape[1])
    for column in columns:
        squared += np.square(column - column[row])
    near = np.sort(np.partition(squared, RANKS[-1])[: RANKS[-1] + 1])
    logarithms = np.log(np.maximum(near, TINY)) / 2
    growth = logarithms[RANKS[WINDOW:]] - logarithms[RANKS[:-WINDOW]]
    around = np.maximum(growth[: -2 * WINDOW], growth[2 * WINDOW :])
    jumps = growth[WINDOW:-WINDOW] / np.maximum(around, FLAT)
    best = int(jumps.argmax())
    low, high = RANKS[best + WINDOW], RANKS[best + 2 * WINDOW]
    last = low + int(np.diff(logarithms[low : high + 1]).argmax())
    return float(jumps[best]), float(np.exp((logarithms[last] + logarithms[last + 1]) / 2))


@dataclass(frozen=True)
class SmallClustersFit:
    """A search of moves and means alone at a price, from small clusters, as a job."""

    parameters: ChoiceParameters
    penalty: float
    clusters: SmallClusters
    half: int | None = None
    """0 or 1 for a half of the rows, which starts from clusters of its own."""

    def __call__(self, rows: InMemoryRows) -> Float64Array:
        """Return the centers, (k, d)."""
        centers, price = self.clusters.centers, self.clusters.radius**2
        if self.half is not None:
            rows = self._half(rows)
            whole = replace(rows, weights=None)
            centers = Radii(batch.Method(penalty=price), ()).at(whole, price).centers
        method = search.Method(penalty=self.penalty, centers=centers).without_limits()
        found = Restart(method, tries=0)(rows).centers
        if self.parameters.spherical:
            norms = np.sqrt(squared_norms(found))[:, np.newaxis]
            found = found * (self.parameters.length / np.maximum(norms, TINY))
        return found

    def _half(self, rows: InMemoryRows) -> InMemoryRows:
        """Return a half of the rows, with twice their weights."""
        n = len(rows.rows)
        order = stream(self.parameters.seed, Stream.NEAR_ROWS, 1).permutation(n)
        some = np.sort(order[: n // 2] if self.half else order[n // 2 :])
        weights = np.ones(n) if rows.weights is None else rows.weights
        return InMemoryRows(np.ascontiguousarray(rows.rows[some]), 2 * weights[some])
