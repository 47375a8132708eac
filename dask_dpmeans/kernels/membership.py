"""Soft membership: the probabilities of the components of a mixture for each row.

The probability of component c is proportional to weight(c) exp(-precision / 2 * squared distance).
The label of a row is its nearest center, which need not be the most probable component where
weights differ.  Then the answer is the distribution that is nearest to these probabilities, in
Kullback-Leibler divergence, among those whose mode is the label: the label and the components above
it share their probabilities equally.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_dpmeans.kernels import distance_compiled, numba_support
from dask_dpmeans.kernels.block import (
    Block,
    BoolArray,
    Float64Array,
    IndexArray,
    IntegerArray,
    Labels,
    Rows,
    Scratch,
)
from dask_dpmeans.kernels.distance import COMPILED_TILE, Centers, squared_distances
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.membership_compiled import grouped_compiled, most_probable_compiled
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.sparse_rows import Probabilities, SparseRows, pack

CUTOFF = 24 * float(np.log(2.0))
"""Components less probable than the label by the factor exp(-CUTOFF), 2**-24, count as 0."""
PIECE_ELEMENTS = 2**20
"""Most rows times components that are worked on at once."""
BELOW = np.float32(1 - 2.0**-24)
"""A number of float32 times this is the next lower one."""
NONE = np.empty(0)
"""In place of squared distances that nobody asks for."""


@dataclass(frozen=True)
class Mixture:
    """A mixture of spherical components with one variance."""

    centers: Centers
    """(k, d), centers of the components."""
    log_weights: Float64Array
    """(k,), logarithms of the weights of the components."""
    precision: float
    """1 / variance; infinity if every row lies on its center."""
    groups: IndexArray | None = None
    """(k,), the cluster of each component; None if each component is a cluster.

    The probability of a cluster is the sum over its components."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        if self.groups is None:
            return len(self.centers)
        return int(self.groups.max()) + 1

    @property
    def parts(self) -> tuple[Float64Array, float, float, float]:
        """Arguments of compiled loops; the last is the greatest difference of scores that matters."""
        reach = math.inf
        if self.precision > 0:
            reach = (CUTOFF + float(np.ptp(self.log_weights))) / self.precision
        return self.log_weights, self.precision / 2, CUTOFF, reach


@dataclass(frozen=True)
class Candidates:
    """The clusters of each row that matter, as CSR rows; numbers ascend in a row."""

    labels: IndexArray
    """(n,), the cluster of the nearest center."""
    starts: IndexArray
    """(n + 1,), where the clusters of a row start."""
    numbers: IntegerArray
    """(m,), numbers of clusters."""
    terms: Float64Array
    """(m,), probabilities, all divided by the probability of the component of the nearest center."""

    @property
    def rows(self) -> IndexArray:
        """(m,), the row of each."""
        return np.repeat(np.arange(len(self.labels)), np.diff(self.starts))

    def grouped(self, groups: IndexArray) -> "Candidates":
        """Return the clusters that components belong to; probabilities are added in their order."""
        k, labels = int(groups.max()) + 1, groups[self.labels]
        if numba_support.AVAILABLE:
            starts, numbers = np.empty_like(self.starts), np.empty(len(self.terms), np.int32)
            terms = np.empty(len(self.terms))
            memory = np.zeros(k), np.empty(k, np.int32)
            grouped_compiled(
                self.starts, self.numbers, self.terms, groups, memory, starts, numbers, terms
            )
            return Candidates(labels, starts, numbers[: starts[-1]], terms[: starts[-1]])
        keys, places = np.unique(self.rows * k + groups[self.numbers], return_inverse=True)
        rows, found = np.divmod(keys, k)
        starts = np.searchsorted(rows, np.arange(len(labels) + 1))
        return Candidates(labels, starts, found, total(places, self.terms, len(keys)))


@dataclass(frozen=True)
class Memberships:
    """The kernel of a map: the most probable clusters of each row, and their probabilities."""

    mixture: Mixture
    top: int
    """Number of clusters for each row, at most the number of all."""

    def __call__(self, block: Block) -> tuple[Labels, Probabilities]:
        """Return clusters, (height, top) int32, and probabilities, (height, top).

        The label is first, then probabilities fall; equal ones go to the lowest number.  Clusters
        that do not matter are -1, of probability 0.
        """
        labels = np.empty((len(block.rows), self.top), np.int32)
        probabilities = np.empty(labels.shape, np.float32)
        self.fill(block, labels, probabilities)
        return labels, probabilities

    def fill(
        self,
        block: Block,
        labels: Labels,
        probabilities: Probabilities,
        squared: Float64Array = NONE,
    ) -> IndexArray:
        """Fill in what a call returns; return the components of the nearest centers, (height,).

        Fill `squared`, (height,), with squared distances to these centers, unless it is empty.
        """
        rows, mixture = block.rows, self.mixture
        nearest = np.empty(len(rows), np.intp)
        height = max(COMPILED_TILE, PIECE_ELEMENTS // len(mixture.centers))
        for start in range(0, len(rows), height):
            part = slice(start, start + height)
            found = candidates(rows[part], mixture, block.scratch, squared[part])
            nearest[part] = found.labels
            if mixture.groups is not None:
                found = found.grouped(mixture.groups)
            most_probable(found, mixture.n_clusters, labels[part], probabilities[part])
        return nearest


@dataclass(frozen=True)
class PackedMemberships:
    """The kernel of a map: `Memberships` without the clusters that do not matter."""

    memberships: Memberships

    def __call__(self, block: Block) -> tuple[Labels, Labels, Probabilities]:
        """Return numbers of clusters, (height,), then clusters and probabilities, (m,)."""
        shape = len(block.rows), self.memberships.top
        labels = block.scratch.array("top labels", shape, np.int32)
        probabilities = block.scratch.array("probabilities", shape, np.float32)
        self.memberships.fill(block, labels, probabilities)
        return pack(labels, probabilities)


@dataclass(frozen=True)
class SparseMemberships:
    """The kernel of a map: `Memberships` as CSR rows."""

    memberships: Memberships

    def __call__(self, block: Block) -> tuple[Any]:
        """Return probabilities, (height, k), as a `scipy.sparse.csr_array`."""
        rows = SparseRows.empty(len(block.rows), self.memberships.top)
        part = rows(0, PackedMemberships(self.memberships)(block))
        return (rows.join([part], self.memberships.mixture.n_clusters),)


@dataclass(frozen=True)
class Margins:
    """The kernel of a map: by how much the label is more probable than any other cluster."""

    mixture: Mixture

    def __call__(self, block: Block) -> tuple[Probabilities]:
        """Return margins, (height,), between 0 and 1."""
        _, probabilities = Memberships(self.mixture, min(2, self.mixture.n_clusters))(block)
        return (margins(probabilities),)


@dataclass(frozen=True)
class SoftPredictions:
    """The kernel of a map: what `assign.Predictions` returns, memberships and margins."""

    mixture: Mixture
    penalty: float
    top: int
    """Number of clusters for each row, at most the number of all."""
    noise: BoolArray | None = None
    """(k,), whether rows nearest to the center of a component have label -1; None: never."""
    shown: Divergence | None = None
    """What turns costs into the costs that users see; None to show them as they are."""

    def __call__(
        self, block: Block
    ) -> tuple[Labels, Float64Array, BoolArray, Labels, Probabilities, Probabilities]:
        """Return labels, costs, and whether costs exceed the penalty, (height,) each.

        Then return clusters and probabilities, (height, top), and margins, (height,).
        """
        two = min(2, self.mixture.n_clusters)
        memberships = Memberships(self.mixture, max(two, self.top))
        labels = np.empty((len(block.rows), memberships.top), np.int32)
        probabilities, squared = np.empty(labels.shape, np.float32), np.empty(len(labels))
        nearest = memberships.fill(block, labels, probabilities, squared)
        tops, shares = labels[:, : self.top], probabilities[:, : self.top]
        own = labels[:, 0]
        if self.noise is not None:
            own = np.where(self.noise[nearest], np.int32(-1), own)
        if math.isfinite(self.mixture.centers.most):
            own = np.where(squared > self.mixture.centers.most, np.int32(-1), own)
        beyond = squared > self.penalty
        if self.shown is not None:
            centers = self.mixture.centers.values
            squared = self.shown.shown_costs(block.rows, centers, nearest, squared)
        return own, squared, beyond, tops, shares, margins(probabilities)


def margins(probabilities: Probabilities) -> Probabilities:
    """Return the first probability minus the second, (n,), of (n, top); the first if there is one."""
    if probabilities.shape[1] == 1:
        return probabilities[:, 0]
    return probabilities[:, 0] - probabilities[:, 1]


def candidates(
    rows: Rows, mixture: Mixture, scratch: Scratch, squared: Float64Array = NONE
) -> Candidates:
    """Return the components that matter for rows, (n, d).

    Fill `squared`, (n,), with squared distances to the nearest centers, unless it is empty.
    """
    if numba_support.AVAILABLE:
        return _candidates_compiled(rows, mixture, scratch, squared)
    n, k = len(rows), len(mixture.centers)
    distances = np.empty((n, k))
    for center in range(k):
        at = np.full(n, center)
        distances[:, center] = squared_distances(rows, mixture.centers.values, at, scratch)
    labels, least = distances.argmin(axis=1), distances.min(axis=1, keepdims=True)
    if squared.size:
        squared[:] = least[:, 0]
    gaps = distances - least
    with np.errstate(invalid="ignore"):  # 0 times infinity
        falls = np.where(gaps > 0, mixture.precision / 2 * gaps, 0.0)
    rises = mixture.log_weights - mixture.log_weights[labels][:, np.newaxis]
    exponents = rises - falls
    row, numbers = np.nonzero(exponents >= -CUTOFF)
    starts = np.searchsorted(row, np.arange(n + 1))
    return Candidates(labels, starts, numbers, np.exp(exponents[row, numbers]))


def _candidates_compiled(
    rows: Rows, mixture: Mixture, scratch: Scratch, squared: Float64Array
) -> Candidates:
    """Return the components that may have a share in each row, by compiled loops; fill `squared`, (n,)."""
    n, d = rows.shape
    k, ranking = len(mixture.centers), mixture.centers.single
    height, dtype = min(ranking.tile, COMPILED_TILE), ranking.matrix.dtype
    left = scratch.array("left", (height, d + 1), dtype)
    memory = left, left.reshape(-1).view(np.int32), scratch.array("product", (k * height,), dtype)
    lists = scratch.array("candidates", (height, k), np.int32)
    labels, starts = np.empty(n, np.intp), np.empty(n + 1, np.intp)
    numbers = scratch.array("numbers", (n * k,), np.int32)
    exponents = scratch.array("exponents", (n * k,), np.float64)
    distance_compiled.candidates_compiled(
        rows,
        mixture.centers.values,
        ranking.parts,
        memory,
        lists,
        mixture.parts,
        labels,
        starts,
        numbers,
        exponents,
        squared,
    )
    found = exponents[: starts[-1]]
    return Candidates(labels, starts, numbers[: starts[-1]], np.exp(found, out=found))


def most_probable(found: Candidates, k: int, labels: Labels, probabilities: Probabilities) -> None:
    """Fill in the most probable of k clusters of each row, and their probabilities, (n, top)."""
    if numba_support.AVAILABLE:
        most_probable_compiled(
            found.labels, found.starts, found.numbers, found.terms, labels, probabilities
        )
        return
    n, rows = len(found.labels), np.arange(len(found.labels))
    terms = np.zeros((n, k))
    terms[found.rows, found.numbers] = found.terms
    totals = terms.cumsum(axis=1)[:, -1:]
    own = terms[rows, found.labels]
    limits, changed = own, np.full(n, True)
    while changed.any():
        above = np.where(terms > limits[:, np.newaxis], terms, 0.0)
        sums = np.column_stack([own, above]).cumsum(axis=1)[:, -1]
        means = sums / (1 + np.count_nonzero(above, axis=1))
        changed = means > limits
        limits = np.where(changed, means, limits)
    order = np.where(found.labels[:, np.newaxis] == np.arange(k), np.inf, terms)
    with np.errstate(over="ignore"):
        ranks = (-order).astype(np.float32)
    tops = ranks.argsort(axis=1, kind="stable")[:, : labels.shape[1]]
    shares = np.minimum(terms[rows[:, np.newaxis], tops], limits[:, np.newaxis]) / totals
    shares[:, 0] = limits / totals[:, 0]
    values = shares.astype(np.float32)
    equal = (values >= values[:, :1]) & (tops < tops[:, :1])
    values = np.where(equal, values[:, :1] * BELOW, values)
    probabilities[...] = np.minimum.accumulate(values, axis=1)
    labels[...] = np.where(shares > 0, tops, -1)
