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
import numpy.typing as npt
from scipy.sparse import csr_array

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
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import compile_loop

CUTOFF = 24 * float(np.log(2.0))
"""Components less probable than the label by the factor exp(-CUTOFF), 2**-24, count as 0."""
PIECE_ELEMENTS = 2**20
"""Most rows times components that are worked on at once."""
BELOW = np.float32(1 - 2.0**-24)
"""A number of float32 times this is the next lower one."""
Probabilities = npt.NDArray[np.float32]


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
            _grouped_compiled(
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
        return self.with_nearest(block)[1:]

    def with_nearest(self, block: Block) -> tuple[IndexArray, Labels, Probabilities]:
        """Return the components of the nearest centers, (height,), and what a call returns."""
        rows, mixture = block.rows, self.mixture
        nearest = np.empty(len(rows), np.intp)
        labels = np.empty((len(rows), self.top), np.int32)
        probabilities = np.empty((len(rows), self.top), np.float32)
        height = max(COMPILED_TILE, PIECE_ELEMENTS // len(mixture.centers))
        for start in range(0, len(rows), height):
            part = slice(start, start + height)
            found = candidates(rows[part], mixture, block.scratch)
            nearest[part] = found.labels
            if mixture.groups is not None:
                found = found.grouped(mixture.groups)
            most_probable(found, mixture.n_clusters, labels[part], probabilities[part])
        return nearest, labels, probabilities


@dataclass(frozen=True)
class SparseMemberships:
    """The kernel of a map: `Memberships` as CSR rows."""

    memberships: Memberships

    def __call__(self, block: Block) -> tuple[Any]:
        """Return probabilities, (height, k), as a `scipy.sparse.csr_array`."""
        return (ToSparse(self.memberships.mixture.n_clusters)(0, self.memberships(block)),)


@dataclass(frozen=True)
class ToSparse:
    """The sink of a map, for the answers of `Memberships`."""

    n_clusters: int

    def __call__(self, start: int, answers: tuple[np.ndarray[Any, Any], ...]) -> Any:
        """Return clusters and probabilities, (m, top), as a `scipy.sparse.csr_array`, (m, k)."""
        labels, probabilities = answers
        n, filled = len(labels), labels >= 0
        used, counts = np.flatnonzero(filled), np.zeros(n, np.int32)
        for column in filled.T:  # np.count_nonzero of each row took 8 times as long
            counts += column
        starts = np.zeros(n + 1, np.int32)
        np.cumsum(counts, out=starts[1:])
        numbers = labels.reshape(-1).take(used)
        rows = probabilities.reshape(-1).take(used), numbers, starts
        return csr_array(rows, shape=(n, self.n_clusters))


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

    def __call__(
        self, block: Block
    ) -> tuple[Labels, Float64Array, BoolArray, Labels, Probabilities, Probabilities]:
        """Return labels, costs, and whether costs exceed the penalty, (height,) each.

        Then return clusters and probabilities, (height, top), and margins, (height,).
        """
        two = min(2, self.mixture.n_clusters)
        memberships = Memberships(self.mixture, max(two, self.top))
        nearest, labels, probabilities = memberships.with_nearest(block)
        squared = squared_distances(block.rows, self.mixture.centers.values, nearest, block.scratch)
        tops, shares = labels[:, : self.top], probabilities[:, : self.top]
        own = labels[:, 0]
        if self.noise is not None:
            own = np.where(self.noise[nearest], np.int32(-1), own)
        return own, squared, squared > self.penalty, tops, shares, margins(probabilities)


def margins(probabilities: Probabilities) -> Probabilities:
    """Return the first probability minus the second, (n,), of (n, top); the first if there is one."""
    if probabilities.shape[1] == 1:
        return probabilities[:, 0]
    return probabilities[:, 0] - probabilities[:, 1]


def candidates(rows: Rows, mixture: Mixture, scratch: Scratch) -> Candidates:
    """Return the components that matter for rows, (n, d)."""
    if numba_support.AVAILABLE:
        return _candidates_compiled(rows, mixture, scratch)
    n, k = len(rows), len(mixture.centers)
    squared = np.empty((n, k))
    for center in range(k):
        at = np.full(n, center)
        squared[:, center] = squared_distances(rows, mixture.centers.values, at, scratch)
    labels = squared.argmin(axis=1)
    gaps = squared - squared.min(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # 0 times infinity
        falls = np.where(gaps > 0, mixture.precision / 2 * gaps, 0.0)
    rises = mixture.log_weights - mixture.log_weights[labels][:, np.newaxis]
    exponents = rises - falls
    row, numbers = np.nonzero(exponents >= -CUTOFF)
    starts = np.searchsorted(row, np.arange(n + 1))
    return Candidates(labels, starts, numbers, np.exp(exponents[row, numbers]))


def _candidates_compiled(rows: Rows, mixture: Mixture, scratch: Scratch) -> Candidates:
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
    )
    found = exponents[: starts[-1]]
    return Candidates(labels, starts, numbers[: starts[-1]], np.exp(found, out=found))


def most_probable(found: Candidates, k: int, labels: Labels, probabilities: Probabilities) -> None:
    """Fill in the most probable of k clusters of each row, and their probabilities, (n, top)."""
    if numba_support.AVAILABLE:
        _most_probable_compiled(
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
    tops = (-order).argsort(axis=1, kind="stable")[:, : labels.shape[1]]
    shares = np.minimum(terms[rows[:, np.newaxis], tops], limits[:, np.newaxis]) / totals
    shares[:, 0] = limits / totals[:, 0]
    values = shares.astype(np.float32)
    equal = (values >= values[:, :1]) & (tops < tops[:, :1])
    values = np.where(equal, values[:, :1] * BELOW, values)
    probabilities[...] = np.minimum.accumulate(values, axis=1)
    labels[...] = np.where(shares > 0, tops, -1)


@compile_loop
def _grouped_compiled(
    starts: IndexArray,
    numbers: IntegerArray,
    terms: Float64Array,
    groups: IndexArray,
    memory: tuple[Float64Array, Labels],
    new_starts: IndexArray,
    new_numbers: Labels,
    new_terms: Float64Array,
) -> None:
    """Fill in the clusters, (m,), of CSR rows of components; see `Candidates.grouped`.

    `groups` are (k,); `memory` is of clusters: zeros, and space for numbers.
    """
    sums, seen = memory
    filled = 0
    for i in range(len(starts) - 1):
        new_starts[i], used = filled, 0
        for j in range(starts[i], starts[i + 1]):
            group = groups[numbers[j]]
            if sums[group] == 0:
                place = used
                while place > 0 and seen[place - 1] > group:
                    seen[place] = seen[place - 1]
                    place -= 1
                seen[place] = group
                used += 1
            sums[group] += terms[j]
        for place in range(used):
            new_numbers[filled], new_terms[filled] = seen[place], sums[seen[place]]
            sums[seen[place]] = 0
            filled += 1
    new_starts[-1] = filled


@compile_loop
def _limit(terms: Float64Array, start: int, stop: int, own: float) -> float:
    """Return the average of `own` and the terms of a row above that average."""
    limit, mean = own, np.inf
    while True:
        total, count = own, 1
        for j in range(start, stop):
            if terms[j] > limit:
                total += terms[j]
                count += 1
        mean = total / count
        if not mean > limit:
            return limit
        limit = mean


@compile_loop
def _put_shares(
    values: Float64Array,
    tops: Labels,
    used: int,
    total: float,
    labels: Labels,
    probabilities: Probabilities,
) -> None:
    """Fill in the labels and the probabilities of a row, (top,), from its greatest terms, (top,)."""
    first, below = np.float32(values[0] / total), np.float32(1 - 2.0**-24)
    labels[0], probabilities[0] = tops[0], first
    for place in range(1, used):
        value, before = values[place], probabilities[place - 1]
        share = np.float32((value if value < values[0] else values[0]) / total)
        if share >= first and tops[place] < tops[0]:
            share = first * below
        labels[place], probabilities[place] = tops[place], share if share < before else before
    for place in range(used, len(labels)):
        labels[place], probabilities[place] = -1, 0


@compile_loop
def _most_probable_compiled(
    own_labels: IndexArray,
    starts: IndexArray,
    numbers: IntegerArray,
    terms: Float64Array,
    labels: Labels,
    probabilities: Probabilities,
) -> None:
    """Fill in labels and probabilities, (n, top), of CSR rows of terms; see `most_probable`."""
    n, top = labels.shape
    values, tops = np.empty(top), np.empty(top, np.int32)
    for i in range(n):
        label, start, stop = own_labels[i], starts[i], starts[i + 1]
        all_terms, own, most, used = 0.0, 0.0, 0.0, 1
        for j in range(start, stop):
            term, number = terms[j], numbers[j]
            all_terms += term
            if number == label:
                own = term
            else:
                most = term if term > most else most
                place = used
                if used < top:
                    used += 1
                elif top > 1 and term > values[top - 1]:
                    place = top - 1
                else:
                    continue
                while place > 1 and values[place - 1] < term:
                    values[place], tops[place] = values[place - 1], tops[place - 1]
                    place -= 1
                values[place], tops[place] = term, number
        limit = own
        if most > own:
            limit = _limit(terms, start, stop, own)
        values[0], tops[0] = limit, label
        _put_shares(values, tops, used, all_terms, labels[i], probabilities[i])
